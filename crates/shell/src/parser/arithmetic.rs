//! Texts that a shell evaluates as arithmetic, and parameter expansions that assign variables.

use super::{LinePart, ParseFailure, ShellParser, ShellWord, SimpleCommand};

/// Returns the names in an arithmetic text that assigns variables. Returns no names if the text
/// assigns none, and `None` if the names that it assigns are known only when it runs. Quotes are
/// ignored, because the shell removes them first.
///
/// The shell also evaluates the values of the variables. This function does not consider them.
pub(crate) fn assigned_names(text: &str) -> Option<Vec<String>> {
    let text = text.replace(['"', '\'', '\\'], "");
    let compared = ["==", "!=", "<=", ">="];
    let shifted = text.replace("<<=", "=").replace(">>=", "=");
    let rest = compared.iter().fold(shifted, |rest, operator| rest.replace(operator, " "));
    if !["=", "++", "--"].iter().any(|operator| rest.contains(operator)) {
        return Some(Vec::new());
    }
    let names = text.split(|letter| !is_name_part(letter)).filter(|name| is_name(name));
    (!text.contains(['$', '`'])).then(|| names.map(str::to_owned).collect())
}

impl ShellParser<'_> {
    /// Records a text that the shell evaluates as arithmetic.
    pub(super) fn add_arithmetic(&mut self, text: &str) {
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            self.parts.push(LinePart::Arithmetic(text.to_owned()));
        }
    }

    /// Records the variables that `${…}` evaluates or assigns. `text` is the text in the braces.
    pub(super) fn add_parameter_effects(&mut self, text: &str) -> Result<(), ParseFailure> {
        if let Some(indirect) = text.strip_prefix('!').filter(|it| !it.is_empty()) {
            // The value of the variable is used as a name, which may have a subscript.
            let (name, end) = split_name(indirect);
            if !is_name(name) || !matches!(end, "@" | "*" | "[@]" | "[*]") {
                self.add_arithmetic(&format!("${indirect}"));
            }
            return Ok(());
        }
        let is_length = text.len() > 1 && text.starts_with('#');
        let (name, mut rest) = split_name(&text[usize::from(is_length)..]);
        if name.is_empty() {
            rest = rest.strip_prefix(['@', '*', '#', '?', '$', '-']).unwrap_or(rest);
        }
        if rest.starts_with('[') {
            let (subscript, after) = split_subscript(rest).ok_or(ParseFailure::Unclear)?;
            if !matches!(subscript, "@" | "*") {
                self.add_arithmetic(subscript);
            }
            rest = after;
        }
        let value = rest.strip_prefix(":=").or_else(|| rest.strip_prefix('='));
        if let Some(value) = value {
            self.add_assignment(format!("{name}={value}"));
        } else if let Some(range) = rest.strip_prefix(':')
            && !range.starts_with(['-', '+', '?'])
        {
            self.add_arithmetic(range);
        }
        Ok(())
    }

    /// Records an assignment that the shell makes while it expands a word or opens a file.
    pub(super) fn add_assignment(&mut self, text: String) {
        let expands = text.contains(['$', '`', '\\', '~', '*', '?', '[', '{']);
        let (source, text) = (text.clone(), text.replace('"', ""));
        let set = ShellWord { text, source, expands, ..ShellWord::default() };
        let command = SimpleCommand { assignments: vec![set], ..SimpleCommand::default() };
        self.parts.push(LinePart::Command(command));
    }

    /// Records the variables that a condition evaluates. `words` are the sources of its words.
    pub(super) fn add_condition_effects(&mut self, words: &[&str]) -> Result<(), ParseFailure> {
        let is_compared = |at: usize| at > 0 && matches!(words[at - 1], "=" | "==" | "!=" | "=~");
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" if at > 0 => {
                    self.add_arithmetic(words[at - 1]);
                    self.add_arithmetic(next);
                }
                "-v" | "-R" if !is_compared(at) && !is_understood_name(next) => {
                    return Err(ParseFailure::Unclear);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the value that an expansion `${…}` may have instead of the value of its variable: `b` in
/// `${a:-b}`. `source` is the text in the braces, and `text` is the same text after the name and
/// without quotes.
pub(super) fn default_value<'t>(source: &str, text: &'t str) -> Option<&'t str> {
    let is_name = source.starts_with(is_name_part);
    let is_special = |letter| !is_name && (is_name_part(letter) || "#!@*?$".contains(letter));
    let rest = text.trim_start_matches(is_special);
    let rest = if rest.starts_with('[') { split_subscript(rest)?.1 } else { rest };
    let value = rest.strip_prefix(':').unwrap_or(rest).strip_prefix(['-', '+', '='])?;
    (!value.trim().is_empty()).then_some(value)
}

/// Splits a text that begins with a subscript after the bracket that ends the subscript. Returns
/// the text in the brackets and the rest. Returns `None` if a quote or a substitution may hide this
/// bracket.
fn split_subscript(text: &str) -> Option<(&str, &str)> {
    let mut open = 0;
    let is_end = |(_, letter): &(usize, char)| {
        open += i32::from(*letter == '[') - i32::from(*letter == ']');
        open == 0
    };
    let (end, _) = text.char_indices().find(is_end)?;
    let (subscript, after) = (text.get(1..end)?, &text[end + 1..]);
    let count = |letter: char| subscript.matches(letter).count();
    let is_quoted = count('"') % 2 == 1 || count('"') > 0 && count('[') > 0;
    let is_nested = count('{') != count('}') || subscript.replace("$((", "").contains("$(");
    (!is_quoted && !is_nested && !subscript.contains(['\\', '`'])).then_some((subscript, after))
}

/// Returns whether a text is the name of a variable, or of an array element with a literal number.
pub(crate) fn is_understood_name(text: &str) -> bool {
    let (name, rest) = split_name(text);
    let subscript = rest.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_literal =
        |it: &str| matches!(it, "@" | "*") || it.bytes().all(|byte| byte.is_ascii_digit());
    is_name(name) && (rest.is_empty() || subscript.is_some_and(is_literal))
}

/// Splits a text after the letters, digits and `_` at its beginning.
fn split_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter| !is_name_part(letter)).unwrap_or(text.len()))
}

/// Returns whether a text is the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| is_name_part(letter) && !letter.is_ascii_digit())
        && text.chars().all(is_name_part)
}

/// Returns whether a letter may be a part of the name of a variable.
pub(crate) fn is_name_part(letter: char) -> bool {
    letter == '_' || letter.is_ascii_alphanumeric()
}
