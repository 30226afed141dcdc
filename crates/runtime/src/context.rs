//! The context that a model receives in addition to the prompts, and the compaction that keeps a
//! session within the model's window.
//!
//! The project's instructions and the reports about changed files are only context for the model.
//! The agent reads no configuration from files in the workspace.

mod budget;
mod compaction;
mod file_versions;
mod instructions;
mod read_rules;
mod summary;
mod system_prompt;
mod trim;

use std::borrow::Cow;
use std::env::consts::OS;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use acp_lifecycle::Secrets;
use acp_tools::sandbox::CommandIsolation;
use acp_tools::{Context, Workspace};
use acp_types::{Status, ToolCallReport, ToolKind};
use callboard_models::{ChatMessage, Model, ToolSpec};

pub(crate) use budget::{ContextBudget, estimated_bytes};
pub(crate) use compaction::{CompactionCause, CompactionOutcome, Compactor};
use file_versions::FileVersions;
pub(crate) use file_versions::KnownFile;
use instructions::ProjectInstructions;
pub(crate) use read_rules::ImplicitReadChecker;

use crate::blocking::spawn_blocking_exclusive;
use crate::limits;
use crate::lock::lock;
use crate::permission_mode::PermissionMode;

/// Returns whether a model receives context in addition to the session's messages. Scripted models
/// receive no context.
pub(crate) fn model_takes_context(model: &dyn Model) -> bool {
    !model.capabilities().scripted
}

/// The system prompt, which comes before the messages in every request.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemPrompt {
    pub(crate) text: Arc<str>,
    /// Estimated size of the prompt and the tool specifications, in bytes of text.
    pub(crate) estimated_bytes: u64,
}

impl SystemPrompt {
    fn new(setting: &system_prompt::SystemPromptInputs<'_>) -> Self {
        let tool = |tool: &ToolSpec| {
            let schema = acp_types::json::serialized_len(&tool.input_schema);
            tool.name.len() + tool.description.len() + schema
        };
        let text: Arc<str> = system_prompt::render_system_prompt(setting).into();
        let weight = text.len() + setting.tools.iter().map(tool).sum::<usize>();
        Self { text, estimated_bytes: weight as u64 }
    }
}

/// The context of one session in addition to its prompts: the project folders, their instructions,
/// and the versions of the files that the model has read or written. Clones share the same context.
#[derive(Clone)]
pub(crate) struct WorkspaceContext {
    workspace: Arc<Workspace>,
    /// The embedder's text that replaces Callboard's own instructions at the beginning of the
    /// system prompt.
    instructions: Option<Arc<str>>,
    /// Hints on how to use the tools well.
    hints: Arc<[Cow<'static, str>]>,
    has_sandbox: bool,
    date: Arc<str>,
    /// The lock is held while files are read. If a read hangs, only one thread hangs: other callers
    /// wait for the lock without blocking a thread.
    known: Arc<tokio::sync::Mutex<TrackedFiles>>,
    pending: Arc<Mutex<PendingContext>>,
    /// Whether messages with instructions were removed from the session after they had been sent to
    /// the model.
    is_forgotten: Arc<AtomicBool>,
    /// Number of the current prompt.
    prompt: Arc<AtomicU32>,
    /// After a removal of prompts, the number of prompts that remain. The number is used once, to
    /// remove the file versions of the removed prompts.
    left_prompts: Arc<AtomicU32>,
    /// Whether files of a stored session must still be marked as read.
    has_restored: Arc<AtomicBool>,
}

/// The instruction files and the file versions that the session tracks.
#[derive(Debug, Default)]
struct TrackedFiles {
    instructions: ProjectInstructions,
    versions: FileVersions,
}

/// State with a separate lock, so that access to this state never waits for a slow disk.
#[derive(Debug, Default)]
struct PendingContext {
    /// Context messages that are ready but have not been sent yet.
    messages: Vec<String>,
    /// Files of calls and prompts whose versions have not been recorded yet.
    files: Vec<NotedFile>,
    system: Option<(Option<PermissionMode>, Arc<[ToolSpec]>, SystemPrompt)>,
}

/// A file of a call or of a prompt.
#[derive(Debug)]
struct NotedFile {
    path: PathBuf,
    /// Number of the prompt in which the model read or wrote the file. `None` if the model does not
    /// know the file's content.
    known_since: Option<u32>,
}

impl WorkspaceContext {
    /// Creates the context of a session whose model has not received any context yet.
    pub(crate) fn new(context: &Context, now: SystemTime) -> Self {
        let workspace = context.workspace.clone();
        let has_sandbox = matches!(*context.isolation, CommandIsolation::Sandbox(_));
        let date = callboard_text::format_utc_date(now).into();
        let (known, pending, is_forgotten) = (Arc::default(), Arc::default(), Arc::default());
        let (hints, prompt) = (Arc::default(), Arc::default());
        let left_prompts = Arc::new(AtomicU32::new(u32::MAX));
        Self {
            workspace,
            instructions: None,
            hints,
            has_sandbox,
            date,
            known,
            pending,
            is_forgotten,
            prompt,
            left_prompts,
            has_restored: Arc::default(),
        }
    }

