//! Deletes and moves files and directories.
//!
//! It knows nothing of who permitted it. What is deleted is moved to where it can be restored
//! from; what cannot be kept is told before. What goes is what was seen: it is compared where it
//! then is, where nobody finds it by its name, and put back if it is something else by now.

mod aside;
#[cfg(test)]
#[cfg(unix)]
mod tests;

use callboard_text::path_text;
use std::ffi::OsStr;
use std::io;
use std::time::Instant;

use acp_types::{FileChange, Operation, diff};

use crate::error::{Code, ToolError};
use crate::files::encoding::Text;
use crate::files::snapshot::Seen;
use crate::files::state::steps::{Blob, Deed, Step};
use crate::files::system::{Dir, Kind};
use crate::files::workspace::open::{self, Entry};
use crate::files::workspace::{Resolved, Workspace};
use crate::files::write::explain_kept;
use crate::limits::{DIFF_TIME, UNDO_BYTES};
use crate::note::Note;

use self::aside::Aside;

/// Something that is to be deleted or moved, as it was seen.
#[derive(Debug)]
pub struct Found {
    pub(crate) entry: Entry,
    pub(crate) seen: Seen,
    /// Its text, if it has one that can be shown.
    text: Option<String>,
    fate: Fate,
}

/// What becomes of something that is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// It is kept, and can be restored.
    Kept,
    /// It is kept until the next change, because it is so large.
    KeptOnce,
    /// It is gone for good, for this reason.
    Lost(Note),
}

/// Looks at what is to be deleted or moved.
///
/// # Errors
///
/// `not_found`, `outside_roots`, `not_a_directory`; `invalid_arguments` for a root of the
/// workspace; `not_a_regular_file` for a device, socket or FIFO; `not_permitted`, `io`.
pub fn find(workspace: &Workspace, at: &Resolved) -> Result<Found, ToolError> {
    find_by(workspace, at, |dir, name| Ok((Seen::of(dir, name)?, None)))
}

/// The same with the text of a file, for whoever shows that it goes.
///
/// # Errors
///
/// As [`find`].
pub(crate) fn find_text(workspace: &Workspace, at: &Resolved) -> Result<Found, ToolError> {
    find_by(workspace, at, Seen::with_bytes)
}

fn find_by(
    workspace: &Workspace,
    at: &Resolved,
    see: impl FnOnce(&Dir, &OsStr) -> io::Result<(Seen, Option<Vec<u8>>)>,
) -> Result<Found, ToolError> {
    let entry = Entry::find(workspace, at)?;
    let dir = workspace.open_dir(&entry.parent)?;
    let (seen, bytes) = see(&dir, &entry.name).map_err(|error| workspace.explain(at, &error))?;
    if seen.kind == Kind::Special {
        let message = format!("{} is a FIFO, socket or device", at.given());
        return Err(ToolError::report(Code::NotARegularFile, message));
    }
    require_removable(workspace, &dir, &entry)?;
    let text = bytes.and_then(|bytes| Text::decode(at.given(), bytes).ok()).map(Text::into_string);
    let fate = Fate::of(&seen, workspace, &dir);
    Ok(Found { entry, seen, text, fate })
}

/// Refuses what can be neither moved nor removed, so that nobody is asked.
fn require_removable(workspace: &Workspace, dir: &Dir, entry: &Entry) -> Result<(), ToolError> {
    dir.require_taking().map_err(|error| workspace.explain(&entry.at, &error))?;
    if dir.is_mounted(&entry.name) {
        let message = format!(
            "{} is mounted by itself, so it can be neither moved nor deleted. Change what is in it, \
             or unmount it with a command",
            entry.at.given()
        );
        return Err(ToolError::report(Code::NotPermitted, message));
    }
    Ok(())
}

impl Found {
    /// Returns whether it is a directory.
    #[must_use]
    pub(crate) fn is_directory(&self) -> bool {
        self.seen.kind == Kind::Directory
    }

    /// Returns whether it can be restored after it was deleted.
    #[must_use]
    pub(crate) fn can_be_restored(&self) -> bool {
        !matches!(self.fate, Fate::Lost(_))
    }

    /// Says what the deletion would change.
    #[must_use]
    pub(crate) fn deletion(&self) -> FileChange {
        let path = self.entry.at.path();
        match &self.text {
            Some(text) => {
                diff::change(path, Operation::Delete, text, "", Instant::now() + DIFF_TIME)
            }
            None => FileChange::new(Operation::Delete, path),
        }
    }

