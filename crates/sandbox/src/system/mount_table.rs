//! The kernel's table of mounts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The table of the mounts that this process sees.
pub(super) const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// Number of fields before the device in a line of the table. The root and the path of the mount
/// follow the device.
const FIELDS_BEFORE_DEVICE: usize = 2;

/// Prefixes of the names of file systems that may wait for another host or program, perhaps for
/// ever.
const REMOTE: [&str; 9] = ["nfs", "fuse", "autofs", "cifs", "smb", "9p", "ceph", "afs", "lustre"];

/// A mount. The mount may be a single file or folder of a file system.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) path: PathBuf,
    /// The mounted part of the file system.
    pub(super) place: FileSystemLocation,
    pub(super) is_remote: bool,
}

/// A file or folder, independent of the mounts by which it can be reached.
#[derive(Debug, Clone)]
pub(super) struct FileSystemLocation {
    /// Number of the file system's device, as text.
    device: Vec<u8>,
    /// Path from the root folder of the file system.
    path: PathBuf,
}

/// Reads the table.
pub(super) fn read_mounts() -> io::Result<Vec<Mount>> {
    let table = fs::read(MOUNT_TABLE)?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(Mount::from_line).collect())
}

impl Mount {
    /// Reads a line of the table.
    pub(super) fn from_line(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = fields.nth(FIELDS_BEFORE_DEVICE)?.to_owned();
        let place = FileSystemLocation { device, path: unescape(fields.next()?) };
        let path = unescape(fields.next()?);
        // The number of fields before the separator varies.
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let is_remote = REMOTE.iter().any(|name| kind.starts_with(name.as_bytes()));
        Some(Self { path, place, is_remote })
    }

    /// Returns whether only a file or folder of the file system is mounted.
    pub(super) fn is_part_of_file_system(&self) -> bool {
        self.place.path != Path::new("/")
    }

    /// Returns whether the mount is in a folder, and not on the folder itself.
    pub(super) fn is_beneath(&self, folder: &Path) -> bool {
        self.path.starts_with(folder) && self.path != folder
    }
}

impl FileSystemLocation {
    /// Finds the place of a path without links.
    pub(super) fn find(mounts: &[Mount], path: &Path) -> Option<Self> {
        // If several mounts have the same path, the last one covers the others.
        let containing = mounts.iter().filter(|mount| path.starts_with(&mount.path));
        let mount = containing.max_by_key(|mount| mount.path.components().count())?;
        let rest = path.strip_prefix(&mount.path).ok()?;
        Some(Self { device: mount.place.device.clone(), path: mount.place.path.join(rest) })
    }

    /// Returns whether one of two places contains the other, or both are the same.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let contains = |one: &Self, other: &Self| other.path.starts_with(&one.path);
        self.device == other.device && (contains(self, other) || contains(other, self))
    }
}

/// Returns the path in a field of the table.
fn unescape(field: &[u8]) -> PathBuf {
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
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_mount_is_unescaped() {
        let line = b"36 35 98:0 /s /a\\040b\\134/docker.sock rw - tmpfs none rw";
        let mount = Mount::from_line(line).unwrap();
        assert_eq!(mount.path, Path::new("/a b\\/docker.sock"));
        assert!(mount.is_part_of_file_system());
    }

    #[test]
    fn places_overlap_whatever_their_paths_are() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     2 1 8:1 /project/docs /mnt rw - ext4 /dev/sda1 rw\n\
                     3 1 0:9 / /project/target rw - tmpfs none rw\n\
                     4 1 0:7 / /srv rw - tmpfs none rw\n\
                     5 1 8:1 /other /srv rw - ext4 /dev/sda1 rw";
        let mounts: Vec<_> =
            table.lines().filter_map(|line| Mount::from_line(line.as_bytes())).collect();
        let overlap = |one: &str, other: &str| {
            let place = |path: &str| FileSystemLocation::find(&mounts, Path::new(path)).unwrap();
            assert_eq!(place(one).overlaps(&place(other)), place(other).overlaps(&place(one)));
            place(one).overlaps(&place(other))
        };
        for (one, other) in [
            ("/project", "/project"),
            ("/project", "/"),
            ("/project", "/mnt"),
            ("/project/docs/a", "/mnt/a/b"),
            ("/other/a", "/srv/a"),
        ] {
            assert!(overlap(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("/project", "/project-2"),
            ("/project/docs/a", "/mnt/b"),
            ("/project", "/project/target"),
            ("/project", "/srv"),
        ] {
            assert!(!overlap(one, other), "{one} {other}");
        }
    }
}
