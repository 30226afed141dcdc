//! Going back to a prompt, copies of sessions, and undo in a later process.

use std::fs;

use acp_store::{RecordStream, SessionHolder, SessionStore as _, SqliteSessionStore, StoredRecord};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::{SECRET, Scratch};
use crate::harness::{Agent, Options, PermissionReply};

const ALLOW: PermissionReply = PermissionReply::SelectId("allow");
const REJECT: PermissionReply = PermissionReply::SelectId("reject");

/// Starts the agent in a folder where it may have worked before.
async fn start(scratch: &Scratch, options: impl Into<Options>) -> Agent {
    let args = ["acp", "--model", "direct", "--mode", "accept-edits"];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], options);
    agent.initialize().await.unwrap();
    agent
}

/// Starts the agent and opens a session that has changed files in two prompts.
async fn session_with_changes(scratch: &Scratch, options: impl Into<Options>) -> (Agent, String) {
    fs::write(scratch.path("a.txt"), "one\n").unwrap();
    let mut agent = start(scratch, options).await;
    let id = agent.new_session().await;
    for prompt in ["read a.txt", "write a.txt\n<<<\ntwo\n>>>", "write new.txt\n<<<\nthree\n>>>"] {
        assert_eq!(agent.turn(prompt).await, "end_turn");
    }
    assert_eq!(
        (scratch.read("a.txt"), scratch.read("new.txt")),
        ("two\n".into(), "three\n".into())
    );
    (agent, id)
}

async fn load(scratch: &Scratch, id: &str, options: impl Into<Options>) -> Agent {
    let mut agent = start(scratch, options).await;
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    agent.request("session/load", params).await.unwrap();
    agent
}

async fn turn_in(agent: &mut Agent, id: &str, text: &str) -> String {
    let prompt = agent.prompt_in(id, text).await;
    agent.stop_reason(&prompt).await
}

fn messages(agent: &Agent, id: &str) -> String {
    agent.client.session(id).message_text()
}

fn client_records(scratch: &Scratch, id: &str) -> Vec<StoredRecord> {
    let holder = SessionHolder::new(1, "test", std::time::SystemTime::now());
    let store = SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap();
    assert_eq!(store.find_integrity_faults().unwrap(), [""; 0]);
    let mut load = store.begin_load(&id.to_owned().into(), RecordStream::Client, u64::MAX).unwrap();
    store.load_next_records(&mut load).unwrap()
}

/// The numbers and kinds of the records, without those of the session's state.
fn kinds(records: &[StoredRecord]) -> Vec<(u32, &str)> {
    let kinds = records.iter().map(|record| (record.prompt, &*record.kind));
    kinds.filter(|(_, kind)| *kind != "state").collect()
}

#[tokio::test]
async fn a_rewind_restores_files_and_history_after_a_question_with_the_changes() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, ALLOW).await;
    assert_eq!(agent.turn("/rewind").await, "end_turn");
    let list = messages(&agent, &id);
    assert!(list.contains("- 2: write a.txt <<< two >>>"), "{list}");
    assert!(!list.contains("/rewind\n"), "slash commands are not listed: {list}");
    assert_eq!(agent.turn("/rewind 2").await, "end_turn");
    assert_eq!(scratch.read("a.txt"), "one\n");
    assert!(!scratch.path("new.txt").exists());
    // The permission request shows the changes.
    let asked = format!("{:?}", agent.client.permission_requests.last().unwrap());
    assert!(asked.contains("Prompt 2 and everything after it will be removed"), "{asked}");
    let call = agent.call("rewind");
    assert_eq!(call.title, "Go back to the state before prompt 2");
    let said = messages(&agent, &id);
    assert!(said.contains("Went back to the state before prompt 2."), "{said}");
    assert!(said.contains("Restored: a.txt.\nDeleted: new.txt."), "{said}");
    assert_eq!(agent.turn("read a.txt").await, "end_turn");
    agent.finish().await;
    // A load shows the prompts that are left, and the rewind.
    let records = client_records(&scratch, &id);
    assert_eq!(
        kinds(&records),
        [
            (1, "prompt"),
            (1, "call"),
            (1, "message"),
            (2, "prompt"),
            (2, "call"),
            (2, "message"),
            (3, "prompt"),
            (3, "call"),
            (3, "message")
        ]
    );
    let mut agent = load(&scratch, &id, Options::default()).await;
    let loaded = messages(&agent, &id);
    assert!(loaded.contains("Went back") && !loaded.contains("new.txt was"), "{loaded}");
    assert_eq!(agent.client.session(&id).calls().len(), 3);
    agent.finish().await;
}

