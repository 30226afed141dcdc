//! Tests the paths that a call may name. The tools read and write the path in each row of the
//! table.
//!
//! Each row is previewed like a call of a model, and a policy judges it. Calls that the policy
//! allows without a permission request are then run. These calls must not change any file outside
//! of the project folders.

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

/// The expected decision about a call, before any permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExpectedVerdict {
    /// The path is inside a project folder, so the call runs without a permission request.
    Inside,
    /// Permission is required because the path is outside of the project folders.
    Outside,
    /// Permission is required because other programs execute or obey files with this name.
    Obeyed,
    /// Permission is required for each call, even if the policy allows it.
    Protected,
    /// The call is rejected with an error that has this code.
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
            // Use the code from the list, because it has a `'static` lifetime.
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
                // Permission is required only because the session has not read the file. The path
                // itself requires no permission.
                _ if preview.effects.is_high_risk() && !is_outside => ExpectedVerdict::Inside,
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
        // Reading a missing file requires no permission. The result reports that the file is
        // missing.
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
