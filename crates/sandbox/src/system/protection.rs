//! Read-only names in writable folders.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::placeholders::{PathWalk, is_placeholder};
use super::scratch::Scratch;
use super::sys::{self, MountScope};
use super::trees::{HARMLESS, READ_ONLY, attach, attach_copy, retry};

/// Makes paths read-only that are beneath writable folders.
pub(super) struct Protection<'a> {
    writable: Vec<&'a Path>,
    /// Folders and links that are mount points, and therefore cannot be moved or removed.
    pinned: HashSet<PathBuf>,
}

impl<'a> Protection<'a> {
    /// Creates the protection for writable folders, whose paths are without links.
    pub(super) fn new(writable: Vec<&'a Path>) -> Self {
        Self { writable, pinned: HashSet::new() }
    }

    /// Makes a path read-only, with all links that lead to it. Its parent folders become mount
    /// points, because otherwise the command could move them away and create new ones.
    pub(super) fn protect(&mut self, path: &Path, scratch: &Scratch) -> io::Result<()> {
        let mut walk = PathWalk::new(path);
        while let Some(name) = walk.next_name() {
            let child = walk.folder().join(&name);
            let is_ours =
                self.writable.iter().any(|folder| child.starts_with(folder) && child != **folder);
            let stat = match statat(CWD, &child, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::Symlink {
                if is_ours && self.pinned.insert(child.clone()) {
                    attach_copy(&child, READ_ONLY)?;
                }
                walk.follow_link(&readlinkat(CWD, &child, Vec::new())?)?;
                continue;
            }
            if kind == FileType::Directory && !walk.is_done() && !is_placeholder(&stat) {
                if is_ours && self.pinned.insert(child.clone()) {
                    attach_copy(&child, HARMLESS)?;
                }
                walk.enter(name);
                continue;
            }
            if is_ours {
                if is_placeholder(&stat) && kind == FileType::Socket {
                    let tree = scratch.empty_file()?;
                    sys::set_mount_attributes(tree.as_fd(), MountScope::One, READ_ONLY)?;
                    retry(|| attach(tree.as_fd(), &child))?;
                } else {
                    retry(|| attach_copy(&child, READ_ONLY))?;
                }
            }
            return Ok(());
        }
        // The path leads to a folder by `..`.
        Ok(())
    }
}
