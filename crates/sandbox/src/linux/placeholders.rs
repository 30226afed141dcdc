//! Placeholders for read-only paths that do not exist.
//!
//! The kernel mounts only over something that exists. So that a command cannot create such a path,
//! an empty file or folder is created there for the time of the command. A placeholder is
//! recognized by its mode, which nothing else has, and by being empty. Each helper that uses a
//! placeholder holds a shared lock on it, which the kernel frees when the helper dies; only one that
//! gets the exclusive lock removes it. A placeholder that was left behind (all processes were killed
//! at once) is therefore used and removed by the next command with the same policy.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::thread::sleep;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, fchmod, flock, fstat,
    mkdirat, openat, openat2, readlinkat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::error::{SetupFailure, SetupStep, StepResult as _};
use crate::limits::{MAX_LINKS, PLACEHOLDER_LOCK_ATTEMPTS, PLACEHOLDER_LOCK_INTERVAL};
use crate::policy::{MissingName, SandboxPolicy};

/// Mode of a placeholder: readable by everyone, with the sticky bit, which files do not have, and
/// without the right to write, with which nobody creates a folder that is to be used.
const FILE_MODE: Mode = Mode::from_raw_mode(0o1444);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o1555);

/// A placeholder that this process uses.
#[derive(Debug)]
pub(super) struct Placeholder {
    /// The folder that contains the placeholder, outside of the sandbox.
    parent: OwnedFd,
    name: OsString,
    /// The open placeholder, with a lock.
    file: OwnedFd,
}

/// Creates a placeholder for each read-only path that does not exist, as far as its folder can be
/// written. `writable` are the writable folders without links.
pub(super) fn create_all(
    policy: &SandboxPolicy,
    writable: &[PathBuf],
) -> Result<Vec<Placeholder>, SetupFailure> {
    let mut placeholders = Vec::new();
    for name in policy.read_only.iter().filter(|name| name.missing != MissingName::Unprotected) {
        let found =
            end_of_path(&name.path, writable).step_at(SetupStep::Placeholder, &name.path)?;
        let Some(PathEnd { parent, name: last, is_last }) = found else { continue };
        let kind = if is_last { name.missing } else { MissingName::Folder };
        match create(&parent, &last, kind) {
            Ok(Some(file)) => placeholders.push(Placeholder { parent, name: last, file }),
            // The path was created in the meantime, or the command cannot create it either.
            Ok(None) | Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => {}
            Err(error) => {
                remove_all(placeholders);
                return Err(SetupFailure::at(SetupStep::Placeholder, &name.path, error));
            }
        }
    }
    Ok(placeholders)
}

/// Removes placeholders that no other sandbox uses.
pub(super) fn remove_all(placeholders: Vec<Placeholder>) {
    // In the opposite order, because a placeholder may be in the folder of an earlier one.
    for placeholder in placeholders.into_iter().rev() {
        placeholder.remove();
    }
}

/// Removes the placeholders that a killed helper left for a policy.
pub(super) fn remove_left_over(policy: &SandboxPolicy) {
    let writable = policy.writable.iter().filter_map(|path| fs::canonicalize(path).ok());
    let writable: Vec<_> = writable.collect();
    for name in &policy.read_only {
        if let Ok(Some(PathEnd { parent, name: last, .. })) = end_of_path(&name.path, &writable)
            && let Ok(file) = open(&parent, &last)
            && flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
        {
            Placeholder { parent, name: last, file }.remove();
        }
    }
}

impl Placeholder {
    fn remove(self) {
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let (Ok(file), Ok(named)) =
            (fstat(&self.file), statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW))
        else {
            return;
        };
        // Another program may have put something else in its place.
        if is_placeholder(&named) && (file.st_dev, file.st_ino) == (named.st_dev, named.st_ino) {
            let is_folder = FileType::from_raw_mode(named.st_mode) == FileType::Directory;
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // A folder is not empty if another program has put something into it; then it stays.
            let _ = unlinkat(&self.parent, &self.name, flags);
        }
    }
}

/// Returns whether a file is a placeholder; folders must be empty too, which removing them checks.
pub(super) fn is_placeholder(stat: &Stat) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => mode == FILE_MODE && stat.st_size == 0,
        FileType::Directory => mode == FOLDER_MODE,
        _ => false,
    }
}

