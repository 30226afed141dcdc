//! The context of a session's calls: files, environment variables, and the client's texts and
//! terminals.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use acp_lifecycle::{Effect, Effects};
use tokio::task::JoinError;

use super::backend::{TerminalBackend, UnsavedTextBackend};
use crate::error::ToolError;
use crate::files::LateWrite;
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::sandbox::{CommandIsolation, PreviewSetting};
#[cfg(feature = "web")]
use crate::web::SharedWebAccess;

/// The context that all calls of a session share.
#[derive(Clone)]
#[non_exhaustive]
pub struct Context {
    /// The files that calls may access.
    pub workspace: Arc<Workspace>,
    /// The environment variables for commands.
    pub env: Arc<BTreeMap<String, String>>,
    /// The backend for unsaved texts of the client. `None` if the client does not support this.
    pub text: Option<Arc<dyn UnsavedTextBackend>>,
    /// The backend for terminals of the client. `None` if the client does not support this.
    pub terminal: Option<Arc<dyn TerminalBackend>>,
    /// The isolation of commands. By default, commands run without a sandbox.
    pub isolation: Arc<CommandIsolation>,
    /// When commands run on copies of the project folders first.
    pub command_preview: PreviewSetting,
    /// The stream to which commands write their output.
    pub command_output: CommandOutputStream,
    /// The network and the fetched pages of the tools for the web.
    #[cfg(feature = "web")]
    pub(crate) web: Arc<SharedWebAccess>,
}

impl Context {
    /// Creates a context without environment variables for commands, and without backends for the
    /// texts and terminals of a client.
    #[must_use]
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self {
            workspace,
            env: Arc::default(),
            text: None,
            terminal: None,
            isolation: Arc::default(),
            command_preview: PreviewSetting::default(),
            command_output: CommandOutputStream::default(),
            #[cfg(feature = "web")]
            web: Arc::default(),
        }
    }

    /// Sets the environment variables for commands.
    #[must_use]
    pub fn with_env(self, env: Arc<BTreeMap<String, String>>) -> Self {
        Self { env, ..self }
    }

    /// Sets the backend for unsaved texts of the client. Pass `None` if the client does not support
    /// this.
    #[must_use]
    pub fn with_unsaved_text_backend(self, text: Option<Arc<dyn UnsavedTextBackend>>) -> Self {
        Self { text, ..self }
    }

    /// Sets the backend for terminals of the client. Pass `None` if the client does not support
    /// this.
    #[must_use]
    pub fn with_terminal_backend(self, terminal: Option<Arc<dyn TerminalBackend>>) -> Self {
        Self { terminal, ..self }
    }

    /// Sets the isolation of commands. A command that has a sandbox does not run in a terminal of
    /// the client.
    #[must_use]
    pub fn with_command_isolation(self, isolation: impl Into<Arc<CommandIsolation>>) -> Self {
        let isolation = isolation.into();
        if let CommandIsolation::Sandbox(sandbox) = &*isolation {
            self.workspace.set_temporary_folder(sandbox.tmp(), sandbox.visible_tmp());
        }
        Self { isolation, ..self }
    }

    /// Sets when commands run on copies of the project folders first.
    #[must_use]
    pub fn with_command_preview_setting(self, command_preview: PreviewSetting) -> Self {
        Self { command_preview, ..self }
    }

    /// Sets the stream to which commands write their output.
    #[must_use]
    pub fn with_command_output(self, command_output: CommandOutputStream) -> Self {
        Self { command_output, ..self }
    }

    /// Detects late writes, and returns a text that reports each of them. A late write is a write
    /// by another program to a file that the session has replaced or was just writing.
    ///
    /// Each late write is reported only once. If the returned future is dropped, the next call of
    /// this method returns its reports. The results of file changes also contain such reports, so
    /// this method only matters for writes after the last change. Agents should call this method
    /// between two requests to the model, and at the end of a turn or session.
    pub async fn take_concurrent_write_reports(&self) -> Vec<String> {
        if self.workspace.undo_store().is_watching() {
            let look = |workspace: &Workspace| {
                workspace.detect_late_writes();
                Ok(())
            };
            // The closure returns no error. If the closure panics, the late writes that it detected
            // are lost.
            drop(self.run_blocking(look).await);
        }
        let late = self.workspace.undo_store().take_late_writes();
        let report = |late: &LateWrite| late.note(self.workspace.display(&late.path)).to_string();
        late.iter().map(report).collect()
    }

    /// Runs blocking work on files on a separate thread, so that it does not block other tasks.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let workspace = self.workspace.clone();
        run_on_blocking_thread(move || work(&workspace)).await
    }

    /// Inspects a path that a call names, on a separate thread. Also returns the effects of reading
    /// or searching this path.
    pub(crate) async fn inspect_path_with_effects(
        &self,
        given: &str,
        effect: fn(PathBuf) -> Effect,
    ) -> Result<(WorkspacePath, Effects), ToolError> {
        let given = given.to_owned();
        self.run_blocking(move |workspace| guard::inspect_with_effects(workspace, &given, effect))
            .await
    }

    /// Waits for the recovery of changes that killed processes left unfinished.
    pub(crate) async fn ensure_changes_recovered(&self) -> Result<(), ToolError> {
        if self.workspace.is_recovered() {
            return Ok(());
        }
        self.run_blocking(|workspace| {
            workspace.recover_unfinished_writes();
            Ok(())
        })
        .await
    }
}

/// The stream to which a command writes its output, unless it reads its input from a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandOutputStream {
    /// A terminal if the client shows terminals, otherwise a pipe.
    #[default]
    AsClientShows,
    /// A pipe, even if the client shows terminals. Choose this if the client writes the output to a
    /// file or a pipe: programs then print no colours and no progress.
    Pipe,
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment variables may contain secrets, so they are not printed.
        formatter
            .debug_struct("Context")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// Runs blocking work on a separate thread, so that it does not block other tasks.
pub(crate) async fn run_on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    result_or_resume_panic(tokio::task::spawn_blocking(work).await)
}

/// Runs a future to its end, even if the caller is dropped. Otherwise a cancelled call could leave
/// files partly changed.
pub(crate) async fn run_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, ToolError> {
    result_or_resume_panic(tokio::spawn(work).await)
}

fn result_or_resume_panic<T>(
    ended: Result<Result<T, ToolError>, JoinError>,
) -> Result<T, ToolError> {
    match ended {
        Ok(result) => result,
        // Re-raise the panic in the caller, which fails the call.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(ToolError::fatal(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::run_detached;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_continues_when_its_caller_is_dropped() {
        let ((begin, begun), (end, ended)) = (oneshot::channel(), oneshot::channel());
        let mut work = Box::pin(run_detached(async move {
            begun.await.unwrap();
            end.send(()).unwrap();
            Ok(())
        }));
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        begin.send(()).unwrap();
        ended.await.unwrap();
    }
}
