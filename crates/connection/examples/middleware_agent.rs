//! A complete ACP agent around tools that do not use ACP, with diffs, permission, progress and
//! cancellation.
//!
//! `cargo run -p acp-connection --example middleware_agent` starts the agent. A prompt contains the
//! name of a note in the session's folder.

use std::io::{self, ErrorKind};

use acp::Error;
use acp::v1::schema::{ContentBlock, Implementation, StopReason};
use acp_connection::{Turn, serve_stdio};
use acp_lifecycle::{BatchCall, Effect, Effects, ToolMiddleware, report_progress};
use acp_types::{FileChange, ToolCallPatch};
use agent_client_protocol as acp;
use serde_json::{Value, json};

/// The tools: any `async fn` that accepts a name and arguments.
async fn run_tool(name: &str, args: Value) -> io::Result<String> {
    let path = args["path"].as_str().ok_or(ErrorKind::InvalidInput)?;
    let note = std::fs::read_to_string(path)?;
    let lines = note.lines().count();
    (1..=lines).for_each(|line| report_progress(line as f64, lines as f64, "counting"));
    match name {
        "count_lines" => Ok(format!("{lines} lines")),
        "add_line" => std::fs::write(path, note + LINE).map(|()| "added".to_owned()),
        _ => Err(ErrorKind::Unsupported.into()),
    }
}

const LINE: &str = "one more line\n";

/// Returns the effects of a call. The user is asked about unknown effects.
fn effects(name: &str, args: &Value) -> Effects {
    match (name, args["path"].as_str()) {
        ("count_lines", Some(path)) => Effect::Read(path.into()).into(),
        ("add_line", Some(path)) => Effect::Write(path.into()).into(),
        _ => Effect::Unknown.into(),
    }
}

/// Returns the change that `add_line` would make to the file. The client shows the change before it
/// asks for permission.
async fn preview(path: Value) -> Result<ToolCallPatch, String> {
    let path = path.as_str().ok_or("The path is missing.")?;
    let note = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let changed = note.clone() + LINE;
    Ok(ToolCallPatch::new().with_appended_content(FileChange::modify(path, note, changed).into()))
}

/// Runs one turn. A model would choose the calls; this agent always calls the same two tools.
pub(crate) async fn run_turn(prompt: Vec<ContentBlock>, turn: Turn) -> acp::Result<StopReason> {
    let Some(ContentBlock::Text(name)) = prompt.first() else {
        return Err(Error::invalid_params());
    };
    let (args, folder) = (json!({ "path": name.text }), turn.clone());
    let tools = ToolMiddleware::new(turn.session)
        .with_path_arguments(["path"], move |path| folder.resolve_path_within_cwd(path))
        .with_effects(effects)
        .with_previews(|name, args| (name == "add_line").then(|| preview(args["path"].clone())));
    let calls = [("a", "count_lines"), ("b", "add_line")];
    let calls = calls.map(|(id, name)| BatchCall::new(id, name, args.clone()));
    // A real loop ends if a result has `ends_turn`. If no result has `ends_turn`, a real loop
    // passes the results to its model.
    let _for_the_model = tools.call_batch(&turn.id, calls.into(), &turn.cancel, run_tool).await;
    Ok(StopReason::EndTurn)
}

pub(crate) fn info() -> Implementation {
    Implementation::new("middleware-agent", env!("CARGO_PKG_VERSION"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> acp::Result<()> {
    serve_stdio(info(), run_turn).await
}
