//! Tests with several processes that use one store. Some of the processes are killed or stopped.
//!
//! `STORE_TURNS` is the number of turns that each process records.
#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#![cfg(all(feature = "sqlite", unix))]

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use acp_store::{
    NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionHolder, SessionRecord,
    SessionStore as _, SessionStoreError, SqliteSessionStore, StoreWriter,
};
use acp_types::schema::v1::SessionId;
use rustix::process::{Pid, Signal, kill_process};

const PROCESSES: usize = 8;
const DELTAS: usize = 5;

fn store(folder: &Path) -> SqliteSessionStore {
    let (pid, started) = (std::process::id(), SystemTime::now());
    let holder = SessionHolder::new(pid, "here", started);
    SqliteSessionStore::open(folder, holder, || u64::from(std::process::id())).unwrap()
}

fn turns() -> usize {
    std::env::var("STORE_TURNS").map_or(40, |turns| turns.parse().unwrap())
}

fn record(text: &str) -> SessionRecord {
    SessionRecord::new("text", 1, &text).unwrap().with_search_text(text)
}

/// Body of a child process. The process records turns of a session, and prints a line for each
/// committed turn.
#[test]
#[ignore = "is run by the tests below, as another process"]
fn child() {
    let folder = PathBuf::from(std::env::var_os("STORE_FOLDER").unwrap());
    let id = SessionId::new(std::env::var("STORE_SESSION").unwrap());
    let store = store(&folder);
    let done = store.summary(&id).map_or(0, |summary| summary.prompts as usize);
    let writer = StoreWriter::start(Arc::new(store.clone())).unwrap();
    let prompt = |turn: usize| SessionChange::Prompt(record(&format!("{turn} prompt")));
    let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
    let recorder = match done {
        0 => writer.recorder_for_new_session(NewSession::new(id, folder)),
        _ => writer.recorder_for_open_session(store.open(&id).unwrap()),
    };
    for turn in done + 1..=turns() {
        drop(recorder.queue_changes(vec![prompt(turn)], SystemTime::now()));
        let call = format!("c{turn}");
        for delta in 0..DELTAS {
            let delta = record(&format!("{turn} delta {delta}")).with_subject(&call);
            drop(recorder.queue_changes(vec![SessionChange::Append(delta)], SystemTime::now()));
        }
        // Some long texts are stored in files.
        let long = "x".repeat(if turn.is_multiple_of(7) { 70_000 } else { 100 });
        let whole = record(&format!("{turn} whole {long}")).with_subject(&call);
        let answer = record(&format!("{turn} answer")).with_stream(RecordStream::Model);
        let last = vec![SessionChange::Fold(whole), SessionChange::Append(answer)];
        recorder.queue_changes(last, SystemTime::now()).wait_blocking().unwrap();
        writeln!(io::stdout(), "\nacknowledged {turn}").unwrap();
    }
    drop(recorder);
    writer.wait_for_queued_writes().wait_blocking().unwrap();
}

struct Process {
    session: SessionId,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Turns that were acknowledged by this process, or by an earlier process of the same session
    /// that was killed.
    acknowledged: BTreeSet<usize>,
}

impl Process {
    fn start(folder: &Path, session: &SessionId, acknowledged: BTreeSet<usize>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--ignored", "--nocapture"]);
        command.env("STORE_FOLDER", folder).env("STORE_SESSION", &*session.0);
        command.env("STORE_TURNS", turns().to_string()).env_remove("NEXTEST");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { session: session.clone(), child, lines, acknowledged }
    }

    /// Waits for another acknowledgement; returns false at the end of the output.
    fn acknowledges(&mut self) -> bool {
        for line in &mut self.lines {
            if let Some(turn) = line.unwrap().strip_prefix("acknowledged ") {
                self.acknowledged.insert(turn.parse().unwrap());
                return true;
            }
        }
        false
    }

    /// Reads the last acknowledgements. Requires that the process exited without an error or was
    /// killed.
    fn end(&mut self) {
        while self.acknowledges() {}
        let status = self.child.wait().unwrap();
        assert!(status.success() || status.signal() == Some(Signal::KILL.as_raw()), "{status}");
    }
}

