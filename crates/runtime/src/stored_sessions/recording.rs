//! Records one live session. Only [`SessionRecording::commit`] waits for a disk, and only for a
//! limited time.

mod state;

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use acp_lifecycle::ToolUsage;
use acp_lifecycle::limits::OPEN_DOCUMENT_INTERVAL;
use acp_lifecycle::{
    OutboxItem, PromptDocument, Secrets, SessionDocument, SessionHandle, TranscriptFold,
};
use acp_store::{
    CommitFuture, NewSession, OpenSession, PromptSummary, SessionChange, SessionStore,
    SessionStoreError,
};
use acp_types::TurnId;
use agent_client_protocol::v1::schema::{ContentBlock, SessionId};
use callboard_models::ChatMessage;
use futures::FutureExt as _;
use futures::future::Shared;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use ulid::Ulid;

use self::state::{RecordingState, RecordingTarget};
use super::document::document_record;
use super::model_message::{message_record, read_messages, reset_record};
use super::{LazySessionStore, OpenedStore, StoredKnownFiles, StoredPermissions, StoredSettings};
use crate::limits::{
    COMMIT_TIMEOUT, MAX_WRITTEN_MESSAGES, RETRIED_COMMIT_PAUSE, RETRIED_COMMIT_TIMEOUT,
    REWIND_COMMIT_TIMEOUT, UNSENT_CHANGES_TIME,
};
use crate::lock::lock;
use crate::options::ActiveOptions;
use crate::prompt;
use crate::secrets::LiveSecrets;

/// Records a session: its documents when they are delivered, its prompts, and its model's messages.
///
/// A session that cannot be stored continues, and is lost when the process ends. The user is
/// notified once: see [`take_notice`](Self::take_notice).
pub(crate) struct SessionRecording {
    id: SessionId,
    secrets: LiveSecrets,
    state: Mutex<RecordingState>,
    /// Whether opening the store has succeeded or failed.
    is_settled: watch::Sender<bool>,
}

/// The messages of the model that are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordedMessages {
    /// Number of replacements, changes and removals of messages before the last record.
    pub(crate) rewrites: u64,
    pub(crate) count: usize,
}

/// A session after a rewind.
#[derive(Debug)]
pub(crate) struct RewoundSession {
    /// The remaining messages of the model.
    pub(crate) messages: Vec<Arc<ChatMessage>>,
    /// Number of remaining prompts.
    pub(crate) prompts: u32,
}

impl SessionRecording {
    /// Records a new session, which is stored with its first prompt. The store is opened in the
    /// background.
    pub(crate) fn begin_new_session(
        stored: LazySessionStore,
        new: NewSession,
        secrets: LiveSecrets,
    ) -> Arc<Self> {
        let recording = Self::start_with_target(
            (new.id.clone(), secrets),
            RecordingTarget::Opening(Vec::new()),
            StoredSettings::default(),
            false,
        );
        let opening = recording.clone();
        drop(tokio::spawn(async move {
            let opened = stored.open_store_if_needed().await;
            opening.attach_store_or_end(opened, new);
        }));
        recording
    }

    /// Continues to record a restored session.
    pub(crate) fn resume(
        opened: &OpenedStore,
        session: Box<dyn OpenSession>,
        (settings, prompts): (StoredSettings, u32),
        permissions: Option<StoredPermissions>,
        secrets: LiveSecrets,
    ) -> Arc<Self> {
        let id = session.id().clone();
        let recorder = opened.writer.recorder_for_open_session(session);
        let target = RecordingTarget::Recorder(recorder, opened.clone());
        let recording = Self::start_with_target((id, secrets), target, settings, true);
        {
            let mut state = lock(&recording.state);
            (state.stored_permissions, state.prompts) = (permissions, prompts);
        }
        recording.is_settled.send_replace(true);
        recording
    }

