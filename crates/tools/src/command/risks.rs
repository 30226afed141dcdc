//! The table of what is asked about whatever is allowed, and how it is found in a line.

use std::path::{Path, PathBuf};

use acp_types::location::normalise;

use super::reader::{self, Simple, Word};
use crate::limits::{COMMAND_TEXTS, WRAPPED_WORDS};

/// Where a line would run.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) cwd: &'a Path,
    pub(super) home: Option<&'a Path>,
    pub(super) roots: Vec<&'a Path>,
}

/// What is found in a line.
#[derive(Debug, Default)]
pub(super) struct Risks {
    /// Why it is asked about.
    pub(super) reasons: Vec<String>,
    /// The files that it redirects to.
    pub(super) writes: Vec<PathBuf>,
}

/// Looks for what is asked about.
pub(super) fn of(line: &str, place: Place<'_>) -> Risks {
    let cwd = Some(place.cwd.to_owned());
    let mut look = Look { place, cwd, texts: 0, found: Risks::default() };
    look.line(line, 0);
    look.found
}

struct Look<'a> {
    place: Place<'a>,
    /// The folder at this point of the line, as long as it is known.
    cwd: Option<PathBuf>,
    /// How many texts of commands were read.
    texts: usize,
    found: Risks,
}

impl Look<'_> {
    fn line(&mut self, line: &str, depth: usize) {
        self.texts += 1;
        if self.texts > COMMAND_TEXTS {
            return self.ask("it holds too many commands for other shells to be read");
        }
        match reader::read(line, depth) {
            Ok(commands) => commands.iter().for_each(|command| self.simple(command, depth)),
            Err(unread) => self.ask(unread.to_string()),
        }
    }

    fn ask(&mut self, why: impl Into<String>) {
        let why = why.into();
        if !self.found.reasons.contains(&why) {
            self.found.reasons.push(why);
        }
    }

    fn simple(&mut self, command: &Simple, depth: usize) {
        let Simple { words, writes, reads, input } = command;
        writes.iter().for_each(|target| self.write(target));
        let opened = reads.iter().chain(writes);
        let says = words.first().is_some_and(|word| matches!(&*word.text, "echo" | "printf"));
        let named = words.iter().skip(1).filter(|_| !says);
        if let Some(word) = opened.chain(named).find(|word| is_secret(&word.text)) {
            self.ask(format!("it names {}, which holds credentials or a history", word.text));
        }
        let Some(program) = words.first() else { return };
        if program.expands {
            self.ask(format!("which program {} is, is known only when it runs", program.text));
        }
        let mut begins = vec![0];
        let name = name(program);
        if WRAPPERS.contains(&&*name) {
            begins.extend(1..words.len().min(WRAPPED_WORDS));
        }
        if name == "find" {
            let runs = |(at, word): (usize, &Word)| {
                matches!(&*word.text, "-exec" | "-execdir" | "-ok" | "-okdir").then_some(at + 1)
            };
            begins.extend(words.iter().enumerate().filter_map(runs).take(WRAPPED_WORDS));
        }
        for begin in begins {
            if let Some((program, args)) = words[begin..].split_first() {
                self.program(&self::name(program), args, input.as_ref(), depth);
            }
        }
    }

    /// Looks at one program and what it is told.
    fn program(&mut self, name: &str, args: &[Word], input: Option<&Word>, depth: usize) {
        let words: Vec<_> = args.iter().map(|word| &*word.text).collect();
        let bare = if name.starts_with("mkfs.") { "mkfs" } else { name };
        if let Some((_, why)) = PROGRAMS.iter().find(|(names, _)| names.contains(&bare)) {
            self.ask(format!("{name} {why}"));
        }
        match name {
            "cd" | "pushd" | "popd" => self.enter(args),
            "rm" if has_switch(&words, "rR", "--recursive") => self.remove(args),
            "find" if is_whole_delete(&words) => {
                let folders = args.iter().take_while(|word| !word.text.starts_with('-')).count();
                let here = Word { text: ".".to_owned(), ..Word::default() };
                self.remove(if folders > 0 {
                    &args[..folders]
                } else {
                    std::slice::from_ref(&here)
                });
            }
            "tee" => {
                let files = args.iter().filter(|word| !word.text.starts_with('-'));
                files.for_each(|file| self.write(file));
            }
            "trap" => self.code(&args[..args.len().min(1)], depth),
            "cargo" | "npm" | "pnpm" | "yarn" | "poetry" | "uv" if words.contains(&"publish") => {
                self.ask(format!("{name} publish cannot be taken back"));
            }
            "chmod" if has_switch(&words, "R", "--recursive") && lets_all_write(&words) => {
                self.ask("chmod lets everybody write");
            }
            "dd" if words.iter().any(|word| word.starts_with("of=/dev/")) => {
                self.ask("dd overwrites a device");
            }
            "crontab" if words != ["-l"] => self.ask("crontab makes something run later"),
            "git" => self.git(&words),
            "awk" | "gawk" | "mawk" | "nawk" if words.iter().any(|word| runs_commands(word)) => {
                self.ask(format!("{name} runs commands of its own"));
            }
            "eval" => self.code(args, depth),
            "source" | "." if args.first().is_some_and(|file| file.expands) => {
                self.ask("what it reads as a script is known only when it runs");
            }
            _ if SHELLS.contains(&name) => self.shell(args, input, depth),
            _ if is_interpreter(name) && reads_program(&words) && input.is_none() => {
                self.ask(format!("{name} runs what it reads"));
            }
            _ => {}
        }
    }

    /// Looks at what a shell is told to run.
    fn shell(&mut self, args: &[Word], input: Option<&Word>, depth: usize) {
        let (mut rest, mut takes_code, mut takes_input) = (args, false, false);
        while let Some((option, after)) = rest.split_first() {
            let Some(letters) = option.text.strip_prefix(['-', '+']) else { break };
            let is_long = letters.starts_with('-');
            takes_code |= !is_long && letters.contains('c');
            takes_input |= !is_long && letters.contains('s') || letters.is_empty();
            let takes_word = !is_long && letters.ends_with(['o', 'O']);
            rest = if takes_word { after.get(1..).unwrap_or_default() } else { after };
        }
        match (rest.first(), input) {
            (Some(code), _) if takes_code => self.code(std::slice::from_ref(code), depth),
            (Some(script), _) if !takes_input && script.text != "/dev/stdin" => {
                if script.expands {
                    self.ask("which script it runs is known only when it runs");
                }
            }
            (_, Some(text)) => self.code(std::slice::from_ref(text), depth),
            (None, None) if args.iter().any(|word| word.text.starts_with("--")) => {}
            _ => self.ask("a shell runs what it reads"),
        }
    }

    /// Looks at the text of commands.
    fn code(&mut self, words: &[Word], depth: usize) {
        if words.iter().any(|word| word.expands) {
            return self.ask("what a shell is told to run is known only then");
        }
        let text: Vec<_> = words.iter().map(|word| &*word.text).collect();
        self.line(&text.join(" "), depth + 1);
    }

    fn git(&mut self, words: &[&str]) {
        let mut rest = words;
        let mut sets = false;
        // The options before the subcommand, of which some have a word of their own.
        while let [option, after @ ..] = rest
            && option.starts_with('-')
        {
            let value = after.first().copied().unwrap_or_default();
            sets |= *option == "-c" && runs_something(value);
            sets |= option.strip_prefix("-c").is_some_and(runs_something);
            sets |= option.strip_prefix("--config-env=").is_some_and(runs_something);
            let takes_word = matches!(*option, "-c" | "-C" | "--git-dir" | "--work-tree");
            rest = if takes_word { after.get(1..).unwrap_or_default() } else { after };
        }
        let (subcommand, args) =
            rest.split_first().map_or(("", rest), |(name, args)| (*name, args));
        let reads = args.iter().any(|word| word.starts_with("--get") || *word == "--list");
        sets |= subcommand == "config" && !reads && args.iter().any(|word| runs_something(word));
        if sets {
            self.ask("it sets what git runs");
        }
        let forces = |word: &&str| {
            word.starts_with("--force")
                || matches!(*word, "--mirror" | "--delete" | "--prune")
                || word.starts_with(['+', ':'])
                || word.starts_with('-') && !word.starts_with("--") && word.contains(['f', 'd'])
        };
        if subcommand == "clean" && has_switch(args, "f", "--force") {
            self.ask("git clean removes what git does not keep");
        }
        if subcommand == "push" && args.iter().any(forces) {
            self.ask("git push overwrites or removes what is there");
        }
    }

    fn enter(&mut self, args: &[Word]) {
        let [target] = args else { return self.cwd = None };
        let is_known = !target.expands && target.text != "-";
        self.cwd =
            self.cwd.take().filter(|_| is_known).map(|cwd| normalise(&cwd.join(&target.text)));
    }

    fn write(&mut self, target: &Word) {
        let path = Path::new(&target.text);
        let is_stream = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"]
            .contains(&&*target.text)
            || path.parent() == Some(Path::new("/dev/fd"));
        if is_stream {
            return;
        }
        match &self.cwd {
            Some(cwd) if !target.expands => self.found.writes.push(normalise(&cwd.join(path))),
            None if !target.expands && path.is_absolute() => {
                self.found.writes.push(normalise(path));
            }
            _ => self.ask(format!("where it writes {} is known only when it runs", target.text)),
        }
    }

    /// Looks at what is removed with all that lies beneath it.
    fn remove(&mut self, args: &[Word]) {
        let targets = args.iter().filter(|word| !word.text.starts_with('-'));
        for target in targets {
            if self.is_vital(target) {
                self.ask(format!(
                    "it removes {}, which may be a root, a home, all that is in one, what git \
                     keeps, or outside of the roots",
                    target.text
                ));
            }
        }
    }

    fn is_vital(&self, target: &Word) -> bool {
        let whole = target.text.trim_end_matches('/');
        // All in a folder is as much as the folder.
        let folder = whole.strip_suffix('*').map_or(whole, |folder| folder.trim_end_matches('.'));
        let is_all = folder.is_empty() || folder.ends_with('/');
        let text = if folder != whole && is_all { folder } else { whole };
        let path = match (text.strip_prefix('~'), text.strip_prefix("$HOME")) {
            (Some(rest), _) | (_, Some(rest)) if target.expands => match self.place.home {
                Some(home) if rest.is_empty() || rest.starts_with('/') => {
                    PathBuf::from(format!("{}{rest}", home.display()))
                }
                _ => return true,
            },
            _ if target.text.starts_with('/') => Path::new("/").join(text),
            _ => match &self.cwd {
                Some(cwd) => cwd.join(text),
                None => return true,
            },
        };
        let path = normalise(&path);
        // What is not known may be nothing, and `a/$b` all of `a`.
        let unknown = |name: &str| target.expands && name.contains(['$', '`', '{']);
        let known: PathBuf =
            path.iter().take_while(|name| !unknown(&name.to_string_lossy())).collect();
        let starts_unknown =
            target.expands && text.starts_with(['$', '`', '{']) && !text.starts_with("$HOME");
        let above = |vital: &Path| vital.starts_with(&known);
        starts_unknown
            || self.place.roots.iter().any(|root| above(root))
            || self.place.home.is_some_and(above)
            || !self.place.roots.iter().any(|root| known.starts_with(root))
            || known.iter().any(|name| name == ".git")
    }
}

