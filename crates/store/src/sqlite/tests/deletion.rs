//! Removal of single sessions.

use super::*;

#[test]
fn a_session_that_pruning_locks_for_a_moment_can_be_opened_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop(create(&store, "a"));
    for operation in [
        |store: &SqliteSessionStore| store.open(&id("a")).map(drop),
        |store: &SqliteSessionStore| store.delete(&id("a")),
    ] {
        let lock = store.0.lock_session_briefly(&id("a")).unwrap();
        thread::scope(|scope| {
            let operating = scope.spawn(|| operation(&store));
            thread::sleep(HELD_PAUSE * 2);
            drop(lock);
            operating.join().unwrap().unwrap();
        });
    }
    assert!(matches!(store.summary(&id("a")), Err(SessionStoreError::UnknownSession(_))));
    // A lock that stays is reported, although nobody signed it.
    drop(create(&store, "b"));
    let _lock = store.0.lock_session_briefly(&id("b")).unwrap();
    let refused = store.delete(&id("b"));
    assert!(matches!(refused, Err(SessionStoreError::Held { holder: None, .. })), "{refused:?}");
}
