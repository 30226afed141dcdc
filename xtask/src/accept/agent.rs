//! A client of one agent process. The client sends requests, and reads messages until the response
//! arrives or a deadline passes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{KillOnDrop, TaskError};

/// Time limit for the response to a request.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum number of messages that are buffered until the client reads them.
const MAX_MESSAGES_READ_AHEAD: usize = 256;
/// Maximum number of bytes that are read from one agent. The reader then stops as if the output had
/// ended.
const MAX_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// An agent process, which is killed on drop.
pub(super) struct AgentProcess {
    child: KillOnDrop,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
}

impl AgentProcess {
    /// Starts an agent process, which inherits stderr.
    pub(super) fn start(command: &mut Command) -> Result<Self, TaskError> {
        let program = command.get_program().display().to_string();
        let failed = |why: String| TaskError::Failed(format!("cannot start {program}: {why}"));
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().map_err(|error| failed(error.to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let (sender, messages) = sync_channel(MAX_MESSAGES_READ_AHEAD);
        thread::spawn(move || forward_json_lines(stdout, &sender));
        Ok(Self { child: KillOnDrop(child), stdin, messages, last_id: 0 })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Closes the input and waits until the process has exited.
    pub(super) fn end(self) -> Result<(), TaskError> {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        child.wait_for_exit(DEADLINE).map(drop)
    }

    /// Sends a request, waits for its response, and returns the result. `seen` is called with each
    /// message that arrives before the response.
    ///
    /// Fails if the response does not arrive before the deadline. Fails at once if the agent exits,
    /// responds with an error, or sends a request to the client.
    pub(super) fn request_and_wait(
        &mut self,
        method: &str,
        params: &Value,
        deadline: Duration,
        seen: impl FnMut(&Value),
    ) -> Result<Value, TaskError> {
        self.send_request(method, params)?;
        self.wait_for_response(method, deadline, seen)
    }

    /// Sends a request without waiting for its response. At most 256 messages are buffered until
    /// the client reads them.
    pub(super) fn send_request(&mut self, method: &str, params: &Value) -> Result<(), TaskError> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        // A request is far smaller than the buffer of a pipe, so the write does not wait for the
        // agent.
        self.write_line(method, &request)
    }

    pub(super) fn send_notification(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<(), TaskError> {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.write_line(method, &message)
    }

    /// Writes a message in one piece, as clients do. `writeln!` would write each token on its own.
    fn write_line(&mut self, method: &str, message: &Value) -> Result<(), TaskError> {
        let written = self.stdin.write_all(format!("{message}\n").as_bytes());
        written.map_err(|error| TaskError::Failed(format!("{method}: {error}")))
    }

    /// Reads messages up to the response to the last request, and returns its result.
    pub(super) fn wait_for_response(
        &mut self,
        method: &str,
        deadline: Duration,
        mut seen: impl FnMut(&Value),
    ) -> Result<Value, TaskError> {
        let end = Instant::now() + deadline;
        loop {
            match self.wait_for_next_message(method, end)? {
                Some(NotificationOrResponse::Notification(message)) => seen(&message),
                Some(NotificationOrResponse::Response(result)) => return Ok(result),
                None => {
                    return Err(TaskError::Failed(format!("{method}: no reply in {deadline:?}")));
                }
            }
        }
    }

    /// Reads messages up to the first message that matches. If the response arrives before a
    /// matching message, returns its result.
    pub(super) fn wait_for_message_or_response(
        &mut self,
        method: &str,
        deadline: Duration,
        mut is_it: impl FnMut(&Value) -> bool,
    ) -> Result<Option<Value>, TaskError> {
        let end = Instant::now() + deadline;
        loop {
            match self.wait_for_next_message(method, end)? {
                Some(NotificationOrResponse::Notification(message)) if is_it(&message) => {
                    return Ok(None);
                }
                Some(NotificationOrResponse::Notification(_)) => {}
                Some(NotificationOrResponse::Response(result)) => return Ok(Some(result)),
                None => {
                    return Err(TaskError::Failed(format!("{method}: no reply in {deadline:?}")));
                }
            }
        }
    }

    /// Waits until `end` for the next message of the agent: a notification, or the response to the
    /// last request.
    pub(super) fn wait_for_next_message(
        &mut self,
        method: &str,
        end: Instant,
    ) -> Result<Option<NotificationOrResponse>, TaskError> {
        let failed = |why: String| TaskError::Failed(format!("{method}: {why}"));
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut message = match self.messages.recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(error) => return Err(failed(format!("no reply ({error})"))),
            };
            if message["method"].is_string() {
                if !message["id"].is_null() {
                    return Err(failed(format!("unexpected request {}", message["method"])));
                }
                return Ok(Some(NotificationOrResponse::Notification(message)));
            }
            if message["id"] == self.last_id {
                return match message["error"].take() {
                    Value::Null => {
                        Ok(Some(NotificationOrResponse::Response(message["result"].take())))
                    }
                    error => Err(failed(format!("answered {error}"))),
                };
            }
        }
    }
}

/// A message of an agent.
pub(super) enum NotificationOrResponse {
    /// A complete notification.
    Notification(Value),
    /// The result of the last request.
    Response(Value),
}

/// Forwards each output line that is valid JSON. Returns at the end of the output, or when the
/// receiver is dropped.
fn forward_json_lines(stdout: ChildStdout, sender: &SyncSender<Value>) {
    for line in BufReader::new(stdout.take(MAX_OUTPUT_BYTES)).lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str(&line) else {
            continue;
        };
        if sender.send(message).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script as the agent and sends it a request. Returns the response, and the
    /// number of messages before the response.
    fn ask(script: &str, deadline: Duration) -> (Result<Value, String>, usize) {
        let mut shell = Command::new("sh");
        let mut agent = AgentProcess::start(shell.args(["-c", script])).unwrap();
        let mut seen = 0;
        let answer = agent.request_and_wait("greet", &json!({}), deadline, |_| seen += 1);
        (answer.map_err(|stop| stop.message().unwrap_or_default().to_owned()), seen)
    }

    #[test]
    fn the_response_is_found_after_notifications_and_invalid_lines() {
        let script = r#"read line
            echo '{"method":"hello"}'
            echo noise
            echo '{"id":7,"result":"not this"}'
            echo '{"id":1,"result":"this"}'"#;
        assert_eq!(ask(script, DEADLINE), (Ok(json!("this")), 1));
    }

    #[test]
    fn a_matching_message_is_found_unless_the_response_arrives_first() {
        for (script, expected) in [
            (r#"read line; echo '{"method":"a"}'; echo '{"method":"b"}'; read line"#, None),
            (r#"read line; echo '{"id":1,"result":"this"}'; echo '{"method":"b"}'"#, Some("this")),
        ] {
            let mut shell = Command::new("sh");
            let mut agent = AgentProcess::start(shell.args(["-c", script])).unwrap();
            agent.send_request("greet", &json!({})).unwrap();
            let found = agent.wait_for_message_or_response("greet", DEADLINE, |message| {
                message["method"] == "b"
            });
            assert_eq!(found.unwrap(), expected.map(Value::from), "{script}");
        }
    }

    #[test]
    fn waiting_for_a_silent_agent_fails_at_the_deadline() {
        let (answer, _) = ask("read line; read line", Duration::from_millis(20));
        assert_eq!(answer.unwrap_err(), "greet: no reply in 20ms");
    }

    #[test]
    fn an_exit_an_error_and_a_request_are_failures_at_once() {
        for (script, why) in [
            ("read line", "no reply"),
            (r#"read line; echo '{"id":1,"error":{"code":-1}}'"#, "answered {\"code\":-1}"),
            ("cat", "unexpected request \"greet\""),
        ] {
            let (answer, _) = ask(script, DEADLINE);
            let message = answer.unwrap_err();
            assert!(message.contains(why), "{script}: {message}");
        }
    }
}
