//! The board: every open call and terminal of a session, and the only maker of patches.
//!
//! It knows which steps are legal. What is offered to a call that has ended is dropped and
//! counted. It reads no clock; every change brings its [`Moment`].

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use acp_types::{
    CallMeta, Content, ContentPatch, Exit, Reason, Status, TerminalId, TerminalPatch,
    TerminalReport, ToolCallId, ToolCallPatch, ToolCallReport, kind,
};
use serde_json::json;

use crate::history::History;
use crate::sanitize::{self, Losses, Secrets};
use crate::terminals::Terminals;
use crate::{limits, title};

/// When something happens: by the clock that only goes forward, and by the clock on the wall.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// For durations and deadlines.
    pub at: Instant,
    /// For people.
    pub wall: SystemTime,
}

/// How a call ends.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The final status.
    pub status: Status,
    /// Why, unless it completed.
    pub reason: Option<Reason>,
    /// What else changes with it.
    pub patch: ToolCallPatch,
}

impl End {
    /// The call did what it was asked to.
    #[must_use]
    pub fn completed() -> Self {
        Self { status: Status::Completed, reason: None, patch: ToolCallPatch::new() }
    }

    /// The call did not do what it was asked to.
    #[must_use]
    pub fn failed(reason: Reason) -> Self {
        Self { status: Status::Failed, reason: Some(reason), patch: ToolCallPatch::new() }
    }

    /// The call was ended before it was done.
    #[must_use]
    pub fn cancelled(reason: Reason) -> Self {
        Self { status: Status::Cancelled, reason: Some(reason), patch: ToolCallPatch::new() }
    }

    /// Adds what else changes.
    #[must_use]
    pub fn with(mut self, patch: ToolCallPatch) -> Self {
        self.patch = self.patch.then(patch);
        self
    }
}

/// What was counted and not done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Changes offered to a call or terminal that had ended, or that never was.
    pub late: u64,
    /// Steps offered that the status did not allow.
    pub illegal: u64,
    /// Items of content over a call's bounds.
    pub content_dropped: u64,
    /// Fields that meant nothing: an empty title, a progress that is no number, an unknown parent.
    pub fields_dropped: u64,
}

/// Every open call and terminal of one session.
#[derive(Debug, Default)]
pub struct Board {
    calls: HashMap<ToolCallId, Call>,
    terminals: Terminals,
    history: History,
    counters: Counters,
    secrets: Secrets,
}

#[derive(Debug)]
struct Call {
    report: ToolCallReport,
    turn: String,
    announced: Instant,
    started: Option<Instant>,
    /// The title without what follows it while the call runs.
    base: String,
    subtitle: Option<String>,
    content_bytes: usize,
    content_dropped: u64,
    losses: Losses,
    /// The failed call whose tool and arguments its own are.
    repeats: Option<String>,
}

