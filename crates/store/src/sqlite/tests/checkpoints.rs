//! Tests of the write-ahead log while other connections read and write.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::limits::CHECKPOINT_PAGES;
use pretty_assertions::assert_eq;

fn log_bytes(folder: &Path) -> u64 {
    fs::metadata(folder.join("sessions.sqlite3-wal")).unwrap().len()
}

/// Writes until the log is so long that a checkpoint should empty it.
fn fill_log(session: &mut dyn OpenSession, folder: &Path) {
    let changes = vec![append(&"x".repeat(60_000)); 20];
    while log_bytes(folder) < CHECKPOINT_PAGES.cast_unsigned() * 4200 {
        session.write(&changes, NOW).unwrap();
    }
}

#[test]
fn a_reader_that_stops_delays_no_writer_while_the_log_is_checkpointed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    fill_log(&mut *create(&store, "a"), folder.path());
    let reader = Connection::open(database(folder.path())).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    // This checkpoint moves all pages, so that the next one only tries to empty the log.
    store.sync().unwrap();
    let writer = Connection::open(database(folder.path())).unwrap();
    writer.busy_timeout(Duration::from_millis(300)).unwrap();
    thread::scope(|scope| {
        let syncing = scope.spawn(|| store.sync());
        while !syncing.is_finished() {
            writer.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
        }
        syncing.join().unwrap().unwrap();
    });
    assert!(log_bytes(folder.path()) > 0);
}

#[test]
fn the_log_is_emptied_once_no_reader_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let reader = Connection::open(database(folder.path())).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    fill_log(&mut *session, folder.path());
    store.sync().unwrap();
    assert!(log_bytes(folder.path()) > 0);
    reader.execute_batch("COMMIT").unwrap();
    store.sync().unwrap();
    assert_eq!(log_bytes(folder.path()), 0);
    session.write(&[append("later")], NOW).unwrap();
    assert_eq!(texts(&store, "a").0.last().map(String::as_str), Some("later"));
}

#[test]
fn the_log_is_emptied_after_the_checkpoint_of_another_process() {
    /// Number of pauses between two tries.
    static PAUSES: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().unwrap();
    let random = || PAUSES.fetch_add(1, Ordering::Relaxed);
    let store = SqliteSessionStore::open(folder.path(), holder(), random).unwrap();
    drop(create(&store, "a"));
    let writer = Connection::open(database(folder.path())).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    // A checkpoint that waits for a writer holds the lock of the checkpoints.
    let mut other = Connection::open(database(folder.path())).unwrap();
    let waiting = Arc::new(Barrier::new(2));
    let waits = waiting.clone();
    let wait_twice = move |_| {
        waits.wait();
        waits.wait();
        false
    };
    other.busy_handler(Some(wait_twice)).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        waiting.wait();
        let before = PAUSES.load(Ordering::Relaxed);
        let emptying = scope.spawn(|| store.0.database.sync_and_empty_log());
        while PAUSES.load(Ordering::Relaxed) == before && !emptying.is_finished() {
            thread::yield_now();
        }
        writer.execute_batch("ROLLBACK").unwrap();
        waiting.wait();
        emptying.join().unwrap().unwrap();
    });
    assert_eq!(log_bytes(folder.path()), 0);
}
