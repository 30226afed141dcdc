//! The options of a permission request.

use serde::{Deserialize, Serialize};

/// An option that a client can select in its response to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PermissionOption {
    /// Id that the client sends to select the option, unique in the request.
    pub id: String,
    /// Label shown to people.
    pub name: String,
    /// Meaning of the option. Clients use the kind to choose an icon and a key.
    pub kind: PermissionOptionKind,
}

impl PermissionOption {
    /// Creates an option.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, kind: PermissionOptionKind) -> Self {
        Self { id: id.into(), name: name.into(), kind }
    }
}

/// The meaning of an option. The variants are those of v1 and draft v2
/// (<https://agentclientprotocol.com/protocol/v1/tool-calls#requesting-permission>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionOptionKind {
    /// Allows this call.
    AllowOnce,
    /// Allows this call and similar calls.
    AllowAlways,
    /// Rejects this call.
    RejectOnce,
    /// Rejects this call and similar calls.
    RejectAlways,
}
