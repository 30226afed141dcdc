//! The sandbox of a command.

use callboard_sandbox::{Isolation, SandboxPolicy};
use serde::{Deserialize, Serialize};

/// The sandbox of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommandSandbox {
    /// The files that the command may change and read.
    pub policy: SandboxPolicy,
    /// The kind of isolation, never [`Isolation::None`]: see
    /// [`probe_isolation`](callboard_sandbox::probe_isolation).
    pub isolation: Isolation,
}

impl CommandSandbox {
    /// Creates a sandbox.
    #[must_use]
    pub fn new(policy: SandboxPolicy, isolation: Isolation) -> Self {
        Self { policy, isolation }
    }
}
