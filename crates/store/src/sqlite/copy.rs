//! Copies of sessions, made a step at a time so that other processes can write in between.

use acp_types::schema::v1::SessionId;
use rusqlite::{Transaction, params};

use super::fault::Fault;
use super::row::{COLUMNS, RecordRow};
use super::write::{SessionWrite, rows};
use super::{Store, read, remove};
use crate::error::SessionStoreError;
use crate::limits::STEP_RECORDS;
use crate::session::{NewSession, SessionSummary, StoredParts};

/// Copies the first prompts of a session into a new one, whose lock is held, and returns its key.
/// Damaged records are skipped.
pub(super) fn copy(
    store: &Store,
    from: &SessionId,
    into: &NewSession,
    keep: u32,
    now: u64,
) -> Result<i64, SessionStoreError> {
    let key = store.database.write(|transaction| {
        let writing = SessionWrite::create(transaction, into, Some(&from.0), now)?;
        let key = writing.key;
        writing.end()?;
        Ok(key)
    })?;
    // All of it as it is at one time, whatever its holder does meanwhile.
    let copied = store.database.read_aside(|source| {
        let (summary, parts) = (read::summary(source, from)?, read::parts(source, from)?);
        let copying = SessionCopy { store, from, into, key, now };
        copying.records(source, keep)?;
        copying.end(&summary, &parts, keep)?;
        Ok(key)
    });
    if copied.is_err() {
        // If it cannot be removed now, it goes when the store is pruned.
        drop(remove::remove(store, &into.id, key));
    }
    copied
}

struct SessionCopy<'a> {
    store: &'a Store,
    from: &'a SessionId,
    into: &'a NewSession,
    key: i64,
    now: u64,
}

impl SessionCopy<'_> {
    fn records(&self, source: &Transaction<'_>, keep: u32) -> Result<(), Fault> {
        let (first, last) = rows(read::key(source, self.from)?);
        let sql = format!(
            "SELECT {COLUMNS}, json, text FROM record WHERE id BETWEEN ?1 AND ?2 AND prompt <= ?3 \
             ORDER BY id"
        );
        let mut statement = source.prepare(&sql)?;
        let mut rows = statement.query(params![first, last, keep])?;
        let mut step = Vec::new();
        while let Some(row) = rows.next()? {
            if let Ok(Some(record)) = RecordRow::read(row, &self.from.0) {
                let text: Option<String> = row.get(16)?;
                step.push((record, text));
            }
            if step.len() >= STEP_RECORDS {
                self.step(&std::mem::take(&mut step))?;
            }
        }
        self.step(&step)
    }

    fn step(&self, records: &[(RecordRow<'_>, Option<String>)]) -> Result<(), Fault> {
        let files: Vec<_> = records.iter().flat_map(|(record, _)| record.files()).collect();
        self.store.files(&self.into.id).link(&self.store.files(self.from), &files)?;
        let write = |transaction: &Transaction<'_>| {
            let mut writing = SessionWrite::of(transaction, self.key, &self.into.id, self.now)?;
            for (record, text) in records {
                writing.copy(record, text.as_deref())?;
            }
            writing.end().map(drop)
        };
        Ok(self.store.database.write(write)?)
    }

    /// Makes the copy a session like others.
    fn end(&self, summary: &SessionSummary, parts: &StoredParts, keep: u32) -> Result<(), Fault> {
        let write = |transaction: &Transaction<'_>| {
            let mut writing = SessionWrite::of(transaction, self.key, &self.into.id, self.now)?;
            for (name, json) in &parts.parts {
                writing.set_part(name, Some(json))?;
            }
            writing.end()?;
            transaction.execute(
                "UPDATE session SET title = ?2, prompts = ?3, is_whole = 1 WHERE key = ?1",
                params![self.key, summary.title, keep],
            )?;
            Ok(())
        };
        Ok(self.store.database.write(write)?)
    }
}
