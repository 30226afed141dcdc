//! Files that a command names, as far as the text of the line shows them.

use std::collections::BTreeSet;

use super::patterns::{
    PathPattern, PatternSyntax, UNKNOWN, expand_braces, mark_variables_as_unknown,
};
use super::{RiskFinder, RiskReason, Risks, program_name, reading, removal, tables};
use crate::limits::{MAX_COMMAND_PATHS, MAX_RESOLVED_NAMES};
use crate::parser::arithmetic::is_name_part;
use crate::parser::{LinePart, ShellWord, SimpleCommand};
use crate::programs::{is_interpreter, is_shell};

/// Properties of a line, and of the text in it that is being checked, that determine which of the
/// commands may change the named files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineNameFlow {
    /// Whether all commands of the line only read.
    only_reads: bool,
    /// Whether a command may take names from the output or the words of any other command, e.g.
    /// `xargs`.
    takes_names_from_input: bool,
    /// Whether a command may take names from a variable or a substitution.
    takes_names_from_variables: bool,
    /// Whether a command removes files whose names it takes from another command or a variable.
    removes_taken_names: bool,
}

impl LineNameFlow {
    pub(super) fn of_parts(parts: &[LinePart]) -> Self {
        let mut traits = Self { only_reads: true, ..Self::default() };
        let commands = parts.iter().filter_map(|part| match part {
            LinePart::Command(command) => Some(&command.words[..]),
            _ => None,
        });
        for words in commands.filter(|words| !words.is_empty()) {
            traits.takes_names_from_input |= reads_file_names_from_input(words);
            traits.removes_taken_names |= removal::may_remove_or_move_files(words)
                && (reads_file_names_from_input(words)
                    || words.iter().any(has_variable_or_substitution));
            if !reading::only_reads(words) && !is_harmless_builtin(&words[0].text) {
                traits.only_reads = false;
                traits.takes_names_from_variables |= words.iter().any(has_variable_or_substitution);
                traits.takes_names_from_input |= words.iter().any(has_last_argument);
            }
        }
        traits
    }

    /// Adds the properties of the line that contains the text.
    pub(super) fn within(self, line: Self) -> Self {
        Self {
            only_reads: self.only_reads && line.only_reads,
            takes_names_from_input: self.takes_names_from_input || line.takes_names_from_input,
            takes_names_from_variables: self.takes_names_from_variables
                || line.takes_names_from_variables,
            removes_taken_names: self.removes_taken_names || line.removes_taken_names,
        }
    }

    /// Returns whether a name in a command that only reads may also reach another command.
    /// `is_nested` states that the command is in a substitution or a subshell.
    fn hands_names_on(self, is_nested: bool) -> bool {
        let is_taken = is_nested && self.takes_names_from_variables || self.takes_names_from_input;
        is_taken && !self.only_reads
    }
}

/// Returns whether a command may read the names of files from its input.
fn reads_file_names_from_input(words: &[ShellWord]) -> bool {
    let is_builtin = |word: &ShellWord| matches!(&*word.text, "read" | "mapfile" | "readarray");
    words.iter().take(2).any(is_builtin)
        || words.iter().any(|word| matches!(&*program_name(word), "xargs" | "parallel"))
}

fn has_variable_or_substitution(word: &ShellWord) -> bool {
    let text = word.text.replace("$HOME", "").replace("$PWD", "");
    word.expands && text.contains(['$', '`'])
}

/// Returns whether a word contains `$_`, the last word of the previous command.
fn has_last_argument(word: &ShellWord) -> bool {
    let is_whole = |after: &str| !after.starts_with(is_name_part);
    word.expands && word.text.split("$_").skip(1).any(is_whole)
}

/// Returns whether a command neither changes nor runs the files that it names.
pub(super) fn is_harmless_builtin(name: &str) -> bool {
    matches!(
        name,
        ":" | "break"
            | "cd"
            | "continue"
            | "echo"
            | "exit"
            | "false"
            | "for"
            | "mapfile"
            | "printf"
            | "pwd"
            | "read"
            | "readarray"
            | "return"
            | "select"
            | "true"
    )
}

/// The use of a file that a word names.
#[derive(Debug, Clone, Copy)]
struct NameUse<'a> {
    program: &'a str,
    /// Whether the command only reads the file.
    is_shown: bool,
}

