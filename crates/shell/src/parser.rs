//! Splits a command line into all simple commands that a shell would run.
//!
//! The parser follows bash's grammar, and rejects every line that it cannot split with certainty.
//!
//! This crate has a separate parser, because two existing parsers were not suitable. `brush-parser`
//! 0.4 added 31 crates (`insta` and `pest` among them) and 41 s of compile time, and it keeps the
//! last commands in global caches. At 2,000 nested substitutions, `brush-parser` overflows the
//! stack, which aborts the process. `tree-sitter-bash` 0.25 is fast and can parse such nested
//! substitutions. However, `tree-sitter-bash` consists of 10 MB of generated C code. This code
//! would parse a model's text in the process that protects the user's files.

pub(crate) mod arithmetic;
mod conditions;
mod redirects;
mod words;

use std::mem::take;
use std::ops::Range;

use self::arithmetic::is_name;
use self::redirects::Heredoc;
use crate::limits::{MAX_COMMAND_DEPTH, MAX_COMMAND_LINE_BYTES, MAX_COMMAND_PARTS};

/// A word in the form that the program receives, as far as the parser can determine it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// The content without quotes. Expansions are not evaluated, but abbreviated: `${X…}` becomes
    /// `$X`, and `$(…)` becomes `$`.
    pub(crate) text: String,
    /// Whether a part of the word expands.
    pub(crate) expands: bool,
    /// Whether a part of the word is quoted or escaped.
    pub(crate) is_quoted: bool,
    /// Whether the word may become several words or none.
    pub(crate) may_split: bool,
    /// The word as it is written in the line. The source of an array is `A=()`.
    pub(crate) source: String,
    /// The default values of expansions, e.g. `a` of `${X:-a}`, with the places of the expansions
    /// in `text`.
    pub(crate) defaults: Vec<(Range<usize>, String)>,
}

impl ShellWord {
    /// Returns whether the word, quoted or not, contains a subscript that may run a command. If a
    /// shell uses such a word as the name of an array element or as an expression, the shell
    /// expands the subscript once more.
    pub(crate) fn has_expanding_subscript(&self) -> bool {
        let subscript = self.text.split_once('[').map(|(_, subscript)| subscript);
        subscript.is_some_and(|it| ["$(", "${", "`"].iter().any(|mark| it.contains(mark)))
    }

    /// Returns the text in which each expansion with a default value is replaced by this value.
    /// Returns `None` if there is no such expansion.
    pub(crate) fn text_with_defaults(&self) -> Option<String> {
        let (mut text, mut end) = (String::new(), 0);
        for (place, value) in &self.defaults {
            text.push_str(self.text.get(end..place.start).unwrap_or_default());
            text.push_str(value);
            end = place.end;
        }
        text.push_str(self.text.get(end..).unwrap_or_default());
        (!self.defaults.is_empty()).then_some(text)
    }
}

/// A part of a line, in source order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinePart {
    Command(SimpleCommand),
    /// Start of commands that a subshell runs. If these commands change the state of the shell, the
    /// changes are lost at the end of the subshell.
    SubshellStart,
    SubshellEnd,
    /// End of a chain of commands that are joined by `&&`.
    ChainEnd,
    /// Start of a loop, whose commands may run several times.
    LoopStart,
    /// Start of a function with this name. Its commands may run several times, and later.
    FunctionStart(String),
    /// A text that the shell evaluates as arithmetic.
    Arithmetic(String),
}

/// A simple command with its redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// The assignments, e.g. `A=1`.
    pub(crate) assignments: Vec<ShellWord>,
    /// The elements of the arrays that are assigned.
    pub(crate) array_elements: Vec<ShellWord>,
    /// The program and its arguments; empty if only files are opened, e.g. by `done > file`.
    pub(crate) words: Vec<ShellWord>,
    /// The files to which the command writes.
    pub(crate) writes: Vec<ShellWord>,
    /// The files from which the command reads.
    pub(crate) reads: Vec<ShellWord>,
    /// The texts of `<<` and `<<<`.
    pub(crate) input: Option<ShellWord>,
    pub(crate) input_origin: InputOrigin,
    /// Whether the next command runs only if this command succeeds.
    pub(crate) is_before_and: bool,
}

