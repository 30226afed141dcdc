//! Whole turns: the updates of every tool, of several calls, and of several sessions.

use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::{SessionUpdate, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{Model, call, end, run, text};
use crate::harness::session::content_text;
use crate::harness::{Agent, Options};

#[tokio::test]
async fn every_tool_sends_all_updates_of_its_call() {
    let calls = [
        call("read_file", json!({"path": "notes.txt", "offset": 2})),
        call("list_directory", json!({"path": "src"})),
        call("find_path", json!({"pattern": "**/*.rs"})),
        call("grep", json!({"pattern": "t[wh]"})),
        call("write_file", json!({"path": "new/file.txt", "content": "new\n"})),
        call("edit_file", json!({"path": "notes.txt", "old_text": "two", "new_text": "2"})),
        call("move_path", json!({"from": "new/file.txt", "to": "moved/file.txt"})),
        call("delete_path", json!({"path": "moved/file.txt"})),
        call("undo", json!({})),
        call("terminal", json!({"command": "echo one; echo two >&2"})),
        call("think", json!({"thought": "It is late."})),
        call("todo_write", json!({"todos": [{"content": "Sleep", "status": "in_progress"}]})),
    ];
    let calls = calls.into_iter().flat_map(|call| [call, end()]);
    let script: Vec<_> = calls.chain([text("Done.")]).collect();
    let mut agent = Agent::ready_without_store(script, Options::default()).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    insta::assert_snapshot!(agent.wire());
    assert_eq!(agent.scratch.read("notes.txt"), "one\n2\nthree\n");
    assert_eq!(agent.scratch.read("moved/file.txt"), "new\n");
    agent.finish().await;
}

#[tokio::test]
async fn todos_are_sent_as_a_complete_plan_each_time() {
    let todos = |todos: Value| call("todo_write", json!({ "todos": todos }));
    let first = todos(json!([
        {"content": "a", "status": "completed"}, {"content": "b", "status": "pending"},
    ]));
    let script = [first, end(), text("One."), json!({"end": "end_turn"}), todos(json!([])), end()];
    let mut agent = Agent::ready_without_store(script, Options::default()).await;
    agent.turn("go").await;
    agent.turn("again").await;
    insta::assert_snapshot!(agent.wire());
    agent.finish().await;
}

#[tokio::test]
async fn calls_with_repeated_ids_stay_separate() {
    let think = |id: &str| json!({"call": {"id": id, "name": "think", "args": {"thought": "Hm."}}});
    let script = [think("a"), end(), think("a"), think("b"), end(), think("a"), end()];
    let mut agent = Agent::ready(script, Options::default()).await;
    agent.turn("go").await;
    assert_eq!(agent.session().calls().len(), 4);
    agent.finish().await;
}

#[tokio::test]
async fn a_call_is_announced_before_the_reply_has_ended() {
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
    let mut client_state = V1ClientState::new();
    for update in &agent.session().updates {
        client_state.apply_session_update(update);
        for call in client_state.observed_calls() {
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
async fn calls_of_an_incomplete_reply_do_not_run() {
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
async fn a_prompt_may_contain_every_advertised_kind_of_content() {
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
    // The model `direct` expects one command per line. An attachment of the prompt is not a
    // command.
    assert!(agent.session().message_text().starts_with("Line 2 is not a command"));
    agent.finish().await;
}
