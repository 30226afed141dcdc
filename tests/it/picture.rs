//! The picture in the README: a turn of `callboard exec` at a terminal, as an SVG.

use std::env;
use std::fs;

use anstyle_svg::{Term, WIN10_CONSOLE};
use pretty_assertions::assert_eq;

use crate::exec_terminal::TestTerminal;
use crate::harness::scratch::Scratch;

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/turn.svg");

/// Set by `cargo xtask picture` to write the picture instead of comparing it.
const WRITE: &str = "CALLBOARD_PICTURE";

const COLUMNS: u16 = 80;

/// Arguments of the command line that starts the turn.
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
fn the_picture_of_the_readme_is_what_exec_prints() {
    let shown = play();
    let prompt = format!("\u{1b}[32m$\u{1b}[0m callboard {COMMAND}\n\n");
    let svg = Term::new().palette(WIN10_CONSOLE).render_svg(&(prompt + &shown));
    // The default grey is hard to read.
    let svg = svg.replace(".dimmed { opacity: 0.4; }", ".dimmed { opacity: 0.65; }");
    if env::var_os(WRITE).is_some() {
        return fs::write(PICTURE, svg).unwrap();
    }
    let drawn = fs::read_to_string(PICTURE).unwrap();
    assert_eq!(drawn, svg, "if this is meant, run `cargo xtask picture` and look at it");
}

/// Runs the turn and answers its questions; returns the terminal output without durations.
fn play() -> String {
    let scratch = Scratch::new();
    for (name, text) in [("greet.py", SOURCE), ("check.sh", CHECK), ("script.jsonl", SCRIPT)] {
        fs::write(scratch.path(name), text).unwrap();
    }
    let line = format!("CALLBOARD_MODEL=script:script.jsonl exec \"$0\" {COMMAND}");
    let mut terminal = TestTerminal::wide(&scratch, COLUMNS, &line);
    for question in 1..=2 {
        terminal.until_times("Which? [1-5] ", question);
        terminal.types("1\n");
    }
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    without_times(&shown.replace("\r\n", "\n"))
}

/// Replaces the duration of each call, which differs in every run.
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
