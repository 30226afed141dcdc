//! Commands that only read the files that they name.

use super::is_find_exec;
use super::launchers::exec_end;
use super::wrapped::{WrappedCommand, wrapped_command};
use crate::analyze::only_reads_operands;
use crate::parser::ShellWord;
use crate::programs::{never_writes, system_program_name};

/// Returns whether a command only reads the files that its words name. The result is true only if
/// the table of programs contains each word of the command, or if the program never writes.
pub(super) fn only_reads(words: &[ShellWord]) -> bool {
    let Some((program, args)) = words.split_first() else { return false };
    let Some(name) = system_program_name(&program.text).filter(|_| !program.expands) else {
        return false;
    };
    match name {
        _ if never_writes(name) => true,
        "find" => split_find_tests_and_commands(args).is_some_and(|(tests, runs)| {
            runs.into_iter().all(only_reads) && only_reads_by_program_table(program, tests)
        }),
        "git" => only_reads_by_program_table(program, skip_harmless_git_options(args)),
        _ => match wrapped_command(name, args) {
            Some(command) => wrapped_only_reads(&command),
            None => only_reads_by_program_table(program, args),
        },
    }
}

fn wrapped_only_reads(command: &WrappedCommand<'_>) -> bool {
    // An unknown word may be an option.
    let unknown = || ShellWord { text: "$".to_owned(), expands: true, ..ShellWord::default() };
    let is_replaced =
        |word: &ShellWord| command.replaced_text.is_some_and(|text| word.text.contains(text));
    let words = command.words.iter();
    let mut words: Vec<_> =
        words.map(|word| if is_replaced(word) { unknown() } else { word.clone() }).collect();
    if command.gets_more_words {
        words.push(unknown());
    }
    only_reads(&words)
}

/// Splits the arguments of `find` into the tests, and the commands that it runs for the files.
/// Returns `None` if the end of a command is missing.
fn split_find_tests_and_commands(
    args: &[ShellWord],
) -> Option<(Vec<&ShellWord>, Vec<&[ShellWord]>)> {
    let (mut tests, mut runs, mut rest) = (Vec::new(), Vec::new(), args);
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        if is_find_exec(&word.text) {
            let end = exec_end(after)?;
            runs.push(&after[..end]);
            rest = &after[end + 1..];
        } else {
            tests.push(word);
        }
    }
    Some((tests, runs))
}

/// Returns the words after the options of git that do not change the effect of the subcommand.
fn skip_harmless_git_options(args: &[ShellWord]) -> &[ShellWord] {
    match args {
        [option, rest @ ..] if option.text == "--no-pager" => skip_harmless_git_options(rest),
        [option, folder, rest @ ..] if option.text == "-C" && !folder.text.starts_with('-') => {
            skip_harmless_git_options(rest)
        }
        _ => args,
    }
}

fn only_reads_by_program_table<'w>(
    program: &ShellWord,
    args: impl IntoIterator<Item = &'w ShellWord>,
) -> bool {
    // The value of a variable may be an option. The table does not contain this text.
    let text = |word: &'w ShellWord| match word.expands && word.text.starts_with(['$', '`', '{']) {
        true if word.text != "{}" => "-\u{1}".to_owned(),
        _ => word.text.clone(),
    };
    let words = [program.text.clone()].into_iter().chain(args.into_iter().map(text));
    only_reads_operands(&words.collect::<Vec<_>>())
}
