//! The mounts of a sandbox.
//!
//! The command keeps the root of the system. All mounts become read-only, and others are attached on
//! top of them: writable folders, a private `/tmp`, `/dev` and `/proc`, and what hides or protects
//! paths. Two properties make this safe against a process that moves things while it happens:
//!
//! - Only trees that were opened before, and whose identity was recorded outside of the namespaces,
//!   are attached writable. Everything attached later is a copy of what is already there, with the
//!   same or fewer rights.
//! - No path is followed through a symbolic link, except by [`PathWalk`].

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, openat, openat2,
    readlinkat, statat, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::placeholders::{PathWalk, is_placeholder};
use super::rules::{DEVICES, SHARED_FOLDERS};
use super::sys::{self, MountScope};
use crate::error::{SetupFailure, SetupStep, StepResult as _};
use crate::limits::REPLACEMENT_ATTEMPTS;
use crate::policy::SandboxPolicy;

/// Attributes of every mount that the command sees: no set-user-ID programs, no devices.
const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = HARMLESS | libc::MOUNT_ATTR_RDONLY;

/// Where the files in memory are attached at first. The fresh `/proc` covers them at the end, so
/// that only the parts of them that are attached elsewhere can be reached.
const SCRATCH: &str = "/proc";

/// Lowest limit of process ids that the kernel accepts.
const MIN_PROCESS_ID_LIMIT: u64 = 301;

/// Files in `/run` without which names and programs are not found.
const NEEDED_IN_RUN: [&str; 3] = ["/etc/resolv.conf", "/run/current-system", "/run/wrappers"];

/// A folder whose identity was recorded outside of the namespaces.
#[derive(Debug)]
pub(super) struct KnownFolder {
    /// Path without links.
    pub(super) path: PathBuf,
    identity: (u64, u64),
}

impl KnownFolder {
    /// Records the folder to which a path leads.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Self::from_descriptor(fd.as_fd())
    }

    /// Records this process's working directory.
    pub(super) fn working_directory() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::from_descriptor(openat(CWD, ".", flags, Mode::empty())?.as_fd())
    }

    fn from_descriptor(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = fstat(fd)?;
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        Ok(Self { path: fs::read_link(link)?, identity: (stat.st_dev, stat.st_ino) })
    }

    /// Opens the folder in this process's mounts. Fails if another one is at its path by now.
    pub(super) fn reopen(&self) -> io::Result<OwnedFd> {
        let fd = open_path(&self.path)?;
        let stat = fstat(&fd)?;
        if (stat.st_dev, stat.st_ino) == self.identity { Ok(fd) } else { Err(Errno::STALE.into()) }
    }
}

/// What the mounts are built from, recorded outside of the namespaces.
#[derive(Debug)]
pub(super) struct MountPlan {
    pub(super) writable: Vec<KnownFolder>,
    pub(super) tmp: Option<KnownFolder>,
    /// Sockets of other programs.
    pub(super) sockets: Vec<PathBuf>,
}

/// A tree that is not attached yet.
struct Placement {
    target: PathBuf,
    tree: OwnedFd,
    after: After,
    /// Whether the target is created, because it is in a folder that is covered.
    may_create: bool,
}

/// Attributes that a tree gets when everything is attached. Until then, mount points may be created
/// in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    Attributes(u64),
}

