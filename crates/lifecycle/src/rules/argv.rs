//! Matching of command lines by their words. Allowing rules match strictly. Denying rules match
//! loosely.
//!
//! The parser does not support a complete shell grammar. If it is uncertain whether a command is
//! plain (see [`ArgvPrefix`]), the client is asked.

use callboard_shell::portable_line::{self, PortableLine};
use callboard_shell::{
    AnalysisError, allowable_prefix_len, analyze_command, is_interpreter, wraps_commands,
};
use serde::{Deserialize, Serialize};

use super::MatchCertainty;
use crate::effects::Effect;
use crate::limits::{MAX_JUDGED_COMMAND_BYTES, MAX_RULE_PATTERN_BYTES};

/// The first words of a command: the program and the arguments after it.
///
/// An allowing rule matches only *plain* commands. A plain command consists of ASCII words that are
/// separated by spaces and may be quoted. Every POSIX shell passes such words to the program
/// unchanged. Plain commands may be joined by `;`, `&&`, `||`, `|` or a newline. Each of the joined
/// commands must then be allowed by a rule. A command is not plain if it uses other operators,
/// expansions, input redirections, assignments or escapes, or if it is longer than 4 KiB. A command
/// whose program has a relative path is not plain either, because the path depends on the working
/// directory. Output may be redirected to `/dev/null` and to files that the effects of the call
/// list as written. The rule applies in every working directory. On Windows no command is plain,
/// because Windows shells parse commands differently.
///
/// A command may contain further words after the words of the rule. Each further word must be
/// known, i.e. it must occur in the table of [`callboard_shell`]. The table contains the options of
/// common programs that build, test and inspect. For any other word or program the client is asked,
/// unless the rule contains the whole command.
///
/// Paths among the words must stay inside the working directory of the command. If a path is a link
/// to another location, the effects of the call must list the target separately. The terminal tool
/// of `acp-tools` lists these targets.
///
/// A denying rule matches wherever its words occur in sequence. A denying rule ignores quotes,
/// joined commands, letter case and the path of the program. If a command contains the program's
/// name without the other words of the rule, or if a command is not plain, the client is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct ArgvPrefix(Vec<String>);

impl ArgvPrefix {
    /// Creates a prefix from words. Returns `None` if there are no words, the program is empty, or
    /// the words exceed 1 KiB.
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

    /// Returns whether a rule with this prefix allows one plain command.
    pub(super) fn allows(&self, command: &[String]) -> bool {
        command.starts_with(&self.0) && analyze_command(command, self.0.len()).is_ok()
    }

    /// Returns why a rule with this prefix does not allow a command that begins with the prefix.
    pub(super) fn mismatch_reason(&self, command: &[String]) -> Option<AnalysisError> {
        let begins = command.starts_with(&self.0);
        begins.then(|| analyze_command(command, self.0.len()).err()).flatten()
    }

    pub(super) fn deny_certainty(&self, command: &ParsedCommandLine) -> MatchCertainty {
        command.denied_words_certainty(&split_loosely(&self.0.join(" ")))
    }
}

impl TryFrom<Vec<String>> for ArgvPrefix {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Self, Self::Error> {
        Self::try_new(words).ok_or("expected at least one word, and at most 1 KiB in total")
    }
}

impl From<ArgvPrefix> for Vec<String> {
    fn from(prefix: ArgvPrefix) -> Self {
        prefix.0
    }
}

/// A command line, parsed once for all rules.
#[derive(Debug)]
pub(super) struct ParsedCommandLine {
    pub(super) portable_line: Option<PortableLine>,
    /// The words in lowercase, or `None` if the command is too long to be parsed.
    lowercase_words: Option<Vec<String>>,
}

impl ParsedCommandLine {
    pub(super) fn new(line: &str) -> Self {
        let is_short = line.len() <= MAX_JUDGED_COMMAND_BYTES;
        let portable_line = if is_short && cfg!(not(windows)) {
            portable_line::parse_portable_line(line)
        } else {
            None
        };
        Self { portable_line, lowercase_words: is_short.then(|| split_loosely(line)) }
    }

    /// Returns whether this command contains the words of a denied command in sequence. Also
    /// returns true for a command that is too long to be parsed.
    pub(super) fn may_contain_denied(&self, denied: &str) -> bool {
        self.lowercase_words.is_none()
            || self.denied_words_certainty(&split_loosely(denied)) == MatchCertainty::Yes
    }

    /// Returns whether this line may run commands that are not contained in its text. A line may
    /// run hidden commands if the line is not plain, or if one of its commands runs input that
    /// another command may have written.
    fn may_run_hidden_commands(&self) -> bool {
        let is_joint = |line: &PortableLine| line.commands.len() > 1;
        let runs = |line: &PortableLine| {
            line.commands.iter().any(|words| is_launcher_or_interpreter(&words[0]))
        };
        self.portable_line.as_ref().is_none_or(|line| is_joint(line) && runs(line))
    }

    fn denied_words_certainty(&self, denied: &[String]) -> MatchCertainty {
        let (Some(words), Some(program)) = (&self.lowercase_words, denied.first()) else {
            return MatchCertainty::Maybe;
        };
        if words.windows(denied.len()).any(|words| matches_denied_words(words, denied)) {
            MatchCertainty::Yes
        } else if self.may_run_hidden_commands()
            || words.iter().any(|word| is_same_program_ignoring_path(word, program))
        {
            MatchCertainty::Maybe
        } else {
            MatchCertainty::No
        }
    }
}

/// Returns the first words of a line's only command, if one permission option may allow all known
/// commands that begin with these words.
pub(crate) fn prefix_for_permission_option(line: &str) -> Option<ArgvPrefix> {
    let plain = ParsedCommandLine::new(line).portable_line?;
    let [command] = &*plain.commands else { return None };
    let held = allowable_prefix_len(command).filter(|_| plain.writes.is_empty())?;
    ArgvPrefix::try_new(command[..held].to_vec())
}

/// Returns whether an effect is a command that may run files of the project, either directly or
/// because of its arguments.
pub(crate) fn may_run_project_files(effect: &Effect) -> bool {
    let Effect::Run { command, .. } = effect else { return false };
    let line = ParsedCommandLine::new(command).portable_line;
    line.is_none_or(|line| {
        line.commands.iter().any(|command| callboard_shell::may_run_project_files(command))
    })
}

/// Returns whether a program runs its arguments or its input as code.
fn is_launcher_or_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    wraps_commands(&name) || is_interpreter(&name)
}

fn matches_denied_words(words: &[String], denied: &[String]) -> bool {
    let mut pairs = words.iter().zip(denied);
    pairs.next().is_some_and(|(word, program)| is_same_program_ignoring_path(word, program))
        && pairs.all(|(word, denied)| word == denied)
}

/// Returns whether a word names a program, with or without a path.
fn is_same_program_ignoring_path(word: &str, program: &str) -> bool {
    word == program || word.rsplit('/').next() == Some(program)
}

/// Splits a command at every character that can separate words. Removes quotes and escapes, and
/// converts the words to lowercase.
fn split_loosely(line: &str) -> Vec<String> {
    let bare = line.replace(['"', '\'', '\\'], "").to_ascii_lowercase();
    let parts = |letter: char| {
        letter.is_whitespace() || letter.is_control() || ";&|()<>{}[]$`=!,~*?#".contains(letter)
    };
    bare.split(parts).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