#[tokio::test]
async fn a_rejected_rewind_changes_nothing() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, REJECT).await;
    assert_eq!(agent.turn("/rewind 1").await, "end_turn");
    assert_eq!(
        (scratch.read("a.txt"), scratch.read("new.txt")),
        ("two\n".into(), "three\n".into())
    );
    assert_eq!(agent.call("rewind").status, acp_types::schema::v1::ToolCallStatus::Failed);
    agent.finish().await;
    let prompts = client_records(&scratch, &id).iter().filter(|it| it.kind == "prompt").count();
    assert_eq!(prompts, 4);
}

#[tokio::test]
async fn a_number_that_names_no_earlier_prompt_is_refused() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, ALLOW).await;
    for (prompt, expected) in [
        ("/rewind 0", "There is no earlier prompt 0"),
        ("/rewind 99", "There is no earlier prompt 99"),
        ("/rewind two", "`two` is no number"),
        ("/fork 9", "There is no earlier prompt 9"),
    ] {
        assert_eq!(agent.turn(prompt).await, "end_turn");
        assert!(messages(&agent, &id).contains(expected), "{prompt}");
    }
    assert_eq!(agent.client.permission_requests.len(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_later_process_undoes_and_goes_back_but_keeps_the_changes_of_others() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, ALLOW).await;
    agent.kill().await;
    let mut agent = load(&scratch, &id, ALLOW).await;
    assert_eq!(turn_in(&mut agent, &id, "/undo").await, "end_turn");
    assert!(!scratch.path("new.txt").exists());
    agent.finish().await;
    fs::write(scratch.path("a.txt"), "theirs\n").unwrap();
    let mut agent = load(&scratch, &id, ALLOW).await;
    assert_eq!(turn_in(&mut agent, &id, "/rewind 2").await, "end_turn");
    assert_eq!(scratch.read("a.txt"), "theirs\n");
    let said = messages(&agent, &id);
    assert!(said.contains("a.txt is left unchanged: it has been changed since."), "{said}");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_an_undo_left_unchanged_is_reported_with_the_true_reason() {
    let scratch = Scratch::new();
    fs::write(scratch.path("a.txt"), "one\n").unwrap();
    let mut agent = start(&scratch, ALLOW).await;
    let id = agent.new_session().await;
    assert_eq!(agent.turn("read a.txt\nwrite a.txt\n<<<\ntwo\n>>>").await, "end_turn");
    fs::write(scratch.path("a.txt"), "two\ntheirs\n").unwrap();
    assert_eq!(agent.turn("/undo").await, "end_turn");
    let said = messages(&agent, &id);
    let reason = "a.txt is left unchanged: it has been changed since.";
    assert!(said.contains(reason) && said.contains("Its content before"), "{said}");
    assert!(!said.contains("The next undo reverts"), "{said}");
    agent.kill().await;
    let mut agent = load(&scratch, &id, ALLOW).await;
    assert_eq!(turn_in(&mut agent, &id, "/rewind 1").await, "end_turn");
    let said = messages(&agent, &id);
    let (_, said) = said.rsplit_once("Went back").unwrap();
    assert!(said.contains(reason), "{said}");
    assert_eq!(scratch.read("a.txt"), "two\ntheirs\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_client_gets_the_changes_by_a_dry_run_and_then_exactly_those_are_made() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, Options::default()).await;
    let rewind =
        |prompt: u32, dry_run: bool| json!({"sessionId": id, "prompt": prompt, "dryRun": dry_run});
    let dry = agent.request("_callboard/rewind", rewind(2, true)).await.unwrap();
    let a = scratch.path("a.txt");
    assert_eq!(dry["kept"], json!([]));
    assert_eq!(dry["files"][0]["path"], json!(a));
    assert_eq!(dry["files"][0]["status"], "modified");
    let diff = dry["files"][0]["diff"].as_str().unwrap();
    assert!(diff.contains("-two\n+one\n"), "{diff}");
    assert_eq!(dry["files"][1]["status"], "deleted");
    assert_eq!(scratch.read("a.txt"), "two\n");
    for (wrong, code) in [
        (rewind(0, true), -32602),
        (rewind(0, false), -32602),
        (rewind(9, false), -32602),
        (rewind(9, true), -32602),
    ] {
        let error = agent.request("_callboard/rewind", wrong).await.unwrap_err();
        assert_eq!(error["code"], code, "{error}");
    }
    let done = agent.request("_callboard/rewind", rewind(2, false)).await.unwrap();
    assert_eq!(done, dry);
    assert_eq!(scratch.read("a.txt"), "one\n");
    assert!(!scratch.path("new.txt").exists());
    // The next turn reports the rewind before its own answer.
    assert_eq!(agent.turn("read a.txt").await, "end_turn");
    let thoughts = agent.session().thought_text();
    assert!(thoughts.contains("Went back to the state before prompt 2."), "{thoughts}");
    // All prompts can be taken back, and the session continues.
    agent.request("_callboard/rewind", rewind(1, false)).await.unwrap();
    assert_eq!(agent.turn("read a.txt").await, "end_turn");
    agent.finish().await;
    let records = client_records(&scratch, &id);
    assert_eq!(records.iter().filter(|record| record.kind == "prompt").count(), 1);
}

#[tokio::test]
async fn a_rewind_that_is_withdrawn_while_it_waits_changes_nothing() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, ALLOW).await;
    let turn = agent.prompt("run touch started; sleep 600").await;
    let rewind = json!({"sessionId": id, "prompt": 2});
    let rewind = agent.send("_callboard/rewind", rewind).await;
    agent.notify("$/cancel_request", json!({"requestId": rewind})).await;
    assert_eq!(agent.answer(&rewind).await.unwrap_err()["code"], -32800);
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&turn).await, "cancelled");
    // The next turn begins after all earlier requests, so a rewind would have happened before it.
    assert_eq!(agent.turn("read a.txt").await, "end_turn");
    assert_eq!(scratch.read("a.txt"), "two\n");
    assert!(!messages(&agent, &id).contains("Went back"));
    agent.finish().await;
}

