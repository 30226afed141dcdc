//! What a session remembers between turns, and what its replies cost so far.
//!
//! It keeps the messages such that every provider takes them: each call of a reply has its result
//! right behind it, and no reply is empty.

use std::sync::Arc;

use callboard_models::{Message, Part, Replay, ToolResult, Usage};

use crate::context::{Budget, weight};
use crate::limits;
use crate::options::Chosen;

/// What a session remembers between turns.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Shared with the requests, so that one costs the same however long the session is.
    messages: Arc<Vec<Arc<Message>>>,
    size: Size,
    /// Which model was asked last, by how many were taken up before, and how often, failed attempts
    /// included.
    asked: (u64, usize),
    spent: Spent,
    /// How full the model that was asked last finds the session.
    budget: Budget,
    /// Whether the client was told a title of the session.
    pub(super) is_titled: bool,
}

/// What all replies of a session used, of every model, as far as the models count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Requests to models, failed attempts included.
    pub(crate) requests: u64,
    /// Tokens of the requests, those of a cache among them.
    pub(crate) input_tokens: u64,
    /// Tokens of the replies, thoughts among them.
    pub(crate) output_tokens: u64,
    /// Tokens of the requests that a cache held.
    pub(crate) cached_tokens: u64,
    /// Tokens of the replies that were thought.
    pub(crate) thought_tokens: u64,
    /// What the replies cost, in millionths of a US dollar; `None` if no model told it.
    pub(crate) cost_micros: Option<u64>,
}

impl Spent {
    fn add(&mut self, usage: &Usage) {
        let add = |sum: &mut u64, more: Option<u64>| *sum = sum.saturating_add(more.unwrap_or(0));
        add(&mut self.input_tokens, usage.input_tokens);
        add(&mut self.output_tokens, usage.output_tokens);
        add(&mut self.cached_tokens, usage.cached_tokens);
        add(&mut self.thought_tokens, usage.thought_tokens);
        if let Some(cost) = usage.cost_micros {
            self.cost_micros = Some(self.cost_micros.unwrap_or(0).saturating_add(cost));
        }
    }
}

/// How much messages are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    bytes: usize,
    /// Those of the images of results among them.
    shown: usize,
    /// What they weigh for a model, in bytes of text.
    weight: u64,
}

impl Size {
    fn of(message: &Message) -> Self {
        Self { bytes: byte_len(message), shown: shown_len(message), weight: weight(message) }
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.shown += other.shown;
        self.weight += other.weight;
    }

    fn take(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.shown -= other.shown;
        self.weight -= other.weight;
    }
}

impl History {
    /// Returns the messages, oldest first.
    pub(crate) fn messages(&self) -> &Arc<Vec<Arc<Message>>> {
        &self.messages
    }

    /// Puts other messages in the place of all: a shorter telling of the same session.
    pub(crate) fn replace(&mut self, messages: Vec<Arc<Message>>) {
        self.size = Size::default();
        messages.iter().for_each(|message| self.size.add(Size::of(message)));
        self.messages = Arc::new(messages);
    }

    /// Returns what the session's replies used so far.
    pub(crate) fn spent(&self) -> &Spent {
        &self.spent
    }

    /// Remembers a message; where that is too much, the oldest are left out.
    pub(super) fn say(&mut self, message: Message) -> Arc<Message> {
        let message = Arc::new(message);
        self.size.add(Size::of(&message));
        Arc::make_mut(&mut self.messages).push(message.clone());
        if self.size.shown > limits::MAX_SHOWN_BYTES {
            // Half at once, so that what a provider keeps of a session changes seldom.
            self.hide_oldest(limits::MAX_SHOWN_BYTES / 2);
        }
        if self.size.bytes > limits::MAX_HISTORY_BYTES {
            // Likewise.
            self.shorten(limits::MAX_HISTORY_BYTES / 2);
        }
        message
    }

    /// Remembers a reply without calls; one without a word is no message to any provider.
    pub(super) fn say_words(&mut self, text: String, thought: String, replay: Option<Replay>) {
        if !text.trim().is_empty() {
            self.say(Message::Assistant { text, thought, calls: Vec::new(), replay });
        }
    }

    /// Tells the model what happened beside its messages.
    pub(super) fn note(&mut self, what: &str) {
        self.say(Message::Context(what.to_owned()));
    }

    /// Forgets a message and all that followed it.
    pub(super) fn take_back(&mut self, first: &Arc<Message>) {
        let place = self.messages.iter().rposition(|message| Arc::ptr_eq(message, first));
        if let Some(place) = place {
            let gone = Arc::make_mut(&mut self.messages).drain(place..);
            gone.for_each(|message| self.size.take(Size::of(&message)));
        }
    }

