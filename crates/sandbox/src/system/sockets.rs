//! Sockets of other programs in the file system.
//!
//! A network namespace does not separate sockets that have a path, and a read-only mount does not
//! either. Landlock separates them from its ninth version on. Before that, the sockets that exist
//! when a command starts are hidden from it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, statat};

use super::failure::StepResult as _;
use super::limits::MAX_HIDDEN_SOCKETS;
use super::rules::SHARED_FOLDERS;
use super::sys::landlock_abi;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::LANDLOCK_ABI_SOCKETS;

/// Number of columns before the path in the kernel's table of sockets.
const COLUMNS_BEFORE_PATH: usize = 7;

/// Returns the paths of all sockets that this process could connect to, except in folders that are
/// hidden anyway.
pub(super) fn of_other_programs() -> Result<Vec<PathBuf>, SetupFailure> {
    if landlock_abi() >= LANDLOCK_ABI_SOCKETS {
        return Ok(Vec::new());
    }
    let table = Path::new("/proc/self/net/unix");
    let table = fs::read(table).step_at(SetupStep::Mask, table)?;
    let mut sockets: Vec<_> = table
        .split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(path_of_line)
        .filter(|path| !SHARED_FOLDERS.iter().any(|folder| path.starts_with(folder)))
        .filter_map(|path| fs::canonicalize(path).ok())
        .filter(|path| is_socket(path))
        .collect();
    sockets.sort();
    sockets.dedup();
    if sockets.len() > MAX_HIDDEN_SOCKETS {
        let error = io::Error::other(format!("there are more than {MAX_HIDDEN_SOCKETS} sockets"));
        return Err(SetupFailure::new(SetupStep::Mask, error));
    }
    Ok(sockets)
}

fn is_socket(path: &Path) -> bool {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

/// Returns the path of a socket, if it has one that is absolute.
fn path_of_line(line: &[u8]) -> Option<&Path> {
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
        assert_eq!(path_of_line(line), Some(Path::new("/a b/c")));
    }

    #[test]
    fn socket_without_a_path_is_skipped() {
        for line in ["0: 2 0 10000 0001 01 1234 @abstract", "0: 2 0 10000 0001 03 1234", ""] {
            assert_eq!(path_of_line(line.as_bytes()), None);
        }
    }
}
