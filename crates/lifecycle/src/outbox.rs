//! The outbox: the one queue that orders everything a session sends.
//!
//! Between fences, what is offered to one lane (a call, a terminal, a message) is joined while
//! it waits, and lanes do not wait for each other. Before a fence, everything offered earlier
//! goes first. It reads no clock and sends nothing; a driver polls it by its session.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use acp_types::{
    MessageChunk, Plan, SessionState, Status, TerminalId, TerminalPatch, ToolCallId, ToolCallPatch,
    TurnId,
};
use foldhash::HashMap;

use crate::ids::{ClientRequestId, PermissionId, ResponseId};
use crate::limits::{DEFAULT_UPDATE_INTERVAL, MAX_FIRST_REPORT_WAIT, MAX_MESSAGE_CHUNK_BYTES};

/// One thing to send.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OutboxItem {
    /// A change of a call.
    ToolCall(ToolCallId, ToolCallPatch),
    /// A change of a terminal.
    Terminal(TerminalId, TerminalPatch),
    /// A piece of a message.
    Chunk(MessageChunk),
    /// The whole plan.
    Plan(Plan),
    /// Another part of what a client may know of the session: commands, mode, options, usage, title.
    State(SessionState),
    /// A permission request: see [`Session::request`](crate::Session::request).
    PermissionRequest(PermissionId),
    /// The question why that request was rejected.
    RejectionReasonRequest(PermissionId),
    /// Another request to the client, which whoever sends it named.
    ClientRequest(ClientRequestId),
    /// The answer of a turn.
    PromptResponse(TurnId),
    /// The response to another request of the client, which whoever answers it named.
    ClientResponse(ResponseId),
}

/// What has been offered and not yet handed over. Only its [`Session`](crate::Session) offers to it
/// and takes from it.
#[derive(Debug)]
pub struct Outbox {
    queue: VecDeque<QueueEntry>,
    fence_count: usize,
    last_sent: HashMap<Lane, Instant>,
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

/// What went in, what came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxCounters {
    /// Items offered.
    pub enqueued: u64,
    /// Items joined to one that was waiting.
    pub merged: u64,
    /// Items handed over.
    pub handed_over: u64,
    /// Items handed over that could not be sent.
    pub undelivered: u64,
}

#[derive(Debug)]
struct QueueEntry {
    item: OutboxItem,
    lane: Lane,
    segment: CallSegment,
    is_fence: bool,
    /// The first report of a call.
    is_first_report: bool,
    /// A first report that waits for its call's title.
    is_held: bool,
    due: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Lane {
    ToolCall(ToolCallId),
    Terminal(TerminalId),
    Chunk,
    Plan,
    State(std::mem::Discriminant<SessionState>),
    /// Each compaction has an end of its own.
    Compaction(String),
    NeverMerged,
}

/// The parts of a call's life that are never joined with one another, so that no status that a
/// client must see is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallSegment {
    Pending,
    Running,
    Final,
}

impl Outbox {
    /// Sets the least time between two streamed updates of one card.
    pub(crate) fn set_update_interval(&mut self, interval: Duration) {
        self.update_interval = interval;
    }

