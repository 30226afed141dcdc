//! Removals of files and folders.

use std::path::{Path, PathBuf};

use callboard_text::normalise;

use super::launchers::split_exec_commands;
use super::reading::only_reads;
use super::{ShellContext, is_find_exec, program_name};
use crate::parser::ShellWord;
use crate::programs::wraps_commands;

/// The part of a target that a removal deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemovalExtent {
    All,
    /// Only the target itself, which is a file or an empty folder.
    Named,
    /// Only the matching files below the target.
    Matching,
}

/// The change of the files that `find` finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindChange {
    None,
    Removes(RemovalExtent),
    /// `find` runs a program that may change the files.
    RunsProgram,
}

/// Returns the folders in which `find` searches, and the change of the files that it finds.
pub(super) fn folders_and_change_of_find(args: &[ShellWord]) -> (Vec<ShellWord>, FindChange) {
    let commands = split_exec_commands(args);
    let is_harmless = |words: &&[ShellWord]| {
        let name = words.first().map(program_name);
        let is_text =
            name.is_some_and(|name| matches!(&*name, "echo" | "printf" | "true" | "false"));
        is_text || only_reads(words)
    };
    let change = if args.iter().any(|word| word.text == "-delete")
        || commands.iter().any(|words| may_remove_or_move_files(words))
    {
        FindChange::Removes(extent_of_find(args))
    } else if commands.iter().all(is_harmless) {
        FindChange::None
    } else {
        FindChange::RunsProgram
    };
    // Options that control the handling of links come before the folders.
    let option =
        |word: &&ShellWord| matches!(&*word.text, "-D" | "--") || is_find_link_option(&word.text);
    let options = args.iter().take_while(option).count();
    let is_folder = |word: &&ShellWord| !word.text.starts_with(['-', '(', '!']);
    let mut folders: Vec<_> = args[options..].iter().take_while(is_folder).cloned().collect();
    if folders.is_empty() {
        folders.push(ShellWord { text: ".".to_owned(), ..ShellWord::default() });
    }
    // A file contains the names of the folders.
    if args.iter().any(|word| word.text == "-files0-from") {
        folders.push(ShellWord { text: "/".to_owned(), ..ShellWord::default() });
    }
    (folders, change)
}

/// Returns whether a command removes or moves the files that its operands name.
pub(super) fn may_remove_or_move_files(words: &[ShellWord]) -> bool {
    let Some((program, args)) = words.split_first() else { return false };
    let name = program_name(program);
    let in_code = |word: &ShellWord| {
        let is_end = |letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '-';
        word.text.split(is_end).any(is_removing_or_moving_program)
    };
    is_removing_or_moving_program(&name) || wraps_commands(&name) && args.iter().any(in_code)
}

/// Returns whether a program removes or moves the files that its operands name.
pub(super) fn is_removing_or_moving_program(name: &str) -> bool {
    matches!(name, "mv" | "rm" | "rmdir" | "shred" | "srm" | "trash" | "truncate" | "unlink")
}

/// Returns the extent of the removals of `find`.
fn extent_of_find(args: &[ShellWord]) -> RemovalExtent {
    let is_for_all =
        |text: &str| text.contains(".git") || matches_all_names(&text.replace('/', ""));
    let looks =
        |pair: &[ShellWord]| FIND_TESTS.contains(&&*pair[0].text) && !is_for_all(&pair[1].text);
    let turns = |word: &ShellWord| FIND_NEGATIONS.contains(&&*word.text);
    // A test after an action does not limit the action.
    let is_test = |word: &&ShellWord| word.text != "-delete" && !is_find_exec(&word.text);
    let tests = &args[..args.iter().take_while(is_test).count()];
    let leaves = tests.windows(2).any(looks) && !args.iter().any(turns);
    if leaves { RemovalExtent::Matching } else { RemovalExtent::All }
}

