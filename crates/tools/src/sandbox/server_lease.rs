//! The parts of a sandbox that belong to one server. A server is a program that runs at the same
//! time as the commands.

use std::path::PathBuf;

use super::caches::ClaimedCacheCopies;
use super::protected_copies::ProtectedCopies;

/// The parts of a sandbox that belong to one server. The value must be kept as long as the server
/// runs.
#[derive(Debug)]
pub struct ServerSandboxLease {
    /// Copies of the files with protected names, made before the server started.
    copies: ProtectedCopies,
    _cache_copy: Option<ClaimedCacheCopies>,
}

impl ServerSandboxLease {
    pub(super) fn new(copies: ProtectedCopies, cache_copy: Option<ClaimedCacheCopies>) -> Self {
        Self { copies, _cache_copy: cache_copy }
    }

    /// Returns the protected names that the isolation could not protect and that have changed since
    /// the server started. The changes are not undone, because the user or other programs may have
    /// made them. Blocks.
    #[must_use]
    pub fn changed_names(&self) -> Vec<PathBuf> {
        self.copies.find_changed()
    }
}