    /// Says how much is in a directory.
    #[must_use]
    pub(crate) fn extent(&self) -> Option<Note> {
        let Seen { entries, bytes, is_whole, .. } = self.seen;
        let key = if is_whole { "directory" } else { "directory-at-least" };
        let note = || Note::new(key).with_count("entries", entries).with_count("bytes", bytes);
        self.is_directory().then(note)
    }

    /// Says if it cannot be restored once it is deleted, or not for long.
    #[must_use]
    pub(crate) fn caveat(&self) -> Option<Note> {
        match &self.fate {
            Fate::Kept => None,
            Fate::KeptOnce => Some(Note::new("kept-once").with_count("bytes", UNDO_BYTES)),
            Fate::Lost(why) => Some(Note::new("lost").with_notes("why", [why.clone()], "")),
        }
    }

    /// Refuses what can neither be kept nor be compared as a whole, so that nobody is asked.
    ///
    /// # Errors
    ///
    /// `too_large`.
    pub(crate) fn require_deletable(&self) -> Result<(), ToolError> {
        if self.can_be_restored() || self.seen.is_whole {
            return Ok(());
        }
        let message = format!(
            "{} has too much in it to be looked at, and could not be restored. Delete it with a \
             command",
            self.entry.at.given()
        );
        Err(ToolError::report(Code::TooLarge, message))
    }

    /// Deletes it, if it still is what was seen, and keeps it where it can be kept.
    ///
    /// # Errors
    ///
    /// `too_large` if it could not be restored and has too much in it to be looked at;
    /// `changed_since_preview`, and then it stays, also where it
    /// cannot be kept and that was not known before; `not_found`, `not_permitted`, `io`, also where
    /// it was changed and somebody took its name before it had that again.
    pub fn delete(&self, workspace: &Workspace) -> Result<(), ToolError> {
        self.require_deletable()?;
        let path = self.entry.at.path().to_owned();
        let deed = match self.take(workspace)? {
            Some(before) => Deed::Deleted { path, before },
            None => Deed::NotKept { path },
        };
        workspace.undo().push(Step { deeds: vec![deed] });
        Ok(())
    }

    /// Removes it, if it still is what was seen. Nothing is returned of what is not kept.
    pub(crate) fn take(&self, workspace: &Workspace) -> Result<Option<Blob>, ToolError> {
        let Entry { parent, name, at } = &self.entry;
        let dir = workspace.open_dir(parent)?;
        if !self.can_be_restored() {
            Aside::take(workspace, &dir, &self.entry, &self.seen)?.remove()?;
            return Ok(None);
        }
        let undo = workspace.undo();
        let blob = match undo.take(&dir, name, self.seen.bytes) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                return self.copy(workspace, &dir).map(Some);
            }
            Err(error) => return Err(explain_kept(workspace, at, &error)),
            Ok(blob) => blob.ok_or_else(|| not_kept(at))?,
        };
        if undo.seen(&blob).is_ok_and(|now| now == self.seen) {
            return Ok(Some(blob));
        }
        self.put_back(workspace, &blob)?;
        Err(changed(at))
    }

    /// Gives what was removed its place back. If somebody took its name, the error says where it
    /// lies.
    pub(crate) fn put_back(&self, workspace: &Workspace, blob: &Blob) -> Result<(), ToolError> {
        let Entry { parent, name, at } = &self.entry;
        let (dir, undo) = (workspace.open_dir(parent)?, workspace.undo());
        undo.restore(blob, &dir, name).map_err(|error| match undo.place(blob) {
            Some(place) => stranded(at, &path_text(&place)),
            None => workspace.explain(at, &error),
        })
    }

    /// Removes a file that lies on another file system than what is kept.
    fn copy(&self, workspace: &Workspace, dir: &Dir) -> Result<Blob, ToolError> {
        let at = &self.entry.at;
        if self.seen.kind != Kind::File || self.seen.bytes > UNDO_BYTES {
            return Err(not_kept(at));
        }
        let aside = Aside::take(workspace, dir, &self.entry, &self.seen)?;
        let undo = workspace.undo();
        let copied = undo.copy(dir, aside.name()).and_then(|blob| {
            let blob = blob.ok_or(io::ErrorKind::NotFound)?;
            let is_same = undo.seen(&blob)?.stamp == self.seen.stamp;
            if !is_same {
                undo.remove(&blob);
            }
            Ok(is_same.then_some(blob))
        });
        match copied {
            Ok(Some(blob)) => {
                // It is kept; what lies beside it is removed at the next start, if not now.
                drop(aside.remove());
                Ok(blob)
            }
            Ok(None) => aside.put_back().and_then(|()| Err(changed(at))),
            Err(error) => aside.put_back().and_then(|()| Err(explain_kept(workspace, at, &error))),
        }
    }

    /// Refuses a move that cannot be made, so that nobody is asked.
    pub(crate) fn require_movable(
        &self,
        workspace: &Workspace,
        to: &Entry,
    ) -> Result<(), ToolError> {
        let old = workspace.open_dir(&self.entry.parent)?;
        let existing = open::nearest_dir(workspace, &to.parent)?;
        if workspace.open_dir(&to.parent).is_ok_and(|dir| dir.kind(&to.name).is_ok()) {
            return Err(exists(&to.at));
        }
        existing.require_taking().map_err(|error| workspace.explain(&to.at, &error))?;
        if existing.is_beside(&old) { Ok(()) } else { Err(elsewhere(&to.at)) }
    }

    /// Moves it to a name that nothing has, if it still is what was seen. Missing directories are
    /// made.
    ///
    /// # Errors
    ///
    /// `changed_since_preview`, and then it stays; `invalid_arguments` if something has that name;
    /// `not_permitted`, also for another file system; `io`.
    pub fn move_to(&self, workspace: &Workspace, to: &Resolved) -> Result<(), ToolError> {
        self.move_into(workspace, &Entry::find(workspace, to)?)
    }

    pub(crate) fn move_into(&self, workspace: &Workspace, to: &Entry) -> Result<(), ToolError> {
        let made = self.rename(workspace, to)?;
        let made = made.iter().map(|at| Deed::MadeDirectory(at.path().to_owned()));
        let (from, to) = (self.entry.at.path().to_owned(), to.at.path().to_owned());
        let deeds = made.chain([Deed::Moved { from, to }]).collect();
        workspace.undo().push(Step { deeds });
        Ok(())
    }

    /// Moves, and tells which directories it made.
    pub(crate) fn rename(
        &self,
        workspace: &Workspace,
        to: &Entry,
    ) -> Result<Vec<Resolved>, ToolError> {
        let from = &self.entry;
        let old = workspace.open_dir(&from.parent)?;
        let (new, made) = open::create_dirs(workspace, &to.parent)?;
        let moved = old.rename_into(&from.name, &new, &to.name);
        let moved = moved.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&to.at),
            io::ErrorKind::CrossesDevices => elsewhere(&to.at),
            _ => workspace.explain(&from.at, &error),
        });
        let is_same = || Seen::of(&new, &to.name).is_ok_and(|now| now == self.seen);
        let moved = moved.and_then(|()| {
            if is_same() {
                return Ok(());
            }
            let back = new.rename_into(&to.name, &old, &from.name);
            back.map_err(|_taken| stranded(&from.at, to.at.given()))?;
            Err(changed(&from.at))
        });
        if moved.is_err() {
            open::remove_dirs(&made);
        }
        moved.map(|()| made)
    }
}

