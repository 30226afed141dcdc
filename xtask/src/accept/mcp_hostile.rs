//! Runs hostile MCP servers in an agent. Measures the memory of the agent, and the delay of the
//! calls of well-behaved servers at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::figures::{callboard_command, read_memory_mib};
use super::mcp_left::{MARK_VARIABLE, flatten_join_result, wait_until_none_is_marked};
use super::scratch::ScratchFolders;
use super::seed::Random;
use super::shared_agent::{ReceivedTurn, SharedAgent, SharedSession, TimedCall};
use crate::process::TaskError;

/// Number of hostile servers that run at the same time.
const LANES: usize = 4;
/// Number of turns with each hostile server.
const TURNS: usize = 3;
/// Number of turns that the script of the model contains for each session.
const SCRIPTED_TURNS: usize = 500;
/// Time for which a call of a hostile server may run after the call of the other server has ended.
const HOSTILE_CALL_TIME: Duration = Duration::from_millis(500);
/// Delay between two turns of the session without a hostile server.
const TURN_INTERVAL: Duration = Duration::from_millis(10);
/// Number of rounds with a hostile server between two groups of rounds with a silent server.
const HOSTILE_ROUNDS: usize = 40;
/// Number of rounds of such a group. In these rounds, a silent server takes the place of the
/// hostile server.
const SILENT_ROUNDS: usize = 24;
/// Minimum number of times of which percentiles are compared.
const MIN_TIMES: usize = 50;

/// The behaviours of the example `mcp_server`: kinds of floods, faults of `initialize`, faults of
/// the list of tools, faults of the answer to a call, and the time at which a flood starts.
const BEHAVIOURS: [&[&str]; 5] = [
    &[
        "garbage",
        "endless-line",
        "blank-lines",
        "gigabyte",
        "long-lines",
        "stderr",
        "progress",
        "list-changed",
        "logging",
        "unknown",
        "sampling",
        "roots",
        "elicitation",
        "ping",
        "unknown-request",
    ],
    &["wrong-version", "no-version", "large-instructions", "never-reads"],
    &[
        "many-tools",
        "same-name",
        "names",
        "recursive-schema",
        "array-schema",
        "text-schema",
        "large-schema",
        "deep-schema",
        "large-description",
        "endless-pages",
        "large-pages",
    ],
    &[
        "huge-result",
        "large-result",
        "dense-result",
        "many-blocks",
        "malformed-result",
        "large-error",
        "wrong-id",
        "twice",
        "no-answer",
        "half-line",
        "closes",
    ],
    &["from-list", "from-call"],
];

/// The figures of an agent with hostile servers.
struct HostileFigures {
    peak_mib: f64,
    /// The delay in milliseconds of calls in the same session, or of turns in another session,
    /// whichever is larger: see [`largest_percentile_difference`].
    delay_ms: f64,
}

/// Returns the maximum resident memory (in MiB) of an agent that runs n hostile servers, several at
/// a time.
pub(super) fn peak_memory_with_hostile_servers(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    Ok(run_beside_hostile_servers(built, n)?.peak_mib)
}

/// Returns the milliseconds by which calls of other servers, or turns of other sessions, take
/// longer beside n hostile servers.
pub(super) fn call_delay(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    Ok(run_beside_hostile_servers(built, n)?.delay_ms)
}

fn run_beside_hostile_servers(
    built: &ReleasePrograms,
    n: u32,
) -> Result<HostileFigures, TaskError> {
    let scratch = ScratchFolders::new("mcp-hostile")?;
    let model =
        format!("script:{}", scratch.write_file("script.jsonl", &model_script())?.display());
    let mark = format!("hostile-{}", std::process::id());
    let mut command = callboard_command(built, &scratch, &model);
    command.args(["--mode", "auto"]).env(MARK_VARIABLE, &mark);
    let agent = SharedAgent::start(&mut command, scratch.cwd().join("agent.log"))?;
    let rounds = Rounds { built, agent: &agent, scratch: &scratch, mark: &mark };

    let (mut silent, mut hostile) = (CallTimes::default(), CallTimes::default());
    let mut random = built.seed.create_rng();
    // The groups alternate, because the speed of the disk changes.
    for servers in random_servers(n as usize, &mut random).chunks(HOSTILE_ROUNDS) {
        silent.extend(rounds.run_all(&vec![vec!["no-answer"]; SILENT_ROUNDS])?);
        hostile.extend(rounds.run_all(servers)?);
    }
    let peak_mib = read_memory_mib(agent.pid(), "VmHWM:")?;
    let beside = largest_percentile_difference(silent.beside, hostile.beside)?;
    let delay_ms = beside.max(largest_percentile_difference(silent.other, hostile.other)?);

    let log = agent.end()?;
    let left = wait_until_none_is_marked(&mark);
    if log.contains("panicked") || !left.is_empty() {
        let shown: String = log.lines().filter(|line| line.contains("panicked")).collect();
        let failed = format!("{} processes are left; panics: {shown}", left.len());
        return Err(TaskError::Failed(failed));
    }
    Ok(HostileFigures { peak_mib, delay_ms })
}

