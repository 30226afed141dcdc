//! Permission by somebody else than the client.

use std::sync::{Arc, Mutex};

use acp_lifecycle::{Answer, Effect, Middleware, Rule, Scope, Verdict};
use acp_types::{Reason, Status, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, pass};

async fn tool(_: &str, _: Value) -> Result<String, String> {
    Ok("done".to_owned())
}

fn tools(stage: &Stage) -> Middleware {
    Middleware::new(stage.session.clone())
        .effects(|_, _| Effect::Connect("example.org".to_owned()).into())
        .kinds(|_| Some(ToolKind::Fetch))
}

#[tokio::test(start_paused = true)]
async fn an_approver_sees_the_whole_call_and_the_client_is_not_asked() {
    for (answer, end) in [
        (Answer::allow_once(), Ok("done".to_owned())),
        (
            Answer::reject_once(Some("no".to_owned())),
            Err((
                Status::Failed,
                Some(Reason::User),
                "Rejected by the user. It did not run. They said: no",
            )),
        ),
        (
            Answer::reject_once(None),
            Err((Status::Failed, Some(Reason::User), "Rejected by the user. It did not run.")),
        ),
    ] {
        let stage = Stage::new(None);
        // It would be asked why, had it rejected.
        stage.session.with(|session, _| session.ask_for_reasons());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (sees, given) = (seen.clone(), answer.clone());
        stage.session.set_approver(move |request| {
            let (effects, subject) = (request.effects(), request.subject());
            sees.lock().unwrap().push(json!({
                "tool": subject.tool(), "kind": effects.kind(), "args": subject.args(),
                "effects": effects.iter().collect::<Vec<_>>(),
            }));
            let answer = given.clone();
            async move {
                pass(1_000).await;
                Some(answer)
            }
        });
        let args = json!({ "q": 1 });
        let call = tools(&stage).call(&"t".into(), "a", "fetch", args, &stage.cancel, tool).await;
        let told = call.as_ref().map_err(|ended| (ended.status, ended.reason, ended.text.as_str()));
        assert_eq!(told.cloned(), end, "{answer:?}");
        let expected = json!({
            "tool": "fetch", "kind": "fetch", "args": {"q": 1},
            "effects": [{"connect": "example.org"}],
        });
        assert_eq!(*seen.lock().unwrap(), [expected]);
        assert!(stage.seen.lock().unwrap().asked.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_does_not_decide_leaves_it_to_the_client() {
    let stage = Stage::new(Some("allow"));
    stage.session.set_approver(|_| async { None });
    let call = tools(&stage).call(&"t".into(), "a", "x", json!({}), &stage.cancel, tool).await;
    assert_eq!(call, Ok("done".to_owned()));
    assert_eq!(stage.seen.lock().unwrap().asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_approver_is_not_asked_about_what_a_rule_decides_and_overrides_no_denial() {
    let stage = Stage::new(None);
    let rule = |verdict| {
        let matcher = acp_lifecycle::Matcher::Effect(Effect::Connect("example.org".to_owned()));
        Rule { scope: Scope::Session, matcher, verdict }
    };
    let session = stage.session.clone();
    stage.session.set_approver(move |_| {
        // Denied while somebody thinks about it.
        session.with(|session, _| session.add_rule(rule(Verdict::Deny)));
        async { Some(Answer::allow_once()) }
    });
    for id in ["a", "b"] {
        let call = tools(&stage).call(&"t".into(), id, "x", json!({}), &stage.cancel, tool).await;
        assert_eq!(call.unwrap_err().reason, Some(Reason::Permission));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_waits_for_no_approver() {
    let stage = Stage::new(None);
    stage.session.set_approver(|_| std::future::pending());
    let tools = tools(&stage);
    let turn = "t".into();
    let call = tools.call(&turn, "a", "x", json!({}), &stage.cancel, tool);
    let cancel = async {
        pass(5).await;
        stage.cancel.cancel();
    };
    let (ended, ()) = tokio::join!(call, cancel);
    assert_eq!(ended.unwrap_err().reason, Some(Reason::Turn));
    let (_, meta) = stage.shown("t/a").await;
    assert_eq!(meta.reason, Some(Reason::Turn));
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_panics_permits_nothing() {
    let stage = Stage::new(Some("allow"));
    let panics = |at_once: bool| {
        stage.session.set_approver(move |_| {
            assert!(!at_once, "a planted panic");
            async { panic!("a planted panic") }
        });
    };
    for (id, at_once) in [("a", true), ("b", false)] {
        panics(at_once);
        let call = tools(&stage).call(&"t".into(), id, "x", json!({}), &stage.cancel, tool).await;
        let text = "Not permitted: what decides that failed by a fault of its own. It did not run.";
        assert_eq!(call.unwrap_err().text, text);
    }
    assert!(stage.seen.lock().unwrap().asked.is_empty());
}
