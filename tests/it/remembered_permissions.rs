//! Remembered answers to permission requests: in the session, in the project, and in the command
//! `/permissions`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::Model;
use crate::harness::session::call_text;
use crate::harness::{Agent, Options, PermissionReply};

const ALLOW_SESSION: PermissionReply = PermissionReply::SelectId("allow_always");

fn rules_folder(scratch: &Scratch) -> PathBuf {
    PathBuf::from(&scratch.env()["XDG_STATE_HOME"]).join("callboard/permissions")
}

/// Returns the contents of the files with stored rules.
fn stored(scratch: &Scratch) -> Vec<Value> {
    let files = fs::read_dir(rules_folder(scratch)).into_iter().flatten();
    let paths = files.map(|file| file.unwrap().path());
    let json = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    json.map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).collect()
}

async fn turn_in(agent: &mut Agent, session: &str, prompt: &str) {
    let id = agent.prompt_in(session, prompt).await;
    assert_eq!(agent.stop_reason(&id).await, "end_turn");
}

/// Runs a turn in the first session, and returns the text of the agent's message.
async fn prompt_and_reply(agent: &mut Agent, prompt: &str) -> String {
    let before = agent.session().message_text().len();
    assert_eq!(agent.turn(prompt).await, "end_turn");
    agent.session().message_text()[before..].to_owned()
}

