//! Checks whether the model may receive a file that is not read by a call: an instruction file, or
//! a file that a prompt links to.

use std::path::Path;

use acp_lifecycle::{Rules, Verdict};
use acp_tools::Workspace;

/// A copy of a session's rules, to check whether files may be read.
///
/// Instruction files and linked files come from the user, so only a rule can forbid reading them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImplicitReadChecker(pub(crate) Rules);

impl ImplicitReadChecker {
    /// Returns whether a file may be read: no rule may deny the read or ask about it. Blocks while
    /// it accesses the file system.
    pub(crate) fn permits_reading(&self, workspace: &Workspace, path: &Path) -> bool {
        workspace.judge_read(path, &self.0) == Verdict::Allow
    }
}
