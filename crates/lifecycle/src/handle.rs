//! Async handles of a session and its calls. Dropping an open call ends it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use acp_types::{
    Capabilities, Chunk, Plan, Reason, SessionState, ToolCallId, ToolCallPatch, ToolCallReport,
    Trace, TurnId,
};
use foldhash::HashMap;
use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::SessionUsage;
use crate::board::Moment;
use crate::caught::caught;
use crate::config::SessionConfig;
use crate::ids::PermissionId;
use crate::limits::POLICY_CHANGES;
use crate::outbox::Item;
use crate::permission::{Answer, Denial, Outcome};
use crate::rules::Judgement;
use crate::session::{AnsweredBy, Case, Request, Session};
use crate::span;

mod call;

pub use call::{CallHandle, OpenCall};

/// A session that many tasks work on. Cheap to clone.
///
/// Its state lies behind one mutex that is never held across an await. Under it, no policy or approver
/// is called, nothing that was given to be kept is dropped, and nobody is woken, so all of these may
/// use this handle.
#[derive(Clone)]
pub struct SessionHandle {
    shared: Arc<Shared>,
}

struct Shared {
    session: Mutex<Session>,
    waiting: Mutex<HashMap<PermissionId, Waiting>>,
    changed: Notify,
    /// The open calls.
    calls: Mutex<HashMap<ToolCallId, Open>>,
    approver: Mutex<Option<Arc<Approver>>>,
    /// Whether the client has taken nothing for a while.
    stalled: watch::Sender<bool>,
    wall: fn() -> SystemTime,
}

/// Answers permission requests instead of the client.
type Approver = dyn Fn(Request, ToolCallReport) -> BoxFuture<'static, Option<Answer>> + Send + Sync;

/// What is held for an open call.
struct Open {
    /// The board's number of it.
    number: u64,
    cancel: CancellationToken,
    kept: Vec<Box<dyn Send>>,
}

/// Lets the call go on whose request came to an end. Where nobody waits any more, the call has ended,
/// and the answer is void.
fn go_on(settled: Option<(Outcome, Waiting)>) {
    if let Some((outcome, waiting)) = settled {
        drop(waiting.outcome.send(outcome));
    }
}

/// Who waits for the answer to a request, and how the client learns that nobody does any more.
struct Waiting {
    outcome: oneshot::Sender<Outcome>,
    withdrawn: CancellationToken,
    /// Cancels `withdrawn` when this is dropped, however that comes.
    _on_drop: DropGuard,
}

impl Waiting {
    fn new(outcome: oneshot::Sender<Outcome>) -> Self {
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
        self.ended = session.ended();
        self.fields_dropped = session.board().counters().fields_dropped;
    }
}

impl Drop for AfterStep<'_> {
    fn drop(&mut self) {
        let (ended, dropped) = {
            let session = self.handle.lock();
            (session.ended(), session.board().counters().fields_dropped - self.fields_dropped)
        };
        self.handle.shared.changed.notify_one();
        if dropped > 0 {
            tracing::debug!(dropped, "fields of a call that mean nothing were left out");
        }
        if ended > self.ended {
            self.handle.release_ended();
        }
    }
}

