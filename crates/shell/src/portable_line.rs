//! Command lines that every POSIX shell parses in the same way.
//!
//! The grammar is deliberately incomplete: the parser rejects a line at the first character that
//! shells might treat differently.

use std::iter::Peekable;
use std::str::Chars;

/// A line of simple commands, joined by `;`, `&&`, `||`, `|` or the end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortableLine {
    /// The words of each command, as the program receives them. There is at least one command.
    pub commands: Vec<Vec<String>>,
    /// The files to which output is redirected, as named in the line.
    pub writes: Vec<String>,
}

/// Parses a line. Returns `None` if the line contains an expansion, an escape, an assignment, a
/// group, a redirection of input, a background command, or a character that is not plain ASCII.
#[must_use]
pub fn parse_portable_line(line: &str) -> Option<PortableLine> {
    let mut reader =
        PortableParser { letters: line.chars().peekable(), ..PortableParser::default() };
    while let Some(letter) = reader.letters.next() {
        reader.parse_char(letter)?;
    }
    reader.end_word();
    reader.end_command(Separator::Line)?;
    let PortableParser { commands, writes, needs_command: owes, wants_target, .. } = reader;
    let is_whole = !owes && !wants_target && !commands.is_empty();
    let is_odd = |words: &Vec<String>| {
        words.first().is_none_or(|program| is_assignment_or_relative_path(program))
    };
    (is_whole && !commands.iter().any(is_odd)).then_some(PortableLine { commands, writes })
}

/// Returns whether a first word is not the name of a program, or may name a different program in
/// each folder.
fn is_assignment_or_relative_path(program: &str) -> bool {
    let is_relative = program.contains('/') && !program.starts_with('/');
    program.is_empty() || program.contains('=') || is_relative
}

/// The separator between two commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// The end of a line, which may be empty.
    Line,
    /// `;`, which requires a command before it.
    Semicolon,
    /// `&&`, `||` or `|`, which require a command on each side.
    Operator,
}

struct PortableParser<'a> {
    letters: Peekable<Chars<'a>>,
    commands: Vec<Vec<String>>,
    writes: Vec<String>,
    words: Vec<String>,
    word: Option<String>,
    /// Whether a part of the word was quoted. In `"2">a`, the `2` is a word; in `2>a`, the `2` is a
    /// part of the redirection.
    is_quoted: bool,
    /// Whether the next word is the target of a redirection.
    wants_target: bool,
    /// Whether a command must follow.
    needs_command: bool,
}

impl Default for PortableParser<'_> {
    fn default() -> Self {
        Self {
            letters: "".chars().peekable(),
            commands: Vec::new(),
            writes: Vec::new(),
            words: Vec::new(),
            word: None,
            is_quoted: false,
            wants_target: false,
            needs_command: false,
        }
    }
}

impl PortableParser<'_> {
    fn parse_char(&mut self, letter: char) -> Option<()> {
        match letter {
            ' ' => self.end_word(),
            '\'' | '"' => self.parse_quoted(letter)?,
            '\n' => return self.parse_separator(Separator::Line),
            ';' => return self.parse_separator(Separator::Semicolon),
            '|' => {
                self.letters.next_if_eq(&'|');
                return self.parse_separator(Separator::Operator);
            }
            '&' => {
                self.letters.next_if_eq(&'&')?;
                return self.parse_separator(Separator::Operator);
            }
            '>' => return self.parse_redirect(),
            // A word that begins with `=` is a path in zsh.
            '=' if self.word.is_none() => return None,
            letter if letter.is_ascii_alphanumeric() || "_-./:=,+@%".contains(letter) => {
                self.word.get_or_insert_default().push(letter);
            }
            _ => return None,
        }
        Some(())
    }

    fn parse_quoted(&mut self, end: char) -> Option<()> {
        self.is_quoted = true;
        let word = self.word.get_or_insert_default();
        loop {
            match self.letters.next()? {
                letter if letter == end => return Some(()),
                letter @ ' '..='~' if end == '\'' || !"$`\\!".contains(letter) => word.push(letter),
                _ => return None,
            }
        }
    }

    /// Parses the rest of a redirection after its first `>`. The redirection may be `>`, `1>`,
    /// `2>`, `2>&1` or one of these with `>>`.
    fn parse_redirect(&mut self) -> Option<()> {
        match self.word.take() {
            None => {}
            Some(word) if !self.is_quoted && matches!(&*word, "1" | "2") => {}
            Some(_) => return None,
        }
        if self.wants_target {
            return None;
        }
        if self.letters.next_if_eq(&'&').is_some() {
            self.letters.next_if(|letter| matches!(letter, '1' | '2'))?;
            let is_over = self.letters.peek().is_none_or(|letter| " ;|&\n".contains(*letter));
            return is_over.then_some(());
        }
        self.letters.next_if_eq(&'>');
        self.wants_target = true;
        Some(())
    }

    fn end_word(&mut self) {
        self.is_quoted = false;
        let Some(word) = self.word.take() else { return };
        if !self.wants_target {
            self.words.push(word);
        } else if word != "/dev/null" {
            self.writes.push(word);
        }
        self.wants_target = false;
    }

    fn parse_separator(&mut self, joint: Separator) -> Option<()> {
        self.end_word();
        self.end_command(joint)?;
        self.needs_command =
            joint == Separator::Operator || (self.needs_command && joint == Separator::Line);
        Some(())
    }

    fn end_command(&mut self, joint: Separator) -> Option<()> {
        let words = std::mem::take(&mut self.words);
        if self.wants_target || (words.is_empty() && joint != Separator::Line) {
            return None;
        }
        if !words.is_empty() {
            self.commands.push(words);
            self.needs_command = false;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
