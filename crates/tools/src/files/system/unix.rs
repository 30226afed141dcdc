//! Files beneath a directory by its descriptor. It knows nothing of other systems than Unix.

mod rename;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::{fs as sys, process};

use super::{Audience, Entry, Identity, Kind, Look, outside};
use crate::limits::OPEN_TRIES;

#[cfg(test)]
pub(crate) use rename::pretence;

/// Opens nothing, only names it; elsewhere than on Linux it opens.
#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = READ;
const DIRECTORY: OFlags = LOOK.union(OFlags::DIRECTORY);
/// Never waits for a FIFO's other end, never takes a terminal.
const QUIETLY: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY.union(QUIETLY);
const CHANGE: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(QUIETLY);
const CREATE: OFlags = CHANGE.union(OFlags::CREATE).union(OFlags::EXCL);

/// A directory that stays the same one, however it is renamed.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    fence: Fence,
}

/// What keeps a path beneath its root.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fence {
    Kernel,
    /// It is compared with the canonical path of the root, which has to lead to this one.
    Compared(PathBuf, Identity),
}

/// Which links a path may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Refused,
}

impl Root {
    pub(crate) fn pin(path: &Path) -> io::Result<Self> {
        Self::pin_straight(&path.canonicalize()?)
    }

    /// Pins a directory by its absolute path, on which no link may be.
    pub(crate) fn pin_straight(path: &Path) -> io::Result<Self> {
        match straight(path, DIRECTORY) {
            Ok(fd) => Ok(Self { fd, fence: Fence::Kernel }),
            Err(error) if is_unfenced(error) => Self::pin_compared(path),
            Err(error) => Err(refused(error)),
        }
    }

    /// The same where the kernel has no fence.
    pub(super) fn pin_compared(path: &Path) -> io::Result<Self> {
        if path.canonicalize()? != path {
            return Err(outside());
        }
        let fd = sys::open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = sys::fstat(&fd)?;
        Ok(Self { fd, fence: Fence::Compared(path.to_owned(), (stat.st_dev, stat.st_ino)) })
    }

    pub(crate) fn is_kernel_fenced(&self) -> bool {
        self.fence == Fence::Kernel
    }

    /// Whether it was removed.
    pub(crate) fn is_removed(&self) -> bool {
        sys::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether it lies in a file system that shows what runs, this process too.
    pub(crate) fn is_of_processes(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Ok(found) = sys::fstatfs(&self.fd) {
            return found.f_type == sys::PROC_SUPER_MAGIC;
        }
        false
    }

    /// Opens what is there for reading, whatever it is. It never blocks.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        Ok(self.open_with(path, READ, Links::Followed)?.into())
    }

    /// As [`Self::open`], where no link may be on the way.
    pub(crate) fn open_straight(&self, path: &Path) -> io::Result<File> {
        Ok(self.open_with(path, READ, Links::Refused)?.into())
    }

    /// Follows links, as [`std::fs::metadata`] does.
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_with(path, LOOK, Links::Followed)?).metadata()
    }

    /// As [`Self::metadata`], where no link may be on the way.
    pub(crate) fn metadata_straight(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_with(path, LOOK, Links::Refused)?).metadata()
    }

    pub(crate) fn dir(&self, path: &Path) -> io::Result<Dir> {
        Ok(Dir(self.open_with(path, DIRECTORY, Links::Followed)?))
    }

    /// As [`Self::dir`], where no link may be on the way.
    pub(crate) fn dir_straight(&self, path: &Path) -> io::Result<Dir> {
        Ok(Dir(self.open_with(path, DIRECTORY, Links::Refused)?))
    }

    fn open_with(&self, path: &Path, flags: OFlags, links: Links) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let opened = match &self.fence {
            Fence::Kernel => beneath(&self.fd, path, flags, links),
            Fence::Compared(root, identity) => {
                let whole: PathBuf = root.join(path).components().collect();
                let real = whole.canonicalize()?;
                let stat = sys::stat(root)?;
                let is_inside = real.starts_with(root) && (stat.st_dev, stat.st_ino) == *identity;
                if !is_inside || (links == Links::Refused && real != whole) {
                    return Err(outside());
                }
                sys::open(&real, flags | OFlags::NOFOLLOW, Mode::empty())
            }
        };
        opened.map_err(refused)
    }
}

/// Asks what is at an absolute path, links followed but for those by which the system leads to what
/// a process has open: they are refused, and so is what leads through one.
pub(crate) fn look(path: &Path) -> io::Result<Metadata> {
    #[cfg(target_os = "linux")]
    match opened(&sys::CWD, path, LOOK, sys::ResolveFlags::NO_MAGICLINKS) {
        Err(error) if is_unfenced(error) => {}
        other => return File::from(other.map_err(refused)?).metadata(),
    }
    std::fs::metadata(path)
}