impl SessionHandle {
    /// Puts a session behind a handle. `wall` tells the time of the day: `SystemTime::now`.
    #[must_use]
    pub fn new(session: Session, wall: fn() -> SystemTime) -> Self {
        let shared = Shared {
            session: Mutex::new(session),
            waiting: Mutex::default(),
            changed: Notify::new(),
            calls: Mutex::default(),
            approver: Mutex::default(),
            stalled: watch::Sender::new(false),
            wall,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Changes the session in one step and wakes the driver. What still runs for a call that ended by it
    /// is told to stop, and a call that waits for a request that was withdrawn by it goes on.
    ///
    /// `change` must not use this handle: it has the session to itself.
    pub fn with<T>(&self, change: impl FnOnce(&mut Session, Moment) -> T) -> T {
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
        self.post(Session::announce, id, turn, patch, cancel)
    }

    /// Posts a call whose arguments still stream; see [`Session::announce_streamed`].
    pub fn announce_streamed(
        &self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        self.post(Session::announce_streamed, id, turn, patch, cancel)
    }

    fn post(
        &self,
        post: fn(&mut Session, &ToolCallId, &TurnId, ToolCallPatch, Moment) -> bool,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let patch = patch.capabilities(Capabilities { cancel: true });
        let (token, kept) = (cancel.child_token(), Vec::new());
        // The name as it is shown: a model may have made it up.
        let tool = self.with(|session, now| {
            if !post(session, id, turn, patch, now) {
                return None;
            }
            let board = session.board();
            let open = Open { number: board.number(id)?, cancel: token.clone(), kept };
            lock(&self.shared.calls).insert(id.clone(), open);
            Some(board.tool_call(id)?.name.clone())
        })?;
        Some(OpenCall::new(self.clone(), id.clone(), cancel.clone(), token, span::begin(id, &tool)))
    }

    /// Notes the trace that a turn belongs to; see [`Session::trace_turn`].
    pub fn trace_turn(&self, turn: &TurnId, trace: Trace) {
        self.with(|session, _| session.trace_turn(turn, trace));
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
    pub fn say(&self, chunk: Chunk) {
        self.with(|session, now| session.say(chunk, now));
    }

    /// Sends a plan.
    pub fn plan(&self, plan: Plan) {
        self.with(|session, now| session.plan(plan, now));
    }

    /// Sends another part of what a client may know of the session; see [`Session::send_state`].
    pub fn send_state(&self, state: SessionState) {
        self.with(|session, now| session.send_state(state, now));
    }

    /// Ends a turn: all its open calls, then its answer.
    pub fn end_turn(&self, turn: &TurnId, reason: Reason) {
        self.with(|session, now| session.end_turn(turn, reason, now));
    }

    /// Ends every open call, of every turn.
    pub fn end_all(&self, reason: Reason) {
        self.with(|session, now| session.end_all(reason, now));
    }

    /// Returns whether a call's id is or was in use.
    #[must_use]
    pub fn has_seen(&self, id: &ToolCallId) -> bool {
        self.lock().board().has_seen(id)
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
        approver: impl Fn(Request, ToolCallReport) -> R + Send + Sync + 'static,
    ) where
        R: Future<Output = Option<Answer>> + Send + 'static,
    {
        let approver: Arc<Approver> =
            Arc::new(move |request, call| Box::pin(approver(request, call)));
        // It may use this handle when it is dropped: no lock is held then.
        let replaced = lock(&self.shared.approver).replace(approver);
        drop(replaced);
    }

    /// Returns a permission request that waits to be put to the client.
    #[must_use]
    pub fn request(&self, id: PermissionId) -> Option<Request> {
        self.lock().request(id).cloned()
    }

    /// Takes the client's answer to a permission request. Late and second answers do nothing.
    pub fn answer(&self, id: PermissionId, answer: Answer) {
        self.answer_by(AnsweredBy::Client, id, answer);
    }

    fn answer_by(&self, by: AnsweredBy, id: PermissionId, answer: Answer) {
        let settled = self.judged(
            |session| session.case_of(id),
            |session, _, judgement| {
                self.settled(id, session.take_answer(id, answer, by, judgement))
            },
        );
        go_on(settled);
    }

    /// Takes what the client said of a call that it rejected, if it said anything.
    pub fn explain(&self, id: PermissionId, reason: Option<&str>) {
        go_on(self.with(|session, _| self.settled(id, session.explain(id, reason))));
    }

    /// Has the policy judge, and takes a step by its judgement. The policy may use this handle, so no
    /// lock is held while it judges; where it was replaced meanwhile, the new one judges.
    fn judged<T>(
        &self,
        case: impl Fn(&Session) -> Result<Case, Denial>,
        mut step: impl FnOnce(&mut Session, Moment, Result<Judgement, Denial>) -> T,
    ) -> T {
        for _ in 0..POLICY_CHANGES {
            let case = case(&self.lock());
            let policy = case.as_ref().ok().map(Case::policy);
            let judgement = case.and_then(Case::judge);
            let taken = self.with(|session, now| match policy {
                Some(policy) if !session.has_policy(&policy) => Err(step),
                _ => Ok(step(session, now, judgement)),
            });
            match taken {
                Ok(result) => return result,
                Err(not_taken) => step = not_taken,
            }
        }
        // A policy that is replaced whenever it judges decides nothing.
        self.with(|session, now| step(session, now, Err(Denial::Fault)))
    }

    /// Adds to the end of a request who waits for it. To be called in the step that ends it: to others,
    /// a request that is gone was withdrawn.
    fn settled(&self, id: PermissionId, outcome: Option<Outcome>) -> Option<(Outcome, Waiting)> {
        Some((outcome?, lock(&self.shared.waiting).remove(&id)?))
    }

    /// Waits until a permission request is withdrawn, so that the client can be told.
    pub async fn withdrawn(&self, id: PermissionId) {
        let token = lock(&self.shared.waiting).get(&id).map(|waiting| waiting.withdrawn.clone());
        if let Some(token) = token {
            token.cancelled().await;
        }
    }

    /// Stops what still runs for calls that have ended, and lets go of those who wait for requests that
    /// were withdrawn.
    fn release_ended(&self) {
        let (mut calls, mut requests): (Vec<_>, Vec<_>) = {
            let session = self.lock();
            let has_ended = |id: &ToolCallId, _: &mut Open| session.board().tool_call(id).is_none();
            let is_gone = |id: &PermissionId, _: &mut Waiting| session.request(*id).is_none();
            let calls = lock(&self.shared.calls).extract_if(has_ended).collect();
            (calls, lock(&self.shared.waiting).extract_if(is_gone).collect())
        };
        // What is kept, and who is woken, may use this handle: no lock is held any more.
        calls.sort_unstable_by_key(|(_, open)| open.number);
        for (_, Open { cancel, kept, .. }) in calls {
            cancel.cancel();
            // Whatever becomes of one, the others are dropped, and the waiting are let go.
            for kept in kept {
                let _panicked = caught(|| drop(kept)).is_none();
            }
        }
        // The client is told in the order in which it was asked.
        requests.sort_unstable_by_key(|(id, _)| *id);
        drop(requests);
    }

    /// Waits while the client takes nothing. Who produces what is sent waits for this now and
    /// then, so that nothing piles up for a client that does not read.
    pub async fn unstalled(&self) {
        let mut stalled = self.shared.stalled.subscribe();
        // The sender lives as long as this handle, so the wait cannot fail.
        let _is_over = stalled.wait_for(|stalled| !stalled).await;
    }

    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.shared.stalled.send_if_modified(|was| std::mem::replace(was, stalled) != stalled);
    }

    /// Waits until something changed. For the driver.
    pub(crate) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Takes the next item that is due, and tells when the one after it is.
    pub(crate) fn poll(&self) -> (Option<Item>, Option<std::time::Instant>) {
        let now = self.now();
        let mut session = self.lock();
        let item = session.poll(now.at);
        (item, session.poll_timeout())
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { at: tokio::time::Instant::now().into_std(), wall: (self.shared.wall)() }
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
