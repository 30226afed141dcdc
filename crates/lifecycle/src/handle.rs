//! Async handles of a session and its calls. Dropping an open call ends it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use acp_types::{
    CallCapabilities, CallEndReason, MessageChunk, Plan, SessionState, ToolCallId, ToolCallPatch,
    ToolCallReport, TraceContext, TurnId,
};
use foldhash::HashMap;
use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::SessionUsage;
use crate::board::Timestamp;
use crate::call_span;
use crate::catch_panic::catch_panic;
use crate::config::SessionConfig;
use crate::ids::PermissionId;
use crate::limits::MAX_POLICY_CHANGES;
use crate::outbox::OutboxItem;
use crate::permission::{DenialReason, PermissionAnswer, PermissionOutcome};
use crate::rules::PolicyVerdicts;
use crate::session::{AnsweredBy, PermissionRequest, PolicyCheck, Session};

mod call;

pub use call::{CallHandle, OpenCall};

/// A session that many tasks work on. Cheap to clone.
///
/// Its state lies behind one mutex that is never held across an await. Under it, no policy or approver
/// is called, nothing that was given to be kept is dropped, and nobody is woken, so all of these may
/// use this handle.
#[derive(Clone)]
pub struct SessionHandle {
    shared: Arc<SharedSession>,
}

struct SharedSession {
    session: Mutex<Session>,
    pending_permissions: Mutex<HashMap<PermissionId, PendingPermission>>,
    change_notify: Notify,
    /// The open calls.
    calls: Mutex<HashMap<ToolCallId, OpenCallResources>>,
    approver: Mutex<Option<Arc<Approver>>>,
    /// Whether the client has taken nothing for a while.
    stalled: watch::Sender<bool>,
    wall_clock: fn() -> SystemTime,
}

/// Answers permission requests instead of the client.
type Approver = dyn Fn(PermissionRequest, ToolCallReport) -> BoxFuture<'static, Option<PermissionAnswer>>
    + Send
    + Sync;

/// What is held for an open call.
struct OpenCallResources {
    /// The board's number of it.
    number: u64,
    cancel: CancellationToken,
    kept_until_end: Vec<Box<dyn Send>>,
}

/// Lets the call go on whose request came to an end. Where nobody waits any more, the call has ended,
/// and the answer is void.
fn resume_waiting_call(settled: Option<(PermissionOutcome, PendingPermission)>) {
    if let Some((outcome, waiting)) = settled {
        drop(waiting.outcome.send(outcome));
    }
}

/// Who waits for the answer to a request, and how the client learns that nobody does any more.
struct PendingPermission {
    outcome: oneshot::Sender<PermissionOutcome>,
    withdrawn: CancellationToken,
    /// Cancels `withdrawn` when this is dropped, however that comes.
    _on_drop: DropGuard,
}

impl PendingPermission {
    fn new(outcome: oneshot::Sender<PermissionOutcome>) -> Self {
        let withdrawn = CancellationToken::new();
        Self { outcome, _on_drop: withdrawn.clone().drop_guard(), withdrawn }
    }
}

/// Wakes the driver after a step of a session, and releases the calls that ended in it.
struct AfterStep<'a> {
    handle: &'a SessionHandle,
    /// Calls that had ended before the step.
    ended: u64,
    /// Fields that had been dropped before it.
    fields_dropped: u64,
}

impl AfterStep<'_> {
    fn begin(&mut self, session: &Session) {
        self.ended = session.ended_call_and_request_count();
        self.fields_dropped = session.board().counters().fields_dropped;
    }
}

