//! Tests the example that registers tools at run time.

use acp_types::Status;
use pretty_assertions::assert_eq;
use serde_json::json;

#[path = "../examples/run_time_tools.rs"]
#[expect(dead_code, reason = "the program's `main` prints what is judged here")]
mod example;

#[tokio::test]
async fn tools_of_a_server_are_called_by_their_names() {
    for (name, expected) in [("word_count", "2"), ("reverse", "owt eno")] {
        let (ended, report) = example::call(name, json!({ "text": "one two" })).await.unwrap();
        assert_eq!((&*ended.text, report.status), (expected, Status::Completed));
        assert_eq!(report.title.replace('`', ""), format!("{name} text: \"one two\""));
    }
}

#[tokio::test]
async fn a_server_that_refuses_fails_the_call() {
    let (ended, report) = example::call("reverse", json!({})).await.unwrap();
    assert_eq!(report.status, Status::Failed);
    assert!(ended.text.contains("`text` is missing"), "{}", ended.text);
}
