//! Finds the directories of the changes, and stages the changes in the right order.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use callboard_text::group_thousands;

use super::PathChange;
use crate::error::{ErrorCode, ToolError};
use crate::files::remove::{ExistingEntry, changed_error};
use crate::files::state::journal::{JournaledFile, random_call_number, temporary_name};
use crate::files::state::undo_entry::ModeChange;
use crate::files::system::FileId;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{
    AdditionPlace, CrashProtection, FileWrite, LinkOrDir, ReplaceOrInPlace, StagedCall, StagedDir,
    StagedFile, StagedLinkOrDir, StagedRemoval, Staging, WriteTarget, journal_names_of_entry,
};
use crate::limits::{MAX_JOURNAL_ENTRIES, MAX_PATHS_PER_APPLIED_PREVIEW, MAX_PREVIEWED_BYTES};
use crate::progress::{FilesDone, OnProgress};

/// The changes of a call, sorted by their kind. A path is identified by its real path.
pub(super) struct ApplyPlan<'a> {
    staging: Staging<'a>,
    removals: BTreeMap<PathBuf, &'a ExistingEntry>,
    /// The directories that do not exist, or will not exist after the removals. Parents come first.
    directories: BTreeMap<PathBuf, NewDirectory>,
    links: BTreeMap<PathBuf, NewLink<'a>>,
    writes: BTreeMap<PathBuf, PlannedFile<'a>>,
    /// The open directories that exist before and after the call.
    existing: HashMap<PathBuf, StagedDir>,
}

/// A directory to create.
struct NewDirectory {
    at: WorkspacePath,
    /// `None` for the default mode.
    mode: Option<u32>,
    /// The nearest parent that exists before and after the call. The new directory is created there
    /// at a temporary name.
    base: StagedDir,
}

/// A link to create.
struct NewLink<'a> {
    at: &'a WorkspacePath,
    target: &'a Path,
    base: StagedDir,
}

/// A file to write.
struct PlannedFile<'a> {
    write: FileWrite<'a>,
    /// The directory of the temporary file, as in [`NewDirectory::base`].
    base: StagedDir,
    /// The id of the file in the preview. `None` for a new file.
    id: Option<FileId>,
}

impl<'a> ApplyPlan<'a> {
    /// Compares the paths with the preview, as far as this needs no file content. Changes nothing.
    pub(super) fn from_changes(
        workspace: &'a Workspace,
        changes: &'a [PathChange],
    ) -> Result<Self, ToolError> {
        require_limits(changes)?;
        let mut plan = Self {
            staging: Staging::new(workspace, changes.len()),
            removals: BTreeMap::new(),
            directories: BTreeMap::new(),
            links: BTreeMap::new(),
            writes: BTreeMap::new(),
            existing: HashMap::new(),
        };
        for change in changes {
            if let PathChange::Remove(found) = change {
                plan.add_removal(found)?;
            }
        }
        for change in changes {
            plan.add_change(change)?;
        }
        if plan.entry_count() > MAX_JOURNAL_ENTRIES {
            return Err(too_large_error("The command creates too many folders"));
        }
        Ok(plan)
    }

