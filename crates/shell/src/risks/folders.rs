//! Determines, from the text of a line, the folders in which its commands may run.
//!
//! If a `cd` fails or does not run, the commands after it run in the same folder as the commands
//! before it.

use std::mem::take;
use std::path::{Path, PathBuf};

use callboard_text::normalise;

use crate::limits::MAX_POSSIBLE_FOLDERS;
use crate::parser::{LinePart, ShellWord, SimpleCommand};

/// The possible folders at one point of a line; `None` stands for a folder that is known only at
/// run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PossibleFolders {
    current: Vec<Option<PathBuf>>,
    /// The possible folders after the current `&&` chain if a `cd` in the chain fails. In this
    /// case, the rest of the chain does not run.
    after_failed_cd: Vec<Option<PathBuf>>,
}

impl PossibleFolders {
    pub(super) fn new(cwd: Option<&Path>) -> Self {
        Self { current: vec![cwd.map(Path::to_owned)], after_failed_cd: Vec::new() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&Path>> {
        self.current.iter().map(Option::as_deref)
    }

    /// Changes to a folder. If the change fails, the following commands run in the current folder.
    pub(super) fn enter_or_stay(&mut self, args: &[ShellWord]) {
        let entered = self.resolve_cd(args);
        add_folders_up_to_limit(&mut self.current, entered);
    }

    /// Changes to a folder. If the change fails, the rest of the `&&` chain does not run.
    pub(super) fn enter_or_skip_chain(&mut self, args: &[ShellWord]) {
        let entered = self.resolve_cd(args);
        let here = take(&mut self.current);
        add_folders_up_to_limit(&mut self.after_failed_cd, here);
        add_folders_up_to_limit(&mut self.current, entered);
    }

    fn resolve_cd(&self, args: &[ShellWord]) -> Vec<Option<PathBuf>> {
        let is_known = |word: &&ShellWord| !word.expands && !word.text.starts_with(['-', '+']);
        let target = args.first().filter(is_known).filter(|_| args.len() == 1);
        let to = |from: &Option<PathBuf>| {
            let path = Path::new(&target?.text);
            let path = from.as_ref().map_or_else(|| path.to_owned(), |from| from.join(path));
            Some(normalise(&path)).filter(|path| path.is_absolute())
        };
        self.current.iter().map(to).collect()
    }

    /// Returns the possible folders of a new subshell.
    pub(super) fn for_subshell(&self) -> Self {
        Self { current: self.current.clone(), after_failed_cd: Vec::new() }
    }

    /// Ends an `&&` chain. A `cd` in the chain may have failed, so the folders in `after_failed_cd`
    /// become possible too.
    pub(super) fn merge_failed_cd_folders(&mut self) {
        let left = take(&mut self.after_failed_cd);
        add_folders_up_to_limit(&mut self.current, left);
    }

    pub(super) fn add_unknown_folder(&mut self) {
        add_folders_up_to_limit(&mut self.current, vec![None]);
    }
}

fn add_folders_up_to_limit(folders: &mut Vec<Option<PathBuf>>, more: Vec<Option<PathBuf>>) {
    for folder in more {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    if folders.len() > MAX_POSSIBLE_FOLDERS {
        *folders = vec![None];
    }
}

/// Returns whether a command may contain code that runs in the current shell.
pub(super) fn runs_code(command: &SimpleCommand) -> bool {
    command.words.iter().any(|word| matches!(&*word.text, "eval" | "trap"))
}

/// Returns whether a command may contain the name of a command that changes the directory.
fn may_change_folder(command: &SimpleCommand) -> bool {
    let in_code = |word: &ShellWord| {
        let bare = word.text.replace(['"', '\'', '\\', '\n'], "");
        word.expands || FOLDER_CHANGE_COMMANDS.iter().any(|name| bare.contains(name))
    };
    command.words.iter().any(|word| is_folder_change_command(&word.text))
        || runs_code(command) && command.words.iter().any(in_code)
}

/// Returns whether one of these parts changes the directory of the current shell.
pub(super) fn changes_folder(parts: &[LinePart]) -> bool {
    let mut depth = 0;
    for part in parts {
        match part {
            LinePart::SubshellStart => depth += 1,
            LinePart::SubshellEnd if depth == 0 => return false,
            LinePart::SubshellEnd => depth -= 1,
            LinePart::Command(command) if depth == 0 && may_change_folder(command) => return true,
            _ => {}
        }
    }
    false
}

const FOLDER_CHANGE_COMMANDS: [&str; 4] = ["cd", "chdir", "pushd", "popd"];

pub(super) fn is_folder_change_command(name: &str) -> bool {
    FOLDER_CHANGE_COMMANDS.contains(&name)
}
