//! Resolved paths, each inside a pinned directory.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::{normalise, path_text};

use crate::files::system::{
    FileId, PinnedDirectory as Pinned, is_link_loop, outside_root_error, real_path,
};

/// A project folder of the session, or a pinned directory outside of the project folders.
#[derive(Debug)]
pub(in crate::files) struct WorkspaceRoot {
    /// The path in the form in which the client sent it.
    pub(in crate::files) path: PathBuf,
    /// The path after all links are followed.
    pub(in crate::files) real_path: PathBuf,
    pub(in crate::files) pinned: Pinned,
}

/// The reason why a workspace cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path is relative. The client must send absolute paths.
    #[error("the project folder must be an absolute path, not {}", path_text(path))]
    NotAbsolute {
        /// The path that the client sent.
        path: PathBuf,
    },
    /// The directory cannot be opened, or is not a directory.
    #[error("cannot use {} as a project folder: {source}", path_text(path))]
    Unusable {
        /// The path that the client sent.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A path inside a pinned directory, resolved either by its text only or by an inspection.
#[derive(Debug, Clone)]
pub struct WorkspacePath {
    pub(in crate::files) given: String,
    pub(in crate::files) path: PathBuf,
    pub(in crate::files) root: Arc<WorkspaceRoot>,
    pub(in crate::files) path_in_root: PathBuf,
    pub(in crate::files) inspected: Option<InspectedPath>,
}

/// The result of inspecting a path.
#[derive(Debug, Clone)]
pub(in crate::files) struct InspectedPath {
    /// The absolute path that the model named in the call.
    pub(in crate::files) named_path: PathBuf,
    /// The path after all links are followed.
    pub(in crate::files) real_path: PathBuf,
    /// The id of the directory that contains the file. `None` if the directory does not exist.
    pub(in crate::files) parent_id: Option<FileId>,
    /// The id of the file. `None` if the file does not exist.
    pub(in crate::files) file_id: Option<FileId>,
}

impl WorkspaceRoot {
    /// Pins a directory by its real path, which must not contain links. Only for directories that
    /// the client did not name.
    pub(in crate::files) fn pin_at_real_path(path: &Path) -> io::Result<Self> {
        let pinned = Pinned::pin_without_links(path)?;
        Ok(Self { path: path.to_owned(), real_path: path.to_owned(), pinned })
    }

    pub(in crate::files) fn pin(path: PathBuf) -> Result<Self, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute { path });
        }
        // Use the path before its normalisation, because all of its components must exist. A
        // directory that cannot be listed is not usable.
        let given = path;
        let path = normalise(&given);
        let pin = || -> io::Result<_> {
            std::fs::read_dir(&given)?;
            Ok((path.canonicalize()?, Pinned::pin(&path)?))
        };
        match pin() {
            Ok((real, pinned)) => Ok(Self { path, real_path: real, pinned }),
            Err(source) => Err(WorkspaceError::Unusable { path: given, source }),
        }
    }
}

impl WorkspacePath {
    pub(in crate::files) fn new_in_root(
        given: &str,
        root: Arc<WorkspaceRoot>,
        beneath: &Path,
    ) -> Self {
        Self {
            given: given.to_owned(),
            path: normalise(&root.path.join(beneath)),
            path_in_root: beneath.to_owned(),
            root,
            inspected: None,
        }
    }

    /// Returns the path in the form in which the model wrote it.
    #[must_use]
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    /// Returns the absolute, normalised path. Inside a project folder, it begins with the path of
    /// this folder as the client sent it. Outside of the project folders, it is the real path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path relative to its project folder. The path is empty for the project folder
    /// itself.
    #[must_use]
    pub(crate) fn path_in_root(&self) -> &Path {
        &self.path_in_root
    }

    /// Returns the path of an entry in this directory, given the name of the entry.
    pub(crate) fn child(&self, name: &OsStr) -> Self {
        Self {
            given: self.given.clone(),
            path: self.path.join(name),
            root: self.root.clone(),
            path_in_root: self.path_in_root.join(name),
            inspected: None,
        }
    }

    /// Returns the directory that contains this path. Returns `None` for a project folder.
    ///
    /// If the path was inspected and is a real path, the result contains the id that was recorded
    /// for the directory.
    pub(crate) fn parent(&self) -> Option<Self> {
        let path = self.path.parent()?.to_owned();
        let seen = self.inspected.as_ref().filter(|seen| seen.real_path == self.path).map(|seen| {
            let (named, real) = (path.clone(), path.clone());
            InspectedPath {
                named_path: named,
                real_path: real,
                parent_id: None,
                file_id: seen.parent_id,
            }
        });
        Some(Self {
            given: self.given.clone(),
            path,
            root: self.root.clone(),
            path_in_root: self.path_in_root.parent()?.to_owned(),
            inspected: seen,
        })
    }
}

/// Follows all links of a path. Components that do not exist are appended unchanged.
pub(in crate::files) fn canonicalize_existing(path: &Path) -> io::Result<PathBuf> {
    for existing in path.ancestors() {
        match real_path(existing) {
            Ok(mut real) => {
                if let Ok(rest) = path.strip_prefix(existing)
                    && !rest.as_os_str().is_empty()
                {
                    real.push(rest);
                }
                return Ok(real);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if is_link_loop(&error) => return Err(outside_root_error()),
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