impl Board {
    /// Sets what must never be shown, from now on.
    pub fn set_secrets(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// Returns what must never be shown.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns whether an open call shows everything that it was told: nothing of it was redacted,
    /// cut or left out.
    #[must_use]
    pub fn is_whole(&self, id: &ToolCallId) -> bool {
        let is_whole = |call: &Call| !call.losses.is_any() && call.content_dropped == 0;
        self.calls.get(id).is_some_and(is_whole) && self.redacted_in_terminals(id) == 0
    }

    /// Posts a call. It begins pending, whatever `patch` says.
    ///
    /// Returns nothing for an id that is or was in use, which is counted as illegal.
    pub fn announce(
        &mut self,
        id: &ToolCallId,
        turn: &str,
        patch: ToolCallPatch,
        now: Moment,
    ) -> Option<ToolCallPatch> {
        if self.has_seen(id) {
            self.counters.illegal += 1;
            return None;
        }
        let call = Call {
            report: ToolCallReport::new(id.clone()),
            turn: turn.to_owned(),
            announced: now.at,
            started: None,
            base: String::new(),
            subtitle: None,
            content_bytes: 0,
            content_dropped: 0,
            losses: Losses::default(),
            repeats: None,
        };
        self.calls.insert(id.clone(), call);
        let mut patch = self.legal(id, patch)?;
        patch.status = Some(Status::Pending);
        let fallback = || patch.name.clone().unwrap_or_else(|| "Tool call".to_owned());
        let base = patch.title.get_or_insert_with(fallback);
        self.open(id)?.base.clone_from(base);
        Some(self.apply(id, patch))
    }

    /// Changes an open call. Its status is left alone; empty titles and names, nulls and what is
    /// over a bound are left out.
    pub fn change(&mut self, id: &ToolCallId, patch: ToolCallPatch) -> Option<ToolCallPatch> {
        let patch = self.legal(id, patch)?;
        (!patch.is_empty()).then(|| self.apply(id, patch))
    }

    /// Changes the metadata of an open call.
    pub fn change_meta(
        &mut self,
        id: &ToolCallId,
        change: impl FnOnce(&mut CallMeta),
    ) -> Option<ToolCallPatch> {
        let mut meta = self.open(id)?.report.meta.clone();
        change(&mut meta);
        self.change(id, ToolCallPatch::new().meta(meta))
    }

    /// Sets or removes what follows an open call's title until it ends, as one short visible
    /// line. The title itself is the base: setting another keeps the subtitle.
    pub fn subtitle(&mut self, id: &ToolCallId, subtitle: Option<&str>) -> Option<ToolCallPatch> {
        self.open(id)?;
        let call = self.calls.get_mut(id)?;
        let subtitle = subtitle.map(|subtitle| self.secrets.redact(subtitle));
        call.subtitle = subtitle.as_deref().and_then(title::one_line);
        let title = title::compose(&call.base, call.subtitle.as_deref());
        (title != call.report.title).then(|| self.apply(id, ToolCallPatch::new().title(title)))
    }

    /// Tells people something about an open call, once, and though its content be full.
    pub(crate) fn note(&mut self, id: &ToolCallId, text: &str) -> Option<ToolCallPatch> {
        let note = Content::text(text);
        let is_new = !self.open(id)?.report.content.contains(&note);
        is_new.then(|| self.apply(id, ToolCallPatch::new().append(note)))
    }

    /// Starts a pending call, or goes on with a paused one.
    pub fn start(&mut self, id: &ToolCallId, now: Moment) -> Option<ToolCallPatch> {
        let call = self.open(id)?;
        if !call.report.status.may_become(Status::InProgress)
            || call.report.status == Status::InProgress
        {
            self.counters.illegal += 1;
            return None;
        }
        let mut patch = ToolCallPatch::new().status(Status::InProgress);
        if call.started.is_none() {
            call.started = Some(now.at);
            let mut meta = call.report.meta.clone();
            meta.started_at = Some(now.wall);
            meta.queued_ms = Some(millis(now.at.saturating_duration_since(call.announced)));
            meta.arriving.clear();
            patch = patch.meta(meta);
        }
        Some(self.apply(id, patch))
    }

    /// Pauses a running call: it waits for something other than permission, and can go on by
    /// [`Board::start`]. Its duration goes on too.
    pub fn pause(&mut self, id: &ToolCallId) -> Option<ToolCallPatch> {
        if self.open(id)?.report.status != Status::InProgress {
            self.counters.illegal += 1;
            return None;
        }
        Some(self.apply(id, ToolCallPatch::new().status(Status::Paused)))
    }

    /// Ends a call, exactly once: a second end is late, and counted.
    ///
    /// A call that never ran cannot complete; it fails instead. One that does not complete tells
    /// whether it may have acted: if it ran and is of a kind that changes something.
    pub fn finish(&mut self, id: &ToolCallId, end: End, now: Moment) -> Option<ToolCallPatch> {
        let mut patch = self.legal(id, end.patch)?;
        let output_bytes = self.output_bytes(id);
        let call = self.open(id)?;
        if call.subtitle.take().is_some() {
            patch.title = Some(call.base.clone());
        }
        let (mut status, mut reason) = (end.status, end.reason);
        if !status.is_final() || !call.report.status.may_become(status) {
            (status, reason) = (Status::Failed, reason.or(Some(Reason::Error)));
        }
        if let Some(reason) = reason
            && call.report.raw_output.is_none()
            && patch.raw_output.is_none()
        {
            patch.raw_output = Some(json!({ "error": reason.sentence(), "code": reason }));
        }
        let mut meta = patch.meta.take().unwrap_or_else(|| call.report.meta.clone());
        call.time(&mut meta, now);
        meta.output_bytes = output_bytes.or(meta.output_bytes);
        meta.reason = reason;
        meta.arriving.clear();
        if status != Status::Completed {
            let kind = patch.kind.unwrap_or(call.report.kind);
            meta.may_have_acted = Some(call.started.is_some() && kind::may_act(kind));
        }
        if call.content_dropped > 0 {
            meta.dropped.get_or_insert_default().items = call.content_dropped;
        }
        patch.status = Some(status);
        if call.report.meta != meta {
            patch.meta = Some(meta);
        }
        // A control that a client can no longer use is no longer offered.
        if call.report.capabilities.cancel {
            patch.capabilities = Some(acp_types::Capabilities::default());
        }
        let patch = self.apply(id, patch);
        if let Some(call) = self.calls.remove(id) {
            self.history.insert(call.report);
        }
        Some(patch)
    }

    /// Opens a terminal.
    pub fn open_terminal(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
    ) -> Option<TerminalPatch> {
        let patch = self.terminals.open(id, patch, &self.secrets);
        self.counters.illegal += u64::from(patch.is_none());
        patch
    }

    /// Tells more of an open terminal: its command, its size.
    pub fn describe_terminal(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
    ) -> Option<TerminalPatch> {
        let patch = self.terminals.change(id, patch, &self.secrets);
        self.in_time(patch)
    }

    /// Returns the terminals that an open call shows.
    #[must_use]
    pub fn terminals_of(&self, id: &ToolCallId) -> Vec<TerminalId> {
        let content = self.calls.get(id).map(|call| call.report.content.as_slice());
        let shown = content.unwrap_or_default().iter().filter_map(|item| match item {
            Content::Terminal(id) => Some(id.clone()),
            _ => None,
        });
        shown.collect()
    }

    /// Returns how many bytes the terminals of an open call wrote, if it has any.
    fn output_bytes(&self, id: &ToolCallId) -> Option<u64> {
        let terminals = self.terminals_of(id);
        let totals = terminals.iter().filter_map(|id| Some(self.terminal(id)?.output.total()));
        totals.reduce(u64::saturating_add)
    }

    /// Appends output to an open terminal.
    pub fn terminal_output(&mut self, id: &TerminalId, bytes: &[u8]) -> Option<TerminalPatch> {
        if bytes.is_empty() {
            return None;
        }
        let patch = self.terminals.output(id, bytes, &self.secrets);
        self.in_time(patch).filter(|patch| !patch.is_empty())
    }

    /// Ends a terminal, exactly once.
    pub fn terminal_exit(&mut self, id: &TerminalId, exit: Exit) -> Option<TerminalPatch> {
        let patch = self.terminals.exit(id, exit, &self.secrets);
        self.in_time(patch)
    }

    /// Forgets a terminal whose output nobody needs any more.
    pub fn forget_terminal(&mut self, id: &TerminalId) {
        self.terminals.forget(id);
    }

    /// Returns the document of an open call.
    #[must_use]
    pub fn tool_call(&self, id: &ToolCallId) -> Option<&ToolCallReport> {
        self.calls.get(id).map(|call| &call.report)
    }

    /// Returns the document of a terminal.
    #[must_use]
    pub fn terminal(&self, id: &TerminalId) -> Option<&TerminalReport> {
        self.terminals.get(id)
    }

    /// Returns whether an id is or was in use.
    #[must_use]
    pub fn has_seen(&self, id: &ToolCallId) -> bool {
        self.calls.contains_key(id) || self.history.contains(id)
    }

    /// Returns the open calls of a turn, of every turn without one, in the order of their
    /// announcement.
    #[must_use]
    pub fn open_calls(&self, turn: Option<&str>) -> Vec<ToolCallId> {
        self.in_order(|call| turn.is_none_or(|turn| call.turn == turn))
    }

    /// Returns the open calls that an open call made, in the order of their announcement.
    #[must_use]
    pub fn children(&self, id: &ToolCallId) -> Vec<ToolCallId> {
        if !self.calls.contains_key(id) {
            return Vec::new();
        }
        self.in_order(|call| call.report.meta.parent.as_deref() == Some(&*id.0))
    }

    fn in_order(&self, is_wanted: impl Fn(&Call) -> bool) -> Vec<ToolCallId> {
        let mut calls: Vec<_> = self.calls.values().filter(|call| is_wanted(call)).collect();
        calls.sort_by_key(|call| call.announced);
        calls.into_iter().map(|call| call.report.id.clone()).collect()
    }

    /// Returns what is remembered of the calls that have ended.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns what was counted and not done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn open(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        let call = self.calls.get_mut(id);
        if call.is_none() {
            self.counters.late += 1;
        }
        call
    }