    fn start_with_target(
        (id, secrets): (SessionId, LiveSecrets),
        target: RecordingTarget,
        settings: StoredSettings,
        has_prompt: bool,
    ) -> Arc<Self> {
        let has_unsent = Arc::<Notify>::default();
        let state = RecordingState {
            target,
            fold: TranscriptFold::default(),
            messages: RecordedMessages::default(),
            stored_settings: has_prompt.then(|| settings.clone()),
            settings,
            stored_permissions: None,
            stored_files: None,
            prompts: 0,
            prompt: None,
            has_prompt,
            is_replay: false,
            is_record_scheduled: false,
            unsent: Vec::new(),
            has_unsent: has_unsent.clone(),
            last_commit: None,
            failure: None,
            is_notified: false,
        };
        let is_settled = watch::Sender::new(false);
        let recording = Arc::new(Self { id, secrets, state: Mutex::new(state), is_settled });
        drop(tokio::spawn(send_changes_soon(Arc::downgrade(&recording), has_unsent)));
        recording
    }

    fn attach_store_or_end(&self, opened: Result<OpenedStore, SessionStoreError>, new: NewSession) {
        {
            let mut state = lock(&self.state);
            let waiting = std::mem::replace(&mut state.target, RecordingTarget::Ended);
            match (opened, waiting) {
                (Ok(opened), RecordingTarget::Opening(waiting)) => {
                    let recorder = opened.writer.recorder_for_new_session(new);
                    for (changes, at) in waiting {
                        state.last_commit = Some(recorder.queue_changes(changes, at).shared());
                    }
                    state.target = RecordingTarget::Recorder(recorder, opened);
                }
                (Ok(_), other) => state.target = other,
                (Err(error), _) => state.log_and_set_failure(&error),
            }
        }
        self.is_settled.send_replace(true);
    }

    /// Sets whether the sent items are a replay, which is not recorded.
    pub(crate) fn set_paused_for_replay(&self, is_replay: bool) {
        lock(&self.state).is_replay = is_replay;
    }

    /// Returns whether the sent items are a replay.
    pub(crate) fn is_paused_for_replay(&self) -> bool {
        lock(&self.state).is_replay
    }

    /// Records an item that is about to be delivered. The future resolves when the item may be
    /// delivered. If the item completes a document or answers a prompt, it may be delivered after
    /// its commit, otherwise at once.
    pub(crate) fn record_item(
        self: &Arc<Self>,
        item: &OutboxItem,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (is_committed, is_record_due) = {
            let mut state = lock(&self.state);
            let is_committed = !state.is_replay && state.record_item(item, &self.secrets);
            (is_committed, state.mark_record_scheduled_if_due())
        };
        if is_record_due {
            self.record_open_documents_soon();
        }
        let recording = is_committed.then(|| self.clone());
        async move {
            if let Some(recording) = recording {
                recording.commit().await;
            }
        }
    }

    /// Records the open documents after [`OPEN_DOCUMENT_INTERVAL`], which is the longest time for
    /// which a change may be missing in the store. Without this delayed record, the last changes
    /// before a pause would be missing in the store until the pause ends.
    fn record_open_documents_soon(self: &Arc<Self>) {
        let recording = Arc::downgrade(self);
        drop(tokio::spawn(async move {
            sleep(OPEN_DOCUMENT_INTERVAL).await;
            if let Some(recording) = recording.upgrade() {
                recording.record_open_documents();
            }
        }));
    }

    /// Records the current versions of the open documents.
    pub(super) fn record_open_documents(&self) {
        let mut state = lock(&self.state);
        state.is_record_scheduled = false;
        let documents = state.fold.take_changed_documents(Instant::now().into_std());
        state.record_documents(documents, &self.secrets);
    }

