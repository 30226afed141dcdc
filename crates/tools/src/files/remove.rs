//! Deletes and moves files and directories.
//!
//! A deleted entry becomes a backup, from which it can be restored. If no backup is possible, the
//! preview reports this. The entry is first moved to another name, so that other programs no longer
//! find it. Then the entry is compared with the preview. If the entry has changed since the
//! preview, it is moved back.

mod quarantine;
#[cfg(test)]
#[cfg(unix)]
mod tests;

use callboard_text::path_text;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use acp_types::{FileChange, FileChangeOperation, diff};

use crate::error::{ErrorCode, ToolError};
use crate::files::encoding::DecodedText;
use crate::files::entry_fingerprint::EntryFingerprint;
use crate::files::state::undo_entry::{Backup, FileOperation, MovedEntry, UndoEntry};
use crate::files::system::{Dir, FileKind};
use crate::files::workspace::open::{self, EntryPath};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{EntryToRemove, explain_backup_error};
use crate::limits::{MAX_DIFF_TIME, MAX_UNDO_BYTES};
use crate::note::Note;

use self::quarantine::Quarantined;

/// An entry to delete or move, with a fingerprint that was computed for the preview.
#[derive(Debug)]
pub struct ExistingEntry {
    pub(crate) entry: EntryPath,
    pub(crate) fingerprint: EntryFingerprint,
    /// The decoded text of a file. `None` if the text cannot be shown.
    text: Option<String>,
    restorability: Restorability,
}

/// Whether a deleted entry can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Restorability {
    /// A backup will exist, so the entry can be restored.
    Restorable,
    /// The entry can be restored only until the next change. The backup exceeds the size limit, so
    /// the next change removes it.
    UntilNextChange,
    /// The deletion is permanent. The note states the reason.
    NotRestorable(Note),
}

/// An entry that was removed, and that can be put back until [`Self::finish`].
#[derive(Debug)]
pub(in crate::files) struct RevocableRemoval<'a> {
    removed: &'a ExistingEntry,
    content: BackupOrQuarantine<'a>,
}

/// The place of the content of a removed entry.
#[derive(Debug)]
enum BackupOrQuarantine<'a> {
    Backup(Backup),
    /// No backup is possible, so the entry is still in its directory, under another name.
    Quarantined(Quarantined<'a>),
}

/// Inspects an entry that a call will delete or move.
///
/// # Errors
///
/// - `not_found`, `outside_roots`, `not_a_directory`.
/// - `invalid_arguments` for a project folder.
/// - `not_a_regular_file` for a device, socket or FIFO.
/// - `not_permitted`, `io`.
pub fn inspect_entry(
    workspace: &Workspace,
    at: &WorkspacePath,
) -> Result<ExistingEntry, ToolError> {
    inspect_entry_with(workspace, at, |dir, name| Ok((EntryFingerprint::compute(dir, name)?, None)))
}

/// Inspects an entry in the same way as [`inspect_entry`]. For a file, also decodes the text for
/// the preview.
///
/// # Errors
///
/// The errors of [`inspect_entry`].
pub(crate) fn inspect_entry_with_text(
    workspace: &Workspace,
    at: &WorkspacePath,
) -> Result<ExistingEntry, ToolError> {
    inspect_entry_with(workspace, at, EntryFingerprint::compute_with_bytes)
}

fn inspect_entry_with(
    workspace: &Workspace,
    at: &WorkspacePath,
    see: impl FnOnce(&Dir, &OsStr) -> io::Result<(EntryFingerprint, Option<Vec<u8>>)>,
) -> Result<ExistingEntry, ToolError> {
    let entry = EntryPath::resolve_without_following(workspace, at)?;
    let dir = workspace.open_dir(&entry.parent)?;
    let (seen, bytes) =
        see(&dir, &entry.name).map_err(|error| workspace.explain_io_error(at, &error))?;
    if seen.kind == FileKind::Special {
        let message = format!("{} is a FIFO, socket or device", at.given());
        return Err(ToolError::recoverable(ErrorCode::NotARegularFile, message));
    }
    require_removable(workspace, &dir, &entry)?;
    let text = bytes
        .and_then(|bytes| DecodedText::decode(at.given(), bytes).ok())
        .map(DecodedText::into_string);
    let fate = Restorability::for_entry(&seen, workspace, &dir);
    Ok(ExistingEntry { entry, fingerprint: seen, text, restorability: fate })
}

