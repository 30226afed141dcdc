//! The outbox: one queue that orders everything that a session sends.
//!
//! Waiting items with the same merge key (`MergeLane`: a call, a terminal, a message) are merged.
//! Items with different merge keys do not wait for each other. A *fence* is an item that is sent
//! after all items enqueued before it. No waiting item is moved behind a fence. A later change of a
//! call or of a terminal may be merged into an item before a fence; a later change of the plan or
//! of the session's state is not merged into an item before a response. A driver polls the outbox
//! through its session.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use acp_types::{
    MessageChunk, Plan, ReplayedPromptBlock, SessionStatePart, Status, TerminalId, TerminalPatch,
    ToolCallId, ToolCallPatch, TurnId, json,
};
use foldhash::HashMap;

use crate::ids::{AgentRequestId, AgentResponseId, PermissionId};
use crate::limits::{DEFAULT_UPDATE_INTERVAL, MAX_FIRST_REPORT_WAIT, MAX_MESSAGE_CHUNK_BYTES};

/// An item to send.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OutboxItem {
    /// A change of a call.
    ToolCall(ToolCallId, ToolCallPatch),
    /// A change of a terminal.
    Terminal(TerminalId, TerminalPatch),
    /// A chunk of a message.
    Chunk(MessageChunk),
    /// A part of an earlier prompt. Such parts are sent only when a session is replayed.
    Prompt(ReplayedPromptBlock),
    /// The complete plan, which replaces the previous plan.
    Plan(Plan),
    /// A part of the session's state other than the plan: commands, mode, options, usage or title.
    State(SessionStatePart),
    /// A permission request: see
    /// [`Session::pending_permission_request`](crate::Session::pending_permission_request).
    PermissionRequest(PermissionId),
    /// A request to the client for the reason of a rejection.
    RejectionReasonRequest(PermissionId),
    /// Any other request to the client. The sender chooses the request's id.
    AgentRequest(AgentRequestId),
    /// The response to a prompt. The response ends the prompt's turn.
    PromptResponse(TurnId),
    /// The response to a client request other than a prompt. The code that responds chooses the id.
    AgentResponse(AgentResponseId),
}

/// The items that wait to be sent. Only the [`Session`](crate::Session) adds and removes items.
#[derive(Debug)]
pub struct Outbox {
    queue: VecDeque<QueueEntry>,
    fence_count: usize,
    last_sent: HashMap<MergeLane, Instant>,
    counters: OutboxCounters,
    update_interval: Duration,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            fence_count: 0,
            last_sent: HashMap::default(),
            counters: OutboxCounters::default(),
            update_interval: DEFAULT_UPDATE_INTERVAL,
        }
    }
}

/// Counters of the items of an outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxCounters {
    /// Number of items that were enqueued.
    pub enqueued: u64,
    /// Number of items that were merged into a waiting item.
    pub merged: u64,
    /// Number of items that were handed over to the driver.
    pub handed_over: u64,
    /// Number of items that were handed over to the driver but could not be sent.
    pub undelivered: u64,
}

#[derive(Debug)]
struct QueueEntry {
    item: OutboxItem,
    lane: MergeLane,
    segment: OutboxCallPhase,
    is_fence: bool,
    /// Whether the item is the first report of a call.
    is_first_report: bool,
    /// Whether the item is a first report that waits for the title of its call.
    is_held: bool,
    due: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum MergeLane {
    ToolCall(ToolCallId),
    Terminal(TerminalId),
    Chunk,
    Plan,
    State(std::mem::Discriminant<SessionStatePart>),
    /// The id of a compaction. Each compaction has a separate merge key.
    Compaction(String),
    NeverMerged,
}

/// The phases of a call. Updates of different phases are not merged, so that no status is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutboxCallPhase {
    Pending,
    Running,
    Final,
}

impl Outbox {
    /// Sets the minimum interval between two streamed updates of one call.
    pub(crate) fn set_update_interval(&mut self, interval: Duration) {
        self.update_interval = interval;
    }

