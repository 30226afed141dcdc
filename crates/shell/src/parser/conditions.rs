//! Arrays and conditions, whose words may be on several lines.

use super::{ParseFailure, ShellParser};

impl ShellParser<'_> {
    pub(super) fn parse_array(&mut self) -> Result<(), ParseFailure> {
        loop {
            let before = self.rest;
            self.skip_blanks_and_line_ends()?;
            let is_line_start = before[..before.len() - self.rest.len()].contains('\n');
            if is_line_start && self.skip_plain_comment() {
                continue;
            }
            if self.eat(")") {
                // A word directly after the parenthesis would belong to the array, and would not be
                // a command.
                let is_over = self.peek().is_none_or(|next| " \t\n;&|)".contains(next));
                return if is_over { Ok(()) } else { Err(ParseFailure::Unclear) };
            }
            // In an array, shells parse comments and subscripts by special rules.
            if self.rest.starts_with(['#', '[']) {
                return Err(ParseFailure::Unclear);
            }
            let element = self.parse_nonempty_word()?;
            self.current.array_elements.push(element);
        }
    }

    /// Parses the rest of a condition `[[ … ]]`. In a condition, `(` and similar characters do not
    /// separate commands. A plain `sh` has no `[[` and could parse these characters as operators;
    /// in this case, the result is [`ParseFailure::Unclear`].
    pub(super) fn parse_condition(&mut self) -> Result<(), ParseFailure> {
        let mut open = 0;
        // A plain `sh` finds no program `[[`, so it skips the text after `&&`, unless the commands
        // before the `&&` may succeed in another way.
        let mut may_succeed = self.is_success_unclear;
        let mut words = Vec::new();
        loop {
            self.skip_blanks_and_line_ends()?;
            if self.eat("||") {
                if self.rest.trim_start().starts_with(can_start_program_name) {
                    return Err(ParseFailure::Unclear);
                }
                may_succeed = true;
                words.push("||");
                continue;
            }
            if self.eat("&&") {
                if may_succeed {
                    return Err(ParseFailure::Unclear);
                }
                words.push("&&");
                continue;
            }
            match self.peek() {
                None | Some(';' | '#') => return Err(ParseFailure::Unclear),
                Some('&' | '|') if open == 0 => return Err(ParseFailure::Unclear),
                // Busybox opens a file also after `&&`.
                Some('<' | '>') if !self.is_process_substitution() => {
                    return Err(ParseFailure::Unclear);
                }
                Some(letter @ ('(' | ')' | '&' | '|')) => {
                    open += i32::from(letter == '(') - i32::from(letter == ')');
                    words.push("(");
                    self.bump();
                }
                Some(_) => {
                    let before = self.rest;
                    let word = self.parse_word()?;
                    let source = &before[..before.len() - self.rest.len()];
                    // Inside parentheses in a condition, shells find the end of `${…}` by special
                    // rules. The operators `-v` and `-eq` use a word as the name of an array
                    // element.
                    if open > 0 && source.contains("${") || word.has_expanding_subscript() {
                        return Err(ParseFailure::Unclear);
                    }
                    if word.text == "]]" && !word.is_quoted {
                        self.add_condition_effects(&words)?;
                        return if open == 0 { Ok(()) } else { Err(ParseFailure::Unclear) };
                    }
                    words.push(source);
                }
            }
        }
    }

    /// Skips a comment whose characters have no meaning in any shell. Returns whether there is one.
    fn skip_plain_comment(&mut self) -> bool {
        let (comment, rest) = self.rest.split_at(self.rest.find('\n').unwrap_or(self.rest.len()));
        let is_plain = |letter: char| letter.is_alphanumeric() || " #,.:;/_+=-".contains(letter);
        let is_comment = comment.starts_with('#') && comment.chars().all(is_plain);
        if is_comment {
            self.rest = rest;
        }
        is_comment
    }

    /// Skips blanks, line continuations and ends of lines. The line is unclear if the body of a
    /// heredoc begins at such an end.
    fn skip_blanks_and_line_ends(&mut self) -> Result<(), ParseFailure> {
        loop {
            self.skip_blanks();
            if !self.eat("\n") {
                return Ok(());
            }
            if !self.heredocs.is_empty() {
                return Err(ParseFailure::Unclear);
            }
        }
    }
}

/// Returns whether a word that begins with this letter can be the literal name of a program.
fn can_start_program_name(letter: char) -> bool {
    !matches!(letter, '-' | '!' | '$' | '"' | '(')
}
