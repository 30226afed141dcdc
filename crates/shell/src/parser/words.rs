//! Words: quotes, escapes and expansions.

use super::{LinePart, ParseFailure, ShellParser, ShellWord, arithmetic};

impl ShellParser<'_> {
    pub(super) fn parse_word(&mut self) -> Result<ShellWord, ParseFailure> {
        let (mut word, before) = (ShellWord::default(), self.rest);
        while let Some(letter) = self.peek() {
            match letter {
                '<' | '>' if self.is_process_substitution() => {
                    self.rest = &self.rest[2..];
                    self.parse_nested_commands()?;
                    word.text.push_str("<()");
                    word.expands = true;
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    let after = self.rest.strip_prefix("\\\n");
                    if after.is_some_and(|after| after.starts_with([' ', '\t', '\n'])) {
                        break;
                    }
                    self.bump();
                    match self.next().ok_or(ParseFailure::Unclear)? {
                        // The line continuation joins two texts. Together, they may be a keyword,
                        // an operator or a `$(`.
                        '\n' => return Err(ParseFailure::Unclear),
                        letter => word.text.push(letter),
                    }
                    word.is_quoted = true;
                }
                '\'' => {
                    self.bump();
                    let (text, rest) = self.rest.split_once('\'').ok_or(ParseFailure::Unclear)?;
                    word.text.push_str(text);
                    word.is_quoted = true;
                    self.rest = rest;
                }
                '"' => {
                    self.bump();
                    self.parse_double_quoted(&mut word, Some('"'))?;
                    word.is_quoted = true;
                }
                '$' => self.parse_dollar(&mut word, false)?,
                '`' => {
                    self.parse_backquoted(&mut word)?;
                    word.may_split = true;
                }
                letter => {
                    let begins = word.text.is_empty() || word.text.ends_with(['=', ':']);
                    let is_pattern = match letter {
                        '*' | '?' | '[' => true,
                        '{' => !self.rest.starts_with("{}"),
                        _ => false,
                    };
                    word.may_split |= is_pattern;
                    word.expands |= is_pattern || letter == '~' && begins;
                    word.text.push(letter);
                    self.bump();
                }
            }
        }
        // The word `[` is the name of a command, and not a pattern.
        word.expands &= word.text != "[";
        before[..before.len() - self.rest.len()].clone_into(&mut word.source);
        Ok(word)
    }

    /// Parses a double-quoted text. If `closer` is `None`, parses up to the end of the input.
    pub(super) fn parse_double_quoted(
        &mut self,
        word: &mut ShellWord,
        closer: Option<char>,
    ) -> Result<(), ParseFailure> {
        loop {
            match self.peek() {
                None if closer.is_none() => return Ok(()),
                None => return Err(ParseFailure::Unclear),
                letter if letter == closer => {
                    self.bump();
                    return Ok(());
                }
                Some('$') => self.parse_dollar(word, true)?,
                Some('`') => self.parse_backquoted(word)?,
                Some('\\') => {
                    self.bump();
                    match self.next() {
                        // A line continuation may join a `$` with the rest of an expansion.
                        Some('\n') if word.text.ends_with('$') => {
                            return Err(ParseFailure::Unclear);
                        }
                        Some('\n') | None => {}
                        Some(letter @ ('$' | '`' | '\\')) => word.text.push(letter),
                        // In a heredoc, the backslash before a quote stays.
                        Some('"') if closer.is_some() => word.text.push('"'),
                        Some(letter) => word.text.extend(['\\', letter]),
                    }
                }
                Some(letter) => {
                    word.text.push(letter);
                    self.bump();
                }
            }
        }
    }

    fn parse_dollar(&mut self, word: &mut ShellWord, is_quoted: bool) -> Result<(), ParseFailure> {
        self.bump();
        match self.peek() {
            Some('\'') if !is_quoted => {
                self.bump();
                return self.parse_ansi_quoted(word);
            }
            // `$"…"` is a translated string. It is parsed like `"…"`. In a plain `sh`, the text
            // begins with a `$`.
            Some('"') if !is_quoted => {
                word.expands = true;
                return Ok(());
            }
            // `$[…]` is an obsolete syntax of arithmetic.
            Some('[') => return Err(ParseFailure::Unclear),
            _ => word.text.push('$'),
        }
        let was = (word.expands, word.may_split);
        word.expands = true;
        word.may_split |= !is_quoted || self.rest.starts_with('@');
        if self.eat("((") {
            let before = self.rest;
            self.with_more_depth(Self::parse_arithmetic)?;
            let text = &before[..before.len() - self.rest.len() - 2];
            self.add_arithmetic(text);
            return Ok(());
        }
        match self.peek() {
            Some('(') => {
                self.bump();
                self.parse_nested_commands()
            }
            Some('{') => {
                self.bump();
                // `${ a; }` and `${| a; }` run commands.
                let is_name = |letter| letter == '_' || char::is_ascii_alphanumeric(&letter);
                if !self.rest.starts_with(|letter| is_name(letter) || "#!@*?-$".contains(letter)) {
                    return Err(ParseFailure::Unclear);
                }
                let (before, start) = (self.rest, word.text.len() - 1);
                self.parse_variable_name(word);
                let mut within = ShellWord::default();
                self.with_more_depth(|parser| parser.parse_parameter_expansion(&mut within))?;
                let text = &before[..before.len() - self.rest.len() - 1];
                let value = within.text_with_defaults().unwrap_or(within.text);
                if let Some(value) = arithmetic::default_value(text, &value) {
                    word.defaults.push((start..word.text.len(), value.to_owned()));
                }
                word.may_split |= text.contains('@');
                self.add_parameter_effects(text)
            }
            Some(letter) if letter == '_' || letter.is_ascii_alphabetic() => {
                self.parse_variable_name(word);
                Ok(())
            }
            Some(letter) if letter.is_ascii_digit() || "@*#?-$!".contains(letter) => {
                self.bump();
                Ok(())
            }
            _ => {
                (word.expands, word.may_split) = was;
                Ok(())
            }
        }
    }

    fn parse_variable_name(&mut self, word: &mut ShellWord) {
        let is_part = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        word.text.push_str(name);
        self.rest = rest;
    }

    /// Parses up to the end of `${…}`. The text of `within` becomes the text before this end.
    fn parse_parameter_expansion(&mut self, within: &mut ShellWord) -> Result<(), ParseFailure> {
        loop {
            match self.peek() {
                // The meaning of single quotes in `${…}` depends on the context.
                None | Some('\'') => return Err(ParseFailure::Unclear),
                // A shell removes line continuations before any other parsing.
                Some('\\') if self.rest.starts_with("\\\n") => return Err(ParseFailure::Unclear),
                Some('<' | '>') if self.is_process_substitution() => {
                    return Err(ParseFailure::Unclear);
                }
                // `${X@P}` runs the commands in the content of the variable.
                Some('@') if self.rest.starts_with("@P") => return Err(ParseFailure::Unclear),
                Some('}') => {
                    self.bump();
                    return Ok(());
                }
                Some('$') => self.parse_dollar(within, true)?,
                Some('`') => self.parse_backquoted(within)?,
                Some('"') => {
                    self.bump();
                    self.parse_double_quoted(within, Some('"'))?;
                }
                Some('\\') => {
                    self.bump();
                    within.text.extend(self.next());
                }
                Some(letter) => {
                    within.text.push(letter);
                    self.bump();
                }
            }
        }
    }

    /// Parses up to the end of `((…))`. The result is [`ParseFailure::Unclear`] if the text may
    /// also be commands in parentheses.
    pub(super) fn parse_arithmetic(&mut self) -> Result<(), ParseFailure> {
        let (mut open, mut within, mut is_after_digit) = (0, ShellWord::default(), false);
        loop {
            match self.peek() {
                Some(')') if open == 0 => {
                    return if self.eat("))") { Ok(()) } else { Err(ParseFailure::Unclear) };
                }
                Some('$') => self.parse_dollar(&mut within, true)?,
                Some('`') => self.parse_backquoted(&mut within)?,
                // The base of a number, e.g. `16#ff`, does not start a comment.
                Some('#') if is_after_digit => self.bump(),
                None | Some(';' | '\n' | '\'' | '"' | '\\' | '{' | '#') => {
                    return Err(ParseFailure::Unclear);
                }
                Some(letter) => {
                    is_after_digit = letter.is_ascii_digit();
                    open += i32::from(letter == '(') - i32::from(letter == ')');
                    self.bump();
                }
            }
        }
    }

    /// Parses up to the end of `$'…'`. The result is [`ParseFailure::Unclear`] if the text contains
    /// an escape that is not supported, e.g. a numeric escape, or an escaped `'`, which ends the
    /// text in a plain `sh`.
    ///
    /// The word counts as expanding, because in a plain `sh` the text begins with a `$`, and
    /// contains the escapes unchanged.
    fn parse_ansi_quoted(&mut self, word: &mut ShellWord) -> Result<(), ParseFailure> {
        word.is_quoted = true;
        word.expands = true;
        loop {
            match self.next().ok_or(ParseFailure::Unclear)? {
                '\'' => return Ok(()),
                '\\' => word.text.push(match self.next().ok_or(ParseFailure::Unclear)? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'e' | 'E' => '\u{1b}',
                    letter @ ('\\' | '"' | '?') => letter,
                    _ => return Err(ParseFailure::Unclear),
                }),
                letter => word.text.push(letter),
            }
        }
    }

    fn parse_backquoted(&mut self, word: &mut ShellWord) -> Result<(), ParseFailure> {
        self.bump();
        let mut text = String::new();
        loop {
            match self.next().ok_or(ParseFailure::Unclear)? {
                '`' => break,
                '\\' => match self.next().ok_or(ParseFailure::Unclear)? {
                    letter @ ('`' | '\\' | '$') => text.push(letter),
                    // In double quotes, this escape has another meaning.
                    '"' => return Err(ParseFailure::Unclear),
                    letter => text.extend(['\\', letter]),
                },
                letter => text.push(letter),
            }
        }
        word.text.push('`');
        word.expands = true;
        self.parts.push(LinePart::SubshellStart);
        self.parse_embedded(&text, |reader| reader.parse_command_list(None))?;
        self.parts.push(LinePart::SubshellEnd);
        Ok(())
    }
}
