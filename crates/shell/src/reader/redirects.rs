//! What a command reads and writes by redirection, and the texts that stand within the line.

use std::mem::take;

use super::{Part, Reader, Unread, Word};

/// A text that begins with the next line.
pub(super) struct Heredoc {
    delimiter: Word,
    /// Whether what it holds expands.
    expands: bool,
    strips_tabs: bool,
    /// Which of the found commands reads it.
    pub(super) owner: Option<usize>,
}

impl Reader<'_> {
    pub(super) fn redirect(&mut self) -> Result<(), Unread> {
        const OPERATORS: &[&str] =
            &["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", ">", "<"];
        let Some(operator) = OPERATORS.iter().find(|operator| self.eat(operator)) else {
            return Err(Unread::Unclear);
        };
        self.is_begun = true;
        self.blanks();
        let before = self.rest;
        let target = self.some_word()?;
        let source = &before[..before.len() - self.rest.len()];
        let is_descriptor = target.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        match *operator {
            // Which line ends the text is another one in another shell.
            "<<" | "<<-" if source.contains(['$', '`']) => return Err(Unread::Unclear),
            "<<" | "<<-" => {
                let (strips_tabs, expands) = (*operator == "<<-", !target.is_quoted);
                let (delimiter, owner) = (target, None);
                self.heredocs.push(Heredoc { delimiter, expands, strips_tabs, owner });
            }
            "<<<" => self.current.read_also(&Word { text: target.text + "\n", ..target }),
            // What is behind the dash is a word of its own in bash, and an error elsewhere.
            "<&" | ">&" if target.text.len() > 1 && target.text.starts_with('-') => {
                return Err(Unread::Unclear);
            }
            "<&" | ">&" if is_descriptor => {}
            // What is quoted there bash expands all the same.
            "<&" | ">&" if target.is_quoted => return Err(Unread::Unclear),
            "<" | "<&" => self.current.reads.push(target),
            _ => self.current.writes.push(target),
        }
        Ok(())
    }

    pub(super) fn heredoc_bodies(&mut self) -> Result<(), Unread> {
        for Heredoc { delimiter, expands, strips_tabs, owner } in take(&mut self.heredocs) {
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
                let backslashes = line.len() - line.trim_end_matches('\\').len();
                if expands && backslashes % 2 == 1 {
                    // It is joined with the next line, which then ends nothing.
                    return Err(Unread::Unclear);
                }
                body.push_str(line);
                body.push('\n');
            }
            let mut input = Word { text: body.clone(), ..Word::default() };
            if expands {
                input.text.clear();
                self.within(&body, |reader| reader.quoted(&mut input, None))?;
            }
            let owner = owner.and_then(|owner| self.found.get_mut(owner));
            let Some(Part::Command(owner)) = owner else { return Err(Unread::Unclear) };
            owner.read_also(&input);
        }
        Ok(())
    }
}
