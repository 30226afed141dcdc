//! Sockets of other programs in the file system.
//!
//! Neither a network namespace nor a read-only mount prevents a command from connecting to a socket
//! that has a path. Landlock prevents such connections since its ninth version. With an older
//! version, each socket whose path is known when a command starts is covered. The path is unknown
//! if a socket was bound by a relative name, was moved, or belongs to another network namespace
//! (unless the socket itself is mounted).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, readlinkat, statat};

use super::StepResult as _;
use super::mount_table::{MOUNT_TABLE, Mount, read_mounts};
use super::path_walk::PathWalk;
use super::sys::landlock_abi;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::LANDLOCK_ABI_SOCKETS;

/// The kernel's table of the sockets in the file system.
const BOUND_SOCKETS: &str = "/proc/self/net/unix";
/// Number of columns before the path in the kernel's table of sockets.
const COLUMNS_BEFORE_PATH: usize = 7;
/// Returns the paths of all sockets that this process could connect to, as far as they are known.
///
/// File systems of other hosts and programs are not searched, because a search may wait for ever.
/// An exception is a file system that contains one of the paths `in_use`: if it does not respond,
/// the command cannot work anyway.
pub(super) fn find_connectable_sockets(in_use: &[&Path]) -> Result<Vec<PathBuf>, SetupFailure> {
    if landlock_abi() >= LANDLOCK_ABI_SOCKETS {
        return Ok(Vec::new());
    }
    let bound = fs::read(BOUND_SOCKETS).step_at(SetupStep::Mask, Path::new(BOUND_SOCKETS))?;
    let bound = bound.split(|byte| *byte == b'\n').skip(1).filter_map(path_of_socket);
    let mounts = read_mounts().step_at(SetupStep::Mask, Path::new(MOUNT_TABLE))?;
    let avoided = mounts_to_skip(&mounts, in_use);
    // A mounted socket is never the root of its file system, because that root is a folder.
    let parts = mounts.iter().filter(|mount| mount.is_part_of_file_system());
    let mounted = parts.map(|mount| mount.path.as_path());
    let mut paths: Vec<_> = bound.chain(mounted).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut sockets: Vec<_> =
        paths.into_iter().filter_map(|path| resolve_socket_path(path, &avoided)).collect();
    sockets.sort_unstable();
    sockets.dedup();
    Ok(sockets)
}

/// Returns the mount points that are not entered.
fn mounts_to_skip<'a>(mounts: &'a [Mount], in_use: &[&Path]) -> Vec<&'a Path> {
    let is_needed = |mount: &&Mount| in_use.iter().any(|path| path.starts_with(&mount.path));
    let remote = mounts.iter().filter(|mount| mount.is_remote);
    remote.filter(|mount| !is_needed(mount)).map(|mount| mount.path.as_path()).collect()
}

/// Follows a path to a socket, and returns the path without links.
fn resolve_socket_path(path: &Path, avoided: &[&Path]) -> Option<PathBuf> {
    let mut walk = PathWalk::new(path);
    while let Some(name) = walk.next_name() {
        let child = walk.folder().join(&name);
        if avoided.contains(&child.as_path()) {
            return None;
        }
        let stat = statat(CWD, &child, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                walk.follow_link(&readlinkat(CWD, &child, Vec::new()).ok()?).ok()?;
            }
            FileType::Directory => walk.enter(name),
            FileType::Socket if walk.is_done() => return Some(child),
            _ => return None,
        }
    }
    None
}

/// Returns the path of a socket, if the socket has an absolute path.
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
    fn remote_file_system_is_avoided_unless_it_is_in_use() {
        let table = "1 0 0:1 / / rw shared:1 - overlay overlay rw\n\
                     2 1 0:2 / /data rw shared:2 master:3 - nfs4 host:/ rw,vers=4.2\n\
                     3 1 0:3 / /mnt/my\\040disk rw - fuse.sshfs host: rw\n\
                     4 1 0:4 / /net rw - autofs /etc/auto.net rw\n\
                     5 1 0:5 / /home rw - nfs host:/home rw\n\
                     6 1 0:6 / /srv rw - ext4 /dev/fuse rw\n\
                     7 1 0:7 / /win rw - cifs //host/win rw";
        let mounts: Vec<_> =
            table.lines().filter_map(|line| Mount::from_line(line.as_bytes())).collect();
        let avoided = |in_use: &[&str]| {
            let in_use: Vec<_> = in_use.iter().map(Path::new).collect();
            mounts_to_skip(&mounts, &in_use).into_iter().map(Path::to_owned).collect::<Vec<_>>()
        };
        let all = ["/data", "/mnt/my disk", "/net", "/home", "/win"].map(PathBuf::from);
        assert_eq!(avoided(&["/usr/project", "/database"]), all);
        let others = ["/mnt/my disk", "/net", "/win"].map(PathBuf::from);
        assert_eq!(avoided(&["/home/user/project", "/data"]), others);
    }

    #[test]
    fn no_path_leads_into_an_avoided_folder() {
        use std::os::unix::{fs::symlink, net::UnixListener};
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        let path = |name: &str| base.join(name);
        fs::create_dir(path("far")).unwrap();
        let sockets = ["near", "far/socket"].map(|name| UnixListener::bind(path(name)).unwrap());
        symlink("far", path("link")).unwrap();
        symlink(path("far/socket"), path("socket")).unwrap();
        symlink("link/../near", path("round")).unwrap();
        fs::write(path("file"), "").unwrap();
        let find = |name: &str, avoided: &[&Path]| resolve_socket_path(&path(name), avoided);
        for name in ["far/socket", "link/socket", "socket"] {
            assert_eq!(find(name, &[]), Some(path("far/socket")), "{name}");
            assert_eq!(find(name, &[&path("far")]), None, "{name}");
        }
        assert_eq!(find("near", &[&path("far")]), Some(path("near")));
        assert_eq!(
            (find("round", &[]), find("round", &[&path("far")])),
            (Some(path("near")), None)
        );
        for name in ["far", "file", "missing", "near/x"] {
            assert_eq!(find(name, &[]), None, "{name}");
        }
        drop(sockets);
    }

    #[test]
    fn socket_without_a_path_is_skipped() {
        for line in ["0: 2 0 10000 0001 01 1234 @abstract", "0: 2 0 10000 0001 03 1234", ""] {
            assert_eq!(path_of_socket(line.as_bytes()), None);
        }
    }
}