    /// Counts what came too late to be done.
    fn in_time<T>(&mut self, done: Option<T>) -> Option<T> {
        self.counters.late += u64::from(done.is_none());
        done
    }

    fn redacted_in_terminals(&self, id: &ToolCallId) -> u64 {
        self.terminals_of(id).iter().map(|id| self.terminals.redacted(id)).sum()
    }

    /// Leaves out of a patch what may not be, or does not fit.
    fn legal(&mut self, id: &ToolCallId, mut patch: ToolCallPatch) -> Option<ToolCallPatch> {
        self.open(id)?;
        let call = self.calls.get_mut(id)?;
        sanitize::patch(&mut patch, &self.secrets, &mut call.losses);
        patch.status = None;
        let mut meaningless = drop_if(&mut patch.title, |title| title.trim().is_empty());
        meaningless += drop_if(&mut patch.name, String::is_empty);
        // Whoever made them: what is shown of a call hides nothing.
        if let Some(base) = patch.title.take() {
            call.base = title::bounded(&base, limits::BASE_BYTES);
            call.losses.is_title_cut |= call.base != title::visible(&base);
            patch.title = Some(title::compose(&call.base, call.subtitle.as_deref()));
        }
        patch.name = patch.name.map(|name| title::bounded(&name, limits::NAME_BYTES));
        if let Some(locations) = &mut patch.locations {
            locations.truncate(limits::LOCATIONS);
        }
        if let Some(meta) = &mut patch.meta {
            call.keep_own(meta);
        }
        let dropped = call.cap_content(&mut patch.content);
        self.counters.content_dropped += dropped;
        if let Some(meta) = &mut patch.meta {
            meaningless += self.check(id, meta);
        }
        self.counters.fields_dropped += meaningless;
        self.note_retry(id, &mut patch);
        self.tell_losses(id, &mut patch);
        Some(patch)
    }

