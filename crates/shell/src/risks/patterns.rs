//! Paths of which some names are known only when the line runs.

use std::path::{Component, Path, PathBuf};

use crate::limits::MAX_BRACE_WORDS;

/// An absolute path of which some names are known only when the line runs, e.g. `/p/*.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    names: Vec<NamePattern>,
}

/// One name of a [`PathPattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// The name. In a pattern, `*` stands for any text, and `?` and `[…]` for any character.
    text: String,
    kind: NameKind,
    /// Whether the pattern can match a name that begins with a dot.
    matches_dot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Literal,
    Pattern,
    /// Nothing of the name is known. It counts as one name, although it may be several.
    Unknown,
}

impl PathPattern {
    /// Returns the names of the path from the root on.
    #[must_use]
    pub fn names(&self) -> &[NamePattern] {
        &self.names
    }

    /// Returns the path with `*` for the unknown texts.
    #[must_use]
    pub fn to_wildcard_path(&self) -> PathBuf {
        let names = self.names.iter().map(|name| Path::new(&name.text));
        Path::new("/").join(names.collect::<PathBuf>())
    }

    /// Returns whether the path may be this path, or may be in this folder. Letter case is ignored.
    #[must_use]
    pub fn may_be_within(&self, folder: &Path) -> bool {
        let names: Vec<_> = folder.iter().skip(1).collect();
        let agrees = |(name, pattern): (&std::ffi::OsStr, &NamePattern)| {
            pattern.matches(&name.to_string_lossy())
        };
        self.names.len() >= names.len() && names.into_iter().zip(&self.names).all(agrees)
    }

    /// Returns the path if all of its names are known.
    pub(super) fn to_path_if_literal(&self) -> Option<PathBuf> {
        let is_literal = |name: &NamePattern| name.kind == NameKind::Literal;
        self.names.iter().all(is_literal).then(|| self.to_wildcard_path())
    }

    /// Returns whether no name of the path is known, except the names of the folder `above`.
    pub(super) fn is_unknown_within(&self, above: &Self) -> bool {
        let rest = self.names.get(above.names.len()..).unwrap_or_default();
        !rest.is_empty() && rest.iter().all(|name| name.kind == NameKind::Unknown)
    }

    /// Creates the pattern of an absolute path whose names are known.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let mut names = Vec::new();
        for part in folder.components() {
            match part {
                Component::Normal(name) => {
                    names.push(NamePattern::parse(&name.to_string_lossy(), false, false));
                }
                Component::ParentDir => drop(names.pop()),
                _ => {}
            }
        }
        Self { names }
    }

    /// Appends a relative path. A `..` removes the name before it, as far as there is one.
    pub(super) fn join(&self, text: &str, syntax: PatternSyntax) -> Self {
        let mut names = self.names.clone();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                _ => names.push(NamePattern::parse(name, syntax.expands, syntax.matches_dot)),
            }
        }
        Self { names }
    }
}

/// The meaning of the characters in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatternSyntax {
    /// Whether `*`, `?`, `[` and [`UNKNOWN`] stand for other characters.
    pub(super) expands: bool,
    /// Whether the shell may match hidden files.
    pub(super) matches_dot: bool,
}

impl NamePattern {
    /// Returns the name if it is known.
    #[must_use]
    pub fn as_str_if_literal(&self) -> Option<&str> {
        (self.kind == NameKind::Literal).then_some(&*self.text)
    }

    /// Returns whether nothing of the name is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.kind == NameKind::Unknown
    }

    /// Returns whether the name may be `name`. Letter case is ignored.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self.kind {
            NameKind::Literal => self.text.eq_ignore_ascii_case(name),
            NameKind::Unknown => true,
            NameKind::Pattern => {
                (self.matches_dot || !name.starts_with('.')) && matches_pattern(&self.text, name)
            }
        }
    }

    /// Returns the beginning of the name up to the first unknown character.
    #[must_use]
    pub fn known_beginning(&self) -> &str {
        match self.kind {
            NameKind::Literal => &self.text,
            _ => self.text.split(['*', '?', '[']).next().unwrap_or_default(),
        }
    }

    /// Returns whether the first character of the name is known.
    pub(super) fn has_known_beginning(&self) -> bool {
        !self.known_beginning().is_empty()
    }

    fn parse(text: &str, expands: bool, matches_dot: bool) -> Self {
        if !expands || !text.contains(['*', '?', '[', UNKNOWN]) {
            return Self { text: text.to_owned(), kind: NameKind::Literal, matches_dot: true };
        }
        let is_unknown = text.chars().all(|letter| letter == UNKNOWN);
        let kind = if is_unknown { NameKind::Unknown } else { NameKind::Pattern };
        let matches_dot = matches_dot || text.starts_with(['.', UNKNOWN]);
        Self { text: text.replace(UNKNOWN, "*"), kind, matches_dot }
    }
}

