//! The `script` model, which plays replies from a file: for tests, demos and bug reports.
//!
//! The model ignores the messages of a request. Request number n of a session gets reply number n.
//!
//! # Format
//! A script is in JSON Lines: one object with one key per line. Empty lines and lines that start
//! with `#` or `//` are skipped.
//!
//! | line | effect |
//! |---|---|
//! | `{"text": "…"}` | text, as one event |
//! | `{"thought": "…"}` | a thought, as one event |
//! | `{"call": {"name": "…", "id"?: "…", "args"?: …, "chunk"?: n}}` | a call, with its arguments in fragments of `n` bytes (one fragment without `chunk`), split between characters |
//! | `{"delay_ms": n}` | a pause of `n` milliseconds |
//! | `{"error": {"message": "…", "status"?: n}}` | an error that ends the reply |
//! | `{"end": "tool_calls"}` | the end of the reply; or `end_turn`, `max_tokens`, `max_turn_requests`, `refusal` |
//!
//! - Calls of one reply are parallel. Calls without `id` are numbered `call_1`, `call_2`, … through
//!   the file.
//! - `args` is any JSON value; the default is `{}`. If `args` is a JSON *string*, the text in the
//!   string is sent as the arguments. `"{\"path\": "` thus sends arguments that are not JSON, and
//!   `""` sends no arguments.
//! - An `end` directly after an `error` is allowed and ignored.
//! - If the last reply has no `end`, it ends with `tool_calls` if it contains a call, otherwise
//!   with `end_turn`.
//! - After the last reply, each further request gets a text which states that the script has ended,
//!   and `end_turn`.

use std::{mem, num::NonZeroUsize, time::Duration};

use futures::{StreamExt as _, future, stream};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Model, ModelCapabilities, ModelError, ModelErrorKind, ModelEvent, ModelRequest,
    ModelStopReason, ModelToolCall, ReplyStream,
};

/// Maximum size of a script in bytes.
pub(crate) const MAX_SCRIPT_BYTES: usize = 16 << 20;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The `script:FILE` model. The format of the file is described in the [module
/// documentation](self).
///
/// The model keeps no position: [`ModelRequest::index`] selects the reply. Each session therefore
/// starts at the first reply, and a retry after an `error` gets the next reply. An error adds no
/// reply to the messages, so a model that counts the replies in the messages would repeat the error
/// forever.
#[derive(Clone, Debug)]
pub struct ScriptModel {
    name: String,
    replies: Vec<Vec<ScriptStep>>,
}

#[derive(Clone, Debug)]
enum ScriptStep {
    Event(ModelEvent),
    Call(ModelToolCall, usize),
    Delay(Duration),
}

/// An error in a line of a script.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
#[non_exhaustive]
pub struct ScriptLineError {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// Reason of the error, without the line number.
    pub message: String,
}

impl ScriptModel {
    /// Parses the text of a script into the model `name`.
    ///
    /// # Errors
    /// Returns an error for the first line that is malformed, is not UTF-8 or exceeds 1 MiB, or if
    /// the script exceeds 16 MiB.
    pub fn parse(text: &[u8], name: String) -> Result<Self, ScriptLineError> {
        let mut parser = ScriptParser::default();
        let mut bytes = 0;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            bytes += line.len() + 1;
            let checked = if bytes > MAX_SCRIPT_BYTES + 1 {
                Err(format!("the script exceeds {MAX_SCRIPT_BYTES} bytes"))
            } else if line.len() > MAX_LINE_BYTES {
                Err(format!("the line exceeds {MAX_LINE_BYTES} bytes"))
            } else {
                parser.parse_line(line.trim_ascii())
            };
            checked.map_err(|message| ScriptLineError { line: index + 1, message })?;
        }
        Ok(Self { name, replies: parser.into_replies() })
    }

    fn exhausted_reply(&self, index: usize) -> Vec<ScriptStep> {
        let text = format!(
            "`{}` is used up: it has {} replies, and this is request {}.",
            self.name,
            self.replies.len(),
            index + 1
        );
        vec![
            ScriptStep::Event(ModelEvent::Text(text)),
            ScriptStep::Event(ModelEvent::Stop(ModelStopReason::EndTurn)),
        ]
    }
}

impl Model for ScriptModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::new().with_scripted()
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let written = self.replies.get(request.index).cloned();
        let steps = written.unwrap_or_else(|| self.exhausted_reply(request.index));
        stream::iter(steps).flat_map(ScriptStep::into_stream).boxed()
    }
}

