//! The board: every open call and terminal of a session, and the only maker of patches.
//!
//! It knows which steps are legal. What is offered to a call that has ended is dropped and
//! counted. It reads no clock; every change brings its [`Moment`].

use std::time::{Duration, Instant, SystemTime};

use acp_types::{
    CallMeta, Content, Exit, Reason, Status, TerminalId, TerminalPatch, TerminalReport, ToolCallId,
    ToolCallPatch, ToolCallReport, TurnId, kind,
};
use foldhash::HashMap;
use serde_json::json;

use crate::config::SessionConfig;
use crate::history::History;
use crate::sanitize::{Losses, Secrets};
use crate::terminals::Terminals;
use crate::title;

mod legal;

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
#[non_exhaustive]
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
#[non_exhaustive]
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

/// Every open call and terminal of one session. Only its [`Session`](crate::Session) changes it, so
/// nothing else makes patches.
#[derive(Debug, Default)]
pub struct Board {
    calls: HashMap<ToolCallId, Call>,
    terminals: Terminals,
    history: History,
    counters: Counters,
    secrets: Secrets,
    config: SessionConfig,
    /// The number of the call that was announced last.
    last_number: u64,
}

#[derive(Debug)]
struct Call {
    /// Grows from call to call: many may be announced in the same instant.
    number: u64,
    report: Box<ToolCallReport>,
    turn: TurnId,
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
    /// Sets how much of a call is shown, from now on.
    pub(crate) fn set_config(&mut self, config: SessionConfig) {
        self.config = config;
    }

