//! A complete ACP agent around tools that do not use ACP, with diffs, permission, progress and
//! cancellation.
//!
//! `cargo run -p acp-connection --example middleware_agent` starts the agent. A prompt contains the
//! name of a note in the session's folder.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acp::v1::schema::{self as v1, ContentBlock, StopReason};
use acp::{Client, ConnectTo, Error, on_receive_request};
use acp_connection::{ClientSessions, Turn};
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

/// Returns the change of a file. The change is shown before the permission request.
async fn preview(path: Value) -> Result<ToolCallPatch, String> {
    let path = path.as_str().ok_or("There is no such note in the project folder.")?;
    let note = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let changed = note.clone() + LINE;
    Ok(ToolCallPatch::new().with_appended_content(FileChange::modify(path, note, changed).into()))
}

/// Returns the real path of an existing file in the project folder, or `None` for any other path.
fn resolve(cwd: &Path, path: &str) -> Option<String> {
    let path = cwd.join(path).canonicalize().ok()?;
    let is_inside = path.starts_with(cwd.canonicalize().ok()?);
    path.to_str().filter(|_| is_inside).map(str::to_owned)
}

/// Runs one turn. A model would choose the calls; this agent always calls the same two tools.
async fn run_turn(name: String, turn: Turn) -> acp::Result<StopReason> {
    let tools = ToolMiddleware::new(turn.session)
        .with_effects(effects)
        .with_previews(|name, args| (name == "add_line").then(|| preview(args["path"].clone())));
    let args = json!({ "path": resolve(&turn.cwd, &name) });
    let calls = [("a", "count_lines"), ("b", "add_line")];
    let calls = calls.map(|(id, name)| BatchCall::new(id, name, args.clone()));
    // A real loop ends if a result has `ends_turn`. If no result has `ends_turn`, a real loop
    // passes the results to its model.
    let _for_the_model = tools.call_batch(&turn.id, calls.into(), &turn.cancel, run_tool).await;
    Ok(StopReason::EndTurn)
}

/// Returns the agent. The agent's handlers never block, because a blocked handler would stop the
/// SDK's loop.
pub(crate) fn agent(
    counters: Option<Arc<acp_transport::TransportCounters>>,
) -> impl ConnectTo<Client> {
    let sessions = ClientSessions::default();
    let (new, prompted) = (sessions.clone(), sessions.clone());
    sessions
        .agent_builder(Duration::from_secs(1))
        .on_receive_request(
            async |request: v1::InitializeRequest, responder, _| {
                let answer = v1::InitializeResponse::new(request.protocol_version);
                responder.respond(answer.agent_capabilities(ClientSessions::agent_capabilities()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: v1::NewSessionRequest, responder, connection| {
                new.open_and_respond(request, responder, connection, |session| {
                    session.with_counters(counters.clone())
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: v1::PromptRequest, responder, _| {
                let Some(ContentBlock::Text(name)) = request.prompt.into_iter().next() else {
                    return responder.respond_with_error(Error::invalid_params());
                };
                prompted.queue_prompt_turn(&request.session_id, responder, |turn| {
                    run_turn(name.text, turn)
                })
            },
            on_receive_request!(),
        )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transport = acp_transport::stdio()?;
    Ok(agent(Some(transport.counters())).connect_to(transport).await?)
}
