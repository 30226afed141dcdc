//! An agent process with several sessions, each of which is used by another thread.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::DEADLINE;
use super::raw_agent::parse_json_line;
use crate::process::{KillOnDrop, TaskError};

/// Number of characters of a call's content that an error shows.
const MAX_TEXT_CHARS: usize = 200;

/// An agent process, which is killed on drop.
pub(super) struct SharedAgent {
    child: KillOnDrop,
    input: Mutex<Option<ChildStdin>>,
    routes: Arc<Mutex<Routes>>,
    /// The file with the standard error of the agent.
    log: PathBuf,
}

/// The threads that wait for messages.
#[derive(Default)]
struct Routes {
    last_id: u64,
    responses: HashMap<u64, Sender<ReceivedMessage>>,
    sessions: HashMap<String, Sender<ReceivedMessage>>,
}

/// A message of the agent, and the time at which it arrived.
struct ReceivedMessage {
    at: Instant,
    message: Value,
}

impl SharedAgent {
    /// Starts an agent and initializes it. Its standard error is written to the file `log`.
    pub(super) fn start(command: &mut Command, log: PathBuf) -> Result<Self, TaskError> {
        let failed = |why: String| TaskError::Failed(format!("cannot start the agent: {why}"));
        let errors = File::create(&log).map_err(|error| failed(error.to_string()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| failed("it has no output".to_owned()))?;
        let routes = Arc::<Mutex<Routes>>::default();
        let routes_of_reader = routes.clone();
        thread::spawn(move || route_lines(output, &routes_of_reader));
        let agent = Self { child: KillOnDrop(child), input: Mutex::new(input), routes, log };
        let (sender, receiver) = channel();
        let params =
            json!({"protocolVersion": 1, "clientCapabilities": {"elicitation": {"form": {}}}});
        let id = agent.send_request("initialize", &params, &sender)?;
        wait_for_response(&receiver, id)?;
        Ok(agent)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Kills the agent, and no other process.
    pub(super) fn kill(&mut self) {
        // The agent may have exited by itself.
        self.child.0.kill().ok();
        self.child.0.wait().ok();
    }

    /// Closes the input, waits until the process has exited, and returns the log of the agent.
    pub(super) fn end(mut self) -> Result<String, TaskError> {
        drop(lock(&self.input).take());
        self.child.wait_for_exit(DEADLINE)?;
        let log = std::fs::read(&self.log);
        let log = log.map_err(|error| TaskError::Failed(format!("no log: {error}")))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Sends a request, and returns the id of the request. The response is passed to `receiver`.
    fn send_request(
        &self,
        method: &str,
        params: &Value,
        receiver: &Sender<ReceivedMessage>,
    ) -> Result<u64, TaskError> {
        let mut routes = lock(&self.routes);
        routes.last_id += 1;
        let id = routes.last_id;
        routes.responses.insert(id, receiver.clone());
        drop(routes);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    fn send(&self, message: &Value) -> Result<(), TaskError> {
        let mut input = lock(&self.input);
        let line = format!("{message}\n");
        let sent = input.as_mut().map(|input| input.write_all(line.as_bytes()));
        let sent = sent.ok_or_else(|| TaskError::Failed("the input is closed".to_owned()))?;
        sent.map_err(|error| TaskError::Failed(format!("the agent reads nothing: {error}")))
    }
}

/// Passes each line to the thread that waits for it. At the end of the output, all waiting threads
/// stop waiting.
fn route_lines(output: ChildStdout, routes: &Mutex<Routes>) {
    for line in BufReader::new(output).lines() {
        let Ok(message) = line.map_err(drop).and_then(|it| parse_json_line(&it).map_err(drop))
        else {
            break;
        };
        let at = Instant::now();
        let mut routes = lock(routes);
        let receiver = match (message["id"].as_u64(), message["method"].is_string()) {
            (Some(id), false) => {
                let receiver = routes.responses.remove(&id);
                // The first update of a new session may directly follow, so the thread is
                // registered now.
                let session = message["result"]["sessionId"].as_str();
                if let Some((session, receiver)) = session.zip(receiver.clone()) {
                    routes.sessions.insert(session.to_owned(), receiver);
                }
                receiver
            }
            _ => {
                let session = message["params"]["sessionId"].as_str().unwrap_or_default();
                routes.sessions.get(session).cloned()
            }
        };
        drop(routes);
        // The receiving thread may have ended.
        receiver.map(|receiver| receiver.send(ReceivedMessage { at, message }).ok());
    }
    *lock(routes) = Routes::default();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn receive(receiver: &Receiver<ReceivedMessage>, end: Instant) -> Option<ReceivedMessage> {
    receiver.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
}

/// Waits for a response, and ignores all other messages.
fn wait_for_response(
    receiver: &Receiver<ReceivedMessage>,
    id: u64,
) -> Result<ReceivedMessage, TaskError> {
    let end = Instant::now() + DEADLINE;
    loop {
        let received = receive(receiver, end);
        let received = received.ok_or_else(|| TaskError::Failed("no response".to_owned()))?;
        if received.message["id"] == id && received.message["method"].is_null() {
            return match &received.message["error"] {
                Value::Null => Ok(received),
                error => Err(TaskError::Failed(format!("answered {error}"))),
            };
        }
    }
}

/// A session of a [`SharedAgent`], used by one thread.
pub(super) struct SharedSession<'a> {
    agent: &'a SharedAgent,
    sender: Sender<ReceivedMessage>,
    receiver: Receiver<ReceivedMessage>,
    id: Value,
}

/// One turn, as the client received it.
#[derive(Default)]
pub(super) struct ReceivedTurn {
    /// Time from the prompt to the response.
    pub(super) duration: Duration,
    /// Whether the client has cancelled the turn.
    pub(super) is_cancelled: bool,
    /// The calls, by their ids.
    calls: BTreeMap<String, TimedCall>,
}

/// A call, as the client received it.
#[derive(Default)]
pub(super) struct TimedCall {
    pub(super) title: String,
    /// The beginning of the content that arrived last.
    text: String,
    begun: Option<Instant>,
    ended: Option<Instant>,
    /// Whether the call has completed.
    pub(super) is_completed: bool,
    /// Number of final statuses that arrived.
    ends: u32,
}

impl TimedCall {
    /// Returns the time for which the call ran, if the call has ended.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.ended.zip(self.begun).map(|(ended, begun)| ended.duration_since(begun))
    }
}

impl ReceivedTurn {
    /// Returns the call whose title begins with these words.
    pub(super) fn find_call_by_title(&self, title: &str) -> Option<&TimedCall> {
        self.calls.values().find(|call| call.title.starts_with(title))
    }

    /// Returns the times at which calls completed, the earliest first.
    pub(super) fn ends_of_completed_calls(&self) -> Vec<Instant> {
        let completed = self.calls.values().filter(|call| call.is_completed);
        let mut ends: Vec<_> = completed.filter_map(|call| call.ended).collect();
        ends.sort();
        ends
    }

    /// Returns the titles of all calls, and the texts that the client received about them.
    pub(super) fn describe(&self) -> String {
        let calls = self.calls.values().map(|call| format!("`{}` {}", call.title, call.text));
        calls.collect::<Vec<_>>().join("; ")
    }

    fn apply(&mut self, received: &ReceivedMessage) {
        let params = &received.message["params"];
        let update =
            if params["update"].is_null() { &params["toolCall"] } else { &params["update"] };
        let Some(id) = update["toolCallId"].as_str() else { return };
        let call = self.calls.entry(id.to_owned()).or_default();
        if let Some(title) = update["title"].as_str() {
            title.clone_into(&mut call.title);
        }
        if let Some(text) = update["content"][0]["content"]["text"].as_str() {
            call.text = text.chars().take(MAX_TEXT_CHARS).collect();
        }
        match update["status"].as_str() {
            Some("in_progress") => drop(call.begun.get_or_insert(received.at)),
            Some(status @ ("completed" | "failed")) => {
                call.is_completed = status == "completed";
                call.ended.get_or_insert(received.at);
                call.ends += 1;
            }
            _ => {}
        }
    }

    /// Returns an error if a call has not ended exactly once.
    fn check_ends(&self) -> Result<(), TaskError> {
        match self.calls.values().find(|call| call.ends != 1) {
            Some(call) => {
                let TimedCall { title, ends, .. } = call;
                Err(TaskError::Failed(format!("the call `{title}` ended {ends} times")))
            }
            None => Ok(()),
        }
    }
}

impl<'a> SharedSession<'a> {
    /// Opens a session with these servers.
    pub(super) fn open(
        agent: &'a SharedAgent,
        cwd: &Path,
        servers: &Value,
    ) -> Result<Self, TaskError> {
        let mut session = Self::unopened(agent);
        let id = session.send_new(cwd, servers)?;
        let mut opened = wait_for_response(&session.receiver, id)?;
        session.id = opened.message["result"]["sessionId"].take();
        Ok(session)
    }

    /// Sends the request for a new session, and does not wait for the response.
    pub(super) fn request_new_without_waiting(
        agent: &'a SharedAgent,
        cwd: &Path,
        servers: &Value,
    ) -> Result<(), TaskError> {
        Self::unopened(agent).send_new(cwd, servers).map(drop)
    }

    fn unopened(agent: &'a SharedAgent) -> Self {
        let (sender, receiver) = channel();
        Self { agent, sender, receiver, id: Value::Null }
    }

    fn send_new(&self, cwd: &Path, servers: &Value) -> Result<u64, TaskError> {
        let params = json!({"cwd": cwd, "mcpServers": servers});
        self.agent.send_request("session/new", &params, &self.sender)
    }

    /// Sends a prompt. Returns its id.
    pub(super) fn send_prompt(&self) -> Result<u64, TaskError> {
        let prompt = json!([{"type": "text", "text": "go"}]);
        let params = json!({"sessionId": self.id, "prompt": prompt});
        self.agent.send_request("session/prompt", &params, &self.sender)
    }

    /// Runs a turn, allows every call, and declines every form. After the call whose title begins
    /// with `awaited` has ended, waits for the time `cancel_after`. If the turn still runs then,
    /// cancels it.
    pub(super) fn run_turn(
        &self,
        awaited: &str,
        cancel_after: Duration,
    ) -> Result<ReceivedTurn, TaskError> {
        let start = Instant::now();
        let id = self.send_prompt()?;
        let mut turn = ReceivedTurn::default();
        let mut end = start + DEADLINE;
        loop {
            let Some(received) = receive(&self.receiver, end) else {
                let is_late = turn.is_cancelled
                    || turn.find_call_by_title(awaited).is_none_or(|it| it.ends == 0);
                if is_late {
                    let (is_cancelled, calls) = (turn.is_cancelled, turn.describe());
                    return Err(TaskError::Failed(format!(
                        "a turn did not end; cancelled: {is_cancelled}, calls: {calls}"
                    )));
                }
                self.cancel()?;
                turn.is_cancelled = true;
                end = Instant::now() + DEADLINE;
                continue;
            };
            if received.message["method"].is_null() && received.message["id"] == id {
                turn.duration = received.at.duration_since(start);
                turn.check_ends()?;
                return match &received.message["error"] {
                    Value::Null => Ok(turn),
                    error => Err(TaskError::Failed(format!("a prompt was answered {error}"))),
                };
            }
            turn.apply(&received);
            self.allow_call_or_decline_form(&received.message)?;
            if !turn.is_cancelled
                && turn.find_call_by_title(awaited).is_some_and(|call| call.ends > 0)
            {
                end = end.min(received.at + cancel_after);
            }
        }
    }

    /// Asks the agent to cancel the turn.
    fn cancel(&self) -> Result<(), TaskError> {
        let params = json!({"sessionId": self.id});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        self.agent.send(&cancel)
    }

    fn allow_call_or_decline_form(&self, message: &Value) -> Result<(), TaskError> {
        if message["id"].is_null() || message["method"].is_null() {
            return Ok(());
        }
        if message["method"] == "elicitation/create" {
            let declined = json!({"action": "decline"});
            return self
                .agent
                .send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": declined}));
        }
        let options = message["params"]["options"].as_array();
        let once = options.and_then(|all| all.iter().find(|it| it["kind"] == "allow_once"));
        let Some(once) = once else {
            return Err(TaskError::Failed(format!("unexpected request {}", message["method"])));
        };
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": once["optionId"]}});
        self.agent.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}))
    }

    /// Waits for the first status `in_progress` of a call. Returns `false` if no call has this
    /// status within the given time.
    pub(super) fn wait_for_running_call(&self, within: Duration) -> bool {
        let end = Instant::now() + within;
        while let Some(received) = receive(&self.receiver, end) {
            if received.message["params"]["update"]["status"] == "in_progress" {
                return true;
            }
        }
        false
    }

    pub(super) fn close(self) -> Result<(), TaskError> {
        let params = json!({"sessionId": self.id});
        let id = self.agent.send_request("session/close", &params, &self.sender)?;
        wait_for_response(&self.receiver, id)?;
        let session = self.id.as_str().unwrap_or_default();
        lock(&self.agent.routes).sessions.remove(session);
        Ok(())
    }
}
