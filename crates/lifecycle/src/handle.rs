//! Async handles of a session and its calls. Dropping an open call ends it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use acp_types::schema::v1::SessionUpdate;
use acp_types::{
    CallMeta, Capabilities, Content, Exit, Location, Plan, Progress, Reason, TerminalId,
    TerminalPatch, ToolCallId, ToolCallPatch, ToolCallReport, Trace, TurnId,
};
use foldhash::HashMap;
use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::board::{End, Moment};
use crate::caught::caught;
use crate::ids::PermissionId;
use crate::outbox::{Chunk, Item};
use crate::permission::{Answer, Denial, NoAnswer, Outcome, Permit};
use crate::session::{Request, Session};
use crate::span;
use crate::{Effects, SessionUsage, Subject, Verdict};

/// A session that many tasks work on. Cheap to clone.
///
/// Its state lies behind one mutex that is never held across an await.
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
type Approver = dyn Fn(Request) -> BoxFuture<'static, Option<Answer>> + Send + Sync;

/// What is held for an open call.
struct Open {
    /// The board's number of it.
    number: u64,
    cancel: CancellationToken,
    kept: Vec<Box<dyn Send>>,
}

/// Who waits for the answer to a request, and how the client learns that nobody does any more.
struct Waiting {
    outcome: oneshot::Sender<Outcome>,
    withdrawn: CancellationToken,
    /// Cancels `withdrawn` when this is dropped, however that comes.
    _on_drop: DropGuard,
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

    /// Changes the session in one step and wakes the driver.
    pub fn with<T>(&self, change: impl FnOnce(&mut Session, Moment) -> T) -> T {
        let now = self.now();
        let mut session = self.lock();
        let before = session.board().counters().fields_dropped;
        let result = change(&mut session, now);
        let dropped = session.board().counters().fields_dropped - before;
        drop(session);
        self.shared.changed.notify_one();
        if dropped > 0 {
            tracing::debug!(dropped, "fields of a call that mean nothing were left out");
        }
        result
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
        self.post(id, patch, cancel, |session, patch, now| session.announce(id, turn, patch, now))
    }

    /// Posts a call whose arguments still stream; see [`Session::announce_streamed`].
    pub fn announce_streamed(
        &self,
        id: &ToolCallId,
        turn: &TurnId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        self.post(id, patch, cancel, |session, patch, now| {
            session.announce_streamed(id, turn, patch, now)
        })
    }

    fn post(
        &self,
        id: &ToolCallId,
        patch: ToolCallPatch,
        cancel: &CancellationToken,
        post: impl FnOnce(&mut Session, ToolCallPatch, Moment) -> bool,
    ) -> Option<OpenCall> {
        let patch = patch.capabilities(Capabilities { cancel: true });
        // The name as it is shown: a model may have made it up.
        let (tool, number) = self.with(|session, now| {
            if !post(session, patch, now) {
                return None;
            }
            let board = session.board();
            Some((board.tool_call(id)?.name.clone(), board.number(id)?))
        })?;
        let span = span::begin(id, &tool);
        let (turn, cancel) = (cancel.clone(), cancel.child_token());
        let held = Open { number, cancel: cancel.clone(), kept: Vec::new() };
        self.calls().insert(id.clone(), held);
        let call = CallHandle { session: self.clone(), id: id.clone(), turn, cancel };
        Some(OpenCall { call, span })
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
        let cancel = self.calls().get(id).map(|open| open.cancel.clone());
        if let Some(cancel) = &cancel {
            cancel.cancel();
        }
        cancel.is_some()
    }

    /// Returns the document of a call, open or ended, as long as it is kept.
    #[must_use]
    pub fn tool_call(&self, id: &ToolCallId) -> Option<ToolCallReport> {
        let session = self.lock();
        let board = session.board();
        board.tool_call(id).or_else(|| board.history().get(id)).cloned()
    }

    /// Says a piece of a message.
    pub fn say(&self, chunk: Chunk) {
        self.with(|session, now| session.say(chunk, now));
    }

    /// Sends a plan.
    pub fn plan(&self, plan: Plan) {
        self.with(|session, now| session.plan(plan, now));
    }

    /// Sends news of the session, of which the last wins.
    pub fn news(&self, update: SessionUpdate) {
        self.with(|session, now| session.news(update, now));
    }

    /// Ends a turn: all its open calls, then its answer.
    pub fn end_turn(&self, turn: &TurnId, reason: Reason) {
        self.with(|session, now| session.end_turn(turn, reason, now));
        self.release_ended();
    }

