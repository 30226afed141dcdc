//! Sockets of other programs in the file system.
//!
//! A network namespace does not separate sockets that have a path, and a read-only mount does not
//! either. Landlock separates them from its ninth version on. Before that, the sockets that exist
//! when a command starts are hidden from it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, statat};

use super::StepResult as _;
use super::sys::landlock_abi;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::LANDLOCK_ABI_SOCKETS;

/// Number of columns before the path in the kernel's table of sockets.
const COLUMNS_BEFORE_PATH: usize = 7;
/// Number of fields before the path of a mount in the kernel's table of mounts.
const FIELDS_BEFORE_MOUNT_PATH: usize = 4;

/// Returns the paths of all sockets that this process could connect to.
pub(super) fn of_other_programs() -> Result<Vec<PathBuf>, SetupFailure> {
    if landlock_abi() >= LANDLOCK_ABI_SOCKETS {
        return Ok(Vec::new());
    }
    let read = |file: &str| fs::read(file).step_at(SetupStep::Mask, Path::new(file));
    let (bound, mounted) = (read("/proc/self/net/unix")?, read("/proc/self/mountinfo")?);
    let bound = bound.split(|byte| *byte == b'\n').skip(1).filter_map(path_of_socket);
    let mounted = mounted.split(|byte| *byte == b'\n').filter_map(path_of_mount);
    let mut sockets: Vec<_> = bound
        .map(Path::to_owned)
        .chain(mounted)
        .filter_map(|path| fs::canonicalize(path).ok())
        .filter(|path| is_socket(path))
        .collect();
    sockets.sort();
    sockets.dedup();
    Ok(sockets)
}

fn is_socket(path: &Path) -> bool {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

/// Returns the path of a mount. A socket of a program in another container is mounted.
fn path_of_mount(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(FIELDS_BEFORE_MOUNT_PATH)?;
    let mut path = Vec::new();
    let mut rest = field;
    while let [first, others @ ..] = rest {
        // Spaces and backslashes are written as octal numbers.
        let number = (*first == b'\\').then(|| others.get(..3)).flatten();
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = &others[3..];
            }
            None => {
                path.push(*first);
                rest = others;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// Returns the path of a socket, if it has one that is absolute.
fn path_of_socket(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..COLUMNS_BEFORE_PATH {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = &rest[end..];
    }
    let path = rest.strip_prefix(b" ")?;
    path.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_may_contain_spaces() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01  1234 /a b/c";
        assert_eq!(path_of_socket(line), Some(Path::new("/a b/c")));
    }

    #[test]
    fn path_of_a_mount_is_unescaped() {
        let line = b"36 35 98:0 /s /a\\040b\\134/docker.sock rw - tmpfs none rw";
        assert_eq!(path_of_mount(line), Some(PathBuf::from("/a b\\/docker.sock")));
    }

    #[test]
    fn socket_without_a_path_is_skipped() {
        for line in ["0: 2 0 10000 0001 01 1234 @abstract", "0: 2 0 10000 0001 03 1234", ""] {
            assert_eq!(path_of_socket(line.as_bytes()), None);
        }
    }
}
