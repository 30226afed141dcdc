//! Checks each word of a command against the table of programs.

use std::fmt;

use crate::programs::{
    AfterDoubleDash, Operands, OptionStyle, OptionValueKind, Program, ProgramOption, find_program,
    is_interpreter, is_shell, parse_option_entry,
};

/// A command whose words are all understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandAnalysis<'a> {
    /// The files that the command reads, as named by its words and option values. The paths are
    /// relative to the folder in which the command runs.
    pub paths: Vec<&'a str>,
    /// The subfolder to which a command such as `cd` changes the shell's directory.
    pub enters: Option<&'a str>,
}

/// The reason why a command is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The program, or its subcommand, is not in the table.
    UnknownProgram(String),
    /// The program is known, but this word is not.
    UnknownWord {
        /// The word. For `--option=value`, only the option; for a cluster of short options, the
        /// whole cluster.
        word: String,
        /// The name of the program and its subcommand, as in the table.
        program: String,
    },
    /// The word is not accepted, because it is a path that leads out of the folder, or because it
    /// has a special meaning to programs.
    OutsideFolder {
        /// The word.
        word: String,
    },
}

impl fmt::Display for AnalysisError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProgram(name) => {
                write!(formatter, "the options of `{name}` are not known")
            }
            Self::UnknownWord { word, program } => {
                write!(formatter, "`{word}` is not a word of `{program}` that is understood")
            }
            Self::OutsideFolder { word } => write!(formatter, "`{word}` leads out of the folder"),
        }
    }
}

impl std::error::Error for AnalysisError {}

/// Analyzes a command. `held` is the number of words at its beginning that are trusted, because a
/// permission rule contains them.
/// If the rule contains all words, the command is accepted without analysis, with two exceptions:
/// commands that change the shell's directory, and interpreters that read their program from
/// standard input.
///
/// `command` must contain the words that the program receives, as
/// [`parse_portable_line`](crate::portable_line::parse_portable_line) returns them.
///
/// # Errors
///
/// Returns [`AnalysisError`] for the first word that is not in the table. A trusted word can cause
/// this error too, because it may change the meaning of the words after it.
pub fn analyze_command(
    command: &[String],
    held: usize,
) -> Result<CommandAnalysis<'_>, AnalysisError> {
    let found = find_program(command);
    let moves = found.is_some_and(|program| program.operands == Operands::Folder);
    if command.len() <= held && !moves && !reads_program_from_stdin(command) {
        return Ok(CommandAnalysis::default());
    }
    let Some(program) = found else {
        return Err(AnalysisError::UnknownProgram(
            command.iter().take(2).cloned().collect::<Vec<_>>().join(" "),
        ));
    };
    let mut reader =
        WordAnalyzer { program, allows_outside: false, analysis: CommandAnalysis::default() };
    reader.analyze_words(&command[program.words.len()..])?;
    if moves && reader.analysis.enters.is_none() {
        // A `cd` without a folder changes to the home directory, and `cd -` to the previous
        // directory.
        return Err(reader.unknown_word_error(&command[0]));
    }
    Ok(reader.analysis)
}

/// Returns whether a program reads the files that its operands name, and whether each word of the
/// command is understood. A path may lead out of the folder.
pub(crate) fn only_reads_operands(command: &[String]) -> bool {
    let Some(program) = find_program(command) else { return false };
    let analysis = CommandAnalysis::default();
    let mut reader = WordAnalyzer { program, allows_outside: true, analysis };
    program.operands == Operands::Paths
        && reader.analyze_words(&command[program.words.len()..]).is_ok()
}

/// Returns whether a command is an interpreter without a script. Such an interpreter reads its
/// program from standard input.
fn reads_program_from_stdin(command: &[String]) -> bool {
    let Some((program, words)) = command.split_first() else { return true };
    let name = program.rsplit('/').next().unwrap_or(program);
    (is_interpreter(name) || is_shell(name))
        && words.iter().all(|word| is_option(word) || word == "-")
}

/// Returns how many words at the start of the command name the program and its subcommand. Returns
/// `None` if a word of the command is not understood, or if one answer of the user must not allow
/// all commands that begin with this program and subcommand.
#[must_use]
pub fn allowable_prefix_len(command: &[String]) -> Option<usize> {
    let is_plain = command.first().is_some_and(|program| !program.contains('/'));
    let program = find_program(command).filter(|program| program.can_allow_prefix && is_plain)?;
    analyze_command(command, program.words.len()).is_ok().then_some(program.words.len())
}

