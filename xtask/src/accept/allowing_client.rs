//! A client of one session that allows every permission request once, or only a preview.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::DEADLINE;
use super::raw_agent::{RawAgent, parse_json_line};
use crate::process::TaskError;

/// An agent with one session. The process is killed on drop.
pub(super) struct AllowingClient {
    agent: RawAgent,
    session: Value,
    last_id: u64,
    /// Whether the client selects the preview of a command if it is offered.
    previews: bool,
    /// Number of permission requests so far.
    permission_requests: u32,
}

impl AllowingClient {
    /// Starts an agent and opens a session in a folder.
    pub(super) fn start(command: &mut Command, cwd: &Path) -> Result<Self, TaskError> {
        let agent = RawAgent::start(command)?;
        let mut client = Self {
            agent,
            session: Value::Null,
            last_id: 0,
            previews: false,
            permission_requests: 0,
        };
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        client.request("initialize", &params)?;
        let (mut opened, _) =
            client.request("session/new", &json!({"cwd": cwd, "mcpServers": []}))?;
        client.session = opened["sessionId"].take();
        Ok(client)
    }

    /// Selects the preview of each command.
    pub(super) fn with_previews_selected(self) -> Self {
        Self { previews: true, ..self }
    }

    /// Returns the number of permission requests so far.
    pub(super) fn permission_request_count(&self) -> u32 {
        self.permission_requests
    }

    pub(super) fn pid(&self) -> u32 {
        self.agent.pid()
    }

    /// Runs a turn, and returns the last final update of a call.
    pub(super) fn run_turn(&mut self) -> Result<Value, TaskError> {
        self.run_prompt("go")
    }

    /// Runs a turn with this prompt, and returns the last final update of a call.
    pub(super) fn run_prompt(&mut self, text: &str) -> Result<Value, TaskError> {
        let params = self.prompt_params(text);
        Ok(self.request("session/prompt", &params)?.1)
    }

    /// Runs a turn with the preview of a command. Kills the agent when `delay` has passed since the
    /// changes of the command were allowed, if the turn has not ended by then. Returns whether the
    /// agent was killed in the turn.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent did not ask about the changes of a preview.
    pub(super) fn run_prompt_until_kill(
        mut self,
        text: &str,
        delay: Duration,
    ) -> Result<bool, TaskError> {
        let params = self.prompt_params(text);
        let id = self.send_request("session/prompt", &params)?;
        let mut kill_at = None;
        loop {
            let line = match kill_at {
                None => Some(self.agent.wait_for_next_line()?),
                Some(at) => {
                    let wait = Instant::saturating_duration_since(&at, Instant::now());
                    self.agent.wait_for_next_line_within(wait)?
                }
            };
            let Some(message) = line.map(|line| parse_json_line(&line)).transpose()? else {
                return Ok(true);
            };
            if message["method"] == "session/request_permission" {
                self.allow(&message)?;
                // The first answer selects the preview.
                if self.permission_requests == 2 {
                    kill_at = Some(Instant::now() + delay);
                }
            } else if message["id"] == id {
                return match kill_at {
                    Some(_) => Ok(false),
                    None => Err(TaskError::Failed("no change was previewed".to_owned())),
                };
            }
        }
    }

    /// Closes the input and waits until the process has exited.
    pub(super) fn end(mut self) -> Result<(), TaskError> {
        self.agent.close_input_and_wait(DEADLINE).map(drop)
    }

    /// Sends a request. Returns its result, and the last final update of a call before it.
    fn request(&mut self, method: &str, params: &Value) -> Result<(Value, Value), TaskError> {
        let id = self.send_request(method, params)?;
        let mut ended = Value::Null;
        loop {
            let mut message = self.agent.wait_for_next_json_line()?;
            if message["method"] == "session/request_permission" {
                self.allow(&message)?;
            } else if message["method"] == "session/update" {
                let update = message["params"]["update"].take();
                if update["status"] == "completed" || update["status"] == "failed" {
                    ended = update;
                }
            } else if message["id"] == id {
                return match message["error"].take() {
                    Value::Null => Ok((message["result"].take(), ended)),
                    error => Err(TaskError::Failed(format!("{method}: answered {error}"))),
                };
            }
        }
    }

    fn prompt_params(&self, text: &str) -> Value {
        json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]})
    }

    /// Sends a request, and returns its id.
    fn send_request(&mut self, method: &str, params: &Value) -> Result<u64, TaskError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Answers a permission request.
    fn allow(&mut self, question: &Value) -> Result<(), TaskError> {
        self.permission_requests += 1;
        let options = question["params"]["options"].as_array().into_iter().flatten();
        let mut once = options.filter(|option| option["kind"] == "allow_once");
        // The preview is the last option.
        let allow = if self.previews { once.next_back() } else { once.next() };
        let outcome = json!({"outcome": "selected", "optionId": allow.map(|it| &it["optionId"])});
        let result = json!({"outcome": outcome});
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
    }

    fn send(&mut self, message: &Value) -> Result<(), TaskError> {
        self.agent.send_line(message.to_string().as_bytes())
    }
}
