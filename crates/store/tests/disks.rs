//! Tests with disks that are full or read-only. A process in its own namespace (`unshare`) can
//! mount a small file system in memory.
#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#![cfg(all(feature = "sqlite", target_os = "linux"))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use acp_store::{
    NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionHolder, SessionRecord,
    SessionStore as _, SessionStoreError, SqliteSessionStore, StoreWriter,
};
use acp_types::schema::v1::SessionId;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn store(folder: &Path) -> Result<SqliteSessionStore, SessionStoreError> {
    let holder = SessionHolder::new(1, "here", NOW);
    SqliteSessionStore::open(folder, holder, || 4)
}

fn new(id: &str) -> NewSession {
    let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
    NewSession::new(SessionId::new(id), folder)
}

fn record(text: &str) -> SessionRecord {
    SessionRecord::new("text", 1, &text).unwrap()
}

fn prompt() -> Vec<SessionChange> {
    vec![SessionChange::Prompt(record("first"))]
}

fn append(text: &str) -> Vec<SessionChange> {
    vec![SessionChange::Append(record(text))]
}

/// Returns the number of stored records of a session; panics if one of them is damaged.
fn count(store: &SqliteSessionStore, id: &str) -> usize {
    let mut load = store.begin_load(&SessionId::new(id), RecordStream::Client, u64::MAX).unwrap();
    let mut count = 0;
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        if page.is_empty() {
            assert_eq!(load.damaged, 0);
            return count;
        }
        count += page.len();
    }
}

/// Runs one of the tests below in another process with a disk of 2 MiB. If that process is not
/// allowed to mount the disk, the test is skipped.
fn on_a_small_disk(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.arg(folder.path()).arg(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--nocapture"]);
        command.env("STORE_FOLDER", folder.path()).env_remove("NEXTEST").status()
    };
    let mount = "mount -t tmpfs -o size=2m none \"$1\"";
    if unshare(mount).is_ok_and(|status| status.success()) {
        let status = unshare(&format!("{mount} && shift && exec \"$@\"")).unwrap();
        assert!(status.success(), "{status}");
    }
}

fn small_disk() -> PathBuf {
    PathBuf::from(std::env::var_os("STORE_FOLDER").unwrap())
}

#[test]
fn a_full_disk_loses_no_commit_and_writes_succeed_after_space_is_freed() {
    on_a_small_disk("full_disk");
}

#[test]
#[ignore = "is run by the test above, on another disk"]
fn full_disk() {
    let folder = small_disk();
    let (ballast, store) = (folder.join("ballast"), store(&folder.join("store")).unwrap());
    let mut session = store.create(&new("a"), &prompt(), NOW).unwrap();
    fs::write(&ballast, vec![0; 900_000]).unwrap();
    // Some records are stored in the database, and others in files.
    let mut expected = 1;
    for text in ["x".repeat(20_000), "y".repeat(100_000)] {
        let error = loop {
            match session.write(&append(&text), NOW) {
                Ok(()) => expected += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, SessionStoreError::Full { .. }), "{error:?}");
        assert!(error.is_transient() && expected > 3);
        assert_eq!(count(&store, "a"), expected);
    }
    // A new session cannot be stored while the disk is full. It is stored as soon as there is free
    // space.
    let writer = StoreWriter::start(Arc::new(store.clone())).unwrap();
    let recorder = writer.recorder_for_new_session(new("b"));
    let filler = vec![SessionChange::Append(record(&"z".repeat(60_000)))];
    let refused = recorder.queue_changes([prompt(), filler].concat(), NOW).wait_blocking();
    assert!(matches!(refused, Err(SessionStoreError::Full { .. })), "{refused:?}");
    assert!(recorder.failure().is_none());
    // When a session is closed, its lock is free although the last changes cannot be written.
    drop(session);
    let lost = writer.recorder_for_open_session(store.open(&SessionId::new("a")).unwrap());
    let refused = lost.queue_changes(append(&"z".repeat(60_000)), NOW).wait_blocking();
    assert!(matches!(refused, Err(SessionStoreError::Full { .. })), "{refused:?}");
    drop(lost);
    writer.wait_for_queued_writes().wait_blocking().unwrap();
    let mut session = store.open(&SessionId::new("a")).unwrap();
    fs::remove_file(ballast).unwrap();
    // A queued write is tried once more when its session is closed.
    drop(recorder);
    writer.wait_for_queued_writes().wait_blocking().unwrap();
    assert_eq!(count(&store, "b"), 2);
    session.write(&append("later"), NOW).unwrap();
    assert_eq!(count(&store, "a"), expected + 1);
    assert_eq!(store.find_integrity_faults().unwrap(), Vec::<String>::new());
}

#[test]
fn sessions_on_a_read_only_disk_can_be_loaded_but_not_opened() {
    on_a_small_disk("read_only_disk");
}

#[test]
#[ignore = "is run by the test above, on another disk"]
fn read_only_disk() {
    let folder = small_disk();
    drop(store(&folder).unwrap().create(&new("a"), &prompt(), NOW).unwrap());
    let remount = |options: &str| {
        let status = Command::new("mount").args(["-o", options]).arg(&folder).status().unwrap();
        assert!(status.success());
    };
    remount("remount,ro");
    let read_only = store(&folder).unwrap();
    assert_eq!(count(&read_only, "a"), 1);
    for error in [
        read_only.open(&SessionId::new("a")).unwrap_err(),
        read_only.create(&new("b"), &prompt(), NOW).unwrap_err(),
        store(&folder.join("missing")).unwrap_err(),
    ] {
        assert!(matches!(&error, SessionStoreError::Unusable { .. }), "{error:?}");
        assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
    }
    drop(read_only);
    remount("remount,rw");
    assert_eq!(count(&store(&folder).unwrap(), "a"), 1);
}
