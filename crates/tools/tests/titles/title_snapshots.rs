//! Compares the titles of each tool in each locale with `seen.txt`.
//!
//! After an intended change, run `UPDATE_SEEN=1 cargo test -p acp-tools --test tools titles::`.

use std::fmt::Write as _;
use std::path::Path;

use acp_tools::CATALOGUES;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::title_session::{TitleSession, args, sample_texts};

#[test]
fn titles_match_the_snapshots() {
    let mut seen = String::new();
    for (locale, _) in CATALOGUES {
        let mut stage = TitleSession::new(locale);
        let names: Vec<_> =
            stage.registry.definitions_for_model().map(|tool| tool.spec.name).collect();
        for name in &names {
            writeln!(seen, "[{locale} {name}]").unwrap();
            let open = stage.announce(name);
            writeln!(seen, "{:10}  {}", "pending", stage.report(&open).title).unwrap();
            let texts = sample_texts(&stage.additional_folder());
            let cases = texts.iter().map(|(label, text)| (*label, args(name, text)));
            let mut last = String::new();
            for (label, args) in cases.chain(argument_forms(name)) {
                let title = stage.describe(name, &args).title;
                if title != last {
                    let shown = shorten_title(&stage.normalised(&title));
                    writeln!(seen, "{label:10}  {}", shown.trim_end()).unwrap();
                    last = title;
                }
            }
            seen.push('\n');
        }
    }
    seen.truncate(seen.trim_end().len() + 1);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/titles/seen.txt");
    if std::env::var_os("UPDATE_SEEN").is_some() {
        std::fs::write(&path, &seen).unwrap();
    }
    assert_eq!(seen, std::fs::read_to_string(path).unwrap());
}

/// Returns further forms of arguments that a tool accepts, each with a name.
fn argument_forms(tool: &str) -> Vec<(&'static str, serde_json::Value)> {
    match tool {
        "read_file" => vec![
            ("whole", json!({ "path": "a" })),
            ("from", json!({ "path": "a", "offset": 7 })),
            ("head", json!({ "path": "a", "limit": 7 })),
            ("tail", json!({ "path": "a", "offset": -7, "limit": 7 })),
            ("zero", json!({ "path": "a", "offset": 0, "limit": 3 })),
            ("zero", json!({ "path": "a", "offset": 0 })),
            ("of tail", json!({ "path": "a", "offset": -5, "limit": 2 })),
            ("long tail", json!({ "path": "a", "offset": -2001 })),
            ("last line", json!({ "path": "a", "offset": -1 })),
            ("extreme", json!({ "path": "a", "offset": i64::MAX, "limit": u32::MAX })),
            ("extreme", json!({ "path": "a", "offset": i64::MIN })),
            ("unreadable", json!({ "path": ["a"] })),
        ],
        "terminal_output" => {
            vec![("list", json!({})), ("wait", json!({ "id": "bg-1", "wait_ms": 1000 }))]
        }
        "edit_file" => {
            vec![("one", json!({ "path": "src/a.rs", "old_text": "a", "new_text": "b" }))]
        }
        "find_path" | "grep" => vec![("anywhere", json!({ "pattern": "*.rs" }))],
        "todo_write" => vec![("none", json!({ "todos": [] }))],
        _ => Vec::new(),
    }
}

/// Omits the middle of a title that is very long.
fn shorten_title(title: &str) -> String {
    let letters: Vec<_> = title.chars().collect();
    if letters.len() <= 200 {
        return title.to_owned();
    }
    let (start, end) = (&letters[..50], &letters[letters.len() - 50..]);
    let (start, end) = (String::from_iter(start), String::from_iter(end));
    format!("{start} [[{} bytes]] {end}", title.len())
}
