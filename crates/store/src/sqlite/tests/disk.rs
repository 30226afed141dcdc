//! Tests of file permissions, and of folders and disks that reject writes.

use super::*;
use pretty_assertions::assert_eq;

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_access_folders_and_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("state/sessions");
    let store = open(&root);
    let mut session = create(&store, "a");
    let mut linked = record(&"x".repeat(100_000));
    linked.attachments.push(b"attached"[..].into());
    session.write(&[SessionChange::Append(linked)], NOW).unwrap();
    let names: Vec<_> = contents(&root).into_iter().map(|(path, _)| path).collect();
    // The names are the database, its log, its index, a lock, a record and an attachment.
    assert_eq!(names.len(), 6, "{names:?}");
    names.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{}", path.display()));
    for folder in ["", "files", "files/a", "open"] {
        assert_eq!(mode(&root.join(folder)), 0o700, "{folder}");
    }
    drop((session, store));
    // If other users have got access in another way, opening the store removes their access.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(database(&root), fs::Permissions::from_mode(0o644)).unwrap();
    drop(open(&root));
    assert_eq!((mode(&root), mode(&database(&root))), (0o700, 0o600));
}

#[test]
fn an_unusable_folder_is_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("beneath")] {
        let error = try_open(&path).unwrap_err();
        assert!(matches!(&error, SessionStoreError::Unusable { .. }), "{error:?}");
        assert!(error.to_string().contains("file"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_stays_unchanged() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write to this folder, so the test is skipped for root.
    if fs::write(folder.path().join("probe"), "x").is_err() {
        let error = try_open(folder.path()).unwrap_err();
        assert!(matches!(&error, SessionStoreError::Unusable { .. }), "{error:?}");
    }
    assert_eq!(mode(folder.path()), 0o500);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_database_that_is_a_link_is_refused() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(open(elsewhere.path()));
    std::os::unix::fs::symlink(database(elsewhere.path()), database(folder.path())).unwrap();
    let error = try_open(folder.path()).unwrap_err();
    assert!(matches!(&error, SessionStoreError::Unusable { .. }), "{error:?}");
    // The path of the database's folder may contain a symbolic link.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
    drop(open(&link));
}

/// Limits the size of the database to `more` pages above the current size.
fn limit(store: &SqliteSessionStore, more: i64) {
    let set = store.0.database.run_write_transaction(|transaction| {
        let pages: i64 = transaction.pragma_query_value(None, "page_count", |row| row.get(0))?;
        transaction.pragma_update(None, "max_page_count", pages + more)?;
        Ok(())
    });
    set.unwrap();
}

#[test]
fn a_full_disk_keeps_the_stored_records_and_writes_succeed_after_space_is_freed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    limit(&store, 20);
    let text = "x".repeat(9_000);
    let mut written = 1;
    let error = loop {
        match session.write(&[append(&text), append("y")], NOW) {
            Ok(()) => written += 2,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, SessionStoreError::Full { .. }), "{error:?}");
    assert!(error.is_transient());
    assert!(written > 3);
    assert_eq!(texts(&store, "a").0.len(), written);
    assert!(matches!(
        store.fork(&id("a"), &new("b"), None, NOW),
        Err(SessionStoreError::Full { .. })
    ));
    limit(&store, 100_000);
    session.write(&[append("z")], NOW).unwrap();
    let (texts, damaged) = texts(&store, "a");
    assert_eq!((texts.last().map(String::as_str), damaged), (Some("z"), 0));
    assert_eq!(store.find_integrity_faults().unwrap(), Vec::<String>::new());
}

#[test]
fn a_write_fails_within_a_second_while_another_process_locks_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let other = Connection::open(database(folder.path())).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begin = std::time::Instant::now();
    let error = session.write(&[append("x")], NOW).unwrap_err();
    assert!(matches!(&error, SessionStoreError::Busy(_)), "{error:?}");
    assert!(error.is_transient());
    assert!(begin.elapsed() > Duration::from_millis(300), "{:?}", begin.elapsed());
    // Reads still work, and the store can be opened again.
    drop(open(folder.path()));
    assert_eq!(texts(&store, "a").0, ["first"]);
    other.execute_batch("ROLLBACK").unwrap();
    session.write(&[append("x")], NOW).unwrap();
}
