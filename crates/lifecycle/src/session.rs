//! The state machine of one session: its calls, turns, requests and outbox.
//!
//! Every change of a call goes through [`Session`]. The board checks that the change is legal. The
//! rules check the permission of the call. The outbox determines the order in which changes are
//! sent.

mod messages;
mod permission_memory;
mod permissions;
mod replay;
mod terminals;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acp_types::{
    CallEndReason, CallMeta, Progress, Status, TerminalExit, ToolCallId, ToolCallPatch,
    TraceContext, TurnId,
};
use callboard_text::{escape_invisible, head, path_text};

use crate::board::{CallBoard, CallEnd, Timestamp};
use crate::config::SessionConfig;
use crate::ids::{AgentRequestId, AgentResponseId};
use crate::limits::{self, MAX_PROGRESS_MESSAGE_BYTES};
use crate::message_stream::RecentMessageRedactors;
use crate::outbox::{FirstReportTiming, Outbox, OutboxItem};
use crate::sanitize::Secrets;
use crate::title;
use crate::usage::{SessionCallUsage, UpdateCounts};
use permissions::SessionPermissions;

pub use permission_memory::PermissionMemory;
pub use permissions::PermissionRequest;
#[cfg(feature = "tokio")]
pub(crate) use permissions::{AnsweredBy, PolicyCheck};

/// The state of one session: its calls and terminals, its outbox, and its permissions.
///
/// The caller passes the time to each method as a [`Timestamp`], and must follow the contract
/// below. With the feature `tokio`, `SessionHandle` and `drive_session` follow the contract for the
/// caller.
///
/// # A call
///
/// - [`announce_call`](Self::announce_call) announces a call as pending. The call's id cannot be
///   used again in this session.
/// - [`decide_or_ask_permission`](Self::decide_or_ask_permission) decides whether the call may run.
///   On [`PermitDecision::AwaitingAnswer`](crate::PermitDecision::AwaitingAnswer) the client is
///   asked, and [`answer_permission`](Self::answer_permission) returns the decision. If the
///   decision is [`PermissionOutcome::Outdated`](crate::PermissionOutcome::Outdated), call
///   `decide_or_ask_permission` again. If the decision contains no [`Grant`](crate::Grant), call
///   [`finish_call`](Self::finish_call).
/// - [`start_call`](Self::start_call) starts the call. While the call runs, use
///   [`update_call`](Self::update_call), [`report_progress`](Self::report_progress),
///   [`pause_call`](Self::pause_call) and so on.
/// - [`finish_call`](Self::finish_call) ends the call. Later changes are dropped and counted as
///   [`late_changes`](crate::RejectedChangeCounters::late_changes).
///
/// [`end_turn`](Self::end_turn) ends the open calls of a turn before it enqueues the response to
/// the prompt.
///
/// # After every change
///
/// - Call [`poll`](Self::poll) until it returns `None`. Send each item to the client before taking
///   the next one, because the protocol requires the order of the items.
/// - If an item cannot be delivered, call
///   [`record_undelivered_item`](Self::record_undelivered_item). If the undelivered item is a
///   request, also pass a failure as the answer to the request. For an
///   [`OutboxItem::PermissionRequest`], call [`answer_permission`](Self::answer_permission) with
///   [`PermissionAnswer::Failed`](crate::PermissionAnswer::Failed). For an
///   [`OutboxItem::RejectionReasonRequest`], call
///   [`apply_rejection_reason`](Self::apply_rejection_reason) with `None`.
/// - Wait until [`next_poll_deadline`](Self::next_poll_deadline) or the next change, then poll
///   again. Items may wait, because the rate of updates is limited. Updates that wait are merged.
/// - After [`answer_permission`](Self::answer_permission), [`add_rule`](Self::add_rule) and
///   [`revoke_rule`](Self::revoke_rule), save the changes that
///   [`take_rule_changes`](Self::take_rule_changes) returns.
///
/// To shut down, call [`mark_closing`](Self::mark_closing), [`end_all_calls`](Self::end_all_calls)
/// and [`make_all_items_due`](Self::make_all_items_due). After these calls, poll until no item is
/// left.
///
/// # Exclusive access
///
/// Only the session creates patches. Callers can read the board and the outbox, but cannot change
/// the board or the outbox:
///
/// ```
/// # use acp_lifecycle::{CallEnd, Session, Timestamp};
/// # use acp_types::ToolCallPatch;
/// # let wall = std::time::SystemTime::now();
/// # let now = Timestamp { monotonic: std::time::Instant::now(), wall };
/// let mut session = Session::new("/project");
/// session.announce_call(&"c".into(), &"t".into(), ToolCallPatch::new().with_title("Do it"), now);
/// session.finish_call(&"c".into(), CallEnd::completed(), now);
/// session.finish_call(&"c".into(), CallEnd::completed(), now);
/// // The announcement, and one end.
/// assert_eq!(std::iter::from_fn(|| session.poll(now.monotonic)).count(), 2);
/// assert_eq!(session.board().rejected_change_counters().late_changes, 1);
/// ```
///
/// ```compile_fail,E0624
/// # use acp_lifecycle::{CallEnd, Session, Timestamp};
/// # fn twice(session: &mut Session, now: Timestamp) {
/// session.board().finish_call(&"c".into(), CallEnd::completed(), now);
/// # }
/// ```
///
/// ```compile_fail,E0616
/// # use acp_lifecycle::Session;
/// # fn twice(session: &mut Session) {
/// session.outbox.len();
/// # }
/// ```
///
/// ```compile_fail,E0624
/// # use acp_lifecycle::{Outbox, OutboxItem, Timestamp};
/// # fn twice(outbox: &mut Outbox, item: OutboxItem, now: Timestamp) {
/// outbox.enqueue_or_merge(item, unreachable!(), now.monotonic);
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    board: CallBoard,
    outbox: Outbox,
    permissions: SessionPermissions,
    cwd: PathBuf,
    shows_terminals: bool,
    /// The most recently ended turns.
    ended_turns: VecDeque<TurnId>,
    message_stream: RecentMessageRedactors,
    is_closing: bool,
    /// The trace contexts of open turns.
    traces: HashMap<TurnId, TraceContext>,
}