/// Rejects an entry that cannot be moved or deleted. This happens before permission is requested.
fn require_removable(workspace: &Workspace, dir: &Dir, entry: &EntryPath) -> Result<(), ToolError> {
    dir.require_can_create().map_err(|error| workspace.explain_io_error(&entry.path, &error))?;
    if dir.is_mounted(&entry.name) {
        let message = format!(
            "{} is a mount point, so it can be neither moved nor deleted. Change its content, \
             or unmount it with a command",
            entry.path.given()
        );
        return Err(ToolError::recoverable(ErrorCode::NotPermitted, message));
    }
    Ok(())
}

impl ExistingEntry {
    /// Returns whether the entry is a directory.
    #[must_use]
    pub(crate) fn is_directory(&self) -> bool {
        self.fingerprint.kind == FileKind::Directory
    }

    /// Returns whether the entry can be restored after its deletion.
    #[must_use]
    pub(crate) fn can_be_restored(&self) -> bool {
        !matches!(self.restorability, Restorability::NotRestorable(_))
    }

    /// Checks that a backup of the entry is possible.
    ///
    /// # Errors
    ///
    /// `io` if no backup is possible. The error states the reason.
    pub(in crate::files) fn require_restorable(&self) -> Result<(), ToolError> {
        let Restorability::NotRestorable(why) = &self.restorability else { return Ok(()) };
        let message = format!("{} cannot be kept: {why}", self.entry.path.given());
        Err(ToolError::recoverable(ErrorCode::Io, message))
    }

