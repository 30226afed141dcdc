//! `callboard check-wire`: reads transcripts, prints violations of the protocol, and returns an
//! exit code.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use acp_conformance::ConformanceRule;
use pretty_assertions::assert_eq;

use crate::harness::script::{end, run, text};
use crate::harness::{Agent, CALLBOARD, Options};

/// Runs `check-wire` with a transcript on standard input.
fn check_wire(transcript: &str) -> Output {
    let mut command = Command::new(CALLBOARD);
    command.args(["check-wire", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(transcript.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

async fn transcript() -> String {
    let mut agent =
        Agent::ready([run("echo said"), end(), text("Done.")], Options::default()).await;
    agent.turn("go").await;
    agent.finish().await;
    agent.client.transcript()
}

#[tokio::test]
async fn a_valid_transcript_has_no_violations() {
    let transcript = transcript().await;
    let output = check_wire(&transcript);
    let lines = transcript.lines().count();
    assert_eq!(printed(&output), format!("-: {lines} lines, 0 errors, 0 warnings\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_transcript_without_a_message_is_an_error() {
    for transcript in ["", "\n \n"] {
        let output = check_wire(transcript);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(error, "callboard: -: it contains no message\n");
        assert_eq!((output.status.code(), &*printed(&output)), (Some(1), ""));
    }
}

#[tokio::test]
async fn a_violation_is_reported_with_its_line_and_exit_code_1() {
    let transcript = transcript().await;
    let lines: Vec<_> = transcript.lines().collect();
    let ended = lines.iter().position(|line| line.contains("\"completed\"")).unwrap();
    let without = [&lines[..ended], &lines[ended + 1..]].concat().join("\n");
    let output = check_wire(&without);
    let printed = printed(&output);
    let answer = without.lines().position(|line| line.contains("stopReason")).unwrap() + 1;
    let start = format!("-:{answer}: call-open-at-answer: agent: call t1/call_1: ");
    assert!(printed.starts_with(&start), "{printed}");
    assert!(printed.ends_with("lines, 1 error, 0 warnings\n"), "{printed}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn every_rule_is_documented() {
    let page = include_str!("../../docs/check-wire.md");
    for rule in ConformanceRule::all() {
        let severity = format!("{:?}", rule.severity()).to_lowercase();
        let row = format!("\n| `{rule}` | {severity} | ");
        assert!(page.contains(&row), "docs/check-wire.md has no row that begins with {row}");
    }
}

#[test]
fn an_unreadable_file_fails_and_the_other_files_are_checked() {
    let output =
        Command::new(CALLBOARD).args(["check-wire", "/no/such/file", "/dev/null"]).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("/no/such/file: "), "{errors}");
    assert!(errors.contains("/dev/null: it contains no message"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
}
