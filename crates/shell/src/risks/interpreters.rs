//! Interpreters that read their program from standard input.

use super::{RiskFinder, word_texts};
use crate::parser::ShellWord;

/// The options of an interpreter.
struct InterpreterOptions {
    names: &'static [&'static str],
    /// Letters of options that contain the program or name it, or that only print something.
    programs: &'static str,
    long_programs: &'static [&'static str],
    /// Letters of options with a value, which may be the next word.
    values: &'static str,
    long_values: &'static [&'static str],
    /// Letters of options whose value is optional and must be attached.
    optional_values: &'static str,
}

impl RiskFinder<'_> {
    /// Returns whether an interpreter with these arguments reads its program from standard input.
    pub(super) fn reads_program_from_stdin(&self, name: &str, args: &[ShellWord]) -> bool {
        let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let Some(options) = INTERPRETERS.iter().find(|options| options.names.contains(&bare))
        else {
            return word_texts(args).iter().all(|word| matches!(*word, "-" | "-u"));
        };
        let mut rest = args;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            match word.text.strip_prefix('-') {
                Some("") => return true,
                Some("-") => return rest.first().is_none_or(|word| self.is_stdin(word)),
                Some(letters) => match options.parse(letters) {
                    InterpreterOption::Program => return false,
                    InterpreterOption::Flag => {}
                    InterpreterOption::TakesNext => rest = rest.get(1..).unwrap_or_default(),
                },
                None => return self.is_stdin(word),
            }
        }
        true
    }

    /// Returns whether a word names standard input or another open file of the process.
    pub(super) fn is_stdin(&self, word: &ShellWord) -> bool {
        match self.resolve_paths(word) {
            Some(paths) => paths.iter().any(|path| {
                let is_file = path.starts_with("/dev/shm") || path.as_os_str() == "/dev/null";
                path.starts_with("/dev") && !is_file || path.starts_with("/proc")
            }),
            // The folder may be `/dev`.
            None => !word.expands && word.text.ends_with("stdin"),
        }
    }
}

enum InterpreterOption {
    /// The option contains or names the program, or the interpreter runs none.
    Program,
    Flag,
    /// The next word is the value of the option.
    TakesNext,
}

impl InterpreterOptions {
    /// Parses a word without its first `-`.
    fn parse(&self, word: &str) -> InterpreterOption {
        if let Some(long) = word.strip_prefix('-') {
            let name = long.split('=').next().unwrap_or(long);
            return match long {
                _ if ["help", "version"].contains(&name) => InterpreterOption::Program,
                _ if self.long_programs.contains(&name) => InterpreterOption::Program,
                _ if self.long_values.contains(&long) => InterpreterOption::TakesNext,
                _ => InterpreterOption::Flag,
            };
        }
        for (at, letter) in word.char_indices() {
            if self.programs.contains(letter) {
                return InterpreterOption::Program;
            }
            if self.values.contains(letter) {
                let is_last = at + letter.len_utf8() == word.len();
                return if is_last {
                    InterpreterOption::TakesNext
                } else {
                    InterpreterOption::Flag
                };
            }
            if self.optional_values.contains(letter) {
                return InterpreterOption::Flag;
            }
        }
        InterpreterOption::Flag
    }
}

const INTERPRETERS: &[InterpreterOptions] = &[
    InterpreterOptions {
        names: &["python", "pypy"],
        programs: "cmhV?",
        long_programs: &["help-all", "help-env", "help-xoptions"],
        values: "WX",
        long_values: &["check-hash-based-pycs"],
        optional_values: "",
    },
    InterpreterOptions {
        names: &["perl"],
        programs: "eEhvV?",
        long_programs: &[],
        values: "I",
        long_values: &[],
        optional_values: "0CDFMdilmx",
    },
    InterpreterOptions {
        names: &["node", "nodejs"],
        programs: "cehpv",
        long_programs: &["check", "eval", "print", "run", "test", "v8-options"],
        values: "Cr",
        long_values: &[
            "conditions",
            "env-file",
            "experimental-loader",
            "import",
            "loader",
            "require",
            "test-reporter",
        ],
        optional_values: "",
    },
    InterpreterOptions {
        names: &["ruby"],
        programs: "ehv",
        long_programs: &["copyright"],
        values: "CEIr",
        long_values: &["encoding", "external-encoding", "internal-encoding"],
        optional_values: "0FKTWix",
    },
    InterpreterOptions {
        names: &["php"],
        programs: "BEFRSfhilmrsvw",
        long_programs: &["ini", "re", "rf", "ri", "rz"],
        values: "cdtz",
        long_values: &[],
        optional_values: "",
    },
];