    /// Returns the writes of files that exist.
    pub(super) fn rewrites(&self) -> Vec<FileWrite<'a>> {
        let writes = self.writes.values().map(|planned| planned.write);
        writes.filter(|write| write.expected.is_some()).collect()
    }

    fn workspace(&self) -> &'a Workspace {
        self.staging.workspace
    }

    fn entry_count(&self) -> usize {
        self.removals.len() + self.directories.len() + self.links.len() + self.writes.len()
    }

    fn add_removal(&mut self, found: &'a ExistingEntry) -> Result<(), ToolError> {
        found.require_restorable_or_inspected()?;
        let path = self.workspace().path_beneath_real_root(&found.entry.path);
        let parent = path.parent().unwrap_or(&path);
        let has_entries = self.removals.range(path.clone()..).next();
        let is_nested = has_entries.is_some_and(|(other, _)| other.starts_with(&path));
        if is_nested || self.is_removed(parent) {
            return Err(changed_error(&found.entry.path));
        }
        self.removals.insert(path, found);
        Ok(())
    }

    /// Returns whether the call removes the entry at a path that exists before the call.
    fn is_removed(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.removals.contains_key(above))
    }

    fn add_change(&mut self, change: &'a PathChange) -> Result<(), ToolError> {
        match change {
            PathChange::Remove(_) => Ok(()),
            PathChange::Write { at, before, after } => {
                let mode_before = before.as_ref().map(|before| before.mode & 0o7777);
                // A file keeps its special bits, but no file gets new ones.
                let special = after.mode & mode_before.unwrap_or(0) & 0o7000;
                let modes =
                    ModeChange { before: mode_before, after: (after.mode & 0o777) | special };
                let expected = before.as_ref().map(|before| &before.bytes[..]);
                let write = FileWrite::new(at, expected, &after.bytes);
                self.add_write(FileWrite { modes: Some(modes), ..write })
            }
            PathChange::AddLink { at, target } => {
                let (path, base) = self.add_missing_parents(at)?;
                self.links.insert(path, NewLink { at, target, base });
                Ok(())
            }
            PathChange::AddDirectory { at, mode } => {
                let (path, base) = self.add_missing_parents(at)?;
                let directory = NewDirectory { at: at.clone(), mode: Some(*mode), base };
                self.directories.insert(path, directory);
                Ok(())
            }
        }
    }

    fn add_write(&mut self, write: FileWrite<'a>) -> Result<(), ToolError> {
        let at = write.path;
        if write.expected.is_none() {
            let (path, base) = self.add_missing_parents(at)?;
            self.writes.insert(path, PlannedFile { write, base, id: None });
            return Ok(());
        }
        let path = self.require_unused_path(at)?;
        let (parent, name) = parent_and_name(self.workspace(), at)?;
        let base = self.open_existing_directory(&parent)?.ok_or_else(|| changed_error(at))?;
        let id = base.open().and_then(|dir| dir.entry_id(&name));
        let id = Some(id.map_err(|error| self.workspace().explain_io_error(at, &error))?);
        self.writes.insert(path, PlannedFile { write, base, id });
        Ok(())
    }

    /// Adds the missing parents of a new entry. Returns its real path, and the nearest parent that
    /// exists before and after the call.
    fn add_missing_parents(
        &mut self,
        at: &WorkspacePath,
    ) -> Result<(PathBuf, StagedDir), ToolError> {
        let path = self.require_unused_path(at)?;
        let (mut parent, name) = parent_and_name(self.workspace(), at)?;
        let mut missing = Vec::new();
        let base = loop {
            if let Some(dir) = self.open_existing_directory(&parent)? {
                break dir;
            }
            let above = parent.parent();
            missing.push(parent);
            // The project folder itself is missing.
            parent = above.ok_or_else(|| {
                self.workspace().explain_io_error(at, &io::ErrorKind::NotFound.into())
            })?;
        };
        let exists = || base.open().is_ok_and(|dir| dir.entry_kind(&name).is_ok());
        if missing.is_empty() && !self.is_removed(&path) && exists() {
            return Err(changed_error(at));
        }
        for at in missing {
            let (path, base) = (self.workspace().path_beneath_real_root(&at), base.clone());
            self.directories.entry(path).or_insert(NewDirectory { at, mode: None, base });
        }
        Ok((path, base))
    }

    /// Returns the real path of an entry that the call adds or writes. Fails if another change adds
    /// or writes the same path.
    fn require_unused_path(&self, at: &WorkspacePath) -> Result<PathBuf, ToolError> {
        let path = self.workspace().path_beneath_real_root(at);
        // A parent folder may have been added without its mode before.
        let is_directory = self.directories.get(&path).is_some_and(|it| it.mode.is_some());
        match is_directory || self.links.contains_key(&path) || self.writes.contains_key(&path) {
            true => Err(changed_error(at)),
            false => Ok(path),
        }
    }

    /// Opens a directory that exists before and after the call. Returns `None` if the directory is
    /// missing or the call removes it.
    fn open_existing_directory(
        &mut self,
        at: &WorkspacePath,
    ) -> Result<Option<StagedDir>, ToolError> {
        let path = self.workspace().path_beneath_real_root(at);
        if self.is_removed(&path) {
            return Ok(None);
        }
        if let Some(opened) = self.existing.get(&path) {
            return Ok(Some(opened.clone()));
        }
        let opened = at.root.pinned.open_dir_without_links(&at.path_in_root);
        match opened.and_then(|dir| self.staging.wrap_open_dir(at, dir)) {
            Ok(dir) => {
                self.existing.insert(path, dir.clone());
                Ok(Some(dir))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                // A link in the path leads out of the project folders, or to another directory.
                self.workspace().canonicalize(at)?;
                Err(changed_error(at))
            }
            Err(error) => Err(self.workspace().explain_io_error(at, &error)),
        }
    }
}

