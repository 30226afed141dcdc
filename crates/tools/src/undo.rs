//! What the calls of one session did to files, kept so that it can be undone, the last one first.
//!
//! It knows nothing of tools. What is kept lies in a folder of its own that the user's state
//! folder has, never in a root: a file that was replaced or deleted is moved there if it can be,
//! else copied. `steps.jsonl` beside it says what is what, for whoever looks for it by hand.

mod late;
mod store;
mod undoing;

use callboard_text::path_text;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::stamp::Stamp;

pub use self::late::LateWrite;
pub(crate) use self::store::Undo;
pub use self::undoing::{Staying, Undoing};

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
    name: OsString,
    bytes: u64,
    /// The mode of a file that is its owner's alone as long as it is kept.
    mode: Option<u32>,
}

impl Step {
    fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.deeds.iter().filter_map(Deed::before)
    }

    fn bytes(&self) -> u64 {
        self.blobs().map(|blob| blob.bytes).sum()
    }
}

impl Deed {
    /// What is kept of what was there.
    fn before(&self) -> Option<&Blob> {
        match self {
            Self::Replaced { before, .. } | Self::Deleted { before, .. } => Some(before),
            Self::MadeDirectory(_)
            | Self::Made { .. }
            | Self::Moved { .. }
            | Self::NotKept { .. } => None,
        }
    }

    /// Where it left something, or nothing.
    fn place(&self) -> &Path {
        match self {
            Self::MadeDirectory(path)
            | Self::Made { path, .. }
            | Self::Replaced { path, .. }
            | Self::Deleted { path, .. }
            | Self::Moved { to: path, .. }
            | Self::NotKept { path } => path,
        }
    }

    fn to_json(&self) -> Value {
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