    /// Says of a call with the tool and the arguments of one that failed which one that was.
    ///
    /// Arguments that still arrive may be those of another call only until the next one comes; what
    /// the tool says itself stays.
    fn note_retry(&mut self, id: &ToolCallId, patch: &mut ToolCallPatch) {
        let (Some(input), Some(call)) = (&patch.raw_input, self.calls.get_mut(id)) else { return };
        let name = patch.name.as_ref().unwrap_or(&call.report.name);
        let earlier = self.history.newest_failed(name, input).map(ToString::to_string);
        let told = &patch.meta.as_ref().unwrap_or(&call.report.meta).retry_of;
        if *told != earlier && (told.is_none() || *told == call.repeats) {
            let meta = patch.meta.get_or_insert_with(|| call.report.meta.clone());
            meta.retry_of.clone_from(&earlier);
        }
        call.repeats = earlier;
    }

    /// Takes away what means nothing of a call's metadata, and returns how much that was.
    fn check(&self, id: &ToolCallId, meta: &mut CallMeta) -> u64 {
        let told = self.calls.get(id).map(|call| &call.report.meta);
        let is_known = |other: &str| *id.0 != *other && self.has_seen(&ToolCallId::new(other));
        // What was known once stays, though it may be forgotten since.
        let parent = told.and_then(|told| told.parent.clone());
        let retry_of = told.and_then(|told| told.retry_of.clone());
        let stays = |told: &Option<String>, other: &String| told.as_ref() == Some(other);
        drop_if(&mut meta.progress, |progress| !progress.is_finite())
            + drop_if(&mut meta.parent, |other| {
                !stays(&parent, other) && (!is_known(other) || self.descends(other, id))
            })
            + drop_if(&mut meta.retry_of, |other| !stays(&retry_of, other) && !is_known(other))
    }

