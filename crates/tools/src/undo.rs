//! What the calls of one session did to files, kept so that it can be undone, the last one first.
//!
//! It knows nothing of tools. What is kept lies in a folder of its own that the user's state
//! folder has, never in a root: a file that was replaced or deleted is moved there if it can be,
//! else copied. `steps.jsonl` beside it says what is what, for whoever looks for it by hand.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::limits::{UNDO_AGE, UNDO_BYTES, UNDO_STEPS};
use crate::session_folder;
use crate::stamp::{Stamp, Stamping};
use crate::sys::fs::{Audience, Dir, Kind, Root, copy_access};

/// What was kept of the files that a session changed.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// Where; nowhere, if nothing is kept.
    folder: Option<PathBuf>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    store: Option<Store>,
    steps: VecDeque<Step>,
    bytes: u64,
    count: u64,
}

/// The folder of one session.
#[derive(Debug)]
struct Store {
    dir: Dir,
    path: PathBuf,
}

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
}

/// The name of something that is kept, and how large it is.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    name: OsString,
    bytes: u64,
}

impl Undo {
    /// Keeps what is changed in a folder of its own beneath `folder`.
    pub(crate) fn within(folder: PathBuf) -> Self {
        Self { folder: Some(folder), kept: Mutex::default() }
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_kept(&self) -> bool {
        self.folder.is_some()
    }

    /// Moves something into the store. Nothing, if nothing is kept; an error if it cannot be
    /// moved, as to another file system.
    pub(crate) fn take(&self, dir: &Dir, name: &OsStr, bytes: u64) -> io::Result<Option<Blob>> {
        self.with_store(|store, blob| {
            dir.rename_into(name, &store.dir, &blob)?;
            Ok(Blob { name: blob, bytes })
        })
    }

    /// Copies a file into the store, with its owner, mode and attributes where they can be had.
    pub(crate) fn copy(&self, dir: &Dir, name: &OsStr) -> io::Result<Option<Blob>> {
        self.with_store(|store, blob| {
            let mut from = dir.open(name)?;
            let mut to = store.dir.create(&blob, Audience::Owner)?;
            let bytes = io::copy(&mut from, &mut to)?;
            copy_access(&from, &to)?;
            to.sync_data()?;
            Ok(Blob { name: blob, bytes })
        })
    }

    /// Writes bytes into the store.
    pub(crate) fn put(&self, bytes: &[u8]) -> io::Result<Option<Blob>> {
        self.with_store(|store, blob| {
            store.dir.create(&blob, Audience::Owner)?.write_all(bytes)?;
            Ok(Blob { name: blob, bytes: bytes.len() as u64 })
        })
    }

    /// Reads what is kept of a file.
    pub(crate) fn read(&self, blob: &Blob) -> io::Result<Vec<u8>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let store = kept.store.as_ref().ok_or(io::ErrorKind::NotFound)?;
        fs::read(store.path.join(&blob.name))
    }

    /// Makes the stamp of a file that is kept.
    pub(crate) fn stamp(&self, blob: &Blob) -> io::Result<Option<Stamp>> {
        let mut stamping = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let store = kept.store.as_ref().ok_or(io::ErrorKind::NotFound)?;
            Stamping::new(store.dir.open(&blob.name)?)
        };
        io::copy(&mut stamping, &mut io::sink())?;
        Ok(stamping.stamp())
    }

    /// Tells what kind of thing is kept.
    pub(crate) fn kind(&self, blob: &Blob) -> io::Result<Kind> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let store = kept.store.as_ref().ok_or(io::ErrorKind::NotFound)?;
        store.dir.kind(&blob.name)
    }

    /// Moves what is kept to a name that nothing has; by a copy, if it is a file and cannot be
    /// moved.
    pub(crate) fn restore(&self, blob: &Blob, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let store = kept.store.as_ref().ok_or(io::ErrorKind::NotFound)?;
        match store.dir.rename_into(&blob.name, dir, name) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let mut from = store.dir.open(&blob.name)?;
                let mut to = dir.create(name, Audience::Owner)?;
                io::copy(&mut from, &mut to)?;
                copy_access(&from, &to)?;
                to.sync_data()
            }
            done => done,
        }
    }

    /// Remembers a step, and forgets the oldest ones if it is too much.
    pub(crate) fn push(&self, step: Step) {
        if step.deeds.is_empty() || !self.is_kept() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &kept.store {
            // The list is for people; without it everything can be undone all the same.
            drop(store.note(&step));
        }
        kept.bytes += step.bytes();
        kept.steps.push_back(step);
        while kept.steps.len() > UNDO_STEPS || (kept.bytes > UNDO_BYTES && kept.steps.len() > 1) {
            let Some(oldest) = kept.steps.pop_front() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.bytes());
            if let Some(store) = &kept.store {
                oldest.blobs().for_each(|blob| store.forget(blob));
            }
        }
    }

    /// Returns the last step and its number.
    pub(crate) fn last(&self) -> Option<(usize, Step)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Some((kept.steps.len(), kept.steps.back()?.clone()))
    }

    /// Forgets the last step, which was undone.
    pub(crate) fn pop(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(step) = kept.steps.pop_back() {
            kept.bytes = kept.bytes.saturating_sub(step.bytes());
            if let Some(store) = &kept.store {
                step.blobs().for_each(|blob| store.forget(blob));
            }
        }
    }

    /// Does something in the store with a new name, if there is a store.
    fn with_store(
        &self,
        make: impl FnOnce(&Store, OsString) -> io::Result<Blob>,
    ) -> io::Result<Option<Blob>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.store.is_none() {
            kept.store = Some(Store::make(folder)?);
        }
        kept.count += 1;
        let name = OsString::from(kept.count.to_string());
        kept.store.as_ref().map(|store| make(store, name)).transpose()
    }
}

impl Store {
    /// Makes a folder for this session, and removes those that nobody needs any more.
    fn make(folder: &Path) -> io::Result<Self> {
        let path = session_folder::make(folder, UNDO_AGE)?;
        let dir = Root::pin(&path)?.dir(Path::new(""))?;
        Ok(Self { dir, path })
    }

    fn note(&self, step: &Step) -> io::Result<()> {
        let list = self.path.join("steps.jsonl");
        let mut list = fs::File::options().append(true).create(true).open(list)?;
        writeln!(list, "{}", Value::from_iter(step.deeds.iter().map(Deed::to_json)))
    }

    fn forget(&self, blob: &Blob) {
        let path = self.path.join(&blob.name);
        // What cannot be removed is removed with the folder, later.
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    }
}

impl Step {
    fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.deeds.iter().filter_map(|deed| match deed {
            Deed::Replaced { before, .. } | Deed::Deleted { before, .. } => Some(before),
            Deed::MadeDirectory(_) | Deed::Made { .. } | Deed::Moved { .. } => None,
        })
    }

    fn bytes(&self) -> u64 {
        self.blobs().map(|blob| blob.bytes).sum()
    }
}

impl Deed {
    fn to_json(&self) -> Value {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
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
        }
    }
}