    /// Returns the entry in the form in which a call with several changes removes it.
    pub(in crate::files) fn to_entry_to_remove(&self) -> EntryToRemove<'_> {
        let can_be_restored = self.can_be_restored();
        EntryToRemove { entry: &self.entry, fingerprint: &self.fingerprint, can_be_restored }
    }

    /// Returns the change that deleting the entry would cause.
    #[must_use]
    pub(crate) fn deletion_change(&self) -> FileChange {
        let path = self.entry.path.path();
        match &self.text {
            Some(text) => diff::diff_texts(
                path,
                FileChangeOperation::Delete,
                text,
                "",
                Instant::now() + MAX_DIFF_TIME,
            ),
            None => FileChange::new(FileChangeOperation::Delete, path),
        }
    }

    /// Returns a note with the number of entries in a directory, and their size in bytes.
    #[must_use]
    pub(crate) fn size_note(&self) -> Option<Note> {
        let EntryFingerprint { entries, bytes, is_complete: is_whole, .. } = self.fingerprint;
        let key = if is_whole { "directory" } else { "directory-at-least" };
        let note = || Note::new(key).with_count("entries", entries).with_count("bytes", bytes);
        self.is_directory().then(note)
    }

    /// Returns a note if the entry cannot be restored after its deletion, or only until the next
    /// change.
    #[must_use]
    pub(crate) fn restorability_note(&self) -> Option<Note> {
        match &self.restorability {
            Restorability::Restorable => None,
            Restorability::UntilNextChange => {
                Some(Note::new("kept-once").with_count("bytes", MAX_UNDO_BYTES))
            }
            Restorability::NotRestorable(why) => {
                Some(Note::new("lost").with_joined_notes("why", [why.clone()], ""))
            }
        }
    }

    /// Rejects a directory if no backup of it is possible, and if it has too many entries to
    /// compare all of them with the preview. This happens before permission is requested.
    ///
    /// # Errors
    ///
    /// `too_large` if the entry is rejected.
    pub(crate) fn require_restorable_or_inspected(&self) -> Result<(), ToolError> {
        if self.can_be_restored() || self.fingerprint.is_complete {
            return Ok(());
        }
        let message = format!(
            "{} has too many entries to be inspected, and could not be restored. Delete it with a \
             command",
            self.entry.path.given()
        );
        Err(ToolError::recoverable(ErrorCode::TooLarge, message))
    }

    /// Deletes the entry if it has not changed since the preview. Creates a backup if possible.
    ///
    /// # Errors
    ///
    /// - `too_large` if no backup is possible and the entry has too many entries for a complete
    ///   comparison.
    /// - `changed_since_preview` if the entry was changed, or if the backup that the preview
    ///   promised is impossible. After such an error, the entry is back at its path.
    /// - `not_found`, `not_permitted`, `io`. The code `io` is also used if the entry was changed
    ///   and cannot be moved back, because another program uses its name.
    pub fn delete_and_record_undo(&self, workspace: &Workspace) -> Result<(), ToolError> {
        self.require_restorable_or_inspected()?;
        let path = self.entry.path.path().to_owned();
        let operation = match self.remove_if_unchanged(workspace)? {
            Some(before) => FileOperation::Deleted { path, backup: before },
            None => FileOperation::Unrecoverable { path },
        };
        workspace.undo_store().push(UndoEntry::new(vec![operation]));
        Ok(())
    }

    /// Removes the entry if it has not changed since the preview. Returns `None` if no backup was
    /// created.
    fn remove_if_unchanged(&self, workspace: &Workspace) -> Result<Option<Backup>, ToolError> {
        match self.remove_revocably(workspace)?.content {
            BackupOrQuarantine::Backup(backup) => Ok(Some(backup)),
            BackupOrQuarantine::Quarantined(aside) => aside.remove_for_good().map(|()| None),
        }
    }

    /// Removes the entry if it has not changed since the preview. The entry can be put back, even
    /// if no backup is possible.
    pub(in crate::files) fn remove_revocably(
        &self,
        workspace: &Workspace,
    ) -> Result<RevocableRemoval<'_>, ToolError> {
        let EntryPath { parent, name, path: at } = &self.entry;
        let dir = workspace.open_dir(parent)?;
        let removal = |content| RevocableRemoval { removed: self, content };
        if !self.can_be_restored() {
            let aside = Quarantined::move_aside_if_unchanged(
                workspace,
                dir,
                &self.entry,
                &self.fingerprint,
            )?;
            return Ok(removal(BackupOrQuarantine::Quarantined(aside)));
        }
        let undo = workspace.undo_store();
        let backup = match undo.move_in(&dir, name, self.fingerprint.bytes) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let copied = self.back_up_by_copy_and_remove(workspace, dir)?;
                return Ok(removal(BackupOrQuarantine::Backup(copied)));
            }
            Err(error) => return Err(explain_backup_error(workspace, at, &error)),
            Ok(backup) => backup.ok_or_else(|| backup_now_impossible_error(at))?,
        };
        if undo.fingerprint_backup(&backup).is_ok_and(|now| now == self.fingerprint) {
            return Ok(removal(BackupOrQuarantine::Backup(backup)));
        }
        self.restore(workspace, &dir, &backup)?;
        Err(changed_error(at))
    }

    /// Moves a backup back to its original name in the directory `dir`. If another entry has this
    /// name, the error names the path of the backup.
    fn restore(&self, workspace: &Workspace, dir: &Dir, backup: &Backup) -> Result<(), ToolError> {
        let EntryPath { name, path: at, .. } = &self.entry;
        let undo = workspace.undo_store();
        undo.restore(backup, dir, name).map_err(|error| match undo.backup_path(backup) {
            Some(place) => cannot_move_back_error(at, &path_text(&place)),
            None => workspace.explain_io_error(at, &error),
        })
    }

    /// Copies a file or link to the backups, and then removes it. Used if it and the backups are on
    /// different file systems.
    fn back_up_by_copy_and_remove(
        &self,
        workspace: &Workspace,
        dir: Dir,
    ) -> Result<Backup, ToolError> {
        let at = &self.entry.path;
        if self.is_directory() || self.fingerprint.bytes > MAX_UNDO_BYTES {
            return Err(backup_now_impossible_error(at));
        }
        let aside =
            Quarantined::move_aside_if_unchanged(workspace, dir, &self.entry, &self.fingerprint)?;
        let undo = workspace.undo_store();
        let copied = undo.copy_in(aside.dir(), aside.quarantine_name()).and_then(|backup| {
            let backup = backup.ok_or(io::ErrorKind::NotFound)?;
            let is_same = undo.fingerprint_backup(&backup)?.hash == self.fingerprint.hash;
            if !is_same {
                undo.remove_backup(&backup);
            }
            Ok(is_same.then_some(backup))
        });
        match copied {
            Ok(Some(backup)) => {
                // The backup exists. If removing the original fails, the next start removes it.
                drop(aside.remove_for_good());
                Ok(backup)
            }
            Ok(None) => aside.restore().and_then(|()| Err(changed_error(at))),
            Err(error) => {
                aside.restore().and_then(|()| Err(explain_backup_error(workspace, at, &error)))
            }
        }
    }

    /// Rejects a move that is impossible. This happens before permission is requested.
    pub(crate) fn require_movable(
        &self,
        workspace: &Workspace,
        to: &EntryPath,
    ) -> Result<(), ToolError> {
        let old = workspace.open_dir(&self.entry.parent)?;
        let existing = open::nearest_dir(workspace, &to.parent)?;
        if workspace.open_dir(&to.parent).is_ok_and(|dir| dir.entry_kind(&to.name).is_ok()) {
            return Err(already_exists_error(&to.path));
        }
        existing
            .require_can_create()
            .map_err(|error| workspace.explain_io_error(&to.path, &error))?;
        if existing.is_on_same_file_system(&old) {
            Ok(())
        } else {
            Err(other_file_system_error(&to.path))
        }
    }

    /// Moves the entry to a path that does not exist, if the entry has not changed since the
    /// preview. Creates missing directories.
    ///
    /// # Errors
    ///
    /// - `changed_since_preview` if the entry was changed. The entry is then moved back.
    /// - `invalid_arguments` if the new path exists.
    /// - `not_permitted`, including the case that the new path is on another file system.
    /// - `io`.
    pub fn move_to(&self, workspace: &Workspace, to: &WorkspacePath) -> Result<(), ToolError> {
        self.move_and_record_undo(workspace, &EntryPath::resolve_without_following(workspace, to)?)
    }

    pub(crate) fn move_and_record_undo(
        &self,
        workspace: &Workspace,
        to: &EntryPath,
    ) -> Result<(), ToolError> {
        let moved = self.to_moved_entry(workspace)?;
        let made = self.move_creating_dirs(workspace, to)?;
        let made = made.iter().map(|at| FileOperation::CreatedDirectory(at.path().to_owned()));
        let (from, to) = (self.entry.path.path().to_owned(), to.path.path().to_owned());
        let deeds = made.chain([FileOperation::Moved { from, to, moved }]).collect();
        workspace.undo_store().push(UndoEntry::new(deeds));
        Ok(())
    }

    /// Returns the entry in the form in which an undo of a move recognises it.
    pub(in crate::files) fn to_moved_entry(
        &self,
        workspace: &Workspace,
    ) -> Result<Option<MovedEntry>, ToolError> {
        let EntryFingerprint { kind, hash, .. } = self.fingerprint;
        Ok(match kind {
            FileKind::File => Some(MovedEntry::File(hash)),
            FileKind::Link => Some(MovedEntry::Link(hash)),
            FileKind::Directory => {
                let EntryPath { parent, name, path, .. } = &self.entry;
                let id = workspace.open_dir(parent)?.entry_id(name);
                let (_, number) = id.map_err(|error| workspace.explain_io_error(path, &error))?;
                Some(MovedEntry::Directory(number))
            }
            FileKind::Special => None,
        })
    }

    /// Moves the entry. Returns the directories that were created for it.
    pub(crate) fn move_creating_dirs(
        &self,
        workspace: &Workspace,
        to: &EntryPath,
    ) -> Result<Vec<WorkspacePath>, ToolError> {
        let from = &self.entry;
        let old = workspace.open_dir(&from.parent)?;
        let (new, made) = open::create_dirs(workspace, &to.parent)?;
        let moved = old.rename_to_unused_in(&from.name, &new, &to.name);
        let moved = moved.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists_error(&to.path),
            io::ErrorKind::CrossesDevices => other_file_system_error(&to.path),
            _ => workspace.explain_io_error(&from.path, &error),
        });
        let is_same =
            || EntryFingerprint::compute(&new, &to.name).is_ok_and(|now| now == self.fingerprint);
        let moved = moved.and_then(|()| {
            if is_same() {
                return Ok(());
            }
            let back = new.rename_to_unused_in(&to.name, &old, &from.name);
            back.map_err(|_taken| cannot_move_back_error(&from.path, to.path.given()))?;
            Err(changed_error(&from.path))
        });
        if moved.is_err() {
            open::remove_empty_dirs(&made);
        }
        moved.map(|()| made)
    }
}

