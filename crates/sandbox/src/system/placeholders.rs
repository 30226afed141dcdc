//! Placeholders for read-only paths that do not exist.
//!
//! The kernel can mount only over a path that exists. To prevent a command from creating a missing
//! path, the helper creates a placeholder at the path for the time of the command. A placeholder is
//! an unused socket, because `git` and most other programs ignore sockets. They also ignore it in
//! the sandbox: its directory entry still has the type of a socket if a file is mounted over it.
//!
//! The placeholders of a command are links to one socket, because file systems need a hundred times
//! as long for a new file as for a new link to an existing file. A placeholder is recognized by its
//! mode, which no other file has. Each helper holds a shared lock on the folders that contain its
//! placeholders, and the kernel releases the lock when the helper dies. A helper that gets the
//! exclusive lock of a folder removes all placeholders from the folder. If all helpers of a folder
//! were killed at once, their placeholders remain. The next command with this folder uses and
//! removes these placeholders.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;

use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat,
    StatVfsMountFlags, accessat, chmodat, flock, fstat, linkat, mknodat, openat, openat2,
    readlinkat, statat, statvfs, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::limits::{PLACEHOLDER_LOCK_ATTEMPTS, PLACEHOLDER_LOCK_INTERVAL};
use super::path_walk::ResolvedParents;
use super::trees::own_descriptor_path;
use crate::error::{SetupFailure, SetupStep};
use crate::policy::{MissingName, SandboxPolicy};

/// Mode of a placeholder. Other sockets do not have the sticky bit together with so few rights.
const MODE: Mode = Mode::from_raw_mode(0o1444);

/// Removes those placeholders of a policy that no command uses any more.
///
/// The helper removes its placeholders itself. A caller needs this function after the helper was
/// killed, and at the start of a session.
pub fn remove_unused_placeholders(policy: &SandboxPolicy) {
    Placeholders::remove_left_over(policy);
}

/// The placeholders of this process.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    /// The folders that contain placeholders, with shared locks.
    folders: Vec<LockedFolder>,
    /// The socket to which the placeholders link.
    socket: Option<OwnedFd>,
}

#[derive(Debug)]
struct LockedFolder {
    path: PathBuf,
    folder: OwnedFd,
}

impl Placeholders {
    /// Creates a placeholder for each read-only path that does not exist, if the command could
    /// create the path. `writable` contains the paths of the writable folders, without links.
    pub(super) fn create(
        policy: &SandboxPolicy,
        writable: &[PathBuf],
    ) -> Result<Self, SetupFailure> {
        let (mut placeholders, mut known) = (Self::default(), ResolvedParents::default());
        for name in &policy.read_only {
            if name.missing == MissingName::Unprotected {
                continue;
            }
            let created = placeholders.create_if_missing(&name.path, writable, &mut known);
            if let Err(error) = created {
                placeholders.remove();
                return Err(SetupFailure::at(SetupStep::Placeholder, &name.path, error));
            }
        }
        Ok(placeholders)
    }

