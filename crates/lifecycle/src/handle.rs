//! Async handles of a session and its calls. Dropping an open call ends it.

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

/// A session that many tasks use. Cheap to clone.
///
/// Its state is behind one mutex that is never held across an await. While the mutex is locked, no
/// policy or approver is called, no value of [`CallHandle::keep_until_end`] is dropped and no task
/// is woken. All of these may therefore use this handle.
#[derive(Clone)]
pub struct SessionHandle {
    shared: Arc<SharedSession>,
}

struct SharedSession {
    session: Mutex<Session>,
    pending_permissions: Mutex<HashMap<PermissionId, PendingPermission>>,
    change_notify: Notify,
    /// Notified when the last waiting item is taken.
    drain_notify: Notify,
    calls: Mutex<HashMap<ToolCallId, OpenCallResources>>,
    approver: Mutex<Option<Arc<Approver>>>,
    /// Whether the client has read nothing for a while.
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

/// Resumes the call whose request is settled. If no task waits, the call has ended and the answer
/// is ignored.
fn resume_waiting_call(settled: Option<(PermissionOutcome, PendingPermission)>) {
    if let Some((outcome, waiting)) = settled {
        drop(waiting.outcome.send(outcome));
    }
}

/// The waiting side of a permission request, and the signal to the client that it was withdrawn.
struct PendingPermission {
    outcome: oneshot::Sender<PermissionOutcome>,
    withdrawn: CancellationToken,
    /// Cancels `withdrawn` when this is dropped, for any reason.
    _on_drop: DropGuard,
}

impl PendingPermission {
    fn new(outcome: oneshot::Sender<PermissionOutcome>) -> Self {
        let withdrawn = CancellationToken::new();
        Self { outcome, _on_drop: withdrawn.clone().drop_guard(), withdrawn }
    }
}

/// Wakes the driver after a step of a session, and releases the calls that ended in it.
struct WakeAndReleaseOnDrop<'a> {
    handle: &'a SessionHandle,
    /// Number of calls and requests that had ended before the step.
    ended: u64,
    /// Number of fields that had been dropped before the step.
    fields_dropped: u64,
}

