//! The rows for commands in the sandbox.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use super::RowMeasure::{Failed, Programs};
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{initialize, isolated_command, median};
use super::scratch::ScratchFolders;
use super::{AcceptanceRow, ReleasePrograms};
use crate::process::TaskError;

/// The rows of the command `accept` for the sandbox.
pub(super) const SANDBOX_ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "sandbox-cost",
        what: "additional ms of a command of the agent in a sandbox of namespaces, median of n \
               pairs",
        n: 100,
        target: Some(5.0),
        measure: Programs(|built, n| extra_command_ms(built, n, "namespaces")),
    },
    AcceptanceRow {
        name: "landlock-cost",
        what: "additional ms of a command of the agent in a sandbox of Landlock, median of n pairs",
        n: 100,
        target: Some(2.0),
        measure: Programs(|built, n| extra_command_ms(built, n, "landlock")),
    },
    AcceptanceRow {
        name: "sandbox-escapes",
        what: "failed tests of lines, system calls and n random changes that try to leave each \
               sandbox, as root and as an ordinary user",
        n: 100_000,
        target: Some(0.0),
        measure: Failed(
            "SANDBOX_TESTS_REQUIRE=namespaces,landlock ESCAPES_MUTATIONS=n test --profile laws \
             -p callboard-sandbox --all-features --test escapes",
        ),
    },
];

/// Runs n pairs of the command `true`, one in a sandbox of this isolation and one without. Returns
/// the median difference of the times of their turns, in milliseconds.
fn extra_command_ms(built: &ReleasePrograms, n: u32, isolation: &str) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("sandbox")?;
    let project = scratch.cwd().join("project");
    fs::create_dir(&project).map_err(|error| TaskError::Failed(error.to_string()))?;
    let start = |args: &[&str], mode: &str| {
        let mut command = isolated_command(&built.callboard, &scratch);
        if isolation == "landlock" {
            // The agent itself runs in a sandbox. That sandbox refuses namespaces, so the agent
            // uses Landlock for its commands. The outer sandbox protects names in its own project
            // folder, but not in the agent's project folder, which is a subfolder.
            command.args(["sandbox", "run", "--"]).arg(&built.callboard);
        }
        let args = [&["acp", "--ephemeral", "--model", "direct", "--mode", "auto"], args].concat();
        let mut agent = AgentProcess::start(command.args(args))?;
        initialize(&mut agent)?;
        let params = json!({"cwd": project, "mcpServers": []});
        let mut opened = agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
        let isolation = opened["_meta"]["callboard"]["sandbox"]["mode"].take();
        if isolation == mode {
            Ok((agent, opened["sessionId"].take()))
        } else {
            Err(TaskError::Failed(format!("the isolation is {isolation}, not {mode}")))
        }
    };
    let (mut plain, mut sandboxed) = (start(&["--no-sandbox"], "host")?, start(&[], isolation)?);
    // The first command creates the network of the session.
    let (_, _) = (time_true_command(&mut plain)?, time_true_command(&mut sandboxed)?);
    let pair = |_| Ok(time_true_command(&mut sandboxed)? - time_true_command(&mut plain)?);
    Ok(median((0..n).map(pair).collect::<Result<_, TaskError>>()?))
}

/// Runs the command `true`, and returns the milliseconds until its turn has ended.
fn time_true_command((agent, session): &mut (AgentProcess, Value)) -> Result<f64, TaskError> {
    let begun = Instant::now();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "run true"}]});
    let mut status = Value::Null;
    agent.request_and_wait("session/prompt", &prompt, DEADLINE, |message| {
        let update = &message["params"]["update"];
        if update["status"].is_string() {
            status = update["status"].clone();
        }
    })?;
    match &status {
        status if status == "completed" => Ok(begun.elapsed().as_secs_f64() * 1000.0),
        other => Err(TaskError::Failed(format!("the command has the status {other}"))),
    }
}
