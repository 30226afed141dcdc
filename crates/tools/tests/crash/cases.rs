//! The file changes that the tests interrupt, and the states that are correct after an
//! interruption.

use std::fs;
use std::path::{Path, PathBuf};

use acp_tools::files::Durability;
use acp_tools::files::remove::inspect_entry;
use acp_tools::files::write::{FileWrite, write_all_or_none};
use acp_tools::{ToolError, Workspace};
use tempfile::TempDir;

/// Names of two files that do not exist. The process looks them up before and after a change, so
/// that a trace shows where the change begins and ends.
pub(crate) const BEGIN_MARKER: &str = "/crash-begins-here";
pub(crate) const END_MARKER: &str = "/crash-ends-here";

/// A change of some files.
pub(crate) struct CrashCase {
    pub(crate) name: &'static str,
    kind: ChangeKind,
    renames: RenameSupport,
    files: fn() -> Vec<ChangedFile>,
}

/// The kinds of rename that the file system supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenameSupport {
    /// The file system supports all renames. These include exchanges, and renames that never
    /// replace a file.
    All,
    /// The file system only supports plain renames, which may replace an existing file.
    Plain,
}

#[derive(Debug, Clone, Copy)]
enum ChangeKind {
    Write,
    Delete,
    Move,
}

/// A file that a case changes.
struct ChangedFile {
    path: String,
    /// The content before the change. `None` if the file does not exist then.
    old: Option<String>,
    new: String,
    /// Whether the file has a second hard link. Such a file is written in place.
    is_linked: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FilesState {
    Old,
    New,
    Broken(String),
}

pub(crate) const CASES: [CrashCase; 10] = [
    CrashCase {
        name: "edit",
        kind: ChangeKind::Write,
        renames: RenameSupport::All,
        files: || vec![edited(0)],
    },
    CrashCase {
        name: "add",
        kind: ChangeKind::Write,
        renames: RenameSupport::All,
        files: || vec![added(0)],
    },
    CrashCase {
        name: "linked",
        kind: ChangeKind::Write,
        renames: RenameSupport::All,
        files: || vec![linked(0), shorter(1)],
    },
    CrashCase {
        name: "fifty",
        kind: ChangeKind::Write,
        renames: RenameSupport::All,
        files: || {
            let file = |number| match number % 5 {
                0 => linked(number),
                1 => added(number),
                _ => edited(number),
            };
            (0..50).map(file).collect()
        },
    },
    CrashCase {
        name: "delete",
        kind: ChangeKind::Delete,
        renames: RenameSupport::All,
        files: || vec![edited(0)],
    },
    CrashCase {
        name: "move",
        kind: ChangeKind::Move,
        renames: RenameSupport::All,
        files: || vec![edited(0)],
    },
    plain("plain-edit", ChangeKind::Write, || vec![edited(0), edited(1)]),
    plain("plain-add", ChangeKind::Write, || vec![added(0)]),
    plain("plain-linked", ChangeKind::Write, || vec![linked(0), edited(1)]),
    plain("plain-delete", ChangeKind::Delete, || vec![edited(0)]),
];

/// Creates a case for a file system that only supports plain renames.
const fn plain(name: &'static str, kind: ChangeKind, files: fn() -> Vec<ChangedFile>) -> CrashCase {
    CrashCase { name, kind, renames: RenameSupport::Plain, files }
}

fn edited(number: usize) -> ChangedFile {
    let (old, new) = (format!("old {number}\n"), format!("new {number}, longer\n"));
    ChangedFile { path: format!("file{number}"), old: Some(old), new, is_linked: false }
}

fn added(number: usize) -> ChangedFile {
    let new = format!("new {number}\n");
    ChangedFile { path: format!("dir{number}/deep/file"), old: None, new, is_linked: false }
}

fn linked(number: usize) -> ChangedFile {
    ChangedFile { is_linked: true, ..edited(number) }
}

fn shorter(number: usize) -> ChangedFile {
    ChangedFile { new: "n".to_owned(), ..linked(number) }
}

pub(crate) fn workspace(folder: &Path) -> Workspace {
    let workspace = Workspace::new(folder.join("root"), Vec::new()).unwrap();
    let workspace =
        workspace.with_durability(Durability::Disk).with_state_folder(&folder.join("state"));
    workspace.recover_unfinished_writes();
    workspace
}

impl CrashCase {
    pub(crate) fn renames(&self) -> RenameSupport {
        self.renames
    }

