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
use crate::harness::{Agent, DEADLINE, PermissionReply};
use acp_conformance::ClientBehaviour;

const ALWAYS: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowAlways);
pub(crate) const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);

pub(crate) const SERVER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/harness/mcp_server.py");

/// Returns the path of the log of a server.
pub(crate) fn log(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.path(format!("{name}.log"))
}

/// Returns the test server with a behaviour, in the form in which a client sends it in
/// `session/new`.
fn server(scratch: &Scratch, name: &str, behaviour: &str) -> Value {
    let log = log(scratch, name);
    json!({
        "name": name, "command": "/usr/bin/env", "args": ["python3", SERVER, log, behaviour],
        "env": [{"name": "TOKEN", "value": "given"}],
    })
}

/// Starts the agent, and opens a session with these servers and their behaviours.
pub(crate) async fn ready(
    script: impl Into<Vec<Value>>,
    mode: &str,
    servers: &[(&str, &str)],
    client: impl Into<ClientBehaviour>,
) -> Agent {
    ready_in(Scratch::new(), script, mode, servers, client).await
}

/// The configuration with which the first prompt waits for servers that a busy machine starts
/// slowly.
pub(crate) const PATIENT: &str = "[mcp]\nfirst_prompt_wait = 60\n";

/// Starts the agent in a scratch folder, as [`ready`] does.
pub(crate) async fn ready_in(
    scratch: Scratch,
    script: impl Into<Vec<Value>>,
    mode: &str,
    servers: &[(&str, &str)],
    client: impl Into<ClientBehaviour>,
) -> Agent {
    let model = scratch.model(&Model::from(script.into()));
    if servers.iter().all(|(_, behaviour)| !["hangs", "slow", "garbage"].contains(behaviour)) {
        scratch.write_config(PATIENT);
    }
    let servers: Vec<_> =
        servers.iter().map(|(name, behaviour)| server(&scratch, name, behaviour)).collect();
    let args = ["acp", "--model", &model, "--mode", mode];
    let mut agent = Agent::start_in(scratch, &args, &[], client);
    agent.initialize().await.unwrap();
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": servers});
    agent.request("session/new", params).await.unwrap();
    agent
}

/// Starts the agent with the server `one` of a configuration file, and opens a session. `settings`
/// are further lines of the server's section.
pub(crate) async fn ready_configured(
    script: impl Into<Vec<Value>>,
    settings: &str,
    client: impl Into<ClientBehaviour>,
) -> Agent {
    let scratch = Scratch::new();
    scratch.write_config(&format!(
        "{PATIENT}[mcp_servers.one]\ncommand = \"python3\"\nargs = [{SERVER:?}, {:?}, \"asks\"]\n{settings}\n",
        log(&scratch, "one")
    ));
    let model = scratch.model(&Model::from(script.into()));
    let args = ["acp", "--model", &model, "--mode", "auto"];
    let env = [("CALLBOARD_LOG", "debug")];
    let mut agent = Agent::start_in(scratch, &args, &env, client);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    agent
}

pub(crate) fn one_turn(calls: &[(&str, Value)]) -> Vec<Value> {
    let calls = calls.iter().flat_map(|(name, args)| [call(name, args.clone()), end()]);
    calls.chain([text("Done.")]).collect()
}

/// Returns the titles, states and texts of all calls.
pub(crate) fn shown(agent: &Agent) -> Vec<(String, ToolCallStatus, String)> {
    let calls = agent.session().calls();
    calls.iter().map(|call| (call.title.clone(), call.status, call_text(call))).collect()
}

