//! Tests of several calls of one reply, and of the content that a call shows before it is
//! permitted.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_lifecycle::{BatchCall, Effect, Effects, Policy, ToolMiddleware, Verdict};
use acp_types::limits::MAX_FILE_CHANGE_BYTES;
use acp_types::{
    CallEndReason, Content, FileChange, FileChangeOperation, Status, ToolCallPatch, ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::stage::{Stage, pass};

/// Maximum size of a call's content in bytes.
const MAX_CONTENT_BYTES: usize = 768 * 1024;

/// The starts and ends of calls, in order.
type Log = Arc<Mutex<Vec<String>>>;

type Running<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// Returns a tool that logs its start and end, and runs for 10 ms.
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

fn tools(stage: &Stage) -> ToolMiddleware {
    ToolMiddleware::new(stage.session.clone()).with_effects(effects)
}

#[tokio::test(start_paused = true)]
async fn calls_that_share_a_file_run_in_order_and_others_run_concurrently() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let call = |id, name, path| BatchCall::new(id, name, json!({ "path": path }));
    let calls = vec![
        call("a", "read", "/p/x"),
        call("b", "write", "/p/x"),
        call("c", "read", "/p/y"),
        call("d", "write", "/p/x"),
    ];
    let results = tools(&stage).call_batch(&"t".into(), calls, &stage.cancel, logged(&log)).await;
    let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, ["/p/x", "/p/x", "/p/y", "/p/x"]);
    let log = log.lock().unwrap();
    assert_eq!(log[..2], ["+read /p/x", "+read /p/y"]);
    assert_eq!(log[4..], ["+write /p/x", "-write /p/x", "+write /p/x", "-write /p/x"]);
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_batch_starts_after_its_turn_has_ended() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let call = |id, name| BatchCall::new(id, name, json!({ "path": "/p/x" }));
    let calls = vec![call("a", "write"), call("b", "write")];
    let tools = tools(&stage);
    let turn = "t".into();
    let batch = tools.call_batch(&turn, calls, &stage.cancel, logged(&log));
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
    let mut change = FileChange::new(FileChangeOperation::Modify, "/p/x");
    change.old_text = old_text;
    change.new_text = new_text;
    ToolCallPatch::new()
        .with_title(format!("Write {line}"))
        .with_appended_content(Content::from(change))
}

#[tokio::test(start_paused = true)]
async fn a_change_is_shown_before_its_permission_request() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let tools = tools(&stage).with_previews(|_, _| Some(async { Ok(change("x")) }));
    let args = json!({ "path": "/p/x" });
    tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await.unwrap();
    let received = stage.received.lock().unwrap();
    let asked: Vec<_> = received.asked.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
    assert_eq!(asked.len(), 1, "what its preview reads is allowed");
    assert_eq!(asked[0]["toolCall"]["title"], "Write x");
    assert_eq!(asked[0]["toolCall"]["content"][0]["type"], "diff");
}

