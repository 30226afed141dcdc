//! A store in SQLite. One database and the files next to it contain all sessions of a user.

mod copy;
mod database;
mod fault;
mod files;
mod lock;
mod read;
mod remove;
mod row;
mod schema;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use rusqlite::{OptionalExtension as _, Transaction};

use self::database::SessionDatabase;
use self::fault::TransactionFault;
use self::files::LargeContentFolder;
use self::lock::SessionLock;
use self::write::SessionWrite;
use crate::error::SessionStoreError;
use crate::holder::SessionHolder;
use crate::limits::{HELD_PAUSE, HELD_TRIES, MAX_FAULTS};
use crate::load::SessionLoadProgress;
use crate::record::{self, AttachmentId, RecordStream, SessionChange, StoredRecord};
use crate::retention::{PruneReport, RetentionPolicy};
use crate::search::{SearchHit, SessionSearch};
use crate::session::{
    NewSession, PromptSummary, SessionFilter, SessionPage, SessionSummary, StoredParts,
    require_valid_id,
};
use crate::store::{OpenSession, SessionStore};
use crate::time::millis_since_epoch;

/// Stores sessions in a database that several processes can use at the same time.
#[derive(Debug, Clone)]
pub struct SqliteSessionStore(Arc<SqliteStoreState>);

struct SqliteStoreState {
    database: SessionDatabase,
    /// The folder that contains the large contents of all sessions.
    files: PathBuf,
    /// The folder that contains the lock files of open sessions.
    locks: PathBuf,
    holder: SessionHolder,
    /// Paths of the files that were written since the last sync.
    unsynced: Mutex<Vec<PathBuf>>,
}

impl SqliteSessionStore {
    /// Opens the store in a folder. If the folder is missing, it is created with access for this
    /// user only.
    ///
    /// `holder` describes this process to other processes that want to open its sessions. `random`
    /// returns a random number, so that processes that wait for the same lock retry at different
    /// times.
    ///
    /// # Errors
    ///
    /// Returns [`Newer`](SessionStoreError::Newer), [`Damaged`](SessionStoreError::Damaged),
    /// [`Unusable`](SessionStoreError::Unusable), [`Full`](SessionStoreError::Full) or
    /// [`Busy`](SessionStoreError::Busy).
    pub fn open(
        folder: &Path,
        holder: SessionHolder,
        random: fn() -> u64,
    ) -> Result<Self, SessionStoreError> {
        let database = SessionDatabase::open(folder, random)?;
        let folder = database.path().parent().unwrap_or(folder);
        let (files, locks) = (folder.join("files"), folder.join("open"));
        Ok(Self(Arc::new(SqliteStoreState {
            database,
            files,
            locks,
            holder,
            unsynced: Mutex::default(),
        })))
    }

    /// Checks the whole database, and returns the first faults. For a large database, the check is
    /// slow.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be read at all.
    pub fn find_integrity_faults(&self) -> Result<Vec<String>, SessionStoreError> {
        self.0.database.run_read_transaction(|transaction| {
            let sql = format!("PRAGMA integrity_check({MAX_FAULTS})");
            let mut statement = transaction.prepare(&sql)?;
            let faults = statement.query_map([], |row| row.get::<_, String>(0))?;
            let faults: Vec<_> = faults.collect::<Result<_, _>>()?;
            Ok(if faults == ["ok"] { Vec::new() } else { faults })
        })
    }
}

impl SqliteStoreState {
    fn files_of_session(&self, session: &SessionId) -> LargeContentFolder {
        LargeContentFolder::new(self.files.join(&*session.0))
    }

