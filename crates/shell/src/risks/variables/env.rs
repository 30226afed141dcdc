//! Variables that the program `env` sets or removes.

use crate::parser::ShellWord;
use crate::risks::wrapped::wrapped_command;
use crate::risks::{RiskFinder, tables};

impl RiskFinder<'_> {
    /// Returns a variable that the program `env` sets or removes, if this may change the behaviour
    /// of programs.
    pub(super) fn variable_set_by_env<'w>(&mut self, args: &'w [ShellWord]) -> Option<&'w str> {
        let command = wrapped_command("env", args).map_or(0, |command| command.words.len());
        let (mut rest, mut risky) = (&args[..args.len() - command], None);
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            let found = if let Some((name, _)) = word.text.split_once('=')
                && !name.starts_with('-')
            {
                let is_split = word.may_split.then_some(&*word.text);
                tables::risky_variable_in_assignment(word).or(is_split)
            } else if let Some(option) = word.text.strip_prefix('-') {
                let next = rest.first().map(|word| &*word.text);
                let (removed, takes_next) = match read_option(option) {
                    _ if word.expands => (Some(&*word.text), false),
                    EnvOption::Flag => (None, false),
                    EnvOption::TakesValue => (None, true),
                    EnvOption::RemovesAll => (Some(&*word.text), false),
                    EnvOption::Removes(Some(name)) => (Some(name), false),
                    EnvOption::Removes(None) => (next, true),
                };
                rest = &rest[usize::from(takes_next && next.is_some())..];
                removed.filter(|name| tables::is_risky_variable_name(name))
            } else {
                None
            };
            risky = risky.or(found);
        }
        risky
    }
}

/// The effect of an option of `env`.
enum EnvOption<'w> {
    Flag,
    /// The next word is a value.
    TakesValue,
    RemovesAll,
    /// Removes a variable, which the next word names if there is no name here.
    Removes(Option<&'w str>),
}

/// `option` is the word without its first `-`.
fn read_option(option: &str) -> EnvOption<'_> {
    if option.is_empty() {
        return EnvOption::RemovesAll;
    }
    if let Some(long) = option.strip_prefix('-') {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        return match name {
            "" => EnvOption::Flag,
            _ if "unset".starts_with(name) => EnvOption::Removes(value),
            _ if "ignore-environment".starts_with(name) => EnvOption::RemovesAll,
            "chdir" if value.is_none() => EnvOption::TakesValue,
            _ => EnvOption::Flag,
        };
    }
    for (at, letter) in option.char_indices() {
        let attached = Some(&option[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
        match letter {
            'i' => return EnvOption::RemovesAll,
            'u' => return EnvOption::Removes(attached),
            'C' | 'S' if attached.is_none() => return EnvOption::TakesValue,
            'C' | 'S' => return EnvOption::Flag,
            _ => {}
        }
    }
    EnvOption::Flag
}
