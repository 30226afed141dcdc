//! Turns whose model calls tools: edits of small and large files, a file that arrives in fragments,
//! and sessions that run side by side.

use std::fs;
use std::iter;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::ReleasePrograms;
use super::super::agent::DEADLINE;
use super::super::figures::median;
use super::super::files::{numbered_line, numbered_lines};
use super::super::model_server::{
    AgentCommand, ModelServerProcess, final_reply, reply_with_call, reply_with_steps,
};
use super::super::scratch::ScratchFolders;
use super::super::shared_agent::{SharedAgent, SharedSession};
use super::SessionClient;
use crate::process::TaskError;

/// Number of lines of the files that are edited. Each line has 72 bytes.
const SMALL_FILE_LINES: usize = 1_000;
const LARGE_FILE_LINES: usize = 100_000;

/// Delay of the replies with edits, like that of a fast model. Edits without a delay have the same
/// timestamp in the file system.
const EDIT_DELAY_MS: u64 = 20;

/// Measures the milliseconds between a reply that edits one line of a file of 72 kB and the next
/// request. Returns the difference between the medians of callboard and of the floor agent.
pub(in super::super) fn additional_small_edit_latency(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let ours = edit_latency(built, n, SMALL_FILE_LINES, ModelServerProcess::agent_command)?;
    Ok(ours - edit_latency(built, n, SMALL_FILE_LINES, ModelServerProcess::floor_agent_command)?)
}

/// Measures the same time for a file of 7.2 MB. Returns the median of callboard, divided by that of
/// the floor agent.
pub(in super::super) fn large_edit_ratio_to_floor(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let ours = edit_latency(built, n, LARGE_FILE_LINES, ModelServerProcess::agent_command)?;
    Ok(ours / edit_latency(built, n, LARGE_FILE_LINES, ModelServerProcess::floor_agent_command)?)
}

fn edit_latency(
    built: &ReleasePrograms,
    n: u32,
    lines: usize,
    command: AgentCommand,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("model-edit")?;
    let file = scratch.write_file("cwd/file", &numbered_lines(lines))?;
    let line = lines / 2;
    let edit = |round| {
        let (old, new) = (numbered_line(line, round), numbered_line(line, round + 1));
        let args = json!({"path": "file", "old_text": old, "new_text": new});
        let mut reply = reply_with_call("edit_file", &args);
        reply["after_ms"] = json!(EDIT_DELAY_MS);
        reply
    };
    let rounds = n + super::WARM_UP;
    let answers = (0..rounds).map(edit).chain([final_reply()]);
    let mut server = ModelServerProcess::start(built, &scratch, answers)?;
    let mut agent = SessionClient::start(&mut command(&server, built, &scratch), scratch)?;
    agent.run_turn(&["go".to_owned()])?;
    let expected =
        numbered_lines(lines).replace(&numbered_line(line, 0), &numbered_line(line, rounds));
    if fs::read_to_string(&file).ok() != Some(expected) {
        return Err(TaskError::Failed("the file does not match the edits".to_owned()));
    }
    let gaps =
        (0..=rounds).map(|_| server.gap_ms_before_next_request()).collect::<Result<Vec<_>, _>>()?;
    Ok(median(gaps.into_iter().skip(1 + super::WARM_UP as usize).flatten().collect()))
}

