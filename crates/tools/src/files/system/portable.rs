//! Accesses files inside a directory by their canonical paths. Used on systems without directory
//! descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{DirectoryEntry, EntryMetadata, FileId, FileKind, FileVisibility, outside_root_error};

/// A directory, identified by its canonical path.
#[derive(Debug)]
pub(crate) struct PinnedDirectory(PathBuf);

impl PinnedDirectory {
    pub(crate) fn pin(path: &Path) -> io::Result<Self> {
        Ok(Self(path.canonicalize()?))
    }

    /// Pins a directory. The path must be absolute and must not contain links.
    pub(crate) fn pin_without_links(path: &Path) -> io::Result<Self> {
        if path.canonicalize()? == path {
            Ok(Self(path.to_owned()))
        } else {
            Err(outside_root_error())
        }
    }

    pub(crate) fn has_kernel_confinement(&self) -> bool {
        false
    }

    /// Returns whether the directory was removed.
    pub(crate) fn is_removed(&self) -> bool {
        !self.0.exists()
    }

    /// Returns `false`, because this system has no procfs.
    pub(crate) fn is_procfs(&self) -> bool {
        false
    }

    /// Opens a file of any kind for reading.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        File::open(self.resolve(path)?)
    }

    /// Opens a file in the same way as [`Self::open_file`], but rejects links in the path.
    pub(crate) fn open_file_without_links(&self, path: &Path) -> io::Result<File> {
        File::open(self.resolve_without_links(path)?)
    }

    /// Returns the metadata of a file. Follows links, like [`fs::metadata`].
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(self.resolve(path)?)
    }

    /// Returns the metadata in the same way as [`Self::metadata`], but rejects links in the path.
    pub(crate) fn metadata_without_links(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(self.resolve_without_links(path)?)
    }

    pub(crate) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        Dir::from_path(self.resolve(path)?)
    }

    /// Opens a directory in the same way as [`Self::open_dir`], but rejects links in the path.
    pub(crate) fn open_dir_without_links(&self, path: &Path) -> io::Result<Dir> {
        Dir::from_path(self.resolve_without_links(path)?)
    }

    fn resolve_without_links(&self, path: &Path) -> io::Result<PathBuf> {
        let whole: PathBuf = self.0.join(path).components().collect();
        if self.resolve(path)? == whole { Ok(whole) } else { Err(outside_root_error()) }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let real = self.0.join(path).canonicalize()?;
        if real.starts_with(&self.0) { Ok(real) } else { Err(outside_root_error()) }
    }
}

/// A directory, identified by its canonical path. The methods accept only names that are a single
/// path component.
#[derive(Debug)]
pub(crate) struct Dir(PathBuf);

impl Dir {
    fn from_path(path: PathBuf) -> io::Result<Self> {
        if path.is_dir() { Ok(Self(path)) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Returns `None`, because on this system no path leads to a descriptor.
    #[cfg(not(unix))]
    pub(crate) fn descriptor_path(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the id of this directory. The system may give the same id to several directories.
    pub(crate) fn own_id(&self) -> io::Result<FileId> {
        Ok(metadata_file_id(&fs::metadata(&self.0)?))
    }

    /// Returns at most `max` entries in no particular order. Also returns whether the directory has
    /// more entries.
    pub(crate) fn entries(&self, max: usize) -> io::Result<(Vec<DirectoryEntry>, bool)> {
        self.entries_while(max, || true)
    }

    /// Returns entries in the same way as [`Self::entries`]. Calls `goes_on` before each entry, and
    /// stops if `goes_on` returns `false`.
    pub(crate) fn entries_while(
        &self,
        max: usize,
        mut goes_on: impl FnMut() -> bool,
    ) -> io::Result<(Vec<DirectoryEntry>, bool)> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entries.len() == max || !goes_on() {
                return Ok((entries, true));
            }
            let kind = entry.file_type().map_or(FileKind::Special, FileKind::from);
            entries.push(DirectoryEntry { name: entry.file_name(), kind });
        }
        Ok((entries, false))
    }

    /// Returns whether the directory was removed.
    pub(crate) fn is_removed(&self) -> bool {
        !self.0.exists()
    }

    pub(crate) fn entry_kind(&self, name: &OsStr) -> io::Result<FileKind> {
        Ok(fs::symlink_metadata(self.0.join(name))?.file_type().into())
    }

    /// Returns the id of an entry. The system may give the same id to several entries.
    pub(crate) fn entry_id(&self, name: &OsStr) -> io::Result<FileId> {
        Ok(metadata_file_id(&fs::symlink_metadata(self.0.join(name))?))
    }

    /// Opens a file only to keep it open. As long as it is open, its [id](Self::entry_id) is not
    /// used again, even if the file is removed.
    pub(crate) fn hold_open(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.0.join(name))
    }

    /// Returns those metadata of an entry that the system provides.
    pub(crate) fn entry_metadata(&self, name: &OsStr) -> io::Result<EntryMetadata> {
        let metadata = fs::symlink_metadata(self.0.join(name))?;
        let since =
            metadata.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let modified = since.map_or(0, |since| since.as_nanos() as i128);
        Ok(EntryMetadata {
            kind: metadata.file_type().into(),
            file_id: self.entry_id(name)?,
            bytes: metadata.len(),
            // The modes of this system say nothing.
            mode: 0,
            modified,
            changed: modified,
        })
    }

