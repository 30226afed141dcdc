//! The rows for servers of the Model Context Protocol.

use std::time::Instant;

use serde_json::{Value, json};

use super::RowMeasure::Programs;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{callboard_command, done_and_end_turn_lines, initialize, median};
use super::scratch::ScratchFolders;
use super::{AcceptanceRow, ReleasePrograms, mcp_hostile, mcp_left};
use crate::process::TaskError;

/// The rows of the command `accept` for servers.
pub(super) const MCP_ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "mcp-new",
        what: "additional ms of session/new with 20 MCP servers, of which 5 hang and 5 end at \
               once, median of n pairs",
        n: 41,
        target: Some(5.0),
        measure: Programs(extra_new_session_ms),
    },
    AcceptanceRow {
        name: "mcp-first-prompt",
        what: "ms by which a first prompt waits longer for hanging MCP servers than configured, \
               the slowest of n",
        n: 20,
        target: Some(100.0),
        measure: Programs(first_prompt_ms_over_limit),
    },
    AcceptanceRow {
        name: "mcp-left",
        what: "processes that are left after n agents, each with 5 MCP servers that try to stay, \
               are killed at random moments",
        n: 1_000,
        target: Some(0.0),
        measure: Programs(mcp_left::processes_after_kills),
    },
    AcceptanceRow {
        name: "mcp-hostile",
        what: "peak MiB of an agent beside n hostile MCP servers, at most 4 at a time; each call \
               must end once, and those of other servers must complete",
        n: 200,
        target: Some(64.0),
        measure: Programs(mcp_hostile::peak_memory_with_hostile_servers),
    },
    AcceptanceRow {
        name: "mcp-hostile-delay",
        what: "ms by which calls of another MCP server, or turns of another session, take longer \
               beside n hostile MCP servers than beside silent ones, the largest of p1 to p99",
        n: 200,
        target: Some(10.0),
        measure: Programs(mcp_hostile::call_delay),
    },
];

/// Number of servers that hang, and number of servers that exit at once. Twice this number of
/// servers work.
const FAILING_SERVERS: usize = 5;

/// Returns the additional time of `session/new` with servers, in milliseconds. The result is the
/// median of n pairs of requests, one with servers and one without.
fn extra_new_session_ms(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("mcp-new")?;
    let behaviours = ["", "", "hangs", "dies"].repeat(FAILING_SERVERS);
    let (none, servers) = (json!([]), servers(built, &behaviours));
    let time = |servers: &Value| {
        let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, "direct"))?;
        initialize(&mut agent)?;
        let params = json!({"cwd": scratch.cwd(), "mcpServers": servers});
        let begun = Instant::now();
        agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
        let elapsed = begun.elapsed().as_secs_f64() * 1000.0;
        agent.end()?;
        Ok::<_, TaskError>(elapsed)
    };
    let pair = |_| Ok(time(&servers)? - time(&none)?);
    Ok(median((0..n).map(pair).collect::<Result<_, TaskError>>()?))
}

/// Runs n first prompts in sessions with hanging servers. Returns the milliseconds by which the
/// slowest prompt exceeds the configured wait of one second.
fn first_prompt_ms_over_limit(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("mcp-first-prompt")?;
    scratch.write_user_config("[mcp]\nfirst_prompt_wait = 1\n")?;
    let script = scratch.write_file("script.jsonl", &done_and_end_turn_lines())?;
    let model = format!("script:{}", script.display());
    let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, &model))?;
    initialize(&mut agent)?;
    let servers = servers(built, &["hangs"; FAILING_SERVERS]);
    let mut slowest = f64::NEG_INFINITY;
    for _ in 0..n {
        let params = json!({"cwd": scratch.cwd(), "mcpServers": servers});
        let opened = agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
        let session = &opened["sessionId"];
        let prompt = json!([{"type": "text", "text": "go"}]);
        let begun = Instant::now();
        let params = json!({"sessionId": session, "prompt": prompt});
        agent.request_and_wait("session/prompt", &params, DEADLINE, |_| ())?;
        let over = (begun.elapsed().as_secs_f64() - 1.0) * 1000.0;
        if over < 0.0 {
            return Err(TaskError::Failed(format!("a prompt did not wait: {over} ms")));
        }
        slowest = slowest.max(over);
        let params = json!({"sessionId": session});
        agent.request_and_wait("session/close", &params, DEADLINE, |_| ())?;
    }
    agent.end()?;
    Ok(slowest)
}

/// Returns servers with these behaviours of the example `mcp_server`, in the form in which a client
/// sends them in `session/new`.
fn servers(built: &ReleasePrograms, behaviours: &[&str]) -> Value {
    let server = |(number, behaviour): (usize, &&str)| {
        let args: Vec<_> = Some(*behaviour).filter(|it| !it.is_empty()).into_iter().collect();
        let name = format!("s{number}");
        json!({"name": name, "command": built.mcp_server, "args": args, "env": []})
    };
    behaviours.iter().enumerate().map(server).collect()
}
