//! The database: how it is opened, and how work is done in transactions.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};

use super::fault::Fault;
use super::files::{make_private, private_file, require_private, sync_folder};
use super::schema;
use crate::error::SessionStoreError;
use crate::limits::{BUSY_PAUSE, BUSY_TIME, CACHE_BYTES, CHECKPOINT_PAGES, LOG_PAGES, STEP_PAGES};

/// A database that is open, by a connection for what is written and one for what is read.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    random: fn() -> u64,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    /// For checkpoints, so that neither of the others waits for them. Opened by the first one.
    syncer: Mutex<Option<Connection>>,
}

impl Database {
    /// Opens the database in a folder, and makes both where they are missing.
    pub(super) fn open(folder: &Path, random: fn() -> u64) -> Result<Self, SessionStoreError> {
        let prepared = make_private(folder).and_then(|()| require_private(folder));
        let failed = |error| SessionStoreError::io(folder, error);
        prepared.map_err(failed)?;
        // The database itself must not be a link, but what leads to it may be.
        let path = folder.canonicalize().map_err(failed)?.join(NAME);
        prepare_file(&path).map_err(|error| SessionStoreError::io(&path, error))?;
        schema::refuse_newer(&path).map_err(|fault| fault.at(&path))?;
        let has_log = log_path(&path).exists();
        let connect = || connect(&path, random).map_err(|fault| fault.at(&path));
        let mut writer = connect()?;
        prepare_while_busy(&mut writer, &path, random)?;
        let reader = connect()?;
        if !has_log {
            // The names of the database and its log survive a power failure, too.
            sync_folder(folder).map_err(failed)?;
        }
        let (writer, reader) = (Mutex::new(writer), Mutex::new(reader));
        Ok(Self { random, writer, reader, syncer: Mutex::default(), path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Does work that changes the database: all of it, or nothing if it fails.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, SessionStoreError> {
        let mut connection = lock(&self.writer);
        let done = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(Fault::from)
            .and_then(|transaction| {
                schema::require_current(&transaction, &self.path)?;
                let done = work(&transaction)?;
                transaction.commit()?;
                Ok(done)
            });
        done.map_err(|fault| fault.at(&self.path))
    }

    /// Reads the database as it is at one time.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, SessionStoreError> {
        self.read_by(&mut lock(&self.reader), work)
    }

    /// Reads it for longer, on another connection, so that no other read waits for that.
    pub(super) fn read_aside<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, SessionStoreError> {
        let connection = connect(&self.path, self.random);
        self.read_by(&mut connection.map_err(|fault| fault.at(&self.path))?, work)
    }

    fn read_by<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, SessionStoreError> {
        let transaction = connection.transaction().map_err(Fault::from);
        let read = transaction.and_then(|transaction| work(&transaction));
        read.map_err(|fault| fault.at(&self.path))
    }

    /// Lets commits survive a power failure. If the log is long, moves it into the database as far as
    /// no reader needs the old pages.
    pub(super) fn sync(&self) -> Result<(), SessionStoreError> {
        let log = log_path(&self.path);
        // Commits that a checkpoint took out of the log are in the database, which SQLite has synced.
        match File::open(&log).and_then(|file| file.sync_data()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionStoreError::io(&log, error))
            }
            _ => self.checkpoint(CHECKPOINT_PAGES),
        }
    }

    /// Moves the log into the database if so many of its pages are not there yet.
    fn checkpoint(&self, least: i64) -> Result<(), SessionStoreError> {
        let moved = self.try_checkpoint(least);
        moved.map_err(|fault| fault.at(&self.path))
    }