#[tokio::test(start_paused = true)]
async fn changes_too_large_for_a_message_are_truncated_and_allowed_only_once() {
    let large = |file| {
        let text = |from: usize| {
            let line = |number| format!("line {number}, which is as long as lines are\n");
            Some((from..from + 15_000).map(line).collect::<String>())
        };
        let mut change = FileChange::new(FileChangeOperation::Modify, format!("/p/{file}"));
        (change.old_text, change.new_text) = (text(0), text(20_000));
        Content::from(change)
    };
    for files in [1, 4] {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        let tools = tools(&stage).with_previews(move |_, _| {
            Some(async move {
                Ok((0..files)
                    .map(large)
                    .fold(ToolCallPatch::new(), ToolCallPatch::with_appended_content))
            })
        });
        let args = json!({ "path": "/p/x" });
        tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await.unwrap();
        assert_eq!(stage.ended("t/a").meta.dropped, None);
        let asked = serde_json::to_value(&stage.received.lock().unwrap().asked).unwrap();
        let content = asked[0]["toolCall"]["content"].as_array().unwrap();
        let is_of = |item: &&Value, file: usize| {
            let count = item["content"]["text"].as_str().unwrap_or_default();
            item["path"] == format!("/p/{file}") || count.starts_with(&format!("/p/{file}: +"))
        };
        for file in 0..files {
            let shown = content.iter().filter(|item| is_of(item, file)).count();
            assert!(shown > 0, "{file} of {files}");
        }
        let len = asked[0]["toolCall"]["content"].to_string().len();
        assert!(len < MAX_CONTENT_BYTES.min(files * MAX_FILE_CHANGE_BYTES) + 1024, "{len}");
        let note = content.last().unwrap()["content"]["text"].as_str().unwrap();
        assert!(note.starts_with("Not everything of this call is shown"), "{note}");
        assert_eq!(asked[0]["options"].as_array().map(Vec::len), Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_preview_has_changed_is_permitted_again_or_does_not_run() {
    for (changes, asked, runs) in [(1, 2, true), (u32::MAX, 3, false)] {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        let previews = Arc::new(Mutex::new(0));
        let tools = tools(&stage).with_previews(move |_, _| {
            let previews = previews.clone();
            Some(async move {
                let mut count = previews.lock().unwrap();
                *count += 1;
                // Each attempt is previewed once before the permission request and once before it
                // runs.
                let shown = if *count / 2 < changes { *count } else { 0 };
                Ok(change(&shown.to_string()))
            })
        });
        let args = json!({ "path": "/p/x" });
        let ran = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
        assert_eq!(ran.is_ok(), runs, "{ran:?}");
        assert_eq!(!log.lock().unwrap().is_empty(), runs);
        assert_eq!(stage.received.lock().unwrap().asked.len(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_preview_ends_its_call_without_a_request() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let tools = tools(&stage).with_previews(|_, _| Some(async { Err("no such file".to_owned()) }));
    let args = json!({ "path": "/p/x" });
    let ended = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
    let ended = ended.unwrap_err();
    assert_eq!((ended.text.as_str(), ended.reason), ("no such file", Some(CallEndReason::Error)));
    assert!(stage.received.lock().unwrap().asked.is_empty() && log.lock().unwrap().is_empty());
}

/// A preview that shows nothing, and records that it ran.
async fn look(looked: Arc<Mutex<bool>>) -> Result<ToolCallPatch, String> {
    *looked.lock().unwrap() = true;
    Ok(ToolCallPatch::new())
}

#[tokio::test(start_paused = true)]
async fn the_reads_of_a_preview_are_judged_before_it_starts() {
    let (stage, log) = (Stage::new(Some("reject")), Log::default());
    stage
        .session
        .update(|session, _| session.replace_policy(Arc::new(acp_lifecycle::AskAlwaysPolicy)));
    let looked = Arc::new(Mutex::new(false));
    let looks = looked.clone();
    let tools = tools(&stage).with_previews(move |_, _| Some(look(looks.clone())));
    let args = json!({ "path": "/p/x" });
    let ended = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
    assert!(ended.is_err() && !*looked.lock().unwrap());
}

/// An additional property of effects.
type Mark = fn(Effects) -> Effects;

/// A policy that asks only about sensitive effects and about effects outside the project.
#[derive(Debug)]
struct AsksAboutMore;

impl Policy for AsksAboutMore {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Allow
    }

    fn judge_marked_sensitive(&self, _: &Effect) -> Verdict {
        Verdict::Ask
    }
}

#[tokio::test(start_paused = true)]
async fn the_reads_of_a_preview_are_judged_as_strictly_as_their_call() {
    let (read, write) = (|| Effect::Read("/p/x".into()), || Effect::Write("/p/x".into()));
    let cases: [(Mark, _); 9] = [
        (|effects| effects, (read(), 0)),
        (|effects| effects, (write(), 0)),
        (Effects::always_ask, (read(), 1)),
        (Effects::always_ask, (write(), 1)),
        (Effects::with_high_risk_mark, (write(), 1)),
        (|effects| effects.with_outside_path_marks(|_| true), (write(), 1)),
        (|effects| effects, (Effect::Unknown, 0)),
        (Effects::always_ask, (Effect::Unknown, 0)),
        (Effects::always_ask, (Effect::Connect("h".to_owned()), 0)),
    ];
    for (mark, (effect, asked)) in cases {
        let case = format!("{:?}", mark(effect.clone().into()));
        let (stage, log) = (Stage::new(Some("reject")), Log::default());
        stage.session.update(|session, _| session.replace_policy(Arc::new(AsksAboutMore)));
        let looked = Arc::new(Mutex::new(false));
        let looks = looked.clone();
        let tools = ToolMiddleware::new(stage.session.clone())
            .with_effects(move |_, _| mark(effect.clone().into()))
            .with_previews(move |_, _| Some(look(looks.clone())));
        let call = tools.call(&"t".into(), "a", "x", json!({}), &stage.cancel, logged(&log)).await;
        assert_eq!(!*looked.lock().unwrap(), asked == 1, "{case}");
        assert!(asked == 0 || call.is_err(), "{case}");
        let received = stage.received.lock().unwrap();
        let text = "The change is shown once reading is permitted.";
        let first = received.asked.first().map(|it| serde_json::to_string(it).unwrap());
        assert_eq!(first.is_some_and(|first| first.contains(text)), asked == 1, "{case}");
    }
}

async fn text_preview() -> Result<ToolCallPatch, String> {
    Ok(ToolCallPatch::new().with_appended_content(Content::from_text("the preview")))
}

#[tokio::test(start_paused = true)]
async fn the_note_of_the_first_request_is_removed_after_the_preview_is_permitted() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let tools = ToolMiddleware::new(stage.session.clone())
        .with_effects(|_, _| Effects::from(Effect::Write("/p/x".into())).always_ask())
        .with_previews(|_, _| Some(text_preview()));
    tools.call(&"t".into(), "a", "x", json!({}), &stage.cancel, logged(&log)).await.unwrap();
    let received = stage.received.lock().unwrap();
    let asked: Vec<_> =
        received.asked.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let has = |text: &str| asked.iter().map(|it| it.contains(text)).collect::<Vec<_>>();
    assert_eq!(has("is shown once reading is permitted"), [true, false]);
    assert_eq!(has("the preview"), [false, true]);
    let call = received.client_state.observed_call("t/a").unwrap();
    let content = format!("{:?}", call.content);
    assert!(!content.contains("once reading is permitted") && content.contains("the preview"));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_asked_about_once_if_it_has_no_preview_or_unknown_effects() {
    let write = Effects::from(Effect::Write("/p/x".into())).always_ask();
    for (name, effects, has_preview) in [
        ("no preview", write, false),
        ("unknown", Effect::Unknown.into(), true),
        ("neither", Effect::Unknown.into(), false),
    ] {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        let tools = ToolMiddleware::new(stage.session.clone())
            .with_effects(move |_, _| effects.clone())
            .with_previews(move |_, _| has_preview.then(text_preview));
        tools.call(&"t".into(), "a", "x", json!({}), &stage.cancel, logged(&log)).await.unwrap();
        let asked = serde_json::to_string(&stage.received.lock().unwrap().asked).unwrap();
        assert_eq!(stage.received.lock().unwrap().asked.len(), 1, "{name}");
        assert_eq!(asked.contains("the preview"), has_preview, "{name}");
        assert!(!asked.contains("once reading is permitted"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_similar_preview_is_permitted_again() {
    let at = |path: &str| {
        let mut change = FileChange::new(FileChangeOperation::Delete, path);
        change.old_text = Some("old".to_owned());
        ToolCallPatch::new().with_appended_content(Content::from(change))
    };
    for (first, then, asked) in [
        (at("/p/x"), at("/p/x"), 1),
        (at("/p/x"), at("/p//x"), 2),
        (at("/p/x"), at("/p/x/"), 2),
        (
            ToolCallPatch::new().with_raw_input(json!({ "n": 0.0 })),
            ToolCallPatch::new().with_raw_input(json!({ "n": -0.0 })),
            2,
        ),
    ] {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        let case = format!("{then:?}");
        let shows = Arc::new(Mutex::new(VecDeque::from([first])));
        let tools = tools(&stage).with_previews(move |_, _| {
            let (shows, then) = (shows.clone(), then.clone());
            Some(async move { Ok(shows.lock().unwrap().pop_front().unwrap_or(then)) })
        });
        let args = json!({ "path": "/p/x" });
        tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await.unwrap();
        assert_eq!(stage.received.lock().unwrap().asked.len(), asked, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn effects_that_change_before_the_run_are_permitted_again() {
    let writes = |paths: [&str; 2]| paths.iter().map(|path| Effect::Write(path.into())).collect();
    for (then, asked) in [(["/p/x", "/p/y"], 1), (["/p/y", "/p/x"], 1), (["/p/x", "/p/z"], 2)] {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        // The first two times are for the report and for the preview.
        let says =
            Mutex::new(VecDeque::<Effects>::from([(); 2].map(|()| writes(["/p/x", "/p/y"]))));
        let tools = ToolMiddleware::new(stage.session.clone()).with_effects(move |_, _| {
            says.lock().unwrap().pop_front().unwrap_or_else(|| writes(then))
        });
        let args = json!({ "path": "/p/x" });
        tools.call(&"t".into(), "a", "x", args, &stage.cancel, logged(&log)).await.unwrap();
        assert_eq!(stage.received.lock().unwrap().asked.len(), asked, "{then:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_call_has_the_files_of_its_effects() {
    let (read, write) =
        (|path: &str| Effect::Read(path.into()), |path: &str| Effect::Write(path.into()));
    let cases: [(Vec<Effect>, &[&str]); 5] = [
        (vec![read("/p/x"), write("/p/x"), write("/p/a")], &["/p/a", "/p/x"]),
        (vec![Effect::Search("/p/d".into()), Effect::Delete("/q/y".into())], &["/p/d", "/q/y"]),
        (vec![write("b/../c")], &["/p/c"]),
        (vec![Effect::Run { command: "ls".to_owned(), cwd: "/p".into() }], &[]),
        (vec![Effect::Connect("a.example".to_owned()), Effect::Unknown], &[]),
    ];
    for (effects, files) in cases {
        let (stage, log) = (Stage::new(Some("allow")), Log::default());
        let tools = ToolMiddleware::new(stage.session.clone())
            .with_effects(move |_, _| effects.iter().cloned().collect());
        let args = json!({ "path": "/p/x" });
        tools.call(&"t".into(), "a", "frob", args, &stage.cancel, logged(&log)).await.unwrap();
        let shown = stage.session.update(|session, _| {
            let report = session.board().history().iter().next().unwrap();
            let files = report.locations.iter().map(|at| at.path().display().to_string());
            // No rule about a kind may allow the call because of its effects.
            (report.kind, files.collect::<Vec<_>>())
        });
        let files = files.iter().map(ToString::to_string).collect();
        assert_eq!(shown, (ToolKind::Other, files));
    }
}

#[tokio::test(start_paused = true)]
async fn a_preview_that_takes_too_long_ends_its_call() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let tools = tools(&stage)
        .with_previews(|_, _| Some(std::future::pending()))
        .with_timeout(Duration::from_secs(5));
    let args = json!({ "path": "/p/x" });
    let ended = tools.call(&"t".into(), "a", "write", args, &stage.cancel, logged(&log)).await;
    assert_eq!(ended.unwrap_err().reason, Some(CallEndReason::Timeout));
}

#[tokio::test(start_paused = true)]
async fn calls_of_unknown_effect_run_alone() {
    let (stage, log) = (Stage::new(Some("allow")), Log::default());
    let is_first = Mutex::new(true);
    let tools = tools(&stage).with_effects(move |name, args| match name {
        "connect" => Effect::Connect("example.org".to_owned()).into(),
        // The effects callback panics for the first call of this tool.
        "odd" => {
            let was_first = std::mem::take(&mut *is_first.lock().unwrap());
            assert!(!was_first, "a planted panic");
            Effect::Connect("example.com".to_owned()).into()
        }
        name => effects(name, args),
    });
    let names = ["connect", "odd", "connect", "unknown", "unknown", "connect", "connect"];
    let ids: Vec<_> = (0..names.len()).map(|number| number.to_string()).collect();
    let call = |(id, name)| BatchCall::new(id, name, json!({ "path": id }));
    let calls = ids.iter().map(String::as_str).zip(names).map(call).collect();
    let results = tools.call_batch(&"t".into(), calls, &stage.cancel, logged(&log)).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let expected = "+connect 0, -connect 0, +odd 1, -odd 1, +connect 2, -connect 2, \
                    +unknown 3, -unknown 3, +unknown 4, -unknown 4, \
                    +connect 5, +connect 6, -connect 5, -connect 6";
    assert_eq!(log.lock().unwrap().join(", "), expected);
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_batch_previews_the_result_of_earlier_calls() {
    let (stage, file) = (Stage::new(Some("allow")), Arc::new(Mutex::new(String::new())));
    let shows = file.clone();
    let tools = tools(&stage).with_previews(move |_, args| {
        let old = shows.lock().unwrap().clone();
        let new = format!("{old}{}\n", args["line"].as_str().unwrap());
        let (old_text, new_text) = (Some(old), Some(new));
        let mut change = FileChange::new(FileChangeOperation::Modify, "/p/x");
        change.old_text = old_text;
        change.new_text = new_text;
        Some(async { Ok(ToolCallPatch::new().with_appended_content(Content::from(change))) })
    });
    let call = |id, line| BatchCall::new(id, "write", json!({ "path": "/p/x", "line": line }));
    let writes = |_: &str, args: Value| {
        let file = file.clone();
        async move {
            pass(10).await;
            let mut file = file.lock().unwrap();
            *file += args["line"].as_str().unwrap();
            *file += "\n";
            Ok::<_, String>(file.clone())
        }
    };
    let calls = vec![call("a", "one"), call("b", "two")];
    let results = tools.call_batch(&"t".into(), calls, &stage.cancel, writes).await;
    assert_eq!(results, [Ok("one\n".to_owned()), Ok("one\ntwo\n".to_owned())]);
    let received = stage.received.lock().unwrap();
    let asked: Vec<_> = received.asked.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
    let texts = asked.iter().map(|it| it["toolCall"]["content"][0]["newText"].clone());
    assert_eq!(texts.collect::<Vec<_>>(), ["one\n", "one\ntwo\n"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_title_shows_its_name_and_arguments() {
    let stage = Stage::new(Some("allow"));
    let (tools, log) = (ToolMiddleware::new(stage.session.clone()), Log::default());
    let args = json!({ "query": "x" });
    tools.call(&"t".into(), "a", "search", args, &stage.cancel, logged(&log)).await.unwrap();
    assert_eq!(stage.ended("t/a").title, r#"search query: "x""#);
}
