//! When a file counts as written. It knows nothing of how it is.

use std::fs::File;
use std::io;

/// When a file counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the disk has it: it outlives a failure of the power.
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
