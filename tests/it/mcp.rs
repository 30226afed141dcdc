//! Servers of the Model Context Protocol: their tools, their failures, and their end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, text};
use crate::harness::session::{call_text, meta};
use crate::harness::{Agent, PermissionReply};
use acp_conformance::{ClientBehaviour, FormReply};

const ALWAYS: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowAlways);
const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);

pub(crate) const SERVER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/harness/mcp_server.py");

/// Returns the path of the log of a server.
fn log(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.path(format!("{name}.log"))
}

/// Returns a server, as a client names it, with a behaviour of the test server.
fn server(scratch: &Scratch, name: &str, behaviour: &str) -> Value {
    let log = log(scratch, name);
    json!({
        "name": name, "command": "/usr/bin/env", "args": ["python3", SERVER, log, behaviour],
        "env": [{"name": "TOKEN", "value": "given"}],
    })
}

/// Starts the agent, and opens a session with these servers and their behaviours.
async fn ready(
    script: impl Into<Vec<Value>>,
    mode: &str,
    servers: &[(&str, &str)],
    client: impl Into<ClientBehaviour>,
) -> Agent {
    let scratch = Scratch::new();
    let model = scratch.model(&Model::from(script.into()));
    let servers: Vec<_> =
        servers.iter().map(|(name, behaviour)| server(&scratch, name, behaviour)).collect();
    let args = ["acp", "--model", &model, "--mode", mode];
    let mut agent = Agent::start_in(scratch, &args, &[], client);
    agent.initialize().await.unwrap();
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": servers});
    agent.request("session/new", params).await.unwrap();
    agent
}

fn one_turn(calls: &[(&str, Value)]) -> Vec<Value> {
    let calls = calls.iter().flat_map(|(name, args)| [call(name, args.clone()), end()]);
    calls.chain([text("Done.")]).collect()
}

/// Returns the titles, states and texts of all calls.
fn shown(agent: &Agent) -> Vec<(String, ToolCallStatus, String)> {
    let calls = agent.session().calls();
    calls.iter().map(|call| (call.title.clone(), call.status, call_text(call))).collect()
}

