//! Compares the copies of the project folders with the real folders.
//!
//! The result is correct only if the real files are still as the command saw them. A file that was
//! changed after the start of the command is therefore an obstacle, and the command runs again.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use callboard_sandbox::{LayerEntry, LayerEntryKind, read_layer};

use super::PreviewCopies;
use super::changes::{CommandChanges, PreviewObstacle};
use super::generated::GeneratedFolder;
use crate::error::ErrorCode;
use crate::files::apply::{FileBytesAndMode, PathChange, assess_crash_protection};
use crate::files::remove::{inspect_entry, inspect_entry_with_text};
use crate::files::system::{Dir, FileKind, link_count, mode_bits, read_all_if_within_limit};
use crate::files::walk::is_generated_folder;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::limits::{
    MAX_COUNTED_DEPTH, MAX_DIRECTORY_ENTRIES, MAX_LAYER_ENTRIES, MAX_PATHS_PER_APPLIED_PREVIEW,
    MAX_PREVIEWED_BYTES,
};

/// Compares all copies with their real folders.
pub(super) fn compare(
    copies: &PreviewCopies,
    workspace: &Workspace,
) -> Result<CommandChanges, PreviewObstacle> {
    let mut comparison = Comparison {
        workspace,
        copies,
        since: copies.since,
        bytes_left: MAX_PREVIEWED_BYTES,
        real_entries_left: MAX_LAYER_ENTRIES,
        new_folders: HashSet::new(),
        changes: CommandChanges::default(),
    };
    for folder in copies.folders() {
        comparison.compare_folder(&folder.path, &folder.layer)?;
    }
    let mut found = comparison.changes;
    let protection = assess_crash_protection(workspace, &found.paths);
    found.protection = protection.map_err(|error| match error.code() {
        Some(ErrorCode::ChangedSincePreview) => PreviewObstacle::Outdated,
        _ => PreviewObstacle::Inapplicable { why: error.to_string() },
    })?;
    Ok(found)
}

struct Comparison<'a> {
    workspace: &'a Workspace,
    copies: &'a PreviewCopies,
    /// The time before the command started, in nanoseconds since the Unix epoch.
    since: i128,
    bytes_left: u64,
    /// Number of entries of removed folders that may still be inspected.
    real_entries_left: usize,
    /// The folders of the copies that are no folders in reality. They have no real entries.
    new_folders: HashSet<PathBuf>,
    changes: CommandChanges,
}

/// An entry of a real folder.
struct RealEntry {
    dir: Dir,
    kind: FileKind,
}

