//! The context of a session's calls: files, environment, and the client's texts and terminals.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use acp_lifecycle::{Effect, Effects};
use tokio::task::JoinError;

use super::backend::{TerminalBackend, TextBackend};
use crate::error::ToolError;
use crate::files::LateWrite;
use crate::files::workspace::{Workspace, WorkspacePath, guard};

/// The context that all calls of a session share.
#[derive(Clone)]
#[non_exhaustive]
pub struct Context {
    /// The files that calls may access.
    pub workspace: Arc<Workspace>,
    /// The environment of commands.
    pub env: Arc<BTreeMap<String, String>>,
    /// The backend for the unsaved texts of the client. `None` if the client does not support it.
    pub text: Option<Arc<dyn TextBackend>>,
    /// The backend for the terminals of the client. `None` if the client does not support it.
    pub terminal: Option<Arc<dyn TerminalBackend>>,
}

impl Context {
    /// Creates a context with an empty environment for commands. The context has no backends for
    /// texts and terminals of a client.
    #[must_use]
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, env: Arc::default(), text: None, terminal: None }
    }

    /// Sets the environment of commands.
    #[must_use]
    pub fn with_env(self, env: Arc<BTreeMap<String, String>>) -> Self {
        Self { env, ..self }
    }

    /// Sets the backend for the unsaved texts of the client. `None` if the client does not support
    /// it.
    #[must_use]
    pub fn with_text_backend(self, text: Option<Arc<dyn TextBackend>>) -> Self {
        Self { text, ..self }
    }

    /// Sets the backend for the terminals of the client. `None` if the client does not support it.
    #[must_use]
    pub fn with_terminal_backend(self, terminal: Option<Arc<dyn TerminalBackend>>) -> Self {
        Self { terminal, ..self }
    }

    /// Detects late writes and returns a report of each late write. A late write is a write by
    /// another program to a file that the session had replaced, or was just writing.
    ///
    /// Each late write is reported only once. If the future is dropped, the next caller receives
    /// the reports. The results of changes also include these reports. So this method is for late
    /// writes after the last change: call it between requests, and at the end of a turn or session.
    pub async fn take_foreign_change_reports(&self) -> Vec<String> {
        if self.workspace.undo_store().is_watching() {
            let look = |workspace: &Workspace| {
                workspace.detect_late_writes();
                Ok(())
            };
            // The closure returns no errors. If the closure panics, the detected late writes are
            // lost.
            drop(self.run_blocking(look).await);
        }
        let late = self.workspace.undo_store().take_late_writes();
        let told = |late: &LateWrite| late.note(self.workspace.display(&late.path)).to_string();
        late.iter().map(told).collect()
    }

    /// Runs blocking work on files on a separate thread, so that no other task is blocked.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let workspace = self.workspace.clone();
        run_on_blocking_thread(move || work(&workspace)).await
    }

    /// Inspects a path of a call on a blocking thread. Returns the path with the effects of reading
    /// or searching it.
    pub(crate) async fn inspect_with_effects(
        &self,
        given: &str,
        effect: fn(PathBuf) -> Effect,
    ) -> Result<(WorkspacePath, Effects), ToolError> {
        let given = given.to_owned();
        self.run_blocking(move |workspace| {
            let at = workspace.resolve_and_follow_links(&given)?;
            let effects = guard::path_effects(workspace, &at, effect);
            Ok((at, effects))
        })
        .await
    }

    /// Waits until the changes that killed processes left unfinished have been recovered.
    pub(crate) async fn wait_for_recovery(&self) -> Result<(), ToolError> {
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

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of the environment may be secrets, so they are not formatted.
        formatter
            .debug_struct("Context")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// Runs blocking work on a separate thread, so that no other task is blocked.
pub(crate) async fn run_on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    result_or_resume_panic(tokio::task::spawn_blocking(work).await)
}

/// Runs a future to completion even if the caller is dropped, because a cancelled call must not
/// leave files in a partly changed state.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, ToolError> {
    result_or_resume_panic(tokio::spawn(work).await)
}

fn result_or_resume_panic<T>(
    ended: Result<Result<T, ToolError>, JoinError>,
) -> Result<T, ToolError> {
    match ended {
        Ok(result) => result,
        // Re-raises the panic in the caller, which fails the call.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(ToolError::fatal(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::run_to_completion;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_for_it_any_more() {
        let ((begin, begun), (end, ended)) = (oneshot::channel(), oneshot::channel());
        let mut work = Box::pin(run_to_completion(async move {
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
