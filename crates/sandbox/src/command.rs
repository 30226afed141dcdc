//! Properties of a sandboxed command that are the same on all systems.

use serde::{Deserialize, Serialize};

/// The session of processes to which a command belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProcessSession {
    /// The session and the process group of the caller.
    #[default]
    Inherited,
    /// A new session. If standard input, output or error is a terminal that belongs to no session,
    /// the terminal becomes the controlling terminal.
    New,
}

/// Actions of the helper after the command had ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxCleanupReport {
    /// Number of processes that were still running when the command ended, and that the helper
    /// therefore ended. Always 0 without a process namespace.
    pub left_over: usize,
}