/// Builds the mounts of a sandbox in this process's mount namespace. This process must be the first
/// one of its process namespace.
pub(super) fn build(policy: &SandboxPolicy, plan: &MountPlan) -> Result<(), SetupFailure> {
    let root = open_path(Path::new("/")).step(SetupStep::Mounts)?;
    sys::make_mounts_private(root.as_fd()).step(SetupStep::Mounts)?;

    let mut trees = Trees { placements: Vec::new(), covered: covered_folders(policy) };
    trees.copy_folders(policy, plan)?;
    let devices = copy_devices()?;
    let proc = fresh_proc(policy.limits.processes).step(SetupStep::Proc)?;
    let terminals = fresh_terminals().step_at(SetupStep::Devices, Path::new("/dev/pts"))?;

    sys::set_mount_attributes(root.as_fd(), MountScope::WithSubmounts, READ_ONLY)
        .step(SetupStep::ReadOnlyRoot)?;

    let scratch = Scratch::new(policy.limits.tmp_bytes).step(SetupStep::Devices)?;
    trees.add_hidden(&scratch, policy, plan)?;
    let device_folder = scratch.device_folder().step(SetupStep::Devices)?;
    let shm = scratch.folder("shm", 0o1777).step(SetupStep::Devices)?;
    trees.attach_all()?;

    let dev = Path::new("/dev");
    attach(device_folder.as_fd(), dev).step_at(SetupStep::Devices, dev)?;
    for (name, tree) in devices {
        let path = dev.join(name);
        attach(tree.as_fd(), &path).step_at(SetupStep::Devices, &path)?;
    }
    attach(terminals.as_fd(), &dev.join("pts")).step(SetupStep::Devices)?;
    attach(shm.as_fd(), &dev.join("shm")).step(SetupStep::Devices)?;
    sys::set_mount_attributes(device_folder.as_fd(), MountScope::One, libc::MOUNT_ATTR_RDONLY)
        .step(SetupStep::Devices)?;

    let mut protection = Protection {
        writable: plan.writable.iter().map(|folder| folder.path.as_path()).collect(),
        pinned: HashSet::new(),
    };
    for name in &policy.read_only {
        protection.protect(&name.path, &scratch).step_at(SetupStep::ReadOnlyName, &name.path)?;
    }
    attach(proc.as_fd(), Path::new("/proc")).step(SetupStep::Proc)
}

/// Returns the folders that are covered by empty ones.
fn covered_folders(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let resolve = |path: &Path| fs::canonicalize(path).ok();
    let writable: Vec<_> = policy.writable.iter().filter_map(|path| resolve(path)).collect();
    let shared = SHARED_FOLDERS.iter().filter_map(|path| resolve(Path::new(path)));
    let mut covered: Vec<_> = shared.filter(|path| !writable.contains(path)).collect();
    covered.extend(policy.masked.iter().filter_map(|path| resolve(path)));
    covered.sort();
    covered.dedup();
    covered
}

struct Trees {
    placements: Vec<Placement>,
    /// Folders and files that are covered by something in memory, without links.
    covered: Vec<PathBuf>,
}

impl Trees {
    /// Copies the folders that remain accessible, before anything covers them.
    fn copy_folders(
        &mut self,
        policy: &SandboxPolicy,
        plan: &MountPlan,
    ) -> Result<(), SetupFailure> {
        for folder in &plan.writable {
            let tree = folder
                .reopen()
                .and_then(|fd| copy_tree(fd.as_fd(), HARMLESS))
                .step_at(SetupStep::Folder, &folder.path)?;
            self.add(folder.path.clone(), tree, After::Nothing);
        }
        if let Some(folder) = &plan.tmp
            && let Ok(tmp) = fs::canonicalize("/tmp")
        {
            let tree = folder
                .reopen()
                .and_then(|fd| copy_tree(fd.as_fd(), HARMLESS))
                .step_at(SetupStep::Folder, &folder.path)?;
            self.add(tmp, tree, After::Nothing);
            // Also at its own path, where other programs see it.
            let tree = folder
                .reopen()
                .and_then(|fd| copy_tree(fd.as_fd(), HARMLESS))
                .step_at(SetupStep::Folder, &folder.path)?;
            self.add(folder.path.clone(), tree, After::Nothing);
        }
        let needed = NEEDED_IN_RUN.iter().map(Path::new);
        let readable = policy.readable.iter().map(PathBuf::as_path).chain(needed);
        for path in readable.filter_map(|path| fs::canonicalize(path).ok()) {
            if self.covered.iter().any(|covered| path != *covered && path.starts_with(covered)) {
                let tree = open_path(&path)
                    .and_then(|fd| copy_tree(fd.as_fd(), READ_ONLY))
                    .step_at(SetupStep::Folder, &path)?;
                self.add(path, tree, After::Nothing);
            }
        }
        Ok(())
    }

