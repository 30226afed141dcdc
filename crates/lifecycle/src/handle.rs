//! Async handles of a session and its calls. Dropping the handle of an open call ends the call.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use acp_types::{
    CallCapabilities, CallEndReason, MessageChunk, Plan, SessionStatePart, ToolCallId,
    ToolCallPatch, ToolCallReport, TraceContext, TurnId,
};
use foldhash::HashMap;
use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::SessionCallUsage;
use crate::board::Timestamp;
use crate::call_span;
use crate::catch_panic::catch_panic;
use crate::ids::PermissionId;
use crate::limits::MAX_POLICY_CHANGES;
use crate::outbox::OutboxItem;
use crate::permission::{PermissionAnswer, PermissionOutcome, UnaskedDenialReason};
use crate::rules::PolicyVerdicts;
use crate::session::{AnsweredBy, PermissionRequest, PolicyCheck, Session};

mod call;

pub use call::{CallHandle, OpenCall};

/// A handle of a session that many tasks can share. Cheap to clone.
///
/// The session's state is protected by one mutex, which is never held across an await. While the
/// mutex is locked, no policy or approver is called, no value of [`CallHandle::keep_until_end`] is
/// dropped and no task is woken. Policies, approvers, dropped values and woken tasks may therefore
/// use this handle.
#[derive(Clone)]
pub struct SessionHandle {
    shared: Arc<SharedSession>,
}

struct SharedSession {
    session: Mutex<Session>,
    pending_permissions: Mutex<HashMap<PermissionId, PendingPermission>>,
    change_notify: Notify,
    /// Notified when the outbox becomes empty.
    drain_notify: Notify,
    calls: Mutex<HashMap<ToolCallId, OpenCallResources>>,
    approver: Mutex<Option<Arc<Approver>>>,
    /// Whether the client is stalled, i.e. has read no message for some time.
    stalled: watch::Sender<bool>,
    wall_clock: fn() -> SystemTime,
}

/// A callback that answers permission requests instead of the client.
type Approver = dyn Fn(PermissionRequest, ToolCallReport) -> BoxFuture<'static, Option<PermissionAnswer>>
    + Send
    + Sync;

/// The resources of an open call.
struct OpenCallResources {
    /// The call's number on the board.
    number: u64,
    cancel: CancellationToken,
    kept_until_end: Vec<Box<dyn Send>>,
}

/// Resumes the call whose permission request was settled. If no task waits for the outcome, the
/// call has ended and the answer is ignored.
fn resume_waiting_call(settled: Option<(PermissionOutcome, PendingPermission)>) {
    if let Some((outcome, waiting)) = settled {
        drop(waiting.outcome.send(outcome));
    }
}

/// The sender that resumes the task of a permission request, and the token that is cancelled when
/// the request is withdrawn.
struct PendingPermission {
    outcome: oneshot::Sender<PermissionOutcome>,
    withdrawn: CancellationToken,
    /// Cancels `withdrawn` when the pending permission is dropped, for any reason.
    _on_drop: DropGuard,
}

impl PendingPermission {
    fn new(outcome: oneshot::Sender<PermissionOutcome>) -> Self {
        let withdrawn = CancellationToken::new();
        Self { outcome, _on_drop: withdrawn.clone().drop_guard(), withdrawn }
    }
}

/// Wakes the driver after a step of a session, and releases the calls that ended in the step.
struct WakeAndReleaseOnDrop<'a> {
    handle: &'a SessionHandle,
    /// Number of calls and requests that had ended before the step.
    ended: u64,
    /// Number of fields that had been dropped before the step.
    fields_dropped: u64,
}

impl WakeAndReleaseOnDrop<'_> {
    fn record_ended_and_dropped_counts(&mut self, session: &Session) {
        self.ended = session.ended_call_and_request_count();
        self.fields_dropped = session.board().rejected_change_counters().fields_dropped;
    }
}

impl Drop for WakeAndReleaseOnDrop<'_> {
    fn drop(&mut self) {
        let (ended, dropped) = {
            let session = self.handle.lock();
            (
                session.ended_call_and_request_count(),
                session
                    .board()
                    .rejected_change_counters()
                    .fields_dropped
                    .saturating_sub(self.fields_dropped),
            )
        };
        self.handle.shared.change_notify.notify_one();
        if dropped > 0 {
            tracing::debug!(dropped, "fields of a call that mean nothing were left out");
        }
        if ended > self.ended {
            self.handle.release_ended_calls();
        }
    }
}

