//! The names of what a session asks its client, and of what it answers. No two kinds can be taken for
//! one another.

use std::fmt;

/// A permission request of a session: only the session makes one, and never the same twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermissionId(pub(crate) u64);

/// A request to the client that is about no permission, by a number of whoever sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientRequestId(u64);

/// The response to a request of the client that is no prompt, by a number of whoever answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResponseId(u64);

impl ClientRequestId {
    /// Makes the name of a request; the caller gives no two of a session the same number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }
}

impl ResponseId {
    /// Makes the name of a response; the caller gives no two of a session the same number.
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