    /// Tells in the metadata what is not shown of the call, if that is not what it tells already.
    fn tell_losses(&self, id: &ToolCallId, patch: &mut ToolCallPatch) {
        let Some(call) = self.calls.get(id) else { return };
        let lost =
            (call.losses.redacted() + self.redacted_in_terminals(id), call.losses.raw_bytes());
        let meta = patch.meta.as_ref().unwrap_or(&call.report.meta);
        let told = meta.dropped.as_ref().map(|dropped| (dropped.redacted, dropped.raw_bytes));
        if told.unwrap_or_default() != lost {
            let meta = patch.meta.get_or_insert_with(|| call.report.meta.clone());
            let dropped = meta.dropped.get_or_insert_default();
            (dropped.redacted, dropped.raw_bytes) = lost;
        }
    }

    /// Whether an open call was made by another, by way of others perhaps: never in a circle.
    fn descends(&self, id: &str, other: &ToolCallId) -> bool {
        let parent = self.calls.get(&ToolCallId::new(id)).map(|call| &call.report.meta.parent);
        let parent = parent.and_then(Option::as_deref);
        parent.is_some_and(|parent| *parent == *other.0 || self.descends(parent, other))
    }

    fn apply(&mut self, id: &ToolCallId, patch: ToolCallPatch) -> ToolCallPatch {
        if let Some(call) = self.calls.get_mut(id) {
            patch.clone().apply(&mut call.report);
        }
        patch
    }
}

impl Call {
    /// What is measured here, and the trace, are no tool's to change.
    fn keep_own(&self, meta: &mut CallMeta) {
        let own = &self.report.meta;
        meta.started_at = own.started_at;
        meta.queued_ms = own.queued_ms;
        meta.duration_ms = own.duration_ms;
        meta.reason = own.reason;
        if !own.trace.is_empty() {
            meta.trace.clone_from(&own.trace);
        }
    }

    /// Notes at the end how long the call waited and ran. One that never ran waited until now.
    fn time(&self, meta: &mut CallMeta, now: Moment) {
        let between = |from, to: Instant| Some(millis(to.saturating_duration_since(from)));
        meta.queued_ms = between(self.announced, self.started.unwrap_or(now.at));
        meta.duration_ms = between(self.started.unwrap_or(now.at), now.at);
    }

    /// Drops the items that are over the call's bounds, and returns how many.
    fn cap_content(&mut self, content: &mut ContentPatch) -> u64 {
        let (items, had) = match content {
            ContentPatch::Set(items) => {
                (self.content_bytes, self.content_dropped) = (0, 0);
                (items, 0)
            }
            ContentPatch::Append(items) => (items, self.report.content.len()),
            _ => return 0,
        };
        let mut dropped = 0;
        let mut kept = had;
        items.retain(|item: &Content| {
            let bytes = item.byte_len();
            let fits =
                kept < limits::CONTENT_ITEMS && self.content_bytes + bytes <= limits::CONTENT_BYTES;
            if fits {
                kept += 1;
                self.content_bytes += bytes;
            } else {
                dropped += 1;
            }
            fits
        });
        self.content_dropped += dropped;
        dropped
    }
}

