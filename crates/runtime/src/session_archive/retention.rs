//! Removal of old stored sessions, and of old undo data and outputs of all sessions.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use acp_store::{PruneCompletion, PruneReport, RetentionPolicy, SessionStoreError, SessionSummary};
use acp_tools::files::{
    remove_files_of_session, remove_session_files_before, session_folder_times_and_sizes,
};

use agent_client_protocol::v1::schema::SessionId;

use super::SessionArchive;
use crate::limits::{LONGEST_PRUNE_GAP, PRUNE_INTERVAL, SESSION_BYTES, SESSION_KEEP_TIME};
use crate::private_files::replace_file_atomically;

/// The limits of age and total size for a user's sessions. An open session is never removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRetention {
    /// The time for which a session is kept after its last update.
    pub keep: Duration,
    /// Maximum total number of bytes of the sessions, their undo data and their outputs. If the
    /// total is larger, the oldest of these data are removed, regardless of their kind.
    pub max_bytes: u64,
}

impl SessionRetention {
    /// Creates the limits of age and size.
    #[must_use]
    pub fn new(keep: Duration, max_bytes: u64) -> Self {
        Self { keep, max_bytes }
    }
}

impl Default for SessionRetention {
    fn default() -> Self {
        Self { keep: SESSION_KEEP_TIME, max_bytes: SESSION_BYTES }
    }
}

/// The data that [`SessionArchive::prune`] would remove.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PrunableData {
    /// The sessions, the newest update first.
    pub sessions: Vec<SessionSummary>,
    /// Bytes of undo data and outputs.
    pub file_bytes: u64,
}

/// The data that [`SessionArchive::prune`] removed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PrunedData {
    /// The sessions, the oldest update first.
    pub sessions: Vec<SessionId>,
    /// Approximate bytes of these sessions.
    pub bytes: u64,
    /// Bytes of undo data and outputs.
    pub file_bytes: u64,
}

