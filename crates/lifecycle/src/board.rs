//! The call board: the open calls and terminals of a session, and the only code that creates
//! patches.
//!
//! The board checks which steps are legal. Changes to a call that has ended are dropped and
//! counted. The caller passes a [`Timestamp`] with each change.

use std::time::{Duration, Instant, SystemTime};

use acp_types::{
    CallEndReason, CallMeta, Content, Status, TerminalExit, TerminalId, TerminalPatch,
    TerminalReport, ToolCallId, ToolCallPatch, ToolCallReport, TurnId, tool_kind,
};
use foldhash::HashMap;
use serde_json::json;

use crate::call_history::{CallHistory, InputHash};
use crate::config::SessionConfig;
use crate::sanitize::{self, OmissionCounts, Secrets};
use crate::terminals::{TerminalPiece, Terminals};
use crate::title;

mod validate;

/// The time of an event, as read from the monotonic clock and from the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Monotonic time, for durations and deadlines.
    pub monotonic: Instant,
    /// Wall-clock time, for display.
    pub wall: SystemTime,
}

/// The end of a call: its final status, its reason and its last changes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallEnd {
    /// The final status.
    pub status: Status,
    /// The reason of the end, or `None` if the call completed.
    pub reason: Option<CallEndReason>,
    /// Further changes that are sent with the end.
    pub patch: ToolCallPatch,
}

impl CallEnd {
    /// Creates the end of a call that succeeded.
    #[must_use]
    pub fn completed() -> Self {
        Self { status: Status::Completed, reason: None, patch: ToolCallPatch::new() }
    }

    /// Creates the end of a call that failed.
    #[must_use]
    pub fn failed(reason: CallEndReason) -> Self {
        Self { status: Status::Failed, reason: Some(reason), patch: ToolCallPatch::new() }
    }

    /// Creates the end of a call that was cancelled before it finished.
    #[must_use]
    pub fn cancelled(reason: CallEndReason) -> Self {
        Self { status: Status::Cancelled, reason: Some(reason), patch: ToolCallPatch::new() }
    }

    /// Adds further changes.
    #[must_use]
    pub fn with_patch(mut self, patch: ToolCallPatch) -> Self {
        self.patch = self.patch.then(patch);
        self
    }
}

/// Counters of rejected changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedChangeCounters {
    /// Number of changes to a call or terminal that had already ended or had never existed.
    pub late_changes: u64,
    /// Number of steps that the status of a call did not allow, e.g. a pause of a call that does
    /// not run.
    pub illegal_steps: u64,
    /// Number of content items that were dropped because they exceeded the limits of a call.
    pub content_dropped: u64,
    /// Number of invalid fields that were dropped, e.g. an empty title, a non-finite progress value
    /// or an unknown parent.
    pub fields_dropped: u64,
}

/// The open calls and terminals of one session. Only the [`Session`](crate::Session) can call the
/// methods that change the board and create patches.
#[derive(Debug, Default)]
pub struct CallBoard {
    calls: HashMap<ToolCallId, BoardCall>,
    terminals: Terminals,
    history: CallHistory,
    counters: RejectedChangeCounters,
    secrets: Secrets,
    config: SessionConfig,
    /// Sequence number of the most recently announced call.
    last_number: u64,
}

#[derive(Debug)]
struct BoardCall {
    /// The sequence number of the call. Calls are sorted by this number instead of by time, because
    /// several calls may be announced in the same instant.
    number: u64,
    report: Box<ToolCallReport>,
    turn: TurnId,
    announced: Instant,
    started: Option<Instant>,
    /// The title without the subtitle. While the call runs, the subtitle is shown after the title.
    base_title: String,
    subtitle: Option<String>,
    content_bytes: usize,
    content_dropped: u64,
    losses: OmissionCounts,
    /// Hash of the most recent raw input.
    input: Option<InputHash>,
    /// The id of an earlier failed call with the same tool and arguments.
    retry_of: Option<String>,
}

impl CallBoard {
    /// Sets the limits on the displayed content of later changes.
    pub(crate) fn set_config(&mut self, config: SessionConfig) {
        self.config = config;
    }

    /// Returns how many bytes of content can still be added to an open call.
    #[cfg(feature = "tokio")]
    pub(crate) fn content_room(&self, id: &ToolCallId) -> usize {
        let used = self.calls.get(id).map_or(0, |call| call.content_bytes);
        self.config.content_bytes.saturating_sub(used)
    }

