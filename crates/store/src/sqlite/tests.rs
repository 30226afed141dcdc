//! Tests of faults that can occur only in SQLite and its files. `conformance` tests the rules for
//! every store, and `tests/processes.rs` tests several processes at the same time.

mod checkpoints;
mod damage;
mod deletion;
mod disk;
mod versions;

use std::fs;
use std::time::Duration;

use pretty_assertions::assert_eq;
use rusqlite::Connection;

use super::*;
use crate::record::SessionRecord;
use crate::session::SessionCwdPaths;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn holder() -> SessionHolder {
    SessionHolder { pid: 7, host: "here".into(), started: NOW + Duration::from_secs(5) }
}

fn try_open(folder: &Path) -> Result<SqliteSessionStore, SessionStoreError> {
    SqliteSessionStore::open(folder, holder(), || 4)
}

fn open(folder: &Path) -> SqliteSessionStore {
    try_open(folder).unwrap()
}

fn database(folder: &Path) -> PathBuf {
    folder.join("sessions.sqlite3")
}

/// Executes SQL statements on the database without using the store.
fn run(folder: &Path, sql: &str) {
    Connection::open(database(folder)).unwrap().execute_batch(sql).unwrap();
}

fn id(session: &str) -> SessionId {
    SessionId::new(session)
}

fn new(session: &str) -> NewSession {
    let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
    NewSession { id: id(session), folder }
}

fn record(text: &str) -> SessionRecord {
    SessionRecord::new("text", 1, &text).unwrap().with_search_text(text)
}

fn append(text: &str) -> SessionChange {
    SessionChange::Append(record(text))
}

fn create(store: &SqliteSessionStore, session: &str) -> Box<dyn OpenSession> {
    store.create(&new(session), &[SessionChange::Prompt(record("first"))], NOW).unwrap()
}

/// Returns the texts of a session, and the number of damaged records.
fn texts(store: &SqliteSessionStore, session: &str) -> (Vec<String>, u64) {
    let mut load = store.begin_load(&id(session), RecordStream::Client, u64::MAX).unwrap();
    let mut texts = Vec::new();
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        if page.is_empty() {
            return (texts, load.damaged);
        }
        texts.extend(page.iter().map(|record| record.parse_json::<String>().unwrap()));
    }
}

/// Returns all files beneath a folder with their contents.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn fts5_is_in_the_library() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE VIRTUAL TABLE t USING fts5(x)").unwrap();
}

#[test]
fn the_holder_of_a_session_is_named_and_a_closed_session_leaves_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let session = create(&store, "a");
    let error = open(folder.path()).open(&id("a")).unwrap_err();
    assert_eq!(error.to_string(), "session a is open in process 7 on here");
    assert!(
        matches!(error, SessionStoreError::Held { holder: Some(found), .. } if found == holder())
    );
    let lock = folder.path().join("open/a");
    fs::write(&lock, "garbage").unwrap();
    let error = store.open(&id("a")).unwrap_err();
    assert_eq!(error.to_string(), "session a is open in another process");
    drop(session);
    assert!(!lock.exists());
    // A lock file that a killed process left behind does not lock the session.
    fs::write(&lock, "garbage").unwrap();
    drop(store.open(&id("a")).unwrap());
}

#[test]
fn lists_and_searches_of_100_000_sessions_use_their_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop(create(&store, "a"));
    run(
        folder.path(),
        "INSERT INTO session(id, cwd, canonical, folder_sum, created, updated, prompts, next, \
         bytes, is_whole) WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT \
         100000) SELECT 's' || n, '/' || (n % 100), '/' || (n % 100), x'', n, n, 1, 1, 100, 1 FROM n",
    );
    for cwd in [None, Some("/7".into())] {
        let expected = if cwd.is_some() { ["s99907", "s99807"] } else { ["s100000", "s99999"] };
        let filter = SessionFilter { cwd, limit: Some(2), cursor: None };
        let page = store.list(&filter).unwrap();
        let ids: Vec<_> = page.sessions.iter().map(|session| session.id.to_string()).collect();
        assert_eq!(ids, expected);
        let next = store.list(&SessionFilter { cursor: page.next, ..filter }).unwrap();
        assert_eq!(next.sessions.len(), 2);
    }
    let plan = store.0.database.run_read_transaction(|transaction| {
        let (sql, _) = read::folder_sessions_statement(transaction, "/7".as_ref())?.unwrap();
        let mut statement = transaction.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        Ok(steps.collect::<Result<Vec<_>, _>>()?)
    });
    // The two indexes are merged, and nothing is sorted.
    let merged = [
        "MERGE (UNION)",
        "LEFT",
        "SEARCH session USING COVERING INDEX session_cwd (cwd=? AND (updated,id)<(?,?))",
        "RIGHT",
        "SEARCH session USING COVERING INDEX session_canonical (canonical=? AND (updated,id)<(?,?))",
    ];
    assert_eq!(plan.unwrap(), merged);
    let retention = RetentionPolicy { max_bytes: Some(9_000_000), ..RetentionPolicy::default() };
    let pruned = store.prune(&retention, NOW).unwrap();
    assert_eq!((pruned.sessions.len(), pruned.outcome), (256, crate::PruneCompletion::More));
}

