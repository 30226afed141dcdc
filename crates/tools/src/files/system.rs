//! Opens files beneath a pinned directory, and changes directories entry by entry.
//!
//! It knows nothing of workspaces, permissions or what the model is told.
//!
//! On Linux the kernel keeps every path beneath the directory (`openat2`), whatever is renamed
//! meanwhile. Elsewhere, and where the kernel or its sandbox has no `openat2`, the path is made
//! canonical, compared and opened: who swaps a directory for a link in just that moment gets out.
//! [`Root::is_kernel_fenced`] tells which it is.
//!
//! A path that leads out is [`io::ErrorKind::CrossesDevices`], also where it is a circle of links,
//! and so is a straight one with a link in it.

#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(test)]
#[cfg(unix)]
mod tests;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use portable::{
    Dir, PinnedDirectory, copy_access, is_executable, link_count, metadata_file_id, path_metadata,
};
#[cfg(all(test, unix))]
pub(crate) use unix::simulated_file_system;
#[cfg(unix)]
pub(crate) use unix::{
    Dir, PinnedDirectory, copy_access, is_executable, link_count, metadata_file_id, path_metadata,
};

use std::ffi::OsString;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read as _};

/// Reads the rest of a file; nothing, if that is more than `cap` bytes.
pub(crate) fn read_to_cap(file: &File, cap: u64) -> io::Result<Option<Vec<u8>>> {
    let known = file.metadata().map_or(0, |metadata| metadata.len().min(cap));
    // One more, so that the end is found without more room.
    let mut bytes = Vec::with_capacity(usize::try_from(known).unwrap_or(0) + 1);
    file.take(cap + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= cap).then_some(bytes))
}

/// What tells a file or directory from all others: its device and its number there.
pub(crate) type FileId = (u64, u64);

/// Something that was opened, or looked at, and can be told from others.
pub(crate) trait HasFileId {
    fn file_id(&self) -> io::Result<FileId>;
}

impl HasFileId for Metadata {
    fn file_id(&self) -> io::Result<FileId> {
        Ok(metadata_file_id(self))
    }
}

impl HasFileId for File {
    fn file_id(&self) -> io::Result<FileId> {
        self.metadata()?.file_id()
    }
}

impl HasFileId for Dir {
    fn file_id(&self) -> io::Result<FileId> {
        self.own_id()
    }
}

/// What a name in a directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Directory,
    File,
    Link,
    /// A FIFO, socket or device.
    Special,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    pub(crate) kind: FileKind,
}

/// What is at a name, by all that is known of it without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryMetadata {
    pub(crate) kind: FileKind,
    /// What tells it from all others of the system.
    pub(crate) file_id: FileId,
    pub(crate) bytes: u64,
    /// When its content changed last, in nanoseconds.
    pub(crate) modified: i128,
    /// When anything of it changed last, its name too.
    pub(crate) changed: i128,
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        if file_type.is_dir() {
            Self::Directory
        } else if file_type.is_file() {
            Self::File
        } else if file_type.is_symlink() {
            Self::Link
        } else {
            Self::Special
        }
    }
}

/// Who may read a file that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileVisibility {
    /// Its owner alone.
    Owner,
    /// Whoever the user's umask lets.
    Everyone,
}

fn outside_root_error() -> io::Error {
    io::ErrorKind::CrossesDevices.into()
}
