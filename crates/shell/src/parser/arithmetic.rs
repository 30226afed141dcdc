//! Texts that a shell evaluates as arithmetic, and parameter expansions that assign variables.
//!
//! In arithmetic, a shell evaluates the value of a variable as an expression once more. Such a
//! value may assign any variable, or run a command in a subscript.

use super::{LinePart, ParseFailure, ShellParser, ShellWord, SimpleCommand};

/// The variables in a text that a shell evaluates as arithmetic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArithmeticNames {
    pub(crate) names: Vec<String>,
    /// Whether the text may assign its variables.
    pub(crate) assigns: bool,
}

/// Programs whose output the parser trusts to be a number or the name of a new file, and builtins
/// that are checked by special rules. A function must not replace them.
pub(super) const TRUSTED_COMMANDS: &[&str] =
    &["date", "grep", "id", "mktemp", "nproc", "read", "seq", "wc"];

/// Operators with more than one character, and `=`. The flag states whether the operator assigns.
const OPERATORS: &[(&str, bool)] = &[
    ("<<=", true),
    (">>=", true),
    ("==", false),
    ("!=", false),
    ("<=", false),
    (">=", false),
    ("+=", true),
    ("-=", true),
    ("*=", true),
    ("/=", true),
    ("%=", true),
    ("&=", true),
    ("|=", true),
    ("^=", true),
    ("++", true),
    ("--", true),
    ("=", true),
];

/// Finds the variables in an arithmetic text. Returns `None` if the text is not understood.
pub(crate) fn arithmetic_names(text: &str) -> Option<ArithmeticNames> {
    let (mut found, mut rest) = (ArithmeticNames::default(), text);
    // Two operands without a separator may together be the name of a third variable.
    let mut is_after_operand = false;
    while let Some(letter) = rest.chars().next() {
        let is_operand = letter == '$' || is_name_part(letter);
        if is_operand && is_after_operand {
            return None;
        }
        is_after_operand = is_operand;
        if let Some((operator, assigns)) = OPERATORS.iter().find(|(text, _)| rest.starts_with(text))
        {
            found.assigns |= assigns;
            rest = &rest[operator.len()..];
        } else if is_name_part(letter) {
            let (name, after) = split_name(rest);
            if !letter.is_ascii_digit() {
                found.names.push(name.to_owned());
            }
            rest = after;
        } else if letter == '$' {
            rest = skip_number_expansion(&rest[1..], &mut found.names)?;
        } else if " \t\n+-*/%<>!&|^~?:,()".contains(letter) {
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(found)
}

/// Skips an expansion after its `$`. Returns `None` if the result of the expansion may be a text.
fn skip_number_expansion<'t>(rest: &'t str, names: &mut Vec<String>) -> Option<&'t str> {
    if rest.starts_with("((") {
        return Some(rest);
    }
    if let Some(inner) = rest.strip_prefix('(') {
        let (command, after) = inner.split_once(')')?;
        return prints_number(command).then_some(after);
    }
    if let Some(inner) = rest.strip_prefix('{') {
        let (parameter, after) = inner.split_once('}')?;
        let length = parameter.strip_prefix('#');
        let length = length.map(|it| it.strip_suffix("[@]").unwrap_or(it));
        if length.is_none() {
            let default = parameter.split_once(":-");
            let (name, default) = default.unwrap_or((parameter, ""));
            if !default.bytes().all(|byte| byte.is_ascii_digit()) || !is_understood_name(name) {
                return None;
            }
            names.push(split_name(name).0.to_owned());
        } else if !length.is_some_and(|it| it.chars().all(is_name_part)) {
            return None;
        }
        return Some(after);
    }
    if let Some(after) = rest.strip_prefix(['#', '?', '$', '!']) {
        return Some(after);
    }
    let (name, after) = split_name(rest);
    names.push(is_name(name).then(|| name.to_owned())?);
    Some(after)
}

