//! One turn: the model is asked, its calls are run, and it is asked again with their results.
//!
//! It knows nothing of the client; everything it shows goes to the session's handle.

use std::ops::ControlFlow;
use std::sync::Arc;

use acp_lifecycle::{Chunk, End, Ended, OpenCall, Role, SessionHandle, perform};
use acp_tools::{Context, Reach, Registry};
use acp_types::{Content, Reason, Status, ToolCallPatch, id};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::StopReason;
use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::error::Elapsed;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::model::{
    Call, Event, Message, Model, Replay, Reply, Request, Stop, ToolResult, ToolSpec,
};
use crate::{errors, limits};

mod begun;

use begun::Begun;

/// What a session remembers between turns.
#[derive(Debug, Default)]
pub(crate) struct History {
    messages: Vec<Arc<Message>>,
    /// How often the model was asked, failed attempts included.
    requests: usize,
}

impl History {
    fn say(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }
}

/// What a turn works with.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) name: &'a str,
    pub(crate) model: &'a dyn Model,
    pub(crate) registry: &'a Registry,
    pub(crate) context: &'a Context,
    pub(crate) handle: &'a SessionHandle,
    pub(crate) cancel: &'a CancellationToken,
}

/// What the model said in one reply.
#[derive(Default)]
struct Heard {
    text: String,
    thought: String,
    calls: Vec<Begun>,
    replay: Option<Replay>,
    stop: Option<Stop>,
    error: Option<String>,
    is_cancelled: bool,
}

impl Heard {
    /// Finds the newest call of an id that the model gave.
    fn begun(&mut self, model_id: &str) -> Option<&mut Begun> {
        self.calls.iter_mut().rev().find(|begun| begun.call.id == model_id)
    }
}

/// How a turn ends.
pub(crate) type Ending = Result<StopReason, Error>;

/// Runs a turn to its end.
pub(crate) async fn run(turn: Turn<'_>, history: &mut History, prompt: String) -> Ending {
    history.say(Message::user(prompt));
    for _ in 0..limits::MAX_TURN_REQUESTS {
        let heard = turn.listen(history).await;
        if let ControlFlow::Break(ending) = turn.act(heard, history).await {
            return ending;
        }
    }
    Ok(StopReason::MaxTurnRequests)
}

