//! Splits a command line into the simple commands that a shell would run, wherever they stand.
//!
//! It follows bash as far as it goes and gives up where it does not. It knows nothing of programs.

mod words;

use std::mem::take;

use crate::limits::{COMMAND_DEPTH, COMMAND_LINE_BYTES, COMMAND_PARTS};

/// A word, as the program gets it where that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// What it holds; of what expands, as it stands there, `${X…}` as `$X`.
    pub(super) text: String,
    /// Whether something in it expands.
    pub(super) expands: bool,
    /// Whether something in it is quoted or escaped.
    pub(super) is_quoted: bool,
}

/// One simple command with what is redirected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// The program and its arguments; none where only files are opened, as by `done > file`.
    pub(super) words: Vec<Word>,
    /// The files that it writes.
    pub(super) writes: Vec<Word>,
    /// The files that it reads.
    pub(super) reads: Vec<Word>,
    /// The text that it reads: of `<<` or `<<<`.
    pub(super) input: Option<Word>,
}

/// Why a line cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error("it is too long to be read")]
    TooLong,
    #[error("it has too many parts to be read")]
    TooMany,
    #[error("it is nested too deeply to be read")]
    TooDeep,
    #[error("it has no end, or holds what is not understood")]
    Unclear,
}

/// Splits a line that stands `depth` levels within another one.
pub(super) fn read(line: &str, depth: usize) -> Result<Vec<Simple>, Unread> {
    if line.len() > COMMAND_LINE_BYTES {
        return Err(Unread::TooLong);
    }
    let mut reader = Reader::at(line, depth)?;
    reader.list(None)?;
    Ok(reader.found)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
    found: Vec<Simple>,
    /// The command that is being read.
    current: Simple,
    /// Whether it began with an assignment or a redirection: then no word is one of the shell.
    is_begun: bool,
    /// Texts that begin with the next line.
    heredocs: Vec<Heredoc>,
}

struct Heredoc {
    delimiter: Word,
    strips_tabs: bool,
    /// Which of the found commands reads it.
    owner: Option<usize>,
}

impl<'a> Reader<'a> {
    fn at(rest: &'a str, depth: usize) -> Result<Self, Unread> {
        let (found, current, heredocs) = (Vec::new(), Simple::default(), Vec::new());
        let reader = Self { rest, depth, found, current, is_begun: false, heredocs };
        if depth > COMMAND_DEPTH { Err(Unread::TooDeep) } else { Ok(reader) }
    }

