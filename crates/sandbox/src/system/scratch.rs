//! File systems that exist only in a sandbox: files in memory, `/dev`, `/proc` and `/dev/pts`.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fchmod, mkdirat, openat, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use super::limits::BYTES_PER_FILE;
use super::rules::DEVICES;
use super::sys::{self, MountScope};
use super::trees::{
    READ_ONLY, clone_mount_without_submounts, mount_at_path, open_path_without_symlinks,
};
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::PROCESS_IDS_PER_NAMESPACE;

/// Folder at which the files in memory are attached at first. At the end, the fresh `/proc` covers
/// this folder. The command can then reach only the parts that are attached elsewhere.
const SCRATCH: &str = "/proc";

/// Number of files and folders that each sandbox has in memory, rounded up.
const OWN_FILES: usize = 64;

/// Lowest limit of process ids that the kernel accepts.
const MIN_PROCESS_ID_LIMIT: u64 = 301;

/// Files in memory. Parts of them are attached at the paths at which they are needed.
pub(super) struct Scratch {
    folder: OwnedFd,
}

impl Scratch {
    /// Creates the file system for a command. The command may use `max_bytes` bytes of it. `covers`
    /// is the number of files and folders in this file system that hide other paths.
    pub(super) fn new(max_bytes: u64, covers: usize) -> io::Result<Self> {
        let covers = u64::try_from(covers + OWN_FILES).unwrap_or(u64::MAX);
        let max_files = (max_bytes / BYTES_PER_FILE).saturating_add(covers);
        let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(fs.as_fd(), "mode", "0755")?;
        // A value of zero would mean no limit.
        fsconfig_set_string(fs.as_fd(), "size", max_bytes.max(1).to_string())?;
        fsconfig_set_string(fs.as_fd(), "nr_inodes", max_files.max(1).to_string())?;
        let tree = mount(fs, MountAttrFlags::MOUNT_ATTR_NODEV)?;
        mount_at_path(tree.as_fd(), Path::new(SCRATCH))?;
        let folder = open_path_without_symlinks(Path::new(SCRATCH))?;
        let file = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(openat(&folder, "empty", file, Mode::from_raw_mode(0o444))?);
        // Copies of the file keep the attributes of this mount.
        let empty = clone_mount_without_submounts(&Path::new(SCRATCH).join("empty"))?;
        sys::set_mount_attributes(empty.as_fd(), MountScope::One, READ_ONLY)?;
        mount_at_path(empty.as_fd(), &Path::new(SCRATCH).join("empty"))?;
        Ok(Self { folder })
    }

    pub(super) fn create_folder(&self, name: &str, mode: u32) -> io::Result<OwnedFd> {
        mkdirat(&self.folder, name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&self.folder, name, flags, Mode::empty())?;
        fchmod(&folder, Mode::from_raw_mode(mode))?;
        clone_mount_without_submounts(&Path::new(SCRATCH).join(name))
    }

    /// Returns an empty file that is read-only.
    pub(super) fn empty_file(&self) -> io::Result<OwnedFd> {
        clone_mount_without_submounts(&Path::new(SCRATCH).join("empty"))
    }

    /// Returns a folder with the names that programs expect in `/dev`.
    pub(super) fn device_folder(&self) -> io::Result<OwnedFd> {
        let tree = self.create_folder("dev", 0o755)?;
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

/// Copies a file that no process can open, not even root, after its mount forbids devices
/// ([`READ_ONLY`] contains this attribute).
pub(super) fn create_unopenable_file_mount() -> io::Result<OwnedFd> {
    clone_mount_without_submounts(Path::new("/dev/null"))
}

/// Copies the devices that commands may use. A device that does not exist is skipped.
pub(super) fn copy_devices() -> Result<Vec<(&'static str, OwnedFd)>, SetupFailure> {
    let mut devices = Vec::new();
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        match clone_mount_without_submounts(&path) {
            Ok(tree) => devices.push((name, tree)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SetupFailure::at(SetupStep::Devices, &path, error)),
        }
    }
    Ok(devices)
}

/// Makes a `/proc` that shows only the processes of this process namespace. It is read-only: root
/// could otherwise change settings of the system in it.
pub(super) fn fresh_proc(processes: Option<u64>) -> io::Result<OwnedFd> {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = mount(fs, flags)?;
    if let Some(limit) = process_id_limit(processes, sys::kernel_version()) {
        limit_process_ids(&proc, limit);
    }
    sys::set_mount_attributes(proc.as_fd(), MountScope::One, libc::MOUNT_ATTR_RDONLY)?;
    Ok(proc)
}

/// Returns the limit of process ids that also limits the number of processes of root, to whom the
/// usual limit of processes does not apply. Returns `None` for a kernel that does not limit the ids
/// of each namespace separately. On such a kernel, a limit that root sets would apply to the whole
/// system.
fn process_id_limit(processes: Option<u64>, kernel: (u32, u32)) -> Option<u64> {
    processes.filter(|_| kernel >= PROCESS_IDS_PER_NAMESPACE).map(|it| it.max(MIN_PROCESS_ID_LIMIT))
}

fn limit_process_ids(proc: &OwnedFd, limit: u64) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(proc, "sys/kernel/pid_max", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, limit.to_string().as_bytes());
    }
}

/// Makes a `/dev/pts` without the terminals of other programs.
pub(super) fn fresh_terminals() -> io::Result<OwnedFd> {
    let fs = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(fs.as_fd(), "ptmxmode", "0666")?;
    fsconfig_set_string(fs.as_fd(), "mode", "0620")?;
    mount(fs, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// Mounts a file system whose options are set.
pub(super) fn mount(fs: OwnedFd, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    fsconfig_create(fs.as_fd())?;
    Ok(fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ids_of_the_whole_system_are_never_limited() {
        assert_eq!(process_id_limit(Some(400), (6, 13)), None);
        assert_eq!(process_id_limit(Some(400), (0, 0)), None);
        assert_eq!(process_id_limit(Some(400), (6, 14)), Some(400));
        assert_eq!(process_id_limit(Some(10), (7, 0)), Some(MIN_PROCESS_ID_LIMIT));
        assert_eq!(process_id_limit(None, (7, 0)), None);
    }
}
