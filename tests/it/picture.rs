//! The pictures of the README. One is an SVG of a turn of `callboard exec` in a terminal, and the
//! other is an HTML page of the stored session.

use std::env;
use std::fs;
use std::process::Command;

use anstyle_svg::{Term, WIN10_CONSOLE};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::exec_terminal::TestTerminal;
use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/turn.svg");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/session.html");

/// An environment variable. If `cargo xtask picture` has set it, the tests write the files instead
/// of comparing them.
const WRITE: &str = "CALLBOARD_PICTURE";

const COLUMNS: u16 = 80;

/// Arguments of callboard in the command line of the picture.
const COMMAND: &str = "exec \"greet people by name\"";

const SOURCE: &str = "def greet():\n    return \"Hello.\"\n";

const CHECK: &str = "\
for name in Ada Grace Edsger; do
    sleep 0.1
    grep -q '(name)' greet.py && printf 'greets %-8s\\033[32mok\\033[0m\\n' $name
done
";

const SCRIPT: &str = r#"
{"text": "I read the greeting, change it, and run the checks."}
{"call": {"name": "read_file", "args": {"path": "greet.py"}}}
{"end": "tool_calls"}
{"call": {"name": "edit_file", "args": {"path": "greet.py", "old_text": "def greet():\n    return \"Hello.\"", "new_text": "def greet(name):\n    return f\"Hello, {name}.\""}}}
{"end": "tool_calls"}
{"call": {"name": "terminal", "args": {"command": "sh check.sh"}}}
{"end": "tool_calls"}
{"text": "`greet` takes a **name** now, and all three checks pass."}
{"end": "end_turn"}
"#;

#[test]
fn the_picture_of_the_readme_shows_the_output_of_exec() {
    let (_, shown) = play();
    let prompt = format!("\u{1b}[32m$\u{1b}[0m callboard {COMMAND}\n\n");
    let svg = Term::new().palette(WIN10_CONSOLE).render_svg(&(prompt + &shown));
    // The default grey of dimmed text is hard to read.
    let svg = svg.replace(".dimmed { opacity: 0.4; }", ".dimmed { opacity: 0.65; }");
    write_or_compare(PICTURE, &svg);
}

#[test]
fn the_page_of_the_readme_is_the_output_of_sessions_export() {
    let (scratch, _) = play();
    let run = |args: &[&str]| {
        let mut command = Command::new(CALLBOARD);
        command.arg("sessions").args(args).current_dir(scratch.cwd());
        let output = command.env_clear().envs(scratch.env()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list: Value = serde_json::from_str(&run(&["list", "--json"])).unwrap();
    let [id, date] = ["sessionId", "updatedAt"].map(|key| list[0][key].as_str().unwrap());
    let page = run(&["export", id, "--format", "html"]);
    let page = page.replace(scratch.cwd().to_str().unwrap(), "/project");
    write_or_compare(PAGE, &without_card_times(&page.replace(date, "2026-11-24T12:00:00Z")));
}

fn write_or_compare(path: &str, text: &str) {
    if env::var_os(WRITE).is_some() {
        return fs::write(path, text).unwrap();
    }
    let drawn = fs::read_to_string(path).unwrap();
    assert_eq!(drawn, text, "if this is meant, run `cargo xtask picture` and look at it");
}

/// Replaces the duration of each call on the HTML page.
fn without_card_times(page: &str) -> String {
    const FACTS: &str = "<span class=\"facts\"><span>";
    let mut pieces = page.split(FACTS);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        let (time, rest) = piece.split_once("</span>").unwrap();
        assert!(time.ends_with(" ms") || time.ends_with(" s"), "{time}");
        format!("{text}{FACTS}… ms</span>{rest}")
    })
}

/// Runs the turn, and allows its calls. Returns the folder, and the output of the terminal without
/// durations.
fn play() -> (Scratch, String) {
    let scratch = Scratch::new();
    for (name, text) in [("greet.py", SOURCE), ("check.sh", CHECK), ("script.jsonl", SCRIPT)] {
        fs::write(scratch.path(name), text).unwrap();
    }
    let line = format!("CALLBOARD_MODEL=script:script.jsonl exec \"$0\" {COMMAND} --no-sandbox");
    let mut terminal = TestTerminal::wide(&scratch, COLUMNS, &line);
    for question in 1..=2 {
        terminal.until_times("Which? [1-5] ", question);
        terminal.types("1\n");
    }
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let shown = without_times(&shown.replace("\r\n", "\n"));
    (scratch, shown)
}

/// Replaces the duration of each call in the output, because it is different in every run.
fn without_times(shown: &str) -> String {
    const DIM: &str = "\u{1b}[2m";
    let mut pieces = shown.split(DIM);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit = [" ms\u{1b}", " s\u{1b}"].into_iter().find(|unit| rest.starts_with(unit));
        match unit.filter(|_| rest.len() < piece.len()) {
            Some(unit) => format!("{text}{DIM}… ms{}", &rest[unit.len() - 1..]),
            None => format!("{text}{DIM}{piece}"),
        }
    })
}
