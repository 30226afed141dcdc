//! A client that sends and reads raw bytes. The tests check the program's log, and answers that are
//! not UTF-8.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

struct UnvalidatedAgent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    session: Value,
    log_file: PathBuf,
}

impl UnvalidatedAgent {
    fn start(scratch: &Scratch, log: Option<&str>, fs: &Value) -> Self {
        let mut command = Command::new(CALLBOARD);
        command.args(["acp", "--no-sandbox", "--model", "direct"]).current_dir(scratch.cwd());
        command.env_clear().envs(scratch.env()).env_remove("CALLBOARD_LOG");
        command.envs(log.map(|level| ("CALLBOARD_LOG", level)));
        // The log goes to a file. If it went to a pipe, the pipe would fill up, because no thread
        // reads it.
        let log_file = scratch.cwd().with_file_name("stderr");
        let stderr = File::create(&log_file).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (stdout, session) = (BufReader::new(stdout), Value::Null);
        let mut agent = Self { child, stdin, stdout, session, log_file };
        let client = json!({"fs": fs});
        agent.request(
            "initialize",
            &json!({"protocolVersion": 1, "clientCapabilities": client}),
            b"",
        );
        let opened =
            agent.request("session/new", &json!({"cwd": scratch.cwd(), "mcpServers": []}), b"");
        agent.session = opened["result"]["sessionId"].clone();
        agent
    }

    fn send(&mut self, line: &[u8]) {
        self.stdin.write_all(line).unwrap();
        self.stdin.write_all(b"\n").unwrap();
    }

    /// Sends a request, and returns its response. Until the response arrives, the client allows
    /// every permission request, and answers every read of a file with `held`.
    fn request(&mut self, method: &str, params: &Value, held: &[u8]) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": "ours", "method": method, "params": params});
        self.send(request.to_string().as_bytes());
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the agent has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            let id = &message["id"];
            match message["method"].as_str() {
                None if *id == "ours" => return message,
                Some("fs/read_text_file") => {
                    let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":""#);
                    self.send(&[begin.as_bytes(), held, b"\"}}"].concat());
                }
                Some("session/request_permission") => {
                    let outcome = json!({"outcome": "selected", "optionId": "allow"});
                    let result = json!({"outcome": outcome});
                    self.send(
                        json!({"jsonrpc": "2.0", "id": id, "result": result})
                            .to_string()
                            .as_bytes(),
                    );
                }
                Some("fs/write_text_file") => panic!("it is told a text with gaps: {line}"),
                _ => {}
            }
        }
    }

    fn prompt(&mut self, text: &str, held: &[u8]) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", &json!({"sessionId": self.session, "prompt": prompt}), held)
    }

    fn finish_and_read_log(mut self) -> String {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
        fs::read_to_string(self.log_file).unwrap()
    }
}

/// A prompt with three calls: one completes, one fails, and one runs a command.
const THREE_CALLS_PROMPT: &str = "read notes.txt\nread missing.txt\nrun true";

#[test]
fn a_turn_logs_nothing_by_default() {
    let scratch = Scratch::new();
    let mut agent = UnvalidatedAgent::start(&scratch, None, &json!({}));
    assert_eq!(agent.prompt(THREE_CALLS_PROMPT, b"")["result"]["stopReason"], "end_turn");
    assert_eq!(agent.finish_and_read_log(), "");
}

#[test]
fn each_call_is_logged_when_it_starts_and_when_it_ends() {
    for level in ["debug", "trace"] {
        let scratch = Scratch::new();
        let mut agent = UnvalidatedAgent::start(&scratch, Some(level), &json!({}));
        assert_eq!(agent.prompt(THREE_CALLS_PROMPT, b"")["result"]["stopReason"], "end_turn");
        let log = agent.finish_and_read_log();
        for number in 1..=3 {
            let id = format!("call=t1/direct_{number} ");
            let lines: Vec<_> = log.lines().filter(|line| line.contains(&id)).collect();
            let [start, end] = lines.as_slice() else { panic!("{id}: {lines:?}\n{log}") };
            assert!(start.contains("call started") && end.contains("call ended"), "{lines:?}");
            assert!(end.contains("status=") && end.contains("duration_ms="), "{end}");
            let parts = ["tool=", "DEBUG"];
            assert!(lines.iter().all(|line| parts.iter().all(|part| line.contains(part))));
            let arguments = ["notes.txt", "missing", "true"];
            assert!(
                lines.iter().all(|line| !arguments.iter().any(|text| line.contains(text))),
                "{lines:?}"
            );
        }
        let client = log.lines().find(|line| line.contains("a client is connected")).unwrap();
        assert!(!client.contains("Capabilities {"), "{client}");
    }
}

#[test]
fn a_client_text_that_is_not_utf_8_ends_no_turn_and_changes_no_other_byte() {
    const HELD: &[u8] = b"caf\xe9\\none\\nna\xefve\\n";
    let scratch = Scratch::new();
    fs::write(scratch.path("latin.txt"), b"caf\xe9\none\nna\xefve\n").unwrap();
    let texts = json!({"readTextFile": true, "writeTextFile": true});
    let mut agent = UnvalidatedAgent::start(&scratch, None, &texts);
    let edit = "read latin.txt\nedit latin.txt\n<<<\none\n===\ntwo\n>>>";
    let answer = agent.prompt(edit, HELD);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let written = fs::read(scratch.path("latin.txt")).unwrap();
    assert_eq!(written, b"caf\xe9\ntwo\nna\xefve\n", "{:?}", String::from_utf8_lossy(&written));
    // The connection still works after the invalid text.
    assert_eq!(agent.prompt("read latin.txt", HELD)["result"]["stopReason"], "end_turn");
    assert_eq!(agent.finish_and_read_log(), "");
}
