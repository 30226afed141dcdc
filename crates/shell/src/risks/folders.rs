//! In which folders the commands of a line may run, as far as its text tells.
//!
//! A `cd` may fail, or not be reached: then what follows runs where it would have without.

use std::mem::take;
use std::path::{Path, PathBuf};

use callboard_text::normalise;

use crate::limits::COMMAND_FOLDERS;
use crate::reader::Word;

/// The folders that are possible at one point of a line; none in the place of one that is known
/// only when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folders {
    here: Vec<Option<PathBuf>>,
    /// Those in which the rest of an `&&` chain does not run, because a `cd` of it failed.
    left: Vec<Option<PathBuf>>,
}

impl Folders {
    pub(super) fn new(cwd: Option<&Path>) -> Self {
        Self { here: vec![cwd.map(Path::to_owned)], left: Vec::new() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&Path>> {
        self.here.iter().map(Option::as_deref)
    }

    /// Goes to a folder, or stays where that fails.
    pub(super) fn enter(&mut self, args: &[Word]) {
        let entered = self.entered(args);
        add(&mut self.here, entered);
    }

    /// Goes to a folder; where that fails, the rest of the chain does not run.
    pub(super) fn go_on(&mut self, args: &[Word]) {
        let entered = self.entered(args);
        let here = take(&mut self.here);
        add(&mut self.left, here);
        add(&mut self.here, entered);
    }

    fn entered(&self, args: &[Word]) -> Vec<Option<PathBuf>> {
        let is_known = |word: &&Word| !word.expands && !word.text.starts_with('-');
        let target = args.first().filter(is_known).filter(|_| args.len() == 1);
        let to = |from: &Option<PathBuf>| {
            let path = Path::new(&target?.text);
            let path = from.as_ref().map_or_else(|| path.to_owned(), |from| from.join(path));
            Some(normalise(&path)).filter(|path| path.is_absolute())
        };
        self.here.iter().map(to).collect()
    }

    /// Begins what a shell of its own runs.
    pub(super) fn begin(&self) -> Self {
        Self { here: self.here.clone(), left: Vec::new() }
    }

    /// Ends an `&&` chain.
    pub(super) fn rejoin(&mut self) {
        let left = take(&mut self.left);
        add(&mut self.here, left);
    }

    pub(super) fn add_unknown(&mut self) {
        add(&mut self.here, vec![None]);
    }
}

fn add(folders: &mut Vec<Option<PathBuf>>, more: Vec<Option<PathBuf>>) {
    for folder in more {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    if folders.len() > COMMAND_FOLDERS {
        *folders = vec![None];
    }
}
