//! Tests with damaged databases and files.

use std::collections::HashMap;

use super::*;
use crate::limits::MAX_FIRST_PAGE_RECORDS;
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
    let heavy = |text: &str| record(text).with_short_form(&"short", vec![]).unwrap();
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
    // A shorter fork contains the damaged records that come before its end.
    drop(store.fork(&id("a"), &new("c"), Some(1), NOW).unwrap());
    assert_eq!(texts(&store, "c"), (vec!["first".to_owned(), "four".to_owned()], 3));
    // Writing a new value for the damaged part repairs it.
    fork.write(&[part("permissions.1")], NOW).unwrap();
    let parts = store.parts(&id("b")).unwrap();
    assert_eq!((parts.parts.len(), parts.damaged), (2, 0));
}

#[test]
fn a_fork_has_no_damaged_record_of_a_later_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let prompt = |text: &str| SessionChange::Prompt(record(text));
    session.write(&[prompt("second"), append("answer"), prompt("third")], NOW).unwrap();
    // The records of the second prompt are damaged, but the prompt number in them is still
    // readable.
    run(folder.path(), "UPDATE record SET kind = 'other' WHERE prompt = 2");
    drop(store.fork(&id("a"), &new("b"), Some(1), NOW).unwrap());
    assert_eq!(texts(&store, "b"), (vec!["first".to_owned()], 0));
    assert_eq!(store.prompts(&id("b"), 0).unwrap().len(), 1);
    let search = SessionSearch { words: "second".into(), ..SessionSearch::default() };
    let hits = store.search(&search).unwrap();
    assert_eq!(hits.iter().map(|hit| &*hit.session.0).collect::<Vec<_>>(), ["a"]);
    // The damaged records are part of a longer fork.
    drop(store.fork(&id("a"), &new("c"), Some(2), NOW).unwrap());
    assert_eq!(texts(&store, "c"), (vec!["first".to_owned()], 2));
    assert_eq!(store.prompts(&id("c"), 0).unwrap().len(), 2);
}

#[test]
fn a_record_with_a_damaged_file_is_returned_in_its_short_form() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let long = |letter: &str| letter.repeat(100_000);
    let heavy = |letter: &str| {
        SessionChange::Append(record(&long(letter)).with_short_form(&"short", vec![]).unwrap())
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
    let page = store.load_next_records(&mut load).unwrap();
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
        while let Ok(page) = store.load_next_records(&mut load) {
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
    let mut original = HashMap::new();
    let mut page_lengths = Vec::new();
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        if page.is_empty() {
            break;
        }
        page_lengths.push(page.len());
        original.extend(page.into_iter().map(|record| (record.seq, record.json)));
    }
    assert_eq!(original.len(), 211);
    // Only the first page is short, so that a client sees something soon.
    assert_eq!(page_lengths[0], MAX_FIRST_PAGE_RECORDS);
    assert!(page_lengths[1] > MAX_FIRST_PAGE_RECORDS, "{page_lengths:?}");
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

/// Closes a store, and returns the numbers of the pages at the lowest level of a table or index.
fn leaf_pages(store: SqliteSessionStore, folder: &Path, name: &str) -> Vec<usize> {
    drop(store);
    run(folder, "PRAGMA wal_checkpoint(TRUNCATE)");
    let connection = Connection::open(database(folder)).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY path";
    let mut statement = connection.prepare(sql).unwrap();
    let pages = statement.query_map([name], |row| row.get::<_, i64>(0)).unwrap();
    pages.map(|page| usize::try_from(page.unwrap()).unwrap()).collect()
}

/// Overwrites pages of the database, and opens the store again.
fn damage(folder: &Path, pages: &[usize]) -> SqliteSessionStore {
    let mut bytes = fs::read(database(folder)).unwrap();
    for page in pages {
        bytes[(page - 1) * 4096..page * 4096].fill(0xff);
    }
    fs::write(database(folder), bytes).unwrap();
    open(folder)
}

#[test]
fn records_before_and_after_a_damaged_page_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let all = texts(&store, "a").0;
    let pages = leaf_pages(store, folder.path(), "record");
    let store = damage(folder.path(), &[pages[pages.len() / 2]]);
    let (left, damaged) = texts(&store, "a");
    assert!(left.len() > all.len() * 8 / 10 && left.len() < all.len(), "{}", left.len());
    assert!(damaged > 0);
    assert_eq!((left.first(), left.last()), (all.first(), all.last()));
}

#[test]
fn prompts_and_hits_beside_a_page_that_is_damaged_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    let prompt = |n: usize| SessionChange::Prompt(record(&format!("{n} {}", "x".repeat(500))));
    session.write(&(0..60).map(prompt).collect::<Vec<_>>(), NOW).unwrap();
    drop(session);
    let pages = leaf_pages(store, folder.path(), "record");
    let store = damage(folder.path(), &[pages[pages.len() / 2]]);
    let prompts = store.prompts(&id("a"), 0).unwrap();
    assert!((40..61).contains(&prompts.len()), "{}", prompts.len());
    assert_eq!(prompts.last().map(|prompt| prompt.number), Some(61));
    let search = SessionSearch { words: "xx".into(), ..SessionSearch::default() };
    let hits = store.search(&search).unwrap();
    assert_eq!(hits.len(), prompts.len() - 1);
    // All intact rows come before prompt 62 and are skipped, so nothing is found.
    assert_eq!(store.prompts(&id("a"), 61).unwrap(), []);
    let search = SessionSearch { cwd: Some("/other".into()), ..search };
    assert_eq!(store.search(&search).unwrap(), []);
}