    fn lock_unsynced_files(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock of a session. If the lock file names no holder, another process holds the
    /// lock only for a moment, so this function waits for the lock.
    fn lock_session(&self, session: &SessionId) -> Result<SessionLock, SessionStoreError> {
        let try_acquire = || SessionLock::try_acquire(&self.locks, session, Some(&self.holder));
        for _ in 0..HELD_TRIES {
            match try_acquire() {
                Err(SessionStoreError::Held { holder: None, .. }) => thread::sleep(HELD_PAUSE),
                acquired => return acquired,
            }
        }
        try_acquire()
    }

    /// Takes the lock of a session that pruning may remove. Does not wait for the lock, and names
    /// no holder in the lock file. Other operations wait until this lock is released.
    fn try_lock_session_without_holder(
        &self,
        session: &SessionId,
    ) -> Result<SessionLock, SessionStoreError> {
        SessionLock::try_acquire(&self.locks, session, None)
    }

    /// Takes the lock of a session that is not stored yet.
    fn lock_new_session(&self, new: &NewSession) -> Result<SessionLock, SessionStoreError> {
        new.check_id_and_folder()?;
        let is_free = self.database.run_read_transaction(|transaction| {
            let sql = "SELECT 1 FROM session WHERE id = ?1";
            Ok(transaction.query_row(sql, [&*new.id.0], |_| Ok(())).optional()?.is_none())
        })?;
        match is_free {
            true => self.lock_session(&new.id),
            false => Err(SessionStoreError::SessionExists(new.id.clone())),
        }
    }

    fn run_session_read_transaction<T>(
        &self,
        session: &SessionId,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, TransactionFault>,
    ) -> Result<T, SessionStoreError> {
        // A session with an invalid id is never stored, so the database is not queried.
        match require_valid_id(session) {
            Ok(()) => self.database.run_read_transaction(work),
            Err(_) => Err(SessionStoreError::UnknownSession(session.clone())),
        }
    }

    /// Changes a session whose lock is held. `work` returns the files to which no record refers
    /// after the change.
    fn write_session_files_and_rows<T>(
        &self,
        session: &SessionId,
        changes: &[SessionChange],
        work: impl FnOnce(&Transaction<'_>) -> Result<(T, Vec<AttachmentId>), TransactionFault>,
    ) -> Result<T, SessionStoreError> {
        let files = self.files_of_session(session);
        let records = changes.iter().filter_map(SessionChange::stored_record);
        // The files are written before the records that refer to them.
        let contents: Vec<_> = records.flat_map(row::contents_for_files).collect();
        let added = files.write_contents(&contents)?;
        self.lock_unsynced_files()
            .extend(contents.iter().map(|(id, _)| files.path_of_contents(*id)));
        let written = self.database.run_write_transaction(work);
        files.remove_contents(written.as_ref().map_or(&added, |(_, unnamed)| unnamed));
        written.map(|(done, _)| done)
    }

    fn find_session_key(&self, session: &SessionId) -> Result<i64, SessionStoreError> {
        self.run_session_read_transaction(session, |transaction| {
            read::find_session_key(transaction, session)
        })
    }
}

impl SessionStore for SqliteSessionStore {
    fn create(
        &self,
        session: &NewSession,
        first: &[SessionChange],
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        record::check_first_changes(first)?;
        let (id, lock) = (session.id.clone(), self.0.lock_new_session(session)?);
        let key = self.0.write_session_files_and_rows(&id, first, |transaction| {
            let mut writing = SessionWrite::insert_incomplete_session(
                transaction,
                session,
                None,
                millis_since_epoch(now),
            )?;
            let key = writing.key;
            writing.apply(first)?;
            let unnamed = writing.update_session_row()?;
            transaction.execute("UPDATE session SET is_whole = 1 WHERE key = ?1", [key])?;
            Ok((key, unnamed))
        })?;
        Ok(Box::new(OpenSqliteSession { store: self.0.clone(), id, key, _lock: lock }))
    }

    fn open(&self, session: &SessionId) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        self.0.find_session_key(session)?;
        let lock = self.0.lock_session(session)?;
        // The session may have been removed before its lock was taken.
        let key = self.0.find_session_key(session)?;
        Ok(Box::new(OpenSqliteSession {
            store: self.0.clone(),
            id: session.clone(),
            key,
            _lock: lock,
        }))
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, SessionStoreError> {
        self.0.run_session_read_transaction(session, |transaction| {
            read::summary(transaction, session)
        })
    }

    fn list(&self, filter: &SessionFilter) -> Result<SessionPage, SessionStoreError> {
        self.0.database.run_read_transaction(|transaction| read::list(transaction, filter))
    }

    fn prompts(
        &self,
        session: &SessionId,
        after: u32,
    ) -> Result<Vec<PromptSummary>, SessionStoreError> {
        self.0.run_session_read_transaction(session, |transaction| {
            read::prompts(transaction, session, after)
        })
    }

    fn parts(&self, session: &SessionId) -> Result<StoredParts, SessionStoreError> {
        self.0
            .run_session_read_transaction(session, |transaction| read::parts(transaction, session))
    }

    fn begin_load(
        &self,
        session: &SessionId,
        stream: RecordStream,
        budget: u64,
    ) -> Result<SessionLoadProgress, SessionStoreError> {
        self.0.run_session_read_transaction(session, |transaction| {
            read::begin_load(transaction, session, stream, budget)
        })
    }

    fn load_next_records(
        &self,
        load: &mut SessionLoadProgress,
    ) -> Result<Vec<StoredRecord>, SessionStoreError> {
        let (session, files) = (load.session.clone(), self.0.files_of_session(&load.session));
        let page = self.0.run_session_read_transaction(&session, |transaction| {
            read::load_next_records(transaction, &files, load)
        })?;
        Ok(page.records)
    }

    fn attachment(
        &self,
        session: &SessionId,
        attachment: AttachmentId,
    ) -> Result<Vec<u8>, SessionStoreError> {
        let unknown = || SessionStoreError::UnknownAttachment(session.clone());
        self.0.find_session_key(session).map_err(|_not_stored| unknown())?;
        self.0.files_of_session(session).read_if_intact(attachment).ok_or_else(unknown)
    }

    fn attachment_file(&self, session: &SessionId, attachment: AttachmentId) -> Option<PathBuf> {
        require_valid_id(session).ok()?;
        let path = self.0.files_of_session(session).path_of_contents(attachment);
        path.is_file().then_some(path)
    }

    fn fork(
        &self,
        from: &SessionId,
        into: &NewSession,
        keep: Option<u32>,
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        let prompts = self.summary(from)?.prompts;
        let keep = keep.unwrap_or(prompts);
        if keep == 0 || keep > prompts {
            return Err(SessionStoreError::UnknownPrompt { session: from.clone(), prompt: keep });
        }
        let lock = self.0.lock_new_session(into)?;
        let key =
            copy::copy_session_up_to_prompt(&self.0, from, into, keep, millis_since_epoch(now))?;
        Ok(Box::new(OpenSqliteSession {
            store: self.0.clone(),
            id: into.id.clone(),
            key,
            _lock: lock,
        }))
    }

    fn delete(&self, session: &SessionId) -> Result<(), SessionStoreError> {
        self.0.find_session_key(session)?;
        let _lock = self.0.lock_session(session)?;
        let key = self.0.find_session_key(session)?;
        remove::remove_session(&self.0, session, key)?;
        self.0.database.sync_and_empty_log()
    }

    fn search(&self, search: &SessionSearch) -> Result<Vec<SearchHit>, SessionStoreError> {
        self.0.database.run_read_transaction(|transaction| read::search(transaction, search))
    }

    fn prune(
        &self,
        retention: &RetentionPolicy,
        now: SystemTime,
    ) -> Result<PruneReport, SessionStoreError> {
        remove::prune_sessions(&self.0, retention, now)
    }

    fn sync(&self) -> Result<(), SessionStoreError> {
        let unsynced = std::mem::take(&mut *self.0.lock_unsynced_files());
        let files = files::sync_all(&unsynced);
        if files.is_err() {
            self.0.lock_unsynced_files().extend(unsynced);
        }
        self.0.database.sync_and_checkpoint().and(files)
    }
}

impl fmt::Debug for SqliteStoreState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Store")
            .field("database", &self.database.path())
            .finish_non_exhaustive()
    }
}

/// An open session of the store.
#[derive(Debug)]
struct OpenSqliteSession {
    store: Arc<SqliteStoreState>,
    id: SessionId,
    key: i64,
    _lock: SessionLock,
}

impl OpenSession for OpenSqliteSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn write(
        &mut self,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError> {
        record::check_changes(changes)?;
        self.store.write_session_files_and_rows(&self.id, changes, |transaction| {
            let mut writing = SessionWrite::begin_write(
                transaction,
                self.key,
                &self.id,
                millis_since_epoch(now),
            )?;
            writing.apply(changes)?;
            Ok(((), writing.update_session_row()?))
        })
    }
}

#[cfg(test)]
mod tests;
