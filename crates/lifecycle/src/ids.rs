//! The ids of a session's requests and responses. The types keep the kinds apart.

use std::fmt;

/// The id of a permission request. Only the session creates one, and each is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermissionId(pub(crate) u64);

/// The id of any other request to the client, chosen by the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentRequestId(u64);

/// The id of a response to a client request other than a prompt, chosen by the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentResponseId(u64);

impl AgentRequestId {
    /// Creates the id of a request. Numbers must be unique in a session.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }
}

impl AgentResponseId {
    /// Creates the id of a response. Numbers must be unique in a session.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for PermissionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