#[tokio::test]
async fn a_rewind_of_a_client_obeys_the_mode_and_rules() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, Options::default()).await;
    let mode = json!({"sessionId": id, "modeId": "read-only"});
    agent.request("session/set_mode", mode).await.unwrap();
    for dry_run in [true, false] {
        let request = json!({"sessionId": id, "prompt": 2, "dryRun": dry_run});
        let error = agent.request("_callboard/rewind", request).await.unwrap_err();
        assert_eq!(error["data"]["reason"], "rewind", "{error}");
    }
    assert_eq!(scratch.read("a.txt"), "two\n");
    agent.finish().await;
}

/// Starts the agent and opens a session that changes the files of a folder before and after it
/// moves the folder. The first prompt with a change is prompt 2.
async fn session_with_moved_folder(scratch: &Scratch) -> (Agent, String) {
    fs::create_dir(scratch.path("dir")).unwrap();
    fs::write(scratch.path("dir/f.txt"), "one\n").unwrap();
    let mut agent = start(scratch, Options::default()).await;
    let id = agent.new_session().await;
    for prompt in [
        "read dir/f.txt",
        "write dir/f.txt\n<<<\ntwo\n>>>",
        r#"tool move_path {"from": "dir", "to": "d2"}"#,
        "write d2/q.txt\n<<<\nq\n>>>\nwrite d2/sub/n.txt\n<<<\nn\n>>>",
        "read d2/f.txt\nwrite d2/f.txt\n<<<\nthree\n>>>",
    ] {
        assert_eq!(agent.turn(prompt).await, "end_turn");
    }
    assert_eq!(scratch.read("d2/f.txt"), "three\n");
    (agent, id)
}

