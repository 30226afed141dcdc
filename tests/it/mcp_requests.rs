//! Requests of MCP servers: forms for the user, pages that the user opens, and requests to the
//! model.

use std::fs;
use std::time::Duration;

use acp_conformance::{ClientBehaviour, FormReply};
use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::scratch::Scratch;
use crate::harness::script::{call, end, text};
use crate::harness::{Agent, PermissionReply};
use crate::mcp::{
    ALLOW, log, one_turn, read, ready, ready_configured, ready_in, shown, until_logged,
};

/// Returns a client that allows each request once, and answers forms.
fn client_with_forms(form: FormReply, elicitation: Value) -> ClientBehaviour {
    let client = ClientBehaviour::from(ALLOW).with_form(form);
    client.with_capabilities(json!({ "elicitation": elicitation }))
}

/// Returns the answers that the server received.
fn answers(agent: &Agent) -> Vec<Value> {
    let log = read(&log(&agent.scratch, "one"));
    let answers = log.lines().filter_map(|line| line.strip_prefix("answer "));
    answers.map(|answer| serde_json::from_str(answer).unwrap()).collect()
}

fn question(fields: &Value) -> Value {
    let schema = json!({"type": "object", "properties": fields, "required": []});
    json!({"message": "Which\u{1b}[2J branch?", "requestedSchema": schema})
}

