//! Generates the tested command lines of a program: lines for each entry of the program's row in
//! the table, and random lines.

use std::time::SystemTime;

use crate::help::HelpOption;
use crate::table::{self, Operands, OptionStyle, OptionValueKind, Program};

/// Hostile values. Some of them name paths outside the project. Others run a command, if a program
/// treats them as a command.
const HOSTILE_VALUES: &[&str] = &[
    "/srv/me/.bashrc",
    "/srv/me/.ssh/id",
    "/srv/me/src/beside/secret.txt",
    "/srv/me/src/beside/new",
    "../beside/secret.txt",
    "../beside/secret.rs",
    "../beside",
    "src/../../beside/args",
    "~/.bashrc",
    "$HOME/.bashrc",
    "..",
    "/",
    "@args",
    "@../beside/args",
    "@/srv/me/src/beside/args",
    ":/",
    ":(top)..",
    "HEAD:../beside/args",
    "file:///srv/me/.bashrc",
    "http://127.0.0.1:9/x",
    "http://example.org/x",
    "ssh://127.0.0.1/x",
    "127.0.0.1:9",
    "ext::touch% /srv/me/.bashrc",
    "touch /srv/me/.bashrc",
    "sh -c 'touch /srv/me/.bashrc'",
    "cat /srv/me/.bashrc|sh",
    "|touch /srv/me/.bashrc",
    "$(touch /srv/me/.bashrc)",
    "`touch /srv/me/.bashrc`",
    "sh",
    "less",
    "vi",
    "runner=\"touch\"",
    "target.x86_64-unknown-linux-gnu.runner=\"touch\"",
    "core.pager=touch",
    "format:%G? %h",
    "%(trailers)",
    "%x00",
    "word\nword",
    "",
];

/// Values that many options accept.
const ORDINARY_VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "+3",
    "1k",
    "99999999999",
    "1,2",
    "1.5",
    "all",
    "auto",
    "always",
    "never",
    "none",
    "json",
    "short",
    "full",
    "on",
    "off",
    "true",
    "false",
    "name",
    "word",
    "demo",
    "main",
    "HEAD",
    "v1",
    "*",
    "*.txt",
    "a.txt",
    "many.txt",
    "src",
    "src/lib.rs",
    "args",
    ".",
    "%h",
    "format:%h",
    "test",
];

/// Options, each with a value that only this option accepts.
const VALUES_OF_OPTIONS: &[(&str, &str)] = &[
    ("-p", "demo"),
    ("--package", "demo"),
    ("--bin", "tool"),
    ("--example", "show"),
    ("--test", "whole"),
    ("--bench", "speed"),
    ("-F", "extra"),
    ("--features", "extra"),
    ("--profile", "dev"),
    ("--message-format", "short"),
    ("--format-version", "1"),
    ("--edges", "normal"),
    ("-e", "normal"),
    ("--prefix", "depth"),
    ("--charset", "ascii"),
    ("-D", "warnings"),
    ("-A", "clippy::all"),
    ("-mod", "mod"),
    ("-covermode", "atomic"),
    ("-benchtime", "1x"),
    ("-timeout", "9s"),
    ("-vet", "off"),
    ("-bench", "."),
    ("-type", "f"),
    ("-regextype", "posix-extended"),
    ("-size", "+1k"),
    ("-perm", "-444"),
    ("--encoding", "utf-8"),
    ("-t", "rust"),
    ("--type", "rust"),
    ("-T", "rust"),
    ("--sort", "path"),
    ("--capture", "no"),
    ("--tb", "line"),
    ("-r", "A"),
    ("--diff-algorithm", "patience"),
    ("--diff-filter", "AM"),
    ("--date", "iso"),
    ("--ignore-submodules", "all"),
    ("--dirstat", "files"),
    ("-k", "1,1"),
    ("--key", "2n"),
    ("-t", ","),
    ("--color", "always"),
];

/// Generates lines for one program.
pub(crate) struct LineGenerator {
    program: &'static Program,
    help: Vec<HelpOption>,
    random: Random,
}

impl LineGenerator {
    pub(crate) fn new(program: &'static Program, help: Vec<HelpOption>, random: Random) -> Self {
        Self { program, help, random }
    }

