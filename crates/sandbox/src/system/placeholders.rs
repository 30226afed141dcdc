//! Placeholders for read-only paths that do not exist.
//!
//! The kernel mounts only over something that exists. So that a command cannot create such a path,
//! a placeholder is created there for the time of the command: an empty folder, or an unused
//! socket. `git` and most other programs ignore both, in the sandbox and outside: the
//! type of a directory entry is that of the placeholder, whatever is mounted over it.
//!
//! A placeholder is recognized by its mode, which nothing else has. Each helper holds a shared lock
//! on the folders that contain its placeholders, which the kernel frees when the helper dies. One
//! that gets the exclusive lock removes all placeholders from the folder. What was left behind (all
//! processes were killed at once) is therefore used and removed by the next command with such a
//! folder.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::thread::sleep;

use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat,
    StatVfsMountFlags, accessat, chmodat, flock, fstat, mkdirat, mknodat, openat2, readlinkat,
    statat, statvfs, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::limits::{MAX_LINKS, PLACEHOLDER_LOCK_ATTEMPTS, PLACEHOLDER_LOCK_INTERVAL};
use crate::error::{SetupFailure, SetupStep};
use crate::policy::{MissingName, SandboxPolicy};

/// Mode of a socket as a placeholder. Others have neither the sticky bit nor so few rights.
const FILE_MODE: Mode = Mode::from_raw_mode(0o1444);
/// Mode of a folder as a placeholder. A folder for files has the right to write.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o1555);

/// Removes the placeholders of a policy that no command uses any more.
///
/// The helper removes its placeholders itself. A caller needs this function after the helper was
/// killed, and at the start of a session.
pub fn remove_placeholders(policy: &SandboxPolicy) {
    Placeholders::remove_left_over(policy);
}

/// The folders that contain placeholders of this process, with shared locks.
#[derive(Debug, Default)]
pub(super) struct Placeholders(Vec<LockedFolder>);

#[derive(Debug)]
struct LockedFolder {
    folder: OwnedFd,
    identity: (u64, u64),
}

impl Placeholders {
    /// Creates a placeholder for each read-only path that does not exist, unless the command cannot
    /// create it either. `writable` are the writable folders without links.
    pub(super) fn create(
        policy: &SandboxPolicy,
        writable: &[PathBuf],
    ) -> Result<Self, SetupFailure> {
        let mut placeholders = Self::default();
        for name in &policy.read_only {
            if name.missing == MissingName::Unprotected {
                continue;
            }
            let created = placeholders.create_one(&name.path, name.missing, writable);
            if let Err(error) = created {
                placeholders.remove();
                return Err(SetupFailure::at(SetupStep::Placeholder, &name.path, error));
            }
        }
        Ok(placeholders)
    }