    /// Takes an item into the queue, or joins it to the one of its lane that waits.
    ///
    /// `is_first` says that it is the first report of a call, which is a fence, unless it is held.
    pub(crate) fn enqueue(&mut self, item: OutboxItem, is_first: FirstReportTiming, now: Instant) {
        self.counters.enqueued += 1;
        let lane = item_lane(&item);
        let (segment, is_fence) = self.segment_and_fence(&item, &lane, is_first);
        let item = match is_fence {
            true => Some(self.merge_into_end(item, &lane, segment)),
            false => self.merge_with_waiting(item, &lane, segment),
        };
        let Some(item) = item else {
            self.counters.merged += 1;
            return;
        };
        let is_held = is_first == FirstReportTiming::Held;
        let due = match is_held {
            true => now + MAX_FIRST_REPORT_WAIT,
            false => self.next_due(&rate_lane(&lane), now),
        };
        self.fence_count += usize::from(is_fence);
        let is_report = is_first != FirstReportTiming::NotFirst && segment == CallSegment::Pending;
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

    /// Makes a first report that is held due at `at`, if that is earlier.
    pub(crate) fn advance_held_report(&mut self, call: &ToolCallId, at: Instant, now: Instant) {
        let is_of_call =
            |item: &OutboxItem| matches!(item, OutboxItem::ToolCall(id, _) if id == call);
        let mut held = self.queue.iter_mut().filter(|entry| entry.is_held);
        if let Some(entry) = held.find(|entry| is_of_call(&entry.item)) {
            entry.due = entry.due.min(at);
        }
        self.release_held_reports(now);
    }

    /// Makes each held report that is due a fence where it stands, and puts the reports that are
    /// still held behind everything: they are reported later than this one, although they began
    /// earlier.
    fn release_held_reports(&mut self, now: Instant) {
        let is_due = |entry: &QueueEntry| entry.is_held && entry.due <= now;
        while let Some(at) = self.queue.iter().position(is_due) {
            let behind_fences = self.queue.iter().rposition(|entry| entry.is_fence);
            let behind_fences = behind_fences.map_or(0, |at| at + 1);
            let Some(entry) = self.queue.get_mut(at) else { return };
            entry.is_held = false;
            // What goes before a fence already goes at once.
            if at >= behind_fences {
                entry.is_fence = true;
                self.fence_count += 1;
                let (held, free): (VecDeque<_>, VecDeque<_>) =
                    self.queue.drain(behind_fences..).partition(|entry| entry.is_held);
                self.queue.extend(free.into_iter().chain(held));
            }
        }
    }

    /// Returns the next item that is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<OutboxItem> {
        self.release_held_reports(now);
        let at = match self.fence_count {
            0 => self.queue.iter().position(|entry| entry.due <= now)?,
            _ => 0,
        };
        let entry = self.queue.remove(at)?;
        self.fence_count -= usize::from(entry.is_fence);
        self.counters.handed_over += 1;
        match entry.lane {
            Lane::ToolCall(_) if entry.segment == CallSegment::Final => {
                self.last_sent.remove(&rate_lane(&entry.lane));
            }
            Lane::Terminal(_) if ends_terminal(&entry.item) => {
                self.last_sent.remove(&rate_lane(&entry.lane));
            }
            Lane::NeverMerged => {}
            lane => {
                self.last_sent.insert(rate_lane(&lane), now);
            }
        }
        Some(entry.item)
    }

