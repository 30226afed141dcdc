//! The steps of a session: what its calls did to files, and under which name the old ones are kept.
//!
//! It knows nothing of where they are kept.

use callboard_text::path_text;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::stamp::Stamp;

/// What one call did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    /// In the order in which it was done.
    pub(crate) deeds: Vec<Deed>,
}

/// What was done to one file.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// A directory was made.
    MadeDirectory(PathBuf),
    /// It was made.
    Made {
        path: PathBuf,
        after: Stamp,
    },
    /// Its content was replaced.
    Replaced {
        path: PathBuf,
        before: Blob,
        after: Stamp,
    },
    /// It was removed; a directory with all that was in it.
    Deleted {
        path: PathBuf,
        before: Blob,
    },
    Moved {
        from: PathBuf,
        to: PathBuf,
    },
    /// It was replaced or removed, and what was there is gone.
    NotKept {
        path: PathBuf,
    },
}

/// The name of something that is kept, and how large it is.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    pub(super) name: OsString,
    pub(super) bytes: u64,
    /// The mode of a file that is its owner's alone as long as it is kept.
    pub(super) mode: Option<u32>,
}

impl Step {
    pub(super) fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.deeds.iter().filter_map(Deed::before)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blobs().map(|blob| blob.bytes).sum()
    }
}

impl Deed {
    /// What is kept of what was there.
    pub(in crate::files) fn before(&self) -> Option<&Blob> {
        match self {
            Self::Replaced { before, .. } | Self::Deleted { before, .. } => Some(before),
            Self::MadeDirectory(_)
            | Self::Made { .. }
            | Self::Moved { .. }
            | Self::NotKept { .. } => None,
        }
    }

    /// Where it left something, or nothing.
    pub(in crate::files) fn place(&self) -> &Path {
        match self {
            Self::MadeDirectory(path)
            | Self::Made { path, .. }
            | Self::Replaced { path, .. }
            | Self::Deleted { path, .. }
            | Self::Moved { to: path, .. }
            | Self::NotKept { path } => path,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let shown = |path: &Path| path_text(path).into_owned();
        match self {
            Self::MadeDirectory(path) => json!({ "madeDirectory": shown(path) }),
            Self::Made { path, .. } => json!({ "made": shown(path) }),
            Self::Replaced { path, before, .. } => {
                json!({ "replaced": shown(path), "kept": before.name.to_string_lossy() })
            }
            Self::Deleted { path, before } => {
                json!({ "deleted": shown(path), "kept": before.name.to_string_lossy() })
            }
            Self::Moved { from, to } => json!({ "moved": shown(from), "to": shown(to) }),
            Self::NotKept { path } => json!({ "notKept": shown(path) }),
        }
    }
}