#[tokio::test]
async fn a_rule_kept_for_the_project_applies_to_its_next_session_and_an_answer_does_not() {
    for (keeps, asked) in [(true, 1), (false, 2)] {
        let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
        agent.turn("run true").await;
        agent.turn("run true").await;
        assert_eq!(agent.client.permission_requests.len(), 1);
        if keeps {
            let reply = prompt_and_reply(&mut agent, "/permissions keep 1").await;
            assert_eq!(reply, "- Kept: allow `true` in this project\n");
        }
        let next = agent.new_session().await;
        turn_in(&mut agent, &next, "run true").await;
        assert_eq!(agent.client.permission_requests.len(), asked, "{keeps}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_common_command_is_kept_by_its_first_words_if_it_is_allowed() {
    for (always, kept, asked) in [
        ("allow_always", "allow commands that begin with `wc`", 1),
        ("reject_always", "reject `wc -l notes.txt`", 2),
    ] {
        let mut agent = Agent::ready(Model::Direct, PermissionReply::SelectId(always)).await;
        agent.turn("run wc -l notes.txt").await;
        let reply = prompt_and_reply(&mut agent, "/permissions keep 1").await;
        assert_eq!(reply, format!("- Kept: {kept} in this project\n"));
        let next = agent.new_session().await;
        turn_in(&mut agent, &next, "run wc -c notes.txt").await;
        assert_eq!(agent.client.permission_requests.len(), asked, "{always}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_project_option_that_was_not_offered_rejects_the_call() {
    let mut agent = Agent::ready(Model::Direct, PermissionReply::SelectId("allow_project")).await;
    agent.turn("write b.txt\n<<<\nb\n>>>").await;
    assert_eq!(agent.session().calls()[0].status, ToolCallStatus::Failed);
    assert_eq!(prompt_and_reply(&mut agent, "/permissions").await, "Nothing is remembered.");
    assert_eq!(stored(&agent.scratch), Vec::<Value>::new());
    agent.finish().await;
}

#[tokio::test]
async fn the_command_that_keeps_a_rule_is_answered_after_the_rule_is_stored() {
    let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
    agent.turn("run true").await;
    prompt_and_reply(&mut agent, "/permissions keep 1").await;
    agent.turn("run echo a").await;
    let (first, other) = (agent.session_id(), agent.new_session().await);
    // The test now holds the lock, like another process that changes the stored rules.
    let lock = fs::File::open(rules_folder(&agent.scratch).join("lock")).unwrap();
    lock.lock().unwrap();
    let prompt = agent.prompt_in(&first, "/permissions keep 3").await;
    // Turns that do not change stored rules do not wait for the lock.
    for _ in 0..3 {
        turn_in(&mut agent, &other, "run true").await;
    }
    assert_eq!(agent.client.response(&prompt), None);
    drop(lock);
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert_eq!(stored(&agent.scratch)[0]["rules"].as_array().map(Vec::len), Some(2));
    agent.finish().await;
}

#[tokio::test]
async fn one_option_of_each_kind_is_offered_and_the_kept_rule_matches_its_option() {
    let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
    agent.turn("run true").await;
    prompt_and_reply(&mut agent, "/permissions keep 1").await;
    let options = &agent.client.permission_requests[0].request.options;
    let names: Vec<_> = options.iter().map(|option| (option.kind, &*option.name)).collect();
    let expected = [
        (PermissionOptionKind::AllowOnce, "Allow once"),
        (PermissionOptionKind::AllowAlways, "Always allow `true` in this session"),
        (PermissionOptionKind::RejectOnce, "Reject once"),
        (PermissionOptionKind::RejectAlways, "Always reject `true` in this session"),
    ];
    assert_eq!(names, expected);
    agent.finish().await;
    let cwd = agent.scratch.cwd();
    let run = json!({"run": {"command": "true", "cwd": cwd}});
    let rule = json!({
        "scope": "project", "matcher": {"effect": run}, "verdict": "allow",
    });
    assert_eq!(stored(&agent.scratch), [json!({"root": cwd, "rules": [rule]})]);
    assert_eq!(agent.scratch.snapshot(), agent.scratch.untouched());
}

#[tokio::test]
async fn untrusted_rules_allow_nothing_and_no_rule_is_added_to_them() {
    let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
    agent.turn("run true").await;
    let folder = rules_folder(&agent.scratch);
    // The rule is stored before the command is answered.
    prompt_and_reply(&mut agent, "/permissions keep 1").await;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    // If a rule cannot be stored, the agent reports this to the user.
    agent.turn("run echo a").await;
    let reply = prompt_and_reply(&mut agent, "/permissions keep 3").await;
    assert!(reply.contains("could not be changed"), "{reply}");
    let list = prompt_and_reply(&mut agent, "/permissions").await;
    let rules = "- 2: allow `true` in this project\n- 5: allow `echo a` in this session\n";
    assert!(list.starts_with(rules), "{list}");
    let next = agent.new_session().await;
    // Even a call that usually needs no permission is not run, because a rule that cannot be read
    // may deny it.
    turn_in(&mut agent, &next, "read notes.txt").await;
    let kinds: Vec<_> = agent.client.permission_requests[2]
        .request
        .options
        .iter()
        .map(|option| option.kind)
        .collect();
    assert_eq!(kinds, [PermissionOptionKind::AllowOnce, PermissionOptionKind::RejectOnce]);
    let prompt = agent.prompt_in(&next, "/permissions").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let reply = agent.client.session(&next).message_text();
    assert!(reply.contains("cannot be read") && reply.contains("others may write it"), "{reply}");
    agent.finish().await;
}

/// Opens a session in a folder, and returns the session id.
async fn session_in(agent: &mut Agent, cwd: &str) -> String {
    let params = json!({"cwd": cwd, "mcpServers": []});
    let session = agent.request("session/new", params).await.expect("a session opens");
    session["sessionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn rules_that_tools_could_write_only_deny() {
    let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
    let folder = rules_folder(&agent.scratch);
    fs::create_dir_all(&folder).unwrap();
    let rule = |verdict, program| json!({"scope": "user", "verdict": verdict, "matcher": {"argv": [program]}});
    let rules = json!({"rules": [rule("allow", "true"), rule("deny", "touch")]});
    fs::write(folder.join("user.json"), rules.to_string()).unwrap();

    let (elsewhere, home) = (agent.scratch.cwd(), agent.scratch.env()["HOME"].clone());
    for (cwd, asked) in [(elsewhere.to_str().unwrap(), 0), (&*home, 1)] {
        let session = session_in(&mut agent, cwd).await;
        turn_in(&mut agent, &session, "run true a\nrun touch made").await;
        assert_eq!(agent.client.permission_requests.len(), asked, "in {cwd}");
        let calls = agent.client.session(&session).calls();
        let statuses: Vec<_> = calls.iter().map(|call| call.status).collect();
        assert_eq!(statuses, [ToolCallStatus::Completed, ToolCallStatus::Failed], "in {cwd}");
        assert!(!PathBuf::from(cwd).join("made").exists());
    }
    let options = &agent.client.permission_requests[0].request.options;
    assert!(options.iter().all(|option| !option.name.ends_with("in this project")));
    agent.finish().await;
}

/// A search of a folder does not ask, and does not show the text of such files. A move of the
/// folder is refused.
#[tokio::test]
async fn a_file_that_a_rule_denies_reading_is_not_shown_by_a_search_or_after_a_move() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("secret/deep")).unwrap();
    for file in ["secret/deep/KEY", "notes.txt"] {
        fs::write(scratch.path(file), "token=abc\n").unwrap();
    }
    std::os::unix::fs::symlink("secret/deep/KEY", scratch.path("link")).unwrap();
    let folder = rules_folder(&scratch);
    fs::create_dir_all(&folder).unwrap();
    let matcher = json!({"path": {"access": "read", "glob": "/**/key"}});
    let rule = json!({"scope": "user", "verdict": "deny", "matcher": matcher});
    fs::write(folder.join("user.json"), json!({"rules": [rule]}).to_string()).unwrap();
    let args = ["acp", "--model", "direct"];
    let mut agent = Agent::start_in(scratch, &args, &[], Options::default());
    agent.initialize().await.unwrap();
    agent.new_session().await;
    let searches = "grep token\ngrep token secret\ngrep token secret/deep/KEY\ngrep token link";
    agent.turn(searches).await;
    let moves = r#"tool move_path {"from": "secret", "to": "open"}"#;
    agent.turn(moves).await;
    let calls = agent.session().calls();
    let texts: Vec<_> = calls.iter().map(|call| call_text(call)).collect();
    assert!(texts[0].contains("notes.txt") && texts[0].contains("token=abc"), "{texts:#?}");
    assert!(!texts.concat().contains("KEY\n"), "{texts:#?}");
    assert_eq!(texts.concat().matches("token=abc").count(), 1, "{texts:#?}");
    assert_eq!(agent.client.permission_requests.len(), 0);
    let note = "[files that a rule denies reading are left out]";
    assert_eq!(texts.concat().matches(note).count(), 2, "{texts:#?}");
    assert!(texts[4].contains("a rule denies reading secret/deep/KEY"), "{texts:#?}");
    assert!(agent.scratch.path("secret/deep/KEY").exists());
    agent.finish().await;
}

#[tokio::test]
async fn remembered_rules_are_listed_and_revoked() {
    let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
    let mut dialogue =
        agent.dialogue(&["/permissions", "run echo a", "write b.txt\n<<<\nb\n>>>"]).await;
    dialogue += &agent
        .dialogue(&[
            "/permissions",
            "/permissions revoke 3",
            "/permissions revoke 0",
            "/permissions keep 3",
            "/permissions keep x",
            "/permissions keep",
            "/permissions revoke x",
            "/permissions anything",
            "/permissions revoke 1",
            // The number of a revoked rule is not used again for another rule.
            "/permissions revoke 1",
            "/permissions",
        ])
        .await;
    assert_eq!(agent.client.permission_requests.len(), 2);
    let again = ["run echo a", "/permissions", "/permissions revoke 1", "/permissions revoke all"];
    dialogue += &agent.dialogue(&again).await;
    assert_eq!(agent.client.permission_requests.len(), 3);
    insta::assert_snapshot!(dialogue + &agent.dialogue(&["/permissions"]).await);
    agent.finish().await;
}

#[tokio::test]
async fn a_revoked_rule_of_the_project_is_removed_from_the_store() {
    let mut agent = Agent::ready(Model::Direct, ALLOW_SESSION).await;
    agent.turn("run true").await;
    prompt_and_reply(&mut agent, "/permissions keep 1").await;
    let reply = prompt_and_reply(&mut agent, "/permissions keep 2").await;
    assert_eq!(reply, "It is kept already: allow `true` in this project");
    let reply = prompt_and_reply(&mut agent, "/permissions revoke 2").await;
    assert_eq!(reply, "- Revoked: allow `true` in this project\n");
    let next = agent.new_session().await;
    turn_in(&mut agent, &next, "run true").await;
    assert_eq!(agent.client.permission_requests.len(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn the_command_is_offered_to_the_client() {
    let mut agent = Agent::ready([crate::harness::script::text("Hm.")], ALLOW_SESSION).await;
    assert_eq!(prompt_and_reply(&mut agent, "/permissions").await, "Nothing is remembered.");
    assert_eq!(prompt_and_reply(&mut agent, "/permission").await, "Hm.");
    let offered = agent.session().updates.iter().any(|update| {
        let update = serde_json::to_value(update).unwrap();
        update["availableCommands"]
            .as_array()
            .is_some_and(|commands| commands.iter().any(|command| command["name"] == "permissions"))
    });
    assert!(offered);
    agent.finish().await;
}
