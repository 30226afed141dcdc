//! What the server is to say, in no dialect yet.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// What one request is answered with.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockResponse {
    /// The HTTP status.
    pub status: u16,
    /// Headers beside those of the dialect, which they replace.
    pub headers: BTreeMap<String, String>,
    /// Milliseconds before the first byte.
    pub after_ms: u64,
    /// What follows the headers.
    pub body: MockBody,
}

impl Default for MockResponse {
    fn default() -> Self {
        Self { status: 200, headers: BTreeMap::new(), after_ms: 0, body: MockBody::Nothing }
    }
}

/// What follows the headers of an answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MockBody {
    /// A reply of the model, as a stream.
    Reply(MockReply),
    /// An error object of the dialect with this message.
    Error(String),
    /// These bytes.
    Raw(Vec<u8>),
    /// Nothing at all, not even headers: the connection is closed.
    Nothing,
}

impl MockResponse {
    /// Answers with a status and the dialect's error object.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self { status, body: MockBody::Error(message.to_owned()), ..Self::default() }
    }

    /// Answers with bytes of a content type.
    #[must_use]
    pub fn raw(content_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let body = MockBody::Raw(bytes.into());
        Self { body, ..Self::default() }.header("content-type", content_type)
    }

    /// Sends the client to another address, with the status 307.
    #[must_use]
    pub fn redirect(location: &str) -> Self {
        let moved = Self { status: 307, body: MockBody::Raw(Vec::new()), ..Self::default() };
        moved.header("location", location)
    }

    /// Closes the connection instead of an answer.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::default()
    }

    /// Sends a header, by its name in lower case.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn after_ms(mut self, milliseconds: u64) -> Self {
        self.after_ms = milliseconds;
        self
    }
}

impl From<MockReply> for MockResponse {
    fn from(reply: MockReply) -> Self {
        Self { body: MockBody::Reply(reply), ..Self::default() }
    }
}

/// One reply of the model: what it says in turn, and how that ends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockReply {
    /// What is said, in order; each step is at least one event of the stream.
    pub steps: Vec<MockReplyStep>,
    /// What is told of tokens, if anything.
    pub usage: Option<MockUsage>,
    /// How it ends; without it, [`Stop::ToolCalls`] if there was a call, else [`Stop::EndTurn`].
    pub stop: Option<MockStopReason>,
    /// Leaves out what marks the end of a stream behind the reason (`[DONE]`, `message_stop`).
    pub without_marker: bool,
    /// Leaves out the position of each call (OpenAI's chat: `index`).
    pub without_index: bool,
    /// Sends the bytes in writes of this size, which need not fit to characters or lines.
    pub write_bytes: Option<usize>,
}

/// A piece of a reply.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MockReplyStep {
    /// Text for the user.
    Text(String),
    /// What the model thinks.
    Thought(String),
    /// A call of a tool.
    Call(MockToolCall),
    /// Nothing, for so many milliseconds; what was said before it is on its way.
    PauseMs(u64),
    /// The dialect's error inside of a stream, and the end of it.
    Error(String),
    /// These bytes, as they are.
    Raw(Vec<u8>),
    /// The connection is closed in the middle of the body.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Hang,
}

/// A call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockToolCall {
    /// Its id; without one, none is sent (Gemini and Ollama never send one).
    #[serde(default)]
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments: a JSON string is the text that is sent, anything else is sent as JSON.
    /// Gemini and Ollama have no text there, and send the string.
    pub args: Value,
    /// Bytes of one fragment of the arguments, cut between characters; without it, one fragment
    /// is all. Gemini and Ollama send arguments whole.
    #[serde(default)]
    pub chunk: Option<usize>,
    /// Milliseconds before each fragment.
    #[serde(default)]
    pub pause_ms: Option<u64>,
}

impl MockToolCall {
    /// Calls a tool, with the id `call_` and its name.
    #[must_use]
    pub fn new(name: &str, args: &Value) -> Self {
        let id = Some(format!("call_{name}"));
        Self { id, name: name.to_owned(), args: args.clone(), chunk: None, pause_ms: None }
    }

    /// Gives it another id, or none.
    #[must_use]
    pub fn id(mut self, id: Option<&str>) -> Self {
        self.id = id.map(str::to_owned);
        self
    }

    /// Sends its arguments in fragments of so many bytes.
    #[must_use]
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// Waits before each fragment.
    #[must_use]
    pub fn pause_ms(mut self, milliseconds: u64) -> Self {
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

/// How a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MockStopReason {
    /// All is said.
    EndTurn,
    /// The results of calls are waited for.
    ToolCalls,
    /// The reply is as long as it may be.
    MaxTokens,
    /// A filter of the provider took the rest away.
    Filter,
    /// It does not: the stream is over without a reason.
    Nothing,
}

/// The tokens of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockUsage {
    /// Of the request, those from a cache among them.
    pub input: u64,
    /// Of the request, from a cache.
    pub cached: u64,
    /// Of the reply, thoughts among them.
    pub output: u64,
    /// Of the reply, thought.
    pub thought: u64,
}

impl MockReply {
    /// Says nothing and ends.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step.
    #[must_use]
    pub fn step(mut self, step: MockReplyStep) -> Self {
        self.steps.push(step);
        self
    }

    /// Says a piece of text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.step(MockReplyStep::Text(text.to_owned()))
    }

    /// Thinks.
    #[must_use]
    pub fn thought(self, text: &str) -> Self {
        self.step(MockReplyStep::Thought(text.to_owned()))
    }

    /// Calls a tool.
    #[must_use]
    pub fn call(self, call: MockToolCall) -> Self {
        self.step(MockReplyStep::Call(call))
    }

    /// Ends in this way.
    #[must_use]
    pub fn stop(mut self, stop: MockStopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Tells of tokens.
    #[must_use]
    pub fn usage(mut self, usage: MockUsage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Leaves the marker of the end out.
    #[must_use]
    pub fn without_marker(mut self) -> Self {
        self.without_marker = true;
        self
    }

    /// Leaves the positions of calls out.
    #[must_use]
    pub fn without_index(mut self) -> Self {
        self.without_index = true;
        self
    }

    /// Sends the bytes in writes of this size.
    #[must_use]
    pub fn write_bytes(mut self, bytes: usize) -> Self {
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
