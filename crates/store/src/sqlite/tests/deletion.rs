//! Removal of single sessions.

use std::sync::mpsc;

use super::*;
use pretty_assertions::assert_eq;

#[test]
fn a_session_that_pruning_locks_for_a_moment_can_be_opened_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop(create(&store, "a"));
    for operation in [
        |store: &SqliteSessionStore| store.open(&id("a")).map(drop),
        |store: &SqliteSessionStore| store.delete(&id("a")),
    ] {
        let lock = store.0.try_lock_session_without_holder(&id("a")).unwrap();
        let (sender, ended) = mpsc::channel();
        thread::scope(|scope| {
            let store = &store;
            drop(scope.spawn(move || sender.send(operation(store))));
            let early = ended.recv_timeout(2 * HELD_PAUSE);
            assert!(early.is_err(), "it does not wait for the lock: {early:?}");
            drop(lock);
            ended.recv().unwrap().unwrap();
        });
    }
    assert!(matches!(store.summary(&id("a")), Err(SessionStoreError::UnknownSession(_))));
    // A lock that is not released soon is reported, although its file names no holder.
    drop(create(&store, "b"));
    let _lock = store.0.try_lock_session_without_holder(&id("b")).unwrap();
    let refused = store.delete(&id("b"));
    assert!(matches!(refused, Err(SessionStoreError::Held { holder: None, .. })), "{refused:?}");
}

#[test]
fn a_deletion_is_on_the_disk_when_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop((create(&store, "a"), create(&store, "b")));
    store.delete(&id("a")).unwrap();
    // After a power failure, data that was not synced may be lost, i.e. the log.
    let after = tempfile::tempdir().unwrap();
    fs::copy(database(folder.path()), database(after.path())).unwrap();
    let after = open(after.path());
    assert!(matches!(after.summary(&id("a")), Err(SessionStoreError::UnknownSession(_))));
    assert_eq!(texts(&after, "b").0, ["first"]);
}

#[test]
fn deleted_text_is_left_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut kept = create(&store, "kept");
    let mut session = create(&store, "a");
    let secret = "a sentence that is forgotten. ";
    let changes: Vec<_> = [1, 20, 1000, 4000]
        .map(|times| SessionChange::Prompt(record(&secret.repeat(times))))
        .into_iter()
        .chain([
            SessionChange::Title(secret.into()),
            SessionChange::Part { name: "p".into(), json: Some(secret.repeat(300)) },
        ])
        .collect();
    session.write(&changes, NOW).unwrap();
    kept.write(&changes[..3], NOW).unwrap();
    drop(session);
    let files_with_secret = || {
        let has_secret = |(_, bytes): &(PathBuf, Vec<u8>)| {
            bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
        };
        let found = contents(folder.path()).into_iter().filter(has_secret);
        found.map(|(path, _)| path).collect::<Vec<_>>()
    };
    assert!(files_with_secret().len() > 1);
    kept.write(&[SessionChange::Truncate { keep: 1 }], NOW).unwrap();
    store.delete(&id("a")).unwrap();
    assert_eq!(files_with_secret(), Vec::<PathBuf>::new());
    assert_eq!(texts(&store, "kept").0, ["first"]);
}

#[test]
fn a_deletion_succeeds_although_its_text_cannot_be_overwritten_yet() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop((create(&store, "a"), create(&store, "b")));
    let log_bytes = || fs::metadata(folder.path().join("sessions.sqlite3-wal")).unwrap().len();
    // The first checkpoint opens the database once more, and fails because the file was moved.
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(database(folder.path()), &elsewhere).unwrap();
    store.delete(&id("a")).unwrap();
    assert!(matches!(store.summary(&id("a")), Err(SessionStoreError::UnknownSession(_))));
    for _ in 0..2 {
        assert!(matches!(store.sync(), Err(SessionStoreError::Unusable { .. })));
    }
    assert!(log_bytes() > 0);
    fs::rename(elsewhere, database(folder.path())).unwrap();
    store.sync().unwrap();
    assert_eq!(log_bytes(), 0);
    // A reader prevents the store from emptying the log.
    let reader = Connection::open(database(folder.path())).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    store.delete(&id("b")).unwrap();
    assert!(log_bytes() > 0);
    drop(reader);
    store.sync().unwrap();
    assert_eq!(log_bytes(), 0);
}
