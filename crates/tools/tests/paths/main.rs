//! What a path may name: every row of the table, read and written by the tools themselves.
//!
//! Each row is previewed as the model's call would be, and judged by a policy. What is allowed
//! without asking is then run, and nothing outside of the roots may be different afterwards.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by them")]

mod table;
mod tree;

use acp_lifecycle::perform::Executor as _;
use acp_lifecycle::{
    AcceptEditsPolicy, AskPolicy, Policy, ReadOnlyPolicy, Rules, Verdict, perform,
};
use acp_types::Status;
use serde_json::{Value, json};

use table::{Row, rows};
use tree::Tree;

/// What becomes of a call before anybody is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It lies in the roots: it is done without asking.
    Inside,
    /// It is asked about, because it lies elsewhere.
    Outside,
    /// It is asked about, because programs obey files of that name.
    Obeyed,
    /// It is asked about each time.
    Protected,
    /// It is refused, with this code.
    Refused(&'static str),
}

#[tokio::test]
async fn every_path_is_read_where_it_may_be() {
    let tree = Tree::new();
    for Row { given, read, .. } in rows() {
        let given = tree.spelt(&given);
        check(&tree, "read_file", json!({ "path": given }), &AskPolicy, &read).await;
    }
}

#[tokio::test]
async fn every_path_is_written_where_it_may_be() {
    for Row { given, write, .. } in rows() {
        let tree = Tree::new();
        let given = tree.spelt(&given);
        let edits = AcceptEditsPolicy::new(tree.roots());
        let args = json!({ "path": given, "content": "new" });
        check(&tree, "write_file", args, &edits, &write).await;
    }
}

#[test]
fn the_table_is_long_and_names_nothing_twice() {
    let mut given: Vec<_> = rows().into_iter().map(|row| row.given).collect();
    assert!(given.len() >= 120, "{}", given.len());
    given.sort();
    let all = given.len();
    given.dedup();
    assert_eq!(given.len(), all);
}

async fn check(tree: &Tree, tool: &str, args: Value, policy: &dyn Policy, expected: &Judged) {
    let outside = tree.outside();
    let (open, mut call) = tree.call(tool, &args);
    let handle = open.handle().clone();
    let judged = match call.preview(&handle).await {
        Err(failure) => {
            // The codes of the table live as long as the program.
            let code = CODES.iter().find(|code| **code == failure.code);
            Judged::Refused(code.unwrap_or(&"another code"))
        }
        Ok(preview) => {
            let verdict = Rules::default().judge(&preview.effects, policy);
            let is_outside = preview.effects.outside().next().is_some();
            let read_only = Rules::default().judge(&preview.effects, &ReadOnlyPolicy);
            assert_eq!(read_only == Verdict::Deny, is_outside || tool == "write_file", "{args}");
            match verdict {
                Verdict::Allow => Judged::Inside,
                _ if preview.effects.is_guarded() => Judged::Protected,
                // Asked about because the file was not read, not because of its path.
                _ if preview.effects.is_sensitive() && !is_outside => Judged::Inside,
                _ if !is_outside => Judged::Obeyed,
                _ => Judged::Outside,
            }
        }
    };
    assert_eq!(judged, *expected, "{tool} {args}");
    if judged == Judged::Inside {
        let (open, call) = tree.call(tool, &args);
        let ended = perform(open, call).await;
        assert!(!ended.text.contains(tree::SECRET), "{args}: {}", ended.text);
        let is_done = ended.status == Status::Completed;
        // What is not there is read without asking, and found missing.
        assert!(is_done || tool == "read_file", "{args}: {}", ended.text);
    }
    assert_eq!(tree.outside(), outside, "{tool} {args}");
}

const CODES: [&str; 7] = [
    "invalid_arguments",
    "io",
    "is_a_directory",
    "not_a_directory",
    "not_a_regular_file",
    "not_found",
    "outside_roots",
];