/// Staging.
impl<'a> ApplyPlan<'a> {
    /// Creates the new entries at temporary names. Changes no other entry.
    pub(super) fn stage(
        self,
        protection: &CrashProtection,
        watch: &mut OnProgress<'_>,
    ) -> Result<StagedCall<'a>, ToolError> {
        let workspace = self.workspace();
        let manners = self.choose_replace_or_in_place(protection)?;
        let number = random_call_number();
        let names = protection.keeps_backups().then(|| self.journal_files(&manners, number));
        let mut call = StagedCall::begin(workspace, names)?;
        let mut temporaries = (0..).map(|entry| temporary_name(number, entry));
        let mut next_temporary = || temporaries.next().unwrap_or_default();
        for found in self.removals.values() {
            let found = found.to_entry_to_remove();
            call.removals.push(StagedRemoval::create(&self.staging, found, next_temporary())?);
        }
        let mut created = HashMap::new();
        for (path, directory) in &self.directories {
            let NewDirectory { at, mode, base } = directory;
            let place = self.addition_place(path, at, base, &created, next_temporary())?;
            let content = LinkOrDir::Directory(*mode);
            call.stage_link_or_dir(StagedLinkOrDir::new(&self.staging, place, content))?;
            let dir = call.additions.last().and_then(StagedLinkOrDir::as_dir);
            created.extend(dir.map(|dir| (path.as_path(), dir)));
        }
        for (path, NewLink { at, target, base }) in &self.links {
            let place = self.addition_place(path, at, base, &created, next_temporary())?;
            let content = LinkOrDir::Link(target);
            call.stage_link_or_dir(StagedLinkOrDir::new(&self.staging, place, content))?;
        }
        let total_bytes = self.writes.values().map(|planned| planned.write.bytes.len()).sum();
        let (files, total_files) = (call.removals.len() + call.additions.len(), self.entry_count());
        let mut far = FilesDone { files, total_files, bytes: 0, total_bytes: Some(total_bytes) };
        for ((path, planned), manner) in self.writes.iter().zip(manners) {
            let mut filled = |bytes| watch(FilesDone { bytes: far.bytes + bytes, ..far });
            let (write, target) =
                (planned.write, self.write_target(path, planned, manner, &created)?);
            let temporary = next_temporary();
            let staged = StagedFile::new(&self.staging, write, target, manner, temporary);
            call.stage_file(staged, &mut filled)?;
            let bytes = far.bytes + write.bytes.len();
            far = FilesDone { files: far.files + 1, bytes, ..far };
            watch(far);
        }
        Ok(call)
    }

    /// Returns the way in which each file is written. If the call changes several names of a file,
    /// each name gets its own file, because each may get another content.
    fn choose_replace_or_in_place(
        &self,
        protection: &CrashProtection,
    ) -> Result<Vec<ReplaceOrInPlace>, ToolError> {
        let mut counts = HashMap::new();
        let removed = self.removals.values().filter_map(|found| {
            let dir = self.workspace().open_dir(&found.entry.parent).ok()?;
            dir.entry_id(&found.entry.name).ok()
        });
        for id in removed.chain(self.writes.values().filter_map(|planned| planned.id)) {
            *counts.entry(id).or_insert(0) += 1;
        }
        let mut manners =
            protection.choose_replace_or_in_place(self.workspace(), &self.rewrites())?.into_iter();
        let manners = self.writes.values().map(|planned| {
            let mut manner = planned.id.and_then(|_| manners.next()).unwrap_or_default();
            manner.breaks_links = planned.id.is_some_and(|id| counts[&id] > 1);
            manner
        });
        Ok(manners.collect())
    }

    /// Returns the records for the journal, in the order in which the entries are staged.
    fn journal_files(&self, manners: &[ReplaceOrInPlace], number: u64) -> Vec<JournaledFile> {
        let removals = self.removals.keys().map(|path| (path, None));
        let directories = self.directories.iter().map(|(path, it)| (path, Some(&it.base)));
        let links = self.links.iter().map(|(path, it)| (path, Some(&it.base)));
        let additions = removals.chain(directories).chain(links);
        let additions = additions.map(|(path, base)| (path, base.map(StagedDir::real_path)));
        let writes = self.writes.iter().zip(manners).map(|((path, planned), manner)| {
            let copies = manner.repair_copy_folder(self.workspace());
            (path, copies.or_else(|| Some(planned.base.real_path())))
        });
        let names = additions.chain(writes).enumerate().map(|(entry, (path, temporary_dir))| {
            let dir = path.parent().unwrap_or(path).to_owned();
            let name = path.file_name().unwrap_or_default().to_owned();
            journal_names_of_entry(dir, name, temporary_name(number, entry), temporary_dir)
        });
        names.collect()
    }

    fn addition_place(
        &self,
        path: &Path,
        at: &WorkspacePath,
        base: &StagedDir,
        created: &HashMap<&Path, StagedDir>,
        temporary: OsString,
    ) -> Result<AdditionPlace, ToolError> {
        let (_, name) = parent_and_name(self.workspace(), at)?;
        let (dir, temporary_dir) = (dir_of(path, base, created), base.clone());
        Ok(AdditionPlace { at: at.clone(), dir, name, temporary_dir, temporary })
    }

    fn write_target(
        &self,
        path: &Path,
        planned: &PlannedFile<'_>,
        manner: ReplaceOrInPlace,
        created: &HashMap<&Path, StagedDir>,
    ) -> Result<WriteTarget, ToolError> {
        let at = planned.write.path;
        let (_, name) = parent_and_name(self.workspace(), at)?;
        let temporary_dir = match planned.id {
            Some(_) => WriteTarget::open_repair_copy_dir(&self.staging, manner)?,
            None => Some(planned.base.clone()),
        };
        let dir = dir_of(path, &planned.base, created);
        let path = at.path().to_owned();
        Ok(WriteTarget { path, dir, name, temporary_dir, created_dirs: Vec::new() })
    }
}

