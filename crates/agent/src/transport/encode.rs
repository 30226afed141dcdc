//! Turns a message into its line.
//!
//! Knows nothing of queues and streams.

use agent_client_protocol::{ErrorCode, RawJsonRpcError, RawJsonRpcMessage, RawJsonRpcResponse};
use serde::Serialize;
use serde_json::{Result, Value, json};

use crate::limits::{KEPT_BUFFER_BYTES, MAX_ERROR_BYTES, SMALL_DATA_BYTES};

/// Puts the message's line, newline included, in place of what `line` held.
pub(super) fn encode(message: &mut RawJsonRpcMessage, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    line.shrink_to(KEPT_BUFFER_BYTES);
    match message {
        RawJsonRpcMessage::Request(request) => write(request, line)?,
        RawJsonRpcMessage::Notification(notification) => write(notification, line)?,
        RawJsonRpcMessage::Response(response) => write_response(response, line)?,
    }
    line.push(b'\n');
    Ok(())
}

/// Writes an error short and without what the client sent.
fn write_response(response: &mut RawJsonRpcResponse, line: &mut Vec<u8>) -> Result<()> {
    if let RawJsonRpcResponse::Error { error, .. } = response {
        keep_own_words(error);
    }
    write(response, line)?;
    if let RawJsonRpcResponse::Error { error, .. } = response
        && line.len() >= MAX_ERROR_BYTES
        && serde_json::to_vec(&error.data)?.len() > SMALL_DATA_BYTES
    {
        error.data = Default::default();
        line.clear();
        write(response, line)?;
    }
    Ok(())
}

/// The SDK's own `Serialize` of a message clones all of it first.
#[derive(Serialize)]
struct Line<'a, T> {
    jsonrpc: &'static str,
    #[serde(flatten)]
    message: &'a T,
}

fn write<T: Serialize>(message: &T, line: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(line, &Line { jsonrpc: "2.0", message })
}

/// Takes out of an error what the SDK put there of the client's message: its method, its
/// parameters, or a value of them in the parser's complaint. That may be large, or a secret.
fn keep_own_words(error: &mut RawJsonRpcError) {
    let Some(data) = error.data.value() else { return };
    let data = match data {
        _ if error.code == i32::from(ErrorCode::METHOD_NOT_FOUND) => None,
        Value::String(text) => match text.split_once(" before `") {
            Some((text, _method)) => Some(json!(format!("{text} first"))),
            None => return,
        },
        data if data["phase"] == "deserialization" => {
            data["error"].as_str().and_then(expected).map(|reason| json!({ "reason": reason }))
        }
        _ => return,
    };
    error.data = data.map(Some).into();
}

/// Returns the part of the parser's complaint that is about our types and not the client's bytes.
fn expected(complaint: &str) -> Option<String> {
    if complaint.starts_with("missing field `") {
        return Some(complaint.to_owned());
    }
    let (_found, expected) = complaint.rsplit_once(", expected ")?;
    Some(format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn line(message: &Value) -> String {
        let mut line = b"left over".to_vec();
        encode(&mut serde_json::from_value(message.clone()).unwrap(), &mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_is_the_message_and_one_newline() {
        for message in [
            json!({"jsonrpc": "2.0", "id": "a", "method": "m", "params": {"text": "a\nb\u{2028}"}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}),
            json!({"jsonrpc": "2.0", "method": "m"}),
            json!({"jsonrpc": "2.0", "id": 1, "result": null}),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "m", "data": [1], "more": 2}}),
        ] {
            let line = line(&message);
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
            assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), message);
        }
    }

    fn error(code: i32, message: &str, data: &Value) -> Value {
        let error = json!({"code": code, "message": message, "data": data});
        json!({"jsonrpc": "2.0", "id": 1, "error": error})
    }

    fn read(message: &Value) -> Value {
        serde_json::from_str(&line(message)).unwrap()
    }

    #[test]
    fn error_data_that_makes_the_line_too_long_is_left_out_and_a_result_is_not() {
        let empty = line(&error(1, "m", &json!(""))).len();
        let fits = error(1, "m", &json!("d".repeat(MAX_ERROR_BYTES - empty)));
        let large = error(1, "m", &json!("d".repeat(MAX_ERROR_BYTES - empty + 1)));
        let result = json!({"jsonrpc": "2.0", "id": 1, "result": "r".repeat(100_000)});
        let long = error(1, &"m".repeat(1000), &json!({"reason": "model_error"}));

        assert_eq!(read(&fits), fits);
        assert_eq!(line(&fits).len(), MAX_ERROR_BYTES);
        assert_eq!(read(&large)["error"], json!({"code": 1, "message": "m"}));
        assert_eq!(read(&result), result);
        assert_eq!(read(&long), long, "a short word goes with any message");
    }

    #[test]
    fn an_error_holds_nothing_of_the_message_that_it_answers() {
        let params =
            |error: &str| json!({"error": error, "json": {"k": "S"}, "phase": "deserialization"});
        let rows = [
            (-32601, json!("S/method"), Value::Null),
            (-32602, params("missing field `cwd`"), json!({"reason": "missing field `cwd`"})),
            (
                -32602,
                params("invalid type: string \"S, expected S\", expected u16"),
                json!({"reason": "expected u16"}),
            ),
            (-32602, params("S"), Value::Null),
            (
                -32600,
                json!("It must be done before `S` can be used"),
                json!("It must be done first"),
            ),
            (-32600, json!("It is done already"), json!("It is done already")),
            (-32603, json!({"reason": "busy"}), json!({"reason": "busy"})),
        ];
        for (code, data, left) in rows {
            let told = read(&error(code, "m", &data));
            assert_eq!(told["error"]["data"], left, "{data}");
        }
    }
}
