//! The state of a recording: what was recorded last, and the changes that are not in the store yet.

use std::mem;
use std::sync::Arc;
use std::time::SystemTime;

use acp_lifecycle::{ChangedDocument, OutboxItem, SessionDocument, TranscriptFold};
use acp_store::{CommitFuture, SessionChange, SessionRecord, SessionRecorder, SessionStoreError};
use acp_types::SessionStatePart;
use futures::FutureExt as _;
use futures::future::Shared;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::RecordedMessages;
use crate::limits::{MAX_UNSENT_WRITES, MAX_UNSTORED_CHANGES};
use crate::secrets::LiveSecrets;
use crate::stored_sessions::document::document_record;
use crate::stored_sessions::redaction::redact_changes;
use crate::stored_sessions::{OpenedStore, StoredKnownFiles, StoredPermissions, StoredSettings};

/// The state of a recording. Dropping it sends the unsent changes to the store.
pub(super) struct RecordingState {
    pub(super) target: RecordingTarget,
    pub(super) fold: TranscriptFold,
    /// The messages of the model that were recorded last.
    pub(super) messages: RecordedMessages,
    pub(super) settings: StoredSettings,
    /// The settings that were recorded last.
    pub(super) stored_settings: Option<StoredSettings>,
    /// The permission decisions that were recorded last.
    pub(super) stored_permissions: Option<StoredPermissions>,
    /// The files that were recorded last.
    pub(super) stored_files: Option<StoredKnownFiles>,
    /// Number of prompts in the store.
    pub(super) prompts: u32,
    /// The record of the newest prompt.
    pub(super) prompt: Option<SessionRecord>,
    /// Whether the session has a prompt; nothing is recorded before the first prompt.
    pub(super) has_prompt: bool,
    /// Whether the sent items are a replay of records that are already stored.
    pub(super) is_replay: bool,
    /// Whether open documents will be recorded soon: see
    /// [`super::SessionRecording::record_open_documents_soon`].
    pub(super) is_record_scheduled: bool,
    /// Changes that the recorder does not have yet. They are sent when someone waits for their
    /// commit, or after [`UNSENT_CHANGES_TIME`](crate::limits::UNSENT_CHANGES_TIME), so that a call
    /// needs one commit instead of several.
    pub(super) unsent: Vec<Vec<SessionChange>>,
    /// Notified when there are unsent changes, and when the recording is dropped.
    pub(super) has_unsent: Arc<Notify>,
    /// The commit of the last sent changes. The driver and the turn may both wait for it.
    pub(super) last_commit: Option<Shared<CommitFuture>>,
    pub(super) failure: Option<SessionStoreError>,
    pub(super) is_notified: bool,
}

/// Where the changes of a recording go.
pub(super) enum RecordingTarget {
    /// The store is being opened; these changes wait for the store.
    Opening(Vec<(Vec<SessionChange>, SystemTime)>),
    Recorder(SessionRecorder, OpenedStore),
    /// No further changes are recorded.
    Ended,
}

impl RecordingState {
    /// Records an item. Returns whether the delivery of the item must wait for its commit.
    pub(super) fn record_item(&mut self, item: &OutboxItem, secrets: &LiveSecrets) -> bool {
        if matches!(self.target, RecordingTarget::Ended) || !self.has_prompt {
            return false;
        }
        let documents = self.fold.apply(item, Instant::now().into_std());
        let is_final = self.record_documents(documents, secrets);
        is_final || matches!(item, OutboxItem::PromptResponse(_))
    }

    /// Records documents. Returns whether one of them is final.
    pub(super) fn record_documents(
        &mut self,
        documents: Vec<ChangedDocument>,
        secrets: &LiveSecrets,
    ) -> bool {
        if documents.is_empty() {
            return false;
        }
        let secrets = secrets.current();
        let (mut changes, mut is_final) = (Vec::new(), false);
        for ChangedDocument { subject, mut document, is_final: is_whole, .. } in documents {
            is_final |= is_whole;
            redact_changes(&mut document, &secrets);
            if let SessionDocument::State(SessionStatePart::Info(info)) = &document
                && let Some(title) = &info.title
            {
                changes.push(SessionChange::Title(title.clone()));
            }
            let Some(record) = self.value_or_end(document_record(&document)) else { return false };
            changes.push(SessionChange::Fold(record.with_subject(subject)));
        }
        self.queue_changes(changes);
        is_final
    }

    /// Returns whether a record of the open documents must be scheduled, i.e. whether they have
    /// unrecorded changes and no record is scheduled yet. If so, marks a record as scheduled.
    pub(super) fn mark_record_scheduled_if_due(&mut self) -> bool {
        let is_due = !self.is_record_scheduled && self.fold.has_unreturned_changes();
        self.is_record_scheduled |= is_due;
        is_due
    }

    pub(super) fn take_changed_settings(&mut self) -> Option<SessionChange> {
        if self.stored_settings.as_ref() == Some(&self.settings) {
            return None;
        }
        self.stored_settings = Some(self.settings.clone());
        Some(self.settings.to_store_change())
    }

    pub(super) fn queue_changes(&mut self, changes: Vec<SessionChange>) {
        if changes.is_empty() {
            return;
        }
        match &mut self.target {
            RecordingTarget::Opening(waiting) if waiting.len() < MAX_UNSTORED_CHANGES => {
                waiting.push((changes, SystemTime::now()));
            }
            RecordingTarget::Opening(_) => {
                self.end_with_error(&SessionStoreError::QueueFull);
            }
            RecordingTarget::Recorder(..) => {
                self.unsent.push(changes);
                self.has_unsent.notify_one();
                if self.unsent.len() >= MAX_UNSENT_WRITES {
                    drop(self.send_changes());
                }
            }
            RecordingTarget::Ended => {}
        }
    }

    /// Sends the unsent changes to the store. Returns the commit of the last changes.
    pub(super) fn send_changes(&mut self) -> Option<Shared<CommitFuture>> {
        if let RecordingTarget::Recorder(recorder, _) = &self.target
            && !self.unsent.is_empty()
        {
            let commit = recorder.queue_writes(mem::take(&mut self.unsent), SystemTime::now());
            self.last_commit = Some(commit.shared());
        }
        self.last_commit.clone()
    }

    /// Ends the recording after the changes so far. Returns its target.
    pub(super) fn end(&mut self) -> RecordingTarget {
        drop(self.send_changes());
        mem::replace(&mut self.target, RecordingTarget::Ended)
    }

    /// Returns the value. In case of an error, ends the recording and returns `None`.
    pub(super) fn value_or_end<T>(&mut self, made: Result<T, SessionStoreError>) -> Option<T> {
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                self.end_with_error(&error);
                None
            }
        }
    }

    pub(super) fn log_and_set_failure(&mut self, error: &SessionStoreError) {
        tracing::warn!(%error, "the session is not stored");
        self.failure = Some(error.clone());
    }

    /// Ends the recording. Nothing later is recorded, so the stored session is incomplete only at
    /// its end.
    pub(super) fn end_with_error(&mut self, error: &SessionStoreError) {
        drop(self.end());
        self.log_and_set_failure(error);
    }
}

impl Drop for RecordingState {
    fn drop(&mut self) {
        drop(self.send_changes());
        self.has_unsent.notify_one();
    }
}
