//! Tests of foreign code that uses a session while the session calls this code. This code must not
//! deadlock, and must not change the result of an answer that is being applied.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    AskExceptReadsPolicy, CallEnd, ClientUnreachable, Effect, OutboxItem, OutboxSink,
    PermissionAnswer, PermissionId, Policy, Session, SessionHandle, Verdict, drive_session,
    execute_call,
};
use acp_types::{CallEndReason, Status, ToolCallPatch};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use crate::performing::{Act, Client, Stage, pass};

/// Runs code that must not deadlock, with a time limit. If the code deadlocks, its thread is
/// leaked.
fn in_time<F: Future<Output = ()>>(act: impl FnOnce() -> F + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(act());
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(20)).expect("it waits for itself, or it failed");
}

fn session() -> SessionHandle {
    SessionHandle::new(Session::new("/p"), SystemTime::now)
}

#[tokio::test]
async fn a_step_that_panics_still_stops_the_calls_that_it_ended() {
    let (session, cancel) = (session(), CancellationToken::new());
    let patch = ToolCallPatch::new().with_title("X");
    let open = session.announce_call(&"c".into(), &"t".into(), patch, &cancel).unwrap();
    let step = AssertUnwindSafe(|| {
        session.update(|session, now| {
            session.finish_call(&"c".into(), CallEnd::completed(), now);
            panic!("a planted panic");
        });
    });
    assert!(catch_unwind(step).is_err());
    assert!(open.handle().cancel_token().is_cancelled());
}

/// Uses the session in a way that acquires each of its locks.
fn uses(session: &SessionHandle) {
    session.update(|_, _| ());
    assert!(!session.cancel_call(&"none".into()));
    let mut withdrawn = pin!(session.wait_until_permission_withdrawn(first_request()));
    let _is_withdrawn = withdrawn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    session.set_approver(|_, _| std::future::ready(None));
}

fn first_request() -> PermissionId {
    let mut session = Session::new("/p");
    asked(&mut session)
}

/// Requests permission for a call, and returns the request's id.
fn asked(session: &mut Session) -> PermissionId {
    let now =
        acp_lifecycle::Timestamp { monotonic: std::time::Instant::now(), wall: SystemTime::now() };
    session.announce_call(
        &"asked".into(),
        &"t".into(),
        ToolCallPatch::new().with_title("Ask"),
        now,
    );
    let subject = acp_lifecycle::PermissionSubject::for_call("x", &1.into(), "/p".as_ref(), b"");
    match session.decide_or_ask_permission(
        &"asked".into(),
        &Effect::Unknown.into(),
        subject,
        true,
        now,
    ) {
        acp_lifecycle::PermitDecision::AwaitingAnswer(id) => id,
        permit => panic!("{permit:?}"),
    }
}

/// A value that uses a session when the value is called, woken or dropped.
#[derive(Debug)]
struct Uses(SessionHandle);

impl Policy for Uses {
    fn judge(&self, effect: &Effect) -> Verdict {
        uses(&self.0);
        AskExceptReadsPolicy.judge(effect)
    }
}

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        uses(&self.0);
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        uses(&self.0);
    }
}

#[test]
fn replaced_policies_and_approvers_may_use_the_session_when_dropped() {
    in_time(async || {
        let session = session();
        let used = Uses(session.clone());
        session.set_approver(move |_, _| {
            let _used = &used;
            std::future::ready(None)
        });
        session.set_approver(|_, _| std::future::ready(None));
        let policy = Arc::new(Uses(session.clone()));
        session.update(|session, _| session.replace_policy(policy));
        session.update(|session, _| session.replace_policy(Arc::new(AskExceptReadsPolicy)));
    });
}

#[test]
fn a_policy_may_use_the_session() {
    in_time(async || {
        let stage = Stage::new(Client::Answers("allow"));
        let policy = Arc::new(Uses(stage.session.clone()));
        stage.session.update(|session, _| session.replace_policy(policy));
        let ended = execute_call(stage.announce(), stage.tool(Act::Succeed)).await;
        assert_eq!(ended.status, Status::Completed);
    });
}

/// A waker that runs a closure.
struct Wakes<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Wakes<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Delivers everything that is due, and returns the id of the permission request among the items.
fn taken(session: &SessionHandle) -> PermissionId {
    let items = session.update(|session, now| {
        std::iter::from_fn(|| session.poll(now.monotonic)).collect::<Vec<_>>()
    });
    let request = items.iter().find_map(|item| match item {
        OutboxItem::PermissionRequest(id) => Some(*id),
        _ => None,
    });
    request.expect("it is asked about")
}