    /// Adds what covers the hidden paths.
    fn add_hidden(
        &mut self,
        scratch: &Scratch,
        policy: &SandboxPolicy,
        plan: &MountPlan,
    ) -> Result<(), SetupFailure> {
        let has_tmp = plan.tmp.is_some();
        let tmp = fs::canonicalize("/tmp").ok();
        let masked: HashSet<_> =
            policy.masked.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        for (number, path) in self.covered.clone().into_iter().enumerate() {
            let is_tmp = tmp.as_ref() == Some(&path) && !masked.contains(&path);
            if is_tmp && has_tmp {
                continue;
            }
            let is_folder = match statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                Err(Errno::NOENT | Errno::ACCESS) => continue,
                Err(error) => return Err(SetupFailure::at(SetupStep::Mask, &path, error)),
            };
            let (tree, attributes) = if is_tmp {
                (scratch.folder("tmp", 0o1777), HARMLESS)
            } else if is_folder {
                (scratch.folder(&format!("hidden{number}"), 0o755), READ_ONLY)
            } else {
                (scratch.empty_file(), READ_ONLY)
            };
            let tree = tree.step_at(SetupStep::Mask, &path)?;
            self.add(path, tree, After::Attributes(attributes));
        }
        for path in &plan.sockets {
            if !self.covered.iter().any(|covered| path.starts_with(covered)) {
                let tree = scratch.empty_file().step_at(SetupStep::Mask, path)?;
                self.add(path.clone(), tree, After::Attributes(READ_ONLY));
            }
        }
        Ok(())
    }

    fn add(&mut self, target: PathBuf, tree: OwnedFd, after: After) {
        let covered = |covered: &PathBuf| target != *covered && target.starts_with(covered);
        // What hides a path is not needed where the path is hidden already.
        let may_create = after == After::Nothing && self.covered.iter().any(covered);
        self.placements.push(Placement { target, tree, after, may_create });
    }

    /// Attaches all trees, parents first, and then gives them their final attributes.
    fn attach_all(&mut self) -> Result<(), SetupFailure> {
        self.placements.sort_by_key(|placement| placement.target.components().count());
        for Placement { target, tree, may_create, .. } in &self.placements {
            if *may_create {
                create_mount_point(target, tree.as_fd()).step_at(SetupStep::Folder, target)?;
            }
            if *may_create {
                attach(tree.as_fd(), target).step_at(SetupStep::Folder, target)?;
            } else {
                match retry(|| attach(tree.as_fd(), target)) {
                    // The path was hidden already, or was the socket of a program that has ended.
                    Err(_) if is_missing(target) => {}
                    result => result.step_at(SetupStep::Mask, target)?,
                }
            }
        }
        for Placement { target, tree, after, .. } in &self.placements {
            if let After::Attributes(attributes) = after {
                match sys::set_mount_attributes(tree.as_fd(), MountScope::One, *attributes) {
                    // The kernel detaches a mount when its path is removed elsewhere.
                    Err(_) if is_missing(target) => {}
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
        match open_path(existing) {
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
            mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
            folder = openat(&folder, name, flags | OFlags::DIRECTORY, Mode::empty())?;
        } else {
            let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            drop(openat(&folder, name, create, Mode::from_raw_mode(0o444))?);
        }
    }
    Ok(())
}

/// Makes paths read-only that are beneath writable folders.
struct Protection<'a> {
    writable: Vec<&'a Path>,
    /// Folders and links that are mount points, and therefore cannot be moved or removed.
    pinned: HashSet<PathBuf>,
}

impl Protection<'_> {
    /// Makes a path read-only, with all links that lead to it. Its parent folders become mount
    /// points, because otherwise the command could move them away and create new ones.
    fn protect(&mut self, path: &Path, scratch: &Scratch) -> io::Result<()> {
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

/// Files in memory, from which parts are attached where they are needed.
struct Scratch {
    folder: OwnedFd,
}

impl Scratch {
    fn new(max_bytes: u64) -> io::Result<Self> {
        let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(fs.as_fd(), "mode", "0755")?;
        fsconfig_set_string(fs.as_fd(), "size", max_bytes.to_string())?;
        let tree = mount(fs, MountAttrFlags::MOUNT_ATTR_NODEV)?;
        attach(tree.as_fd(), Path::new(SCRATCH))?;
        let folder = open_path(Path::new(SCRATCH))?;
        let file = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(openat(&folder, "empty", file, Mode::from_raw_mode(0o444))?);
        Ok(Self { folder })
    }

    fn folder(&self, name: &str, mode: u32) -> io::Result<OwnedFd> {
        mkdirat(&self.folder, name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&self.folder, name, flags, Mode::empty())?;
        fchmod(&folder, Mode::from_raw_mode(mode))?;
        clone_tree(&Path::new(SCRATCH).join(name))
    }

    fn empty_file(&self) -> io::Result<OwnedFd> {
        clone_tree(&Path::new(SCRATCH).join("empty"))
    }

    /// Returns a folder with the names that programs expect in `/dev`.
    fn device_folder(&self) -> io::Result<OwnedFd> {
        let tree = self.folder("dev", 0o755)?;
        for name in DEVICES {
            let file = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            drop(openat(&tree, name, file, Mode::from_raw_mode(0o444))?);
        }
        for name in ["pts", "shm"] {
            mkdirat(&tree, name, Mode::from_raw_mode(0o755))?;
        }
        let links = [
            ("/proc/self/fd", "fd"),
            ("/proc/self/fd/0", "stdin"),
            ("/proc/self/fd/1", "stdout"),
            ("/proc/self/fd/2", "stderr"),
            ("pts/ptmx", "ptmx"),
        ];
        for (target, name) in links {
            symlinkat(target, &tree, name)?;
        }
        Ok(tree)
    }
}

/// Copies the devices that commands may use. A device that does not exist is skipped.
fn copy_devices() -> Result<Vec<(&'static str, OwnedFd)>, SetupFailure> {
    let mut devices = Vec::new();
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        match clone_tree(&path) {
            Ok(tree) => devices.push((name, tree)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SetupFailure::at(SetupStep::Devices, &path, error)),
        }
    }
    Ok(devices)
}

/// Makes a `/proc` that shows only the processes of this process namespace. It is read-only: root
/// could otherwise change settings of the system in it.
fn fresh_proc(processes: Option<u64>) -> io::Result<OwnedFd> {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = mount(fs, flags)?;
    if let Some(processes) = processes {
        limit_process_ids(&proc, processes);
    }
    sys::set_mount_attributes(proc.as_fd(), MountScope::One, libc::MOUNT_ATTR_RDONLY)?;
    Ok(proc)
}

/// Limits the number of processes by their ids, if the kernel counts the ids of each namespace
/// separately (Linux 6.14). The usual limit does not apply to root.
fn limit_process_ids(proc: &OwnedFd, processes: u64) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(proc, "sys/kernel/pid_max", flags, Mode::empty()) {
        let limit = processes.max(MIN_PROCESS_ID_LIMIT).to_string();
        let _ = rustix::io::write(&file, limit.as_bytes());
    }
}

