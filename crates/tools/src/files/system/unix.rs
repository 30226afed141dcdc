//! Accesses files inside a directory through its file descriptor. Also reads and changes the owner,
//! the mode and the attributes of files.

mod dir;
mod rename;

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use rustix::{fs as sys, process};

use super::{FileId, FileKind, outside_root_error, real_path};
use crate::limits::MAX_OPEN_TRIES;

pub(crate) use dir::Dir;
#[cfg(test)]
pub(crate) use rename::simulated_file_system;

/// Flags for resolving a path. On Linux, the path is resolved without opening the file. On other
/// systems, the file is opened for reading.
#[cfg(target_os = "linux")]
const OPEN_PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const OPEN_PATH_FLAGS: OFlags = OPEN_READ_FLAGS;
const OPEN_DIRECTORY_FLAGS: OFlags = OPEN_PATH_FLAGS.union(OFlags::DIRECTORY);
/// Flags that prevent two effects of opening a file: blocking on a FIFO, and acquiring a
/// controlling terminal.
const NONBLOCKING_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const OPEN_READ_FLAGS: OFlags = OFlags::RDONLY.union(NONBLOCKING_FLAGS);

/// An open directory. Its descriptor still refers to the same directory after the directory is
/// renamed.
#[derive(Debug)]
pub(crate) struct PinnedDirectory {
    fd: OwnedFd,
    confinement: Confinement,
}

/// The mechanism that confines paths to the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Confinement {
    Kernel,
    /// Compares the canonical path of each file with the path of the directory. Before that, checks
    /// that the directory at this path still has this id.
    PathComparison(PathBuf, FileId),
}

/// Whether links in a path are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkPolicy {
    Followed,
    Refused,
}

impl PinnedDirectory {
    pub(crate) fn pin(path: &Path) -> io::Result<Self> {
        Self::pin_without_links(&real_path(path)?)
    }

    /// Pins a directory. The path must be absolute and must not contain links.
    pub(crate) fn pin_without_links(path: &Path) -> io::Result<Self> {
        match open_absolute_without_links(path, OPEN_DIRECTORY_FLAGS) {
            Ok(fd) => Ok(Self { fd, confinement: Confinement::Kernel }),
            Err(error) if is_openat2_missing(error) => Self::pin_with_path_comparison(path),
            Err(error) => Err(io_error_from_open(error)),
        }
    }

    /// Pins a directory in the same way as [`Self::pin_without_links`]. Used if the kernel does not
    /// support `openat2`.
    pub(super) fn pin_with_path_comparison(path: &Path) -> io::Result<Self> {
        if path.canonicalize()? != path {
            return Err(outside_root_error());
        }
        let fd = sys::open(path, OPEN_DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = sys::fstat(&fd)?;
        Ok(Self {
            fd,
            confinement: Confinement::PathComparison(path.to_owned(), (stat.st_dev, stat.st_ino)),
        })
    }

    pub(crate) fn has_kernel_confinement(&self) -> bool {
        self.confinement == Confinement::Kernel
    }

    /// Returns whether the directory was removed.
    pub(crate) fn is_removed(&self) -> bool {
        sys::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Returns whether the directory is in procfs. Files in procfs expose the state of all
    /// processes, including this one.
    pub(crate) fn is_procfs(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Ok(found) = sys::fstatfs(&self.fd) {
            return found.f_type == sys::PROC_SUPER_MAGIC;
        }
        false
    }

    /// Opens a file of any kind for reading. Never blocks, even for a FIFO.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        Ok(self.open_confined_path(path, OPEN_READ_FLAGS, LinkPolicy::Followed)?.into())
    }

    /// Opens a file in the same way as [`Self::open_file`], but rejects links in the path.
    pub(crate) fn open_file_without_links(&self, path: &Path) -> io::Result<File> {
        Ok(self.open_confined_path(path, OPEN_READ_FLAGS, LinkPolicy::Refused)?.into())
    }

    /// Returns the metadata of a file. Follows links, like [`std::fs::metadata`].
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_confined_path(path, OPEN_PATH_FLAGS, LinkPolicy::Followed)?).metadata()
    }

    /// Returns the metadata in the same way as [`Self::metadata`], but rejects links in the path.
    pub(crate) fn metadata_without_links(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_confined_path(path, OPEN_PATH_FLAGS, LinkPolicy::Refused)?).metadata()
    }

    pub(crate) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        Ok(Dir(self.open_confined_path(path, OPEN_DIRECTORY_FLAGS, LinkPolicy::Followed)?))
    }

    /// Opens a directory in the same way as [`Self::open_dir`], but rejects links in the path.
    pub(crate) fn open_dir_without_links(&self, path: &Path) -> io::Result<Dir> {
        Ok(Dir(self.open_confined_path(path, OPEN_DIRECTORY_FLAGS, LinkPolicy::Refused)?))
    }

    fn open_confined_path(
        &self,
        path: &Path,
        flags: OFlags,
        links: LinkPolicy,
    ) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let opened = match &self.confinement {
            Confinement::Kernel => open_beneath(&self.fd, path, flags, links),
            Confinement::PathComparison(root, identity) => {
                let whole: PathBuf = root.join(path).components().collect();
                let real = whole.canonicalize()?;
                let stat = sys::stat(root)?;
                let is_inside = real.starts_with(root) && (stat.st_dev, stat.st_ino) == *identity;
                if !is_inside || (links == LinkPolicy::Refused && real != whole) {
                    return Err(outside_root_error());
                }
                sys::open(&real, flags | OFlags::NOFOLLOW, Mode::empty())
            }
        };
        opened.map_err(io_error_from_open)
    }
}

