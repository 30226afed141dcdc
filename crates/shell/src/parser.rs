//! Splits a command line into the simple commands that a shell would run, wherever they stand.
//!
//! It follows bash as far as it goes and gives up where it does not. It knows nothing of programs.
//!
//! The line is split by code of our own. `brush-parser` 0.4 brought 31 crates that were not there
//! before (`insta` and `pest` among them) and 41 s of compiling, keeps the last commands in global
//! caches, and ends the process by a stack overflow where 2,000 substitutions are nested.
//! `tree-sitter-bash` 0.25 is quick and survives that, but it is 10 MB of generated C that reads
//! what a model wrote, within the process that guards the files.

mod redirects;
mod words;

use std::mem::take;

use self::redirects::Heredoc;
use crate::limits::{MAX_COMMAND_DEPTH, MAX_COMMAND_LINE_BYTES, MAX_COMMAND_PARTS};

/// A word, as the program gets it where that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// What it holds; of what expands, as it stands there, `${X…}` as `$X`.
    pub(crate) text: String,
    /// Whether something in it expands.
    pub(crate) expands: bool,
    /// Whether something in it is quoted or escaped.
    pub(crate) is_quoted: bool,
}

impl ShellWord {
    /// Whether a command in a subscript of it runs, quoted or not, where a shell takes the word for
    /// the name of an element or an expression: it expands a subscript once more.
    pub(crate) fn has_expanding_subscript(&self) -> bool {
        let subscript = self.text.split_once('[').map(|(_, subscript)| subscript);
        subscript.is_some_and(|it| ["$(", "${", "`"].iter().any(|mark| it.contains(mark)))
    }
}

/// A part of a line, in the order in which they stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinePart {
    Command(SimpleCommand),
    /// Commands begin that a shell of their own runs: what they change of it is gone at the end.
    SubshellStart,
    SubshellEnd,
    /// Here commands end that run only where the one before them succeeded.
    ChainEnd,
    /// What follows may run again: a loop, a function.
    MayRepeat,
}

/// One simple command with what is redirected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// What it sets: `A=1`, and the elements of an array.
    pub(crate) assignments: Vec<ShellWord>,
    /// The program and its arguments; none where only files are opened, as by `done > file`.
    pub(crate) words: Vec<ShellWord>,
    /// The files that it writes.
    pub(crate) writes: Vec<ShellWord>,
    /// The files that it reads.
    pub(crate) reads: Vec<ShellWord>,
    /// The texts that it reads: of `<<` or `<<<`.
    pub(crate) input: Option<ShellWord>,
    /// Whether what follows runs only if it succeeds.
    pub(crate) is_before_and: bool,
}

impl SimpleCommand {
    /// Adds a text that it reads. Which of several it reads in the end does not matter here.
    fn add_input(&mut self, text: &ShellWord) {
        let input = self.input.get_or_insert_default();
        input.text.push_str(&text.text);
        input.expands |= text.expands;
    }
}

/// Why a line cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseFailure {
    TooLong,
    TooManyParts,
    TooDeep,
    Unclear,
}

impl ParseFailure {
    /// Returns the key of why it is asked about.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::TooLong => "risk-too-long",
            Self::TooManyParts => "risk-too-many-parts",
            Self::TooDeep => "risk-too-deep",
            Self::Unclear => "risk-unclear",
        }
    }
}

/// Splits a line that stands `depth` levels within another one.
pub(crate) fn parse(line: &str, depth: usize) -> Result<Vec<LinePart>, ParseFailure> {
    if line.len() > MAX_COMMAND_LINE_BYTES {
        return Err(ParseFailure::TooLong);
    }
    let mut reader = ShellParser::try_new(line, depth)?;
    reader.list(None)?;
    Ok(reader.parts)
}

struct ShellParser<'a> {
    rest: &'a str,
    depth: usize,
    parts: Vec<LinePart>,
    /// The command that is being read.
    current: SimpleCommand,
    /// Whether it began with an assignment or a redirection: then no word is one of the shell.
    has_prefix: bool,
    /// Whether an `&&` stands before what is read now.
    is_after_and: bool,
    /// Whether its success means something else: it is negated, or a part of a pipe, which a shell
    /// of its own runs.
    is_success_unclear: bool,
    /// Texts that begin with the next line.
    heredocs: Vec<Heredoc>,
}

impl<'a> ShellParser<'a> {
    fn try_new(rest: &'a str, depth: usize) -> Result<Self, ParseFailure> {
        let (found, current, heredocs) = (Vec::new(), SimpleCommand::default(), Vec::new());
        let (is_begun, is_chained, is_doubtful) = (false, false, false);
        let reader = Self {
            rest,
            depth,
            parts: found,
            current,
            has_prefix: is_begun,
            is_after_and: is_chained,
            is_success_unclear: is_doubtful,
            heredocs,
        };
        if depth > MAX_COMMAND_DEPTH { Err(ParseFailure::TooDeep) } else { Ok(reader) }
    }

