//! Several calls of one reply, and what is shown of a call before it is permitted.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{BatchCall, Effect, Effects, Middleware};
use acp_types::{Content, FileChange, Operation, Reason, Status, ToolCallPatch};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, pass};

/// When calls began and ended.
type Log = Arc<Mutex<Vec<String>>>;

type Running<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// A tool that notes when it begins and ends, and takes 10 ms.
fn logged<'a>(log: &'a Log) -> impl Fn(&'a str, Value) -> Running<'a> + Send + Sync + 'a {
    move |name, args| {
        Box::pin(async move {
            let path = args["path"].as_str().unwrap_or_default().to_owned();
            log.lock().unwrap().push(format!("+{name} {path}"));
            pass(10).await;
            log.lock().unwrap().push(format!("-{name} {path}"));
            Ok(path)
        })
    }
}

fn effects(name: &str, args: &Value) -> Effects {
    let path = || args["path"].as_str().unwrap_or_default().into();
    match name {
        "read" => Effect::Read(path()).into(),
        "write" => Effect::Write(path()).into(),
        _ => Effect::Unknown.into(),
    }
}

fn tools(stage: &Stage) -> Middleware {
    Middleware::new(stage.session.clone()).effects(effects)
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_file_follow_each_other_and_others_run_side_by_side() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let call = |id, name, path| BatchCall::new(id, name, json!({ "path": path }));
    let calls = vec![
        call("a", "read", "/p/x"),
        call("b", "write", "/p/x"),
        call("c", "read", "/p/y"),
        call("d", "write", "/p/x"),
    ];
    let results = tools(&stage).batch(&"t".into(), calls, &stage.cancel, logged(&log)).await;
    let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, ["/p/x", "/p/x", "/p/y", "/p/x"]);
    let log = log.lock().unwrap();
    assert_eq!(log[..2], ["+read /p/x", "+read /p/y"]);
    assert_eq!(log[4..], ["+write /p/x", "-write /p/x", "+write /p/x", "-write /p/x"]);
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_batch_begins_once_its_turn_is_over() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let call = |id, name| BatchCall::new(id, name, json!({ "path": "/p/x" }));
    let calls = vec![call("a", "write"), call("b", "write")];
    let tools = tools(&stage);
    let turn = "t".into();
    let batch = tools.batch(&turn, calls, &stage.cancel, logged(&log));
    let cancel = async {
        pass(5).await;
        stage.cancel.cancel();
    };
    let (results, ()) = tokio::join!(batch, cancel);
    let ends: Vec<_> = results.into_iter().map(|result| result.unwrap_err()).collect();
    assert!(ends.iter().all(|ended| ended.ends_turn && ended.status == Status::Cancelled));
    assert_eq!(*log.lock().unwrap(), ["+write /p/x"]);
    let (second, _) = stage.shown("t/b").await;
    assert_eq!(second["status"], "failed");
}

fn change(line: &str) -> ToolCallPatch {
    let (old_text, new_text) = (Some("old\n".to_owned()), Some(format!("{line}\n")));
    let change = FileChange { old_text, new_text, ..FileChange::new(Operation::Modify, "/p/x") };
    ToolCallPatch::new().title(format!("Write {line}")).append(Content::from(change))
}

#[tokio::test(start_paused = true)]
async fn a_change_is_shown_before_anybody_is_asked_about_it() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let tools = tools(&stage).previews(|_, _| async { Ok(change("x")) });
    let args = json!({ "path": "/p/x" });
    tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await.unwrap();
    let seen = stage.seen.lock().unwrap();
    let asked: Vec<_> = seen.asked.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
    assert_eq!(asked.len(), 1, "what its preview reads is allowed");
    assert_eq!(asked[0]["toolCall"]["title"], "Write x");
    assert_eq!(asked[0]["toolCall"]["content"][0]["type"], "diff");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_do_something_else_by_now_is_permitted_anew_or_does_not_run() {
    for (changes, asked, runs) in [(1, 2, true), (u32::MAX, 3, false)] {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        let previews = Arc::new(Mutex::new(0));
        let tools = tools(&stage).previews(move |_, _| {
            let mut count = previews.lock().unwrap();
            *count += 1;
            // The first look of each attempt, and the second before it runs.
            let shown = if *count / 2 < changes { *count } else { 0 };
            async move { Ok(change(&shown.to_string())) }
        });
        let args = json!({ "path": "/p/x" });
        let ran = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
        assert_eq!(ran.is_ok(), runs, "{ran:?}");
        assert_eq!(!log.lock().unwrap().is_empty(), runs);
        assert_eq!(stage.seen.lock().unwrap().asked.len(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_preview_that_fails_ends_its_call_and_asks_nobody() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let tools = tools(&stage).previews(|_, _| async { Err("no such file".to_owned()) });
    let args = json!({ "path": "/p/x" });
    let ended = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
    let ended = ended.unwrap_err();
    assert_eq!((ended.text.as_str(), ended.reason), ("no such file", Some(Reason::Error)));
    assert!(stage.seen.lock().unwrap().asked.is_empty() && log.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_reads_of_a_preview_are_judged_before_it_looks() {
    let (stage, log) = (Stage::new(Some("reject")), Log::default());
    stage.session.with(|session, _| session.set_policy(Arc::new(acp_lifecycle::AskAlwaysPolicy)));
    let looked = Arc::new(Mutex::new(false));
    let looks = looked.clone();
    let tools = tools(&stage).previews(move |_, _| {
        *looks.lock().unwrap() = true;
        async { Ok(ToolCallPatch::new()) }
    });
    let args = json!({ "path": "/p/x" });
    let ended = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
    assert!(ended.is_err() && !*looked.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_title_is_called_by_its_name_and_arguments() {
    let stage = Stage::new(Some("allow"));
    let (tools, log) = (Middleware::new(stage.session.clone()), Log::default());
    let args = json!({ "query": "x" });
    tools.call(&"t".into(), "a", "search", args, &stage.cancel, logged(&log)).await.unwrap();
    assert_eq!(stage.ended("t/a").title, r#"search query: "x""#);
}