impl RiskFinder<'_> {
    /// Checks the files that a command names.
    pub(super) fn check_named_files(&mut self, command: &SimpleCommand) {
        let SimpleCommand { assignments: sets, words, writes, reads, .. } = command;
        let program = words.first().map(program_name).unwrap_or_default();
        let sets_variable =
            program == "printf" && words.get(1).is_some_and(|word| word.text.starts_with("-v"));
        let is_text = matches!(&*program, "echo" | "printf") && !sets_variable;
        let is_listed = matches!(&*program, "for" | "select") || sets_variable;
        let is_reader = is_text || reading::only_reads(words);
        let is_handed_on = is_reader && self.traits.hands_names_on(self.subshells > 0);
        let args = words.get(1..).filter(|_| !is_text || is_handed_on).unwrap_or_default();
        let elements = &command.array_elements;
        // The text is stored, or is code.
        let is_other = program == "cat" && !writes.is_empty()
            || is_interpreter(&program)
            || is_shell(&program);
        let takes_input = self.traits.takes_names_from_input && !is_other;
        let input = command.input.iter().filter(|_| takes_input);
        let input: Vec<_> = input.flat_map(words_in_input).collect();
        let mut opened =
            reads.iter().chain(writes).chain(sets).chain(elements).chain(&input).chain(args);
        if let Some(word) = opened.find(|word| tables::names_secret_file(word)) {
            self.add_reason(RiskReason::new("risk-names-secret").with_subject("name", &word.text));
        }
        let usage = NameUse { program: &program, is_shown: true };
        self.limit_words(reads).iter().for_each(|word| self.add_named_files(word, usage, &[]));
        // A command may use the value in any way.
        let usage = NameUse { program: &program, is_shown: self.traits.only_reads };
        let values = self.limit_words(sets).iter().map(assigned_value);
        let elements = self.limit_words(&command.array_elements).iter().cloned();
        let input = if self.traits.only_reads { &[] } else { self.limit_words(&input) };
        let values: Vec<_> = values.chain(elements).chain(input.iter().cloned()).collect();
        values.iter().for_each(|word| self.add_named_files(word, usage, &[]));
        let args = self.limit_words(args);
        if self.traits.removes_taken_names {
            let listed = args.iter().filter(|_| is_listed || is_handed_on);
            let taken = values.iter().chain(listed);
            taken.for_each(|word| self.check_outside(word, "risk-removes-vital"));
        }
        let is_shown = match &*program {
            _ if is_listed => self.traits.only_reads,
            "source" | "." => true,
            _ => is_reader && !is_handed_on,
        };
        let usage = NameUse { program: &program, is_shown };
        let roots = self.root_and_process_folders(args);
        let of_find = (program == "find" && !is_shown).then(|| names_in_find(args));
        let args = of_find.as_deref().unwrap_or(args);
        args.iter().for_each(|word| self.add_named_files(word, usage, &roots));
    }

    /// Returns the folders in the words that are `/` or in `/proc`. An option such as `-C` may make
    /// such a folder the working directory.
    fn root_and_process_folders(&self, args: &[ShellWord]) -> Vec<PathPattern> {
        let mut folders = Vec::new();
        for word in args {
            for name in names_in_word(word) {
                let resolved = self.resolve_name(name, word.expands).unwrap_or_default();
                let is_root =
                    |path: &PathPattern| path.names().is_empty() || is_process_path(path, "");
                folders.extend(resolved.into_iter().map(|it| it.path).filter(is_root));
            }
            folders.truncate(MAX_ROOTS);
        }
        folders
    }

    /// Records the files that a word may name: as a whole, as the value of an option, or after the
    /// letter of an option. A relative name may also be in one of the folders `roots`.
    fn add_named_files(&mut self, word: &ShellWord, usage: NameUse<'_>, roots: &[PathPattern]) {
        for name in names_in_word(word) {
            let Some(resolved) = self.resolve_name(name, word.expands) else {
                self.add_reason(RiskReason::new("risk-too-many-files"));
                continue;
            };
            let text = if word.expands { mark_variables_as_unknown(name) } else { name.to_owned() };
            let is_relative = !text.starts_with(['/', '~', UNKNOWN]);
            let below_roots = roots
                .iter()
                .filter(|_| is_relative)
                .map(|root| root.join(&text, self.pattern_syntax(word.expands)));
            // An unknown text may be empty, or an absolute path.
            let begins = text.starts_with(UNKNOWN) && word.expands;
            let root = PathPattern::of_folder("/".as_ref());
            let after = text.split_once('/').map_or("", |(_, rest)| rest);
            let absolute = [&*text, after].into_iter().filter(|text| begins && text.contains('/'));
            let mut places = below_roots
                .chain(absolute.map(|text| root.join(text, self.pattern_syntax(true))))
                .chain(resolved.iter().map(|name| name.path.clone()));
            if places.any(|path| is_process_path(&path, usage.program)) {
                self.add_reason(RiskReason::new("risk-names-process").with_subject("name", name));
            }
            resolved.into_iter().for_each(|name| self.add_named_path(name, usage));
        }
    }

    fn add_named_path(&mut self, name: ResolvedName, NameUse { is_shown, .. }: NameUse<'_>) {
        let ResolvedName { path, is_folder_known, is_named } = name;
        if !is_named || is_shown && !is_folder_known {
            return;
        }
        if let Some(path) = path.to_path_if_literal() {
            let list: fn(&mut Risks) -> &mut Vec<_> =
                if is_shown { |found| &mut found.reads } else { |found| &mut found.mentions };
            return self.add_path(list, path);
        }
        let risks = &mut self.risks;
        let list = if is_shown { &mut risks.read_patterns } else { &mut risks.mention_patterns };
        if list.len() >= MAX_COMMAND_PATHS {
            self.add_reason(RiskReason::new("risk-too-many-files"));
        } else if !list.contains(&path) {
            list.push(path);
        }
    }

    fn pattern_syntax(&self, expands: bool) -> PatternSyntax {
        PatternSyntax { expands, matches_dot: self.matches_dot }
    }

    /// Returns the paths that a name may mean. `expands` states that a shell expands a part of the
    /// name. Returns `None` if there are too many paths.
    fn resolve_name(&self, name: &str, expands: bool) -> Option<Vec<ResolvedName>> {
        let texts = if expands { expand_braces(name)? } else { vec![name.to_owned()] };
        let count = self.resolved_names.get() + texts.len() * self.folders.iter().count();
        self.resolved_names.set(count);
        if count > MAX_RESOLVED_NAMES {
            return None;
        }
        let resolved = texts.iter().flat_map(|text| self.resolve_text(text, expands));
        Some(resolved.collect())
    }

    fn resolve_text(&self, text: &str, expands: bool) -> Vec<ResolvedName> {
        let after = |prefix: &str| {
            let rest = text.strip_prefix(prefix).filter(|_| expands)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let home = self.context.home.zip(after("~").or_else(|| after("$HOME")));
        let here = after("$PWD").filter(|_| self.is_pwd_known);
        let rest = home.map_or_else(|| here.unwrap_or(text), |(_, rest)| rest);
        let marked = if expands { mark_variables_as_unknown(rest) } else { rest.to_owned() };
        // The home directory of another user.
        let marked = match marked.strip_prefix('~').filter(|_| expands) {
            Some(user) => user
                .split_once('/')
                .map_or(UNKNOWN.to_string(), |(_, rest)| format!("{UNKNOWN}/{rest}")),
            None => marked,
        };
        let name = |base: PathPattern, text: &str, is_folder_known| {
            let path = base.join(text, self.pattern_syntax(expands));
            let is_named = !path.is_unknown_within(&base);
            ResolvedName { path, is_folder_known, is_named }
        };
        if let Some((home, _)) = home {
            return vec![name(PathPattern::of_folder(home), &marked, true)];
        }
        if here.is_none() && marked.starts_with('/') {
            return vec![name(PathPattern::of_folder("/".as_ref()), &marked, true)];
        }
        let unknown_folder =
            self.context.cwd.or_else(|| self.context.project_folders.first().copied());
        let below = marked.trim_start_matches('/');
        let within = |folder: Option<&std::path::Path>| match folder {
            Some(folder) => Some(name(PathPattern::of_folder(folder), below, true)),
            // The folder is known only when the line runs. It may be any folder of the project.
            None => {
                let mut below = below;
                while let Some(rest) = below.strip_prefix("../") {
                    below = rest;
                }
                Some(name(PathPattern::of_folder(unknown_folder?), below, false))
            }
        };
        self.folders.iter().filter_map(within).collect()
    }
}