impl Session {
    /// Creates a session. `cwd` is the base folder of relative paths.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            board: CallBoard::default(),
            outbox: Outbox::default(),
            permissions: SessionPermissions::default(),
            cwd: cwd.into(),
            shows_terminals: false,
            ended_turns: VecDeque::new(),
            message_stream: RecentMessageRedactors::default(),
            is_closing: false,
            traces: HashMap::new(),
        }
    }

    /// Sets the configuration.
    #[must_use]
    pub fn with_config(mut self, config: SessionConfig) -> Self {
        self.board.set_config(config);
        self.outbox.set_update_interval(config.update_interval);
        self
    }

    /// Returns the base folder of relative paths.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Sets the secret values that are redacted from now on.
    pub fn set_secrets(&mut self, secrets: Secrets) {
        self.board.set_secrets(secrets);
    }

    /// Returns the secret values that are redacted.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        self.board.secrets()
    }

    /// Sets whether the client can show terminals. If the client cannot show terminals, command
    /// output is sent as text.
    pub fn set_shows_terminals(&mut self, shows: bool) {
        self.shows_terminals = shows;
    }

    /// Returns whether the client can show terminals. Commands should write to a terminal if the
    /// client can show terminals.
    #[must_use]
    pub fn shows_terminals(&self) -> bool {
        self.shows_terminals
    }

    /// Sets the trace context of a turn. Every call that is announced in the turn from now on
    /// contains this trace context.
    ///
    /// At most 64 open turns have a trace context. The trace contexts of further turns are dropped.
    pub fn set_turn_trace_context(&mut self, turn: &TurnId, trace: TraceContext) {
        if !trace.is_empty() && self.traces.len() < limits::MAX_TRACED_TURNS {
            self.traces.insert(turn.clone(), trace);
        }
    }

    /// Announces a call of a turn. The call's first status is pending, even if `patch` contains
    /// another status.
    ///
    /// Returns whether the call was announced. A call is not announced if its turn has ended, or if
    /// its id is or was in use. An id that is or was in use counts as an illegal step.
    pub fn announce_call(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Timestamp,
    ) -> bool {
        self.announce_with_report_timing(id, turn, patch, FirstReportTiming::Immediate, now)
    }

    /// Announces a call whose arguments still stream. `patch` has a preliminary title. The first
    /// report waits at most 200 ms for the final title (see
    /// [`limit_first_report_delay`](Self::limit_first_report_delay)). If another item is enqueued
    /// that must follow the report, the report is sent without further delay.
    pub fn announce_streamed_call(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Timestamp,
    ) -> bool {
        self.announce_with_report_timing(id, turn, patch, FirstReportTiming::Held, now)
    }

    /// Limits the remaining delay of the first report of a streamed call. Call this method when the
    /// title of the call is known.
    pub fn limit_first_report_delay(&mut self, id: &ToolCallId, wait: Duration, now: Timestamp) {
        self.outbox.advance_held_report_deadline(id, now.monotonic + wait, now.monotonic);
    }

    fn announce_with_report_timing(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        mut patch: ToolCallPatch,
        is_first: FirstReportTiming,
        now: Timestamp,
    ) -> bool {
        if self.ended_turns.contains(turn) {
            return false;
        }
        if let Some(trace) = self.traces.get(turn) {
            patch.meta.get_or_insert_default().trace.clone_from(trace);
        }
        let patch = self.board.announce_call(id, turn, patch, now);
        self.enqueue_call_patch(id, patch, is_first, now)
    }

    /// Updates an open call. Ignores the status in `patch`, empty titles and names, nulls, and
    /// values over a limit.
    pub fn update_call(&mut self, id: &ToolCallId, patch: ToolCallPatch, now: Timestamp) {
        let patch = self.board.update_call(id, patch);
        self.enqueue_call_patch(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Updates the metadata of an open call.
    pub fn update_call_meta(
        &mut self,
        id: &ToolCallId,
        change: impl FnOnce(&mut CallMeta),
        now: Timestamp,
    ) {
        let patch = self.board.update_call_meta(id, change);
        self.enqueue_call_patch(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Sets or removes the subtitle: a short visible line that is shown after the title until the
    /// call ends. The subtitle stays when the title changes. No subtitle is shown during a
    /// permission request, because the client approves the call and not its progress.
    pub fn set_subtitle(&mut self, id: &ToolCallId, subtitle: Option<&str>, now: Timestamp) {
        if !self.is_call_awaiting_permission(id) {
            let patch = self.board.set_subtitle(id, subtitle);
            self.enqueue_call_patch(id, patch, FirstReportTiming::NotFirst, now);
        }
    }

    /// Reports the progress of a call in the call's metadata and as the call's subtitle.
    pub fn report_progress(&mut self, id: &ToolCallId, progress: Progress, now: Timestamp) {
        let subtitle = title::progress_text(&progress);
        // Redact before truncating, because a truncated secret would not be detected.
        let message = progress.message.as_deref().map(|text| {
            let shown = self.board.secrets().redact(text);
            head(&shown, MAX_PROGRESS_MESSAGE_BYTES).to_owned()
        });
        let sent = progress.with_message(message);
        let Some(mut patch) = self.board.update_call_meta(id, |meta| meta.progress = Some(sent))
        else {
            return;
        };
        if !self.is_call_awaiting_permission(id)
            && let Some(shown) = self.board.set_subtitle(id, Some(&subtitle))
        {
            patch = patch.then(shown);
        }
        self.enqueue_call_patch(id, Some(patch), FirstReportTiming::NotFirst, now);
    }

    /// Starts a pending call, or resumes a paused call. Returns false if this step is illegal, i.e.
    /// if the call has ended or is already running.
    pub fn start_call(&mut self, id: &ToolCallId, now: Timestamp) -> bool {
        let patch = self.board.start_or_resume_call(id, now);
        // Only the first start sets the start time.
        let first = patch.as_ref().is_some_and(|patch| patch.meta.is_some());
        self.enqueue_call_patch(
            id,
            patch,
            if first { FirstReportTiming::Immediate } else { FirstReportTiming::NotFirst },
            now,
        )
    }

    /// Pauses a running call. [`Session::start_call`] resumes the call.
    pub fn pause_call(&mut self, id: &ToolCallId, now: Timestamp) {
        let patch = self.board.mark_call_paused(id);
        self.enqueue_call_patch(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Sets the status of a started call back to pending, because the run had no effect.
    #[cfg(feature = "tokio")]
    pub(crate) fn undo_call_start(&mut self, id: &ToolCallId, now: Timestamp) {
        let patch = self.board.undo_call_start(id);
        self.enqueue_call_patch(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Applies an update from a foreign agent. The updates may arrive in any order. The call is
    /// announced if its id is new. The call is then updated, and its status changes to
    /// `patch.status` if that step is legal.
    ///
    /// Ignores calls that have ended or belong to an ended turn, and counts illegal steps. Never
    /// grants permission, because the call runs in the foreign agent and is only reported here.
    pub fn upsert_foreign_call(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Timestamp,
    ) {
        let (status, reason) = (patch.status, patch.meta.as_ref().and_then(|meta| meta.reason));
        let mut last = ToolCallPatch::new();
        if !self.board.is_id_used(id) {
            self.announce_call(id, turn, patch, now);
        } else if status.is_some_and(Status::is_final) {
            last = patch;
        } else {
            self.update_call(id, patch, now);
        }
        match status {
            // A call reported as completed has run, even if its start was not reported.
            Some(Status::InProgress | Status::Completed) if !self.is_call_running(id) => {
                self.start_call(id, now);
            }
            Some(Status::Paused) => self.pause_call(id, now),
            _ => {}
        }
        let end = match status {
            Some(Status::Completed) => CallEnd::completed(),
            Some(Status::Cancelled) => CallEnd::cancelled(reason.unwrap_or(CallEndReason::User)),
            Some(status) if status.is_final() => {
                CallEnd::failed(reason.unwrap_or(CallEndReason::Error))
            }
            _ => return,
        };
        self.finish_call(id, end.with_patch(last), now);
    }

    fn is_call_running(&self, id: &ToolCallId) -> bool {
        self.board.open_call_report(id).is_some_and(|report| report.status == Status::InProgress)
    }

    /// Ends a call exactly once. Later changes are dropped and counted. Ends the call's child calls
    /// first, withdraws the requests of the call, and ends its terminals.
    pub fn finish_call(&mut self, id: &ToolCallId, mut end: CallEnd, now: Timestamp) {
        if self.is_closing && end.reason == Some(CallEndReason::Turn) {
            end.reason = Some(CallEndReason::Shutdown);
        }
        let reason = end.reason.unwrap_or(CallEndReason::Dropped);
        for descendant in self.board.descendants(id) {
            self.finish_call_without_children(&descendant, CallEnd::cancelled(reason), now);
        }
        self.finish_call_without_children(id, end, now);
    }

    fn finish_call_without_children(&mut self, id: &ToolCallId, end: CallEnd, now: Timestamp) {
        self.withdraw_call_requests(id);
        let terminals = self.board.terminals_that_end_with_call(id);
        for terminal in &terminals {
            let report = self.board.terminal(terminal);
            if report.is_some_and(|report| report.exit.is_none()) {
                self.exit_terminal(terminal, TerminalExit::default(), now);
            }
        }
        let patch = self.board.finish_call(id, end, now);
        self.enqueue_call_patch(id, patch, FirstReportTiming::NotFirst, now);
        terminals.iter().for_each(|terminal| self.board.forget_terminal(terminal));
    }

    /// Ends a turn: ends its open calls, then enqueues the response to the prompt.
    pub fn end_turn(&mut self, turn: &TurnId, reason: CallEndReason, now: Timestamp) {
        self.remove_turn_rules();
        self.end_calls_and_respond(turn, reason, now);
    }

    /// Ends a turn that has not started, because the client withdrew its prompt. The rules that
    /// apply until the running turn ends are kept.
    pub fn end_unstarted_turn(&mut self, turn: &TurnId, now: Timestamp) {
        self.end_calls_and_respond(turn, CallEndReason::User, now);
    }

    fn end_calls_and_respond(&mut self, turn: &TurnId, reason: CallEndReason, now: Timestamp) {
        self.end_open_calls(Some(turn), reason, now);
        if self.ended_turns.len() >= limits::MAX_ENDED_TURNS {
            self.ended_turns.pop_front();
        }
        self.ended_turns.push_back(turn.clone());
        self.traces.remove(turn);
        self.enqueue_after_messages(
            OutboxItem::PromptResponse(turn.clone()),
            FirstReportTiming::NotFirst,
            now,
        );
    }

    /// Enqueues the response to a request other than a prompt. The response is sent after all items
    /// that were enqueued before it. The response does not end a turn.
    pub fn enqueue_agent_response(&mut self, response: AgentResponseId, now: Timestamp) {
        self.enqueue_after_messages(
            OutboxItem::AgentResponse(response),
            FirstReportTiming::NotFirst,
            now,
        );
    }

    /// Enqueues a request to the client other than a permission request. The request is sent after
    /// all items that were enqueued before it.
    pub fn enqueue_agent_request(&mut self, request: AgentRequestId, now: Timestamp) {
        self.enqueue_after_messages(
            OutboxItem::AgentRequest(request),
            FirstReportTiming::NotFirst,
            now,
        );
    }

    /// Withdraws a request that was not sent yet, because its result is no longer needed.
    pub fn drop_unsent_agent_request(&mut self, request: AgentRequestId) {
        self.outbox.remove_agent_request(request);
    }

    /// Marks the session as closing. From now on, calls that end with their turn have the reason
    /// [`CallEndReason::Shutdown`].
    pub fn mark_closing(&mut self) {
        self.is_closing = true;
    }

    /// Returns whether the session is closing.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Ends all open calls, of every turn.
    pub fn end_all_calls(&mut self, reason: CallEndReason, now: Timestamp) {
        self.end_open_calls(None, reason, now);
    }

    /// Ends the open calls of a turn and their child calls. If `turn` is `None`, ends the open
    /// calls of all turns.
    fn end_open_calls(&mut self, turn: Option<&TurnId>, reason: CallEndReason, now: Timestamp) {
        for id in self.board.open_calls(turn) {
            // The call may already have ended with its parent call.
            if self.board.open_call_report(&id).is_some() {
                self.finish_call(&id, CallEnd::cancelled(reason), now);
            }
        }
    }

    /// Returns the total number of ended calls and permission requests.
    #[cfg(feature = "tokio")]
    pub(crate) fn ended_call_and_request_count(&self) -> u64 {
        self.board.ended_count() + self.permissions.ended_request_count()
    }

    /// Returns the board, which holds all open calls and terminals.
    #[must_use]
    pub fn board(&self) -> &CallBoard {
        &self.board
    }

    /// Returns the usage counters of ended calls and sent updates.
    #[must_use]
    pub fn call_usage(&self) -> SessionCallUsage {
        let tools = self.board.history().usage_by_tool();
        let tools = tools.map(|(name, usage)| (name.to_owned(), usage.clone())).collect();
        let (out, on) = (self.outbox.counters(), self.board.rejected_change_counters());
        let updates = UpdateCounts {
            offered: out.enqueued + on.late_changes,
            joined: out.merged,
            sent: out.handed_over - out.undelivered,
            dropped: out.undelivered + on.late_changes,
        };
        SessionCallUsage { tools, updates }
    }

    /// Returns the outbox, which holds the waiting items.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns the next item that is due at `now`, or `None`. The caller must send this item before
    /// it takes the next item.
    pub fn poll(&mut self, now: Instant) -> Option<OutboxItem> {
        self.outbox.poll(now)
    }

    /// Returns the time when the next item is due, or `None` if no item waits. Call
    /// [`Session::poll`] again at that time. Any change of the session may make this time earlier.
    #[must_use]
    pub fn next_poll_deadline(&self) -> Option<Instant> {
        self.outbox.next_deadline()
    }

    /// Makes all waiting items due. Call this method at the end of a turn or of the connection.
    pub fn make_all_items_due(&mut self, now: Instant) {
        self.outbox.make_all_items_due(now);
    }

    /// Counts an item that [`poll`](Self::poll) returned and that could not be sent.
    pub fn record_undelivered_item(&mut self) {
        self.outbox.record_undelivered_item();
    }

    /// Formats a path for users of this session: relative to `cwd` if the path is inside `cwd`, and
    /// absolute otherwise.
    #[must_use]
    pub fn display_path(&self, path: &Path) -> String {
        display_path(path, &self.cwd)
    }

    fn is_call_awaiting_permission(&self, id: &ToolCallId) -> bool {
        self.permissions.is_call_awaiting_permission(id)
    }

    fn enqueue_call_patch(
        &mut self,
        id: &ToolCallId,
        patch: Option<ToolCallPatch>,
        is_first: FirstReportTiming,
        now: Timestamp,
    ) -> bool {
        let Some(patch) = patch else { return false };
        // The parent call must be reported before any item refers to it.
        if let Some(parent) = patch.meta.as_ref().and_then(|meta| meta.parent.as_deref()) {
            self.outbox.advance_held_report_deadline(
                &ToolCallId::new(parent),
                now.monotonic,
                now.monotonic,
            );
        }
        self.enqueue_after_messages(OutboxItem::ToolCall(id.clone(), patch), is_first, now);
        true
    }
}

/// Formats a path relative to `cwd` if the path is inside `cwd`, and unchanged otherwise. Control
/// characters are made visible.
#[must_use]
pub fn display_path(path: &Path, cwd: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => escape_invisible(&path_text(rest)),
        Err(_) => escape_invisible(&path_text(path)),
    }
}
