//! The documents of a session, and the code that combines delivered items into documents. The
//! documents are recorded so that the session can be replayed later.
//!
//! [`Session::replay_document`](crate::Session::replay_document) sends a document to a client
//! again, through the session's outbox.

use std::time::Instant;

use acp_types::{
    Content, ContentBlock, MessageChunk, Plan, SessionStatePart, Status, TerminalId,
    TerminalReport, ToolCallId, ToolCallReport,
};
use foldhash::HashMap;
use serde::{Deserialize, Serialize};

use crate::limits::OPEN_DOCUMENT_INTERVAL;
use crate::outbox::OutboxItem;

/// One complete element that a session showed, e.g. a message or a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionDocument {
    /// A prompt of the user. A connected client already shows the prompt that it sent. The prompt
    /// is therefore sent to a client only during a replay.
    Prompt(PromptDocument),
    /// A call, with the terminals that it shows.
    ToolCall(Box<CallDocument>),
    /// A message, or the part of a message between two calls.
    Message(MessageChunk),
    /// The plan.
    Plan(Plan),
    /// A part of the session's state: the title, the usage or a compaction.
    State(SessionStatePart),
}

/// A prompt of the user, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptDocument {
    /// The id of the prompt's message, which is unique in the session.
    pub message: String,
    /// The parts of the prompt.
    pub blocks: Vec<ContentBlock>,
}

impl PromptDocument {
    /// Creates a prompt.
    #[must_use]
    pub fn new(message: impl Into<String>, blocks: Vec<ContentBlock>) -> Self {
        Self { message: message.into(), blocks }
    }
}

/// A call, with the terminals that it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallDocument {
    /// The call.
    pub call: ToolCallReport,
    /// The terminals, in the order in which the call shows them.
    pub terminals: Vec<TerminalReport>,
    /// Whether the first report of the call showed no terminal. Some clients then show the
    /// terminals as text.
    #[serde(default)]
    pub is_announced_without_terminals: bool,
}

/// A document that has changed. The caller should record this version in place of the previous
/// version.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChangedDocument {
    /// The key of the document, which is unique within its prompt.
    pub subject: String,
    /// The current version of the document.
    pub document: SessionDocument,
    /// Whether the document is final, e.g. a call that ended or a message that is complete.
    pub is_final: bool,
}

/// Combines the items of one session, in the order of their delivery, into documents.
///
/// A document is returned when it begins, when its status changes and when it is final. Between
/// these events, a document is returned at most once a second, so that a stream of small changes
/// costs few records. Only open documents are kept in memory.
#[derive(Debug, Default)]
pub struct TranscriptFold {
    /// The open calls, each without its terminals.
    calls: HashMap<ToolCallId, OpenDocument<CallDocument>>,
    terminals: HashMap<TerminalId, TerminalReport>,
    message: Option<OpenDocument<MessageChunk>>,
    /// Number of messages, parts of messages and changes of compactions so far.
    message_count: u64,
}

/// A document that may still change.
#[derive(Debug)]
struct OpenDocument<T> {
    subject: String,
    value: T,
    /// The time when the document was last returned.
    returned: Instant,
    /// Whether the document has changed since it was last returned.
    is_changed: bool,
}

impl<T> OpenDocument<T> {
    fn new(subject: String, value: T, now: Instant) -> Self {
        Self { subject, value, returned: now, is_changed: false }
    }

    /// Records a change. Returns whether the document is due to be returned.
    fn mark_changed(&mut self, now: Instant) -> bool {
        self.is_changed = true;
        now.saturating_duration_since(self.returned) >= OPEN_DOCUMENT_INTERVAL
    }

    fn mark_returned(&mut self, now: Instant) {
        (self.returned, self.is_changed) = (now, false);
    }
}

