//! Handles of one call: the one that ends it, and those that a tool may keep.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use acp_types::{
    CallMeta, Content, Exit, Location, Progress, Reason, TerminalId, TerminalPatch, ToolCallId,
    ToolCallPatch,
};
use futures::FutureExt as _;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Approver, SessionHandle, Waiting, lock};
use crate::board::End;
use crate::ids::PermissionId;
use crate::permission::{Answer, Denial, NoAnswer, Outcome, Permit};
use crate::session::{AnsweredBy, Session};
use crate::span;
use crate::{Effects, Subject, Verdict};

/// A call that is announced and must end. Dropped without an end, it ends as `dropped`.
///
/// Of all handles, this one alone ends the call, and once:
///
/// ```
/// # use acp_lifecycle::{End, OpenCall};
/// # fn twice(call: OpenCall) {
/// call.finish(End::completed());
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # use acp_lifecycle::{End, OpenCall};
/// # fn twice(call: OpenCall) {
/// call.finish(End::completed());
/// call.finish(End::completed());
/// # }
/// ```
///
/// ```compile_fail,E0624
/// # use acp_lifecycle::{End, OpenCall};
/// # fn twice(call: OpenCall) {
/// call.handle().finish(End::completed());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the call"]
pub struct OpenCall {
    call: CallHandle,
    span: tracing::Span,
}

impl OpenCall {
    /// Makes the handle of a call that is announced; `turn` cancels its turn, `cancel` the call alone.
    pub(super) fn new(
        session: SessionHandle,
        id: ToolCallId,
        turn: CancellationToken,
        cancel: CancellationToken,
        span: tracing::Span,
    ) -> Self {
        Self { call: CallHandle { session, id, turn, cancel }, span }
    }

    /// Ends the call.
    pub fn finish(self, end: End) {
        self.call.finish(end);
    }

    /// Returns the span of the call's life, for events that belong to it.
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
            self.call.finish(End::cancelled(Reason::Dropped));
        }
        span::end(&self.span, &self.call.id, || self.call.session.tool_call(&self.call.id));
    }
}

