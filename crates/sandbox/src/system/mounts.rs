//! The mounts of a sandbox.
//!
//! The command has the same root folder as the system. All mounts become read-only, and further
//! mounts are attached on top of them: writable folders, a private `/tmp`, `/dev` and `/proc`, and
//! mounts that hide or protect paths. Two properties make this safe even if a process moves files
//! or folders at the same time:
//!
//! - A mount tree is attached writable only if its folder is the one that was recorded outside of
//!   the namespaces, before the mounts were built. All trees that are attached later are copies of
//!   existing trees, with the same or fewer rights. In a preview, an overlay is attached instead,
//!   and no tree of the folder itself.
//! - No path is followed through a symbolic link, except by `PathWalk`.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::StepResult as _;
use super::limits::MAX_HIDDEN_SOCKETS;
use super::mount_plan::{FolderIdentity, PreMountSnapshot, WritableFolder};
use super::overlay::{check_preview, mount_copy_on_write, mount_preview};
use super::protection::Protection;
use super::resolver::PathResolver;
use super::rules::SHARED_FOLDERS;
use super::scratch::{
    Scratch, copy_devices, create_unopenable_file_mount, fresh_proc, fresh_terminals,
};
use super::sys::{self, MountScope};
use super::trees::{
    HARMLESS, READ_ONLY, clone_mount_with_submounts, disappears_within_timeout, mount_at_path,
    open_path_without_symlinks, retry_during_file_replacement,
};
use crate::error::{SetupFailure, SetupStep};
use crate::policy::SandboxPolicy;

/// Paths that commands need to resolve host names and to find programs. On many systems, these
/// paths lead into `/run`, which is otherwise hidden.
const NEEDED_IN_RUN: [&str; 3] = ["/etc/resolv.conf", "/run/current-system", "/run/wrappers"];

/// A mount tree that is not attached yet.
struct Placement {
    target: PathBuf,
    tree: OwnedFd,
    /// Final attributes of the tree if the tree is a cover, i.e. if it hides a path. They are set
    /// after all trees are attached, because mount points may be created in a cover until then.
    /// `None` if the tree keeps a path accessible.
    cover: Option<u64>,
    /// Whether the target must be created as a mount point, because a cover hides its parent
    /// folder.
    may_create: bool,
}

/// Builds the mounts of a sandbox in this process's mount namespace. This process must be the first
/// one of its process namespace. `wait_for_placeholders` returns when the placeholders exist.
pub(super) fn build(
    policy: &SandboxPolicy,
    plan: &PreMountSnapshot,
    mut wait_for_placeholders: impl FnMut() -> io::Result<()>,
) -> Result<(), SetupFailure> {
    let root = open_path_without_symlinks(Path::new("/")).step(SetupStep::Mounts)?;
    sys::make_mounts_private(root.as_fd()).step(SetupStep::Mounts)?;
    let is_preview = !policy.preview.is_empty();
    if is_preview {
        // An overlay may not show files that are created in the real folder while it is mounted.
        wait_for_placeholders().step(SetupStep::Helper)?;
        check_preview(policy, plan)?;
    }

    let mut resolver = PathResolver::default();
    let mut trees = Trees::resolve_covered_paths(policy, plan, &mut resolver)?;
    trees.add_accessible_folders(policy, plan, &mut resolver)?;
    let devices = copy_devices()?;
    let proc = fresh_proc(policy.limits.processes).step(SetupStep::Proc)?;
    let terminals = fresh_terminals().step_at(SetupStep::Devices, Path::new("/dev/pts"))?;

    sys::set_mount_attributes(root.as_fd(), MountScope::WithSubmounts, READ_ONLY)
        .step(SetupStep::ReadOnlyRoot)?;

    let scratch = Scratch::new(policy.limits.tmp_bytes, trees.covered.len());
    let scratch = scratch.step(SetupStep::Devices)?;
    trees.add_covers_of_hidden_paths(&scratch, plan)?;
    let device_folder = scratch.device_folder().step(SetupStep::Devices)?;
    let shm = scratch.create_folder("shm", 0o1777).step(SetupStep::Devices)?;
    trees.attach_all()?;

    let dev = Path::new("/dev");
    mount_at_path(device_folder.as_fd(), dev).step_at(SetupStep::Devices, dev)?;
    for (name, tree) in devices {
        let path = dev.join(name);
        mount_at_path(tree.as_fd(), &path).step_at(SetupStep::Devices, &path)?;
    }
    mount_at_path(terminals.as_fd(), &dev.join("pts")).step(SetupStep::Devices)?;
    mount_at_path(shm.as_fd(), &dev.join("shm")).step(SetupStep::Devices)?;
    sys::set_mount_attributes(device_folder.as_fd(), MountScope::One, libc::MOUNT_ATTR_RDONLY)
        .step(SetupStep::Devices)?;

    let mut protection = Protection::new(plan.writable_paths().collect());
    for path in trees.covered_paths() {
        protection.pin_parents(path).step_at(SetupStep::Mask, path)?;
    }
    if !is_preview {
        wait_for_placeholders().step(SetupStep::Helper)?;
    }
    for name in &policy.read_only {
        protection.protect(name, &scratch).step_at(SetupStep::ReadOnlyName, &name.path)?;
    }
    mount_at_path(proc.as_fd(), Path::new("/proc")).step(SetupStep::Proc)
}

