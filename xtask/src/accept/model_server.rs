//! A scripted model server in a separate process, and the agent that uses it.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::DEADLINE;
use super::figures::isolated_command;
use super::scratch::ScratchFolders;
use crate::process::{KillOnDrop, TaskError};

/// Maximum number of request results that are buffered until they are read.
const MAX_LINES_READ_AHEAD: usize = 100_000;

/// The process of the model server, which is killed on drop.
pub(super) struct ModelServerProcess {
    _child: KillOnDrop,
    address: String,
    finished_requests: Receiver<Value>,
}

/// Returns the command of an agent that uses a server as its model.
pub(super) type AgentCommand =
    fn(&ModelServerProcess, &ReleasePrograms, &ScratchFolders) -> Command;

impl ModelServerProcess {
    /// Starts a server that answers the requests with these answers, in this order.
    pub(super) fn start(
        built: &ReleasePrograms,
        scratch: &ScratchFolders,
        answers: impl IntoIterator<Item = Value>,
    ) -> Result<Self, TaskError> {
        let failed = |why: String| TaskError::Failed(format!("cannot start the server: {why}"));
        let script: String = answers.into_iter().map(|answer| format!("{answer}\n")).collect();
        let script = scratch.write_file("answers.jsonl", &script)?;
        let mut command = Command::new(&built.model_server);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let mut lines = BufReader::new(stdout).lines();
        let first =
            next_json_line(&mut lines).ok_or_else(|| failed("it printed no line".to_owned()))?;
        let address = first["listening"].as_str().unwrap_or_default().to_owned();
        let (sender, over) = sync_channel(MAX_LINES_READ_AHEAD);
        thread::spawn(move || {
            while let Some(line) = next_json_line(&mut lines) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { _child: KillOnDrop(child), address, finished_requests: over })
    }

    /// Returns the address on which the server listens.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the command of a callboard that uses this server as its model and allows every call.
    pub(super) fn agent_command(
        &self,
        built: &ReleasePrograms,
        scratch: &ScratchFolders,
    ) -> Command {
        let mut command = self.command_with_model(&built.callboard, scratch);
        command.args(["acp", "--model", "openai/scripted", "--mode", "auto"]);
        command
    }

    /// Returns the command of the floor agent, with this server as its model.
    pub(super) fn floor_agent_command(
        &self,
        built: &ReleasePrograms,
        scratch: &ScratchFolders,
    ) -> Command {
        self.command_with_model(&built.floor, scratch)
    }

    fn command_with_model(&self, program: &Path, scratch: &ScratchFolders) -> Command {
        let mut command = isolated_command(program, scratch);
        let url = format!("http://{}/v1", self.address);
        command.env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", "sk-scripted");
        command
    }

    /// Waits until the server has finished the next request for a reply, and returns the result.
    /// Requests for the list of models are skipped.
    pub(super) fn wait_for_finished_request(&mut self) -> Result<Value, TaskError> {
        loop {
            let over = self.finished_requests.recv_timeout(DEADLINE);
            let over =
                over.map_err(|error| TaskError::Failed(format!("no request arrived: {error}")))?;
            if !over["path"].as_str().is_some_and(|path| path.ends_with("/models")) {
                return Ok(over);
            }
        }
    }

    /// Waits for the next request, and returns the milliseconds between the previous answer and
    /// this request.
    pub(super) fn gap_ms_before_next_request(&mut self) -> Result<Option<f64>, TaskError> {
        Ok(self.wait_for_finished_request()?["gap_us"].as_f64().map(|gap| gap / 1000.0))
    }
}

fn next_json_line(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<Value> {
    serde_json::from_str(&lines.next()?.ok()?).ok()
}

/// Returns a complete reply that consists of these steps.
pub(super) fn reply_with_steps(steps: &Value) -> Value {
    json!({"body": {"reply": {"steps": steps}}})
}

/// Returns a reply with one call.
pub(super) fn reply_with_call(name: &str, args: &Value) -> Value {
    reply_with_steps(&json!([{"call": {"id": "c1", "name": name, "args": args}}]))
}

/// Returns a reply without a call, which ends the turn.
pub(super) fn final_reply() -> Value {
    reply_with_steps(&json!([{"text": "done"}]))
}
