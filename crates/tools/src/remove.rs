//! Deletes and moves files and directories, and undoes what was done to files.
//!
//! It knows nothing of who permitted it. What is deleted is moved to where it can be restored
//! from; what cannot be kept is not deleted.

use std::fs::File;
use std::io;
use std::path::Path;

use acp_types::FileChange;
use acp_types::Operation;

use crate::diff;
use crate::encoding::Text;
use crate::error::{Code, ToolError};
use crate::limits::{COUNTED_FILES, DIRECTORY_ENTRIES, FILE_BYTES, UNDO_BYTES};
use crate::stamp::{Stamp, Stamping};
use crate::sys::fs::{Dir, Kind};
use crate::undo::{Blob, Deed, Step};
use crate::workspace::{Entry, Resolved, Workspace};
use crate::write::{Change, PreImage, commit, read_whole};

/// Something that is to be deleted or moved, as it was seen.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entry: Entry,
    pub(crate) kind: Kind,
    /// What a file holds.
    pub(crate) stamp: Option<Stamp>,
    /// Its text, if it has one that can be shown.
    pub(crate) text: Option<String>,
    /// How many files and directories are in it.
    pub(crate) entries: u64,
    bytes: u64,
}

/// Looks at what is to be deleted or moved.
///
/// # Errors
///
/// As [`Workspace::entry`]; `not_found`; `not_a_regular_file`; `not_permitted`, `io`.
pub(crate) fn find(workspace: &Workspace, at: &Resolved) -> Result<Found, ToolError> {
    let entry = workspace.entry(at)?;
    let explain = |error: io::Error| workspace.explain(at, &error);
    let dir = workspace.open_dir(&entry.parent)?;
    let kind = dir.kind(&entry.name).map_err(explain)?;
    let mut found = Found { entry, kind, stamp: None, text: None, entries: 0, bytes: 0 };
    match kind {
        Kind::Link => {}
        Kind::Directory => found.entries = count(workspace, &found.entry.at),
        Kind::File => {
            let file = dir.open(&found.entry.name).map_err(explain)?;
            (found.stamp, found.bytes) = stamp(&file).map_err(explain)?;
            if found.bytes <= FILE_BYTES
                && let PreImage::Bytes(bytes) = read_whole(workspace, &found.entry.at, FILE_BYTES)?
            {
                found.text = Text::decode(at.given(), bytes).ok().map(|text| text.as_str().into());
            }
        }
        Kind::Special => {
            let message = format!("{} is a FIFO, socket or device", at.given());
            return Err(ToolError::report(Code::NotARegularFile, message));
        }
    }
    Ok(found)
}

/// Makes a stamp of a file that is not too large for that.
fn stamp(file: &File) -> io::Result<(Option<Stamp>, u64)> {
    let bytes = file.metadata()?.len();
    if bytes > UNDO_BYTES {
        return Ok((None, bytes));
    }
    let mut stamping = Stamping::new(file);
    io::copy(&mut stamping, &mut io::sink())?;
    Ok((stamping.stamp(), bytes))
}

/// Counts what is in a directory; what cannot be read counts for nothing.
fn count(workspace: &Workspace, top: &Resolved) -> u64 {
    let (mut directories, mut counted) = (vec![top.clone()], 0);
    while let Some(directory) = directories.pop() {
        let Ok(dir) = workspace.open_dir(&directory) else { continue };
        let entries = dir.entries(DIRECTORY_ENTRIES).map(|(entries, _)| entries);
        for entry in entries.unwrap_or_default() {
            counted += 1;
            if counted == COUNTED_FILES {
                return counted;
            }
            if entry.kind == Kind::Directory {
                directories.push(directory.child(&entry.name));
            }
        }
    }
    counted
}

impl Found {
    /// Says what the deletion would change.
    pub(crate) fn deletion(&self) -> FileChange {
        let path = self.entry.at.path();
        match &self.text {
            Some(text) => diff::change(path, Operation::Delete, text, ""),
            None => FileChange::new(Operation::Delete, path),
        }
    }

    /// Deletes it, if it still is what was seen, and keeps it.
    pub(crate) fn delete(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let Entry { parent, name, at } = &self.entry;
        let explain = |error: io::Error| workspace.explain(at, &error);
        let dir = workspace.open_dir(parent)?;
        let undo = workspace.undo();
        let before = match undo.take(&dir, name, self.bytes) {
            Ok(Some(blob)) => {
                let is_same = match (self.kind, self.stamp) {
                    (Kind::File, Some(stamp)) => {
                        undo.stamp(&blob).is_ok_and(|now| now == Some(stamp))
                    }
                    _ => undo.kind(&blob).is_ok_and(|now| now == self.kind),
                };
                if !is_same {
                    undo.restore(&blob, &dir, name).map_err(explain)?;
                    return Err(changed(at));
                }
                blob
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                self.copy_and_delete(workspace, &dir)?
            }
            Err(error) => return Err(explain(error)),
            Ok(None) => {
                let message = format!(
                    "{} could not be restored, so it stays: this session has no \
                                       place to keep it. Delete it with a command",
                    at.given()
                );
                return Err(ToolError::report(Code::NotPermitted, message));
            }
        };
        undo.push(Step { deeds: vec![Deed::Deleted { path: at.path().to_owned(), before }] });
        Ok(())
    }