    /// Ends every open call, of every turn.
    pub fn end_all(&self, reason: Reason) {
        self.with(|session, now| session.end_all(reason, now));
        self.release_ended();
    }

    /// Returns whether a call's id is or was in use.
    #[must_use]
    pub fn has_seen(&self, id: &ToolCallId) -> bool {
        self.lock().board().has_seen(id)
    }

    /// Has permission requests answered by `approver` before the client is asked: by a dialog of
    /// your own, or by a service. It sees the whole call: its tool and kind
    /// ([`Request::effects`]), its arguments ([`Request::subject`]), its effects.
    ///
    /// It is asked once about each request, which neither a rule nor the policy decided, and nothing
    /// waits for it but the call. On nothing, the client is asked. Its answer is taken as the
    /// client's would be: it may remember, and what a rule or the policy denies by then stays denied.
    /// It is dropped when the call ends before; a panic of it fails the call. It must not keep this
    /// handle, which would keep the session for ever.
    ///
    /// ```
    /// # use acp_lifecycle::{Answer, Effect, SessionHandle};
    /// # async fn ask_my_user(_: &str) -> bool { true }
    /// # fn set(session: &SessionHandle) {
    /// session.set_approver(|request| async move {
    ///     let question = format!("{} {}?", request.subject().tool(), request.subject().args());
    ///     match ask_my_user(&question).await {
    ///         true => Some(Answer::allow_once()),
    ///         false => Some(Answer::reject_once(Some("Not today.".to_owned()))),
    ///     }
    /// });
    /// # }
    /// ```
    pub fn set_approver<R>(&self, approver: impl Fn(Request) -> R + Send + Sync + 'static)
    where
        R: Future<Output = Option<Answer>> + Send + 'static,
    {
        let approver: Arc<Approver> = Arc::new(move |request| Box::pin(approver(request)));
        *self.approver() = Some(approver);
    }

    /// Returns a permission request that waits to be put to the client.
    #[must_use]
    pub fn request(&self, id: PermissionId) -> Option<Request> {
        self.lock().request(id).cloned()
    }

    /// Takes the client's answer to a permission request. Late and second answers do nothing.
    pub fn answer(&self, id: PermissionId, answer: Answer) {
        let outcome = self.with(|session, _| session.answer(id, answer));
        self.settle(id, outcome);
    }

    fn answer_as_approver(&self, id: PermissionId, answer: Answer) {
        let outcome = self.with(|session, _| session.take_answer(id, answer, false));
        self.settle(id, outcome);
    }

    /// Takes what the client said of a call that it rejected, if it said anything.
    pub fn explain(&self, id: PermissionId, reason: Option<&str>) {
        let outcome = self.with(|session, _| session.explain(id, reason));
        self.settle(id, outcome);
    }

    /// Lets the call go on that waits for a request, if that came to an end.
    fn settle(&self, id: PermissionId, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        if let Some(waiting) = self.waiting().remove(&id) {
            // Nobody waits any more: the call has ended, and the answer is void.
            drop(waiting.outcome.send(outcome));
        }
    }

    /// Waits until a permission request is withdrawn, so that the client can be told.
    pub async fn withdrawn(&self, id: PermissionId) {
        let token = self.waiting().get(&id).map(|waiting| waiting.withdrawn.clone());
        if let Some(token) = token {
            token.cancelled().await;
        }
    }

    /// Lets go of those who wait for requests that were withdrawn with their call, and stops what
    /// still runs for a call that has ended.
    fn release_ended(&self) {
        let of_open = |(id, open): (&ToolCallId, &Open)| (open.number, id.clone());
        let mut calls: Vec<_> = self.calls().iter().map(of_open).collect();
        calls.sort_unstable_by_key(|(number, _)| *number);
        for (_, id) in calls {
            if self.lock().board().tool_call(&id).is_some() {
                continue;
            }
            // What is kept may use this handle when it is dropped: no lock is held then.
            let ended = self.calls().remove(&id);
            if let Some(Open { cancel, kept, .. }) = ended {
                cancel.cancel();
                // Whatever becomes of one, the others are dropped, and the waiting are let go.
                for kept in kept {
                    let _panicked = caught(|| drop(kept)).is_none();
                }
            }
        }
        // The client is told in the order in which it was asked.
        let mut requests: Vec<_> = self.waiting().keys().copied().collect();
        requests.sort_unstable();
        for id in requests {
            if self.request(id).is_none() {
                drop(self.waiting().remove(&id));
            }
        }
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

    /// A panic while the lock was held can come only from foreign code in [`Self::with`], which
    /// must not use this handle; the state is whole without it. That of a
    /// [`Policy`](crate::Policy) is caught.
    fn lock(&self) -> MutexGuard<'_, Session> {
        self.shared.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn approver(&self) -> MutexGuard<'_, Option<Arc<Approver>>> {
        self.shared.approver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ToolCallId, Open>> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<PermissionId, Waiting>> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionHandle").finish_non_exhaustive()
    }
}

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

