//! Goes back to a prompt: restores both the files and the history of the session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::{Effect, Effects, SessionDocument, SessionHandle, Verdict};
use acp_store::{PromptSummary, RecordStream, SessionStoreError};
use acp_tools::files::rewind::{KeptFile, RewindPlan};
use acp_tools::{ErrorCode, Note, ToolError, Workspace};
use acp_types::{
    CallEndReason, Content, FileChange, FileChangeOperation, Plan, ToolCallReport, ToolKind,
};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::SessionId;
use callboard_text::path_text;
use tokio::task::spawn_blocking;

use crate::context::ImplicitReadChecker;
use crate::errors;
use crate::limits::{MAX_NAMED_PATHS, MAX_REWIND_DOCUMENTS};
use crate::options::SessionOptions;
use crate::stored_sessions::{RewoundSession, SessionRecording, read_document};

mod request;
mod tool;

pub(crate) use request::{REWIND_METHOD, RewindSessionRequest, RewindSessionResponse};
pub(crate) use tool::RewindCommandTool;

/// The rewinds of one stored session.
#[derive(Clone)]
pub(crate) struct SessionRewind {
    workspace: Arc<Workspace>,
    recording: Arc<SessionRecording>,
    /// Number of prompts that the session had in earlier processes.
    earlier_prompts: u32,
    /// Locked while a rewind changes files and history. Contains the outcome of the last rewind,
    /// until [`SessionRewind::take_finished`] takes the outcome.
    finished: Arc<tokio::sync::Mutex<Option<FinishedRewind>>>,
}

/// The outcome of a rewind. The session needs it to continue after the rewind.
#[derive(Debug)]
pub(crate) struct FinishedRewind {
    /// The message for the chat, or the error.
    pub(crate) report: Result<String, String>,
    /// The remaining history. `None` if the history did not change.
    pub(crate) rewound: Option<RewoundSession>,
    /// The plan that the client should show. `None` if the plan is the same as before.
    pub(crate) plan: Option<Plan>,
}

/// The files that a rewind would change, and the files that it would keep.
#[derive(Debug)]
pub(crate) struct SessionRewindPlan {
    prompt: u32,
    files: RewindPlan,
    kept: Vec<KeptFile>,
    /// Titles of the removed commands that ran in the background, or that the end of the agent
    /// interrupted. Their changes are not recorded.
    unrecorded: Vec<String>,
}

impl SessionRewind {
    /// Creates the rewinds of a session that had `earlier_prompts` prompts in earlier processes.
    pub(crate) fn new(
        workspace: Arc<Workspace>,
        recording: Arc<SessionRecording>,
        earlier_prompts: u32,
    ) -> Self {
        Self { workspace, recording, earlier_prompts, finished: Arc::default() }
    }

    /// Lists the prompts of the session.
    pub(crate) async fn prompts(&self) -> Result<Vec<PromptSummary>, SessionStoreError> {
        self.recording.prompts().await
    }

    /// Returns the changes that a rewind to the state before a prompt would make.
    pub(crate) async fn plan(&self, prompt: u32) -> Result<SessionRewindPlan, ToolError> {
        let (files, first) = self.plan_file_restoration(prompt).await?;
        let mut kept = files.kept().to_vec();
        // Earlier prompts have no undo data, because these data were removed or belong to another
        // session or folder.
        let without_undo = first.map_or(u32::MAX, |first| first.saturating_sub(1));
        let last_without_undo = without_undo.min(self.earlier_prompts);
        if prompt <= last_without_undo {
            let changed = self.changed_paths(prompt, last_without_undo).await?;
            let known: BTreeSet<_> = files.paths().map(Path::to_owned).collect();
            kept.extend(changed.difference(&known).map(|path| KeptFile::without_backup(path)));
        }
        // A session with too many documents can go back all the same.
        let unrecorded = self.unrecorded_commands(prompt).await.unwrap_or_default();
        Ok(SessionRewindPlan { prompt, files, kept, unrecorded })
    }

    /// Returns the changes of files, and the first prompt that has undo data.
    async fn plan_file_restoration(
        &self,
        prompt: u32,
    ) -> Result<(RewindPlan, Option<u32>), ToolError> {
        let workspace = self.workspace.clone();
        run_blocking(move || {
            let files = RewindPlan::before_prompt(&workspace, prompt)?;
            Ok((files, workspace.first_prompt_with_undo_data()))
        })
        .await
    }