struct WordAnalyzer<'a> {
    program: &'static Program,
    /// Whether a path may lead out of the folder.
    allows_outside: bool,
    analysis: CommandAnalysis<'a>,
}

impl<'a> WordAnalyzer<'a> {
    /// Analyzes the words after the words that name the program.
    fn analyze_words(&mut self, words: &'a [String]) -> Result<(), AnalysisError> {
        let (mut at, mut behind) = (0, None::<Option<AfterDoubleDash>>);
        while let Some(word) = words.get(at) {
            let next = words.get(at + 1).map(String::as_str);
            at += match behind {
                None if word == "--" => {
                    behind = Some(self.program.after_double_dash);
                    1
                }
                None if is_option(word) => self.analyze_option(word, next, self.program.options)?,
                Some(Some(AfterDoubleDash { options })) if is_option(word) => {
                    self.analyze_option(word, next, options)?
                }
                Some(Some(_)) => self.analyze_operand(word, Operands::Names)?,
                _ => self.analyze_operand(word, self.program.operands)?,
            };
        }
        Ok(())
    }

    /// Analyzes an option and its value. Returns the number of words that they take.
    fn analyze_option(
        &mut self,
        word: &'a str,
        next: Option<&'a str>,
        known: &'static str,
    ) -> Result<usize, AnalysisError> {
        let find = |name: &str| {
            known
                .split_ascii_whitespace()
                .map(parse_option_entry)
                .find(|option| option.name == name)
        };
        if let Some(long) = long_option_in_table_spelling(word, self.program.style) {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let found = find(name).ok_or_else(|| self.unknown_word_error(name))?;
            return self.analyze_option_value(word, found, value, next);
        }
        let letters = &word[1..];
        if letters.bytes().all(|letter| letter.is_ascii_digit()) && find("-#").is_some() {
            return Ok(1);
        }
        for (at, letter) in letters.char_indices() {
            let found = find(&format!("-{letter}")).ok_or_else(|| self.unknown_word_error(word))?;
            if found.value.is_some() {
                let attached = &letters[at + letter.len_utf8()..];
                let attached = Some(attached).filter(|attached| !attached.is_empty());
                return self.analyze_option_value(word, found, attached, next);
            }
        }
        Ok(1)
    }

    fn analyze_option_value(
        &mut self,
        word: &'a str,
        option: ProgramOption,
        attached: Option<&'a str>,
        next: Option<&'a str>,
    ) -> Result<usize, AnalysisError> {
        let Some(kind) = option.value else {
            return if attached.is_none() { Ok(1) } else { Err(self.unknown_word_error(word)) };
        };
        let (value, taken) = match (attached, next) {
            (Some(value), _) => (value, 1),
            (None, _) if option.is_optional => return Ok(1),
            (None, Some(value)) => (value, 2),
            // The program would reject the option without its value.
            (None, None) => return Err(self.unknown_word_error(word)),
        };
        match kind {
            OptionValueKind::Name if is_plain_name(value) => {}
            OptionValueKind::Text => {}
            OptionValueKind::Format if is_understood_git_format(value) => {}
            OptionValueKind::Path => self.check_and_add_path(value)?,
            OptionValueKind::Name | OptionValueKind::Format => {
                return Err(self.unknown_word_error(if taken == 2 { value } else { word }));
            }
        }
        Ok(taken)
    }

    fn analyze_operand(
        &mut self,
        word: &'a str,
        operands: Operands,
    ) -> Result<usize, AnalysisError> {
        match operands {
            Operands::Text => {}
            Operands::Names if is_plain_name(word) => {}
            Operands::Paths => self.check_and_add_path(word)?,
            Operands::Folder if self.analysis.enters.is_none() && !word.starts_with(['+', '-']) => {
                if !stays_beneath(word) {
                    return Err(AnalysisError::OutsideFolder { word: word.to_owned() });
                }
                self.analysis.enters = Some(word);
            }
            Operands::Names | Operands::Folder | Operands::None => {
                return Err(self.unknown_word_error(word));
            }
        }
        Ok(1)
    }

    fn check_and_add_path(&mut self, word: &'a str) -> Result<(), AnalysisError> {
        // The words in `@file` are not known.
        if word.starts_with('@') || !self.allows_outside && !stays_beneath(word) {
            return Err(AnalysisError::OutsideFolder { word: word.to_owned() });
        }
        // In `tests/a.py::name`, the path is the part before `::`.
        self.analysis.paths.push(word.split_once("::").map_or(word, |(path, _)| path));
        Ok(())
    }

