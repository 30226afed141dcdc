//! Which files are on their way, on the disk before they are: after a process was killed, the next
//! one makes all files of its last call the old ones again, and removes what lies beside them.
//!
//! It knows nothing of what is written. A journal is a file of one call, locked as long as its
//! process lives, in three lines: the names, then what tells the new files from others, then that
//! all are in their places. Files are told apart by their identity, never by their time.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits::{EDIT_FILES, FILE_BYTES, JOURNAL_BYTES};
use crate::stamp::Stamp;
use crate::sys::fs::{Dir, Root, links};

/// The journal of one call. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

/// One line of a journal.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// What will be made.
    Begin(Vec<Names>),
    /// All of it is made; from here on it is put in place.
    Ready(Vec<Prepared>),
    /// All of it is in its place.
    Done,
}

/// A file and the one beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Names {
    pub(super) dir: PathBuf,
    pub(super) name: OsString,
    pub(super) temporary: OsString,
}

/// How a file will be written.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Prepared {
    /// What tells the file beside it from others.
    pub(super) ours: (u64, u64),
    pub(super) way: Manner,
    /// The hash of the new content.
    pub(super) after: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Manner {
    Add,
    Replace,
    InPlace,
}

impl Journal {
    /// Begins a journal in a folder, which is made if need be.
    pub(super) fn begin(folder: &Path, names: Vec<Names>) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let file = tempfile::Builder::new().prefix("new-").tempfile_in(folder)?;
        // Where there are no locks, nobody else begins with what is being written either.
        drop(file.as_file().try_lock());
        // Nobody sees it by this name before it is locked.
        let path = file.path().with_file_name(call_name(file.path()));
        let file = file.persist_noclobber(&path).map_err(|error| error.error)?;
        let mut journal = Self { path, file };
        journal.write(&Line::Begin(names))?;
        Ok(journal)
    }

    pub(super) fn ready(&mut self, prepared: Vec<Prepared>) -> io::Result<()> {
        self.write(&Line::Ready(prepared))
    }

    pub(super) fn done(&mut self) -> io::Result<()> {
        self.write(&Line::Done)
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

/// Puts in order what killed processes left, as their journals in a folder say. What cannot be done
/// is left for the next time.
pub(crate) fn replay(folder: &Path) {
    let Ok(journals) = fs::read_dir(folder) else { return };
    let is_call = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(CALL.as_bytes()))
    };
    for journal in journals.flatten().map(|entry| entry.path()).filter(is_call) {
        if replay_one(&journal).is_ok() {
            drop(fs::remove_file(&journal));
        }
    }
}

