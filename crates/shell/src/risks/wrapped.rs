//! The command that another program runs, if the options of this program are understood.

use crate::parser::ShellWord;

/// A command that `xargs` or a similar program runs.
#[derive(Debug)]
pub(super) struct WrappedCommand<'w> {
    /// The words of the command.
    pub(super) words: &'w [ShellWord],
    /// Whether the program adds unknown words to the command.
    pub(super) gets_more_words: bool,
    /// The text that the program replaces in the words of the command.
    pub(super) replaced_text: Option<&'w str>,
}

/// Options of a program that runs a command.
struct WrapperOptions {
    name: &'static str,
    /// Letters of options without a value, and long options without a value.
    flags: &'static str,
    long_flags: &'static [&'static str],
    /// Letters of options with a value, which may be the next word.
    values: &'static str,
    long_values: &'static [&'static str],
    /// Letters of options whose value is optional and must be attached.
    optional_values: &'static str,
    /// Number of words before the command.
    operands: usize,
    /// Whether assignments may precede the command.
    takes_assignments: bool,
}

const NO_OPTIONS: WrapperOptions = WrapperOptions {
    name: "",
    flags: "",
    long_flags: &[],
    values: "",
    long_values: &[],
    optional_values: "",
    operands: 0,
    takes_assignments: false,
};

const WRAPPERS: &[WrapperOptions] = &[
    WrapperOptions { name: "builtin", ..NO_OPTIONS },
    WrapperOptions { name: "command", ..NO_OPTIONS },
    WrapperOptions {
        name: "env",
        flags: "0iv",
        long_flags: &["--debug", "--ignore-environment", "--null"],
        values: "uC",
        long_values: &["--chdir", "--unset"],
        takes_assignments: true,
        ..NO_OPTIONS
    },
    WrapperOptions { name: "exec", flags: "cl", values: "a", ..NO_OPTIONS },
    WrapperOptions { name: "nice", values: "n", long_values: &["--adjustment"], ..NO_OPTIONS },
    WrapperOptions { name: "nohup", ..NO_OPTIONS },
    WrapperOptions {
        name: "stdbuf",
        values: "ioe",
        long_values: &["--input", "--output", "--error"],
        ..NO_OPTIONS
    },
    WrapperOptions { name: "time", flags: "p", ..NO_OPTIONS },
    WrapperOptions {
        name: "timeout",
        flags: "v",
        long_flags: &["--foreground", "--preserve-status", "--verbose"],
        values: "ks",
        long_values: &["--kill-after", "--signal"],
        operands: 1,
        ..NO_OPTIONS
    },
    WrapperOptions {
        name: "xargs",
        flags: "0oprtx",
        long_flags: &[
            "--exit",
            "--interactive",
            "--null",
            "--no-run-if-empty",
            "--open-tty",
            "--replace",
            "--show-limits",
            "--verbose",
        ],
        values: "adEILnPs",
        long_values: &[
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-chars",
            "--max-procs",
            "--process-slot-var",
        ],
        optional_values: "eil",
        ..NO_OPTIONS
    },
];

/// Returns whether the options of a program that runs a command are understood.
pub(super) fn is_understood_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|options| options.name == name)
}

/// Returns the command that a program runs. Returns `None` if the program is not known, or if one
/// of its options is not understood. `args` are the words after the program.
pub(super) fn wrapped_command<'w>(name: &str, args: &'w [ShellWord]) -> Option<WrappedCommand<'w>> {
    let options = WRAPPERS.iter().find(|options| options.name == name)?;
    let (mut rest, mut replaced_text) = (args, None);
    while let [option, after @ ..] = rest
        && let Some(letters) = option.text.strip_prefix('-').filter(|letters| !letters.is_empty())
    {
        if option.expands && !option.text.contains("{}") {
            return None;
        }
        rest = after;
        if letters == "-" {
            break;
        }
        let (takes_next, replaced) = match letters.starts_with('-') {
            true => options.read_long_option(&option.text)?,
            false => options.read_short_options(letters)?,
        };
        let value = if takes_next { Some(&*rest.first()?.text) } else { None };
        rest = &rest[usize::from(takes_next)..];
        match replaced {
            Some("") => replaced_text = Some(value.unwrap_or("{}")),
            Some(text) => replaced_text = Some(text),
            None => {}
        }
    }
    if options.takes_assignments {
        let is_before = |word: &&ShellWord| word.text == "-" || word.text.contains('=');
        rest = &rest[rest.iter().take_while(is_before).count()..];
    }
    let gets_more_words = name == "xargs" && replaced_text.is_none();
    Some(WrappedCommand { words: rest.get(options.operands..)?, gets_more_words, replaced_text })
}

