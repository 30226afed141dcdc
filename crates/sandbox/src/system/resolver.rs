//! Resolves the paths of a policy. Many of these paths are in the same folders.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Resolves paths like [`fs::canonicalize`], each folder only once.
#[derive(Debug, Default)]
pub(super) struct PathResolver {
    folders: HashMap<PathBuf, Result<PathBuf, Errno>>,
}

impl PathResolver {
    /// Returns a path without links.
    pub(super) fn resolve(&mut self, path: &Path) -> io::Result<PathBuf> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return fs::canonicalize(path);
        };
        if !self.folders.contains_key(folder) {
            let found = fs::canonicalize(folder);
            let found = found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            self.folders.insert(folder.to_owned(), found);
        }
        let path_in_folder = self.folders[folder].as_ref().map_err(|error| *error)?.join(name);
        let stat = statat(CWD, &path_in_folder, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return fs::canonicalize(path);
        }
        Ok(path_in_folder)
    }

    /// Resolves the links in a path that is to be hidden. Returns `None` if no command can reach
    /// the path.
    pub(super) fn resolve_hidden(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        let error = match self.resolve(path) {
            Ok(path) => return Ok(Some(path)),
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::PermissionDenied {
            let closed = path.ancestors().skip(1).find_map(|folder| fs::metadata(folder).ok());
            // If the closed folder belongs to this user, the command could change its mode and then
            // reach the path.
            let is_own = closed.is_some_and(|closed| closed.uid() == geteuid().as_raw());
            return if is_own { Err(error) } else { Ok(None) };
        }
        let unreachable = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP];
        let is_unreachable = error.raw_os_error().is_some_and(|errno| unreachable.contains(&errno));
        if is_unreachable { Ok(None) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_resolve_as_by_canonicalize() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/file"), "").unwrap();
        for (target, link) in [("a", "link"), ("b/file", "a/to-file"), ("loop", "loop")] {
            symlink(target, path(link)).unwrap();
        }
        let mut resolver = PathResolver::default();
        for name in [
            "",
            "a",
            "a/b/file",
            "a/b/missing",
            "a/b/file/x",
            "link/b/file",
            "link",
            "a/to-file",
            "link/to-file",
            "loop",
            "loop/x",
            "missing/x",
            "link/../a",
            "a/b/..",
        ] {
            let errno = |error: io::Error| error.raw_os_error();
            let expected = fs::canonicalize(path(name)).map_err(errno);
            assert_eq!(resolver.resolve(&path(name)).map_err(errno), expected, "{name}");
        }
        assert_eq!(resolver.resolve(Path::new("/")).unwrap(), Path::new("/"));
    }
}
