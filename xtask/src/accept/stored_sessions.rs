//! The figures of stored sessions: loading, listing, the cost of storing, and several processes
//! with one store.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{callboard_command, isolated_command, median, open_session, read_memory_mib};
use super::raw_agent::{RawAgent, parse_json_line};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// Number of turns of the large session.
const TURNS: u32 = 313;
/// Maximum number of turns of the large session that one agent process runs.
const TURNS_OF_PROCESS: u32 = 30;
/// Number of bytes of the file that each call of the large session reads. The store also contains a
/// record of the call for the model, of about the same size.
const FILE_BYTES: usize = 6_000;
/// Maximum time in which none of the processes that use a store at the same time ends a turn.
const TURN_DEADLINE: Duration = Duration::from_secs(120);
/// Maximum number of lines that wait until the client of a measured load takes them.
const LINES_READ_AHEAD: usize = 256;
/// The beginning of each line that is a notification.
const NOTIFICATION_START: &str = r#"{"jsonrpc":"2.0","method":"#;
/// Number of processes that use the store at the same time, and the delay between two kills of a
/// process.
const PROCESSES: u32 = 8;
const KILL_INTERVAL: Duration = Duration::from_secs(1);

/// The measured figures of one load of a session.
struct LoadFigures {
    first_ms: f64,
    all_ms: f64,
    peak_mib: f64,
}

/// Returns the milliseconds from the request `session/load` to the first update. The loaded session
/// has n calls.
pub(super) fn first_load_update_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    Ok(load_large_session(built, n)?.first_ms)
}

/// Returns the milliseconds from the request `session/load` to its response. The loaded session has
/// n calls.
pub(super) fn whole_load_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    Ok(load_large_session(built, n)?.all_ms)
}

/// Returns the maximum resident memory (in MiB) of an agent that loads a session with n calls.
pub(super) fn memory_of_load(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    Ok(load_large_session(built, n)?.peak_mib)
}

/// Creates a session of n calls in several agent processes, one after the other. Then loads the
/// session in a new process.
fn load_large_session(built: &ReleasePrograms, n: u32) -> Result<LoadFigures, TaskError> {
    let scratch = ScratchFolders::new("stored-load")?;
    scratch.write_file("cwd/a.txt", &"twenty-five bytes a line\n".repeat(FILE_BYTES / 25))?;
    let (mut agent, mut session) =
        (start_initialized_agent(&built.callboard, &scratch, &[])?, Value::Null);
    let calls = n.div_ceil(TURNS);
    for turn in 0..TURNS {
        if turn == 0 {
            session = new_session(&mut agent, &scratch)?;
        } else if turn.is_multiple_of(TURNS_OF_PROCESS) {
            // A new process continues the session, because the test client reads only a limited
            // output of one agent.
            agent.end()?;
            agent = start_initialized_agent(&built.callboard, &scratch, &[])?;
            let params = json!({"sessionId": session, "cwd": scratch.cwd(), "mcpServers": []});
            agent.request_and_wait("session/resume", &params, DEADLINE, |_| ())?;
        }
        run_turn(&mut agent, &session, &"read a.txt\n".repeat(calls as usize))?;
    }
    agent.request_and_wait("session/close", &json!({"sessionId": session}), DEADLINE, |_| ())?;
    agent.end()?;
    let LoadUpdates { first, all, peak_mib, updates } =
        load_in_new_process(&built.callboard, &scratch, &session)?;
    let mut calls_loaded = updates.iter().filter(|update| update["sessionUpdate"] == "tool_call");
    let loaded = u32::try_from(calls_loaded.clone().count()).unwrap_or(u32::MAX);
    let linked = calls_loaded.clone().filter(|update| is_replaced_by_resource_link(update)).count();
    let last = calls_loaded.next_back().cloned().unwrap_or_default();
    if loaded != TURNS * calls || linked == 0 || is_replaced_by_resource_link(&last) {
        let failed = format!("{loaded} calls were loaded, {linked} of them as links; last {last}");
        return Err(TaskError::Failed(failed));
    }
    Ok(LoadFigures { first_ms: millis(first), all_ms: millis(all), peak_mib })
}

/// The updates of a load, with the times at which the first one and the response arrived.
struct LoadUpdates {
    first: Duration,
    all: Duration,
    peak_mib: f64,
    updates: Vec<Value>,
}