/// Returns the metadata of an absolute path. Follows links.
///
/// Rejects paths that lead through magic links of procfs. Such links lead to files that a process
/// has open.
pub(crate) fn path_metadata_following_links(path: &Path) -> io::Result<Metadata> {
    #[cfg(target_os = "linux")]
    match openat2_with_retries(&sys::CWD, path, OPEN_PATH_FLAGS, sys::ResolveFlags::NO_MAGICLINKS) {
        Err(error) if is_openat2_missing(error) => {}
        other => return File::from(other.map_err(io_error_from_open)?).metadata(),
    }
    std::fs::metadata(path)
}

/// Returns whether an absolute path exists and contains no link. Fails with
/// [`io::ErrorKind::NotFound`] if nothing is there and no link is in the way. Returns false if the
/// kernel does not support `openat2`.
pub(crate) fn exists_and_has_no_links(path: &Path) -> io::Result<bool> {
    match open_absolute_without_links(path, OPEN_PATH_FLAGS) {
        Err(Errno::NOENT) => Err(Errno::NOENT.into()),
        opened => Ok(opened.is_ok()),
    }
}

fn io_error_from_open(error: Errno) -> io::Error {
    match error {
        Errno::XDEV | Errno::LOOP => outside_root_error(),
        other => other.into(),
    }
}

/// Returns whether the error means that the kernel, or a sandbox around this process, does not
/// support `openat2`. After any other error, there is no fallback.
fn is_openat2_missing(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM)
}

#[cfg(target_os = "linux")]
fn open_beneath(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    links: LinkPolicy,
) -> rustix::io::Result<OwnedFd> {
    let mut fence = sys::ResolveFlags::BENEATH | sys::ResolveFlags::NO_MAGICLINKS;
    fence.set(sys::ResolveFlags::NO_SYMLINKS, links == LinkPolicy::Refused);
    openat2_with_retries(root, path, flags, fence)
}

/// Opens an absolute path. Fails if the path contains a link.
#[cfg(target_os = "linux")]
fn open_absolute_without_links(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat2_with_retries(&sys::CWD, path, flags, sys::ResolveFlags::NO_SYMLINKS)
}