    /// Opens a subdirectory of this directory.
    pub(crate) fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        if self.entry_kind(name)? == FileKind::Directory {
            Ok(Self(self.0.join(name)))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Returns `true`, because only trying to move an entry shows whether the move is possible.
    pub(crate) fn is_on_same_file_system(&self, _: &Self) -> bool {
        true
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(fs::read_link(self.0.join(name))?.into())
    }

    /// Returns 0, because this system has no file modes.
    #[cfg(not(unix))]
    pub(crate) fn mode_bits(&self) -> io::Result<u32> {
        Ok(0)
    }

    #[cfg(not(unix))]
    pub(crate) fn allow_owner_to_change(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(not(unix))]
    pub(crate) fn create_link(&self, _: &OsStr, _: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open_read_write(&self, name: &OsStr) -> io::Result<File> {
        if self.entry_kind(name)? == FileKind::Link {
            return Err(outside_root_error());
        }
        File::options().read(true).write(true).open(self.0.join(name))
    }

    /// Opens a file of any kind for reading.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        if self.entry_kind(name)? == FileKind::Link {
            return Err(outside_root_error());
        }
        File::open(self.0.join(name))
    }

    /// Creates a new file. Fails if the name already exists.
    pub(crate) fn create_new_file(&self, name: &OsStr, _: FileVisibility) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    pub(crate) fn create_dir(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    /// Renames a file. An existing file with the new name is replaced.
    pub(crate) fn rename_over(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    /// Swaps two names atomically. On this system, the function always fails, because there is no
    /// such operation.
    pub(crate) fn exchange(&self, _: &OsStr, _: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Creates a hard link to a file, under a name that does not exist yet.
    pub(crate) fn create_hard_link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::hard_link(self.0.join(from), self.0.join(to))
    }

    /// Renames a file. Fails if the new name already exists.
    pub(crate) fn rename_to_unused(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_to_unused_in(from, self, to)
    }

    /// Moves a file to another directory. Fails if the new name already exists.
    pub(crate) fn rename_to_unused_in(
        &self,
        from: &OsStr,
        dir: &Self,
        to: &OsStr,
    ) -> io::Result<()> {
        fs::hard_link(self.0.join(from), dir.0.join(to))?;
        self.remove_file(from)
    }

    /// Only checks that the directory exists, because this system cannot write a directory to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        fs::metadata(&self.0).map(drop)
    }

    /// Only checks that the directory exists, because only trying to create a file shows the
    /// permissions.
    pub(crate) fn require_can_create(&self) -> io::Result<()> {
        fs::metadata(&self.0).map(drop)
    }

    /// Checks that a file is not read-only.
    pub(crate) fn require_file_writable(&self, name: &OsStr) -> io::Result<()> {
        let is_fixed = fs::metadata(self.0.join(name))?.permissions().readonly();
        if is_fixed { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// Returns `false`, because a single file cannot be a mount point on this system.
    pub(crate) fn is_mounted(&self, _: &OsStr) -> bool {
        false
    }

    /// Only checks that the file exists, because this system has no file modes.
    pub(crate) fn restrict_file_to_owner(&self, name: &OsStr) -> io::Result<Option<u32>> {
        fs::symlink_metadata(self.0.join(name)).map(|_| None)
    }

    /// Only checks that the file exists, because this system has no file modes.
    pub(crate) fn set_mode_following_links(&self, name: &OsStr, _: u32) -> io::Result<()> {
        fs::symlink_metadata(self.0.join(name)).map(drop)
    }

    /// Only checks that the directory exists, because this system has no file modes.
    #[cfg(not(unix))]
    pub(crate) fn set_entry_mode(&self, name: &OsStr, _: u32) -> io::Result<()> {
        fs::symlink_metadata(self.0.join(name)).map(drop)
    }

    /// Only checks that the directory exists, because only writing a file shows whether there is
    /// enough space. Returns the maximum value of `u64`.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        fs::metadata(&self.0).map(|_| u64::MAX)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }
}

/// Returns `false`, because this system cannot find this out with one system call.
#[cfg(not(unix))]
pub(crate) fn exists_and_has_no_links(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Returns the metadata of an absolute path. Follows links.
pub(crate) fn path_metadata_following_links(path: &Path) -> io::Result<Metadata> {
    fs::metadata(path)
}

/// Returns the time of the clock from which files get their times, in nanoseconds since the Unix
/// epoch.
#[cfg(not(unix))]
pub(crate) fn file_clock_now() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

/// Returns the id of a file. The system may give the same id to several files.
pub(crate) fn metadata_file_id(metadata: &Metadata) -> FileId {
    let made = metadata.created().ok();
    let since = made.and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    // The length of a directory changes with its content, so it is not used.
    let length = if metadata.is_dir() { 0 } else { metadata.len() };
    (since.map_or(0, |since| since.as_nanos() as u64), length)
}

/// Returns `false`. On this system, only the name of a file determines whether the file is
/// executable.
pub(crate) fn is_executable(_: &File) -> bool {
    false
}

/// Returns 1, because the standard library does not report the number of hard links on this system.
pub(crate) fn link_count(_: &Metadata) -> u64 {
    1
}

/// Returns 0, because this system has no file modes.
#[cfg(not(unix))]
pub(crate) fn mode_bits(_: &Metadata) -> u32 {
    0
}

/// Does nothing, because this system has no file modes.
#[cfg(not(unix))]
pub(crate) fn set_mode_bits(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Copies the permissions of the file `from` to the file `to`.
pub(crate) fn copy_access(from: &File, to: &File) -> io::Result<bool> {
    to.set_permissions(from.metadata()?.permissions())?;
    Ok(true)
}