    /// Records a prompt; the first prompt also stores the session.
    pub(crate) fn record_prompt(
        &self,
        turn: &TurnId,
        blocks: &[ContentBlock],
        handle: &SessionHandle,
    ) {
        let blocks = blocks.to_vec();
        let blocks = handle.update(|session, _| session.redacted_prompt(blocks));
        let text = prompt::typed_text(&blocks);
        let document = PromptDocument::new(Ulid::generate().to_string(), blocks);
        let record = document_record(&SessionDocument::Prompt(document));
        let mut state = lock(&self.state);
        let Some(record) = state.value_or_end(record) else { return };
        // A message between two turns, such as a notice, belongs to the turn before it.
        let message = state.fold.end_message();
        state.record_documents(message.into_iter().collect(), &self.secrets);
        state.has_prompt = true;
        state.prompts += 1;
        let number = turn.as_str().strip_prefix('t').and_then(|number| number.parse().ok());
        state.settings.turns = number.unwrap_or(state.settings.turns + 1);
        let record = record.with_search_text(text);
        state.prompt = Some(record.clone());
        let mut changes = vec![SessionChange::Prompt(record)];
        changes.extend(state.take_changed_settings());
        state.queue_changes(changes);
        // The first commit of a session is the largest. It takes no time from the reply if it
        // begins before the request to the model.
        drop(state.send_changes());
    }

    /// Sets the messages of the model that are stored already.
    pub(crate) fn set_recorded_messages(&self, recorded: RecordedMessages) {
        lock(&self.state).messages = recorded;
    }

    /// Records the changes of the model's messages since the last call. `rewrites` is how often
    /// messages were replaced, changed or removed so far.
    pub(crate) fn record_messages(
        &self,
        messages: &[Arc<ChatMessage>],
        rewrites: u64,
        secrets: &Secrets,
    ) {
        let mut state = lock(&self.state);
        let recorded = state.messages;
        if !state.has_prompt || recorded == (RecordedMessages { rewrites, count: messages.len() }) {
            return;
        }
        // Messages that were removed, summarised or changed are stored again.
        let (reset, new) = match messages.get(recorded.count..) {
            Some(new) if recorded.rewrites == rewrites => (None, new),
            _ => (Some(reset_record()), messages),
        };
        let records = new.iter().map(|message| message_record(message, secrets));
        let records: Result<Vec<_>, _> = reset.into_iter().chain(records).collect();
        let Some(records) = state.value_or_end(records) else { return };
        state.messages = RecordedMessages { rewrites, count: messages.len() };
        let mut changes: Vec<_> = records.into_iter().map(SessionChange::Append).collect();
        while !changes.is_empty() {
            let rest = changes.split_off(changes.len().min(MAX_WRITTEN_MESSAGES));
            state.queue_changes(std::mem::replace(&mut changes, rest));
        }
    }

    /// Changes the stored settings, if the new settings differ. Returns whether they differ.
    pub(crate) fn record_settings(&self, change: impl FnOnce(&mut StoredSettings)) -> bool {
        let mut state = lock(&self.state);
        change(&mut state.settings);
        let changed = if state.has_prompt { state.take_changed_settings() } else { None };
        let is_changed = changed.is_some();
        state.queue_changes(changed.into_iter().collect());
        is_changed
    }

    /// Stores the chosen options, if they differ from the stored ones. The change is committed
    /// soon, even if no turn follows.
    pub(crate) fn record_options(self: &Arc<Self>, options: &ActiveOptions) {
        if self.record_settings(|settings| settings.set_options(options)) {
            let recording = self.clone();
            drop(tokio::spawn(async move { recording.commit().await }));
        }
    }

    /// Stores the files that the model knows, if they differ from the stored files.
    pub(crate) fn record_known_files(&self, files: StoredKnownFiles) {
        let mut state = lock(&self.state);
        if state.has_prompt && state.stored_files.as_ref() != Some(&files) {
            state.queue_changes(vec![files.to_change()]);
            state.stored_files = Some(files);
        }
    }

    /// Stores the permission decisions, if they differ from the stored decisions.
    pub(crate) fn record_permissions(&self, permissions: StoredPermissions) {
        let mut state = lock(&self.state);
        if state.has_prompt && permissions.must_replace_stored(state.stored_permissions.as_ref()) {
            state.queue_changes(vec![permissions.to_change()]);
            state.stored_permissions = Some(permissions);
        }
    }

