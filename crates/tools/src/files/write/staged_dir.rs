//! The directories of staged entries. A call with few entries keeps them open. A call with many
//! entries opens them again for each step, because a process may open only about 1,000 files.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::crash_protection::{RepairCopyLocation, ReplaceOrInPlace};
use super::stage_error::changed_error;
use super::{FileWrite, state_folder_error};
use crate::error::{ErrorCode, ToolError};
use crate::files::Durability;
use crate::files::system::{Dir, FileId};
use crate::files::workspace::{Workspace, WorkspacePath, WorkspaceRoot, open};
use crate::limits::MAX_FILES_PER_EDIT_CALL;

/// The state that the staged entries of one call share.
#[derive(Debug)]
pub(in crate::files) struct Staging<'a> {
    pub(in crate::files) workspace: &'a Workspace,
    /// Whether files and directories stay open until the end of the call.
    pub(super) keeps_open: bool,
    /// Whether the old file of each change is compared before the first file is moved into place.
    pub(super) compares_first: bool,
    /// The folder of the journal, which contains copies of some files.
    journal_folder: OnceCell<StagedDir>,
}

impl<'a> Staging<'a> {
    /// Prepares for a call with this number of entries.
    pub(in crate::files) fn new(workspace: &'a Workspace, entries: usize) -> Self {
        let keeps_open = entries <= MAX_FILES_PER_EDIT_CALL;
        let compares_first = entries > 1;
        Self { workspace, keeps_open, compares_first, journal_folder: OnceCell::new() }
    }

    /// Returns the open directory `dir` as the directory of staged entries. Its path `at` must not
    /// contain links.
    pub(in crate::files) fn wrap_open_dir(
        &self,
        at: &WorkspacePath,
        dir: Dir,
    ) -> io::Result<StagedDir> {
        StagedDir::new(at.root.clone(), at.path_in_root.clone(), dir, self.keeps_open)
    }

    /// Opens the folder of the journal.
    pub(super) fn open_journal_folder(&self, folder: &Path) -> io::Result<StagedDir> {
        if let Some(opened) = self.journal_folder.get() {
            return Ok(opened.clone());
        }
        let root = WorkspaceRoot::pin_at_real_path(&folder.canonicalize()?)?;
        let dir = root.pinned.open_dir(Path::new(""))?;
        let opened = StagedDir::new(Arc::new(root), PathBuf::new(), dir, true)?;
        Ok(self.journal_folder.get_or_init(|| opened).clone())
    }
}

/// The directory of a staged entry.
#[derive(Debug, Clone)]
pub(in crate::files) struct StagedDir {
    root: Arc<WorkspaceRoot>,
    path_in_root: PathBuf,
    id: FileId,
    /// The open directory. `None` if the directory is opened for each step.
    opened: Option<Rc<Dir>>,
}

impl StagedDir {
    fn new(
        root: Arc<WorkspaceRoot>,
        path_in_root: PathBuf,
        dir: Dir,
        keeps_open: bool,
    ) -> io::Result<Self> {
        let id = dir.own_id()?;
        Ok(Self { root, path_in_root, id, opened: keeps_open.then(|| Rc::new(dir)) })
    }

    /// Returns a directory that does not have its final path yet. It has this id already.
    pub(in crate::files) fn for_later(at: &WorkspacePath, id: FileId) -> Self {
        let (root, path_in_root) = (at.root.clone(), at.path_in_root.clone());
        Self { root, path_in_root, id, opened: None }
    }

    /// Waits until the entries of the directory are on disk. Does nothing if `waited` already
    /// contains the directory.
    pub(in crate::files) fn sync_once(
        &self,
        durability: Durability,
        waited: &mut HashSet<FileId>,
    ) -> io::Result<()> {
        match waited.insert(self.id) {
            true => durability.sync_directory(&*self.open()?),
            false => Ok(()),
        }
    }

    /// Opens the directory. Fails if another directory has its path now.
    pub(in crate::files) fn open(&self) -> io::Result<Rc<Dir>> {
        if let Some(opened) = &self.opened {
            return Ok(opened.clone());
        }
        let dir = self.root.pinned.open_dir_without_links(&self.path_in_root)?;
        if dir.own_id()? == self.id {
            Ok(Rc::new(dir))
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Returns the path of the directory after all links are followed.
    pub(in crate::files) fn real_path(&self) -> PathBuf {
        self.root.real_path.join(&self.path_in_root)
    }
}

/// The place of a file to write.
#[derive(Debug)]
pub(in crate::files) struct WriteTarget {
    /// The path of the file after all links are followed.
    pub(in crate::files) path: PathBuf,
    pub(in crate::files) dir: StagedDir,
    pub(in crate::files) name: OsString,
    /// The directory that contains the temporary files. `None` if it is the directory of the file.
    pub(in crate::files) temporary_dir: Option<StagedDir>,
    /// The directories that were created for the file.
    pub(in crate::files) created_dirs: Vec<WorkspacePath>,
}

impl WriteTarget {
    /// Finds the file that a change writes, and follows all links to it. Creates the missing
    /// directories of a new file.
    pub(super) fn resolve(
        staging: &Staging<'_>,
        change: FileWrite<'_>,
        manner: ReplaceOrInPlace,
    ) -> Result<Self, ToolError> {
        let (workspace, at) = (staging.workspace, change.path);
        let explain = |error: io::Error| workspace.explain_io_error(at, &error);
        let target = workspace.canonicalize(at)?;
        let (Some(parent), Some(name)) = (target.parent(), target.path_in_root().file_name())
        else {
            return Err(explain(io::ErrorKind::IsADirectory.into()));
        };
        let (dir, made) = match change.expected {
            None => open::create_dirs(workspace, &parent)?,
            Some(_) => match workspace.open_dir(&parent) {
                Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                    return Err(changed_error(at));
                }
                other => (other?, Vec::new()),
            },
        };
        Ok(Self {
            path: target.path().to_owned(),
            dir: staging.wrap_open_dir(&parent, dir).map_err(explain)?,
            name: name.to_owned(),
            temporary_dir: Self::open_repair_copy_dir(staging, manner)?,
            created_dirs: made,
        })
    }

    /// Returns the directory of the copies. Returns `None` if it is the directory of the file.
    pub(in crate::files) fn open_repair_copy_dir(
        staging: &Staging<'_>,
        manner: ReplaceOrInPlace,
    ) -> Result<Option<StagedDir>, ToolError> {
        match (manner.repair_copy_location, staging.workspace.journal_folder_after_recovery()) {
            (RepairCopyLocation::StateFolder, Some(folder)) => {
                let dir = staging.open_journal_folder(folder);
                dir.map(Some).map_err(|error| state_folder_error(staging.workspace, &error))
            }
            _ => Ok(None),
        }
    }
}