    /// Removes the placeholders of all folders that no other helper uses.
    pub(super) fn remove(self) {
        // Goes through the folders in the opposite order, because a placeholder may be in the
        // folder of an earlier placeholder. If a folder has two paths, this process holds two
        // shared locks on it. The exclusive lock is then available only after one of the two was
        // released.
        let socket = self.socket.as_ref().and_then(|socket| fstat(socket).ok());
        for LockedFolder { folder, .. } in self.folders.into_iter().rev() {
            if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_placeholders_in_folder(&folder, socket.as_ref());
            }
        }
    }

    /// Removes the placeholders that killed helpers left for a policy.
    pub(super) fn remove_left_over(policy: &SandboxPolicy) {
        let writable = policy.writable.iter().filter_map(|path| fs::canonicalize(path).ok());
        let writable: Vec<_> = writable.collect();
        let (mut seen, mut known) = (HashSet::new(), ResolvedParents::default());
        for name in &policy.read_only {
            // Folders that a command closed, outermost first.
            let mut opened: Vec<(PathBuf, TemporarilyAccessibleFolder<OwnedFd>)> = Vec::new();
            while let Ok(end) = find_end(&name.path, &writable, &mut known) {
                let closed = match end {
                    PathEnd::Settled => break,
                    PathEnd::Missing { folder, .. } if seen.contains(&folder) => break,
                    PathEnd::Missing { folder: path, .. } => match open_folder(&path) {
                        Ok(folder) => {
                            if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                                remove_placeholders_in_folder(&folder, None);
                            }
                            seen.insert(path);
                            break;
                        }
                        Err(_) => path,
                    },
                    PathEnd::Denied(path) => path,
                };
                if opened.iter().any(|(before, _)| *before == closed) {
                    break;
                }
                let Ok(folder) = TemporarilyAccessibleFolder::from_path(&closed) else { break };
                opened.push((closed, folder));
                known = ResolvedParents::default();
            }
            if !opened.is_empty() {
                // The opened folders are closed again, so the next walk must not use paths that it
                // knows from this walk.
                known = ResolvedParents::default();
            }
        }
    }

    fn create_if_missing(
        &mut self,
        path: &Path,
        writable: &[PathBuf],
        known: &mut ResolvedParents,
    ) -> io::Result<()> {
        let (folder, name) = match find_end(path, writable, known)? {
            PathEnd::Missing { folder, name } => (folder, name),
            PathEnd::Denied(folder) => return Err(closed_folder_error(&folder)),
            PathEnd::Settled => return Ok(()),
        };
        let index = match self.lock_folder(&folder) {
            Ok(index) => index,
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) if can_obtain_create_access(&folder) => {
                return Err(closed_folder_error(&folder));
            }
            Err(_) => return Ok(()),
        };
        let LockedFolder { path, folder } = &self.folders[index];
        // The link cannot be created if the socket is on another file system or was removed.
        if let Some(socket) = &self.socket
            && matches!(link_descriptor(socket, folder, &name), Ok(()) | Err(Errno::EXIST))
        {
            return Ok(());
        }
        match mknodat(folder, &name, FileType::Socket, MODE, 0) {
            Ok(()) => {}
            // No placeholder is needed: the name exists by now, or the file system is read-only, so
            // that the command cannot create the name either.
            Err(Errno::EXIST | Errno::ROFS) => return Ok(()),
            Err(Errno::ACCESS) if !is_own(&fstat(folder)?) => return Ok(()),
            Err(Errno::ACCESS) => return Err(closed_folder_error(path)),
            Err(error) => return Err(error.into()),
        }
        // The umask may have removed bits.
        let changed = chmodat(folder, &name, MODE, AtFlags::empty());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = changed.and_then(|()| openat(folder, &name, flags, Mode::empty()));
        if let Ok(socket) = socket
            && is_placeholder(&fstat(&socket)?)
        {
            self.socket = Some(socket);
            return Ok(());
        }
        unlinkat(folder, &name, AtFlags::empty())?;
        Err(io::Error::other("the file system does not keep the modes of files"))
    }

    /// Locks a folder, so that no other helper removes placeholders from it, and returns its index.
    fn lock_folder(&mut self, path: &Path) -> io::Result<usize> {
        if let Some(index) = self.folders.iter().position(|locked| locked.path == path) {
            return Ok(index);
        }
        let folder = open_folder(path)?;
        lock_shared(&folder)?;
        self.folders.push(LockedFolder { path: path.to_owned(), folder });
        Ok(self.folders.len() - 1)
    }
}

/// Creates a link to an open file.
fn link_descriptor(file: &OwnedFd, folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    match linkat(file, "", folder, name, AtFlags::EMPTY_PATH) {
        // Before Linux 6.10, only root may do this.
        Err(Errno::NOENT) => {
            linkat(CWD, own_descriptor_path(file.as_fd()), folder, name, AtFlags::SYMLINK_FOLLOW)
        }
        result => result,
    }
}

