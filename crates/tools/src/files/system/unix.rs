//! Files beneath a directory by its descriptor, and who may use them.

mod dir;
mod rename;

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::{fs as sys, process};

use super::{FileId, FileKind, outside_root_error};
use crate::limits::MAX_OPEN_TRIES;

pub(crate) use dir::Dir;
#[cfg(test)]
pub(crate) use rename::simulated_file_system;

/// Opens nothing, only names it; elsewhere than on Linux it opens.
#[cfg(target_os = "linux")]
const OPEN_PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const OPEN_PATH_FLAGS: OFlags = OPEN_READ_FLAGS;
const OPEN_DIRECTORY_FLAGS: OFlags = OPEN_PATH_FLAGS.union(OFlags::DIRECTORY);
/// Never waits for a FIFO's other end, never takes a terminal.
const NONBLOCKING_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const OPEN_READ_FLAGS: OFlags = OFlags::RDONLY.union(NONBLOCKING_FLAGS);

/// A directory that stays the same one, however it is renamed.
#[derive(Debug)]
pub(crate) struct PinnedDirectory {
    fd: OwnedFd,
    confinement: Confinement,
}

/// What keeps a path beneath its root.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Confinement {
    Kernel,
    /// It is compared with the canonical path of the root, which has to lead to this one.
    PathComparison(PathBuf, FileId),
}

/// Which links a path may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkPolicy {
    Followed,
    Refused,
}

impl PinnedDirectory {
    pub(crate) fn pin(path: &Path) -> io::Result<Self> {
        Self::pin_without_links(&path.canonicalize()?)
    }

    /// Pins a directory by its absolute path, on which no link may be.
    pub(crate) fn pin_without_links(path: &Path) -> io::Result<Self> {
        match open_absolute_without_links(path, OPEN_DIRECTORY_FLAGS) {
            Ok(fd) => Ok(Self { fd, confinement: Confinement::Kernel }),
            Err(error) if is_openat2_missing(error) => Self::pin_compared(path),
            Err(error) => Err(open_error(error)),
        }
    }

    /// The same where the kernel has no fence.
    pub(super) fn pin_compared(path: &Path) -> io::Result<Self> {
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

    /// Whether it was removed.
    pub(crate) fn is_removed(&self) -> bool {
        sys::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether it lies in a file system that shows what runs, this process too.
    pub(crate) fn is_procfs(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Ok(found) = sys::fstatfs(&self.fd) {
            return found.f_type == sys::PROC_SUPER_MAGIC;
        }
        false
    }

    /// Opens what is there for reading, whatever it is. It never blocks.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        Ok(self.open_with(path, OPEN_READ_FLAGS, LinkPolicy::Followed)?.into())
    }

    /// As [`Self::open`], where no link may be on the way.
    pub(crate) fn open_without_links(&self, path: &Path) -> io::Result<File> {
        Ok(self.open_with(path, OPEN_READ_FLAGS, LinkPolicy::Refused)?.into())
    }

    /// Follows links, as [`std::fs::metadata`] does.
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_with(path, OPEN_PATH_FLAGS, LinkPolicy::Followed)?).metadata()
    }

    /// As [`Self::metadata`], where no link may be on the way.
    pub(crate) fn metadata_without_links(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_with(path, OPEN_PATH_FLAGS, LinkPolicy::Refused)?).metadata()
    }

    pub(crate) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        Ok(Dir(self.open_with(path, OPEN_DIRECTORY_FLAGS, LinkPolicy::Followed)?))
    }

    /// As [`Self::dir`], where no link may be on the way.
    pub(crate) fn open_dir_without_links(&self, path: &Path) -> io::Result<Dir> {
        Ok(Dir(self.open_with(path, OPEN_DIRECTORY_FLAGS, LinkPolicy::Refused)?))
    }

    fn open_with(&self, path: &Path, flags: OFlags, links: LinkPolicy) -> io::Result<OwnedFd> {
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
        opened.map_err(open_error)
    }
}

