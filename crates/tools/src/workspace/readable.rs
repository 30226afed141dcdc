//! What may be read although it is outside of the roots: the whole outputs of the session's
//! commands. It knows nothing of what else a workspace holds.

use std::io;
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

    /// Deletes the whole outputs of the session's commands, when the session itself is deleted.
    /// Those of sessions that are not deleted are removed after 7 days.
    ///
    /// # Errors
    ///
    /// What the system says, if some of them cannot be deleted.
    pub fn forget_outputs(&self) -> io::Result<()> {
        self.outputs.remove()
    }
}
