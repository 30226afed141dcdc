//! Turns that are cancelled at random points: after a random number of messages, or after a random
//! delay.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::figures::callboard_command;
use super::raw_agent::{RawAgent, parse_json_line};
use super::scratch::ScratchFolders;
use super::seed::Random;
use crate::process::TaskError;

/// Number of turns per agent process. Each turn runs in a new session, and all turns have the same
/// model script.
const TURNS: u32 = 25;

/// Every fifth agent process has a model that also runs commands. The latencies of its turns are
/// not included in the figure, because the agent gives a command time to exit.
const COMMAND_MODEL_INTERVAL: u32 = 5;

/// The client handles fewer than twice this number of messages before it cancels a turn.
const MAX_MESSAGES_BEFORE_CANCEL: u64 = 40;

/// Maximum delay from the prompt of a turn to its cancel, in milliseconds.
const MAX_CANCEL_DELAY_MS: u64 = 60;

/// Runs n turns, and returns the 99th percentile of the milliseconds from a cancel to the response
/// of its turn. Turns with commands are not included in the percentile.
///
/// The response of every turn must be `cancelled`, and must arrive after all calls of the turn have
/// ended. After its response, a turn must not send an update or start to write a file.
pub(super) fn random_cancel_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let mut random = built.seed.create_rng();
    let scratch = ScratchFolders::new("cancel")?;
    let mut latencies = Vec::new();
    for round in 0..n.div_ceil(TURNS) {
        let runs_commands = round % COMMAND_MODEL_INTERVAL == COMMAND_MODEL_INTERVAL - 1;
        let script =
            scratch.write_file("script.jsonl", &random_script(&mut random, runs_commands))?;
        let model = format!("script:{}", script.display());
        let mut client = CancelClient::initialize(RawAgent::start(&mut callboard_command(
            built, &scratch, &model,
        ))?)?;
        let mut folders = BTreeMap::new();
        for turn in 0..TURNS.min(n - round * TURNS) {
            let cwd = create_turn_folder(&scratch.cwd().join(format!("{round}-{turn}")))?;
            let latency = client.run_cancelled_turn(&cwd, &mut random).map_err(|stop| {
                let why = stop.message().unwrap_or_default().to_owned();
                TaskError::Failed(format!("turn {turn} of round {round}: {why}"))
            })?;
            folders.insert(cwd.clone(), list_file_names(&cwd)?);
            if !runs_commands {
                latencies.push(latency.as_secs_f64() * 1000.0);
            }
        }
        client.end_agent_process()?;
        for (cwd, before) in folders {
            if list_file_names(&cwd)? != before {
                return Err(TaskError::Failed(format!(
                    "round {round}: a file came after its turn"
                )));
            }
        }
    }
    Ok(percentile_99(latencies))
}

/// Returns the 99th percentile of the values, or NaN if there are no values.
pub(super) fn percentile_99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() * 99).div_ceil(100);
    values.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns the script of a model that sends text, thoughts and calls with pauses between them. Some
/// calls run in parallel. The client never allows the last call of the script, so the turn does not
/// end before it is cancelled.
fn random_script(random: &mut Random, runs_commands: bool) -> String {
    let mut script = String::new();
    let mut file = 0;
    let replies = 1 + random.next_below(3);
    for reply in 0..=replies {
        let mut calls = Vec::new();
        // Each reply has at least one call, because a reply without a call would end the turn.
        for _ in 0..=random.next_below(3) {
            calls.push(match random.next_below(7) {
                0 => ("read_file", json!({"path": "a.txt"})),
                1 => ("grep", json!({"pattern": "[a-z]+"})),
                2 => ("list_directory", json!({})),
                3 => ("find_path", json!({"pattern": "*.txt"})),
                4 => ("think", json!({"thought": "A thought that takes its time. ".repeat(9)})),
                _ => {
                    file += 1;
                    let path = format!("w{file}.txt");
                    ("write_file", json!({"path": path, "content": "written ".repeat(40)}))
                }
            });
        }
        if runs_commands && reply + 1 == replies {
            calls.push(("terminal", json!({"command": "echo started; sleep 60"})));
        }
        if reply == replies {
            calls.push(("write_file", json!({"path": FORBIDDEN_FILE, "content": "never"})));
        }
        for line in [json!({"thought": "Hm. "}), json!({"text": "Well, "})] {
            append_json_line(&mut script, &line);
        }
        for (name, args) in calls {
            append_json_line(&mut script, &json!({"delay_ms": random.next_below(4)}));
            let chunk = 4 + random.next_below(60);
            append_json_line(
                &mut script,
                &json!({"call": {"name": name, "args": args, "chunk": chunk}}),
            );
        }
        append_json_line(&mut script, &json!({"end": "tool_calls"}));
    }
    script
}

