//! A file that states under which conditions namespaces have worked, so that the next process of
//! the same program need not try them before it opens a session.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Conditions on which it depends whether a process may use namespaces. The mounts at `/` and below
/// `/proc`, which are added to these files, differ between containers.
const CONDITION_FILES: [&str; 12] = [
    "/proc/sys/kernel/random/boot_id",
    "/proc/self/attr/current",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_cgroup_namespaces",
    "/proc/sys/user/max_ipc_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/user/max_net_namespaces",
    "/proc/sys/user/max_pid_namespaces",
    "/proc/sys/user/max_time_namespaces",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_uts_namespaces",
];

/// Lines of `/proc/self/status` on which it also depends.
const STATUS_LINES: [&str; 6] = ["Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp"];

/// Returns the conditions of this process as text.
pub(super) fn read_conditions() -> io::Result<String> {
    let mut text = String::new();
    for file in CONDITION_FILES {
        let content = fs::read_to_string(file);
        writeln!(text, "{file} {}", content.as_deref().map_or("-", str::trim_end)).ok();
    }
    for namespace in ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"] {
        let link = fs::read_link(format!("/proc/self/ns/{namespace}"))?;
        writeln!(text, "{}", link.display()).ok();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let decides = |line: &&str| {
        let place = line.split(' ').nth(4);
        place.is_some_and(|place| place == "/" || place.starts_with("/proc"))
    };
    for line in mounts.lines().filter(decides) {
        writeln!(text, "{line}").ok();
    }
    let program = fs::metadata("/proc/self/exe")?;
    let (device, inode) = (program.dev(), program.ino());
    writeln!(text, "program {device} {inode} {}.{}", program.mtime(), program.mtime_nsec()).ok();
    let status = fs::read_to_string("/proc/self/status")?;
    let is_condition = |line: &&str| STATUS_LINES.iter().any(|start| line.starts_with(start));
    for line in status.lines().filter(is_condition) {
        writeln!(text, "{line}").ok();
    }
    Ok(text)
}

/// Returns whether the file contains these conditions.
pub(super) fn contains(file: &Path, conditions: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|remembered| remembered == conditions)
}

/// Replaces the content of the file. The folder must exist. A file that is written by half contains
/// no conditions, so nothing is remembered.
pub(super) fn write(file: &Path, conditions: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    file.write_all(conditions.as_bytes())
}
