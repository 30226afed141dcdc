//! A directory that is pinned, so that it stays the same one: a root of the session, or what a call
//! may reach outside of the roots.

use callboard_text::path_text;
use std::io;
use std::path::{Path, PathBuf};

use callboard_text::normalise;

use crate::sys::fs::Root as Pinned;

#[derive(Debug)]
pub(super) struct Root {
    /// As the client named it.
    pub(super) path: PathBuf,
    /// Without links.
    pub(super) real: PathBuf,
    pub(super) pinned: Pinned,
}

/// Why a workspace cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path is relative. The client has to send absolute ones.
    #[error("the project folder has to be an absolute path, not {}", path_text(path))]
    NotAbsolute {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The directory cannot be opened, or is none.
    #[error("cannot use {} as a project folder: {source}", path_text(path))]
    Unusable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Root {
    /// Pins a directory that no client named, by its real path. On the way there may be no link.
    pub(super) fn pin_real(path: &Path) -> io::Result<Self> {
        let pinned = Pinned::pin_straight(path)?;
        Ok(Self { path: path.to_owned(), real: path.to_owned(), pinned })
    }

    pub(super) fn pin(path: PathBuf) -> Result<Self, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute { path });
        }
        // As it was given: what leads through a place that is not there leads nowhere, and what
        // cannot be listed cannot be worked in.
        let given = path;
        let path = normalise(&given);
        let pin = || -> io::Result<_> {
            std::fs::read_dir(&given)?;
            Ok((path.canonicalize()?, Pinned::pin(&path)?))
        };
        match pin() {
            Ok((real, pinned)) => Ok(Self { path, real, pinned }),
            Err(source) => Err(WorkspaceError::Unusable { path: given, source }),
        }
    }
}