    /// Removes the placeholders of all folders that no other helper uses.
    pub(super) fn remove(self) {
        // In the opposite order, because a placeholder may be in the folder of an earlier one.
        for LockedFolder { folder, .. } in self.0.into_iter().rev() {
            if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_from(&folder);
            }
        }
    }

    /// Removes the placeholders that killed helpers left for a policy.
    pub(super) fn remove_left_over(policy: &SandboxPolicy) {
        let writable = policy.writable.iter().filter_map(|path| fs::canonicalize(path).ok());
        let writable: Vec<_> = writable.collect();
        for name in &policy.read_only {
            // Folders that a command closed, outermost first.
            let mut opened: Vec<(PathBuf, OpenedFolder<OwnedFd>)> = Vec::new();
            while let Ok(end) = find_end(&name.path, &writable) {
                match end {
                    PathEnd::Missing(MissingEnd { folder, .. }) => {
                        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                            remove_from(&folder);
                        }
                        break;
                    }
                    PathEnd::Denied(path) if opened.iter().all(|(before, _)| *before != path) => {
                        let Ok(folder) = OpenedFolder::at(&path) else { break };
                        opened.push((path, folder));
                    }
                    PathEnd::Denied(_) | PathEnd::Settled => break,
                }
            }
        }
    }

    fn create_one(
        &mut self,
        path: &Path,
        missing: MissingName,
        writable: &[PathBuf],
    ) -> io::Result<()> {
        let MissingEnd { folder, name, is_last } = match find_end(path, writable)? {
            PathEnd::Missing(end) => end,
            PathEnd::Denied(folder) => return Err(denied(&folder)),
            PathEnd::Settled => return Ok(()),
        };
        let folder = self.lock(folder)?;
        let is_file = is_last && missing == MissingName::File;
        let created = if is_file {
            mknodat(folder, &name, FileType::Socket, FILE_MODE, 0)
        } else {
            mkdirat(folder, &name, FOLDER_MODE)
        };
        match created {
            Ok(()) => {}
            // It is there by now, or the command cannot create it either.
            Err(Errno::EXIST | Errno::ROFS) => return Ok(()),
            Err(Errno::ACCESS) if !is_own(&fstat(folder)?) => return Ok(()),
            Err(Errno::ACCESS) => return Err(denied(path.parent().unwrap_or(path))),
            Err(error) => return Err(error.into()),
        }
        // The umask, and the kernel in case of folders, may have removed bits.
        let mode = if is_file { FILE_MODE } else { FOLDER_MODE };
        let changed = chmodat(folder, &name, mode, AtFlags::empty());
        if changed.is_ok() && is_placeholder(&statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?) {
            return Ok(());
        }
        let flags = if is_file { AtFlags::empty() } else { AtFlags::REMOVEDIR };
        unlinkat(folder, &name, flags)?;
        Err(io::Error::other("the file system does not keep the modes of files"))
    }

    /// Locks a folder, so that no other helper removes placeholders from it.
    fn lock(&mut self, folder: OwnedFd) -> io::Result<&OwnedFd> {
        let stat = fstat(&folder)?;
        let identity = (stat.st_dev, stat.st_ino);
        let index = match self.0.iter().position(|locked| locked.identity == identity) {
            Some(index) => index,
            None => {
                lock_shared(&folder)?;
                self.0.push(LockedFolder { folder, identity });
                self.0.len() - 1
            }
        };
        Ok(&self.0[index].folder)
    }
}

/// Takes a shared lock. Another helper holds an exclusive one only while it removes placeholders.
fn lock_shared(folder: &OwnedFd) -> io::Result<()> {
    for _ in 0..PLACEHOLDER_LOCK_ATTEMPTS {
        match flock(folder, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => sleep(PLACEHOLDER_LOCK_INTERVAL),
            result => return Ok(result?),
        }
    }
    Err(Errno::WOULDBLOCK.into())
}

/// Removes the placeholders from a folder, also if the command has closed it.
fn remove_from(folder: &OwnedFd) {
    if try_remove_from(folder) == Err(Errno::ACCESS)
        && let Ok(_opened) = OpenedFolder::new(folder.as_fd())
    {
        // Entries that are still denied stay, like a folder into which another program has put
        // something.
        let _ = try_remove_from(folder);
    }
}

fn try_remove_from(folder: &OwnedFd) -> rustix::io::Result<()> {
    let mut result = Ok(());
    for entry in Dir::read_from(folder)?.flatten() {
        if !matches!(entry.file_type(), FileType::Socket | FileType::Directory | FileType::Unknown)
        {
            continue;
        }
        let name = entry.file_name();
        let removed = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).and_then(|stat| {
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            if is_placeholder(&stat) { unlinkat(folder, name, flags) } else { Ok(()) }
        });
        result = result.and(removed);
    }
    result
}

/// A folder of this user that is open for its owner until the value is dropped. It then has its
/// former mode again.
struct OpenedFolder<F: AsFd> {
    folder: F,
    mode: Mode,
}

