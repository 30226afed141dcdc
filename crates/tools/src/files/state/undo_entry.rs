//! Undo entries: the file operations of one call, and the names of their backups.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::content_hash::ContentHash;
use crate::note::Note;

/// The operations of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoEntry {
    /// The number of the prompt to which the call belongs. 0 if prompts are not counted.
    pub(crate) prompt: u32,
    /// The operations in the order in which they were done.
    pub(crate) operations: Vec<FileOperation>,
    /// Whether a comparison of the project folders has found the operations. Other programs may
    /// have made some of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_of_command: bool,
}

/// An operation on one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(crate) enum FileOperation {
    /// A directory was created.
    CreatedDirectory(#[serde(with = "path_as_text")] PathBuf),
    /// A file was created.
    Created {
        #[serde(with = "path_as_text")]
        path: PathBuf,
        hash_after: ContentHash,
    },
    /// The content of a file was replaced.
    Replaced {
        #[serde(with = "path_as_text")]
        path: PathBuf,
        backup: Backup,
        hash_after: ContentHash,
        /// The mode before and after the change, if it was part of the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modes: Option<ModeChange>,
    },
    /// A link was created.
    CreatedLink {
        #[serde(with = "path_as_text")]
        path: PathBuf,
        /// The hash of the target.
        hash_after: ContentHash,
    },
    /// An entry was removed. A directory was removed with all its content.
    Deleted {
        #[serde(with = "path_as_text")]
        path: PathBuf,
        backup: Backup,
    },
    Moved {
        #[serde(with = "path_as_text")]
        from: PathBuf,
        #[serde(with = "path_as_text")]
        to: PathBuf,
        /// The moved entry. `None` in the entries of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved: Option<MovedEntry>,
    },
    /// A file was replaced or removed, and no backup of the file exists.
    Unrecoverable {
        #[serde(with = "path_as_text")]
        path: PathBuf,
    },
    /// The changes of a command in a project folder were not recorded.
    Unrecorded {
        #[serde(with = "path_as_text")]
        folder: PathBuf,
        cause: UnrecordedCause,
    },
}

/// The entry that a call moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MovedEntry {
    /// A file, with the hash of its `EntryFingerprint`.
    File(ContentHash),
    /// A link, with the hash of its target.
    Link(ContentHash),
    /// A directory, with its inode number. The number of the device is not stored, because it may
    /// differ after a restart of the system. The content of the directory may change.
    Directory(u64),
}

/// The reason why the changes of a command were not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum UnrecordedCause {
    /// The command changed too many files and folders.
    TooManyChanges,
    /// The project folders could not be read after the command, e.g. because they contained too
    /// many files and folders.
    UnreadFolders,
}

/// The permission bits of a file before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModeChange {
    /// `None` if the file did not exist.
    pub(crate) before: Option<u32>,
    pub(crate) after: u32,
}

/// The name and size of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backup {
    #[serde(with = "backup_name")]
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// The original mode of a file whose backup is restricted to its owner, or of a directory that
    /// its owner could not move.
    pub(super) mode: Option<u32>,
}

impl ModeChange {
    /// Returns the change that restores the mode. Returns `None` if the file did not exist.
    pub(crate) fn reverted(self) -> Option<Self> {
        Some(Self { before: Some(self.after), after: self.before? })
    }

    /// Returns a note with both modes. Returns `None` if the file did not exist, or if the mode is
    /// the same.
    pub(crate) fn note(self, path: String) -> Option<Note> {
        let before = self.before.filter(|before| *before != self.after)?;
        let note = Note::new("preview-mode").with_text("path", path);
        let note = note.with_text("before", format!("{before:o}"));
        Some(note.with_text("after", format!("{:o}", self.after)))
    }
}

impl UndoEntry {
    /// Creates the entry of a call. The store adds the number of the prompt.
    pub(crate) fn new(operations: Vec<FileOperation>) -> Self {
        Self { prompt: 0, operations, is_of_command: false }
    }

    /// Creates the entry of a command, from a comparison of the project folders.
    pub(crate) fn of_command(operations: Vec<FileOperation>) -> Self {
        Self { is_of_command: true, ..Self::new(operations) }
    }

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
            | Self::CreatedLink { .. }
            | Self::Moved { .. }
            | Self::Unrecoverable { .. }
            | Self::Unrecorded { .. } => None,
        }
    }

    /// Returns whether the operation left a file or link, which an undo removes or replaces.
    pub(in crate::files) fn has_left_file_or_link(&self) -> bool {
        matches!(self, Self::Created { .. } | Self::CreatedLink { .. } | Self::Replaced { .. })
    }

    /// Returns the paths that the operation changed.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let from = match self {
            Self::Moved { from, .. } => Some(from.as_path()),
            _ => None,
        };
        from.into_iter().chain([self.affected_path()])
    }

    /// Returns the path that the operation changed. For a move, returns the new path.
    pub(crate) fn affected_path(&self) -> &Path {
        match self {
            Self::CreatedDirectory(path)
            | Self::Created { path, .. }
            | Self::CreatedLink { path, .. }
            | Self::Replaced { path, .. }
            | Self::Deleted { path, .. }
            | Self::Moved { to: path, .. }
            | Self::Unrecoverable { path }
            | Self::Unrecorded { folder: path, .. } => path,
        }
    }
}

/// Serialises an absolute path as one line of text. The path may contain any bytes.
mod path_as_text {
    use std::path::{Path, PathBuf};

    use callboard_text::{path_text, unquote_path};
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&path_text(path))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        let path = unquote_path(&text).into_owned();
        if path.is_absolute() { Ok(path) } else { Err(D::Error::custom("the path is relative")) }
    }
}

/// Serialises the name of a backup as a number. A name that was read from the log is therefore
/// always a number, and cannot lead out of the folder.
mod backup_name {
    use std::ffi::{OsStr, OsString};

    use serde::de::{Deserialize as _, Deserializer};
    use serde::ser::{Error as _, Serializer};

    pub(super) fn serialize<S: Serializer>(name: &OsStr, to: S) -> Result<S::Ok, S::Error> {
        let number = super::backup_number(name);
        to.serialize_u64(number.ok_or_else(|| S::Error::custom("a backup has another name"))?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OsString, D::Error> {
        Ok(u64::deserialize(from)?.to_string().into())
    }
}

/// Returns the number that is the name of a backup.
pub(super) fn backup_number(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    name.parse().ok().filter(|number: &u64| number.to_string() == name)
}
