//! Undo entries: the file operations of one call, and the names of their backups.

use callboard_text::path_text;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::content_hash::ContentHash;

/// The operations of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct UndoEntry {
    /// The operations in the order in which they were done.
    pub(crate) operations: Vec<FileOperation>,
}

/// An operation on one file.
#[derive(Debug, Clone)]
pub(crate) enum FileOperation {
    /// A directory was created.
    CreatedDirectory(PathBuf),
    /// A file was created.
    Created {
        path: PathBuf,
        hash_after: ContentHash,
    },
    /// The content of a file was replaced.
    Replaced {
        path: PathBuf,
        backup: Backup,
        hash_after: ContentHash,
    },
    /// An entry was removed. A directory was removed with all its content.
    Deleted {
        path: PathBuf,
        backup: Backup,
    },
    Moved {
        from: PathBuf,
        to: PathBuf,
    },
    /// A file was replaced or removed, and no backup of the file exists.
    Unrecoverable {
        path: PathBuf,
    },
}

/// The name and size of a backup.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// The original mode of a file whose backup is restricted to its owner.
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
    /// Returns the backup of the old content.
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

    /// Returns the path that the operation changed. For a move, returns the new path.
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