#[test]
fn a_task_woken_by_an_answer_may_use_the_session() {
    in_time(async || {
        for is_answered in [true, false] {
            // Only the tool's future runs in this test, without a driver.
            let (tool, session) = (Stage::new(Client::IsSilent).tool(Act::Succeed), session());
            let patch = ToolCallPatch::new().with_title("Do it");
            let open =
                session.announce_call(&"c".into(), &"t".into(), patch, &CancellationToken::new());
            let waker = Waker::from(Arc::new(Uses(session.clone())));
            let mut context = Context::from_waker(&waker);
            let mut call = pin!(execute_call(open.unwrap(), tool));
            assert!(call.as_mut().poll(&mut context).is_pending());
            let request = taken(&session);
            let mut withdrawn = pin!(session.wait_until_permission_withdrawn(request));
            assert!(withdrawn.as_mut().poll(&mut context).is_pending());
            match is_answered {
                true => session.answer_permission(request, PermissionAnswer::allow_once()),
                false => session.update(|session, _| session.withdraw_permission_request(request)),
            }
            assert!(withdrawn.as_mut().poll(&mut context).is_ready());
            let Poll::Ready(ended) = call.as_mut().poll(&mut context) else { panic!("it waits") };
            let expected = if is_answered { Status::Completed } else { Status::Failed };
            assert_eq!(ended.status, expected);
        }
    });
}

/// A sink that accepts everything.
struct Sinks;

impl OutboxSink for Sinks {
    fn deliver(&mut self, _: OutboxItem) -> Result<(), ClientUnreachable> {
        Ok(())
    }
}

#[test]
fn a_call_that_ends_during_an_answer_does_not_affect_the_answer() {
    in_time(async || {
        let (tool, session) = (Stage::new(Client::IsSilent).tool(Act::Succeed), session());
        let announce = |id: &str| {
            let patch = ToolCallPatch::new().with_title("Do it");
            session.announce_call(
                &id.to_owned().into(),
                &"t".into(),
                patch,
                &CancellationToken::new(),
            )
        };
        // The waker of the driver ends another call.
        let other = Mutex::new(None);
        let other = Arc::new(other);
        let ends = other.clone();
        let waker = Waker::from(Arc::new(Wakes(move || drop(ends.lock().unwrap().take()))));
        let mut call = pin!(execute_call(announce("c").unwrap(), tool));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let request = taken(&session);
        let mut driver = pin!(drive_session(session.clone(), Sinks, CancellationToken::new()));
        let opened = announce("other");
        assert!(driver.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *other.lock().unwrap() = opened;
        session.answer_permission(request, PermissionAnswer::allow_once());
        assert!(other.lock().unwrap().is_none(), "it was not woken");
        let ended = call.await;
        assert_eq!((ended.status, ended.reason), (Status::Completed, None));
    });
}

#[tokio::test(start_paused = true)]
async fn every_step_that_ends_a_request_resumes_its_call() {
    type Step = fn(&mut Session, acp_lifecycle::Timestamp, PermissionId);
    let steps: [Step; 4] = [
        |session, _, request| session.withdraw_permission_request(request),
        |session, now, _| session.end_turn(&"t".into(), CallEndReason::Turn, now),
        |session, now, _| session.finish_call(&"c".into(), CallEnd::completed(), now),
        |session, _, request| {
            drop(session.answer_permission(request, PermissionAnswer::allow_once()));
        },
    ];
    for step in steps {
        let stage = Stage::new(Client::IsSilent);
        let call = tokio::spawn(execute_call(stage.announce(), stage.tool(Act::Succeed)));
        pass(1).await;
        let request = stage.asked();
        stage.session.update(|session, now| step(session, now, request));
        let ended = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap().unwrap();
        assert!(ended.status != Status::Completed && !stage.has_run());
    }
}

/// A policy that allows everything, and replaces itself with another policy while it judges.
#[derive(Debug)]
struct Replaces(SessionHandle, Next);

type Next = fn(&SessionHandle) -> Arc<dyn Policy>;

impl Policy for Replaces {
    fn judge(&self, _: &Effect) -> Verdict {
        let next = self.1(&self.0);
        drop(self.0.update(|session, _| session.replace_policy(next)));
        Verdict::Allow
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_replaced_while_it_judges_permits_nothing() {
    fn again(session: &SessionHandle) -> Arc<dyn Policy> {
        Arc::new(Replaces(session.clone(), again))
    }
    let nexts: [Next; 2] = [|_| Arc::new(acp_lifecycle::ReadOnlyPolicy), again];
    for next in nexts {
        let stage = Stage::new(Client::IsSilent);
        let policy = Arc::new(Replaces(stage.session.clone(), next));
        drop(stage.session.update(|session, _| session.replace_policy(policy)));
        let ended = execute_call(stage.announce(), stage.tool(Act::Succeed)).await;
        assert!(ended.status == Status::Failed && !stage.has_run());
    }
}
