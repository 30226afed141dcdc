//! One session's calls, turn, requests and outbox as one state machine, without any I/O.
//!
//! Whatever happens to a call goes through here, so that every change is legal (the board),
//! ordered (the outbox), and permitted (the rules). Time comes in with each step.

mod permissions;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acp_types::{
    CallEndReason, CallMeta, MessageChunk, Plan, Progress, SessionState, Status, TerminalExit,
    TerminalId, TerminalPatch, ToolCallId, ToolCallPatch, TraceContext, TurnId,
};
use callboard_text::{head, path_text, visible};

use crate::board::{CallBoard, CallEnd, Timestamp};
use crate::config::SessionConfig;
use crate::ids::{ClientRequestId, ResponseId};
use crate::limits::{self, MAX_MESSAGE_CHUNK_BYTES, MAX_PROGRESS_MESSAGE_BYTES};
use crate::message_stream::MessageStreams;
use crate::outbox::{FirstReportTiming, Outbox, OutboxItem};
use crate::sanitize::{Redactor, Secrets};
use crate::title;
use crate::usage::{SessionUsage, UpdateCounts};
use permissions::SessionPermissions;

pub use permissions::PermissionRequest;
#[cfg(feature = "tokio")]
pub(crate) use permissions::{AnsweredBy, PolicyCheck};

/// The state of one session: its calls and terminals, what it sends, and what may run.
///
/// It does no I/O and reads no clock. Whoever owns it passes the time in, [`Moment`] by moment,
/// and does what the following says; with the feature `tokio`, `SessionHandle` and `drive` do.
///
/// # A call
///
/// - [`announce`](Self::announce) posts it, pending. Its id is used up in this session from then on.
/// - [`permit`](Self::permit) decides whether it may run. On
///   [`Permit::Asked`](crate::Permit::Asked) the client is asked, and [`answer`](Self::answer)
///   returns the decision; where that is [`Outcome::Outdated`](crate::Outcome::Outdated), permit it
///   again. Without a [`Grant`](crate::Grant), [`finish`](Self::finish) it.
/// - [`start`](Self::start), then any number of [`change`](Self::change),
///   [`progress`](Self::progress), [`pause`](Self::pause) and so on.
/// - [`finish`](Self::finish) ends it. Whatever is told of it later changes nothing and is counted
///   as [`late`](crate::Counters::late).
///
/// [`end_turn`](Self::end_turn) ends what is open of a turn before the turn is answered.
///
/// # What to do after every change
///
/// - [`poll`](Self::poll) until it returns nothing, and hand each item to the client before the
///   next is taken: their order is the order of the protocol.
/// - Of an item that cannot be delivered, tell [`count_undelivered`](Self::count_undelivered). A
///   request that cannot be is answered: an [`Item::Permission`] by [`answer`](Self::answer) with
///   [`Answer::Failed`](crate::Answer::Failed), an [`Item::Reason`] by [`explain`](Self::explain)
///   with nothing.
/// - Wait until [`poll_timeout`](Self::poll_timeout), or until the next change, and poll again.
///   Items wait there because a client is not told the same thing too often; meanwhile they join.
/// - After [`answer`](Self::answer), [`add_rule`](Self::add_rule) and [`revoke`](Self::revoke), save
///   what [`take_rule_changes`](Self::take_rule_changes) returns.
///
/// At the end: [`close`](Self::close), [`end_all`](Self::end_all), [`flush`](Self::flush), then poll
/// until nothing is left.
///
/// # What nobody else can do
///
/// Every patch is made here. The board and the outbox can be read, not changed:
///
/// ```
/// # use acp_lifecycle::{End, Item, Moment, Session};
/// # use acp_types::ToolCallPatch;
/// # let now = Moment { at: std::time::Instant::now(), wall: std::time::SystemTime::now() };
/// let mut session = Session::new("/project");
/// session.announce(&"c".into(), &"t".into(), ToolCallPatch::new().title("Do it"), now);
/// session.finish(&"c".into(), End::completed(), now);
/// session.finish(&"c".into(), End::completed(), now);
/// // The announcement, and one end.
/// assert_eq!(std::iter::from_fn(|| session.poll(now.at)).count(), 2);
/// assert_eq!(session.board().counters().late, 1);
/// ```
///
/// ```compile_fail,E0624
/// # use acp_lifecycle::{End, Moment, Session};
/// # fn twice(session: &mut Session, now: Moment) {
/// session.board().finish(&"c".into(), End::completed(), now);
/// # }
/// ```
///
/// ```compile_fail,E0616
/// # use acp_lifecycle::{End, Moment, Session};
/// # fn twice(session: &mut Session, now: Moment) {
/// session.outbox.len();
/// # }
/// ```
///
/// ```compile_fail,E0624
/// # use acp_lifecycle::{End, Item, Moment, Outbox, Session};
/// # fn twice(outbox: &mut Outbox, item: Item, now: Moment) {
/// outbox.offer(item, unreachable!(), now.at);
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    board: CallBoard,
    outbox: Outbox,
    permissions: SessionPermissions,
    cwd: PathBuf,
    shows_terminals: bool,
    /// The newest turns that were answered.
    ended_turns: VecDeque<TurnId>,
    message_stream: MessageStreams,
    is_closing: bool,
    /// The traces of open turns that have one.
    traces: HashMap<TurnId, TraceContext>,
}