    fn unknown_word_error(&self, word: &str) -> AnalysisError {
        AnalysisError::UnknownWord { word: word.to_owned(), program: self.program.words.join(" ") }
    }
}

/// Returns whether git runs no program for a format. For example, git runs a program that checks
/// signatures for `%G?`, and a name may stand for a format in the configuration.
fn is_understood_git_format(format: &str) -> bool {
    const NAMES: &[&str] =
        &["oneline", "short", "medium", "full", "fuller", "reference", "email", "raw", "mboxrd"];
    let text = ["format:", "tformat:"].iter().find_map(|prefix| format.strip_prefix(prefix));
    if text.is_none() && !format.contains('%') {
        return NAMES.contains(&format);
    }
    let mut rest = text.unwrap_or(format);
    while let Some((_, after)) = rest.split_once('%') {
        let Some(after) = after_git_placeholder(after) else { return false };
        rest = after;
    }
    true
}

/// Returns the text after a placeholder of a git format. `text` begins after the `%`. Returns
/// `None` if the placeholder is not understood.
///
/// If git does not understand a placeholder, it reads the text after the `%` as a format. The text
/// in parentheses is therefore not skipped, and a sign before a second `%` is not understood.
fn after_git_placeholder(text: &str) -> Option<&str> {
    // Placeholders of one letter, and the second letters of other placeholders.
    const LETTERS: &str = "BDHNPSTbdefhmnpst";
    const PAIRS: &[(char, &str)] =
        &[('a', "DEILNdehilnrst"), ('c', "DEILNdehilnrst"), ('g', "DENdens")];
    const WORDS: &[&str] = &[
        "(decorate",
        "(trailers",
        "<(",
        "<|(",
        ">(",
        "><(",
        ">>(",
        ">|(",
        "C(",
        "Cblue",
        "Cgreen",
        "Cred",
        "Creset",
        "w(",
    ];
    if let Some(rest) = text.strip_prefix('%') {
        return Some(rest);
    }
    let text = text.strip_prefix(['+', '-', ' ']).unwrap_or(text);
    if let Some(rest) = WORDS.iter().find_map(|word| text.strip_prefix(word)) {
        return Some(rest);
    }
    let mut letters = text.chars();
    let first = letters.next()?;
    if LETTERS.contains(first) {
        return Some(letters.as_str());
    }
    let second = letters.next()?;
    if first == 'x' {
        let is_code = second.is_ascii_hexdigit() && letters.next()?.is_ascii_hexdigit();
        return is_code.then_some(letters.as_str());
    }
    let (_, seconds) = PAIRS.iter().find(|(letter, _)| *letter == first)?;
    seconds.contains(second).then_some(letters.as_str())
}

/// Returns whether a word is an option or a cluster of short options. A single `-` is not an
/// option, because it means standard input.
fn is_option(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1
}

/// Returns the name that a long option has in the table; `None` if the word is not a long option.
fn long_option_in_table_spelling(word: &str, style: OptionStyle) -> Option<&str> {
    match style {
        OptionStyle::Gnu => word.starts_with("--").then_some(word),
        OptionStyle::Single => {
            Some(word.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(word))
        }
    }
}

/// Returns whether a word is safe as a name or a number: the word is not a path that leads out of
/// the folder, and if it begins with `-`, it is a number such as `-5`.
pub(crate) fn is_plain_name(word: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"_.,:+*%-".contains(&letter);
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    let begins_well = |first: u8| first.is_ascii_alphanumeric() || b"_.*".contains(&first);
    let is_number = digits.bytes().next().is_some_and(|first| first.is_ascii_digit());
    word.bytes().all(is_letter)
        && word.bytes().next().is_some_and(|first| begins_well(first) || is_number)
        && word != ".."
}

