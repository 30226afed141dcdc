//! The dialects: which one a request speaks, and a reply told in it.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use std::time::Duration;

use serde_json::{Value, json};

use super::script::{Call, Reply, Step, Stop, Usage};
use anthropic::Anthropic;
use chat::Chat;
use gemini::Gemini;
use ollama::Ollama;
use responses::Responses;

/// A form of HTTP in which models are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI's chat completions, which most servers speak.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's `streamGenerateContent`.
    Gemini,
    /// Ollama's `/api/chat`.
    Ollama,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// Tells the dialect of a request for a reply by its path; the query does not count.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        let ends = |end: &str| path.ends_with(end);
        match () {
            () if ends("/chat/completions") => Some(Self::OpenAiChat),
            () if ends("/responses") => Some(Self::OpenAiResponses),
            () if ends("/messages") => Some(Self::Anthropic),
            () if ends(":streamGenerateContent") => Some(Self::Gemini),
            () if ends("/api/chat") => Some(Self::Ollama),
            () => None,
        }
    }

    /// Returns what stands behind the authority in the base URL that clients of this dialect take.
    pub(super) fn base_path(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "/v1",
            Self::Anthropic | Self::Gemini | Self::Ollama => "",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        }
    }

    /// Returns the body of an answer with this status.
    pub(super) fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => {
                json!({"error": {"message": message, "type": "error", "param": null, "code": null}})
            }
            Self::Anthropic => anthropic::error(status, message),
            Self::Gemini => gemini::error(status, message),
            Self::Ollama => json!({ "error": message }),
        }
    }

    /// Tells a reply to the `nth` request, counted from 0.
    pub(super) fn tell(self, reply: &Reply, nth: usize) -> Vec<Piece> {
        let mut out = Out::default();
        match self {
            Self::OpenAiChat => speak(&mut Chat::new(reply, nth), reply, &mut out),
            Self::OpenAiResponses => speak(&mut Responses::new(nth), reply, &mut out),
            Self::Anthropic => speak(&mut Anthropic::new(nth), reply, &mut out),
            Self::Gemini => speak(&mut Gemini, reply, &mut out),
            Self::Ollama => speak(&mut Ollama, reply, &mut out),
        }
        out.0
    }
}

/// A piece of a body, or what happens at that point.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Pause(Duration),
    Cut,
    Hang,
}

/// The body so far.
#[derive(Debug, Default)]
struct Out(Vec<Piece>);

impl Out {
    /// An event of a stream of server-sent events.
    fn data(&mut self, data: &Value) {
        self.0.push(Piece::Bytes(format!("data: {data}\n\n").into_bytes()));
    }

    /// An event with a name, which its data repeats as `type`.
    fn event(&mut self, data: &Value) {
        let name = data["type"].as_str().unwrap_or_default();
        self.0.push(Piece::Bytes(format!("event: {name}\ndata: {data}\n\n").into_bytes()));
    }

    /// What comes before a fragment of a call.
    fn pause(&mut self, call: &Call) {
        self.0.extend(call.pause_ms.map(|ms| Piece::Pause(Duration::from_millis(ms))));
    }

    /// A line of JSON.
    fn line(&mut self, line: &Value) {
        self.0.push(Piece::Bytes(format!("{line}\n").into_bytes()));
    }
}

/// A dialect while it tells a reply.
trait Voice {
    fn begin(&mut self, _: &mut Out) {}
    fn text(&mut self, text: &str, out: &mut Out);
    fn thought(&mut self, text: &str, out: &mut Out);
    fn call(&mut self, call: &Call, out: &mut Out);
    fn error(&mut self, message: &str, out: &mut Out);
    fn end(&mut self, stop: Stop, reply: &Reply, out: &mut Out);
}

fn speak(voice: &mut impl Voice, reply: &Reply, out: &mut Out) {
    voice.begin(out);
    for step in &reply.steps {
        match step {
            Step::Text(text) => voice.text(text, out),
            Step::Thought(text) => voice.thought(text, out),
            Step::Call(call) => voice.call(call, out),
            Step::PauseMs(ms) => out.0.push(Piece::Pause(Duration::from_millis(*ms))),
            Step::Raw(bytes) => out.0.push(Piece::Bytes(bytes.clone())),
            Step::Error(message) => return voice.error(message, out),
            Step::Cut => return out.0.push(Piece::Cut),
            Step::Hang => return out.0.push(Piece::Hang),
        }
    }
    match reply.ending() {
        Stop::Nothing => {}
        stop => voice.end(stop, reply, out),
    }
}

/// Cuts the arguments of a call, between characters.
fn fragments(call: &Call) -> Vec<String> {
    let text = call.text();
    let bytes = call.chunk.unwrap_or(usize::MAX).max(1);
    let mut rest = &*text;
    let mut fragments = Vec::new();
    while !rest.is_empty() {
        let at = rest.ceil_char_boundary(bytes.min(rest.len()));
        let (fragment, behind) = rest.split_at(at);
        fragments.push(fragment.to_owned());
        rest = behind;
    }
    fragments
}

/// The arguments as a value, for a dialect that has no text there.
fn whole(call: &Call) -> Value {
    match &call.args {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| call.args.clone()),
        args => args.clone(),
    }
}

/// The tokens of a reply that tells none, where a dialect must tell some.
fn usage_or_none(reply: &Reply) -> Usage {
    reply.usage.unwrap_or_default()
}
