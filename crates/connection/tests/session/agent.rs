//! An agent that executes the instructions in its prompts within a turn. The agent executes the
//! instructions in mode requests immediately.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::future::pending;
use std::mem::take;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_connection::{ClientRequestSender, ClientSession, ClientSessionBuilder, OpenRequest, Turn};
use acp_lifecycle::{CallEnd, Effect, Effects, Session, ToolMiddleware};
use acp_types::{
    CallEndReason, Content, MessageChunk, Plan, Role, SessionStatePart, TerminalExit, TerminalId,
    TerminalPatch, ToolCallId, ToolCallPatch, ToolKind,
};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, CloseSessionRequest, CloseSessionResponse,
    ContentBlock, CreateTerminalRequest, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ReadTextFileRequest, ReleaseTerminalRequest,
    SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, Result, on_receive_notification, on_receive_request,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) type BuilderChange = fn(ClientSessionBuilder) -> ClientSessionBuilder;

#[derive(Default)]
struct State {
    client: ClientCapabilities,
    session: Option<ClientSession>,
    /// Tasks that close sessions. Each close request is answered after its session is closed.
    closing: Vec<JoinHandle<Result<()>>>,
    /// Requests that the agent never answers.
    kept: Vec<OpenRequest<SetSessionModeResponse>>,
}

/// Time within which the client must answer.
const DEADLINE: Duration = Duration::from_secs(1);

/// Time for which a turn blocks its thread.
pub(crate) const BLOCKING_TURN_TIME: Duration = Duration::from_secs(3);

/// Time that a closing session waits for its turns.
const CLOSE_DEADLINE: Duration = Duration::from_millis(20);

