//! A language model, as the agent sees one: a request goes in, a stream of small events comes out.
//!
//! Knows nothing of ACP, of sessions or of what a tool does: only names, text and JSON.

pub mod call;
pub mod direct;
pub mod script;

use std::{fmt, io, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use futures::stream::BoxStream;
use serde::Deserialize;
use serde_json::Value;

pub use call::Call;
use direct::Direct;
use script::{Script, ScriptError};

/// Answers requests; holds no state of any session.
///
/// Everything a reply depends on is in its [`Request`], so that one model serves any number of
/// sessions, and a session can be taken up again by another process or change its model midway.
///
/// ```
/// use callboard::model::{self, Event, Message, Request};
/// use futures::StreamExt as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), model::SpecError> {
/// let model = model::parse("direct")?;
/// let messages = vec![Message::User("read README.md".into())];
/// let mut reply = model.reply(Request { messages, ..Request::default() });
/// let first = reply.next().await;
/// assert_eq!(first, Some(Event::CallStart { id: "direct_1".into(), name: "read_file".into() }));
/// # Ok(())
/// # }
/// ```
pub trait Model: Send + Sync + fmt::Debug {
    /// Names the model as `--model` does: `direct`, `script:FILE`.
    fn name(&self) -> &str;

    /// Starts one reply. Must be called, and the reply polled, inside a tokio runtime.
    fn reply(&self, request: Request) -> Reply;
}

/// The events of one reply. Ends after [`Event::Stop`] or [`Event::Error`]; dropping it cancels.
pub type Reply = BoxStream<'static, Event>;

/// Everything a model is told for one reply.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How many requests the session made of this model before this one, answered or not, so that
    /// an attempt after an error counts too. Starts at 0 when a session takes a model up.
    pub index: usize,
    /// Instructions that stand before all messages.
    pub system: String,
    /// The session so far, oldest first.
    pub messages: Vec<Message>,
    /// The tools the model may call.
    pub tools: Vec<ToolSpec>,
    /// The longest reply, in tokens; `None` leaves it to the model.
    pub max_tokens: Option<NonZeroU32>,
}

/// One entry of the session, as the model is told it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// A prompt of the user.
    User(String),
    /// A reply of the model, also one that was cut short.
    Assistant {
        /// What was said.
        text: String,
        /// What was thought.
        thought: String,
        /// What was called.
        calls: Vec<Call>,
    },
    /// What the calls of the reply before it came to.
    ToolResults(Vec<ToolResult>),
}

/// What one call came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The id the model gave the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the model is to read.
    pub text: String,
    /// True if the call failed, was rejected or was cancelled.
    pub is_error: bool,
}

/// A tool, as it is offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name calls use.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
}

/// One step of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// More text for the user.
    Text(String),
    /// More of what the model thinks.
    Thought(String),
    /// A call begins; its arguments follow. Calls of one reply are parallel.
    CallStart {
        /// The model's id for the call. Some models repeat theirs.
        id: String,
        /// The tool's name, whether or not there is such a tool.
        name: String,
    },
    /// More of a call's arguments. The fragments, joined, should be JSON; none at all means `{}`.
    CallArguments {
        /// The call.
        id: String,
        /// The next piece, never cut inside a character.
        fragment: String,
    },
    /// The arguments of a call are whole.
    CallEnd {
        /// The call.
        id: String,
    },
    /// What the reply used so far; the last one counts.
    Usage(Usage),
    /// The reply is whole. Nothing follows.
    Stop(Stop),
    /// The reply broke off. Nothing follows, and what came before it stays incomplete.
    Error(ModelError),
}

/// Tokens of one reply, as far as the model counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: Option<u64>,
    /// Tokens of the reply.
    pub output_tokens: Option<u64>,
}

/// Why a reply ended. In JSON the names are ACP's stop reasons, and `tool_calls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// The model has said what it had to say.
    EndTurn,
    /// The reply reached its longest length.
    MaxTokens,
    /// The turn made as many requests as the model allows.
    MaxTurnRequests,
    /// The model declines to go on.
    Refusal,
    /// The model waits for the results of the calls it made.
    ToolCalls,
}

/// Why a reply broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", status.map(|status| format!(" (status {status})")).unwrap_or_default())]
pub struct ModelError {
    /// What happened, for the user.
    pub message: String,
    /// The HTTP status, if there was one: it tells what is worth another attempt.
    pub status: Option<u16>,
    /// How long the provider asks to wait before another attempt.
    pub retry_after: Option<Duration>,
}

/// Makes the model that `spec` names: `direct`, or `script:FILE` with a path relative to the
/// process's directory. Reads the file, once and now.
///
/// # Errors
/// See [`SpecError`].
pub fn parse(spec: &str) -> Result<Arc<dyn Model>, SpecError> {
    match spec.split_once(':') {
        None if spec == direct::NAME => Ok(Arc::new(Direct)),
        Some(("script", file)) if !file.is_empty() => Ok(Arc::new(Script::read(file)?)),
        _ => Err(SpecError::Unknown { spec: spec.to_owned() }),
    }
}

/// Why `--model` names no model. The text says all there is to say; there is no further source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// This build has no such model. Name another one.
    #[error("unknown model `{spec}`: this build has `direct` and `script:FILE`")]
    Unknown {
        /// What was asked for.
        spec: String,
    },
    /// A script's file is missing or cannot be read.
    #[error("cannot read the script {}: {error}", file.display())]
    Unreadable {
        /// The file, as it was named.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A script is not in its format. Mend the line.
    #[error("{}: {error}", file.display())]
    Script {
        /// The file, as it was named.
        file: PathBuf,
        /// What is wrong, and on which line.
        error: ScriptError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_names_a_model_or_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("script:{}", path.display())
        };
        let good = file("good.jsonl", "{\"text\":\"hi\"}");
        let bad = file("bad.jsonl", "\n{\"txet\":\"hi\"}");
        let missing = format!("script:{}", folder.path().join("missing.jsonl").display());
        let cases: [(&str, Result<&str, &[&str]>); 7] = [
            ("direct", Ok("direct")),
            (&good, Ok(&good)),
            (&bad, Err(&["bad.jsonl: line 2: unknown field `txet`"])),
            (&missing, Err(&["cannot read the script", "missing.jsonl", "No such file"])),
            ("script:", Err(&["unknown model `script:`", "`script:FILE`"])),
            ("", Err(&["unknown model ``"])),
            ("direct:x", Err(&["unknown model `direct:x`", "`direct`"])),
        ];
        for (spec, expected) in cases {
            match (parse(spec), expected) {
                (Ok(model), Ok(name)) => assert_eq!(model.name(), name),
                (Err(error), Err(parts)) => {
                    let error = error.to_string();
                    assert!(parts.iter().all(|part| error.contains(part)), "{spec}: {error}");
                }
                (got, _) => panic!("{spec}: {got:?}"),
            }
        }
    }

    #[test]
    fn an_error_shows_its_status() {
        let error = |status| ModelError { message: "busy".into(), status, retry_after: None };
        assert_eq!(error(Some(529)).to_string(), "busy (status 529)");
        assert_eq!(error(None).to_string(), "busy");
    }
}
