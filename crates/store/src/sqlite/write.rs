//! Changes one session in one transaction.

use std::collections::BTreeSet;

use callboard_text::{head, path_text};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::fault::TransactionFault;
use super::row::{FieldHasher, RecordRow, record_stream_number, row_id};
use crate::error::{SessionStoreError, too_large_error};
use crate::limits::{MAX_NAME_BYTES, MAX_PARTS, MAX_RECORDS, MAX_SESSION_BYTES, MAX_TITLE_BYTES};
use crate::record::{AttachmentId, SessionChange, SessionRecord};
use crate::session::{NewSession, SessionCwdPaths};

/// A session in a transaction that changes the session.
#[derive(Debug)]
pub(super) struct SessionWrite<'a> {
    transaction: &'a Transaction<'a>,
    pub(super) key: i64,
    id: &'a acp_types::schema::v1::SessionId,
    now: i64,
    updated: i64,
    prompts: u32,
    next: u64,
    bytes: i64,
    /// Ids of the files to which removed records refer.
    released: BTreeSet<AttachmentId>,
}

impl<'a> SessionWrite<'a> {
    /// Adds a session without records and marks it as incomplete.
    pub(super) fn insert_incomplete_session(
        transaction: &'a Transaction<'a>,
        session: &'a NewSession,
        parent: Option<&str>,
        now: u64,
    ) -> Result<Self, TransactionFault> {
        let (now, id) = (now.cast_signed(), &session.id);
        let (cwd, canonical) =
            (path_text(&session.folder.cwd), path_text(&session.folder.canonical));
        let sum = folder_checksum(&id.0, &cwd, &canonical);
        let added = transaction.execute(
            "INSERT OR IGNORE INTO session(id, cwd, canonical, folder_sum, parent, created, \
             updated, prompts, next, bytes, is_whole) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 0, 0, 0, \
             0)",
            params![&*id.0, cwd, canonical, sum, parent, now],
        )?;
        if added == 0 {
            return Err(SessionStoreError::SessionExists(id.clone()).into());
        }
        let key = transaction.last_insert_rowid();
        let released = BTreeSet::new();
        Ok(Self {
            transaction,
            key,
            id,
            now,
            updated: now,
            prompts: 0,
            next: 0,
            bytes: 0,
            released,
        })
    }

