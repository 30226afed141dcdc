//! The versions of the database schema, and the migration step from each version to the next.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::fault::TransactionFault;
use super::files::create_private_file;
use crate::error::SessionStoreError;

/// SQL statements of the migration steps. The first step creates version 1 in an empty database,
/// the second step migrates version 1 to version 2, and so on. A released step must never change.
pub(super) const STEPS: &[&str] = &[include_str!("schema.sql")];

/// Application id that marks an SQLite database as a session store: the bytes `ACPs`.
const APPLICATION_ID: i64 = 0x4143_5073;

/// Migrates a database to the newest version. Copies the database first if it has an older version.
pub(super) fn migrate_to_newest(
    connection: &mut Connection,
    path: &Path,
    steps: &[&str],
) -> Result<(), TransactionFault> {
    let known = newest_version(steps);
    if committed_version(connection, path, steps)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated the database in the meantime.
    let version = read_supported_version(&transaction, path, steps)?;
    if version > 0 && version < known {
        back_up_database(path, version)?;
    }
    for step in steps.iter().skip(usize::try_from(version).unwrap_or_default()) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    if version > 0 {
        // After this checkpoint, which waits for no lock, an older program finds the new version in
        // the database itself. If readers prevent the checkpoint, the older program finds the new
        // version in the log.
        drop(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
    }
    Ok(())
}

/// Returns an error if another process has migrated the database to a newer version after this
/// process opened it.
pub(super) fn require_current_version(
    transaction: &Transaction<'_>,
    path: &Path,
) -> Result<(), TransactionFault> {
    let known = newest_version(STEPS);
    let version: i64 = transaction
        .prepare_cached("SELECT user_version FROM pragma_user_version")?
        .query_row([], |row| row.get(0))?;
    match version == known {
        true => Ok(()),
        false => Err(newer_version_error(path, version, known)),
    }
}

/// Returns an error for a database of a newer version. Changes no file. A version that is only in
/// the write-ahead log is not detected.
pub(super) fn refuse_newer_version(path: &Path) -> Result<(), TransactionFault> {
    let Some(name) = path.to_str() else { return Ok(()) };
    let escaped = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    // Other faults are reported later, when the database is opened for use.
    let Ok(connection) = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
    else {
        return Ok(());
    };
    match read_supported_version(&connection, path, STEPS) {
        Err(TransactionFault::Store(error @ SessionStoreError::Newer { .. })) => {
            Err(TransactionFault::Store(error))
        }
        _ => Ok(()),
    }
}

/// Returns the version. Another process may migrate the database directly afterwards.
pub(super) fn committed_version(
    connection: &mut Connection,
    path: &Path,
    steps: &[&str],
) -> Result<i64, TransactionFault> {
    let transaction = connection.transaction()?;
    read_supported_version(&transaction, path, steps)
}

/// Returns the version of a session database, or 0 if the database is empty.
fn read_supported_version(
    connection: &Connection,
    path: &Path,
    steps: &[&str],
) -> Result<i64, TransactionFault> {
    let known = newest_version(steps);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, version) {
        (0, 0) if tables == 0 => Ok(0),
        (APPLICATION_ID, 1..) if version <= known => Ok(version),
        (APPLICATION_ID, _) if version > known => Err(newer_version_error(path, version, known)),
        _ => Err(TransactionFault::damaged_database(path, "it is another program's")),
    }
}

fn newest_version(steps: &[&str]) -> i64 {
    i64::try_from(steps.len()).unwrap_or(i64::MAX)
}

fn newer_version_error(path: &Path, version: i64, known: i64) -> TransactionFault {
    TransactionFault::Store(SessionStoreError::Newer { path: path.to_owned(), version, known })
}

/// Copies the database to a file next to it. The caller must ensure that no other process can
/// change the database in the meantime.
fn back_up_database(path: &Path, version: i64) -> Result<(), TransactionFault> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".version-{version}{end}"));
        PathBuf::from(name)
    };
    let (copy, unfinished) = (beside(""), beside(".unfinished"));
    let failed = |error| TransactionFault::Store(SessionStoreError::from_io(&copy, error));
    drop(fs::remove_file(&unfinished));
    drop(create_private_file(&unfinished).map_err(failed)?);
    // SQLite cannot copy a database within a transaction, so another connection makes the copy.
    // That connection sees the state before the transaction.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.execute("VACUUM INTO ?1", [unfinished.to_str()])?;
    File::open(&unfinished).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(&unfinished, &copy).map_err(failed)
}
