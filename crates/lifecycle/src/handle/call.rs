//! Handles of one call: the handle that ends the call, and the handles that a tool may keep.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use acp_types::{
    CallEndReason, CallMeta, Content, Location, Progress, TerminalExit, TerminalId, TerminalPatch,
    ToolCallId, ToolCallPatch,
};
use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Approver, PendingPermission, SessionHandle, lock};
use crate::board::CallEnd;
use crate::call_span;
use crate::ids::PermissionId;
use crate::permission::{
    PermissionAnswer, PermissionOutcome, PermitDecision, UnansweredReason, UnaskedDenialReason,
};
use crate::sanitize::truncate_text;
use crate::session::{AnsweredBy, Session};
use crate::{Effects, PermissionSubject, Verdict};

/// An announced call that must end. If the handle is dropped before [`finish`](Self::finish) is
/// called, the call ends with the reason `dropped`.
///
/// Only this handle can end the call, and the handle can be used only once:
///
/// ```
/// # use acp_lifecycle::{CallEnd, OpenCall};
/// # fn twice(call: OpenCall) {
/// call.finish(CallEnd::completed());
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # use acp_lifecycle::{CallEnd, OpenCall};
/// # fn twice(call: OpenCall) {
/// call.finish(CallEnd::completed());
/// call.finish(CallEnd::completed());
/// # }
/// ```
///
/// ```compile_fail,E0624
/// # use acp_lifecycle::{CallEnd, OpenCall};
/// # fn twice(call: OpenCall) {
/// call.handle().finish(CallEnd::completed());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the call"]
pub struct OpenCall {
    call: CallHandle,
    span: tracing::Span,
}

impl OpenCall {
    /// Creates the handle of an announced call. The token `turn` cancels the call's turn. The token
    /// `cancel` cancels only the call.
    pub(super) fn for_announced_call(
        session: SessionHandle,
        id: ToolCallId,
        turn: CancellationToken,
        cancel: CancellationToken,
        span: tracing::Span,
    ) -> Self {
        Self { call: CallHandle { session, id, turn, cancel }, span }
    }

    /// Ends the call.
    pub fn finish(self, end: CallEnd) {
        self.call.finish(end);
    }

    /// Returns the span of the call, for events that belong to the call.
    #[must_use]
    pub fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Returns a handle that a tool may keep while the call is open.
    #[must_use]
    pub fn handle(&self) -> &CallHandle {
        &self.call
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.call.is_open() {
            self.call.finish(CallEnd::cancelled(CallEndReason::Dropped));
        }
        call_span::record_and_log_call_end(&self.span, &self.call.id, || {
            self.call.session.call_report(&self.call.id)
        });
    }
}

/// A handle with which a tool updates its running call. After the call's end, updates have no
/// effect.
#[derive(Debug, Clone)]
pub struct CallHandle {
    session: SessionHandle,
    id: ToolCallId,
    turn: CancellationToken,
    cancel: CancellationToken,
}

impl CallHandle {
    /// Returns the call's id.
    #[must_use]
    pub fn id(&self) -> &ToolCallId {
        &self.id
    }

    /// Returns the session's handle.
    #[must_use]
    pub fn session(&self) -> &SessionHandle {
        &self.session
    }

    /// Returns the token that is cancelled when the call should stop.
    #[must_use]
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns why the call was cancelled. For an ended call, the result is the reason of the
    /// call's end. For an open call, the result is the reason `Turn`, `Shutdown` or `User`. Returns
    /// `None` if the call's token is not cancelled.
    pub(crate) fn cancel_reason(&self) -> Option<CallEndReason> {
        if !self.cancel.is_cancelled() {
            return None;
        }
        let session = self.session.lock();
        let with = match self.turn.is_cancelled() {
            true if session.is_closing() => CallEndReason::Shutdown,
            true => CallEndReason::Turn,
            false => CallEndReason::User,
        };
        let ended = session.board().history().get(&self.id);
        Some(ended.and_then(|report| report.meta.reason).unwrap_or(with))
    }

    /// Reports that the running call waits for something, such as a login or a lock.
    pub fn mark_paused(&self) {
        self.session.update(|session, now| session.pause_call(&self.id, now));
    }

    /// Reports that a paused call continues.
    pub fn mark_resumed(&self) {
        self.session.update(|session, now| session.start_call(&self.id, now));
    }

