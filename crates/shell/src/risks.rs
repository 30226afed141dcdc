//! Finds the parts of a line that need permission even if a rule allows the line.

mod code;
mod expansions;
mod folders;
mod git;
mod interpreters;
mod launchers;
mod named_files;
mod patterns;
mod reading;
mod reason;
mod redefinitions;
mod removal;
pub(crate) mod tables;
mod variables;
mod wrapped;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use callboard_text::normalise;

use self::code::has_known_environment;
use self::expansions::expanded_command;
use self::folders::{PossibleFolders, changes_folder, is_folder_change_command, runs_code};
use self::launchers::CommandWithUnknownWords;
use self::named_files::LineNameFlow;
pub use self::patterns::{NamePattern, PathPattern};
pub use self::reason::RiskReason;
use self::removal::{FindChange, RemovalExtent};
use crate::limits::{MAX_COMMAND_PATHS, MAX_NESTED_TEXTS};
use crate::parser::{self, InputOrigin, LinePart, ShellWord, SimpleCommand};
use crate::programs::{is_interpreter, is_shell, reads_operand_files};

/// The place where a line would run.
#[derive(Debug)]
#[non_exhaustive]
pub struct ShellContext<'a> {
    /// The working directory, absolute; `None` if it is not known.
    pub cwd: Option<&'a Path>,
    /// The home directory, which replaces `~`.
    pub home: Option<&'a Path>,
    /// The folders of the project, absolute.
    pub project_folders: Vec<&'a Path>,
    /// The names of the environment variables that the shell may receive; `None` if they are not
    /// known.
    pub environment: Option<BTreeSet<&'a str>>,
}

impl<'a> ShellContext<'a> {
    /// Creates the context of a line whose directories and environment are not known.
    #[must_use]
    pub fn new(project_folders: Vec<&'a Path>) -> Self {
        Self { cwd: None, home: None, project_folders, environment: None }
    }
}

/// The risks that were found in a line.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Risks {
    /// The reasons to ask for permission.
    pub reasons: Vec<RiskReason>,
    /// The files to which output is redirected.
    pub writes: Vec<PathBuf>,
    /// The files whose content the line shows. The paths are made from the names in the line.
    pub reads: Vec<PathBuf>,
    /// The other files that the line names. Its commands may change these files.
    pub mentions: Vec<PathBuf>,
    /// The files that the line reads, if some names in their paths are known only when it runs.
    pub read_patterns: Vec<PathPattern>,
    /// The other files that the line names, if some names in their paths are known only when it
    /// runs.
    pub mention_patterns: Vec<PathPattern>,
    /// The folders to which the line changes the working directory.
    pub enters: Vec<PathBuf>,
    /// The folders in which the line removes a target recursively.
    pub removes_in: Vec<PathBuf>,
}

/// Finds the reasons to ask for permission for a line, and the files that the line names.
#[must_use]
pub fn find_risks(line: &str, place: ShellContext<'_>) -> Risks {
    // A line that mentions a variable in another way may change it.
    let is_known = |name: &str| {
        let uses = [format!("${name}"), format!("${{{name}}}")];
        let uses: usize = uses.iter().map(|text| line.matches(text.as_str()).count()).sum();
        line.matches(name).count() == uses
    };
    let home = place.home.filter(|_| is_known("HOME"));
    // The file in `BASH_ENV` may export any variable.
    let environment = place.environment.filter(|names| !names.contains("BASH_ENV"));
    let place = ShellContext { home, environment, ..place };
    let mut look = RiskFinder::new(line, place, is_known("PWD"));
    look.check_line(line, 0);
    if look.runs_script || look.declares_integers {
        // A script may export any variable. A loop may run the script, or a declaration of an
        // integer, before other commands.
        let environment = look.context.environment.filter(|_| !look.runs_script);
        let place = ShellContext { environment, ..look.context };
        let again = RiskFinder::new(line, place, is_known("PWD"));
        look = RiskFinder { declares_integers: look.declares_integers, ..again };
        look.check_line(line, 0);
    }
    if line.contains("globstar") && line.contains("**") {
        // Patterns have no form for a name at any depth.
        look.add_reason(RiskReason::new("risk-too-many-files"));
    }
    look.risks
}

