//! Opens files beneath a pinned directory, and changes directory entries.
//!
//! On Linux the kernel confines every path to the directory (`openat2`), even during concurrent
//! renames. On other systems, and if the kernel or its sandbox lacks `openat2`, the path is
//! canonicalized, compared and opened. In this case the confinement has a race. If another program
//! replaces a directory by a link at exactly that moment, the opened file can be outside of the
//! directory. [`PinnedDirectory::has_kernel_confinement`] reports which case applies.
//!
//! A path that leaves the directory fails with [`io::ErrorKind::CrossesDevices`]. A loop of links,
//! and a link in a path that must not contain links, fail with the same error.

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

/// Reads the rest of a file. Returns `None` if the rest exceeds `cap` bytes.
pub(crate) fn read_to_cap(file: &File, cap: u64) -> io::Result<Option<Vec<u8>>> {
    let known = file.metadata().map_or(0, |metadata| metadata.len().min(cap));
    // One extra byte lets `read_to_end` detect the end without a reallocation.
    let mut bytes = Vec::with_capacity(usize::try_from(known).unwrap_or(0) + 1);
    file.take(cap + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= cap).then_some(bytes))
}

/// The device number and the inode number of a file or directory. The pair is unique in the system.
pub(crate) type FileId = (u64, u64);

/// A value that has a [`FileId`]: an open file, an open directory, or metadata.
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

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Directory,
    File,
    Link,
    /// A FIFO, socket or device.
    Special,
}

/// A name in a directory, with its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    pub(crate) kind: FileKind,
}

/// The metadata of a directory entry. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryMetadata {
    pub(crate) kind: FileKind,
    /// The unique id of the entry.
    pub(crate) file_id: FileId,
    pub(crate) bytes: u64,
    /// The time of the last change of the content, in nanoseconds since the Unix epoch.
    pub(crate) modified: i128,
    /// The time of the last change of the content or the metadata, in nanoseconds since the Unix
    /// epoch. A new name also counts as a change.
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

/// The users who can read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileVisibility {
    /// Only the owner can read the file.
    Owner,
    /// All users that the umask permits can read the file.
    Everyone,
}

fn outside_root_error() -> io::Error {
    io::ErrorKind::CrossesDevices.into()
}