/// Stands for a text that is known only when the line runs.
pub(super) const UNKNOWN: char = '\u{1}';

/// Replaces variables and substitutions in the text of a word by [`UNKNOWN`].
pub(super) fn mark_variables_as_unknown(text: &str) -> String {
    let mut marked = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '$' => {
                let is_part = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
                let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                let end =
                    if rest.starts_with(['@', '*', '#', '?', '-', '$', '!']) { 1 } else { end };
                rest = &rest[end..];
                marked.push(UNKNOWN);
            }
            '`' => marked.push(UNKNOWN),
            '<' if rest.starts_with("()") => {
                rest = &rest[2..];
                marked.push(UNKNOWN);
            }
            letter => marked.push(letter),
        }
    }
    marked
}

/// Returns the words for which a text with braces stands: `a{b,c}` stands for `ab` and `ac`.
/// Returns `None` if there are too many.
pub(super) fn expand_braces(text: &str) -> Option<Vec<String>> {
    if text.matches('{').count() > MAX_BRACE_WORDS {
        return None;
    }
    let (mut expanded, mut waiting) = (Vec::new(), vec![(text.to_owned(), 0)]);
    while let Some((text, from)) = waiting.pop() {
        let Some(open) = text[from..].find('{').map(|at| from + at) else {
            expanded.push(text);
            continue;
        };
        match split_brace_alternatives(&text[open + 1..]) {
            Some((parts, after)) => {
                let (before, after) = (&text[..open], &text[open + 1 + after..]);
                let word = |part: String| (format!("{before}{part}{after}"), open);
                waiting.extend(parts.into_iter().rev().map(word));
            }
            None => waiting.push((text, open + 1)),
        }
        if expanded.len() + waiting.len() > MAX_BRACE_WORDS {
            return None;
        }
    }
    Some(expanded)
}

/// Splits the text after a `{` into the alternatives. Returns them and the number of bytes up to
/// the end of the braces, or `None` if a shell does not expand the braces.
fn split_brace_alternatives(text: &str) -> Option<(Vec<String>, usize)> {
    let (mut depth, mut parts, mut begin) = (0, Vec::new(), 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[begin..at].to_owned());
                begin = at + 1;
            }
            '}' if parts.is_empty() => return Some((sequence_members(&text[..at])?, at + 1)),
            '}' => {
                parts.push(text[begin..at].to_owned());
                return Some((parts, at + 1));
            }
            _ => {}
        }
    }
    None
}

/// Returns the members of a sequence such as `a..c`, or `*` if it is long or has leading zeros.
fn sequence_members(text: &str) -> Option<Vec<String>> {
    let (first, rest) = text.split_once("..")?;
    let last = rest.split("..").next().unwrap_or(rest);
    let numbers = first.parse::<i64>().ok().zip(last.parse::<i64>().ok());
    let members: Vec<_> = match (numbers, first.as_bytes(), last.as_bytes()) {
        (Some((first, last)), ..) if !text.contains('0') => (first.min(last)..=first.max(last))
            .take(MAX_SEQUENCE + 1)
            .map(|it| it.to_string())
            .collect(),
        (None, [first], [last]) => {
            (*first.min(last)..=*first.max(last)).map(|it| char::from(it).to_string()).collect()
        }
        _ => Vec::new(),
    };
    let is_short = (1..=MAX_SEQUENCE).contains(&members.len());
    Some(if is_short { members } else { vec!["*".to_owned()] })
}

