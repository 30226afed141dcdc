//! How long stored sessions are kept, with the undo data and the outputs of all sessions.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use acp_store::{PruneOutcome, PruneReport, RetentionPolicy, SessionStoreError, SessionSummary};
use acp_tools::files::{list_session_files, remove_files_of_session, remove_session_files_before};

use agent_client_protocol::v1::schema::SessionId;

use super::SessionArchive;
use crate::limits::{LONGEST_PRUNE_GAP, PRUNE_INTERVAL, SESSION_BYTES, SESSION_KEEP_TIME};
use crate::private_files::replace_file_atomically;

/// How long and how much is kept of a user's sessions. A session that is open is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRetention {
    /// How long a session is kept after its last update.
    pub keep: Duration,
    /// How many bytes the sessions, their undo data and their outputs may have together. Above, the
    /// oldest are removed, whichever of them it is.
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
    /// Those of the store.
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
        let files = self.state.as_deref().map(list_session_files).unwrap_or_default();
        let old = files.iter().filter(|(modified, _)| *modified < oldest);
        let file_bytes = old.map(|(_, bytes)| bytes).sum();
        Ok(PrunableData { sessions: pruned, file_bytes })
    }

    /// Removes what is too old or too much, oldest first: sessions that no process has open, and
    /// undo data and outputs in the state folder.
    ///
    /// # Errors
    ///
    /// Those of the store. What was removed before stays removed.
    pub fn prune(
        &self,
        retention: SessionRetention,
        now: SystemTime,
    ) -> Result<PrunedData, SessionStoreError> {
        let oldest = self.oldest_kept_time(retention, now)?;
        let state = self.state.as_deref();
        let file_bytes =
            state.map(|state| remove_session_files_before(state, oldest)).unwrap_or_default();
        // `min_free_bytes` is 0: other programs may have filled the disk, and their files stay.
        let mut policy = RetentionPolicy::default();
        policy.keep = Some(now.duration_since(oldest).unwrap_or_default());
        let mut pruned = self.store.prune(&policy, now)?;
        while pruned.outcome == PruneOutcome::More {
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

    /// [Prunes](Self::prune), unless a file in the state folder has a time of less than a day ago.
    ///
    /// Without that file, or after more than [`LONGEST_PRUNE_GAP`], only its time is set: the user is
    /// back after a long time, or the clock is wrong. The next start after a day removes old sessions,
    /// also after another long time.
    pub(crate) fn prune_if_due(&self, retention: SessionRetention, now: SystemTime) {
        let Some(state) = &self.state else { return };
        let mark = state.join(PRUNED_MARK);
        let since = time_since_change(&mark, now);
        if since.is_some_and(|since| since < PRUNE_INTERVAL) {
            return;
        }
        // Before anything is removed: a failure must not repeat at every start.
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

    /// Returns the time before whose updates everything goes: by its age, or because what was updated
    /// later takes all of the bytes.
    fn oldest_kept_time(
        &self,
        retention: SessionRetention,
        now: SystemTime,
    ) -> Result<SystemTime, SessionStoreError> {
        let by_age = now.checked_sub(retention.keep).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut files = self.state.as_deref().map(list_session_files).unwrap_or_default();
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
                // Nothing is removed of the time after now, if the clock was set back.
                None => return Ok((updated + STORED_TIME_UNIT).min(now)),
            }
        }
    }
}

/// Returns how long ago a file was changed. A time in the future does not count, because the clock
/// was set back.
fn time_since_change(mark: &Path, now: SystemTime) -> Option<Duration> {
    let modified = fs::metadata(mark).and_then(|found| found.modified()).ok();
    modified.and_then(|modified| now.duration_since(modified).ok())
}

/// The file in the state folder whose time is that of the last pruning.
const PRUNED_MARK: &str = "pruned";

/// The content of that file if the last start after a long time removed nothing.
const SKIPPED_MARK: &[u8] = b"skipped";

/// The precision of the times of sessions.
const STORED_TIME_UNIT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
