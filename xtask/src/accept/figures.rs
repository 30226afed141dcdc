//! The basic figures, and functions that other files need for their measurements.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// Returns the startup time of callboard, divided by that of a minimal SDK agent. The startup time
/// ends with the response to `initialize`.
pub(super) fn startup_ratio_to_echo_agent(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    median_startup_ratio(built, &built.echo, n)
}

/// Returns the startup time of callboard, divided by that of a process without the SDK. The startup
/// time ends with the response to `initialize`.
pub(super) fn startup_ratio_to_plain_process(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    median_startup_ratio(built, &built.floor, n)
}

/// Returns the median of n ratios. Each ratio compares two processes that are started one after the
/// other, so that other load on the machine slows both.
///
/// Copies of the programs are measured, because installed programs are copies. A file that the
/// linker has just written starts more slowly, because it occupies single pages of the page cache.
fn median_startup_ratio(built: &ReleasePrograms, other: &Path, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("startup")?;
    let ours = scratch.copy_program(&built.callboard)?;
    let other = scratch.copy_program(other)?;
    let ratio = |_| {
        let ours = time_to_initialize(
            isolated_command(&ours, &scratch).args(["acp", "--model", "direct"]),
        )?;
        Ok(ours / time_to_initialize(&mut Command::new(&other))?)
    };
    Ok(median((0..n).map(ratio).collect::<Result<_, TaskError>>()?))
}

/// Starts n processes and opens a session in each. Returns the largest resident memory in MiB.
pub(super) fn idle_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("idle-memory")?;
    let mut largest: f64 = 0.0;
    for _ in 0..n {
        let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, "direct"))?;
        open_session(&mut agent, &scratch.cwd())?;
        largest = largest.max(read_memory_mib(agent.pid(), "VmRSS:")?);
    }
    Ok(largest)
}

/// Runs a turn that reads the same 2.5 kB file n times, with one call per reply. Returns the
/// milliseconds per call.
pub(super) fn read_call_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("read-call")?;
    scratch.write_file("cwd/a.txt", &"twenty-five bytes a line\n".repeat(100))?;
    let script = scratch.write_file("script.jsonl", &file_reading_script(n))?;
    let model = format!("script:{}", script.display());
    let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, &model))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "read"}]});
    let mut completed = BTreeSet::new();
    let start = Instant::now();
    let answer = agent.request_and_wait("session/prompt", &prompt, DEADLINE, |message| {
        let update = &message["params"]["update"];
        if update["status"] == "completed" {
            completed.insert(update["toolCallId"].to_string());
        }
    })?;
    let elapsed = start.elapsed();
    if answer["stopReason"] != "end_turn" || completed.len() != n as usize {
        let count = completed.len();
        return Err(TaskError::Failed(format!("{count} of {n} calls completed, then {answer}")));
    }
    Ok(elapsed.as_secs_f64() * 1000.0 / f64::from(n))
}

/// Returns the maximum resident memory (in MiB) of an agent whose model sends n MiB of text. The
/// client reads nothing at first. When it starts to read, the whole text must arrive.
pub(super) fn stuck_client_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let text = "said to nobody ".repeat(64);
    let count = (n as usize * 1024 * 1024) / text.len();
    let line = format!("{}\n", json!({ "text": text }));
    let scratch = ScratchFolders::new("stuck-client")?;
    let model =
        format!("script:{}", scratch.write_file("script.jsonl", &line.repeat(count))?.display());
    let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, &model))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    agent.send_request("session/prompt", &prompt)?;
    thread::sleep(STUCK);
    let mut received = 0;
    let answer = agent.wait_for_response("session/prompt", DEADLINE, |message| {
        let text = message["params"]["update"]["content"]["text"].as_str();
        received += text.map_or(0, str::len);
    })?;
    if answer["stopReason"] != "end_turn" || received != count * text.len() {
        let all = count * text.len();
        return Err(TaskError::Failed(format!("{received} of {all} bytes arrived, then {answer}")));
    }
    read_memory_mib(agent.pid(), "VmHWM:")
}

/// Time for which the client of [`stuck_client_memory`] reads nothing.
const STUCK: Duration = Duration::from_secs(3);

/// Returns a command that starts the release build of callboard with the given model.
pub(super) fn callboard_command(
    built: &ReleasePrograms,
    scratch: &ScratchFolders,
    model: &str,
) -> Command {
    let mut command = isolated_command(&built.callboard, scratch);
    command.args(["acp", "--no-sandbox", "--model", model]);
    command
}