/// Checks that every acknowledged turn is complete. A turn during which a process was killed may be
/// incomplete, but no record is stored without all records before it.
fn check(folder: &Path, process: &Process) {
    let store = store(folder);
    let texts = |stream| -> Vec<(u32, String)> {
        let Ok(mut load) = store.begin_load(&process.session, stream, u64::MAX) else {
            return Vec::new();
        };
        let mut texts = Vec::new();
        loop {
            let page = store.load_next_records(&mut load).unwrap();
            if page.is_empty() {
                assert_eq!(load.damaged, 0);
                return texts;
            }
            texts.extend(page.iter().map(|record| (record.prompt, record.parse_json().unwrap())));
        }
    };
    let (shown, model) = (texts(RecordStream::Client), texts(RecordStream::Model));
    let last = shown.last().map_or(0, |(prompt, _)| *prompt as usize);
    let acknowledged = &process.acknowledged;
    assert!(acknowledged.last().is_none_or(|turn| *turn <= last), "{last} of {acknowledged:?}");
    for turn in 1..=last {
        let of_turn = |texts: &[(u32, String)]| -> Vec<String> {
            let own = texts.iter().filter(|(prompt, _)| *prompt as usize == turn);
            own.map(|(_, text)| text.trim_end_matches('x').to_owned()).collect()
        };
        let (shown, model) = (of_turn(&shown), of_turn(&model));
        let whole = [format!("{turn} prompt"), format!("{turn} whole ")];
        if acknowledged.contains(&turn) || !model.is_empty() {
            assert_eq!((&shown[..], &model[..]), (&whole[..], &[format!("{turn} answer")][..]));
        } else {
            let deltas = (0..DELTAS).map(|delta| format!("{turn} delta {delta}"));
            let prefix = [whole[0].clone()].into_iter().chain(deltas);
            assert!(!shown.is_empty() && shown.len() <= 1 + DELTAS, "{shown:?}");
            assert_eq!(shown, prefix.take(shown.len()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn no_acknowledged_turn_is_lost_when_processes_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sessions = (0..PROCESSES).map(|number| SessionId::new(format!("s{number}")));
    let mut processes: Vec<_> =
        sessions.map(|session| Process::start(folder, &session, BTreeSet::new())).collect();
    for round in 0..3 * PROCESSES {
        let process = &mut processes[round % PROCESSES];
        // Some processes are killed while they start.
        for _ in 0..round * 7 % 5 {
            process.acknowledges();
        }
        process.child.kill().unwrap();
        process.end();
        check(folder, process);
        let acknowledged = std::mem::take(&mut process.acknowledged);
        *process = Process::start(folder, &process.session, acknowledged);
    }
    for process in &mut processes {
        process.end();
        // An interrupted turn is not recorded again.
        check(folder, process);
    }
    let store = store(folder);
    assert_eq!(store.find_integrity_faults().unwrap(), Vec::<String>::new());
    for process in &processes {
        assert_eq!(store.summary(&process.session).unwrap().prompts as usize, turns());
        drop(store.open(&process.session).unwrap());
    }
}

#[test]
fn a_stopped_process_holds_its_session_until_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let session = SessionId::new("s");
    let mut process = Process::start(folder.path(), &session, BTreeSet::new());
    assert!(process.acknowledges());
    let pid = Pid::from_child(&process.child);
    kill_process(pid, Signal::STOP).unwrap();
    let store = store(folder.path());
    match store.open(&session) {
        Err(SessionStoreError::Held { holder: Some(holder), .. }) => {
            assert_eq!(holder.pid, process.child.id());
        }
        // The process finished before it could be stopped.
        other => assert!(other.is_ok() && process.acknowledged.contains(&turns()), "{other:?}"),
    }
    // The session can be read. Other sessions can be written too, unless the process was stopped in
    // the middle of a commit.
    store.summary(&session).unwrap();
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    drop(store.open(&session).unwrap());
    check(folder.path(), &process);
}