struct RiskFinder<'a> {
    context: ShellContext<'a>,
    /// The possible working directories at this point of the line.
    folders: PossibleFolders,
    /// Whether `$PWD` is the current folder.
    is_pwd_known: bool,
    /// Whether a `*` may match hidden files.
    matches_dot: bool,
    /// The properties of the text that is being checked.
    traits: LineNameFlow,
    /// Whether a command after the text that is being checked may change the folder of this shell.
    changes_folder_later: bool,
    /// Number of subshells and substitutions that contain the current command.
    subshells: usize,
    /// Number of command texts that were parsed so far.
    texts: usize,
    /// Number of paths to which names were resolved so far.
    resolved_names: Cell<usize>,
    /// Whether the shell itself runs a script, i.e. by `.` or `source`.
    runs_script: bool,
    /// Whether a variable has the integer attribute.
    declares_integers: bool,
    risks: Risks,
}

impl<'a> RiskFinder<'a> {
    fn new(line: &str, context: ShellContext<'a>, is_pwd_known: bool) -> Self {
        let folders = PossibleFolders::new(context.cwd);
        Self {
            context,
            folders,
            is_pwd_known,
            matches_dot: ["dotglob", "shopt", "setopt"].iter().any(|name| line.contains(name)),
            traits: LineNameFlow::of_parts(&[]),
            changes_folder_later: false,
            subshells: 0,
            texts: 0,
            resolved_names: Cell::new(0),
            runs_script: false,
            declares_integers: false,
            risks: Risks::default(),
        }
    }

    fn check_line(&mut self, line: &str, depth: usize) {
        self.texts += 1;
        if self.texts > MAX_NESTED_TEXTS {
            return self.add_reason(RiskReason::new("risk-too-many-texts"));
        }
        match parser::parse_command_line(line, depth) {
            Ok(parts) => self.check_parts(&parts, depth),
            Err(unread) => self.add_reason(RiskReason::new(unread.reason_key())),
        }
    }

    fn check_parts(&mut self, parts: &[LinePart], depth: usize) {
        let mut outer = Vec::new();
        let within = LineNameFlow::of_parts(parts).within(self.traits);
        let traits = std::mem::replace(&mut self.traits, within);
        let changes_folder_later = self.changes_folder_later;
        for (at, part) in parts.iter().enumerate() {
            match part {
                LinePart::Command(command) => {
                    let is_later = runs_code(command) && changes_folder(&parts[at + 1..]);
                    self.changes_folder_later = changes_folder_later || is_later;
                    self.check_command(command, depth);
                }
                LinePart::SubshellStart => {
                    self.subshells += 1;
                    let within = self.folders.for_subshell();
                    outer.push(std::mem::replace(&mut self.folders, within));
                }
                LinePart::SubshellEnd => {
                    self.subshells = self.subshells.saturating_sub(1);
                    let before = outer.pop();
                    before.into_iter().for_each(|before| self.folders = before);
                }
                LinePart::ChainEnd => self.folders.merge_failed_cd_folders(),
                LinePart::LoopStart | LinePart::FunctionStart(_) => {
                    if changes_folder_later || changes_folder(&parts[at..]) {
                        self.folders.add_unknown_folder();
                    }
                    self.check_function_name(part);
                }
                LinePart::Arithmetic(text) => self.check_arithmetic(text),
            }
        }
        self.folders.merge_failed_cd_folders();
        self.changes_folder_later = changes_folder_later;
        self.traits = traits;
    }

    fn add_reason(&mut self, why: RiskReason) {
        let reasons = &mut self.risks.reasons;
        if reasons.len() < MAX_COMMAND_PATHS && !reasons.contains(&why) {
            reasons.push(why);
        }
    }

    /// Records a path that must be checked on the disk.
    fn add_path(&mut self, list: fn(&mut Risks) -> &mut Vec<PathBuf>, path: PathBuf) {
        let paths = list(&mut self.risks);
        if paths.len() >= MAX_COMMAND_PATHS {
            self.add_reason(RiskReason::new("risk-too-many-files"));
        } else if !paths.contains(&path) {
            paths.push(path);
        }
    }

