//! Undoes the last step of a session: all of it that still is as the session left it, or nothing.
//! What something else changed since stays, so that it stands in no other file's way.
//!
//! It knows nothing of who permitted it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_types::{FileChange, Operation, diff};

use crate::error::{Code, ToolError};
use crate::files::encoding::Text;
use crate::files::remove::{Found, find, find_text};
use crate::files::stamp::Stamp;
use crate::files::state::steps::{Blob, Deed, Step};
use crate::files::workspace::open::{self, Entry};
use crate::files::workspace::{Resolved, Workspace};
use crate::files::write::{Change, PreImage, Protection, commit, left_changed, read_whole};
use crate::limits::{DIFF_TIME, FILE_BYTES};
use crate::note::Note;

/// The last step of a session, ready to be undone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (cwd, state) = (directory.path().join("cwd"), directory.path().join("state"));
/// # std::fs::create_dir(&cwd)?;
/// use acp_tools::Workspace;
/// use acp_tools::files::{undo::Undoing, write};
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
    protection: Protection,
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
        deed: Deed,
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
    /// It cannot be undone, so it stays.
    Stay(Staying, Deed),
}

/// A file of a step that stays as it is when the rest is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Staying {
    /// The file.
    pub path: PathBuf,
    /// Why, as the end of a sentence about it.
    pub why: Note,
    /// Where that lies which was there before the step, if it is kept. It stays there for as long as
    /// what can be undone.
    pub kept: Option<PathBuf>,
}

impl Undoing {
    /// Looks at what undoing the last step would change. It changes nothing.
    ///
    /// # Errors
    ///
    /// `not_found` if there is nothing to undo; `not_permitted`, `io`. What something else changed
    /// since is no error: it stays.
    pub fn last(workspace: &Workspace) -> Result<Self, ToolError> {
        let nothing = || {
            let message = "There is nothing to undo: no change of a file by this session is kept.";
            ToolError::report(Code::NotFound, message)
        };
        let (number, step) = workspace.undo().last().ok_or_else(nothing)?;
        let deeds = step.deeds.into_iter().rev().map(|deed| Prepared::new(workspace, deed));
        let deeds: Vec<_> = deeds.collect::<Result<_, _>>()?;
        let protection = Protection::of(workspace, &rewrites(&deeds))?;
        Ok(Self { number, deeds, protection })
    }

    /// Returns what protects the files that get their bytes back.
    pub(crate) fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Returns what it would change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = FileChange> {
        self.deeds.iter().filter_map(Prepared::change)
    }

    /// Returns every place that it would change, and whether it is gone afterwards.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.pinned().map(|(at, is_gone)| (at.path(), is_gone))
    }

    /// Returns the same as places without links, but perhaps the last.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = (&Resolved, bool)> {
        self.deeds.iter().flat_map(|prepared| match prepared {
            Prepared::Remove(found) => vec![(&found.entry.at, true)],
            Prepared::Rewrite { at, .. } => vec![(at, false)],
            Prepared::Restore { to, .. } => vec![(&to.at, false)],
            Prepared::MoveBack { found, to } => vec![(&found.entry.at, true), (&to.at, false)],
            Prepared::RemoveDirectory(_) | Prepared::Stay(..) => Vec::new(),
        })
    }

    /// Returns the files that stay as they are: something else changed them since, or what was there
    /// is not kept.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &Staying> {
        self.deeds.iter().filter_map(|prepared| match prepared {
            Prepared::Stay(staying, _) => Some(staying),
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
            Prepared::Stay(staying, _) => {
                let path = staying.path.as_os_str().as_encoded_bytes();
                Stamp::of(&[path, staying.why.to_string().as_bytes()].concat()).as_bytes().to_vec()
            }
            Prepared::Restore { .. } | Prepared::RemoveDirectory(_) => Vec::new(),
        });
        self.number.to_le_bytes().into_iter().chain(images.flatten()).collect()
    }

    /// Undoes the step: all of it but what stays, or nothing. The one before it is the last one then,
    /// also where all of it stays.
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
            Ok(()) => undo.forget(&step, self.left(workspace)),
            Err(_) => undo.give_back(self.number, step),
        }
        undone
    }

    /// Returns what is not undone of the step: what stays, and of what was restored that which
    /// somebody wrote to since it was read.
    fn left(&self, workspace: &Workspace) -> Step {
        let is_written_late = |deed: &Deed, before: &[u8]| {
            let now = deed.before().map(|blob| workspace.undo().read(blob));
            now.is_some_and(|now| now.is_ok_and(|now| now != before))
        };
        let left = self.deeds.iter().filter_map(|prepared| match prepared {
            Prepared::Stay(_, deed) => Some(deed.clone()),
            Prepared::Rewrite { before, deed, .. } => {
                is_written_late(deed, before).then(|| deed.clone())
            }
            _ => None,
        });
        Step { deeds: left.collect() }
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
                open::remove_dirs(std::slice::from_ref(at));
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
        let replaced = rewrites(&self.deeds);
        drop(commit(workspace, &replaced, &self.protection, &mut |_| {})?);
        self.deeds.iter().try_for_each(|prepared| match prepared {
            Prepared::Restore { to, before } => {
                let (dir, made) = open::create_dirs(workspace, &to.parent)?;
                let restored = workspace.undo().restore(before, &dir, &to.name);
                restored.map_err(|error| {
                    open::remove_dirs(&made);
                    workspace.explain(&to.at, &error)
                })
            }
            Prepared::MoveBack { found, to } => found.rename(workspace, to).map(drop),
            _ => Ok(()),
        })
    }
}

