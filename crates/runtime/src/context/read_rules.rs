//! Whether the model may see a file that no call reads: instructions, and links of a prompt.

use std::path::Path;

use acp_lifecycle::{AskExceptReadsPolicy, Rules, Verdict};
use acp_tools::Workspace;

/// The rules of a session at one moment, applied to reading.
///
/// A mode that asks before each read asks about calls. The user put the instructions there and
/// linked the files, so only a rule withholds them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadRules(pub(crate) Rules);

impl ReadRules {
    /// Returns whether no rule denies reading a file or asks about it. Blocks.
    pub(crate) fn permits_reading(&self, workspace: &Workspace, path: &Path) -> bool {
        self.0.judge_call(&workspace.read_effects(path), &AskExceptReadsPolicy) == Verdict::Allow
    }
}
