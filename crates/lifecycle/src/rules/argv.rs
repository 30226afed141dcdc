//! Command lines as words: strictly for what allows, loosely for what denies.
//!
//! It knows no shell's whole grammar. What it cannot be sure of is no plain command, and so is
//! asked about.

use serde::{Deserialize, Serialize};

use super::matcher::Match;
use super::plain::{self, Plain};
use super::told;
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
/// What programs can be told that makes another command of them has to be in the rule: `find` does
/// not allow `find -exec`, `git diff` not `--output`, `cat` and `pytest` no path that leads out of the
/// folder they run in, `cd` one folder beneath, and `sh`, `env` or `xargs` nothing but what the rule
/// says. The table is in `rules/told.rs`. It looks at words and not at the disk: that a path is a link
/// to elsewhere has to be told as an effect of its own, as the terminal of `acp-tools` does for what
/// its programs show.
///
/// A rule that denies matches wherever the words stand one after the other, however they are
/// quoted or joined with other commands, in any case and behind any path of the program. A command
/// that holds only the first of them, or is not plain, is asked about.
///
/// Mind what a program can do: the table knows what is common, not everything.
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
        command.starts_with(&self.0) && told::is_same(command, self.0.len())
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
        let runs = |line: &Plain| line.commands.iter().any(|words| told::is_runner(words));
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
