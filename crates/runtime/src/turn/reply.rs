//! A reply of the model while it streams: text is shown at once, calls are announced, and all of it is
//! kept until the reply is whole.
//!
//! It runs no call.

use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::{Arriving, End, OpenCall};
use acp_types::{Chunk, Reason, Role};
use callboard_models::{Call, Event, Fault, ModelError, Replay, Reply, Request, Stop, Usage};
use serde_json::{Value, json};
use ulid::Ulid;

use super::history::History;
use super::{Turn, context, updates};
use crate::limits;
use crate::options::Chosen;
use crate::retry::{PartialOutput, next_event};

/// A reply, as far as it has come.
pub(super) struct StreamedReply {
    /// Names the reply.
    id: String,
    /// Whose words came last, and the message that they belong to.
    speaking: Option<(Role, String)>,
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) calls: Vec<PendingCall>,
    /// What the provider wants repeated; only if all of the reply is.
    pub(super) replay: Option<Replay>,
    usage: Option<Usage>,
    pub(super) stop: Option<Stop>,
    pub(super) error: Option<ModelError>,
    pub(super) is_cancelled: bool,
    /// Bytes of all of it.
    bytes: usize,
    /// Calls over [`limits::MAX_REPLY_CALLS`], and those that the session did not take.
    pub(super) left_out: usize,
}

impl StreamedReply {
    fn new() -> Self {
        Self {
            id: Ulid::generate().to_string(),
            speaking: None,
            text: String::new(),
            thought: String::new(),
            calls: Vec::new(),
            replay: None,
            usage: None,
            stop: None,
            error: None,
            is_cancelled: false,
            bytes: 0,
            left_out: 0,
        }
    }

    /// Asks the model and shows its reply while it comes.
    pub(super) async fn receive(turn: &Turn<'_>, history: &mut History) -> Self {
        let chosen = (turn.chosen)();
        let system = context::system(turn, &chosen);
        let weight = system.weight + history.weight();
        let mut stream = chosen.model.reply(request(turn, &chosen, system.text, history));
        let mut reply = Self::new();
        while reply.stop.is_none() && reply.error.is_none() && !reply.is_cancelled {
            tokio::select! {
                biased;
                () = turn.cancel.cancelled() => reply.is_cancelled = true,
                event = next(turn, &mut stream) => match event {
                    Ok(event) => {
                        turn.secrets.renew();
                        reply.push(event, turn);
                    }
                    Err(error) => reply.error = Some(error),
                },
            }
        }
        if reply.left_out > 0 {
            reply.replay = None;
        }
        updates::send_usage(turn.handle, reply.usage.as_ref(), &chosen, history);
        if let Some(tokens) = reply.usage.and_then(|usage| usage.input_tokens) {
            history.budget(&chosen).learn(weight, tokens);
        }
        reply
    }

    /// Returns whether a part of the reply was shown.
    pub(super) fn partial_output(&self) -> PartialOutput {
        match self.is_silent() {
            true => PartialOutput::None,
            false => PartialOutput::Shown,
        }
    }

    /// Returns whether nothing of the reply was shown.
    pub(super) fn is_silent(&self) -> bool {
        self.text.is_empty() && self.thought.is_empty() && self.calls.is_empty()
    }

    /// Ends the calls of a reply that is not whole: they are not run, and nobody repeats them.
    pub(super) fn drop_calls(&mut self) {
        let reason = if self.is_cancelled { Reason::Turn } else { Reason::Error };
        self.calls.drain(..).for_each(|call| call.open.finish(End::cancelled(reason)));
    }

    /// Finds the newest call of an id that the model gave.
    fn call(&mut self, model_id: &str) -> Option<&mut PendingCall> {
        self.calls.iter_mut().rev().find(|pending| pending.call.id == model_id)
    }

    fn push(&mut self, event: Event, turn: &Turn<'_>) {
        match event {
            Event::Text(text) => {
                self.text.push_str(&text);
                self.say(Role::Agent, text, turn);
            }
            Event::Thought(text) => {
                self.thought.push_str(&text);
                self.say(Role::Thought, text, turn);
            }
            Event::CallStart { id, name } => self.begin(id, name, turn),
            Event::CallArguments { id, fragment } => {
                self.bytes += fragment.len();
                if let Some(call) = self.call(&id) {
                    call.push(&fragment, turn);
                }
            }
            Event::CallEnd { id } => {
                if let Some(call) = self.call(&id) {
                    call.end(turn);
                }
            }
            Event::Replay(replay) => self.replay = Some(replay),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Stop(stop) => self.stop = Some(stop),
            Event::Error(error) => self.error = Some(error),
            _ => {}
        }
        if self.bytes > limits::MAX_REPLY_BYTES {
            let message = format!("its reply is over {} bytes", limits::MAX_REPLY_BYTES);
            self.error = Some(ModelError::new(Fault::Other, message));
        }
    }

