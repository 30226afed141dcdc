//! The five dialects: selecting a dialect by the request path, and encoding replies.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use std::time::Duration;

use serde_json::{Value, json};

use super::script::{MockReply, MockReplyStep, MockStopReason, MockToolCall, MockUsage};
use anthropic::AnthropicEncoder;
use chat::ChatEncoder;
use gemini::GeminiEncoder;
use ollama::OllamaEncoder;
use responses::ResponsesEncoder;

/// An HTTP API of a model provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI's chat completions, which most servers support.
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
    /// All dialects that the server supports.
    pub const ALL: [Self; 5] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// Returns the dialect of a request for a reply. The dialect depends only on the path, without
    /// the query.
    pub(super) fn from_request_path(path: &str) -> Option<Self> {
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

    /// Returns the path that the base URL must have for clients of this dialect.
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

    /// Returns the body of an error response with this status.
    pub(super) fn error_body(self, status: u16, message: &str) -> Value {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => {
                json!({"error": {"message": message, "type": "error", "param": null, "code": null}})
            }
            Self::Anthropic => anthropic::error_object(status, message),
            Self::Gemini => gemini::error_object(status, message),
            Self::Ollama => json!({ "error": message }),
        }
    }

    /// Encodes the reply to request number `nth`, counted from 0.
    pub(super) fn encode_reply(self, reply: &MockReply, nth: usize) -> Vec<BodyPiece> {
        let mut out = BodyWriter::default();
        match self {
            Self::OpenAiChat => {
                encode_reply_steps(&mut ChatEncoder::new(reply, nth), reply, &mut out);
            }
            Self::OpenAiResponses => {
                encode_reply_steps(&mut ResponsesEncoder::new(nth), reply, &mut out);
            }
            Self::Anthropic => encode_reply_steps(&mut AnthropicEncoder::new(nth), reply, &mut out),
            Self::Gemini => encode_reply_steps(&mut GeminiEncoder, reply, &mut out),
            Self::Ollama => encode_reply_steps(&mut OllamaEncoder, reply, &mut out),
        }
        out.0
    }
}

/// A part of a response body, or an action between two parts.
#[derive(Debug, PartialEq)]
pub(super) enum BodyPiece {
    Bytes(Vec<u8>),
    Pause(Duration),
    Disconnect,
    Hang,
}

/// The response body encoded so far.
#[derive(Debug, Default)]
struct BodyWriter(Vec<BodyPiece>);

impl BodyWriter {
    /// Appends a server-sent event.
    fn push_sse_data(&mut self, data: &Value) {
        self.0.push(BodyPiece::Bytes(format!("data: {data}\n\n").into_bytes()));
    }

    /// Appends a named server-sent event. The name of the event is the `type` field of the data.
    fn push_sse_event(&mut self, data: &Value) {
        let name = data["type"].as_str().unwrap_or_default();
        self.0.push(BodyPiece::Bytes(format!("event: {name}\ndata: {data}\n\n").into_bytes()));
    }

    /// Appends the call's pause, which precedes each fragment of the arguments.
    fn push_fragment_pause(&mut self, call: &MockToolCall) {
        self.0.extend(call.pause_ms.map(|ms| BodyPiece::Pause(Duration::from_millis(ms))));
    }

    /// Appends a line of JSON.
    fn push_json_line(&mut self, line: &Value) {
        self.0.push(BodyPiece::Bytes(format!("{line}\n").into_bytes()));
    }
}

/// Encodes a reply in one dialect.
trait ReplyEncoder {
    fn encode_start(&mut self, _: &mut BodyWriter) {}
    fn encode_text(&mut self, text: &str, out: &mut BodyWriter);
    fn encode_thought(&mut self, text: &str, out: &mut BodyWriter);
    fn encode_call(&mut self, call: &MockToolCall, out: &mut BodyWriter);
    fn encode_error(&mut self, message: &str, out: &mut BodyWriter);
    fn encode_end(&mut self, stop: MockStopReason, reply: &MockReply, out: &mut BodyWriter);
}

fn encode_reply_steps(voice: &mut impl ReplyEncoder, reply: &MockReply, out: &mut BodyWriter) {
    voice.encode_start(out);
    for step in &reply.steps {
        match step {
            MockReplyStep::Text(text) => voice.encode_text(text, out),
            MockReplyStep::Thought(text) => voice.encode_thought(text, out),
            MockReplyStep::Call(call) => voice.encode_call(call, out),
            MockReplyStep::PauseMs(ms) => out.0.push(BodyPiece::Pause(Duration::from_millis(*ms))),
            MockReplyStep::Raw(bytes) => out.0.push(BodyPiece::Bytes(bytes.clone())),
            MockReplyStep::Error(message) => return voice.encode_error(message, out),
            MockReplyStep::Cut => return out.0.push(BodyPiece::Disconnect),
            MockReplyStep::Hang => return out.0.push(BodyPiece::Hang),
        }
    }
    match reply.stop_or_default() {
        MockStopReason::Nothing => {}
        stop => voice.encode_end(stop, reply, out),
    }
}

/// Splits the arguments of a call into fragments, between characters.
fn split_call_arguments(call: &MockToolCall) -> Vec<String> {
    let text = call.arguments_text();
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

/// Returns the arguments as a JSON value, for dialects that do not send them as text.
fn arguments_to_json_value(call: &MockToolCall) -> Value {
    match &call.args {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| call.args.clone()),
        args => args.clone(),
    }
}

/// Returns the token counts of a reply, for dialects that require them. Returns zeros if the script
/// gives no counts.
fn usage_or_default(reply: &MockReply) -> MockUsage {
    reply.usage.unwrap_or_default()
}
