//! Parses the options that programs print in their help and manuals.

use std::collections::BTreeMap;

use crate::scratch::Scratch;
use crate::table::Program;

/// An option including its dashes.
#[derive(Debug)]
pub(crate) struct HelpOption {
    pub(crate) name: String,
    /// Words after the option, including the values that the option accepts.
    pub(crate) hints: Vec<String>,
}

/// Maximum number of values that are tried per option.
const HINTS: usize = 8;

/// Returns the options that the help of a program lists.
pub(crate) fn options(program: &Program, scratch: &Scratch) -> Vec<HelpOption> {
    let mut found = BTreeMap::new();
    for words in commands(program) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        read(&scratch.output(&words), &mut found);
    }
    found.into_iter().map(|(name, hints)| HelpOption { name, hints }).collect()
}

/// Returns the commands that print help.
fn commands(program: &Program) -> Vec<Vec<String>> {
    let words = program.words;
    let all = words.join(" ");
    let mut lines = vec![format!("man {}", words.join("-")), format!("{all} --help")];
    match words {
        ["git", _] => {
            // `git SUB --help` would open a manual.
            lines[1] = format!("{all} -h");
            lines.push(format!("{all} --git-completion-helper-all"));
            lines.push("git log --git-completion-helper-all".to_owned());
        }
        ["cargo", rest @ ..] => {
            lines.push(format!("cargo help {}", rest.join("-")));
            match rest {
                ["test" | "bench" | "nextest", ..] => {
                    lines.push("cargo test --lib -- --help".to_owned());
                }
                ["clippy"] => {
                    lines.extend(["rustc --help -v", "rustc -C help"].map(str::to_owned));
                }
                ["fmt"] => lines.push("rustfmt --help".to_owned()),
                _ => {}
            }
        }
        ["go", sub] => {
            lines.extend([format!("go help {sub}"), "go help build".to_owned()]);
            lines.extend(["go help testflag", "go tool vet help"].map(str::to_owned));
        }
        ["npm", _] => lines.push("npm config ls -l".to_owned()),
        _ => {}
    }
    let mut commands: Vec<Vec<String>> =
        lines.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    if let ["cd" | "pushd" | "pwd" | "echo" | "true" | "false"] = words {
        commands.push(vec!["bash".to_owned(), "-c".to_owned(), format!("help {all}")]);
    }
    commands
}

/// Adds the options that occur in a text.
fn read(text: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let text = strip_formatting(text);
    for line in text.lines() {
        // A line `name = value` of npm's settings corresponds to the option `--name`.
        let setting = line.split_once(" = ").map(|(name, _)| name);
        let is_setting =
            |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        if let Some(name) = setting.filter(is_setting) {
            add(format!("--{name}"), line, found);
        }
        for (at, _) in line.match_indices('-') {
            let begins =
                !line[..at].ends_with(|last: char| last.is_alphanumeric() || "-_.]".contains(last));
            if !begins {
                continue;
            }
            let rest = line[at..].strip_prefix("--[no-]");
            let word = rest.unwrap_or(&line[at..]);
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_#.?".contains(letter);
            let end = word.find(|letter| !is_part(letter)).unwrap_or(word.len());
            let (name, behind) = (word[..end].trim_end_matches(['.', '?']), &word[end..]);
            let names = match rest {
                Some(_) => vec![format!("--{name}"), format!("--no-{name}")],
                None => vec![if &word[..end] == "-." { "-.".to_owned() } else { name.to_owned() }],
            };
            for name in names {
                if name.trim_start_matches('-').bytes().any(|byte| !byte.is_ascii_digit()) {
                    add(name, behind, found);
                }
            }
        }
    }
}

fn add(name: String, behind: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let hints = found.entry(name).or_default();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let words = behind.split(|letter| !is_part(letter));
    for word in words.filter(|word| (2..15).contains(&word.len()) && !word.starts_with('-')) {
        if hints.len() < HINTS && !hints.iter().any(|hint| hint == word) {
            hints.push(word.to_owned());
        }
    }
}

/// Removes terminal formatting for bold and coloured text.
fn strip_formatting(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{8}' => {
                plain.pop();
            }
            '\u{1b}' => {
                letters.by_ref().find(char::is_ascii_alphabetic);
            }
            letter => plain.push(letter),
        }
    }
    plain
}

#[test]
fn options_of_help_are_found() {
    let mut found = BTreeMap::new();
    read(
        "  -q, --[no-]quiet   less\n  --color[=<when>]  always|never\n -E<x>, -exec xprog (see -o)\n\
         --a-b-c=x/--d and e-mail, 1-2\na-setting = true\n--\u{8}-f\u{8}ff",
        &mut found,
    );
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    let expected = [
        "--a-b-c",
        "--a-setting",
        "--color",
        "--d",
        "--ff",
        "--no-quiet",
        "--quiet",
        "-E",
        "-exec",
        "-o",
        "-q",
    ];
    assert_eq!(names, expected);
    assert_eq!(found["--color"], ["when", "always", "never"]);
}
