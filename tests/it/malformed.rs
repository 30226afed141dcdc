//! Lines that are not messages, and messages that request something unknown. The agent answers each
//! line with at most one short error, and continues.

use std::io::Write as _;
use std::iter::repeat_with;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::raw::{Raw, request, spawn};
use crate::harness::scratch::Scratch;

mod table;

use table::{ROWS, Row};

/// A request that is always answered with an error, even before the agent is initialized.
const BARRIER: &str = r#"{"jsonrpc":"2.0","id":"barrier","method":"none"}"#;

/// Sends a line and the barrier, and checks the errors that answer the line. The agent may answer
/// the barrier before a request that needs more time.
fn check_errors(
    agent: &mut Raw,
    line: impl AsRef<[u8]>,
    expected: Option<(Value, i64)>,
    name: &str,
) {
    agent.send(line);
    agent.send(BARRIER);
    let count = 1 + usize::from(expected.is_some());
    let answers = repeat_with(|| table::error(&agent.receive()).unwrap()).take(count);
    let (barrier, errors): (Vec<_>, Vec<_>) = answers.partition(|(id, _)| *id == "barrier");
    assert_eq!((barrier.len(), errors), (1, Vec::from_iter(expected)), "{name}");
}

fn end(agent: Raw) {
    assert_eq!(agent.end(), Vec::<String>::new(), "nothing more is said");
}

fn check(row: &Row) {
    let mut agent = Raw::start(&[]);
    check_errors(&mut agent, row.line(17), row.expected(17, false), row.name);
    agent.initialize();
    end(agent);
}

#[test]
fn a_new_process_answers_each_malformed_line_once_and_continues() {
    assert!(ROWS.len() >= 44);
    // Only four rows run at the same time, because each row starts a process.
    thread::scope(|scope| {
        for rows in ROWS.chunks(ROWS.len().div_ceil(4)) {
            scope.spawn(|| rows.iter().for_each(check));
        }
    });
}

#[test]
fn all_malformed_lines_are_answered_once_on_one_connection() {
    let mut agent = Raw::start(&[]);
    agent.initialize();
    for (id, row) in (1..).zip(ROWS).chain((1001..).zip(ROWS.iter().rev())) {
        check_errors(&mut agent, row.line(id), row.expected(id, true), row.name);
    }
    end(agent);
}

#[test]
fn an_invalid_answer_to_a_question_rejects_the_call() {
    let mut agent = Raw::start(&["--model", "direct"]);
    agent.initialize();
    let prompt = [json!({"type": "text", "text": "run touch made"})];
    let params = json!({"sessionId": agent.new_session(), "prompt": prompt});
    agent.send(request("prompt", "session/prompt", &params));
    let messages = repeat_with(|| serde_json::from_str::<Value>(&agent.receive()).unwrap());
    let mut questions = messages.filter(|it| it["method"] == "session/request_permission");
    let id = questions.next().unwrap()["id"].clone();
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
    let error = json!({"code": 1, "message": "XYZZY"});
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": outcome, "error": error});
    agent.send(answer.to_string());
    assert_eq!(agent.answer("prompt")["result"]["stopReason"], "end_turn");
    assert!(!agent.scratch.path("made").exists());
    drop(agent.end());
}

#[test]
fn no_line_of_the_table_occurs_twice() {
    let lines: Vec<_> = ROWS.iter().map(|row| row.line(1)).collect();
    for (at, line) in lines.iter().enumerate() {
        assert!(!lines[..at].contains(line), "{}", ROWS[at].name);
    }
}

#[test]
fn the_agent_ends_although_a_flooding_client_never_reads() {
    let scratch = Scratch::new();
    let mut child = spawn(&scratch, &[]);
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take());
    // The answers to these lines do not fit into the agent's queue. The lines that the agent does
    // not read fit into the pipe, so the write does not block.
    stdin.write_all(&b"x\n".repeat(30_000)).unwrap();
    drop(stdin);
    let (ended, end) = channel();
    thread::spawn(move || ended.send(child.wait().unwrap()));
    assert!(end.recv_timeout(Duration::from_secs(10)).expect("it ends in time").success());
    drop(stdout);
}
