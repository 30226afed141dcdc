//! Commands that are cancelled while they run, and commands that leave a process running. Measures
//! the time to the response of the turn, and to the exit of the process.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE, NotificationOrResponse};
use super::figures::{
    callboard_command, done_and_end_turn_lines, median, open_session, scripted_call,
};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// Maximum time of one wait for a message. After each wait, the client checks whether the command's
/// process has exited.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Cancels n turns while a command runs. Returns the median of the milliseconds from a cancel to
/// the response of its turn.
pub(super) fn cancel_response_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    Ok(median(run_cancelled_turns(built, n)?.into_iter().map(|end| end.response_ms).collect()))
}

/// Cancels n turns while a command runs. Returns the median of the milliseconds from a cancel to
/// the exit of the command's process.
pub(super) fn cancel_exit_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    Ok(median(run_cancelled_turns(built, n)?.into_iter().map(|end| end.exit_ms).collect()))
}

/// Runs n turns with a command that leaves a process running. Returns the median of the
/// milliseconds from a prompt to the response of its turn. The process must have exited before the
/// response.
pub(super) fn turn_time_with_leftover_process(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("background-left")?;
    let left = json!({"command": "sleep 1000 & echo $! > pid"});
    let turns = (scripted_call("terminal", &left) + &done_and_end_turn_lines()).repeat(n as usize);
    let file = scratch.write_file("script.jsonl", &turns)?;
    let model = format!("script:{}", file.display());
    let mut command = callboard_command(built, &scratch, &model);
    let mut agent = AgentProcess::start(command.args(["--mode", "auto"]))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let prompt = json!([{"type": "text", "text": "go"}]);
    let pid = scratch.cwd().join("pid");
    let mut times = Vec::new();
    for _ in 0..n {
        let asked = Instant::now();
        let prompted = json!({"sessionId": session, "prompt": prompt});
        agent.request_and_wait("session/prompt", &prompted, DEADLINE, |_| {})?;
        times.push(asked.elapsed().as_secs_f64() * 1000.0);
        let process = wait_for_process_id_file(&pid)?;
        if Path::new(&process).exists() {
            return Err(TaskError::Failed(format!("{process} is still running")));
        }
        let forgotten = fs::remove_file(&pid);
        forgotten.map_err(|error| TaskError::Failed(format!("{}: {error}", pid.display())))?;
    }
    Ok(median(times))
}

/// Milliseconds from a cancel to the response of its turn, and to the exit of the command's
/// process.
struct CancelTimes {
    response_ms: f64,
    exit_ms: f64,
}

fn run_cancelled_turns(built: &ReleasePrograms, n: u32) -> Result<Vec<CancelTimes>, TaskError> {
    let scratch = ScratchFolders::new("cancel-command")?;
    let run = scripted_call("terminal", &json!({"command": "echo $$ > pid; exec sleep 600"}));
    let file = scratch.write_file("script.jsonl", &run.repeat(n as usize))?;
    let model = format!("script:{}", file.display());
    let mut command = callboard_command(built, &scratch, &model);
    let mut agent = AgentProcess::start(command.args(["--mode", "auto"]))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    (0..n).map(|_| run_and_cancel_turn(&mut agent, &session, &scratch.cwd().join("pid"))).collect()
}

/// Runs a turn until its command has started, and then cancels the turn.
fn run_and_cancel_turn(
    agent: &mut AgentProcess,
    session: &Value,
    pid: &Path,
) -> Result<CancelTimes, TaskError> {
    let prompt = json!([{"type": "text", "text": "go"}]);
    agent.send_request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))?;
    let process = wait_for_process_id_file(pid)?;
    // The updates that the agent has sent for the running command are read before the response.
    let begun = Instant::now();
    agent.send_notification("session/cancel", &json!({ "sessionId": session }))?;
    let ms = || begun.elapsed().as_secs_f64() * 1000.0;
    let (mut answered, mut gone) = (None, None);
    loop {
        match agent.wait_for_next_message("session/prompt", Instant::now() + POLL_INTERVAL)? {
            Some(NotificationOrResponse::Response(answer))
                if answer["stopReason"] == "cancelled" =>
            {
                answered = Some(ms());
            }
            Some(NotificationOrResponse::Response(other)) => {
                return Err(TaskError::Failed(format!("unexpected response to the turn: {other}")));
            }
            Some(NotificationOrResponse::Notification(_)) | None => {}
        }
        if gone.is_none() && !Path::new(&process).exists() {
            gone = Some(ms());
        }
        if let (Some(answered), Some(gone)) = (answered, gone) {
            let forgotten = fs::remove_file(pid);
            forgotten.map_err(|error| TaskError::Failed(format!("{}: {error}", pid.display())))?;
            return Ok(CancelTimes { response_ms: answered, exit_ms: gone });
        }
        if begun.elapsed() > DEADLINE {
            return Err(TaskError::Failed(format!("answered: {answered:?}, gone: {gone:?}")));
        }
    }
}

/// Waits until the command has written its process id to the file `pid`. Returns the path of the
/// process in `/proc`.
fn wait_for_process_id_file(pid: &Path) -> Result<String, TaskError> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        let text = fs::read_to_string(pid).unwrap_or_default();
        if let Some(id) = text.strip_suffix('\n') {
            return Ok(format!("/proc/{id}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(TaskError::Failed("the command did not start".to_owned()))
}
