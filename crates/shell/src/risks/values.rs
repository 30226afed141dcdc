//! Variables of a line whose values must be numbers, or names of files that may be removed.

use std::collections::{BTreeMap, BTreeSet};

use super::tables;
use crate::parser::ShellWord;
use crate::parser::arithmetic::{AssignedValue, is_name};

/// The values that the commands of a line may give to its variables. A loop or a function may run
/// commands in another order, so the values are judged after all commands are known.
#[derive(Debug, Default)]
pub(super) struct LineValues {
    /// The variables that the shell evaluates as arithmetic.
    evaluated: BTreeSet<String>,
    /// The variables that may contain text, i.e. something else than a number.
    texts: BTreeSet<String>,
    /// The variables that contain the numbers of another variable.
    copies: BTreeSet<(String, String)>,
    /// The variables that name files which a command removes.
    removed: BTreeSet<String>,
    /// The variables in other words of such a command. Any value that the line sets may change the
    /// meaning of such a word.
    removed_in_part: BTreeSet<String>,
    /// Whether all values of a variable are the names of files that are understood: literal values,
    /// the patterns of a loop, and new files.
    is_file: BTreeMap<String, bool>,
    arrays: BTreeSet<String>,
    /// The variables to which a builtin such as `declare` assigns an unknown value.
    declared: BTreeSet<String>,
}

impl LineValues {
    /// Records that the shell evaluates the value of a variable as arithmetic.
    pub(super) fn add_evaluated(&mut self, name: &str) {
        self.evaluated.insert(base_name(name).to_owned());
    }

    /// Records a value that a variable may get.
    pub(super) fn add_value(&mut self, name: &str, value: &AssignedValue<'_>) {
        self.add_number_or_text(name, value);
        self.add_file(base_name(name), *value == AssignedValue::NewFile);
    }

    /// Records a literal value that a variable may get, and that the line may use as the name of a
    /// file.
    pub(super) fn add_file_name(&mut self, name: &str, value: &AssignedValue<'_>) {
        self.add_number_or_text(name, value);
        self.add_file(base_name(name), true);
    }

    fn add_number_or_text(&mut self, name: &str, value: &AssignedValue<'_>) {
        let name = base_name(name);
        match value {
            AssignedValue::Numbers(sources) => {
                let copies = sources.iter().map(|from| (name.to_owned(), (*from).to_owned()));
                self.copies.extend(copies);
            }
            AssignedValue::NewFile | AssignedValue::Text => {
                self.texts.insert(name.to_owned());
            }
        }
    }

    /// Records the words to which a loop sets its variable.
    pub(super) fn add_loop(&mut self, name: &str, words: &[ShellWord]) {
        let is_number = |word: &ShellWord| {
            AssignedValue::of_source(&word.source) == AssignedValue::Numbers(Vec::new())
        };
        if words.is_empty() || !words.iter().all(is_number) {
            self.texts.insert(name.to_owned());
        }
        let is_file = |word: &ShellWord| {
            is_file_name(&word.text) && !(word.expands && word.text.contains(['$', '`', '{']))
        };
        self.add_file(name, !words.is_empty() && words.iter().all(is_file));
    }

    pub(super) fn add_array(&mut self, name: &str) {
        self.arrays.insert(base_name(name).to_owned());
    }

    pub(super) fn add_unknown_declared(&mut self, name: &str) {
        self.declared.insert(base_name(name).to_owned());
    }

    /// Records that a command removes the file that a word names. Returns whether the variables in
    /// the word are known.
    pub(super) fn add_removed(&mut self, word: &ShellWord) -> bool {
        let names = variable_names(&word.source).filter(|_| !may_replace_value(&word.source));
        let Some(names) = names else { return false };
        let source = word.source.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let is_file = !word.may_split && source.is_some_and(is_path_with_variable);
        let list = if is_file { &mut self.removed } else { &mut self.removed_in_part };
        list.extend(names.into_iter().map(str::to_owned));
        true
    }

    /// Records that a word names the destination of a moved file. Returns whether the variables in
    /// the word are known.
    pub(super) fn add_destination(&mut self, word: &ShellWord) -> bool {
        let Some(names) = variable_names(&word.source) else { return false };
        let list = if word.may_split { &mut self.removed_in_part } else { &mut self.removed };
        list.extend(names.into_iter().map(str::to_owned));
        true
    }

