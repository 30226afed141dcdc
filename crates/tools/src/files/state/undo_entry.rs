//! The steps of a session: what its calls did to files, and under which name the old ones are kept.
//!
//! It knows nothing of where they are kept.

use callboard_text::path_text;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::content_hash::ContentHash;

/// What one call did.
#[derive(Debug, Clone, Default)]
pub(crate) struct UndoEntry {
    /// In the order in which it was done.
    pub(crate) operations: Vec<FileOperation>,
}

/// What was done to one file.
#[derive(Debug, Clone)]
pub(crate) enum FileOperation {
    /// A directory was made.
    CreatedDirectory(PathBuf),
    /// It was made.
    Created {
        path: PathBuf,
        hash_after: ContentHash,
    },
    /// Its content was replaced.
    Replaced {
        path: PathBuf,
        backup: Backup,
        hash_after: ContentHash,
    },
    /// It was removed; a directory with all that was in it.
    Deleted {
        path: PathBuf,
        backup: Backup,
    },
    Moved {
        from: PathBuf,
        to: PathBuf,
    },
    /// It was replaced or removed, and what was there is gone.
    Unrecoverable {
        path: PathBuf,
    },
}

/// The name of something that is kept, and how large it is.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// The mode of a file that is its owner's alone as long as it is kept.
    pub(super) mode: Option<u32>,
}

impl UndoEntry {
    pub(super) fn backups(&self) -> impl Iterator<Item = &Backup> {
        self.operations.iter().filter_map(FileOperation::backup)
    }

    pub(super) fn backup_bytes(&self) -> u64 {
        self.backups().map(|blob| blob.bytes).sum()
    }
}

impl FileOperation {
    /// What is kept of what was there.
    pub(in crate::files) fn backup(&self) -> Option<&Backup> {
        match self {
            Self::Replaced { backup: before, .. } | Self::Deleted { backup: before, .. } => {
                Some(before)
            }
            Self::CreatedDirectory(_)
            | Self::Created { .. }
            | Self::Moved { .. }
            | Self::Unrecoverable { .. } => None,
        }
    }

    /// Where it left something, or nothing.
    pub(in crate::files) fn affected_path(&self) -> &Path {
        match self {
            Self::CreatedDirectory(path)
            | Self::Created { path, .. }
            | Self::Replaced { path, .. }
            | Self::Deleted { path, .. }
            | Self::Moved { to: path, .. }
            | Self::Unrecoverable { path } => path,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let shown = |path: &Path| path_text(path).into_owned();
        match self {
            Self::CreatedDirectory(path) => json!({ "madeDirectory": shown(path) }),
            Self::Created { path, .. } => json!({ "made": shown(path) }),
            Self::Replaced { path, backup: before, .. } => {
                json!({ "replaced": shown(path), "kept": before.name.to_string_lossy() })
            }
            Self::Deleted { path, backup: before } => {
                json!({ "deleted": shown(path), "kept": before.name.to_string_lossy() })
            }
            Self::Moved { from, to } => json!({ "moved": shown(from), "to": shown(to) }),
            Self::Unrecoverable { path } => json!({ "notKept": shown(path) }),
        }
    }
}
