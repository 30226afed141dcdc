//! When a file counts as written. It knows nothing of how it is.

use std::fs::File;
use std::io;

use crate::sys::fs::Dir;

/// When a file counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the disk has its bytes and its name, so that it outlives a failure of the power. While
    /// it is written, a failure leaves all of the old bytes or all of the new ones, and several files
    /// of a call are all old ones after the next start or all new ones; a file with several names,
    /// which is written in place, is then made whole by that start, too. What lies beside a file
    /// may be left. What is deleted or moved may be back.
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

    /// Waits until the names in a directory are written.
    pub(crate) fn of_names(self, dir: &Dir) -> io::Result<()> {
        match self {
            Self::Disk => dir.sync(),
            Self::System => Ok(()),
        }
    }
}
