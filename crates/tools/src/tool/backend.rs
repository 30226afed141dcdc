//! The client as a backend of tools: the texts that the client's editor holds, and the client's
//! terminals.
//!
//! An embedder implements [`TextBackend`] and [`TerminalBackend`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_types::TerminalExit;
use callboard_text::{escape_invisible, head};
use futures::future::BoxFuture;

use crate::limits::MAX_CLIENT_ERROR_BYTES;

/// The texts of files that a client holds, including unsaved changes.
///
/// Each method ends within a bounded time. Dropping the returned future cancels the request.
pub trait TextBackend: fmt::Debug + Send + Sync {
    /// Returns whether the client accepts new texts. If this method returns `false`,
    /// [`write`](Self::write) is never called.
    fn can_write(&self) -> bool;

    /// Requests the whole text of a file by its absolute path.
    ///
    /// # Errors
    ///
    /// Returns the error of the client, or a timeout.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>>;

    /// Sends the new text of a whole file.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read). After an error it is unknown whether the client has
    /// accepted the text.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str)
    -> BoxFuture<'a, Result<(), ClientError>>;
}

/// The reason why a request to the client failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

impl ClientError {
    /// Creates an error from the message of the client. Only the beginning of the message is kept,
    /// and invisible characters are escaped.
    #[must_use]
    pub fn new(why: &str) -> Self {
        Self(
            escape_invisible(head(why.trim(), MAX_CLIENT_ERROR_BYTES))
                .trim_end_matches('.')
                .to_owned(),
        )
    }
}

/// The terminals of a client that runs commands itself.
///
/// Each method of this trait and of [`ClientTerminal`] ends within a bounded time. The only
/// exception is [`ClientTerminal::wait`], for which the caller sets the time limit. Dropping the
/// returned future cancels the request.
pub trait TerminalBackend: fmt::Debug + Send + Sync {
    /// Starts a command. If the client creates the terminal after the future was dropped, the
    /// terminal is released.
    ///
    /// # Errors
    ///
    /// The error of the client, or a timeout.
    fn create(
        &self,
        command: ClientCommand,
    ) -> BoxFuture<'_, Result<Arc<dyn ClientTerminal>, ClientError>>;
}

/// A terminal of the client. Dropping this value releases the terminal once. A release ends a
/// command that still runs, and the client keeps showing the output.
///
/// Clients reject updates of a call that shows a released terminal. So the terminal is
/// [kept](acp_lifecycle::CallHandle::keep_until_end) until its call has ended.
pub trait ClientTerminal: fmt::Debug + Send + Sync {
    /// Returns the id of the terminal.
    fn id(&self) -> &str;

    /// Waits until the command has ended.
    ///
    /// # Errors
    ///
    /// The error of the client.
    fn wait(&self) -> BoxFuture<'_, Result<TerminalExit, ClientError>>;

    /// Requests the output that the command has written so far.
    ///
    /// # Errors
    ///
    /// The error of the client, or a timeout.
    fn output(&self) -> BoxFuture<'_, Result<ClientOutput, ClientError>>;

    /// Ends the command. The terminal is not released.
    ///
    /// # Errors
    ///
    /// The errors of [`output`](Self::output).
    fn kill(&self) -> BoxFuture<'_, Result<(), ClientError>>;
}

/// A command for a client to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCommand {
    /// The program to run.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables that are added to the environment of the client.
    pub env: Vec<(String, String)>,
    /// The absolute path of the working directory.
    pub cwd: PathBuf,
    /// Maximum number of bytes of output that the client keeps. If the output is longer, its
    /// beginning is dropped.
    pub output_bytes: u64,
}

/// The output of a command that a client runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOutput {
    /// The output that the client kept.
    pub text: String,
    /// Whether the text is incomplete. Depending on the client, the beginning or the end is
    /// missing.
    pub is_truncated: bool,
    /// How the command ended. `None` while the command runs.
    pub exit: Option<TerminalExit>,
}