/// Returns the name of a program: without its path, in small letters.
fn name(program: &Word) -> String {
    program.text.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
}

/// Whether a long switch is there, or one of the letters of a short one.
fn has_switch(words: &[&str], letters: &str, long: &str) -> bool {
    words.iter().any(|word| match word.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => rest.len() > 2 && long.starts_with(word),
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

/// Whether `find` removes all beneath its folder, and not only what it looks for.
fn is_whole_delete(words: &[&str]) -> bool {
    let looks = |word: &&str| {
        ["-name", "-iname", "-path", "-regex", "-newer", "-mtime", "-mmin", "-size", "-empty"]
            .contains(word)
    };
    let removes = words.windows(2).any(|pair| pair[0].starts_with("-exec") && pair[1] == "rm");
    (removes || words.contains(&"-delete")) && !words.iter().any(looks)
}

/// Whether a program for `awk` runs commands.
fn runs_commands(word: &str) -> bool {
    word.contains("system") || word.contains("getline") || word.replace("||", "").contains('|')
}

fn is_interpreter(name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    ["bun", "deno", "lua", "node", "perl", "php", "python", "pypy", "ruby"].contains(&bare)
}

/// Whether an interpreter that is told this reads its program.
fn reads_program(words: &[&str]) -> bool {
    words
        .iter()
        .all(|word| *word == "-" || word.starts_with('-') && word.len() == 2 && *word == "-u")
}

/// Whether a setting of git names what it runs.
fn runs_something(setting: &str) -> bool {
    let key = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let Some((section, _)) = key.split_once('.') else { return false };
    let last = key.rsplit('.').next().unwrap_or_default();
    let sections = [
        "alias",
        "credential",
        "difftool",
        "filter",
        "include",
        "includeif",
        "mergetool",
        "pager",
        "protocol",
        "url",
    ];
    let names = [
        "askpass",
        "command",
        "driver",
        "editor",
        "external",
        "fsmonitor",
        "gitproxy",
        "hookspath",
        "pager",
        "program",
        "sshcommand",
        "receivepack",
        "templatedir",
        "textconv",
        "update",
        "uploadpack",
    ];
    sections.contains(&section) || names.contains(&last)
}

/// Whether a word leads to a file that holds credentials or what was typed.
fn is_secret(word: &str) -> bool {
    let names: Vec<_> = word.split(['/', '=', ':', ',', '@']).collect();
    let is_example = |name: &str| {
        ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end))
    };
    let is_one = |name: &&str| {
        SECRET_NAMES.contains(name)
            || name.starts_with(".env.") && !is_example(name)
            || name.starts_with('.') && name.ends_with("_history")
    };
    let pairs = names.windows(2).any(|pair| SECRET_PAIRS.contains(&(pair[0], pair[1])));
    names.iter().any(is_one) || pairs
}