    /// Begins to change a stored session.
    pub(super) fn begin_write(
        transaction: &'a Transaction<'a>,
        key: i64,
        id: &'a acp_types::schema::v1::SessionId,
        now: u64,
    ) -> Result<Self, TransactionFault> {
        let read = |row: &Row<'_>| {
            Ok(Self {
                transaction,
                key,
                id,
                now: now.cast_signed(),
                updated: row.get(0)?,
                prompts: row.get(1)?,
                next: row.get::<_, u32>(2)?.into(),
                bytes: row.get(3)?,
                released: BTreeSet::new(),
            })
        };
        let sql = "SELECT updated, prompts, next, bytes FROM session WHERE key = ?1 AND id = ?2";
        let found = transaction.prepare_cached(sql)?.query_row(params![key, &*id.0], read);
        let unknown = || SessionStoreError::UnknownSession(id.clone()).into();
        found.optional()?.ok_or_else(unknown)
    }

    pub(super) fn apply(&mut self, changes: &[SessionChange]) -> Result<(), TransactionFault> {
        for change in changes {
            match change {
                SessionChange::Prompt(record) => {
                    self.prompts += 1;
                    self.insert_record_row(None, true, record)?;
                }
                SessionChange::Append(record) => self.insert_record_row(None, false, record)?,
                SessionChange::Fold(record) => {
                    let place = self.delete_prompt_records_of_subject(record)?;
                    self.insert_record_row(place, false, record)?;
                }
                SessionChange::Title(title) => {
                    let title = head(title, MAX_TITLE_BYTES);
                    self.transaction
                        .prepare_cached("UPDATE session SET title = ?2 WHERE key = ?1")?
                        .execute(params![self.key, title])?;
                }
                SessionChange::Part { name, json } => {
                    self.set_or_remove_part(name, json.as_deref())?;
                }
                SessionChange::Move(folder) => self.set_folder(folder)?,
                SessionChange::Truncate { keep } => self.delete_prompts_after(*keep)?,
            }
        }
        Ok(())
    }

    /// Copies a row of another session.
    pub(super) fn copy_row(
        &mut self,
        row: &RecordRow<'_>,
        text: Option<&str>,
    ) -> Result<(), TransactionFault> {
        row.insert(self.transaction, (self.key, &self.id.0), text)?;
        self.prompts = self.prompts.max(row.prompt);
        self.next = self.next.max(row.seq + 1);
        self.bytes += row.bytes;
        Ok(())
    }

    /// Writes the changes of the session's own row. Returns the files to which no record refers any
    /// more.
    pub(super) fn update_session_row(self) -> Result<Vec<AttachmentId>, TransactionFault> {
        if self.bytes.cast_unsigned() > MAX_SESSION_BYTES {
            let bytes = self.bytes.cast_unsigned();
            return Err(too_large_error("a session", bytes, MAX_SESSION_BYTES).into());
        }
        self.transaction
            .prepare_cached(
                "UPDATE session SET updated = ?2, prompts = ?3, next = ?4, bytes = ?5 \
                 WHERE key = ?1",
            )?
            .execute(params![
                self.key,
                self.updated,
                self.prompts,
                self.next.cast_signed(),
                self.bytes
            ])?;
        self.unreferenced_files()
    }

    fn insert_record_row(
        &mut self,
        place: Option<u64>,
        begins_prompt: bool,
        record: &SessionRecord,
    ) -> Result<(), TransactionFault> {
        if self.prompts == 0 {
            let what = "a record comes before the first prompt";
            return Err(SessionStoreError::Invalid(what).into());
        }
        let seq = place.unwrap_or(self.next);
        // The number of the next record must fit into 32 bits as well.
        if seq + 1 >= MAX_RECORDS {
            return Err(too_large_error("the list of records", seq, MAX_RECORDS).into());
        }
        let at = self.now.cast_unsigned();
        let row = RecordRow::from_record(record, (seq, self.prompts, begins_prompt, at));
        row.insert(self.transaction, (self.key, &self.id.0), record.searchable_text())?;
        self.bytes += row.bytes;
        self.next = self.next.max(seq + 1);
        self.updated = self.updated.max(self.now);
        // The new record refers to these files again.
        for file in row.ids_of_files() {
            self.released.remove(&file);
        }
        Ok(())
    }

    /// Removes the records of this prompt that have the same subject as `record`. Returns the
    /// number of the first removed record.
    fn delete_prompt_records_of_subject(
        &mut self,
        record: &SessionRecord,
    ) -> Result<Option<u64>, TransactionFault> {
        // The search begins at the prompt: other prompts have records of the same subject, and a
        // write must not become slower as the session grows.
        let sql = "DELETE FROM record WHERE id IN (SELECT id FROM record INDEXED BY record_subject \
                   WHERE subject = ?1 AND id BETWEEN (SELECT coalesce(max(id), ?2) FROM record \
                   INDEXED BY record_prompt WHERE begins_prompt = 1 AND id BETWEEN ?2 AND ?3) \
                   AND ?3 AND prompt = ?4 AND stream = ?5 AND begins_prompt = 0) \
                   RETURNING id, bytes, json IS NULL, json_hash, attachments";
        let (first, last) = self.row_id_range();
        let stream = record_stream_number(record.stream);
        let prompt = self.prompts;
        self.delete_records_by_statement(sql, params![record.subject, first, last, prompt, stream])
    }

    fn delete_prompts_after(&mut self, keep: u32) -> Result<(), TransactionFault> {
        if keep > self.prompts {
            let session = self.id.clone();
            return Err(SessionStoreError::UnknownPrompt { session, prompt: keep }.into());
        }
        let sql = "DELETE FROM record WHERE id BETWEEN ?1 AND ?2 AND prompt > ?3 \
                   RETURNING id, bytes, json IS NULL, json_hash, attachments";
        let (first, last) = self.row_id_range();
        self.delete_records_by_statement(sql, params![first, last, keep])?;
        self.prompts = keep;
        self.updated = self.updated.max(self.now);
        Ok(())
    }

    /// Removes rows. Returns the record number of the first removed row.
    fn delete_records_by_statement(
        &mut self,
        sql: &str,
        params: &[&dyn rusqlite::ToSql],
    ) -> Result<Option<u64>, TransactionFault> {
        let mut statement = self.transaction.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut first = None::<u64>;
        while let Some(row) = rows.next()? {
            let seq = row.get::<_, i64>(0)?.cast_unsigned() & u64::from(u32::MAX);
            first = Some(first.map_or(seq, |first| first.min(seq)));
            self.bytes = self.bytes.saturating_sub(row.get(1)?).max(0);
            let attachments: Option<Vec<u8>> = row.get(4)?;
            let attachments = attachments.unwrap_or_default();
            let json: Option<[u8; 32]> = if row.get(2)? { Some(row.get(3)?) } else { None };
            let hashes = attachments.as_chunks().0.iter().copied().chain(json);
            self.released.extend(hashes.map(AttachmentId::from_bytes));
        }
        Ok(first)
    }

    /// Returns the released files to which no record refers any more.
    fn unreferenced_files(mut self) -> Result<Vec<AttachmentId>, TransactionFault> {
        if !self.released.is_empty() {
            let sql = "SELECT json IS NULL, json_hash, attachments FROM record \
                       INDEXED BY record_files WHERE id BETWEEN ?1 AND ?2 \
                       AND (json IS NULL OR attachments IS NOT NULL)";
            let (first, last) = self.row_id_range();
            let mut statement = self.transaction.prepare_cached(sql)?;
            let mut rows = statement.query(params![first, last])?;
            while let Some(row) = rows.next()? {
                let attachments: Option<Vec<u8>> = row.get(2)?;
                let attachments = attachments.unwrap_or_default();
                let json: Option<[u8; 32]> = if row.get(0)? { Some(row.get(1)?) } else { None };
                for hash in attachments.as_chunks().0.iter().copied().chain(json) {
                    self.released.remove(&AttachmentId::from_bytes(hash));
                }
            }
        }
        Ok(self.released.into_iter().collect())
    }

    pub(super) fn set_or_remove_part(
        &mut self,
        name: &str,
        json: Option<&str>,
    ) -> Result<(), TransactionFault> {
        let removed: Option<i64> = self
            .transaction
            .prepare_cached(
                "DELETE FROM part WHERE session = ?1 AND name = ?2 RETURNING length(CAST(json AS \
                 BLOB)) + length(CAST(name AS BLOB))",
            )?
            .query_row(params![self.key, name], |row| row.get(0))
            .optional()?;
        self.bytes = self.bytes.saturating_sub(removed.unwrap_or_default()).max(0);
        let Some(json) = json else { return Ok(()) };
        let count = "SELECT count(*) FROM part WHERE session = ?1";
        let count: isize =
            self.transaction.prepare_cached(count)?.query_row([self.key], |row| row.get(0))?;
        if count >= MAX_PARTS.cast_signed() {
            return Err(SessionStoreError::Invalid("a session has too many parts").into());
        }
        self.transaction
            .prepare_cached("INSERT INTO part(session, name, json, sum) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![self.key, name, json, part_checksum(&self.id.0, name, json)])?;
        self.bytes += i64::try_from(name.len() + json.len()).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Adds a copy of a damaged part of another session. The copy is marked as damaged too. If the
    /// part's name cannot be read, the copy gets a name that is made from `number`.
    pub(super) fn insert_damaged_part(
        &self,
        name: Option<&str>,
        number: usize,
    ) -> Result<(), TransactionFault> {
        // No program can choose this name, because it is too long.
        let unknown = || format!("{number:0width$}", width = MAX_NAME_BYTES + 1);
        // No part matches an empty checksum, so the part is read as damaged.
        let sql = "INSERT OR IGNORE INTO part(session, name, json, sum) VALUES (?1, ?2, '', x'')";
        let name = name.map_or_else(unknown, str::to_owned);
        self.transaction.prepare_cached(sql)?.execute(params![self.key, name])?;
        Ok(())
    }

    fn set_folder(&mut self, folder: &SessionCwdPaths) -> Result<(), TransactionFault> {
        let (cwd, canonical) = (path_text(&folder.cwd), path_text(&folder.canonical));
        let sum = folder_checksum(&self.id.0, &cwd, &canonical);
        self.transaction.execute(
            "UPDATE session SET cwd = ?2, canonical = ?3, folder_sum = ?4 WHERE key = ?1",
            params![self.key, cwd, canonical, sum],
        )?;
        Ok(())
    }

    fn row_id_range(&self) -> (i64, i64) {
        session_row_id_range(self.key)
    }
}

/// Returns the smallest and the largest possible row id of a session's records.
pub(super) fn session_row_id_range(key: i64) -> (i64, i64) {
    (row_id(key, 0), row_id(key, u64::from(u32::MAX)))
}

/// Returns the checksum of a session's folder.
pub(super) fn folder_checksum(session: &str, cwd: &str, canonical: &str) -> [u8; 32] {
    let mut sum = FieldHasher::for_session_id(session);
    sum.add_field(cwd.as_bytes());
    sum.add_field(canonical.as_bytes());
    sum.finish()
}

/// Returns the checksum of a part of a session.
pub(super) fn part_checksum(session: &str, name: &str, json: &str) -> [u8; 32] {
    let mut sum = FieldHasher::for_session_id(session);
    sum.add_field(name.as_bytes());
    sum.add_field(json.as_bytes());
    sum.finish()
}