    /// Returns the rewind plan, which the client shows to its user. The client receives the text of
    /// a file only if the rules permit reading the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the mode or a rule denies one of the changes.
    pub(crate) async fn plan_unless_denied(
        &self,
        prompt: u32,
        session: &SessionHandle,
        options: &SessionOptions,
    ) -> Result<PermittedRewindPlan, Error> {
        if !(1..=self.recording.prompt_count()).contains(&prompt) {
            return Err(errors::invalid_params_error(
                "There is no such prompt; `/rewind` lists them",
            ));
        }
        let plan = self.plan(prompt).await;
        let plan = plan.map_err(|error| errors::rewind_failed_error(&error.to_string()))?;
        let rules = session.update(|session, _| session.rules().clone());
        let folders: Vec<_> = self.workspace.folders().map(Path::to_owned).collect();
        let mode = options.active_options().mode.unwrap_or_default();
        if rules.judge_call(&plan.effects(), &*mode.policy(&folders)) == Verdict::Deny {
            let why = format!("the mode `{}` or a rule denies a change of files", mode.id());
            return Err(errors::rewind_failed_error(&why));
        }
        let (workspace, rules) = (self.workspace.clone(), ImplicitReadChecker(rules));
        let check = move || {
            let paths = plan.changes().iter().flat_map(change_paths).map(Path::to_owned);
            let readable = paths.filter(|path| rules.permits_reading(&workspace, path)).collect();
            Ok(PermittedRewindPlan { plan, readable })
        };
        run_blocking(check).await.map_err(|error| errors::rewind_failed_error(&error.to_string()))
    }

    /// Stores a copy of the first `keep` prompts, and returns its id.
    pub(crate) async fn fork_first_prompts(
        &self,
        keep: u32,
    ) -> Result<SessionId, SessionStoreError> {
        self.recording.fork_first_prompts(keep).await
    }

    /// Restores the files and the history. If `is_in_prompt` is set, the newest prompt requested
    /// the rewind, and this prompt stays in the history. If this method fails, some calls may
    /// already be undone.
    ///
    /// The rewind continues if its caller is dropped, e.g. by a cancel, because the restored files
    /// must match the history. [`take_finished`](Self::take_finished) returns the outcome of the
    /// rewind.
    pub(crate) async fn run(
        &self,
        plan: SessionRewindPlan,
        is_in_prompt: bool,
    ) -> Result<(), ToolError> {
        let this = self.clone();
        let mut finished = self.finished.clone().lock_owned().await;
        let run = tokio::spawn(async move {
            let report = plan.report(&this.workspace);
            let outcome = this.restore_files_and_history(plan, is_in_prompt).await;
            let (rewound, plan, report, result) = match outcome {
                Ok((rewound, plan)) => (Some(rewound), plan, Ok(report), Ok(())),
                Err(error) => (None, None, Err(error.to_string()), Err(error)),
            };
            *finished = Some(FinishedRewind { report, rewound, plan });
            result
        });
        run.await.unwrap_or_else(|_panic| Err(ToolError::fatal("the rewind panicked")))
    }

    /// Waits for the running rewind, if there is one. Returns the outcome of the last rewind. A
    /// second call returns `None`.
    pub(crate) async fn take_finished(&self) -> Option<FinishedRewind> {
        self.finished.lock().await.take()
    }

    async fn restore_files_and_history(
        &self,
        plan: SessionRewindPlan,
        is_in_prompt: bool,
    ) -> Result<(RewoundSession, Option<Plan>), ToolError> {
        let SessionRewindPlan { prompt, files, .. } = plan;
        // Check first that the stored history can be changed, so that the files are not restored
        // without the history.
        self.recording.committed_store().await.map_err(|error| store_error(&error))?;
        let (plan, workspace) =
            (self.todo_plan_before_prompt(prompt).await?, self.workspace.clone());
        run_blocking(move || files.run(&workspace)).await?;
        let keep = prompt.saturating_sub(1);
        let rewound = self.recording.rewind(keep, is_in_prompt).await.map_err(|error| {
            let message =
                format!("The files were restored, but the stored session was not: {error}");
            ToolError::recoverable(ErrorCode::Io, message)
        })?;
        Ok((rewound, plan))
    }

