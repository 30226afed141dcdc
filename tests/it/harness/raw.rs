//! An agent process with raw lines as input and output, for clients that the test kit does not
//! provide.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

use super::scratch::Scratch;
use super::{CALLBOARD, DEADLINE};

pub(crate) const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#;

/// A running agent. A thread reads its output.
pub(crate) struct Raw {
    pub(crate) scratch: Scratch,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

/// Starts `callboard acp` in a scratch folder, with additional arguments. The agent's stdin and
/// stdout are pipes.
pub(crate) fn spawn(scratch: &Scratch, args: &[&str]) -> Child {
    let mut command = Command::new(CALLBOARD);
    command
        .args(["acp", "--no-sandbox"])
        .args(args)
        .current_dir(scratch.cwd())
        .env_clear()
        .envs(scratch.env());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

impl Raw {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(Scratch::new(), args)
    }

    pub(crate) fn start_in(scratch: Scratch, args: &[&str]) -> Self {
        let mut child = spawn(&scratch, args);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (line, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|text| line.send(text))
        });
        Self { scratch, child, stdin, lines }
    }

    pub(crate) fn send(&mut self, line: impl AsRef<[u8]>) {
        self.write(&[line.as_ref(), b"\n"].concat());
    }

    /// Writes bytes to the agent. Does nothing if the agent has exited.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            drop(stdin.write_all(bytes));
        }
    }

    pub(crate) fn receive(&mut self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line in time")
    }

    /// Kills the agent, and returns the lines that the agent wrote before.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // The iterator ends when the reading thread reaches the end of the output.
        self.lines.iter().collect()
    }

    /// Reads lines up to the response to a request, and returns the response.
    pub(crate) fn answer(&mut self, id: &str) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.receive()).unwrap();
            if message["method"].is_null() && message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) fn initialize(&mut self) {
        self.send(INITIALIZE);
        assert_eq!(self.answer("init")["result"]["protocolVersion"], 1);
    }

    /// Opens a session in the scratch folder, and returns the session id.
    pub(crate) fn new_session(&mut self) -> String {
        let params = serde_json::json!({ "cwd": self.scratch.cwd(), "mcpServers": [] });
        self.send(request("new", "session/new", &params));
        self.answer("new")["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Closes the input, and returns the remaining lines. The agent must exit successfully.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => rest.push(line),
                Err(error) => {
                    assert_eq!(error, std::sync::mpsc::RecvTimeoutError::Disconnected);
                    break;
                }
            }
        }
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

/// Returns a request as a line.
pub(crate) fn request(id: &str, method: &str, params: &Value) -> String {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        .to_string()
}