fn append_json_line(script: &mut String, line: &Value) {
    // Writing to a string cannot fail.
    let _ = writeln!(script, "{line}");
}

/// Name of the file that the client never allows the agent to write.
const FORBIDDEN_FILE: &str = "never.txt";

/// Creates the working folder of a turn, with one file in it.
fn create_turn_folder(cwd: &Path) -> Result<PathBuf, TaskError> {
    let made = fs::create_dir(cwd).and_then(|()| fs::write(cwd.join("a.txt"), "some words\n"));
    made.map_err(|error| TaskError::Failed(format!("{}: {error}", cwd.display())))?;
    Ok(cwd.to_owned())
}

/// Returns the names of the files in a folder.
fn list_file_names(cwd: &Path) -> Result<Vec<String>, TaskError> {
    let failed = |error| TaskError::Failed(format!("{}: {error}", cwd.display()));
    let entries = fs::read_dir(cwd).map_err(failed)?.collect::<Result<Vec<_>, _>>();
    let names = entries.map_err(failed)?.into_iter().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// A client whose agent process is initialized.
struct CancelClient {
    agent: RawAgent,
    last_id: u64,
    /// Calls of the current turn, by their ids.
    calls: BTreeMap<String, ReceivedCall>,
    session: Value,
    /// Unanswered permission requests.
    open_permissions: Vec<Value>,
}

/// The state of a tool call, as received by the client.
#[derive(Default)]
struct ReceivedCall {
    status: String,
    has_run: bool,
    path: Option<String>,
}

impl CancelClient {
    fn initialize(agent: RawAgent) -> Result<Self, TaskError> {
        let (calls, asked) = Default::default();
        let mut client =
            Self { agent, last_id: 0, calls, session: Value::Null, open_permissions: asked };
        client.request_and_wait_outside_turn("initialize", &json!({"protocolVersion": 1}))?;
        Ok(client)
    }

    /// Runs a turn and cancels it. Returns the time from the cancel to the response.
    fn run_cancelled_turn(
        &mut self,
        cwd: &Path,
        random: &mut Random,
    ) -> Result<Duration, TaskError> {
        let opened = self
            .request_and_wait_outside_turn("session/new", &json!({"cwd": cwd, "mcpServers": []}))?;
        self.session = opened["sessionId"].clone();
        self.calls.clear();
        self.open_permissions.clear();
        let prompt = json!([{"type": "text", "text": "go"}]);
        let prompt = self.send_request(
            "session/prompt",
            &json!({"sessionId": self.session, "prompt": prompt}),
        )?;
        self.run_until_cancel_point(random)?;

        let start = Instant::now();
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel",
            "params": {"sessionId": self.session}});
        self.agent.send_line(cancel.to_string().as_bytes())?;
        for asked in std::mem::take(&mut self.open_permissions) {
            self.send_reply(&asked, &json!({"outcome": {"outcome": "cancelled"}}))?;
        }
        let answer = self.wait_for_response(prompt)?;
        let latency = start.elapsed();
        if answer["stopReason"] != "cancelled" {
            return Err(TaskError::Failed(format!("unexpected response {answer}")));
        }
        self.check_state_after_turn(cwd)?;
        self.request_and_wait_outside_turn("session/close", &json!({"sessionId": self.session}))?;
        Ok(latency)
    }

    /// Handles messages as a client until the turn is to be cancelled: after a random number of
    /// messages, or after a random delay.
    fn run_until_cancel_point(&mut self, random: &mut Random) -> Result<(), TaskError> {
        let mut messages = random.next_below(2 * MAX_MESSAGES_BEFORE_CANCEL);
        let end = Instant::now() + Duration::from_millis(random.next_below(MAX_CANCEL_DELAY_MS));
        while messages > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let Some(message) = self.agent.wait_for_next_line_within(left)? else { return Ok(()) };
            messages -= 1;
            let message = parse_json_line(&message)?;
            if message["id"].is_u64() {
                return Err(TaskError::Failed(format!("the turn ended by itself: {message}")));
            }
            self.record_agent_message(&message)?;
            // The client either allows a permission request at once, or leaves it unanswered until
            // the cancel.
            let path = &message["params"]["toolCall"]["rawInput"]["path"];
            if !message["id"].is_null() && *path != FORBIDDEN_FILE && random.next_below(8) > 0 {
                self.open_permissions.pop();
                let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
                self.send_reply(&message["id"], &allow)?;
            }
        }
        Ok(())
    }

    /// Handles a request or a notification of the agent.
    fn record_agent_message(&mut self, message: &Value) -> Result<(), TaskError> {
        let params = &message["params"];
        let is_of_turn = params["sessionId"] == self.session;
        let call = match message["method"].as_str() {
            Some("session/request_permission") => {
                self.open_permissions.push(message["id"].clone());
                &params["toolCall"]
            }
            Some("session/update") => match params["update"]["sessionUpdate"].as_str() {
                Some("available_commands_update") => return Ok(()),
                _ => &params["update"],
            },
            _ => return Ok(()),
        };
        if !is_of_turn {
            return Err(TaskError::Failed(format!("a message of an earlier turn: {message}")));
        }
        let Some(id) = call["toolCallId"].as_str() else { return Ok(()) };
        let known = self.calls.entry(id.to_owned()).or_default();
        if let Some(status) = call["status"].as_str() {
            status.clone_into(&mut known.status);
            known.has_run |= matches!(status, "in_progress" | "completed");
        }
        if let Some(path) = call["rawInput"]["path"].as_str() {
            known.path = Some(path.to_owned());
        }
        Ok(())
    }

    /// Checks that all calls have ended and that no forbidden file exists after the response of a
    /// turn.
    fn check_state_after_turn(&self, cwd: &Path) -> Result<(), TaskError> {
        let is_open = |call: &&ReceivedCall| !matches!(&*call.status, "completed" | "failed");
        if let Some(call) = self.calls.values().find(is_open) {
            return Err(TaskError::Failed(format!("a call did not end: {}", call.status)));
        }
        let may_be_there = |name: &String| {
            let wrote = |call: &ReceivedCall| call.has_run && call.path.as_ref() == Some(name);
            name == "a.txt" || self.calls.values().any(wrote)
        };
        match list_file_names(cwd)?.iter().find(|name| !may_be_there(name)) {
            Some(name) => Err(TaskError::Failed(format!("no call that ran wrote {name}"))),
            None => Ok(()),
        }
    }

    fn send_request(&mut self, method: &str, params: &Value) -> Result<u64, TaskError> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.agent.send_line(request.to_string().as_bytes())?;
        Ok(id)
    }

    fn send_reply(&mut self, id: &Value, result: &Value) -> Result<(), TaskError> {
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.agent.send_line(reply.to_string().as_bytes())
    }

    /// Waits for the response to a request, and handles the messages that arrive before it.
    fn wait_for_response(&mut self, id: u64) -> Result<Value, TaskError> {
        loop {
            let mut message = self.agent.wait_for_next_json_line()?;
            if message["id"] == id {
                return match message["error"].take() {
                    Value::Null => Ok(message["result"].take()),
                    error => Err(TaskError::Failed(format!("answered {error}"))),
                };
            }
            self.record_agent_message(&message)?;
        }
    }

    /// Sends a request while no turn runs. Messages that arrive before its response belong to no
    /// turn.
    fn request_and_wait_outside_turn(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Value, TaskError> {
        let id = self.send_request(method, params)?;
        let session = std::mem::take(&mut self.session);
        let answer = self.wait_for_response(id);
        self.session = session;
        answer
    }

    fn end_agent_process(mut self) -> Result<(), TaskError> {
        self.agent.close_input_and_wait(Duration::from_secs(2)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::seed::Seed;

    #[test]
    fn the_percentile_is_the_value_that_one_of_a_hundred_exceeds() {
        let values = |count: u32| (1..=count).rev().map(f64::from).collect();
        assert_eq!(percentile_99(values(200)).to_bits(), 198.0_f64.to_bits());
        assert_eq!(percentile_99(values(1)).to_bits(), 1.0_f64.to_bits());
        assert!(percentile_99(Vec::new()).is_nan());
    }

    #[test]
    fn every_script_ends_with_the_call_that_is_never_allowed() {
        let mut random = Seed::new(Some(1)).create_rng();
        for runs_commands in [false, true] {
            let script = random_script(&mut random, runs_commands);
            assert!(script.lines().all(|line| parse_json_line(line).is_ok()));
            assert_eq!(script.contains("sleep 60"), runs_commands);
            assert_eq!(script.matches(FORBIDDEN_FILE).count(), 1);
            assert!(script.rfind(FORBIDDEN_FILE).unwrap() > script.rfind("thought").unwrap());
        }
    }
}
