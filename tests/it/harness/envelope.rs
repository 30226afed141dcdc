//! The envelope of every line: JSON-RPC 2.0 as ACP uses it, and how long a line may be.

use serde_json::{Map, Value};

use super::Answer;

/// The longest line of any kind.
const LINE_BYTES: usize = 1 << 20;

/// The longest line of an update that is streamed: many clients stop at 64 KiB.
const STREAMED_BYTES: usize = 60 << 10;

/// One message of the agent.
#[derive(Debug)]
pub(crate) enum Message {
    /// It asks something.
    Request { id: Value, method: String, params: Value },
    /// It tells something.
    Notification { method: String, params: Value },
    /// It answers something.
    Answer { id: Value, answer: Answer },
}

/// Takes a line apart.
///
/// # Panics
/// If the line breaks a rule of the envelope.
pub(crate) fn parse(line: &[u8]) -> Message {
    let text = std::str::from_utf8(line).expect("TRANSPORT-002: a line is UTF-8");
    let text = text.strip_suffix('\n').expect("a line ends with a line feed");
    let value: Value = serde_json::from_str(text).expect("TRANSPORT-001: a line is JSON");
    let Value::Object(mut object) = value else { panic!("a line is one object: {text}") };
    assert_eq!(object.remove("jsonrpc"), Some("2.0".into()), "{text}");
    let message = match object.remove("method") {
        Some(Value::String(method)) => call(method, &mut object),
        Some(other) => panic!("{other} is no method"),
        None => answer(&mut object),
    };
    assert!(object.is_empty(), "keys that do not belong there: {object:?}");
    let limit = if is_streamed(&message) { STREAMED_BYTES } else { LINE_BYTES };
    assert!(text.len() <= limit, "a line of {} bytes", text.len());
    message
}

fn call(method: String, object: &mut Map<String, Value>) -> Message {
    let params = object.remove("params").unwrap_or_default();
    match object.remove("id") {
        Some(id) => {
            assert!(id.is_string() || id.is_i64(), "{id} is no id");
            Message::Request { id, method, params }
        }
        None => Message::Notification { method, params },
    }
}

/// JSONRPC-002: exactly one of result and error; ERROR-001: a message is one line.
fn answer(object: &mut Map<String, Value>) -> Message {
    let id = object.remove("id").expect("an answer has an id");
    let answer = match (object.remove("result"), object.remove("error")) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => {
            assert!(error["code"].is_i64(), "{error}");
            let message = error["message"].as_str().expect("an error has a message");
            assert!(!message.is_empty() && !message.contains('\n'), "{error}");
            Err(error)
        }
        both => panic!("not one of result and error: {both:?}"),
    };
    Message::Answer { id, answer }
}

/// First and final reports of a call may be larger than what is streamed.
fn is_streamed(message: &Message) -> bool {
    let Message::Notification { params, .. } = message else { return false };
    let update = &params["update"];
    let is_final = matches!(update["status"].as_str(), Some("completed" | "failed"));
    update["sessionUpdate"] != "tool_call" && !is_final
}