fn refused(error: Errno) -> io::Error {
    match error {
        Errno::XDEV | Errno::LOOP => outside(),
        other => other.into(),
    }
}

/// Whether the kernel, or a sandbox around us, has no `openat2`. Whatever else fails is no reason
/// to do without.
fn is_unfenced(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM)
}

#[cfg(target_os = "linux")]
fn beneath(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    links: Links,
) -> rustix::io::Result<OwnedFd> {
    let mut fence = sys::ResolveFlags::BENEATH | sys::ResolveFlags::NO_MAGICLINKS;
    fence.set(sys::ResolveFlags::NO_SYMLINKS, links == Links::Refused);
    opened(root, path, flags, fence)
}

/// Opens an absolute path without links.
#[cfg(target_os = "linux")]
fn straight(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    opened(&sys::CWD, path, flags, sys::ResolveFlags::NO_SYMLINKS)
}

#[cfg(target_os = "linux")]
fn opened(
    at: &impl AsFd,
    path: &Path,
    flags: OFlags,
    fence: sys::ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut opened = Err(Errno::AGAIN);
    // The kernel gives up when directories are renamed meanwhile.
    for _ in 0..OPEN_TRIES {
        opened = sys::openat2(at, path, flags, Mode::empty(), fence);
        if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    opened
}

#[cfg(not(target_os = "linux"))]
fn beneath(_: &OwnedFd, _: &Path, _: OFlags, _: Links) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

#[cfg(not(target_os = "linux"))]
fn straight(_: &Path, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// An open directory. All names are single components and links in them are not followed.
#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

impl Dir {
    /// Returns at most `max` entries, in no order, and whether there are more.
    pub(crate) fn entries(&self, max: usize) -> io::Result<(Vec<Entry>, bool)> {
        self.entries_while(max, || true)
    }

    /// The same, as long as `goes_on`, which is asked before each.
    pub(crate) fn entries_while(
        &self,
        max: usize,
        mut goes_on: impl FnMut() -> bool,
    ) -> io::Result<(Vec<Entry>, bool)> {
        let mut entries = Vec::new();
        let readable = sys::openat(&self.0, ".", READ | OFlags::DIRECTORY, Mode::empty())?;
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
                // Some file systems do not tell at once.
                FileType::Unknown => self.kind(&name).unwrap_or(Kind::Special),
                known => known.into(),
            };
            entries.push(Entry { name, kind });
        }
        Ok((entries, false))
    }

    /// Whether it was removed: then it is empty, whatever has its name by now.
    pub(crate) fn is_removed(&self) -> bool {
        sys::fstat(&self.0).is_ok_and(|stat| stat.st_nlink == 0)
    }

    pub(crate) fn kind(&self, name: &OsStr) -> io::Result<Kind> {
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode).into())
    }

    /// Returns a path to this directory whatever its name is, for processes that inherit it: it is to
    /// be held until they have gone there.
    pub(crate) fn path_by_descriptor(&self) -> Option<PathBuf> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        // Without `/proc` no command runs, and says so itself.
        (cfg!(target_os = "linux") && path.exists()).then_some(path)
    }

    /// Returns what tells this directory from all others of the system.
    pub(crate) fn itself(&self) -> io::Result<Identity> {
        let stat = sys::fstat(&self.0)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Returns what tells a file from all others of the system.
    pub(crate) fn identity(&self, name: &OsStr) -> io::Result<Identity> {
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Holds a file without reading it. As long as it is held no other file gets its
    /// [identity](Self::identity), also when it has no name any more.
    pub(crate) fn hold(&self, name: &OsStr) -> io::Result<File> {
        let flags = LOOK | OFlags::NOFOLLOW;
        Ok(sys::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Looks at what is at a name.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Look> {
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let time = |seconds: i128, nanoseconds: i128| seconds * 1_000_000_000 + nanoseconds;
        Ok(Look {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            identity: (stat.st_dev, stat.st_ino),
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed: time(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        })
    }

    /// Opens a directory in this one.
    pub(crate) fn dir(&self, name: &OsStr) -> io::Result<Self> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        Ok(Self(sys::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Whether both are on one file system, so that files can be moved from one to the other.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let device = |dir: &Self| sys::fstat(&dir.0).map(|stat| stat.st_dev);
        device(self).is_ok_and(|own| device(other) == Ok(own))
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(OsString::from_vec(sys::readlinkat(&self.0, name, Vec::new())?.into_bytes()))
    }

    /// Opens a file for reading and writing.
    pub(crate) fn change(&self, name: &OsStr) -> io::Result<File> {
        Ok(sys::openat(&self.0, name, CHANGE, Mode::empty())?.into())
    }

    /// Opens a file for reading, whatever it is. It never blocks.
    pub(crate) fn open(&self, name: &OsStr) -> io::Result<File> {
        Ok(sys::openat(&self.0, name, READ | OFlags::NOFOLLOW, Mode::empty())?.into())
    }

    /// Makes a file that was not there.
    pub(crate) fn create(&self, name: &OsStr, audience: Audience) -> io::Result<File> {
        let mode = match audience {
            Audience::Owner => 0o600,
            Audience::Everyone => 0o666,
        };
        Ok(sys::openat(&self.0, name, CREATE, Mode::from_raw_mode(mode))?.into())
    }

    pub(crate) fn create_dir(&self, name: &OsStr) -> io::Result<()> {
        Ok(sys::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
    }

    /// Moves a file over another one.
    pub(crate) fn replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(sys::renameat(&self.0, from, &self.0, to)?)
    }

    /// Waits until the disk has the names in it, where that can be had: not of a directory that may
    /// not be read, nor in every file system.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let readable = sys::openat(&self.0, ".", READ | OFlags::DIRECTORY, Mode::empty());
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

    /// Checks that files can be made in it, renamed and removed, by what the system says of it
    /// without trying.
    pub(crate) fn require_taking(&self) -> io::Result<()> {
        self.require(".".as_ref(), Access::WRITE_OK | Access::EXEC_OK)?;
        #[cfg(target_os = "linux")]
        {
            use sys::StatxAttributes as Attributes;
            let is_fixed = Attributes::IMMUTABLE | Attributes::APPEND;
            if self.attributes(".".as_ref()).is_some_and(|(found, _)| found.intersects(is_fixed)) {
                return Err(Errno::PERM.into());
            }
        }
        Ok(())
    }

    /// Checks that a file can be written, without opening it: some watch files for that.
    pub(crate) fn require_writable(&self, name: &OsStr) -> io::Result<()> {
        self.require(name, Access::WRITE_OK)
    }

    fn require(&self, name: &OsStr, access: Access) -> io::Result<()> {
        match sys::accessat(&self.0, name, access, AtFlags::EACCESS) {
            // Not known before it is tried.
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => Ok(()),
            known => Ok(known?),
        }
    }

    /// Whether something is mounted at a name: that can be written, but neither exchanged nor
    /// renamed nor removed.
    pub(crate) fn is_mounted(&self, name: &OsStr) -> bool {
        #[cfg(test)]
        if pretence::is_mounted() {
            return true;
        }
        #[cfg(target_os = "linux")]
        if let Some((found, known)) = self.attributes(name)
            && known.contains(sys::StatxAttributes::MOUNT_ROOT)
        {
            return found.contains(sys::StatxAttributes::MOUNT_ROOT);
        }
        // Before Linux 5.8; a file from elsewhere on the same file system is not noticed.
        self.itself().ok().zip(self.identity(name).ok()).is_some_and(|(dir, file)| dir.0 != file.0)
    }

    /// Returns the attributes that a name has, and those that the file system knows.
    #[cfg(target_os = "linux")]
    fn attributes(&self, name: &OsStr) -> Option<(sys::StatxAttributes, sys::StatxAttributes)> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = sys::statx(&self.0, name, flags, sys::StatxFlags::empty()).ok()?;
        Some((found.stx_attributes, found.stx_attributes_mask))
    }

    /// Makes a file its owner's alone, and returns the mode that it had if that was another one.
    /// Nothing is done to what has another name too, or is no file.
    pub(crate) fn take_mode(&self, name: &OsStr) -> io::Result<Option<u32>> {
        const OWN: u32 = 0o600;
        let stat = sys::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = stat.st_mode & 0o7777;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_nlink != 1 || mode == OWN {
            return Ok(None);
        }
        self.set_mode(name, OWN)?;
        Ok(Some(mode))
    }

    /// Sets the mode of a file in a directory where nobody else puts a link in its place.
    pub(crate) fn set_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(sys::chmodat(&self.0, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
    }

    /// Returns how many bytes its file system has room for.
    pub(crate) fn room(&self) -> io::Result<u64> {
        let found = sys::fstatvfs(&self.0)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Removes a directory that is empty.
    pub(crate) fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        Ok(sys::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(sys::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

pub(crate) fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Whether somebody may run the file.
pub(crate) fn is_executable(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.mode() & 0o111 != 0)
}

/// Returns how many names the file has.
pub(crate) fn links(metadata: &Metadata) -> u64 {
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
        let both = (of(from), of(to));
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

    fn of(file: &File) -> Result<Attributes> {
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