/// Loads a session in a new process. The updates are parsed after the response has arrived, so the
/// measured time does not include the parsing.
fn load_in_new_process(
    program: &Path,
    scratch: &ScratchFolders,
    session: &Value,
) -> Result<LoadUpdates, TaskError> {
    let mut command = isolated_command(program, scratch);
    let command = command.args(["acp", "--model", "direct"]);
    let mut agent = RawAgent::start_with_read_ahead(command, LINES_READ_AHEAD)?;
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    let request = |id, method, params| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    agent.send_line(request(1, "initialize", params).as_bytes())?;
    agent.wait_for_next_line()?;
    let params = json!({"sessionId": session, "cwd": scratch.cwd(), "mcpServers": []});
    let mut lines = Vec::new();
    let begun = Instant::now();
    agent.send_line(request(2, "session/load", params).as_bytes())?;
    let response = loop {
        let line = agent.wait_for_next_line()?;
        if !line.starts_with(NOTIFICATION_START) {
            break parse_json_line(&line)?;
        }
        lines.push((begun.elapsed(), line));
    };
    let (all, peak_mib) = (begun.elapsed(), read_memory_mib(agent.pid(), "VmHWM:")?);
    if response["id"] != 2 || response["result"].is_null() {
        return Err(TaskError::Failed(format!("the load ended with {response}")));
    }
    let (mut first, mut updates) = (None, Vec::new());
    for (arrival, line) in lines {
        let update = parse_json_line(&line)?["params"]["update"].take();
        // The list of commands is not part of the stored session.
        if update["sessionUpdate"] != "available_commands_update" {
            first.get_or_insert(arrival);
        }
        updates.push(update);
    }
    Ok(LoadUpdates { first: first.unwrap_or(all), all, peak_mib, updates })
}

/// Returns whether the agent has replaced the content of a call by a resource link.
fn is_replaced_by_resource_link(call: &Value) -> bool {
    call["content"].to_string().contains("resource_link")
}

/// Stores n sessions and lists them ten times. Returns the 99th percentile of the milliseconds per
/// page of the list.
pub(super) fn list_page_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("stored-list")?;
    let mut agent = start_initialized_agent(&built.callboard, &scratch, &[])?;
    for _ in 0..n {
        let session = new_session(&mut agent, &scratch)?;
        run_turn(&mut agent, &session, "/help")?;
        agent.request_and_wait(
            "session/close",
            &json!({"sessionId": session}),
            DEADLINE,
            |_| (),
        )?;
    }
    let (mut pages, mut cursor, mut listed) = (Vec::new(), Value::Null, 0);
    while listed < 10 * n as usize {
        let begun = Instant::now();
        let params = json!({ "cwd": scratch.cwd(), "cursor": cursor });
        let mut page = agent.request_and_wait("session/list", &params, DEADLINE, |_| ())?;
        pages.push(millis(begun.elapsed()));
        listed += page["sessions"].as_array().map_or(0, Vec::len);
        cursor = page["nextCursor"].take();
        if cursor.is_null() && listed % n as usize != 0 {
            return Err(TaskError::Failed(format!("{listed} sessions are listed, but {n} exist")));
        }
    }
    pages.sort_by(f64::total_cmp);
    Ok(pages.get(pages.len() * 99 / 100).copied().unwrap_or(f64::NAN))
}

/// Starts n pairs of agents, one with a store and one without. Returns the median difference of the
/// times from the start of the process to the response to `initialize`, in milliseconds.
pub(super) fn initialize_store_cost_ms(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("stored-initialize")?;
    let time = |args: &[&str]| {
        let begun = Instant::now();
        start_initialized_agent(&built.callboard, &scratch, args)
            .map(|_started| millis(begun.elapsed()))
    };
    median_of_measurements(n, || Ok(time(&[])? - time(&["--ephemeral"])?))
}

/// Starts n pairs of agents, one with a store and one without. Returns the median difference of the
/// times of the first `session/new`, in milliseconds.
pub(super) fn session_new_store_cost_ms(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("stored-new")?;
    let time = |args: &[&str]| {
        let mut agent = start_initialized_agent(&built.callboard, &scratch, args)?;
        let begun = Instant::now();
        new_session(&mut agent, &scratch)?;
        Ok::<_, TaskError>(millis(begun.elapsed()))
    };
    median_of_measurements(n, || Ok(time(&[])? - time(&["--ephemeral"])?))
}

/// Runs n pairs of turns whose answer has 1,000 pieces. Returns the median of the time with a
/// store, divided by the time without a store.
pub(super) fn streamed_turn_ratio(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("stored-turn")?;
    // The model pauses between two pieces, so that the agent does not merge them.
    let piece = format!("{}\n{}\n", json!({"text": "a few words "}), json!({"delay_ms": 1}));
    let script = scratch.write_file("script.jsonl", &piece.repeat(1_000))?;
    let model = format!("script:{}", script.display());
    let time = |args: &[&str]| {
        let mut command = callboard_command(built, &scratch, &model);
        let mut agent = AgentProcess::start(command.args(args))?;
        let session = open_session(&mut agent, &scratch.cwd())?;
        let begun = Instant::now();
        run_turn(&mut agent, &session, "go")?;
        Ok::<_, TaskError>(begun.elapsed().as_secs_f64())
    };
    median_of_measurements(n, || Ok(time(&[])? / time(&["--ephemeral"])?))
}

