//! Undoes the last step of a session: all of it, or nothing.
//!
//! It knows nothing of who permitted it.

use std::path::{Path, PathBuf};

use acp_types::{FileChange, Operation};

use super::{Blob, Deed};
use crate::diff;
use crate::encoding::Text;
use crate::error::{Code, ToolError};
use crate::limits::FILE_BYTES;
use crate::remove::{Found, exists, find, find_text};
use crate::stamp::Stamp;
use crate::workspace::{Entry, Resolved, Workspace};
use crate::write::{Change, PreImage, commit, left_changed, read_whole};

/// The last step of a session, ready to be undone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (cwd, state) = (directory.path().join("cwd"), directory.path().join("state"));
/// # std::fs::create_dir(&cwd)?;
/// use acp_tools::{Workspace, undo::Undoing, write};
///
/// let workspace = Workspace::new(cwd.clone(), Vec::new())?.keeping(&state);
/// let at = workspace.resolve("new")?;
/// write::atomic_write(&workspace, &at, b"text", &write::PreImage::Missing)?;
/// Undoing::last(&workspace)?.run(&workspace)?;
/// assert!(!cwd.join("new").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Undoing {
    number: u64,
    deeds: Vec<Prepared>,
}

/// One deed, with what undoing it needs.
#[derive(Debug)]
enum Prepared {
    /// What was made goes.
    Remove(Box<Found>),
    /// What was replaced gets its bytes back.
    Rewrite {
        at: Resolved,
        now: Vec<u8>,
        before: Vec<u8>,
    },
    /// What was deleted comes back.
    Restore {
        to: Entry,
        before: Blob,
    },
    MoveBack {
        found: Box<Found>,
        to: Entry,
    },
    /// A directory that was made goes, if nothing is in it.
    RemoveDirectory(Resolved),
    /// What was there is not kept, so it stays.
    Stay(PathBuf),
}

impl Undoing {
    /// Looks at what undoing the last step would change. It changes nothing.
    ///
    /// # Errors
    ///
    /// `not_found` if there is nothing to undo; `changed_since_read` if something else changed a
    /// file since; `invalid_arguments` if the name of something that was deleted is taken; `io`.
    pub fn last(workspace: &Workspace) -> Result<Self, ToolError> {
        let nothing = || {
            let message = "There is nothing to undo: no change of a file by this session is kept.";
            ToolError::report(Code::NotFound, message)
        };
        let (number, step) = workspace.undo().last().ok_or_else(nothing)?;
        let deeds = step.deeds.into_iter().rev().map(|deed| Prepared::new(workspace, deed));
        Ok(Self { number, deeds: deeds.collect::<Result<_, _>>()? })
    }

    /// Returns what it would change.
    pub fn changes(&self) -> impl Iterator<Item = FileChange> {
        self.deeds.iter().filter_map(Prepared::change)
    }

    /// Returns every place that it would change, and whether it is gone afterwards.
    pub fn places(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.pinned().map(|(at, is_gone)| (at.path(), is_gone))
    }