    /// Waits until all recorded changes are committed, but at most for the time that a turn may
    /// wait for a disk.
    pub(crate) async fn commit(&self) {
        let begun = Instant::now();
        let mut is_settled = self.is_settled.subscribe();
        let limit = match lock(&self.state).failure {
            Some(_) => RETRIED_COMMIT_TIMEOUT,
            None => COMMIT_TIMEOUT,
        };
        let commit = async {
            // The sender lives as long as this recording, so the wait cannot fail.
            drop(is_settled.wait_for(|is_settled| *is_settled).await);
            let commit = lock(&self.state).send_changes();
            match commit {
                Some(commit) => commit.await.map(|()| true),
                None => Ok(false),
            }
        };
        let committed = timeout(limit, commit).await;
        let mut state = lock(&self.state);
        match committed {
            // If a failure has ended the recording, changes after the failure are not committed, so
            // keep the failure.
            Ok(Ok(true)) if !matches!(state.target, RecordingTarget::Ended) => state.failure = None,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => state.log_and_set_failure(&error),
            Err(_) => {
                let waited = begun.elapsed();
                tracing::warn!(?waited, "a commit of the session takes long");
                state.failure = Some(SessionStoreError::TimedOut);
            }
        }
    }

    /// For each tool, returns the ended calls of the session, as they were recorded last.
    pub(crate) fn recorded_tool_usage(&self) -> Vec<(String, ToolUsage)> {
        lock(&self.state).settings.calls.clone()
    }

    /// Returns the number of prompts in the store.
    pub(crate) fn prompt_count(&self) -> u32 {
        lock(&self.state).prompts
    }

    /// Returns the id of the session.
    pub(crate) fn session_id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the store, if the session is stored.
    pub(crate) fn opened_store(&self) -> Option<OpenedStore> {
        match &lock(&self.state).target {
            RecordingTarget::Recorder(_, opened) => Some(opened.clone()),
            RecordingTarget::Opening(_) | RecordingTarget::Ended => None,
        }
    }

    /// Commits the recorded changes, and returns the store.
    ///
    /// # Errors
    ///
    /// Returns the reason why the session is not stored completely.
    pub(crate) async fn committed_store(&self) -> Result<OpenedStore, SessionStoreError> {
        self.commit().await;
        if let Some(failure) = &lock(&self.state).failure {
            return Err(failure.clone());
        }
        self.opened_store().ok_or(SessionStoreError::WriterEnded)
    }

    /// Lists the prompts of the session, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the session is not stored completely, and errors of the store.
    pub(crate) async fn prompts(&self) -> Result<Vec<PromptSummary>, SessionStoreError> {
        let (opened, id) = (self.committed_store().await?, self.id.clone());
        let list = move |store: &dyn SessionStore| {
            let mut prompts: Vec<PromptSummary> = Vec::new();
            loop {
                let after = prompts.last().map_or(0, |last| last.number);
                let page = store.prompts(&id, after)?;
                if page.is_empty() {
                    return Ok(prompts);
                }
                prompts.extend(page);
            }
        };
        opened.run(list).await
    }

    /// Stores a copy of the first `keep` prompts of the session, and returns its id.
    ///
    /// # Errors
    ///
    /// Returns an error if the session is not stored completely, and errors of the store.
    pub(crate) async fn fork_first_prompts(
        &self,
        keep: u32,
    ) -> Result<SessionId, SessionStoreError> {
        let (opened, from) = (self.committed_store().await?, self.id.clone());
        let fork = move |store: &dyn SessionStore| {
            let folder = store.summary(&from)?.folder;
            let folder = folder.ok_or(SessionStoreError::Invalid("its folder is damaged"))?;
            let new = NewSession::new(new_session_id(), folder);
            store.fork(&from, &new, Some(keep), SystemTime::now()).map(|copy| copy.id().clone())
        };
        opened.run(fork).await
    }