    /// Appends an item to the queue, or merges it into the waiting item with the same merge key.
    ///
    /// The parameter `is_first` classifies a call's report. A first report is a fence unless the
    /// report is held.
    pub(crate) fn enqueue_or_merge(
        &mut self,
        item: OutboxItem,
        is_first: FirstReportTiming,
        now: Instant,
    ) {
        self.counters.enqueued += 1;
        let lane = item_lane(&item);
        let (segment, is_fence) = self.phase_and_is_fence(&item, &lane, is_first);
        let item = match is_fence {
            true => Some(self.merge_waiting_into_end(item, &lane, segment)),
            false => self.merge_with_waiting(item, &lane, segment),
        };
        let Some(item) = item else {
            self.counters.merged += 1;
            return;
        };
        let is_held = is_first == FirstReportTiming::Held;
        let due = match is_held {
            true => now + MAX_FIRST_REPORT_WAIT,
            false => self.earliest_send_time(&rate_limit_lane(&lane), now),
        };
        self.fence_count += usize::from(is_fence);
        let is_report =
            is_first != FirstReportTiming::NotFirst && segment == OutboxCallPhase::Pending;
        self.queue.push_back(QueueEntry {
            item,
            lane,
            segment,
            is_fence,
            is_first_report: is_report,
            is_held,
            due,
        });
    }

    /// Appends an item of a replay. The item is due at once. The item is never merged: in the
    /// original session it was delivered separately, so a client may show it separately too.
    pub(crate) fn enqueue_replayed(&mut self, item: OutboxItem, now: Instant) {
        self.counters.enqueued += 1;
        let lane = item_lane(&item);
        let is_final = match &item {
            OutboxItem::ToolCall(_, patch) => patch.status.is_some_and(Status::is_final),
            _ => false,
        };
        let segment = if is_final { OutboxCallPhase::Final } else { OutboxCallPhase::Running };
        self.queue.push_back(QueueEntry {
            item,
            lane,
            segment,
            is_fence: false,
            is_first_report: false,
            is_held: false,
            due: now,
        });
    }

    /// Moves the deadline of a held first report to `at`, if `at` is earlier.
    pub(crate) fn advance_held_report_deadline(
        &mut self,
        call: &ToolCallId,
        at: Instant,
        now: Instant,
    ) {
        let is_of_call =
            |item: &OutboxItem| matches!(item, OutboxItem::ToolCall(id, _) if id == call);
        let mut held = self.queue.iter_mut().filter(|entry| entry.is_held);
        if let Some(entry) = held.find(|entry| is_of_call(&entry.item)) {
            entry.due = entry.due.min(at);
        }
        self.release_due_held_reports(now);
    }

    /// Converts each due held report into a fence. Reports that are still held move to the end of
    /// the queue. They are then sent after the due reports, even if their calls began earlier.
    fn release_due_held_reports(&mut self, now: Instant) {
        let is_due = |entry: &QueueEntry| entry.is_held && entry.due <= now;
        while let Some(at) = self.queue.iter().position(is_due) {
            let behind_fences = self.queue.iter().rposition(|entry| entry.is_fence);
            let behind_fences = behind_fences.map_or(0, |at| at + 1);
            let Some(entry) = self.queue.get_mut(at) else { return };
            entry.is_held = false;
            // A report before a fence becomes a fence too, because the other one may be removed.
            entry.is_fence = true;
            self.fence_count += 1;
            if at >= behind_fences {
                let (held, free): (VecDeque<_>, VecDeque<_>) =
                    self.queue.drain(behind_fences..).partition(|entry| entry.is_held);
                self.queue.extend(free.into_iter().chain(held));
            }
        }
    }