/// Asks what is at an absolute path, links followed but for those by which the system leads to what
/// a process has open: they are refused, and so is what leads through one.
pub(crate) fn path_metadata(path: &Path) -> io::Result<Metadata> {
    #[cfg(target_os = "linux")]
    match open_and_compare(&sys::CWD, path, OPEN_PATH_FLAGS, sys::ResolveFlags::NO_MAGICLINKS) {
        Err(error) if is_openat2_missing(error) => {}
        other => return File::from(other.map_err(open_error)?).metadata(),
    }
    std::fs::metadata(path)
}

fn open_error(error: Errno) -> io::Error {
    match error {
        Errno::XDEV | Errno::LOOP => outside_root_error(),
        other => other.into(),
    }
}

/// Whether the kernel, or a sandbox around us, has no `openat2`. Whatever else fails is no reason
/// to do without.
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
    open_and_compare(root, path, flags, fence)
}

/// Opens an absolute path without links.
#[cfg(target_os = "linux")]
fn open_absolute_without_links(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    open_and_compare(&sys::CWD, path, flags, sys::ResolveFlags::NO_SYMLINKS)
}

#[cfg(target_os = "linux")]
fn open_and_compare(
    at: &impl AsFd,
    path: &Path,
    flags: OFlags,
    fence: sys::ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut opened = Err(Errno::AGAIN);
    // The kernel gives up when directories are renamed meanwhile.
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

/// Whether somebody may run the file.
pub(crate) fn is_executable(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.mode() & 0o111 != 0)
}

/// Returns how many names the file has.
pub(crate) fn link_count(metadata: &Metadata) -> u64 {
    metadata.nlink()
}

/// Gives `to` the owner, the extended attributes (access control lists among them) and the mode
/// that `from` has, and tells whether all could be given.
pub(crate) fn copy_access(from: &File, to: &File) -> io::Result<bool> {
    let (wanted, now) = (from.metadata()?, to.metadata()?);
    let owner = |metadata: &Metadata| (metadata.uid(), metadata.gid());
    let mut is_kept = true;
    if owner(&wanted) != owner(&now) {
        let (uid, gid) =
            (process::Uid::from_raw(wanted.uid()), process::Gid::from_raw(wanted.gid()));
        // Only the superuser may; a group of one's own may be had without.
        if sys::fchown(to, Some(uid), Some(gid)).is_err() {
            is_kept = false;
            let _ = sys::fchown(to, None, Some(gid));
        }
    }
    is_kept &= attributes::copy(from, to);
    // After the owner, as a change of owner takes the set-user-id bit away, and after a list that
    // the directory gave.
    to.set_permissions(wanted.permissions())?;
    Ok(is_kept)
}

#[cfg(target_os = "linux")]
mod attributes {
    //! Extended attributes, where Linux keeps access control lists too.

    use std::collections::BTreeMap;
    use std::fs::File;

    use rustix::fs::{self as sys, XattrFlags};
    use rustix::io::{Errno, Result};

    type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Gives `to` the attributes of `from` and no others; tells whether that was possible.
    pub(super) fn copy(from: &File, to: &File) -> bool {
        let both = (read_all(from), read_all(to));
        let (Ok(wanted), Ok(now)) = both else {
            // A file system without attributes has none to keep.
            return matches!(both.0, Err(Errno::NOTSUP | Errno::NOSYS));
        };
        let mut surplus = now.keys().filter(|name| !wanted.contains_key(*name));
        let is_rid = surplus.all(|name| sys::fremovexattr(to, &name[..]).is_ok());
        let missing = wanted.iter().filter(|(name, value)| now.get(*name) != Some(value));
        let set = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            sys::fsetxattr(to, &name[..], value, XattrFlags::empty()).is_ok()
        };
        // Each one that can be had is worth having.
        missing.map(set).fold(is_rid, |all, one| all & one)
    }

    fn read_all(file: &File) -> Result<Attributes> {
        let mut names = vec![0; sys::flistxattr_query(file)?];
        if names.is_empty() {
            return Ok(Attributes::new());
        }
        let length = sys::flistxattr(file, &mut names[..])?;
        let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| Ok((name.to_owned(), value(file, name)?))).collect()
    }

    fn value(file: &File, name: &[u8]) -> Result<Vec<u8>> {
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
    //! Extended attributes are kept on Linux only.

    use std::fs::File;

    pub(super) fn copy(_: &File, _: &File) -> bool {
        true
    }
}