    /// Keeps a copy of a file that lies on another file system than what is kept.
    fn copy_and_delete(&self, workspace: &Workspace, dir: &Dir) -> Result<Blob, ToolError> {
        let at = &self.entry.at;
        let explain = |error: io::Error| workspace.explain(at, &error);
        let Some(stamp) = self.stamp else {
            let message = format!(
                "{} could not be restored, so it stays: it is too large, or no file, and on another \
                 file system than what is kept. Delete it with a command",
                at.given()
            );
            return Err(ToolError::report(Code::NotPermitted, message));
        };
        let undo = workspace.undo();
        let blob = undo.copy(dir, &self.entry.name).map_err(explain)?;
        let blob = blob.ok_or_else(|| changed(at))?;
        if undo.stamp(&blob).map_err(explain)? != Some(stamp) {
            return Err(changed(at));
        }
        dir.remove(&self.entry.name).map_err(explain)?;
        Ok(blob)
    }

    /// Moves it to a name that nothing has. Missing directories are made.
    pub(crate) fn rename(&self, workspace: &Workspace, to: &Entry) -> Result<(), ToolError> {
        let made = rename(workspace, &self.entry, to)?;
        let made = made.iter().map(|at| Deed::MadeDirectory(at.path().to_owned()));
        let (from, to) = (self.entry.at.path().to_owned(), to.at.path().to_owned());
        let deeds = made.chain([Deed::Moved { from, to }]).collect();
        workspace.undo().push(Step { deeds });
        Ok(())
    }
}

/// Moves, and tells which directories it made.
fn rename(workspace: &Workspace, from: &Entry, to: &Entry) -> Result<Vec<Resolved>, ToolError> {
    let old = workspace.open_dir(&from.parent)?;
    let (new, made) = workspace.create_dirs(&to.parent)?;
    let moved = old.rename_into(&from.name, &new, &to.name).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&to.at),
        io::ErrorKind::CrossesDevices => ToolError::report(
            Code::NotPermitted,
            format!("{} is on another file system. Move it with a command", to.at.given()),
        ),
        _ => workspace.explain(&from.at, &error),
    });
    if moved.is_err() {
        workspace.remove_dirs(&made);
    }
    moved.map(|()| made)
}

/// Says that a name is taken.
pub(crate) fn exists(at: &Resolved) -> ToolError {
    let message = format!("{} exists already. Choose another name, or delete it first", at.given());
    ToolError::report(Code::InvalidArguments, message)
}

fn changed(at: &Resolved) -> ToolError {
    let message = format!(
        "{} was changed by something else since this change was prepared, so it stays. Look at it \
         again",
        at.given()
    );
    ToolError::report(Code::ChangedSincePreview, message)
}

/// The last step of a session, ready to be undone.
#[derive(Debug)]
pub(crate) struct Undoing {
    number: usize,
    deeds: Vec<Prepared>,
}

/// One deed, with what undoing it needs.
#[derive(Debug)]
struct Prepared {
    deed: Deed,
    at: Resolved,
    /// What the file holds now, and what it held before.
    now: Vec<u8>,
    before: Vec<u8>,
}

impl Undoing {
    /// Looks at what undoing the last step would change.
    ///
    /// # Errors
    ///
    /// `not_found` if there is nothing to undo; `changed_since_read` if something else changed a
    /// file since; `io`.
    pub(crate) fn last(workspace: &Workspace) -> Result<Self, ToolError> {
        let nothing = || {
            let message = "There is nothing to undo: this session has changed no file.";
            ToolError::report(Code::NotFound, message)
        };
        let (number, step) = workspace.undo().last().ok_or_else(nothing)?;
        let deeds = step.deeds.into_iter().rev().map(|deed| Prepared::new(workspace, deed));
        Ok(Self { number, deeds: deeds.collect::<Result<_, _>>()? })
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = FileChange> {
        self.deeds.iter().filter_map(Prepared::change)
    }

    /// Every place that is changed, and whether it is gone afterwards.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.deeds.iter().flat_map(|prepared| {
            let at = prepared.at.path();
            match &prepared.deed {
                Deed::MadeDirectory(_) => Vec::new(),
                Deed::Made { .. } => vec![(at, true)],
                Deed::Replaced { .. } | Deed::Deleted { .. } => vec![(at, false)],
                Deed::Moved { from, .. } => vec![(at, true), (from.as_path(), false)],
            }
        })
    }

    /// The bytes that are there now.
    pub(crate) fn pre_image(&self) -> Vec<u8> {
        self.deeds.iter().flat_map(|prepared| *Stamp::of(&prepared.now).as_bytes()).collect()
    }

    /// Undoes the step.
    ///
    /// # Errors
    ///
    /// `changed_since_preview` if something else was changed meanwhile; `io`.
    pub(crate) fn run(self, workspace: &Workspace) -> Result<(), ToolError> {
        if workspace.undo().last().map(|(number, _)| number) != Some(self.number) {
            let message = "Another change was made meanwhile. Look at it again.";
            return Err(ToolError::report(Code::ChangedSincePreview, message));
        }
        let replaced = self.deeds.iter().filter(|it| matches!(it.deed, Deed::Replaced { .. }));
        let changes: Vec<_> = replaced
            .map(|it| Change { at: &it.at, found: Some(&it.now), bytes: &it.before })
            .collect();
        drop(commit(workspace, &changes)?);
        self.deeds.iter().try_for_each(|prepared| prepared.undo(workspace))?;
        workspace.undo().pop();
        Ok(())
    }
}

