//! A whole ACP agent around tools without ACP: diffs, permission, progress, cancel.
//!
//! `cargo run -p acp-connection --example middleware_agent` serves a client on standard streams, one
//! session a connection; a prompt is the path of a note. Its test: `tests/middleware_agent.rs`.

use std::future::ready;
use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use acp::v1::schema::{self as v1, ContentBlock, StopReason};
use acp::{Client, ConnectTo, Error, on_receive_notification, on_receive_request};
use acp_connection::{ClientSession, Turn};
use acp_lifecycle::{BatchCall, Effect, Effects, Middleware, Session, progress};
use acp_types::{Content, Operation, ToolCallPatch, diff};
use agent_client_protocol as acp;
use serde_json::{Value, json};

/// The tools: any `async fn` of a name and arguments.
async fn run_tool(name: &str, args: Value) -> io::Result<String> {
    let path = args["path"].as_str().ok_or(ErrorKind::InvalidInput)?;
    let note = std::fs::read_to_string(path)?;
    let lines = note.lines().count();
    (1..=lines).for_each(|line| progress(line as f64, lines as f64, "counting"));
    match name {
        "count_lines" => Ok(format!("{lines} lines")),
        "add_line" => std::fs::write(path, note + LINE).map(|()| "added".to_owned()),
        _ => Err(ErrorKind::Unsupported.into()),
    }
}

const LINE: &str = "one more line\n";

/// What a call would do to the world. Of what is not known the user is asked.
fn effects(name: &str, args: &Value) -> Effects {
    match (name, args["path"].as_str()) {
        ("count_lines", Some(path)) => Effect::Read(path.into()).into(),
        ("add_line", Some(path)) => Effect::Write(path.into()).into(),
        _ => Effect::Unknown.into(),
    }
}

/// Shows the change of a file before the question.
fn preview(name: &str, args: &Value) -> Result<ToolCallPatch, String> {
    let ("add_line", Some(path)) = (name, args["path"].as_str()) else {
        return Ok(ToolCallPatch::new());
    };
    let note = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + Duration::from_millis(500);
    let change = diff::change(path, Operation::Modify, &note, &(note.clone() + LINE), deadline);
    Ok(ToolCallPatch::new().append(Content::Change(change)))
}

/// One turn. A model would be asked what to call; this one always calls the same two tools.
async fn run_turn(path: String, turn: Turn) -> acp::Result<StopReason> {
    let tools = Middleware::new(turn.session).effects(effects);
    let tools = tools.previews(|name, args| ready(preview(name, args)));
    let calls = [("a", "count_lines"), ("b", "add_line")];
    let calls = calls.map(|(id, name)| BatchCall::new(id, name, json!({ "path": path })));
    let _for_the_model = tools.batch(&turn.id, calls.into(), &turn.cancel, run_tool).await;
    Ok(StopReason::EndTurn)
}

/// The agent. Its handlers never wait, for the SDK's loop must go on.
pub(crate) fn agent(counters: Option<Arc<acp_transport::Counters>>) -> impl ConnectTo<Client> {
    let known = Arc::<(OnceLock<v1::ClientCapabilities>, OnceLock<ClientSession>)>::default();
    let [initialized, new, prompted, cancelled, closed] = [(); 5].map(|()| known.clone());
    acp::Agent
        .v1()
        .on_receive_request(
            async move |request: v1::InitializeRequest, responder, _| {
                initialized.0.get_or_init(|| request.client_capabilities);
                responder.respond(v1::InitializeResponse::new(request.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: v1::NewSessionRequest, responder, connection| {
                let session = new.1.get_or_init(|| {
                    let client = new.0.get().cloned().unwrap_or_default();
                    let session = Session::new(request.cwd);
                    let session = ClientSession::builder("note", session, &client, connection);
                    session.with_counters(counters.clone()).open()
                });
                responder.respond(v1::NewSessionResponse::new(session.id().clone()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: v1::PromptRequest, responder, _| match (
                request.prompt.into_iter().next(),
                prompted.1.get(),
            ) {
                (Some(ContentBlock::Text(path)), Some(session)) => {
                    session.prompt(responder, |turn| run_turn(path.text, turn))
                }
                _ => responder.respond_with_error(Error::invalid_params()),
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: v1::CancelNotification, _| {
                cancelled.1.get().into_iter().for_each(ClientSession::cancel);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_close(async move |_| {
            if let Some(session) = closed.1.get() {
                session.close(Duration::from_secs(1)).await;
            }
            Ok(())
        })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transport = acp_transport::stdio()?;
    Ok(agent(Some(transport.counters())).connect_to(transport).await?)
}
