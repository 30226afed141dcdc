//! Trees of mounts: copied, attached, and never reached through a symbolic link.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::limits::{DISAPPEARANCE_TIMEOUT, REPLACEMENT_ATTEMPTS, REPLACEMENT_INTERVAL};
use super::sys::{self, MountScope};

/// Attributes of every mount that the command sees: no set-user-ID programs, no devices.
pub(super) const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
pub(super) const READ_ONLY: u64 = HARMLESS | libc::MOUNT_ATTR_RDONLY;

/// Returns whether a path does not exist any more, after an action on it failed.
///
/// The kernel detaches a mount a moment before its path disappears, so the function waits.
pub(super) fn disappears_within_timeout(path: &Path) -> bool {
    let deadline = Instant::now() + DISAPPEARANCE_TIMEOUT;
    while !matches!(statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
        if Instant::now() > deadline {
            return false;
        }
        sleep(REPLACEMENT_INTERVAL);
    }
    true
}

/// Runs an action on a path, and repeats it if it fails, because another program may be replacing
/// the file at the path.
pub(super) fn retry_during_file_replacement(
    mut action: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    for _ in 1..REPLACEMENT_ATTEMPTS {
        match action() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => sleep(REPLACEMENT_INTERVAL),
            result => return result,
        }
    }
    action()
}

/// Attaches a copy of a tree on top of the tree, with more attributes.
pub(super) fn mount_over_itself_with_attributes(path: &Path, attributes: u64) -> io::Result<()> {
    let fd = open_path_without_symlinks(path)?;
    let tree = clone_mount_with_submounts(fd.as_fd(), attributes)?;
    mount_at_descriptor(tree.as_fd(), fd.as_fd())
}

/// Copies a tree with all mounts in it.
pub(super) fn clone_mount_with_submounts(
    folder: BorrowedFd<'_>,
    attributes: u64,
) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(folder, "", flags)?;
    sys::set_mount_attributes(tree.as_fd(), MountScope::WithSubmounts, attributes)?;
    Ok(tree)
}

/// Copies one file or folder, without the mounts in it.
pub(super) fn clone_mount_without_submounts(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags)?)
}

pub(super) fn mount_at_path(tree: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    mount_at_descriptor(tree, open_path_without_symlinks(target)?.as_fd())
}

fn mount_at_descriptor(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", target, "", flags)?)
}

/// Opens a file or folder without following a link, not even as its last component.
pub(super) fn open_path_without_symlinks(path: &Path) -> io::Result<OwnedFd> {
    // With these flags, a link as the last component is opened itself.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Returns a path that leads to an open file of this process.
pub(super) fn own_descriptor_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
