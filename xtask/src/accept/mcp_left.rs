//! Counts the processes that are left after an agent with MCP servers is killed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::figures::{callboard_command, done_and_end_turn_lines, scripted_call};
use super::scratch::ScratchFolders;
use super::seed::Random;
use super::shared_agent::{SharedAgent, SharedSession};
use crate::process::TaskError;

/// Number of agents that run at the same time.
const AGENTS: u32 = 4;
/// Number of servers of each agent.
const SERVERS: usize = 5;
/// Time within which all processes of a killed agent must end.
const END_DEADLINE: Duration = Duration::from_secs(10);
/// Delay between two searches for processes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum delay from a request to the kill of its agent.
const MAX_KILL_DELAY_MICROS: u64 = 50_000;
/// Time limit for a call of a server to start.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// The environment variable that all processes of an agent have.
pub(super) const MARK_VARIABLE: &str = "CALLBOARD_ACCEPT_MARK";

/// A server that answers every request. Its processes try to outlive the agent, and each of them
/// ignores SIGTERM.
const CLINGING_SERVER: &str = r#"
trap '' TERM HUP INT
sleep 1000 &
(sleep 1000 &)
setsid sleep 1000 &
(setsid sh -c 'sleep 1000 & exec sleep 1000' </dev/null >/dev/null 2>&1 &)
info='"serverInfo":{"name":"clinging","version":"1"}'
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[!0-9]*}
  case $line in
    *'"initialize"'*)
      answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'"$info}" ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) sleep 0.02; answer '{"content":[]}' ;;
  esac
done
sleep 1000
"#;

/// Number of processes of a clinging server.
const CLINGING_PROCESSES: usize = 6;

/// The moment at which an agent is killed.
#[derive(Debug, Clone, Copy)]
enum KillPoint {
    BeforeSession,
    AfterRequest,
    AfterSession,
    AfterPrompt,
    DuringCall,
    AfterTurn,
}

const KILL_POINTS: [KillPoint; 6] = [
    KillPoint::BeforeSession,
    KillPoint::AfterRequest,
    KillPoint::AfterSession,
    KillPoint::AfterPrompt,
    KillPoint::DuringCall,
    KillPoint::AfterTurn,
];

/// Kills n agents with servers, each at a random moment. Returns the number of processes that are
/// left.
pub(super) fn processes_after_kills(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("mcp-left")?;
    let script = scripted_call("mcp__s0__t", &json!({})) + &done_and_end_turn_lines();
    let script = scratch.write_file("script.jsonl", &script)?;
    let seed = built.seed.get_and_mark_used();
    let command = || {
        let model = format!("script:{}", script.display());
        let mut command = callboard_command(built, &scratch, &model);
        command.args(["--mode", "auto"]);
        command
    };
    let left = thread::scope(|threads| {
        let run = |first: u32| {
            let (scratch, command) = (&scratch, &command);
            threads.spawn(move || {
                let numbers = (first..n).step_by(AGENTS as usize);
                let left =
                    numbers.map(|number| count_left_after_kill(scratch, command(), seed, number));
                left.sum::<Result<usize, TaskError>>()
            })
        };
        let all: Vec<_> = (0..AGENTS).map(run).collect();
        all.into_iter().map(|run| flatten_join_result(run.join())).sum::<Result<usize, TaskError>>()
    });
    Ok(left? as f64)
}

/// Returns the result of a thread. A panic becomes an error.
pub(super) fn flatten_join_result<T>(
    joined: thread::Result<Result<T, TaskError>>,
) -> Result<T, TaskError> {
    joined.unwrap_or_else(|_panic| Err(TaskError::Failed("a thread panicked".to_owned())))
}