    /// Returns the next item that is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<OutboxItem> {
        self.release_due_held_reports(now);
        let at = match self.fence_count {
            0 => self.queue.iter().position(|entry| entry.due <= now)?,
            _ => 0,
        };
        let entry = self.queue.remove(at)?;
        self.fence_count -= usize::from(entry.is_fence);
        self.counters.handed_over += 1;
        match entry.lane {
            MergeLane::ToolCall(_) if entry.segment == OutboxCallPhase::Final => {
                self.last_sent.remove(&rate_limit_lane(&entry.lane));
            }
            MergeLane::Terminal(_) if ends_terminal(&entry.item) => {
                self.last_sent.remove(&rate_limit_lane(&entry.lane));
            }
            // The interval limits the updates of one turn. The first word of the next turn does not
            // wait for it.
            MergeLane::NeverMerged if matches!(entry.item, OutboxItem::PromptResponse(_)) => {
                self.last_sent.retain(|lane, _| {
                    matches!(lane, MergeLane::ToolCall(_) | MergeLane::Terminal(_))
                });
            }
            MergeLane::NeverMerged => {}
            lane => {
                self.last_sent.insert(rate_limit_lane(&lane), now);
            }
        }
        Some(entry.item)
    }

    /// Returns the time when the next item is due, or `None` if no item waits.
    #[must_use]
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.fence_count {
            0 => self.queue.iter().map(|entry| entry.due).min(),
            _ => self.queue.front().map(|entry| entry.due),
        }
    }

    /// Makes every waiting item due. Called at the end of a turn or of the connection.
    pub(crate) fn make_all_items_due(&mut self, now: Instant) {
        for entry in &mut self.queue {
            entry.due = entry.due.min(now);
        }
    }

    /// Removes the items of a permission request that were not handed over yet. The items of a
    /// permission request are the request itself, and the request for the reason of its rejection.
    pub(crate) fn remove_permission_items(&mut self, request: PermissionId) {
        self.remove_fences_equal_to(&[
            OutboxItem::PermissionRequest(request),
            OutboxItem::RejectionReasonRequest(request),
        ]);
    }

    /// Removes a request to the client, other than a permission request, if it was not handed over
    /// yet.
    pub(crate) fn remove_agent_request(&mut self, request: AgentRequestId) {
        self.remove_fences_equal_to(&[OutboxItem::AgentRequest(request)]);
    }

    /// Removes the waiting items that are equal to an element of `items`. All removed items must be
    /// fences.
    fn remove_fences_equal_to(&mut self, items: &[OutboxItem]) {
        let before = self.queue.len();
        self.queue.retain(|entry| !items.contains(&entry.item));
        self.fence_count -= before - self.queue.len();
    }

    /// Counts an item that could not be sent.
    pub(crate) fn record_undelivered_item(&mut self) {
        self.counters.undelivered += 1;
    }

    /// Returns whether the outbox is empty, i.e. whether no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of waiting items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the counters of items.
    #[must_use]
    pub fn counters(&self) -> OutboxCounters {
        self.counters
    }

    /// Returns the earliest time at which another update with this rate-limit key may be sent. The
    /// returned time is later than the times of all sent and waiting updates with that key.
    ///
    /// A chunk of a message is an exception: if it cannot be merged with the waiting chunk, it is
    /// sent together with it. Otherwise, messages that alternate would be sent later and later.
    fn earliest_send_time(&self, of: &MergeLane, now: Instant) -> Instant {
        let waiting =
            self.queue.iter().filter(|entry| !entry.is_held && rate_limit_lane(&entry.lane) == *of);
        if *of == MergeLane::Chunk
            && let Some(due) = waiting.clone().map(|entry| entry.due).max()
        {
            return due;
        }
        let last =
            self.last_sent.get(of).copied().into_iter().chain(waiting.map(|entry| entry.due));
        last.max().map_or(now, |last| now.max(last + self.update_interval))
    }

    /// Returns the phase of an item, and whether the item is a fence.
    fn phase_and_is_fence(
        &self,
        item: &OutboxItem,
        lane: &MergeLane,
        is_first: FirstReportTiming,
    ) -> (OutboxCallPhase, bool) {
        match item {
            OutboxItem::ToolCall(_, patch) => match patch.status {
                Some(status) if status.is_final() => (OutboxCallPhase::Final, true),
                Some(Status::InProgress) => {
                    (OutboxCallPhase::Running, is_first == FirstReportTiming::Immediate)
                }
                _ if is_first != FirstReportTiming::NotFirst => {
                    (OutboxCallPhase::Pending, is_first == FirstReportTiming::Immediate)
                }
                _ => (self.last_waiting_phase(lane), false),
            },
            OutboxItem::PermissionRequest(_)
            | OutboxItem::RejectionReasonRequest(_)
            | OutboxItem::AgentRequest(_)
            | OutboxItem::PromptResponse(_)
            | OutboxItem::AgentResponse(_) => (OutboxCallPhase::Final, true),
            _ => (OutboxCallPhase::Running, false),
        }
    }

    /// Returns the phase of the last waiting item with this merge key. A change without a status
    /// belongs to that phase.
    fn last_waiting_phase(&self, lane: &MergeLane) -> OutboxCallPhase {
        let last = self.queue.iter().rev().find(|entry| entry.lane == *lane);
        last.map_or(OutboxCallPhase::Running, |entry| entry.segment)
    }

    /// Merges a waiting change without a status into the end of its call. The end would be the next
    /// message of the call anyway. Merging therefore skips no status and saves one message.
    fn merge_waiting_into_end(
        &mut self,
        item: OutboxItem,
        lane: &MergeLane,
        segment: OutboxCallPhase,
    ) -> OutboxItem {
        let OutboxItem::ToolCall(id, last) = item else { return item };
        let has_no_status = |at: &usize| match &self.queue[*at].item {
            OutboxItem::ToolCall(_, patch) => patch.status.is_none(),
            _ => false,
        };
        // Only the last change with this merge key may move back in the queue, and only if no fence
        // follows it.
        let at = match segment {
            OutboxCallPhase::Final => self.queue.iter().rposition(|entry| entry.lane == *lane),
            _ => None,
        };
        let at = at.filter(has_no_status);
        let at = at.filter(|at| self.queue.iter().skip(*at).all(|entry| !entry.is_fence));
        match at.and_then(|at| self.queue.remove(at)).map(|entry| entry.item) {
            Some(OutboxItem::ToolCall(_, patch)) => {
                self.counters.merged += 1;
                OutboxItem::ToolCall(id, patch.then(last))
            }
            _ => OutboxItem::ToolCall(id, last),
        }
    }

    /// Returns whether a change names a parent call that is reported after the call itself. If such
    /// a change were merged into an earlier item, this item would refer to a call that is not
    /// reported yet.
    fn names_unreported_parent(&self, item: &OutboxItem, lane: &MergeLane) -> bool {
        let OutboxItem::ToolCall(_, patch) = item else { return false };
        let parent = patch.meta.as_ref().and_then(|meta| meta.parent.as_deref());
        let Some(parent) = parent.map(|id| MergeLane::ToolCall(ToolCallId::new(id))) else {
            return false;
        };
        let is_parents = |entry: &QueueEntry| entry.is_first_report && entry.lane == parent;
        self.queue.iter().position(is_parents)
            > self.queue.iter().rposition(|entry| entry.lane == *lane)
    }

    /// Merges an item into the waiting item with the same merge key and phase. Returns the item if
    /// no such item waits.
    fn merge_with_waiting(
        &mut self,
        item: OutboxItem,
        lane: &MergeLane,
        segment: OutboxCallPhase,
    ) -> Option<OutboxItem> {
        if self.names_unreported_parent(&item, lane) {
            return Some(item);
        }
        let waiting = match lane {
            // Text is sent in order, so a chunk can only be appended to the last item.
            MergeLane::Chunk => self.queue.back_mut(),
            // A waiting response may contain the same part of the state, and may end the turn to
            // which a plan belongs. A later change must be sent after this response, so it is not
            // merged into an update before the response.
            MergeLane::Plan | MergeLane::State(_) | MergeLane::Compaction(_) => {
                let behind = self.queue.iter_mut().rev();
                let mut behind = behind.take_while(|entry| {
                    !matches!(
                        entry.item,
                        OutboxItem::PromptResponse(_) | OutboxItem::AgentResponse(_)
                    )
                });
                behind.find(|entry| entry.lane == *lane)
            }
            _ => self.queue.iter_mut().rev().find(|entry| entry.lane == *lane),
        };
        let Some(entry) = waiting.filter(|entry| entry.lane == *lane) else {
            return Some(item);
        };
        match (&mut entry.item, item) {
            // The client must receive the running status before the paused status.
            (OutboxItem::ToolCall(..), OutboxItem::ToolCall(id, later))
                if entry.is_fence && later.status == Some(Status::Paused) =>
            {
                return Some(OutboxItem::ToolCall(id, later));
            }
            (OutboxItem::ToolCall(_, patch), OutboxItem::ToolCall(_, later))
                if entry.segment == segment =>
            {
                *patch = std::mem::take(patch).then(later);
            }
            (OutboxItem::Terminal(_, patch), OutboxItem::Terminal(_, later)) => {
                *patch = std::mem::take(patch).then(later);
            }
            (OutboxItem::Chunk(chunk), OutboxItem::Chunk(later))
                if (chunk.role, &chunk.message) == (later.role, &later.message)
                    && can_append_within_chunk_limit(&chunk.text, &later.text) =>
            {
                chunk.text.push_str(&later.text);
            }
            (OutboxItem::Plan(plan), OutboxItem::Plan(later)) => *plan = later,
            (OutboxItem::State(state), OutboxItem::State(later)) => {
                *state = state.clone().then(later);
            }
            (_, item) => return Some(item),
        }
        None
    }
}

