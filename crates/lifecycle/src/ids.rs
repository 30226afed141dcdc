//! The ids of a session's requests and responses. Each kind of id has a separate type, so that ids
//! of different kinds cannot be confused.

use std::fmt;

/// The id of a permission request. Only the session creates such an id, and each id is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermissionId(pub(crate) u64);

/// The id of any other request to the client. The sender chooses the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentRequestId(u64);

/// The id of a response to a client request other than a prompt. The code that responds chooses the
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentResponseId(u64);

impl AgentRequestId {
    /// Creates the id of a request. The number must be unique in the session.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }
}

impl AgentResponseId {
    /// Creates the id of a response. The number must be unique in the session.
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
