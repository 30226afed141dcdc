//! Paths that a call may name: the tools read and write every row of the table.
//!
//! Each row is previewed as a model's call would be, and judged by a policy. Calls that are allowed
//! without asking are then run. Nothing outside the roots may have changed afterwards.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by them")]

mod path_table;
mod path_tree;

use acp_lifecycle::execute_call::CallExecutor as _;
use acp_lifecycle::{
    AcceptEditsPolicy, AskExceptReadsPolicy, Policy, ReadOnlyPolicy, Rules, Verdict, execute_call,
};
use acp_types::Status;
use serde_json::{Value, json};

use path_table::{PathCase, path_cases};
use path_tree::PathTree;

/// Expected decision about a call before any permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExpectedVerdict {
    /// The path is inside the roots: the call runs without asking.
    Inside,
    /// Permission is needed because the path is outside the roots.
    Outside,
    /// Permission is needed because programs obey files with that name.
    Obeyed,
    /// Permission is needed each time.
    Protected,
    /// The call is refused with this code.
    Refused(&'static str),
}

#[tokio::test]
async fn every_path_is_read_where_it_may_be() {
    let tree = PathTree::new();
    for PathCase { given, read, .. } in path_cases() {
        let given = tree.expand_placeholders(&given);
        check(&tree, "read_file", json!({ "path": given }), &AskExceptReadsPolicy, &read).await;
    }
}

#[tokio::test]
async fn every_path_is_written_where_it_may_be() {
    for PathCase { given, write, .. } in path_cases() {
        let tree = PathTree::new();
        let given = tree.expand_placeholders(&given);
        let edits = AcceptEditsPolicy::new(tree.roots());
        let args = json!({ "path": given, "content": "new" });
        check(&tree, "write_file", args, &edits, &write).await;
    }
}

#[test]
fn the_table_is_long_and_names_nothing_twice() {
    let mut given: Vec<_> = path_cases().into_iter().map(|row| row.given).collect();
    assert!(given.len() >= 120, "{}", given.len());
    given.sort();
    let all = given.len();
    given.dedup();
    assert_eq!(given.len(), all);
}

async fn check(
    tree: &PathTree,
    tool: &str,
    args: Value,
    policy: &dyn Policy,
    expected: &ExpectedVerdict,
) {
    let outside = tree.files_outside();
    let (open, mut call) = tree.call(tool, &args);
    let handle = open.handle().clone();
    let judged = match call.preview(&handle).await {
        Err(failure) => {
            // The codes in the table are `'static`.
            let code = CODES.iter().find(|code| **code == failure.code);
            ExpectedVerdict::Refused(code.unwrap_or(&"another code"))
        }
        Ok(preview) => {
            let verdict = Rules::default().judge_call(&preview.effects, policy);
            let is_outside = preview.effects.outside_paths().next().is_some();
            let read_only = Rules::default().judge_call(&preview.effects, &ReadOnlyPolicy);
            assert_eq!(read_only == Verdict::Deny, is_outside || tool == "write_file", "{args}");
            match verdict {
                Verdict::Allow => ExpectedVerdict::Inside,
                _ if preview.effects.is_always_asked() => ExpectedVerdict::Protected,
                // Permission is needed because the file was not read, not because of its path.
                _ if preview.effects.is_sensitive() && !is_outside => ExpectedVerdict::Inside,
                _ if !is_outside => ExpectedVerdict::Obeyed,
                _ => ExpectedVerdict::Outside,
            }
        }
    };
    assert_eq!(judged, *expected, "{tool} {args}");
    if judged == ExpectedVerdict::Inside {
        let (open, call) = tree.call(tool, &args);
        let ended = execute_call(open, call).await;
        assert!(!ended.text.contains(path_tree::SECRET), "{args}: {}", ended.text);
        let is_done = ended.status == Status::Completed;
        // A missing file is read without asking, and reported as missing.
        assert!(is_done || tool == "read_file", "{args}: {}", ended.text);
    }
    assert_eq!(tree.files_outside(), outside, "{tool} {args}");
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