/// Returns the largest difference between a percentile of the times beside hostile servers and the
/// same percentile beside silent servers. The percentiles are the first to the 99th.
fn largest_percentile_difference(
    mut silent: Vec<f64>,
    mut hostile: Vec<f64>,
) -> Result<f64, TaskError> {
    if silent.len().min(hostile.len()) < MIN_TIMES {
        return Err(TaskError::Failed("too few calls were measured".to_owned()));
    }
    let percentile = |times: &[f64], of: usize| times[(times.len() * of).div_ceil(100) - 1];
    silent.sort_by(f64::total_cmp);
    hostile.sort_by(f64::total_cmp);
    let delays = (1..=99).map(|of| percentile(&hostile, of) - percentile(&silent, of));
    Ok(delays.fold(f64::NEG_INFINITY, f64::max))
}

/// Returns the script of a model that calls a tool of each server at the same time, in each turn.
fn model_script() -> String {
    let call = |server: &str| json!({"call": {"name": format!("mcp__{server}__t"), "args": {}}});
    let turn = [
        call("bad"),
        call("good"),
        json!({"end": "tool_calls"}),
        json!({"text": "done"}),
        json!({"end": "end_turn"}),
    ];
    let turn: String = turn.iter().map(|line| format!("{line}\n")).collect();
    turn.repeat(SCRIPTED_TURNS)
}

/// Returns the behaviours of n servers. Every behaviour occurs once before any behaviour occurs
/// again. Each server also gets behaviours of other groups at random.
fn random_servers(n: usize, random: &mut Random) -> Vec<Vec<&'static str>> {
    let mut servers = Vec::new();
    while servers.len() < n {
        // The last group sets the start of a flood. Without a flood, it has no effect.
        let groups = BEHAVIOURS.iter().enumerate().take(BEHAVIOURS.len() - 1);
        let each = groups.flat_map(|(group, words)| words.iter().map(move |word| (group, *word)));
        let mut each: Vec<_> = each.collect();
        random.shuffle(&mut each);
        servers.extend(each.into_iter().map(|(group, word)| {
            let mut server = vec![word];
            for (other, words) in BEHAVIOURS.iter().enumerate() {
                if other != group && random.next_below(3) == 0 {
                    server.push(words[random.next_below(words.len() as u64) as usize]);
                }
            }
            server
        }));
    }
    servers.truncate(n);
    servers
}

/// The times of calls in one round, in milliseconds.
#[derive(Default)]
struct CallTimes {
    /// Times of the calls of the other server in the session of the hostile server.
    beside: Vec<f64>,
    /// Times of turns with a call in another session.
    other: Vec<f64>,
}

impl CallTimes {
    fn extend(&mut self, rounds: Vec<Self>) {
        for round in rounds {
            self.beside.extend(round.beside);
            self.other.extend(round.other);
        }
    }
}

/// The agent in which the servers run, and the parameters of the rounds.
struct Rounds<'a> {
    built: &'a ReleasePrograms,
    agent: &'a SharedAgent,
    scratch: &'a ScratchFolders,
    mark: &'a str,
}