#[test]
fn a_search_in_one_folder_reads_no_text_of_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop(create(&store, "a"));
    run(folder.path(), "UPDATE record SET text = CAST(x'ff' AS TEXT)");
    let search = |cwd: &str| {
        let cwd = Some(cwd.into());
        store.search(&SessionSearch { words: "first".into(), cwd, ..SessionSearch::default() })
    };
    assert!(matches!(search("/p"), Err(SessionStoreError::Damaged { .. })));
    assert_eq!(search("/other").unwrap(), []);
}

/// Creates a store with a session that has ten parts, each on a separate page.
fn with_parts(folder: &Path) -> SqliteSessionStore {
    let store = open(folder);
    let json = |n: usize| Some(format!("\"{n}{}\"", "x".repeat(3000)));
    let part = |n: usize| SessionChange::Part { name: format!("p{n}"), json: json(n) };
    create(&store, "a").write(&(0..10).map(part).collect::<Vec<_>>(), NOW).unwrap();
    store
}

#[test]
fn parts_beside_a_page_that_is_damaged_are_read_and_those_on_it_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let pages = leaf_pages(with_parts(folder.path()), folder.path(), "part");
    assert_eq!(pages.len(), 10);
    let store = damage(folder.path(), &[pages[2], pages[5]]);
    let parts = store.parts(&id("a")).unwrap();
    assert_eq!((parts.parts.len(), parts.damaged), (8, 2));
    drop(store.fork(&id("a"), &new("b"), None, NOW).unwrap());
    assert_eq!(store.parts(&id("b")).unwrap(), parts);
    assert_eq!(texts(&store, "a").0, ["first"]);
}

#[test]
fn parts_are_read_although_their_index_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let index = "sqlite_autoindex_part_1";
    let pages = leaf_pages(with_parts(folder.path()), folder.path(), index);
    let store = damage(folder.path(), &pages);
    assert_eq!(store.parts(&id("a")).unwrap().parts.len(), 10);
    // If the table is damaged too, the parts may be incomplete.
    let table = leaf_pages(store, folder.path(), "part")[4];
    let parts = damage(folder.path(), &[table]).parts(&id("a")).unwrap();
    assert!(parts.parts.len() < 10 && parts.damaged > 0, "{parts:?}");
}

/// Creates a store with sessions `s100` to `s399`. Every third session is in another folder.
fn with_sessions(folder: &Path) -> SqliteSessionStore {
    let store = open(folder);
    for number in 100..400_u64 {
        let mut new = new(&format!("s{number}"));
        new.folder.cwd = if number.is_multiple_of(3) { "/q".into() } else { "/p".into() };
        let at = NOW + Duration::from_secs(number);
        drop(store.create(&new, &[SessionChange::Prompt(record("first"))], at).unwrap());
    }
    store
}

/// Returns the ids on all pages of a list.
fn listed(store: &SqliteSessionStore, cwd: Option<&str>) -> Vec<String> {
    let mut filter = SessionFilter { cwd: cwd.map(Into::into), cursor: None, limit: Some(30) };
    let mut ids = Vec::new();
    loop {
        let page = store.list(&filter).unwrap();
        ids.extend(page.sessions.iter().map(|session| session.id.to_string()));
        filter.cursor = page.next;
        if filter.cursor.is_none() {
            return ids;
        }
    }
}

#[test]
fn sessions_beside_a_page_that_is_damaged_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_sessions(folder.path());
    let all = listed(&store, None);
    let pages = leaf_pages(store, folder.path(), "session");
    assert!(pages.len() > 4);
    let store = damage(folder.path(), &[pages[1], pages[3]]);
    for cwd in [None, Some("/p")] {
        let left = listed(&store, cwd);
        assert!((150..300).contains(&left.len()), "{}", left.len());
        assert_eq!((left.first(), left.last()), (all.first(), all.last()));
        assert!(left.is_sorted_by(|one, next| one > next));
    }
    // If no session can be read, the list returns an error instead of an empty page.
    drop(store);
    let store = damage(folder.path(), &pages);
    let error = store.list(&SessionFilter::default()).unwrap_err();
    assert!(matches!(error, SessionStoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn sessions_are_listed_although_an_index_of_the_list_is_damaged() {
    for index in ["session_updated", "session_cwd", "session_canonical"] {
        let folder = tempfile::tempdir().unwrap();
        let store = with_sessions(folder.path());
        let cwds = [None, Some("/p"), Some("/q")];
        let all = cwds.map(|cwd| listed(&store, cwd));
        let pages = leaf_pages(store, folder.path(), index);
        let store = damage(folder.path(), &pages[1..]);
        assert_eq!(cwds.map(|cwd| listed(&store, cwd)), all, "{index}");
    }
}