impl WrapperOptions {
    /// Returns whether the value is the next word, and the text that the option makes the program
    /// replace; this text is empty if it is the next word or the default.
    fn read_short_options<'o>(&self, letters: &'o str) -> Option<(bool, Option<&'o str>)> {
        for (at, letter) in letters.char_indices() {
            let attached = &letters[at + letter.len_utf8()..];
            if self.values.contains(letter) {
                let replaced = (letter == 'I' && self.name == "xargs").then_some(attached);
                return Some((attached.is_empty(), replaced));
            }
            if self.optional_values.contains(letter) {
                return Some((false, (letter == 'i').then_some(attached)));
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some((false, None))
    }

    fn read_long_option<'o>(&self, option: &'o str) -> Option<(bool, Option<&'o str>)> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        if name == "--replace" && self.name == "xargs" {
            return Some((false, Some(value.unwrap_or_default())));
        }
        if self.long_values.contains(&name) {
            return Some((value.is_none(), None));
        }
        (value.is_none() && self.long_flags.contains(&name)).then_some((false, None))
    }
}

#[cfg(test)]
mod tests {
    use super::wrapped_command;
    use crate::parser::ShellWord;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_command_begins_after_the_options() {
        for (line, expected) in [
            ("timeout 5 a b", Some(("a b", None))),
            ("timeout -k 5 --signal=KILL 60 a", Some(("a", None))),
            ("timeout --unknown 5 a", None),
            ("nice -n 5 a -n", Some(("a -n", None))),
            ("time -p a", Some(("a", None))),
            ("xargs a", Some(("a", None))),
            ("xargs", Some(("", None))),
            ("xargs -0 -r -n 1 a b", Some(("a b", None))),
            ("xargs -0rn1 -P 4 a", Some(("a", None))),
            ("xargs -I{} a {}", Some(("a {}", Some("{}")))),
            ("xargs -I % a %", Some(("a %", Some("%")))),
            ("xargs -0I % a %", Some(("a %", Some("%")))),
            ("xargs -i a {}", Some(("a {}", Some("{}")))),
            ("xargs -i% a %", Some(("a %", Some("%")))),
            ("xargs --replace=% a %", Some(("a %", Some("%")))),
            ("xargs --replace a {}", Some(("a {}", Some("{}")))),
            ("xargs --max-args 1 -- a", Some(("a", None))),
            ("xargs --max-arg 1 a", None),
            ("xargs -J % a", None),
            ("env -i - A=1 -u b", Some(("-u b", None))),
            ("env -u A B=1 a C=1", Some(("a C=1", None))),
            ("env -S a", None),
            ("exec -a x a", Some(("a", None))),
            ("find a", None),
        ] {
            let word = |text: &str| ShellWord { text: text.to_owned(), ..ShellWord::default() };
            let words: Vec<_> = line.split(' ').map(word).collect();
            let found = wrapped_command(&words[0].text, &words[1..]);
            let text = |words: &[ShellWord]| {
                words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ")
            };
            let found = found.map(|found| (text(found.words), found.replaced_text));
            let expected = expected.map(|(words, replaced)| (words.to_owned(), replaced));
            assert_eq!(found, expected, "{line}");
        }
    }
}
