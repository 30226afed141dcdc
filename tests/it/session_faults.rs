//! Faults of stored sessions: a session is damaged, the disk fails, or another process has opened
//! the session.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use acp_store::{
    NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionHolder, SessionRecord,
    SessionStore as _, SqliteSessionStore,
};
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::{Agent, CALLBOARD, Options};

const READ: [&str; 4] = ["exec", "--model", "direct", "read notes.txt"];

/// Beginning of the notice that the agent shows once if it cannot store a session.
const NOTICE: &str = "This session is not stored: ";

fn command(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new(CALLBOARD);
    command.args(args).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    command.stdin(Stdio::null());
    command
}

/// Runs a command. Returns its exit code, its stdout and its stderr.
fn outcome(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(!err.contains("panicked"), "{err}");
    (output.status.code().unwrap(), out, err)
}

fn run(scratch: &Scratch, args: &[&str]) -> (i32, String, String) {
    outcome(command(scratch, args))
}

fn sessions(scratch: &Scratch) -> Vec<Value> {
    let (code, out, err) = run(scratch, &["sessions", "--all", "--json"]);
    assert_eq!((code, &*err), (0, ""));
    serde_json::from_str(&out).unwrap()
}

fn newest_id(scratch: &Scratch) -> String {
    sessions(scratch)[0]["sessionId"].as_str().unwrap().to_owned()
}

/// Asserts that a turn is complete, and that its output contains one notice with this reason.
fn assert_ran_with_one_notice((code, out, err): &(i32, String, String), reason: &str) {
    assert_eq!(*code, 0, "{out}{err}");
    assert!(out.contains("three"), "{out}");
    let words = out.split(|letter: char| letter.is_whitespace() || letter == '│');
    let out = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    assert_eq!(out.matches(NOTICE).count(), 1, "{out}");
    assert!(out.contains(reason), "{out}");
}

fn store(scratch: &Scratch) -> SqliteSessionStore {
    let holder = SessionHolder::new(1, "test", SystemTime::now());
    SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap()
}

async fn client(scratch: &Scratch) -> Agent {
    let args = ["acp", "--model", "direct"];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], Options::default());
    agent.initialize().await.unwrap();
    agent
}

fn load_params(scratch: &Scratch, id: &str) -> Value {
    json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []})
}

#[test]
fn a_file_that_is_no_database_is_not_changed_and_the_turn_runs() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.sessions()).unwrap();
    let database = scratch.sessions().join("sessions.sqlite3");
    let garbage = b"this is no database ".repeat(1000);
    fs::write(&database, &garbage).unwrap();
    let reason = "is damaged, or no database of sessions";
    assert_ran_with_one_notice(&run(&scratch, &READ), reason);
    for args in [&["sessions"][..], &["sessions", "show", "x"], &["sessions", "prune"]] {
        let (code, out, err) = run(&scratch, args);
        assert_eq!((code, &*out), (1, ""), "{args:?}");
        let named = format!("callboard: {} {reason}", database.display());
        assert!(err.starts_with(&named), "{err}");
    }
    assert_eq!(fs::read(&database).unwrap(), garbage);
}

#[test]
fn a_truncated_database_is_named_in_the_error_or_its_rest_is_shown() {
    for name in ["sessions.sqlite3", "sessions.sqlite3-wal"] {
        let scratch = Scratch::new();
        assert_eq!(run(&scratch, &READ).0, 0);
        let id = newest_id(&scratch);
        let file = OpenOptions::new().write(true).open(scratch.sessions().join(name)).unwrap();
        file.set_len(file.metadata().unwrap().len() - 2048).unwrap();
        drop(file);
        // SQLite's index of the write-ahead log. The next process that opens the database creates
        // it again.
        fs::remove_file(scratch.sessions().join("sessions.sqlite3-shm")).unwrap();
        let (code, out, err) = run(&scratch, &["sessions", "show", &id]);
        match code {
            0 => assert!(out.starts_with(&id), "{name}: {out}"),
            _ => assert!(err.contains("sessions.sqlite3") || err.contains(&id), "{name}: {err}"),
        }
        let (code, out, err) = run(&scratch, &READ);
        assert!(code == 0 && out.contains("three"), "{name}: {out}{err}");
    }
}