/// Opens the folder at a path without links. Fails if a link has replaced a component of the path
/// meanwhile.
fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Takes a shared lock. Another helper holds an exclusive lock only while it removes placeholders.
fn lock_shared(folder: &OwnedFd) -> io::Result<()> {
    for _ in 0..PLACEHOLDER_LOCK_ATTEMPTS {
        match flock(folder, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => sleep(PLACEHOLDER_LOCK_INTERVAL),
            result => return Ok(result?),
        }
    }
    Err(Errno::WOULDBLOCK.into())
}

/// Removes the placeholders from a folder, even if the command has closed the folder. `socket` is
/// the socket to which the placeholders of this process link. Another program may have changed the
/// mode of this socket.
fn remove_placeholders_in_folder(folder: &OwnedFd, socket: Option<&Stat>) {
    if try_remove_placeholders_in_folder(folder, socket) == Err(Errno::ACCESS)
        && let Ok(_opened) = TemporarilyAccessibleFolder::from_descriptor(folder.as_fd())
    {
        // Placeholders that cannot be removed even now stay in the folder.
        let _ = try_remove_placeholders_in_folder(folder, socket);
    }
}

fn try_remove_placeholders_in_folder(
    folder: &OwnedFd,
    socket: Option<&Stat>,
) -> rustix::io::Result<()> {
    let is_own =
        |stat: &Stat| socket.is_some_and(|it| (it.st_dev, it.st_ino) == (stat.st_dev, stat.st_ino));
    let mut result = Ok(());
    for entry in Dir::read_from(folder)?.flatten() {
        if !matches!(entry.file_type(), FileType::Socket | FileType::Unknown) {
            continue;
        }
        let name = entry.file_name();
        let removed = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).and_then(|stat| {
            match is_placeholder(&stat) || is_own(&stat) {
                true => unlinkat(folder, name, AtFlags::empty()),
                false => Ok(()),
            }
        });
        result = result.and(removed);
    }
    result
}

/// A folder of this user that its owner may read, write and enter until this value is dropped.
/// Dropping the value restores the former mode of the folder.
struct TemporarilyAccessibleFolder<F: AsFd> {
    folder: F,
    mode: Mode,
}

impl TemporarilyAccessibleFolder<OwnedFd> {
    /// Opens up a folder that this process may not read.
    fn from_path(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::from_descriptor(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
    }
}

impl<F: AsFd> TemporarilyAccessibleFolder<F> {
    fn from_descriptor(folder: F) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
        let folder = Self { folder, mode };
        folder.set_mode(mode | Mode::RWXU)?;
        Ok(folder)
    }

    fn set_mode(&self, mode: Mode) -> io::Result<()> {
        // The kernel does not change the mode through the descriptor of a folder that may not be
        // read, so the mode is changed by a path.
        let link = own_descriptor_path(self.folder.as_fd());
        Ok(chmodat(CWD, link, mode, AtFlags::empty())?)
    }
}

impl<F: AsFd> Drop for TemporarilyAccessibleFolder<F> {
    fn drop(&mut self) {
        drop(self.set_mode(self.mode));
    }
}

/// Returns whether a command could create a name in a folder, or could give itself the right to
/// create it.
pub(super) fn can_obtain_create_access(folder: &Path) -> bool {
    let access = accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty());
    let is_read_only =
        || statvfs(folder).is_ok_and(|state| state.f_flag.contains(StatVfsMountFlags::RDONLY));
    let stat = || statat(CWD, folder, AtFlags::SYMLINK_NOFOLLOW);
    access.is_ok() || stat().is_ok_and(|stat| is_own(&stat)) && !is_read_only()
}

fn is_own(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw()
}

/// Creates the error for a closed folder of this user. The command could open the folder, but the
/// helper does not change its mode.
fn closed_folder_error(folder: &Path) -> io::Error {
    let advice = format!(
        "a command could create it, because {} is your own folder, although it is closed. Open the \
         folder by `chmod u+rwx`",
        folder.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, advice)
}

/// Returns whether a placeholder of a command that runs is at a path.
pub fn is_placeholder_at(path: &Path) -> bool {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_placeholder(&stat))
}

/// Returns whether a file is a placeholder.
pub(super) fn is_placeholder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
        && Mode::from_raw_mode(stat.st_mode) == MODE
}

