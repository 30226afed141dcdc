//! Variables that a command sets or removes.

mod builtins;
mod env;

use super::{RiskFinder, RiskReason, program_name, tables};
use crate::parser::arithmetic::{assigned_names, is_understood_name};
use crate::parser::{ShellWord, SimpleCommand};

impl RiskFinder<'_> {
    /// Checks the variables that a command sets. `begins` are the positions in its words at which a
    /// program may begin.
    pub(super) fn check_variables(&mut self, command: &SimpleCommand, begins: &[usize]) {
        let SimpleCommand { assignments: sets, words, .. } = command;
        // Assignments before a program go into its environment. Others stay in the shell.
        let is_read = words.first().is_some_and(|word| word.source == "read");
        let mut risky = sets.iter().find_map(|set| match words.is_empty() {
            true => self.risky_in_shell(set),
            // The separators of `read` last only for `read`, which starts no program.
            false if is_read && set.text.starts_with("IFS=") => None,
            false => tables::risky_variable_in_assignment(set),
        });
        for begin in begins {
            let args = words.get(begin + 1..).unwrap_or_default();
            if words.get(*begin).is_some_and(|word| program_name(word) == "env") {
                risky = risky.or(self.variable_set_by_env(args));
            }
        }
        if let Some(variable) = risky {
            self.add_variable(variable);
        }
        let builtin = builtin_position(words);
        if let Some(at) = builtin {
            let is_plain = at == 0 && words[at].source == words[at].text;
            match self.variable_set_by_builtin(&words[at], &words[at + 1..], is_plain) {
                Some(option) if matches!(&*words[at].text, "set" | "shopt") => self.add_reason(
                    RiskReason::new("risk-shell-option").with_subject("option", option),
                ),
                Some(variable) => self.add_variable(variable),
                None => {}
            }
        }
        let run = builtin.map(|at| &words[at..]).unwrap_or_default();
        let program = run.first().map(program_name).unwrap_or_default();
        if self.declares_integers {
            self.check_integer_values(command, &program, run.get(1..).unwrap_or_default());
        }
        let is_evaluating = tables::EVALUATING_BUILTINS.contains(&&*program);
        let args = run.iter().chain(&command.input).filter(|_| is_evaluating);
        let mut evaluated = sets.iter().chain(args);
        let is_test = matches!(&*program, "[" | "test");
        let tested = run.windows(2).find(|pair| {
            is_test && matches!(&*pair[0].text, "-v" | "-R") && !is_understood_name(&pair[1].text)
        });
        let evaluated = evaluated.find(|word| word.has_expanding_subscript());
        if let Some(word) = evaluated.or_else(|| tested.map(|pair| &pair[1])) {
            self.add_evaluation(&word.text);
        }
    }

    /// Checks a text that the shell evaluates as arithmetic.
    pub(super) fn check_arithmetic(&mut self, text: &str) {
        match assigned_names(text) {
            None => self.add_evaluation(text),
            Some(names) => {
                if let Some(name) = names.iter().find(|name| self.is_risky_in_shell(name)) {
                    self.add_variable(name);
                }
            }
        }
    }

    /// Checks the values that a command may assign to a variable with the integer attribute. The
    /// shell evaluates such a value as arithmetic.
    fn check_integer_values(&mut self, command: &SimpleCommand, program: &str, args: &[ShellWord]) {
        let value = |word: &ShellWord| {
            word.text.split_once('=').map_or_else(String::new, |(_, value)| value.to_owned())
        };
        let text = |word: &ShellWord| word.text.clone();
        let mut values: Vec<_> = command.assignments.iter().map(value).collect();
        values.extend(command.array_elements.iter().map(text));
        match program {
            "declare" | "export" | "local" | "readonly" | "typeset" => {
                values.extend(args.iter().map(value));
            }
            "for" | "printf" | "read" | "select" => values.extend(args.iter().map(text)),
            _ => {}
        }
        if matches!(program, "" | "read") {
            values.extend(command.input.iter().map(text));
        }
        values.iter().for_each(|value| self.check_arithmetic(value));
    }

    /// Adds a reason for a word that is the name of a variable, or that may set any variable.
    fn add_variable(&mut self, word: &str) {
        let key = match is_understood_name(word) {
            true => "risk-sets-variable",
            false => "risk-sets-unknown",
        };
        self.add_reason(RiskReason::new(key).with_subject("variable", word));
    }

    fn add_evaluation(&mut self, word: &str) {
        self.add_reason(RiskReason::new("risk-evaluates").with_subject("word", word));
    }

    /// Returns the variable that an assignment sets, if this may change the behaviour of programs
    /// or of the shell. The assignment changes only a variable of the shell.
    fn risky_in_shell<'w>(&self, word: &'w ShellWord) -> Option<&'w str> {
        tables::risky_variable_in_assignment(word).filter(|name| self.is_risky_in_shell(name))
    }

    /// Returns whether a variable of the shell with this name may change the behaviour of programs
    /// or of the shell. A program receives such a variable only if the shell itself received it, or
    /// if it is exported.
    fn is_risky_in_shell(&self, name: &str) -> bool {
        // The shell evaluates any other subscript.
        if !is_understood_name(name) {
            return true;
        }
        let name = name.split('[').next().unwrap_or(name);
        let environment = &self.context.environment;
        let is_inherited = environment.as_ref().is_none_or(|names| names.contains(name));
        tables::is_risky_variable_name(name) && (is_inherited || tables::is_shell_variable(name))
    }

    /// Returns the name of a variable, if setting this variable may change the behaviour of programs
    /// or of the shell. A name with an expansion is unknown.
    fn risky_name<'w>(&self, name: &'w str) -> Option<&'w str> {
        self.is_risky_in_shell(name).then_some(name)
    }
}

/// Returns the position of the word that may be the name of a builtin: the first word, or the word
/// after `builtin` or `command`. Returns `None` if the command only prints what the word means.
pub(super) fn builtin_position(words: &[ShellWord]) -> Option<usize> {
    let (mut at, mut is_wrapped) = (0, false);
    while let Some(word) = words.get(at) {
        match word.text.strip_prefix('-').filter(|_| is_wrapped) {
            Some(letters) if !word.expands && letters.contains(['v', 'V']) => return None,
            Some(_) => {}
            None if matches!(&*word.text, "builtin" | "command") => is_wrapped = true,
            None => return Some(at),
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests;