    /// Returns whether the call is still open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.lock().board().open_call_report(&self.id).is_some()
    }

    /// Changes the call.
    pub fn update(&self, patch: ToolCallPatch) {
        self.session.update(|session, now| session.update_call(&self.id, patch, now));
    }

    /// Limits the remaining delay of a streamed call's first report; see
    /// [`Session::limit_first_report_delay`](crate::Session::limit_first_report_delay).
    pub fn limit_announcement_delay(&self, wait: Duration) {
        self.session.update(|session, now| session.limit_first_report_delay(&self.id, wait, now));
    }

    /// Changes the call's metadata, which is reported in addition to the fields of the protocol.
    /// Like the closure of [`SessionHandle::update`], `change` must not use the session's handle.
    pub fn update_meta(&self, change: impl FnOnce(&mut CallMeta)) {
        self.session.update(|session, now| session.update_call_meta(&self.id, change, now));
    }

    /// Appends one item to the call's content.
    pub fn append_content(&self, content: Content) {
        self.update(ToolCallPatch::new().with_appended_content(content));
    }

    /// Sets the locations that the call works on.
    pub fn set_locations(&self, locations: Vec<Location>) {
        self.update(ToolCallPatch::new().with_locations(locations));
    }

    /// Reports the call's progress. The progress is shown in the call's metadata and after the
    /// call's title.
    pub fn report_progress(&self, progress: Progress) {
        self.session.update(|session, now| session.report_progress(&self.id, progress, now));
    }

    /// Sets or removes the subtitle: a few words about the current activity. The subtitle is shown
    /// after the title until the call ends or the client is asked for permission.
    pub fn set_subtitle(&self, subtitle: Option<&str>) {
        self.session.update(|session, now| session.set_subtitle(&self.id, subtitle, now));
    }

    /// Opens a terminal, appends it to the call's content, and returns its id. A call has at most
    /// one terminal, whose id is the call's id. After the call's end, this method opens no
    /// terminal.
    ///
    /// Open the terminal before the call's first report if possible. If the terminal is opened
    /// later, a client that displays terminals from `_meta` shows the terminal's output as text
    /// (<https://github.com/zed-industries/zed/pull/39419>).
    pub fn open_terminal(&self, patch: TerminalPatch) -> TerminalId {
        let id = TerminalId::new(self.id.0.clone());
        self.session.update(|session, now| {
            let call = session.board().open_call_report(&self.id);
            let is_open = call.is_some_and(|call| !call.status.is_final());
            if !is_open || session.board().terminal(&id).is_some() {
                return;
            }
            session.announce_terminal(&id, patch, now);
            let shown = ToolCallPatch::new().with_appended_content(Content::Terminal(id.clone()));
            session.update_call(&self.id, shown, now);
        });
        id
    }

    /// Updates the command, the size or other fields of a terminal of the call.
    pub fn update_terminal(&self, id: &TerminalId, patch: TerminalPatch) {
        self.session.update(|session, now| session.update_terminal(id, patch, now));
    }

    /// Appends output to a terminal.
    pub fn append_terminal_output(&self, id: &TerminalId, bytes: &[u8]) {
        self.session.update(|session, now| session.append_terminal_output(id, bytes, now));
    }

    /// Records that `bytes` bytes of a terminal's output are missing at this position.
    pub fn record_terminal_output_gap(&self, id: &TerminalId, bytes: u64) {
        self.session.update(|session, now| session.record_terminal_output_gap(id, bytes, now));
    }

    /// Ends a terminal.
    pub fn exit_terminal(&self, id: &TerminalId, exit: TerminalExit) {
        self.session.update(|session, now| session.exit_terminal(id, exit, now));
    }

    /// Keeps a value until the call has ended, for any reason. Drops the value after the call's
    /// last update. Use this method for a resource that the client needs until the last update,
    /// such as a terminal that the call shows. If the call has already ended, the value is dropped
    /// at once.
    pub fn keep_until_end(&self, thing: impl Send + 'static) {
        if let Some(open) = lock(&self.session.shared.calls).get_mut(&self.id) {
            open.kept_until_end.push(Box::new(thing));
        }
    }

    /// Truncates a result or an error to the size that the call may show as text.
    pub(crate) fn fit_text(&self, text: String) -> String {
        let (bytes, room) = {
            let session = self.session.lock();
            let board = session.board();
            (board.config().result_text_bytes, board.content_room(&self.id))
        };
        truncate_text(text, bytes, room)
    }

    pub(crate) fn start(&self) -> bool {
        let starts = self.session.update(|session, now| session.start_call(&self.id, now));
        if starts {
            let name =
                || Some(self.session.lock().board().open_call_report(&self.id)?.name.clone());
            call_span::log_start(&self.id, name);
        }
        starts
    }

    pub(crate) fn undo_start(&self) {
        self.session.update(|session, now| session.undo_call_start(&self.id, now));
    }

    pub(crate) fn finish(&self, end: CallEnd) {
        self.session.update(|session, now| session.finish_call(&self.id, end, now));
    }

    /// Judges effects by the rules and the policy of the session, in the same way as effects of the
    /// call.
    #[must_use]
    pub fn judge_effects(&self, effects: &Effects) -> Verdict {
        self.judge_effects_with_denial_reason(effects).unwrap_or(Verdict::Deny)
    }

    /// Judges effects like [`judge_effects`](Self::judge_effects), and returns the reason of a
    /// denial.
    pub(crate) fn judge_effects_with_denial_reason(
        &self,
        effects: &Effects,
    ) -> Result<Verdict, UnaskedDenialReason> {
        let case = |session: &Session| session.policy_check(&self.id, effects);
        self.session.judge_unlocked_then_apply(case, |session, _, judgement| {
            session.verdict_or_denial(&judgement?)
        })
    }

    /// Returns whether effects that were permitted before may happen again without another request.
    pub(crate) fn is_still_permitted(
        &self,
        effects: &Effects,
    ) -> Result<bool, UnaskedDenialReason> {
        let case = |session: &Session| session.policy_check(&self.id, effects);
        self.session.judge_unlocked_then_apply(case, |session, _, judgement| {
            session.is_still_permitted(&judgement?)
        })
    }

    /// Decides whether the running call may have further effects, e.g. connect to a host. If the
    /// rules and the policy do not decide, the approver or the client is asked with a permission
    /// request of this call, and the answer can be remembered. Dropping the future withdraws the
    /// request.
    ///
    /// Before calling this method, append a note that explains the request to the call's content.
    ///
    /// # Errors
    ///
    /// Returns an error if the effects are not allowed, or if the call ends first. The error is the
    /// reason that the user or the approver gave, if there is one.
    pub async fn request_further_effects(&self, effects: &Effects) -> Result<(), Option<String>> {
        // The effects belong to no plan, so the subject is empty.
        let subject = PermissionSubject::for_call("", &Value::Null, Path::new(""), &[]);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(None),
            outcome = self.request_permission(effects, subject, true) => match outcome {
                PermissionOutcome::Granted(_) => Ok(()),
                PermissionOutcome::Rejected { reason }
                | PermissionOutcome::RejectedByApprover { reason } => Err(reason),
                _ => Err(None),
            }
        }
    }

    /// Decides whether the call may run. If the approver or the client is asked, waits for the
    /// answer. Dropping the future withdraws the request.
    pub(crate) async fn request_permission(
        &self,
        effects: &Effects,
        subject: PermissionSubject,
        is_whole: bool,
    ) -> PermissionOutcome {
        let shared = &self.session.shared;
        let approver = lock(&shared.approver).clone();
        let (outcome, mut answered) = oneshot::channel();
        let case = |session: &Session| session.policy_check(&self.id, effects);
        let permit = self.session.judge_unlocked_then_apply(case, |session, now, judgement| {
            let judgement = match judgement {
                Ok(judgement) => judgement,
                Err(denial) => return PermitDecision::Denied(denial),
            };
            let permit =
                session.decide_or_prepare_request(&self.id, &judgement, subject, is_whole, now);
            if let PermitDecision::AwaitingAnswer(id) = permit {
                // Register the request before the driver can receive it.
                lock(&shared.pending_permissions).insert(id, PendingPermission::new(outcome));
                if approver.is_none() {
                    session.enqueue_permission_request(id, now);
                }
            }
            permit
        });
        let id = match permit {
            PermitDecision::Granted(grant) => return PermissionOutcome::Granted(grant),
            PermitDecision::Denied(denial) => return PermissionOutcome::Denied(denial),
            PermitDecision::AwaitingAnswer(id) => id,
        };
        let _withdraw = WithdrawOnDrop { session: &self.session, id };
        let is_withdrawn = |_| PermissionOutcome::Unanswered(UnansweredReason::Withdrawn);
        if let Some(approver) = approver {
            tokio::select! {
                answer = self.ask_approver(&*approver, id) => match answer {
                    Ok(Some(answer)) => {
                        self.session.answer_permission_as(AnsweredBy::Approver, id, answer);
                    }
                    Ok(None) => self.session.update(|session, now| session.enqueue_permission_request(id, now)),
                    Err(denial) => return PermissionOutcome::Denied(denial),
                },
                outcome = &mut answered => return outcome.unwrap_or_else(is_withdrawn),
            }
        }
        answered.await.unwrap_or_else(is_withdrawn)
    }

    /// Asks an approver about a request of the call. Returns `None` if the request was withdrawn.
    async fn ask_approver(
        &self,
        approver: &Approver,
        id: PermissionId,
    ) -> Result<Option<PermissionAnswer>, UnaskedDenialReason> {
        let request = self.session.lock().approver_request(id);
        let call = self.session.call_report(&self.id);
        let (Some(request), Some(call)) = (request, call) else { return Ok(None) };
        let answer = AssertUnwindSafe(async { approver(request, call).await }).catch_unwind();
        answer.await.map_err(|_panic| UnaskedDenialReason::PolicyPanicked)
    }
}

/// Withdraws a request when the future that waits for it is dropped.
struct WithdrawOnDrop<'a> {
    session: &'a SessionHandle,
    id: PermissionId,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.session.update(|session, _| session.withdraw_permission_request(self.id));
    }
}
