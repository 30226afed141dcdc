//! Folders whose content tools generate, e.g. `target` and `node_modules`. A command may change
//! many files in such a folder, so the changes are neither shown nor undone, and are applied one by
//! one.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use callboard_sandbox::{LayerEntry, LayerEntryKind};

use crate::error::ToolError;
use crate::files::remove::changed_error;
use crate::files::state::journal::{remove_tree, unique_temporary_name};
use crate::files::system::{
    Dir, EntryMetadata, FileKind, FileVisibility, PinnedDirectory, set_mode_bits,
};
use crate::files::workspace::{Workspace, WorkspacePath, open};

/// A folder whose content tools generate, and the changes in it.
#[derive(Debug)]
pub(crate) struct GeneratedFolder {
    /// The project folder.
    root: PathBuf,
    /// The folder in the layer that corresponds to the project folder.
    upper: PathBuf,
    /// The path of the generated folder.
    path: PathBuf,
    /// The time before the command started, in nanoseconds since the Unix epoch.
    since: i128,
    /// The changed entries, parents first.
    entries: Vec<GeneratedEntryChange>,
    /// Number of changed files and links.
    files: u64,
    /// Total size of the changed files.
    bytes: u64,
    /// Number of removed files and folders.
    removed: u64,
}

/// A change of one entry.
#[derive(Debug)]
struct GeneratedEntryChange {
    /// The entry in the layer. Its path is beneath the project folder.
    entry: LayerEntry,
    /// The metadata of a file in the layer at the time of the comparison.
    look: Option<EntryMetadata>,
}

impl GeneratedFolder {
    /// Creates a value without changes. `folder` is the path of the generated folder beneath the
    /// project folder `root`, and `layer` is the layer of the project folder.
    pub(super) fn new(root: &Path, layer: &Path, folder: &Path, since: i128) -> Self {
        Self {
            root: root.to_owned(),
            upper: layer.join("upper"),
            path: root.join(folder),
            since,
            entries: Vec::new(),
            files: 0,
            bytes: 0,
            removed: 0,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number and the total size of the changed files, and the number of removed
    /// entries.
    pub(super) fn file_byte_and_removal_counts(&self) -> (u64, u64, u64) {
        (self.files, self.bytes, self.removed)
    }

    /// Adds a change. `removed` is the number of real entries that it removes.
    pub(super) fn add(&mut self, entry: &LayerEntry, removed: usize) -> io::Result<()> {
        let mut look = None;
        if entry.kind == LayerEntryKind::File {
            let (dir, name) = self.open_layer_parent(&entry.path)?;
            let found = dir.entry_metadata(&name)?;
            self.bytes += found.bytes;
            look = Some(found);
        }
        self.files += u64::from(matches!(entry.kind, LayerEntryKind::File | LayerEntryKind::Link));
        self.removed += removed as u64;
        self.entries.push(GeneratedEntryChange { entry: entry.clone(), look });
        Ok(())
    }

    /// Requires that no real file was changed since the command started. Blocks.
    ///
    /// # Errors
    ///
    /// `changed_since_preview`.
    pub(crate) fn require_unchanged(&self, workspace: &Workspace) -> Result<(), ToolError> {
        self.entries.iter().try_for_each(|GeneratedEntryChange { entry, .. }| {
            let at = workspace.locate_without_following(&self.root.join(&entry.path))?;
            let parent = at.parent().zip(at.path().file_name());
            let dir =
                parent.and_then(|(parent, name)| Some((workspace.open_dir(&parent).ok()?, name)));
            let found = dir.and_then(|(dir, name)| dir.entry_metadata(name).ok());
            let is_changed =
                found.is_some_and(|it| it.kind != FileKind::Directory && it.changed >= self.since);
            if is_changed { Err(changed_error(&at)) } else { Ok(()) }
        })
    }

    /// Applies the changes to the real folder, one by one. If one fails, the earlier ones stay
    /// applied. Blocks.
    ///
    /// # Errors
    ///
    /// `not_permitted`, `outside_roots`, `io`.
    pub(crate) fn apply(&self, workspace: &Workspace) -> Result<(), ToolError> {
        self.entries.iter().try_for_each(|change| {
            let at = workspace.locate_without_following(&self.root.join(&change.entry.path))?;
            let (dir, name) = open_or_create_parent(workspace, &at)?;
            self.apply_entry(&dir, &name, change)
                .map_err(|error| workspace.explain_io_error(&at, &error))
        })
    }

    fn apply_entry(
        &self,
        dir: &Dir,
        name: &OsStr,
        change: &GeneratedEntryChange,
    ) -> io::Result<()> {
        let old = dir.entry_kind(name).ok();
        match change.entry.kind {
            LayerEntryKind::Removed => remove_tree(dir, name).or_else(ignore_missing),
            LayerEntryKind::Folder { is_opaque: false } if old == Some(FileKind::Directory) => {
                Ok(())
            }
            LayerEntryKind::Folder { .. } => {
                if old.is_some() {
                    remove_tree(dir, name)?;
                }
                dir.create_dir(name)
            }
            LayerEntryKind::File => {
                if old == Some(FileKind::Directory) {
                    remove_tree(dir, name)?;
                }
                self.replace_file(dir, name, change)
            }
            LayerEntryKind::Link => {
                if old.is_some() {
                    remove_tree(dir, name)?;
                }
                let (layer, name_in_layer) = self.open_layer_parent(&change.entry.path)?;
                dir.create_link(&layer.read_link(&name_in_layer)?, name)
            }
            _ => Ok(()),
        }
    }

    /// Replaces a file by a copy of a file in the layer. The file has either its old or its new
    /// content.
    fn replace_file(
        &self,
        dir: &Dir,
        name: &OsStr,
        change: &GeneratedEntryChange,
    ) -> io::Result<()> {
        let changed = || io::Error::other("the previewed file was changed");
        let look = change.look.ok_or_else(changed)?;
        let (layer, name_in_layer) = self.open_layer_parent(&change.entry.path)?;
        let source = layer.open_file(&name_in_layer)?;
        let temporary = unique_temporary_name();
        let mut copy = dir.create_new_file(&temporary, FileVisibility::Owner)?;
        let copied = io::copy(&mut (&source).take(look.bytes), &mut copy).and_then(|_bytes| {
            if layer.entry_metadata(&name_in_layer)? != look {
                return Err(changed());
            }
            // Build tools compare the times of files.
            copy.set_modified(source.metadata()?.modified()?)?;
            set_mode_bits(&copy, change.entry.mode & 0o777)?;
            dir.rename_over(&temporary, name)
        });
        copied.inspect_err(|_| drop(dir.remove_file(&temporary)))
    }

    /// Opens the folder in the layer that contains an entry. Follows no links.
    fn open_layer_parent(&self, path: &Path) -> io::Result<(Dir, OsString)> {
        let parent = Path::new(".").join(path.parent().unwrap_or(Path::new("")));
        let dir = PinnedDirectory::pin(&self.upper)?.open_dir_without_links(&parent)?;
        Ok((dir, path.file_name().unwrap_or_default().to_owned()))
    }
}

fn open_or_create_parent(
    workspace: &Workspace,
    at: &WorkspacePath,
) -> Result<(Dir, OsString), ToolError> {
    let parent = at.parent().ok_or_else(|| ToolError::fatal("a project folder is no entry"))?;
    let name = at.path().file_name().unwrap_or_default().to_owned();
    Ok((open::create_dirs(workspace, &parent)?.0, name))
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