impl RevocableRemoval<'_> {
    /// Puts the entry back.
    pub(in crate::files) fn revoke(self, workspace: &Workspace) -> Result<(), ToolError> {
        match self.content {
            BackupOrQuarantine::Backup(backup) => {
                // The directory may have been removed and created again, so its id is not compared.
                let at = &self.removed.entry.path;
                let dir = open::open_parent_without_links(at).map(|(dir, _)| dir);
                let dir = dir.map_err(|error| workspace.explain_io_error(at, &error))?;
                self.removed.restore(workspace, &dir, &backup)
            }
            BackupOrQuarantine::Quarantined(aside) => aside.restore(),
        }
    }

    /// Completes the removal. Returns the removed entry with its backup, if it has one.
    pub(in crate::files) fn finish(self) -> Option<(PathBuf, Backup)> {
        match self.content {
            BackupOrQuarantine::Backup(backup) => {
                Some((self.removed.entry.path.path().to_owned(), backup))
            }
            BackupOrQuarantine::Quarantined(aside) => {
                // The entry no longer has its name. If its content cannot be removed, the next
                // start removes it.
                drop(aside.remove_for_good());
                None
            }
        }
    }
}

impl Restorability {
    fn for_entry(seen: &EntryFingerprint, workspace: &Workspace, dir: &Dir) -> Self {
        let is_large = seen.bytes > MAX_UNDO_BYTES;
        let is_beside = workspace.undo_store().is_on_same_file_system(dir);
        // On another file system, a backup is a copy of the entry and needs additional space.
        let bytes = if !is_beside && !is_large { seen.bytes } else { 0 };
        if let Err(why) = workspace.state_folder().require_space(bytes) {
            return Self::NotRestorable(why.note());
        }
        match is_beside {
            true if is_large => Self::UntilNextChange,
            true => Self::Restorable,
            false if seen.kind == FileKind::Directory => {
                Self::NotRestorable(Note::new("lost-directory"))
            }
            false if is_large => Self::NotRestorable(Note::new("lost-large")),
            false => Self::Restorable,
        }
    }
}

/// Creates the error for a path that already exists.
pub(crate) fn already_exists_error(at: &WorkspacePath) -> ToolError {
    let message = format!("{} exists already. Choose another name, or delete it first", at.given());
    ToolError::recoverable(ErrorCode::InvalidArguments, message)
}

/// Creates the error for a destination on another file system.
pub(crate) fn other_file_system_error(at: &WorkspacePath) -> ToolError {
    let message = format!("{} is on another file system. Move it with a command", at.given());
    ToolError::recoverable(ErrorCode::NotPermitted, message)
}

pub(crate) fn changed_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} was changed by another program since this change was prepared, so it was left \
         unchanged. Check it again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Creates the error for an entry that was changed and cannot be moved back, because another entry
/// uses its name.
fn cannot_move_back_error(at: &WorkspacePath, place: &str) -> ToolError {
    let given = at.given();
    let message = format!(
        "{given} was changed by another program, and recreated while it was compared. The version \
         before that is in {place}"
    );
    ToolError::recoverable(ErrorCode::Io, message)
}

fn backup_now_impossible_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} could not be restored, which was unknown before, so it was not deleted. Try again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}