    fn try_checkpoint(&self, least: i64) -> Result<(), Fault> {
        let mut syncer = lock(&self.syncer);
        let connection = match &mut *syncer {
            Some(connection) => connection,
            none => none.insert(connect(&self.path, self.random)?),
        };
        let pages = |row: &Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let (logged, moved) = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], pages)?;
        if logged - moved >= least {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], pages)?;
        }
        // Writers seldom leave a moment in which the log could begin anew, and the first process
        // that opens the database reads all of it. Most pages are moved by now, so that the lock of
        // writers is held only for the rest. If a reader prevents that, it is tried again later.
        if logged >= LOG_PAGES {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        Ok(())
    }

    /// Gives the room of what was removed back to the file system, in steps between which others can
    /// write.
    pub(super) fn shrink(&self) -> Result<(), SessionStoreError> {
        let mut free = i64::MAX;
        loop {
            let connection = lock(&self.writer);
            let step = format!("PRAGMA incremental_vacuum({STEP_PAGES})");
            let left = connection.execute_batch(&step).and_then(|()| {
                connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
            });
            drop(connection);
            let left: i64 = left.map_err(|error| Fault::from(error).at(&self.path))?;
            if left == 0 || left >= free {
                // The file ends where it did until then.
                return self.checkpoint(1);
            }
            free = left;
        }
    }
}

/// Returns the path of the write-ahead log.
fn log_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Makes the file where it is missing, so that it is its owner's alone from the first.
fn prepare_file(path: &Path) -> io::Result<()> {
    match private_file(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => require_private(path),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path, random: fn() -> u64) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(move |tries| match pause(tries, random()) {
        Some(pause) => {
            thread::sleep(pause);
            true
        }
        None => false,
    }))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Neither a commit nor the end of a process waits for a disk: see `Database::sync`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    leave_log(&connection)?;
    connection.pragma_update(None, "cache_size", -(CACHE_BYTES / 1024))?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Prepares a database, and retries for [`BUSY_TIME`] while another process does so: SQLite does not
/// call the busy handler when the journal mode changes.
fn prepare_while_busy(
    connection: &mut Connection,
    path: &Path,
    random: fn() -> u64,
) -> Result<(), SessionStoreError> {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        match prepare(connection, path).map_err(|fault| fault.at(path)) {
            Err(SessionStoreError::Busy(_)) if start.elapsed() < BUSY_TIME => {}
            done => return done,
        }
        thread::sleep(pause(tries, random()).unwrap_or(BUSY_PAUSE));
        tries += 1;
    }
}

fn prepare(connection: &mut Connection, path: &Path) -> Result<(), Fault> {
    // Nothing is written to what is not ours.
    if schema::committed_version(connection, path, schema::STEPS)? == 0 {
        // Elsewhere it would only wait for the lock of writers.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let mode = |row: &Row<'_>| row.get::<_, String>(0);
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    if mode != "wal" {
        let error = io::Error::other("its file system has no shared memory between processes");
        return Err(Fault::Store(SessionStoreError::io(path, error)));
    }
    schema::migrate(connection, path, schema::STEPS)
}

/// Lets a connection that is the last one leave the log as it is when it is closed.
fn leave_log(connection: &Connection) -> Result<(), Fault> {
    let option = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    Ok(connection.set_db_config(option, true).map(drop)?)
}

/// Returns how long to wait before another try for a lock of the database, after so many; none
/// after [`BUSY_TIME`] in all. Processes that wait for the same come back at different times.
fn pause(tries: i32, random: u64) -> Option<Duration> {
    let pause = |tries: i32| {
        let millis = 1_u64.checked_shl(tries.unsigned_abs()).unwrap_or(u64::MAX);
        Duration::from_millis(millis).min(BUSY_PAUSE)
    };
    let waited: Duration = (0..tries.clamp(0, 1000)).map(pause).sum();
    // Between half of it and all of it.
    let jittered = pause(tries).mul_f64(0.5 + (random % 512) as f64 / 1024.0);
    (waited < BUSY_TIME).then_some(jittered)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A transaction that was cut off by a panic was rolled back.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const NAME: &str = "sessions.sqlite3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_differ_and_end() {
        let all = |random: u64| (0..).map_while(move |tries| pause(tries, random));
        let sum: Duration = all(511).sum();
        assert!(sum <= BUSY_TIME + BUSY_PAUSE, "{sum:?}");
        assert!(all(0).sum::<Duration>() >= BUSY_TIME / 2);
        assert_eq!(pause(0, 0), Some(Duration::from_micros(500)));
        assert_ne!(pause(9, 1), pause(9, 2));
        assert_eq!(pause(i32::MAX, 1), None);
    }
}
