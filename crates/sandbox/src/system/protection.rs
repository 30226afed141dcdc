//! Read-only names in writable folders.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::path_walk::ResolvedParents;
use super::placeholders::{can_obtain_create_access, is_placeholder};
use super::scratch::Scratch;
use super::trees::{
    HARMLESS, READ_ONLY, disappears_within_timeout, mount_at_path,
    mount_over_itself_with_attributes, retry_during_file_replacement,
};
use crate::policy::{MissingName, ReadOnlyPath};

/// Makes paths beneath writable folders read-only.
pub(super) struct Protection<'a> {
    writable: Vec<&'a Path>,
    /// Folders and links that are mount points, and therefore cannot be moved or removed.
    pinned: HashSet<PathBuf>,
    /// Paths that are read-only already, e.g. a placeholder for a missing folder that would contain
    /// several names.
    read_only: HashSet<PathBuf>,
    known: ResolvedParents,
}

impl<'a> Protection<'a> {
    /// Creates the protection for writable folders. The paths of the folders must not contain
    /// links.
    pub(super) fn new(writable: Vec<&'a Path>) -> Self {
        let (pinned, read_only, known) = Default::default();
        Self { writable, pinned, read_only, known }
    }

    /// Prevents the command from moving the parent folders of a covered path. `path` contains no
    /// links. Otherwise a later command could read the covered file or folder at its new path,
    /// which is not masked.
    pub(super) fn pin_parents(&mut self, path: &Path) -> io::Result<()> {
        let parents =
            path.ancestors().skip(1).filter(|parent| self.is_beneath_writable_folder(parent));
        let parents: Vec<_> = parents.collect();
        for parent in parents.into_iter().rev() {
            if let Err(error) = self.pin_by_mount(parent, HARMLESS) {
                // If another program has removed the folder with its content, nothing is left to
                // protect.
                return if disappears_within_timeout(parent) { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }

    /// Returns whether a path is beneath a writable folder, i.e. whether the command could change
    /// the path if it were not protected.
    fn is_beneath_writable_folder(&self, path: &Path) -> bool {
        self.writable.iter().any(|folder| path.starts_with(folder) && path != *folder)
    }

    /// Makes a path a mount point, unless it is one already.
    fn pin_by_mount(&mut self, path: &Path, attributes: u64) -> io::Result<()> {
        if self.pinned.insert(path.to_owned()) {
            mount_over_itself_with_attributes(path, attributes)
        } else {
            Ok(())
        }
    }

    /// Makes a path read-only, with all links that lead to it. Its parent folders become mount
    /// points, because otherwise the command could move them away and create new ones.
    ///
    /// Fails if the path does not exist and the command could create it.
    pub(super) fn protect(&mut self, name: &ReadOnlyPath, scratch: &Scratch) -> io::Result<()> {
        let is_unprotected = name.missing == MissingName::Unprotected;
        let path = &name.path;
        let mut walk = self.known.walk(path);
        while let Some(name) = walk.next_name() {
            self.known.record_parent_if_reached(path, &walk);
            let child = walk.folder().join(&name);
            let is_ours = self.is_beneath_writable_folder(&child);
            let stat = match statat(CWD, &child, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) if is_unprotected => return Ok(()),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS)
                    if !is_ours || !can_obtain_create_access(walk.folder()) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::Symlink {
                if is_ours {
                    self.pin_by_mount(&child, READ_ONLY)?;
                }
                walk.follow_link(&readlinkat(CWD, &child, Vec::new())?)?;
                continue;
            }
            if kind == FileType::Directory && !walk.is_done() {
                if is_ours {
                    self.pin_by_mount(&child, HARMLESS)?;
                }
                walk.enter(name);
                continue;
            }
            if is_ours && self.read_only.insert(child.clone()) {
                if is_placeholder(&stat) {
                    let tree = scratch.empty_file()?;
                    retry_during_file_replacement(|| mount_at_path(tree.as_fd(), &child))?;
                } else {
                    retry_during_file_replacement(|| {
                        mount_over_itself_with_attributes(&child, READ_ONLY)
                    })?;
                }
            }
            return Ok(());
        }
        // The path ends with `..`, for which the walk returns no component.
        Ok(())
    }
}