/// What a tool may do to its call while it runs. After the call's end, nothing happens.
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

    /// Returns the token that says that the call is to stop.
    #[must_use]
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns why the call is to stop, where its token says that it is: as it ended already,
    /// with its turn, or alone by the user.
    pub(crate) fn cancelled_by(&self) -> Option<Reason> {
        if !self.cancel.is_cancelled() {
            return None;
        }
        let session = self.session.lock();
        let with = match self.turn.is_cancelled() {
            true if session.is_closing() => Reason::Shutdown,
            true => Reason::Turn,
            false => Reason::User,
        };
        let ended = session.board().history().get(&self.id);
        Some(ended.and_then(|report| report.meta.reason).unwrap_or(with))
    }

    /// Reports that the running call waits for something, such as a login or a lock.
    pub fn pause(&self) {
        self.session.with(|session, now| session.pause(&self.id, now));
    }

    /// Reports that a paused call goes on.
    pub fn resume(&self) {
        self.session.with(|session, now| session.start(&self.id, now));
    }

    /// Returns whether the call has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.lock().board().tool_call(&self.id).is_some()
    }

    /// Changes the call.
    pub fn change(&self, patch: ToolCallPatch) {
        self.session.with(|session, now| session.change(&self.id, patch, now));
    }

    /// Lets the first report of a streamed call wait no longer than this from now on; see
    /// [`Session::report_within`](crate::Session::report_within).
    pub fn report_within(&self, wait: Duration) {
        self.session.with(|session, now| session.report_within(&self.id, wait, now));
    }

    /// Changes what the call reports beside the protocol's own fields. `change` has the session to itself,
    /// as in [`SessionHandle::with`].
    pub fn change_meta(&self, change: impl FnOnce(&mut CallMeta)) {
        self.session.with(|session, now| session.change_meta(&self.id, change, now));
    }

    /// Adds one item to what the call shows.
    pub fn append(&self, content: Content) {
        self.change(ToolCallPatch::new().append(content));
    }

    /// Reports where the call works now.
    pub fn locations(&self, locations: Vec<Location>) {
        self.change(ToolCallPatch::new().locations(locations));
    }

    /// Reports how far the call is, in its metadata and behind its title.
    pub fn progress(&self, progress: Progress) {
        self.session.with(|session, now| session.progress(&self.id, progress, now));
    }

    /// Says in a few words, or no longer, what the call is doing: it follows the title until the
    /// call ends or the client is asked for permission.
    pub fn subtitle(&self, subtitle: Option<&str>) {
        self.session.with(|session, now| session.subtitle(&self.id, subtitle, now));
    }

    /// Opens a terminal that the call shows, behind what it shows already, and returns its id. A call
    /// has one: it has the id of the call. After the call's end nothing happens.
    ///
    /// A client that shows terminals by `_meta` shows one that was opened behind the call's first
    /// report as text (<https://github.com/zed-industries/zed/pull/39419>).
    pub fn open_terminal(&self, patch: TerminalPatch) -> TerminalId {
        let id = TerminalId::new(self.id.0.clone());
        self.session.with(|session, now| {
            let call = session.board().tool_call(&self.id);
            let is_open = call.is_some_and(|call| !call.status.is_final());
            if !is_open || session.board().terminal(&id).is_some() {
                return;
            }
            session.open_terminal(&id, patch, now);
            let shown = ToolCallPatch::new().append(Content::Terminal(id.clone()));
            session.change(&self.id, shown, now);
        });
        id
    }

    /// Reports more of a terminal of the call: its command, its size.
    pub fn describe_terminal(&self, id: &TerminalId, patch: TerminalPatch) {
        self.session.with(|session, now| session.describe_terminal(id, patch, now));
    }

    /// Appends output to a terminal.
    pub fn terminal_output(&self, id: &TerminalId, bytes: &[u8]) {
        self.session.with(|session, now| session.terminal_output(id, bytes, now));
    }

    /// Counts bytes of a terminal's output that are missing at this place.
    pub fn terminal_gap(&self, id: &TerminalId, bytes: u64) {
        self.session.with(|session, now| session.terminal_gap(id, bytes, now));
    }

    /// Ends a terminal.
    pub fn terminal_exit(&self, id: &TerminalId, exit: Exit) {
        self.session.with(|session, now| session.terminal_exit(id, exit, now));
    }

    /// Keeps something until the call has ended, however it ends, and drops it then: behind all
    /// that is told of the call. For what the client must still know while it is told more, such
    /// as a terminal that the call shows. It is dropped at once if the call has ended.
    pub fn keep(&self, thing: impl Send + 'static) {
        if let Some(open) = lock(&self.session.shared.calls).get_mut(&self.id) {
            open.kept.push(Box::new(thing));
        }
    }

    pub(crate) fn start(&self) -> bool {
        let starts = self.session.with(|session, now| session.start(&self.id, now));
        if starts {
            let name = || Some(self.session.lock().board().tool_call(&self.id)?.name.clone());
            span::start(&self.id, name);
        }
        starts
    }

    pub(crate) fn take_back(&self) {
        self.session.with(|session, now| session.take_back(&self.id, now));
    }

    pub(crate) fn finish(&self, end: End) {
        self.session.with(|session, now| session.finish(&self.id, end, now));
    }

    /// Judges effects by the rules and the policy of the session, as a permission of the call is.
    #[must_use]
    pub fn judge(&self, effects: &Effects) -> Verdict {
        self.decide(effects).unwrap_or(Verdict::Deny)
    }

    /// Judges effects in the same way, and says what denies them.
    pub(crate) fn decide(&self, effects: &Effects) -> Result<Verdict, Denial> {
        let case = |session: &Session| session.case(&self.id, effects);
        self.session.judged(case, |session, _, judgement| session.decide(&judgement?))
    }

    /// Returns whether effects that were permitted before need no further question.
    pub(crate) fn stays_permitted(&self, effects: &Effects) -> Result<bool, Denial> {
        let case = |session: &Session| session.case(&self.id, effects);
        self.session.judged(case, |session, _, judgement| session.stays_permitted(&judgement?))
    }

    /// Decides whether the call may run, and waits for the approver or the client where they are
    /// asked. Dropping this withdraws the request.
    pub(crate) async fn permit(
        &self,
        effects: &Effects,
        subject: Subject,
        is_whole: bool,
    ) -> Outcome {
        let shared = &self.session.shared;
        let approver = lock(&shared.approver).clone();
        let (outcome, mut answered) = oneshot::channel();
        let case = |session: &Session| session.case(&self.id, effects);
        let permit = self.session.judged(case, |session, now, judgement| {
            let judgement = match judgement {
                Ok(judgement) => judgement,
                Err(denial) => return Permit::Denied(denial),
            };
            let permit = session.prepare_request(&self.id, &judgement, subject, is_whole, now);
            if let Permit::Asked(id) = permit {
                // Registered before the driver can see the request.
                lock(&shared.waiting).insert(id, Waiting::new(outcome));
                if approver.is_none() {
                    session.ask_client(id, now);
                }
            }
            permit
        });
        let id = match permit {
            Permit::Granted(grant) => return Outcome::Granted(grant),
            Permit::Denied(denial) => return Outcome::Denied(denial),
            Permit::Asked(id) => id,
        };
        let _withdraw = Withdraw { session: &self.session, id };
        let is_withdrawn = |_| Outcome::Unanswered(NoAnswer::Withdrawn);
        if let Some(approver) = approver {
            tokio::select! {
                answer = self.ask(&*approver, id) => match answer {
                    Ok(Some(answer)) => {
                        self.session.answer_by(AnsweredBy::Approver, id, answer);
                    }
                    Ok(None) => self.session.with(|session, now| session.ask_client(id, now)),
                    Err(denial) => return Outcome::Denied(denial),
                },
                outcome = &mut answered => return outcome.unwrap_or_else(is_withdrawn),
            }
        }
        answered.await.unwrap_or_else(is_withdrawn)
    }

    /// Asks an approver about a request of the call; nothing of one that was withdrawn.
    async fn ask(&self, approver: &Approver, id: PermissionId) -> Result<Option<Answer>, Denial> {
        let request = self.session.lock().request_of_approver(id);
        let call = self.session.tool_call(&self.id);
        let (Some(request), Some(call)) = (request, call) else { return Ok(None) };
        let answer = AssertUnwindSafe(async { approver(request, call).await }).catch_unwind();
        answer.await.map_err(|_panic| Denial::Fault)
    }
}

/// Withdraws a request when the future that waits for it is dropped.
struct Withdraw<'a> {
    session: &'a SessionHandle,
    id: PermissionId,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.session.with(|session, _| session.withdraw(self.id));
    }
}
