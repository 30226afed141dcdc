//! Lines that are no messages, or messages that ask for nothing there is: each gets its one short
//! answer or none, and the agent goes on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

mod table;

use table::{ROWS, Row};

const INITIALIZE: &[u8] =
    br#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#;

/// Is answered with an error, initialized or not, behind everything before it.
const BARRIER: &[u8] = br#"{"jsonrpc":"2.0","id":"barrier","method":"none"}"#;

/// An agent without a session, and the two ends of its pipes.
struct Agent {
    _scratch: Scratch,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Agent {
    fn start() -> Self {
        let scratch = Scratch::new();
        let mut command = Command::new(CALLBOARD);
        command.arg("acp").current_dir(scratch.cwd()).env_clear().envs(scratch.env());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { _scratch: scratch, child, stdin, stdout: BufReader::new(stdout) }
    }

    fn send(&mut self, line: &[u8]) {
        self.stdin.write_all(line).unwrap();
        self.stdin.write_all(b"\n").unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the agent has ended");
        line
    }

    fn initialize(&mut self) {
        self.send(INITIALIZE);
        let answer: Value = serde_json::from_str(&self.receive()).unwrap();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&"init".into(), &1.into())
        );
    }

    /// The errors that come before that of the barrier.
    fn errors(&mut self) -> Vec<(Value, i64)> {
        self.send(BARRIER);
        let answers = std::iter::repeat_with(|| table::error(&self.receive()).unwrap());
        answers.take_while(|(id, _)| *id != "barrier").collect()
    }

    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
        assert_eq!(self.stdout.lines().count(), 0, "nothing more is said");
    }
}

fn check(row: &Row) {
    let mut agent = Agent::start();
    agent.send(&row.line(17));
    assert_eq!(agent.errors(), Vec::from_iter(row.expected(17, false)), "{}", row.name);
    agent.initialize();
    agent.end();
}

#[test]
fn each_malformed_line_is_answered_once_and_survived_by_a_fresh_process() {
    assert!(ROWS.len() >= 44);
    // A few at a time: each costs the start of a process.
    thread::scope(|scope| {
        for rows in ROWS.chunks(ROWS.len().div_ceil(4)) {
            scope.spawn(|| rows.iter().for_each(check));
        }
    });
}

#[test]
fn all_malformed_lines_are_answered_once_on_one_connection() {
    let mut agent = Agent::start();
    agent.initialize();
    for (id, row) in (1..).zip(ROWS).chain((1001..).zip(ROWS.iter().rev())) {
        agent.send(&row.line(id));
        assert_eq!(agent.errors(), Vec::from_iter(row.expected(id, true)), "{}", row.name);
    }
    agent.end();
}

#[test]
fn no_line_of_the_table_is_there_twice() {
    let lines: Vec<_> = ROWS.iter().map(|row| row.line(1)).collect();
    for (at, line) in lines.iter().enumerate() {
        assert!(!lines[..at].contains(line), "{}", ROWS[at].name);
    }
}

#[test]
fn a_client_that_floods_it_and_never_reads_does_not_keep_it_from_ending() {
    let Agent { _scratch, mut child, mut stdin, stdout } = Agent::start();
    // More than may wait to be answered, and no more than fits into the pipe behind that.
    stdin.write_all(&b"x\n".repeat(30_000)).unwrap();
    drop(stdin);
    let (ended, end) = channel();
    thread::spawn(move || ended.send(child.wait().unwrap()));
    assert!(end.recv_timeout(Duration::from_secs(10)).expect("it ends in time").success());
    drop(stdout);
}
