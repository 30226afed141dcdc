//! The changes that are interrupted, and what may be there afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use acp_tools::files::Durability;
use acp_tools::files::remove::find;
use acp_tools::files::write::{Change, write_all};
use acp_tools::{ToolError, Workspace};
use tempfile::TempDir;

/// Names that are looked for when a change begins and when it has ended, to be seen in a trace.
pub(crate) const BEGIN: &str = "/crash-begins-here";
pub(crate) const END: &str = "/crash-ends-here";

/// A change of some files.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    kind: Kind,
    renames: Renames,
    files: fn() -> Vec<Changed>,
}

/// Which renames its system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renames {
    /// Those that exchange or replace nothing too.
    All,
    /// Only those that move a file over another one.
    Plain,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Write,
    Delete,
    Move,
}

/// A file that is changed.
struct Changed {
    path: String,
    /// What it holds before; nothing, if it is not there.
    old: Option<String>,
    new: String,
    /// It has a second name, so it is written in place.
    is_linked: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Old,
    New,
    Broken(String),
}

pub(crate) const CASES: [Case; 10] = [
    Case { name: "edit", kind: Kind::Write, renames: Renames::All, files: || vec![edited(0)] },
    Case { name: "add", kind: Kind::Write, renames: Renames::All, files: || vec![added(0)] },
    Case {
        name: "linked",
        kind: Kind::Write,
        renames: Renames::All,
        files: || vec![linked(0), shorter(1)],
    },
    Case {
        name: "fifty",
        kind: Kind::Write,
        renames: Renames::All,
        files: || {
            let file = |number| match number % 5 {
                0 => linked(number),
                1 => added(number),
                _ => edited(number),
            };
            (0..50).map(file).collect()
        },
    },
    Case { name: "delete", kind: Kind::Delete, renames: Renames::All, files: || vec![edited(0)] },
    Case { name: "move", kind: Kind::Move, renames: Renames::All, files: || vec![edited(0)] },
    plain("plain-edit", Kind::Write, || vec![edited(0), edited(1)]),
    plain("plain-add", Kind::Write, || vec![added(0)]),
    plain("plain-linked", Kind::Write, || vec![linked(0), edited(1)]),
    plain("plain-delete", Kind::Delete, || vec![edited(0)]),
];

/// A case of a system that has neither exchanges nor renames that replace nothing.
const fn plain(name: &'static str, kind: Kind, files: fn() -> Vec<Changed>) -> Case {
    Case { name, kind, renames: Renames::Plain, files }
}

fn edited(number: usize) -> Changed {
    let (old, new) = (format!("old {number}\n"), format!("new {number}, longer\n"));
    Changed { path: format!("file{number}"), old: Some(old), new, is_linked: false }
}

fn added(number: usize) -> Changed {
    let new = format!("new {number}\n");
    Changed { path: format!("dir{number}/deep/file"), old: None, new, is_linked: false }
}

fn linked(number: usize) -> Changed {
    Changed { is_linked: true, ..edited(number) }
}

fn shorter(number: usize) -> Changed {
    Changed { new: "n".to_owned(), ..linked(number) }
}

pub(crate) fn workspace(folder: &Path) -> Workspace {
    let workspace = Workspace::new(folder.join("root"), Vec::new()).unwrap();
    let workspace = workspace.with_durability(Durability::Disk).keeping(&folder.join("state"));
    workspace.recover();
    workspace
}

impl Case {
    pub(crate) fn renames(&self) -> Renames {
        self.renames
    }

    /// Makes the files as they are before, in memory where that can be.
    pub(crate) fn scene(&self) -> TempDir {
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

    /// Makes the change.
    pub(crate) fn change(&self, folder: &Path) -> Result<(), ToolError> {
        let workspace = workspace(folder);
        let files = (self.files)();
        let at = |file: &Changed| workspace.resolve(&file.path);
        let places = files.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let change = |(file, at)| {
            let Changed { old, new, .. }: &Changed = file;
            Change { at, found: old.as_ref().map(String::as_bytes), bytes: new.as_bytes() }
        };
        let changes: Vec<_> = files.iter().zip(&places).map(change).collect();
        let found = || find(&workspace, &places[0]);
        fs::exists(BEGIN).unwrap();
        let done = match self.kind {
            Kind::Write => write_all(&workspace, &changes),
            Kind::Delete => found().and_then(|found| found.delete(&workspace)),
            Kind::Move => found()
                .and_then(|found| found.move_to(&workspace, &workspace.resolve("moved/file")?)),
        };
        fs::exists(END).unwrap();
        done
    }

    /// Tells whether all files are old or all new, with nothing beside them.
    pub(crate) fn state(&self, folder: &Path) -> State {
        let (mut olds, mut news) = (0, 0);
        let files = (self.files)();
        for file in &files {
            let now = fs::read_to_string(folder.join("root").join(&file.path)).ok();
            let new = matches!(self.kind, Kind::Write).then(|| file.new.clone());
            olds += usize::from(now == file.old);
            news += usize::from(now == new);
            let other = folder.join(format!("other-{}", file.path));
            if file.is_linked && fs::read_to_string(other).ok() != now {
                return State::Broken(format!("{} has another name no more", file.path));
            }
            if now != file.old && now != new {
                return State::Broken(format!("{} is neither old nor new: {now:?}", file.path));
            }
        }
        let moved = fs::read_to_string(folder.join("root/moved/file")).ok();
        if let Kind::Move = self.kind
            && (moved.is_some() == (olds > 0) || (moved.is_some() && moved != files[0].old))
        {
            return State::Broken(format!("{moved:?} is at the new place"));
        }
        let left = self.left(folder);
        match (olds == files.len(), news == files.len()) {
            _ if !left.is_empty() => State::Broken(format!("{left:?} are left")),
            (true, _) => State::Old,
            (_, true) => State::New,
            _ => State::Broken(format!("{olds} are old and {news} are new")),
        }
    }

    /// Finds everything that does not belong there.
    fn left(&self, folder: &Path) -> Vec<PathBuf> {
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
