//! The folders and sockets that are recorded outside of the namespaces, before the mounts of a
//! sandbox are built.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::StepResult as _;
use super::order::AfterSetup;
use super::trees::{open_path_without_symlinks, own_descriptor_path};
use crate::error::{SetupFailure, SetupStep};
use crate::policy::{CopyOnWriteFolder, SandboxPolicy};

/// The folders and sockets that are recorded outside of the namespaces, before the mounts are
/// built.
#[derive(Debug)]
pub(super) struct PreMountSnapshot {
    pub(super) writable: Vec<WritableFolder>,
    /// How often the layers of a preview are used.
    pub(super) layer_use: LayerUseCount,
    pub(super) tmp: Option<FolderIdentity>,
    /// The working directory.
    pub(super) cwd: FolderIdentity,
    /// Sockets of other programs.
    pub(super) sockets: Vec<PathBuf>,
}

impl PreMountSnapshot {
    /// Returns the paths of the writable folders, without links.
    pub(super) fn writable_paths(&self) -> impl Iterator<Item = &Path> {
        self.writable.iter().map(|writable| writable.folder.path.as_path())
    }

    /// Opens the working directory after the mounts are built.
    pub(super) fn open_working_directory(&self) -> io::Result<OwnedFd> {
        let overlays = self.writable.iter().filter(|writable| writable.layer.is_some());
        let folders = overlays.map(|overlay| &overlay.folder.path);
        let covering = folders.filter(|folder| self.cwd.path.starts_with(folder));
        let Some(overlay) = covering.max_by_key(|folder| folder.components().count()) else {
            return self.cwd.reopen();
        };
        // The identity of the folder in the overlay is unknown. But a folder that is not in the
        // overlay covers the folder, unless it is the real one, which a readable path may show.
        let (root, found) =
            (open_path_without_symlinks(overlay)?, open_path_without_symlinks(&self.cwd.path)?);
        if fstat(&root)?.st_dev == fstat(&found)?.st_dev { Ok(found) } else { self.cwd.reopen() }
    }
}

/// A folder whose identity was recorded outside of the namespaces.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FolderIdentity {
    /// Path without links.
    pub(super) path: PathBuf,
    identity: (u64, u64),
}

impl FolderIdentity {
    /// Records the folder to which a path leads.
    pub(super) fn from_path(path: &Path) -> io::Result<Self> {
        let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Self::from_descriptor(fd.as_fd())
    }

    /// Records this process's working directory.
    pub(super) fn from_current_directory() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::from_descriptor(openat(CWD, ".", flags, Mode::empty())?.as_fd())
    }

    fn from_descriptor(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = fstat(fd)?;
        Ok(Self {
            path: fs::read_link(own_descriptor_path(fd))?,
            identity: (stat.st_dev, stat.st_ino),
        })
    }

    /// Opens the folder in this process's mounts. Fails if another folder is at this path by now.
    pub(super) fn reopen(&self) -> io::Result<OwnedFd> {
        let fd = open_path_without_symlinks(&self.path)?;
        let stat = fstat(&fd)?;
        if (stat.st_dev, stat.st_ino) == self.identity { Ok(fd) } else { Err(Errno::STALE.into()) }
    }
}

/// A folder that the command may change.
#[derive(Debug)]
pub(super) struct WritableFolder {
    pub(super) folder: FolderIdentity,
    /// The folder for the changes, if the policy has a preview.
    pub(super) layer: Option<FolderIdentity>,
}

impl WritableFolder {
    /// Records the writable folders of a policy.
    pub(super) fn record_all(policy: &SandboxPolicy) -> Result<Vec<Self>, SetupFailure> {
        let mut layers = Vec::new();
        for CopyOnWriteFolder { path, layer } in &policy.preview {
            let layer = FolderIdentity::from_path(layer).step_at(SetupStep::Overlay, layer)?;
            layers
                .push((FolderIdentity::from_path(path).step_at(SetupStep::Overlay, path)?, layer));
        }
        let mut folders = Vec::<Self>::new();
        for path in &policy.writable {
            let folder = FolderIdentity::from_path(path).step_at(SetupStep::Folder, path)?;
            // A folder may have several paths, but its layer can be mounted only once.
            if folders.iter().any(|known| known.folder == folder) {
                continue;
            }
            let layer = match layers.iter().position(|(path, _)| *path == folder) {
                Some(index) => Some(layers.swap_remove(index).1),
                None if policy.preview.is_empty() => None,
                None => {
                    let reason = "it is writable, but not a folder of the preview";
                    return Err(preview_folder_error(&folder.path, reason));
                }
            };
            folders.push(Self { folder, layer });
        }
        match layers.first() {
            None => Ok(folders),
            Some((folder, _)) => {
                let reason = "it is not a writable folder, or it is in the preview twice";
                Err(preview_folder_error(&folder.path, reason))
            }
        }
    }
}

/// How often a layer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerUseCount {
    /// The kernel does not wait until copied files are on the disk, which would take milliseconds
    /// for each file. It refuses to use the layer again.
    Once,
    Again,
}

impl LayerUseCount {
    pub(super) fn from_after_setup(then: AfterSetup) -> Self {
        if then == AfterSetup::Exec { Self::Once } else { Self::Again }
    }
}

/// Creates the error for a folder of a preview.
pub(super) fn preview_folder_error(path: &Path, reason: &str) -> SetupFailure {
    SetupFailure::at(SetupStep::Overlay, path, io::Error::other(reason))
}
