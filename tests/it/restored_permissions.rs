//! The permission decisions that the agent restores when it loads a stored session.

use std::fs;
use std::time::{Instant, SystemTime};

use acp_store::{SessionChange, SessionHolder, SessionStore as _, SqliteSessionStore};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::scratch::Scratch;
use crate::harness::{Agent, DEADLINE, Options, PermissionReply, SANDBOX};
use crate::sandbox::has_namespaces;

const ALLOW_SESSION: PermissionReply = PermissionReply::SelectId("allow_always");

/// Starts the agent in a scratch folder that may contain stored sessions.
async fn start(scratch: &Scratch, mode: &str) -> Agent {
    let args = ["acp", "--model", "direct", "--mode", mode];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], ALLOW_SESSION);
    agent.initialize().await.unwrap();
    agent
}

/// Runs prompts in a new session, and kills the agent. Returns the session id.
async fn run_and_kill(scratch: &Scratch, mode: &str, prompts: &[&str]) -> String {
    let mut agent = start(scratch, mode).await;
    let id = agent.new_session().await;
    for prompt in prompts {
        assert_eq!(agent.turn(prompt).await, "end_turn");
    }
    agent.kill().await;
    id
}

/// Loads a session in a folder, and runs a prompt. Returns the number of permission requests, and
/// the text of the agent's thoughts.
async fn asked_after_load(
    scratch: &Scratch,
    mode: &str,
    (id, cwd): (&str, &str),
    prompt: &str,
) -> (usize, String) {
    let mut agent = start(scratch, mode).await;
    let params = json!({"sessionId": id, "cwd": scratch.path(cwd), "mcpServers": []});
    agent.request("session/load", params).await.unwrap();
    let prompt = agent.prompt_in(id, prompt).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let asked = agent.client.permission_requests.len();
    let thoughts = agent.client.session(id).thought_text();
    agent.finish().await;
    (asked, thoughts)
}

#[tokio::test]
async fn a_rule_of_the_session_is_restored_in_its_folder_only() {
    let scratch = Scratch::new();
    let id = run_and_kill(&scratch, "ask", &["run true"]).await;
    for (cwd, prompt, expected) in
        [("", "run true", 0), ("", "run echo a", 1), ("", "run true", 0), ("src", "run true", 1)]
    {
        let (asked, _) = asked_after_load(&scratch, "ask", (&id, cwd), prompt).await;
        assert_eq!(asked, expected, "{cwd} {prompt}");
    }
}

/// The temporary folder of the sandbox differs in each process.
#[tokio::test]
async fn decisions_about_sandboxed_commands_are_restored() {
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    let start = async || {
        let args = ["acp", "--model", "direct", "--mode", "ask", SANDBOX];
        let mut agent = Agent::start_in(scratch.clone(), &args, &[], ALLOW_SESSION);
        agent.initialize().await.unwrap();
        agent
    };
    let mut agent = start().await;
    let id = agent.new_session().await;
    agent.turn("run true").await;
    agent.kill().await;
    let mut agent = start().await;
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    agent.request("session/load", params).await.unwrap();
    let prompt = agent.prompt_in(&id, "run true").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert_eq!(agent.client.permission_requests.len(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_rule_that_was_revoked_before_the_process_ended_is_not_restored() {
    let scratch = Scratch::new();
    let id = run_and_kill(&scratch, "ask", &["run true", "/permissions revoke 1"]).await;
    assert_eq!(asked_after_load(&scratch, "ask", (&id, ""), "run true").await.0, 1);
}

#[tokio::test]
async fn a_command_after_an_unseen_file_change_needs_permission_after_a_load_too() {
    // The remembered rule allows the command, but not after the agent has changed files without a
    // permission request.
    let prompts = ["run make", "write fresh.txt\n<<<\na\n>>>"];
    for (count, expected) in [(1, 0), (2, 1)] {
        let scratch = Scratch::new();
        let id = run_and_kill(&scratch, "accept-edits", &prompts[..count]).await;
        let (asked, _) = asked_after_load(&scratch, "accept-edits", (&id, ""), "run make").await;
        assert_eq!(asked, expected, "{count} prompts");
    }
}

#[tokio::test]
async fn if_decisions_cannot_be_read_every_call_asks_and_no_answer_is_remembered() {
    let scratch = Scratch::new();
    let id = run_and_kill(&scratch, "ask", &["run true"]).await;
    let holder = SessionHolder::new(1, "test", SystemTime::now());
    let store = SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap();
    let parts = store.parts(&id.clone().into()).unwrap().parts;
    let json = parts["permissions.1"].replace("\"session\"", "\"everything\"");
    assert_ne!(json, parts["permissions.1"]);
    let mut open = store.open(&id.clone().into()).unwrap();
    let part = SessionChange::Part { name: "permissions.1".to_owned(), json: Some(json) };
    open.write(&[part], SystemTime::now()).unwrap();
    drop((open, store));
    // Reading needs permission, because the unreadable decisions may have denied it.
    for prompt in ["read notes.txt", "read notes.txt"] {
        let (asked, thoughts) = asked_after_load(&scratch, "auto", (&id, ""), prompt).await;
        assert_eq!(asked, 1);
        assert!(thoughts.contains("1 record of this session is damaged"), "{thoughts}");
    }
}

#[tokio::test]
async fn a_mode_that_was_set_after_the_last_turn_is_restored() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, "auto").await;
    let id = agent.new_session().await;
    agent.turn("think a").await;
    let mode = json!({"sessionId": id, "modeId": "read-only"});
    agent.request("session/set_mode", mode).await.unwrap();
    let holder = SessionHolder::new(1, "test", SystemTime::now());
    let store = SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap();
    let is_stored = || {
        let parts = store.parts(&id.clone().into()).unwrap().parts;
        parts.values().any(|part| part.contains("read-only"))
    };
    let deadline = Instant::now() + DEADLINE;
    while !is_stored() {
        assert!(Instant::now() < deadline, "the mode is not stored");
        tokio::task::yield_now().await;
    }
    agent.kill().await;
    let mut agent = start(&scratch, "auto").await;
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let loaded = agent.request("session/load", params).await.unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "read-only");
    agent.finish().await;
}

#[tokio::test]
async fn a_load_in_another_folder_is_accepted_and_listed() {
    let scratch = Scratch::new();
    let id = run_and_kill(&scratch, "ask", &["run true"]).await;
    fs::create_dir(scratch.path("moved")).unwrap();
    let (asked, _) = asked_after_load(&scratch, "ask", (&id, "moved"), "run true").await;
    assert_eq!(asked, 1);
    let mut agent =
        Agent::start_in(scratch.clone(), &["acp", "--model", "direct"], &[], Options::default());
    agent.initialize().await.unwrap();
    let list = agent.request("session/list", json!({"cwd": scratch.path("moved")})).await.unwrap();
    assert_eq!(list["sessions"][0]["sessionId"], id);
    agent.finish().await;
}
