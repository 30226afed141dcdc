//! Restores a stored session: its state, and the updates that the client receives again.

use std::time::Duration;

use acp_lifecycle::rules::RuleStoreError;
use acp_lifecycle::{Session, SessionHandle, Timestamp};
use acp_store::{
    OpenSession, RecordStream, SessionChange, SessionCwdPaths, SessionStore, SessionStoreError,
    SessionSummary, StoredRecord,
};
use agent_client_protocol::v1::schema::SessionId;
use tokio_util::sync::CancellationToken;

use super::document::read_document;
use super::{OpenedStore, StoredKnownFiles, StoredPermissions, StoredSettings};
use crate::limits::{HELD_SESSION_PAUSE, HELD_SESSION_TRIES, REPLAY_BYTES};

/// A stored session that this process has opened.
#[derive(Debug)]
pub(crate) struct RestoredSession {
    /// The open session, which holds the session's lock.
    pub(crate) session: Box<dyn OpenSession>,
    pub(crate) settings: StoredSettings,
    pub(crate) permissions: Result<Option<StoredPermissions>, RuleStoreError>,
    pub(crate) known_files: StoredKnownFiles,
    /// Number of prompts.
    pub(crate) prompts: u32,
    /// Number of records and parts that could not be read.
    pub(crate) damaged: u64,
}

impl RestoredSession {
    /// Opens a session that continues in `folder`. This function blocks.
    pub(crate) fn open(
        store: &dyn SessionStore,
        id: &SessionId,
        folder: SessionCwdPaths,
        now: std::time::SystemTime,
    ) -> Result<Self, SessionStoreError> {
        let mut session = open_when_free(HELD_SESSION_PAUSE, || store.open(id))?;
        let parts = store.parts(id)?;
        if store.summary(id)?.folder.as_ref() != Some(&folder) {
            session.write(&[SessionChange::Move(folder)], now)?;
        }
        let SessionSummary { prompts, title, .. } = store.summary(id)?;
        let permissions = StoredPermissions::read(&parts);
        let known_files = StoredKnownFiles::read(&parts);
        let unread = u64::from(permissions.is_err() && parts.damaged == 0);
        let damaged = parts.damaged + unread;
        let mut settings = StoredSettings::read(&parts);
        // The settings are stored at the end of a turn, which the agent may not have reached.
        settings.is_titled |= title.is_some() && prompts > 0;
        if settings.turns < prompts.into() {
            // The settings are damaged, so the number of turns is unknown. Ids of calls contain the
            // number of the turn. Continue with a number that no earlier turn had, so that the ids
            // stay unique.
            settings.turns = UNUSED_TURNS;
        }
        Ok(Self { session, settings, permissions, known_files, prompts, damaged })
    }
}

/// Opens a session with `open`. While a process removes old sessions or determines which sessions
/// to remove, it holds each session for a moment. If the session is held, several further attempts
/// are made.
fn open_when_free<T>(
    pause: Duration,
    mut open: impl FnMut() -> Result<T, SessionStoreError>,
) -> Result<T, SessionStoreError> {
    for _ in 0..HELD_SESSION_TRIES {
        match open() {
            Err(SessionStoreError::Held { .. }) => std::thread::sleep(pause),
            opened => return opened,
        }
    }
    open()
}

/// Sends the stored updates of a session to the client, page by page and only as fast as the client
/// reads. Returns the number of records that could not be read. `has_begun` is cancelled when the
/// first page of updates has been read.
pub(crate) async fn replay(
    opened: &OpenedStore,
    id: &SessionId,
    handle: &SessionHandle,
    has_begun: &CancellationToken,
) -> Result<u64, SessionStoreError> {
    let session = id.clone();
    let begin = move |store: &dyn SessionStore| {
        store.begin_load(&session, RecordStream::Client, REPLAY_BYTES)
    };
    let read_page = async |mut load| {
        let read = move |store: &dyn SessionStore| {
            let page = store.load_next_records(&mut load)?;
            Ok((load, page))
        };
        opened.run(read).await
    };
    let (mut load, mut page) = read_page(opened.run(begin).await?).await?;
    let mut unread = 0;
    has_begun.cancel();
    while !page.is_empty() {
        // Queue the records in parts, so that the first records are sent while the others are
        // queued.
        for part in page.chunks(QUEUED_RECORDS) {
            unread += handle.update(|session, now| replay_page(session, part, now));
        }
        let (next, ()) = tokio::join!(read_page(load), handle.wait_drained());
        (load, page) = next?;
    }
    Ok(load.damaged + unread)
}

/// Queues the documents of a page of records, in their order. Returns the number of records that
/// could not be read.
pub(crate) fn replay_page(session: &mut Session, page: &[StoredRecord], now: Timestamp) -> u64 {
    let mut unread = 0;
    for record in page {
        match read_document(record) {
            Some(document) => session.replay_document(document, now),
            None => unread += 1,
        }
    }
    unread
}

/// Number of records that are queued at once, before the first of them can be sent.
const QUEUED_RECORDS: usize = 8;

/// A number of turns that is larger than the number of turns of any session.
const UNUSED_TURNS: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_held_for_a_moment_is_opened_and_one_that_stays_held_is_refused() {
        let held = || SessionStoreError::Held { session: SessionId::new("s"), holder: None };
        for (held_tries, is_opened) in
            [(0, true), (HELD_SESSION_TRIES, true), (HELD_SESSION_TRIES + 1, false)]
        {
            let mut tries = 0;
            let opened = open_when_free(Duration::ZERO, || {
                tries += 1;
                if tries > held_tries { Ok(()) } else { Err(held()) }
            });
            assert_eq!(opened.is_ok(), is_opened, "{held_tries}");
        }
        // Other errors are not retried.
        let mut tries = 0;
        let refused = open_when_free(Duration::ZERO, || {
            tries += 1;
            Err::<(), _>(SessionStoreError::WriterEnded)
        });
        assert!(refused.is_err() && tries == 1);
    }
}