    /// Returns when the next item is due, if one waits.
    #[must_use]
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.fence_count {
            0 => self.queue.iter().map(|entry| entry.due).min(),
            _ => self.queue.front().map(|entry| entry.due),
        }
    }

    /// Lets everything that waits go at once: the end of a turn, or of the connection.
    pub(crate) fn flush(&mut self, now: Instant) {
        for entry in &mut self.queue {
            entry.due = entry.due.min(now);
        }
    }

    /// Takes a permission request back that has not been handed over, or the question why it was
    /// rejected.
    pub(crate) fn withdraw_permission(&mut self, request: PermissionId) {
        self.remove_fences(&[
            OutboxItem::PermissionRequest(request),
            OutboxItem::RejectionReasonRequest(request),
        ]);
    }

    /// Takes a request back that is about no permission and has not been handed over.
    pub(crate) fn withdraw_request(&mut self, request: ClientRequestId) {
        self.remove_fences(&[OutboxItem::ClientRequest(request)]);
    }

    /// Takes back what is a fence.
    fn remove_fences(&mut self, items: &[OutboxItem]) {
        let before = self.queue.len();
        self.queue.retain(|entry| !items.contains(&entry.item));
        self.fence_count -= before - self.queue.len();
    }

    /// Counts an item that could not be sent.
    pub(crate) fn count_undelivered(&mut self) {
        self.counters.undelivered += 1;
    }

    /// Returns whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns what went in and what came out.
    #[must_use]
    pub fn counters(&self) -> OutboxCounters {
        self.counters
    }

    /// Returns when the next update of a card may go, behind what was sent and what waits of it.
    fn next_due(&self, of: &Lane, now: Instant) -> Instant {
        let waiting =
            self.queue.iter().filter(|entry| !entry.is_held && rate_lane(&entry.lane) == *of);
        let last =
            self.last_sent.get(of).copied().into_iter().chain(waiting.map(|entry| entry.due));
        last.max().map_or(now, |last| now.max(last + self.update_interval))
    }

    /// Finds the segment of an item, and whether all that was offered before must go first.
    fn segment_and_fence(
        &self,
        item: &OutboxItem,
        lane: &Lane,
        is_first: FirstReportTiming,
    ) -> (CallSegment, bool) {
        match item {
            OutboxItem::ToolCall(_, patch) => match patch.status {
                Some(status) if status.is_final() => (CallSegment::Final, true),
                Some(Status::InProgress) => {
                    (CallSegment::Running, is_first == FirstReportTiming::Immediate)
                }
                _ if is_first != FirstReportTiming::NotFirst => {
                    (CallSegment::Pending, is_first == FirstReportTiming::Immediate)
                }
                _ => (self.waiting_segment(lane), false),
            },
            OutboxItem::PermissionRequest(_)
            | OutboxItem::RejectionReasonRequest(_)
            | OutboxItem::ClientRequest(_)
            | OutboxItem::PromptResponse(_)
            | OutboxItem::ClientResponse(_) => (CallSegment::Final, true),
            _ => (CallSegment::Running, false),
        }
    }

    /// A change without a status belongs to whatever segment of its call waits last.
    fn waiting_segment(&self, lane: &Lane) -> CallSegment {
        let last = self.queue.iter().rev().find(|entry| entry.lane == *lane);
        last.map_or(CallSegment::Running, |entry| entry.segment)
    }

    /// Takes what waits for a call without a status of its own into the call's end, which goes
    /// behind everything anyway: no status is skipped, and one message less is sent.
    fn merge_into_end(
        &mut self,
        item: OutboxItem,
        lane: &Lane,
        segment: CallSegment,
    ) -> OutboxItem {
        let OutboxItem::ToolCall(id, last) = item else { return item };
        let has_no_status = |at: &usize| match &self.queue[*at].item {
            OutboxItem::ToolCall(_, patch) => patch.status.is_none(),
            _ => false,
        };
        // Only the very last change may go behind, and past no fence.
        let at = match segment {
            CallSegment::Final => self.queue.iter().rposition(|entry| entry.lane == *lane),
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

    /// Whether a change names a parent whose report waits behind that of the call itself: joined
    /// to it, the change would refer to a call that is not reported.
    fn names_unreported_parent(&self, item: &OutboxItem, lane: &Lane) -> bool {
        let OutboxItem::ToolCall(_, patch) = item else { return false };
        let parent = patch.meta.as_ref().and_then(|meta| meta.parent.as_deref());
        let Some(parent) = parent.map(|id| Lane::ToolCall(ToolCallId::new(id))) else {
            return false;
        };
        let is_parents = |entry: &QueueEntry| entry.is_first_report && entry.lane == parent;
        self.queue.iter().position(is_parents)
            > self.queue.iter().rposition(|entry| entry.lane == *lane)
    }

    /// Joins an item to the waiting one of its lane and segment; gives it back if there is none.
    fn merge_with_waiting(
        &mut self,
        item: OutboxItem,
        lane: &Lane,
        segment: CallSegment,
    ) -> Option<OutboxItem> {
        if self.names_unreported_parent(&item, lane) {
            return Some(item);
        }
        let waiting = match lane {
            // Text goes in the order in which it was said, so only the very last can grow.
            Lane::Chunk => self.queue.back_mut(),
            // An answer may hold the same state, so nothing later may go before it.
            Lane::State(_) | Lane::Compaction(_) => {
                let behind = self.queue.iter_mut().rev();
                let mut behind = behind.take_while(|entry| {
                    !matches!(
                        entry.item,
                        OutboxItem::PromptResponse(_) | OutboxItem::ClientResponse(_)
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
            // A call must be seen to run before it is seen to pause.
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
                    && chunk.text.len() + later.text.len() <= MAX_MESSAGE_CHUNK_BYTES =>
            {
                chunk.text.push_str(&later.text);
            }
            (OutboxItem::Plan(plan), OutboxItem::Plan(later)) => *plan = later,
            (OutboxItem::State(state), OutboxItem::State(later)) => {
                *state = state.clone().then(later)
            }
            (_, item) => return Some(item),
        }
        None
    }
}

/// Whether a change of a call is its first of a kind: the announcement, or the first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstReportTiming {
    /// It is.
    Immediate,
    /// It is an announcement that waits for the call's title, at most [`FIRST_REPORT_WAIT`]: until
    /// [`Outbox::hasten`], or until a fence is offered behind it.
    Held,
    /// It is not.
    NotFirst,
}

fn ends_terminal(item: &OutboxItem) -> bool {
    matches!(item, OutboxItem::Terminal(_, patch) if patch.exit.is_some())
}

/// Returns the lane whose rate a lane shares: a terminal has the id of its call, and what changes
/// either of them changes the one card that the client shows.
fn rate_lane(lane: &Lane) -> Lane {
    match lane {
        Lane::Terminal(id) => Lane::ToolCall(ToolCallId::new(id.0.clone())),
        lane => lane.clone(),
    }
}

fn item_lane(item: &OutboxItem) -> Lane {
    match item {
        OutboxItem::ToolCall(id, _) => Lane::ToolCall(id.clone()),
        OutboxItem::Terminal(id, _) => Lane::Terminal(id.clone()),
        OutboxItem::Chunk(_) => Lane::Chunk,
        OutboxItem::Plan(_) => Lane::Plan,
        OutboxItem::State(SessionState::Compaction(compaction)) => {
            Lane::Compaction(compaction.id.clone())
        }
        OutboxItem::State(state) => Lane::State(std::mem::discriminant(state)),
        OutboxItem::PermissionRequest(_)
        | OutboxItem::RejectionReasonRequest(_)
        | OutboxItem::ClientRequest(_)
        | OutboxItem::PromptResponse(_)
        | OutboxItem::ClientResponse(_) => Lane::NeverMerged,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