impl WakeAndReleaseOnDrop<'_> {
    fn record_counts_before_step(&mut self, session: &Session) {
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
    /// Creates a handle of a session. `wall` returns the wall-clock time: `SystemTime::now`.
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
        // Dropped after the step and its lock, also on a panic.
        let mut after = WakeAndReleaseOnDrop { handle: self, ended: 0, fields_dropped: 0 };
        let mut session = self.lock();
        after.record_counts_before_step(&session);
        change(&mut session, now)
    }

    /// Announces a call of a turn. Dropping the returned handle ends the call. Returns `None` for
    /// an id that is or was in use, and for a turn whose prompt was answered.
    ///
    /// `cancel` is the turn's token. The call receives a child token, so that it can be cancelled
    /// alone; its capabilities declare this.
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
        let patch = patch.with_capabilities(CallCapabilities { cancel: true });
        let (token, kept) = (cancel.child_token(), Vec::new());
        // The displayed name is used, because the model may have invented the name.
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
        Some(OpenCall::new(
            self.clone(),
            id.clone(),
            cancel.clone(),
            token,
            call_span::new_span(id, &tool),
        ))
    }

    /// Sets the trace context of a turn; see [`Session::set_turn_trace`].
    pub fn set_turn_trace(&self, turn: &TurnId, trace: TraceContext) {
        self.update(|session, _| session.set_turn_trace(turn, trace));
    }

    /// Returns sums over the ended calls and their updates.
    #[must_use]
    pub fn call_usage(&self) -> SessionCallUsage {
        self.lock().call_usage()
    }

    /// Cancels one open call alone: draft v2's `tool_call/cancel`, or a button. The call soon ends
    /// as cancelled by the user, and its turn continues. Returns whether the call was open.
    ///
    /// (<https://agentclientprotocol.com/protocol/v2/tool-calls#cancelling>)
    pub fn cancel_call(&self, id: &ToolCallId) -> bool {
        let cancel = lock(&self.shared.calls).get(id).map(|open| open.cancel.clone());
        cancel.map(|cancel| cancel.cancel()).is_some()
    }

    /// Returns the report of a call, open or ended, as long as it is kept.
    #[must_use]
    pub fn call_report(&self, id: &ToolCallId) -> Option<ToolCallReport> {
        let session = self.lock();
        let board = session.board();
        board.open_call_report(id).or_else(|| board.history().get(id)).cloned()
    }

    /// Sends a chunk of a message. The caller chooses the message id: the same for all chunks of
    /// one message, unique in the session.
    pub fn send_message_chunk(&self, chunk: MessageChunk) {
        self.update(|session, now| session.send_message_chunk(chunk, now));
    }

    /// Sends a plan.
    pub fn send_plan(&self, plan: Plan) {
        self.update(|session, now| session.send_plan(plan, now));
    }

    /// Sends another part of the session's state; see [`Session::send_state`].
    pub fn send_state(&self, state: SessionStatePart) {
        self.update(|session, now| session.send_state(state, now));
    }

    /// Ends a turn: all its open calls, then its response.
    pub fn end_turn(&self, turn: &TurnId, reason: CallEndReason) {
        self.update(|session, now| session.end_turn(turn, reason, now));
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

    /// Sets an approver that answers permission requests before the client is asked, such as your
    /// own dialog or a service. The approver receives the same report as a person, with all notes,
    /// and the request: its tool, kind and effects ([`PermissionRequest::effects`]), its whole
    /// arguments ([`PermissionRequest::subject`]), and the changed files that it may run
    /// ([`PermissionRequest::unreviewed_files`]).
    ///
    /// The approver is called once per request that neither a rule nor the policy decided, and only
    /// the call waits for it. If it returns `None`, the client is asked. Without a client, and
    /// therefore without [`drive_session`](crate::drive_session), answer every request; otherwise
    /// the call waits until its turn is cancelled.
    ///
    /// The answer is accepted like one of the client, and denials by a rule or the policy take
    /// precedence. It does not count as the answer of a person: it is remembered for the session at
    /// most. Files that the approver changed or was shown are named in the next request about a
    /// command that may run them.
    ///
    /// The approver's future is dropped if the call ends first. If it panics, the call is denied.
    /// The approver must not store this handle, because that would keep the session alive forever.
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
        // Dropping the old approver may use this handle, so no lock is held.
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
        let settled = self.judge_and_apply(
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

    /// Passes on the user's explanation of a rejection, if there is one.
    pub fn apply_rejection_reason(&self, id: PermissionId, reason: Option<&str>) {
        resume_waiting_call(self.update(|session, _| {
            self.take_pending_permission(id, session.apply_rejection_reason(id, reason))
        }));
    }

    /// Asks the policy for its verdicts and applies a step with them. The policy may use this
    /// handle, so no lock is held meanwhile. If the policy was replaced meanwhile, the new one
    /// judges.
    fn judge_and_apply<T>(
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
        // A policy that is replaced during each judgement decides nothing.
        self.update(|session, now| step(session, now, Err(UnaskedDenialReason::PolicyPanicked)))
    }

    /// Removes the task that waits for a settled request. Must be called in the step that settles
    /// the request: other steps treat a missing request as withdrawn.
    fn take_pending_permission(
        &self,
        id: PermissionId,
        outcome: Option<PermissionOutcome>,
    ) -> Option<(PermissionOutcome, PendingPermission)> {
        Some((outcome?, lock(&self.shared.pending_permissions).remove(&id)?))
    }

    /// Waits until a permission request is withdrawn, so that the client can be notified.
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
        // No lock is held here, because dropped values and woken tasks may use this handle.
        calls.sort_unstable_by_key(|(_, open)| open.number);
        for (_, OpenCallResources { cancel, kept_until_end: kept, .. }) in calls {
            cancel.cancel();
            // A panic of one drop does not keep the others from being dropped, nor tasks from being
            // released.
            for kept in kept {
                let _panicked = catch_panic(|| drop(kept)).is_none();
            }
        }
        // The client is notified in the order of the requests.
        requests.sort_unstable_by_key(|(id, _)| *id);
        drop(requests);
    }

    /// Waits while the client reads nothing. Producers of updates should call it regularly, so that
    /// updates do not accumulate for a client that does not read.
    pub async fn wait_while_client_stalled(&self) {
        let mut stalled = self.shared.stalled.subscribe();
        // The sender lives as long as this handle, so the wait cannot fail.
        let _is_over = stalled.wait_for(|stalled| !stalled).await;
    }

    /// Waits until everything is sent, also what its rate holds back.
    pub async fn wait_drained(&self) {
        let mut drained = std::pin::pin!(self.shared.drain_notify.notified());
        drained.as_mut().enable();
        self.update(|session, now| session.make_all_items_due(now.monotonic));
        drained.await;
    }

    pub(crate) fn set_client_stalled(&self, stalled: bool) {
        self.shared.stalled.send_if_modified(|was| std::mem::replace(was, stalled) != stalled);
    }

    /// Waits for the next change of the session. For the driver.
    pub(crate) async fn wait_for_session_change(&self) {
        self.shared.change_notify.notified().await;
    }

    /// Returns the next item that is due, and the deadline of the one after it.
    pub(crate) fn poll_item_and_deadline(
        &self,
    ) -> (Option<OutboxItem>, Option<std::time::Instant>) {
        let now = self.now();
        let mut session = self.lock();
        let item = session.poll(now.monotonic);
        // The item before this one was sent.
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

/// Locks a mutex. Only foreign code in [`SessionHandle::update`] can panic while the lock is held,
/// and the state is consistent without that code.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionHandle").finish_non_exhaustive()
    }
}