/// Maximum number of members of a sequence in braces that are distinguished.
const MAX_SEQUENCE: usize = 8;

/// Returns whether a name matches a pattern of a shell. A `[…]` matches any character.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let pattern: Vec<_> = pattern_letters(&pattern.to_lowercase());
    let name: Vec<_> = name.to_lowercase().chars().collect();
    // After a failure, the last `*` takes one more character.
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < name.len() {
        match pattern.get(at) {
            Some(PatternLetter::Text) => {
                star = Some((at, of));
                at += 1;
            }
            Some(PatternLetter::Any) => (at, of) = (at + 1, of + 1),
            Some(PatternLetter::One(letter)) if *letter == name[of] => {
                (at, of) = (at + 1, of + 1);
            }
            _ => {
                let Some((back, taken)) = star else { return false };
                star = Some((back, taken + 1));
                (at, of) = (back + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| matches!(letter, PatternLetter::Text))
}

enum PatternLetter {
    One(char),
    Any,
    /// Any text, which may be empty.
    Text,
}

fn pattern_letters(pattern: &str) -> Vec<PatternLetter> {
    let (mut letters, mut rest) = (Vec::new(), pattern);
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        letters.push(match letter {
            '*' => PatternLetter::Text,
            '?' => PatternLetter::Any,
            // A `]` directly after the `[` or `[!` is a member of the set.
            '[' => match rest
                .char_indices()
                .skip(1)
                .find(|(at, letter)| *letter == ']' && !matches!(&rest[..*at], "!" | "^"))
            {
                Some((end, _)) => {
                    rest = &rest[end + 1..];
                    PatternLetter::Any
                }
                None => PatternLetter::One('['),
            },
            letter => PatternLetter::One(letter),
        });
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::{
        PathPattern, PatternSyntax, expand_braces, mark_variables_as_unknown, matches_pattern,
    };
    use pretty_assertions::assert_eq;
    use std::path::Path;

    #[test]
    fn names_match_patterns() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*", "", true),
            ("a*", "a", true),
            ("AGENTS.m*", "agents.md", true),
            ("*.md", "AGENTS.md", true),
            ("*.md", "AGENTS.mdc", false),
            ("*g*t*", ".git", true),
            ("hook?", "hooks", true),
            ("hook?", "hook", false),
            ("[a-z]ooks", "hooks", true),
            ("[]x]ooks", "hooks", true),
            ("[!]x]ooks", "hooks", true),
            ("[hooks", "hooks", false),
            ("*a*b*c", "xaybzbc", true),
            ("*a*b*c", "xaybzcb", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn braces_stand_for_several_words() {
        for (text, expected) in [
            ("a", &["a"][..]),
            ("a{b,c}d", &["abd", "acd"]),
            ("{a,{b,c}}", &["a", "b", "c"]),
            ("{a,b}{c,}", &["ac", "a", "bc", "b"]),
            ("{}{a}{", &["{}{a}{"]),
            ("{a{b,c}", &["{ab", "{ac"]),
            ("x{1..9}", &["x*"]),
            ("{1..3}{c..b}", &["1b", "1c", "2b", "2c", "3b", "3c"]),
            ("{d..d}{01..02}{a..}", &["d**"]),
        ] {
            assert_eq!(expand_braces(text).unwrap(), expected, "{text}");
        }
        assert_eq!(expand_braces(&"{a,b}".repeat(20)), None);
        assert_eq!(expand_braces(&"{".repeat(60_000)), None);
    }

    #[test]
    fn a_pattern_may_be_in_a_folder() {
        for (text, expected) in [
            ("home/state/keys", true),
            ("ho*/st?te/x", true),
            ("*/*", true),
            ("$X/state", true),
            ("$X/other", false),
            ("home", false),
            ("home/x*", false),
            ("home/a/../state", true),
        ] {
            let syntax = PatternSyntax { expands: true, matches_dot: false };
            let text = mark_variables_as_unknown(text);
            let pattern = PathPattern::of_folder(Path::new("/")).join(&text, syntax);
            assert_eq!(pattern.may_be_within(Path::new("/home/state")), expected, "{text}");
        }
    }
}