pub(crate) fn agent(change: BuilderChange) -> impl ConnectTo<Client> {
    let state = Arc::<Mutex<State>>::default();
    let [initialized, new, prompted, set, cancelled, closed, ended] =
        [(); 7].map(|()| state.clone());
    Agent
        .v1()
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                initialized.lock().unwrap().client = request.client_capabilities;
                responder.respond(InitializeResponse::new(request.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client| {
                responder.respond(NewSessionResponse::new("s"))?;
                let mut state = new.lock().unwrap();
                let core = Session::new(request.cwd);
                let builder = ClientSession::builder("s", core, &state.client, client);
                state.session = Some(change(builder).open());
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, _| {
                let session = prompted.lock().unwrap().session.clone();
                match (session, request.prompt.into_iter().next()) {
                    (Some(session), Some(ContentBlock::Text(text))) => {
                        prompt(&session, text.text, responder)
                    }
                    _ => responder.respond_with_error(Error::invalid_params()),
                }
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest, responder, _| {
                set.lock().unwrap().set_mode(request, responder)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: CloseSessionRequest, responder, _| {
                let mut state = closed.lock().unwrap();
                let Some(session) = state.session.clone() else {
                    return responder.respond_with_error(Error::invalid_params());
                };
                state.closing.push(tokio::spawn(async move {
                    session.close(CLOSE_DEADLINE).await;
                    responder.respond(CloseSessionResponse::new())
                }));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: CancelNotification, _| {
                cancelled.lock().unwrap().session.iter().for_each(ClientSession::cancel);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_close(async move |_| {
            let (session, closing) = {
                let mut state = ended.lock().unwrap();
                (state.session.clone(), take(&mut state.closing))
            };
            if let Some(session) = session {
                session.close(CLOSE_DEADLINE).await;
            }
            futures::future::join_all(closing).await;
            Ok(())
        })
}

pub(crate) fn say(turn: &Turn, text: &str) {
    let chunk = |role| MessageChunk::new(role, turn.id.to_string(), text);
    turn.session.send_message_chunk(chunk(Role::Agent));
}

impl State {
    fn set_mode(
        &mut self,
        request: SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
    ) -> Result<()> {
        let Some(session) = &self.session else {
            return responder.respond_with_error(Error::invalid_params());
        };
        let open = session.open_request(responder);
        match &*request.mode_id.0 {
            "drop" => self.session = None,
            "keep" => self.kept.push(open),
            "forget" => {}
            mode => {
                session.handle().send_state(SessionStatePart::Mode(mode.to_owned()));
                open.respond(Ok(SetSessionModeResponse::new()));
            }
        }
        Ok(())
    }
}

fn prompt(
    session: &ClientSession,
    text: String,
    responder: Responder<PromptResponse>,
) -> Result<()> {
    let requests = session.request_sender().clone();
    session.queue_prompt_turn(responder, async move |turn: Turn| match &*text {
        "read" => Ok(read(&turn, &requests).await),
        "hold" => Ok(hold(&turn, requests).await),
        text => run(text, turn).await,
    })
}

/// Reads a file through the client, and reports the text or the error.
async fn read(turn: &Turn, requests: &ClientRequestSender) -> StopReason {
    say(turn, "before ");
    let read = requests.send_and_wait(ReadTextFileRequest::new("s", "/file"), DEADLINE).await;
    say(turn, &read.map_or_else(|error| error.to_string(), |answer| answer.content));
    StopReason::EndTurn
}

/// Keeps a client terminal open until the turn is cancelled.
async fn hold(turn: &Turn, requests: ClientRequestSender) -> StopReason {
    let create = CreateTerminalRequest::new("s", "true");
    let held = requests.clone();
    let acquired = requests.acquire_resource(create, DEADLINE, DEADLINE, move |made| {
        OnDrop(move || {
            let release = ReleaseTerminalRequest::new("s", made.terminal_id.clone());
            held.release_resource(release, DEADLINE);
        })
    });
    let _held = turn.cancel.run_until_cancelled(acquired).await;
    turn.cancel.cancelled().await;
    StopReason::EndTurn
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Announces a call whose first report already shows a terminal.
fn terminal(turn: &Turn) -> Option<()> {
    let (id, terminal) = (ToolCallId::new("call"), TerminalId::new("call"));
    let shown = ToolCallPatch::for_new_call("terminal", "Run it", ToolKind::Execute);
    let shown = shown.with_appended_content(Content::Terminal(terminal.clone()));
    let opened = TerminalPatch::for_new_terminal("run it", "/");
    turn.session.update(|session, now| session.announce_terminal(&terminal, opened, now));
    let call = turn.session.announce_call(&id, &turn.id, shown, &turn.cancel)?;
    turn.session.update(|session, now| session.start_call(&id, now));
    call.handle().append_terminal_output(&terminal, b"hello\n");
    call.handle().exit_terminal(&terminal, TerminalExit { code: Some(0), signal: None });
    call.finish(CallEnd::completed());
    Some(())
}

async fn run(text: &str, turn: Turn) -> Result<StopReason> {
    let tool = async |name: &str, _| Ok::<_, String>(name.to_owned());
    // Only calls with these names need permission.
    let effects = |name: &str, _: &Value| match name {
        "tool" | "ask" => Effects::from(Effect::Unknown),
        _ => Effects::empty(),
    };
    let tools = ToolMiddleware::new(turn.session.clone()).with_effects(effects);
    match text {
        "end" => Ok(StopReason::EndTurn),
        "refuse" => Ok(StopReason::Refusal),
        "fail" => Err(Error::internal_error()),
        "panic" => panic!("as it was told"),
        "wait" => {
            turn.cancel.cancelled().await;
            Err(Error::internal_error())
        }
        "ignore" => pending().await,
        "block" => {
            // Without `block_in_place`, tokio would not move the task that was woken last to
            // another thread while this thread blocks.
            tokio::task::block_in_place(|| {
                let (_open, never) = std::sync::mpsc::channel::<()>();
                assert!(never.recv_timeout(BLOCKING_TURN_TIME).is_err());
            });
            Ok(StopReason::EndTurn)
        }
        // Faulty turns. Each prompt must still receive the response of its turn.
        "end twice" => {
            turn.session.end_turn(&turn.id, CallEndReason::Turn);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            Ok(StopReason::EndTurn)
        }
        "say" => {
            for role in [Role::User, Role::Thought, Role::Agent] {
                let message = format!("{role:?}");
                turn.session.send_message_chunk(MessageChunk::new(
                    role,
                    message,
                    format!("{role:?} "),
                ));
            }
            turn.session.send_plan(Plan::default());
            Ok(StopReason::EndTurn)
        }
        "many" => {
            for id in 0..12 {
                let id = id.to_string();
                drop(tools.call(&turn.id, &id, "quiet", json!({}), &turn.cancel, tool).await);
            }
            Ok(StopReason::EndTurn)
        }
        "terminal" => {
            terminal(&turn).map(|()| StopReason::EndTurn).ok_or_else(Error::internal_error)
        }
        text => {
            let called = tools.call(&turn.id, "1", text, json!({}), &turn.cancel, tool).await;
            say(&turn, &called.unwrap_or_else(|ended| ended.text));
            Ok(StopReason::EndTurn)
        }
    }
}