/// Whether a change is the first report of a call, i.e. the call's announcement or first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstReportTiming {
    /// A first report that is sent without delay.
    Immediate,
    /// An announcement that waits for the call's title, for at most [`MAX_FIRST_REPORT_WAIT`]. The
    /// wait also ends at the deadline of [`Outbox::advance_held_report_deadline`], or when a fence
    /// is enqueued after the announcement.
    Held,
    /// Any other change.
    NotFirst,
}

/// Returns whether two texts together fit in one chunk of a message.
fn can_append_within_chunk_limit(text: &str, later: &str) -> bool {
    const MAX_BYTES_PER_ESCAPED_BYTE: usize = "\\u0000".len();
    // The sum is cheap and is usually small enough, even if each byte must be escaped.
    (text.len() + later.len()) * MAX_BYTES_PER_ESCAPED_BYTE <= MAX_MESSAGE_CHUNK_BYTES
        || json::escaped_string_len(text) + json::escaped_string_len(later)
            <= MAX_MESSAGE_CHUNK_BYTES
}

fn ends_terminal(item: &OutboxItem) -> bool {
    matches!(item, OutboxItem::Terminal(_, patch) if patch.exit.is_some())
}

/// Returns the rate-limit key of an item. A terminal has the id of its call and shares the call's
/// rate limit, because the client shows the terminal as part of the call.
fn rate_limit_lane(lane: &MergeLane) -> MergeLane {
    match lane {
        MergeLane::Terminal(id) => MergeLane::ToolCall(ToolCallId::new(id.0.clone())),
        lane => lane.clone(),
    }
}

fn item_lane(item: &OutboxItem) -> MergeLane {
    match item {
        OutboxItem::ToolCall(id, _) => MergeLane::ToolCall(id.clone()),
        OutboxItem::Terminal(id, _) => MergeLane::Terminal(id.clone()),
        OutboxItem::Chunk(_) => MergeLane::Chunk,
        OutboxItem::Plan(_) => MergeLane::Plan,
        OutboxItem::State(SessionStatePart::Compaction(compaction)) => {
            MergeLane::Compaction(compaction.id.clone())
        }
        OutboxItem::State(state) => MergeLane::State(std::mem::discriminant(state)),
        OutboxItem::PermissionRequest(_)
        | OutboxItem::RejectionReasonRequest(_)
        | OutboxItem::AgentRequest(_)
        | OutboxItem::PromptResponse(_)
        | OutboxItem::AgentResponse(_)
        | OutboxItem::Prompt(_) => MergeLane::NeverMerged,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