impl SessionHandle {
    /// Creates a handle of a session. `wall` returns the wall-clock time, usually
    /// `SystemTime::now`.
    #[must_use]
    pub fn new(session: Session, wall: fn() -> SystemTime) -> Self {
        let shared = SharedSession {
            session: Mutex::new(session),
            pending_permissions: Mutex::default(),
            change_notify: Notify::new(),
            drain_notify: Notify::new(),
            calls: Mutex::default(),
            approver: Mutex::default(),
            stalled: watch::Sender::new(false),
            wall_clock: wall,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Changes the session in one step and wakes the driver. Calls that ended in the step are
    /// cancelled, and calls that wait for a withdrawn request are resumed.
    ///
    /// `change` must not use this handle, because the session is locked.
    pub fn update<T>(&self, change: impl FnOnce(&mut Session, Timestamp) -> T) -> T {
        let now = self.now();
        // Variables are dropped in reverse order. `after` is therefore dropped after the step and
        // after the lock is released, even on a panic.
        let mut after = WakeAndReleaseOnDrop { handle: self, ended: 0, fields_dropped: 0 };
        let mut session = self.lock();
        after.record_ended_and_dropped_counts(&session);
        change(&mut session, now)
    }

    /// Announces a call of a turn. Dropping the returned handle ends the call. Returns `None` if
    /// the id is or was in use, or if the turn's prompt was answered.
    ///
    /// `cancel` is the turn's token. The call receives a child token, so that the call can be
    /// cancelled without its turn. The capabilities of the call declare that the call can be
    /// cancelled.
    pub fn announce_call(
        &self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        self.announce_and_open(Session::announce_call, id, turn, patch, cancel)
    }

    /// Announces a call whose arguments still stream; see [`Session::announce_streamed_call`].
    pub fn announce_streamed_call(
        &self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        self.announce_and_open(Session::announce_streamed_call, id, turn, patch, cancel)
    }

    fn announce_and_open(
        &self,
        post: fn(&mut Session, &ToolCallId, &TurnId, ToolCallPatch, Timestamp) -> bool,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let patch = patch.with_capabilities(CallCapabilities::default().with_cancel());
        let (token, kept) = (cancel.child_token(), Vec::new());
        // Record the tool's name as the report displays it, because the model may have invented the
        // original name.
        let tool = self.update(|session, now| {
            if !post(session, id, turn, patch, now) {
                return None;
            }
            let board = session.board();
            let open = OpenCallResources {
                number: board.call_number(id)?,
                cancel: token.clone(),
                kept_until_end: kept,
            };
            lock(&self.shared.calls).insert(id.clone(), open);
            Some(board.open_call_report(id)?.name.clone())
        })?;
        Some(OpenCall::for_announced_call(
            self.clone(),
            id.clone(),
            cancel.clone(),
            token,
            call_span::new_span(id, &tool),
        ))
    }

    /// Sets the trace context of a turn; see [`Session::set_turn_trace_context`].
    pub fn set_turn_trace_context(&self, turn: &TurnId, trace: TraceContext) {
        self.update(|session, _| session.set_turn_trace_context(turn, trace));
    }

    /// Returns the usage totals of the ended calls and their updates.
    #[must_use]
    pub fn total_call_usage(&self) -> SessionCallUsage {
        self.lock().call_usage()
    }

    /// Cancels one open call but not its turn, e.g. after a `tool_call/cancel` message of draft v2,
    /// or after a click on a button. The call soon ends as cancelled by the user, and its turn
    /// continues. Returns whether the call was open.
    ///
    /// See <https://agentclientprotocol.com/protocol/v2/tool-calls#cancelling>.
    pub fn cancel_call(&self, id: &ToolCallId) -> bool {
        let cancel = lock(&self.shared.calls).get(id).map(|open| open.cancel.clone());
        cancel.map(|cancel| cancel.cancel()).is_some()
    }

    /// Returns the report of an open call, or of an ended call that is still in the history.
    #[must_use]
    pub fn call_report(&self, id: &ToolCallId) -> Option<ToolCallReport> {
        let session = self.lock();
        let board = session.board();
        board.open_call_report(id).or_else(|| board.history().get(id)).cloned()
    }

    /// Sends a chunk of a message. The caller chooses the message id. The message id must be the
    /// same for all chunks of one message and unique in the session.
    pub fn send_message_chunk(&self, chunk: MessageChunk) {
        self.update(|session, now| session.send_message_chunk(chunk, now));
    }

    /// Sends a plan.
    pub fn send_plan(&self, plan: Plan) {
        self.update(|session, now| session.send_plan(plan, now));
    }

    /// Sends a part of the session's state other than a plan; see [`Session::send_state_part`].
    pub fn send_state(&self, state: SessionStatePart) {
        self.update(|session, now| session.send_state_part(state, now));
    }

    /// Ends a turn: ends its open calls, then enqueues the response to the prompt.
    pub fn end_turn(&self, turn: &TurnId, reason: CallEndReason) {
        self.update(|session, now| session.end_turn(turn, reason, now));
    }

    /// Ends a turn that has not started; see [`Session::end_unstarted_turn`].
    pub fn end_unstarted_turn(&self, turn: &TurnId) {
        self.update(|session, now| session.end_unstarted_turn(turn, now));
    }

    /// Ends every open call of every turn.
    pub fn end_all_calls(&self, reason: CallEndReason) {
        self.update(|session, now| session.end_all_calls(reason, now));
    }

    /// Returns whether a call's id is or was in use.
    #[must_use]
    pub fn is_id_used(&self, id: &ToolCallId) -> bool {
        self.lock().board().is_id_used(id)
    }

    /// Sets an approver, e.g. your own dialog or a service. The approver answers permission
    /// requests before the client is asked. The approver receives the request, and the report of
    /// the call that a person would see, with all notes. The request contains the tool, the kind
    /// and the effects ([`PermissionRequest::effects`]). The request also contains the complete
    /// arguments ([`PermissionRequest::subject`]) and the changed files that the call may run
    /// ([`PermissionRequest::unreviewed_changed_files`]).
    ///
    /// The approver is called once for each request that neither a rule nor the policy decides.
    /// Only the call waits for the approver. If the approver returns `None`, the client is asked.
    /// Without a client, [`drive_session`](crate::drive_session) does not run, so the approver must
    /// answer every request. A call whose request is not answered waits until its turn is
    /// cancelled.
    ///
    /// The approver's answer is accepted like an answer of the client. Denials by a rule or the
    /// policy take precedence over the answer. The answer does not count as the answer of a person,
    /// so it is remembered for the session at most. For the same reason, files whose change only an
    /// approver allowed are listed in [`PermissionRequest::unreviewed_changed_files`] until a
    /// person has permitted a request that names them. A request to the approver does not remove
    /// files from this list.
    ///
    /// The approver's future is dropped if the call ends first. If the approver panics, the call is
    /// denied. The approver must not store this handle, because a stored handle would keep the
    /// session alive forever.
    ///
    /// ```
    /// # use acp_lifecycle::{PermissionAnswer, SessionHandle};
    /// # async fn ask_my_user(_: &str) -> bool { true }
    /// # fn set(session: &SessionHandle) {
    /// session.set_approver(|request, call| async move {
    ///     let question = format!("{}: {}?", call.title, request.subject().args());
    ///     match ask_my_user(&question).await {
    ///         true => Some(PermissionAnswer::allow_once()),
    ///         false => Some(PermissionAnswer::reject_once(Some("Not today.".to_owned()))),
    ///     }
    /// });
    /// # }
    /// ```
    pub fn set_approver<R>(
        &self,
        approver: impl Fn(PermissionRequest, ToolCallReport) -> R + Send + Sync + 'static,
    ) where
        R: Future<Output = Option<PermissionAnswer>> + Send + 'static,
    {
        let approver: Arc<Approver> =
            Arc::new(move |request, call| Box::pin(approver(request, call)));
        // Drop the old approver without a lock, because its drop may use this handle.
        let replaced = lock(&self.shared.approver).replace(approver);
        drop(replaced);
    }

    /// Returns a permission request that waits for its answer.
    #[must_use]
    pub fn pending_permission_request(&self, id: PermissionId) -> Option<PermissionRequest> {
        self.lock().pending_permission_request(id).cloned()
    }

    /// Applies the client's answer to a permission request. Late and second answers are ignored.
    pub fn answer_permission(&self, id: PermissionId, answer: PermissionAnswer) {
        self.answer_permission_as(AnsweredBy::Client, id, answer);
    }

    fn answer_permission_as(&self, by: AnsweredBy, id: PermissionId, answer: PermissionAnswer) {
        let settled = self.judge_unlocked_then_apply(
            |session| session.policy_check_of_request(id),
            |session, _, judgement| {
                self.take_pending_permission(
                    id,
                    session.apply_permission_answer(id, answer, by, judgement),
                )
            },
        );
        resume_waiting_call(settled);
    }

    /// Applies the user's reason for a rejection, or `None` if the user gave no reason.
    pub fn apply_rejection_reason(&self, id: PermissionId, reason: Option<&str>) {
        resume_waiting_call(self.update(|session, _| {
            self.take_pending_permission(id, session.apply_rejection_reason(id, reason))
        }));
    }

    /// Asks the policy for its verdicts, and applies a step with these verdicts. The policy may use
    /// this handle, so no lock is held while the policy is called. If the policy is replaced while
    /// it judges, the new policy is asked.
    fn judge_unlocked_then_apply<T>(
        &self,
        case: impl Fn(&Session) -> Result<PolicyCheck, UnaskedDenialReason>,
        mut step: impl FnOnce(&mut Session, Timestamp, Result<PolicyVerdicts, UnaskedDenialReason>) -> T,
    ) -> T {
        for _ in 0..MAX_POLICY_CHANGES {
            let case = case(&self.lock());
            let policy = case.as_ref().ok().map(PolicyCheck::policy);
            let judgement = case.and_then(PolicyCheck::judge_effects);
            let taken = self.update(|session, now| match policy {
                Some(policy) if !session.is_current_policy(&policy) => Err(step),
                _ => Ok(step(session, now, judgement)),
            });
            match taken {
                Ok(result) => return result,
                Err(not_taken) => step = not_taken,
            }
        }
        // If the policy is replaced during every attempt, the call is denied.
        self.update(|session, now| step(session, now, Err(UnaskedDenialReason::PolicyPanicked)))
    }

    /// Removes the task that waits for a settled request. Must be called in the same step that
    /// settles the request, because other steps treat a missing request as withdrawn.
    fn take_pending_permission(
        &self,
        id: PermissionId,
        outcome: Option<PermissionOutcome>,
    ) -> Option<(PermissionOutcome, PendingPermission)> {
        Some((outcome?, lock(&self.shared.pending_permissions).remove(&id)?))
    }

    /// Waits until a permission request is withdrawn. The driver then notifies the client.
    pub async fn wait_until_permission_withdrawn(&self, id: PermissionId) {
        let token = lock(&self.shared.pending_permissions)
            .get(&id)
            .map(|waiting| waiting.withdrawn.clone());
        if let Some(token) = token {
            token.cancelled().await;
        }
    }

    /// Cancels the tasks of calls that have ended, and releases the tasks that wait for withdrawn
    /// requests.
    fn release_ended_calls(&self) {
        let (mut calls, mut requests): (Vec<_>, Vec<_>) = {
            let session = self.lock();
            let has_ended = |id: &ToolCallId, _: &mut OpenCallResources| {
                session.board().open_call_report(id).is_none()
            };
            let is_gone = |id: &PermissionId, _: &mut PendingPermission| {
                session.pending_permission_request(*id).is_none()
            };
            let calls = lock(&self.shared.calls).extract_if(has_ended).collect();
            (calls, lock(&self.shared.pending_permissions).extract_if(is_gone).collect())
        };
        // Hold no lock here, because dropped values and woken tasks may use this handle.
        calls.sort_unstable_by_key(|(_, open)| open.number);
        for (_, OpenCallResources { cancel, kept_until_end: kept, .. }) in calls {
            cancel.cancel();
            // Catch the panic of a drop, so that all other values are dropped and all tasks are
            // released.
            for kept in kept {
                let _panicked = catch_panic(|| drop(kept)).is_none();
            }
        }
        // Sort the requests, so that the client is notified in their order.
        requests.sort_unstable_by_key(|(id, _)| *id);
        drop(requests);
    }

    /// Waits while the client reads nothing. Producers of updates should call this method
    /// regularly, so that updates do not accumulate for a client that does not read.
    pub async fn wait_while_client_stalled(&self) {
        let mut stalled = self.shared.stalled.subscribe();
        // The sender lives as long as this handle, so the wait cannot fail.
        let _is_over = stalled.wait_for(|stalled| !stalled).await;
    }

    /// Waits until all items are sent, including items that wait because of the rate limit. Items
    /// that are enqueued during the wait are sent too, so the wait is long while several calls
    /// stream.
    ///
    /// If no [driver](crate::drive_session) runs, the wait does not end. Combine it with a deadline
    /// or a cancel.
    pub async fn wait_drained(&self) {
        let mut drained = std::pin::pin!(self.shared.drain_notify.notified());
        drained.as_mut().enable();
        self.update(|session, now| session.make_all_items_due(now.monotonic));
        drained.await;
    }

    pub(crate) fn set_client_stalled(&self, stalled: bool) {
        self.shared.stalled.send_if_modified(|was| std::mem::replace(was, stalled) != stalled);
    }

    /// Waits for the next change of the session. The driver calls this method.
    pub(crate) async fn wait_for_session_change(&self) {
        self.shared.change_notify.notified().await;
    }

    /// Returns the next item that is due, and the time at which the following item is due.
    pub(crate) fn poll_item_and_deadline(
        &self,
    ) -> (Option<OutboxItem>, Option<std::time::Instant>) {
        let now = self.now();
        let mut session = self.lock();
        let item = session.poll(now.monotonic);
        // All items are sent: the outbox is empty, and the driver sent the previous item before it
        // called this method.
        if item.is_none() && session.outbox().is_empty() {
            self.shared.drain_notify.notify_waiters();
        }
        (item, session.next_poll_deadline())
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp {
            monotonic: tokio::time::Instant::now().into_std(),
            wall: (self.shared.wall_clock)(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        lock(&self.shared.session)
    }
}

/// Locks a mutex, and ignores poisoning. Only foreign code in [`SessionHandle::update`] can panic
/// while the lock is held, and the consistency of the state does not depend on that code.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionHandle").finish_non_exhaustive()
    }
}