struct Trees {
    placements: Vec<Placement>,
    /// Paths without links of the folders and files that are covered by folders and files in
    /// memory.
    covered: Vec<PathBuf>,
    /// The covered paths that the policy masks.
    masked: Vec<PathBuf>,
    /// The path of `/tmp` without links, unless it is a writable folder of the policy.
    tmp: Option<PathBuf>,
}

impl Trees {
    fn resolve_covered_paths(
        policy: &SandboxPolicy,
        plan: &PreMountSnapshot,
        resolver: &mut PathResolver,
    ) -> Result<Self, SetupFailure> {
        let layers = plan.writable.iter().filter_map(|writable| writable.layer.as_ref());
        let mut masked: Vec<_> = layers.map(|layer| layer.path.clone()).collect();
        for path in &policy.masked {
            masked.extend(resolver.resolve_hidden(path).step_at(SetupStep::Mask, path)?);
        }
        let mut resolve = |path: &Path| resolver.resolve(path).ok();
        let writable: Vec<_> = policy.writable.iter().filter_map(|path| resolve(path)).collect();
        let tmp = resolve(Path::new("/tmp")).filter(|path| !writable.contains(path));
        let shared = SHARED_FOLDERS.iter().filter_map(|path| resolve(Path::new(path)));
        let mut covered: Vec<_> = shared.filter(|path| !writable.contains(path)).collect();
        covered.extend(masked.iter().cloned());
        covered.sort();
        covered.dedup();
        Ok(Self { placements: Vec::new(), covered, masked, tmp })
    }

    /// Copies the folders that remain accessible, before anything covers them.
    fn add_accessible_folders(
        &mut self,
        policy: &SandboxPolicy,
        plan: &PreMountSnapshot,
        resolver: &mut PathResolver,
    ) -> Result<(), SetupFailure> {
        let copy = |folder: &FolderIdentity| {
            let tree =
                folder.reopen().and_then(|fd| clone_mount_with_submounts(fd.as_fd(), HARMLESS));
            tree.step_at(SetupStep::Folder, &folder.path)
        };
        for WritableFolder { folder, layer } in &plan.writable {
            let tree = match layer {
                Some(layer) => mount_preview(folder, layer, plan.layer_use)
                    .step_at(SetupStep::Overlay, &folder.path)?,
                None => copy(folder)?,
            };
            self.add(folder.path.clone(), tree, None);
        }
        if let Some(folder) = &plan.tmp {
            if let Some(tmp) = self.tmp.clone() {
                self.add(tmp, copy(folder)?, None);
            }
            // The folder is also attached at its own path, at which other programs see it.
            self.add(folder.path.clone(), copy(folder)?, None);
        }
        for folder in &policy.copy_on_write {
            let Ok(path) = resolver.resolve(&folder.path) else { continue };
            if !plan.writable_paths().any(|writable| path.starts_with(writable))
                && let Ok(tree) = mount_copy_on_write(&path, &folder.layer)
            {
                self.add(path, tree, None);
            }
        }
        let needed = NEEDED_IN_RUN.iter().map(Path::new);
        let readable = policy.readable.iter().map(PathBuf::as_path).chain(needed);
        for path in readable.filter_map(|path| resolver.resolve(path).ok()) {
            if self.covered.iter().any(|covered| path != *covered && path.starts_with(covered)) {
                let tree = open_path_without_symlinks(&path)
                    .and_then(|fd| clone_mount_with_submounts(fd.as_fd(), READ_ONLY))
                    .step_at(SetupStep::Folder, &path)?;
                self.add(path, tree, None);
            }
        }
        Ok(())
    }