#[test]
fn a_folder_with_many_spellings_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 10..99 {
        let mut new = new(&format!("s{number}"));
        new.folder.cwd = format!("/link{}", "/.".repeat(number)).into();
        drop(store.create(&new, &[SessionChange::Prompt(record("first"))], NOW).unwrap());
    }
    let filter = SessionFilter { cwd: Some("/link".into()), ..SessionFilter::default() };
    assert_eq!(store.list(&filter).unwrap().sessions.len(), 89);
}

#[test]
fn a_load_reads_only_the_records_that_it_returns_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let heavy = |n: usize| {
        let whole = n.to_string() + &"x".repeat(1 << 20);
        SessionChange::Append(
            SessionRecord::new("k", 1, &whole).unwrap().with_short_form(&n, vec![]).unwrap(),
        )
    };
    session.write(&(0..20).map(heavy).collect::<Vec<_>>(), NOW).unwrap();
    // The whole forms of all records except the last two are removed.
    let files = contents(&folder.path().join("files/a"));
    assert_eq!(files.len(), 20);
    let mut load = store.begin_load(&id("a"), RecordStream::Client, 5 << 19).unwrap();
    for (path, bytes) in files {
        if !bytes.starts_with(b"\"18x") && !bytes.starts_with(b"\"19x") {
            fs::remove_file(path).unwrap();
        }
    }
    let mut lengths = Vec::new();
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        if page.is_empty() {
            break;
        }
        lengths.extend(page.iter().map(|record| record.json.len()));
    }
    assert_eq!(load.damaged, 0);
    assert_eq!(lengths.iter().filter(|bytes| **bytes > 1 << 20).count(), 2);
    assert_eq!(lengths.len(), 21);
}

#[test]
fn pruning_removes_remains_of_killed_processes_and_frees_their_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut large = create(&store, "large");
    let text = "x".repeat(60_000);
    large.write(&vec![append(&text); 50], NOW).unwrap();
    drop((large, create(&store, "kept")));
    // This is the state after the removal of `large` and the creation of `orphan` were interrupted,
    // while another process creates `held`.
    run(folder.path(), "UPDATE session SET is_whole = 0 WHERE id = 'large'");
    assert!(matches!(store.open(&id("large")), Err(SessionStoreError::UnknownSession(_))));
    let files = |session: &str| folder.path().join("files").join(session);
    for session in ["orphan", "held"] {
        fs::create_dir_all(files(session)).unwrap();
        fs::write(files(session).join("unfinished"), "x").unwrap();
    }
    fs::write(folder.path().join("open/orphan"), "x").unwrap();
    let held = store.0.lock_session(&id("held")).unwrap();
    run(folder.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    let before = fs::metadata(database(folder.path())).unwrap().len();
    let pruned = store.prune(&RetentionPolicy::default(), NOW).unwrap();
    assert_eq!(pruned.sessions, [id("large")]);
    assert!(!files("orphan").exists() && !folder.path().join("open/orphan").exists());
    assert!(files("held").exists());
    drop(held);
    let after = fs::metadata(database(folder.path())).unwrap().len();
    assert!(before > 3_000_000 && after < 500_000, "{before} {after}");
    assert_eq!(texts(&store, "kept").0, ["first"]);
    assert_eq!(store.find_integrity_faults().unwrap(), Vec::<String>::new());
}

#[test]
fn sessions_are_pruned_until_enough_of_the_disk_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let held = create(&store, "held");
    drop(create(&store, "closed"));
    let retention = RetentionPolicy { min_free_bytes: u64::MAX, ..RetentionPolicy::default() };
    let pruned = store.prune(&retention, NOW).unwrap();
    assert_eq!(
        (pruned.sessions, pruned.outcome),
        (vec![id("closed")], crate::PruneCompletion::Held)
    );
    drop(held);
}

#[test]
fn an_interrupted_copy_is_never_listed_and_is_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop(create(&store, "a"));
    // The long record of the session cannot be copied, because a file blocks the path of the folder
    // for it.
    let mut session = store.open(&id("a")).unwrap();
    session.write(&[append(&"x".repeat(100_000))], NOW).unwrap();
    fs::write(folder.path().join("files/b"), "x").unwrap();
    assert!(matches!(
        store.fork(&id("a"), &new("b"), None, NOW),
        Err(SessionStoreError::Unusable { .. })
    ));
    assert!(matches!(store.summary(&id("b")), Err(SessionStoreError::UnknownSession(_))));
    assert_eq!(store.list(&SessionFilter::default()).unwrap().sessions.len(), 1);
    fs::remove_file(folder.path().join("files/b")).unwrap();
    drop(store.prune(&RetentionPolicy::default(), NOW).unwrap());
    drop(store.fork(&id("a"), &new("b"), None, NOW).unwrap());
    assert_eq!(texts(&store, "b"), texts(&store, "a"));
}
