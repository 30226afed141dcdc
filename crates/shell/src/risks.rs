//! The table of what is asked about whatever is allowed, and how it is found in a line.

mod folders;
mod git;
mod reason;
mod removal;
pub(crate) mod tables;

use std::path::{Path, PathBuf};

use callboard_text::normalise;

use self::folders::Folders;
pub use self::reason::Reason;
use self::removal::Extent;
use crate::limits::{COMMAND_PATHS, COMMAND_TEXTS, WRAPPED_WORDS};
use crate::programs::{interprets, is_shell, reads_operands, runs_another};
use crate::reader::{self, Part, Simple, Word};

/// Where a line would run.
#[derive(Debug)]
pub struct Place<'a> {
    /// Its folder, absolute; none if it is not known.
    pub cwd: Option<&'a Path>,
    /// The folder for which `~` stands.
    pub home: Option<&'a Path>,
    /// The folders of the project, absolute.
    pub roots: Vec<&'a Path>,
}

/// What is found in a line.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Risks {
    /// Why it is asked about.
    pub reasons: Vec<Reason>,
    /// The files that it redirects to.
    pub writes: Vec<PathBuf>,
    /// The files that it shows, by names of its own.
    pub reads: Vec<PathBuf>,
    /// The files that it may do anything to.
    pub names: Vec<PathBuf>,
    /// The folders that it goes to.
    pub enters: Vec<PathBuf>,
    /// The folders in which it removes something with all that lies beneath.
    pub empties: Vec<PathBuf>,
}

/// Looks for what is asked about in a line, and for the files that it names.
#[must_use]
pub fn find(line: &str, place: Place<'_>) -> Risks {
    let folders = Folders::new(place.cwd);
    let mut look = Look { place, folders, texts: 0, found: Risks::default() };
    look.line(line, 0);
    look.found
}

struct Look<'a> {
    place: Place<'a>,
    /// The folders that it may be in at this point of the line.
    folders: Folders,
    /// How many texts of commands were read.
    texts: usize,
    found: Risks,
}