/// Returns the median of the milliseconds from the text of a reply to the first update with the
/// path of the call that follows. The arguments of the call arrive at no more than 100 kB/s.
pub(in super::super) fn streamed_path_latency(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("streamed-path")?;
    // A model writes the path before the content.
    let content = "words of a text ".repeat(1_000);
    let args = format!(r#"{{"path": "{WRITTEN_PATH}", "content": "{content}"}}"#);
    let call = json!({"id": "c1", "name": "write_file", "args": args, "chunk": 100, "pause_ms": 1});
    let reply = reply_with_steps(&json!([{"text": "I write."}, {"call": call}]));
    let answers = (0..n).flat_map(|_| [reply.clone(), final_reply()]);
    let server = ModelServerProcess::start(built, &scratch, answers)?;
    let mut client = SessionClient::start(&mut server.agent_command(built, &scratch), scratch)?;
    let mut times = Vec::new();
    for _ in 0..n {
        client.replace_with_new_session()?;
        let prompt = json!([{"type": "text", "text": "go"}]);
        let params = json!({"sessionId": client.session, "prompt": prompt});
        let (mut began, mut shown) = (None, None);
        client.agent.request_and_wait("session/prompt", &params, DEADLINE, |message| {
            let update = &message["params"]["update"];
            match update["sessionUpdate"].as_str() {
                Some("agent_message_chunk") => drop(began.get_or_insert_with(Instant::now)),
                Some("tool_call" | "tool_call_update")
                    if update["locations"][0]["path"]
                        .as_str()
                        .is_some_and(|path| path.ends_with(WRITTEN_PATH)) =>
                {
                    shown.get_or_insert_with(Instant::now);
                }
                _ => {}
            }
        })?;
        let (Some(began), Some(shown)) = (began, shown) else {
            return Err(TaskError::Failed("no update had the path".to_owned()));
        };
        times.push(shown.saturating_duration_since(began).as_secs_f64() * 1_000.0);
    }
    Ok(median(times))
}

const WRITTEN_PATH: &str = "src/written.txt";

/// Number of sessions that run side by side, number of reads of each, and the delay of the model.
const SESSIONS: usize = 8;
const READS: usize = 10;
const MODEL_DELAY_MS: u64 = 50;

/// Runs eight sessions at once, in each of which a model reads ten files, one with each reply.
/// Measures the milliseconds by which the longest turn exceeds the delays of the model. Returns the
/// median of callboard, divided by that of the floor agent.
pub(in super::super) fn parallel_sessions_ratio_to_floor(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let ours = longest_parallel_turn_overhead(built, n, ModelServerProcess::agent_command)?;
    let floor_command = ModelServerProcess::floor_agent_command;
    Ok(ours / longest_parallel_turn_overhead(built, n, floor_command)?)
}

fn longest_parallel_turn_overhead(
    built: &ReleasePrograms,
    n: u32,
    command: AgentCommand,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("model-sessions")?;
    for number in 0..READS {
        scratch
            .write_file(&format!("cwd/{number}.txt"), &"twenty-five bytes a line\n".repeat(100))?;
    }
    let delayed = |mut reply: Value| {
        reply["after_ms"] = json!(MODEL_DELAY_MS);
        reply
    };
    // Requests are answered in the order of their arrival. Sessions that differ by more than one
    // delay would get different replies, which is an error.
    let replies = (0..=READS).flat_map(|number| {
        let args = json!({"path": format!("{number}.txt")});
        let reply = match number {
            READS => final_reply(),
            _ => reply_with_call("read_file", &args),
        };
        iter::repeat_n(delayed(reply), SESSIONS)
    });
    let replies: Vec<_> = replies.collect();
    let rounds = n as usize + super::WARM_UP as usize;
    let answers = (0..rounds).flat_map(|_| replies.clone());
    let server = ModelServerProcess::start(built, &scratch, answers)?;
    let log = scratch.cwd().with_file_name("agent.log");
    let agent = SharedAgent::start(&mut command(&server, built, &scratch), log)?;
    let mut times = Vec::new();
    for round in 0..rounds {
        let open = |_| SharedSession::open(&agent, &scratch.cwd(), &json!([]));
        let sessions = (0..SESSIONS).map(open).collect::<Result<Vec<_>, _>>()?;
        let barrier = Barrier::new(SESSIONS);
        let durations = thread::scope(|scope| {
            let run = |session| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let session: SharedSession<'_> = session;
                    barrier.wait();
                    let turn = session.run_turn("", DEADLINE)?;
                    session.close()?;
                    match turn.ends_of_completed_calls().len() {
                        READS => Ok(turn.duration),
                        count => Err(TaskError::Failed(format!("{count} reads completed"))),
                    }
                })
            };
            let running: Vec<_> = sessions.into_iter().map(run).collect();
            let stopped = |_| TaskError::Failed("a client stopped".to_owned());
            let durations = running.into_iter().map(|thread| thread.join().map_err(stopped)?);
            durations.collect::<Result<Vec<Duration>, TaskError>>()
        })?;
        let longest = durations.into_iter().max().unwrap_or_default();
        let delays = Duration::from_millis(MODEL_DELAY_MS * (READS as u64 + 1));
        if round >= super::WARM_UP as usize {
            times.push(longest.saturating_sub(delays).as_secs_f64() * 1_000.0);
        }
    }
    Ok(median(times))
}