impl Comparison<'_> {
    fn compare_folder(&mut self, root: &Path, layer: &Path) -> Result<(), PreviewObstacle> {
        let content = read_layer(layer, MAX_LAYER_ENTRIES);
        let content = content.map_err(|error| unreadable(root, &error))?;
        if content.is_cut {
            return Err(PreviewObstacle::TooLarge);
        }
        for (index, entry) in content.entries.iter().enumerate() {
            let path = root.join(&entry.path);
            if self.copies.protected.iter().any(|protected| path.starts_with(protected)) {
                // The content of a protected folder is not listed.
                if self.copies.protected.contains(&path) {
                    self.changes.skipped.push(path);
                }
                continue;
            }
            let generated = outermost_generated_folder(&entry.path);
            // The removal of a whole generated folder is shown, and can be undone.
            let generated = generated
                .filter(|folder| entry.path != *folder || entry.kind != LayerEntryKind::Removed);
            if let Some(folder) = generated {
                self.compare_generated_entry(entry, folder, (root, layer))?;
                continue;
            }
            let upper = layer.join("upper").join(&entry.path);
            self.compare_entry(entry, &path, &upper, &content.entries[index + 1..])?;
        }
        Ok(())
    }

    /// Compares an entry of a layer. `following` are the next entries of the layer, which begin
    /// with the content of the entry.
    fn compare_entry(
        &mut self,
        entry: &LayerEntry,
        path: &Path,
        upper: &Path,
        following: &[LayerEntry],
    ) -> Result<(), PreviewObstacle> {
        let at = self.workspace.locate_without_following(path);
        let at = at.map_err(|error| unreadable(path, &error))?;
        let real = self.find_real(&at)?;
        match &entry.kind {
            LayerEntryKind::Removed => match real {
                Some(real) => self.record_removal(&at, &real),
                None => Err(PreviewObstacle::Outdated),
            },
            LayerEntryKind::Folder { is_opaque } => {
                match real {
                    Some(real) if real.kind == FileKind::Directory => {
                        self.compare_folder_mode(path, entry.mode);
                        if *is_opaque {
                            let within =
                                following.iter().take_while(|it| it.path.starts_with(&entry.path));
                            let children =
                                within.filter(|it| it.path.parent() == Some(&entry.path));
                            let names = children.filter_map(|it| it.path.file_name()).collect();
                            self.record_removals_except(&at, &names)?;
                        }
                        return Ok(());
                    }
                    Some(real) => self.record_removal(&at, &real)?,
                    None => {}
                }
                self.new_folders.insert(path.to_owned());
                self.push(PathChange::AddDirectory { at, mode: entry.mode })
            }
            LayerEntryKind::File => self.compare_file(at, (upper, entry.mode), real),
            LayerEntryKind::Link => {
                let target = fs::read_link(upper).map_err(|error| unreadable(path, &error))?;
                if let Some(real) = real {
                    let name = path.file_name().unwrap_or_default();
                    let is_same = real.kind == FileKind::Link
                        && real.dir.read_link(name).is_ok_and(|old| old == target);
                    if is_same {
                        return Ok(());
                    }
                    self.record_removal(&at, &real)?;
                }
                self.push(PathChange::AddLink { at, target })
            }
            _ => {
                self.changes.skipped.push(path.to_owned());
                Ok(())
            }
        }
    }

    /// Returns the real entry at a path, if it exists.
    fn find_real(&self, at: &WorkspacePath) -> Result<Option<RealEntry>, PreviewObstacle> {
        let (Some(parent), Some(name)) = (at.parent(), at.path().file_name()) else {
            return Ok(None);
        };
        // In the copy, a folder may have taken the place of a file or of a link to another folder.
        if at.path().ancestors().any(|above| self.new_folders.contains(above)) {
            return Ok(None);
        }
        let Ok(dir) = self.workspace.open_dir(&parent) else { return Ok(None) };
        match dir.entry_kind(name) {
            Ok(kind) => Ok(Some(RealEntry { dir, kind })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(at.path(), &error)),
        }
    }

    fn compare_file(
        &mut self,
        at: WorkspacePath,
        (upper, mode): (&Path, u32),
        real: Option<RealEntry>,
    ) -> Result<(), PreviewObstacle> {
        let name = at.path().file_name().unwrap_or_default().to_owned();
        let before = match real {
            Some(real) if real.kind == FileKind::File => {
                Some(self.read_real(&at, &real.dir, &name)?)
            }
            Some(real) => {
                self.record_removal(&at, &real)?;
                None
            }
            None => None,
        };
        let file = fs::File::open(upper).map_err(|error| unreadable(at.path(), &error))?;
        // A command cannot set the special bits of a file.
        let special = before.as_ref().map_or(0, |before| before.mode & 0o7000);
        let mode = mode & (0o777 | special);
        let after = FileBytesAndMode { bytes: self.read_within_byte_budget(&at, &file)?, mode };
        match before.as_ref() == Some(&after) {
            true => Ok(()),
            false => self.push(PathChange::Write { at, before, after }),
        }
    }

    fn read_real(
        &mut self,
        at: &WorkspacePath,
        dir: &Dir,
        name: &OsStr,
    ) -> Result<FileBytesAndMode, PreviewObstacle> {
        let file = dir.open_file(name).map_err(|error| unreadable(at.path(), &error))?;
        let bytes = self.read_within_byte_budget(at, &file)?;
        let metadata = file.metadata().map_err(|error| unreadable(at.path(), &error))?;
        if link_count(&metadata) > 1 {
            return Err(PreviewObstacle::HardLinks { path: at.path().to_owned() });
        }
        // The content is read before the time, so a change during the comparison is detected.
        self.require_unchanged(dir, name, at.path())?;
        Ok(FileBytesAndMode { bytes, mode: mode_bits(&metadata) })
    }

    fn read_within_byte_budget(
        &mut self,
        at: &WorkspacePath,
        file: &fs::File,
    ) -> Result<Vec<u8>, PreviewObstacle> {
        let bytes = read_all_if_within_limit(file, self.bytes_left);
        let bytes = bytes.map_err(|error| unreadable(at.path(), &error))?;
        let bytes = bytes.ok_or(PreviewObstacle::TooLarge)?;
        self.bytes_left -= bytes.len() as u64;
        Ok(bytes)
    }

    fn record_removal(
        &mut self,
        at: &WorkspacePath,
        real: &RealEntry,
    ) -> Result<(), PreviewObstacle> {
        let name = at.path().file_name().unwrap_or_default();
        let look = real.dir.entry_metadata(name).map_err(|error| unreadable(at.path(), &error))?;
        // The text of a removed file is kept in memory, if it is not too large.
        let text_bytes = if look.kind == FileKind::File { look.bytes } else { 0 };
        let found = match self.bytes_left.checked_sub(text_bytes) {
            Some(left) => {
                self.bytes_left = left;
                inspect_entry_with_text(self.workspace, at)
            }
            None => inspect_entry(self.workspace, at),
        };
        let found = found.map_err(|error| unreadable(at.path(), &error))?;
        if found.require_restorable_or_inspected().is_err() {
            return Err(PreviewObstacle::TooLarge);
        }
        self.require_tree_unchanged(&real.dir, name, at.path(), 0)?;
        self.push(PathChange::Remove(Box::new(found)))
    }

    fn push(&mut self, change: PathChange) -> Result<(), PreviewObstacle> {
        if self.changes.paths.len() >= MAX_PATHS_PER_APPLIED_PREVIEW {
            return Err(PreviewObstacle::TooLarge);
        }
        self.changes.paths.push(change);
        Ok(())
    }

    /// Records that a command changed the mode of a folder. This change is not applied.
    fn compare_folder_mode(&mut self, path: &Path, mode: u32) {
        let real = path.symlink_metadata().map(|found| mode_bits(&found));
        if real.is_ok_and(|real| real & 0o777 != mode & 0o777) {
            self.changes.skipped_modes.push(path.to_owned());
        }
    }

    /// Records the removal of the old entries of a folder that the command replaced, except those
    /// in `names`, which exist in the new folder too.
    fn record_removals_except(
        &mut self,
        at: &WorkspacePath,
        names: &HashSet<&OsStr>,
    ) -> Result<(), PreviewObstacle> {
        let dir = self.workspace.open_dir(at).map_err(|error| unreadable(at.path(), &error))?;
        let entries = dir.entries(MAX_DIRECTORY_ENTRIES);
        let (mut entries, is_cut) = entries.map_err(|error| unreadable(at.path(), &error))?;
        if is_cut {
            return Err(PreviewObstacle::TooLarge);
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        for entry in entries.iter().filter(|entry| !names.contains(&*entry.name)) {
            let path = at.path().join(&entry.name);
            let at = self.workspace.locate_without_following(&path);
            let at = at.map_err(|error| unreadable(&path, &error))?;
            if let Some(real) = self.find_real(&at)? {
                self.record_removal(&at, &real)?;
            }
        }
        Ok(())
    }

    /// Compares an entry of a folder whose content tools generate. `folder` is the path of this
    /// folder beneath the project folder.
    fn compare_generated_entry(
        &mut self,
        entry: &LayerEntry,
        folder: &Path,
        (root, layer): (&Path, &Path),
    ) -> Result<(), PreviewObstacle> {
        let path = root.join(&entry.path);
        let at = self.workspace.locate_without_following(&path);
        let at = at.map_err(|error| unreadable(&path, &error))?;
        let real = self.find_real(&at)?;
        let is_real_folder = real.as_ref().is_some_and(|real| real.kind == FileKind::Directory);
        let is_folder = matches!(entry.kind, LayerEntryKind::Folder { .. });
        let is_kept = is_real_folder && entry.kind == LayerEntryKind::Folder { is_opaque: false };
        let mut removed = 0;
        if let Some(real) = real.filter(|_| !is_kept) {
            let before = self.real_entries_left;
            let name = path.file_name().unwrap_or_default();
            self.require_tree_unchanged(&real.dir, name, &path, 0)?;
            let is_removed = is_real_folder || entry.kind == LayerEntryKind::Removed;
            // A folder that is created again is not removed, but all of its old entries are.
            let inspected = before - self.real_entries_left - usize::from(is_folder);
            removed = if is_removed { inspected } else { 0 };
        }
        if is_folder && !is_kept {
            self.new_folders.insert(path.clone());
        }
        let generated = &mut self.changes.generated;
        if generated.last().is_none_or(|last| last.path() != root.join(folder)) {
            generated.push(GeneratedFolder::new(root, layer, folder, self.since));
        }
        let last = generated.last_mut();
        let added = last.map_or(Ok(()), |last| last.add(entry, removed));
        added.map_err(|error| unreadable(&path, &error))
    }

    fn require_unchanged(
        &self,
        dir: &Dir,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), PreviewObstacle> {
        let metadata = dir.entry_metadata(name).map_err(|error| unreadable(path, &error))?;
        match metadata.changed >= self.since {
            true => Err(PreviewObstacle::Outdated),
            false => Ok(()),
        }
    }

    /// Requires that an entry, and all entries in it, are unchanged since the start of the command.
    fn require_tree_unchanged(
        &mut self,
        dir: &Dir,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), PreviewObstacle> {
        let left = self.real_entries_left.checked_sub(1);
        self.real_entries_left = left.ok_or(PreviewObstacle::TooLarge)?;
        self.require_unchanged(dir, name, path)?;
        let is_folder = dir.entry_kind(name).is_ok_and(|kind| kind == FileKind::Directory);
        if !is_folder {
            return Ok(());
        }
        if depth > MAX_COUNTED_DEPTH {
            return Err(PreviewObstacle::TooLarge);
        }
        let inner = dir.open_dir(name).map_err(|error| unreadable(path, &error))?;
        let (entries, is_cut) =
            inner.entries(MAX_DIRECTORY_ENTRIES).map_err(|error| unreadable(path, &error))?;
        if is_cut {
            return Err(PreviewObstacle::TooLarge);
        }
        entries
            .iter()
            .try_for_each(|entry| self.require_tree_unchanged(&inner, &entry.name, path, depth + 1))
    }
}

/// Returns the outermost folder of a path whose content tools generate. The files of a repository
/// are not generated: their changes are applied all or none, like those of other files.
fn outermost_generated_folder(path: &Path) -> Option<&Path> {
    let is_in_repository = |path: &Path| path.iter().any(|name| name == ".git");
    let is_generated = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default();
        is_generated_folder(name) && !is_in_repository(folder)
    };
    path.ancestors().filter(is_generated).last()
}

fn unreadable(path: &Path, error: &impl Display) -> PreviewObstacle {
    PreviewObstacle::Unreadable { path: path.to_owned(), why: error.to_string() }
}