impl Rounds<'_> {
    /// Runs a round for each server, several at a time.
    fn run_all(&self, servers: &[Vec<&str>]) -> Result<Vec<CallTimes>, TaskError> {
        let run_lane = |lane: usize| {
            let servers = servers.iter().enumerate().skip(lane).step_by(LANES);
            let rounds = servers.map(|(number, behaviours)| {
                self.run_hostile_and_clean_session(behaviours).map_err(|stop| {
                    let why = stop.message().unwrap_or_default();
                    TaskError::Failed(format!("round {number}, {}: {why}", behaviours.join(" ")))
                })
            });
            rounds.collect::<Result<Vec<_>, _>>()
        };
        thread::scope(|threads| {
            let lanes: Vec<_> =
                (0..LANES).map(|lane| threads.spawn(move || run_lane(lane))).collect();
            let lanes = lanes.into_iter().map(|lane| flatten_join_result(lane.join()));
            Ok(lanes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        })
    }

    /// Runs two sessions at the same time. One session has a server with these behaviours and a
    /// well-behaved server. The other session has only a well-behaved server.
    fn run_hostile_and_clean_session(&self, behaviours: &[&str]) -> Result<CallTimes, TaskError> {
        let (good, bad) = (self.server("good", &[]), self.server("bad", behaviours));
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            let other = threads.spawn(|| {
                let session = self.open_session(&json!([good]))?;
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) && times.len() < SCRIPTED_TURNS - 1 {
                    let turn = run_turn_requiring_good_call(&session)?;
                    times.push(turn.duration.as_secs_f64() * 1000.0);
                    thread::sleep(TURN_INTERVAL);
                }
                session.close().map(|()| times)
            });
            let beside = self.time_calls_beside_hostile_server(&json!([bad, good]));
            is_over.store(true, Ordering::Relaxed);
            let (mut other, beside) = (flatten_join_result(other.join())?, beside?);
            // The first turn waits for the servers to start.
            other.drain(..other.len().min(1));
            Ok(CallTimes { beside, other })
        })
    }

    fn time_calls_beside_hostile_server(&self, servers: &Value) -> Result<Vec<f64>, TaskError> {
        let session = self.open_session(servers)?;
        let mut times = Vec::new();
        for _ in 0..TURNS {
            let turn = run_turn_requiring_good_call(&session)?;
            let time = turn.find_call_by_title(GOOD_TITLE).and_then(TimedCall::duration);
            let time = time.ok_or_else(|| TaskError::Failed("a call never ran".to_owned()))?;
            times.push(time.as_secs_f64() * 1000.0);
        }
        session.close().map(|()| times)
    }

    fn open_session(&self, servers: &Value) -> Result<SharedSession<'_>, TaskError> {
        SharedSession::open(self.agent, &self.scratch.cwd(), servers)
    }

    fn server(&self, name: &str, behaviours: &[&str]) -> Value {
        let env = json!([{"name": MARK_VARIABLE, "value": self.mark}]);
        let command = &self.built.mcp_server;
        json!({"name": name, "command": command, "args": behaviours, "env": env})
    }
}

/// The title of a call of the well-behaved server.
const GOOD_TITLE: &str = "t (good)";

/// Runs a turn with a call of the well-behaved server, which must complete.
fn run_turn_requiring_good_call(session: &SharedSession<'_>) -> Result<ReceivedTurn, TaskError> {
    let turn = session.run_turn(GOOD_TITLE, HOSTILE_CALL_TIME)?;
    let mut is_cancelled = turn.is_cancelled;
    while is_cancelled {
        // The script has two replies per turn. The cancelled turn did not use its second reply, so
        // another turn must use it.
        is_cancelled = session.run_turn(GOOD_TITLE, HOSTILE_CALL_TIME)?.is_cancelled;
    }
    match turn.find_call_by_title(GOOD_TITLE) {
        Some(call) if call.is_completed => Ok(turn),
        _ => {
            let calls = turn.describe();
            Err(TaskError::Failed(format!("no call of the good server completed: {calls}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_behaviour_occurs_and_the_seed_decides() {
        let servers = |seed| random_servers(200, &mut Random::new(seed));
        assert_eq!(servers(1), servers(1));
        assert_ne!(servers(1), servers(2));
        let used: BTreeSet<_> = servers(1).into_iter().flatten().collect();
        assert_eq!(used, BEHAVIOURS.iter().copied().flatten().copied().collect());
        assert_eq!(servers(1).len(), 200);
    }

    #[test]
    fn a_delay_of_some_calls_is_seen_beside_slower_ones() {
        let times = |delay: f64| {
            let slow = |at| if at % 50 == 0 { 40.0 } else { 5.0 };
            let delayed = |at| if at % 2 == 1 { delay } else { 0.0 };
            (0..1000).map(|at| slow(at) + delayed(at)).collect::<Vec<f64>>()
        };
        assert_eq!(largest_percentile_difference(times(0.0), times(0.0)).unwrap(), 0.0);
        assert_eq!(largest_percentile_difference(times(0.0), times(30.0)).unwrap(), 30.0);
        assert!(largest_percentile_difference(times(0.0), Vec::new()).is_err());
    }

    #[test]
    fn the_server_has_every_behaviour() {
        let server = include_str!("../../examples/mcp_server.rs");
        for behaviour in BEHAVIOURS.iter().copied().flatten() {
            assert!(server.contains(&format!("\"{behaviour}\"")), "{behaviour}");
        }
    }
}