    /// Sets the hints on how to use the tools well, which are part of the system prompt.
    pub(crate) fn with_tool_hints(self, hints: Vec<Cow<'static, str>>) -> Self {
        Self { hints: hints.into(), ..self }
    }

    /// Restores the files that the model of a stored session knows. The session has `prompts`
    /// prompts.
    pub(crate) fn with_known_files(self, files: Vec<KnownFile>, prompts: u32) -> Self {
        let mut versions = FileVersions::from_known_files(files);
        // The session may be a copy that contains only the first prompts of another session.
        versions.forget_versions_after_prompt(prompts);
        let known = TrackedFiles { versions, ..TrackedFiles::default() };
        let has_restored = Arc::new(AtomicBool::new(!known.versions.is_empty()));
        Self { known: Arc::new(tokio::sync::Mutex::new(known)), has_restored, ..self }
    }

    /// Marks the files that the model of a stored session knows as read in the workspace. Does
    /// nothing after the first call.
    pub(crate) async fn mark_restored_files_as_read(&self) {
        if self.has_restored.swap(false, Ordering::Relaxed) {
            let mark = |known: &mut TrackedFiles, workspace: &Workspace| {
                known.versions.mark_unchanged_restored_as_read(workspace);
            };
            self.run_blocking_on_files(mark).await;
        }
    }

    /// Returns the files that the model knows. Returns `None` while files are read.
    pub(crate) fn known_files(&self) -> Option<Vec<KnownFile>> {
        let mut known = self.known.try_lock().ok()?;
        known.forget_removed_prompts(&self.left_prompts);
        Some(known.versions.to_known_files())
    }

    /// Sets the embedder's text, which replaces Callboard's own instructions at the beginning of
    /// the system prompt.
    pub(crate) fn with_instructions(self, instructions: Option<Arc<str>>) -> Self {
        Self { instructions, ..self }
    }

    /// Returns the system prompt for a mode and the tools of the next request. The prompt is cached
    /// until the mode or the tools change.
    pub(crate) fn system_prompt(
        &self,
        mode: Option<PermissionMode>,
        tools: &Arc<[ToolSpec]>,
    ) -> SystemPrompt {
        let mut pending = lock(&self.pending);
        match &pending.system {
            Some((of, with, system)) if *of == mode && Arc::ptr_eq(with, tools) => system.clone(),
            _ => {
                let roots: Vec<_> = self.workspace.roots().collect();
                let system = SystemPrompt::new(&system_prompt::SystemPromptInputs {
                    instructions: self.instructions.as_deref(),
                    tools,
                    hints: &self.hints,
                    mode,
                    has_sandbox: self.has_sandbox,
                    roots: &roots,
                    os: OS,
                    date: &self.date,
                });
                pending.system = Some((mode, tools.clone(), system.clone()));
                system
            }
        }
    }

    /// Notes the files of a call that has just ended. If the call completed and reads or edits
    /// files, the model knows the content of these files. The versions of noted files are recorded
    /// when files are next read.
    pub(crate) fn note_call_files(&self, call: &ToolCallReport) {
        let knows = call.status == Status::Completed
            && matches!(call.kind, ToolKind::Read | ToolKind::Edit);
        let mut files: Vec<_> = call.locations.iter().map(|at| at.path().to_owned()).collect();
        files.dedup();
        self.note_files(files.into_iter().map(|file| (file, knows)));
    }

    fn note_files(&self, files: impl IntoIterator<Item = (PathBuf, bool)>) {
        let prompt = self.prompt.load(Ordering::Relaxed);
        let files = files.into_iter();
        let files =
            files.map(|(path, knows)| NotedFile { path, known_since: knows.then_some(prompt) });
        lock(&self.pending).files.extend(files);
    }

    /// Starts to record the versions of the noted files.
    pub(crate) fn record_noted_files_in_background(&self) {
        let context = self.clone();
        drop(tokio::spawn(async move { context.record_noted_files().await }));
    }

    /// Records the versions of the noted files, unless another task records them.
    pub(crate) async fn record_noted_files(&self) {
        drop(self.known.lock().await);
        if !lock(&self.pending).files.is_empty() {
            self.run_blocking_on_files(|_, _| ()).await;
        }
    }

    /// Records the files of a prompt. The flag of a file states whether the model knows the file's
    /// content.
    pub(crate) async fn record_files(&self, files: Vec<(PathBuf, bool)>) {
        if !files.is_empty() {
            self.note_files(files);
            self.record_noted_files().await;
        }
    }

