//! A whole ACP agent on the SDK's connection, whose tools know nothing of ACP.
//!
//! `cargo run -p callboard --example middleware_agent` serves a client on standard streams, one
//! session a connection. Here are the tools, the turn and the handlers; `wire` is the only place
//! that sends.

mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use acp_lifecycle::{Effect, Effects, Middleware, Session, SessionHandle, drive};
use acp_types::{Reason, TurnId};
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, Result, Stdio, on_receive_notification, on_receive_request,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use wire::Wire;

/// The tools: any `async fn` of a name and arguments.
async fn run_tool(name: &str, args: Value) -> std::result::Result<String, String> {
    let text = args["text"].as_str().ok_or("text is missing")?;
    match name {
        "count_words" => Ok(format!("{} words", text.split_whitespace().count())),
        "publish_page" => Ok("published".to_owned()),
        _ => Err(format!("there is no tool {name}")),
    }
}

/// Counting does nothing to the world. Of the rest nothing is known, so the user is asked.
fn effects(name: &str, _: &Value) -> Effects {
    if name == "count_words" { Effects::none() } else { Effects::from(Effect::Unknown) }
}

/// Who waits for the answer of which turn, and what cancels it.
type Turns = HashMap<TurnId, (Responder<PromptResponse>, CancellationToken)>;

/// The session, and its tools in the middleware.
struct Open {
    handle: SessionHandle,
    tools: Middleware,
    turns: Mutex<Turns>,
}

impl Open {
    fn start(cwd: std::path::PathBuf, client: ConnectionTo<Client>) -> Arc<Self> {
        let handle = SessionHandle::new(Session::new(cwd), SystemTime::now);
        let tools = Middleware::new(handle.clone())
            .titles(|name, args| format!("{name} {args}"))
            .effects(effects);
        let open = Arc::new(Self { handle: handle.clone(), tools, turns: Mutex::default() });
        let wire = Wire::new(client, open.clone());
        drop(tokio::spawn(drive(handle, wire, CancellationToken::new())));
        open
    }

    /// One turn. A model would be asked what to call; this one always calls the same two tools.
    async fn turn(self: Arc<Self>, text: String, responder: Responder<PromptResponse>) {
        let (turn, cancel) = (TurnId::from(responder.id().to_string()), CancellationToken::new());
        self.turns().insert(turn.clone(), (responder, cancel.clone()));
        for (id, name) in [("a", "count_words"), ("b", "publish_page")] {
            let args = json!({ "text": text });
            match self.tools.call(&turn, id, name, args, &cancel, run_tool).await {
                Err(ended) if ended.ends_turn => break,
                _for_the_model => {}
            }
        }
        // Closes what is open; the answer goes out behind all of it.
        self.handle.end_turn(&turn, Reason::Turn);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent. Its handlers never wait, for the SDK's loop must go on.
pub(crate) fn agent() -> impl ConnectTo<Client> {
    let session = Arc::<OnceLock<Arc<Open>>>::default();
    let (opened, prompted, cancelled) = (session.clone(), session.clone(), session);
    Agent
        .v1()
        .on_receive_request(
            async |request: InitializeRequest, responder, _| {
                responder.respond(InitializeResponse::new(request.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client| {
                opened.get_or_init(|| Open::start(request.cwd, client));
                responder.respond(NewSessionResponse::new(SESSION))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, _| {
                let Some(open) = prompted.get().cloned() else {
                    return responder.respond_with_error(Error::invalid_params());
                };
                let text = |block: &ContentBlock| match block {
                    ContentBlock::Text(block) => Some(block.text.clone()),
                    _ => None,
                };
                let text = request.prompt.iter().filter_map(text).collect();
                drop(tokio::spawn(open.turn(text, responder)));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: CancelNotification, _| {
                let open = cancelled.get();
                open.iter().for_each(|open| open.turns().values().for_each(|turn| turn.1.cancel()));
                Ok(())
            },
            on_receive_notification!(),
        )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    agent().connect_to(Stdio::new()).await
}

const SESSION: &str = "session";
