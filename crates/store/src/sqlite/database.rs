//! Opens the database and runs transactions.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};

use super::fault::TransactionFault;
use super::files::{create_private_file, create_private_folder, restrict_to_owner, sync_folder};
use super::schema;
use crate::error::SessionStoreError;
use crate::limits::{
    BUSY_PAUSE, BUSY_TIME, CACHE_BYTES, CHECKPOINT_PAGES, READER_CACHE_BYTES, STEP_PAGES,
};

/// An open database, with one connection for writes and one for reads.
#[derive(Debug)]
pub(super) struct SessionDatabase {
    path: PathBuf,
    random: fn() -> u64,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    /// A separate connection for checkpoints, so that reads and writes do not wait for a
    /// checkpoint. The first checkpoint opens the connection.
    syncer: Mutex<Option<Connection>>,
    /// Whether the last try to empty the log failed. Removed data may then be left in the log.
    has_removed_data: AtomicBool,
}

impl SessionDatabase {
    /// Opens the database in a folder, and creates the folder and the database if they are missing.
    pub(super) fn open(folder: &Path, random: fn() -> u64) -> Result<Self, SessionStoreError> {
        let prepared = create_private_folder(folder).and_then(|()| restrict_to_owner(folder));
        let failed = |error| SessionStoreError::from_io(folder, error);
        prepared.map_err(failed)?;
        // The database file itself must not be a symbolic link, but its parent folders may be
        // links.
        let path = folder.canonicalize().map_err(failed)?.join(NAME);
        create_private_file_if_missing(&path)
            .map_err(|error| SessionStoreError::from_io(&path, error))?;
        schema::refuse_newer_version(&path).map_err(|fault| fault.into_store_error(&path))?;
        let has_log = log_path(&path).exists();
        let connect =
            || open_connection(&path, random).map_err(|fault| fault.into_store_error(&path));
        let mut writer = connect()?;
        set_up_retrying_while_busy(&mut writer, &path, random)?;
        let reader = connect()?;
        // A load reads each page once, so a large cache would not help.
        let reads = reader.pragma_update(None, "cache_size", -(READER_CACHE_BYTES / 1024));
        reads.map_err(|error| TransactionFault::from(error).into_store_error(&path))?;
        if !has_log {
            // This sync makes the directory entries of the database and its log survive a power
            // failure.
            sync_folder(folder).map_err(failed)?;
        }
        let (writer, reader) = (Mutex::new(writer), Mutex::new(reader));
        let (syncer, has_removed_data) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { path, random, writer, reader, syncer, has_removed_data })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` in a write transaction. If `work` fails, the transaction is rolled back.
    pub(super) fn run_write_transaction<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, TransactionFault>,
    ) -> Result<T, SessionStoreError> {
        let mut connection = lock_connection(&self.writer);
        let done = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(TransactionFault::from)
            .and_then(|transaction| {
                schema::require_current_version(&transaction, &self.path)?;
                let done = work(&transaction)?;
                transaction.commit()?;
                Ok(done)
            });
        done.map_err(|fault| fault.into_store_error(&self.path))
    }

    /// Runs `work` in a read transaction. All reads of `work` see the same state of the database.
    pub(super) fn run_read_transaction<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, TransactionFault>,
    ) -> Result<T, SessionStoreError> {
        self.read_with_connection(&mut lock_connection(&self.reader), work)
    }

    /// Runs a long read on a new connection, so that no other read waits for it.
    pub(super) fn read_on_new_connection<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, TransactionFault>,
    ) -> Result<T, SessionStoreError> {
        let connection = open_connection(&self.path, self.random);
        self.read_with_connection(
            &mut connection.map_err(|fault| fault.into_store_error(&self.path))?,
            work,
        )
    }

    fn read_with_connection<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, TransactionFault>,
    ) -> Result<T, SessionStoreError> {
        let transaction = connection.transaction().map_err(TransactionFault::from);
        let read = transaction.and_then(|transaction| work(&transaction));
        read.map_err(|fault| fault.into_store_error(&self.path))
    }

    /// Syncs the log to the disk, so that commits survive a power failure. If the log is long, its
    /// pages are moved into the database. A page is not moved while a reader still needs the older
    /// version in the database.
    pub(super) fn sync_and_checkpoint(&self) -> Result<(), SessionStoreError> {
        self.sync_log()?;
        match self.has_removed_data.swap(false, Ordering::Relaxed) {
            true => self.empty_log(),
            false => self.checkpoint_long_log(),
        }
    }

    /// Syncs the log after a removal, and empties it, so that no removed data is left in it. If the
    /// log cannot be emptied, the removal has succeeded nevertheless. Each later
    /// [`sync_and_checkpoint`](Self::sync_and_checkpoint) then tries again to empty the log.
    pub(super) fn sync_and_empty_log(&self) -> Result<(), SessionStoreError> {
        self.sync_log()?;
        drop(self.empty_log());
        Ok(())
    }

    fn empty_log(&self) -> Result<(), SessionStoreError> {
        let emptied = self.checkpoint_if_log_has_pages(1);
        if !matches!(emptied, Ok(true)) {
            self.has_removed_data.store(true, Ordering::Relaxed);
        }
        emptied.map(drop)
    }

    /// Moves a long log into the database, and empties the log.
    pub(super) fn checkpoint_long_log(&self) -> Result<(), SessionStoreError> {
        self.checkpoint_if_log_has_pages(CHECKPOINT_PAGES).map(drop)
    }

    fn sync_log(&self) -> Result<(), SessionStoreError> {
        let log = log_path(&self.path);
        // A checkpoint may have moved commits from the log into the database; SQLite has then
        // synced the database.
        match File::open(&log).and_then(|file| file.sync_data()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionStoreError::from_io(&log, error))
            }
            _ => Ok(()),
        }
    }

    /// Moves the log into the database and empties it, if it has at least `long` pages. Returns
    /// whether the log has fewer than `long` pages now.
    fn checkpoint_if_log_has_pages(&self, long: i64) -> Result<bool, SessionStoreError> {
        let moved = self.checkpoint_on_syncer_connection(long);
        moved.map_err(|fault| fault.into_store_error(&self.path))
    }

    fn checkpoint_on_syncer_connection(&self, long: i64) -> Result<bool, TransactionFault> {
        let mut syncer = lock_connection(&self.syncer);
        let connection = match &mut *syncer {
            Some(connection) => connection,
            none => {
                let connection = open_connection(&self.path, self.random)?;
                // The checkpoint does not wait for readers, because writers would have to wait
                // meanwhile.
                connection.busy_timeout(Duration::ZERO)?;
                none.insert(connection)
            }
        };
        let pages = |row: &Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let before = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], pages)?;
        if before.0 < long {
            return Ok(true);
        }
        let after = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], pages)?;
        // SQLite returns negative numbers if another process makes a checkpoint at this time.
        let (logged, moved) = if after.0 < 0 { before } else { after };
        if logged - moved >= CHECKPOINT_PAGES {
            return Ok(false);
        }
        self.truncate_log(connection)
    }

    /// Empties the log, unless readers use it at every try. Returns whether the log is empty. The
    /// log should be short, because the first process that opens the database reads the whole log.
    /// Without this call, SQLite reuses the log from its start only if writers pause, which is
    /// rare.
    ///
    /// Most pages have already been moved into the database. Each try therefore holds the lock of
    /// the writers only while it moves the pages of the last commits. No lock is held between the
    /// tries.
    fn truncate_log(&self, connection: &Connection) -> Result<bool, TransactionFault> {
        let mut tries = 0;
        loop {
            let is_blocked =
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                    row.get::<_, bool>(0)
                })?;
            match busy_retry_pause(tries, (self.random)()) {
                Some(pause) if is_blocked => thread::sleep(pause),
                // The next checkpoint tries again.
                _ => return Ok(!is_blocked),
            }
            tries += 1;
        }
    }

    /// Returns the space of removed data to the file system, in steps, so that other processes can
    /// write in between.
    pub(super) fn release_free_pages(&self) -> Result<(), SessionStoreError> {
        let mut free = i64::MAX;
        loop {
            let connection = lock_connection(&self.writer);
            let step = format!("PRAGMA incremental_vacuum({STEP_PAGES})");
            let left = connection.execute_batch(&step).and_then(|()| {
                connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
            });
            drop(connection);
            let left: i64 =
                left.map_err(|error| TransactionFault::from(error).into_store_error(&self.path))?;
            if left == 0 || left >= free {
                // The database file shrinks only when a checkpoint moves the log into it.
                return self.sync_and_empty_log();
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

/// Creates the file if it is missing. Only the owner can access the file, from its creation on.
fn create_private_file_if_missing(path: &Path) -> io::Result<()> {
    match create_private_file(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => restrict_to_owner(path),
        Err(error) => Err(error),
    }
}

fn open_connection(path: &Path, random: fn() -> u64) -> Result<Connection, TransactionFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(move |tries| match busy_retry_pause(tries, random()) {
        Some(pause) => {
            thread::sleep(pause);
            true
        }
        None => false,
    }))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Without automatic checkpoints, neither a commit nor a dropped store waits for a disk.
    // `SessionDatabase::sync_and_checkpoint` makes the checkpoints instead.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    disable_checkpoint_on_close(&connection)?;
    // Zeros overwrite removed data. With `FAST`, SQLite would not overwrite pages that become free
    // as a whole, and long texts are stored on such pages.
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.pragma_update(None, "cache_size", -(CACHE_BYTES / 1024))?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Prepares a database. If another process prepares the database at the same time, retries for up
/// to [`BUSY_TIME`]. (SQLite does not call the busy handler for a change of the journal mode.)
fn set_up_retrying_while_busy(
    connection: &mut Connection,
    path: &Path,
    random: fn() -> u64,
) -> Result<(), SessionStoreError> {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        match enable_wal_and_migrate(connection, path).map_err(|fault| fault.into_store_error(path))
        {
            Err(SessionStoreError::Busy(_)) if start.elapsed() < BUSY_TIME => {}
            done => return done,
        }
        thread::sleep(busy_retry_pause(tries, random()).unwrap_or(BUSY_PAUSE));
        tries += 1;
    }
}

fn enable_wal_and_migrate(
    connection: &mut Connection,
    path: &Path,
) -> Result<(), TransactionFault> {
    // The version is checked before any write, so that a database of another program is not
    // changed.
    if schema::committed_version(connection, path, schema::STEPS)? == 0 {
        // This setting has an effect only in a new database. In an existing database, the statement
        // would only wait for the writers' lock.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let mode = |row: &Row<'_>| row.get::<_, String>(0);
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    if mode != "wal" {
        let error = io::Error::other("its file system has no shared memory between processes");
        return Err(TransactionFault::Store(SessionStoreError::from_io(path, error)));
    }
    schema::migrate_to_newest(connection, path, schema::STEPS)
}

/// Disables SQLite's checkpoint at the close of the last connection to the database.
fn disable_checkpoint_on_close(connection: &Connection) -> Result<(), TransactionFault> {
    let option = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    Ok(connection.set_db_config(option, true).map(drop)?)
}

/// Returns the pause between try number `tries` to lock the database and the next try. Returns
/// `None` if the pauses so far add up to [`BUSY_TIME`]. A random part of the pause lets processes
/// that wait for the same lock retry at different times.
fn busy_retry_pause(tries: i32, random: u64) -> Option<Duration> {
    let pause = |tries: i32| {
        let millis = 1_u64.checked_shl(tries.unsigned_abs()).unwrap_or(u64::MAX);
        Duration::from_millis(millis).min(BUSY_PAUSE)
    };
    let waited: Duration = (0..tries.clamp(0, 1000)).map(pause).sum();
    // The result lies between half of the pause and the full pause.
    let jittered = pause(tries).mul_f64(0.5 + (random % 512) as f64 / 1024.0);
    (waited < BUSY_TIME).then_some(jittered)
}

fn lock_connection<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // If a panic interrupted a transaction, SQLite has rolled it back.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const NAME: &str = "sessions.sqlite3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_pauses_grow_differ_and_end() {
        let all = |random: u64| (0..).map_while(move |tries| busy_retry_pause(tries, random));
        let sum: Duration = all(511).sum();
        assert!(sum <= BUSY_TIME + BUSY_PAUSE, "{sum:?}");
        assert!(all(0).sum::<Duration>() >= BUSY_TIME / 2);
        assert_eq!(busy_retry_pause(0, 0), Some(Duration::from_micros(500)));
        assert_ne!(busy_retry_pause(9, 1), busy_retry_pause(9, 2));
        assert_eq!(busy_retry_pause(i32::MAX, 1), None);
    }
}
