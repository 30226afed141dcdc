//! The write-ahead log, beside readers and writers.

use super::*;
use crate::limits::LOG_PAGES;
use pretty_assertions::assert_eq;

fn log_bytes(folder: &Path) -> u64 {
    fs::metadata(folder.join("sessions.sqlite3-wal")).unwrap().len()
}

/// Writes until the log is so long that a checkpoint should empty it.
fn fill_log(session: &mut dyn OpenSession, folder: &Path) {
    let changes = vec![append(&"x".repeat(60_000)); 20];
    while log_bytes(folder) < LOG_PAGES.cast_unsigned() * 4200 {
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