/// Returns whether a relative path stays in its folder and has no special meaning to programs. For
/// example, `@file` stands for the words in a file, and `:/` stands for another folder.
fn stays_beneath(path: &str) -> bool {
    !path.starts_with(['/', '@', ':', '~']) && !path.split('/').any(|name| name == "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn words(line: &str) -> Vec<String> {
        let line = crate::portable_line::parse_portable_line(line)
            .unwrap_or_else(|| panic!("{line} is plain"));
        line.commands.into_iter().next().unwrap()
    }

    /// Returns the part of a line that is not understood, if the first `held` words of the line are
    /// trusted.
    fn analysis_error(line: &str, held: usize) -> Option<String> {
        match analyze_command(&words(line), held) {
            Ok(_) => None,
            Err(AnalysisError::UnknownProgram(name)) => Some(name),
            Err(
                AnalysisError::UnknownWord { word, .. } | AnalysisError::OutsideFolder { word },
            ) => Some(word),
        }
    }

    #[test]
    fn each_word_is_understood_or_named() {
        for (line, held, expected) in [
            ("cargo test", 2, None),
            ("cargo test --workspace -qr -j4 -j 4 --jobs=4 --package acp-types a::b", 2, None),
            ("cargo test -- --nocapture --test-threads=1 name", 2, None),
            ("cargo test -- --logfile x", 2, Some("--logfile")),
            ("cargo test -- --logfile=x", 2, Some("--logfile")),
            ("cargo test --config x", 2, Some("--config")),
            ("cargo test --confi=x", 2, Some("--confi")),
            ("cargo test --quiet=yes", 2, Some("--quiet=yes")),
            ("cargo test -Zunstable", 2, Some("-Zunstable")),
            ("cargo test -qZ", 2, Some("-qZ")),
            ("cargo test --package --config", 2, Some("--config")),
            ("cargo test a/b", 2, Some("a/b")),
            ("cargo clippy -- -D warnings -A clippy::all", 2, None),
            ("cargo clippy -- @file", 2, Some("@file")),
            ("cargo clippy -D warnings", 2, Some("-D")),
            ("cargo +nightly test", 1, Some("cargo +nightly")),
            ("git blame -S x a.rs", 2, Some("-S")),
            ("git blame -Sx a.rs", 2, Some("-Sx")),
            ("git blame -L 1,2 src/a.rs", 2, None),
            ("git log --oneline -5 --format=%h main..feature -- src", 2, None),
            ("git log --show-signature", 2, Some("--show-signature")),
            ("git diff --output=x", 2, Some("--output")),
            ("git diff --outpu=x", 2, Some("--outpu")),
            ("git diff -- ../a", 2, Some("../a")),
            ("git diff :/a", 2, Some(":/a")),
            ("git -C /q status", 1, Some("git -C")),
            ("git status -sb", 1, None),
            ("ls -la src", 1, None),
            ("ls -LR", 1, Some("-LR")),
            ("ls -R -L", 1, Some("-L")),
            ("cat /etc/passwd", 1, Some("/etc/passwd")),
            ("cat a/../../b", 1, Some("a/../../b")),
            ("head -n -5 a", 1, None),
            ("head -20 a", 1, None),
            ("tail --follow a", 1, Some("--follow")),
            ("grep -rn --include='*.rs' -e -x src", 1, None),
            ("grep -f/etc/passwd a", 1, Some("/etc/passwd")),
            ("grep --file=../x a", 1, Some("../x")),
            ("rg --pre x a", 1, Some("--pre")),
            ("rg -z a", 1, Some("-z")),
            ("go test -run TestX -count=1 ./...", 2, None),
            ("go test --run TestX ./...", 2, None),
            ("go test -exec x ./...", 2, Some("-exec")),
            ("go test -o=x ./...", 2, Some("-o")),
            ("go vet -vettool=x", 2, Some("-vettool")),
            ("pytest -xvs tests/a.py::test -k a", 1, None),
            ("pytest @args", 1, Some("@args")),
            ("pytest -p x", 1, Some("-p")),
            ("npm test -- --x", 2, Some("--x")),
            ("cd sub", 1, None),
            ("cd sub other", 1, Some("other")),
            ("cd -", 1, Some("-")),
            ("cd", 1, Some("cd")),
            ("cd sub", 2, None),
            ("cd ..", 2, Some("..")),
            ("python3", 1, Some("python3")),
            ("python3 x.py", 2, None),
            ("python3 x.py -v", 2, Some("python3 x.py")),
            ("find . -name '*.rs' -type f", 1, None),
            ("find . -delete", 1, Some("-delete")),
            ("find . -exec rm x", 1, Some("-exec")),
            ("git commit -am 'a; b'", 2, None),
            ("git commit -F x", 2, Some("-F")),
            ("make lint", 2, None),
            ("make lint", 1, Some("make lint")),
            ("sudo ls", 1, Some("sudo ls")),
            // If the rule contains all words, the line is accepted. If further words follow, an
            // unknown word of the rule is an error, because it may change the meaning of the
            // further words.
            ("cargo test --config x", 4, None),
            ("cargo test --config x -q", 4, Some("--config")),
            ("cargo test --package a -q", 3, None),
            ("cargo test -q --config x", 3, Some("--config")),
            ("/usr/bin/ls -l", 1, None),
            ("/p/tools/ls -l", 1, Some("/p/tools/ls -l")),
            ("/p/tools/ls ls -l", 1, Some("/p/tools/ls ls")),
            ("/p/usr/bin/ls -l", 1, Some("/p/usr/bin/ls -l")),
            ("LS", 0, Some("LS")),
            // If both operands of `diff` are folders, `diff` follows the links in them.
            ("diff a b", 1, Some("diff a")),
        ] {
            assert_eq!(analysis_error(line, held).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn only_listed_placeholders_of_git_formats_are_understood() {
        for (line, held, expected) in [
            ("git log --pretty='format:%h %s'", 2, None),
            ("git log '--format=%G?'", 2, Some("--format=%G?")),
            ("git log '--format=%+G?'", 2, Some("--format=%+G?")),
            ("git log '--format=% GK'", 2, Some("--format=% GK")),
            ("git show '--pretty=%-G?'", 2, Some("--pretty=%-G?")),
            ("git log '--pretty=tformat:%h %GG'", 2, Some("--pretty=tformat:%h %GG")),
            ("git log '--format=%h%'", 2, Some("--format=%h%")),
            ("git log '--format=%Z'", 2, Some("--format=%Z")),
            ("git log '--format=%++G?'", 2, Some("--format=%++G?")),
            ("git log '--format=%(describe)'", 2, Some("--format=%(describe)")),
            ("git log '--format=%+%G?'", 2, Some("--format=%+%G?")),
            ("git log '--format=%C(%G?)'", 2, Some("--format=%C(%G?)")),
            ("git log '--format=%w(%G?)'", 2, Some("--format=%w(%G?)")),
            ("git log '--format=%xG?'", 2, Some("--format=%xG?")),
            ("git log '--format=%x2%G?'", 2, Some("--format=%x2%G?")),
            ("git log '--format=%aG'", 2, Some("--format=%aG")),
            ("git log --format=mine", 2, Some("--format=mine")),
            ("git log --pretty=fuller --format=oneline", 2, None),
            ("git log '--format=%h %an <%ae> %ad %s%n%b%x09%x1f%%'", 2, None),
            ("git log '--format=%C(yellow)%h%Creset %Cred%+d %<(20,trunc)%an %>|(9)%s'", 2, None),
            ("git log '--format=%H%x00%P%x00%aI %cI%(trailers:key=a)%w(72,1,2)%B'", 2, None),
            ("git log '--pretty=format:'", 2, None),
        ] {
            assert_eq!(analysis_error(line, held).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn read_paths_are_returned() {
        for (line, paths) in [
            ("cat a -n b/c", &["a", "b/c"][..]),
            ("grep -f pats x src", &["pats", "x", "src"]),
            ("rg x", &["x"]),
            ("pytest tests/a.py::name", &["tests/a.py"]),
            ("cargo test name", &[]),
            ("git show HEAD:src/a.rs", &["HEAD:src/a.rs"]),
        ] {
            assert_eq!(analyze_command(&words(line), 1).unwrap().paths, paths, "{line}");
        }
        assert_eq!(analyze_command(&words("cd a/b"), 1).unwrap().enters, Some("a/b"));
    }

    #[test]
    fn a_prefix_is_allowable_only_if_all_words_are_understood() {
        for (line, held) in [
            ("cargo test --workspace", Some(2)),
            ("cargo test --config x", None),
            ("git status", Some(2)),
            ("git push", None),
            ("cd src", None),
            ("rm a", None),
            ("/tmp/cat a", None),
        ] {
            assert_eq!(allowable_prefix_len(&words(line)), held, "{line}");
        }
    }

    #[test]
    fn a_program_in_a_folder_of_the_project_may_run_files_of_the_project() {
        for (line, expected) in [
            ("cat a", false),
            ("/usr/bin/cat a", false),
            ("/p/tools/cat a", true),
            ("/p/tools/cat cat", true),
            ("/usr/bin/../p/cat a", true),
            ("/p/bin/git status", true),
            ("cargo test", true),
            ("make", true),
        ] {
            assert_eq!(crate::may_run_project_files(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn no_row_lists_an_option_twice() {
        for program in crate::programs::programs() {
            let mut seen = std::collections::HashSet::new();
            for text in program.options.split_ascii_whitespace() {
                let ProgramOption { name, .. } = parse_option_entry(text);
                assert!(name.starts_with('-') && seen.insert(name), "{:?} {text}", program.words);
            }
        }
    }
}