/// Starts an agent with servers and kills it at a random moment. Returns the number of processes
/// that are left.
fn count_left_after_kill(
    scratch: &ScratchFolders,
    mut command: Command,
    seed: u64,
    number: u32,
) -> Result<usize, TaskError> {
    let mut random = Random::new(seed.wrapping_add(number.into()));
    let point = KILL_POINTS[random.next_below(KILL_POINTS.len() as u64) as usize];
    let delay = Duration::from_micros(random.next_below(MAX_KILL_DELAY_MICROS));
    let mark = format!("{seed}-{number}-{}", std::process::id());
    command.env(MARK_VARIABLE, &mark);
    let log = scratch.write_file(&format!("{number}.log"), "")?;
    let mut agent = SharedAgent::start(&mut command, log)?;
    let reached = run_until_kill_point(&agent, &scratch.cwd(), &mark, point);
    if let (KillPoint::DuringCall | KillPoint::AfterTurn, Ok(())) = (point, &reached)
        && find_marked_processes(&mark).len() < CLINGING_PROCESSES
    {
        return Err(TaskError::Failed("the processes of the server were not found".to_owned()));
    }
    thread::sleep(delay);
    agent.kill();
    drop(agent);
    let left = wait_until_none_is_marked(&mark);
    kill_processes(&left);
    reached?;
    Ok(left.len())
}

/// Runs an agent until it should be killed.
fn run_until_kill_point(
    agent: &SharedAgent,
    cwd: &Path,
    mark: &str,
    point: KillPoint,
) -> Result<(), TaskError> {
    let server = |number: usize| {
        let env = json!([{"name": MARK_VARIABLE, "value": mark}]);
        let args = ["-c", CLINGING_SERVER];
        json!({"name": format!("s{number}"), "command": "/bin/sh", "args": args, "env": env})
    };
    let servers: Value = (0..SERVERS).map(server).collect();
    if let KillPoint::BeforeSession = point {
        return Ok(());
    }
    if let KillPoint::AfterRequest = point {
        return SharedSession::request_new_without_waiting(agent, cwd, &servers);
    }
    let session = SharedSession::open(agent, cwd, &servers)?;
    match point {
        KillPoint::AfterPrompt => session.send_prompt().map(drop),
        KillPoint::DuringCall => {
            session.send_prompt()?;
            match session.wait_for_running_call(CALL_DEADLINE) {
                true => Ok(()),
                false => Err(TaskError::Failed("no call ran".to_owned())),
            }
        }
        KillPoint::AfterTurn => {
            let turn = session.run_turn("t (s0)", CALL_DEADLINE)?;
            match turn.find_call_by_title("t (s0)") {
                Some(call) if call.is_completed => Ok(()),
                _ => Err(TaskError::Failed("no call completed".to_owned())),
            }
        }
        KillPoint::BeforeSession | KillPoint::AfterRequest | KillPoint::AfterSession => Ok(()),
    }
}

/// Waits for a limited time until no process has a mark. Returns the processes that still have the
/// mark.
pub(super) fn wait_until_none_is_marked(mark: &str) -> Vec<u32> {
    let end = Instant::now() + END_DEADLINE;
    let mut empty_looks = 0;
    loop {
        let left = find_marked_processes(mark);
        // A search may miss a process that starts during the search, so two searches must find
        // none.
        empty_looks = if left.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 || Instant::now() > end {
            return left;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the ids of the processes whose environment or command line contains a mark.
fn find_marked_processes(mark: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process that has ended meanwhile cannot be read.
    let has_mark = |id: &u32, file: &str| {
        let text = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        memchr::memmem::find(&text, mark.as_bytes()).is_some()
    };
    let own = std::process::id();
    ids.filter(|id| *id != own && (has_mark(id, "environ") || has_mark(id, "cmdline"))).collect()
}

/// Kills processes that were left, so that they do not disturb later measurements.
fn kill_processes(ids: &[u32]) {
    if !ids.is_empty() {
        let ids = ids.iter().map(ToString::to_string);
        Command::new("kill").arg("-KILL").args(ids).status().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_processes_are_found_until_they_have_ended() {
        let mark = format!("mark-of-a-test-{}", std::process::id());
        let mut child =
            Command::new("sleep").arg("1000").env(MARK_VARIABLE, &mark).spawn().unwrap();
        // The kernel shows the variables of a new process only after the process has been started.
        while find_marked_processes(&mark).is_empty() {
            thread::yield_now();
        }
        assert_eq!(find_marked_processes(&mark), [child.id()]);
        kill_processes(&[child.id()]);
        assert_eq!(wait_until_none_is_marked(&mark), Vec::<u32>::new());
        child.wait().unwrap();
    }
}