    /// Returns the context messages for the next request: a list of changed files, and new
    /// instructions. The messages do not contain `secrets`, or files that `rules` forbid the model
    /// to read. `window` is the context window in tokens.
    pub(crate) async fn take_context_messages(
        &self,
        window: u64,
        secrets: Secrets,
        rules: ImplicitReadChecker,
    ) -> Vec<ChatMessage> {
        let room =
            window.saturating_mul(limits::BYTES_PER_TOKEN) / limits::INSTRUCTIONS_WINDOW_DIVISOR;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let (pending, forgotten) = (self.pending.clone(), self.is_forgotten.clone());
        let look = move |known: &mut TrackedFiles, workspace: &Workspace| {
            if forgotten.swap(false, Ordering::Relaxed) {
                known.instructions.mark_all_unsent();
            }
            // Changed files are reported before instructions are read. An instruction file that has
            // changed is sent in full.
            let mut news: Vec<_> =
                known.versions.take_changes_report(workspace).into_iter().collect();
            news.extend(
                known.instructions.take_new_instructions(workspace, &secrets, &rules, room),
            );
            lock(&pending).messages.extend(news);
        };
        // If this future is dropped, the messages are kept, and the next call returns them.
        self.run_blocking_on_files(look).await;
        std::mem::take(&mut lock(&self.pending).messages)
            .into_iter()
            .map(ChatMessage::Context)
            .collect()
    }

    /// Records that messages with instructions were removed, so that the instructions are sent
    /// again.
    pub(crate) fn mark_instructions_forgotten(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Sets the number of the prompt in which the model reads and changes files from now on.
    pub(crate) fn begin_prompt(&self, number: u32) {
        self.workspace.set_prompt_number(number);
        self.prompt.store(number, Ordering::Relaxed);
    }

    /// Records that the messages of the current prompt were removed.
    pub(crate) fn forget_current_prompt(&self) {
        self.forget_prompts_after(self.prompt.load(Ordering::Relaxed).saturating_sub(1));
    }

    /// Records that the messages after the first `prompts` prompts were removed. Files that the
    /// model read or wrote in the removed messages are reported once, because the remaining
    /// messages may contain other versions of these files.
    pub(crate) fn forget_prompts_after(&self, prompts: u32) {
        self.mark_instructions_forgotten();
        self.left_prompts.fetch_min(prompts, Ordering::Relaxed);
        let remains = |file: &NotedFile| file.known_since.is_none_or(|prompt| prompt <= prompts);
        lock(&self.pending).files.retain(remains);
    }

    /// Records the noted files, and then runs `look`, on a blocking thread, because both read
    /// files.
    async fn run_blocking_on_files(
        &self,
        look: impl FnOnce(&mut TrackedFiles, &Workspace) + Send + 'static,
    ) {
        let (workspace, left_prompts) = (self.workspace.clone(), self.left_prompts.clone());
        let pending = self.pending.clone();
        let look = move |known: &mut TrackedFiles| {
            known.forget_removed_prompts(&left_prompts);
            let noted = std::mem::take(&mut lock(&pending).files);
            for file in noted {
                known.record_noted_file(&workspace, &file.path, file.known_since);
            }
            look(known, &workspace);
        };
        // If `look` panics, only the messages of this call are lost.
        spawn_blocking_exclusive(&self.known, look).await;
    }
}

#[cfg(test)]
impl WorkspaceContext {
    /// Prevents that files are read, until the returned value is dropped.
    pub(crate) async fn hold_files(&self) -> impl Sized + use<> {
        self.known.clone().lock_owned().await
    }
}

impl TrackedFiles {
    /// If prompts were removed since the last call, removes the file versions of these prompts.
    fn forget_removed_prompts(&mut self, left_prompts: &AtomicU32) {
        let left = left_prompts.swap(u32::MAX, Ordering::Relaxed);
        self.versions.forget_versions_after_prompt(left);
    }

    /// Records a file. `known_since` is the prompt in which the model read or wrote the file, or
    /// `None` if the model does not know its content.
    fn record_noted_file(&mut self, workspace: &Workspace, file: &Path, known_since: Option<u32>) {
        self.instructions.record_touched_file(workspace, file);
        if let Some(prompt) = known_since {
            self.versions.record_current_version(workspace, file, prompt);
        }
    }
}

impl fmt::Debug for WorkspaceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WorkspaceContext").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn files_that_hang_block_only_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
        let surroundings =
            WorkspaceContext::new(&Context::new(Arc::new(workspace)), SystemTime::UNIX_EPOCH);
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let mut threads = tokio::runtime::Builder::new_current_thread();
        threads.max_blocking_threads(2).build().unwrap().block_on(async {
            let hangs = surroundings.run_blocking_on_files(move |_, _| gate.recv().unwrap_or(()));
            assert!(hangs.now_or_never().is_none());
            for _ in 0..3 {
                // The future is dropped at once, as if the turn were cancelled.
                assert!(
                    surroundings
                        .take_context_messages(
                            0,
                            Secrets::default(),
                            ImplicitReadChecker::default()
                        )
                        .now_or_never()
                        .is_none()
                );
            }
            let (ran, other) = std::sync::mpsc::channel();
            drop(tokio::task::spawn_blocking(move || ran.send(()).unwrap()));
            let is_free = other.recv_timeout(std::time::Duration::from_secs(5)).is_ok();
            drop(open);
            assert!(is_free, "all threads hang");
            assert_eq!(
                surroundings
                    .take_context_messages(0, Secrets::default(), ImplicitReadChecker::default())
                    .await
                    .len(),
                0
            );
        });
    }
}