/// The origin of the standard input of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum InputOrigin {
    /// The line does not redirect the input.
    #[default]
    Inherited,
    /// The input is a single text of `<<` or `<<<`.
    Text,
    /// The input may be a file, or one of several texts.
    Unclear,
}

impl SimpleCommand {
    /// Adds an input text. If there are several texts, all of them are kept, although the command
    /// reads only one.
    fn append_input_text(&mut self, text: &ShellWord) {
        let input = self.input.get_or_insert_default();
        input.text.push_str(&text.text);
        input.expands |= text.expands;
    }
}

/// The reason why a line cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseFailure {
    TooLong,
    TooManyParts,
    TooDeep,
    Unclear,
}

impl ParseFailure {
    /// Returns the key of the reason to ask for permission.
    pub(crate) fn reason_key(self) -> &'static str {
        match self {
            Self::TooLong => "risk-too-long",
            Self::TooManyParts => "risk-too-many-parts",
            Self::TooDeep => "risk-too-deep",
            Self::Unclear => "risk-unclear",
        }
    }
}

/// Splits a line that is nested `depth` levels deep in another line.
pub(crate) fn parse_command_line(line: &str, depth: usize) -> Result<Vec<LinePart>, ParseFailure> {
    if line.len() > MAX_COMMAND_LINE_BYTES {
        return Err(ParseFailure::TooLong);
    }
    let mut reader = ShellParser::new_unless_too_deep(line, depth)?;
    reader.parse_command_list(None)?;
    Ok(reader.parts)
}

struct ShellParser<'a> {
    rest: &'a str,
    depth: usize,
    parts: Vec<LinePart>,
    /// The command that is being parsed.
    current: SimpleCommand,
    /// Whether the command began with an assignment or a redirection. After such a beginning, no
    /// word of the command is a keyword.
    has_prefix: bool,
    /// Whether an `&&` precedes the current command.
    is_after_and: bool,
    /// Whether it is unclear if the command succeeded. This is the case if the command is negated,
    /// or if it is a part of a pipe, which runs in a subshell.
    is_success_unclear: bool,
    /// Whether the command contains `&>`. A plain `sh` ends the command at the `&`, and runs the
    /// words after the target as another command.
    has_combined_redirect: bool,
    /// Heredocs whose bodies begin on the next line.
    heredocs: Vec<Heredoc>,
}

impl<'a> ShellParser<'a> {
    fn new_unless_too_deep(rest: &'a str, depth: usize) -> Result<Self, ParseFailure> {
        let reader = Self {
            rest,
            depth,
            parts: Vec::new(),
            current: SimpleCommand::default(),
            has_prefix: false,
            is_after_and: false,
            is_success_unclear: false,
            has_combined_redirect: false,
            heredocs: Vec::new(),
        };
        if depth > MAX_COMMAND_DEPTH { Err(ParseFailure::TooDeep) } else { Ok(reader) }
    }