    /// Gives a result to the calls of a turn that was lost before they had one.
    pub(super) fn mend(&mut self) {
        let Some(Message::Assistant { calls, .. }) = self.messages.last().map(|last| &**last)
        else {
            return;
        };
        let lost = calls.iter().map(|call| ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: "The call was lost by a fault of the agent. It may have had effects.".to_owned(),
            parts: Vec::new(),
            is_error: true,
        });
        let lost: Vec<_> = lost.collect();
        if !lost.is_empty() {
            self.say(Message::ToolResults(lost));
        }
    }

    /// Leaves out what the oldest results show beside their text, until at most `bytes` of that are
    /// left.
    fn hide_oldest(&mut self, bytes: usize) {
        for message in Arc::make_mut(&mut self.messages).iter_mut().filter(|it| shows(it)) {
            if self.size.shown <= bytes {
                break;
            }
            self.size.take(Size::of(message));
            hide(message, HIDDEN);
            self.size.add(Size::of(message));
        }
    }

    /// Leaves out what the newest results show beside their text, if no reply followed them.
    /// Returns whether they showed anything.
    pub(super) fn hide_images(&mut self) -> bool {
        let messages = Arc::make_mut(&mut self.messages).iter_mut().rev();
        let mut newest = messages.take_while(|message| !is_reply(message));
        let Some(message) = newest.find(|message| shows(message)) else { return false };
        self.size.take(Size::of(message));
        hide(message, REFUSED);
        self.size.add(Size::of(message));
        true
    }

    /// Leaves the oldest messages out until at most `bytes` are left, and says so in their place.
    /// The newest prompt stays, and so does the newest reply if it came after it. Returns whether
    /// anything was left out.
    pub(super) fn shorten(&mut self, bytes: usize) -> bool {
        let is_prompt = |message: &Arc<Message>| matches!(**message, Message::User(_));
        let prompt = self.messages.iter().rposition(is_prompt);
        let reply = self.messages.iter().rposition(|message| is_reply(message));
        let end = prompt.max(reply).unwrap_or(self.messages.len());
        let (mut kept, mut left_out) = (self.size.bytes, 0);
        // Only where a reply or a prompt begins: a call is never parted from its result.
        for (place, message) in self.messages.iter().enumerate().take(end) {
            if kept <= bytes && !matches!(**message, Message::ToolResults(_)) {
                break;
            }
            if Some(place) != prompt {
                kept -= byte_len(message);
            }
            left_out = place + 1;
        }
        let prompt = prompt.filter(|place| *place < left_out);
        let notes = usize::from(is_note(self.messages.first()));
        if left_out <= notes + usize::from(prompt.is_some()) {
            return false;
        }
        let mut rest = vec![Arc::new(Message::Context(LEFT_OUT.to_owned()))];
        rest.extend(prompt.map(|place| self.messages[place].clone()));
        rest.extend(self.messages.iter().skip(left_out).cloned());
        self.replace(rest);
        true
    }

    /// Counts a request to a model; returns how many it had before, since it was taken up.
    pub(super) fn count_request(&mut self, taken_up: u64) -> usize {
        let before = self.requests(taken_up);
        self.count_requests(taken_up, 1);
        before
    }

    /// Counts requests to a model.
    pub(super) fn count_requests(&mut self, taken_up: u64, count: usize) {
        self.spent.requests += count as u64;
        self.asked = (taken_up, self.requests(taken_up) + count);
    }

    /// Returns how many requests a model had, since it was taken up.
    pub(super) fn requests(&self, taken_up: u64) -> usize {
        if self.asked.0 == taken_up { self.asked.1 } else { 0 }
    }

    /// Returns what is known of how much a model takes.
    pub(super) fn budget(&mut self, chosen: &Chosen) -> &mut Budget {
        self.budget.of(chosen.model.name(), chosen.model.traits().context_tokens)
    }

    /// Adds what a reply used.
    pub(super) fn count_usage(&mut self, usage: &Usage) {
        self.spent.add(usage);
    }

    /// Returns the bytes of all messages.
    pub(super) fn byte_len(&self) -> usize {
        self.size.bytes
    }

    /// Returns what all messages weigh for a model, in bytes of text.
    pub(super) fn weight(&self) -> u64 {
        self.size.weight
    }
}

fn is_reply(message: &Message) -> bool {
    matches!(message, Message::Assistant { .. })
}

fn shows(message: &Message) -> bool {
    match message {
        Message::ToolResults(results) => results.iter().any(|result| !result.parts.is_empty()),
        _ => false,
    }
}

fn hide(message: &mut Arc<Message>, note: &str) {
    if let Message::ToolResults(results) = Arc::make_mut(message) {
        results.iter_mut().for_each(|result| result.hide(note));
    }
}

fn is_note(message: Option<&Arc<Message>>) -> bool {
    matches!(message.map(|message| &**message), Some(Message::Context(text)) if text == LEFT_OUT)
}

/// Bytes of what a message says; what its provider wants repeated is taken for as much as it says.
fn byte_len(message: &Message) -> usize {
    match message {
        Message::User(parts) => parts.iter().map(Part::byte_len).sum(),
        Message::Context(text) => text.len(),
        Message::Assistant { text, thought, calls, .. } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.len());
            text.len() + thought.len() + calls.sum::<usize>()
        }
        Message::ToolResults(results) => results.iter().map(result_len).sum(),
    }
}

fn result_len(result: &ToolResult) -> usize {
    result.text.len() + parts_len(result)
}

/// Bytes of what the results of a message show beside their text.
fn shown_len(message: &Message) -> usize {
    match message {
        Message::ToolResults(results) => results.iter().map(parts_len).sum(),
        _ => 0,
    }
}

fn parts_len(result: &ToolResult) -> usize {
    result.parts.iter().map(Part::byte_len).sum()
}

const REFUSED: &str = "[You do not take the image that was shown here.]";
const HIDDEN: &str =
    "[The image that was shown here was left out to make room. Read it again if you need it.]";
const LEFT_OUT: &str =
    "Older messages of this session were left out here, because there were too many.";

#[cfg(test)]
pub(super) mod tests;
