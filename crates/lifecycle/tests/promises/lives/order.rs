//! Checks the order of the items that a session sends, before any projection.

use std::collections::{HashMap, HashSet};

use acp_lifecycle::{OutboxItem, PermissionId};
use acp_types::{Status, ToolCallId, TurnId};
use pretty_assertions::assert_eq;

/// The state that results from the items that were sent so far, and the items that must still be
/// sent in a certain order.
#[derive(Debug, Default)]
pub(crate) struct Order {
    announced: HashSet<ToolCallId>,
    ended: HashSet<ToolCallId>,
    ran: HashSet<ToolCallId>,
    asked: HashSet<PermissionId>,
    answered: HashSet<TurnId>,
    said: String,
    heard: String,
    /// For each waiting fence, the length of the message text at the time when the fence was
    /// enqueued. Text of this length must be sent before the fence.
    fences: HashMap<Fence, usize>,
    pub(crate) handed_over: u64,
}

/// An item that must be sent after all items that were enqueued before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Fence {
    Announced(ToolCallId),
    Ran(ToolCallId),
    Ended(ToolCallId),
    Asked(PermissionId),
    Answered(TurnId),
}

impl Order {
    pub(crate) fn say(&mut self, text: &str) {
        self.said.push_str(text);
    }

    pub(crate) fn offer(&mut self, fence: Fence) {
        self.fences.insert(fence, self.said.len());
    }

    /// Records that a permission request is void. Returns whether the request was not sent yet and
    /// therefore will never be sent.
    pub(crate) fn take_back(&mut self, number: PermissionId) -> bool {
        self.fences.remove(&Fence::Asked(number)).is_some()
    }

    pub(crate) fn take(&mut self, item: &OutboxItem) {
        self.handed_over += 1;
        match item {
            OutboxItem::ToolCall(id, patch) => {
                self.take_call(id, patch.status);
                let parent = patch.meta.as_ref().and_then(|meta| meta.parent.as_deref());
                if let Some(parent) = parent.map(ToolCallId::new) {
                    assert!(self.announced.contains(&parent), "{id:?} refers to {parent:?}");
                }
            }
            OutboxItem::Terminal(id, _) => {
                let call = ToolCallId::new(id.0.clone());
                assert!(!self.ended.contains(&call), "output of {id:?} follows its call's end");
            }
            OutboxItem::Chunk(chunk) => self.heard.push_str(&chunk.text),
            OutboxItem::PermissionRequest(number) => {
                assert!(self.asked.insert(*number), "asked twice: {number}");
                self.pass(&Fence::Asked(*number));
            }
            OutboxItem::PromptResponse(turn) => {
                assert!(self.answered.insert(turn.clone()), "answered twice: {turn}");
                self.pass(&Fence::Answered(turn.clone()));
            }
            _ => {}
        }
    }

    fn take_call(&mut self, id: &ToolCallId, status: Option<Status>) {
        let turn = TurnId::from(id.0.split('/').next().unwrap_or_default());
        assert!(!self.answered.contains(&turn), "{id:?} follows the answer of its turn");
        assert!(!self.ended.contains(id), "{id:?} is changed after its end");
        if self.announced.insert(id.clone()) {
            assert_eq!(status, Some(Status::Pending), "a call begins pending");
            self.pass(&Fence::Announced(id.clone()));
        }
        match status {
            Some(Status::InProgress | Status::Paused) if self.ran.insert(id.clone()) => {
                self.pass(&Fence::Ran(id.clone()));
            }
            Some(status) if status.is_final() => {
                self.ended.insert(id.clone());
                self.pass(&Fence::Ended(id.clone()));
            }
            _ => {}
        }
    }

    fn pass(&mut self, fence: &Fence) {
        let said = self.fences.remove(fence);
        let said = said.unwrap_or_else(|| panic!("{fence:?} was not offered, or comes twice"));
        assert!(self.heard.len() >= said, "{fence:?} overtakes a message");
    }

    /// Asserts that the queue is empty: every fence was sent, and the text is complete.
    pub(crate) fn check_empty(&self) {
        assert_eq!(self.heard, self.said);
        assert!(self.fences.is_empty(), "never sent: {:?}", self.fences);
    }
}
