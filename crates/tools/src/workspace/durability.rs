//! When a file counts as written. It knows nothing of how it is.

use std::fs::File;
use std::io;

/// When a file counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the disk has its bytes: after a failure of the power a file holds all of the old ones or
    /// all of the new ones, and one that was new may be missing. Directories are not waited for.
    #[default]
    Disk,
    /// When the system has it: it outlives the process.
    System,
}

impl Durability {
    /// Waits until a file is written.
    pub(crate) fn of(self, file: &File) -> io::Result<()> {
        match self {
            Self::Disk => file.sync_data(),
            Self::System => Ok(()),
        }
    }
}
