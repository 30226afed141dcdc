//! The script of the server: responses in a form that is independent of dialects.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A response to one request.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MockResponse {
    /// HTTP status code.
    pub status: u16,
    /// Additional headers. They override the dialect's own headers.
    pub headers: BTreeMap<String, String>,
    /// Delay before the first byte in milliseconds.
    pub after_ms: u64,
    /// Body of the response.
    pub body: MockBody,
}

impl Default for MockResponse {
    fn default() -> Self {
        Self { status: 200, headers: BTreeMap::new(), after_ms: 0, body: MockBody::Nothing }
    }
}

/// The body of a response.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MockBody {
    /// A reply of the model, as a stream.
    Reply(MockReply),
    /// An error object of the dialect with this message.
    Error(String),
    /// Arbitrary bytes.
    Raw(Vec<u8>),
    /// No response, not even headers: the server closes the connection.
    Nothing,
}

impl MockResponse {
    /// Creates a response with a status and the dialect's error object.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self { status, body: MockBody::Error(message.to_owned()), ..Self::default() }
    }

    /// Creates a response with bytes and a content type.
    #[must_use]
    pub fn raw(content_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let body = MockBody::Raw(bytes.into());
        Self { body, ..Self::default() }.with_header("content-type", content_type)
    }

    /// Redirects the client to another address with status 307.
    #[must_use]
    pub fn redirect(location: &str) -> Self {
        let moved = Self { status: 307, body: MockBody::Raw(Vec::new()), ..Self::default() };
        moved.with_header("location", location)
    }

    /// Closes the connection without a response.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::default()
    }

    /// Sets a header. The name of the header must be in lower case.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets the delay before the first byte.
    #[must_use]
    pub fn with_delay_ms(mut self, milliseconds: u64) -> Self {
        self.after_ms = milliseconds;
        self
    }
}

impl From<MockReply> for MockResponse {
    fn from(reply: MockReply) -> Self {
        Self { body: MockBody::Reply(reply), ..Self::default() }
    }
}

/// A reply of the model: its steps, and its end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MockReply {
    /// Steps in order. Each step is at least one event of the stream.
    pub steps: Vec<MockReplyStep>,
    /// Reported token counts, if any.
    pub usage: Option<MockUsage>,
    /// Stop reason of the reply. The default is [`MockStopReason::ToolCalls`] if the reply has a
    /// call, otherwise [`MockStopReason::EndTurn`].
    pub stop: Option<MockStopReason>,
    /// Whether the marker at the end of the stream (`[DONE]`, `message_stop`) is omitted.
    pub without_marker: bool,
    /// Whether the position of each call (`index` in OpenAI's chat completions) is omitted.
    pub without_index: bool,
    /// Size of each write in bytes. A write may end in the middle of a character or a line.
    pub write_bytes: Option<usize>,
}

/// A step of a reply.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MockReplyStep {
    /// Text for the user.
    Text(String),
    /// The model's thinking.
    Thought(String),
    /// A tool call.
    Call(MockToolCall),
    /// A pause in milliseconds. All earlier steps are sent before the pause.
    PauseMs(u64),
    /// The dialect's error event, which ends the stream.
    Error(String),
    /// Arbitrary bytes, sent unchanged.
    Raw(Vec<u8>),
    /// Closes the connection in the middle of the body.
    Cut,
    /// Sends no more data and keeps the connection open.
    Hang,
}

/// A tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MockToolCall {
    /// Id of the call. If the id is missing, no id is sent (Gemini and Ollama never send ids).
    #[serde(default)]
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call. A JSON string is sent as the text of the arguments; any other value
    /// is serialized. Gemini and Ollama send no text of arguments. For these two dialects, a string
    /// that contains JSON is sent as the JSON value. Any other string is sent as a JSON string.
    pub args: Value,
    /// Size of one fragment of the arguments in bytes, rounded up to whole characters. If the size
    /// is missing, the arguments are one fragment. Gemini and Ollama always send all arguments in
    /// one fragment.
    #[serde(default)]
    pub chunk: Option<usize>,
    /// Delay before each fragment in milliseconds.
    #[serde(default)]
    pub pause_ms: Option<u64>,
}

impl MockToolCall {
    /// Creates a call with the id `call_` followed by the name.
    #[must_use]
    pub fn new(name: &str, args: &Value) -> Self {
        let id = Some(format!("call_{name}"));
        Self { id, name: name.to_owned(), args: args.clone(), chunk: None, pause_ms: None }
    }

    /// Sets or removes the id.
    #[must_use]
    pub fn with_id(mut self, id: Option<&str>) -> Self {
        self.id = id.map(str::to_owned);
        self
    }

    /// Sends the arguments in fragments of this many bytes.
    #[must_use]
    pub fn with_fragment_bytes(mut self, bytes: usize) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// Sets the delay before each fragment.
    #[must_use]
    pub fn with_fragment_pause_ms(mut self, milliseconds: u64) -> Self {
        self.pause_ms = Some(milliseconds);
        self
    }

    pub(super) fn arguments_text(&self) -> String {
        match &self.args {
            Value::String(text) => text.clone(),
            args => args.to_string(),
        }
    }
}

/// The reason with which a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MockStopReason {
    /// The model finished its reply.
    EndTurn,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The reply reached its maximum length.
    MaxTokens,
    /// A content filter of the provider removed the rest of the reply.
    Filter,
    /// The stream ends without a stop reason.
    Nothing,
}

/// The token counts of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MockUsage {
    /// Number of tokens of the request, including cached tokens.
    pub input: u64,
    /// Number of tokens of the request that were read from a cache.
    pub cached: u64,
    /// Number of tokens of the reply, including thinking.
    pub output: u64,
    /// Number of tokens of the reply that were spent on thinking.
    pub thought: u64,
}

impl MockReply {
    /// Creates a reply without steps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step.
    #[must_use]
    pub fn with_step(mut self, step: MockReplyStep) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a piece of text.
    #[must_use]
    pub fn with_text(self, text: &str) -> Self {
        self.with_step(MockReplyStep::Text(text.to_owned()))
    }

    /// Adds a piece of thinking.
    #[must_use]
    pub fn with_thought(self, text: &str) -> Self {
        self.with_step(MockReplyStep::Thought(text.to_owned()))
    }

    /// Adds a tool call.
    #[must_use]
    pub fn with_call(self, call: MockToolCall) -> Self {
        self.with_step(MockReplyStep::Call(call))
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn with_stop_reason(mut self, stop: MockStopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets the reported token counts.
    #[must_use]
    pub fn with_usage(mut self, usage: MockUsage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Omits the marker that ends the stream.
    #[must_use]
    pub fn without_end_marker(mut self) -> Self {
        self.without_marker = true;
        self
    }

    /// Omits the positions of calls.
    #[must_use]
    pub fn without_call_index(mut self) -> Self {
        self.without_index = true;
        self
    }

    /// Sets the size of each write in bytes.
    #[must_use]
    pub fn with_write_size(mut self, bytes: usize) -> Self {
        self.write_bytes = Some(bytes);
        self
    }

    pub(super) fn stop_or_default(&self) -> MockStopReason {
        let has_call = self.steps.iter().any(|step| matches!(step, MockReplyStep::Call(_)));
        self.stop.unwrap_or(if has_call {
            MockStopReason::ToolCalls
        } else {
            MockStopReason::EndTurn
        })
    }
}
