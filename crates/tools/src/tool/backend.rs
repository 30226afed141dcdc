//! The client as tools use it: the texts of files that it holds, and commands in terminals of its own.
//!
//! It knows nothing of protocols: who embeds this crate brings a [`TextBackend`] and a
//! [`TerminalBackend`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_types::TerminalExit;
use callboard_text::{head, visible};
use futures::future::BoxFuture;

use crate::limits::MAX_CLIENT_ERROR_BYTES;

/// The texts of files as a client holds them.
///
/// Each method ends within a bounded time. Dropping what it returns takes the request back.
pub trait TextBackend: fmt::Debug + Send + Sync {
    /// Returns whether the client takes texts too; if not, [`write`](Self::write) is never called.
    fn can_write(&self) -> bool;

    /// Asks for the whole text of a file, by its absolute path.
    ///
    /// # Errors
    ///
    /// What the client said, or that it said nothing in time.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>>;

    /// Tells the whole text that a file shall have.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read). Nobody knows then whether the client has taken the text.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str)
    -> BoxFuture<'a, Result<(), ClientError>>;
}

/// Why a client did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

impl ClientError {
    /// Makes it of what the client said, of which the beginning is kept, made visible.
    #[must_use]
    pub fn new(why: &str) -> Self {
        Self(visible(head(why.trim(), MAX_CLIENT_ERROR_BYTES)).trim_end_matches('.').to_owned())
    }
}

/// The terminals of a client that runs commands itself.
///
/// Each method, and each of [`ClientTerminal`], ends within a bounded time, except
/// [`ClientTerminal::wait`], which whoever waits bounds. Dropping what it returns takes the request
/// back.
pub trait TerminalBackend: fmt::Debug + Send + Sync {
    /// Starts a command. A terminal that comes when nobody waits for it any more is released.
    ///
    /// # Errors
    ///
    /// What the client said, or that it said nothing in time.
    fn create(
        &self,
        command: ClientCommand,
    ) -> BoxFuture<'_, Result<Arc<dyn ClientTerminal>, ClientError>>;
}

/// A terminal at the client. Dropping it releases it, once: what still runs in it is ended, and
/// what the client shows of it stays.
///
/// Clients refuse to be told more of a call that shows a terminal which is released, so it is
/// [kept](acp_lifecycle::CallHandle::keep) until its call has ended.
pub trait ClientTerminal: fmt::Debug + Send + Sync {
    /// Returns what the client calls it.
    fn id(&self) -> &str;

    /// Waits until its command has ended.
    ///
    /// # Errors
    ///
    /// What the client said.
    fn wait(&self) -> BoxFuture<'_, Result<TerminalExit, ClientError>>;

    /// Asks for its output so far.
    ///
    /// # Errors
    ///
    /// What the client said, or that it said nothing in time.
    fn output(&self) -> BoxFuture<'_, Result<ClientOutput, ClientError>>;

    /// Ends its command. The terminal stays.
    ///
    /// # Errors
    ///
    /// As [`output`](Self::output).
    fn kill(&self) -> BoxFuture<'_, Result<(), ClientError>>;
}

/// A command for a client to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCommand {
    /// The program.
    pub program: String,
    /// What it is told.
    pub args: Vec<String>,
    /// What is set in its environment, beside what the client has there.
    pub env: Vec<(String, String)>,
    /// The absolute path it starts in.
    pub cwd: PathBuf,
    /// Bytes of its output that the client is to keep, the last ones.
    pub output_bytes: u64,
}

/// What a command at a client has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOutput {
    /// What the client kept of it.
    pub text: String,
    /// Whether that is not all: the beginning is missing then, or the end, as clients differ.
    pub is_truncated: bool,
    /// How the command ended, once it has.
    pub exit: Option<TerminalExit>,
}