    /// Tells that the call, which runs, waits for something, such as a login or a lock.
    pub fn pause(&self) {
        self.session.with(|session, now| session.pause(&self.id, now));
    }

    /// Tells that a paused call goes on.
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
    /// [`Session::report_within`].
    pub fn report_within(&self, wait: Duration) {
        self.session.with(|session, now| session.report_within(&self.id, wait, now));
    }

    /// Changes what the call tells beside the protocol's own fields.
    pub fn change_meta(&self, change: impl FnOnce(&mut CallMeta)) {
        self.session.with(|session, now| session.change_meta(&self.id, change, now));
    }

    /// Adds one item to what the call shows.
    pub fn append(&self, content: Content) {
        self.change(ToolCallPatch::new().append(content));
    }

    /// Tells where the call works now.
    pub fn locations(&self, locations: Vec<Location>) {
        self.change(ToolCallPatch::new().locations(locations));
    }

    /// Tells how far the call is, in its metadata and behind its title.
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

    /// Tells more of a terminal of the call: its command, its size.
    pub fn describe_terminal(&self, id: &TerminalId, patch: TerminalPatch) {
        self.session.with(|session, now| session.describe_terminal(id, patch, now));
    }

    /// Appends output to a terminal.
    pub fn terminal_output(&self, id: &TerminalId, bytes: &[u8]) {
        self.session.with(|session, now| session.terminal_output(id, bytes, now));
    }

    /// Notes that so many bytes of a terminal's output come here that nobody kept.
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
        if let Some(open) = self.session.calls().get_mut(&self.id) {
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
        self.session.release_ended();
    }

    /// Judges effects by the rules and the policy of the session, as a permission of the call is.
    #[must_use]
    pub fn judge(&self, effects: &Effects) -> Verdict {
        self.session
            .with(|session, _| session.judge_call(&self.id, effects))
            .unwrap_or(Verdict::Deny)
    }

    pub(crate) fn denies(&self, effects: &Effects) -> Option<Denial> {
        self.session.with(|session, _| session.judge_call(&self.id, effects).err())
    }

    /// Decides whether the call may run, and waits for the client where it is asked. Dropping
    /// this withdraws the request.
    pub(crate) async fn permit(
        &self,
        effects: &Effects,
        subject: Subject,
        is_whole: bool,
    ) -> Outcome {
        let (outcome, mut answered) = oneshot::channel();
        let approver = self.session.approver().clone();
        let id = {
            let now = self.session.now();
            let mut session = self.session.lock();
            match session.prepare_request(&self.id, effects, subject, is_whole, now) {
                Permit::Granted(grant) => return Outcome::Granted(grant),
                Permit::Denied(denial) => return Outcome::Denied(denial),
                Permit::Asked(id) => {
                    // Registered before the driver can see the request.
                    let withdrawn = CancellationToken::new();
                    let _on_drop = withdrawn.clone().drop_guard();
                    let waiting = Waiting { outcome, withdrawn, _on_drop };
                    self.session.waiting().insert(id, waiting);
                    if approver.is_none() {
                        session.ask_client(id, now);
                    }
                    id
                }
            }
        };
        self.session.shared.changed.notify_one();
        let _withdraw = Withdraw { session: &self.session, id };
        let withdrawn = |_| Outcome::Unanswered(NoAnswer::Withdrawn);
        if let Some(approver) = approver
            && let Some(request) = self.session.request(id)
        {
            tokio::select! {
                answer = approver(request) => match answer {
                    Some(answer) => self.session.answer_as_approver(id, answer),
                    None => self.session.with(|session, now| session.ask_client(id, now)),
                },
                outcome = &mut answered => return outcome.unwrap_or_else(withdrawn),
            }
        }
        answered.await.unwrap_or_else(withdrawn)
    }
}

/// Takes a request back when nobody waits for it any more.
struct Withdraw<'a> {
    session: &'a SessionHandle,
    id: PermissionId,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.session.with(|session, _| session.withdraw(self.id));
        drop(self.session.waiting().remove(&self.id));
    }
}