impl OpenedFolder<OwnedFd> {
    /// Opens up a folder that this process may not read.
    fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::new(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
    }
}

impl<F: AsFd> OpenedFolder<F> {
    fn new(folder: F) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
        let folder = Self { folder, mode };
        folder.set_mode(mode | Mode::RWXU)?;
        Ok(folder)
    }

    fn set_mode(&self, mode: Mode) -> io::Result<()> {
        // The mode of a folder that may not be read cannot be changed by its descriptor.
        let link = format!("/proc/self/fd/{}", self.folder.as_fd().as_raw_fd());
        Ok(chmodat(CWD, link, mode, AtFlags::empty())?)
    }
}

impl<F: AsFd> Drop for OpenedFolder<F> {
    fn drop(&mut self) {
        drop(self.set_mode(self.mode));
    }
}

/// Returns whether a command could create a name in a folder, or could give itself the right to.
pub(super) fn may_create_in(folder: &Path) -> bool {
    let access = accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty());
    let is_read_only =
        || statvfs(folder).is_ok_and(|state| state.f_flag.contains(StatVfsMountFlags::RDONLY));
    let stat = || statat(CWD, folder, AtFlags::SYMLINK_NOFOLLOW);
    access.is_ok() || stat().is_ok_and(|stat| is_own(&stat)) && !is_read_only()
}

fn is_own(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw()
}

/// The error for a folder that the command could open up, but this process leaves as it is.
fn denied(folder: &Path) -> io::Error {
    let advice = format!(
        "a command could create it, because {} is your own folder, although it is closed. Open the \
         folder by `chmod u+rwx`",
        folder.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, advice)
}

/// Returns whether a file is a placeholder.
pub(super) fn is_placeholder(stat: &Stat) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => mode == FILE_MODE,
        FileType::Directory => mode == FOLDER_MODE,
        _ => false,
    }
}

/// Where a path ends.
enum PathEnd {
    /// All of the path exists, or the command cannot create the rest: the path leads through
    /// something that is no folder, ends outside of the writable folders, or in a folder of another
    /// user.
    Settled,
    Missing(MissingEnd),
    /// This process may not search or read the folder with this path, but the command could change
    /// that.
    Denied(PathBuf),
}

/// The first component of a path that does not exist, or is a placeholder.
struct MissingEnd {
    /// The folder that does not contain it.
    folder: OwnedFd,
    name: OsString,
    is_last: bool,
}

/// Follows a path as far as it exists.
fn find_end(path: &Path, writable: &[PathBuf]) -> io::Result<PathEnd> {
    let mut walk = PathWalk::new(path);
    while let Some(name) = walk.next_name() {
        let is_last = walk.is_done();
        let child = walk.folder().join(&name);
        let is_writable = writable.iter().any(|folder| walk.folder().starts_with(folder));
        let denied = |folder: &Path| match is_writable && may_create_in(folder) {
            true => PathEnd::Denied(folder.to_owned()),
            false => PathEnd::Settled,
        };
        let kind = match statat(CWD, &child, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_placeholder(&stat) => None,
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(Errno::ACCESS) => return Ok(denied(walk.folder())),
            Err(error) => return Err(error.into()),
        };
        match kind {
            Some(FileType::Symlink) => walk.follow_link(&readlinkat(CWD, &child, Vec::new())?)?,
            Some(FileType::Directory) if !is_last => walk.enter(name),
            None if is_writable => {
                // The folder must be where the walk found it, even if a link replaced it since.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let resolve = ResolveFlags::NO_SYMLINKS;
                return match openat2(CWD, walk.folder(), flags, Mode::empty(), resolve) {
                    Ok(folder) => Ok(PathEnd::Missing(MissingEnd { folder, name, is_last })),
                    Err(Errno::ACCESS) => Ok(denied(walk.folder())),
                    Err(error) => Err(error.into()),
                };
            }
            _ => break,
        }
    }
    Ok(PathEnd::Settled)
}