    /// Returns the words that are checked individually, up to the limit.
    fn limit_words<'w>(&mut self, words: &'w [ShellWord]) -> &'w [ShellWord] {
        if words.len() > MAX_COMMAND_PATHS {
            self.add_reason(RiskReason::new("risk-too-many-files"));
        }
        &words[..words.len().min(MAX_COMMAND_PATHS)]
    }

    /// Returns the words that are not options.
    fn non_option_words<'w>(
        &mut self,
        args: &'w [ShellWord],
    ) -> impl Iterator<Item = &'w ShellWord> + use<'w> {
        self.limit_words(args).iter().filter(|word| !word.text.starts_with('-'))
    }

    fn check_command(&mut self, command: &SimpleCommand, depth: usize) {
        self.check_command_words(command, depth);
        if let Some(expanded) = expanded_command(command) {
            self.check_command_words(&expanded, depth);
        }
    }

    fn check_command_words(&mut self, command: &SimpleCommand, depth: usize) {
        let folders = launchers::working_folders(&command.words);
        let before = (!folders.is_empty()).then(|| self.folders.clone());
        for folder in folders {
            self.folders.enter_or_stay(&[folder]);
        }
        self.check_command_in_current_folders(command, depth);
        before.into_iter().for_each(|before| self.folders = before);
    }

    fn check_command_in_current_folders(&mut self, command: &SimpleCommand, depth: usize) {
        self.limit_words(&command.writes).iter().for_each(|target| self.add_write(target));
        self.limit_words(&command.reads).iter().for_each(|target| self.add_read(target));
        self.check_named_files(command);
        let words = &command.words;
        let Some((program, args)) = words.split_first() else {
            return self.check_variables(command, &[]);
        };
        if program.expands {
            self.add_reason(
                RiskReason::new("risk-unknown-program").with_subject("program", &program.text),
            );
        }
        let name = program_name(program);
        // This check uses the word with its path. A word such as `/bin/cd` runs a program, and a
        // program cannot change the working directory of the shell.
        if command.is_before_and && is_folder_change_command(&program.text) {
            self.check_variables(command, &[]);
            self.folders.enter_or_skip_chain(args);
            return self.add_entered_folders();
        }
        let begins = self.program_positions(&name, words);
        self.check_variables(command, &begins);
        self.check_redefining_builtin(words);
        let launched = CommandWithUnknownWords::new(words, &begins);
        self.check_unknown_program(&launched);
        for begin in begins {
            let Some(program) = words.get(begin) else { continue };
            let wrapped = program_name(program);
            // The folders in which `find` searches determine which files it removes.
            let words = match launched.is_run_by_find(begin)
                && removal::is_removing_or_moving_program(&wrapped)
            {
                true => &words[begin + 1..],
                false => &launched.words[begin + 1..],
            };
            let args = ProgramArgs {
                words,
                appended: launched.appended.min(words.len()),
                has_known_environment: has_known_environment(&command.words, begin),
            };
            if launched.has_unknown_operands(begin)
                && wrapped == "rm"
                && has_short_or_long_switch(&word_texts(words), "rR", "--recursive")
            {
                self.add_reason(RiskReason::new("risk-unknown-removal"));
            }
            self.check_program(&wrapped, args, command, depth);
        }
    }

    /// Checks one program and its arguments.
    fn check_program(
        &mut self,
        name: &str,
        program: ProgramArgs<'_>,
        command: &SimpleCommand,
        depth: usize,
    ) {
        let ProgramArgs { words: args, appended, .. } = program;
        let words = word_texts(args);
        let bare = if name.starts_with("mkfs.") { "mkfs" } else { name };
        if let Some((_, key)) =
            tables::ALWAYS_ASKED_PROGRAMS.iter().find(|(names, _)| names.contains(&bare))
        {
            self.add_reason(RiskReason::new(key).with_subject("name", name));
        }
        if let Some((_, letter, long)) =
            tables::TEXT_RUNNING_SWITCHES.iter().find(|(other, ..)| *other == name)
            && has_short_or_long_switch(&words, letter, long)
        {
            self.add_reason(RiskReason::new("risk-runs-text").with_subject("name", name));
        }
        match name {
            _ if is_folder_change_command(name) => {
                self.folders.enter_or_stay(args);
                self.add_entered_folders();
            }
            "rm" | "rmdir" | "unlink" => {
                let is_recursive =
                    name == "rm" && has_short_or_long_switch(&words, "rR", "--recursive");
                let extent = if is_recursive { RemovalExtent::All } else { RemovalExtent::Named };
                self.non_option_words(args).for_each(|target| self.check_removal(target, extent));
            }
            "mv" => {
                let moved = removal::files_moved_by_mv(self.limit_words(args));
                moved.iter().for_each(|file| self.check_removal(file, RemovalExtent::Named));
            }
            "find" => self.check_find(args),
            "tee" => self.non_option_words(args).for_each(|file| self.add_write(file)),
            "trap" => self.check_trap(skip_double_dash(args), depth),
            "hyperfine" | "parallel" | "tmux" | "watch" => {
                let lines = args.iter().filter(|word| word.text.contains([' ', ';', '|', '&']));
                lines.for_each(|line| self.check_code_in_unknown_environment(line, depth));
            }
            "cargo" | "npm" | "pnpm" | "yarn" | "poetry" | "uv" if words.contains(&"publish") => {
                self.add_reason(RiskReason::new("risk-publishes").with_subject("name", name));
            }
            "chmod"
                if has_short_or_long_switch(&words, "R", "--recursive")
                    && grants_world_write(&words) =>
            {
                self.add_reason(RiskReason::new("risk-lets-write"));
            }
            "dd" if words.iter().any(|word| word.starts_with("of=/dev/")) => {
                self.add_reason(RiskReason::new("risk-overwrites-device"));
            }
            "crontab" if words != ["-l"] => {
                self.add_reason(RiskReason::new("risk-runs-later").with_subject("name", name));
            }
            "git" => git::risk_keys(&words)
                .into_iter()
                .for_each(|key| self.add_reason(RiskReason::new(key))),
            "awk" | "gawk" | "mawk" | "nawk"
                if words.iter().any(|word| awk_runs_commands(word)) =>
            {
                self.add_reason(RiskReason::new("risk-runs-own").with_subject("name", name));
            }
            "eval" => self.check_shell_code(skip_double_dash(args), depth),
            "source" | "." => self.check_script_path(skip_double_dash(args), command, depth),
            _ if is_shell(name) => self.check_shell(name, program, command, depth),
            _ if reads_operand_files(name) => {
                self.non_option_words(args).for_each(|file| self.add_read(file));
            }
            _ if is_interpreter(name)
                && self.reads_program_from_stdin(name, &args[..args.len() - appended])
                && command.input_origin != InputOrigin::Text =>
            {
                self.add_reason(RiskReason::new("risk-runs-input").with_subject("name", name));
            }
            _ => {}
        }
    }

    fn add_entered_folders(&mut self) {
        let folders: Vec<_> = self.folders.iter().flatten().map(Path::to_owned).collect();
        folders.into_iter().for_each(|folder| self.add_path(|found| &mut found.enters, folder));
    }

    fn add_write(&mut self, target: &ShellWord) {
        let is_stream = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"]
            .contains(&&*target.text)
            || Path::new(&target.text).parent() == Some(Path::new("/dev/fd"));
        if is_stream {
            return;
        }
        let Some(paths) = self.resolve_paths(target) else {
            return self.add_reason(
                RiskReason::new("risk-unknown-target").with_subject("path", &target.text),
            );
        };
        paths.into_iter().for_each(|path| self.add_path(|found| &mut found.writes, path));
        self.add_folder_before_parent_dir(target);
    }

    fn add_read(&mut self, target: &ShellWord) {
        let paths = self.resolve_paths(&self.expand_home(target)).unwrap_or_default();
        paths.into_iter().for_each(|path| self.add_path(|found| &mut found.reads, path));
    }

    /// Checks the files that `find` removes, and the files of which it passes the names to programs
    /// that may change them.
    fn check_find(&mut self, args: &[ShellWord]) {
        let (folders, change) = removal::folders_and_change_of_find(args);
        for folder in &folders {
            match change {
                FindChange::None => {}
                FindChange::Removes(extent) => self.check_removal(folder, extent),
                FindChange::RunsProgram => self.check_outside(folder, "risk-finds-outside"),
            }
        }
    }

    /// Adds a reason if a word may name a file outside of the project.
    fn check_outside(&mut self, word: &ShellWord, key: &'static str) {
        let extent = RemovalExtent::Named;
        let is_outside = |cwd| removal::removes_vital(word, cwd, extent, &self.context);
        if self.folders.iter().any(is_outside) {
            self.add_reason(RiskReason::new(key).with_subject("path", &word.text));
        }
    }

    fn check_removal(&mut self, target: &ShellWord, extent: RemovalExtent) {
        let is_vital = |folder| removal::removes_vital(target, folder, extent, &self.context);
        if self.folders.iter().any(is_vital) {
            self.add_reason(
                RiskReason::new("risk-removes-vital").with_subject("path", &target.text),
            );
        }
        let target = ShellWord { expands: false, ..target.clone() };
        self.add_folder_before_parent_dir(&target);
        if let Some(paths) = self.resolve_paths(&target) {
            // If the path is a link, only the link is removed, and not its target. The folder to
            // check is therefore the parent.
            let above = paths.into_iter().filter_map(|path| Some(path.parent()?.to_owned()));
            above.for_each(|folder| self.add_path(|found| &mut found.removes_in, folder));
        }
    }

    /// Records the folder before a `..`. If this folder is a link, then `..` is the parent of the
    /// link's target, which is another folder.
    fn add_folder_before_parent_dir(&mut self, target: &ShellWord) {
        let Some((folder, _)) = target.text.split_once("/..") else { return };
        let folder = ShellWord { text: folder.to_owned(), ..target.clone() };
        let paths = self.resolve_paths(&folder).unwrap_or_default();
        paths.into_iter().for_each(|path| self.add_path(|found| &mut found.enters, path));
    }

    /// Replaces `~` or `$HOME` at the beginning of a word by the home directory, if the word has no
    /// other expansion.
    fn expand_home(&self, word: &ShellWord) -> ShellWord {
        let prefixes = ["~", "$HOME", "${HOME}"];
        let rest = prefixes.iter().find_map(|prefix| word.text.strip_prefix(prefix));
        match (rest, self.context.home.and_then(Path::to_str)) {
            (Some(rest), Some(home))
                if word.expands
                    && (rest.is_empty() || rest.starts_with('/'))
                    && !rest.contains(['$', '`', '*', '?', '[', '{']) =>
            {
                ShellWord { text: format!("{home}{rest}"), expands: false, ..word.clone() }
            }
            _ => word.clone(),
        }
    }

    /// Returns the paths that a word may name; `None` if they are not known.
    fn resolve_paths(&self, target: &ShellWord) -> Option<Vec<PathBuf>> {
        let path = Path::new(&target.text);
        if target.expands {
            return None;
        }
        if path.is_absolute() {
            return Some(vec![normalise(path)]);
        }
        self.folders.iter().map(|folder| Some(normalise(&folder?.join(path)))).collect()
    }
}

