//! The files of a session: the folders that it may reach, what is read and written there, and what is
//! kept of what was changed.
//!
//! It knows nothing of tools and permissions.

pub mod content_hash;
mod contents;
pub mod encoding;
pub mod read;
pub mod remove;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod system;
pub mod undo;
pub mod walk;
pub mod workspace;
pub mod write;

use std::fs::File;
use std::io;

use self::system::Dir;

pub use self::state::late_writes::LateWrite;

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
    pub(crate) fn sync_file(self, file: &File) -> io::Result<()> {
        match self {
            Self::Disk => file.sync_data(),
            Self::System => Ok(()),
        }
    }

    /// Waits until the names in a directory are written.
    pub(crate) fn sync_directory(self, dir: &Dir) -> io::Result<()> {
        match self {
            Self::Disk => dir.sync(),
            Self::System => Ok(()),
        }
    }
}