/// Creates a placeholder, or joins the users of an existing one. Returns `None` if something else
/// exists.
fn create(parent: &OwnedFd, name: &OsStr, kind: MissingName) -> Result<Option<OwnedFd>, Errno> {
    for _ in 0..PLACEHOLDER_LOCK_ATTEMPTS {
        let created = match kind {
            MissingName::Folder => mkdirat(parent, name, FOLDER_MODE),
            MissingName::File | MissingName::Unprotected => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC;
                openat(parent, name, flags, FILE_MODE).map(drop)
            }
        };
        let is_new = match created {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error),
        };
        let file = match open(parent, name) {
            Ok(file) => file,
            Err(Errno::NOENT) => continue,
            // Something that cannot be opened is no placeholder.
            Err(_) if !is_new => return Ok(None),
            Err(error) => return Err(error),
        };
        if is_new {
            // The umask, and the kernel in case of folders, may have removed bits.
            let mode = if kind == MissingName::Folder { FOLDER_MODE } else { FILE_MODE };
            fchmod(&file, mode)?;
        } else if !is_placeholder(&fstat(&file)?) {
            return Ok(None);
        }
        let is_locked = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
        if is_locked && fstat(&file)?.st_nlink > 0 {
            return Ok(Some(file));
        }
        // Another helper removes the placeholder right now.
        sleep(PLACEHOLDER_LOCK_INTERVAL);
    }
    Err(Errno::AGAIN)
}

fn open(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// The first component of a path that does not exist, or is a placeholder.
struct PathEnd {
    parent: OwnedFd,
    name: OsString,
    is_last: bool,
}

/// Follows a path as far as it exists. Returns `None` if all of it exists, if it leads through
/// something that is no folder, or if it ends outside of the writable folders, where a command
/// creates nothing.
fn end_of_path(path: &Path, writable: &[PathBuf]) -> io::Result<Option<PathEnd>> {
    let mut walk = PathWalk::new(path);
    while let Some(name) = walk.next_name() {
        let is_last = walk.is_done();
        let child = walk.folder().join(&name);
        let kind = match statat(CWD, &child, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_placeholder(&stat) => None,
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match kind {
            Some(FileType::Symlink) => walk.follow_link(&readlinkat(CWD, &child, Vec::new())?)?,
            Some(FileType::Directory) if !is_last => walk.enter(name),
            None if writable.iter().any(|folder| walk.folder().starts_with(folder)) => {
                // The folder must be where the walk found it, even if a link replaced it since.
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let resolve = ResolveFlags::NO_SYMLINKS;
                let parent = openat2(CWD, walk.folder(), flags, Mode::empty(), resolve)?;
                return Ok(Some(PathEnd { parent, name, is_last }));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
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

    fn create(policy: &SandboxPolicy) -> Vec<Placeholder> {
        create_all(policy, &policy.writable).unwrap()
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
            assert_eq!((first.len(), second.len()), (1, 1));
            remove_all(first);
            assert_eq!(entries(folder.path()), [name]);
            remove_all(second);
            assert_eq!(entries(folder.path()), [""; 0]);
        }
    }

    #[test]
    fn placeholder_takes_the_place_of_a_missing_parent() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path(), "a/b/c", MissingName::File);
        let placeholders = create(&policy);
        assert!(entries(folder.path()) == ["a"] && entries(&folder.path().join("a")).is_empty());
        remove_all(placeholders);
        assert_eq!(entries(folder.path()), [""; 0]);
    }

    #[test]
    fn placeholder_of_a_killed_helper_is_used_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path(), "f", MissingName::File);
        drop(create(&policy));
        assert_eq!(entries(folder.path()), ["f"]);
        remove_all(create(&policy));
        assert_eq!(entries(folder.path()), [""; 0]);
        drop(create(&policy));
        remove_left_over(&policy);
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
        remove_all(placeholders);
        fs::write(&file, "").unwrap();
        assert_eq!(create(&policy).len(), 0);
        remove_left_over(&policy);
        assert_eq!(entries(folder.path()), ["f"]);
    }

    #[test]
    fn no_placeholder_is_created_outside_of_the_writable_folders() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(other.path(), folder.path().join("link")).unwrap();
        let policy = policy(folder.path(), "link/f", MissingName::File);
        assert_eq!(create(&policy).len(), 0);
        assert_eq!(entries(other.path()), [""; 0]);
    }
}
