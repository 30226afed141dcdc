//! Variables that a command sets or removes.

use super::{RiskFinder, RiskReason, program_name, tables};
use crate::parser::{ShellWord, SimpleCommand};

impl RiskFinder<'_> {
    /// Checks the variables that a command sets. `begins` are the positions in its words at which a
    /// program may begin.
    pub(super) fn check_variables(&mut self, command: &SimpleCommand, begins: &[usize]) {
        let SimpleCommand { assignments: sets, words, .. } = command;
        let by_programs = begins.iter().filter_map(|begin| {
            let (program, args) = words.get(*begin..)?.split_first()?;
            self.risky_variable_set_by_program(&program_name(program), args)
        });
        // Assignments before a program go into its environment. Others stay in the shell.
        let assigned = sets.iter().find_map(|set| match words.is_empty() {
            true => self.risky_in_shell(set),
            false => tables::risky_variable_in_assignment(set),
        });
        if let Some(variable) = assigned.into_iter().chain(by_programs).next() {
            self.add_reason(
                RiskReason::new("risk-sets-variable").with_subject("variable", variable),
            );
        }
        let program = words.first().map(program_name).unwrap_or_default();
        let is_builtin = tables::EVALUATING_BUILTINS.contains(&&*program);
        let args = words.iter().chain(&command.input).filter(|_| is_builtin);
        let evaluated = sets.iter().chain(args);
        if let Some(word) = evaluated.into_iter().find(|word| word.has_expanding_subscript()) {
            self.add_reason(RiskReason::new("risk-evaluates").with_subject("word", &word.text));
        }
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
        let name = name.split('[').next().unwrap_or(name);
        let is_plain = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
        let environment = &self.context.environment;
        let is_inherited = environment.as_ref().is_none_or(|names| names.contains(name));
        tables::is_risky_variable_name(name)
            && (!is_plain || is_inherited || tables::is_shell_variable(name))
    }

    /// Returns a variable that a program sets, exports or removes, if this may change the behaviour
    /// of programs or of the shell.
    fn risky_variable_set_by_program<'w>(
        &self,
        program: &str,
        args: &'w [ShellWord],
    ) -> Option<&'w str> {
        let in_shell = |word: &'w ShellWord| {
            (word.expands || self.is_risky_in_shell(&word.text)).then_some(&*word.text)
        };
        let mut operands = args.iter().filter(|word| !word.text.starts_with('-'));
        match program {
            "env" => variable_set_by_env(args),
            "declare" | "export" | "local" | "readonly" | "typeset" => {
                self.variable_set_by_declare(args, program == "export")
            }
            "for" | "select" => operands.next().and_then(in_shell),
            "getopts" => operands.nth(1).and_then(in_shell),
            "printf" => word_after("-v", args).and_then(in_shell),
            "read" => {
                // The word after one of these letters is a value.
                let takes_next = |word: &ShellWord| {
                    word.text.starts_with('-') && word.text.ends_with(READ_VALUES)
                };
                let is_value = |at: usize| at > 0 && takes_next(&args[at - 1]);
                let names = args.iter().enumerate().filter(|(at, _)| !is_value(*at));
                let mut names =
                    names.map(|(_, word)| word).filter(|word| !word.text.starts_with('-'));
                names.find_map(in_shell)
            }
            "set" => exporting_set_option(args),
            "unset" => operands.find_map(in_shell),
            _ => None,
        }
    }

    /// Returns a variable that a builtin such as `declare` sets or exports, or an option with which
    /// the builtin may set another variable than it names.
    fn variable_set_by_declare<'w>(&self, args: &'w [ShellWord], exports: bool) -> Option<&'w str> {
        let letters = |word: &'w ShellWord| word.text.strip_prefix(['-', '+']);
        let exports = exports || args.iter().filter_map(letters).any(|it| it.contains('x'));
        let is_risky = |word: &'w ShellWord| match (word.text.contains('='), letters(word)) {
            (true, _) if exports => tables::risky_variable_in_assignment(word).is_some(),
            (true, _) => self.risky_in_shell(word).is_some(),
            (false, Some(letters)) => {
                !letters.bytes().all(|letter| b"-AFafgilprux".contains(&letter))
            }
            (false, None) => word.expands || exports && tables::is_risky_variable_name(&word.text),
        };
        let risky = args.iter().find(|word| is_risky(word))?;
        tables::risky_variable_in_assignment(risky).or(Some(&risky.text))
    }
}

/// Returns a variable that the program `env` sets or removes, if this may change the behaviour of
/// programs.
fn variable_set_by_env(args: &[ShellWord]) -> Option<&str> {
    args.iter()
        .find_map(|word| match word.text.starts_with('-') {
            true => removed_by_env_option(word),
            false => tables::risky_variable_in_assignment(word),
        })
        .or_else(|| {
            let name = ["-u", "--unset"].iter().find_map(|option| word_after(option, args))?;
            tables::is_risky_variable_name(&name.text).then_some(&*name.text)
        })
        .or_else(|| args.iter().find(|word| removes_all(word)).map(|word| &*word.text))
}

fn removed_by_env_option(word: &ShellWord) -> Option<&str> {
    let name = word.text.strip_prefix("-u").or_else(|| word.text.strip_prefix("--unset="))?;
    (!name.is_empty() && tables::is_risky_variable_name(name)).then_some(name)
}

/// Returns whether a word is an option with which `env` removes all variables.
fn removes_all(word: &ShellWord) -> bool {
    word.text == "-" || ["--i", "-i"].iter().any(|option| word.text.starts_with(option))
}

/// Returns the word after an option.
fn word_after<'w>(option: &str, args: &'w [ShellWord]) -> Option<&'w ShellWord> {
    let at = args.iter().position(|word| word.text == option)?;
    args.get(at + 1)
}

/// Returns a word of the arguments of `set` that may be an option after which the shell exports
/// every variable that it sets.
fn exporting_set_option(args: &[ShellWord]) -> Option<&str> {
    let mut args = args.iter();
    while let Some(word) = args.next() {
        if word.expands {
            return Some(&word.text);
        }
        let letters = word.text.strip_prefix(['-', '+']).unwrap_or_default();
        if matches!(letters, "" | "-") {
            return None;
        }
        if !letters.bytes().all(|letter| b"BCEHTbefhmnoptuvx".contains(&letter)) {
            return Some(&word.text);
        }
        for name in args.by_ref().take(letters.matches('o').count()) {
            if !tables::SET_OPTIONS.contains(&&*name.text) {
                return Some(&name.text);
            }
        }
    }
    None
}

/// Letters of the options of `read` that have a value, which is not the name of a variable.
const READ_VALUES: [char; 7] = ['d', 'i', 'n', 'N', 'p', 't', 'u'];

#[cfg(all(test, target_os = "linux"))]
mod tests;