    /// Creates the files in their state before the change. If possible, they are in a file system
    /// in memory.
    pub(crate) fn prepare_folder(&self) -> TempDir {
        let shared = tempfile::tempdir_in("/dev/shm");
        let scene = shared.unwrap_or_else(|_| tempfile::tempdir().unwrap());
        let root = scene.path().join("root");
        fs::create_dir(&root).unwrap();
        for file in (self.files)() {
            if let Some(old) = &file.old {
                fs::write(root.join(&file.path), old).unwrap();
            }
            if file.is_linked {
                let other = scene.path().join(format!("other-{}", file.path));
                fs::hard_link(root.join(&file.path), other).unwrap();
            }
        }
        scene
    }

    /// Applies the change of this case to the files in a folder.
    pub(crate) fn change(&self, folder: &Path) -> Result<(), ToolError> {
        let workspace = workspace(folder);
        let files = (self.files)();
        let at = |file: &ChangedFile| workspace.resolve(&file.path);
        let places = files.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let change = |(file, at)| {
            let ChangedFile { old, new, .. }: &ChangedFile = file;
            FileWrite::new(at, old.as_ref().map(String::as_bytes), new.as_bytes())
        };
        let changes: Vec<_> = files.iter().zip(&places).map(change).collect();
        let found = || inspect_entry(&workspace, &places[0]);
        fs::exists(BEGIN_MARKER).unwrap();
        let done = match self.kind {
            ChangeKind::Write => write_all_or_none(&workspace, &changes),
            ChangeKind::Delete => {
                found().and_then(|found| found.delete_and_record_undo(&workspace))
            }
            ChangeKind::Move => found()
                .and_then(|found| found.move_to(&workspace, &workspace.resolve("moved/file")?)),
        };
        fs::exists(END_MARKER).unwrap();
        done
    }

    /// Returns whether all files are old or all files are new. Also checks that no temporary file
    /// remains.
    pub(crate) fn state(&self, folder: &Path) -> FilesState {
        let (mut olds, mut news) = (0, 0);
        let files = (self.files)();
        for file in &files {
            let now = fs::read_to_string(folder.join("root").join(&file.path)).ok();
            let new = matches!(self.kind, ChangeKind::Write).then(|| file.new.clone());
            olds += usize::from(now == file.old);
            news += usize::from(now == new);
            let other = folder.join(format!("other-{}", file.path));
            if file.is_linked && fs::read_to_string(other).ok() != now {
                return FilesState::Broken(format!("{} has another name no more", file.path));
            }
            if now != file.old && now != new {
                return FilesState::Broken(format!(
                    "{} is neither old nor new: {now:?}",
                    file.path
                ));
            }
        }
        let moved = fs::read_to_string(folder.join("root/moved/file")).ok();
        if let ChangeKind::Move = self.kind
            && (moved.is_some() == (olds > 0) || (moved.is_some() && moved != files[0].old))
        {
            return FilesState::Broken(format!("{moved:?} is at the new place"));
        }
        let left = self.leftover_files(folder);
        match (olds == files.len(), news == files.len()) {
            _ if !left.is_empty() => FilesState::Broken(format!("{left:?} are left")),
            (true, _) => FilesState::Old,
            (_, true) => FilesState::New,
            _ => FilesState::Broken(format!("{olds} are old and {news} are new")),
        }
    }

    /// Returns all files that should not remain after a change.
    fn leftover_files(&self, folder: &Path) -> Vec<PathBuf> {
        let (mut folders, mut left) = (vec![folder.join("root"), folder.join("state")], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if name.starts_with(".acp-tools-") || name.starts_with("call-") {
                    left.push(path);
                } else if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        left
    }
}