    /// Returns the files that completed calls of these prompts changed, according to the stored
    /// session.
    async fn changed_paths(&self, first: u32, last: u32) -> Result<BTreeSet<PathBuf>, ToolError> {
        // The short form of a call may lack its file changes, so the complete documents are read.
        let calls = ("call", u64::MAX);
        let paths =
            self.fold_stored_documents(calls, BTreeSet::new(), move |paths, prompt, document| {
                if (first..=last).contains(&prompt) {
                    paths.extend(changed_paths_of_call(&document));
                }
            });
        paths.await
    }

    /// Returns the titles of the commands since a prompt whose changes are not recorded completely.
    async fn unrecorded_commands(&self, first: u32) -> Result<Vec<String>, ToolError> {
        let titles =
            self.fold_stored_documents(("call", 0), Vec::new(), move |titles, prompt, document| {
                if let SessionDocument::ToolCall(document) = document
                    && prompt >= first
                    && is_unrecorded_command(&document.call)
                    && !titles.contains(&document.call.title)
                {
                    titles.push(document.call.title);
                }
            });
        titles.await
    }

    /// Returns the plan that the client should show after a rewind. Returns `None` if the plan is
    /// the same as before.
    async fn todo_plan_before_prompt(&self, prompt: u32) -> Result<Option<Plan>, ToolError> {
        let plans = ("plan", 0);
        let found =
            self.fold_stored_documents(plans, (None, false), move |(left, is_removed), at, it| {
                match it {
                    SessionDocument::Plan(plan) if at < prompt => *left = Some(plan),
                    SessionDocument::Plan(_) => *is_removed = true,
                    _ => {}
                }
            });
        let (left, is_removed) = found.await?;
        Ok(is_removed.then(|| left.unwrap_or_default()))
    }

    /// Calls `fold` with each stored document of one kind and the number of its prompt. The newest
    /// documents are complete, up to `whole_bytes` bytes in total. In older documents, links
    /// replace large contents.
    async fn fold_stored_documents<T: Send + 'static>(
        &self,
        (kind, whole_bytes): (&'static str, u64),
        mut result: T,
        mut fold: impl FnMut(&mut T, u32, SessionDocument) + Send + 'static,
    ) -> Result<T, ToolError> {
        let opened = self.recording.opened_store().ok_or_else(not_stored_error)?;
        let session = self.recording.session_id().clone();
        let read = opened.run(move |store| {
            let mut load = store.begin_load(&session, RecordStream::Client, whole_bytes)?;
            let mut documents = 0;
            loop {
                let page = store.load_next_records(&mut load)?;
                if page.is_empty() {
                    return Ok(Some(result));
                }
                for record in page.iter().filter(|record| record.kind == kind) {
                    documents += 1;
                    if documents > MAX_REWIND_DOCUMENTS {
                        return Ok(None);
                    }
                    if let Some(document) = read_document(record) {
                        fold(&mut result, record.prompt, document);
                    }
                }
            }
        });
        read.await.map_err(|error| store_error(&error))?.ok_or_else(|| {
            let message = format!(
                "This session cannot go back, because it has more than {MAX_REWIND_DOCUMENTS} \
                 documents of the kind `{kind}`."
            );
            ToolError::recoverable(ErrorCode::TooLarge, message)
        })
    }
}

/// A plan that no rule denies.
pub(crate) struct PermittedRewindPlan {
    plan: SessionRewindPlan,
    /// The files whose text the client may receive.
    readable: BTreeSet<PathBuf>,
}

impl PermittedRewindPlan {
    pub(crate) fn response(&self) -> RewindSessionResponse {
        RewindSessionResponse::new(&self.plan, |path| self.readable.contains(path))
    }

    pub(crate) fn into_plan(self) -> SessionRewindPlan {
        self.plan
    }
}

impl SessionRewindPlan {
    /// Returns the changes of files.
    pub(crate) fn changes(&self) -> &[FileChange] {
        self.files.changes()
    }

    /// Returns the files that calls changed and that the rewind does not restore.
    pub(crate) fn kept(&self) -> &[KeptFile] {
        &self.kept
    }

