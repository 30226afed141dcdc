//! Command lines as words: strictly for what allows, loosely for what denies.
//!
//! It knows no shell's whole grammar. What it cannot be sure of is no plain command, and so is
//! asked about.

use callboard_shell::plain::{self, Plain};
use callboard_shell::{NotUnderstood, button, interprets, runs_another, understand};
use serde::{Deserialize, Serialize};

use super::Match;
use crate::effects::Effect;
use crate::limits::{COMMAND_BYTES, PATTERN_BYTES};

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
        (has_program && bytes <= PATTERN_BYTES).then_some(Self(words))
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Whether a rule for it speaks of one plain command.
    pub(super) fn allows(&self, command: &[String]) -> bool {
        command.starts_with(&self.0) && understand(command, self.0.len()).is_ok()
    }

    /// Returns why a rule for it does not speak of a command that begins with its words.
    pub(super) fn not_understood(&self, command: &[String]) -> Option<NotUnderstood> {
        let begins = command.starts_with(&self.0);
        begins.then(|| understand(command, self.0.len()).err()).flatten()
    }

    pub(super) fn denies(&self, command: &Command) -> Match {
        command.holds(&loose_words(&self.0.join(" ")))
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
pub(super) struct Command {
    pub(super) plain: Option<Plain>,
    /// None of a command that is too long to be read.
    loose: Option<Vec<String>>,
}

impl Command {
    pub(super) fn read(line: &str) -> Self {
        let is_short = line.len() <= COMMAND_BYTES;
        let plain = if is_short && cfg!(not(windows)) { plain::read(line) } else { None };
        Self { plain, loose: is_short.then(|| loose_words(line)) }
    }

    /// Whether another command's words stand in this one, one after the other, or this one is too
    /// long to tell.
    pub(super) fn may_hold(&self, denied: &str) -> bool {
        self.loose.is_none() || self.holds(&loose_words(denied)) == Match::Yes
    }

    /// Whether it may run what does not stand there: it is not plain, or joins commands of which
    /// one runs what another may have written.
    fn is_unclear(&self) -> bool {
        let is_joint = |line: &Plain| line.commands.len() > 1;
        let runs = |line: &Plain| line.commands.iter().any(|words| runs_what_it_reads(&words[0]));
        self.plain.as_ref().is_none_or(|line| is_joint(line) && runs(line))
    }

    fn holds(&self, denied: &[String]) -> Match {
        let (Some(words), Some(program)) = (&self.loose, denied.first()) else {
            return Match::Maybe;
        };
        if words.windows(denied.len()).any(|words| stand_for(words, denied)) {
            Match::Yes
        } else if self.is_unclear() || words.iter().any(|word| names(word, program)) {
            Match::Maybe
        } else {
            Match::No
        }
    }
}

/// Returns the first words of the one command in a line, if all commands that begin with them, and of
/// which every word is understood, may be allowed by one button.
pub(crate) fn common(line: &str) -> Option<ArgvPrefix> {
    let plain = Command::read(line).plain?;
    let [command] = &*plain.commands else { return None };
    let held = button(command).filter(|_| plain.writes.is_empty())?;
    ArgvPrefix::try_new(command[..held].to_vec())
}

/// Whether an effect is a command that may run files of the project, by itself or what it is told.
pub(crate) fn runs_files(effect: &Effect) -> bool {
    let Effect::Run { command, .. } = effect else { return false };
    let line = Command::read(command).plain;
    line.is_none_or(|line| line.commands.iter().any(|command| callboard_shell::runs_files(command)))
}

/// Whether a program runs what it is told or reads.
fn runs_what_it_reads(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    runs_another(&name) || interprets(&name)
}

fn stand_for(words: &[String], denied: &[String]) -> bool {
    let mut pairs = words.iter().zip(denied);
    pairs.next().is_some_and(|(word, program)| names(word, program))
        && pairs.all(|(word, denied)| word == denied)
}

/// Whether a word names a program, behind any path.
fn names(word: &str, program: &str) -> bool {
    word == program || word.rsplit('/').next() == Some(program)
}

/// Splits a command at everything that can part words, quotes and escapes aside, in small letters.
fn loose_words(line: &str) -> Vec<String> {
    let bare = line.replace(['"', '\'', '\\'], "").to_ascii_lowercase();
    let parts = |letter: char| {
        letter.is_whitespace() || letter.is_control() || ";&|()<>{}[]$`=!,~*?#".contains(letter)
    };
    bare.split(parts).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