/// Programs that are always asked about.
const PROGRAMS: &[(&[&str], &str)] = &[
    (&["sudo", "doas", "su", "pkexec", "run0", "runuser"], "runs something as another user"),
    (
        &[
            "blkdiscard",
            "cryptsetup",
            "diskutil",
            "fdisk",
            "gdisk",
            "hdparm",
            "lvremove",
            "mkfs",
            "mkswap",
            "parted",
            "pvremove",
            "sfdisk",
            "sgdisk",
            "shred",
            "vgremove",
            "wipefs",
        ],
        "overwrites files or disks for good",
    ),
    (&["halt", "poweroff", "reboot", "shutdown"], "stops the machine"),
    (&["at", "batch", "launchctl"], "makes something run later"),
    (&["history"], "shows or changes what was typed"),
];

const SHELLS: &[&str] =
    &["ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"];

/// Programs that run another one which stands among their words.
const WRAPPERS: &[&str] = &[
    "builtin",
    "busybox",
    "chroot",
    "command",
    "doas",
    "env",
    "exec",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "systemd-run",
    "time",
    "timeout",
    "unshare",
    "watch",
    "xargs",
];

const SECRET_NAMES: &[&str] = &[
    ".aws",
    ".azure",
    ".env",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".ssh",
    ".vault-token",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

const SECRET_PAIRS: &[(&str, &str)] = &[
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".config", "callboard"),
    (".config", "gcloud"),
    (".config", "gh"),
    (".docker", "config.json"),
    ("etc", "shadow"),
];