/// Runs n turns in each of eight processes, and kills one of the processes every second. Returns
/// the milliseconds of the slowest turn. After a kill, a new process loads and continues the
/// session, which must contain every answered turn.
pub(super) fn slowest_turn_of_killed_processes(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("stored-wait")?;
    let (sender, events) = channel();
    let mut slowest: f64 = 0.0;
    thread::scope(|scope| {
        for number in 0..PROCESSES {
            // [`ReleasePrograms`] contains the random seed, which threads cannot share, so only the
            // path is passed.
            let (program, scratch, sender) = (&*built.callboard, &scratch, sender.clone());
            scope.spawn(move || {
                let ran = run_killed_session(program, scratch, number, n, &sender);
                drop(sender.send(ran.map(|()| f64::NAN)));
            });
        }
        let mut running = PROCESSES;
        while running > 0 {
            match events.recv_timeout(TURN_DEADLINE) {
                Ok(Ok(ms)) if ms.is_nan() => running -= 1,
                Ok(Ok(ms)) => slowest = slowest.max(ms),
                Ok(Err(error)) => return Err(error),
                Err(error) => return Err(TaskError::Failed(format!("no turn ends: {error}"))),
            }
        }
        Ok(slowest)
    })
}

/// Runs n turns of one session. Kills and restarts the agent process every eight seconds.
fn run_killed_session(
    program: &Path,
    scratch: &ScratchFolders,
    number: u32,
    n: u32,
    turns: &Sender<Result<f64, TaskError>>,
) -> Result<(), TaskError> {
    let mut agent = start_initialized_agent(program, scratch, &[])?;
    let session = new_session(&mut agent, scratch)?;
    // Each process is first killed at a different second.
    let mut kill_at = Instant::now() + KILL_INTERVAL * (number + 1);
    for answered in 0..n {
        if Instant::now() >= kill_at && answered > 0 {
            // The process is killed while the next turn runs.
            agent.send_request("session/prompt", &prompt_params(&session, "read a.txt"))?;
            drop(agent);
            kill_at = Instant::now() + KILL_INTERVAL * PROCESSES;
            agent = start_initialized_agent(program, scratch, &[])?;
            let params = json!({"sessionId": session, "cwd": scratch.cwd(), "mcpServers": []});
            let mut prompts = 0;
            agent.request_and_wait("session/load", &params, DEADLINE, |message| {
                let update = &message["params"]["update"];
                prompts += u32::from(update["sessionUpdate"] == "user_message_chunk");
            })?;
            if prompts < answered {
                let lost = format!("{prompts} prompts are stored, and {answered} were answered");
                return Err(TaskError::Failed(lost));
            }
        }
        let begun = Instant::now();
        run_turn(&mut agent, &session, "/help")?;
        drop(turns.send(Ok(millis(begun.elapsed()))));
    }
    Ok(())
}

/// Starts an agent with the model `direct`, and initializes it.
fn start_initialized_agent(
    program: &Path,
    scratch: &ScratchFolders,
    args: &[&str],
) -> Result<AgentProcess, TaskError> {
    let mut command = isolated_command(program, scratch);
    let mut agent = AgentProcess::start(command.args(["acp", "--model", "direct"]).args(args))?;
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    agent.request_and_wait("initialize", &params, DEADLINE, |_| ())?;
    Ok(agent)
}

fn new_session(agent: &mut AgentProcess, scratch: &ScratchFolders) -> Result<Value, TaskError> {
    let params = json!({"cwd": scratch.cwd(), "mcpServers": []});
    let mut session = agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
    Ok(session["sessionId"].take())
}

fn prompt_params(session: &Value, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// Runs a turn. If the agent sends a notice that the session is not stored, returns an error.
fn run_turn(agent: &mut AgentProcess, session: &Value, text: &str) -> Result<(), TaskError> {
    let mut notice = None;
    let prompt = prompt_params(session, text);
    let answer = agent.request_and_wait("session/prompt", &prompt, DEADLINE, |message| {
        let shown = message["params"]["update"]["content"]["text"].as_str();
        if let Some(text) = shown.filter(|text| text.contains("not stored")) {
            notice = Some(text.to_owned());
        }
    })?;
    match notice {
        Some(notice) => Err(TaskError::Failed(notice)),
        None if answer["stopReason"] == "end_turn" => Ok(()),
        None => Err(TaskError::Failed(format!("a turn ended with {answer}"))),
    }
}

/// Returns the median of the results of n calls of `measure`.
fn median_of_measurements(
    n: u32,
    mut measure: impl FnMut() -> Result<f64, TaskError>,
) -> Result<f64, TaskError> {
    Ok(median((0..n).map(|_| measure()).collect::<Result<_, _>>()?))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
