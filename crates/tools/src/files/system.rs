//! Opens files inside a pinned directory, and changes the entries of directories.
//!
//! On Linux, the kernel confines each path to the directory with `openat2`, even if other programs
//! rename directories at the same time. On other systems, and if the kernel or its sandbox does not
//! support `openat2`, the path is canonicalized, compared and then opened. This confinement has a
//! race condition: if another program replaces a directory by a link between these steps, the
//! opened file may be outside of the directory. [`PinnedDirectory::has_kernel_confinement`] returns
//! which kind of confinement is used.
//!
//! A path that leads out of the directory fails with [`io::ErrorKind::CrossesDevices`]. The same
//! error is used for a loop of links, and for a link in a path that must not contain links.

#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(test)]
#[cfg(unix)]
mod tests;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use portable::{
    Dir, PinnedDirectory, copy_access, exists_without_links, file_clock_now, is_executable,
    link_count, metadata_file_id, mode_bits, path_metadata_following_links, set_mode_bits,
};
#[cfg(all(test, unix))]
pub(crate) use unix::simulated_file_system;
#[cfg(unix)]
pub(crate) use unix::{
    Dir, PinnedDirectory, copy_access, exists_and_has_no_links, file_clock_now, is_executable,
    link_count, metadata_file_id, mode_bits, path_metadata_following_links, set_mode_bits,
};

use std::ffi::OsString;
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// Reads the rest of a file. Returns `None` if this is more than `cap` bytes.
pub(crate) fn read_all_if_within_limit(file: &File, cap: u64) -> io::Result<Option<Vec<u8>>> {
    let known = file.metadata().map_or(0, |metadata| metadata.len().min(cap));
    // With one extra byte, `read_to_end` detects the end of the file without a reallocation.
    let mut bytes = Vec::with_capacity(usize::try_from(known).unwrap_or(0) + 1);
    file.take(cap + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= cap).then_some(bytes))
}

/// Follows all links of an absolute path. Most paths have none, which a single system call shows.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    if path.is_absolute() && !has_parent && exists_and_has_no_links(path)? {
        return Ok(path.components().collect());
    }
    path.canonicalize()
}

/// Returns the id of the current boot, which differs after each restart of the system. Returns
/// `None` if the system has no such id.
pub(crate) fn boot_id() -> Option<&'static str> {
    static ID: LazyLock<Option<String>> =
        LazyLock::new(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());
    ID.as_deref().map(str::trim).filter(|id| !id.is_empty())
}

/// The device number and the inode number of a file or directory. The pair is unique on the system.
pub(crate) type FileId = (u64, u64);

/// A value that has a [`FileId`]: an open file, an open directory, or some metadata.
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

/// The name of an entry in a directory, and the kind of the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    pub(crate) kind: FileKind,
}

/// The metadata of a directory entry. If the entry is a link, this is the metadata of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryMetadata {
    pub(crate) kind: FileKind,
    /// The unique id of the entry on this system.
    pub(crate) file_id: FileId,
    pub(crate) bytes: u64,
    /// The permission bits, including the set-user-id, set-group-id and sticky bits.
    pub(crate) mode: u32,
    /// The time at which the content last changed, in nanoseconds since the Unix epoch.
    pub(crate) modified: i128,
    /// The time at which the content or the metadata last changed, in nanoseconds since the Unix
    /// epoch. Renaming the entry also changes this time.
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

/// The users who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileVisibility {
    /// Only the owner can read the file.
    Owner,
    /// All users to whom the umask gives access can read the file.
    Everyone,
}

pub(crate) fn outside_root_error() -> io::Error {
    io::ErrorKind::CrossesDevices.into()
}

/// Returns whether the error means that the links of a path form a loop.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    #[cfg(unix)]
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    let is_loop = false;
    is_loop
}