/// Returns the files that get their bytes back.
fn rewrites(deeds: &[Prepared]) -> Vec<Change<'_>> {
    let replaced = deeds.iter().filter_map(|prepared| match prepared {
        Prepared::Rewrite { at, now, before, .. } => {
            Some(Change { at, found: Some(now), bytes: before })
        }
        _ => None,
    });
    replaced.collect()
}

/// Why a deed is not undone.
enum Trouble {
    /// It stays, for a reason that lasts: the key of its message.
    Stays(&'static str),
    /// It cannot be looked at now.
    Tool(ToolError),
}

impl From<ToolError> for Trouble {
    fn from(error: ToolError) -> Self {
        match error.code() {
            Some(Code::NotFound | Code::NotADirectory) => Self::Stays(GONE),
            Some(
                Code::TooLarge
                | Code::IsADirectory
                | Code::NotARegularFile
                | Code::OutsideRoots
                | Code::InvalidArguments,
            ) => Self::Stays(CHANGED),
            _ => Self::Tool(error),
        }
    }
}

impl Prepared {
    fn new(workspace: &Workspace, deed: Deed) -> Result<Self, ToolError> {
        match Self::of(workspace, &deed) {
            Ok(prepared) => Ok(prepared),
            Err(Trouble::Tool(error)) => Err(error),
            Err(Trouble::Stays(why)) => {
                let kept = deed.before().and_then(|before| workspace.undo().found(before));
                let (path, why) = (deed.place().to_owned(), Note::new(why));
                Ok(Self::Stay(Staying { path, why, kept }, deed))
            }
        }
    }

    fn of(workspace: &Workspace, deed: &Deed) -> Result<Self, Trouble> {
        if deed.before().is_some_and(|before| workspace.undo().found(before).is_none()) {
            return Err(Trouble::Stays(NOT_KEPT));
        }
        Ok(match deed {
            Deed::MadeDirectory(path) => Self::RemoveDirectory(workspace.named(path)?),
            Deed::NotKept { .. } => return Err(Trouble::Stays(NOT_KEPT)),
            Deed::Made { path, after } => {
                let found = find_text(workspace, &workspace.named(path)?)?;
                if found.seen.stamp != *after {
                    return Err(Trouble::Stays(CHANGED));
                }
                Self::Remove(Box::new(found))
            }
            Deed::Replaced { path, before, after } => {
                let at = workspace.settle(&workspace.recall(path)?)?;
                let PreImage::Bytes(now) = read_whole(workspace, &at, FILE_BYTES)? else {
                    return Err(Trouble::Stays(GONE));
                };
                if Stamp::of(&now) != *after {
                    return Err(Trouble::Stays(CHANGED));
                }
                let before = workspace.undo().read(before);
                let before = before.map_err(|error| {
                    let message = format!("what is kept of {} cannot be read: {error}", at.given());
                    ToolError::report(Code::Io, message)
                })?;
                Self::Rewrite { at, now, before, deed: deed.clone() }
            }
            Deed::Deleted { path, before } => {
                let to = Entry::find(workspace, &workspace.named(path)?)?;
                if is_taken(workspace, &to) {
                    return Err(Trouble::Stays(TAKEN));
                }
                Self::Restore { to, before: before.clone() }
            }
            Deed::Moved { from, to } => {
                let found = Box::new(find(workspace, &workspace.named(to)?)?);
                let to = Entry::find(workspace, &workspace.named(from)?)?;
                if is_taken(workspace, &to) {
                    return Err(Trouble::Stays(FORMER_TAKEN));
                }
                Self::MoveBack { found, to }
            }
        })
    }

    /// Says what undoing it would change; nothing is said of directories that were made.
    fn change(&self) -> Option<FileChange> {
        match self {
            Self::Remove(found) => Some(found.deletion()),
            Self::Rewrite { at, now, before, .. } => {
                let text = |bytes: &[u8]| Text::decode("", bytes.to_vec()).ok();
                Some(match (text(now), text(before)) {
                    (Some(now), Some(before)) => {
                        let deadline = Instant::now() + DIFF_TIME;
                        let (now, before) = (now.as_str(), before.as_str());
                        diff::change(at.path(), Operation::Modify, now, before, deadline)
                    }
                    _ => FileChange::new(Operation::Modify, at.path()),
                })
            }
            Self::Restore { to, .. } => Some(FileChange::new(Operation::Add, to.at.path())),
            Self::MoveBack { found, to } => {
                let from = found.entry.at.path().to_owned();
                Some(FileChange::new(Operation::Move { from }, to.at.path()))
            }
            Self::RemoveDirectory(_) | Self::Stay(..) => None,
        }
    }
}

const NOT_KEPT: &str = "stays-not-kept";
const CHANGED: &str = "stays-changed";
const GONE: &str = "stays-gone";
const TAKEN: &str = "stays-taken";
const FORMER_TAKEN: &str = "stays-former-taken";

fn is_taken(workspace: &Workspace, to: &Entry) -> bool {
    workspace.open_dir(&to.parent).is_ok_and(|dir| dir.kind(&to.name).is_ok())
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
