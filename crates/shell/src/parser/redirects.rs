//! Redirections of a command, and the bodies of heredocs.

use std::mem::take;

use super::{InputOrigin, LinePart, ParseFailure, ShellParser, ShellWord};

/// A heredoc, whose body begins on the next line.
pub(super) struct Heredoc {
    delimiter: ShellWord,
    /// Whether the shell expands the body.
    expands: bool,
    strips_tabs: bool,
    /// Index of the command that reads the heredoc.
    pub(super) command_index: Option<usize>,
}

impl ShellParser<'_> {
    /// Parses a redirection. `descriptor` is the number before its operator.
    pub(super) fn parse_redirect(&mut self, descriptor: &str) -> Result<(), ParseFailure> {
        const OPERATORS: &[&str] =
            &["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", ">", "<"];
        let Some(operator) = OPERATORS.iter().find(|operator| self.eat(operator)) else {
            return Err(ParseFailure::Unclear);
        };
        self.has_prefix = true;
        let is_combined = operator.starts_with('&');
        // A plain `sh` runs the command in the background.
        self.is_success_unclear |= is_combined;
        self.skip_blanks();
        let before = self.rest;
        let target = self.parse_nonempty_word()?;
        let source = &before[..before.len() - self.rest.len()];
        let is_descriptor = target.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        match *operator {
            // If the delimiter contains `$` or a backtick, shells disagree on the line that ends
            // the heredoc.
            "<<" | "<<-" if source.contains(['$', '`']) => return Err(ParseFailure::Unclear),
            "<<" | "<<-" => {
                let (strips_tabs, expands) = (*operator == "<<-", !target.is_quoted);
                let (delimiter, owner) = (target, None);
                self.heredocs.push(Heredoc {
                    delimiter,
                    expands,
                    strips_tabs,
                    command_index: owner,
                });
            }
            "<<<" => {
                self.current.append_input_text(&ShellWord { text: target.text + "\n", ..target });
            }
            // In bash, the text after the dash is a separate word. In other shells, such a
            // redirection is an error.
            "<&" | ">&" if target.text.len() > 1 && target.text.starts_with('-') => {
                return Err(ParseFailure::Unclear);
            }
            "<&" | ">&" if is_descriptor => {}
            // Bash expands this target even if it is quoted.
            "<&" | ">&" if target.is_quoted => return Err(ParseFailure::Unclear),
            "<" | "<&" => self.current.reads.push(target),
            _ => self.current.writes.push(target),
        }
        self.has_combined_redirect |= is_combined;
        self.set_input_origin(operator, descriptor);
        Ok(())
    }

    fn set_input_origin(&mut self, operator: &str, descriptor: &str) {
        let is_input_descriptor = descriptor.bytes().all(|digit| digit == b'0');
        let origin = &mut self.current.input_origin;
        match operator {
            "<<" | "<<-" | "<<<" if is_input_descriptor && *origin == InputOrigin::Inherited => {
                *origin = InputOrigin::Text;
            }
            _ if operator.starts_with('<') || is_input_descriptor && !descriptor.is_empty() => {
                *origin = InputOrigin::Unclear;
            }
            _ => {}
        }
    }

    pub(super) fn parse_heredoc_bodies(&mut self) -> Result<(), ParseFailure> {
        for Heredoc { delimiter, expands, strips_tabs, command_index: owner } in
            take(&mut self.heredocs)
        {
            let mut body = String::new();
            loop {
                if self.rest.is_empty() {
                    return Err(ParseFailure::Unclear);
                }
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
                if line == delimiter.text {
                    break;
                }
                let backslashes = line.len() - line.trim_end_matches('\\').len();
                if expands && backslashes % 2 == 1 {
                    // The backslash joins this line with the next line, so the next line cannot be
                    // the delimiter.
                    return Err(ParseFailure::Unclear);
                }
                body.push_str(line);
                body.push('\n');
            }
            let mut input = ShellWord { text: body.clone(), ..ShellWord::default() };
            if expands {
                input.text.clear();
                self.parse_embedded(&body, |reader| reader.parse_double_quoted(&mut input, None))?;
            }
            let owner = owner.and_then(|owner| self.parts.get_mut(owner));
            let Some(LinePart::Command(owner)) = owner else { return Err(ParseFailure::Unclear) };
            owner.append_input_text(&input);
        }
        Ok(())
    }
}