#[test]
fn a_damaged_record_is_skipped_and_counted() {
    let scratch = Scratch::new();
    assert_eq!(run(&scratch, &READ).0, 0);
    let id = newest_id(&scratch);
    let mut open = store(&scratch).open(&id.clone().into()).unwrap();
    let unknown = SessionRecord::new("future", 99, &json!({})).unwrap();
    open.write(&[SessionChange::Append(unknown)], SystemTime::now()).unwrap();
    drop(open);
    let note = "callboard: 1 record of this session could not be read and was left out\n";
    for command in ["show", "export"] {
        let (code, out, err) = run(&scratch, &["sessions", command, &id]);
        assert_eq!((code, &*err), (0, note));
        assert!(out.contains("three"), "{out}");
    }
}

/// Runs callboard in a private mount namespace, after the line `mount` has changed the mounts.
/// `$STATE` is the state folder. Returns `None` if this user may not mount file systems.
fn in_namespace(scratch: &Scratch, mount: &str, args: &[&str]) -> Option<(i32, String, String)> {
    let state = scratch.sessions().parent().unwrap().to_owned();
    fs::create_dir_all(&state).unwrap();
    let tried = Command::new("unshare").args(["-m", "mount", "--bind", "/", "/"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: this user may not mount anything");
        return None;
    }
    let mut command = Command::new("unshare");
    let line = format!("({mount}) || exit 99; exec \"$0\" \"$@\"");
    command.args(["-m", "sh", "-c", &line, CALLBOARD]).args(args);
    command.current_dir(scratch.cwd()).env_clear().envs(scratch.env()).env("STATE", state);
    command.stdin(Stdio::null());
    Some(outcome(command))
}

#[test]
fn a_turn_runs_with_a_read_only_state_folder_and_sessions_reports_it() {
    let scratch = Scratch::new();
    let mount = "mount --bind \"$STATE\" \"$STATE\" && mount -o remount,ro,bind \"$STATE\"";
    if let Some(ran) = in_namespace(&scratch, mount, &READ) {
        assert_ran_with_one_notice(&ran, "cannot be used: Read-only file system");
        let listed = in_namespace(&scratch, mount, &["sessions"]).unwrap();
        assert_eq!(listed.0, 1);
        assert!(listed.2.contains("Read-only file system"), "{}", listed.2);
    }
}

#[test]
fn a_turn_runs_with_a_full_disk() {
    let scratch = Scratch::new();
    let full = "mount -t tmpfs -o size=64k none \"$STATE\" && \
                head -c 60000 /dev/zero >\"$STATE/filler\"";
    if let Some(ran) = in_namespace(&scratch, full, &READ) {
        assert_ran_with_one_notice(&ran, "there is no room left for ");
    }
}

#[tokio::test]
async fn a_session_of_a_stopped_process_is_refused_until_the_process_exits() {
    let scratch = Scratch::new();
    let mut agent = client(&scratch).await;
    agent.new_session().await;
    agent.turn("read notes.txt").await;
    let id = agent.session_id();
    let process = agent.process_id().unwrap();
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let resume = ["exec", "--model", "direct", "--resume", &id, "read README.md"];
    let held = format!("The session is open in process {process} on ");
    let (code, _, err) = run(&scratch, &resume);
    assert_eq!(code, 1);
    assert!(err.contains(&held), "{err}");
    // A copy of this session can be continued, and so can other sessions.
    let fork = ["exec", "--model", "direct", "--fork", &id, "read README.md"];
    assert_eq!(run(&scratch, &fork).0, 0);
    assert_eq!(run(&scratch, &READ).0, 0);
    agent.kill().await;
    let (code, out, err) = run(&scratch, &resume);
    assert!(code == 0 && out.contains("A folder for one test"), "{out}{err}");
}

#[test]
fn a_session_stored_before_the_clock_was_set_back_is_continued_and_not_pruned() {
    let scratch = Scratch::new();
    let (past, future) = (Duration::from_secs(86_400), Duration::from_secs(10 * 365 * 86_400));
    let now = SystemTime::now();
    {
        let store = store(&scratch);
        for (id, at) in [("past", now - past), ("future", now + future)] {
            let cwd = scratch.cwd();
            let folder = SessionCwdPaths { cwd: cwd.clone(), canonical: cwd };
            let prompt = SessionRecord::new("prompt", 1, &json!({})).unwrap();
            let new = NewSession::new(id, folder);
            drop(store.create(&new, &[SessionChange::Prompt(prompt)], at).unwrap());
        }
    }
    let updated = |id: &str| store(&scratch).summary(&id.to_owned().into()).unwrap().updated;
    let before = updated("future");
    let continued = ["exec", "--model", "direct", "--continue", "read notes.txt"];
    let (code, out, err) = run(&scratch, &continued);
    assert!(code == 0 && out.starts_with("Continuing future (1 prompt, 20"), "{out}{err}");
    assert!(updated("future") >= before);
    let (code, out, _) = run(&scratch, &["sessions", "prune"]);
    assert_eq!((code, &*out), (0, "0 sessions (0 bytes) deleted.\n"));
    let ids: Vec<_> = sessions(&scratch).iter().map(|it| it["sessionId"].clone()).collect();
    assert_eq!(ids, ["future", "past"]);
}

#[tokio::test]
async fn a_missing_project_folder_is_named_and_a_link_to_the_moved_folder_works() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("project")).unwrap();
    let (project, moved) = (scratch.path("project"), scratch.path("moved"));
    let exec = ["exec", "--model", "direct", "--cwd", "project"];
    assert_eq!(run(&scratch, &[&exec[..], &["list"]].concat()).0, 0);
    let id = newest_id(&scratch);
    fs::rename(&project, &moved).unwrap();
    let mut agent = client(&scratch).await;
    let params = json!({"sessionId": id, "cwd": project, "mcpServers": []});
    let error = agent.request("session/load", params.clone()).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("project"), "{error}");
    let (code, _, err) = run(&scratch, &[&exec[..], &["--resume", &id, "list"]].concat());
    assert!(code == 1 && err.contains("project"), "{err}");
    // The failed attempts have not changed the session.
    assert_eq!(sessions(&scratch)[0]["prompts"], 1);
    symlink(&moved, &project).unwrap();
    agent.request("session/load", params).await.unwrap();
    agent.finish().await;
    let folder = store(&scratch).summary(&id.clone().into()).unwrap().folder.unwrap();
    assert_eq!((folder.cwd, folder.canonical), (project, moved));
}