impl Look<'_> {
    fn line(&mut self, line: &str, depth: usize) {
        self.texts += 1;
        if self.texts > COMMAND_TEXTS {
            return self.ask(Reason::new("risk-too-many-texts"));
        }
        match reader::read(line, depth) {
            Ok(parts) => self.parts(&parts, depth),
            Err(unread) => self.ask(Reason::new(unread.key())),
        }
    }

    fn parts(&mut self, parts: &[Part], depth: usize) {
        let mut outer = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Command(command) => self.simple(command, depth),
                Part::Begin => {
                    let within = self.folders.begin();
                    outer.push(std::mem::replace(&mut self.folders, within));
                }
                Part::End => {
                    let before = outer.pop();
                    before.into_iter().for_each(|before| self.folders = before);
                }
                Part::Over => self.folders.rejoin(),
                Part::Again if moves(&parts[at..]) => self.folders.add_unknown(),
                Part::Again => {}
            }
        }
        self.folders.rejoin();
    }

    fn ask(&mut self, why: Reason) {
        let reasons = &mut self.found.reasons;
        if reasons.len() < COMMAND_PATHS && !reasons.contains(&why) {
            reasons.push(why);
        }
    }

    /// Notes a path to look at on the disk.
    fn note(&mut self, list: fn(&mut Risks) -> &mut Vec<PathBuf>, path: PathBuf) {
        let paths = list(&mut self.found);
        if paths.len() >= COMMAND_PATHS {
            self.ask(Reason::new("risk-too-many-files"));
        } else if !paths.contains(&path) {
            paths.push(path);
        }
    }

    /// Returns as many words as are looked at one by one.
    fn each<'w>(&mut self, words: &'w [Word]) -> &'w [Word] {
        if words.len() > COMMAND_PATHS {
            self.ask(Reason::new("risk-too-many-files"));
        }
        &words[..words.len().min(COMMAND_PATHS)]
    }

    /// Returns those of them that are no options.
    fn operands<'w>(&mut self, args: &'w [Word]) -> impl Iterator<Item = &'w Word> + use<'w> {
        self.each(args).iter().filter(|word| !word.text.starts_with('-'))
    }

    fn simple(&mut self, command: &Simple, depth: usize) {
        self.each(&command.writes).iter().for_each(|target| self.write(target));
        self.each(&command.reads).iter().for_each(|target| self.read(target));
        self.words(command);
        let words = &command.words;
        let Some((program, args)) = words.split_first() else { return };
        if program.expands {
            self.ask(Reason::new("risk-unknown-program").with("program", &program.text));
        }
        let name = name(program);
        // One with a path is a program, which leads its own process only.
        if command.is_condition && is_cd(&program.text) {
            self.folders.go_on(args);
            return self.entered();
        }
        let begins = self.begins(&name, words);
        for begin in begins {
            let Some((program, args)) = words[begin..].split_first() else { continue };
            let wrapped = self::name(program);
            let is_told = begin > 0 && matches!(&*name, "xargs" | "parallel");
            if is_told && wrapped == "rm" && has_switch(&texts(args), "rR", "--recursive") {
                self.ask(Reason::new("risk-unknown-removal"));
            }
            if begin == 0 || begin == 1 && matches!(&*name, "builtin" | "command") {
                self.builtin(&wrapped);
            }
            self.program(&wrapped, args, command, depth);
        }
    }

    fn builtin(&mut self, name: &str) {
        if tables::ALIASING.contains(&name) {
            self.ask(Reason::new("risk-aliases").with("name", name));
        }
    }

    /// Returns where among the words of a program another one may stand.
    fn begins(&mut self, name: &str, words: &[Word]) -> Vec<usize> {
        let mut begins = vec![0];
        if runs_another(name) {
            begins.extend(1..words.len());
        }
        if name == "find" {
            let runs = |(at, word): (usize, &Word)| runs_for_each(&word.text).then_some(at + 1);
            begins.extend(words.iter().enumerate().filter_map(runs));
        }
        if begins.len() > WRAPPED_WORDS {
            self.ask(Reason::new("risk-many-words"));
            begins.truncate(WRAPPED_WORDS);
        }
        begins
    }

    /// Looks at what a command names and sets.
    fn words(&mut self, command: &Simple) {
        let Simple { sets, words, writes, reads, .. } = command;
        let program = words.first().map(name).unwrap_or_default();
        let says = matches!(&*program, "echo" | "printf");
        let named = || sets.iter().chain(words.iter().skip(1).filter(|_| !says));
        let mut opened = reads.iter().chain(writes).chain(named());
        if let Some(word) = opened.find(|word| tables::is_secret(word)) {
            self.ask(Reason::new("risk-names-secret").with("name", &word.text));
        }
        reads.iter().for_each(|word| self.named(word, true));
        if !says {
            let is_shown = reads_operands(&program) || matches!(&*program, "source" | ".");
            for word in self.each(words.get(1..).unwrap_or_default()) {
                self.named(word, is_shown);
            }
        }
        let told = words.iter().skip(1).filter(|_| tables::SETTING.contains(&&*program));
        if let Some(variable) = sets.iter().chain(told).find_map(tables::obeyed_variable) {
            self.ask(Reason::new("risk-sets-variable").with("variable", variable));
        }
        let is_builtin = tables::EVALUATING.contains(&&*program);
        let told = words.iter().chain(&command.input).filter(|_| is_builtin);
        let evaluated = sets.iter().chain(told);
        if let Some(word) = evaluated.into_iter().find(|word| word.expands_again()) {
            self.ask(Reason::new("risk-evaluates").with("word", &word.text));
        }
    }

    /// Notes the files that a word may name: as a whole, as the value of an option, or behind an
    /// option's letter.
    fn named(&mut self, word: &Word, is_shown: bool) {
        let text = word.text.as_str();
        let value = text.split_once('=').map(|(_, value)| value);
        let attached = text.strip_prefix('-').and_then(|letters| letters.get(1..));
        let names = [Some(text), value, attached].into_iter().flatten();
        for name in names.map(|name| name.trim_start_matches('@')) {
            if name.is_empty() || name.starts_with('-') {
                continue;
            }
            let word = Word { text: name.to_owned(), ..word.clone() };
            let paths = self.paths(&word).unwrap_or_default();
            if paths.iter().any(|path| tables::is_of_process(path)) {
                self.ask(Reason::new("risk-names-process").with("name", name));
            }
            let list: fn(&mut Risks) -> &mut Vec<PathBuf> =
                if is_shown { |found| &mut found.reads } else { |found| &mut found.names };
            paths.into_iter().for_each(|path| self.note(list, path));
        }
    }

    /// Looks at one program and what it is told.
    fn program(&mut self, name: &str, args: &[Word], command: &Simple, depth: usize) {
        let words = texts(args);
        let bare = if name.starts_with("mkfs.") { "mkfs" } else { name };
        if let Some((_, key)) = tables::PROGRAMS.iter().find(|(names, _)| names.contains(&bare)) {
            self.ask(Reason::new(key).with("name", name));
        }
        if let Some((_, letter, long)) = tables::TEXTS.iter().find(|(other, ..)| *other == name)
            && has_switch(&words, letter, long)
        {
            self.ask(Reason::new("risk-runs-text").with("name", name));
        }
        match name {
            _ if is_cd(name) => {
                self.folders.enter(args);
                self.entered();
            }
            "rm" if has_switch(&words, "rR", "--recursive") => {
                self.operands(args).for_each(|target| self.remove(target, Extent::All));
            }
            "find" => {
                let (folders, extent) = removal::of_find(args);
                folders.iter().for_each(|folder| self.remove(folder, extent));
            }
            "tee" => self.operands(args).for_each(|file| self.write(file)),
            "trap" => {
                let before = self.folders.clone();
                let code = after_dashes(args);
                self.code(&code[..code.len().min(1)], depth);
                if self.folders != before {
                    self.folders.add_unknown();
                }
            }
            "hyperfine" | "parallel" | "tmux" | "watch" => {
                let lines = args.iter().filter(|word| word.text.contains([' ', ';', '|', '&']));
                lines.for_each(|line| self.other_shell(std::slice::from_ref(line), depth));
            }
            "cargo" | "npm" | "pnpm" | "yarn" | "poetry" | "uv" if words.contains(&"publish") => {
                self.ask(Reason::new("risk-publishes").with("name", name));
            }
            "chmod" if has_switch(&words, "R", "--recursive") && lets_all_write(&words) => {
                self.ask(Reason::new("risk-lets-write"));
            }
            "dd" if words.iter().any(|word| word.starts_with("of=/dev/")) => {
                self.ask(Reason::new("risk-overwrites-device"));
            }
            "crontab" if words != ["-l"] => {
                self.ask(Reason::new("risk-runs-later").with("name", name));
            }
            "git" => git::reasons(&words).into_iter().for_each(|key| self.ask(Reason::new(key))),
            "awk" | "gawk" | "mawk" | "nawk" if words.iter().any(|word| runs_commands(word)) => {
                self.ask(Reason::new("risk-runs-own").with("name", name));
            }
            "eval" => self.code(after_dashes(args), depth),
            "source" | "." => self.source(after_dashes(args), command, depth),
            _ if is_shell(name) => self.shell(name, args, command, depth),
            _ if reads_operands(name) => {
                self.operands(args).for_each(|file| self.read(file));
            }
            _ if interprets(name) && reads_program(&words) && command.input.is_none() => {
                self.ask(Reason::new("risk-runs-input").with("name", name));
            }
            _ => {}
        }
    }

    /// Looks at what a shell is told to run.
    fn shell(&mut self, name: &str, args: &[Word], command: &Simple, depth: usize) {
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
                "rcfile" | "init-file" => return self.ask(Reason::new("risk-shell-first")),
                _ if long.is_some() || name == "fish" && letters != "c" => {
                    return self.ask(Reason::new("risk-shell-unclear"));
                }
                _ => {
                    takes_code |= letters.contains('c');
                    takes_input |= letters.contains('s');
                    rest = after.get(letters.matches(['o', 'O']).count()..).unwrap_or_default();
                }
            }
        }
        match rest.first() {
            Some(code) if takes_code => self.other_shell(std::slice::from_ref(code), depth),
            Some(_) if !takes_input => self.source(&rest[..1], command, depth),
            _ => self.input(command, depth),
        }
    }

    /// Looks at a script that is named.
    fn source(&mut self, args: &[Word], command: &Simple, depth: usize) {
        let Some(script) = args.first() else { return };
        if script.expands {
            self.ask(Reason::new("risk-unknown-script"));
        }
        if ["/dev/stdin", "/dev/fd/", "/proc/"].iter().any(|own| script.text.starts_with(own)) {
            self.input(command, depth);
        }
    }

    /// Looks at what a shell reads as commands.
    fn input(&mut self, command: &Simple, depth: usize) {
        match &command.input {
            Some(text) if command.reads.is_empty() => {
                self.other_shell(std::slice::from_ref(text), depth);
            }
            _ => self.ask(Reason::new("risk-shell-input")),
        }
    }

    /// Looks at the text of commands for another shell, which goes to no other folder for this one.
    fn other_shell(&mut self, words: &[Word], depth: usize) {
        let within = self.folders.begin();
        let before = std::mem::replace(&mut self.folders, within);
        self.code(words, depth);
        self.folders = before;
    }

    /// Looks at the text of commands.
    fn code(&mut self, words: &[Word], depth: usize) {
        if words.iter().any(|word| word.expands) {
            return self.ask(Reason::new("risk-unknown-code"));
        }
        self.line(&texts(words).join(" "), depth + 1);
    }

    fn entered(&mut self) {
        let folders: Vec<_> = self.folders.iter().flatten().map(Path::to_owned).collect();
        folders.into_iter().for_each(|folder| self.note(|found| &mut found.enters, folder));
    }

    fn write(&mut self, target: &Word) {
        let is_stream = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"]
            .contains(&&*target.text)
            || Path::new(&target.text).parent() == Some(Path::new("/dev/fd"));
        if is_stream {
            return;
        }
        let Some(paths) = self.paths(target) else {
            return self.ask(Reason::new("risk-unknown-target").with("path", &target.text));
        };
        paths.into_iter().for_each(|path| self.note(|found| &mut found.writes, path));
        self.climb(target);
    }

    fn read(&mut self, target: &Word) {
        let paths = self.paths(target).unwrap_or_default();
        paths.into_iter().for_each(|path| self.note(|found| &mut found.reads, path));
    }

    fn remove(&mut self, target: &Word, extent: Extent) {
        let is_vital = |folder| removal::is_vital(target, folder, extent, &self.place);
        if self.folders.iter().any(is_vital) {
            self.ask(Reason::new("risk-removes-vital").with("path", &target.text));
        }
        let target = Word { expands: false, ..target.clone() };
        self.climb(&target);
        if let Some(paths) = self.paths(&target) {
            // A link is removed, and not what it leads to.
            let above = paths.into_iter().filter_map(|path| Some(path.parent()?.to_owned()));
            above.for_each(|folder| self.note(|found| &mut found.empties, folder));
        }
    }

    /// Notes the folder from which a name goes up: above a link is another place.
    fn climb(&mut self, target: &Word) {
        let Some((folder, _)) = target.text.split_once("/..") else { return };
        let folder = Word { text: folder.to_owned(), ..target.clone() };
        let paths = self.paths(&folder).unwrap_or_default();
        paths.into_iter().for_each(|path| self.note(|found| &mut found.enters, path));
    }

    /// Returns what a word may name, if that is known.
    fn paths(&self, target: &Word) -> Option<Vec<PathBuf>> {
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

/// Whether what follows goes to another folder, in the same shell.
fn moves(parts: &[Part]) -> bool {
    let mut depth = 0;
    for part in parts {
        match part {
            Part::Begin => depth += 1,
            Part::End if depth == 0 => return false,
            Part::End => depth -= 1,
            Part::Command(command) if depth == 0 => {
                let is_one =
                    |word: &Word| is_cd(&word.text) || matches!(&*word.text, "eval" | "trap");
                if command.words.iter().any(is_one) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn is_cd(name: &str) -> bool {
    matches!(name, "cd" | "pushd" | "popd")
}

fn texts(words: &[Word]) -> Vec<&str> {
    words.iter().map(|word| &*word.text).collect()
}

/// Returns the words after the `--` that ends the options, if it is the first of them.
fn after_dashes(words: &[Word]) -> &[Word] {
    match words {
        [first, rest @ ..] if first.text == "--" => rest,
        _ => words,
    }
}

/// Returns the name of a program: without its path, in small letters.
fn name(program: &Word) -> String {
    program.text.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
}

/// Whether a long switch is there, or one of the letters of a short one.
fn has_switch(words: &[&str], letters: &str, long: &str) -> bool {
    words.iter().any(|word| match word.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => {
            rest.len() > 1 && long.starts_with(word.split('=').next().unwrap_or(word))
        }
        Some(rest) => rest.contains(|letter| letters.contains(letter)),
        None => false,
    })
}

fn lets_all_write(words: &[&str]) -> bool {
    let mode = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let octal =
        mode.ends_with(['2', '3', '6', '7']) && mode.bytes().all(|byte| byte.is_ascii_digit());
    let gives = |part: &str| {
        let (who, what) = part.split_at(part.find(['+', '=']).unwrap_or(part.len()));
        who.contains(['o', 'a']) && what.contains('w')
    };
    octal || mode.split(',').any(gives)
}

/// Whether `find` runs a program, named by the next word, for what it finds.
fn runs_for_each(word: &str) -> bool {
    matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir")
}

/// Whether a program for `awk` runs commands.
fn runs_commands(word: &str) -> bool {
    word.contains("system") || word.contains("getline") || word.replace("||", "").contains('|')
}

/// Whether an interpreter that is told this reads its program.
fn reads_program(words: &[&str]) -> bool {
    words
        .iter()
        .all(|word| *word == "-" || word.starts_with('-') && word.len() == 2 && *word == "-u")
}