/// Returns a command that does not use the configuration and state of the current user.
pub(super) fn isolated_command(program: &Path, scratch: &ScratchFolders) -> Command {
    let mut command = Command::new(program);
    command.current_dir(scratch.cwd()).env("HOME", scratch.home());
    for name in ["CACHE", "CONFIG", "DATA", "STATE"] {
        command.env_remove(format!("XDG_{name}_HOME"));
    }
    command
}

fn time_to_initialize(command: &mut Command) -> Result<f64, TaskError> {
    let start = Instant::now();
    let mut agent = AgentProcess::start(command)?;
    initialize(&mut agent)?;
    Ok(start.elapsed().as_secs_f64())
}

pub(super) fn initialize(agent: &mut AgentProcess) -> Result<Value, TaskError> {
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    agent.request_and_wait("initialize", &params, DEADLINE, |_| ())
}

/// Initializes an agent, opens a session, and returns the session id.
pub(super) fn open_session(agent: &mut AgentProcess, cwd: &Path) -> Result<Value, TaskError> {
    initialize(agent)?;
    let params = json!({"cwd": cwd, "mcpServers": []});
    let mut session = agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
    Ok(session["sessionId"].take())
}

/// Returns a model script of n replies with one call each, and a last reply that ends the turn.
fn file_reading_script(n: u32) -> String {
    let read = scripted_call("read_file", &json!({"path": "a.txt"}));
    read.repeat(n as usize) + &done_and_end_turn_lines()
}

/// Returns a scripted reply with one call, in the format of `--model script:FILE`.
pub(super) fn scripted_call(name: &str, args: &Value) -> String {
    let call = json!({"call": {"id": "c1", "name": name, "args": args}});
    format!("{call}\n{}\n", json!({"end": "tool_calls"}))
}

/// Returns a scripted reply that ends the turn.
pub(super) fn done_and_end_turn_lines() -> String {
    format!("{}\n{}\n", json!({"text": "done"}), json!({"end": "end_turn"}))
}

/// Returns the median of the values, or NaN if there are no values. For an even number of values,
/// returns the higher of the two middle values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns a memory figure of a process from `/proc`, in MiB.
pub(super) fn read_memory_mib(pid: u32, figure: &str) -> Result<f64, TaskError> {
    let path = format!("/proc/{pid}/status");
    let status =
        fs::read_to_string(&path).map_err(|error| TaskError::Failed(format!("{path}: {error}")))?;
    let kib = parse_memory_kib(&status, figure)
        .ok_or_else(|| TaskError::Failed(format!("{path} has no {figure}")))?;
    Ok(kib / 1024.0)
}

/// Returns the processor time that a process has used, in seconds.
pub(super) fn read_cpu_seconds(pid: u32) -> Result<f64, TaskError> {
    let path = format!("/proc/{pid}/stat");
    let stat =
        fs::read_to_string(&path).map_err(|error| TaskError::Failed(format!("{path}: {error}")))?;
    let ticks = parse_cpu_ticks(&stat)
        .ok_or_else(|| TaskError::Failed(format!("{path} has no CPU times")))?;
    // Linux reports these times in hundredths of a second, whatever its timer frequency is.
    Ok(ticks / 100.0)
}

/// Parses the sum of user and system time from the text of `/proc/PID/stat`. The second field is
/// the name of the process, which may contain any character.
fn parse_cpu_ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some(times.next()?? + times.next()??)
}

/// Parses a figure from the text of `/proc/PID/status`.
fn parse_memory_kib(status: &str, figure: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(figure))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_value_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn resident_memory_is_read_from_the_status_of_a_process() {
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(parse_memory_kib(status, "VmRSS:"), Some(2048.0));
        assert_eq!(parse_memory_kib(status, "VmHWM:"), Some(9000.0));
        assert_eq!(parse_memory_kib("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn processor_time_is_parsed_after_any_process_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 90 0 0 0 25 5 0 0 20 0 2 0 100 1000 50";
        assert_eq!(parse_cpu_ticks(stat), Some(30.0));
        assert_eq!(parse_cpu_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn the_script_has_one_reply_per_call_and_a_last_reply() {
        let script = file_reading_script(2);
        let ends: Vec<_> = script.lines().filter(|line| line.contains("\"end\"")).collect();
        assert_eq!(ends.len(), 3);
        assert_eq!(script.lines().count(), 6);
        assert!(script.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    }
}