/// The words after a program.
#[derive(Debug, Clone, Copy)]
struct ProgramArgs<'w> {
    words: &'w [ShellWord],
    /// Number of unknown words at the end that the line does not contain.
    appended: usize,
    /// Whether the program receives only variables that the shell received, or harmless ones.
    has_known_environment: bool,
}

fn word_texts(words: &[ShellWord]) -> Vec<&str> {
    words.iter().map(|word| &*word.text).collect()
}

/// Returns the words without a leading `--`, which ends the options.
fn skip_double_dash(words: &[ShellWord]) -> &[ShellWord] {
    match words {
        [first, rest @ ..] if first.text == "--" => rest,
        _ => words,
    }
}

/// Returns the name of a program without its path, in lower case.
fn program_name(program: &ShellWord) -> String {
    program.text.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
}

/// Returns whether the words contain a long switch, or one of the letters of a short switch.
fn has_short_or_long_switch(words: &[&str], letters: &str, long: &str) -> bool {
    words.iter().any(|word| match word.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => {
            rest.len() > 1 && long.starts_with(word.split('=').next().unwrap_or(word))
        }
        Some(rest) => rest.contains(|letter| letters.contains(letter)),
        None => false,
    })
}

fn grants_world_write(words: &[&str]) -> bool {
    let mode = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let octal =
        mode.ends_with(['2', '3', '6', '7']) && mode.bytes().all(|byte| byte.is_ascii_digit());
    let gives = |part: &str| {
        let (who, what) = part.split_at(part.find(['+', '=']).unwrap_or(part.len()));
        who.contains(['o', 'a']) && what.contains('w')
    };
    octal || mode.split(',').any(gives)
}

/// Returns whether a word is an action of `find` that runs the program in the next word for each
/// file.
fn is_find_exec(word: &str) -> bool {
    matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir")
}

/// Returns whether an `awk` program may run commands.
fn awk_runs_commands(word: &str) -> bool {
    word.contains("system") || word.contains("getline") || word.replace("||", "").contains('|')
}

#[cfg(test)]
mod tests;