/// Where a path ends.
enum PathEnd {
    /// The whole path exists, or the command cannot create the missing part. It cannot do so if the
    /// path leads through a file, or if the existing part ends outside of the writable folders or
    /// in a folder of another user.
    Settled,
    /// The component `name` does not exist in `folder`, or is a placeholder there. The command
    /// could create the component.
    Missing { folder: PathBuf, name: OsString },
    /// This process may not search or read the folder with this path, but the command could give
    /// itself these rights.
    Denied(PathBuf),
}

/// Follows a path as far as it exists.
fn find_end(path: &Path, writable: &[PathBuf], known: &mut ResolvedParents) -> io::Result<PathEnd> {
    let mut walk = known.walk(path);
    while let Some(name) = walk.next_name() {
        known.record_parent_if_reached(path, &walk);
        let is_last = walk.is_done();
        let child = walk.folder().join(&name);
        let is_writable = writable.iter().any(|folder| walk.folder().starts_with(folder));
        let denied = |folder: &Path| match is_writable && can_obtain_create_access(folder) {
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
                let folder = walk.folder().to_owned();
                return Ok(PathEnd::Missing { folder, name });
            }
            _ => break,
        }
    }
    Ok(PathEnd::Settled)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::policy::ReadOnlyPath;

    fn policy(folder: &Path, names: &[&str]) -> SandboxPolicy {
        let mut policy = SandboxPolicy::from_writable_folders([folder]);
        let entry = |name| ReadOnlyPath::new(folder.join(name), MissingName::Protected);
        policy.read_only = names.iter().map(entry).collect();
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
        let policy = policy(folder.path(), &["f"]);
        let (first, second) = (create(&policy), create(&policy));
        first.remove();
        assert_eq!(entries(folder.path()), ["f"]);
        second.remove();
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn placeholders_of_a_command_are_links_to_one_socket() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        let placeholders = create(&policy(folder.path(), &["f", "g", "folder/h"]));
        let number = |name: &str| fs::symlink_metadata(folder.path().join(name)).unwrap().ino();
        assert_eq!((number("g"), number("folder/h")), (number("f"), number("f")));
        placeholders.remove();
        assert_eq!(entries(&folder.path().join("folder")), [""; 0]);
        assert_eq!(entries(folder.path()), ["folder"]);
    }

    #[test]
    fn placeholders_whose_mode_was_changed_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let placeholders = create(&policy(folder.path(), &["f", "g"]));
        chmodat(CWD, folder.path().join("f"), Mode::RWXU, AtFlags::empty()).unwrap();
        placeholders.remove();
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn placeholder_that_was_removed_is_no_longer_linked_to() {
        let folder = tempfile::tempdir().unwrap();
        let mut placeholders = Placeholders::default();
        let writable = [folder.path().to_owned()];
        let mut known = ResolvedParents::default();
        placeholders.create_if_missing(&folder.path().join("f"), &writable, &mut known).unwrap();
        fs::remove_file(folder.path().join("f")).unwrap();
        fs::write(folder.path().join("f"), "mine").unwrap();
        placeholders.create_if_missing(&folder.path().join("g"), &writable, &mut known).unwrap();
        let stat = statat(CWD, folder.path().join("g"), AtFlags::SYMLINK_NOFOLLOW).unwrap();
        assert!(is_placeholder(&stat));
        placeholders.remove();
    }

    #[test]
    fn placeholder_takes_the_place_of_a_missing_parent() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path(), &["a/b/c"]);
        let placeholders = create(&policy);
        assert_eq!(entries(folder.path()), ["a"]);
        placeholders.remove();
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn placeholder_of_a_killed_helper_is_used_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path(), &["f"]);
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
        let first = create(&policy(folder.path(), &["one"]));
        let second = create(&policy(folder.path(), &["two"]));
        first.remove();
        second.remove();
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn file_of_another_program_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let policy = policy(folder.path(), &["f"]);
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
        let policy = policy(folder.path(), &["link/f"]);
        let placeholders = create(&policy);
        assert_eq!(entries(other.path()), [""; 0]);
        placeholders.remove();
    }
}