impl Fate {
    fn of(seen: &Seen, workspace: &Workspace, dir: &Dir) -> Self {
        let is_large = seen.bytes > UNDO_BYTES;
        let is_beside = workspace.undo().is_beside(dir);
        // Elsewhere it is copied.
        let bytes = if !is_beside && !is_large { seen.bytes } else { 0 };
        if let Err(why) = workspace.state().require(bytes) {
            return Self::Lost(why.note());
        }
        match is_beside {
            true if is_large => Self::KeptOnce,
            true => Self::Kept,
            false if seen.kind != Kind::File => Self::Lost(Note::new("lost-no-file")),
            false if is_large => Self::Lost(Note::new("lost-large")),
            false => Self::Kept,
        }
    }
}

/// Says that a name is taken.
pub(crate) fn exists(at: &Resolved) -> ToolError {
    let message = format!("{} exists already. Choose another name, or delete it first", at.given());
    ToolError::report(Code::InvalidArguments, message)
}

/// Says that a name is on another file system.
pub(crate) fn elsewhere(at: &Resolved) -> ToolError {
    let message = format!("{} is on another file system. Move it with a command", at.given());
    ToolError::report(Code::NotPermitted, message)
}

pub(crate) fn changed(at: &Resolved) -> ToolError {
    let message = format!(
        "{} was changed by something else since this change was prepared, so it stays. Look at it \
         again",
        at.given()
    );
    ToolError::report(Code::ChangedSincePreview, message)
}

/// Says where something lies that was changed meanwhile and whose name is taken.
fn stranded(at: &Resolved, place: &str) -> ToolError {
    let given = at.given();
    let message = format!(
        "{given} was changed by something else, and made again while it was looked at: what it was \
         before lies at {place}"
    );
    ToolError::report(Code::Io, message)
}

fn not_kept(at: &Resolved) -> ToolError {
    let message = format!(
        "{} could not be restored, which nobody knew before, so it stays. Try again",
        at.given()
    );
    ToolError::report(Code::ChangedSincePreview, message)
}
