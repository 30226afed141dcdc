//! The sandbox of a command.

use callboard_sandbox::{Isolation, NetworkHandle, SandboxPolicy};
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
    /// The network that the command shares with others. If this is `None`, the command has its own
    /// network, unless the policy permits the network of the host.
    pub network: Option<NetworkHandle>,
}

impl CommandSandbox {
    /// Creates a sandbox.
    #[must_use]
    pub fn new(policy: SandboxPolicy, isolation: Isolation) -> Self {
        Self { policy, isolation, network: None }
    }

    /// Lets the command share a network. The network must exist while the command runs.
    #[must_use]
    pub fn with_shared_network(self, network: impl Into<Option<NetworkHandle>>) -> Self {
        Self { network: network.into(), ..self }
    }
}