    /// Reads commands up to the end, or to what closes them.
    fn list(&mut self, closer: Option<char>) -> Result<(), Unread> {
        loop {
            self.blanks();
            match self.peek() {
                None => {
                    self.end_command()?;
                    let is_whole = closer.is_none() && self.heredocs.is_empty();
                    return if is_whole { Ok(()) } else { Err(Unread::Unclear) };
                }
                Some('\n') => {
                    self.bump();
                    self.end_command()?;
                    self.heredoc_bodies()?;
                }
                Some('&') if self.rest.starts_with("&>") => self.redirect()?,
                Some(letter @ (';' | '&' | '|')) => {
                    self.bump();
                    // The second one of `&&`, `||`, `;;` or `|&`.
                    let second = self.peek().filter(|next| *next == letter || *next == '&');
                    second.into_iter().for_each(|_| self.bump());
                    self.end_command()?;
                }
                Some('(') => self.parenthesis()?,
                Some(')') if closer == Some(')') => {
                    self.bump();
                    return self.end_command();
                }
                Some(')') => return Err(Unread::Unclear),
                Some('<' | '>') if !self.is_process() => self.redirect()?,
                Some('#') => self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]),
                Some(_) => self.command_word()?,
            }
        }
    }

    /// Reads commands of their own within this one.
    fn nested(&mut self) -> Result<(), Unread> {
        if !self.heredocs.is_empty() {
            return Err(Unread::Unclear);
        }
        let (outer, is_begun) = (take(&mut self.current), take(&mut self.is_begun));
        self.deeper(|reader| reader.list(Some(')')))?;
        (self.current, self.is_begun) = (outer, is_begun);
        Ok(())
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<(), Unread>) -> Result<(), Unread> {
        if self.depth >= COMMAND_DEPTH {
            return Err(Unread::TooDeep);
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Takes over what another reader found in a text within this one.
    fn within(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<(), Unread>,
    ) -> Result<(), Unread> {
        let mut reader = Reader::at(text, self.depth + 1)?;
        read(&mut reader)?;
        self.found.append(&mut reader.found);
        Ok(())
    }

    fn end_command(&mut self) -> Result<(), Unread> {
        let command = take(&mut self.current);
        self.is_begun = false;
        let mut is_any = command != Simple::default();
        for heredoc in self.heredocs.iter_mut().filter(|heredoc| heredoc.owner.is_none()) {
            heredoc.owner = Some(self.found.len());
            is_any = true;
        }
        if is_any {
            self.found.push(command);
        }
        if self.found.len() > COMMAND_PARTS { Err(Unread::TooMany) } else { Ok(()) }
    }

    /// Reads what begins with a parenthesis: commands, an expression, or a function's `()`.
    fn parenthesis(&mut self) -> Result<(), Unread> {
        let is_first = self.current.words.is_empty();
        if is_first && self.eat("((") {
            return self.deeper(Self::arithmetic);
        }
        self.bump();
        if is_first {
            return self.nested();
        }
        self.blanks();
        let is_function = self.current.words.len() == 1 && self.eat(")");
        // What it does follows, and is read as if it ran here.
        self.current = Simple::default();
        if is_function { Ok(()) } else { Err(Unread::Unclear) }
    }

    /// Reads a word where a command goes on or begins.
    fn command_word(&mut self) -> Result<(), Unread> {
        let before = self.rest;
        let word = self.word()?;
        let source = &before[..before.len() - self.rest.len()];
        let is_number = source.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.rest.starts_with(['<', '>']) {
            return Ok(());
        }
        if !self.current.words.is_empty() {
            self.current.words.push(word);
            return Ok(());
        }
        if is_assignment(source) {
            self.is_begun = true;
            return if source.ends_with('=') && self.eat("(") { self.array() } else { Ok(()) };
        }
        match source {
            _ if self.is_begun => {
                self.current.words.push(word);
                Ok(())
            }
            "if" | "then" | "elif" | "else" | "fi" | "while" | "until" | "do" | "done" | "{"
            | "}" | "!" | "coproc" => Ok(()),
            "case" | "esac" => Err(Unread::Unclear),
            "function" => {
                self.blanks();
                self.word()?;
                self.blanks();
                self.eat("()");
                Ok(())
            }
            "[[" => self.condition(),
            _ => {
                self.current.words.push(word);
                Ok(())
            }
        }
    }

    fn array(&mut self) -> Result<(), Unread> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
            if self.eat(")") {
                return Ok(());
            }
            self.some_word()?;
        }
    }

    /// Reads up to the end of `[[ … ]]`, in which `<`, `(` and the like join no commands.
    fn condition(&mut self) -> Result<(), Unread> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
            match self.peek() {
                None | Some(';') => return Err(Unread::Unclear),
                Some('(' | ')' | '<' | '>' | '&' | '|') => self.bump(),
                Some(_) if self.word()?.text == "]]" => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn some_word(&mut self) -> Result<Word, Unread> {
        let before = self.rest.len();
        let word = self.word()?;
        if self.rest.len() < before { Ok(word) } else { Err(Unread::Unclear) }
    }

    fn redirect(&mut self) -> Result<(), Unread> {
        const OPERATORS: &[&str] =
            &["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", ">", "<"];
        let Some(operator) = OPERATORS.iter().find(|operator| self.eat(operator)) else {
            return Err(Unread::Unclear);
        };
        self.is_begun = true;
        self.blanks();
        let target = self.some_word()?;
        let is_descriptor = target.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        match *operator {
            "<<" | "<<-" => {
                let strips_tabs = *operator == "<<-";
                self.heredocs.push(Heredoc { delimiter: target, strips_tabs, owner: None });
            }
            "<<<" => self.current.input = Some(target),
            "<&" | ">&" if is_descriptor => {}
            "<" | "<&" => self.current.reads.push(target),
            _ => self.current.writes.push(target),
        }
        Ok(())
    }

    fn heredoc_bodies(&mut self) -> Result<(), Unread> {
        for Heredoc { delimiter, strips_tabs, owner } in take(&mut self.heredocs) {
            let mut body = String::new();
            loop {
                if self.rest.is_empty() {
                    return Err(Unread::Unclear);
                }
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
                if line == delimiter.text {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            let mut input = Word { text: body.clone(), ..Word::default() };
            if !delimiter.is_quoted {
                input.text.clear();
                self.within(&body, |reader| reader.quoted(&mut input, None))?;
            }
            let owner = owner.and_then(|owner| self.found.get_mut(owner));
            owner.ok_or(Unread::Unclear)?.input = Some(input);
        }
        Ok(())
    }

    /// Passes over blanks and joined lines.
    fn blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            if !self.eat("\\\n") {
                return;
            }
        }
    }

    /// Whether the commands of a `<(…)` or `>(…)` begin, which is a word or a part of one.
    fn is_process(&self) -> bool {
        self.rest.starts_with("<(") || self.rest.starts_with(">(")
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn bump(&mut self) {
        let _ = self.next();
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Whether the source of a word sets a variable: `A=1`, `A+=1`, `A[0]=1`.
fn is_assignment(source: &str) -> bool {
    let Some((name, _)) = source.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let is_part = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
    name.starts_with(|letter| is_part(letter) && !letter.is_ascii_digit())
        && name.chars().all(is_part)
}

#[cfg(test)]
mod tests;