#[tokio::test]
async fn questions_of_a_server_are_forms_of_the_client() {
    let fields = json!({
        "branch": {"type": "string", "title": "Branch\u{202e}", "enum": ["main", "dev"],
            "enumNames": ["Main", "Development"]},
        "note": {"type": "string", "maxLength": 10},
    });
    let options = json!([
        {"const": "main", "title": "Main"}, {"const": "dev", "title": "Development"},
    ]);
    let shown_fields = json!({
        "branch": {"type": "string", "title": "Branch\\u{202e}", "oneOf": options},
        "note": {"type": "string", "maxLength": 10},
    });
    for (form, answer) in [
        (
            FormReply::Fill("main"),
            json!({"action": "accept", "content": {"branch": "main", "note": "main"}}),
        ),
        (FormReply::Decline, json!({"action": "decline"})),
        (FormReply::Cancel, json!({"action": "cancel"})),
        (FormReply::Error, json!({"action": "cancel"})),
    ] {
        let script = one_turn(&[("mcp__one__ask", question(&fields))]);
        let client = client_with_forms(form, json!({}));
        let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        assert_eq!(answers(&agent), [answer], "{form:?}");
        let asked = agent.client.forms[0].clone();
        let expected = "The MCP server one asks: Which\\u{1b}[2J branch?";
        assert_eq!((&asked["mode"], &asked["message"]), (&json!("form"), &json!(expected)));
        assert_eq!(asked["requestedSchema"]["properties"], shown_fields);
        assert_eq!(asked["toolCallId"], json!(agent.session().calls()[0].tool_call_id));
        let log = read(&log(&agent.scratch, "one"));
        let capabilities =
            r#"capabilities {"elicitation": {"form": {}}, "roots": {}, "sampling": {}}"#;
        assert!(log.contains(capabilities), "{log}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_server_cannot_ask_a_client_without_forms() {
    let script = one_turn(&[("mcp__one__ask", question(&json!({})))]);
    let mut agent = ready(script, "auto", &[("one", "asks")], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(answers(&agent)[0]["message"], "The client of the agent has no forms.");
    let log = read(&log(&agent.scratch, "one"));
    assert!(log.contains(r#"capabilities {"roots": {}, "sampling": {}}"#), "{log}");
    agent.finish().await;
}

#[tokio::test]
async fn a_page_is_shown_and_reported_as_finished() {
    let page =
        |url: &str| json!({"mode": "url", "message": "Log in.", "url": url, "elicitationId": "e1"});
    let script = one_turn(&[
        ("mcp__one__ask", page("https://example.com/login")),
        ("mcp__one__ask", page("file:///etc/passwd")),
        ("mcp__one__ask", page("https://example.com@evil.example/")),
        ("mcp__one__echo", json!({"page": "https://example.com/again"})),
    ]);
    let client = client_with_forms(FormReply::LeaveEmpty, json!({"url": {}}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let asked = &agent.client.forms;
    let urls: Vec<_> = asked.iter().map(|asked| asked["url"].as_str().unwrap()).collect();
    assert_eq!(urls, ["https://example.com/login", "https://example.com/again"]);
    assert!(shown(&agent)[3].2.contains("when the user has finished the page"));
    let id = asked[0]["elicitationId"].as_str().unwrap().to_owned();
    let is_completion = |line: &str| line.contains("elicitation/complete") && line.contains(&id);
    agent.until(|client| client.transcript().lines().any(is_completion)).await;
    agent.finish().await;
}

#[tokio::test]
async fn an_open_form_is_withdrawn_with_its_call() {
    let script = one_turn(&[("mcp__one__ask", question(&json!({})))]);
    let client = client_with_forms(FormReply::NoReply, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.forms.is_empty()).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.until(|client| !client.cancelled_requests.is_empty()).await;
    agent.finish().await;
}

#[tokio::test]
async fn the_user_sees_one_question_at_a_time_and_few_wait() {
    let mut many = question(&json!({}));
    many["count"] = json!(60);
    let script = one_turn(&[("mcp__one__ask", many)]);
    let client = client_with_forms(FormReply::NoReply, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.forms.is_empty()).await;
    let log = log(&agent.scratch, "one");
    // At most 8 requests are handled at the same time. The other 52 of the 60 requests are refused
    // at once.
    until_logged(&log, "\nanswer ", 52).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.until(|client| !client.cancelled_requests.is_empty()).await;
    until_logged(&log, "\nanswer ", 60).await;
    assert_eq!(answers(&agent), vec![json!({"action": "cancel"}); 60]);
    agent.finish().await;
    assert_eq!((agent.client.forms.len(), agent.client.cancelled_requests.len()), (1, 1));
}

#[tokio::test]
async fn a_call_may_ask_a_limited_number_of_questions() {
    let mut many = question(&json!({}));
    many["chain"] = json!(40);
    let script = one_turn(&[("mcp__one__ask", many)]);
    let client = client_with_forms(FormReply::LeaveEmpty, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let answers = answers(&agent);
    let (shown, refused) = answers.split_at(32);
    assert!(shown.iter().all(|answer| answer["action"] == "accept"), "{answers:?}");
    assert_eq!(refused, vec![json!({"action": "cancel"}); 8]);
    assert_eq!(agent.client.forms.len(), 32);
    agent.finish().await;
}

#[tokio::test]
async fn a_call_with_an_open_question_is_not_timed_out() {
    let script = one_turn(&[("mcp__one__ask", question(&json!({})))]);
    let client = client_with_forms(FormReply::NoReply, json!({}));
    let mut agent = ready_configured(script, "call_timeout = 1", client).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.forms.is_empty()).await;
    // The test waits longer than the time limit of one second, to show that the limit does not
    // apply while a question is open.
    sleep(Duration::from_millis(2500)).await;
    // The cancel succeeds only if the turn has not ended.
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_ne!(shown(&agent)[0].1, ToolCallStatus::Completed);
    assert!(!shown(&agent)[0].2.contains("no progress"), "{:?}", shown(&agent));
    agent.finish().await;
}

#[tokio::test]
async fn a_server_asks_the_model_only_with_permission() {
    let request = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}],
        "systemPrompt": "Be brief.", "maxTokens": 5,
    });
    let reject = PermissionReply::Select(PermissionOptionKind::RejectOnce);
    for (allowed, reply, is_asked, completed) in [
        (None, ALLOW, true, true),
        (None, reject, true, false),
        (Some("sampling/createMessage"), reject, false, true),
        // The permission for the tool does not apply to the request that the tool sends to the
        // model.
        (Some("sample"), reject, true, false),
    ] {
        let calls = one_turn(&[("mcp__one__sample", request.clone())]);
        let script = [vec![text("Hello.")], calls].concat();
        let scratch = Scratch::new();
        let rule = |tool| {
            let matcher = json!({"mcp": {"server": "one", "tool": tool}});
            json!({"scope": "user", "matcher": matcher, "verdict": "allow"})
        };
        scratch.write_rules(&allowed.map(rule).into_iter().collect::<Vec<_>>());
        let mut agent = ready_in(scratch, script, "auto", &[("one", "asks")], reply).await;
        agent.turn("go").await;
        let answer = &answers(&agent)[0];
        let asked = &agent.client.permission_requests;
        assert_eq!(asked.len(), usize::from(is_asked), "{allowed:?}: {asked:?}");
        let prompt = "system: Be brief.\\nuser: Say hello.";
        let transcript = agent.client.transcript();
        // The client receives the text of the request to the model before the permission request.
        let asked_at = transcript.find("session/request_permission").unwrap_or(transcript.len());
        assert!(transcript[..asked_at].contains(prompt), "{transcript}");
        let shown = serde_json::to_string(&agent.session().calls()[0].content).unwrap();
        match completed {
            true => {
                assert_eq!(answer["content"], json!({"type": "text", "text": "Hello."}));
                assert_eq!(answer["role"], "assistant");
            }
            false => assert_eq!(answer["message"], "The request is not permitted."),
        }
        assert!(shown.contains(prompt), "{shown}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_result_may_come_before_the_answer_of_the_user() {
    let script = one_turn(&[("mcp__one__hasty", question(&json!({})))]);
    let client = client_with_forms(FormReply::NoReply, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.forms.is_empty()).await;
    // Now the server sends the result.
    fs::write(log(&agent.scratch, "one").with_extension("log.go"), "").unwrap();
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    agent.until(|client| !client.cancelled_requests.is_empty()).await;
    assert_eq!(shown(&agent)[0].1, ToolCallStatus::Completed, "{:?}", shown(&agent));
    agent.finish().await;
}

#[tokio::test]
async fn a_question_belongs_to_no_call_if_several_run() {
    let later = call("mcp__one__later", json!({}));
    let ask = call("mcp__one__ask", question(&json!({})));
    let script = vec![later, ask, end(), text("Done.")];
    let client = client_with_forms(FormReply::LeaveEmpty, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.client.forms[0]["toolCallId"], Value::Null);
    assert!(shown(&agent).iter().all(|call| call.1 == ToolCallStatus::Completed));
    agent.finish().await;
}
