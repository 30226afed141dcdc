//! Command lines as words: strictly for what allows, loosely for what denies.
//!
//! It knows no shell's whole grammar. What it cannot be sure of is no plain command, and so is
//! asked about.

use callboard_shell::portable_line::{self, PortableLine};
use callboard_shell::{
    AnalysisError, allowable_prefix_len, analyze_command, is_interpreter, wraps_commands,
};
use serde::{Deserialize, Serialize};

use super::MatchCertainty;
use crate::effects::Effect;
use crate::limits::{MAX_JUDGED_COMMAND_BYTES, MAX_RULE_PATTERN_BYTES};

/// The first words of commands: the program and what follows it.
///
/// A rule that allows matches *plain* commands only: words of plain ASCII, parted by spaces,
/// quoted or not, that every POSIX shell passes on as they are, and what is joined of those by `;`,
/// `&&`, `||`, `|` or a new line, each of which a rule has to allow. Whatever else joins commands,
/// expands, reads a file, assigns, escapes or is longer than 4 KiB is not plain, and neither is a
/// program named by a relative path, which is another one in another folder. Output may go to
/// `/dev/null` and to files that the call says it writes. The rule holds in every folder. On
/// Windows, whose shells read commands otherwise, no command is plain.
///
/// Words that follow those of the rule have to be understood: they stand in the table of
/// [`callboard_shell`], which knows the options of common programs that build, test and look. Any
/// other word, and any other program, is asked about unless the rule holds all of the command. Paths
/// among the words must not lead out of the folder that the command runs in. That a path is a link to
/// elsewhere has to be an effect of its own, as the terminal of `acp-tools` reports it.
///
/// A rule that denies matches wherever the words stand one after the other, however they are
/// quoted or joined with other commands, in any case and behind any path of the program. A command
/// that holds only the first of them, or is not plain, is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct ArgvPrefix(Vec<String>);

impl ArgvPrefix {
    /// Makes the prefix of these words; none of no words, of an empty program, or of over 1 KiB.
    #[must_use]
    pub fn try_new(words: Vec<String>) -> Option<Self> {
        let bytes: usize = words.iter().map(String::len).sum();
        let has_program = words.first().is_some_and(|program| !program.is_empty());
        (has_program && bytes <= MAX_RULE_PATTERN_BYTES).then_some(Self(words))
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Whether a rule for it speaks of one plain command.
    pub(super) fn allows(&self, command: &[String]) -> bool {
        command.starts_with(&self.0) && analyze_command(command, self.0.len()).is_ok()
    }

    /// Returns why a rule for it does not speak of a command that begins with its words.
    pub(super) fn mismatch_reason(&self, command: &[String]) -> Option<AnalysisError> {
        let begins = command.starts_with(&self.0);
        begins.then(|| analyze_command(command, self.0.len()).err()).flatten()
    }

    pub(super) fn denies(&self, command: &ParsedCommandLine) -> MatchCertainty {
        command.match_denied(&split_loosely(&self.0.join(" ")))
    }
}

impl TryFrom<Vec<String>> for ArgvPrefix {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Self, Self::Error> {
        Self::try_new(words).ok_or("a command's first words must be some, and not over 1 KiB")
    }
}

impl From<ArgvPrefix> for Vec<String> {
    fn from(prefix: ArgvPrefix) -> Self {
        prefix.0
    }
}

/// A command line, read once for all rules.
#[derive(Debug)]
pub(super) struct ParsedCommandLine {
    pub(super) portable_line: Option<PortableLine>,
    /// None of a command that is too long to be read.
    lowercase_words: Option<Vec<String>>,
}

impl ParsedCommandLine {
    pub(super) fn new(line: &str) -> Self {
        let is_short = line.len() <= MAX_JUDGED_COMMAND_BYTES;
        let portable_line =
            if is_short && cfg!(not(windows)) { portable_line::parse(line) } else { None };
        Self { portable_line, lowercase_words: is_short.then(|| split_loosely(line)) }
    }

    /// Whether another command's words stand in this one, one after the other, or this one is too
    /// long to tell.
    pub(super) fn may_contain(&self, denied: &str) -> bool {
        self.lowercase_words.is_none()
            || self.match_denied(&split_loosely(denied)) == MatchCertainty::Yes
    }

    /// Whether it may run what does not stand there: it is not plain, or joins commands of which
    /// one runs what another may have written.
    fn may_run_other_commands(&self) -> bool {
        let is_joint = |line: &PortableLine| line.commands.len() > 1;
        let runs = |line: &PortableLine| {
            line.commands.iter().any(|words| is_launcher_or_interpreter(&words[0]))
        };
        self.portable_line.as_ref().is_none_or(|line| is_joint(line) && runs(line))
    }

    fn match_denied(&self, denied: &[String]) -> MatchCertainty {
        let (Some(words), Some(program)) = (&self.lowercase_words, denied.first()) else {
            return MatchCertainty::Maybe;
        };
        if words.windows(denied.len()).any(|words| matches_denied_words(words, denied)) {
            MatchCertainty::Yes
        } else if self.may_run_other_commands()
            || words.iter().any(|word| names_program(word, program))
        {
            MatchCertainty::Maybe
        } else {
            MatchCertainty::No
        }
    }
}

/// Returns the first words of the one command in a line, if all commands that begin with them, and of
/// which every word is understood, may be allowed by one button.
pub(crate) fn offerable_prefix(line: &str) -> Option<ArgvPrefix> {
    let plain = ParsedCommandLine::new(line).portable_line?;
    let [command] = &*plain.commands else { return None };
    let held = allowable_prefix_len(command).filter(|_| plain.writes.is_empty())?;
    ArgvPrefix::try_new(command[..held].to_vec())
}

/// Whether an effect is a command that may run files of the project, by itself or what it is told.
pub(crate) fn may_run_project_files(effect: &Effect) -> bool {
    let Effect::Run { command, .. } = effect else { return false };
    let line = ParsedCommandLine::new(command).portable_line;
    line.is_none_or(|line| {
        line.commands.iter().any(|command| callboard_shell::may_run_project_files(command))
    })
}

/// Whether a program runs what it is told or reads.
fn is_launcher_or_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    wraps_commands(&name) || is_interpreter(&name)
}

fn matches_denied_words(words: &[String], denied: &[String]) -> bool {
    let mut pairs = words.iter().zip(denied);
    pairs.next().is_some_and(|(word, program)| names_program(word, program))
        && pairs.all(|(word, denied)| word == denied)
}

/// Whether a word names a program, behind any path.
fn names_program(word: &str, program: &str) -> bool {
    word == program || word.rsplit('/').next() == Some(program)
}

/// Splits a command at everything that can part words, quotes and escapes aside, in small letters.
fn split_loosely(line: &str) -> Vec<String> {
    let bare = line.replace(['"', '\'', '\\'], "").to_ascii_lowercase();
    let parts = |letter: char| {
        letter.is_whitespace() || letter.is_control() || ";&|()<>{}[]$`=!,~*?#".contains(letter)
    };
    bare.split(parts).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
