//! Encodes a message as a line.

use agent_client_protocol::{RawJsonRpcError, RawJsonRpcMessage, RawJsonRpcResponse};
use serde::Serialize;
use serde_json::{Result, json};

use crate::errors;
use crate::limits::{
    MAX_ERROR_LINE_BYTES, MAX_KEPT_BUFFER_BYTES, MAX_PATH_ERROR_DATA_BYTES,
    MAX_SMALL_ERROR_DATA_BYTES,
};

/// Replaces the content of `line` by the message and a newline.
pub(crate) fn encode(message: &mut RawJsonRpcMessage, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    line.shrink_to(MAX_KEPT_BUFFER_BYTES);
    match message {
        RawJsonRpcMessage::Request(request) => write_message_without_newline(request, line)?,
        RawJsonRpcMessage::Notification(notification) => {
            write_message_without_newline(notification, line)?;
        }
        RawJsonRpcMessage::Response(response) => write_response(response, line)?,
    }
    line.push(b'\n');
    Ok(())
}

/// Encodes a response. An error response is kept short and contains no data of the client.
fn write_response(response: &mut RawJsonRpcResponse, line: &mut Vec<u8>) -> Result<()> {
    if let RawJsonRpcResponse::Error { error, .. } = response {
        reshape_sdk_error(error);
    }
    write_message_without_newline(response, line)?;
    if let RawJsonRpcResponse::Error { error, .. } = response
        && line.len() >= MAX_ERROR_LINE_BYTES
        && serde_json::to_vec(&error.data)?.len() > max_data_bytes(error)
    {
        // Keep `reason`, because programs depend on it.
        let reason = error.data.value().and_then(|data| data.get("reason")).cloned();
        error.data = reason.map(|reason| Some(json!({ "reason": reason }))).into();
        line.clear();
        write_message_without_newline(response, line)?;
    }
    Ok(())
}

/// A message that is serialised by reference. The SDK's `Serialize` implementation of a message
/// first clones the whole message.
#[derive(Serialize)]
struct BorrowedJsonRpcMessage<'a, T> {
    jsonrpc: &'static str,
    #[serde(flatten)]
    message: &'a T,
}

fn write_message_without_newline<T: Serialize>(message: &T, line: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(line, &BorrowedJsonRpcMessage { jsonrpc: "2.0", message })
}

/// Returns the maximum number of bytes of `data` that are kept if the line of the error is too
/// long.
fn max_data_bytes(error: &RawJsonRpcError) -> usize {
    if errors::is_reason_and_path(error.data.value()) {
        MAX_PATH_ERROR_DATA_BYTES
    } else {
        MAX_SMALL_ERROR_DATA_BYTES
    }
}

/// Converts an error created by the SDK to our shape; see [`errors::from_sdk_error`].
fn reshape_sdk_error(error: &mut RawJsonRpcError) {
    if let Some(ours) = errors::from_sdk_error(error.code, &error.message, error.data.value()) {
        *error = ours.into();
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;
    use crate::errors::tests::check_shape;

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
    fn large_error_data_is_omitted_and_a_large_result_is_not() {
        let empty = line(&error(1, "m", &json!(""))).len();
        let fits = error(1, "m", &json!("d".repeat(MAX_ERROR_LINE_BYTES - empty)));
        let large = error(1, "m", &json!("d".repeat(MAX_ERROR_LINE_BYTES - empty + 1)));
        let result = json!({"jsonrpc": "2.0", "id": 1, "result": "r".repeat(100_000)});
        let long = error(1, &"m".repeat(1000), &json!({"reason": "model_error"}));

        assert_eq!(read(&fits), fits);
        assert_eq!(line(&fits).len(), MAX_ERROR_LINE_BYTES);
        assert_eq!(read(&large)["error"], json!({"code": 1, "message": "m"}));
        assert_eq!(read(&result), result);
        assert_eq!(read(&long), long, "a short word goes with any message");
    }

    #[test]
    fn errors_of_the_sdk_are_converted_to_our_shape() {
        let method = read(&error(-32601, "Method not found", &json!("S/method")));
        assert_eq!(check_shape(&method["error"]), Ok(()));
        assert!(!method.to_string().contains('S'), "{method}");
        let bare = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}});
        assert_eq!(check_shape(&read(&bare)["error"]), Ok(()));
    }

    #[test]
    fn a_long_error_keeps_its_reason() {
        let long = "m".repeat(MAX_ERROR_LINE_BYTES);
        let data = json!({"reason": "model_error", "more": "m".repeat(MAX_SMALL_ERROR_DATA_BYTES)});
        let sent = read(&error(-32603, &long, &data));
        assert_eq!(sent["error"]["data"], json!({"reason": "model_error"}));
    }

    #[test]
    fn a_path_is_named_in_the_data_of_a_long_error_within_its_bound() {
        let data = |bytes| json!({"reason": "folder_unusable", "path": "p".repeat(bytes)});
        let long = "m".repeat(MAX_ERROR_LINE_BYTES);
        assert_eq!(read(&error(-32602, &long, &data(1_000)))["error"]["data"], data(1_000));
        let sent = read(&error(-32602, &long, &data(MAX_PATH_ERROR_DATA_BYTES)));
        assert_eq!(sent["error"]["data"], json!({"reason": "folder_unusable"}));
    }
}