    /// Returns a note about commands whose changes are not recorded.
    fn unrecorded_note(&self) -> Option<Note> {
        let titles =
            (!self.unrecorded.is_empty()).then(|| comma_separated_with_limit(&self.unrecorded))?;
        Some(Note::new("rewind-unrecorded").with_text("commands", titles))
    }

    /// Returns the effects of the changes.
    pub(crate) fn effects(&self) -> Effects {
        let effects = self.changes().iter().flat_map(|change| {
            let path = change.path.clone();
            match &change.operation {
                FileChangeOperation::Delete => vec![Effect::Delete(path)],
                FileChangeOperation::Move { from } => {
                    vec![Effect::Delete(from.clone()), Effect::Write(path)]
                }
                _ => vec![Effect::Write(path)],
            }
        });
        effects.collect()
    }

    /// Returns the message for the chat after the rewind.
    pub(crate) fn report(&self, workspace: &Workspace) -> String {
        let mut text = format!(
            "Went back to the state before prompt {}. That prompt and everything after it were \
             removed from this session; a client may still show them above.",
            self.prompt
        );
        for (what, is_deleted) in [("Restored", false), ("Deleted", true)] {
            let changes = self.changes().iter();
            let changes =
                changes.filter(|it| (it.operation == FileChangeOperation::Delete) == is_deleted);
            let paths: Vec<_> = changes.map(|change| workspace.display(&change.path)).collect();
            if !paths.is_empty() {
                text.push_str(&format!("\n{what}: {}.", comma_separated_with_limit(&paths)));
            }
        }
        for note in self.files.mode_notes(workspace).iter().take(MAX_NAMED_PATHS) {
            text.push_str(&format!("\n{note}"));
        }
        for kept in self.kept().iter().take(MAX_NAMED_PATHS) {
            text.push_str(&format!("\n{}", kept.note(workspace)));
        }
        if let Some(more @ 1..) = self.kept().len().checked_sub(MAX_NAMED_PATHS) {
            text.push_str(&format!("\nFiles left alone that are not named here: {more}."));
        }
        if let Some(note) = self.unrecorded_note() {
            text.push_str(&format!("\n{note}"));
        }
        if let Some(folder) = self.files.folder_of_replaced_files(workspace) {
            let folder = path_text(&folder);
            text.push_str(&format!(
                "\nThe versions from before this, of files that commands had changed, are kept in {folder}."
            ));
        }
        text
    }
}

fn comma_separated_with_limit(paths: &[String]) -> String {
    let named = paths[..paths.len().min(MAX_NAMED_PATHS)].join(", ");
    match paths.len().checked_sub(MAX_NAMED_PATHS) {
        Some(more @ 1..) => format!("{named} and {more} more"),
        _ => named,
    }
}

/// Returns the path of a change, and the previous path of a moved file.
fn change_paths(change: &FileChange) -> impl Iterator<Item = &Path> {
    let from = match &change.operation {
        FileChangeOperation::Move { from } => Some(from.as_path()),
        _ => None,
    };
    from.into_iter().chain([change.path.as_path()])
}

/// Returns whether a command ran whose changes are not recorded completely.
fn is_unrecorded_command(call: &ToolCallReport) -> bool {
    let is_interrupted =
        !call.status.is_final() || call.meta.reason == Some(CallEndReason::Shutdown);
    let has_run = call.kind == ToolKind::Execute && call.meta.started_at.is_some();
    has_run && (is_interrupted || call.meta.custom.contains_key("background"))
}

fn changed_paths_of_call(document: &SessionDocument) -> Vec<PathBuf> {
    let SessionDocument::ToolCall(document) = document else { return Vec::new() };
    let contents = document.call.content.iter();
    let changes = contents.filter_map(|content| match content {
        Content::Change(change) => Some(change),
        _ => None,
    });
    let is_done = document.call.status == acp_types::Status::Completed;
    changes.filter(|_| is_done).map(|change| change.path.clone()).collect()
}

fn store_error(error: &SessionStoreError) -> ToolError {
    ToolError::recoverable(ErrorCode::Io, format!("The session cannot go back: {error}"))
}

fn not_stored_error() -> ToolError {
    ToolError::recoverable(ErrorCode::Io, "This session is not stored, so it cannot go back.")
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    spawn_blocking(work).await.unwrap_or_else(|_panic| Err(ToolError::fatal("a thread panicked")))
}

#[cfg(test)]
mod tests;
