//! Turns with an HTTP model that answers at once, so that they measure only the cost of the agent.

mod calls;
mod cancel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{initialize, median, open_session, read_memory_mib};
use super::model_server::{
    AgentCommand, ModelServerProcess, final_reply, reply_with_call, reply_with_steps,
};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

pub(super) use self::calls::{
    additional_small_edit_latency, large_edit_ratio_to_floor, parallel_sessions_ratio_to_floor,
    streamed_path_latency,
};
pub(super) use self::cancel::cancel_latency_at_points;

/// Number of warm-up turns, whose times are not used. For example, the first turn opens the
/// connection to the model.
const WARM_UP: u32 = 3;

/// Measures the milliseconds from a prompt to the first word of a reply. Returns the difference
/// between the medians of callboard and of the floor agent.
pub(super) fn additional_first_word_latency(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let ours = first_word_latency(built, n, ModelServerProcess::agent_command)?;
    Ok(ours - first_word_latency(built, n, ModelServerProcess::floor_agent_command)?)
}

fn first_word_latency(
    built: &ReleasePrograms,
    n: u32,
    command: AgentCommand,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("model-first")?;
    let answers = (0..n + WARM_UP).map(|_| reply_with_steps(&json!([{"text": "a word"}])));
    let server = ModelServerProcess::start(built, &scratch, answers)?;
    let mut agent = SessionClient::start(&mut command(&server, built, &scratch), scratch)?;
    let mut times = Vec::new();
    for turn in 0..n + WARM_UP {
        let first_word = agent.run_turn(&["go".to_owned()])?.first_word_seconds * 1_000.0;
        times.extend((turn >= WARM_UP).then_some(first_word));
    }
    Ok(median(times))
}

/// Starts n processes with a model of a server and a sandbox. Returns the median of the
/// milliseconds from the request for a session, directly after the response to `initialize`, to its
/// response.
pub(super) fn first_session_request_latency(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("first-session")?;
    let server = ModelServerProcess::start(built, &scratch, [])?;
    let mut times = Vec::new();
    for _ in 0..n {
        let mut agent = AgentProcess::start(&mut server.agent_command(built, &scratch))?;
        initialize(&mut agent)?;
        let params = json!({"cwd": scratch.cwd(), "mcpServers": []});
        let start = Instant::now();
        agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(median(times))
}

/// Opens n sessions, and returns the size of the largest first request to a model, in bytes.
pub(super) fn first_request_bytes(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("first-request")?;
    let answers = (0..n).map(|_| final_reply());
    let mut server = ModelServerProcess::start(built, &scratch, answers)?;
    let mut agent = SessionClient::start(&mut server.agent_command(built, &scratch), scratch)?;
    let mut largest: f64 = 0.0;
    for _ in 0..n {
        agent.run_turn(&["go".to_owned()])?;
        let request = server.wait_for_finished_request()?;
        largest = largest.max(request["bytes"].as_f64().unwrap_or(f64::INFINITY));
        agent.replace_with_new_session()?;
    }
    Ok(largest)
}

/// Number of pieces of a long reply, and the text of each piece.
const PIECES: usize = 1_000;
const PIECE: &str = "sixty-four bytes of text, which is about what models say at once ";

/// Returns the time of a turn whose reply has 1,000 pieces, divided by the time in which the echo
/// agent returns the same texts. Both times are medians of n turns.
pub(super) fn streamed_reply_ratio_to_echo(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let steps = json!(vec![json!({"text": PIECE}); PIECES]);
    let answers = (0..n + WARM_UP).map(|_| reply_with_steps(&steps));
    let scratch = ScratchFolders::new("model-deltas")?;
    let server = ModelServerProcess::start(built, &scratch, answers)?;
    let mut echo = SessionClient::start_in_folder(&mut Command::new(&built.echo), &scratch.cwd())?;
    let mut ours = SessionClient::start(&mut server.agent_command(built, &scratch), scratch)?;
    let texts = vec![PIECE.to_owned(); PIECES];
    let (mut our_times, mut echo_times) = (Vec::new(), Vec::new());
    for turn in 0..n + WARM_UP {
        // Each reply needs a new session, because a session cannot hold several such replies
        // without compaction.
        ours.replace_with_new_session()?;
        let (our, other) = (ours.run_turn(&["go".to_owned()])?, echo.run_turn(&texts)?);
        if our.bytes != PIECE.len() * PIECES || other.bytes != our.bytes {
            return Err(TaskError::Failed(format!("got {} and {} bytes", our.bytes, other.bytes)));
        }
        if turn >= WARM_UP {
            our_times.push(our.total_seconds);
            echo_times.push(other.total_seconds);
        }
    }
    Ok(median(our_times) / median(echo_times))
}

/// Number of calls per session, with one call per reply.
const CALLS: usize = 100;

/// Runs n sessions of 100 calls of `read_file`, with one call per reply. Measures the milliseconds
/// between a reply of the model and the next request, at the 10th and at the last call. Returns the
/// larger of the two differences between the medians of callboard and of the floor agent.
pub(super) fn additional_read_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let ours = read_latencies(built, n, ModelServerProcess::agent_command)?;
    let floor = read_latencies(built, n, ModelServerProcess::floor_agent_command)?;
    Ok((ours.0 - floor.0).max(ours.1 - floor.1))
}