impl ScriptStep {
    fn into_stream(self) -> ReplyStream {
        match self {
            Self::Event(event) => stream::once(future::ready(event)).boxed(),
            Self::Call(call, bytes) => stream::iter(ModelEvent::call_events(call, bytes)).boxed(),
            Self::Delay(delay) => {
                stream::once(tokio::time::sleep(delay)).filter_map(|()| future::ready(None)).boxed()
            }
        }
    }

    fn is_error(&self) -> bool {
        matches!(self, Self::Event(ModelEvent::Error(_)))
    }

    fn is_stop(&self) -> bool {
        matches!(self, Self::Event(ModelEvent::Stop(_)))
    }
}

#[derive(Default)]
struct ScriptParser {
    replies: Vec<Vec<ScriptStep>>,
    /// Steps of the reply that is being parsed.
    open: Vec<ScriptStep>,
    after_error: bool,
    calls_without_id: usize,
}

impl ScriptParser {
    fn parse_line(&mut self, line: &[u8]) -> Result<(), String> {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"//") {
            return Ok(());
        }
        let line: Line =
            serde_json::from_slice(line).map_err(|error| json_error_with_column(&error))?;
        let step = self.parse_step(line)?;
        let after_error = mem::replace(&mut self.after_error, step.is_error());
        if step.is_stop() && after_error {
            return Ok(());
        }
        let is_last = step.is_stop() || step.is_error();
        self.open.push(step);
        if is_last {
            self.replies.push(mem::take(&mut self.open));
        }
        Ok(())
    }

    fn parse_step(&mut self, line: Line) -> Result<ScriptStep, String> {
        let Line { text, thought, call, delay_ms, error, end } = line;
        let mut steps = [
            text.map(|text| ScriptStep::Event(ModelEvent::Text(text))),
            thought.map(|thought| ScriptStep::Event(ModelEvent::Thought(thought))),
            call.map(|call| self.parse_call(call)),
            delay_ms.map(|ms| ScriptStep::Delay(Duration::from_millis(ms))),
            error.map(|error| ScriptStep::Event(ModelEvent::Error(error.into()))),
            end.map(|end| ScriptStep::Event(ModelEvent::Stop(end))),
        ]
        .into_iter()
        .flatten();
        match (steps.next(), steps.next()) {
            (Some(step), None) => Ok(step),
            _ => Err("expected one of text, thought, call, delay_ms, error, end".to_owned()),
        }
    }

    fn parse_call(&mut self, call: CallLine) -> ScriptStep {
        let id = call.id.unwrap_or_else(|| {
            self.calls_without_id += 1;
            format!("call_{}", self.calls_without_id)
        });
        let arguments = match call.args {
            Value::String(text) => text,
            json => json.to_string(),
        };
        let bytes = call.chunk.map_or(usize::MAX, NonZeroUsize::get);
        ScriptStep::Call(ModelToolCall { id, name: call.name, arguments }, bytes)
    }

    fn into_replies(mut self) -> Vec<Vec<ScriptStep>> {
        if !self.open.is_empty() {
            let has_call = self.open.iter().any(|step| matches!(step, ScriptStep::Call(..)));
            let stop = if has_call { ModelStopReason::ToolCalls } else { ModelStopReason::EndTurn };
            self.open.push(ScriptStep::Event(ModelEvent::Stop(stop)));
            self.replies.push(self.open);
        }
        self.replies
    }
}

/// A line of a script. In a valid line, exactly one field is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    text: Option<String>,
    thought: Option<String>,
    call: Option<CallLine>,
    delay_ms: Option<u64>,
    error: Option<ErrorLine>,
    end: Option<ModelStopReason>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine {
    id: Option<String>,
    name: String,
    #[serde(default = "no_arguments")]
    args: Value,
    chunk: Option<NonZeroUsize>,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorLine {
    message: String,
    status: Option<u16>,
}

impl From<ErrorLine> for ModelError {
    fn from(ErrorLine { message, status }: ErrorLine) -> Self {
        let fault = status.map_or(ModelErrorKind::Other, ModelErrorKind::from_status);
        Self { kind: fault, message, status, retry_after: None }
    }
}

/// Describes a JSON error with its column. The line number is omitted, because the parser receives
/// a single line and always reports line 1.
fn json_error_with_column(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(message) => format!("{message} (column {})", error.column()),
        None => message,
    }
}

#[cfg(test)]
mod tests;