impl Drop for AfterStep<'_> {
    fn drop(&mut self) {
        let (ended, dropped) = {
            let session = self.handle.lock();
            (
                session.ended_call_and_request_count(),
                session.board().counters().fields_dropped - self.fields_dropped,
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
    /// Puts a session behind a handle. `wall` tells the time of the day: `SystemTime::now`.
    #[must_use]
    pub fn new(session: Session, wall: fn() -> SystemTime) -> Self {
        let shared = SharedSession {
            session: Mutex::new(session),
            pending_permissions: Mutex::default(),
            change_notify: Notify::new(),
            calls: Mutex::default(),
            approver: Mutex::default(),
            stalled: watch::Sender::new(false),
            wall_clock: wall,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Changes the session in one step and wakes the driver. What still runs for a call that ended by it
    /// is told to stop, and a call that waits for a request that was withdrawn by it goes on.
    ///
    /// `change` must not use this handle: it has the session to itself.
    pub fn update<T>(&self, change: impl FnOnce(&mut Session, Timestamp) -> T) -> T {
        let now = self.now();
        // Dropped behind the step and its lock, also by a panic.
        let mut after = AfterStep { handle: self, ended: 0, fields_dropped: 0 };
        let mut session = self.lock();
        after.begin(&session);
        change(&mut session, now)
    }

    /// Posts a call of a turn. The handle that comes back ends the call when it is dropped; there
    /// is none for an id that is or was in use, or a turn that was answered.
    ///
    /// `cancel` is the turn's token; the call gets one of its own beneath it, so it can be
    /// cancelled alone, which its capabilities say.
    pub fn announce(
        &self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        self.announce_with(Session::announce, id, turn, patch, cancel)
    }

    /// Posts a call whose arguments still stream; see [`Session::announce_streamed`].
    pub fn announce_streamed(
        &self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        self.announce_with(Session::announce_streamed, id, turn, patch, cancel)
    }

    fn announce_with(
        &self,
        post: fn(&mut Session, &ToolCallId, &TurnId, ToolCallPatch, Timestamp) -> bool,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let patch = patch.capabilities(CallCapabilities { cancel: true });
        let (token, kept) = (cancel.child_token(), Vec::new());
        // The name as it is shown: a model may have made it up.
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
            Some(board.tool_call(id)?.name.clone())
        })?;
        Some(OpenCall::new(
            self.clone(),
            id.clone(),
            cancel.clone(),
            token,
            call_span::new_span(id, &tool),
        ))
    }

    /// Notes the trace that a turn belongs to; see [`Session::trace_turn`].
    pub fn set_turn_trace(&self, turn: &TurnId, trace: TraceContext) {
        self.update(|session, _| session.set_turn_trace(turn, trace));
    }

    /// Sums up the calls that have ended, and what was sent of them.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        self.lock().usage()
    }

    /// Tells one open call alone to stop: draft v2's `tool_call/cancel`, or a button. It ends
    /// soon as cancelled by the user, and its turn goes on. Returns whether it was open.
    ///
    /// (<https://agentclientprotocol.com/protocol/v2/tool-calls#cancelling>)
    pub fn cancel_call(&self, id: &ToolCallId) -> bool {
        let cancel = lock(&self.shared.calls).get(id).map(|open| open.cancel.clone());
        cancel.map(|cancel| cancel.cancel()).is_some()
    }

    /// Returns the document of a call, open or ended, as long as it is kept.
    #[must_use]
    pub fn tool_call(&self, id: &ToolCallId) -> Option<ToolCallReport> {
        let session = self.lock();
        let board = session.board();
        board.tool_call(id).or_else(|| board.history().get(id)).cloned()
    }

    /// Sends a piece of a message, whose id the caller chooses: the same for all pieces of one message,
    /// unique in the session.
    pub fn send_message_chunk(&self, chunk: MessageChunk) {
        self.update(|session, now| session.send_message_chunk(chunk, now));
    }

    /// Sends a plan.
    pub fn send_plan(&self, plan: Plan) {
        self.update(|session, now| session.send_plan(plan, now));
    }

    /// Sends another part of what a client may know of the session; see [`Session::send_state`].
    pub fn send_state(&self, state: SessionState) {
        self.update(|session, now| session.send_state(state, now));
    }

    /// Ends a turn: all its open calls, then its answer.
    pub fn end_turn(&self, turn: &TurnId, reason: CallEndReason) {
        self.update(|session, now| session.end_turn(turn, reason, now));
    }

    /// Ends every open call, of every turn.
    pub fn cancel_all_calls(&self, reason: CallEndReason) {
        self.update(|session, now| session.end_all_calls(reason, now));
    }

    /// Returns whether a call's id is or was in use.
    #[must_use]
    pub fn is_id_used(&self, id: &ToolCallId) -> bool {
        self.lock().board().is_id_used(id)
    }

    /// Has permission requests answered by `approver` before the client is asked: by a dialog of
    /// your own, or by a service. It gets what a person would see, the document of the call with all
    /// notes, and what was made of it: its tool, kind and effects ([`Request::effects`]), its whole
    /// arguments ([`Request::subject`]), the files changed before that it may run
    /// ([`Request::unseen`]).
    ///
    /// It is asked once about each request, which neither a rule nor the policy decided, and nothing
    /// waits for it but the call. On nothing, the client is asked; without a client, and so without
    /// [`drive`](crate::drive), answer every request, or the call waits until its turn is cancelled. Its
    /// answer is taken as the
    /// client's would be, and what a rule or the policy denies by then stays denied, but it stands for
    /// no person: what it allows can be remembered for the session and no longer, and files that are
    /// changed by it, or named to it, are named to whoever is asked next about a command that may run
    /// them. It is dropped when the call ends before; if it panics, the call is denied. It must not
    /// keep this handle, which would keep the session for ever.
    ///
    /// ```
    /// # use acp_lifecycle::{Answer, Effect, SessionHandle};
    /// # async fn ask_my_user(_: &str) -> bool { true }
    /// # fn set(session: &SessionHandle) {
    /// session.set_approver(|request, call| async move {
    ///     let question = format!("{}: {}?", call.title, request.subject().args());
    ///     match ask_my_user(&question).await {
    ///         true => Some(Answer::allow_once()),
    ///         false => Some(Answer::reject_once(Some("Not today.".to_owned()))),
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
        // It may use this handle when it is dropped: no lock is held then.
        let replaced = lock(&self.shared.approver).replace(approver);
        drop(replaced);
    }

    /// Returns a permission request that waits to be put to the client.
    #[must_use]
    pub fn permission_request(&self, id: PermissionId) -> Option<PermissionRequest> {
        self.lock().permission_request(id).cloned()
    }

    /// Takes the client's answer to a permission request. Late and second answers do nothing.
    pub fn answer_permission(&self, id: PermissionId, answer: PermissionAnswer) {
        self.answer_permission_as(AnsweredBy::Client, id, answer);
    }

    fn answer_permission_as(&self, by: AnsweredBy, id: PermissionId, answer: PermissionAnswer) {
        let settled = self.judge_and_apply(
            |session| session.policy_check_of_request(id),
            |session, _, judgement| {
                self.take_pending_permission(id, session.resolve_request(id, answer, by, judgement))
            },
        );
        resume_waiting_call(settled);
    }

    /// Takes what the client said of a call that it rejected, if it said anything.
    pub fn explain_rejection(&self, id: PermissionId, reason: Option<&str>) {
        resume_waiting_call(self.update(|session, _| {
            self.take_pending_permission(id, session.explain_rejection(id, reason))
        }));
    }

    /// Has the policy judge, and takes a step by its judgement. The policy may use this handle, so no
    /// lock is held while it judges; where it was replaced meanwhile, the new one judges.
    fn judge_and_apply<T>(
        &self,
        case: impl Fn(&Session) -> Result<PolicyCheck, DenialReason>,
        mut step: impl FnOnce(&mut Session, Timestamp, Result<PolicyVerdicts, DenialReason>) -> T,
    ) -> T {
        for _ in 0..MAX_POLICY_CHANGES {
            let case = case(&self.lock());
            let policy = case.as_ref().ok().map(PolicyCheck::policy);
            let judgement = case.and_then(PolicyCheck::judge);
            let taken = self.update(|session, now| match policy {
                Some(policy) if !session.is_current_policy(&policy) => Err(step),
                _ => Ok(step(session, now, judgement)),
            });
            match taken {
                Ok(result) => return result,
                Err(not_taken) => step = not_taken,
            }
        }
        // A policy that is replaced whenever it judges decides nothing.
        self.update(|session, now| step(session, now, Err(DenialReason::PolicyPanicked)))
    }

    /// Adds to the end of a request who waits for it. To be called in the step that ends it: to others,
    /// a request that is gone was withdrawn.
    fn take_pending_permission(
        &self,
        id: PermissionId,
        outcome: Option<PermissionOutcome>,
    ) -> Option<(PermissionOutcome, PendingPermission)> {
        Some((outcome?, lock(&self.shared.pending_permissions).remove(&id)?))
    }

    /// Waits until a permission request is withdrawn, so that the client can be told.
    pub async fn wait_withdrawn(&self, id: PermissionId) {
        let token = lock(&self.shared.pending_permissions)
            .get(&id)
            .map(|waiting| waiting.withdrawn.clone());
        if let Some(token) = token {
            token.cancelled().await;
        }
    }

    /// Stops what still runs for calls that have ended, and lets go of those who wait for requests that
    /// were withdrawn.
    fn release_ended_calls(&self) {
        let (mut calls, mut requests): (Vec<_>, Vec<_>) = {
            let session = self.lock();
            let has_ended = |id: &ToolCallId, _: &mut OpenCallResources| {
                session.board().tool_call(id).is_none()
            };
            let is_gone = |id: &PermissionId, _: &mut PendingPermission| {
                session.permission_request(*id).is_none()
            };
            let calls = lock(&self.shared.calls).extract_if(has_ended).collect();
            (calls, lock(&self.shared.pending_permissions).extract_if(is_gone).collect())
        };
        // What is kept, and who is woken, may use this handle: no lock is held any more.
        calls.sort_unstable_by_key(|(_, open)| open.number);
        for (_, OpenCallResources { cancel, kept_until_end: kept, .. }) in calls {
            cancel.cancel();
            // Whatever becomes of one, the others are dropped, and the waiting are let go.
            for kept in kept {
                let _panicked = catch_panic(|| drop(kept)).is_none();
            }
        }
        // The client is told in the order in which it was asked.
        requests.sort_unstable_by_key(|(id, _)| *id);
        drop(requests);
    }

    /// Waits while the client takes nothing. Who produces what is sent waits for this now and
    /// then, so that nothing piles up for a client that does not read.
    pub async fn wait_writable(&self) {
        let mut stalled = self.shared.stalled.subscribe();
        // The sender lives as long as this handle, so the wait cannot fail.
        let _is_over = stalled.wait_for(|stalled| !stalled).await;
    }

    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.shared.stalled.send_if_modified(|was| std::mem::replace(was, stalled) != stalled);
    }

    /// Waits until something changed. For the driver.
    pub(crate) async fn wait_changed(&self) {
        self.shared.change_notify.notified().await;
    }

    /// Takes the next item that is due, and tells when the one after it is.
    pub(crate) fn poll(&self) -> (Option<OutboxItem>, Option<std::time::Instant>) {
        let now = self.now();
        let mut session = self.lock();
        let item = session.poll(now.monotonic);
        (item, session.poll_timeout())
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp {
            monotonic: tokio::time::Instant::now().into_std(),
            wall: (self.shared.wall_clock)(),
        }
    }

    pub(crate) fn config(&self) -> SessionConfig {
        self.lock().board().config()
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        lock(&self.shared.session)
    }
}

/// A panic while a lock was held can come only from foreign code in [`SessionHandle::with`]; the state
/// is whole without it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionHandle").finish_non_exhaustive()
    }
}
