//! `bench --peers`: the same turns in callboard, in a floor agent that does only what ACP requires,
//! and in other agents that are installed.
//!
//! All agents use the scripted model server of this repository, with a home folder of their own. An
//! agent that is not installed is left out. A figure that cannot be measured is shown as a dash.

mod known;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use self::known::{KNOWN_PEERS, Peer};
use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{initialize, median, read_memory_mib};
use super::model_server::{ModelServerProcess, final_reply, reply_with_steps};
use super::scratch::ScratchFolders;
use super::shared_agent::{SharedAgent, SharedSession};
use crate::process::TaskError;
use crate::ui::Ui;

/// Number of processes that are started for each agent.
const PROCESSES: usize = 5;
/// Number of turns with text, after [`WARM_UP`].
const TEXT_TURNS: usize = 10;
/// Number of reads in one turn, after [`WARM_UP`].
const READS: usize = 20;
const WARM_UP: usize = 3;
/// One more read than intervals between reads, and some more for other requests of an agent.
const SCRIPTED_READS: usize = WARM_UP + READS + 1 + 5;
/// Additional replies, because an agent may make other requests, e.g. for the title of a session.
/// Such a request receives the next reply of the script.
const SPARE_REPLIES: usize = 10;

/// The figures of one agent. A figure is NaN if it could not be measured.
struct PeerFigures {
    name: String,
    initialize_ms: f64,
    ready_ms: f64,
    memory_mib: f64,
    text_turn_ms: f64,
    read_ms: f64,
}

