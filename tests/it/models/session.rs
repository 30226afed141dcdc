//! Sessions with a model over HTTP: modes, edits of one file, slash commands, and the messages that
//! a later process sends.

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use callboard_models::mock_server::{
    Dialect, MockReply, MockReplyStep, MockStopReason, MockToolCall, MockUsage, ModelServer,
    RecordedRequest,
};
use serde_json::{Value, json};

use crate::harness::{Agent, DEADLINE, Options, PermissionReply, TestClient};
use crate::models::case::{final_answer, ready, start_for, start_in, strings};

async fn set_mode(agent: &mut Agent, mode: &str) {
    let params = json!({"sessionId": agent.session_id(), "modeId": mode});
    agent.request("session/set_mode", params).await.unwrap();
}

#[tokio::test]
async fn each_mode_decides_on_calls_and_the_model_receives_the_result() {
    const REJECTED: &str = "Rejected by the user. It did not run.";
    const DENIED: &str = "Not permitted by the session's mode. It did not run.";
    for (dialect, mode, asked, completed, expected) in [
        (Dialect::OpenAiChat, "read-only", 0, [true, false, false], Some(DENIED)),
        (Dialect::OpenAiResponses, "ask-always", 3, [false; 3], Some(REJECTED)),
        (Dialect::Anthropic, "ask", 2, [true, false, false], Some(REJECTED)),
        (Dialect::Gemini, "accept-edits", 1, [true, true, false], Some(REJECTED)),
        (Dialect::Ollama, "auto", 0, [true; 3], None),
    ] {
        let reply = MockReply::new()
            .with_call(
                MockToolCall::new("read_file", &json!({"path": "notes.txt"})).with_id(Some("a")),
            )
            .with_call(
                MockToolCall::new("write_file", &json!({"path": "made", "content": "x"}))
                    .with_id(Some("b")),
            )
            .with_call(
                MockToolCall::new("terminal", &json!({"command": "touch ran"})).with_id(Some("c")),
            );
        let server = ModelServer::start([reply.into(), final_answer()]).await.unwrap();
        let reject = PermissionReply::Select(PermissionOptionKind::RejectOnce);
        let mut agent = start_for(&server, dialect, &[], reject.into());
        agent.initialize().await.unwrap();
        agent.new_session().await;
        set_mode(&mut agent, mode).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        assert_eq!(agent.client.permission_requests.len(), asked, "{mode}");
        let calls = agent.session().calls();
        let are = calls.iter().map(|call| call.status == ToolCallStatus::Completed);
        assert_eq!(are.collect::<Vec<_>>(), completed, "{mode}");
        let made = ["made", "ran"].map(|name| agent.scratch.path(name).exists());
        assert_eq!(made, completed[1..], "{mode}");
        agent.finish().await;
        let bodies = strings(&server.reply_requests()[1].body_json()).join("\n");
        for text in [REJECTED, DENIED] {
            let times = completed.iter().filter(|is| !**is && expected == Some(text)).count();
            assert_eq!(bodies.matches(text).count(), times, "{mode}: {bodies}");
        }
    }
}