    /// Removes all prompts after the first `keep` prompts. If `is_prompt_kept` is set, the newest
    /// prompt, in which this method is called, is stored again after the kept prompts.
    ///
    /// # Errors
    ///
    /// Returns an error if the session is not stored, and errors of the store. An error ends the
    /// recording, because the stored history and the history of this process may differ.
    pub(crate) async fn rewind(
        &self,
        keep: u32,
        is_prompt_kept: bool,
    ) -> Result<RewoundSession, SessionStoreError> {
        let rewound = self.remove_prompts(keep, is_prompt_kept).await;
        rewound.inspect_err(|error| lock(&self.state).end_with_error(error))
    }

    async fn remove_prompts(
        &self,
        keep: u32,
        is_prompt_kept: bool,
    ) -> Result<RewoundSession, SessionStoreError> {
        let opened = self.opened_store().ok_or(SessionStoreError::WriterEnded)?;
        let commit = {
            let mut state = lock(&self.state);
            let mut changes = vec![SessionChange::Truncate { keep }];
            let prompt = state.prompt.clone().filter(|_| is_prompt_kept);
            state.prompts = keep + u32::from(prompt.is_some());
            state.has_prompt = state.prompts > 0;
            changes.extend(prompt.map(SessionChange::Prompt));
            state.queue_changes(changes);
            state.send_changes()
        };
        let commit = commit.ok_or(SessionStoreError::WriterEnded)?;
        let committed = timeout(REWIND_COMMIT_TIMEOUT, self.wait_for_retried_commit(commit)).await;
        committed.unwrap_or(Err(SessionStoreError::TimedOut))?;
        let id = self.id.clone();
        let (messages, _damaged) = opened.run(move |store| read_messages(store, &id)).await?;
        Ok(RewoundSession { messages, prompts: keep })
    }

    /// Waits for a commit. If the commit fails with a transient error, waits until the store has
    /// retried the commit.
    async fn wait_for_retried_commit(
        &self,
        mut commit: Shared<CommitFuture>,
    ) -> Result<(), SessionStoreError> {
        loop {
            match commit.await {
                Err(error) if error.is_transient() => {
                    sleep(RETRIED_COMMIT_PAUSE).await;
                    let RecordingTarget::Recorder(recorder, _) = &lock(&self.state).target else {
                        return Err(error);
                    };
                    // An empty write is committed together with the failed writes before it, so the
                    // result of its commit is also the result of the retry.
                    commit = recorder.queue_changes(Vec::new(), SystemTime::now()).shared();
                }
                done => return done,
            }
        }
    }

    /// Returns the reason why the session is not stored, as a notice to the user; later calls
    /// return `None`.
    pub(crate) fn take_notice(&self) -> Option<String> {
        let mut state = lock(&self.state);
        let failure = state.failure.clone().filter(|_| !state.is_notified)?;
        state.is_notified = true;
        Some(format!(
            "This session is not stored: {failure}. It goes on, but may be lost when this process \
             ends."
        ))
    }

    /// Ends the recording. When this method returns, other processes can open the session, unless
    /// the store hangs.
    pub(crate) async fn close(&self) {
        self.record_open_documents();
        let target = lock(&self.state).end();
        if let RecordingTarget::Recorder(recorder, opened) = target {
            drop(recorder);
            drop(timeout(COMMIT_TIMEOUT, opened.writer.wait_for_queued_writes()).await);
        }
    }
}

/// Sends the changes of a recording to the store, a short time after the first of them, until the
/// recording is dropped.
async fn send_changes_soon(recording: Weak<SessionRecording>, has_unsent: Arc<Notify>) {
    loop {
        has_unsent.notified().await;
        sleep(UNSENT_CHANGES_TIME).await;
        let Some(recording) = recording.upgrade() else { break };
        drop(lock(&recording.state).send_changes());
    }
}

/// Returns a new id for a session.
pub(crate) fn new_session_id() -> SessionId {
    SessionId::new(format!("{SESSION_ID_PREFIX}{}", Ulid::generate()))
}

/// The beginning of every id that this agent gives a session.
pub(crate) const SESSION_ID_PREFIX: &str = "sess_";

impl fmt::Debug for SessionRecording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionRecording").finish_non_exhaustive()
    }
}
