//! The client as a backend of tools: the texts in the client's editor, and the client's terminals.
//!
//! A program that embeds this crate implements [`UnsavedTextBackend`] and [`TerminalBackend`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_types::TerminalExit;
use callboard_text::{escape_invisible, head};
use futures::future::BoxFuture;

use crate::limits::MAX_CLIENT_ERROR_BYTES;

/// The texts of the files that are open in a client, including unsaved changes.
///
/// Each method must end within a limited time. Dropping the returned future cancels the request.
pub trait UnsavedTextBackend: fmt::Debug + Send + Sync {
    /// Returns whether the client accepts new texts. If the client accepts no new texts,
    /// [`write`](Self::write) is never called.
    fn can_write(&self) -> bool;

    /// Requests the whole text of a file, given its absolute path.
    ///
    /// # Errors
    ///
    /// Returns the error of the client, or an error for a timeout.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>>;

    /// Sends the new text of a whole file to the client.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read). After an error, it is unknown whether the client
    /// has accepted the text.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str)
    -> BoxFuture<'a, Result<(), ClientError>>;
}

/// The reason why a request to the client failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

impl ClientError {
    /// Creates an error with the message of the client. Only the beginning of the message is kept,
    /// and its invisible characters are escaped.
    #[must_use]
    pub fn new(why: &str) -> Self {
        Self(
            escape_invisible(head(why.trim(), MAX_CLIENT_ERROR_BYTES))
                .trim_end_matches('.')
                .to_owned(),
        )
    }
}

/// The terminals of a client that can run commands itself.
///
/// Each method of this trait and of [`ClientTerminal`] must end within a limited time. The only
/// exception is [`ClientTerminal::wait`], for which the caller sets the time limit. Dropping the
/// returned future cancels the request.
pub trait TerminalBackend: fmt::Debug + Send + Sync {
    /// Starts a command. If the future is dropped before the client creates the terminal, the
    /// terminal is released as soon as it exists.
    ///
    /// # Errors
    ///
    /// Returns the error of the client, or an error for a timeout.
    fn create(
        &self,
        command: ClientCommand,
    ) -> BoxFuture<'_, Result<Arc<dyn ClientTerminal>, ClientError>>;
}

/// A terminal of the client. When this value is dropped, the terminal is released exactly once. The
/// release ends a command that still runs. The client continues to show the output.
///
/// Clients reject updates of a call that shows a released terminal. Therefore the terminal is
/// [kept](acp_lifecycle::CallHandle::keep_until_end) until the end of its call.
pub trait ClientTerminal: fmt::Debug + Send + Sync {
    /// Returns the id of the terminal.
    fn id(&self) -> &str;

    /// Waits until the command has ended.
    ///
    /// # Errors
    ///
    /// Returns the error of the client.
    fn wait(&self) -> BoxFuture<'_, Result<TerminalExit, ClientError>>;

    /// Requests the output that the command has written so far.
    ///
    /// # Errors
    ///
    /// Returns the error of the client, or an error for a timeout.
    fn output(&self) -> BoxFuture<'_, Result<ClientOutput, ClientError>>;

    /// Kills the command, without releasing the terminal.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`output`](Self::output).
    fn kill(&self) -> BoxFuture<'_, Result<(), ClientError>>;
}

/// A command that a client should run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCommand {
    /// The program to run.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables that the client adds to its own environment.
    pub env: Vec<(String, String)>,
    /// The absolute path of the working directory.
    pub cwd: PathBuf,
    /// Maximum number of bytes of the output that the client should keep. If the output is longer,
    /// the client drops its beginning.
    pub output_bytes: u64,
}

/// The output of a command that a client runs or ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientOutput {
    /// The output that the client kept.
    pub text: String,
    /// Whether a part of the output is missing. Depending on the client, this is the beginning or
    /// the end.
    pub is_truncated: bool,
    /// How the command ended. `None` if it still runs.
    pub exit: Option<TerminalExit>,
}