    /// Records that `wait` uses a word as the number of a process. Returns whether the word has a
    /// form that is understood.
    pub(super) fn add_process(&mut self, word: &ShellWord) -> bool {
        let source = word.source.trim_matches('"');
        if !word.expands || matches!(source, "$!" | "$(jobs -p)") {
            return true;
        }
        let Some((name, "")) = split_variable(source) else { return false };
        let name = name.strip_suffix("[@]").unwrap_or(name);
        self.add_evaluated(name);
        is_name(name)
    }

    /// Returns a variable that is evaluated as arithmetic, although it may contain a text.
    pub(super) fn evaluated_text(&self) -> Option<&str> {
        let mut evaluated: BTreeSet<&str> = self.evaluated.iter().map(|name| &**name).collect();
        let mut count = 0;
        while count < evaluated.len() {
            count = evaluated.len();
            let copies = self.copies.iter().filter(|(to, _)| evaluated.contains(&**to));
            let sources: Vec<_> = copies.map(|(_, from)| &**from).collect();
            evaluated.extend(sources);
        }
        let is_text = |name: &&str| self.texts.contains(*name) || tables::may_hold_text(name);
        let declared = self.declared.iter().filter(|name| self.arrays.contains(*name));
        evaluated.into_iter().find(is_text).or_else(|| declared.map(|name| &**name).next())
    }

    /// Returns whether a command removes files whose names are not understood.
    pub(super) fn removes_unknown_files(&self) -> bool {
        let is_text = |name: &&String| tables::may_hold_text(name);
        self.removed.iter().chain(&self.removed_in_part).find(is_text).is_some()
            || self.removed.iter().any(|name| self.is_file.get(name) == Some(&false))
            || self.removed_in_part.iter().any(|name| self.is_file.contains_key(name))
    }

    fn add_file(&mut self, name: &str, is_file: bool) {
        *self.is_file.entry(name.to_owned()).or_insert(true) &= is_file;
    }
}

/// Returns whether a literal word may only be the name of a file. A name with `..` depends on the
/// folder in which a command uses it.
pub(super) fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains("..")
}

/// Returns whether the source of a word contains an expansion such as `${X:-a}` or `${X/a/b}`, which
/// may stand for another text than a part of the value.
fn may_replace_value(source: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let replaces = |part: &str| {
        let operator = part.trim_start_matches(is_part);
        !["}", "%", "#", "?", ":?"].iter().any(|known| operator.starts_with(known))
    };
    source.split("${").skip(1).any(replaces)
}

/// Returns whether a source consists of a literal folder, a variable, and a literal path or the end
/// of a name, and cannot contain `..` if the value of the variable does not contain it.
fn is_path_with_variable(source: &str) -> bool {
    let begin = source.find('$').unwrap_or(source.len());
    let (folder, rest) = source.split_at(begin);
    let Some((name, suffix)) = split_variable(rest) else { return false };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-~/".contains(letter);
    let is_literal =
        |text: &str| text.chars().all(is_plain) && !text.contains("..") && !text.starts_with('-');
    let is_folder = folder.is_empty() || folder.ends_with('/') && is_literal(folder);
    let is_end = suffix.chars().next().is_none_or(|letter| letter == '/')
        || !suffix.contains('/') && suffix.contains(|letter| letter != '.');
    is_name(name) && is_folder && is_end && suffix.chars().all(is_plain) && !suffix.contains("..")
}

/// Returns the variables in the source of a word. Returns `None` if the word contains another
/// expansion, e.g. `$1` or `$(…)`.
fn variable_names(source: &str) -> Option<Vec<&str>> {
    let mut parts = source.split('$');
    // The text before the first variable.
    parts.next()?;
    let names = parts.map(|part| {
        let part = part.strip_prefix('{').unwrap_or(part);
        let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        part.split(is_end).next().filter(|name| is_name(name))
    });
    if source.contains('`') { None } else { names.collect() }
}

/// Splits a source that begins with `$NAME` or `${NAME}`.
fn split_variable(source: &str) -> Option<(&str, &str)> {
    let rest = source.strip_prefix('$')?;
    let (name, suffix) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None => {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            rest.split_at(end.unwrap_or(rest.len()))
        }
    };
    Some((name, suffix))
}

/// Returns the name of a variable without the subscript and the `+` of an assignment.
fn base_name(name: &str) -> &str {
    name.split(['[', '+']).next().unwrap_or(name)
}
