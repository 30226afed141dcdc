//! Command lines as words: strictly for what allows, loosely for what denies.
//!
//! It knows no shell's whole grammar. What it cannot be sure of is no simple command, and so is
//! asked about.

use serde::{Deserialize, Serialize};

use super::matcher::Match;
use crate::limits::{COMMAND_BYTES, PATTERN_BYTES};

/// The first words of commands: the program and what follows it.
///
/// A rule that allows matches *simple* commands only: words of plain ASCII, parted by spaces,
/// quoted or not, that every POSIX shell passes on as they are. Whatever joins commands, expands,
/// redirects, assigns, escapes or is longer than 4 KiB is not simple, and neither is a program
/// named by a relative path, which is another one in another folder. The rule holds in every
/// folder. On Windows, whose shells read commands otherwise, no command is simple.
///
/// A rule that denies matches wherever the words stand one after the other, however they are
/// quoted or joined with other commands, in any case and behind any path of the program. A command
/// that holds only the first of them, or is not simple, is asked about.
///
/// Mind what a program can be told: `git`, `find`, `sed`, `env` or `sh` run anything.
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

    pub(super) fn allows(&self, command: &Command) -> bool {
        command.simple.as_ref().is_some_and(|words| words.starts_with(&self.0))
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
    simple: Option<Vec<String>>,
    /// None of a command that is too long to be read.
    loose: Option<Vec<String>>,
}

impl Command {
    pub(super) fn read(line: &str) -> Self {
        let is_short = line.len() <= COMMAND_BYTES;
        let simple = if is_short && cfg!(not(windows)) { simple_words(line) } else { None };
        Self { simple, loose: is_short.then(|| loose_words(line)) }
    }

    /// Whether another command's words stand in this one, one after the other, or this one is too
    /// long to tell.
    pub(super) fn may_hold(&self, denied: &str) -> bool {
        self.loose.is_none() || self.holds(&loose_words(denied)) == Match::Yes
    }

    fn holds(&self, denied: &[String]) -> Match {
        let (Some(words), Some(program)) = (&self.loose, denied.first()) else {
            return Match::Maybe;
        };
        if words.windows(denied.len()).any(|words| stand_for(words, denied)) {
            Match::Yes
        } else if self.simple.is_none() || words.iter().any(|word| names(word, program)) {
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

/// Splits a simple command into its words; nothing for any other.
fn simple_words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), letter) if letter == end => quote = None,
            (Some('\''), ' '..='~') => word.get_or_insert_default().push(letter),
            (Some(_), ' '..='~') if !"$`\\!".contains(letter) => {
                word.get_or_insert_default().push(letter);
            }
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            // A word that begins with `=` is a path in zsh.
            (None, '=') if word.is_none() => return None,
            (None, letter) if letter.is_ascii_alphanumeric() || "_-./:=,+@%".contains(letter) => {
                word.get_or_insert_default().push(letter);
            }
            _ => return None,
        }
    }
    words.extend(word);
    let program: &String = words.first()?;
    let is_relative = program.contains('/') && !program.starts_with('/');
    let is_odd = program.is_empty() || program.contains('=') || is_relative;
    (quote.is_none() && !is_odd).then_some(words)
}

/// Splits a command at everything that can part words, quotes and escapes aside, in small letters.
fn loose_words(line: &str) -> Vec<String> {
    let bare = line.replace(['"', '\'', '\\'], "").to_ascii_lowercase();
    let parts = |letter: char| {
        letter.is_whitespace() || letter.is_control() || ";&|()<>{}[]$`=!,~*?#".contains(letter)
    };
    bare.split(parts).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::simple_words;

    #[test]
    fn a_simple_command_is_split_as_a_shell_does() {
        for (line, expected) in [
            ("cargo test", &["cargo", "test"][..]),
            ("  cargo   test  ", &["cargo", "test"]),
            ("rg 'fn main|x' src", &["rg", "fn main|x", "src"]),
            ("git commit -m \"it's done; really\"", &["git", "commit", "-m", "it's done; really"]),
            ("a'b'\"c\"d ''", &["abcd", ""]),
            ("make CC=gcc", &["make", "CC=gcc"]),
            ("/bin/ls -l", &["/bin/ls", "-l"]),
        ] {
            assert_eq!(simple_words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn quotes_that_do_not_close_and_odd_programs_are_not_simple() {
        for line in ["", " ", "'", "echo 'a", "echo \"a", "''", "'' a", "A=1 b", "./a", "a/b", "=a"]
        {
            assert_eq!(simple_words(line), None, "{line}");
        }
    }

    /// What a shell makes of `line` behind a program that prints its arguments.
    #[cfg(unix)]
    #[expect(clippy::disallowed_methods, reason = "a shell is what the words are compared with")]
    fn words_of_shell(line: &str) -> Vec<String> {
        let printing = format!("exec printf '%s\\0' {line}");
        let output = std::process::Command::new("sh").args(["-c", &printing]).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.split_terminator('\0').map(str::to_owned).collect()
    }

    #[cfg(unix)]
    proptest::proptest! {
        /// Only lines that are simple are given to the shell, and those are harmless.
        #[test]
        fn a_shell_sees_the_same_words(line in "[ab=~*'\" /.$-]{0,12}") {
            if let Some(words) = simple_words(&format!("x {line}")) {
                let seen = match words.len() {
                    // Without an argument it prints an empty one.
                    1 => Vec::new(),
                    _ => words_of_shell(&line),
                };
                proptest::prop_assert_eq!(seen, &words[1..], "{}", line);
            }
        }
    }
}