impl SessionArchive {
    /// Returns the data that [`prune`](Self::prune) would remove now.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    pub fn data_to_prune(
        &self,
        retention: SessionRetention,
        now: SystemTime,
    ) -> Result<PrunableData, SessionStoreError> {
        let oldest = self.oldest_kept_time(retention, now)?;
        let mut pruned = Vec::new();
        for session in self.sessions(None) {
            let session = session?;
            if session.updated >= oldest {
                continue;
            }
            match self.store.open(&session.id) {
                Ok(_is_free) => pruned.push(session),
                Err(SessionStoreError::Held { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let files = self.state.as_deref().map(session_folder_times_and_sizes).unwrap_or_default();
        let old = files.iter().filter(|(modified, _)| *modified < oldest);
        let file_bytes = old.map(|(_, bytes)| bytes).sum();
        Ok(PrunableData { sessions: pruned, file_bytes })
    }

    /// Removes the data that exceed the limits of age or size, oldest first. These data are
    /// sessions that no process has open, and undo data and outputs in the state folder.
    ///
    /// # Errors
    ///
    /// Returns errors of the store. Data that were removed before the error stay removed.
    pub fn prune(
        &self,
        retention: SessionRetention,
        now: SystemTime,
    ) -> Result<PrunedData, SessionStoreError> {
        let oldest = self.oldest_kept_time(retention, now)?;
        let state = self.state.as_deref();
        let file_bytes =
            state.map(|state| remove_session_files_before(state, oldest)).unwrap_or_default();
        // Keep `min_free_bytes` at 0. If other programs have filled the disk, removing sessions
        // would not solve the problem.
        let mut policy = RetentionPolicy::default();
        policy.keep = Some(now.duration_since(oldest).unwrap_or_default());
        let mut pruned = self.store.prune(&policy, now)?;
        while pruned.outcome == PruneCompletion::More {
            let more = self.store.prune(&policy, now)?;
            pruned.sessions.extend(more.sessions);
            pruned.bytes += more.bytes;
            pruned.outcome = more.outcome;
        }
        let PruneReport { sessions, bytes, .. } = pruned;
        if let Some(state) = state {
            sessions.iter().for_each(|session| remove_files_of_session(state, &session.0));
        }
        Ok(PrunedData { sessions, bytes, file_bytes })
    }

    /// [Prunes](Self::prune) at most once a day. The modification time of a file in the state
    /// folder is the time of the last pruning.
    ///
    /// If the file does not exist, or if the last pruning was more than [`LONGEST_PRUNE_GAP`] ago,
    /// this call only sets the time of the file. The reason is that the clock may be wrong, or that
    /// the user may have returned after a long time. A start at least a day later then prunes, even
    /// if more than [`LONGEST_PRUNE_GAP`] has passed again.
    pub(crate) fn prune_if_due(&self, retention: SessionRetention, now: SystemTime) {
        let Some(state) = &self.state else { return };
        let mark = state.join(PRUNED_MARK);
        let since = time_since_file_modified(&mark, now);
        if since.is_some_and(|since| since < PRUNE_INTERVAL) {
            return;
        }
        // Set the time before anything is removed, so that a failing removal is not repeated at
        // every start.
        let was_skipped = fs::read(&mark).is_ok_and(|found| found == SKIPPED_MARK);
        let is_after_gap = since.is_some_and(|since| since > LONGEST_PRUNE_GAP) && !was_skipped;
        let content = if is_after_gap { SKIPPED_MARK } else { b"" };
        let marked = replace_file_atomically(state, &mark, content)
            .and_then(|()| File::options().write(true).open(&mark)?.set_modified(now));
        if let Err(error) = marked {
            return tracing::warn!(%error, "the time of pruning could not be stored");
        }
        if is_after_gap || since.is_none() {
            return;
        }
        match self.prune(retention, now) {
            Ok(pruned) if pruned.sessions.is_empty() => {}
            Ok(PrunedData { sessions, bytes, .. }) => {
                tracing::info!(sessions = sessions.len(), bytes, "old sessions were removed");
            }
            Err(error) => tracing::warn!(%error, "old sessions could not be removed"),
        }
    }

    /// Returns the oldest update time of data that are kept. Older data are not kept: their age
    /// exceeds the maximum, or the newer data already use the maximum number of bytes.
    fn oldest_kept_time(
        &self,
        retention: SessionRetention,
        now: SystemTime,
    ) -> Result<SystemTime, SessionStoreError> {
        let by_age = now.checked_sub(retention.keep).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut files =
            self.state.as_deref().map(session_folder_times_and_sizes).unwrap_or_default();
        files.sort_unstable_by_key(|(modified, _)| *modified);
        let mut left = retention.max_bytes;
        let mut sessions = self.sessions(None).peekable();
        loop {
            let session = match sessions.peek() {
                Some(Ok(session)) => Some((session.updated, session.bytes)),
                Some(Err(error)) => return Err(error.clone()),
                None => None,
            };
            let next = match (session, files.last()) {
                (None, None) => return Ok(by_age),
                (Some(session), Some(file)) if session.0 < file.0 => files.pop(),
                (None, Some(_)) => files.pop(),
                (Some(session), _) => {
                    sessions.next();
                    Some(session)
                }
            };
            let Some((updated, bytes)) = next else { return Ok(by_age) };
            match left.checked_sub(bytes) {
                _ if updated < by_age => return Ok(by_age),
                Some(rest) => left = rest,
                // If the clock was set back, data may have update times in the future. Such data
                // are kept.
                None => return Ok((updated + STORED_TIME_UNIT).min(now)),
            }
        }
    }
}

/// Returns how long ago a file was changed. Returns `None` for a time in the future, which means
/// that the clock was set back.
fn time_since_file_modified(mark: &Path, now: SystemTime) -> Option<Duration> {
    let modified = fs::metadata(mark).and_then(|found| found.modified()).ok();
    modified.and_then(|modified| now.duration_since(modified).ok())
}

/// The file in the state folder whose modification time is the time of the last pruning.
const PRUNED_MARK: &str = "pruned";

/// The content of [`PRUNED_MARK`] if the last pruning was skipped because a long time had passed.
const SKIPPED_MARK: &[u8] = b"skipped";

/// The precision of the times of sessions.
const STORED_TIME_UNIT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