/// Resolves a path one component at a time, as the kernel does.
#[derive(Debug)]
pub(super) struct PathWalk {
    /// Path without links and dots to the folder in which the next component is.
    folder: PathBuf,
    /// Components that are not resolved yet.
    rest: VecDeque<OsString>,
    links: usize,
}

impl PathWalk {
    pub(super) fn new(path: &Path) -> Self {
        Self { folder: "/".into(), rest: names(path).collect(), links: 0 }
    }

    /// Returns the next component.
    pub(super) fn next_name(&mut self) -> Option<OsString> {
        loop {
            let name = self.rest.pop_front()?;
            if name != ".." {
                return Some(name);
            }
            self.folder.pop();
        }
    }

    /// Returns whether the last component was returned.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Path of the folder in which the last returned component is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Continues in the folder that is the last returned component.
    pub(super) fn enter(&mut self, name: OsString) {
        self.folder.push(name);
    }

    /// Continues at the target of the link that is the last returned component.
    pub(super) fn follow_link(&mut self, target: &CStr) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        if target.is_absolute() {
            self.folder = "/".into();
        }
        let before: Vec<_> = names(target).collect();
        before.into_iter().rev().for_each(|name| self.rest.push_front(name));
        Ok(())
    }
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ReadOnlyName;

    fn policy(folder: &Path, name: &str, missing: MissingName) -> SandboxPolicy {
        let mut policy = SandboxPolicy::new([folder]);
        policy.read_only.push(ReadOnlyName::new(folder.join(name), missing));
        policy
    }

    fn create(policy: &SandboxPolicy) -> Placeholders {
        Placeholders::create(policy, &policy.writable).unwrap()
    }

    fn entries(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn last_user_of_a_placeholder_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        for (name, missing) in [("f", MissingName::File), ("d", MissingName::Folder)] {
            let policy = policy(folder.path(), name, missing);
            let (first, second) = (create(&policy), create(&policy));
            first.remove();
            assert_eq!(entries(folder.path()), [name]);
            second.remove();
            assert_eq!(entries(folder.path()), [""; 0]);
        }
    }

    #[test]
    fn placeholder_takes_the_place_of_a_missing_parent() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path(), "a/b/c", MissingName::File);
        let placeholders = create(&policy);
        assert!(entries(folder.path()) == ["a"] && entries(&folder.path().join("a")).is_empty());
        placeholders.remove();
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn placeholder_of_a_killed_helper_is_used_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path(), "f", MissingName::File);
        drop(create(&policy));
        assert_eq!(entries(folder.path()), ["f"]);
        create(&policy).remove();
        assert_eq!(entries(folder.path()), [""; 0]);
        drop(create(&policy));
        Placeholders::remove_left_over(&policy);
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn placeholders_of_another_policy_are_removed_too() {
        let folder = tempfile::tempdir().unwrap();
        let first = create(&policy(folder.path(), "one", MissingName::File));
        let second = create(&policy(folder.path(), "two", MissingName::Folder));
        first.remove();
        second.remove();
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn file_of_another_program_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let policy = policy(folder.path(), "f", MissingName::File);
        let placeholders = create(&policy);
        fs::remove_file(&file).unwrap();
        fs::write(&file, "mine").unwrap();
        placeholders.remove();
        fs::write(&file, "").unwrap();
        create(&policy).remove();
        Placeholders::remove_left_over(&policy);
        assert_eq!(entries(folder.path()), ["f"]);
    }

    #[test]
    fn no_placeholder_is_created_outside_of_the_writable_folders() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(other.path(), folder.path().join("link")).unwrap();
        let policy = policy(folder.path(), "link/f", MissingName::File);
        let placeholders = create(&policy);
        assert_eq!(entries(other.path()), [""; 0]);
        placeholders.remove();
    }
}
