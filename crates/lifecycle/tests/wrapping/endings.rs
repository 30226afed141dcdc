//! Tests of every possible end of a wrapped call.

use std::time::Duration;

use acp_lifecycle::{CallHandle, Effect, Effects, Secrets, ToolMiddleware};
use acp_types::schema::v1::PermissionOptionKind;
use acp_types::tool_kind::ToolAnnotations;
use acp_types::{CallEndReason, Status, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::stage::{Stage, pass};

/// A tool that does not use the lifecycle.
async fn tool(name: &str, args: Value) -> Result<Value, String> {
    match name {
        "fail" => Err(format!("no luck with {args}")),
        "panic" => panic!("a planted panic"),
        "hang" => std::future::pending().await,
        _ => Ok(json!({ "got": args })),
    }
}

fn tools(stage: &Stage) -> ToolMiddleware {
    ToolMiddleware::new(stage.session.clone()).with_timeout(Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn every_end_is_reported_to_the_client_and_to_the_caller() {
    const ALLOW: Option<&str> = Some("allow");
    let failed = |reason| (Status::Failed, Some(reason));
    for (option, name, end, text) in [
        (ALLOW, "fail", failed(CallEndReason::Error), "no luck with {\"n\":1}"),
        (
            ALLOW,
            "panic",
            failed(CallEndReason::Error),
            "The tool failed because of an internal error.",
        ),
        (ALLOW, "hang", failed(CallEndReason::Timeout), "Stopped after 5s."),
        (Some("reject"), "x", failed(CallEndReason::User), "Rejected by the user. It did not run."),
        (
            Some("nonsense"),
            "x",
            failed(CallEndReason::Permission),
            "Not run: the client's answer is none of",
        ),
    ] {
        let stage = Stage::new(option);
        let args = json!({ "n": 1 });
        let result = tools(&stage).call(&"t".into(), "a", name, args, &stage.cancel, tool).await;
        let ended = result.unwrap_err();
        assert_eq!((ended.status, ended.reason, ended.ends_turn), (end.0, end.1, false), "{name}");
        assert!(ended.text.starts_with(text), "{}", ended.text);
        let (call, meta) = stage.shown("t/a").await;
        assert_eq!((&call["status"], meta.reason), (&json!("failed"), end.1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_why_a_call_did_not_run_is_localized_only_for_the_client() {
    let stage = Stage::new(Some("reject"));
    stage.session.update(|session, _| session.set_locale("de"));
    let result = tools(&stage).call(&"t".into(), "a", "x", json!({}), &stage.cancel, tool).await;
    assert_eq!(result.unwrap_err().text, "Rejected by the user. It did not run.");
    let (call, _) = stage.shown("t/a").await;
    let shown = call["content"][0]["content"]["text"].as_str().unwrap();
    assert_eq!(shown, "Vom Benutzer abgelehnt. Nicht ausgeführt.");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_returned_and_shown() {
    let stage = Stage::new(Some("allow"));
    let tools = tools(&stage).with_titles(|name, args| format!("{name}\u{202e} {}", args["n"]));
    let value =
        tools.call(&"t".into(), "a", "x", json!({"n": 1}), &stage.cancel, tool).await.unwrap();
    assert_eq!(value, json!({"got": {"n": 1}}));
    let (call, _) = stage.shown("t/a").await;
    assert_eq!(call["title"], "x\\u{202e} 1");
    assert_eq!(call["rawInput"], json!({"n": 1}));
    assert_eq!(call["rawOutput"], value);
    assert_eq!(call["content"][0]["content"]["text"], r#"{"got":{"n":1}}"#);
}

#[tokio::test(start_paused = true)]
async fn a_long_result_is_truncated_only_for_the_client() {
    let stage = Stage::new(Some("allow"));
    let long = "x".repeat(100_000);
    let made = async |_: &str, _: Value| Ok::<_, String>(long.clone());
    let tools = tools(&stage);
    // Wrap the async closure. An async closure borrows its arguments, but `call` requires a closure
    // that returns a future.
    let result = tools
        .call(&"t".into(), "a", "x", json!({}), &stage.cancel, |name, args| {
            Box::pin(made(name, args))
        })
        .await
        .unwrap();
    assert_eq!(result.len(), 100_000);
    let (call, _) = stage.shown("t/a").await;
    let text = call["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.len() < 33_000 && text.ends_with("… and 67232 more bytes"), "{}", text.len());
}

#[tokio::test(start_paused = true)]
async fn a_truncated_result_shows_no_part_of_a_secret() {
    let stage = Stage::new(Some("allow"));
    stage.session.update(|session, _| session.set_secrets(Secrets::new(["secret-of-ada"])));
    let made = async |_: &str, _: Value| {
        Ok::<_, String>(format!("{}secret-of-ada{0}", "x".repeat(32 * 1024 - 10)))
    };
    tools(&stage)
        .call(&"t".into(), "a", "x", json!({}), &stage.cancel, |name, args| {
            Box::pin(made(name, args))
        })
        .await
        .unwrap();
    let (call, _) = stage.shown("t/a").await;
    assert!(!call.to_string().contains("secret-"));
}

#[tokio::test(start_paused = true)]
async fn a_call_with_unknown_effects_is_not_allowed_without_asking() {
    let stage = Stage::new(Some("allow"));
    let wrapped = tools(&stage);
    wrapped.call(&"t".into(), "a", "x", json!({}), &stage.cancel, tool).await.unwrap();
    wrapped.call(&"t".into(), "b", "x", json!({}), &stage.cancel, tool).await.unwrap();
    let known = tools(&stage).with_effects(|name, _| match name {
        "add" => Effects::empty(),
        _ => Effects::from(Effect::Unknown),
    });
    known.call(&"t".into(), "c", "add", json!({}), &stage.cancel, tool).await.unwrap();
    let received = stage.received.lock().unwrap();
    let asked: Vec<_> =
        received.asked.iter().map(|asked| asked.tool_call.tool_call_id.to_string()).collect();
    assert_eq!(asked, ["t/a", "t/b"]);
    let kinds: Vec<_> = received.asked[0].options.iter().map(|option| option.kind).collect();
    assert_eq!(kinds, [PermissionOptionKind::AllowOnce, PermissionOptionKind::RejectOnce]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_drops_the_call_at_once() {
    for (option, name) in [(Some("allow"), "hang"), (None, "waits for permission")] {
        let stage = Stage::new(option);
        let wrapped = tools(&stage);
        let cancel = async {
            pass(100).await;
            stage.cancel.cancel();
            tokio::time::Instant::now()
        };
        let turn = "t".into();
        let call = wrapped.call(&turn, "a", name, json!({}), &stage.cancel, tool);
        let (result, cancelled) = tokio::join!(call, cancel);
        let ended = result.unwrap_err();
        assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(CallEndReason::Turn)));
        assert!(ended.ends_turn && cancelled.elapsed() < Duration::from_millis(10), "{name}");
        stage.shown("t/a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_future_is_dropped_ends() {
    let stage = Stage::new(Some("allow"));
    let wrapped = tools(&stage);
    let turn = "t".into();
    let call = wrapped.call(&turn, "a", "hang", json!({}), &stage.cancel, tool);
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(stage.ended("t/a").meta.reason, Some(CallEndReason::Dropped));
    stage.shown("t/a").await;
}

#[tokio::test(start_paused = true)]
async fn no_call_runs_in_an_answered_turn() {
    let stage = Stage::new(Some("allow"));
    stage.session.end_turn(&"t".into(), CallEndReason::Turn);
    let result =
        tools(&stage).call(&"t".into(), "a", "panic", json!({}), &stage.cancel, tool).await;
    assert!(result.unwrap_err().ends_turn);
    assert!(stage.received.lock().unwrap().client_state.observed_call("t/a").is_none());
}

#[tokio::test(start_paused = true)]
async fn ids_that_a_model_repeats_are_made_unique() {
    let stage = Stage::new(Some("allow"));
    let wrapped = tools(&stage);
    for _ in 0..3 {
        wrapped.call(&"t".into(), "a", "x", json!({}), &stage.cancel, tool).await.unwrap();
    }
    assert_eq!(stage.session.update(|session, _| session.board().history().iter().count()), 3);
}

#[tokio::test(start_paused = true)]
async fn kinds_are_declared_or_hinted_or_read_from_the_name() {
    let stage = Stage::new(Some("allow"));
    let wrapped = tools(&stage)
        .with_kinds(|name| (name == "declared_delete").then_some(ToolKind::Think))
        .with_annotations(|name| {
            let mut annotations = ToolAnnotations::default();
            annotations.read_only = name.contains("hinted").then_some(true);
            annotations
        });
    for (name, kind) in [
        ("declared_delete", ToolKind::Think),
        ("hinted_delete", ToolKind::Read),
        ("delete_page", ToolKind::Delete),
        ("widget", ToolKind::Other),
    ] {
        wrapped.call(&"t".into(), name, name, json!({}), &stage.cancel, tool).await.unwrap();
        assert_eq!(stage.ended(&format!("t/{name}")).kind, kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_can_report_its_progress() {
    async fn tell(_: &str, _: Value) -> Result<Value, String> {
        acp_lifecycle::report_progress(1.0, 4.0, "one\u{200b}");
        let call = CallHandle::current().expect("it is in a call");
        tokio::spawn(async move { assert!(CallHandle::current().is_none(), "{:?}", call.id()) })
            .await
            .unwrap();
        let call = CallHandle::current().expect("it is in a call");
        let shown = call.session().call_report(call.id()).expect("it is open");
        Ok(Value::Object(shown.meta.to_meta("callboard")))
    }
    let stage = Stage::new(Some("allow"));
    let reported =
        tools(&stage).call(&"t".into(), "a", "x", json!({}), &stage.cancel, tell).await.unwrap();
    acp_lifecycle::report_progress(1.0, None, "nobody is told");
    let (call, _) = stage.shown("t/a").await;
    let expected = json!({"current": 1.0, "total": 4.0, "message": "one\\u{200b}", "percent": 25});
    assert_eq!(reported["callboard"]["progress"], expected);
    assert_eq!(
        call["_meta"]["callboard"]["progress"],
        Value::Null,
        "it is not on its way any more"
    );
}