/// Returns the medians at the 10th and at the last call.
fn read_latencies(
    built: &ReleasePrograms,
    n: u32,
    command: AgentCommand,
) -> Result<(f64, f64), TaskError> {
    let (mut server, mut agent) = start_reading_session(built, "model-read", n, command)?;
    let (mut tenth, mut last) = (Vec::new(), Vec::new());
    for _ in 0..n {
        agent.replace_with_new_session()?;
        agent.run_turn(&["go".to_owned()])?;
        let gaps = (0..=CALLS)
            .map(|_| server.gap_ms_before_next_request())
            .collect::<Result<Vec<_>, _>>()?;
        tenth.extend(gaps.get(10).copied().flatten());
        last.extend(gaps.last().copied().flatten());
    }
    Ok((median(tenth), median(last)))
}

/// Runs sessions with n calls of `read_file` in total, and returns the maximum resident memory of
/// the agent in MiB.
pub(super) fn peak_memory_after_reads(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let sessions = n.div_ceil(CALLS as u32);
    let command = ModelServerProcess::agent_command;
    let (_server, mut agent) = start_reading_session(built, "model-peak", sessions, command)?;
    for _ in 0..sessions {
        agent.replace_with_new_session()?;
        agent.run_turn(&["go".to_owned()])?;
    }
    read_memory_mib(agent.agent.pid(), "VmHWM:")
}

fn start_reading_session(
    built: &ReleasePrograms,
    name: &str,
    sessions: u32,
    command: AgentCommand,
) -> Result<(ModelServerProcess, SessionClient), TaskError> {
    let scratch = ScratchFolders::new(name)?;
    scratch.write_file("cwd/a.txt", &"twenty-five bytes a line\n".repeat(100))?;
    let read = reply_with_call("read_file", &json!({"path": "a.txt"}));
    let session = vec![read; CALLS].into_iter().chain([final_reply()]);
    let answers = (0..sessions).flat_map(|_| session.clone());
    let server = ModelServerProcess::start(built, &scratch, answers)?;
    let agent = SessionClient::start(&mut command(&server, built, &scratch), scratch)?;
    Ok((server, agent))
}

/// Runs n turns whose first reply has 50 calls of `read_file`. Measures the milliseconds between
/// this reply and the next request. Returns the median of callboard, divided by that of the floor
/// agent.
pub(super) fn parallel_reads_ratio_to_floor(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let ours = parallel_reads_latency(built, n, ModelServerProcess::agent_command)?;
    Ok(ours / parallel_reads_latency(built, n, ModelServerProcess::floor_agent_command)?)
}

fn parallel_reads_latency(
    built: &ReleasePrograms,
    n: u32,
    command: AgentCommand,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("model-reads")?;
    let read = |index: usize| {
        let args = json!({"path": format!("{index}.txt")});
        json!({"call": {"id": format!("c{index}"), "name": "read_file", "args": args}})
    };
    for index in 0..50 {
        scratch
            .write_file(&format!("cwd/{index}.txt"), &"twenty-five bytes a line\n".repeat(100))?;
    }
    let reads = reply_with_steps(&json!((0..50).map(read).collect::<Vec<_>>()));
    let answers = (0..n + WARM_UP).flat_map(|_| [reads.clone(), final_reply()]);
    let mut server = ModelServerProcess::start(built, &scratch, answers)?;
    let mut agent = SessionClient::start(&mut command(&server, built, &scratch), scratch)?;
    let mut gaps = Vec::new();
    for turn in 0..n + WARM_UP {
        agent.replace_with_new_session()?;
        agent.run_turn(&["go".to_owned()])?;
        server.wait_for_finished_request()?;
        gaps.extend(server.gap_ms_before_next_request()?.filter(|_| turn >= WARM_UP));
    }
    Ok(median(gaps))
}