#[tokio::test]
async fn a_rewind_lists_each_file_that_it_changes_in_a_moved_folder() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_moved_folder(&scratch).await;
    let rewind = json!({"sessionId": id, "prompt": 2});
    let done = agent.request("_callboard/rewind", rewind).await.unwrap();
    let file = |name: &str| {
        let mut files = done["files"].as_array().unwrap().iter();
        let found = files.find(|file| file["path"] == json!(scratch.path(name)));
        found.unwrap_or_else(|| panic!("{name} is missing: {done}"))
    };
    for (name, diff) in [("d2/q.txt", "-q\n"), ("d2/sub/n.txt", "-n\n")] {
        assert_eq!(file(name)["status"], "deleted");
        assert!(file(name)["diff"].as_str().unwrap().contains(diff), "{done}");
    }
    for (name, from) in [("dir", "d2"), ("dir/f.txt", "d2/f.txt")] {
        assert_eq!(file(name)["status"], "moved");
        assert_eq!(file(name)["from"], json!(scratch.path(from)));
    }
    assert!(file("dir/f.txt")["diff"].as_str().unwrap().contains("-three\n+one\n"), "{done}");
    assert_eq!(scratch.read("dir/f.txt"), "one\n");
    assert_eq!(fs::read_dir(scratch.path("dir")).unwrap().count(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_rule_protects_a_file_in_a_moved_folder_from_a_rewind() {
    for name in ["q.txt", "f.txt"] {
        let scratch = Scratch::new();
        let (mut agent, id) = session_with_moved_folder(&scratch).await;
        agent.kill().await;
        let matcher = json!({"path": {"access": "write", "glob": format!("/**/d2/{name}")}});
        scratch.write_rules(&[json!({"scope": "user", "matcher": matcher, "verdict": "deny"})]);
        let mut agent = load(&scratch, &id, ALLOW).await;
        let rewind = json!({"sessionId": id, "prompt": 2});
        let error = agent.request("_callboard/rewind", rewind).await.unwrap_err();
        assert_eq!(error["data"]["reason"], "rewind", "{error}");
        assert_eq!(turn_in(&mut agent, &id, "/rewind 2").await, "end_turn");
        assert_eq!(
            (scratch.read("d2/q.txt"), scratch.read("d2/f.txt")),
            ("q\n".into(), "three\n".into())
        );
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_rewind_names_the_folders_that_it_removes() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, ALLOW).await;
    let id = agent.new_session().await;
    assert_eq!(agent.turn("write ee/ff/n.txt\n<<<\nn\n>>>").await, "end_turn");
    let rewind = json!({"sessionId": id, "prompt": 1, "dryRun": true});
    let dry = agent.request("_callboard/rewind", rewind).await.unwrap();
    let names = ["ee", "ee/ff", "ee/ff/n.txt"].map(|name| json!(scratch.path(name)));
    let files = dry["files"].as_array().unwrap().iter();
    assert_eq!(files.clone().map(|file| &file["path"]).collect::<Vec<_>>(), names.each_ref());
    assert!(files.clone().all(|file| file["status"] == "deleted"), "{dry}");
    assert_eq!(agent.turn("/rewind 1").await, "end_turn");
    let asked = format!("{:?}", agent.client.permission_requests.last().unwrap());
    let folder = scratch.path("ee/ff");
    assert!(asked.contains(&format!("Deletes {}\"", folder.display())), "{asked}");
    let said = messages(&agent, &id);
    assert!(said.contains("Deleted: ee, ee/ff, ee/ff/n.txt."), "{said}");
    assert!(!scratch.path("ee").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_rewind_names_the_commands_whose_changes_are_not_recorded() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, ALLOW).await;
    let id = agent.new_session().await;
    agent.turn("run true").await;
    agent.turn(r#"tool terminal {"command": "sleep 600", "background": true}"#).await;
    agent.prompt("run echo begun; sleep 601").await;
    agent.until_shown(&id, "begun").await;
    agent.kill().await;
    let mut agent = load(&scratch, &id, ALLOW).await;
    let dry_run = json!({"sessionId": id, "prompt": 1, "dryRun": true});
    let response = agent.request("_callboard/rewind", dry_run).await.unwrap();
    let expected = ["Run `sleep 600`", "Run `echo begun; sleep 601`"];
    assert_eq!(response["unrecorded"], json!(expected), "{response}");
    turn_in(&mut agent, &id, "/rewind 1").await;
    let note = format!("because they ran in the background or were interrupted: {}", expected[0]);
    let question = &agent.client.permission_requests[0].request.tool_call.fields;
    assert!(serde_json::to_string(question).unwrap().contains(&note), "{question:?}");
    assert!(messages(&agent, &id).contains(&note), "{}", messages(&agent, &id));
    agent.finish().await;
}

#[tokio::test]
async fn a_rewind_names_a_kept_file_of_a_moved_folder_with_both_paths() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_moved_folder(&scratch).await;
    fs::write(scratch.path("d2/q.txt"), "theirs\n").unwrap();
    let rewind = json!({"sessionId": id, "prompt": 2});
    let done = agent.request("_callboard/rewind", rewind).await.unwrap();
    let kept = json!([{
        "path": scratch.path("dir/q.txt"),
        "from": scratch.path("d2/q.txt"),
        "why": "it has been changed since",
    }]);
    assert_eq!(done["kept"], kept);
    assert_eq!(scratch.read("dir/q.txt"), "theirs\n");
    assert_eq!(agent.turn("read dir/q.txt").await, "end_turn");
    let thoughts = agent.session().thought_text();
    assert!(thoughts.contains("The content of d2/q.txt is left unchanged"), "{thoughts}");
    agent.finish().await;
}

#[tokio::test]
async fn a_fork_continues_apart_from_its_parent_and_does_not_own_its_undo() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, ALLOW).await;
    let fork = |meta: Value| json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": [], "_meta": meta});
    let whole = agent.request("session/fork", fork(json!({}))).await.unwrap();
    assert_eq!(whole["modes"]["currentModeId"], "accept-edits");
    let part = fork(json!({"callboard": {"prompt": 2}}));
    let part = agent.request("session/fork", part).await.unwrap();
    for (wrong, code) in [(json!(0), -32602), (json!("two"), -32602), (json!(9), -32602)] {
        let error =
            agent.request("session/fork", fork(json!({"callboard": {"prompt": wrong}}))).await;
        assert_eq!(error.unwrap_err()["code"], code);
    }
    let [whole, part] = [whole, part].map(|fork| fork["sessionId"].as_str().unwrap().to_owned());
    // The fork and its parent are both open. A change of one session does not affect the other.
    assert_eq!(turn_in(&mut agent, &whole, "/undo").await, "end_turn");
    assert!(messages(&agent, &whole).contains("There is nothing to undo"));
    assert_eq!(scratch.read("new.txt"), "three\n");
    assert_eq!(turn_in(&mut agent, &whole, "/rewind 2").await, "end_turn");
    let said = messages(&agent, &whole);
    assert!(
        said.contains("a.txt is left unchanged: no copy of its earlier content was kept."),
        "{said}"
    );
    assert_eq!(scratch.read("a.txt"), "two\n");
    assert_eq!(turn_in(&mut agent, &id, "/fork 1").await, "end_turn");
    let said = messages(&agent, &id);
    let copy = said.rsplit_once("--resume ").unwrap().1.split(' ').next().unwrap().to_owned();
    assert_eq!(turn_in(&mut agent, &id, "/undo").await, "end_turn");
    assert!(!scratch.path("new.txt").exists());
    agent.finish().await;
    let prompts = |id: &str| {
        client_records(&scratch, id).iter().filter(|record| record.kind == "prompt").count()
    };
    assert_eq!([&id, &whole, &part, &copy].map(|id| prompts(id)), [5, 2, 2, 1]);
}