    pub(crate) fn help_options(&self) -> usize {
        self.help.len()
    }

    /// Returns, for each entry of the program's row, lines that contain the entry with fitting
    /// values.
    pub(crate) fn table_lines(&self) -> Vec<(String, Vec<Vec<String>>)> {
        let mut lines = vec![("nothing".to_owned(), vec![self.line(Vec::new(), false)])];
        let behind = self.program.after_double_dash.map_or("", |behind| behind.options);
        for (known, is_behind) in [(self.program.options, false), (behind, true)] {
            for text in known.split_ascii_whitespace() {
                let option = table::parse_option_entry(text);
                let is_long =
                    option.name.starts_with("--") || self.program.style == OptionStyle::Single;
                let mut candidates = Vec::new();
                if option.value.is_none() || option.is_optional {
                    candidates.push(vec![option.name.replace('#', "5")]);
                }
                for value in
                    option.value.iter().flat_map(|kind| self.fitting_values(option.name, *kind))
                {
                    let equals = if is_long { "=" } else { "" };
                    candidates.push(vec![format!("{}{equals}{value}", option.name)]);
                    if !option.is_optional {
                        candidates.push(vec![option.name.to_owned(), value]);
                    }
                }
                let candidates = candidates.into_iter().map(|words| self.line(words, is_behind));
                lines.push((text.to_owned(), candidates.collect()));
            }
        }
        lines
    }

    /// Returns values for an entry of the row.
    fn fitting_values(&self, name: &str, kind: OptionValueKind) -> Vec<String> {
        let own =
            VALUES_OF_OPTIONS.iter().filter(|(option, _)| *option == name).map(|(_, value)| *value);
        let hints = self.help.iter().filter(|option| option.name == name);
        let hints = hints.flat_map(|option| &option.hints).map(String::as_str).take(3);
        let usual: &[&str] = match kind {
            OptionValueKind::Name => &["1", "all", "name"],
            OptionValueKind::Text => &["word", "1", "/srv/me/.bashrc", "touch /srv/me/.bashrc"],
            OptionValueKind::Path => &["a.txt", "src"],
            OptionValueKind::Format => &["%h", "format:%an %s", "fuller"],
        };
        own.chain(hints).chain(usual.iter().copied()).map(str::to_owned).collect()
    }

    /// Returns a line with these options and with matching operands.
    fn line(&self, options: Vec<String>, is_behind: bool) -> Vec<String> {
        let operands: &[&str] = match self.program.words {
            ["cat" | "head" | "sort" | "tail" | "wc"] | ["git", "add" | "blame"] => &["many.txt"],
            ["find"] => &["."],
            ["ls"] => &["-R", "."],
            ["grep"] => &["-r", "word", "."],
            ["rg"] => &["word", "."],
            ["cd" | "pushd"] => &["src"],
            ["git", "commit"] => &["-m", "message"],
            ["git", "rev-parse"] => &["HEAD"],
            ["go", _] => &["./..."],
            _ => &[],
        };
        let mut words: Vec<_> = self.program.words.iter().map(ToString::to_string).collect();
        let operands = operands.iter().map(ToString::to_string);
        if self.program.words == ["find"] {
            words.extend(operands);
            words.extend(options);
        } else {
            words.extend(is_behind.then(|| "--".to_owned()));
            words.extend(options);
            words.extend(operands);
        }
        words
    }

    /// Generates a random line.
    pub(crate) fn random_line(&mut self) -> Vec<String> {
        let mut words: Vec<_> = self.program.words.iter().map(ToString::to_string).collect();
        let mut parts = Vec::new();
        for _ in 0..*self.random.pick(&[0, 1, 1, 1, 1, 1, 2, 2, 3]) {
            parts.push(self.option());
        }
        let wants_pattern = matches!(self.program.words, ["grep" | "rg"]);
        let mut operands: Vec<String> =
            wants_pattern.then(|| "word".to_owned()).into_iter().collect();
        for _ in 0..*self.random.pick(&[0, 0, 0, 1, 1, 1, 2]) {
            operands.push(match self.random.below(6) {
                0 | 1 => self.random.text(HOSTILE_VALUES),
                2 => format!("@{}", self.random.text(ORDINARY_VALUES)),
                _ => self.random.text(ORDINARY_VALUES),
            });
        }
        if !matches!(self.program.operands, Operands::None) || self.random.below(4) == 0 {
            let at = self.random.below(parts.len() + 1);
            parts.insert(if self.program.words == ["find"] { 0 } else { at }, operands);
        }
        if self.random.below(4) == 0 {
            let at = self.random.below(parts.len() + 1);
            parts.insert(at, vec!["--".to_owned()]);
        }
        words.extend(parts.into_iter().flatten());
        words
    }

