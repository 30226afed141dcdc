//! Programs that run a command with words that are known only when it runs: `find`, `parallel` and
//! `xargs`.

use super::wrapped::wrapped_command;
use super::{RiskFinder, RiskReason, is_find_exec, program_name};
use crate::limits::MAX_WRAPPED_WORDS;
use crate::parser::ShellWord;
use crate::programs::{is_shell, wraps_commands};

/// The words of a command. Words that are known only when the command runs are marked as expanding.
#[derive(Debug)]
pub(super) struct CommandWithUnknownWords {
    pub(super) words: Vec<ShellWord>,
    /// Number of unknown words at the end that the line does not contain.
    pub(super) appended: usize,
    /// The position and the name of the program that adds or replaces words.
    launcher: Option<(usize, String)>,
}

impl CommandWithUnknownWords {
    /// `begins` are the positions at which a program may begin.
    pub(super) fn new(words: &[ShellWord], begins: &[usize]) -> Self {
        let name = |at: &usize| Some((*at, program_name(words.get(*at)?)));
        let is_launcher =
            |(_, name): &(usize, String)| matches!(&**name, "find" | "parallel" | "xargs");
        let launcher = begins.iter().filter_map(name).find(is_launcher);
        let (mut words, mut appended) = (words.to_vec(), 0);
        if let Some((at, name)) = &launcher {
            let args = &mut words[at + 1..];
            let replaced = launcher_placeholders(name, args);
            let is_replaced =
                |word: &ShellWord| replaced.iter().any(|text| word.text.contains(text.as_str()));
            args.iter_mut().for_each(|word| word.expands |= is_replaced(word));
            if name == "parallel" && !args.iter().any(is_replaced)
                || name == "xargs"
                    && wrapped_command(name, args)
                        .is_none_or(|command| command.gets_more_words && !command.words.is_empty())
            {
                let text = "{}".to_owned();
                words.push(ShellWord { text, expands: true, ..ShellWord::default() });
                appended = 1;
            }
        }
        Self { words, appended, launcher }
    }

    /// Returns whether the program at this position gets unknown words as its operands.
    pub(super) fn has_unknown_operands(&self, at: usize) -> bool {
        self.launcher.as_ref().is_some_and(|(begin, name)| *begin < at && name != "find")
    }

    /// Returns whether `find` runs the program at this position.
    pub(super) fn is_run_by_find(&self, at: usize) -> bool {
        self.launcher.as_ref().is_some_and(|(begin, name)| *begin < at && name == "find")
    }

    /// Returns the key of the reason to ask, if the program that is run is unknown.
    fn unknown_program_key(&self) -> Option<&'static str> {
        let Some((at, name)) = self.launcher.as_ref() else {
            let (program, args) = self.words.split_first()?;
            let command = wrapped_command(&program_name(program), args)?;
            return runs_unknown_program(command.words).then_some("risk-unknown-program");
        };
        let args = &self.words[at + 1..];
        let is_unknown = match &**name {
            "xargs" => wrapped_command(name, args)
                .is_some_and(|command| runs_unknown_program(command.words)),
            "find" => split_exec_commands(args).into_iter().any(runs_unknown_program),
            _ => {
                let is_option = |word: &&ShellWord| {
                    word.text.starts_with('-')
                        || word.text.starts_with(|letter: char| letter.is_ascii_digit())
                };
                let options = args.iter().take_while(is_option).count();
                match args.get(options) {
                    Some(program) if !program.text.starts_with("::") => {
                        let is_last = options + self.appended == args.len();
                        if is_last && self.appended > 0 {
                            return Some("risk-runs-input");
                        }
                        runs_unknown_program(&args[options..])
                    }
                    _ => return Some("risk-runs-input"),
                }
            }
        };
        is_unknown.then_some("risk-unknown-program")
    }
}

