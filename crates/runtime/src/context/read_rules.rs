//! Checks whether the model may see a file that no tool call reads: an instruction file, or a file
//! that a prompt links to.

use std::path::Path;

use acp_lifecycle::{AskExceptReadsPolicy, Rules, Verdict};
use acp_tools::Workspace;

/// A snapshot of a session's rules, for reading files.
///
/// A mode that asks before each read asks only about calls. The user created the instructions and
/// linked the files, so only a rule can withhold them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadRules(pub(crate) Rules);

impl ReadRules {
    /// Returns whether a file may be read, i.e. no rule denies reading the file or asks about it.
    /// This method blocks.
    pub(crate) fn permits_reading(&self, workspace: &Workspace, path: &Path) -> bool {
        self.0.judge_call(&workspace.read_effects(path), &AskExceptReadsPolicy) == Verdict::Allow
    }
}
