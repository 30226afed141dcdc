//! Texts and scripts that a command runs as code.

use super::{RiskFinder, RiskReason, tables, word_texts};
use crate::parser::{ShellWord, SimpleCommand};

impl RiskFinder<'_> {
    /// Checks the commands that a shell would run.
    pub(super) fn check_shell(
        &mut self,
        name: &str,
        args: &[ShellWord],
        command: &SimpleCommand,
        depth: usize,
    ) {
        let (mut rest, mut takes_code, mut takes_input) = (args, false, false);
        while let Some((option, after)) = rest.split_first() {
            let Some(letters) = option.text.strip_prefix(['-', '+']) else { break };
            rest = after;
            if matches!(letters, "" | "-") {
                break;
            }
            let long = letters.strip_prefix('-');
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
                    let is_known = |name: &ShellWord| tables::SET_OPTIONS.contains(&&*name.text);
                    if letters.contains(['a', 'k'])
                        || letters.contains('o') && !names.iter().all(is_known)
                    {
                        return self.add_reason(RiskReason::new("risk-shell-unclear"));
                    }
                    rest = args;
                }
            }
        }
        match rest.first() {
            Some(code) if takes_code => self.check_subshell_code(std::slice::from_ref(code), depth),
            Some(_) if !takes_input => self.check_script_path(&rest[..1], command, depth),
            _ => self.check_shell_input(command, depth),
        }
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
        if ["/dev/stdin", "/dev/fd/", "/proc/"].iter().any(|own| script.text.starts_with(own)) {
            self.check_shell_input(command, depth);
        }
    }

    /// Checks the commands that a shell reads from standard input.
    fn check_shell_input(&mut self, command: &SimpleCommand, depth: usize) {
        match &command.input {
            Some(text) if command.reads.is_empty() => {
                self.check_subshell_code(std::slice::from_ref(text), depth);
            }
            _ => self.add_reason(RiskReason::new("risk-shell-input")),
        }
    }

    /// Checks a text that a subshell runs as commands. The subshell does not change the directory
    /// of the current shell.
    pub(super) fn check_subshell_code(&mut self, words: &[ShellWord], depth: usize) {
        let within = self.folders.for_subshell();
        let before = std::mem::replace(&mut self.folders, within);
        self.check_shell_code(words, depth);
        self.folders = before;
    }

    /// Checks a text that a shell runs as commands.
    pub(super) fn check_shell_code(&mut self, words: &[ShellWord], depth: usize) {
        if words.iter().any(|word| word.expands) {
            return self.add_reason(RiskReason::new("risk-unknown-code"));
        }
        self.check_line(&word_texts(words).join(" "), depth + 1);
    }
}