#[tokio::test]
async fn a_rewind_of_a_fork_names_large_files_of_its_parent_also_in_a_later_process() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, ALLOW).await;
    let id = agent.new_session().await;
    let large = format!("write large.txt\n<<<\n{}>>>", "a line\n".repeat(2_000));
    for prompt in ["write small.txt\n<<<\none\n>>>", &large, "write small.txt\n<<<\ntwo\n>>>"] {
        assert_eq!(agent.turn(prompt).await, "end_turn");
    }
    let fork = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let fork = agent.request("session/fork", fork).await.unwrap();
    let fork = fork["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(turn_in(&mut agent, &fork, "write own.txt\n<<<\nours\n>>>").await, "end_turn");
    agent.kill().await;
    let mut agent = load(&scratch, &fork, ALLOW).await;
    assert_eq!(turn_in(&mut agent, &fork, "/rewind 2").await, "end_turn");
    let said = messages(&agent, &fork);
    for name in ["large.txt", "small.txt"] {
        let kept = format!("{name} is left unchanged: no copy of its earlier content was kept.");
        assert!(said.contains(&kept), "{said}");
    }
    assert!(said.contains("Deleted: own.txt."), "{said}");
    assert!(scratch.path("large.txt").exists() && scratch.read("small.txt") == "two\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_deleted_session_leaves_no_undo_data_and_no_output() {
    let scratch = Scratch::new();
    let (mut agent, id) = session_with_changes(&scratch, ALLOW).await;
    assert_eq!(agent.turn("run seq 1 100000").await, "end_turn");
    let state = scratch.sessions().parent().unwrap().to_owned();
    let left = || {
        let folders = ["undo", "output"].map(|name| fs::read_dir(state.join(name)).unwrap());
        folders.into_iter().flatten().count()
    };
    assert_eq!(left(), 2);
    agent.request("session/delete", json!({"sessionId": id})).await.unwrap();
    assert_eq!(left(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_is_not_stored_offers_no_rewind() {
    let scratch = Scratch::new();
    let args = ["acp", "--model", "direct", "--ephemeral"];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], Options::default());
    let answer = agent.initialize().await.unwrap();
    let capabilities = &answer["agentCapabilities"];
    assert_eq!(
        (&capabilities["_meta"], &capabilities["sessionCapabilities"]["fork"]),
        (&Value::Null, &Value::Null)
    );
    let id = agent.new_session().await;
    let fork = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    for (method, params) in [
        ("session/fork", fork),
        ("_callboard/rewind", json!({"sessionId": id, "prompt": 1})),
        ("session/delete", json!({"sessionId": id})),
    ] {
        let error = agent.request_unchecked(method, params).await.unwrap_err();
        assert_eq!(error["code"], -32601, "{method}");
    }
    assert_eq!(agent.turn("read notes.txt").await, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn a_stored_change_contains_no_secret() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, ALLOW).await;
    let id = agent.new_session().await;
    let write = format!("write secret.txt\n<<<\nkey={SECRET}\nx\n>>>");
    assert_eq!(agent.turn(&write).await, "end_turn");
    agent.finish().await;
    assert!(scratch.read("secret.txt").contains(SECRET));
    let records = client_records(&scratch, &id);
    assert!(records.iter().any(|record| record.json.contains("secret.txt")));
    assert!(records.iter().all(|record| !record.json.contains(SECRET)));
}

#[tokio::test]
async fn a_rewind_takes_back_the_plan_and_the_title_and_usage_counts_earlier_processes() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, ALLOW).await;
    let id = agent.new_session().await;
    for prompt in ["read notes.txt", "todo [ ] a"] {
        assert_eq!(agent.turn(prompt).await, "end_turn");
    }
    assert_eq!(agent.session().client_state.latest_plan().unwrap().entries.len(), 1);
    assert_eq!(agent.turn("/rewind 2").await, "end_turn");
    assert_eq!(agent.session().client_state.latest_plan().unwrap().entries.len(), 0);
    agent.finish().await;
    let mut agent = load(&scratch, &id, ALLOW).await;
    assert_eq!(turn_in(&mut agent, &id, "/usage").await, "end_turn");
    let said = messages(&agent, &id);
    assert!(said.contains("| read_file | 1 |") && said.contains("| rewind | 1 |"), "{said}");
    assert_eq!(turn_in(&mut agent, &id, "/rewind 1").await, "end_turn");
    assert_eq!(turn_in(&mut agent, &id, "list src").await, "end_turn");
    let list = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"][0]["title"], "list src");
    agent.finish().await;
}