/// Returns the value of an assignment, or an element of an array.
fn assigned_value(word: &ShellWord) -> ShellWord {
    let value = word.text.split_once('=').map_or(&*word.text, |(_, value)| value);
    ShellWord { text: value.to_owned(), ..word.clone() }
}

/// Returns the words of an input text that may be names. A character that is unusual in names may
/// separate two names. Commands such as `xargs` remove the quotes, and a shell may expand the words.
fn words_in_input(text: &ShellWord) -> Vec<ShellWord> {
    let is_part = |letter: char| letter.is_alphanumeric() || "._-/~*?[]$@+%".contains(letter);
    let bare = text.text.replace(['"', '\'', '\\'], "");
    let names: BTreeSet<_> = bare.split(|letter| !is_part(letter)).collect();
    let word =
        |name: &str| ShellWord { text: name.to_owned(), expands: true, ..ShellWord::default() };
    names.into_iter().filter(|name| !name.is_empty()).map(word).collect()
}

/// A path that a name may mean.
#[derive(Debug)]
struct ResolvedName {
    path: PathPattern,
    is_folder_known: bool,
    /// Whether a part of the name is known.
    is_named: bool,
}

/// Maximum number of folders that may be the working directory of a command.
const MAX_ROOTS: usize = 4;

/// Returns the texts of a word that may be names of files.
fn names_in_word(word: &ShellWord) -> impl Iterator<Item = &str> {
    let text = word.text.as_str();
    let value = text.split_once('=').map(|(_, value)| value);
    let attached = text.strip_prefix('-').map(values_after_letters).unwrap_or_default();
    let names = [Some(text), value].into_iter().flatten().chain(attached);
    names
        .map(|name| name.trim_start_matches('@'))
        .filter(|name| !name.is_empty() && !name.starts_with('-'))
}