    /// Adds files and folders that cover the hidden paths. In writable folders, they cannot be
    /// opened; elsewhere, they are empty.
    fn add_covers_of_hidden_paths(
        &mut self,
        scratch: &Scratch,
        plan: &PreMountSnapshot,
    ) -> Result<(), SetupFailure> {
        for (number, path) in self.covered.clone().into_iter().enumerate() {
            let is_tmp = self.tmp.as_ref() == Some(&path) && !self.masked.contains(&path);
            if is_tmp && plan.tmp.is_some() {
                continue;
            }
            let is_folder = match statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                Err(Errno::NOENT | Errno::ACCESS) => continue,
                Err(error) => return Err(SetupFailure::at(SetupStep::Mask, &path, error)),
            };
            let is_closed = self.needs_unreadable_cover(&path, plan);
            let (tree, attributes) = if is_tmp {
                (scratch.create_folder("tmp", 0o1777), HARMLESS)
            } else if is_folder {
                let mode = if is_closed { 0 } else { 0o755 };
                (scratch.create_folder(&format!("hidden{number}"), mode), READ_ONLY)
            } else if is_closed {
                (create_unopenable_file_mount(), READ_ONLY)
            } else {
                (scratch.empty_file(), READ_ONLY)
            };
            let tree = tree.step_at(SetupStep::Mask, &path)?;
            self.add(path, tree, Some(attributes));
        }
        let visible: Vec<_> = plan.sockets.iter().filter(|path| self.is_visible(path)).collect();
        if visible.len() > MAX_HIDDEN_SOCKETS {
            let error =
                format!("there are more than {MAX_HIDDEN_SOCKETS} sockets in visible folders");
            return Err(SetupFailure::new(SetupStep::Mask, io::Error::other(error)));
        }
        for path in visible {
            let tree = scratch.empty_file().step_at(SetupStep::Mask, path)?;
            self.add(path.clone(), tree, Some(READ_ONLY));
        }
        Ok(())
    }

    /// Returns whether the cover of a path must not be readable. If a file of a writable folder
    /// appeared empty, a command could store the empty file as a new version, e.g. in a commit. A
    /// folder that leads to accessible paths must remain readable.
    fn needs_unreadable_cover(&self, path: &Path, plan: &PreMountSnapshot) -> bool {
        let leads_on =
            |placement: &Placement| placement.cover.is_none() && placement.target.starts_with(path);
        self.masked.iter().any(|masked| masked == path)
            && plan.writable_paths().any(|writable| path.starts_with(writable))
            && !self.placements.iter().any(leads_on)
    }

    /// Returns whether a path remains visible: either no covered folder contains it, or it is in a
    /// folder that remains accessible.
    fn is_visible(&self, path: &Path) -> bool {
        let is_accessible = |placement: &Placement| {
            placement.cover.is_none() && path.starts_with(&placement.target)
        };
        !self.covered.iter().any(|covered| path.starts_with(covered))
            || self.placements.iter().any(is_accessible)
    }

    fn add(&mut self, target: PathBuf, tree: OwnedFd, cover: Option<u64>) {
        let covered = |covered: &PathBuf| target != *covered && target.starts_with(covered);
        // If another cover already hides the path of this cover, no mount point is needed.
        let may_create = cover.is_none() && self.covered.iter().any(covered);
        self.placements.push(Placement { target, tree, cover, may_create });
    }

    /// Returns the paths that are covered.
    fn covered_paths(&self) -> impl Iterator<Item = &Path> {
        let covers = self.placements.iter().filter(|placement| placement.cover.is_some());
        covers.map(|placement| placement.target.as_path())
    }

    /// Attaches all trees, parents first, and then gives them their final attributes.
    fn attach_all(&mut self) -> Result<(), SetupFailure> {
        self.placements.sort_by_key(|placement| placement.target.components().count());
        for Placement { target, tree, may_create, .. } in &self.placements {
            if *may_create {
                create_mount_point(target, tree.as_fd()).step_at(SetupStep::Folder, target)?;
                mount_at_path(tree.as_fd(), target).step_at(SetupStep::Folder, target)?;
            } else {
                match retry_during_file_replacement(|| mount_at_path(tree.as_fd(), target)) {
                    // The path was hidden already, or was the socket of a program that has ended.
                    Err(_) if disappears_within_timeout(target) => {}
                    result => result.step_at(SetupStep::Mask, target)?,
                }
            }
        }
        for Placement { target, tree, cover, .. } in &self.placements {
            if let Some(attributes) = cover {
                match sys::set_mount_attributes(tree.as_fd(), MountScope::One, *attributes) {
                    // The kernel detaches a mount when a process outside of the sandbox removes its
                    // path.
                    Err(_) if disappears_within_timeout(target) => {}
                    result => result.step_at(SetupStep::Mask, target)?,
                }
            }
        }
        Ok(())
    }
}

/// Creates an empty file or folder at a path in memory, as a mount point.
fn create_mount_point(path: &Path, tree: BorrowedFd<'_>) -> io::Result<()> {
    let is_folder = FileType::from_raw_mode(fstat(tree)?.st_mode) == FileType::Directory;
    let mut missing = Vec::new();
    let mut existing = path;
    let mut folder = loop {
        match open_path_without_symlinks(existing) {
            Ok(fd) => break fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.extend(existing.file_name());
                existing = existing.parent().ok_or(Errno::NOENT)?;
            }
            Err(error) => return Err(error),
        }
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    while let Some(name) = missing.pop() {
        if is_folder || !missing.is_empty() {
            // Another command of the session may create the folder at the same time.
            match mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = openat(&folder, name, flags | OFlags::DIRECTORY, Mode::empty())?;
        } else {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            drop(openat(&folder, name, flags, Mode::from_raw_mode(0o644))?);
        }
    }
    Ok(())
}