fn titles_asked(agent: &Agent) -> Vec<String> {
    let asked = agent.client.permission_requests.iter();
    asked.map(|it| it.request.tool_call.fields.title.clone().unwrap_or_default()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Runs `/mcp` until its answer contains a text.
async fn until_listed(agent: &mut Agent, expected: &str) {
    let listed = async {
        loop {
            let before = agent.session().message_text().len();
            agent.turn("/mcp").await;
            if agent.session().message_text()[before..].contains(expected) {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(Duration::from_secs(30), listed).await.is_ok(), "{expected}");
}

#[tokio::test]
async fn tools_of_a_server_are_called_with_permission() {
    let script = one_turn(&[
        ("mcp__one__echo", json!({"text": "hi"})),
        ("mcp__one__fail", json!({})),
        ("mcp__gone__echo", json!({})),
    ]);
    let mut agent = ready(script, "ask", &[("one", "forks")], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let shown = shown(&agent);
    let expected = ("echo (one) `{\"text\":\"hi\"}`", ToolCallStatus::Completed, "echo: hi");
    assert_eq!((shown[0].0.as_str(), shown[0].1, shown[0].2.as_str()), expected);
    assert_eq!((shown[1].1, shown[1].2.as_str()), (ToolCallStatus::Failed, "It does not work."));
    assert!(shown[2].2.contains("There is no tool \"mcp__gone__echo\""), "{}", shown[2].2);
    assert_eq!(titles_asked(&agent), ["echo (one) `{\"text\":\"hi\"}`", "fail (one)"]);
    let log = read(&log(&agent.scratch, "one"));
    assert!(
        log.starts_with("started ")
            && log.contains(" given\n")
            && log.contains("\necho {\"text\": \"hi\"}"),
        "{log}"
    );
    assert!(agent.processes().iter().any(|process| process.contains("mcp_server.py")));
    // No process of the server is left, not even one in another session.
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_fails_is_named_and_does_not_delay_the_others() {
    let script = one_turn(&[("mcp__one__echo", json!({"text": "hi"}))]);
    let servers = [("dies", "dies"), ("hangs", "hangs"), ("noise", "garbage"), ("one", "")];
    let mut agent = ready(script, "auto", &servers, ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let thoughts = agent.session().thought_text();
    for expected in [
        "Waiting for MCP servers to start: ",
        "The MCP server dies does not run: it ended with exit code 3; its last lines: The disk is full.",
    ] {
        assert!(thoughts.contains(expected), "{expected}: {thoughts}");
    }
    assert_eq!(shown(&agent)[0].1, ToolCallStatus::Completed);
    agent.turn("/mcp").await;
    let text = agent.session().message_text();
    for expected in
        ["**dies**: does not run", "**hangs**: starting", "**one**: 6 tools: echo, look"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_late_tool_is_in_the_next_request() {
    let calls = [("mcp__late__echo", json!({"text": "1"}))];
    let script = [one_turn(&calls), vec![json!({"end": "end_turn"})], one_turn(&calls)].concat();
    let mut agent = ready(script, "auto", &[("late", "slow")], ALLOW).await;
    agent.turn("too early").await;
    assert!(shown(&agent)[0].2.contains("There is no tool"), "{:?}", shown(&agent));
    fs::write(log(&agent.scratch, "late").with_extension("log.go"), "").unwrap();
    until_listed(&mut agent, "**late**: 6 tools").await;
    agent.turn("again").await;
    assert_eq!(shown(&agent).last().unwrap().1, ToolCallStatus::Completed);
    agent.finish().await;
}

#[tokio::test]
async fn progress_and_cancel_reach_both_sides() {
    let script = one_turn(&[("mcp__one__wait", json!({}))]);
    let mut agent = ready(script, "auto", &[("one", "")], ALLOW).await;
    let session = agent.session_id();
    let prompt = agent.prompt("go").await;
    agent
        .until(|client| {
            let calls = client.session(&session).calls();
            calls.first().is_some_and(|call| meta(call)["progress"]["current"] == 3.0)
        })
        .await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    let log = log(&agent.scratch, "one");
    while !read(&log).contains("cancelled") {
        tokio::task::yield_now().await;
    }
    let (waits, cancelled) = {
        let text = read(&log);
        let word = |before: &str| {
            text.lines().find_map(|line| line.strip_prefix(before)).map(str::to_owned)
        };
        (word("waits in "), word("cancelled "))
    };
    assert!(waits.is_some() && waits == cancelled, "{waits:?} {cancelled:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_that_changes_asks_again_and_shows_it() {
    let echo = ("mcp__one__echo", json!({"text": "1"}));
    let script = one_turn(&[
        echo.clone(),
        echo.clone(),
        ("mcp__one__change", json!({})),
        echo,
        ("mcp__one__late", json!({})),
    ]);
    let mut agent = ready(script, "ask", &[("one", "")], ALWAYS).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let echo = "echo (one) `{\"text\":\"1\"}`";
    assert_eq!(titles_asked(&agent), [echo, "change (one)", echo, "late (one)"]);
    let asked = &agent.client.permission_requests[2].request.tool_call.fields.content;
    let asked = serde_json::to_string(asked).unwrap();
    assert!(asked.contains("Before: Echoes. Now: Echoes loudly."), "{asked}");
    assert!(shown(&agent).iter().all(|(_, status, _)| *status == ToolCallStatus::Completed));
    agent.finish().await;
}

#[tokio::test]
async fn two_servers_may_have_the_same_tool() {
    let script = one_turn(&[
        ("mcp__a-b__echo", json!({})),
        ("mcp__a-b__echo", json!({})),
        ("mcp__c__echo", json!({})),
    ]);
    let mut agent = ready(script, "ask", &[("a-b", ""), ("c", "")], ALWAYS).await;
    agent.turn("go").await;
    assert_eq!(titles_asked(&agent), ["echo (a-b)", "echo (c)"]);
    assert!(read(&log(&agent.scratch, "c")).contains("echo"));
    agent.finish().await;
}

#[tokio::test]
async fn modes_decide_about_tools_of_servers() {
    for (mode, asked, completed) in [
        ("read-only", vec![], 0),
        ("ask", vec!["look (one)", "wipe (one)"], 2),
        ("auto", vec!["wipe (one)"], 2),
    ] {
        let script = one_turn(&[("mcp__one__look", json!({})), ("mcp__one__wipe", json!({}))]);
        let mut agent = ready(script, mode, &[("one", "")], ALLOW).await;
        agent.turn("go").await;
        assert_eq!(titles_asked(&agent), asked, "{mode}");
        let done = shown(&agent).iter().filter(|it| it.1 == ToolCallStatus::Completed).count();
        assert_eq!(done, completed, "{mode}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_ends_is_reported_and_can_be_started_again() {
    let call = ("mcp__one__echo", json!({"text": "hi"}));
    let script = one_turn(&[call.clone(), call]);
    let mut agent = ready(script, "auto", &[("one", "quits")], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = shown(&agent);
    assert_eq!([calls[0].1, calls[1].1], [ToolCallStatus::Failed; 2], "{calls:?}");
    until_listed(&mut agent, "**one**: does not run: it ended with exit code 4").await;
    agent.turn("/mcp restart one").await;
    until_listed(&mut agent, "**one**: 6 tools").await;
    assert_eq!(read(&log(&agent.scratch, "one")).matches("started").count(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_may_end_by_itself_when_its_session_ends() {
    let script = one_turn(&[("mcp__one__echo", json!({"text": "hi"}))]);
    let mut agent = ready(script, "auto", &[("one", "")], ALLOW).await;
    agent.turn("go").await;
    let id = agent.session_id();
    agent.request("session/close", json!({"sessionId": id})).await.unwrap();
    let log = log(&agent.scratch, "one");
    assert!(read(&log).ends_with("closed\n"), "{}", read(&log));
    agent.finish().await;
}

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
async fn questions_have_a_limit_and_come_one_by_one() {
    let mut many = question(&json!({}));
    many["count"] = json!(60);
    let script = one_turn(&[("mcp__one__ask", many)]);
    let client = client_with_forms(FormReply::LeaveEmpty, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let answers = answers(&agent);
    assert_eq!(answers.len(), 60);
    let accepted = answers.iter().filter(|answer| answer["action"] == "accept").count();
    assert!((1..=32).contains(&accepted), "{accepted}");
    assert_eq!(agent.client.forms.len(), accepted);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_asks_the_model_only_with_permission() {
    let request = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}],
        "systemPrompt": "Be brief.", "maxTokens": 5,
    });
    for (mode, reply, completed) in [
        ("auto", ALLOW, true),
        ("auto", PermissionReply::Select(PermissionOptionKind::RejectOnce), false),
    ] {
        let calls = one_turn(&[("mcp__one__sample", request.clone())]);
        let script = [vec![text("Hello.")], calls].concat();
        let mut agent = ready(script, mode, &[("one", "asks")], reply).await;
        agent.turn("go").await;
        let answer = &answers(&agent)[0];
        let asked = &agent.client.permission_requests;
        assert_eq!(asked.len(), 1, "{asked:?}");
        let shown = serde_json::to_string(&agent.session().calls()[0].content).unwrap();
        match completed {
            true => {
                assert_eq!(answer["content"], json!({"type": "text", "text": "Hello."}));
                assert_eq!(answer["role"], "assistant");
            }
            false => assert_eq!(answer["message"], "The user does not permit it."),
        }
        assert!(shown.contains("system: Be brief.\\nuser: Say hello."), "{shown}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn structured_results_are_compared_with_their_schema() {
    let script =
        one_turn(&[("mcp__one__point", json!({"x": 1})), ("mcp__one__point", json!({"x": "one"}))]);
    let mut agent = ready(script, "auto", &[("one", "asks")], ALLOW).await;
    agent.turn("go").await;
    let calls = shown(&agent);
    assert_eq!([calls[0].1, calls[1].1], [ToolCallStatus::Completed, ToolCallStatus::Failed]);
    agent.finish().await;
}

#[tokio::test]
async fn many_tools_are_found() {
    let script = one_turn(&[
        ("find_tool", json!({"query": "mcp__one__tool_123"})),
        ("mcp__one__tool_123", json!({"text": "hi"})),
    ]);
    let mut agent = ready(script, "auto", &[("one", "many")], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = shown(&agent);
    assert_eq!(calls[0].0, "Find tools for `mcp__one__tool_123`");
    assert!(calls[0].2.contains("- mcp__one__tool_123: Does something."), "{}", calls[0].2);
    assert_eq!(calls[1].2, "tool_123: hi");
    agent.finish().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_at_once() {
    let size = |bytes: usize| ("mcp__one__echo", json!({ "text": "hi", "size": bytes }));
    let script = one_turn(&[size(5 << 20), size(1 << 20)]);
    let mut agent = ready(script, "auto", &[("one", "")], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = shown(&agent);
    assert_eq!([calls[0].1, calls[1].1], [ToolCallStatus::Failed, ToolCallStatus::Completed]);
    assert!(calls[0].2.contains("a message that is too large"), "{}", calls[0].2);
    agent.finish().await;
}

#[tokio::test]
async fn a_result_may_come_before_the_answer_of_the_user() {
    let script = one_turn(&[("mcp__one__hasty", question(&json!({})))]);
    let client = client_with_forms(FormReply::NoReply, json!({}));
    let mut agent = ready(script, "auto", &[("one", "asks")], client).await;
    assert_eq!(agent.turn("go").await, "end_turn");
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

#[tokio::test]
async fn the_last_result_of_a_server_that_ends_is_not_lost() {
    let leave = [("mcp__one__leave", json!({}))];
    let script = [one_turn(&leave), vec![json!({"end": "end_turn"})]].concat();
    let script = [script.clone(), script.clone(), script].concat();
    let mut agent = ready(script, "auto", &[("one", "asks")], ALLOW).await;
    for _ in 0..3 {
        agent.turn("go").await;
        until_listed(&mut agent, "**one**: does not run: it ended with exit code 0").await;
        agent.turn("/mcp restart one").await;
        until_listed(&mut agent, "**one**: 13 tools").await;
    }
    let results: Vec<_> = shown(&agent).into_iter().map(|call| call.2).collect();
    assert_eq!(results, ["Bye."; 3]);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_works_need_not_list_its_tools() {
    let scratch = Scratch::new();
    let config = format!(
        "[mcp_servers.one]\ncommand = \"python3\"\nargs = [{SERVER:?}, {:?}, \"asks\"]\n\
         startup_timeout = 1\n",
        log(&scratch, "one")
    );
    let folder = scratch.cwd().with_file_name("home").join("CONFIG_HOME/callboard");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    let calls = [("mcp__one__busy", json!({})), ("mcp__one__echo", json!({"text": "hi"}))];
    let model = scratch.model(&Model::from(one_turn(&calls)));
    let args = ["acp", "--model", &model, "--mode", "auto"];
    let mut agent = Agent::start_in(scratch, &args, &[], ALLOW);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert!(shown(&agent).iter().all(|call| call.1 == ToolCallStatus::Completed));
    agent.finish().await;
}