/// Returns the operands of `mv` that it moves. The destination is the last operand, or the value of
/// the option `-t`.
pub(super) fn files_moved_by_mv(args: &[ShellWord]) -> Vec<ShellWord> {
    let (mut operands, mut has_target, mut rest) = (Vec::new(), false, args);
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match word.text.strip_prefix('-') {
            Some("-") => {
                operands.extend_from_slice(rest);
                break;
            }
            Some(letters) if letters.starts_with('-') => {
                if is_option_or_abbreviation(&word.text, "--target-directory", "--t") {
                    has_target = true;
                    let takes_next = !word.text.contains('=');
                    rest = &rest[usize::from(takes_next && !rest.is_empty())..];
                }
            }
            Some(letters) if !letters.is_empty() => {
                // The suffix of backups may contain any letter.
                let flags = letters.split('S').next().unwrap_or_default();
                if let Some((_, target)) = flags.split_once('t') {
                    has_target = true;
                    let takes_next = target.is_empty() && flags.len() == letters.len();
                    rest = &rest[usize::from(takes_next && !rest.is_empty())..];
                }
            }
            _ => operands.push(word.clone()),
        }
    }
    if !has_target {
        operands.pop();
    }
    operands
}

/// Returns whether a word is a long option or an abbreviation of it. `shortest` is the shortest
/// abbreviation.
fn is_option_or_abbreviation(word: &str, option: &str, shortest: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    option.starts_with(name) && name.starts_with(shortest)
}

/// Returns whether the removal of a target might remove a project folder, a home directory, `.git`
/// or files outside of the project. A relative target is resolved in `cwd`.
pub(super) fn removes_vital(
    target: &ShellWord,
    cwd: Option<&Path>,
    extent: RemovalExtent,
    place: &ShellContext<'_>,
) -> bool {
    let text = if target.expands { strip_match_all_names(&target.text) } else { &target.text };
    let path = match (text.strip_prefix('~'), text.strip_prefix("$HOME")) {
        (Some(rest), _) | (_, Some(rest)) if target.expands => match place.home {
            Some(home) if rest.is_empty() || rest.starts_with('/') => {
                PathBuf::from(format!("{}{rest}", home.display()))
            }
            _ => return true,
        },
        _ if target.text.starts_with('/') => Path::new("/").join(text),
        _ => match cwd {
            Some(cwd) => cwd.join(text),
            None => return extent != RemovalExtent::Named,
        },
    };
    let path = normalise(&path);
    // An unknown part may be empty, so `a/$b` may be the whole folder `a`.
    let unknown = |name: &str| target.expands && name.contains(['$', '`', '{']);
    let known: PathBuf = path.iter().take_while(|name| !unknown(&name.to_string_lossy())).collect();
    let starts_unknown =
        target.expands && text.starts_with(['$', '`', '{']) && !text.starts_with("$HOME");
    let climbs = target.expands && text.contains('{') && text.contains("..");
    let is_outside = !place.project_folders.iter().any(|root| known.starts_with(root));
    let above = |vital: &Path| vital.starts_with(&known);
    let is_above = place.project_folders.iter().any(|root| above(root))
        || place.home.is_some_and(above)
        || known.iter().any(|name| name == ".git");
    match extent {
        RemovalExtent::Named => is_outside,
        RemovalExtent::Matching => starts_unknown || climbs || is_outside,
        RemovalExtent::All => starts_unknown || climbs || is_outside || is_above,
    }
}

/// Removes trailing patterns that match every name, because such a pattern means the whole folder.
fn strip_match_all_names(text: &str) -> &str {
    let mut folder = text.trim_end_matches('/');
    loop {
        let (above, last) = folder.rsplit_once('/').unwrap_or(("", folder));
        if !matches_all_names(last) {
            return folder;
        }
        folder = above.trim_end_matches('/');
    }
}

/// Returns whether a pattern matches nearly every name: `*`, `.*`, `.[!.]*`, `{*,.*}`, `*.*`.
fn matches_all_names(pattern: &str) -> bool {
    let bare = pattern.split('[').enumerate().map(|(at, part)| match part.split_once(']') {
        Some((_, after)) if at > 0 => after,
        _ => part,
    });
    pattern.contains('*')
        && bare.into_iter().all(|part| part.trim_matches(WILDCARD_CHARS).is_empty())
}

const WILDCARD_CHARS: [char; 7] = ['*', '?', '.', '!', '{', '}', ','];

fn is_find_link_option(word: &str) -> bool {
    matches!(word, "-L" | "-H" | "-P") || word.starts_with("-O")
}

/// Tests of `find` that select only some files.
const FIND_TESTS: &[&str] = &[
    "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-newer", "-mtime", "-mmin",
    "-size", "-empty",
];

/// Operators of `find` that invert a selection, or that combine two selections.
const FIND_NEGATIONS: &[&str] = &["!", "-not", "-o", "-or", ","];