    /// Shows words. They are of the same message as those before, unless somebody else spoke or a
    /// call began in between: clients join what belongs to one message.
    fn say(&mut self, role: Role, text: String, turn: &Turn<'_>) {
        self.bytes += text.len();
        let message = match &self.speaking {
            Some((speaking, message)) if *speaking == role => message.clone(),
            _ => Ulid::generate().to_string(),
        };
        self.speaking = Some((role, message.clone()));
        turn.handle.say(Chunk { role, message, text });
    }

    /// Tells the client of a call whose arguments are still to come.
    fn begin(&mut self, id: String, name: String, turn: &Turn<'_>) {
        self.speaking = None;
        let open = match self.calls.len() < limits::MAX_REPLY_CALLS {
            true => turn.begin(&id, &name, &self.id),
            false => None,
        };
        match open {
            Some(open) => self.calls.push(PendingCall::new(open, id, name)),
            None => self.left_out += 1,
        }
    }
}

fn request(turn: &Turn<'_>, chosen: &Chosen, system: Arc<str>, history: &mut History) -> Request {
    Request {
        index: history.count_request(chosen.taken_up),
        system,
        messages: history.messages().clone(),
        tools: turn.tools.clone(),
        effort: chosen.effort,
        ..Request::default()
    }
}

/// Waits for what the model says next, and before that for a client that takes nothing.
async fn next(turn: &Turn<'_>, stream: &mut Reply) -> Result<Event, ModelError> {
    turn.handle.unstalled().await;
    next_event(stream).await
}

/// A call whose arguments come, or have come.
pub(super) struct PendingCall {
    pub(super) open: OpenCall,
    pub(super) call: Call,
    progress: Progress,
    arriving: Arriving,
    /// Bytes of the arguments when the client was told last.
    told: usize,
}

/// How much of a call's arguments has come, and what they are or why they are none.
enum Progress {
    Coming,
    Ended(Result<Value, String>),
}

impl PendingCall {
    /// Begins a call of which the model has said only the name.
    pub(super) fn new(open: OpenCall, id: String, name: String) -> Self {
        Self {
            open,
            call: Call { id, name, arguments: String::new() },
            progress: Progress::Coming,
            arriving: Arriving::default(),
            told: 0,
        }
    }

    /// Takes the next fragment, and tells the client of every argument that is whole and of every
    /// [`limits::ARGUMENTS_TOLD_EVERY`] bytes.
    pub(super) fn push(&mut self, fragment: &str, turn: &Turn<'_>) {
        if !matches!(self.progress, Progress::Coming) {
            return;
        }
        self.call.arguments.push_str(fragment);
        let len = self.call.arguments.len();
        if len > limits::MAX_ARGUMENT_BYTES {
            self.call.arguments.clear();
            let text = format!("The arguments are over {} bytes.", limits::MAX_ARGUMENT_BYTES);
            self.progress = Progress::Ended(Err(text));
            return;
        }
        if self.arriving.push(fragment) || len - self.told >= limits::ARGUMENTS_TOLD_EVERY {
            self.told = len;
            let (call, name) = (self.open.handle(), &self.call.name);
            turn.registry.arriving(call, name, &self.arriving, turn.context);
        }
    }

    /// Notes that the arguments are whole, and tells the client what the call is about.
    pub(super) fn end(&mut self, turn: &Turn<'_>) {
        if !matches!(self.progress, Progress::Coming) {
            return;
        }
        let args = read(&self.call.arguments);
        if let Ok(args) = &args {
            turn.registry.describe(self.open.handle(), &self.call.name, args, turn.context);
        }
        // Nothing more comes that could give it a title.
        self.open.handle().report_within(Duration::ZERO);
        self.progress = Progress::Ended(args);
    }

    /// Returns the arguments, or why there are none.
    pub(super) fn arguments(&self) -> Result<&Value, &str> {
        match &self.progress {
            Progress::Coming => Err(NO_END),
            Progress::Ended(args) => args.as_ref().map_err(String::as_str),
        }
    }

    /// Takes it apart into the open call, the call as the model made it, and its arguments.
    pub(super) fn into_parts(self) -> (OpenCall, Call, Result<Value, String>) {
        let args = match self.progress {
            Progress::Coming => Err(NO_END.to_owned()),
            Progress::Ended(args) => args,
        };
        (self.open, self.call, args)
    }
}

/// Reads arguments; none at all are an empty object.
fn read(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(arguments)
        .map_err(|error| format!("The arguments are not JSON: {error}. Send one JSON object."))
}

const NO_END: &str = "The arguments did not come to their end.";

#[cfg(test)]
mod tests;