/// Returns the processor time of a call with long arguments, divided by the time of a call whose
/// arguments are a tenth as long. The arguments arrive in fragments of 20 bytes. The result is the
/// median of n ratios.
pub(super) fn long_arguments_ratio(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let ratio = |_| {
        Ok(cpu_seconds_of_write_call(built, 2_000_000)?
            / cpu_seconds_of_write_call(built, 200_000)?)
    };
    Ok(median((0..n).map(ratio).collect::<Result<_, TaskError>>()?))
}

fn cpu_seconds_of_write_call(built: &ReleasePrograms, bytes: usize) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("arguments")?;
    let content = "seven and twenty bytes here\n".repeat(bytes.div_ceil(28));
    let args = json!({"path": "written.txt", "content": content});
    let write = json!({"id": "c1", "name": "write_file", "args": args, "chunk": 20});
    let answers = [final_reply(), reply_with_steps(&json!([{ "call": write }])), final_reply()];
    let server = ModelServerProcess::start(built, &scratch, answers)?;
    let file = scratch.cwd().join("written.txt");
    let mut agent = SessionClient::start(&mut server.agent_command(built, &scratch), scratch)?;
    agent.run_turn(&["warm up".to_owned()])?;
    let before = sum_cpu_seconds_of_threads(agent.agent.pid())?;
    agent.run_turn(&["go".to_owned()])?;
    let after = sum_cpu_seconds_of_threads(agent.agent.pid())?;
    match fs::read_to_string(&file) {
        Ok(written) if written == content => Ok(after - before),
        Ok(written) => Err(TaskError::Failed(format!("{} bytes were written", written.len()))),
        Err(error) => Err(TaskError::Failed(format!("nothing was written: {error}"))),
    }
}

/// Reads the processor time of all threads of a process, with a resolution of nanoseconds. The sum
/// includes every thread, because the threads of the agent do not end before the process.
fn sum_cpu_seconds_of_threads(pid: u32) -> Result<f64, TaskError> {
    let failed = |error| TaskError::Failed(format!("/proc/{pid}/task: {error}"));
    let mut nanoseconds = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)? {
        let text = fs::read_to_string(task.map_err(failed)?.path().join("schedstat"));
        let text = text.unwrap_or_default();
        nanoseconds +=
            text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    }
    Ok(nanoseconds / 1e9)
}

/// A client with an open session of one agent process.
struct SessionClient {
    agent: AgentProcess,
    session: Value,
    cwd: PathBuf,
    _scratch: Option<ScratchFolders>,
}

/// The times of one turn, and the size of its text.
struct TurnTimes {
    /// Seconds from the prompt to the first word.
    first_word_seconds: f64,
    /// Seconds from the prompt to the response.
    total_seconds: f64,
    /// Number of bytes of text that the agent sent.
    bytes: usize,
}

impl SessionClient {
    fn start(command: &mut Command, scratch: ScratchFolders) -> Result<Self, TaskError> {
        let mut client = Self::start_in_folder(command, &scratch.cwd())?;
        client._scratch = Some(scratch);
        Ok(client)
    }

    fn start_in_folder(command: &mut Command, cwd: &Path) -> Result<Self, TaskError> {
        let mut agent = AgentProcess::start(command)?;
        let session = open_session(&mut agent, cwd)?;
        Ok(Self { agent, session, cwd: cwd.to_owned(), _scratch: None })
    }

    /// Closes the session and opens another session.
    fn replace_with_new_session(&mut self) -> Result<(), TaskError> {
        let old = json!({"sessionId": self.session});
        self.agent.request_and_wait("session/close", &old, DEADLINE, |_| ())?;
        let params = json!({"cwd": self.cwd, "mcpServers": []});
        let mut opened = self.agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
        self.session = opened["sessionId"].take();
        Ok(())
    }

    /// Runs a whole turn. Each text is one content block of its prompt.
    fn run_turn(&mut self, texts: &[String]) -> Result<TurnTimes, TaskError> {
        let prompt: Vec<_> =
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let params = json!({"sessionId": self.session, "prompt": prompt});
        let (mut first, mut bytes) = (None, 0);
        let start = Instant::now();
        let answer =
            self.agent.request_and_wait("session/prompt", &params, DEADLINE, |message| {
                let update = &message["params"]["update"];
                if update["sessionUpdate"] == "agent_message_chunk" {
                    first.get_or_insert_with(|| start.elapsed());
                    bytes += update["content"]["text"].as_str().map_or(0, str::len);
                }
            })?;
        let whole = start.elapsed().as_secs_f64();
        match (first, answer["stopReason"] == "end_turn") {
            (Some(first), true) => Ok(TurnTimes {
                first_word_seconds: first.as_secs_f64(),
                total_seconds: whole,
                bytes,
            }),
            _ => Err(TaskError::Failed(format!("a turn without text ended with {answer}"))),
        }
    }
}
