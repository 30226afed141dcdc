//! Tests with databases of older and newer versions.

use super::*;
use crate::time::time_from_millis;
use pretty_assertions::assert_eq;

/// A migration step as in a later version.
const NEXT: &str = "ALTER TABLE session ADD COLUMN colour TEXT; UPDATE session SET colour = 'red'";

fn migrate(folder: &Path, steps: &[&str]) -> Result<(), TransactionFault> {
    let path = database(folder);
    schema::migrate_to_newest(&mut Connection::open(&path).unwrap(), &path, steps)
}

fn version(folder: &Path) -> i64 {
    let connection = Connection::open(database(folder)).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Copies the fixture, a database that was written when schema 1 was released.
fn fixture(folder: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-1");
    for (path, bytes) in contents(&from) {
        let to = folder.join(path.strip_prefix(&from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
}

/// Stores data of every kind, at fixed times.
fn fill(store: &SqliteSessionStore) {
    let at = |seconds: u64| time_from_millis(1_700_000_000_000 + seconds * 1000);
    let linked = SessionRecord::new("call", 2, &"x".repeat(70_000)).unwrap().with_subject("c1");
    let mut linked = linked.with_short_form(&"short", vec![b"attached\n"[..].into()]).unwrap();
    // The text is stored in a file of this repository, so it must end with a newline.
    linked.json += "\n";
    let of_model = |text| SessionChange::Append(record(text).with_stream(RecordStream::Model));
    let first = [SessionChange::Prompt(record("Migrate the table")), SessionChange::Fold(linked)];
    let mut session = store.create(&new("parent"), &first, at(1)).unwrap();
    let changes = [
        of_model("forgotten"),
        SessionChange::Append(
            record("summary").with_stream(RecordStream::Model).with_stream_start(),
        ),
        of_model("told"),
        SessionChange::Title("A title".into()),
        SessionChange::Part { name: "rules".into(), json: Some("[1]".into()) },
        SessionChange::Prompt(record("second")),
    ];
    session.write(&changes, at(2)).unwrap();
    drop(store.fork(&id("parent"), &new("fork"), Some(1), at(3)).unwrap());
}

/// Returns everything that can be read from a store.
fn readable_data(store: &SqliteSessionStore) -> Vec<String> {
    let mut data = vec![format!("{:?}", store.list(&SessionFilter::default()).unwrap())];
    for session in ["parent", "fork"].map(id) {
        data.push(format!("{:?}", store.parts(&session).unwrap()));
        data.push(format!("{:?}", store.prompts(&session, 0).unwrap()));
        data.push(format!(
            "{:?}",
            store.attachment(&session, AttachmentId::for_bytes(b"attached\n"))
        ));
        for stream in [RecordStream::Client, RecordStream::Model] {
            for budget in [0, u64::MAX] {
                let mut load = store.begin_load(&session, stream, budget).unwrap();
                data.push(format!("{:?}", store.load_next_records(&mut load).unwrap()));
                assert_eq!(load.damaged, 0);
            }
        }
    }
    let search = SessionSearch { words: "migr".into(), ..SessionSearch::default() };
    data.push(format!("{:?}", store.search(&search).unwrap()));
    data
}

#[test]
fn a_database_of_schema_1_is_read_unchanged_and_can_be_written() {
    let (old, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fixture(old.path());
    let (old, fresh) = (open(old.path()), open(fresh.path()));
    fill(&fresh);
    assert_eq!(readable_data(&old), readable_data(&fresh));
    assert_eq!(old.find_integrity_faults().unwrap(), Vec::<String>::new());
    old.open(&id("parent")).unwrap().write(&[append("x")], NOW).unwrap();
    assert_eq!(texts(&old, "parent").0.len(), 4);
}

/// Writes the fixture of the newest schema. This is needed only for a new version of the schema.
#[test]
#[ignore = "makes the file that the test above reads"]
fn write_fixture() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join(format!("tests/fixtures/schema-{}", schema::STEPS.len()));
    drop(fs::remove_dir_all(&folder));
    fill(&open(&folder));
    run(&folder, "VACUUM");
    drop(fs::remove_dir(folder.join("open")));
}

#[test]
fn a_migration_keeps_a_copy_of_the_old_database() {
    let folder = tempfile::tempdir().unwrap();
    fixture(folder.path());
    let before = readable_data(&open(folder.path()));
    let steps = [schema::STEPS[0], NEXT];
    migrate(folder.path(), &steps).unwrap();
    assert_eq!(version(folder.path()), 2);
    let copy = folder.path().join("sessions.sqlite3.version-1");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // This version refuses the migrated database, and reads the unchanged copy.
    assert!(matches!(try_open(folder.path()), Err(SessionStoreError::Newer { version: 2, .. })));
    let names = ["-wal", "-shm"].map(|end| folder.path().join(format!("sessions.sqlite3{end}")));
    names.iter().for_each(|path| drop(fs::remove_file(path)));
    fs::rename(copy, database(folder.path())).unwrap();
    assert_eq!(readable_data(&open(folder.path())), before);
    // The migration leaves no temporary file.
    assert_eq!(
        fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().contains("version")
            })
            .count(),
        0
    );
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fixture(folder.path());
    let before = readable_data(&open(folder.path()));
    for wrong in ["SELECT nothing", "DELETE FROM record; SELECT nothing"] {
        migrate(folder.path(), &[schema::STEPS[0], wrong]).unwrap_err();
        assert_eq!(version(folder.path()), 1);
        assert_eq!(readable_data(&open(folder.path())), before);
    }
}

#[test]
fn one_of_several_simultaneous_migrations_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    fixture(folder.path());
    let folder = Arc::new(folder);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let folder = folder.clone();
            thread::spawn(move || {
                let path = database(folder.path());
                let mut connection = Connection::open(&path).unwrap();
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
                schema::migrate_to_newest(&mut connection, &path, &[schema::STEPS[0], NEXT])
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    assert_eq!(version(folder.path()), 2);
}

#[test]
fn a_newer_database_is_refused_and_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    drop(create(&open(folder.path()), "a"));
    run(folder.path(), "PRAGMA user_version = 9");
    let before = contents(folder.path());
    let error = try_open(folder.path()).unwrap_err();
    let path = fs::canonicalize(database(folder.path())).unwrap();
    let expected = format!("{} has version 9, and this program knows 1", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn an_open_database_that_becomes_newer_is_no_longer_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut session = create(&store, "a");
    // Only the log contains the new version.
    run(folder.path(), "PRAGMA user_version = 9");
    let error = session.write(&[append("x")], NOW).unwrap_err();
    assert!(matches!(&error, SessionStoreError::Newer { version: 9, .. }), "{error:?}");
    assert!(matches!(try_open(folder.path()), Err(SessionStoreError::Newer { version: 9, .. })));
    assert_eq!(texts(&store, "a").0, ["first"]);
}

#[test]
fn several_threads_can_create_a_store_at_once() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let folder = folder.clone();
            thread::spawn(move || drop(create(&open(folder.path()), &format!("s{number}"))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let store = open(folder.path());
    assert_eq!(store.list(&SessionFilter::default()).unwrap().sessions.len(), 8);
}
