//! The context of a session's calls: its files, its environment, and the client's texts and terminals.

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

/// What every call of a session may use.
#[derive(Clone)]
#[non_exhaustive]
pub struct Context {
    /// The files it may reach.
    pub workspace: Arc<Workspace>,
    /// The environment of commands.
    pub env: Arc<BTreeMap<String, String>>,
    /// The texts that the client holds; none where it tells of none.
    pub text: Option<Arc<dyn TextBackend>>,
    /// The terminals that the client runs commands in; none where it has none.
    pub terminal: Option<Arc<dyn TerminalBackend>>,
}

impl Context {
    /// Makes a context whose commands get no environment, and without texts and terminals of a client.
    #[must_use]
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, env: Arc::default(), text: None, terminal: None }
    }

    /// Sets the environment of commands.
    #[must_use]
    pub fn with_env(self, env: Arc<BTreeMap<String, String>>) -> Self {
        Self { env, ..self }
    }

    /// Sets the texts that the client holds, if it tells of any.
    #[must_use]
    pub fn with_text(self, text: Option<Arc<dyn TextBackend>>) -> Self {
        Self { text, ..self }
    }

    /// Sets the terminals that the client runs commands in, if it has any.
    #[must_use]
    pub fn with_terminal(self, terminal: Option<Arc<dyn TerminalBackend>>) -> Self {
        Self { terminal, ..self }
    }

    /// Looks for what other programs wrote late to files that the session had replaced, or while it
    /// wrote them, and says it, one text each. Each is said once; if nobody waits for the answer,
    /// to whoever asks next. Results of changes say it too, so this is for what comes after the
    /// last one: between requests, at the end of a turn and of a session.
    pub async fn late_writes(&self) -> Vec<String> {
        if self.workspace.undo_store().is_watching() {
            let look = |workspace: &Workspace| {
                workspace.detect_late_writes();
                Ok(())
            };
            // It cannot fail; a panic costs what would have been found.
            drop(self.run_blocking(look).await);
        }
        let late = self.workspace.undo_store().take_late_writes();
        let told = |late: &LateWrite| late.note(self.workspace.display(&late.path)).to_string();
        late.iter().map(told).collect()
    }

    /// Does blocking work on files where it holds up no other task.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let workspace = self.workspace.clone();
        blocking(move || work(&workspace)).await
    }

    /// Looks at a place that a call names, where that holds up no other task, and tells what
    /// reading or searching it does.
    pub(crate) async fn inspect_with_effects(
        &self,
        given: &str,
        effect: fn(PathBuf) -> Effect,
    ) -> Result<(WorkspacePath, Effects), ToolError> {
        let given = given.to_owned();
        self.run_blocking(move |workspace| {
            let at = workspace.inspect(&given)?;
            let effects = guard::path_effects(workspace, &at, effect);
            Ok((at, effects))
        })
        .await
    }

    /// Waits until what killed processes left unfinished is in order.
    pub(crate) async fn wait_recovered(&self) -> Result<(), ToolError> {
        if self.workspace.is_recovered() {
            return Ok(());
        }
        self.run_blocking(|workspace| {
            workspace.recover();
            Ok(())
        })
        .await
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of the environment are nobody's business.
        formatter
            .debug_struct("Context")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// Runs blocking work where it holds up no other task.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    unwrap_join(tokio::task::spawn_blocking(work).await)
}

/// Does work to its end, also where nobody waits for it any more: a call that is cancelled must not
/// leave files half changed.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, ToolError> {
    unwrap_join(tokio::spawn(work).await)
}

fn unwrap_join<T>(ended: Result<Result<T, ToolError>, JoinError>) -> Result<T, ToolError> {
    match ended {
        Ok(result) => result,
        // A panic goes on in the caller, who ends the call by it.
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