fn replay_one(journal: &Path) -> io::Result<()> {
    let file = File::open(journal)?;
    file.try_lock().map_err(io::Error::other)?;
    if links(&file.metadata()?) == 0 {
        // Another process has put it in order meanwhile.
        return Ok(());
    }
    let (mut names, mut prepared, mut is_done) = (Vec::new(), Vec::new(), false);
    for line in BufReader::new(file.take(JOURNAL_BYTES)).lines() {
        // A last line that was cut short says nothing.
        match serde_json::from_str(&line?) {
            Ok(Line::Begin(begun)) => names = begun,
            Ok(Line::Ready(ready)) => prepared = ready,
            Ok(Line::Done) => is_done = true,
            Err(_) => break,
        }
    }
    for (at, names) in names.iter().enumerate().take(EDIT_FILES).rev() {
        let unfinished = prepared.get(at).filter(|_| !is_done);
        match names.put_in_order(unfinished) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

impl Names {
    /// Makes the file the old one again, if it was not finished, and removes what lies beside it.
    fn put_in_order(&self, unfinished: Option<&Prepared>) -> io::Result<()> {
        let is_ours = is_temporary(&self.temporary) && is_name(&self.name);
        let dir = Root::pin(&self.dir)?.dir(Path::new(""))?;
        let mut is_needless = true;
        if let Some(prepared) = unfinished.filter(|_| is_ours) {
            is_needless = self.restore(&dir, *prepared)?;
        }
        if is_ours && is_needless {
            drop(dir.remove(&spare(&self.temporary)));
            drop(dir.remove(&self.temporary));
        }
        Ok(())
    }

    /// Makes the file the old one again, if it holds just what was being written: any other was
    /// changed since, and stays. Returns whether what lies beside it is needless then: not beside a
    /// file that was written in place and may be half of the new one.
    fn restore(&self, dir: &Dir, Prepared { ours, way, after }: Prepared) -> io::Result<bool> {
        let is_after = holds(dir, &self.name, after)?;
        let is_there = is_after && dir.identity(&self.name).is_ok_and(|there| there == ours);
        match way {
            Manner::Add if is_there => dir.remove(&self.name)?,
            Manner::Replace if is_there => {
                let old = spare(&self.temporary);
                if dir.identity(&old).is_ok() {
                    dir.replace(&old, &self.name)?;
                } else {
                    // The one beside it is the old one now.
                    dir.replace(&self.temporary, &self.name)?;
                }
            }
            Manner::InPlace => {
                let mut old = Vec::new();
                dir.open(&self.temporary)?.take(FILE_BYTES).read_to_end(&mut old)?;
                if !is_after {
                    return holds(dir, &self.name, *Stamp::of(&old).as_bytes());
                }
                super::staged::overwrite(&dir.change(&self.name)?, &old)?;
            }
            Manner::Add | Manner::Replace => {}
        }
        Ok(true)
    }
}

/// Whether a file is there and holds just what has this hash.
fn holds(dir: &Dir, name: &OsStr, hash: [u8; 32]) -> io::Result<bool> {
    let file = match dir.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let mut now = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut now)?;
    Ok(*Stamp::of(&now).as_bytes() == hash)
}

fn is_name(name: &OsStr) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

/// The name of a journal that is locked, of the name that it was made with.
fn call_name(made: &Path) -> OsString {
    let mut name = OsString::from(CALL);
    name.push(made.file_name().unwrap_or_default());
    name
}

/// Makes the name of a file beside another one.
pub(super) fn temporary(call: u64, number: usize) -> OsString {
    format!("{BEGINNING}{call:016x}-{number}{END}").into()
}

fn is_temporary(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name.starts_with(BEGINNING) && name.ends_with(END) && !name.contains('/')
    })
}

/// Returns the name that an old file has while a new one takes its place.
pub(super) fn spare(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-old");
    name
}

