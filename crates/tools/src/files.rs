//! The files of a session: project folders, reading, writing, and undo.

pub(crate) mod apply;
pub mod content_hash;
mod contents;
pub mod encoding;
pub(crate) mod entry_fingerprint;
pub mod read;
pub mod remove;
pub mod rewind;
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
pub use self::state::session_folder::{
    remove_files_of_session, remove_session_files_before, session_folder_times_and_sizes,
};

/// The point at which a write counts as complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The bytes and the file name are on disk, so the write survives a power failure.
    ///
    /// If a power failure interrupts a write, the file has either all old bytes or all new bytes.
    /// After the next start, either all files of one call have the old content, or all have the new
    /// content. A file with several hard links is written in place. If a power failure leaves a
    /// mixture of old and new bytes in such a file, the next start restores the old bytes.
    /// Temporary files may remain next to a file. A power failure may undo a deletion or a move.
    #[default]
    Disk,
    /// The operating system has received the bytes. The write survives if the process ends, but not
    /// a power failure.
    System,
}

impl Durability {
    /// Waits until the content of a file is durable.
    pub(crate) fn sync_file(self, file: &File) -> io::Result<()> {
        match self {
            Self::Disk => file.sync_data(),
            Self::System => Ok(()),
        }
    }

    /// Waits until the entries of a directory are durable.
    pub(crate) fn sync_directory(self, dir: &Dir) -> io::Result<()> {
        match self {
            Self::Disk => dir.sync(),
            Self::System => Ok(()),
        }
    }
}
