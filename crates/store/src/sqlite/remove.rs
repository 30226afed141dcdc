//! Removes sessions: a session by its id, sessions beyond the limits of age and size, and
//! incomplete sessions of killed processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use rusqlite::{OptionalExtension as _, params};

use super::SqliteStoreState;
use super::files::free_disk_bytes;
use super::write::session_row_id_range;
use crate::error::SessionStoreError;
use crate::limits::{MAX_PRUNED, STEP_RECORDS};
use crate::retention::{PruneBudget, PruneCompletion, PruneReport, RetentionPolicy};
use crate::session::is_valid_session_id;
use crate::time::time_from_millis;

/// Removes a session whose lock is held. If the removal is interrupted, pruning removes the rest
/// later.
pub(super) fn remove_session(
    store: &SqliteStoreState,
    session: &SessionId,
    key: i64,
) -> Result<(), SessionStoreError> {
    store.database.run_write_transaction(|transaction| {
        transaction.execute("UPDATE session SET is_whole = 0 WHERE key = ?1", [key])?;
        Ok(())
    })?;
    store.files_of_session(session).remove_all_contents()?;
    let (first, last) = session_row_id_range(key);
    let sql = "DELETE FROM record WHERE id IN \
               (SELECT id FROM record WHERE id BETWEEN ?1 AND ?2 LIMIT ?3)";
    let step = STEP_RECORDS.cast_signed();
    while store.database.run_write_transaction(|transaction| {
        Ok(transaction.prepare_cached(sql)?.execute(params![first, last, step])?)
    })? > 0
    {
        // Each step writes zeros over its records, and the zeros are written to the log first.
        // Without this call, the log would become as long as the session was. If the log cannot be
        // moved into the database now, it is moved later.
        drop(store.database.checkpoint_long_log());
    }
    store.database.run_write_transaction(|transaction| {
        transaction.execute("DELETE FROM part WHERE session = ?1", [key])?;
        transaction.execute("DELETE FROM session WHERE key = ?1", [key])?;
        Ok(())
    })
}

/// A session that pruning may remove.
struct PruneCandidate {
    key: i64,
    /// Whether the session is listed, i.e. whether it is complete and has a prompt.
    is_listed: bool,
    updated: i64,
    id: String,
    bytes: u64,
}

pub(super) fn prune_sessions(
    store: &SqliteStoreState,
    retention: &RetentionPolicy,
    now: SystemTime,
) -> Result<PruneReport, SessionStoreError> {
    remove_leftover_files_and_locks(store)?;
    let bytes = store.database.run_read_transaction(|transaction| {
        let sql = "SELECT coalesce(sum(bytes), 0) FROM session";
        Ok(transaction.query_row(sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned())
    })?;
    let free = store.database.path().parent().and_then(free_disk_bytes);
    let mut pruning = PruneBudget::new(retention, now, bytes, free);
    let mut pruned = PruneReport::default();
    let mut before = None;
    pruned.outcome = 'all: loop {
        let next = next_prune_candidates(store, before.as_ref())?;
        if next.is_empty() {
            break if pruning.has_surplus_bytes() {
                PruneCompletion::Held
            } else {
                PruneCompletion::Done
            };
        }
        for candidate in next {
            let updated = time_from_millis(candidate.updated.cast_unsigned());
            if candidate.is_listed && !pruning.should_prune(updated) {
                break 'all PruneCompletion::Done;
            }
            if pruned.sessions.len() == MAX_PRUNED {
                break 'all PruneCompletion::More;
            }
            if remove_unless_open_or_changed(store, &candidate)? {
                pruning.subtract_pruned_bytes(candidate.bytes);
                pruned.bytes += candidate.bytes;
                pruned.sessions.push(SessionId::new(candidate.id.as_str()));
            }
            before = Some(candidate);
        }
    };
    if !pruned.sessions.is_empty() {
        store.database.release_free_pages()?;
    }
    Ok(pruned)
}

/// Returns the sessions after `before` in the order of removal: sessions that are not listed come
/// first, and then the oldest sessions.
fn next_prune_candidates(
    store: &SqliteStoreState,
    before: Option<&PruneCandidate>,
) -> Result<Vec<PruneCandidate>, SessionStoreError> {
    let (is_listed, updated, id) = before
        .map_or((false, -1, ""), |before| (before.is_listed, before.updated, before.id.as_str()));
    store.database.run_read_transaction(|transaction| {
        let mut statement = transaction.prepare_cached(
            "SELECT key, is_listed, updated, id, bytes FROM \
             (SELECT *, is_whole = 1 AND prompts > 0 AS is_listed FROM session) \
             WHERE (is_listed, updated, id) > (?1, ?2, ?3) \
             ORDER BY is_listed, updated, id LIMIT ?4",
        )?;
        let limit = MAX_PRUNED.cast_signed();
        let found = statement.query_map(params![is_listed, updated, id, limit], |row| {
            Ok(PruneCandidate {
                key: row.get(0)?,
                is_listed: row.get(1)?,
                updated: row.get(2)?,
                id: row.get(3)?,
                bytes: row.get::<_, i64>(4)?.cast_unsigned(),
            })
        });
        let found = found?.collect::<Result<_, _>>();
        Ok(found?)
    })
}

/// Removes a session, unless the session is open or was changed after it was selected. Returns
/// whether the session was removed.
fn remove_unless_open_or_changed(
    store: &SqliteStoreState,
    candidate: &PruneCandidate,
) -> Result<bool, SessionStoreError> {
    let id = SessionId::new(candidate.id.as_str());
    let _lock = match store.try_lock_session_without_holder(&id) {
        Ok(lock) => lock,
        Err(SessionStoreError::Held { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_same = store.database.run_read_transaction(|transaction| {
        let sql = "SELECT 1 FROM session WHERE key = ?1 AND id = ?2 AND updated = ?3 \
                   AND (is_whole = 1 AND prompts > 0) = ?4";
        let PruneCandidate { key, is_listed, updated, .. } = candidate;
        let found = transaction
            .query_row(sql, params![key, candidate.id, updated, is_listed], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    })?;
    if is_same {
        remove_session(store, &id, candidate.key)?;
    }
    Ok(is_same)
}

/// Removes the files and locks of sessions that are not stored. A process that is killed shortly
/// before or after a commit can leave such files.
fn remove_leftover_files_and_locks(store: &SqliteStoreState) -> Result<(), SessionStoreError> {
    let named: BTreeSet<_> = session_ids_from_file_names(&store.files)
        .chain(session_ids_from_file_names(&store.locks))
        .collect();
    for name in named {
        let id = SessionId::new(name.as_str());
        // A process that creates a session takes the session's lock first.
        let Ok(_lock) = store.try_lock_session_without_holder(&id) else { continue };
        let is_stored = store.database.run_read_transaction(|transaction| {
            let sql = "SELECT 1 FROM session WHERE id = ?1";
            Ok(transaction
                .prepare_cached(sql)?
                .query_row([&name], |_| Ok(()))
                .optional()?
                .is_some())
        })?;
        if !is_stored {
            store.files_of_session(&id).remove_all_contents()?;
        }
    }
    Ok(())
}

/// Returns the file names in a folder that are session ids.
fn session_ids_from_file_names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_valid_session_id(name))
}
