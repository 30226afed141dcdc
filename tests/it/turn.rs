//! Whole turns: what a client is told of every tool, of several calls and of several sessions.

use acp_types::observe::v1::V1Observer;
use acp_types::schema::v1::{PlanEntryStatus, SessionUpdate, ToolCallStatus, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{Model, call, end, run, text};
use crate::harness::session::{call_text, content_text, diff, meta};
use crate::harness::{Agent, Options};

/// A call and what a client is to see of it.
#[derive(Clone)]
struct Case {
    tool: &'static str,
    args: Value,
    kind: ToolKind,
    /// A part of the title.
    title: &'static str,
    /// Where it works, relative to the cwd, and on which line.
    location: Option<(&'static str, Option<u32>)>,
    /// A part of the text it shows.
    shows: &'static str,
}

fn cases() -> Vec<Case> {
    [reading_cases(), changing_cases(), other_cases()].concat()
}

fn case(
    tool: &'static str,
    args: Value,
    kind: ToolKind,
    title: &'static str,
    location: Option<(&'static str, Option<u32>)>,
    shows: &'static str,
) -> Case {
    Case { tool, args, kind, title, location, shows }
}

fn reading_cases() -> Vec<Case> {
    vec![
        case(
            "read_file",
            json!({"path": "notes.txt", "offset": 2}),
            ToolKind::Read,
            "notes.txt",
            Some(("notes.txt", Some(2))),
            "two",
        ),
        case("list_directory", json!({"path": "src"}), ToolKind::Read, "src", None, "lib.rs"),
        case(
            "find_path",
            json!({"pattern": "**/*.rs"}),
            ToolKind::Search,
            "**/*.rs",
            None,
            "src/lib.rs",
        ),
        case(
            "grep",
            json!({"pattern": "t[wh]"}),
            ToolKind::Search,
            "t[wh]",
            Some(("notes.txt", Some(2))),
            "three",
        ),
    ]
}

fn changing_cases() -> Vec<Case> {
    vec![
        case(
            "write_file",
            json!({"path": "new/file.txt", "content": "new\n"}),
            ToolKind::Edit,
            "new/file.txt",
            Some(("new/file.txt", None)),
            "",
        ),
        case(
            "edit_file",
            json!({"path": "notes.txt", "old_text": "two", "new_text": "2"}),
            ToolKind::Edit,
            "notes.txt",
            Some(("notes.txt", Some(2))),
            "",
        ),
        case(
            "move_path",
            json!({"from": "new/file.txt", "to": "moved/file.txt"}),
            ToolKind::Move,
            "moved/file.txt",
            Some(("new/file.txt", None)),
            "",
        ),
        case(
            "delete_path",
            json!({"path": "moved/file.txt"}),
            ToolKind::Delete,
            "moved/file.txt",
            Some(("moved/file.txt", None)),
            "",
        ),
        case("undo", json!({}), ToolKind::Edit, "last change", None, "moved/file.txt"),
    ]
}

fn other_cases() -> Vec<Case> {
    vec![
        case(
            "terminal",
            json!({"command": "echo said; pwd"}),
            ToolKind::Execute,
            "echo said; pwd",
            None,
            "said",
        ),
        case("think", json!({"thought": "It is late."}), ToolKind::Think, "", None, "It is late."),
        case(
            "todo_write",
            json!({"todos": [{"content": "Sleep", "status": "in_progress"}]}),
            ToolKind::Think,
            "",
            None,
            "",
        ),
    ]
}

#[tokio::test]
async fn every_tool_shows_its_whole_life() {
    let calls = cases().into_iter().flat_map(|case| [call(case.tool, case.args), end()]);
    let script: Vec<_> = calls.chain([text("Done.")]).collect();
    let mut agent = Agent::ready(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "Done.");
    for case in cases() {
        check(&agent, &case);
    }
    agent.finish().await;
}

fn check(agent: &Agent, case: &Case) {
    let call = agent.call(case.tool);
    let tool = case.tool;
    let life = [ToolCallStatus::Pending, ToolCallStatus::InProgress, ToolCallStatus::Completed];
    assert_eq!(agent.session().statuses(&call), life, "{tool}");
    assert_eq!(call.kind, case.kind, "{tool}");
    assert!(call.title.contains(case.title), "{tool}: {}", call.title);
    assert!(!call.title.contains(tool), "{tool}: {} is no title for people", call.title);
    assert_eq!(call.raw_input.as_ref(), Some(&case.args), "{tool}");
    // A thought has no result.
    assert_eq!(call.raw_output.is_some(), tool != "think", "{tool}");
    assert!(call_text(&call).contains(case.shows), "{tool}: {}", call_text(&call));
    if let Some((path, line)) = case.location {
        let location = call.locations.first().expect(tool);
        assert_eq!(location.path, agent.scratch.path(path), "{tool}");
        assert!(line.is_none() || location.line == line, "{tool}: {location:?}");
    }
    let meta = meta(&call);
    assert!(meta["startedAt"].is_u64() && meta["durationMs"].is_u64(), "{tool}: {meta}");
}

#[tokio::test]
async fn a_change_of_a_file_is_shown_as_a_diff_and_made() {
    let edit = json!({"path": "notes.txt", "old_text": "two\n", "new_text": "2\n"});
    let write = json!({"path": "new.txt", "content": "new\n"});
    let script = [call("edit_file", edit), end(), call("write_file", write), end(), text("Done.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.turn("go").await;
    for (tool, name, old, new) in [
        ("edit_file", "notes.txt", Some("one\ntwo\nthree\n"), "one\n2\nthree\n"),
        ("write_file", "new.txt", None, "new\n"),
    ] {
        let call = agent.call(tool);
        let diff = diff(&call.content);
        assert_eq!(diff.path, agent.scratch.path(name));
        assert_eq!((diff.old_text.as_deref(), &*diff.new_text), (old, new));
        assert_eq!(agent.scratch.read(name), new);
    }
    agent.finish().await;
}

#[tokio::test]
async fn todos_are_sent_as_the_plan_each_time_whole() {
    let todos = |todos: Value| call("todo_write", json!({ "todos": todos }));
    let first = todos(json!([
        {"content": "a", "status": "completed"}, {"content": "b", "status": "pending"},
    ]));
    let script = [first, end(), text("One."), json!({"end": "end_turn"}), todos(json!([])), end()];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.turn("go").await;
    let plan = agent.session().observer.plan().expect("a plan");
    let entries: Vec<_> =
        plan.entries.iter().map(|entry| (&*entry.content, entry.status.clone())).collect();
    assert_eq!(entries, [("a", PlanEntryStatus::Completed), ("b", PlanEntryStatus::Pending)]);
    agent.turn("again").await;
    assert_eq!(agent.session().observer.plan().expect("a plan").entries, []);
    agent.finish().await;
}

#[tokio::test]
async fn ids_that_a_model_repeats_stay_apart() {
    let think = |id: &str| json!({"call": {"id": id, "name": "think", "args": {"thought": "Hm."}}});
    let script = [think("a"), end(), think("a"), think("b"), end(), think("a"), end()];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.turn("go").await;
    assert_eq!(agent.session().calls().len(), 4);
    agent.finish().await;
}

#[tokio::test]
async fn a_call_is_announced_while_the_model_still_speaks() {
    let think = call("think", json!({"thought": "Hm."}));
    let script = [think, json!({"delay_ms": 600_000}), end()];
    let mut agent = Agent::ready(script, Options::default()).await;
    let prompt = agent.prompt("go").await;
    let session = agent.session_id();
    agent.until(|client| !client.session(&session).calls().is_empty()).await;
    assert_eq!(agent.call("think").status, ToolCallStatus::Pending);
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(agent.call("think").status, ToolCallStatus::Failed);
    agent.finish().await;
}

#[tokio::test]
async fn arguments_in_fragments_are_the_same_arguments() {
    let content = "Zeile für Zeile\n".repeat(200);
    let args = json!({"path": "new.txt", "content": content});
    for chunk in [1, 7, 4096] {
        let call = json!({"call": {"name": "write_file", "args": args, "chunk": chunk}});
        let mut agent = Agent::ready([call, end()], Options::default()).await;
        agent.turn("go").await;
        assert_eq!(agent.call("write_file").raw_input.as_ref(), Some(&args));
        assert_eq!(agent.scratch.read("new.txt"), content);
        agent.finish().await;
    }
}

#[tokio::test]
async fn text_and_thoughts_arrive_in_order() {
    let script =
        [json!({"thought": "Let me "}), json!({"thought": "see."}), text("It "), text("is so.")];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.turn("go").await;
    assert_eq!(agent.session().thought_text(), "Let me see.");
    assert_eq!(agent.session().message_text(), "It is so.");
    let is_thought = |update: &SessionUpdate| matches!(update, SessionUpdate::AgentThoughtChunk(_));
    let is_message = |update: &SessionUpdate| matches!(update, SessionUpdate::AgentMessageChunk(_));
    let updates = &agent.session().updates;
    assert!(updates.iter().rposition(is_thought) < updates.iter().position(is_message));
    agent.finish().await;
}

#[tokio::test]
async fn a_turn_stops_for_the_reason_that_the_model_gives() {
    for reason in ["end_turn", "max_tokens", "max_turn_requests", "refusal"] {
        let script = [text("So."), json!({ "end": reason })];
        let mut agent = Agent::ready(script, Options::default()).await;
        assert_eq!(agent.turn("go").await, reason);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_call_has_its_title_and_its_input_before_it_runs() {
    let args = json!({"pattern": "**/*.rs"});
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    agent.turn(&"find **/*.rs\n".repeat(100)).await;
    let mut observer = V1Observer::new();
    for update in &agent.session().updates {
        observer.update(update);
        for call in observer.tool_calls() {
            if call.status != ToolCallStatus::Pending {
                assert!(call.title.contains("**/*.rs"), "{} runs", call.title);
                assert_eq!(call.raw_input.as_ref(), Some(&args));
            }
        }
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_call_never_shows_an_empty_text() {
    let script = [run("true"), call("think", json!({"thought": "Hm."})), run("echo"), end()];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.turn("go").await;
    for update in &agent.session().updates {
        let content = match update {
            SessionUpdate::ToolCall(call) => &call.content[..],
            SessionUpdate::ToolCallUpdate(update) => {
                update.fields.content.as_deref().unwrap_or(&[])
            }
            _ => &[],
        };
        assert!(content.iter().all(|content| content_text(content) != Some("")), "{update:?}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn calls_of_a_reply_that_was_broken_off_are_not_run() {
    for stop in ["refusal", "max_tokens"] {
        let mut agent =
            Agent::ready([run("touch made"), json!({"end": stop})], Options::default()).await;
        assert_eq!(agent.turn("go").await, stop);
        assert_eq!(agent.call("terminal").status, ToolCallStatus::Failed);
        assert!(
            agent.client.permission_requests.is_empty() && !agent.scratch.path("made").exists()
        );
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_session_gets_its_title_from_its_first_prompt_once() {
    let mut agent = Agent::ready([text("Hello.")], Options::default()).await;
    agent.turn("\nmend the parser\nsoon").await;
    agent.turn("and the printer").await;
    let titles = agent.session().updates.iter().filter_map(|update| match update {
        SessionUpdate::SessionInfoUpdate(info) => {
            assert!(info.updated_at.value().is_some_and(|at| at.ends_with('Z')), "{info:?}");
            Some(info.title.value().map(String::as_str))
        }
        _ => None,
    });
    assert_eq!(titles.collect::<Vec<_>>(), [Some("mend the parser"), None]);
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_may_hold_all_that_is_said_to_be_taken() {
    let mut agent = Agent::start(Model::Direct, Options::default());
    let capabilities = agent.initialize().await.unwrap()["agentCapabilities"].take();
    let taken = &capabilities["promptCapabilities"];
    assert_eq!(*taken, json!({"image": true, "audio": true, "embeddedContext": true}));
    let session = agent.new_session().await;
    let prompt = json!([
        {"type": "text", "text": "think of this"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "a"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///etc/passwd", "name": "passwd"},
    ]);
    let answer =
        agent.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    assert_eq!(answer.unwrap()["stopReason"], "end_turn");
    // The direct model takes one command a line, and what is attached is none.
    assert!(agent.session().message_text().starts_with("Line 2 is not a command"));
    agent.finish().await;
}
