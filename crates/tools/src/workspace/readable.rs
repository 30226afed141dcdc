//! What may be read although it is outside of the roots: the whole outputs of the session's
//! commands. It knows nothing of what else a workspace holds.

use std::sync::Arc;

use super::Workspace;
use crate::outputs::Outputs;

impl Workspace {
    /// The files with the whole outputs of the session's commands.
    pub(crate) fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Returns the workspace that a path is to be read in: another one for an output of this
    /// session, which nothing that writes gets to see.
    #[must_use]
    pub fn reading(self: &Arc<Self>, given: &str) -> Arc<Self> {
        self.outputs.readable(given).unwrap_or_else(|| Arc::clone(self))
    }
}
