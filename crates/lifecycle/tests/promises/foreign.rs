//! Tests of panics in code of the embedding program, at every point where the lifecycle of a call
//! runs such code. The call ends as failed, once and in time, and its reason names the code that
//! panicked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use acp_lifecycle::{
    AskExceptReadsPolicy, CallExecutor, CallFailure, CallHandle, CallPreview, CallSuccess, Effect,
    Effects, Grant, PermissionSubject, PinnedPlan, Policy, ToolMiddleware, Verdict, execute_call,
};
use acp_types::{CallEndReason, Status};
use pretty_assertions::assert_eq;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::performing::{Act, Client, Stage};

/// Point at which an executor panics.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    MakingPreview,
    Preview,
    MakingRun,
    Run,
    DropOfPlan,
}

struct Breaks(At);

impl Breaks {
    fn at(&self, at: At) {
        assert!(self.0 != at, "a planted panic");
    }
}

/// A plan whose drop panics if the flag is set.
struct Plan(bool);

impl Drop for Plan {
    fn drop(&mut self) {
        assert!(!self.0 || std::thread::panicking(), "a planted panic");
    }
}

impl CallExecutor for Breaks {
    type Plan = Plan;

    fn preview(
        &mut self,
        _: &CallHandle,
    ) -> impl Future<Output = Result<CallPreview<Plan>, CallFailure>> + Send {
        self.at(At::MakingPreview);
        async {
            self.at(At::Preview);
            let subject = PermissionSubject::for_call("tool", &json!({}), "/".as_ref(), b"");
            let effects = Effects::from(Effect::Write("/p/f".into()));
            let pinned = PinnedPlan::new(Plan(self.0 == At::DropOfPlan), subject);
            Ok(CallPreview::new(pinned, effects))
        }
    }

    fn run(
        &mut self,
        pinned: PinnedPlan<Plan>,
        grant: Grant,
        _: &CallHandle,
    ) -> impl Future<Output = Result<CallSuccess, CallFailure>> + Send {
        self.at(At::MakingRun);
        async move {
            self.at(At::Run);
            drop(pinned.release(grant).unwrap());
            Ok(CallSuccess::default())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_tool_fails_its_call_wherever_it_happens() {
    for at in [At::MakingPreview, At::Preview, At::MakingRun, At::Run, At::DropOfPlan] {
        let stage = Stage::new(Client::Answers("allow"));
        let ended = tokio::spawn(execute_call(stage.announce(), Breaks(at))).await;
        let ended = ended.unwrap_or_else(|error| panic!("{at:?}: {error}"));
        assert_eq!(
            (ended.status, ended.reason),
            (Status::Failed, Some(CallEndReason::Error)),
            "{at:?}"
        );
        assert!(ended.text.starts_with("The tool failed because of an internal error."), "{at:?}");
        let shown = stage.session.call_report(&"c".into()).unwrap();
        assert_eq!(shown.raw_output.unwrap()["code"], "internal_error", "{at:?}");
    }
}

/// A policy that asks about everything a limited number of times, and then panics.
#[derive(Debug)]
struct Fickle {
    left: AtomicUsize,
}

impl Policy for Fickle {
    fn judge(&self, effect: &Effect) -> Verdict {
        let is_over = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
        assert!(!is_over, "a planted panic");
        AskExceptReadsPolicy.judge(effect)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_policy_permits_nothing_and_blocks_no_call() {
    let mut endings = Vec::new();
    for left in 0..9 {
        let stage = Stage::new(Client::Answers("allow"));
        let policy = Arc::new(Fickle { left: left.into() });
        stage.session.update(|session, _| session.replace_policy(policy));
        let performed = tokio::spawn(execute_call(stage.announce(), stage.tool(Act::Succeed)));
        let ended = tokio::time::timeout(Duration::from_secs(60), performed).await;
        let ended = ended.unwrap_or_else(|_| panic!("{left}: it waits for ever")).unwrap();
        assert_eq!(stage.has_run(), ended.status == Status::Completed, "{left}");
        if ended.status != Status::Completed {
            assert_eq!(
                (ended.status, ended.reason),
                (Status::Failed, Some(CallEndReason::Permission))
            );
            assert!(ended.text.starts_with("Not permitted: the permission check had"), "{left}");
        }
        endings.push(ended.status);
    }
    assert!(endings.contains(&Status::Completed) && endings.contains(&Status::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_sink_blocks_no_call() {
    for client in [Client::Panics, Client::PanicsBefore, Client::PanicsInWait] {
        let stage = Stage::new(client);
        let performed = tokio::spawn(execute_call(stage.announce(), stage.tool(Act::Succeed)));
        let ended = tokio::time::timeout(Duration::from_secs(60), performed).await;
        let ended = ended.unwrap_or_else(|_| panic!("{client:?}: it waits for ever")).unwrap();
        if client == Client::PanicsInWait {
            assert_eq!(ended.status, Status::Completed);
            continue;
        }
        let reason = Some(CallEndReason::Permission);
        assert_eq!((ended.status, ended.reason), (Status::Failed, reason), "{client:?}");
        let text = "Not run: permission was not granted: the client cannot be reached.";
        assert_eq!(ended.text, text, "{client:?}");
    }
}

/// A result whose serialization panics.
struct Unshown;

impl Serialize for Unshown {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("a planted panic")
    }
}

#[tokio::test(start_paused = true)]
async fn the_callbacks_of_a_middleware_may_panic() {
    let stage = Stage::new(Client::Answers("allow"));
    let broken = ToolMiddleware::new(stage.session.clone())
        .with_titles(|_, _| panic!("a planted panic"))
        .with_kinds(|_| panic!("a planted panic"))
        .with_annotations(|_| panic!("a planted panic"));
    let echo = async |_: &str, args: Value| Ok::<_, String>(args);
    let done = broken.call(&"t".into(), "a", "work", json!(1), &stage.cancel, echo).await;
    assert_eq!(done.unwrap(), json!(1));
    assert_eq!(stage.session.call_report(&"t/a".into()).unwrap().title, "work");

    let broken =
        ToolMiddleware::new(stage.session.clone()).with_effects(|_, _| panic!("a planted panic"));
    let ended = broken.call(&"t".into(), "b", "work", json!(1), &stage.cancel, echo).await;
    assert_eq!(ended.unwrap_err().reason, Some(CallEndReason::Error));
    let whole = ToolMiddleware::new(stage.session.clone());
    let unshown = async |_: &str, _: Value| Ok::<_, String>(Unshown);
    let ended = whole.call(&"t".into(), "c", "work", json!(1), &stage.cancel, unshown).await;
    assert_eq!(ended.err().unwrap().reason, Some(CallEndReason::Error));
}