/// Returns the directory of an entry: a new directory, or the existing directory `base`.
fn dir_of(path: &Path, base: &StagedDir, created: &HashMap<&Path, StagedDir>) -> StagedDir {
    let created = path.parent().and_then(|parent| created.get(parent));
    created.unwrap_or(base).clone()
}

fn parent_and_name(
    workspace: &Workspace,
    at: &WorkspacePath,
) -> Result<(WorkspacePath, OsString), ToolError> {
    let is_root = || workspace.explain_io_error(at, &io::ErrorKind::IsADirectory.into());
    let name = at.path_in_root().file_name();
    let (parent, name) = at.parent().zip(name).ok_or_else(is_root)?;
    Ok((parent, name.to_owned()))
}

/// Rejects calls that could not be recovered or undone completely.
fn require_limits(changes: &[PathChange]) -> Result<(), ToolError> {
    if changes.len() > MAX_PATHS_PER_APPLIED_PREVIEW {
        let most = group_thousands(MAX_PATHS_PER_APPLIED_PREVIEW as u64);
        return Err(too_large_error(&format!("The command changes more than {most} paths")));
    }
    let contents = changes.iter().flat_map(|change| match change {
        PathChange::Write { before, after, .. } => [before.as_ref(), Some(after)],
        _ => [None, None],
    });
    let bytes: usize = contents.flatten().map(|content| content.bytes.len()).sum();
    if bytes as u64 > MAX_PREVIEWED_BYTES {
        return Err(too_large_error("The command changes files that are too large"));
    }
    Ok(())
}

fn too_large_error(what: &str) -> ToolError {
    let message = format!("{what}, so its changes cannot be applied in one step");
    ToolError::recoverable(ErrorCode::TooLarge, message)
}