pub(crate) fn titles_asked(agent: &Agent) -> Vec<String> {
    let asked = agent.client.permission_requests.iter();
    asked.map(|it| it.request.tool_call.fields.title.clone().unwrap_or_default()).collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Waits until the log of a server contains a text, this number of times.
pub(crate) async fn until_logged(log: &Path, text: &str, times: usize) {
    let logged = async {
        while read(log).matches(text).count() < times {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(DEADLINE, logged).await.is_ok(), "{text}: {}", read(log));
}

/// Runs `/mcp` until its answer contains a text.
pub(crate) async fn until_listed(agent: &mut Agent, expected: &str) {
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
    assert!(timeout(DEADLINE, listed).await.is_ok(), "{expected}");
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
    let environment = log.lines().find_map(|line| line.strip_prefix("environment ")).unwrap();
    let has_variable = |name: &str| environment.split(' ').any(|word| word == name);
    assert!(has_variable("TOKEN") && !has_variable("CALLBOARD_TEST_TOKEN"), "{environment}");
    assert!(agent.processes().iter().any(|process| process.contains("mcp_server.py")));
    // No process of the server is left, not even a process that left the server's process session.
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
    until_logged(&log, "\ncancelled ", 1).await;
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
        echo.clone(),
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
    // The changed tool was allowed, so the next call does not mention the change.
    let session = agent.session_id();
    let calls = agent.client.session(&session).calls();
    let transcript = agent.client.transcript();
    let mentions = |call: usize| {
        let id = calls[call].tool_call_id.to_string();
        let mut lines = transcript.lines().filter(|line| line.contains("Echoes loudly."));
        lines.any(|line| line.contains(&id))
    };
    assert_eq!([3, 4].map(mentions), [true, false]);
    assert!(shown(&agent).iter().all(|(_, status, _)| *status == ToolCallStatus::Completed));
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_that_changes_asks_even_in_mode_auto_and_after_a_new_start() {
    let echo = ("mcp__one__echo", json!({}));
    let before = one_turn(&[echo.clone(), ("mcp__one__change", json!({})), echo.clone()]);
    let script = [before, vec![json!({"end": "end_turn"})], one_turn(&[echo])].concat();
    let mut agent = ready(script, "auto", &[("one", "")], ALLOW).await;
    agent.turn("go").await;
    agent.turn("/mcp restart one").await;
    until_listed(&mut agent, "**one**: 7 tools").await;
    agent.turn("again").await;
    assert!(shown(&agent).iter().all(|call| call.1 == ToolCallStatus::Completed));
    // The call before the change, and the change itself, were not asked about.
    let session = agent.session_id();
    let calls = agent.client.session(&session).calls();
    let asked = agent.client.permission_requests.iter();
    let asked: Vec<_> = asked.map(|it| it.request.tool_call.tool_call_id.clone()).collect();
    assert_eq!(asked, [2, 3].map(|call: usize| calls[call].tool_call_id.clone()));
    agent.finish().await;
}

#[tokio::test]
async fn tools_that_the_configuration_does_not_allow_do_not_exist() {
    let names = ["mcp__one__echo", "mcp__one__look", "mcp__one__wipe"];
    for (settings, allowed) in [
        ("tools.allow = [\"echo\"]", [true, false, false]),
        ("tools.deny = [\"wipe\"]", [true, true, false]),
        ("tools = { allow = [\"echo\", \"look\"], deny = [\"look\"] }", [true, false, false]),
    ] {
        let script = one_turn(&names.map(|name| (name, json!({}))));
        let mut agent = ready_configured(script, settings, ALLOW).await;
        agent.turn("go").await;
        let log = read(&log(&agent.scratch, "one"));
        for ((name, is_allowed), (_, status, text)) in names.iter().zip(allowed).zip(shown(&agent))
        {
            assert_eq!(status == ToolCallStatus::Completed, is_allowed, "{settings}: {text}");
            let unknown = format!("There is no tool \"{name}\"");
            assert_eq!(text.contains(&unknown), !is_allowed, "{settings}: {text}");
            let tool = name.rsplit("__").next().unwrap();
            assert_eq!(log.contains(&format!("\n{tool} {{}}")), is_allowed, "{settings}: {log}");
        }
        agent.finish().await;
    }
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

#[tokio::test]
async fn structured_results_are_compared_with_their_schema() {
    let point = |result: Value| ("mcp__one__point", result);
    let script = one_turn(&[
        point(json!({"x": 1})),
        point(json!({"x": "one"})),
        // The server gives no structured result.
        point(json!({})),
    ]);
    let mut agent = ready(script, "auto", &[("one", "asks")], ALLOW).await;
    agent.turn("go").await;
    let calls = shown(&agent);
    assert_eq!(calls[0].1, ToolCallStatus::Completed);
    for (call, expected) in calls[1..].iter().zip(["/x: ", "there is no structured result"]) {
        let expected = format!("The result of the server is not as its schema says: {expected}");
        assert!(call.1 == ToolCallStatus::Failed && call.2.contains(&expected), "{call:?}");
    }
    assert_eq!(calls.len(), 3);
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
async fn a_result_with_an_unknown_kind_of_content_is_not_lost() {
    let arguments = json!({"text": "hi", "more": [{"type": "video", "data": "aGk="}]});
    let script = one_turn(&[("mcp__one__echo", arguments)]);
    let mut agent = ready(script, "auto", &[("one", "")], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let (_, status, text) = shown(&agent).remove(0);
    assert_eq!(status, ToolCallStatus::Completed);
    let note = "[A part of the result cannot be read: unknown variant `video`";
    assert!(text.contains("echo: hi") && text.contains(note), "{text}");
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
    let calls = [("mcp__one__busy", json!({})), ("mcp__one__echo", json!({"text": "hi"}))];
    let mut agent = ready_configured(one_turn(&calls), "startup_timeout = 1", ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert!(shown(&agent).iter().all(|call| call.1 == ToolCallStatus::Completed));
    let log = agent.stderr_log();
    assert!(log.contains("no new list of tools"), "{log}");
    agent.finish().await;
}

#[tokio::test]
async fn a_call_without_a_result_or_progress_fails_and_is_withdrawn() {
    let script = one_turn(&[("mcp__one__wait", json!({}))]);
    let mut agent = ready_configured(script, "call_timeout = 1", ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let call = &shown(&agent)[0];
    let expected = "wait of the server one gave no result and no progress for 1 s";
    assert!(call.1 == ToolCallStatus::Failed && call.2.contains(expected), "{call:?}");
    until_logged(&log(&agent.scratch, "one"), "\ncancelled ", 1).await;
    agent.finish().await;
}