/// Returns whether a command certainly prints only a number.
fn prints_number(command: &str) -> bool {
    if command.contains([';', '&', '\n', '`', '(', ')']) || command.contains("||") {
        return false;
    }
    let command = command.trim();
    let command = command.strip_suffix("| tr -d ' '").unwrap_or(command);
    let last = command.rsplit('|').next().unwrap_or(command).trim();
    let last = last.strip_suffix("2>/dev/null").unwrap_or(last);
    let words: Vec<_> = last.split_ascii_whitespace().collect();
    let is_plain = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/".contains(&byte))
    };
    match words[..] {
        ["date", "+%s" | "+%s%N" | "+%N"] | ["nproc"] | ["id", "-u"] => true,
        ["wc", "-c" | "-l" | "-m" | "-w"] | ["wc", "-c" | "-l" | "-m" | "-w", "<", _] => true,
        ["wc", "-c" | "-l" | "-m" | "-w", file] => file.starts_with('<'),
        ["grep", "-c", pattern] => !pattern.starts_with('-'),
        ["grep", "-c", pattern, file] => !pattern.starts_with('-') && is_plain(file),
        _ => false,
    }
}

/// Returns whether a command certainly prints only the name of a new file or folder.
fn prints_new_file(command: &str) -> bool {
    matches!(command.trim(), "mktemp" | "mktemp -d")
}

/// The kind of a value that a line assigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AssignedValue<'w> {
    /// Numbers, and the values of these variables.
    Numbers(Vec<&'w str>),
    /// The name of a file or folder that was created just now.
    NewFile,
    Text,
}

impl<'w> AssignedValue<'w> {
    /// Returns the kind of the value after the `=` of a word.
    pub(crate) fn after_equals_sign(word: &'w ShellWord) -> Self {
        word.source.split_once('=').map_or(Self::Text, |(_, value)| Self::of_source(value))
    }

    /// Returns the kind of a value, as it is written in the line.
    pub(crate) fn of_source(value: &'w str) -> Self {
        let keys = value.strip_prefix("\"${!").and_then(|it| it.strip_suffix("[@]}\""));
        // The elements of an array are separate values, and each of its subscripts is arithmetic.
        if value == "()" || keys.is_some_and(is_name) {
            return Self::Numbers(Vec::new());
        }
        let inner = value.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(value);
        let substitution = inner.strip_prefix("$(").and_then(|it| it.strip_suffix(')'));
        if substitution.is_some_and(prints_new_file) {
            return Self::NewFile;
        }
        if substitution.is_some_and(|it| prints_number(it) || is_whole_arithmetic(it) || counts(it))
            || is_number_range(value)
        {
            return Self::Numbers(Vec::new());
        }
        let mut names = Vec::new();
        for token in inner.split_ascii_whitespace() {
            let digits = token.strip_prefix('-').unwrap_or(token);
            if matches!(token, "$#" | "$?" | "$!" | "$$")
                || !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            {
                continue;
            }
            let name = token
                .strip_prefix('$')
                .map(|it| it.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(it));
            match name.filter(|name| is_name(name)) {
                Some(name) => names.push(name),
                None => return Self::Text,
            }
        }
        Self::Numbers(names)
    }
}

/// Returns whether the text between `$(` and `)` belongs to one `$((…))`.
fn is_whole_arithmetic(text: &str) -> bool {
    let mut open = 0;
    let mut is_open = |letter: char| {
        open += i32::from(letter == '(') - i32::from(letter == ')');
        open > 0
    };
    let last = text.len().saturating_sub(1);
    text.starts_with('(') && text.ends_with(')') && text[..last].chars().all(&mut is_open)
}

/// Returns whether a command is a `seq` of literal numbers.
fn counts(command: &str) -> bool {
    let mut words = command.split_ascii_whitespace();
    words.next() == Some("seq")
        && words.all(|word| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

/// Returns whether a word is a range such as `{1..5}`.
fn is_number_range(word: &str) -> bool {
    let range = word.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    range.is_some_and(|range| {
        range.contains("..") && range.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
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
        if let Some(inner) = rest.strip_prefix('[') {
            let (subscript, after) = inner.split_once(']').ok_or(ParseFailure::Unclear)?;
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
        let bare = |word: &'_ str| word.trim_matches('"').to_owned();
        let is_compared = |at: usize| at > 0 && matches!(words[at - 1], "=" | "==" | "!=" | "=~");
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" if at > 0 => {
                    self.add_arithmetic(&bare(words[at - 1]));
                    self.add_arithmetic(&bare(next));
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

fn is_name_part(letter: char) -> bool {
    letter == '_' || letter.is_ascii_alphanumeric()
}