impl Session {
    /// Makes the state of a new session whose relative paths begin at `cwd`.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            board: CallBoard::default(),
            outbox: Outbox::default(),
            permissions: SessionPermissions::default(),
            cwd: cwd.into(),
            shows_terminals: false,
            ended_turns: VecDeque::new(),
            message_stream: MessageStreams::default(),
            is_closing: false,
            traces: HashMap::new(),
        }
    }

    /// Changes the settings.
    #[must_use]
    pub fn with_config(mut self, config: SessionConfig) -> Self {
        self.board.set_config(config);
        self.outbox.set_update_interval(config.update_interval);
        self
    }

    /// Sets what must never be shown, from now on.
    pub fn set_secrets(&mut self, secrets: Secrets) {
        self.board.set_secrets(secrets);
    }

    /// Returns what must never be shown.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        self.board.secrets()
    }

    /// Says whether the client shows the output of commands in terminals; if not, as text.
    pub fn set_shows_terminals(&mut self, shows: bool) {
        self.shows_terminals = shows;
    }

    /// Returns whether the client shows the output of commands in terminals, so that they should
    /// write to one.
    #[must_use]
    pub fn shows_terminals(&self) -> bool {
        self.shows_terminals
    }

    /// Notes the trace that a turn belongs to; every call announced in it after this tells it.
    ///
    /// At most 64 open turns have one; of a further one, none is told.
    pub fn set_turn_trace(&mut self, turn: &TurnId, trace: TraceContext) {
        if !trace.is_empty() && self.traces.len() < limits::MAX_TRACED_TURNS {
            self.traces.insert(turn.clone(), trace);
        }
    }

    /// Posts a call of a turn. It begins pending, whatever `patch` says.
    ///
    /// Returns whether it was posted: not in a turn that was answered, and not under an id that is
    /// or was in use, which is counted as illegal.
    pub fn announce(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Timestamp,
    ) -> bool {
        self.announce_with(id, turn, patch, FirstReportTiming::Immediate, now)
    }

    /// Posts a call whose arguments still stream; `patch` has the title for the time until it has
    /// one of its own. Its first report waits for [`Session::report_within`], at most 200 ms, but goes
    /// before anything that has to stand behind it.
    pub fn announce_streamed(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Timestamp,
    ) -> bool {
        self.announce_with(id, turn, patch, FirstReportTiming::Held, now)
    }

    /// Lets the first report of a streamed call wait no longer than this from now on: its title is
    /// known.
    pub fn limit_first_report_delay(&mut self, id: &ToolCallId, wait: Duration, now: Timestamp) {
        self.outbox.advance_held_report(id, now.monotonic + wait, now.monotonic);
    }

    fn announce_with(
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
        let patch = self.board.announce(id, turn, patch, now);
        self.enqueue_call(id, patch, is_first, now)
    }

    /// Changes an open call. Its status is left alone; empty titles and names, nulls and what is
    /// over a bound are left out.
    pub fn update_call(&mut self, id: &ToolCallId, patch: ToolCallPatch, now: Timestamp) {
        let patch = self.board.update_call(id, patch);
        self.enqueue_call(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Changes the metadata of an open call.
    pub fn update_call_meta(
        &mut self,
        id: &ToolCallId,
        change: impl FnOnce(&mut CallMeta),
        now: Timestamp,
    ) {
        let patch = self.board.update_call_meta(id, change);
        self.enqueue_call(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Sets or removes what follows a call's title until it ends, as one short visible line. Another
    /// title keeps it. Nothing follows a title while the client is asked for permission: what
    /// is approved is the call, not how far it is.
    pub fn set_subtitle(&mut self, id: &ToolCallId, subtitle: Option<&str>, now: Timestamp) {
        if !self.awaits_permission(id) {
            let patch = self.board.set_subtitle(id, subtitle);
            self.enqueue_call(id, patch, FirstReportTiming::NotFirst, now);
        }
    }

    /// Tells how far a call is: in its metadata, and behind its title.
    pub fn report_progress(&mut self, id: &ToolCallId, progress: Progress, now: Timestamp) {
        let subtitle = title::progress_text(&progress);
        // A secret must not be cut before it is found.
        let message = progress.message.as_deref().map(|text| {
            let shown = self.board.secrets().redact(text);
            head(&shown, MAX_PROGRESS_MESSAGE_BYTES).to_owned()
        });
        let told = progress.with_message(message);
        let Some(mut patch) = self.board.update_call_meta(id, |meta| meta.progress = Some(told))
        else {
            return;
        };
        if !self.awaits_permission(id)
            && let Some(shown) = self.board.set_subtitle(id, Some(&subtitle))
        {
            patch = patch.then(shown);
        }
        self.enqueue_call(id, Some(patch), FirstReportTiming::NotFirst, now);
    }

    /// Starts a call. Returns whether it runs now; a call that has ended does not.
    pub fn start(&mut self, id: &ToolCallId, now: Timestamp) -> bool {
        let patch = self.board.start(id, now);
        // Only the first start brings the time of it.
        let first = patch.as_ref().is_some_and(|patch| patch.meta.is_some());
        self.enqueue_call(
            id,
            patch,
            if first { FirstReportTiming::Immediate } else { FirstReportTiming::NotFirst },
            now,
        )
    }

    /// Pauses a running call; [`Session::start`] goes on with it.
    pub fn pause(&mut self, id: &ToolCallId, now: Timestamp) {
        let patch = self.board.pause(id);
        self.enqueue_call(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Takes back that a call began to run, because it did nothing.
    #[cfg(feature = "tokio")]
    pub(crate) fn undo_start(&mut self, id: &ToolCallId, now: Timestamp) {
        let patch = self.board.return_to_pending(id);
        self.enqueue_call(id, patch, FirstReportTiming::NotFirst, now);
    }

    /// Does what somebody else's agent says of a call, in whatever order it says it: posts the
    /// call if it is not known, changes it, and takes the step to `patch.status` if that is legal.
    ///
    /// Nothing happens to a call that has ended or belongs to a turn that was answered, and what
    /// is not legal is counted. It permits nothing: what runs elsewhere is only told here.
    pub fn upsert(&mut self, id: &ToolCallId, turn: &TurnId, patch: ToolCallPatch, now: Timestamp) {
        let (status, reason) = (patch.status, patch.meta.as_ref().and_then(|meta| meta.reason));
        let mut last = ToolCallPatch::new();
        if !self.board.is_id_used(id) {
            self.announce(id, turn, patch, now);
        } else if status.is_some_and(Status::is_final) {
            last = patch;
        } else {
            self.update_call(id, patch, now);
        }
        match status {
            // One that is said to have completed has run, even if nobody said so.
            Some(Status::InProgress | Status::Completed) if !self.is_running(id) => {
                self.start(id, now);
            }
            Some(Status::Paused) => self.pause(id, now),
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
        self.finish(id, end.with_patch(last), now);
    }

    fn is_running(&self, id: &ToolCallId) -> bool {
        self.board.tool_call(id).is_some_and(|report| report.status == Status::InProgress)
    }

    /// Ends a call, exactly once; what comes later is counted. Its requests are withdrawn, the
    /// terminals that it shows end with it, and so, before it, do the calls that it made.
    pub fn finish(&mut self, id: &ToolCallId, mut end: CallEnd, now: Timestamp) {
        if self.is_closing && end.reason == Some(CallEndReason::Turn) {
            end.reason = Some(CallEndReason::Shutdown);
        }
        let reason = end.reason.unwrap_or(CallEndReason::Dropped);
        for descendant in self.board.descendants(id) {
            self.finish_one(&descendant, CallEnd::cancelled(reason), now);
        }
        self.finish_one(id, end, now);
    }

    fn finish_one(&mut self, id: &ToolCallId, end: CallEnd, now: Timestamp) {
        self.withdraw_call_requests(id);
        let terminals = self.board.call_terminals(id);
        for terminal in &terminals {
            let report = self.board.terminal(terminal);
            if report.is_some_and(|report| report.exit.is_none()) {
                self.end_terminal(terminal, TerminalExit::default(), now);
            }
        }
        let patch = self.board.finish(id, end, now);
        self.enqueue_call(id, patch, FirstReportTiming::NotFirst, now);
        terminals.iter().for_each(|terminal| self.board.forget_terminal(terminal));
    }

    /// Opens a terminal. It must be open before a call shows it.
    pub fn open_terminal(&mut self, id: &TerminalId, patch: TerminalPatch, now: Timestamp) {
        let patch = self.board.open_terminal(id, patch);
        self.enqueue_terminal(id, patch, now);
    }

    /// Tells more of an open terminal: its command, its size.
    pub fn update_terminal(&mut self, id: &TerminalId, patch: TerminalPatch, now: Timestamp) {
        let patch = self.board.update_terminal(id, patch);
        self.enqueue_terminal(id, patch, now);
    }

    /// Appends output to an open terminal.
    pub fn append_terminal_output(&mut self, id: &TerminalId, bytes: &[u8], now: Timestamp) {
        let patch = self.board.append_terminal_output(id, bytes);
        self.enqueue_terminal(id, patch, now);
    }

    /// Notes that so many bytes of the output of an open terminal are left out here.
    pub fn add_terminal_gap(&mut self, id: &TerminalId, bytes: u64, now: Timestamp) {
        let patch = self.board.skip_terminal_output(id, bytes);
        self.enqueue_terminal(id, patch, now);
    }

    /// Ends a terminal.
    pub fn end_terminal(&mut self, id: &TerminalId, exit: TerminalExit, now: Timestamp) {
        let patch = self.board.exit_terminal(id, exit);
        self.enqueue_terminal(id, patch, now);
    }

    /// Says a piece of a message.
    ///
    /// The end of the piece may be the beginning of a secret. Then it is held back until the next
    /// piece, or until something else is sent that stands behind it.
    pub fn send_message_chunk(&mut self, mut chunk: MessageChunk, now: Timestamp) {
        let (before, text) = self.message_stream.push(&chunk, self.board.secrets());
        self.enqueue_chunk(before, now.monotonic);
        chunk.text = text;
        self.enqueue_chunk(Some(chunk), now.monotonic);
    }

    /// Offers text in pieces that a streamed update can hold; a model may say any length at once.
    fn enqueue_chunk(&mut self, chunk: Option<MessageChunk>, at: Instant) {
        let Some(MessageChunk { role, message, text }) = chunk else { return };
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(head(rest, MAX_MESSAGE_CHUNK_BYTES).len());
            let chunk = MessageChunk { role, message: message.clone(), text: piece.to_owned() };
            self.outbox.enqueue(OutboxItem::Chunk(chunk), FirstReportTiming::NotFirst, at);
            rest = behind;
        }
    }

    /// Sends a plan, an empty one too.
    pub fn send_plan(&mut self, mut plan: Plan, now: Timestamp) {
        Redactor::new(self.secrets()).redact_plan(&mut plan);
        self.enqueue(OutboxItem::Plan(plan), FirstReportTiming::NotFirst, now);
    }

    /// Sends another part of what a client may know of the session. Of what waits of the same kind,
    /// the last is sent.
    pub fn send_state(&mut self, mut state: SessionState, now: Timestamp) {
        if Redactor::new(self.secrets()).redact_state(&mut state) {
            self.enqueue(OutboxItem::State(state), FirstReportTiming::NotFirst, now);
        }
    }

    /// Ends a turn: every open call of it, then, behind all of that, the answer.
    pub fn end_turn(&mut self, turn: &TurnId, reason: CallEndReason, now: Timestamp) {
        self.end_open_calls(Some(turn), reason, now);
        self.end_turn_rules();
        if self.ended_turns.len() >= limits::MAX_ENDED_TURNS {
            self.ended_turns.pop_front();
        }
        self.ended_turns.push_back(turn.clone());
        self.traces.remove(turn);
        self.enqueue(OutboxItem::PromptResponse(turn.clone()), FirstReportTiming::NotFirst, now);
    }

    /// Offers the response to a request that is no prompt: it goes out behind everything that was
    /// offered before, and no turn ends.
    pub fn respond(&mut self, response: ResponseId, now: Timestamp) {
        self.enqueue(OutboxItem::ClientResponse(response), FirstReportTiming::NotFirst, now);
    }

    /// Offers a request to the client that is about no permission: it goes out behind everything
    /// that was offered before.
    pub fn request_client(&mut self, request: ClientRequestId, now: Timestamp) {
        self.enqueue(OutboxItem::ClientRequest(request), FirstReportTiming::NotFirst, now);
    }

    /// Takes such a request back that has not been handed over: nobody waits for it any more.
    pub fn withdraw_request(&mut self, request: ClientRequestId) {
        self.outbox.withdraw_request(request);
    }

    /// Says that the session is closing: from now on, what would end with its turn ends for that.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns whether the session is closing.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Ends every open call, of every turn.
    pub fn end_all_calls(&mut self, reason: CallEndReason, now: Timestamp) {
        self.end_open_calls(None, reason, now);
    }

    /// Ends the open calls of a turn, of every turn without one, and those that they made.
    fn end_open_calls(&mut self, turn: Option<&TurnId>, reason: CallEndReason, now: Timestamp) {
        for id in self.board.open_calls(turn) {
            // It may have ended with the call that made it.
            if self.board.tool_call(&id).is_some() {
                self.finish(&id, CallEnd::cancelled(reason), now);
            }
        }
    }

    /// Returns how many calls and permission requests came to an end, ever.
    #[cfg(feature = "tokio")]
    pub(crate) fn ended_call_and_request_count(&self) -> u64 {
        self.board.ended_count() + self.permissions.ended_requests()
    }

    /// Returns every open call and terminal.
    #[must_use]
    pub fn board(&self) -> &CallBoard {
        &self.board
    }

    /// Sums up the calls that have ended, and what was sent of them.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        let tools = self.board.history().usage_by_tool();
        let tools = tools.map(|(name, usage)| (name.to_owned(), usage.clone())).collect();
        let (out, on) = (self.outbox.counters(), self.board.counters());
        let updates = UpdateCounts {
            offered: out.enqueued + on.late_changes,
            joined: out.merged,
            sent: out.handed_over - out.undelivered,
            dropped: out.undelivered + on.late_changes,
        };
        SessionUsage { tools, updates }
    }

    /// Returns what waits to be sent.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Takes the next item that is due at `now`, if there is one. The caller sends it before it
    /// takes another.
    pub fn poll(&mut self, now: Instant) -> Option<OutboxItem> {
        self.outbox.poll(now)
    }

    /// Returns when the next item is due, if one waits: then, [`Session::poll`] again. Every change
    /// of the session may make it earlier.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.outbox.next_deadline()
    }

    /// Makes everything that waits due: at the end of a turn or of the connection.
    pub fn flush(&mut self, now: Instant) {
        self.outbox.flush(now);
    }

    /// Counts an item that was taken and could not be sent.
    pub fn count_undelivered(&mut self) {
        self.outbox.count_undelivered();
    }

    /// Shows a path as people of this session call it: relative to `cwd` where it lies beneath.
    #[must_use]
    pub fn display_path(&self, path: &Path) -> String {
        display_path(path, &self.cwd)
    }

    fn awaits_permission(&self, id: &ToolCallId) -> bool {
        self.permissions.awaits_permission(id)
    }

    fn enqueue_call(
        &mut self,
        id: &ToolCallId,
        patch: Option<ToolCallPatch>,
        is_first: FirstReportTiming,
        now: Timestamp,
    ) -> bool {
        let Some(patch) = patch else { return false };
        // A call is reported before anything refers to it.
        if let Some(parent) = patch.meta.as_ref().and_then(|meta| meta.parent.as_deref()) {
            self.outbox.advance_held_report(&ToolCallId::new(parent), now.monotonic, now.monotonic);
        }
        self.enqueue(OutboxItem::ToolCall(id.clone(), patch), is_first, now);
        true
    }

    /// Offers what stands behind all that was said before.
    fn enqueue(&mut self, item: OutboxItem, is_first: FirstReportTiming, now: Timestamp) {
        self.enqueue_at(item, is_first, now.monotonic);
    }

    fn enqueue_at(&mut self, item: OutboxItem, is_first: FirstReportTiming, at: Instant) {
        let before = self.message_stream.flush();
        self.enqueue_chunk(before, at);
        self.outbox.enqueue(item, is_first, at);
    }

    fn enqueue_terminal(&mut self, id: &TerminalId, patch: Option<TerminalPatch>, now: Timestamp) {
        if let Some(patch) = patch {
            self.outbox.enqueue(
                OutboxItem::Terminal(id.clone(), patch),
                FirstReportTiming::NotFirst,
                now.monotonic,
            );
        }
    }
}

/// Shows a path relative to `cwd` where it lies beneath, whole otherwise, and visible in any case.
#[must_use]
pub fn display_path(path: &Path, cwd: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => visible(&path_text(rest)),
        Err(_) => visible(&path_text(path)),
    }
}