/// Takes a field away that means nothing, and returns how many that were.
fn drop_if<T>(field: &mut Option<T>, is_meaningless: impl Fn(&T) -> bool) -> u64 {
    let had = field.is_some();
    *field = field.take().filter(|value| !is_meaningless(value));
    u64::from(had && field.is_none())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::{Board, End, Moment};
    use acp_types::{
        CallMeta, Content, Progress, Reason, Status, ToolCallId, ToolCallPatch, ToolKind,
    };
    use serde_json::json;
    use std::time::{Duration, Instant, SystemTime};

    fn at(start: Instant, millis: u64) -> Moment {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        Moment { at: start + Duration::from_millis(millis), wall }
    }

    fn announced(start: Instant) -> (Board, ToolCallId) {
        let (mut board, id) = (Board::default(), ToolCallId::from("c"));
        let patch = ToolCallPatch::announce("read_file", "Read x", ToolKind::Read);
        board.announce(&id, "t", patch, at(start, 0)).unwrap();
        (board, id)
    }

    #[test]
    fn a_call_is_timed_from_its_start() {
        let start = Instant::now();
        let (mut board, id) = announced(start);
        board.start(&id, at(start, 30)).unwrap();
        let last = board.finish(&id, End::completed(), at(start, 75)).unwrap();
        let meta = last.meta.unwrap();
        assert_eq!((meta.queued_ms, meta.duration_ms), (Some(30), Some(45)));
        assert_eq!(meta.started_at, Some(at(start, 30).wall));
        assert_eq!(last.status, Some(Status::Completed));
    }

    #[test]
    fn nothing_follows_an_end() {
        let start = Instant::now();
        let (mut board, id) = announced(start);
        assert!(board.finish(&id, End::cancelled(Reason::User), at(start, 1)).is_some());
        assert_eq!(board.finish(&id, End::completed(), at(start, 2)), None);
        assert_eq!(board.change(&id, ToolCallPatch::new().title("later")), None);
        assert_eq!(board.start(&id, at(start, 3)), None);
        let again = ToolCallPatch::announce("a", "b", ToolKind::Other);
        assert_eq!(board.announce(&id, "t", again, at(start, 4)), None);
        assert_eq!((board.counters().late, board.counters().illegal), (3, 1));
    }

    #[test]
    fn a_call_that_never_ran_cannot_complete() {
        let start = Instant::now();
        let (mut board, id) = announced(start);
        let last = board.finish(&id, End::completed(), at(start, 1)).unwrap();
        assert_eq!(last.status, Some(Status::Failed));
    }

    #[test]
    fn a_change_cannot_set_the_status_or_clear_the_title() {
        let (mut board, id) = announced(Instant::now());
        let patch = ToolCallPatch::new().status(Status::Completed).title(" ");
        assert_eq!(board.change(&id, patch), None);
        assert_eq!(board.tool_call(&id).unwrap().status, Status::Pending);
    }

    #[test]
    fn a_paused_call_goes_on_but_cannot_complete_as_it_is() {
        let (mut board, id) = announced(Instant::now());
        let start = Instant::now();
        assert_eq!(board.pause(&id), None);
        board.start(&id, at(start, 1)).unwrap();
        assert_eq!(board.pause(&id).unwrap().status, Some(Status::Paused));
        assert_eq!(board.pause(&id), None);
        // Going on is not starting: the time of the start stays.
        let on = board.start(&id, at(start, 9)).unwrap();
        assert_eq!((on.status, on.meta), (Some(Status::InProgress), None));
        board.pause(&id).unwrap();
        let last = board.finish(&id, End::completed(), at(start, 10)).unwrap();
        assert_eq!(last.status, Some(Status::Failed));
    }

    #[test]
    fn an_end_tells_whether_the_call_may_have_acted() {
        let start = Instant::now();
        let ends = |kind, ran: bool, end: End| {
            let (mut board, id) = (Board::default(), ToolCallId::from("c"));
            board.announce(&id, "t", ToolCallPatch::announce("x", "X", kind), at(start, 0));
            if ran {
                board.start(&id, at(start, 1));
            }
            let last = board.finish(&id, end, at(start, 2)).unwrap();
            last.meta.and_then(|meta| meta.may_have_acted)
        };
        let cancelled = || End::cancelled(Reason::User);
        assert_eq!(ends(ToolKind::Execute, true, cancelled()), Some(true));
        assert_eq!(ends(ToolKind::Execute, false, cancelled()), Some(false));
        assert_eq!(ends(ToolKind::Read, true, End::failed(Reason::Error)), Some(false));
        assert_eq!(ends(ToolKind::Execute, true, End::completed()), None);
    }

    #[test]
    fn a_call_that_tries_a_failed_one_again_says_so() {
        let start = Instant::now();
        let mut board = Board::default();
        let mut live = |id: &str, path: &str, end: End| {
            let id = ToolCallId::new(id);
            let patch = ToolCallPatch::announce("read_file", "Read", ToolKind::Read);
            board.announce(&id, "t", patch, at(start, 0)).unwrap();
            let input = ToolCallPatch::new().raw_input(json!({ "path": path }));
            board.change(&id, input).unwrap();
            board.start(&id, at(start, 1)).unwrap();
            board.finish(&id, end, at(start, 2)).unwrap();
            board.history().get(&id).unwrap().meta.retry_of.clone()
        };
        let failed = || End::failed(Reason::Error);
        assert_eq!(live("a", "x", failed()), None);
        assert_eq!(live("b", "y", End::completed()), None);
        assert_eq!(live("c", "y", failed()), None);
        assert_eq!(live("d", "x", failed()).as_deref(), Some("a"));
        assert_eq!(live("e", "x", End::completed()).as_deref(), Some("d"));
    }

    #[test]
    fn arguments_that_only_began_like_those_of_a_failed_call_are_no_retry() {
        let start = Instant::now();
        let (mut board, first) = announced(start);
        let input = |value| ToolCallPatch::new().raw_input(value);
        board.change(&first, input(json!({ "path": "x" }))).unwrap();
        board.finish(&first, End::failed(Reason::Error), at(start, 1)).unwrap();
        let id = ToolCallId::from("d");
        let patch = ToolCallPatch::announce("read_file", "Read", ToolKind::Read);
        board.announce(&id, "t", patch, at(start, 2)).unwrap();
        board.change(&id, input(json!({ "path": "x" }))).unwrap();
        assert_eq!(board.tool_call(&id).unwrap().meta.retry_of.as_deref(), Some("c"));
        board.change(&id, input(json!({ "path": "x", "offset": 9 }))).unwrap();
        assert_eq!(board.tool_call(&id).unwrap().meta.retry_of, None);
    }

    #[test]
    fn a_title_that_is_cut_is_not_whole_however_it_ended() {
        let (mut board, id) = announced(Instant::now());
        assert!(board.is_whole(&id));
        let long = "x".repeat(crate::limits::BASE_BYTES);
        board.change(&id, ToolCallPatch::new().title(format!("{long}…"))).unwrap();
        assert!(!board.is_whole(&id));
    }

    #[test]
    fn a_field_that_means_nothing_is_dropped_and_counted() {
        let (mut board, id) = announced(Instant::now());
        let meta = CallMeta {
            progress: Some(Progress { current: f64::NAN, total: None, message: None }),
            parent: Some("nobody".to_owned()),
            retry_of: Some("c".to_owned()),
            batch: Some("b".to_owned()),
            ..CallMeta::default()
        };
        let patch = ToolCallPatch { name: Some(String::new()), ..ToolCallPatch::new() };
        board.change(&id, patch.title(" ").meta(meta)).unwrap();
        let report = board.tool_call(&id).unwrap();
        let kept = CallMeta { batch: Some("b".to_owned()), ..CallMeta::default() };
        assert_eq!((report.title.as_str(), &report.meta), ("Read x", &kept));
        assert_eq!(board.counters().fields_dropped, 5);
    }

    #[test]
    fn content_over_its_bound_is_counted() {
        let start = Instant::now();
        let (mut board, id) = announced(start);
        board.start(&id, at(start, 1));
        for _ in 0..200 {
            board.change(&id, ToolCallPatch::new().append(Content::text("x")));
        }
        let large = Content::text("x".repeat(crate::limits::CONTENT_BYTES));
        assert_eq!(board.tool_call(&id).unwrap().content.len(), crate::limits::CONTENT_ITEMS);
        let end = End::completed().with(ToolCallPatch::new().append(large));
        let last = board.finish(&id, end, at(start, 2)).unwrap();
        assert_eq!(last.meta.unwrap().dropped.unwrap().items, 73);
    }
}
