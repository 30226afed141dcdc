//! Tests promise G10 at the writes of a store. A process is killed, or gets an error, at one of its
//! file system calls. All earlier commits must still be stored afterwards, and the database must be
//! intact.
//!
//! The tests need strace, which injects the faults. Only every `FAULT_STEP`-th call gets a fault.
//! `cargo xtask accept store-faults` tries every call.
#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#![cfg(all(feature = "sqlite", target_os = "linux"))]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use acp_store::{
    NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionHolder, SessionRecord,
    SessionStore as _, SessionStoreError, SqliteSessionStore,
};
use acp_types::schema::v1::SessionId;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;
/// System calls that change a file, or that can fail during a change of a file.
const CALLS: &str =
    "openat,mkdir,write,pwrite64,fsync,fdatasync,ftruncate,rename,unlink,link,fcntl";
const FAULTS: [&str; 3] = ["signal=KILL", "error=EIO", "error=ENOSPC"];
/// Number of turns that the process records.
const TURNS: usize = 6;

fn store(folder: &Path) -> Result<SqliteSessionStore, SessionStoreError> {
    let holder = SessionHolder::new(1, "here", NOW);
    SqliteSessionStore::open(&folder.join("store"), holder, || 4)
}

fn record(text: &str) -> SessionRecord {
    SessionRecord::new("text", 1, &text).unwrap()
}

/// Records turns, and lists the committed turns in a file.
fn record_turns(folder: &Path) -> Result<(), SessionStoreError> {
    let mut committed = File::create(folder.join("committed")).unwrap();
    let store = store(folder)?;
    let id = SessionId::new("s");
    let new =
        NewSession::new(id.clone(), SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() });
    let mut session = store.create(&new, &[SessionChange::Prompt(record("prompt 0"))], NOW)?;
    for turn in 1..=TURNS {
        // Every third record is long enough to be stored in a file.
        let long = "x".repeat(if turn.is_multiple_of(3) { 70_000 } else { 100 });
        let changes = [
            SessionChange::Prompt(record(&format!("prompt {turn}"))),
            SessionChange::Append(record("begun").with_subject("call")),
            SessionChange::Fold(record(&format!("answer {turn} {long}")).with_subject("call")),
        ];
        match session.write(&changes, NOW) {
            Ok(()) => writeln!(committed, "{turn}").unwrap(),
            // The writer retries the write later.
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
        let _may_fail = store.sync();
    }
    Ok(())
}

/// The body of the process that is killed. The test below starts this process.
#[test]
#[ignore = "it is the process that is killed; the other test runs it"]
fn subject() {
    if let Some(folder) = std::env::var_os("FAULT_FOLDER") {
        let _is_stopped = record_turns(folder.as_ref());
    }
}

/// Runs the process under strace. The option `--seccomp-bpf` is not used: with it, strace 6.1 does
/// not send a signal at the second or a later call.
fn trace(folder: &Path, args: &[String]) -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(folder.join("log")).args(args);
    command.arg(std::env::current_exe().unwrap());
    command.args(["subject", "--exact", "--ignored", "--test-threads=1", "--quiet"]);
    command.env("FAULT_FOLDER", folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the system calls of the thread that writes. Calls with the same name are numbered.
fn calls(folder: &Path) -> Vec<(String, usize)> {
    let log = fs::read_to_string(folder.join("log")).unwrap();
    let path = folder.join("committed").display().to_string();
    let creates = |line: &&str| line.contains("openat(") && line.contains(&path);
    let writer = log.lines().find(creates).unwrap().split_whitespace().next().unwrap().to_owned();
    let (mut counts, mut calls, mut is_begun) = (BTreeMap::new(), Vec::new(), false);
    for line in log.lines().filter(|line| line.split_whitespace().next() == Some(&*writer)) {
        let Some((name, rest)) = line[writer.len()..].trim_start().split_once('(') else {
            continue;
        };
        if !name.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            continue;
        }
        let number = counts.entry(name.to_owned()).or_insert(0);
        *number += 1;
        is_begun |= rest.contains("/store");
        if is_begun {
            calls.push((name.to_owned(), *number));
        }
    }
    calls
}

/// Panics unless every committed turn is complete and the store can still be used.
fn require_committed(folder: &Path, what: &str) {
    let committed = fs::read_to_string(folder.join("committed")).unwrap_or_default();
    let committed: BTreeSet<_> = committed.lines().map(str::to_owned).collect();
    let store = store(folder).unwrap();
    assert_eq!(store.find_integrity_faults().unwrap(), [""; 0], "{what}");
    let id = SessionId::new("s");
    let load = store.begin_load(&id, RecordStream::Client, u64::MAX);
    let mut load = match load {
        Err(SessionStoreError::UnknownSession(_)) => {
            assert!(committed.is_empty(), "{what}: the session is lost");
            return;
        }
        load => load.unwrap(),
    };
    let mut texts = String::new();
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        if page.is_empty() {
            break;
        }
        for record in page {
            writeln!(texts, "{}", record.json.get(..20).unwrap_or(&record.json)).unwrap();
        }
    }
    assert_eq!(load.damaged, 0, "{what}");
    for turn in &committed {
        let is_whole = texts.contains(&format!("\"prompt {turn}\""))
            && texts.contains(&format!("\"answer {turn} "));
        assert!(is_whole, "{what}: turn {turn} of\n{texts}");
    }
    let mut session = store.open(&id).unwrap();
    session.write(&[SessionChange::Append(record("later"))], NOW).unwrap();
}

#[test]
fn a_fault_at_any_write_loses_no_commit() {
    let given = std::env::var("FAULT_STEP").ok();
    let step = given.as_ref().map_or(151, |step| step.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    if !trace(folder.path(), &[format!("--trace={CALLS}")]) {
        assert!(given.is_none(), "strace is missing, or may not trace");
        return;
    }
    require_committed(folder.path(), "no fault");
    let calls = calls(folder.path());
    assert!(calls.len() > 100, "{calls:?}");
    let faults: Vec<_> =
        calls.iter().flat_map(|call| FAULTS.iter().map(move |fault| (call, *fault))).collect();
    let next = AtomicUsize::new(step / 2);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(((name, number), fault)) =
                    faults.get(next.fetch_add(step, Ordering::Relaxed))
                {
                    let folder = tempfile::tempdir().unwrap();
                    let inject = format!("--inject={name}:{fault}:when={number}");
                    trace(folder.path(), &[format!("--trace={name}"), inject]);
                    let log = fs::read_to_string(folder.path().join("log")).unwrap();
                    let is_injected = log.contains("(INJECTED)") || log.contains("by SIGKILL");
                    assert!(is_injected, "no fault: {fault} at {name} {number}");
                    require_committed(folder.path(), &format!("{fault} at {name} {number}"));
                }
            });
        }
    });
    // This line is visible if the test runs with `--nocapture`.
    eprintln!("{} faults tried of {}", faults.len().div_ceil(step), faults.len());
}