#[tokio::test]
async fn edits_of_one_file_run_one_after_the_other() {
    for dialect in Dialect::ALL {
        let edit = |id, old: &str, new: &str| {
            let args = json!({"path": "notes.txt", "old_text": old, "new_text": new});
            MockToolCall::new("edit_file", &args).with_id(Some(id))
        };
        let reply =
            MockReply::new().with_call(edit("a", "one", "1")).with_call(edit("b", "two", "2"));
        let reply = reply.with_call(edit("c", "1\n2", "3"));
        let server = ModelServer::start([reply.into(), final_answer()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        set_mode(&mut agent, "accept-edits").await;
        assert_eq!(agent.turn("go").await, "end_turn");
        assert_eq!(agent.scratch.read("notes.txt"), "3\nthree\n", "{dialect:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn our_slash_commands_are_answered_without_the_model() {
    for dialect in Dialect::ALL {
        let edit = json!({"path": "notes.txt", "old_text": "one", "new_text": "1"});
        let mut usage = MockUsage::default();
        usage.input = 1234;
        usage.output = 56;
        let edit =
            MockReply::new().with_call(MockToolCall::new("edit_file", &edit)).with_usage(usage);
        let server = ModelServer::start([edit.into(), final_answer()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let model = agent.session().option_value("model").unwrap().to_owned();
        for (prompt, expected) in [
            ("/mode", "- `ask`: "),
            ("/mode auto", "The mode is `auto` now"),
            ("please edit it", "Done."),
            ("/usage", "| edit_file | 1 | 1 |"),
            ("/usage", "1234 in"),
            ("/undo", "Took back the last change, of notes.txt."),
            ("/permissions", "Nothing is remembered."),
            ("/effort high", "This model has no thought levels."),
            ("/help", "- `/model [NAME]`"),
            ("/model", &format!("- `{model}` ← now")),
            ("/model direct", "The model is `direct` now."),
            ("read notes.txt", "Done: 1 call."),
        ] {
            let before = agent.session().message_text().len();
            assert_eq!(agent.turn(prompt).await, "end_turn");
            let said = agent.session().message_text()[before..].to_owned();
            assert!(said.contains(expected), "{dialect:?}: {prompt}: {said}");
        }
        assert_eq!(agent.scratch.read("notes.txt"), "one\ntwo\nthree\n");
        agent.finish().await;
        let asked: Vec<Value> =
            server.reply_requests().iter().map(RecordedRequest::body_json).collect();
        assert_eq!(asked.len(), 2, "{dialect:?}");
        let sent = asked.iter().map(|body| strings(body).join("\n")).collect::<String>();
        assert!(!sent.contains("/usage") && sent.contains("please edit it"), "{dialect:?}: {sent}");
    }
}

/// Loads a session in a new process, runs a turn, and returns all texts of the last request.
async fn turn_after_load(server: &ModelServer, ended: &Agent, prompt: &str) -> String {
    let (scratch, id) = (ended.scratch.clone(), ended.session_id());
    scratch.until_alone(None, DEADLINE).await;
    let mut agent = start_in(scratch, server, Dialect::OpenAiChat, &[], Options::default());
    agent.initialize().await.unwrap();
    let params = json!({"sessionId": id, "cwd": agent.scratch.cwd(), "mcpServers": []});
    agent.request("session/load", params).await.unwrap();
    let prompt = agent.prompt_in(&id, prompt).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    agent.finish().await;
    strings(&server.reply_requests().last().unwrap().body_json()).join("\n")
}

#[tokio::test]
async fn the_model_receives_a_prompt_again_after_a_kill_during_the_first_reply() {
    // The pause is longer than changes wait for their commit.
    let reply = MockReply::new()
        .with_step(MockReplyStep::PauseMs(500))
        .with_text("I begin.")
        .with_step(MockReplyStep::Hang);
    let server = ModelServer::start([reply.into(), final_answer()]).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    let id = agent.session_id();
    agent.prompt("mend the roof").await;
    agent.until(|client| client.session(&id).message_text().contains("I begin.")).await;
    agent.kill().await;
    let sent = turn_after_load(&server, &agent, "continue").await;
    assert!(sent.contains("mend the roof") && sent.contains("continue"), "{sent}");
}

#[tokio::test]
async fn a_refused_prompt_is_not_sent_after_a_load() {
    let refusal = MockReply::new()
        .with_step(MockReplyStep::PauseMs(500))
        .with_text("No.")
        .with_stop_reason(MockStopReason::Filter);
    let answers = [final_answer(), refusal.into(), final_answer()];
    let server = ModelServer::start(answers).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    assert_eq!(agent.turn("mend the roof").await, "end_turn");
    assert_eq!(agent.turn("break the roof").await, "refusal");
    agent.finish().await;
    let sent = turn_after_load(&server, &agent, "continue").await;
    assert!(sent.contains("mend the roof") && sent.contains("continue"), "{sent}");
    assert!(!sent.contains("break the roof"), "{sent}");
}

#[tokio::test]
async fn the_model_is_informed_of_calls_whose_results_a_kill_has_removed() {
    let run = |id, command: &str| {
        MockToolCall::new("terminal", &json!({"command": command})).with_id(Some(id))
    };
    let reply = MockReply::new()
        .with_call(run("a", "echo first"))
        .with_call(run("b", "echo second; sleep 600"));
    let server = ModelServer::start([reply.into(), final_answer()]).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    let id = agent.session_id();
    set_mode(&mut agent, "auto").await;
    agent.prompt("mend the roof").await;
    // The agent has stored a call before the client sees that it has ended.
    let is_first_ended = |client: &TestClient| {
        client.session(&id).calls().iter().any(|call| call.status == ToolCallStatus::Completed)
    };
    agent.until(is_first_ended).await;
    agent.until_shown(&id, "second").await;
    agent.kill().await;
    let sent = turn_after_load(&server, &agent, "continue").await;
    let note = "The turn ended before the result of this call was stored.";
    assert_eq!(sent.matches(note).count(), 2, "{sent}");
    assert!(!sent.contains("internal error"), "{sent}");
}