    /// Generates an option in a random form, with or without a value.
    fn option(&mut self) -> Vec<String> {
        let (name, hints) = self.name();
        let value = match self.random.below(4) {
            0 | 1 => self.random.text(HOSTILE_VALUES),
            2 if !hints.is_empty() => self.random.pick(&hints).clone(),
            _ => self.random.text(ORDINARY_VALUES),
        };
        let bare = name.trim_start_matches('-');
        let prefix = |random: &mut Random| {
            // Names are ASCII, so any byte offset is a character boundary.
            let length = 1 + random.below(bare.len());
            format!("--{}", &bare[..length])
        };
        match self.random.below(12) {
            0 | 1 => vec![name],
            2 | 3 => vec![format!("{name}={value}")],
            4 | 5 => vec![name, value],
            6 => vec![prefix(&mut self.random)],
            7 => vec![format!("{}={value}", prefix(&mut self.random))],
            8 => vec![prefix(&mut self.random), value],
            9 => {
                let letters: String =
                    (0..2 + self.random.below(3)).map(|_| self.random_letter()).collect();
                let attached = if self.random.below(2) == 0 { value.as_str() } else { "" };
                vec![format!("-{letters}{attached}")]
            }
            10 => vec![format!("{name}{value}")],
            _ => {
                let dashes = if name.starts_with("--") { "-" } else { "--" };
                let equals =
                    if self.random.below(2) == 0 { format!("={value}") } else { String::new() };
                vec![format!("{dashes}{bare}{equals}")]
            }
        }
    }

    /// Picks the name of an option from the help, or sometimes from the row. Also returns the
    /// values that the help lists for this option.
    fn name(&mut self) -> (String, Vec<String>) {
        let known: Vec<_> =
            self.program.options.split_ascii_whitespace().map(table::parse_option_entry).collect();
        if self.help.is_empty() && known.is_empty() {
            return ("--help".to_owned(), Vec::new());
        }
        if self.help.is_empty() || (!known.is_empty() && self.random.below(3) == 0) {
            let name = self.random.pick(&known).name.replace('#', "5");
            let found = self.help.iter().find(|option| option.name == name);
            let hints = found.map(|option| option.hints.clone()).unwrap_or_default();
            return (name, hints);
        }
        let option = self.random.pick(&self.help);
        (option.name.clone(), option.hints.clone())
    }

    /// Picks the letter of a short option.
    fn random_letter(&mut self) -> char {
        let help = self.help.iter().map(|option| option.name.as_str());
        let known = self
            .program
            .options
            .split_ascii_whitespace()
            .map(|text| table::parse_option_entry(text).name);
        let letters =
            help.chain(known).filter(|name| name.len() == 2).filter_map(|name| name.chars().nth(1));
        let letters: Vec<_> = letters.collect();
        if letters.is_empty() { 'x' } else { *self.random.pick(&letters) }
    }
}

/// Joins words to a shell line, and quotes them as a model would quote them. Returns `None` if a
/// word cannot be quoted in this way.
pub(crate) fn quote(words: &[String]) -> Option<String> {
    let quoted = words.iter().map(|word| {
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || "_-./:=,+@%".contains(letter);
        match () {
            () if !word.is_empty() && word.chars().all(is_plain) => Some(word.clone()),
            () if !word.contains('\'') => Some(format!("'{word}'")),
            () if !word.contains(['"', '$', '`', '\\', '!']) => Some(format!("\"{word}\"")),
            () => None,
        }
    });
    Some(quoted.collect::<Option<Vec<_>>>()?.join(" "))
}

/// A SplitMix64 pseudo-random number generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn any_seed() -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).map_or(0, |number| number % end)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn text(&mut self, items: &[&str]) -> String {
        (*self.pick(items)).to_owned()
    }
}
