//! One reply while it is heard: what is said is shown at once, and kept until the reply is whole.
//!
//! It runs no call.

use std::sync::Arc;

use acp_lifecycle::{Chunk, End, OpenCall, Role};
use acp_types::{Reason, id};
use callboard_models::{Event, Fault, ModelError, Replay, Reply, Request, Stop, Usage};
use ulid::Ulid;

use super::Turn;
use super::begun::Begun;
use super::history::History;
use crate::attempt::{Came, next_event};
use crate::limits;
use crate::options::Chosen;

/// What the model said in one reply.
pub(super) struct Heard {
    /// Names the reply.
    id: String,
    /// Whose words came last, and the message that they belong to.
    speaking: Option<(Role, String)>,
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) calls: Vec<Begun>,
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

impl Heard {
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

    /// Returns how far the reply came.
    pub(super) fn came(&self) -> Came {
        match self.is_silent() {
            true => Came::ToNothing,
            false => Came::ToSomething,
        }
    }

    /// Returns whether nothing of the reply was shown.
    pub(super) fn is_silent(&self) -> bool {
        self.text.is_empty() && self.thought.is_empty() && self.calls.is_empty()
    }

    /// Ends the calls of a reply that is not whole: they are not run, and nobody repeats them.
    pub(super) fn drop_calls(&mut self) {
        let reason = if self.is_cancelled { Reason::Turn } else { Reason::Error };
        self.calls.drain(..).for_each(|begun| begun.open.finish(End::cancelled(reason)));
    }

    /// Finds the newest call of an id that the model gave.
    fn begun(&mut self, model_id: &str) -> Option<&mut Begun> {
        self.calls.iter_mut().rev().find(|begun| begun.call.id == model_id)
    }

    fn hear(&mut self, event: Event, turn: &Turn<'_>) {
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
                if let Some(begun) = self.begun(&id) {
                    begun.hear(&fragment, turn);
                }
            }
            Event::CallEnd { id } => {
                if let Some(begun) = self.begun(&id) {
                    begun.end(turn);
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
            self.error =
                Some(ModelError { fault: Fault::Other, message, status: None, retry_after: None });
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
            Some(open) => self.calls.push(Begun::new(open, id, name)),
            None => self.left_out += 1,
        }
    }
}

impl Turn<'_> {
    /// Asks the model and shows what it says as it says it.
    pub(super) async fn listen(&self, history: &mut History) -> Heard {
        let chosen = (self.chosen)();
        let system = self.system(&chosen);
        let weight = system.weight + history.weight();
        let mut reply = chosen.model.reply(self.request(&chosen, system.text, history));
        let mut heard = Heard::new();
        while heard.stop.is_none() && heard.error.is_none() && !heard.is_cancelled {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => heard.is_cancelled = true,
                event = self.next(&mut reply) => match event {
                    Ok(event) => {
                        self.secrets.renew();
                        heard.hear(event, self);
                    }
                    Err(error) => heard.error = Some(error),
                },
            }
        }
        if heard.left_out > 0 {
            heard.replay = None;
        }
        self.tell_usage(heard.usage.as_ref(), &chosen, history);
        if let Some(tokens) = heard.usage.and_then(|usage| usage.input_tokens) {
            history.budget(&chosen).learn(weight, tokens);
        }
        heard
    }

    fn request(&self, chosen: &Chosen, system: Arc<str>, history: &mut History) -> Request {
        Request {
            index: history.count_request(chosen.taken_up),
            system,
            messages: history.messages().clone(),
            tools: self.tools.clone(),
            effort: chosen.effort,
            ..Request::default()
        }
    }

    /// Waits for what the model says next, and before that for a client that takes nothing.
    async fn next(&self, reply: &mut Reply) -> Result<Event, ModelError> {
        self.handle.unstalled().await;
        next_event(reply).await
    }

    pub(super) fn begin(&self, model_id: &str, name: &str, batch: &str) -> Option<OpenCall> {
        let open = self.announce(model_id, name)?;
        open.handle().change_meta(|meta| meta.batch = Some(batch.to_owned()));
        Some(open)
    }

    pub(super) fn announce(&self, model_id: &str, name: &str) -> Option<OpenCall> {
        let is_taken = |id: &str| self.handle.has_seen(&id.to_owned().into());
        let id = id::tool_call_id(self.name, model_id, is_taken, || Ulid::generate().to_string());
        self.registry.announce(self.handle, &id, self.name, name, self.context, self.cancel)
    }
}
