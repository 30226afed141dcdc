//! Turns a message into its line.
//!
//! Knows nothing of queues and streams.

use agent_client_protocol::{RawJsonRpcMessage, RawJsonRpcResponse};
use serde::Serialize;
use serde_json::Result;

use crate::limits::{KEPT_BUFFER_BYTES, MAX_ERROR_DATA_BYTES};

/// Puts the message's line, newline included, in place of what `line` held.
pub(super) fn encode(message: &mut RawJsonRpcMessage, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    line.shrink_to(KEPT_BUFFER_BYTES);
    match message {
        RawJsonRpcMessage::Request(request) => write(request, line)?,
        RawJsonRpcMessage::Notification(notification) => write(notification, line)?,
        RawJsonRpcMessage::Response(response) => {
            strip_large_data(response)?;
            write(response, line)?;
        }
    }
    line.push(b'\n');
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

/// Takes out of an error response what the SDK copied there from the client's parameters.
fn strip_large_data(response: &mut RawJsonRpcResponse) -> Result<()> {
    if let RawJsonRpcResponse::Error { error, .. } = response
        && serde_json::to_vec(&error.data)?.len() > MAX_ERROR_DATA_BYTES
    {
        error.data = Default::default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

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

    #[test]
    fn error_data_over_its_bound_is_left_out_and_a_result_is_not() {
        let error = |data: Option<String>| match data {
            Some(data) => {
                json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m", "data": data}})
            }
            None => json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}}),
        };
        let read = |message: &Value| serde_json::from_str::<Value>(&line(message)).unwrap();
        let fits = error(Some("d".repeat(MAX_ERROR_DATA_BYTES - 2)));
        let large = error(Some("d".repeat(MAX_ERROR_DATA_BYTES - 1)));
        let result = json!({"jsonrpc": "2.0", "id": 1, "result": "r".repeat(100_000)});

        assert_eq!(read(&fits), fits);
        assert_eq!(read(&large), error(None));
        assert_eq!(read(&result), result);
    }
}