#[cfg(target_os = "linux")]
fn openat2_with_retries(
    at: &impl AsFd,
    path: &Path,
    flags: OFlags,
    fence: sys::ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut opened = Err(Errno::AGAIN);
    // The kernel returns `EAGAIN` if a directory is renamed while it resolves the path.
    for _ in 0..MAX_OPEN_TRIES {
        opened = sys::openat2(at, path, flags, Mode::empty(), fence);
        if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    opened
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_: &OwnedFd, _: &Path, _: OFlags, _: LinkPolicy) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

#[cfg(not(target_os = "linux"))]
fn open_absolute_without_links(_: &Path, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

pub(crate) fn metadata_file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Returns the time of the clock from which files get their times, in nanoseconds since the Unix
/// epoch. A file that is created or changed after this call has no earlier time.
pub(crate) fn file_clock_now() -> i128 {
    // Files may get the time of a coarse clock, which is some milliseconds late. Other systems have
    // no such clock.
    #[cfg(target_os = "linux")]
    let clock = ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Realtime;
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Returns whether at least one user may execute the file.
pub(crate) fn is_executable(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.mode() & 0o111 != 0)
}

/// Returns the number of hard links to the file.
pub(crate) fn link_count(metadata: &Metadata) -> u64 {
    metadata.nlink()
}

/// Returns the permission bits of a file, including the set-user-id, set-group-id and sticky bits.
pub(crate) fn mode_bits(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

/// Sets the permission bits of an open file.
pub(crate) fn set_mode_bits(file: &File, mode: u32) -> io::Result<()> {
    #[cfg(test)]
    simulated_file_system::before_change()?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Copies the access rights of the file `from` to the file `to`: the owner, the mode, and the
/// extended attributes. The extended attributes include access control lists. Returns whether all
/// access rights were copied.
pub(crate) fn copy_access(from: &File, to: &File) -> io::Result<bool> {
    let (wanted, now) = (from.metadata()?, to.metadata()?);
    let owner = |metadata: &Metadata| (metadata.uid(), metadata.gid());
    let mut is_kept = true;
    if owner(&wanted) != owner(&now) {
        let (uid, gid) =
            (process::Uid::from_raw(wanted.uid()), process::Gid::from_raw(wanted.gid()));
        // Only the superuser may change the owner of a file. Other users may only set the group,
        // and only to one of their own groups.
        if sys::fchown(to, Some(uid), Some(gid)).is_err() {
            is_kept = false;
            let _ = sys::fchown(to, None, Some(gid));
        }
    }
    is_kept &= attributes::copy_attributes(from, to);
    // Set the mode last, for two reasons. Changing the owner clears the set-user-id bit, and the
    // directory may add a default access control list.
    to.set_permissions(wanted.permissions())?;
    Ok(is_kept)
}

#[cfg(target_os = "linux")]
mod attributes {
    //! Extended attributes. On Linux, they include access control lists.

    use std::collections::BTreeMap;
    use std::fs::File;

    use rustix::fs::{self as sys, XattrFlags};
    use rustix::io::{Errno, Result};

    type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Replaces the extended attributes of `to` by those of `from`. Returns whether this succeeded
    /// for all attributes.
    pub(super) fn copy_attributes(from: &File, to: &File) -> bool {
        let both = (read_all_attributes(from), read_all_attributes(to));
        let (Ok(wanted), Ok(now)) = both else {
            // A file system that does not support extended attributes has none to copy.
            return matches!(both.0, Err(Errno::NOTSUP | Errno::NOSYS));
        };
        let mut surplus = now.keys().filter(|name| !wanted.contains_key(*name));
        let is_rid = surplus.all(|name| sys::fremovexattr(to, &name[..]).is_ok());
        let missing = wanted.iter().filter(|(name, value)| now.get(*name) != Some(value));
        let set = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            sys::fsetxattr(to, &name[..], value, XattrFlags::empty()).is_ok()
        };
        // Continue after a failure, in order to copy as many attributes as possible.
        missing.map(set).fold(is_rid, |all, one| all & one)
    }

    fn read_all_attributes(file: &File) -> Result<Attributes> {
        let mut names = vec![0; sys::flistxattr_query(file)?];
        if names.is_empty() {
            return Ok(Attributes::new());
        }
        let length = sys::flistxattr(file, &mut names[..])?;
        let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| Ok((name.to_owned(), read_attribute(file, name)?))).collect()
    }

    fn read_attribute(file: &File, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = vec![0; sys::fgetxattr_query(file, name)?];
        if !value.is_empty() {
            let length = sys::fgetxattr(file, name, &mut value[..])?;
            value.truncate(length);
        }
        Ok(value)
    }
}

#[cfg(not(target_os = "linux"))]
mod attributes {
    //! Extended attributes are not copied on this system, because only Linux is supported.

    use std::fs::File;

    pub(super) fn copy_attributes(_: &File, _: &File) -> bool {
        true
    }
}