#[tokio::test]
async fn only_one_of_two_simultaneous_loads_of_a_session_succeeds() {
    let scratch = Scratch::new();
    assert_eq!(run(&scratch, &READ).0, 0);
    let id = newest_id(&scratch);
    let (mut one, mut other) = (client(&scratch).await, client(&scratch).await);
    let params = load_params(&scratch, &id);
    let loads = tokio::join!(
        one.request("session/load", params.clone()),
        other.request("session/load", params.clone())
    );
    let (refused, error) = match loads {
        (Ok(_), Err(error)) => (&mut other, error),
        (Err(error), Ok(_)) => (&mut one, error),
        both => panic!("one of them: {both:?}"),
    };
    assert_eq!(error["data"]["reason"], "session_held");
    // The client whose load was refused can still open another session.
    refused.new_session().await;
    assert_eq!(refused.turn("read notes.txt").await, "end_turn");
    one.kill().await;
    other.finish().await;
}

#[tokio::test]
async fn a_client_that_exits_during_a_replay_leaves_the_session_complete_and_closed() {
    let scratch = Scratch::new();
    fs::write(scratch.path("large.txt"), "a line of text\n".repeat(4000)).unwrap();
    let prompt = ["read large.txt"; 20].join("\n");
    assert_eq!(run(&scratch, &["exec", "--model", "direct", &prompt]).0, 0);
    let id = newest_id(&scratch);
    let exported = run(&scratch, &["sessions", "export", &id]).1;
    let count = |store: &SqliteSessionStore| {
        let load = store.begin_load(&id.clone().into(), RecordStream::Client, u64::MAX);
        let mut load = load.unwrap();
        let mut records = 0;
        loop {
            let page = store.load_next_records(&mut load).unwrap().len();
            records += page;
            if page == 0 {
                assert_eq!(load.damaged, 0);
                return records;
            }
        }
    };
    let stored = count(&store(&scratch));
    let mut agent = client(&scratch).await;
    agent.send("session/load", load_params(&scratch, &id)).await;
    agent.until(|client| !client.session(&id).updates.is_empty()).await;
    agent.vanish().await;
    agent.finish().await;
    assert_eq!(count(&store(&scratch)), stored);
    assert_eq!(run(&scratch, &["sessions", "export", &id]).1, exported);
    let mut agent = client(&scratch).await;
    agent.request("session/load", load_params(&scratch, &id)).await.unwrap();
    assert_eq!(agent.client.session(&id).calls().len(), 20);
    agent.finish().await;
}