/// Returns the texts that may be the value of one of the options in a word such as `-ab`. The value
/// follows the letter of the option.
fn values_after_letters(letters: &str) -> Vec<&str> {
    let is_letter = |letter: char| letter.is_ascii_alphabetic();
    let count = letters.find(|letter| !is_letter(letter)).unwrap_or(letters.len());
    let mut values: Vec<_> = letters.get(1..).into_iter().collect();
    // In `-oout.txt`, the text `.txt` is the end of a name.
    let is_end = |at: usize, value: &str| at > 3 && value.starts_with('.') && !value.contains('/');
    let later = (2..=count.min(MAX_OPTION_LETTERS)).map(|at| (at, &letters[at..]));
    let later = later.filter(|(at, value)| value.contains(['.', '/']) && !is_end(*at, value));
    values.extend(later.map(|(_, value)| value));
    values
}

/// Maximum number of options in a word that are searched for a value.
const MAX_OPTION_LETTERS: usize = 16;

/// Returns the words of `find` that may be names of files that it finds. The patterns of its tests
/// may match in any folder. A name that a test excludes is left out.
fn names_in_find(args: &[ShellWord]) -> Vec<ShellWord> {
    let is =
        |at: usize, known: &[&str]| args.get(at).is_some_and(|word| known.contains(&&*word.text));
    let is_negated = |at: usize| at >= 1 && is(at - 1, &["!", "-not"]);
    let mut words = Vec::new();
    for (at, word) in args.iter().enumerate() {
        let is_test = at >= 1 && is(at - 1, FIND_NAME_TESTS);
        let is_excluded = is_test
            && (is_negated(at - 1) && !(at >= 2 && is_negated(at - 2)) || is(at + 1, &["-prune"]));
        if is_excluded {
            continue;
        }
        let is_pattern = is_test && word.text.contains(['*', '?', '[']);
        let text = if is_pattern { format!("$/{}", word.text) } else { word.text.clone() };
        words.push(ShellWord { text, expands: word.expands || is_pattern, ..word.clone() });
    }
    words
}

/// Tests of `find` whose value is a pattern of names.
const FIND_NAME_TESTS: &[&str] =
    &["-iname", "-ipath", "-iwholename", "-name", "-path", "-wholename"];

/// Returns whether a path may be a file of a process in `/proc`, e.g. its environment, its memory
/// or its open files.
fn is_process_path(path: &PathPattern, program: &str) -> bool {
    let Some((first, rest)) = path.names().split_first() else { return false };
    if !first.matches("proc") {
        return false;
    }
    let may_be = |known: &[&str], at: usize| {
        rest.get(at).is_some_and(|name| known.iter().any(|known| name.matches(known)))
    };
    if !first.has_known_beginning() {
        return may_be(PROCESS_EXAMPLES, 0) && may_be(PROCESS_FILES, 1);
    }
    match rest {
        [] => !LISTING_PROGRAMS.contains(&program),
        [name] => !name.as_str_if_literal().is_some_and(|name| HARMLESS_PROC_FILES.contains(&name)),
        _ => true,
    }
}

/// Programs that show only the names in a folder.
const LISTING_PROGRAMS: &[&str] = &["[", "cd", "ls", "pushd", "stat", "test"];

/// Files of `/proc` that describe the whole machine and hold no secret.
const HARMLESS_PROC_FILES: &[&str] =
    &["cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version"];

/// Examples of names in `/proc`. A pattern for the folders of processes matches one of them.
const PROCESS_EXAMPLES: &[&str] =
    &["1", "2", "12", "123", "1234", "12345", "123456", "1234567", "self", "thread-self"];

/// The files and folders of a process.
const PROCESS_FILES: &[&str] = &[
    "auxv",
    "cmdline",
    "cwd",
    "environ",
    "exe",
    "fd",
    "fdinfo",
    "io",
    "maps",
    "map_files",
    "mem",
    "net",
    "ns",
    "numa_maps",
    "root",
    "smaps",
    "stack",
    "stat",
    "status",
    "syscall",
    "task",
];
