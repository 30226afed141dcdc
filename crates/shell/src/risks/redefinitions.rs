//! Functions and builtins that change the commands of the shell.

use super::folders::is_folder_change_command;
use super::named_files::is_harmless_builtin;
use super::wrapped::is_understood_wrapper;
use super::{RiskFinder, RiskReason, program_name, tables, variables};
use crate::parser::{LinePart, ShellWord};
use crate::programs::{never_writes, programs};

impl RiskFinder<'_> {
    /// Adds a reason if a function replaces a command that the other checks understand.
    pub(super) fn check_function_name(&mut self, part: &LinePart) {
        let LinePart::FunctionStart(name) = part else { return };
        let word = ShellWord { text: name.clone(), ..ShellWord::default() };
        if is_understood_command(&program_name(&word)) {
            self.add_reason(RiskReason::new("risk-redefines").with_subject("name", name));
        }
    }

    /// Checks whether a builtin redefines other commands, or runs a script or its arguments.
    pub(super) fn check_redefining_builtin(&mut self, words: &[ShellWord]) {
        let Some(at) = variables::builtin_position(words) else { return };
        let (name, args) = (&*words[at].text, &words[at + 1..]);
        self.runs_script |= matches!(name, "." | "source");
        let is_option = |word: &ShellWord| word.expands || word.text.starts_with('-');
        // The option `-p` of `hash` sets the file of a command.
        let redefines =
            name == "hash" && args.iter().any(|word| is_option(word) && word.text != "-r");
        if redefines || tables::ALIASING_BUILTINS.contains(&name) {
            self.add_reason(RiskReason::new("risk-aliases").with_subject("name", name));
        }
        let is_harmless = |word: &ShellWord| !word.expands && !word.text.contains('x');
        if name == "jobs" && args.iter().any(|word| is_option(word) && !is_harmless(word)) {
            self.add_reason(RiskReason::new("risk-runs-text").with_subject("name", name));
        }
    }
}

/// Returns whether the checks of a line know the effects of a command with this name.
fn is_understood_command(name: &str) -> bool {
    programs().iter().any(|program| program.words.first() == Some(&name))
        || never_writes(name)
        || is_understood_wrapper(name)
        || is_harmless_builtin(name)
        || is_folder_change_command(name)
        || tables::EVALUATING_BUILTINS.contains(&name)
        || tables::ALIASING_BUILTINS.contains(&name)
        || matches!(name, "." | "eval" | "hash" | "jobs" | "shopt" | "source" | "trap")
}