/// Makes a `/dev/pts` without the terminals of other programs.
fn fresh_terminals() -> io::Result<OwnedFd> {
    let fs = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(fs.as_fd(), "ptmxmode", "0666")?;
    fsconfig_set_string(fs.as_fd(), "mode", "0620")?;
    mount(fs, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

fn mount(fs: OwnedFd, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    fsconfig_create(fs.as_fd())?;
    Ok(fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

fn is_missing(path: &Path) -> bool {
    matches!(statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

/// Runs an action on a path, again if it fails, because another program may replace what is there
/// meanwhile.
fn retry(mut action: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..REPLACEMENT_ATTEMPTS {
        if action().is_ok() {
            return Ok(());
        }
    }
    action()
}

/// Attaches a copy of a tree on top of it, with more attributes.
fn attach_copy(path: &Path, attributes: u64) -> io::Result<()> {
    let fd = open_path(path)?;
    let tree = copy_tree(fd.as_fd(), attributes)?;
    attach_at(tree.as_fd(), fd.as_fd())
}

/// Copies a tree with all mounts in it.
fn copy_tree(folder: BorrowedFd<'_>, attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(folder, "", flags)?;
    sys::set_mount_attributes(tree.as_fd(), MountScope::WithSubmounts, attributes)?;
    Ok(tree)
}

/// Copies one file or folder, without the mounts in it.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags)?)
}

fn attach(tree: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    attach_at(tree, open_path(target)?.as_fd())
}

fn attach_at(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", target, "", flags)?)
}

/// Opens a file or folder without following a link, not even as its last component.
fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A link as the last component is opened itself, and nothing is attached on its target.
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(openat(CWD, path, flags, Mode::empty())?);
    };
    let resolve = ResolveFlags::NO_SYMLINKS;
    let folder = openat2(CWD, folder, flags | OFlags::DIRECTORY, Mode::empty(), resolve)?;
    Ok(openat(&folder, name, flags, Mode::empty())?)
}