/// Measures the floor agent, callboard and all installed peers. Prints a table in Markdown.
pub(super) fn compare_with_peers(built: &ReleasePrograms, ui: &mut Ui<'_>) {
    let callboard = Peer {
        name: "callboard",
        program: "callboard",
        args: &["acp", "--model", "openai/scripted", "--mode", "auto"],
        env: &[("OPENAI_BASE_URL", "{url}/v1"), ("OPENAI_API_KEY", "sk-scripted")],
        files: &[],
        read: ("read_file", r#"{"path": "{path}"}"#),
    };
    let floor = Peer {
        name: "floor",
        program: "floor_agent",
        args: &[],
        env: &[("OPENAI_BASE_URL", "{url}/v1")],
        files: &[],
        read: callboard.read,
    };
    let found = KNOWN_PEERS.iter().filter_map(|peer| Some((peer, find_program(peer.program)?)));
    let ours = [(&floor, built.floor.clone()), (&callboard, built.callboard.clone())];
    let all = ours.into_iter().chain(found);
    ui.print_line_to_stdout(
        "| agent | initialize, ms | ready, ms | memory, MiB | text turn, ms | read call, ms |",
    );
    ui.print_line_to_stdout("|---|---:|---:|---:|---:|---:|");
    for (peer, program) in all {
        let figures = measure_peer(built, peer, &program, ui);
        ui.print_line_to_stdout(figures.table_row());
    }
}

impl PeerFigures {
    fn table_row(&self) -> String {
        let values =
            [self.initialize_ms, self.ready_ms, self.memory_mib, self.text_turn_ms, self.read_ms];
        let cells = values.map(|value| match value {
            value if value.is_nan() => " – |".to_owned(),
            value if value < 100.0 => format!(" {value:.1} |"),
            value => format!(" {value:.0} |"),
        });
        format!("| {} |{}", self.name, cells.concat())
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn measure_peer(built: &ReleasePrograms, peer: &Peer, program: &Path, ui: &Ui<'_>) -> PeerFigures {
    let mut figures = PeerFigures {
        name: peer.name.to_owned(),
        initialize_ms: f64::NAN,
        ready_ms: f64::NAN,
        memory_mib: f64::NAN,
        text_turn_ms: f64::NAN,
        read_ms: f64::NAN,
    };
    let run = MeasuredPeer { built, peer, program };
    for measured in [figures.measure_start_and_text_turns(&run), figures.measure_reads(&run)] {
        if let Some(why) = measured.as_ref().err().and_then(TaskError::message) {
            ui.print_remark_to_stderr(format_args!("{}: {why}", peer.name));
        }
    }
    figures
}

/// An agent to measure, and its program.
struct MeasuredPeer<'a> {
    built: &'a ReleasePrograms,
    peer: &'a Peer,
    program: &'a Path,
}

impl MeasuredPeer<'_> {
    fn create_scratch_with_config(&self, address: &str) -> Result<ScratchFolders, TaskError> {
        let scratch = ScratchFolders::new(&format!("peer-{}", self.peer.name))?;
        for (path, text) in self.peer.files {
            let path = format!("home/{path}");
            scratch.write_file(&path, &fill_in_server_url(text, address))?;
        }
        Ok(scratch)
    }

    fn command(&self, address: &str, scratch: &ScratchFolders) -> Command {
        let mut command = Command::new(self.program);
        // A key of the user must not reach the agents.
        command.env_clear().env("HOME", scratch.home()).current_dir(scratch.cwd());
        command.envs(["PATH", "TMPDIR"].iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command
            .stderr(Stdio::null())
            .args(self.peer.args.iter().map(|arg| fill_in_server_url(arg, address)));
        for (name, value) in self.peer.env {
            command.env(name, fill_in_server_url(value, address));
        }
        command
    }
}

fn fill_in_server_url(text: &str, address: &str) -> String {
    text.replace("{url}", &format!("http://{address}"))
}

impl PeerFigures {
    /// Measures the start of processes and sessions, and turns whose reply is one sentence.
    fn measure_start_and_text_turns(&mut self, run: &MeasuredPeer<'_>) -> Result<(), TaskError> {
        let server_scratch = ScratchFolders::new("peer-server")?;
        let replies = TEXT_TURNS + WARM_UP + SPARE_REPLIES;
        // Some agents stop a model that repeats itself.
        let answers = (0..replies).map(|number| {
            reply_with_steps(&json!([{"text": format!("This is the reply {number}.")}]))
        });
        let server = ModelServerProcess::start(run.built, &server_scratch, answers)?;
        let scratch = run.create_scratch_with_config(server.address())?;
        let (mut initialize_ms, mut ready_ms) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES {
            let start = Instant::now();
            let mut agent = AgentProcess::start(&mut run.command(server.address(), &scratch))?;
            let _killed = KillTreeOnDrop(agent.pid());
            let response = initialize(&mut agent)?;
            initialize_ms.push(start.elapsed().as_secs_f64() * 1_000.0);
            if let Some(version) = response["agentInfo"]["version"].as_str() {
                self.name = format!("{} {version}", run.peer.name);
            }
            let params = json!({"cwd": scratch.cwd(), "mcpServers": []});
            agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
            ready_ms.push(start.elapsed().as_secs_f64() * 1_000.0);
        }
        (self.initialize_ms, self.ready_ms) = (median(initialize_ms), median(ready_ms));
        let log = scratch.cwd().with_file_name("agent.log");
        let agent = SharedAgent::start(&mut run.command(server.address(), &scratch), log)?;
        let _killed = KillTreeOnDrop(agent.pid());
        let session = SharedSession::open(&agent, &scratch.cwd(), &json!([]))?;
        let mut times = Vec::new();
        for turn in 0..TEXT_TURNS + WARM_UP {
            let duration = session.run_turn("", DEADLINE)?.duration;
            if turn >= WARM_UP {
                times.push(duration.as_secs_f64() * 1_000.0);
            }
        }
        self.text_turn_ms = median(times);
        let processes = process_tree(agent.pid())?;
        // A process may have exited meanwhile.
        let memory = processes.iter().filter_map(|pid| read_memory_mib(*pid, "VmRSS:").ok());
        self.memory_mib = memory.sum();
        Ok(())
    }

    /// Measures calls that read a file of 2.5 kB: the time from the end of a call to the end of the
    /// next one, between which the agent sends a request and receives a reply.
    fn measure_reads(&mut self, run: &MeasuredPeer<'_>) -> Result<(), TaskError> {
        let server_scratch = ScratchFolders::new("peer-server")?;
        let cwd = server_scratch.cwd();
        let read = |number: usize| {
            let path = cwd.join(format!("{number}.txt")).display().to_string();
            let (tool, args) = run.peer.read;
            let call = json!({"id": format!("call_{number}"), "name": tool, "args": args.replace("{path}", &path)});
            reply_with_steps(&json!([{ "call": call }]))
        };
        let reads = (0..SCRIPTED_READS).map(read);
        let answers = reads.chain(std::iter::repeat_n(final_reply(), SPARE_REPLIES));
        let server = ModelServerProcess::start(run.built, &server_scratch, answers)?;
        for number in 0..SCRIPTED_READS {
            let text = "twenty-five bytes a line\n".repeat(100);
            server_scratch.write_file(&format!("cwd/{number}.txt"), &text)?;
        }
        let scratch = run.create_scratch_with_config(server.address())?;
        let log = scratch.cwd().with_file_name("agent.log");
        let agent = SharedAgent::start(&mut run.command(server.address(), &scratch), log)?;
        let _killed = KillTreeOnDrop(agent.pid());
        let session = SharedSession::open(&agent, &cwd, &json!([]))?;
        let ends = session.run_turn("", DEADLINE)?.ends_of_completed_calls();
        let between = ends.windows(2).skip(WARM_UP).take(READS).filter_map(|pair| match pair {
            [one, next] => Some(next.duration_since(*one).as_secs_f64() * 1_000.0),
            _ => None,
        });
        let between: Vec<_> = between.collect();
        match between.len() {
            READS => self.read_ms = median(between),
            _ => return Err(TaskError::Failed(format!("{} reads completed", ends.len()))),
        }
        Ok(())
    }
}

/// Returns the ids of a process and of all of its descendants.
fn process_tree(pid: u32) -> Result<Vec<u32>, TaskError> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    let processes = fs::read_dir("/proc");
    let processes = processes.map_err(|error| TaskError::Failed(format!("/proc: {error}")))?;
    for process in processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()) {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name of a program can contain spaces and parentheses.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        if let Some(parent) = fields.split_whitespace().nth(1).and_then(|id| id.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    let (mut found, mut next) = (vec![pid], 0);
    while let Some(process) = found.get(next) {
        found.extend(children.remove(process).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// Kills a process and all of its descendants when it is dropped, so that they take no time from
/// the next measurement.
struct KillTreeOnDrop(u32);

impl Drop for KillTreeOnDrop {
    fn drop(&mut self) {
        let Ok(processes) = process_tree(self.0) else { return };
        let ids = processes.iter().map(u32::to_string);
        let mut kill = Command::new("sh");
        kill.args(["-c", r#"kill -KILL "$@""#, "sh"]).args(ids);
        // Some of the processes may have exited meanwhile.
        drop(kill.stderr(Stdio::null()).status());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::KillOnDrop;

    #[test]
    fn a_row_shows_measured_values_and_dashes() {
        let figures = PeerFigures {
            name: "agent 1.0".to_owned(),
            initialize_ms: 7.64,
            ready_ms: 99.96,
            memory_mib: 120.4,
            text_turn_ms: f64::NAN,
            read_ms: 0.04,
        };
        assert_eq!(figures.table_row(), "| agent 1.0 | 7.6 | 100.0 | 120 | – | 0.0 |");
    }

    /// Returns whether a process has not exited. An exited process may still wait for its parent.
    fn is_running(pid: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    }

    #[test]
    fn a_process_tree_contains_all_descendants_and_can_be_killed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 600; :'; :"]);
        let shell = KillOnDrop(shell.spawn().unwrap());
        let end = Instant::now() + DEADLINE;
        let mut found = Vec::new();
        while found.len() < 3 {
            assert!(Instant::now() < end);
            found = process_tree(shell.0.id()).unwrap();
        }
        assert_eq!(found[0], shell.0.id());
        drop(KillTreeOnDrop(shell.0.id()));
        drop(shell);
        while found.iter().any(|pid| is_running(*pid)) {
            assert!(Instant::now() < end);
        }
    }

    #[test]
    fn each_known_agent_gets_the_address_of_the_model_server_and_the_path() {
        for peer in KNOWN_PEERS {
            let values = peer.env.iter().chain(peer.files).map(|(_, text)| text);
            let mut texts = peer.args.iter().chain(values);
            assert!(texts.any(|text| text.contains("{url}")), "{}", peer.name);
            let args: serde_json::Value = serde_json::from_str(peer.read.1).unwrap();
            assert!(args.to_string().contains("{path}"), "{}", peer.name);
        }
    }
}
