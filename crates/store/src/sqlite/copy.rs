//! Copies sessions in small steps, so that other processes can write between two steps.

use acp_types::schema::v1::SessionId;
use rusqlite::{Transaction, params};

use super::fault::TransactionFault;
use super::read::PartRow;
use super::row::{COLUMNS, RecordRow};
use super::write::{SessionWrite, session_row_id_range};
use super::{SqliteStoreState, read, remove};
use crate::error::SessionStoreError;
use crate::limits::STEP_RECORDS;
use crate::session::{NewSession, SessionSummary};

/// Copies the first prompts of a session into a new session, and returns the key of the new
/// session. The caller must hold the lock of the new session. A damaged record of a kept prompt
/// stays damaged in the copy.
pub(super) fn copy_session_up_to_prompt(
    store: &SqliteStoreState,
    from: &SessionId,
    into: &NewSession,
    keep: u32,
    now: u64,
) -> Result<i64, SessionStoreError> {
    let key = store.database.run_write_transaction(|transaction| {
        let writing =
            SessionWrite::insert_incomplete_session(transaction, into, Some(&from.0), now)?;
        let key = writing.key;
        writing.update_session_row()?;
        Ok(key)
    })?;
    // The copy reads one consistent state of the session, even if another process changes it at the
    // same time.
    let copied = store.database.read_on_new_connection(|source| {
        let (summary, parts) = (read::summary(source, from)?, read::part_rows(source, from)?);
        let copying = SessionCopy { store, from, into, key, now };
        copying.copy_records(source, keep)?;
        copying.finish_copy(&summary, &parts, keep)?;
        Ok(key)
    });
    if copied.is_err() {
        // If the incomplete copy cannot be removed now, pruning removes it later.
        drop(remove::remove_session(store, &into.id, key));
    }
    copied
}

struct SessionCopy<'a> {
    store: &'a SqliteStoreState,
    from: &'a SessionId,
    into: &'a NewSession,
    key: i64,
    now: u64,
}

impl SessionCopy<'_> {
    fn copy_records(&self, source: &Transaction<'_>, keep: u32) -> Result<(), TransactionFault> {
        let (first, last) = session_row_id_range(read::find_session_key(source, self.from)?);
        let sql = format!(
            "SELECT {COLUMNS}, json, text FROM record WHERE id BETWEEN ?1 AND ?2 ORDER BY id"
        );
        let mut statement = source.prepare(&sql)?;
        let mut rows = statement.query(params![first, last])?;
        let (mut step, mut doubtful) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let (record, is_intact) = match RecordRow::from_row(row, &self.from.0) {
                Ok(Some(record)) => (record, true),
                _ => (RecordRow::damaged_copy(row)?, false),
            };
            let (is_kept, text) = (record.prompt <= keep, row.get(16).unwrap_or_default());
            match (is_kept, is_intact) {
                // No record of a kept prompt follows.
                (false, true) => break,
                // The prompt number in a damaged record may be wrong. The record belongs to a kept
                // prompt if an intact record of a kept prompt follows.
                (false, false) => doubtful.push((record, text)),
                (true, true) => {
                    step.append(&mut doubtful);
                    step.push((record, text));
                }
                (true, false) => step.push((record, text)),
            }
            if step.len() >= STEP_RECORDS {
                // With the doubtful records, the step may have more than `STEP_RECORDS` records.
                for records in step.chunks(STEP_RECORDS) {
                    self.commit_batch_with_attachments(records)?;
                }
                step.clear();
            }
        }
        self.commit_batch_with_attachments(&step)
    }

    fn commit_batch_with_attachments(
        &self,
        records: &[(RecordRow<'_>, Option<String>)],
    ) -> Result<(), TransactionFault> {
        let files: Vec<_> = records.iter().flat_map(|(record, _)| record.ids_of_files()).collect();
        self.store
            .files_of_session(&self.into.id)
            .link_from_session(&self.store.files_of_session(self.from), &files)?;
        let write = |transaction: &Transaction<'_>| {
            let mut writing =
                SessionWrite::begin_write(transaction, self.key, &self.into.id, self.now)?;
            for (record, text) in records {
                writing.copy_row(record, text.as_deref())?;
            }
            writing.update_session_row().map(drop)
        };
        Ok(self.store.database.run_write_transaction(write)?)
    }

    /// Marks the copy as complete, so that it becomes an ordinary session.
    fn finish_copy(
        &self,
        summary: &SessionSummary,
        parts: &[PartRow],
        keep: u32,
    ) -> Result<(), TransactionFault> {
        let write = |transaction: &Transaction<'_>| {
            let mut writing =
                SessionWrite::begin_write(transaction, self.key, &self.into.id, self.now)?;
            for (number, part) in parts.iter().enumerate() {
                match part {
                    PartRow::Intact(name, json) => writing.set_or_remove_part(name, Some(json))?,
                    PartRow::Damaged(name) => {
                        writing.insert_damaged_part(name.as_deref(), number)?;
                    }
                }
            }
            writing.update_session_row()?;
            transaction.execute(
                "UPDATE session SET title = ?2, prompts = ?3, is_whole = 1 WHERE key = ?1",
                params![self.key, summary.title, keep],
            )?;
            Ok(())
        };
        Ok(self.store.database.run_write_transaction(write)?)
    }
}
