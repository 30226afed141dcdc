//! Tests of calls whose arguments are still arriving.

use super::PendingCall;
use crate::context::WorkspaceContext;
use crate::limits;
use crate::offered_tools::OfferedTools;
use crate::options::ActiveOptions;
use crate::secrets::{LiveSecrets, SessionSecrets};
use crate::turn::Turn;
use acp_lifecycle::{
    ClientUnreachable, OutboxItem, OutboxSink, Session, SessionHandle, drive_session,
};
use acp_tools::{Context, Registry, Workspace};
use acp_types::{Status, ToolCallReport};
use callboard_models::direct::DirectModel;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A client that records the title of each call's first report, with its time in milliseconds.
struct FirstReports(tokio::time::Instant, mpsc::UnboundedSender<(u128, String)>);

impl OutboxSink for FirstReports {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if let OutboxItem::ToolCall(_, patch) = item
            && patch.status == Some(Status::Pending)
        {
            let title = patch.title.unwrap_or_default();
            self.1.send((self.0.elapsed().as_millis(), title)).unwrap();
        }
        Ok(())
    }
}

/// Advances the clock, which is paused, by `time`.
async fn advance_clock(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// Streams the fragments of a call's arguments, each after a delay in milliseconds. Returns the
/// time of the call's first report in milliseconds, and the title in this report.
async fn first_report(tool: &str, fragments: &[(u64, &str)]) -> (u128, String) {
    let (reports, mut reported) = mpsc::unbounded_channel();
    let reports = FirstReports(tokio::time::Instant::now(), reports);
    on_a_turn(async |turn| {
        let stop = CancellationToken::new();
        let driver = tokio::spawn(drive_session(turn.handle.clone(), reports, stop.clone()));
        let open = turn.announce_in_batch("1", tool, "reply").unwrap();
        let mut call = PendingCall::new(open, "1".to_owned(), tool.to_owned());
        for (wait, fragment) in fragments {
            advance_clock(Duration::from_millis(*wait)).await;
            match *fragment {
                "END" => call.parse_and_describe_call(turn),
                fragment => call.push_fragment(fragment, turn),
            }
        }
        advance_clock(Duration::from_secs(1)).await;
        stop.cancel();
        driver.await.unwrap();
        drop(call);
    })
    .await;
    reported.recv().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_reported_when_its_title_is_known_or_after_200_ms() {
    let long = "x".repeat(5000);
    for (tool, fragments, within, title) in [
        // The path is complete while the text is still arriving.
        (
            "write_file",
            &[(90, r#"{"path": "src/a"#), (60, r#".rs", "content": ""#), (0, &long)][..],
            150..160,
            "Write src/a.rs",
        ),
        ("edit_file", &[(1, r#"{"path":"a.rs""#)], 1..11, "Edit a.rs"),
        // The report waits for an argument that may still change the title. Here, the argument
        // arrives immediately, so the title contains it.
        (
            "grep",
            &[(9, r#"{"pattern":"x""#), (1, r#","path":"src"}"#), (0, "END")],
            9..20,
            "Search for `x` in src",
        ),
        ("grep", &[(9, r#"{"pattern":"x""#), (500, r#","path":"src"}"#)], 9..20, "Search for `x`"),
        // If the path has not arrived in time, the title does not contain it.
        (
            "edit_file",
            &[(1, r#"{"old_text":"a","new_text":""#), (1, &long)],
            200..210,
            "Edit a file",
        ),
        ("read_file", &[], 200..210, "Read a file"),
        ("read_file", &[(190, r#"{"path":"a.rs"}"#), (0, "END")], 190..200, "Read a.rs"),
        // These arguments are not valid JSON.
        ("read_file", &[(5, r#"{"p"#), (0, "END")], 5..10, "Read a file"),
        // No argument of this tool could change the title.
        ("undo", &[(50, "{}")], 0..5, "Undo the last change"),
        ("no_such_tool", &[], 0..5, "`no_such_tool`"),
    ] {
        let (at, shown) = first_report(tool, fragments).await;
        assert!(shown.starts_with(title) && within.contains(&at), "{tool}: {shown:?} at {at} ms");
    }
}

#[tokio::test]
async fn a_call_has_its_title_before_its_arguments_are_complete() {
    on_a_turn(async |turn| tells_while_arguments_come(turn)).await;
}

async fn on_a_turn(test: impl AsyncFnOnce(&Turn<'_>)) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let cwd = workspace.cwd().to_owned();
    let context = Context::new(Arc::new(workspace));
    let cancel = CancellationToken::new();
    let handle = SessionHandle::new(Session::new(&cwd), SystemTime::now);
    let name = "t".into();
    let turn = Turn {
        id: &name,
        active_options: &|| ActiveOptions::defaults_for_model(Arc::new(DirectModel::default())),
        tools: &OfferedTools::new(Registry::builtin()),
        context: &context,
        workspace_context: &WorkspaceContext::new(&context, SystemTime::now()),
        handle: &handle,
        secrets: &SessionSecrets::new(handle.clone(), &LiveSecrets::from_env(None)),
        cancel: &cancel,
    };
    test(&turn).await;
}

fn tells_while_arguments_come(turn: &Turn<'_>) {
    let (handle, cwd) = (turn.handle, turn.context.workspace.cwd());
    let open = turn.announce_in_batch("1", "write_file", "reply").unwrap();
    let id = open.handle().id().clone();
    let mut call = PendingCall::new(open, "1".to_owned(), "write_file".to_owned());
    let shown = || handle.call_report(&id).unwrap();
    let pending = shown().title;
    call.push_fragment(r#"{"path": "src/a"#, turn);
    assert_eq!((shown().title, shown().raw_input), (pending, None));
    call.push_fragment(r#".rs", "content": ""#, turn);
    let ToolCallReport { title, locations, raw_input, meta, .. } = shown();
    assert_eq!(title, "Write src/a.rs");
    assert_eq!(locations[0].path(), cwd.join("src/a.rs"));
    assert_eq!(raw_input, Some(json!({"path": "src/a.rs"})));
    assert_eq!(meta.arriving, [("content".to_owned(), 1)].into());
    let text = "x".repeat(limits::ARGUMENTS_UPDATE_BYTES);
    call.push_fragment(&text, turn);
    assert_eq!(shown().meta.arriving["content"], 1 + text.len() as u64);
    let kib = (1 + text.len()) / 1024;
    assert_eq!(shown().title, format!("Write src/a.rs · {kib} KiB …"));
    call.push_fragment(r#""}"#, turn);
    call.parse_and_describe_call(turn);
    assert_eq!(shown().raw_input, Some(json!({"path": "src/a.rs", "content": text})));
    assert!(shown().meta.arriving.is_empty());
    assert_eq!(shown().title, "Write src/a.rs");
    assert_eq!(shown().meta.batch.as_deref(), Some("reply"));
}
