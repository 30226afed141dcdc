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
            risky_variable_set_by_program(&program_name(program), args)
        });
        let assigned = sets.iter().find_map(tables::risky_variable_in_assignment);
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
}

/// Returns a variable that a program sets or removes, if this may change the behaviour of programs.
fn risky_variable_set_by_program<'w>(program: &str, args: &'w [ShellWord]) -> Option<&'w str> {
    let after = |option: &str, args: &'w [ShellWord]| {
        let at = args.iter().position(|word| word.text == option)?;
        args.get(at + 1)
    };
    let name =
        |word: &'w ShellWord| tables::is_risky_variable_name(&word.text).then_some(&*word.text);
    let mut operands = args.iter().filter(|word| !word.text.starts_with('-'));
    match program {
        "env" => {
            let attached = |word: &'w ShellWord| {
                let name =
                    word.text.strip_prefix("-u").or_else(|| word.text.strip_prefix("--unset="));
                name.filter(|name| !name.is_empty() && tables::is_risky_variable_name(name))
            };
            let all = |word: &&ShellWord| {
                let is_long = word.text.starts_with("--i");
                let is_short = word.text.starts_with("-i") || word.text == "-";
                is_long || is_short
            };
            let separate = ["-u", "--unset"].iter().find_map(|option| after(option, args));
            let assigned = |word: &'w ShellWord| {
                let is_option = word.text.starts_with('-');
                if is_option { attached(word) } else { tables::risky_variable_in_assignment(word) }
            };
            args.iter()
                .find_map(assigned)
                .or_else(|| separate.and_then(name))
                .or_else(|| args.iter().find(all).map(|word| &*word.text))
        }
        "declare" | "export" | "local" | "readonly" | "typeset" => {
            let unknown = |word: &'w ShellWord| {
                let is_unknown = word.expands && !word.text.contains('=');
                is_unknown.then_some(&*word.text)
            };
            args.iter().find_map(|word| {
                tables::risky_variable_in_assignment(word).or_else(|| unknown(word))
            })
        }
        "for" | "select" => operands.next().and_then(name),
        "getopts" => operands.nth(1).and_then(name),
        "printf" => after("-v", args).and_then(name),
        "read" => {
            // The word after one of these letters is a value.
            let takes_next =
                |word: &ShellWord| word.text.starts_with('-') && word.text.ends_with(READ_VALUES);
            let is_value = |at: usize| at > 0 && takes_next(&args[at - 1]);
            let names = args.iter().enumerate().filter(|(at, _)| !is_value(*at));
            names.map(|(_, word)| word).filter(|word| !word.text.starts_with('-')).find_map(name)
        }
        "unset" => operands.find_map(name),
        _ => None,
    }
}

/// Letters of the options of `read` that have a value, which is not the name of a variable.
const READ_VALUES: [char; 7] = ['d', 'i', 'n', 'N', 'p', 't', 'u'];