impl Turn<'_> {
    /// Asks the model and shows what it says as it says it.
    async fn listen(&self, history: &mut History) -> Heard {
        let request = Request {
            index: history.requests,
            system: Arc::default(),
            messages: history.messages.clone(),
            tools: self.tools(),
            ..Request::default()
        };
        history.requests += 1;
        let message = Ulid::generate().to_string();
        let mut reply = self.model.reply(request);
        let mut heard = Heard::default();
        while heard.stop.is_none() && heard.error.is_none() {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    heard.is_cancelled = true;
                    return heard;
                }
                event = self.next(&mut reply) => event,
            };
            match event {
                Ok(Some(event)) => self.hear(event, &message, &mut heard),
                Ok(None) => heard.error = Some("its reply was cut off".to_owned()),
                Err(_) => {
                    let seconds = limits::MODEL_IDLE.as_secs();
                    heard.error = Some(format!("it said nothing for {seconds} s"));
                }
            }
        }
        heard
    }

    /// Waits for what the model says next, and before that for a client that takes nothing.
    async fn next(&self, reply: &mut Reply) -> Result<Option<Event>, Elapsed> {
        self.handle.unstalled().await;
        tokio::time::timeout(limits::MODEL_IDLE, reply.next()).await
    }

    fn hear(&self, event: Event, message: &str, heard: &mut Heard) {
        match event {
            Event::Text(text) => {
                heard.text.push_str(&text);
                self.say(Role::Agent, message, text);
            }
            Event::Thought(text) => {
                heard.thought.push_str(&text);
                self.say(Role::Thought, message, text);
            }
            Event::CallStart { id, name } if heard.calls.len() < limits::MAX_REPLY_CALLS => {
                if let Some(open) = self.begin(&id, &name, message) {
                    heard.calls.push(Begun::new(open, id, name));
                }
            }
            Event::CallArguments { id, fragment } => {
                if let Some(begun) = heard.begun(&id) {
                    begun.hear(&fragment, self);
                }
            }
            Event::CallEnd { id } => {
                if let Some(begun) = heard.begun(&id) {
                    begun.end(self);
                }
            }
            Event::Replay(replay) => heard.replay = Some(replay),
            Event::Stop(stop) => heard.stop = Some(stop),
            Event::Error(error) => heard.error = Some(error.to_string()),
            _ => {}
        }
    }

    fn say(&self, role: Role, message: &str, text: String) {
        self.handle.say(Chunk { role, message: message.to_owned(), text });
    }

    /// Tells the client of a call whose arguments are still to come.
    fn begin(&self, model_id: &str, name: &str, batch: &str) -> Option<OpenCall> {
        let is_taken = |id: &str| self.handle.has_seen(&id.to_owned().into());
        let id = id::tool_call_id(self.name, model_id, is_taken, || Ulid::generate().to_string());
        let open =
            self.registry.announce(self.handle, &id, self.name, name, self.context, self.cancel)?;
        open.handle().change_meta(|meta| meta.batch = Some(batch.to_owned()));
        Some(open)
    }

    /// Does what the model asked for; breaks when the turn is over.
    async fn act(&self, heard: Heard, history: &mut History) -> ControlFlow<Ending> {
        let Heard { text, thought, calls, replay, stop, error, is_cancelled } = heard;
        if is_cancelled || error.is_some() {
            let reason = if is_cancelled { Reason::Turn } else { Reason::Error };
            calls.into_iter().for_each(|begun| begun.open.finish(End::cancelled(reason)));
            // A turn without the calls that it did not make.
            history.say(Message::Assistant { text, thought, calls: Vec::new(), replay });
            return ControlFlow::Break(match error {
                Some(error) => Err(errors::model(&error)),
                None => Ok(StopReason::Cancelled),
            });
        }
        if !matches!(stop, Some(Stop::ToolCalls | Stop::EndTurn)) {
            // It stopped before it was done: what it began to ask for may be half of it.
            calls.into_iter().for_each(|begun| begun.open.finish(End::cancelled(Reason::Error)));
            history.say(Message::Assistant { text, thought, calls: Vec::new(), replay });
            return ControlFlow::Break(Ok(stop_reason(stop)));
        }
        let made = calls.iter().map(|begun| begun.call.clone()).collect();
        history.say(Message::Assistant { text, thought, calls: made, replay });
        if calls.is_empty() {
            return ControlFlow::Break(Ok(stop_reason(stop)));
        }
        let (results, fault) = self.run_calls(calls).await;
        history.say(Message::ToolResults(results));
        match fault {
            Some(fault) => ControlFlow::Break(Err(errors::fault(&fault))),
            None if self.cancel.is_cancelled() => ControlFlow::Break(Ok(StopReason::Cancelled)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Runs the calls of one reply. Neighbours that read, and neighbours that run commands, run
    /// together; changes run one after the other, and nothing overtakes them. Returns the results
    /// and the fault, if one was fatal.
    async fn run_calls(&self, calls: Vec<Begun>) -> (Vec<ToolResult>, Option<String>) {
        let (mut results, mut fault) = (Vec::new(), None);
        let mut calls = calls.into_iter().peekable();
        while let Some(first) = calls.next() {
            let reach = self.reach(&first);
            let mut group = vec![first];
            while reach != Some(Reach::Changes)
                && group.len() < limits::MAX_PARALLEL_CALLS
                && let Some(next) = calls.next_if(|next| self.reach(next) == reach)
            {
                group.push(next);
            }
            for (call, ended) in join_all(group.into_iter().map(|begun| self.run_call(begun))).await
            {
                if ended.is_fatal {
                    fault = Some(ended.text.clone());
                }
                results.push(ToolResult {
                    call_id: call.id,
                    name: call.name,
                    is_error: ended.status != Status::Completed,
                    text: ended.text,
                });
            }
            if fault.is_some() {
                break;
            }
        }
        // After a fault the rest is never run; dropping it ends it. Each call needs its result.
        results.extend(calls.map(|Begun { call, .. }| ToolResult {
            call_id: call.id,
            name: call.name,
            is_error: true,
            text: "It was not run, because the turn could not go on.".to_owned(),
        }));
        (results, fault)
    }

    fn reach(&self, begun: &Begun) -> Option<Reach> {
        match self.registry.spec(&begun.call.name)?.reach {
            Reach::Nothing => Some(Reach::Reads),
            reach => Some(reach),
        }
    }

    async fn run_call(&self, begun: Begun) -> (Call, Ended) {
        let args = begun.arguments();
        let Begun { open, call, .. } = begun;
        let ended = match args {
            Ok(args) => {
                // A task of its own, so that a panic outside of the tool ends one call only.
                let tool = self.registry.call(&call.name, args, self.context);
                tokio::spawn(perform(open, tool)).await.unwrap_or_else(|_| lost())
            }
            Err(text) => refuse(open, &call, text),
        };
        if ended.ends_turn {
            // Its neighbours must not keep the turn from ending.
            self.cancel.cancel();
        }
        (call, ended)
    }

    fn tools(&self) -> Arc<[ToolSpec]> {
        let specs = self.registry.iter().map(|tool| ToolSpec {
            name: tool.spec.name.to_owned(),
            description: tool.spec.description.to_owned(),
            input_schema: tool.input_schema,
        });
        specs.collect()
    }
}

/// Ends a call whose arguments nobody can read.
fn refuse(open: OpenCall, call: &Call, text: String) -> Ended {
    let patch = ToolCallPatch::new()
        .raw_input(Value::String(call.arguments.clone()))
        .raw_output(json!({ "error": text, "code": "invalid_arguments" }))
        .append(Content::text(text.clone()));
    open.finish(End::failed(Reason::Error).with(patch));
    let (status, reason) = (Status::Failed, Some(Reason::Error));
    Ended { status, reason, text, ends_turn: false, is_fatal: false }
}

fn lost() -> Ended {
    let text = "The call was lost by a fault of the agent.".to_owned();
    let (status, reason) = (Status::Cancelled, Some(Reason::Dropped));
    Ended { status, reason, text, ends_turn: false, is_fatal: false }
}

fn stop_reason(stop: Option<Stop>) -> StopReason {
    match stop {
        Some(Stop::MaxTokens) => StopReason::MaxTokens,
        Some(Stop::MaxTurnRequests) => StopReason::MaxTurnRequests,
        Some(Stop::Refusal) => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

#[cfg(test)]
mod tests;