const CALL: &str = "call-";
const BEGINNING: &str = ".acp-tools-";
const END: &str = ".tmp";

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::{Journal, Manner, Names, Prepared, Stamp, replay, temporary};
    use crate::workspace::testing::{Tree, tree};
    use pretty_assertions::assert_eq;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;

    /// A call that writes three files, stopped after so many steps. Returns where its journal is.
    fn killed_after(tree: &Tree, steps: usize) -> PathBuf {
        let folder = tree.outer().join("journal");
        let temporaries = [0, 1, 2].map(|number| temporary(7, number));
        let names = ["replaced", "added", "linked"].iter().zip(&temporaries);
        let names = names.map(|(name, temporary)| Names {
            dir: tree.workspace.cwd().to_owned(),
            name: name.into(),
            temporary: temporary.clone(),
        });
        let [new, add, old] =
            [0, 1, 2].map(|at: usize| tree.workspace.cwd().join(&temporaries[at]));
        let mut journal = Journal::begin(&folder, names.collect()).unwrap();
        let identity = |path: &PathBuf| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.dev(), metadata.ino())
        };
        let mut ours = Vec::new();
        for step in 0..steps {
            match step {
                0 => fs::write(&new, "new").unwrap(),
                1 => fs::write(&add, "new").unwrap(),
                2 => fs::write(&old, "old linked").unwrap(),
                3 => {
                    ours = [&new, &add, &old].map(identity).to_vec();
                    let ways = [Manner::Replace, Manner::Add, Manner::InPlace];
                    let after =
                        ["new", "new", "new li"].map(|it| *Stamp::of(it.as_bytes()).as_bytes());
                    let prepared = ours.iter().zip(ways).zip(after);
                    let prepared =
                        prepared.map(|((ours, way), after)| Prepared { ours: *ours, way, after });
                    journal.ready(prepared.collect()).unwrap();
                }
                4 => {
                    let (other, name) = (tree.path("beside"), tree.path("replaced"));
                    fs::rename(&name, &other).unwrap();
                    fs::rename(&new, &name).unwrap();
                    fs::rename(&other, &new).unwrap();
                }
                5 => fs::rename(&add, tree.path("added")).unwrap(),
                6 => fs::write(tree.path("linked"), "new li").unwrap(),
                _ => journal.done().unwrap(),
            }
        }
        drop(ours);
        let path = journal.path.clone();
        // The process is gone, and with it the lock, but not the file.
        let bytes = fs::read(&path).unwrap();
        drop(journal);
        fs::write(&path, bytes).unwrap();
        folder
    }

    #[test]
    fn after_a_kill_all_files_are_the_old_ones_or_all_the_new_ones() {
        for steps in 0..=8 {
            let tree = tree(&[("replaced", "old"), ("linked", "old linked")]);
            fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
            let folder = killed_after(&tree, steps);
            replay(&folder);
            let expected: &[_] = if steps == 8 {
                &[("added", "new"), ("linked", "new li"), ("other", "new li"), ("replaced", "new")]
            } else {
                &[("linked", "old linked"), ("other", "old linked"), ("replaced", "old")]
            };
            let names = tree.names(".");
            let found: Vec<_> = names.iter().map(|name| (&**name, tree.read(name))).collect();
            let found: Vec<_> = found.iter().map(|(name, text)| (*name, text.as_str())).collect();
            assert_eq!(found, expected, "after {steps} steps");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_somebody_else_wrote_since_stays() {
        let tree = tree(&[("replaced", "old"), ("linked", "old linked")]);
        let folder = killed_after(&tree, 5);
        tree.write("beside", "theirs");
        fs::rename(tree.path("beside"), tree.path("replaced")).unwrap();
        replay(&folder);
        assert_eq!(tree.read("replaced"), "theirs");
        assert_eq!(tree.names("."), ["linked", "replaced"]);
    }

    #[test]
    fn what_its_user_wrote_since_stays_in_the_same_file_too() {
        for name in ["replaced", "added", "linked"] {
            let tree = tree(&[("replaced", "old"), ("linked", "old linked")]);
            fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
            let folder = killed_after(&tree, 7);
            // In place, as some editors save: the file is the same one.
            fs::write(tree.path(name), "theirs").unwrap();
            replay(&folder);
            assert_eq!(tree.read(name), "theirs", "{name}");
            let is_kept = tree.names(".").iter().any(|it| it.starts_with(".acp-tools-"));
            assert_eq!(is_kept, name == "linked", "the copy of what may be half written is kept");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
    }

    #[test]
    fn the_journal_of_a_living_process_and_other_files_are_left_alone() {
        let tree = tree(&[("replaced", "old")]);
        let folder = tree.outer().join("journal");
        let names = |temporary: &str| Names {
            dir: tree.workspace.cwd().to_owned(),
            name: "replaced".into(),
            temporary: temporary.into(),
        };
        let living = Journal::begin(&folder, vec![names(".acp-tools-1-0.tmp")]).unwrap();
        tree.write(".acp-tools-1-0.tmp", "new");
        replay(&folder);
        assert_eq!(tree.names("."), [".acp-tools-1-0.tmp", "replaced"]);
        drop(living);
        let forged = Journal::begin(&folder, vec![names("replaced")]).unwrap();
        let (path, bytes) = (forged.path.clone(), fs::read(&forged.path).unwrap());
        drop(forged);
        fs::write(path, bytes).unwrap();
        replay(&folder);
        assert_eq!(tree.read("replaced"), "old");
    }
}
