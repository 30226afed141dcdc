//! Tests with damaged databases and files.

use std::collections::HashMap;

use super::*;
use crate::record::RecordForm;
use pretty_assertions::assert_eq;

/// Creates a store with a session of many records, and moves the whole log into the database.
fn filled(folder: &Path) -> SqliteSessionStore {
    let store = open(folder);
    let mut session = create(&store, "a");
    for prompt in 0..10 {
        let text = |n: usize| append(&format!("{prompt} {n} {}", "x".repeat(n * 50)));
        let mut changes: Vec<_> = (0..20).map(text).collect();
        changes.insert(0, SessionChange::Prompt(record(&prompt.to_string())));
        changes.push(SessionChange::Part { name: format!("p{prompt}"), json: Some("1".into()) });
        session.write(&changes, NOW).unwrap();
    }
    run(folder, "PRAGMA wal_checkpoint(TRUNCATE)");
    store
}

#[test]
fn a_modified_record_is_skipped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let heavy = |text: &str| record(text).with_brief(&"short", vec![]).unwrap();
    let texts_of = ["one", "two", "three", "four"];
    session.write(&texts_of.map(|text| SessionChange::Append(heavy(text))), NOW).unwrap();
    for (seq, change) in [
        (1, "kind = 'other'"),
        // The short form is unchanged.
        (2, "json = '\"2\"'"),
        (3, "prompt = 2"),
        (4, "brief = 1"),
    ] {
        run(folder.path(), &format!("UPDATE record SET {change} WHERE id & 0xffffffff = {seq}"));
    }
    assert_eq!(texts(&store, "a"), (vec!["first".to_owned(), "short".to_owned()], 4));
    // A row that is moved to another session is not returned for that session.
    drop(create(&store, "b"));
    run(folder.path(), "UPDATE OR REPLACE record SET id = (1 << 32) + 4 WHERE id = (2 << 32)");
    assert_eq!(texts(&store, "b"), (vec![], 0));
    assert_eq!(texts(&store, "a").1, 4);
}

#[test]
fn modified_parts_and_folders_are_not_returned() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let part = |name: &str| SessionChange::Part { name: name.into(), json: Some("[]".into()) };
    session.write(&[part("rules"), part("mode")], NOW).unwrap();
    run(folder.path(), "UPDATE part SET json = '[\"allow\"]' WHERE name = 'rules'");
    run(folder.path(), "UPDATE session SET cwd = '/'");
    let parts = store.parts(&id("a")).unwrap();
    assert_eq!(
        (parts.parts.into_keys().collect::<Vec<_>>(), parts.damaged),
        (vec!["mode".to_owned()], 1)
    );
    let summary = store.summary(&id("a")).unwrap();
    assert_eq!((summary.folder, summary.prompts), (None, 1));
    assert_eq!(texts(&store, "a").0, ["first"]);
}

#[test]
fn a_fork_has_the_damaged_parts_and_records_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let part = |name: &str| SessionChange::Part { name: name.into(), json: Some("[1]".into()) };
    session.write(&["one", "two", "three", "four"].map(append), NOW).unwrap();
    session.write(&[part("permissions.1"), part("mode")], NOW).unwrap();
    session.write(&[SessionChange::Prompt(record("second")), append("five")], NOW).unwrap();
    run(folder.path(), "UPDATE part SET json = '[]' WHERE name = 'permissions.1'");
    for (seq, change) in [(1, "kind = 'other'"), (2, "prompt = 9"), (3, "json = '\"3\"'")] {
        run(folder.path(), &format!("UPDATE record SET {change} WHERE id & 0xffffffff = {seq}"));
    }
    let mut fork = store.fork(&id("a"), &new("b"), None, NOW).unwrap();
    assert_eq!(store.parts(&id("b")).unwrap(), store.parts(&id("a")).unwrap());
    assert_eq!(texts(&store, "b"), texts(&store, "a"));
    assert_eq!((store.parts(&id("b")).unwrap().damaged, texts(&store, "b").1), (1, 3));
    // A shorter fork has the damaged records before its end.
    drop(store.fork(&id("a"), &new("c"), Some(1), NOW).unwrap());
    assert_eq!(texts(&store, "c"), (vec!["first".to_owned(), "four".to_owned()], 3));
    // A new value repairs the part.
    fork.write(&[part("permissions.1")], NOW).unwrap();
    let parts = store.parts(&id("b")).unwrap();
    assert_eq!((parts.parts.len(), parts.damaged), (2, 0));
}

#[test]
fn a_record_with_a_damaged_file_is_returned_in_its_short_form() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let long = |letter: &str| letter.repeat(100_000);
    let heavy = |letter: &str| {
        SessionChange::Append(record(&long(letter)).with_brief(&"short", vec![]).unwrap())
    };
    session.write(&[heavy("a"), heavy("b"), append(&long("c"))], NOW).unwrap();
    for (path, bytes) in contents(&folder.path().join("files")) {
        match bytes.get(1) {
            Some(b'a') => fs::remove_file(path).unwrap(),
            Some(b'b') => fs::write(path, long("b")).unwrap(),
            _ => fs::write(path, "").unwrap(),
        }
    }
    let mut load = store.begin_load(&id("a"), RecordStream::Client, u64::MAX).unwrap();
    let page = store.next_page(&mut load).unwrap();
    let forms: Vec<_> = page.iter().map(|record| record.form).collect();
    assert_eq!(forms, [RecordForm::Whole, RecordForm::Brief, RecordForm::Brief]);
    assert_eq!(load.damaged, 3);
    assert!(page[1..].iter().all(|record| record.json == "\"short\""));
}