    /// Returns the settings of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn config(&self) -> SessionConfig {
        self.config
    }

    /// Sets what must never be shown, from now on.
    pub(crate) fn set_secrets(&mut self, secrets: Secrets) {
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
    pub(crate) fn announce(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Moment,
    ) -> Option<ToolCallPatch> {
        if self.has_seen(id) {
            self.counters.illegal += 1;
            return None;
        }
        self.last_number += 1;
        let call = Call {
            number: self.last_number,
            report: Box::new(ToolCallReport::new(id.clone())),
            turn: turn.clone(),
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
    pub(crate) fn change(
        &mut self,
        id: &ToolCallId,
        patch: ToolCallPatch,
    ) -> Option<ToolCallPatch> {
        let patch = self.legal(id, patch)?;
        (!patch.is_empty()).then(|| self.apply(id, patch))
    }

    /// Changes the metadata of an open call.
    pub(crate) fn change_meta(
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
    pub(crate) fn subtitle(
        &mut self,
        id: &ToolCallId,
        subtitle: Option<&str>,
    ) -> Option<ToolCallPatch> {
        self.open(id)?;
        let call = self.calls.get_mut(id)?;
        let subtitle = subtitle.map(|subtitle| self.secrets.redact(subtitle));
        call.subtitle = subtitle.as_deref().and_then(title::one_line);
        let title = title::compose(&call.base, call.subtitle.as_deref());
        (title != call.report.title).then(|| self.apply(id, ToolCallPatch::new().title(title)))
    }

    /// Tells people something about an open call, once, and though its content be full.
    pub(crate) fn note(&mut self, id: &ToolCallId, text: &str) -> Option<ToolCallPatch> {
        let note = Content::text(self.secrets.redact(text));
        let is_new = !self.open(id)?.report.content.contains(&note);
        is_new.then(|| self.apply(id, ToolCallPatch::new().append(note)))
    }

    /// Starts a pending call, or goes on with a paused one.
    pub(crate) fn start(&mut self, id: &ToolCallId, now: Moment) -> Option<ToolCallPatch> {
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

    /// Pauses a running call: it waits for something, and can go on by
    /// [`Board::start`]. Its duration goes on too.
    pub(crate) fn pause(&mut self, id: &ToolCallId) -> Option<ToolCallPatch> {
        if self.open(id)?.report.status != Status::InProgress {
            self.counters.illegal += 1;
            return None;
        }
        Some(self.apply(id, ToolCallPatch::new().status(Status::Paused)))
    }

    /// Takes back that a call began to run, because it did nothing: it waits, and [`Board::start`]
    /// begins its time anew.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_back(&mut self, id: &ToolCallId) -> Option<ToolCallPatch> {
        let patch = self.pause(id)?;
        let call = self.calls.get_mut(id)?;
        call.started = None;
        call.report.meta.started_at = None;
        Some(patch.meta(call.report.meta.clone()))
    }

    /// Ends a call, exactly once: a second end is late, and counted.
    ///
    /// A call that never ran cannot complete; it fails instead. One that does not complete tells
    /// whether it may have acted: if it ran and is of a kind that changes something.
    pub(crate) fn finish(
        &mut self,
        id: &ToolCallId,
        end: End,
        now: Moment,
    ) -> Option<ToolCallPatch> {
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
        let told = || Box::new(call.report.meta.clone());
        let mut meta = patch.meta.take().unwrap_or_else(told);
        call.time(&mut meta, now);
        meta.output_bytes = output_bytes.max(meta.output_bytes);
        meta.reason = reason;
        // Both describe a call on its way.
        meta.arriving.clear();
        meta.progress = None;
        if status != Status::Completed {
            let kind = patch.kind.unwrap_or(call.report.kind);
            meta.may_have_acted = Some(call.started.is_some() && kind::may_act(kind));
        }
        if call.content_dropped > 0 {
            meta.dropped.get_or_insert_default().items = call.content_dropped;
        }
        patch.status = Some(status);
        if call.report.meta != *meta {
            patch.meta = Some(meta);
        }
        // A control that a client can no longer use is no longer offered.
        if call.report.capabilities.cancel {
            patch.capabilities = Some(acp_types::Capabilities::default());
        }
        let patch = self.apply(id, patch);
        if let Some(call) = self.calls.remove(id) {
            self.history.insert(call.report, call.content_bytes);
        }
        Some(patch)
    }

    /// Opens a terminal.
    pub(crate) fn open_terminal(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
    ) -> Option<TerminalPatch> {
        let patch = self.terminals.open(id, patch, &self.secrets);
        self.counters.illegal += u64::from(patch.is_none());
        patch
    }

    /// Tells more of an open terminal: its command, its size.
    pub(crate) fn describe_terminal(
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
    pub(crate) fn terminal_output(
        &mut self,
        id: &TerminalId,
        bytes: &[u8],
    ) -> Option<TerminalPatch> {
        if bytes.is_empty() {
            return None;
        }
        let patch = self.terminals.output(id, bytes, &self.secrets);
        self.in_time(patch).filter(|patch| !patch.is_empty())
    }

    /// Notes that so many bytes of the output of an open terminal are left out here.
    pub(crate) fn terminal_gap(&mut self, id: &TerminalId, bytes: u64) -> Option<TerminalPatch> {
        if bytes == 0 {
            return None;
        }
        let patch = self.terminals.gap(id, bytes, &self.secrets);
        self.in_time(patch).filter(|patch| !patch.is_empty())
    }

    /// Ends a terminal, exactly once.
    pub(crate) fn terminal_exit(&mut self, id: &TerminalId, exit: Exit) -> Option<TerminalPatch> {
        let patch = self.terminals.exit(id, exit, &self.secrets);
        self.in_time(patch)
    }

    /// Forgets a terminal whose output nobody needs any more.
    pub(crate) fn forget_terminal(&mut self, id: &TerminalId) {
        self.terminals.forget(id);
    }

    /// Returns the document of an open call.
    #[must_use]
    pub fn tool_call(&self, id: &ToolCallId) -> Option<&ToolCallReport> {
        self.calls.get(id).map(|call| &*call.report)
    }

    /// Returns how many calls have ended, ever.
    #[cfg(feature = "tokio")]
    pub(crate) fn ended(&self) -> u64 {
        self.last_number - self.calls.len() as u64
    }

    /// Returns the number of an open call, which grows from call to call.
    #[cfg(feature = "tokio")]
    pub(crate) fn number(&self, id: &ToolCallId) -> Option<u64> {
        self.calls.get(id).map(|call| call.number)
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
    pub fn open_calls(&self, turn: Option<&TurnId>) -> Vec<ToolCallId> {
        self.in_order(|call| turn.is_none_or(|turn| call.turn == *turn))
    }

    /// Returns the open calls that an open call made, and those that they made, of any depth: each
    /// behind those that it made itself, siblings in the order of their announcement.
    #[must_use]
    pub fn descendants(&self, id: &ToolCallId) -> Vec<ToolCallId> {
        let mut children: HashMap<&str, Vec<&Call>> = HashMap::default();
        for call in self.calls.values() {
            if let Some(parent) = call.report.meta.parent.as_deref() {
                children.entry(parent).or_default().push(call);
            }
        }
        if !self.calls.contains_key(id) || !children.contains_key(&*id.0) {
            return Vec::new();
        }
        children.values_mut().for_each(|calls| calls.sort_unstable_by_key(|call| call.number));
        // A call before those that it made, the youngest first; turned round at the end. Taking
        // each list out once bounds the walk, though no circle gets past the board.
        let (mut found, mut next) = (Vec::new(), children.remove(&*id.0).unwrap_or_default());
        while let Some(call) = next.pop() {
            found.push(call.report.id.clone());
            next.extend(children.remove(&*call.report.id.0).unwrap_or_default());
        }
        found.reverse();
        found
    }

    fn in_order(&self, is_wanted: impl Fn(&Call) -> bool) -> Vec<ToolCallId> {
        let mut calls: Vec<_> = self.calls.values().filter(|call| is_wanted(call)).collect();
        calls.sort_unstable_by_key(|call| call.number);
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

    fn apply(&mut self, id: &ToolCallId, patch: ToolCallPatch) -> ToolCallPatch {
        if let Some(call) = self.calls.get_mut(id) {
            patch.clone().apply(&mut call.report);
        }
        patch
    }
}

impl Call {
    /// Notes at the end how long the call waited and ran. One that never ran waited until now.
    fn time(&self, meta: &mut CallMeta, now: Moment) {
        let between = |from, to: Instant| Some(millis(to.saturating_duration_since(from)));
        meta.queued_ms = between(self.announced, self.started.unwrap_or(now.at));
        meta.duration_ms = between(self.started.unwrap_or(now.at), now.at);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