impl Prepared {
    fn new(workspace: &Workspace, deed: Deed) -> Result<Self, ToolError> {
        let path = match &deed {
            Deed::MadeDirectory(path)
            | Deed::Made { path, .. }
            | Deed::Replaced { path, .. }
            | Deed::Deleted { path, .. } => path,
            Deed::Moved { to, .. } => to,
        };
        let at = workspace.recall(path)?;
        let mut prepared = Self { deed, at, now: Vec::new(), before: Vec::new() };
        match &prepared.deed {
            Deed::Made { after, .. } | Deed::Replaced { after, .. } => {
                let PreImage::Bytes(now) = read_whole(workspace, &prepared.at, FILE_BYTES)? else {
                    return Err(other(&prepared.at));
                };
                if Stamp::of(&now) != *after {
                    return Err(other(&prepared.at));
                }
                prepared.now = now;
            }
            Deed::Deleted { .. } => {
                let entry = workspace.entry(&prepared.at)?;
                let is_taken = workspace
                    .open_dir(&entry.parent)
                    .is_ok_and(|dir| dir.kind(&entry.name).is_ok());
                if is_taken {
                    return Err(exists(&prepared.at));
                }
            }
            Deed::MadeDirectory(_) | Deed::Moved { .. } => {}
        }
        if let Deed::Replaced { before, .. } = &prepared.deed {
            let kept = workspace.undo().read(before);
            prepared.before = kept.map_err(|error| workspace.explain(&prepared.at, &error))?;
        }
        Ok(prepared)
    }

    /// Says what undoing it would change; nothing is said of directories that were made.
    fn change(&self) -> Option<FileChange> {
        let text = |bytes: &[u8]| Text::decode("", bytes.to_vec()).ok();
        let (now, before) = (text(&self.now), text(&self.before));
        let path = self.at.path();
        let operation = match &self.deed {
            Deed::MadeDirectory(_) => return None,
            Deed::Made { .. } => Operation::Delete,
            Deed::Replaced { .. } => Operation::Modify,
            Deed::Deleted { .. } => return Some(FileChange::new(Operation::Add, path)),
            Deed::Moved { from, .. } => {
                return Some(FileChange::new(Operation::Move { from: path.to_owned() }, from));
            }
        };
        Some(match (now, before) {
            (Some(now), Some(before)) => {
                diff::change(path, operation, now.as_str(), before.as_str())
            }
            _ => FileChange::new(operation, path),
        })
    }

    /// Undoes what is no change of content, which was undone before.
    fn undo(&self, workspace: &Workspace) -> Result<(), ToolError> {
        let explain = |error: io::Error| workspace.explain(&self.at, &error);
        match &self.deed {
            Deed::Replaced { .. } => Ok(()),
            Deed::MadeDirectory(_) => {
                workspace.remove_dirs(std::slice::from_ref(&self.at));
                Ok(())
            }
            Deed::Made { .. } => {
                let entry = workspace.entry(&self.at)?;
                let dir = workspace.open_dir(&entry.parent)?;
                let file = dir.open(&entry.name).map_err(explain)?;
                if stamp(&file).map_err(explain)?.0 != Some(Stamp::of(&self.now)) {
                    return Err(changed(&self.at));
                }
                dir.remove(&entry.name).map_err(explain)
            }
            Deed::Deleted { before, .. } => {
                let entry = workspace.entry(&self.at)?;
                let (dir, _) = workspace.create_dirs(&entry.parent)?;
                workspace.undo().restore(before, &dir, &entry.name).map_err(explain)
            }
            Deed::Moved { from, .. } => {
                let from = workspace.entry(&workspace.recall(from)?)?;
                rename(workspace, &workspace.entry(&self.at)?, &from).map(drop)
            }
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

#[cfg(test)]
#[cfg(unix)]
mod tests;