    /// Returns the same as places without links, but perhaps the last.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = (&Resolved, bool)> {
        self.deeds.iter().flat_map(|prepared| match prepared {
            Prepared::Remove(found) => vec![(&found.entry.at, true)],
            Prepared::Rewrite { at, .. } => vec![(at, false)],
            Prepared::Restore { to, .. } => vec![(&to.at, false)],
            Prepared::MoveBack { found, to } => vec![(&found.entry.at, true), (&to.at, false)],
            Prepared::RemoveDirectory(_) | Prepared::Stay(_) => Vec::new(),
        })
    }

    /// Returns the files that stay as they are, because what was there is not kept.
    pub fn staying(&self) -> impl Iterator<Item = &Path> {
        self.deeds.iter().filter_map(|prepared| match prepared {
            Prepared::Stay(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// What is there now, as hashes.
    pub(crate) fn pre_image(&self) -> Vec<u8> {
        let images = self.deeds.iter().map(|prepared| match prepared {
            Prepared::Remove(found) | Prepared::MoveBack { found, .. } => found.seen.pre_image(),
            Prepared::Rewrite { now, before, .. } => {
                [now, before].map(|bytes| *Stamp::of(bytes).as_bytes()).concat()
            }
            Prepared::Restore { .. } | Prepared::RemoveDirectory(_) | Prepared::Stay(_) => {
                Vec::new()
            }
        });
        self.number.to_le_bytes().into_iter().chain(images.flatten()).collect()
    }

    /// Undoes the step: all of it, or nothing.
    ///
    /// # Errors
    ///
    /// `changed_since_preview` if something else was changed meanwhile; `io`.
    pub fn run(self, workspace: &Workspace) -> Result<(), ToolError> {
        let undo = workspace.undo();
        let Some(step) = undo.claim(self.number) else {
            let message = "Another change was made meanwhile. Look at it again.";
            return Err(ToolError::report(Code::ChangedSincePreview, message));
        };
        let undone = self.undo_all(workspace);
        match &undone {
            Ok(()) => undo.forget(&step),
            Err(_) => undo.give_back(self.number, step),
        }
        undone
    }

    fn undo_all(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let mut taken = Vec::new();
        let done = self.take_all(workspace, &mut taken).and_then(|()| self.change_all(workspace));
        let mut left = Vec::new();
        for (found, blob) in taken.into_iter().rev() {
            match &done {
                Ok(()) => workspace.undo().remove(&blob),
                Err(_) => {
                    let put_back = found.put_back(workspace, &blob);
                    left.extend(put_back.err().map(|error| error.to_string()));
                }
            }
        }
        done.map_err(|error| left_changed(error, &left))?;
        for prepared in &self.deeds {
            if let Prepared::RemoveDirectory(at) = prepared {
                workspace.remove_dirs(std::slice::from_ref(at));
            }
        }
        Ok(())
    }

    /// Takes away what was made, into what is kept, so that it can be put back.
    fn take_all<'a>(
        &'a self,
        workspace: &Workspace,
        taken: &mut Vec<(&'a Found, Blob)>,
    ) -> Result<(), ToolError> {
        for prepared in &self.deeds {
            if let Prepared::Remove(found) = prepared
                && let Some(blob) = found.take(workspace)?
            {
                taken.push((found, blob));
            }
        }
        Ok(())
    }

    /// Does the rest: several files get their bytes back, or one thing its place.
    fn change_all(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let replaced = self.deeds.iter().filter_map(|prepared| match prepared {
            Prepared::Rewrite { at, now, before } => {
                Some(Change { at, found: Some(now), bytes: before })
            }
            _ => None,
        });
        drop(commit(workspace, &replaced.collect::<Vec<_>>(), &mut |_| {})?);
        self.deeds.iter().try_for_each(|prepared| match prepared {
            Prepared::Restore { to, before } => {
                let (dir, made) = workspace.create_dirs(&to.parent)?;
                let restored = workspace.undo().restore(before, &dir, &to.name);
                restored.map_err(|error| {
                    workspace.remove_dirs(&made);
                    workspace.explain(&to.at, &error)
                })
            }
            Prepared::MoveBack { found, to } => found.rename(workspace, to).map(drop),
            _ => Ok(()),
        })
    }
}

impl Prepared {
    fn new(workspace: &Workspace, deed: Deed) -> Result<Self, ToolError> {
        match deed {
            Deed::MadeDirectory(path) => Ok(Self::RemoveDirectory(workspace.named(&path)?)),
            Deed::NotKept { path } => Ok(Self::Stay(path)),
            Deed::Made { path, after } => {
                let at = workspace.named(&path)?;
                let missing = |error: ToolError| match error.code() {
                    Some(Code::NotFound) => other(&at),
                    _ => error,
                };
                let found = find_text(workspace, &at).map_err(missing)?;
                if found.seen.stamp != after {
                    return Err(other(&at));
                }
                Ok(Self::Remove(Box::new(found)))
            }
            Deed::Replaced { path, before, after } => {
                let at = workspace.settle(&workspace.recall(&path)?)?;
                let PreImage::Bytes(now) = read_whole(workspace, &at, FILE_BYTES)? else {
                    return Err(other(&at));
                };
                if Stamp::of(&now) != after {
                    return Err(other(&at));
                }
                let before = workspace.undo().read(&before);
                let before = before.map_err(|error| workspace.explain(&at, &error))?;
                Ok(Self::Rewrite { at, now, before })
            }
            Deed::Deleted { path, before } => {
                let to = workspace.entry(&workspace.named(&path)?)?;
                let dir = workspace.open_dir(&to.parent);
                if dir.is_ok_and(|dir| dir.kind(&to.name).is_ok()) {
                    return Err(exists(&to.at));
                }
                Ok(Self::Restore { to, before })
            }
            Deed::Moved { from, to } => {
                let found = Box::new(find(workspace, &workspace.named(&to)?)?);
                let to = workspace.entry(&workspace.named(&from)?)?;
                Ok(Self::MoveBack { found, to })
            }
        }
    }

    /// Says what undoing it would change; nothing is said of directories that were made.
    fn change(&self) -> Option<FileChange> {
        match self {
            Self::Remove(found) => Some(found.deletion()),
            Self::Rewrite { at, now, before } => {
                let text = |bytes: &[u8]| Text::decode("", bytes.to_vec()).ok();
                Some(match (text(now), text(before)) {
                    (Some(now), Some(before)) => {
                        diff::change(at.path(), Operation::Modify, now.as_str(), before.as_str())
                    }
                    _ => FileChange::new(Operation::Modify, at.path()),
                })
            }
            Self::Restore { to, .. } => Some(FileChange::new(Operation::Add, to.at.path())),
            Self::MoveBack { found, to } => {
                let from = found.entry.at.path().to_owned();
                Some(FileChange::new(Operation::Move { from }, to.at.path()))
            }
            Self::RemoveDirectory(_) | Self::Stay(_) => None,
        }
    }
}

fn other(at: &Resolved) -> ToolError {
    let message = format!(
        "{} was changed by something else since this session wrote it, so that is not undone",
        at.given()
    );
    ToolError::report(Code::ChangedSinceRead, message)
}
