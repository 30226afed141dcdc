//! Operations on the entries of a directory, through the file descriptor of the directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use rustix::fs as sys;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::{DirectoryEntry, EntryMetadata, FileId, FileKind, FileVisibility};
#[cfg(test)]
use super::rename::simulated_file_system;
use super::rename::{RenameMode, hard_link, is_hard_link_refused, rename_with};
use super::{NONBLOCKING_FLAGS, OPEN_DIRECTORY_FLAGS, OPEN_PATH_FLAGS, OPEN_READ_FLAGS};

const OPEN_READ_WRITE_FLAGS: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(NONBLOCKING_FLAGS);
const CREATE_NEW_FLAGS: OFlags = OPEN_READ_WRITE_FLAGS.union(OFlags::CREATE).union(OFlags::EXCL);

/// An open directory. The methods accept only names that are a single path component. If an entry
/// is a link, the link is not followed.
#[derive(Debug)]
pub(crate) struct Dir(pub(super) OwnedFd);

impl Dir {
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
        let readable =
            sys::openat(&self.0, ".", OPEN_READ_FLAGS | OFlags::DIRECTORY, Mode::empty())?;
        for entry in sys::Dir::new(readable)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if entries.len() == max || !goes_on() {
                return Ok((entries, true));
            }
            let name = OsStr::from_bytes(name).to_owned();
            let kind = match entry.file_type() {
                // Some file systems do not report the kind of an entry in a listing.
                FileType::Unknown => self.entry_kind(&name).unwrap_or(FileKind::Special),
                known => known.into(),
            };
            entries.push(DirectoryEntry { name, kind });
        }
        Ok((entries, false))
    }

    /// Returns whether the directory was removed, even if another directory has its name now.
    pub(crate) fn is_removed(&self) -> bool {
        sys::fstat(&self.0).is_ok_and(|stat| stat.st_nlink == 0)
    }

    pub(crate) fn entry_kind(&self, name: &OsStr) -> io::Result<FileKind> {
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode).into())
    }

    /// Returns a path to this directory for child processes. The path remains valid if the
    /// directory is renamed. The descriptor must stay open until the child processes have changed
    /// to the directory.
    pub(crate) fn descriptor_path(&self) -> Option<PathBuf> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        // If `/proc` is missing, the caller uses the normal path of the directory.
        (cfg!(target_os = "linux") && path.exists()).then_some(path)
    }

    /// Returns the id of this directory. The id is unique on the system.
    pub(crate) fn own_id(&self) -> io::Result<FileId> {
        let stat = sys::fstat(&self.0)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Returns the id of an entry. The id is unique on the system.
    pub(crate) fn entry_id(&self, name: &OsStr) -> io::Result<FileId> {
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Opens a file only to keep it open. As long as it is open, its [id](Self::entry_id) is not
    /// used again, even if the file is removed.
    pub(crate) fn hold_open(&self, name: &OsStr) -> io::Result<File> {
        let flags = OPEN_PATH_FLAGS | OFlags::NOFOLLOW;
        Ok(sys::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Returns the metadata of an entry.
    pub(crate) fn entry_metadata(&self, name: &OsStr) -> io::Result<EntryMetadata> {
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let time = |seconds: i128, nanoseconds: i128| seconds * 1_000_000_000 + nanoseconds;
        Ok(EntryMetadata {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            file_id: (stat.st_dev, stat.st_ino),
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            modified: time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed: time(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        })
    }

    /// Opens a subdirectory of this directory.
    pub(crate) fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OPEN_DIRECTORY_FLAGS | OFlags::NOFOLLOW;
        Ok(Self(sys::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Returns whether both directories are on the same file system. Files cannot be moved to
    /// another file system.
    pub(crate) fn is_on_same_file_system(&self, other: &Self) -> bool {
        let device = |dir: &Self| sys::fstat(&dir.0).map(|stat| stat.st_dev);
        device(self).is_ok_and(|own| device(other) == Ok(own))
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(OsString::from_vec(sys::readlinkat(&self.0, name, Vec::new())?.into_bytes()))
    }

    /// Returns the permission bits of this directory.
    pub(crate) fn mode_bits(&self) -> io::Result<u32> {
        Ok(sys::fstat(&self.0)?.st_mode & 0o7777)
    }

    /// Gives the owner of this directory all rights to it, if the owner is this user.
    pub(crate) fn allow_owner_to_change(&self) -> io::Result<()> {
        let stat = sys::fstat(&self.0)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        let wanted = mode | Mode::RWXU;
        if mode == wanted {
            return Ok(());
        }
        #[cfg(test)]
        simulated_file_system::before_change()?;
        self.set_own_mode(wanted)
    }

    /// Creates a symbolic link.
    pub(crate) fn create_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        Ok(sys::symlinkat(target, &self.0, name)?)
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open_read_write(&self, name: &OsStr) -> io::Result<File> {
        Ok(sys::openat(&self.0, name, OPEN_READ_WRITE_FLAGS, Mode::empty())?.into())
    }

    /// Opens a file of any kind for reading. Never blocks, even for a FIFO.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        Ok(sys::openat(&self.0, name, OPEN_READ_FLAGS | OFlags::NOFOLLOW, Mode::empty())?.into())
    }

    /// Creates a new file. Fails if the name already exists.
    pub(crate) fn create_new_file(
        &self,
        name: &OsStr,
        audience: FileVisibility,
    ) -> io::Result<File> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        let mode = match audience {
            FileVisibility::Owner => 0o600,
            FileVisibility::Everyone => 0o666,
        };
        Ok(sys::openat(&self.0, name, CREATE_NEW_FLAGS, Mode::from_raw_mode(mode))?.into())
    }

    pub(crate) fn create_dir(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        Ok(sys::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
    }

    /// Renames a file. An existing file with the new name is replaced.
    pub(crate) fn rename_over(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        Ok(sys::renameat(&self.0, from, &self.0, to)?)
    }

    /// Swaps two names atomically, so that each name refers to the other file.
    ///
    /// Fails with [`io::ErrorKind::Unsupported`] if the system or the file system has no such
    /// operation.
    pub(crate) fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        let done = rename_with(&self.0, one, &self.0, other, RenameMode::Exchange);
        done.unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }

    /// Creates a hard link to a file, under a name that does not exist yet.
    pub(crate) fn create_hard_link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        hard_link(&self.0, from, &self.0, to)
    }

    /// Renames an entry. Fails if the new name already exists.
    pub(crate) fn rename_to_unused(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_to_unused_in(from, self, to)
    }

    /// Moves a file or directory to another directory. Fails if the new name already exists.
    pub(crate) fn rename_to_unused_in(
        &self,
        from: &OsStr,
        dir: &Self,
        to: &OsStr,
    ) -> io::Result<()> {
        if let Some(done) = rename_with(&self.0, from, &dir.0, to, RenameMode::NoReplace) {
            return done;
        }
        // If the file system does not support `NoReplace`, create a hard link and remove the old
        // name.
        match hard_link(&self.0, from, &dir.0, to) {
            Ok(()) => self.remove_file(from).inspect_err(|_| {
                // Remove the hard link again, unless another program has replaced the new name in
                // the meantime.
                let identities = (self.entry_id(from).ok(), dir.entry_id(to).ok());
                if identities.0.is_some() && identities.0 == identities.1 {
                    drop(dir.remove_file(to));
                }
            }),
            Err(error) if is_hard_link_refused(&error) => {
                self.rename_over_placeholder(from, dir, to)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves an entry that cannot have hard links. An empty placeholder is first created at the new
    /// name, which fails if the new name already exists. A directory needs no placeholder, because
    /// it can only replace an empty directory.
    fn rename_over_placeholder(&self, from: &OsStr, dir: &Self, to: &OsStr) -> io::Result<()> {
        let is_directory = self.entry_kind(from)? == FileKind::Directory;
        match is_directory {
            true if dir.entry_kind(to).is_ok() => return Err(Errno::EXIST.into()),
            true => {}
            false => drop(dir.create_new_file(to, FileVisibility::Owner)?),
        }
        #[cfg(test)]
        simulated_file_system::before_change()?;
        sys::renameat(&self.0, from, &dir.0, to).map_err(|error| {
            if !is_directory {
                drop(dir.remove_file(to));
            }
            error.into()
        })
    }

    /// Waits until the entries of the directory are on disk. Does not wait if this is impossible,
    /// i.e. for a directory without read permission, and on some file systems.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let readable =
            sys::openat(&self.0, ".", OPEN_READ_FLAGS | OFlags::DIRECTORY, Mode::empty());
        match readable.and_then(sys::fsync) {
            Err(
                Errno::ACCESS
                | Errno::PERM
                | Errno::INVAL
                | Errno::NOTSUP
                | Errno::NOSYS
                | Errno::BADF
                | Errno::ISDIR,
            ) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Checks that files in the directory can be created, renamed and removed. Only checks what the
    /// system can report without a write.
    pub(crate) fn require_can_create(&self) -> io::Result<()> {
        self.require_access(".".as_ref(), Access::WRITE_OK | Access::EXEC_OK)?;
        #[cfg(target_os = "linux")]
        {
            use sys::StatxAttributes as Attributes;
            let is_fixed = Attributes::IMMUTABLE | Attributes::APPEND;
            if self
                .statx_attributes(".".as_ref())
                .is_some_and(|(found, _)| found.intersects(is_fixed))
            {
                return Err(Errno::PERM.into());
            }
        }
        Ok(())
    }

    /// Checks that a file can be written. Does not open the file, because that would notify file
    /// watchers.
    pub(crate) fn require_file_writable(&self, name: &OsStr) -> io::Result<()> {
        self.require_access(name, Access::WRITE_OK)
    }

    fn require_access(&self, name: &OsStr, access: Access) -> io::Result<()> {
        match sys::accessat(&self.0, name, access, AtFlags::EACCESS) {
            // If the system cannot check the permission, only the operation itself shows whether it
            // is permitted.
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => Ok(()),
            known => Ok(known?),
        }
    }

    /// Returns whether an entry is a mount point. The content of a mount point can be written, but
    /// the entry cannot be exchanged, renamed or removed.
    pub(crate) fn is_mounted(&self, name: &OsStr) -> bool {
        #[cfg(test)]
        if simulated_file_system::are_files_mounted() {
            return true;
        }
        #[cfg(target_os = "linux")]
        if let Some((found, known)) = self.statx_attributes(name)
            && known.contains(sys::StatxAttributes::MOUNT_ROOT)
        {
            return found.contains(sys::StatxAttributes::MOUNT_ROOT);
        }
        // Kernels before Linux 5.8 do not report mount points. On these kernels, the device numbers
        // are compared, which does not detect a bind mount from the same file system.
        self.own_id().ok().zip(self.entry_id(name).ok()).is_some_and(|(dir, file)| dir.0 != file.0)
    }

    /// Returns the attributes of an entry. Also returns a mask of the attributes that the file
    /// system supports.
    #[cfg(target_os = "linux")]
    fn statx_attributes(
        &self,
        name: &OsStr,
    ) -> Option<(sys::StatxAttributes, sys::StatxAttributes)> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = sys::statx(&self.0, name, flags, sys::StatxFlags::empty()).ok()?;
        Some((found.stx_attributes, found.stx_attributes_mask))
    }

    /// Changes the mode of a file so that only its owner has access. Returns the old mode if the
    /// mode was changed. Ignores files with several hard links, and entries that are not regular
    /// files.
    pub(crate) fn restrict_file_to_owner(&self, name: &OsStr) -> io::Result<Option<u32>> {
        const OWNER_ONLY_MODE: u32 = 0o600;
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = stat.st_mode & 0o7777;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_nlink != 1 || mode == OWNER_ONLY_MODE {
            return Ok(None);
        }
        self.set_mode_following_links(name, OWNER_ONLY_MODE)?;
        Ok(Some(mode))
    }

    /// Sets the mode of a file. This method is only for directories in which no other program can
    /// replace the file by a link.
    pub(crate) fn set_mode_following_links(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        Ok(sys::chmodat(&self.0, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
    }

    /// Sets the permission bits of a file or subdirectory. Fails for a link.
    pub(crate) fn set_entry_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        let entry = Self(self.hold_open(name)?.into());
        if FileType::from_raw_mode(sys::fstat(&entry.0)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        entry.set_own_mode(Mode::from_raw_mode(mode))
    }

    /// Sets the permission bits of the open file or directory.
    fn set_own_mode(&self, mode: Mode) -> io::Result<()> {
        match self.descriptor_path() {
            // The mode cannot be changed through a descriptor that is only a path.
            Some(path) => Ok(sys::chmod(path, mode)?),
            None => Ok(sys::fchmod(&self.0, mode)?),
        }
    }

    /// Returns the free space of the file system in bytes.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let found = sys::fstatvfs(&self.0)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        Ok(sys::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        simulated_file_system::before_change()?;
        Ok(sys::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}
