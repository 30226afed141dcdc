//! Commands that the client runs, in terminals of its own.
//!
//! It knows nothing of how the client is asked, and of what the commands are for.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use acp_types::Exit;
use futures::future::BoxFuture;

use super::ClientError;

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
    fn wait(&self) -> BoxFuture<'_, Result<Exit, ClientError>>;

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
    pub is_cut: bool,
    /// How the command ended, once it has.
    pub exit: Option<Exit>,
}
