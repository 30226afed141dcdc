//! What a client may answer when it is asked for permission.

use serde::{Deserialize, Serialize};

/// One answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PermissionOption {
    /// What the client sends to choose it, unique in the request.
    pub id: String,
    /// What people read.
    pub name: String,
    /// What it means, by which clients choose icons and keys.
    pub kind: PermissionOptionKind,
}

impl PermissionOption {
    /// Makes an option.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, kind: PermissionOptionKind) -> Self {
        Self { id: id.into(), name: name.into(), kind }
    }
}

/// What an option means; the set of v1 and draft v2
/// (<https://agentclientprotocol.com/protocol/v1/tool-calls#requesting-permission>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionOptionKind {
    /// This call may run.
    AllowOnce,
    /// This call may run, and those like it.
    AllowAlways,
    /// This call may not run.
    RejectOnce,
    /// This call may not run, nor those like it.
    RejectAlways,
}
