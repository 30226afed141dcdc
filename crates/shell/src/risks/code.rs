//! Texts and scripts that a command runs as code.

use std::mem::replace;

use super::wrapped::wrapped_command;
use super::{ProgramArgs, RiskFinder, RiskReason, program_name, tables, word_texts};
use crate::parser::{InputOrigin, ShellWord, SimpleCommand};

impl RiskFinder<'_> {
    /// Checks the commands that a shell would run.
    pub(super) fn check_shell(
        &mut self,
        name: &str,
        program: ProgramArgs<'_>,
        command: &SimpleCommand,
        depth: usize,
    ) {
        let (mut rest, mut takes_code, mut takes_input) = (program.words, false, false);
        // Other shells, and shells for logins, read files that may export any variable.
        let mut keeps_environment =
            program.has_known_environment && matches!(name, "ash" | "bash" | "dash" | "sh");
        while let Some((option, after)) = rest.split_first() {
            let Some(letters) = option.text.strip_prefix(['-', '+']) else { break };
            rest = after;
            // A `+` without letters does not end the options.
            if matches!(&*option.text, "-" | "--") {
                break;
            }
            let long = letters.strip_prefix('-');
            keeps_environment &=
                long.is_some_and(|it| it != "login") || !letters.contains(['i', 'l']);
            match long.unwrap_or(letters) {
                "help" | "version" => return,
                known if tables::SHELL_SWITCHES.contains(&known) => {}
                "rcfile" | "init-file" => {
                    return self.add_reason(RiskReason::new("risk-shell-first"));
                }
                _ if long.is_some() || name == "fish" && letters != "c" || option.expands => {
                    return self.add_reason(RiskReason::new("risk-shell-unclear"));
                }
                _ => {
                    takes_code |= letters.contains('c');
                    takes_input |= letters.contains('s');
                    let names = after.split_at_checked(letters.matches(['o', 'O']).count());
                    let (names, args) = names.unwrap_or((after, &[]));
                    let is_known = |name: &ShellWord| {
                        tables::is_understood_set_option(&name.text)
                            || tables::is_understood_shopt_option(&name.text)
                    };
                    if letters.contains(['a', 'k']) || !names.iter().all(is_known) {
                        return self.add_reason(RiskReason::new("risk-shell-unclear"));
                    }
                    rest = args;
                }
            }
        }
        let environment = match keeps_environment {
            true => self.context.environment.clone(),
            false => None,
        };
        let before = replace(&mut self.context.environment, environment);
        match rest.first() {
            // Other shells parse a text in another way.
            first
                if !is_similar_to_bash(name) && (takes_code || takes_input || first.is_none()) =>
            {
                self.add_reason(RiskReason::new("risk-other-shell").with_subject("name", name));
            }
            Some(code) if takes_code => self.check_subshell_code(std::slice::from_ref(code), depth),
            Some(_) if !takes_input => self.check_script_path(&rest[..1], command, depth),
            _ => self.check_shell_input(command, depth),
        }
        self.context.environment = before;
    }

    /// Checks a script that the line names.
    pub(super) fn check_script_path(
        &mut self,
        args: &[ShellWord],
        command: &SimpleCommand,
        depth: usize,
    ) {
        let Some(script) = args.first() else { return };
        if script.expands {
            self.add_reason(RiskReason::new("risk-unknown-script"));
        }
        if !self.is_stdin(script) {
            return;
        }
        match &*script.text {
            "/dev/stdin" | "/dev/fd/0" => self.check_shell_input(command, depth),
            _ => self.add_reason(RiskReason::new("risk-shell-input")),
        }
    }

    /// Checks the commands that a shell reads from standard input.
    fn check_shell_input(&mut self, command: &SimpleCommand, depth: usize) {
        match &command.input {
            Some(text) if command.input_origin == InputOrigin::Text => {
                self.check_subshell_code(std::slice::from_ref(text), depth);
            }
            _ => self.add_reason(RiskReason::new("risk-shell-input")),
        }
    }

    /// Checks the code of a trap, which may run after any command.
    pub(super) fn check_trap(&mut self, args: &[ShellWord], depth: usize) {
        let mut possible = self.folders.for_subshell();
        if self.changes_folder_later {
            possible.add_unknown_folder();
        }
        let before = replace(&mut self.folders, possible.clone());
        self.check_shell_code(&args[..args.len().min(1)], depth);
        let changes_folder = self.folders != possible;
        self.folders = before;
        if changes_folder {
            self.folders.add_unknown_folder();
        }
    }

    /// Checks a text that a subshell runs as commands. The subshell does not change the directory
    /// of the current shell.
    pub(super) fn check_subshell_code(&mut self, words: &[ShellWord], depth: usize) {
        let within = self.folders.for_subshell();
        let before = replace(&mut self.folders, within);
        let changes_folder_later = replace(&mut self.changes_folder_later, false);
        self.check_shell_code(words, depth);
        self.folders = before;
        self.changes_folder_later = changes_folder_later;
    }

    /// Checks a text that a shell runs with variables that are not known.
    pub(super) fn check_code_in_unknown_environment(&mut self, code: &ShellWord, depth: usize) {
        let before = self.context.environment.take();
        self.check_subshell_code(std::slice::from_ref(code), depth);
        self.context.environment = before;
    }

    /// Checks a text that a shell runs as commands.
    pub(super) fn check_shell_code(&mut self, words: &[ShellWord], depth: usize) {
        if words.iter().any(|word| word.expands) {
            return self.add_reason(RiskReason::new("risk-unknown-code"));
        }
        self.check_line(&word_texts(words).join(" "), depth + 1);
    }
}

/// Returns whether a shell parses commands as bash does.
fn is_similar_to_bash(name: &str) -> bool {
    matches!(name, "ash" | "bash" | "dash" | "ksh" | "mksh" | "rbash" | "sh")
}

/// Returns whether the program at a position receives only variables that the shell received, or
/// harmless ones. This is the case behind some programs that change no variable.
pub(super) fn has_known_environment(words: &[ShellWord], position: usize) -> bool {
    let (mut rest, mut left) = (words, position);
    while left > 0 {
        let Some((program, args)) = rest.split_first() else { return false };
        let name = program_name(program);
        // With an option, `exec` may start a shell for a login.
        let has_option = args.first().is_some_and(|word| word.text.starts_with('-'));
        let is_known = match &*name {
            "command" | "env" | "nice" | "nohup" | "time" | "timeout" => true,
            "exec" => !has_option,
            _ => false,
        };
        let Some(command) = wrapped_command(&name, args).filter(|_| is_known) else { return false };
        let skipped = rest.len() - command.words.len();
        if skipped > left {
            return false;
        }
        (rest, left) = (command.words, left - skipped);
    }
    true
}