#[test]
fn garbage_is_not_a_database_and_stays_unchanged() {
    for garbage in [&b"garbage"[..], &[7; 100_000], b"SQLite format 3\0", &[0; 5000]] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(database(folder.path()), garbage).unwrap();
        let error = try_open(folder.path()).unwrap_err();
        assert!(matches!(&error, SessionStoreError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("sessions.sqlite3"), "{error}");
        assert_eq!(fs::read(database(folder.path())).unwrap(), garbage);
    }
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "CREATE TABLE other(x); INSERT INTO other VALUES (1)");
    let before = contents(folder.path());
    let error = try_open(folder.path()).unwrap_err();
    assert!(matches!(&error, SessionStoreError::Damaged { .. }), "{error:?}");
    assert_eq!(contents(folder.path()), before);
}

/// Reads all sessions, and checks that every returned record is unchanged.
fn read_all(folder: &Path, original: &HashMap<u64, String>) -> usize {
    let Ok(store) = try_open(folder) else { return 0 };
    let mut found = 0;
    if let Ok(mut load) = store.begin_load(&id("a"), RecordStream::Client, u64::MAX) {
        while let Ok(page) = store.next_page(&mut load) {
            if page.is_empty() {
                break;
            }
            found += page.len();
            for record in page {
                assert_eq!(original.get(&record.seq), Some(&record.json));
            }
        }
        // If a load did not count the missing records, a check of the whole database must find the
        // damage.
        let is_noticed = || {
            load.damaged > 0
                || store.find_integrity_faults().map_or(true, |found| !found.is_empty())
        };
        assert!(found == original.len() || is_noticed());
    }
    if let Ok(parts) = store.parts(&id("a")) {
        assert!(parts.parts.values().all(|json| json == "1"));
    }
    // None of these calls may panic or hang.
    drop((store.list(&SessionFilter::default()), store.prompts(&id("a"), 0)));
    drop(store.search(&SessionSearch { words: "x 3".into(), ..SessionSearch::default() }));
    let written = store.open(&id("a")).map(|mut session| {
        drop(session.write(&[append("x"), SessionChange::Truncate { keep: 1 }], NOW));
    });
    drop((
        written,
        store.sync(),
        store.delete(&id("a")),
        store.prune(&RetentionPolicy::default(), NOW),
    ));
    found
}

/// A simple deterministic number generator, so that a failure can be repeated.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn records_of_a_damaged_database_are_returned_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let mut load = store.begin_load(&id("a"), RecordStream::Client, u64::MAX).unwrap();
    let page = store.next_page(&mut load).unwrap();
    let original: HashMap<_, _> =
        page.iter().map(|record| (record.seq, record.json.clone())).collect();
    assert_eq!(original.len(), 211);
    drop(store);
    let intact = fs::read(database(folder.path())).unwrap();
    let mut total = 0;
    for seed in 0..150 {
        let mut random = numbers(seed);
        let mut bytes = intact.clone();
        let len = bytes.len() as u64;
        match seed % 3 {
            // The end of the file is missing, and the new end is in the middle of a page.
            0 => bytes.truncate((len - 2048 - 4096 * random(len / 8192)) as usize),
            // One page is garbage. It is never the first page, because a file without a valid first
            // page is not a database.
            1 => {
                let at = 4096 * (1 + random(len / 4096 - 1)) as usize;
                bytes[at..at + 4096].iter_mut().for_each(|byte| *byte = random(256) as u8);
            }
            _ => {
                for _ in 0..20 {
                    bytes[random(len) as usize] ^= 1 << random(8);
                }
            }
        }
        let damaged = tempfile::tempdir().unwrap();
        fs::write(database(damaged.path()), bytes).unwrap();
        total += read_all(damaged.path(), &original);
    }
    // In all runs together, most records are still readable.
    assert!(total > 150 * 211 / 2, "{total}");
}

#[test]
fn records_before_and_after_a_damaged_page_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let all = texts(&store, "a").0;
    drop(store);
    // Number of the page that holds the middle of the table of records.
    let connection = Connection::open(database(folder.path())).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = 'record' AND pagetype = 'leaf' ORDER BY path";
    let pages: Vec<u64> = {
        let mut statement = connection.prepare(sql).unwrap();
        statement
            .query_map([], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    drop(connection);
    let mut bytes = fs::read(database(folder.path())).unwrap();
    let at = (pages[pages.len() / 2] - 1) as usize * 4096;
    bytes[at..at + 4096].fill(0xff);
    fs::write(database(folder.path()), bytes).unwrap();
    let (left, damaged) = texts(&open(folder.path()), "a");
    assert!(left.len() > all.len() * 8 / 10 && left.len() < all.len(), "{}", left.len());
    assert!(damaged > 0);
    assert_eq!((left.first(), left.last()), (all.first(), all.last()));
}