    /// Reads commands up to the end, or to what closes them.
    fn list(&mut self, closer: Option<char>) -> Result<(), ParseFailure> {
        loop {
            self.blanks();
            match self.peek() {
                None => {
                    self.end_chain()?;
                    let is_whole = closer.is_none() && self.heredocs.is_empty();
                    return if is_whole { Ok(()) } else { Err(ParseFailure::Unclear) };
                }
                Some('\n') => {
                    self.bump();
                    self.end_chain()?;
                    self.heredoc_bodies()?;
                }
                Some('&') if self.rest.starts_with("&>") => self.redirect()?,
                Some(letter @ (';' | '&' | '|')) => self.parse_operator(letter)?,
                Some('(') => self.parenthesis()?,
                Some(')') if closer == Some(')') => {
                    self.bump();
                    return self.end_chain();
                }
                Some(')') => return Err(ParseFailure::Unclear),
                Some('<' | '>') if !self.is_process_substitution() => self.redirect()?,
                Some('#') => self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]),
                Some(_) => self.command_word()?,
            }
        }
    }

    /// Reads what joins two commands.
    fn parse_operator(&mut self, letter: char) -> Result<(), ParseFailure> {
        self.bump();
        // The second one of `&&`, `||`, `;;` or `|&`.
        let second = self.peek().filter(|next| *next == letter || *next == '&');
        second.into_iter().for_each(|_| self.bump());
        match (letter, second) {
            ('&', Some(_)) => {
                let is_sure = !take(&mut self.is_success_unclear);
                self.current.is_before_and = is_sure && !self.current.words.is_empty();
                self.is_after_and = true;
                self.end_command()
            }
            ('|', None | Some('&')) => {
                self.is_success_unclear = true;
                self.end_command()
            }
            _ => self.end_chain(),
        }
    }

    /// Reads commands of their own within this one.
    fn nested(&mut self) -> Result<(), ParseFailure> {
        if !self.heredocs.is_empty() {
            return Err(ParseFailure::Unclear);
        }
        let outer = (take(&mut self.current), take(&mut self.has_prefix));
        let chain = (take(&mut self.is_after_and), take(&mut self.is_success_unclear));
        self.parts.push(LinePart::SubshellStart);
        self.with_more_depth(|reader| reader.list(Some(')')))?;
        if !self.heredocs.is_empty() {
            return Err(ParseFailure::Unclear);
        }
        self.parts.push(LinePart::SubshellEnd);
        (self.current, self.has_prefix) = outer;
        (self.is_after_and, self.is_success_unclear) = chain;
        Ok(())
    }

    fn with_more_depth(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), ParseFailure>,
    ) -> Result<(), ParseFailure> {
        if self.depth >= MAX_COMMAND_DEPTH {
            return Err(ParseFailure::TooDeep);
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Takes over what another reader found in a text within this one.
    fn parse_embedded(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut ShellParser<'_>) -> Result<(), ParseFailure>,
    ) -> Result<(), ParseFailure> {
        let mut reader = ShellParser::try_new(text, self.depth + 1)?;
        read(&mut reader)?;
        self.parts.append(&mut reader.parts);
        Ok(())
    }

    fn end_command(&mut self) -> Result<(), ParseFailure> {
        let command = take(&mut self.current);
        self.has_prefix = false;
        let mut is_any = command != SimpleCommand::default();
        for heredoc in self.heredocs.iter_mut().filter(|heredoc| heredoc.command_index.is_none()) {
            heredoc.command_index = Some(self.parts.len());
            is_any = true;
        }
        if is_any {
            self.parts.push(LinePart::Command(command));
        }
        if self.parts.len() > MAX_COMMAND_PARTS { Err(ParseFailure::TooManyParts) } else { Ok(()) }
    }

    /// Ends a command after which the next one runs whether it succeeded or not.
    fn end_chain(&mut self) -> Result<(), ParseFailure> {
        self.end_command()?;
        self.is_success_unclear = false;
        if take(&mut self.is_after_and) {
            self.parts.push(LinePart::ChainEnd);
        }
        Ok(())
    }

    /// Reads what begins with a parenthesis: commands, or a function's `()`.
    fn parenthesis(&mut self) -> Result<(), ParseFailure> {
        let is_first = self.current.words.is_empty();
        if is_first && self.rest.starts_with("((") {
            // An expression in bash, commands in a plain `sh`.
            return Err(ParseFailure::Unclear);
        }
        self.bump();
        if is_first {
            return self.nested();
        }
        self.blanks();
        let is_function = self.current.words.len() == 1 && self.eat(")");
        // What it does follows, and is read as if it ran here.
        self.current = SimpleCommand::default();
        self.parts.push(LinePart::MayRepeat);
        if is_function { Ok(()) } else { Err(ParseFailure::Unclear) }
    }

    /// Reads a word where a command goes on or begins.
    fn command_word(&mut self) -> Result<(), ParseFailure> {
        let before = self.rest;
        let word = self.word()?;
        let source = &before[..before.len() - self.rest.len()];
        let is_number = source.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.rest.starts_with(['<', '>']) {
            return Ok(());
        }
        if self.is_loop_head() && matches!(source, "do" | "{") {
            // `for a do …` goes through what the script was told.
            return self.end_command();
        }
        if !self.current.words.is_empty() {
            self.current.words.push(word);
            return Ok(());
        }
        if has_unclear_subscript(source) {
            return Err(ParseFailure::Unclear);
        }
        if is_assignment(source) {
            self.has_prefix = true;
            self.current.assignments.push(word);
            return if source.ends_with('=') && self.eat("(") { self.array() } else { Ok(()) };
        }
        if self.has_prefix {
            self.current.words.push(word);
            return Ok(());
        }
        self.first_word(word, source)
    }

    /// Reads on after the first word of a command, which may be one of the shell.
    fn first_word(&mut self, word: ShellWord, source: &str) -> Result<(), ParseFailure> {
        match source {
            "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "{" | "}" => Ok(()),
            "!" => {
                self.is_success_unclear = true;
                Ok(())
            }
            "time" => self.time(),
            "while" | "until" => {
                self.parts.push(LinePart::MayRepeat);
                Ok(())
            }
            "case" | "esac" | "coproc" => Err(ParseFailure::Unclear),
            "function" => {
                self.blanks();
                self.word()?;
                self.blanks();
                self.eat("()");
                self.parts.push(LinePart::MayRepeat);
                Ok(())
            }
            "[[" => self.condition(),
            _ => {
                if matches!(source, "for" | "select") {
                    self.parts.push(LinePart::MayRepeat);
                }
                self.current.words.push(word);
                Ok(())
            }
        }
    }

    /// Whether `for` or `select` and a name were read.
    fn is_loop_head(&self) -> bool {
        matches!(&*self.current.words, [first, _] if matches!(&*first.text, "for" | "select"))
    }

    /// Reads what may stand behind the shell's word `time`. With any other option it is a program
    /// for one shell, and for another one the option is.
    fn time(&mut self) -> Result<(), ParseFailure> {
        self.blanks();
        let is_word = self.eat("-p ") || !self.rest.starts_with('-');
        if is_word { Ok(()) } else { Err(ParseFailure::Unclear) }
    }

    fn array(&mut self) -> Result<(), ParseFailure> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
            if self.eat(")") {
                // What stands close behind belongs to the same word, and is no command.
                let is_over = self.peek().is_none_or(|next| " \t\n;&|)".contains(next));
                return if is_over { Ok(()) } else { Err(ParseFailure::Unclear) };
            }
            // Here a shell reads comments and subscripts by rules of their own.
            if self.rest.starts_with(['#', '[']) {
                return Err(ParseFailure::Unclear);
            }
            let element = self.parse_nonempty_word()?;
            self.current.assignments.push(element);
        }
    }

    /// Reads up to the end of `[[ … ]]`, in which `<`, `(` and the like join no commands. Where they
    /// do in a plain `sh`, which knows no `[[`, it is unclear.
    fn condition(&mut self) -> Result<(), ParseFailure> {
        let mut open = 0;
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
            let is_or = self.eat("||");
            if is_or && self.rest.trim_start().starts_with(can_start_program_name) {
                return Err(ParseFailure::Unclear);
            }
            let is_operator = is_or || self.eat("&&");
            match self.peek() {
                _ if is_operator => {}
                None | Some(';' | '#') => return Err(ParseFailure::Unclear),
                Some('&' | '|') if open == 0 => return Err(ParseFailure::Unclear),
                Some(letter @ ('(' | ')' | '<' | '>' | '&' | '|'))
                    if !self.is_process_substitution() =>
                {
                    open += i32::from(letter == '(') - i32::from(letter == ')');
                    self.bump();
                }
                Some(_) => {
                    let before = self.rest;
                    let word = self.word()?;
                    let source = &before[..before.len() - self.rest.len()];
                    // In a group of an expression, a shell finds the end of that by its own rules.
                    // And `-v` and `-eq` take a word for the name of an element.
                    if open > 0 && source.contains("${") || word.has_expanding_subscript() {
                        return Err(ParseFailure::Unclear);
                    }
                    if word.text == "]]" && !word.is_quoted {
                        return if open == 0 { Ok(()) } else { Err(ParseFailure::Unclear) };
                    }
                }
            }
        }
    }

    fn parse_nonempty_word(&mut self) -> Result<ShellWord, ParseFailure> {
        let before = self.rest.len();
        let word = self.word()?;
        if self.rest.len() < before { Ok(word) } else { Err(ParseFailure::Unclear) }
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
    fn is_process_substitution(&self) -> bool {
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

/// Whether a word that begins with this letter names a program as it stands.
fn can_start_program_name(letter: char) -> bool {
    !matches!(letter, '-' | '!' | '$' | '"' | '(')
}

/// Whether a word at the place of a command sets an element by a subscript that goes on behind it,
/// or holds more than letters and digits: then quotes and comments in it count otherwise.
fn has_unclear_subscript(source: &str) -> bool {
    let is_part = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
    let after = source.trim_start_matches(is_part);
    let Some(subscript) = after.strip_prefix('[').filter(|_| after.len() < source.len()) else {
        return false;
    };
    let rest = subscript.trim_start_matches(|letter| is_part(letter) || "@*$".contains(letter));
    !rest.starts_with(']')
}

#[cfg(test)]
mod tests;