impl TranscriptFold {
    /// Applies an item that is about to be delivered, and returns the documents to record.
    pub fn apply(&mut self, item: &OutboxItem, now: Instant) -> Vec<ChangedDocument> {
        match item {
            OutboxItem::ToolCall(id, patch) => self.apply_call(id, patch.clone(), now),
            OutboxItem::Terminal(id, patch) => {
                let report = self.terminals.entry(id.clone());
                let report = report.or_insert_with(|| TerminalReport::new(id.clone()));
                patch.clone().apply(report);
                self.mark_call_of_terminal_changed(id, now).into_iter().collect()
            }
            OutboxItem::Chunk(chunk) => self.apply_chunk(chunk, now),
            OutboxItem::Plan(plan) => {
                vec![changed_document("plan", SessionDocument::Plan(plan.clone()), false)]
            }
            OutboxItem::State(state) => self.apply_state(state),
            OutboxItem::PermissionRequest(_) => self.take_changed_documents(now),
            OutboxItem::PromptResponse(_) => {
                let mut documents: Vec<_> = self.end_message().into_iter().collect();
                documents.extend(self.take_changed_documents(now));
                documents
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether a document has changed since it was last returned.
    #[must_use]
    pub fn has_unreturned_changes(&self) -> bool {
        let is_message_changed = self.message.as_ref().is_some_and(|message| message.is_changed);
        is_message_changed || self.calls.values().any(|call| call.is_changed)
    }

    /// Returns every document that has changed since it was last returned.
    pub fn take_changed_documents(&mut self, now: Instant) -> Vec<ChangedDocument> {
        let changed_calls = self.calls.iter().filter(|(_, call)| call.is_changed);
        let ids: Vec<_> = changed_calls.map(|(id, _)| id.clone()).collect();
        let mut documents: Vec<_> =
            ids.iter().filter_map(|id| self.take_call_document(id, now)).collect();
        if let Some(message) = self.message.as_mut().filter(|message| message.is_changed) {
            message.mark_returned(now);
            let document = SessionDocument::Message(message.value.clone());
            documents.push(changed_document(&message.subject, document, false));
        }
        documents
    }

    fn apply_call(
        &mut self,
        id: &ToolCallId,
        patch: acp_types::ToolCallPatch,
        now: Instant,
    ) -> Vec<ChangedDocument> {
        let status = patch.status;
        let mut documents = Vec::new();
        let is_first = !self.calls.contains_key(id);
        if is_first {
            // End the message, because the client shows the call after all earlier message text.
            documents.extend(self.end_message());
            let call = ToolCallReport::new(id.clone());
            let call =
                CallDocument { call, terminals: Vec::new(), is_announced_without_terminals: true };
            self.calls.insert(id.clone(), OpenDocument::new(format!("call/{}", id.0), call, now));
        }
        let Some(call) = self.calls.get_mut(id) else { return documents };
        patch.apply(&mut call.value.call);
        if is_first {
            let is_without = shown_terminals(&call.value.call).next().is_none();
            call.value.is_announced_without_terminals = is_without;
        }
        let is_due = call.mark_changed(now);
        if status.is_some_and(Status::is_final) {
            documents.extend(self.end_call(id));
        } else if status.is_some() || is_due {
            documents.extend(self.take_call_document(id, now));
        }
        documents
    }

    fn mark_call_of_terminal_changed(
        &mut self,
        id: &TerminalId,
        now: Instant,
    ) -> Option<ChangedDocument> {
        let shows = |(_, call): &(&ToolCallId, &mut OpenDocument<CallDocument>)| {
            call.value
                .call
                .content
                .iter()
                .any(|item| matches!(item, Content::Terminal(it) if it == id))
        };
        let (call, open) = self.calls.iter_mut().find(shows)?;
        let call = call.clone();
        open.mark_changed(now).then(|| self.take_call_document(&call, now)).flatten()
    }

    fn apply_chunk(&mut self, chunk: &MessageChunk, now: Instant) -> Vec<ChangedDocument> {
        if let Some(message) = &mut self.message
            && message.value.role == chunk.role
            && message.value.message == chunk.message
        {
            message.value.text.push_str(&chunk.text);
            if !message.mark_changed(now) {
                return Vec::new();
            }
            message.mark_returned(now);
            let document = SessionDocument::Message(message.value.clone());
            return vec![changed_document(&message.subject, document, false)];
        }
        let mut documents: Vec<_> = self.end_message().into_iter().collect();
        self.message_count += 1;
        let subject = format!("message/{}/{}", chunk.message, self.message_count);
        documents.push(changed_document(&subject, SessionDocument::Message(chunk.clone()), false));
        self.message = Some(OpenDocument::new(subject, chunk.clone(), now));
        documents
    }

    /// Applies a part of the session's state. Modes, options and commands are not recorded, because
    /// they depend on the process to which a client is connected.
    fn apply_state(&mut self, state: &SessionStatePart) -> Vec<ChangedDocument> {
        let (subject, mut documents) = match state {
            SessionStatePart::Info(_) => ("info".to_owned(), Vec::new()),
            SessionStatePart::Usage(_) => ("usage".to_owned(), Vec::new()),
            SessionStatePart::Compaction(compaction) => {
                // End the message, because clients may show each change of a compaction as a
                // message.
                let documents = self.end_message().into_iter().collect();
                self.message_count += 1;
                (format!("compaction/{}/{}", compaction.id, self.message_count), documents)
            }
            _ => return Vec::new(),
        };
        documents.push(changed_document(&subject, SessionDocument::State(state.clone()), false));
        documents
    }

    /// Ends the last message, if a message is open. Call this method before a prompt is recorded,
    /// because a message may also come between two turns.
    pub fn end_message(&mut self) -> Option<ChangedDocument> {
        let OpenDocument { subject, value, .. } = self.message.take()?;
        Some(changed_document(&subject, SessionDocument::Message(value), true))
    }

    fn end_call(&mut self, id: &ToolCallId) -> Option<ChangedDocument> {
        let OpenDocument { subject, value: mut document, .. } = self.calls.remove(id)?;
        let shown = shown_terminals(&document.call);
        document.terminals = shown.filter_map(|id| self.terminals.remove(id)).collect();
        // The call may show its terminal no longer.
        self.terminals.remove(&TerminalId::new(id.0.clone()));
        Some(changed_document(&subject, SessionDocument::ToolCall(Box::new(document)), true))
    }

    fn take_call_document(&mut self, id: &ToolCallId, now: Instant) -> Option<ChangedDocument> {
        let open = self.calls.get_mut(id)?;
        open.mark_returned(now);
        let mut document = open.value.clone();
        let shown = shown_terminals(&document.call);
        document.terminals = shown.filter_map(|id| self.terminals.get(id).cloned()).collect();
        Some(changed_document(&open.subject, SessionDocument::ToolCall(Box::new(document)), false))
    }
}

/// Returns the terminals in the content of a call.
pub(crate) fn shown_terminals(call: &ToolCallReport) -> impl Iterator<Item = &TerminalId> {
    call.content.iter().filter_map(|item| match item {
        Content::Terminal(id) => Some(id),
        _ => None,
    })
}

fn changed_document(subject: &str, document: SessionDocument, is_final: bool) -> ChangedDocument {
    ChangedDocument { subject: subject.to_owned(), document, is_final }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
