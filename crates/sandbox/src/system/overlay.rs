//! Overlay file systems: a command changes a copy of a folder, and its changes are in a *layer*.
//!
//! The copy consists of the folder, which stays as it is, and of the folder `upper` of the layer.
//! The kernel finds all folders by descriptors, so the identity of the folders is known and their
//! paths may contain the separators of the kernel's options. If a policy has a preview, each of its
//! writable folders is an overlay, whatever mounts lead from one folder to another.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, StatVfsMountFlags, Uid, chmodat, chownat, fstat, fstatvfs,
    openat,
};
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MountAttrFlags, fsconfig_set_flag, fsconfig_set_string, fsopen};

use super::StepResult as _;
use super::mount_plan::{FolderIdentity, LayerUseCount, PreMountSnapshot, preview_folder_error};
use super::mount_table::{FileSystemLocation, MOUNT_TABLE, Mount, read_mounts};
use super::scratch::mount;
use super::trees::{open_path_without_symlinks, own_descriptor_path};
use crate::error::{SetupFailure, SetupStep};
use crate::policy::SandboxPolicy;

/// Checks the folders of a preview, immediately before their overlays are mounted. Refuses a
/// preview if an overlay would not show a part of a folder, or if the command could change a folder
/// or a layer at another path. No other process may change the mounts of this process.
pub(super) fn check_preview(
    policy: &SandboxPolicy,
    plan: &PreMountSnapshot,
) -> Result<(), SetupFailure> {
    // The kernel gives the working directory another identity in an overlay, so it is checked here.
    plan.cwd.reopen().step_at(SetupStep::WorkingDirectory, &plan.cwd.path)?;
    let mounts = read_mounts().step_at(SetupStep::Overlay, Path::new(MOUNT_TABLE))?;
    let layers = plan.writable.iter().filter_map(|writable| writable.layer.as_ref());
    let layers: Vec<_> = layers.map(|layer| layer.path.as_path()).collect();
    let folders: Vec<_> = plan.writable_paths().collect();
    for folder in folders.iter().chain(&layers) {
        if let Some(mount) = mounts.iter().find(|mount| mount.is_beneath(folder)) {
            let mount = mount.path.display();
            let reason = format!("{mount} is a separate mount, and an overlay contains no mounts");
            return Err(preview_folder_error(folder, &reason));
        }
    }
    // The folders that the command could change without an overlay.
    let mut others = Vec::new();
    let copied = policy.copy_on_write.iter().filter_map(|it| fs::canonicalize(&it.layer).ok());
    for path in plan.tmp.iter().map(|tmp| tmp.path.clone()).chain(copied) {
        let beneath = mounts.iter().filter(|mount| mount.is_beneath(&path));
        others.extend(beneath.map(|mount| (mount.path.clone(), mount.place.clone())));
        let place = find_place(&mounts, &path)?;
        others.push((path, place));
    }
    for layer in layers {
        let place = find_place(&mounts, layer)?;
        refuse_overlap(layer, &place, &others)?;
        others.push((layer.to_owned(), place));
    }
    // Writable folders may contain each other.
    folders.iter().try_for_each(|folder| {
        find_place(&mounts, folder).and_then(|place| refuse_overlap(folder, &place, &others))
    })
}

fn refuse_overlap(
    path: &Path,
    place: &FileSystemLocation,
    others: &[(PathBuf, FileSystemLocation)],
) -> Result<(), SetupFailure> {
    let Some((other, _)) = others.iter().find(|(_, other)| place.overlaps(other)) else {
        return Ok(());
    };
    let other = other.display();
    Err(preview_folder_error(
        path,
        &format!("it contains {other}, is in it, or is the same folder"),
    ))
}

fn find_place(mounts: &[Mount], path: &Path) -> Result<FileSystemLocation, SetupFailure> {
    FileSystemLocation::find(mounts, path)
        .ok_or_else(|| preview_folder_error(path, "the mount of this folder is unknown"))
}

/// Mounts the overlay of a writable folder. Fails if the overlay would be read-only.
pub(super) fn mount_preview(
    folder: &FolderIdentity,
    layer: &FolderIdentity,
    layer_use: LayerUseCount,
) -> io::Result<OwnedFd> {
    let lower = folder.reopen()?;
    let layer = Layer::open(layer.reopen()?.as_fd())?;
    // The kernel takes the attributes of the root folder from the layer.
    copy_attributes(&lower, &layer.upper)?;
    let refused = |error: io::Error| {
        let reason =
            format!("the kernel refuses its layer, e.g. because it was used before: {error}");
        io::Error::new(error.kind(), reason)
    };
    let tree = layer.mount_over(lower.as_fd(), layer_use).map_err(refused)?;
    // If the kernel cannot use the folder `work`, it mounts the overlay read-only.
    if fstatvfs(&tree)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(refused(Errno::ROFS.into()));
    }
    Ok(tree)
}

/// Mounts the overlay of a folder that is not writable. Fails if the kernel cannot combine the
/// folder with its layer. The overlay may be read-only.
pub(super) fn mount_copy_on_write(folder: &Path, layer: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let layer = openat(CWD, layer, flags, Mode::empty())?;
    let lower = open_path_without_symlinks(folder)?;
    Layer::open(layer.as_fd())?.mount_over(lower.as_fd(), LayerUseCount::Again)
}

/// The folders of a layer.
struct Layer {
    upper: OwnedFd,
    work: OwnedFd,
}

impl Layer {
    fn open(layer: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name| openat(layer, name, flags, Mode::empty());
        Ok(Self { upper: open("upper")?, work: open("work")? })
    }

    fn mount_over(&self, lower: BorrowedFd<'_>, layer_use: LayerUseCount) -> io::Result<OwnedFd> {
        let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let folders =
            [("lowerdir", lower), ("upperdir", self.upper.as_fd()), ("workdir", self.work.as_fd())];
        for (option, folder) in folders {
            fsconfig_set_string(fs.as_fd(), option, own_descriptor_path(folder))?;
        }
        // The overlay file system marks removed files by attributes. Without rights in the system's
        // own user namespace, the names of these attributes must begin with `user.`.
        fsconfig_set_flag(fs.as_fd(), "userxattr")?;
        if layer_use == LayerUseCount::Once {
            fsconfig_set_flag(fs.as_fd(), "volatile")?;
        }
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        if fstatvfs(lower)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
        }
        mount(fs, attributes)
    }
}

/// Copies the owner and the mode of a folder to another folder.
fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let stat = fstat(from)?;
    let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    // The user namespace of an ordinary user has only one user and one group. The kernel cannot
    // copy files of others into the layer.
    chownat(to, "", Some(owner), Some(group), AtFlags::EMPTY_PATH).map_err(|error| {
        io::Error::other(format!("the owner and the group of the folder cannot be kept: {error}"))
    })?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    Ok(chmodat(CWD, own_descriptor_path(to.as_fd()), mode, AtFlags::empty())?)
}