    /// Parses commands up to the end of the text, or to the closing character.
    fn parse_command_list(&mut self, closer: Option<char>) -> Result<(), ParseFailure> {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => {
                    self.end_command_and_chain()?;
                    let is_whole = closer.is_none() && self.heredocs.is_empty();
                    return if is_whole { Ok(()) } else { Err(ParseFailure::Unclear) };
                }
                Some('\n') => {
                    self.bump();
                    self.end_command_and_chain()?;
                    self.parse_heredoc_bodies()?;
                }
                Some('&') if self.rest.starts_with("&>") => self.parse_redirect("")?,
                Some(letter @ (';' | '&' | '|')) => self.parse_operator(letter)?,
                Some('(') => self.parse_subshell_or_function()?,
                Some(')') if closer == Some(')') => {
                    self.bump();
                    return self.end_command_and_chain();
                }
                Some(')') => return Err(ParseFailure::Unclear),
                Some('<' | '>') if !self.is_process_substitution() => self.parse_redirect("")?,
                Some('#') => self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]),
                Some(_) => self.parse_command_word()?,
            }
        }
    }

    /// Parses an operator between two commands.
    fn parse_operator(&mut self, letter: char) -> Result<(), ParseFailure> {
        self.bump();
        // The second character of `&&`, `||`, `;;` or `|&`.
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
            _ => self.end_command_and_chain(),
        }
    }

    /// Parses the commands of a substitution or group inside the current command.
    fn parse_nested_commands(&mut self) -> Result<(), ParseFailure> {
        if !self.heredocs.is_empty() {
            return Err(ParseFailure::Unclear);
        }
        let outer = (take(&mut self.current), take(&mut self.has_prefix));
        let chain = (take(&mut self.is_after_and), take(&mut self.is_success_unclear));
        self.parts.push(LinePart::SubshellStart);
        self.with_more_depth(|reader| reader.parse_command_list(Some(')')))?;
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

    /// Parses a nested text with a separate parser, and adds the parts that it finds.
    fn parse_embedded(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut ShellParser<'_>) -> Result<(), ParseFailure>,
    ) -> Result<(), ParseFailure> {
        let mut reader = ShellParser::new_unless_too_deep(text, self.depth + 1)?;
        read(&mut reader)?;
        self.parts.append(&mut reader.parts);
        Ok(())
    }

    fn end_command(&mut self) -> Result<(), ParseFailure> {
        let command = take(&mut self.current);
        self.has_prefix = false;
        self.has_combined_redirect = false;
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

    /// Ends a command. The next command may run even if this command fails.
    fn end_command_and_chain(&mut self) -> Result<(), ParseFailure> {
        self.end_command()?;
        self.is_success_unclear = false;
        if take(&mut self.is_after_and) {
            self.parts.push(LinePart::ChainEnd);
        }
        Ok(())
    }

    /// Parses a parenthesis: a subshell, or the `()` of a function.
    fn parse_subshell_or_function(&mut self) -> Result<(), ParseFailure> {
        let is_first = self.current.words.is_empty();
        if is_first && self.rest.starts_with("((") {
            // In bash, `((` begins an arithmetic expression. In a plain `sh`, it begins commands in
            // two nested subshells.
            return Err(ParseFailure::Unclear);
        }
        self.bump();
        if is_first {
            return self.parse_nested_commands();
        }
        self.skip_blanks();
        // The text after `()` is the body of the function. The body is parsed like commands that
        // run at this point.
        match &*take(&mut self.current).words {
            [name] if self.eat(")") => {
                self.parts.push(LinePart::FunctionStart(name.text.clone()));
                Ok(())
            }
            _ => Err(ParseFailure::Unclear),
        }
    }

    /// Parses the first word or a later word of a command.
    fn parse_command_word(&mut self) -> Result<(), ParseFailure> {
        let before = self.rest;
        let mut word = self.parse_word()?;
        let source = &before[..before.len() - self.rest.len()];
        let is_number = source.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.rest.starts_with(['<', '>']) {
            return self.parse_redirect(source);
        }
        if self.has_combined_redirect {
            return Err(ParseFailure::Unclear);
        }
        let descriptor = source.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        if let Some(variable) = descriptor.filter(|_| self.rest.starts_with(['<', '>'])) {
            // Bash assigns the number of the descriptor. Other shells pass the word to the program.
            let is_exec = self.current.words.first().is_some_and(|word| word.text == "exec");
            if self.rest.starts_with('<') && !is_exec {
                return Err(ParseFailure::Unclear);
            }
            let (name, subscript) = variable.split_once('[').unwrap_or((variable, ""));
            if is_name(name) {
                self.add_arithmetic(subscript.trim_end_matches(']'));
                self.add_assignment(format!("{name}=3"));
                if is_exec && self.current.words.len() == 1 {
                    return self.parse_redirect("3");
                }
            }
        }
        if self.is_for_or_select_head() && matches!(source, "do" | "{") {
            // `for a do …` iterates over the script's arguments.
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
            let name = source.split('=').next().unwrap_or(source);
            if let Some((_, subscript)) = name.split_once('[') {
                self.add_arithmetic(subscript.trim_end_matches(['+', ']']));
            }
            let is_array = source.ends_with('=') && self.eat("(");
            if is_array {
                word.source.push_str("()");
            }
            self.current.assignments.push(word);
            return if is_array { self.parse_array() } else { Ok(()) };
        }
        if self.has_prefix {
            // In a substitution, bash 5.2 moves the redirections to the end of the command, and
            // parses the command again.
            if self.current.assignments.is_empty() && KEYWORDS.contains(&source) {
                return Err(ParseFailure::Unclear);
            }
            self.current.words.push(word);
            return Ok(());
        }
        self.parse_first_word(word, source)
    }

    /// Handles the first word of a command, which may be a keyword.
    fn parse_first_word(&mut self, word: ShellWord, source: &str) -> Result<(), ParseFailure> {
        match source {
            "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "{" | "}" => Ok(()),
            "!" => {
                self.is_success_unclear = true;
                Ok(())
            }
            "time" => self.parse_time_option(),
            "while" | "until" => {
                self.parts.push(LinePart::LoopStart);
                Ok(())
            }
            "case" | "esac" | "coproc" => Err(ParseFailure::Unclear),
            "function" => {
                self.skip_blanks();
                let name = self.parse_word()?;
                self.skip_blanks();
                self.eat("()");
                self.parts.push(LinePart::FunctionStart(name.text));
                Ok(())
            }
            "[[" => self.parse_condition(),
            _ => {
                if matches!(source, "for" | "select") {
                    self.parts.push(LinePart::LoopStart);
                }
                self.current.words.push(word);
                Ok(())
            }
        }
    }

    /// Returns whether the current command consists of `for` or `select` and a name.
    fn is_for_or_select_head(&self) -> bool {
        matches!(&*self.current.words, [first, _] if matches!(&*first.text, "for" | "select"))
    }

    /// Parses the option `-p` of the keyword `time`. Any other option is unclear: some shells then
    /// run a program named `time`, and other shells run the option as a command.
    fn parse_time_option(&mut self) -> Result<(), ParseFailure> {
        self.skip_blanks();
        let is_word = self.eat("-p ") || !self.rest.starts_with('-');
        if is_word { Ok(()) } else { Err(ParseFailure::Unclear) }
    }

    fn parse_nonempty_word(&mut self) -> Result<ShellWord, ParseFailure> {
        let before = self.rest.len();
        let word = self.parse_word()?;
        if self.rest.len() < before { Ok(word) } else { Err(ParseFailure::Unclear) }
    }

    /// Skips blanks and line continuations. A continuation that may join two characters of an
    /// operator is not skipped; such a line is unclear, because no word begins with a continuation.
    fn skip_blanks(&mut self) {
        loop {
            let before = self.rest.len();
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            let is_after_blank = self.rest.len() < before;
            let next = self.rest.strip_prefix("\\\n");
            let joins = |next: &&str| !is_after_blank && next.starts_with(JOINABLE);
            let Some(next) = next.filter(|next| !joins(next)) else { return };
            self.rest = next;
        }
    }

    /// Returns whether a process substitution `<(…)` or `>(…)` begins here. A process substitution
    /// is a word or a part of a word.
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

const KEYWORDS: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

/// The second and later characters of operators.
const JOINABLE: [char; 8] = ['&', '|', ';', '<', '>', '(', ')', '-'];

/// Returns whether the source of a word assigns a variable: `A=1`, `A+=1`, `A[0]=1`.
pub(crate) fn is_assignment(source: &str) -> bool {
    let Some((name, _)) = source.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let is_part = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
    name.starts_with(|letter| is_part(letter) && !letter.is_ascii_digit())
        && name.chars().all(is_part)
}

/// Returns whether the first word of a command is a name with an unclear subscript. A subscript is
/// unclear if it continues after the word, or if it contains other characters than letters, digits,
/// `_`, `@`, `*` and `$`. In an unclear subscript, quotes and comments may have another meaning.
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