impl RiskFinder<'_> {
    /// Returns the positions in a command's words at which another program may begin.
    pub(super) fn program_positions(&mut self, name: &str, words: &[ShellWord]) -> Vec<usize> {
        let mut begins = vec![0];
        if wraps_commands(name) {
            begins.extend(1..words.len());
        }
        if name == "find" {
            for at in (0..words.len()).filter(|at| is_find_exec(&words[*at].text)) {
                begins.push(at + 1);
                if words.get(at + 1).is_some_and(|word| wraps_commands(&program_name(word))) {
                    let after = &words[at + 1..];
                    begins.extend(at + 2..at + 1 + exec_end(after).unwrap_or(after.len()));
                }
            }
        }
        if begins.len() > MAX_WRAPPED_WORDS {
            self.add_reason(RiskReason::new("risk-many-words"));
            begins.truncate(MAX_WRAPPED_WORDS);
        }
        begins
    }

    pub(super) fn check_unknown_program(&mut self, launched: &CommandWithUnknownWords) {
        if let Some(key) = launched.unknown_program_key() {
            let first = launched.words.first().map(program_name).unwrap_or_default();
            let name = launched.launcher.as_ref().map_or(&*first, |(_, name)| name);
            let argument = if key == "risk-runs-input" { "name" } else { "program" };
            self.add_reason(RiskReason::new(key).with_subject(argument, name));
        }
    }
}

/// Returns whether the program of a command is known only when it runs.
fn runs_unknown_program(words: &[ShellWord]) -> bool {
    let Some((program, args)) = words.split_first() else { return false };
    let name = program_name(program);
    if program.expands || !wraps_commands(&name) || is_shell(&name) {
        return program.expands;
    }
    let mut named = args.iter().filter(|word| {
        let is_number = word.text.starts_with(|letter: char| letter.is_ascii_digit());
        !is_number && !word.text.starts_with('-') && !word.text.contains('=')
    });
    match wrapped_command(&name, args) {
        Some(command) => runs_unknown_program(command.words),
        // The operands are names in a file of the project.
        None if matches!(&*name, "just" | "make" | "mise") => false,
        None => named.clone().next().is_some() && named.all(|word| word.expands),
    }
}

/// Returns the texts that a program replaces in the words after it.
fn launcher_placeholders(program: &str, args: &[ShellWord]) -> Vec<String> {
    let mut texts = vec![if program == "parallel" { "{" } else { "{}" }.to_owned()];
    if program == "find" {
        return texts;
    }
    if let Some(command) = wrapped_command(program, args) {
        texts.extend(command.replaced_text.map(str::to_owned));
        return texts;
    }
    // An option is not understood, so each of these options may be one of the program.
    for (at, word) in args.iter().enumerate() {
        let Some(letters) = word.text.strip_prefix('-') else { continue };
        let text = match letters.strip_prefix('-') {
            Some(long) => long.strip_prefix("replace").and_then(|rest| rest.strip_prefix('=')),
            None => letters.find(['I', 'J', 'i']).map(|at| &letters[at + 1..]),
        };
        let next = args.get(at + 1).map(|word| &*word.text);
        texts.extend(text.into_iter().map(|text| match text {
            "" => next.unwrap_or_default().to_owned(),
            text => text.to_owned(),
        }));
    }
    texts
}

/// Returns the folders in which a program such as `env` runs its command, as named by an option.
pub(super) fn working_folders(words: &[ShellWord]) -> Vec<ShellWord> {
    let is_wrapper = words.first().is_some_and(|program| wraps_commands(&program_name(program)));
    let folder = |pair: &[ShellWord]| {
        let option = &pair[0];
        let attached = match option.text.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').unwrap_or((long, ""));
                let is_known = ["chdir", "cwd", "wd", "working-directory"]
                    .iter()
                    .any(|known| name.len() > 1 && known.starts_with(name));
                is_known.then(|| value.to_owned())?
            }
            None => option.text.strip_prefix('-')?.split_once('C')?.1.to_owned(),
        };
        match attached.is_empty() {
            true => pair.get(1).cloned(),
            false => Some(ShellWord { text: attached, ..option.clone() }),
        }
    };
    let at = |at: usize| &words[at..words.len().min(at + 2)];
    (1..words.len()).filter(|_| is_wrapper).filter_map(|begin| folder(at(begin))).collect()
}

/// Returns the commands that `find` runs.
pub(super) fn split_exec_commands(args: &[ShellWord]) -> Vec<&[ShellWord]> {
    let starts = args.iter().enumerate().filter(|(_, word)| is_find_exec(&word.text));
    let after = starts.map(|(at, _)| &args[at + 1..]);
    after.map(|words| &words[..exec_end(words).unwrap_or(words.len())]).collect()
}

/// Returns the position of the `;`, or of the `+` after `{}`, that ends the command of `-exec`.
pub(super) fn exec_end(words: &[ShellWord]) -> Option<usize> {
    let is_end = |at: &usize| match &*words[*at].text {
        ";" => true,
        "+" => *at > 0 && words[at - 1].text == "{}",
        _ => false,
    };
    (0..words.len()).find(is_end)
}