    /// Returns the settings of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn config(&self) -> SessionConfig {
        self.config
    }

    /// Sets the secrets that are redacted in later changes.
    pub(crate) fn set_secrets(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// Returns the secrets that are redacted.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns whether an open call is shown in full, i.e. whether nothing was redacted, truncated
    /// or omitted.
    #[must_use]
    pub fn is_shown_in_full(&self, id: &ToolCallId) -> bool {
        let is_whole = |call: &BoardCall| !call.losses.has_any() && call.content_dropped == 0;
        self.calls.get(id).is_some_and(is_whole)
            && self.redacted_secrets_in_terminals(id) == 0
            && !self.call_terminals(id).iter().any(|id| self.terminals.is_command_truncated(id))
    }

    /// Announces a call. The call's first status is pending, even if `patch` contains another
    /// status.
    ///
    /// If the id is or was in use, returns `None` and counts an illegal step.
    pub(crate) fn announce_call(
        &mut self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        now: Timestamp,
    ) -> Option<ToolCallPatch> {
        if self.is_id_used(id) {
            self.counters.illegal_steps += 1;
            return None;
        }
        self.last_number += 1;
        let call = BoardCall {
            number: self.last_number,
            report: Box::new(ToolCallReport::new(id.clone())),
            turn: turn.clone(),
            announced: now.monotonic,
            started: None,
            base_title: String::new(),
            subtitle: None,
            content_bytes: 0,
            content_dropped: 0,
            losses: OmissionCounts::default(),
            input: None,
            retry_of: None,
        };
        self.calls.insert(id.clone(), call);
        let mut patch = self.sanitise_patch(id, patch)?;
        patch.status = Some(Status::Pending);
        let fallback = || patch.name.clone().unwrap_or_else(|| "Tool call".to_owned());
        let base = patch.title.get_or_insert_with(fallback);
        self.call_mut_or_count_late(id)?.base_title.clone_from(base);
        Some(self.apply_call_patch(id, patch))
    }

    /// Changes an open call. The status in `patch` is ignored. Empty titles, empty names, nulls,
    /// and values that exceed a limit are omitted.
    pub(crate) fn update_call(
        &mut self,
        id: &ToolCallId,
        patch: ToolCallPatch,
    ) -> Option<ToolCallPatch> {
        let patch = self.sanitise_patch(id, patch)?;
        (!patch.is_empty()).then(|| self.apply_call_patch(id, patch))
    }

    /// Changes the metadata of an open call.
    pub(crate) fn update_call_meta(
        &mut self,
        id: &ToolCallId,
        change: impl FnOnce(&mut CallMeta),
    ) -> Option<ToolCallPatch> {
        let mut meta = self.call_mut_or_count_late(id)?.report.meta.clone();
        change(&mut meta);
        self.update_call(id, ToolCallPatch::new().with_meta(meta))
    }

    /// Sets or removes the subtitle (one short visible line) of an open call. The subtitle is shown
    /// after the title until the call ends. The title without the subtitle is stored separately. A
    /// later change of the title therefore keeps the subtitle.
    pub(crate) fn set_subtitle(
        &mut self,
        id: &ToolCallId,
        subtitle: Option<&str>,
    ) -> Option<ToolCallPatch> {
        self.call_mut_or_count_late(id)?;
        let call = self.calls.get_mut(id)?;
        let subtitle = subtitle.map(|subtitle| self.secrets.redact(subtitle));
        call.subtitle = subtitle.as_deref().and_then(title::text_to_subtitle_line);
        let title = title::join_title_and_subtitle(&call.base_title, call.subtitle.as_deref());
        (title != call.report.title)
            .then(|| self.apply_call_patch(id, ToolCallPatch::new().with_title(title)))
    }

    /// Appends a note to an open call, even if the call's content is full. The same note is
    /// appended at most once.
    pub(crate) fn add_note(&mut self, id: &ToolCallId, text: &str) -> Option<ToolCallPatch> {
        let note = Content::from_text(self.secrets.redact(text));
        let is_new = !self.call_mut_or_count_late(id)?.report.content.contains(&note);
        is_new.then(|| self.apply_call_patch(id, ToolCallPatch::new().with_appended_content(note)))
    }

    /// Starts a pending call, or resumes a paused call.
    pub(crate) fn start_or_resume_call(
        &mut self,
        id: &ToolCallId,
        now: Timestamp,
    ) -> Option<ToolCallPatch> {
        let call = self.call_mut_or_count_late(id)?;
        if !call.report.status.may_become(Status::InProgress)
            || call.report.status == Status::InProgress
        {
            self.counters.illegal_steps += 1;
            return None;
        }
        let mut patch = ToolCallPatch::new().with_status(Status::InProgress);
        if call.started.is_none() {
            call.started = Some(now.monotonic);
            let mut meta = call.report.meta.clone();
            meta.started_at = Some(now.wall);
            meta.queued_ms = Some(millis(now.monotonic.saturating_duration_since(call.announced)));
            meta.arriving.clear();
            patch = patch.with_meta(meta);
        }
        Some(self.apply_call_patch(id, patch))
    }

    /// Pauses a running call that waits for something. [`CallBoard::start_or_resume_call`] resumes
    /// the call. The call's duration includes the pause.
    pub(crate) fn mark_call_paused(&mut self, id: &ToolCallId) -> Option<ToolCallPatch> {
        if self.call_mut_or_count_late(id)?.report.status != Status::InProgress {
            self.counters.illegal_steps += 1;
            return None;
        }
        Some(self.apply_call_patch(id, ToolCallPatch::new().with_status(Status::Paused)))
    }

    /// Sets the status of a call back to pending after a run that had no effect.
    /// [`CallBoard::start_or_resume_call`] then sets the start time again.
    #[cfg(feature = "tokio")]
    pub(crate) fn undo_call_start(&mut self, id: &ToolCallId) -> Option<ToolCallPatch> {
        let patch = self.mark_call_paused(id)?;
        let call = self.calls.get_mut(id)?;
        call.started = None;
        call.report.meta.started_at = None;
        Some(patch.with_meta(call.report.meta.clone()))
    }

    /// Ends a call exactly once. A second end of the same call is dropped and counted as a late
    /// change.
    ///
    /// A call that never ran cannot complete, so its final status is changed to failed. If a call
    /// does not complete, its metadata states whether the call may have had side effects. A call
    /// may have had side effects if the call ran and its kind may have side effects.
    pub(crate) fn finish_call(
        &mut self,
        id: &ToolCallId,
        end: CallEnd,
        now: Timestamp,
    ) -> Option<ToolCallPatch> {
        let mut patch = self.sanitise_patch(id, end.patch)?;
        let output_bytes = self.call_terminal_output_bytes(id);
        let raw_bytes = self.config.raw_bytes;
        let call = self.call_mut_or_count_late(id)?;
        if call.subtitle.take().is_some() {
            patch.title = Some(call.base_title.clone());
        }
        let (mut status, mut reason) = (end.status, end.reason);
        if !status.is_final() || !call.report.status.may_become(status) {
            (status, reason) = (Status::Failed, reason.or(Some(CallEndReason::Error)));
        }
        if let Some(reason) = reason
            && call.report.raw_output.is_none()
            && patch.raw_output.is_none()
            && raw_bytes > 0
        {
            let output = json!({ "error": reason.description(), "code": reason });
            patch.raw_output = Some(sanitize::truncate_json(output, raw_bytes).0);
        }
        let current_meta = || Box::new(call.report.meta.clone());
        let mut meta = patch.meta.take().unwrap_or_else(current_meta);
        call.record_durations(&mut meta, now);
        meta.output_bytes = output_bytes.max(meta.output_bytes);
        meta.reason = reason;
        // Clear the partially received arguments and the progress, because both describe an open
        // call.
        meta.arriving.clear();
        meta.progress = None;
        if status != Status::Completed {
            let kind = patch.kind.unwrap_or(call.report.kind);
            meta.may_have_acted =
                Some(call.started.is_some() && tool_kind::may_have_side_effects(kind));
        }
        if call.content_dropped > 0 {
            meta.dropped.get_or_insert_default().items = call.content_dropped;
        }
        patch.status = Some(status);
        if call.report.meta != *meta {
            patch.meta = Some(meta);
        }
        // Remove the capability to cancel, because the client can no longer cancel the call.
        if call.report.capabilities.cancel {
            patch.capabilities = Some(acp_types::CallCapabilities::default());
        }
        let patch = self.apply_call_patch(id, patch);
        if let Some(call) = self.calls.remove(id) {
            self.history.add_usage(&call.report);
            self.history.insert(call.report, call.content_bytes, call.input);
        }
        Some(patch)
    }

    /// Adds a call that ended in an earlier process. The call does not count in the usage of this
    /// process. Returns whether the call's id was unused.
    pub(crate) fn restore_ended_call(&mut self, report: ToolCallReport) -> bool {
        if self.is_id_used(&report.id) {
            self.counters.illegal_steps += 1;
            return false;
        }
        let bytes = report.content.iter().map(Content::approximate_json_len).sum();
        self.last_number += 1;
        let input = report.raw_input.as_ref().map(InputHash::new);
        self.history.insert(Box::new(report), bytes, input);
        true
    }

    pub(crate) fn open_terminal(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
    ) -> Option<TerminalPatch> {
        let patch = self.terminals.open(id, patch, &self.secrets);
        self.counters.illegal_steps += u64::from(patch.is_none());
        patch
    }

    /// Updates an open terminal, e.g. its command or its size.
    pub(crate) fn update_terminal(
        &mut self,
        id: &TerminalId,
        patch: TerminalPatch,
    ) -> Option<TerminalPatch> {
        let patch = self.terminals.update(id, patch, &self.secrets);
        self.count_if_late(patch)
    }

    /// Returns the terminals that an open call shows.
    #[must_use]
    pub fn call_terminals(&self, id: &ToolCallId) -> Vec<TerminalId> {
        let content = self.calls.get(id).map(|call| call.report.content.as_slice());
        let shown = content.unwrap_or_default().iter().filter_map(|item| match item {
            Content::Terminal(id) => Some(id.clone()),
            _ => None,
        });
        shown.collect()
    }

    /// Returns the terminals that end with a call: the terminals that the call shows, and the
    /// terminal with the id of the call.
    pub(crate) fn terminals_that_end_with_call(&self, id: &ToolCallId) -> Vec<TerminalId> {
        let mut terminals = self.call_terminals(id);
        let own = TerminalId::new(id.0.clone());
        if self.terminal(&own).is_some() && !terminals.contains(&own) {
            terminals.push(own);
        }
        terminals
    }

    /// Returns how many bytes were written to the terminals of an open call, or `None` if the call
    /// has no terminal.
    fn call_terminal_output_bytes(&self, id: &ToolCallId) -> Option<u64> {
        let terminals = self.call_terminals(id);
        let totals =
            terminals.iter().filter_map(|id| Some(self.terminal(id)?.output.total_bytes()));
        totals.reduce(u64::saturating_add)
    }

    /// Appends a piece of output to an open terminal.
    pub(crate) fn push_terminal_output(
        &mut self,
        id: &TerminalId,
        piece: TerminalPiece<'_>,
    ) -> Option<TerminalPatch> {
        if matches!(piece, TerminalPiece::Bytes([]) | TerminalPiece::Gap(0)) {
            return None;
        }
        let patch = self.terminals.push_output(id, piece, &self.secrets);
        self.count_if_late(patch).filter(|patch| !patch.is_empty())
    }

    /// Ends a terminal exactly once.
    pub(crate) fn exit_terminal(
        &mut self,
        id: &TerminalId,
        exit: TerminalExit,
    ) -> Option<TerminalPatch> {
        let patch = self.terminals.exit(id, exit, &self.secrets);
        self.count_if_late(patch)
    }

    /// Drops a terminal whose output is no longer needed.
    pub(crate) fn forget_terminal(&mut self, id: &TerminalId) {
        self.terminals.remove(id);
    }

    /// Returns the report of an open call.
    #[must_use]
    pub fn open_call_report(&self, id: &ToolCallId) -> Option<&ToolCallReport> {
        self.calls.get(id).map(|call| &*call.report)
    }

    /// Returns how many calls have ended since the session began.
    #[cfg(feature = "tokio")]
    pub(crate) fn ended_count(&self) -> u64 {
        self.last_number - self.calls.len() as u64
    }

    /// Returns the sequence number of an open call. The numbers increase in the order of
    /// announcement.
    #[cfg(feature = "tokio")]
    pub(crate) fn call_number(&self, id: &ToolCallId) -> Option<u64> {
        self.calls.get(id).map(|call| call.number)
    }

    /// Returns the report of a terminal.
    #[must_use]
    pub fn terminal(&self, id: &TerminalId) -> Option<&TerminalReport> {
        self.terminals.get(id)
    }

    /// Returns whether an id is or was in use.
    #[must_use]
    pub fn is_id_used(&self, id: &ToolCallId) -> bool {
        self.calls.contains_key(id) || self.history.has_ended(id)
    }

    /// Returns the open calls of a turn, in the order of their announcement. If `turn` is `None`,
    /// returns the open calls of every turn.
    #[must_use]
    pub fn open_calls(&self, turn: Option<&TurnId>) -> Vec<ToolCallId> {
        self.call_ids_in_announcement_order(|call| turn.is_none_or(|turn| call.turn == *turn))
    }

    /// Returns the open descendants of an open call, i.e. its child calls, their child calls, and
    /// so on. Each call comes after its own descendants. Siblings are in the order of their
    /// announcement.
    #[must_use]
    pub fn descendants(&self, id: &ToolCallId) -> Vec<ToolCallId> {
        let mut children: HashMap<&str, Vec<&BoardCall>> = HashMap::default();
        for call in self.calls.values() {
            if let Some(parent) = call.report.meta.parent.as_deref() {
                children.entry(parent).or_default().push(call);
            }
        }
        if !self.calls.contains_key(id) || !children.contains_key(&*id.0) {
            return Vec::new();
        }
        children.values_mut().for_each(|calls| calls.sort_unstable_by_key(|call| call.number));
        // Collect each call before its children, with the newest call first, and reverse the list
        // at the end. Each list of children is removed when it is visited. The loop would therefore
        // end even if the calls formed a cycle. The board never accepts a cycle.
        let (mut found, mut next) = (Vec::new(), children.remove(&*id.0).unwrap_or_default());
        while let Some(call) = next.pop() {
            found.push(call.report.id.clone());
            next.extend(children.remove(&*call.report.id.0).unwrap_or_default());
        }
        found.reverse();
        found
    }

    fn call_ids_in_announcement_order(
        &self,
        is_wanted: impl Fn(&BoardCall) -> bool,
    ) -> Vec<ToolCallId> {
        let mut calls: Vec<_> = self.calls.values().filter(|call| is_wanted(call)).collect();
        calls.sort_unstable_by_key(|call| call.number);
        calls.into_iter().map(|call| call.report.id.clone()).collect()
    }

    /// Returns the history of the calls that have ended.
    #[must_use]
    pub fn history(&self) -> &CallHistory {
        &self.history
    }

    /// Returns the counters of rejected changes.
    #[must_use]
    pub fn rejected_change_counters(&self) -> RejectedChangeCounters {
        self.counters
    }

    fn call_mut_or_count_late(&mut self, id: &ToolCallId) -> Option<&mut BoardCall> {
        let call = self.calls.get_mut(id);
        if call.is_none() {
            self.counters.late_changes += 1;
        }
        call
    }

    /// Counts a late change if `done` is `None`.
    fn count_if_late<T>(&mut self, done: Option<T>) -> Option<T> {
        self.counters.late_changes += u64::from(done.is_none());
        done
    }

    fn redacted_secrets_in_terminals(&self, id: &ToolCallId) -> u64 {
        self.call_terminals(id).iter().map(|id| self.terminals.redacted_secret_count(id)).sum()
    }

    fn apply_call_patch(&mut self, id: &ToolCallId, patch: ToolCallPatch) -> ToolCallPatch {
        if let Some(call) = self.calls.get_mut(id) {
            patch.clone().apply(&mut call.report);
        }
        patch
    }
}

impl BoardCall {
    /// Records the waiting time and the run time of the call. For a call that never ran, the
    /// waiting time is measured until now.
    fn record_durations(&self, meta: &mut CallMeta, now: Timestamp) {
        let between = |from, to: Instant| Some(millis(to.saturating_duration_since(from)));
        meta.queued_ms = between(self.announced, self.started.unwrap_or(now.monotonic));
        meta.duration_ms = between(self.started.unwrap_or(now.monotonic), now.monotonic);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
