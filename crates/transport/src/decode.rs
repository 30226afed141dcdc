//! Decodes a line into a JSON-RPC message, or returns the reason for rejecting it.
//!
//! This module handles the JSON-RPC envelope, but no ACP methods. If the id of a rejected line is
//! valid, the error response repeats it. The response contains nothing else of the line.

use std::borrow::Cow;

use agent_client_protocol::{
    RawJsonRpcError, RawJsonRpcId, RawJsonRpcMessage, RawJsonRpcNotification, RawJsonRpcParams,
    RawJsonRpcRequest, RawJsonRpcResponse,
};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use crate::errors::LineError;
use crate::json_bounds;
use crate::limits::{MAX_ID_BYTES, MAX_LINE_BYTES};
use crate::unique_keys::UniqueKeyValue;

/// A line that is within the bounds and may be parsed.
#[derive(Debug)]
pub(crate) struct CheckedLine<'a> {
    /// Text of the line, with U+FFFD in place of invalid UTF-8.
    text: Cow<'a, str>,
    /// Estimated size of the message in bytes.
    pub(crate) size: usize,
}

/// Checks the encoding and the bounds of a line that is not blank, without parsing the line.
pub(crate) fn check_line(line: &[u8]) -> Result<CheckedLine<'_>, LineError> {
    let text = match str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_lossy(line)?),
    };
    let size = json_bounds::check_bounds_and_estimate_size(text.as_bytes())?;
    Ok(CheckedLine { text, size })
}

/// The way in which invalid UTF-8 is replaced by U+FFFD.
#[derive(Clone, Copy)]
enum ReplacementCharMerging {
    /// One replacement per invalid sequence, as usual.
    ReplaceEach,
    /// One replacement for adjacent invalid sequences.
    MergeAdjacent,
}

/// Decodes a line that is not UTF-8. A replacement character may be longer than the invalid bytes.
/// If the text would exceed the maximum length of a line, adjacent replacements are merged.
fn decode_lossy(line: &[u8]) -> Result<String, LineError> {
    for gaps in [ReplacementCharMerging::ReplaceEach, ReplacementCharMerging::MergeAdjacent] {
        // The length is computed before decoding, because the text may be three times as long as
        // the line.
        let length = pieces_with_replacements(line, gaps).map(str::len).sum::<usize>();
        if length <= MAX_LINE_BYTES {
            let mut text = String::with_capacity(length);
            text.extend(pieces_with_replacements(line, gaps));
            return Ok(text);
        }
    }
    Err(LineError::TooLong)
}

fn pieces_with_replacements(
    line: &[u8],
    gaps: ReplacementCharMerging,
) -> impl Iterator<Item = &str> {
    let mut is_behind_gap = false;
    line.utf8_chunks().flat_map(move |chunk| {
        let is_merged = matches!(gaps, ReplacementCharMerging::MergeAdjacent)
            && is_behind_gap
            && chunk.valid().is_empty();
        is_behind_gap = !chunk.invalid().is_empty();
        [chunk.valid(), if is_behind_gap && !is_merged { "\u{fffd}" } else { "" }]
    })
}

impl CheckedLine<'_> {
    /// Parses the line.
    pub(crate) fn decode(self) -> Result<RawJsonRpcMessage, RejectedLineHandling> {
        let text = &*self.text;
        let is_utf8 = matches!(self.text, Cow::Borrowed(_));
        if !text.trim_start().starts_with('{') {
            return Err(
                if is_utf8 { error_for_non_object(text) } else { LineError::NotUtf8 }.into()
            );
        }
        let envelope: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        match envelope.and_then(Envelope::into_message) {
            // If an agent requests the text of a file, some clients send the raw bytes of the file.
            // A response with invalid UTF-8 is therefore accepted and not answered with an error,
            // so that the waiting request completes. A receiver that needs the exact bytes must
            // check for U+FFFD.
            Some(message @ RawJsonRpcMessage::Response(_)) => Ok(message),
            Some(message) if is_utf8 => Ok(message),
            Some(message) => Err(RejectedLineHandling::Respond(
                unaltered_request_id(&message),
                LineError::NotUtf8,
            )),
            None => match invalid_object_kind_and_id(text) {
                Ok((InvalidObjectKind::Response, id)) => {
                    Err(RejectedLineHandling::EndRequest(id_unless_altered(id)))
                }
                Ok((InvalidObjectKind::Other, id)) if is_utf8 => {
                    Err(RejectedLineHandling::Respond(id, LineError::InvalidEnvelope))
                }
                Ok((InvalidObjectKind::Other, id)) => {
                    Err(RejectedLineHandling::Respond(id_unless_altered(id), LineError::NotUtf8))
                }
                Err(error) => Err(if is_utf8 { error } else { LineError::NotUtf8 }.into()),
            },
        }
    }
}

/// Returns the id of a rejected request, or null if decoding may have changed the id.
fn unaltered_request_id(message: &RawJsonRpcMessage) -> RawJsonRpcId {
    match message {
        RawJsonRpcMessage::Request(request) => id_unless_altered(request.id.clone()),
        _ => RawJsonRpcId::Null,
    }
}

fn id_unless_altered(id: RawJsonRpcId) -> RawJsonRpcId {
    match id {
        RawJsonRpcId::Str(text) if text.contains(char::REPLACEMENT_CHARACTER) => RawJsonRpcId::Null,
        id => id,
    }
}

/// The handling of a rejected line.
#[derive(Debug, PartialEq)]
pub(crate) enum RejectedLineHandling {
    /// Send one error response with this id.
    Respond(RawJsonRpcId, LineError),
    /// The line is an invalid response. End the request with this id, which waits for it. Send
    /// nothing, because responding to a response could loop forever.
    EndRequest(RawJsonRpcId),
}

impl From<LineError> for RejectedLineHandling {
    fn from(fault: LineError) -> Self {
        Self::Respond(RawJsonRpcId::Null, fault)
    }
}

/// The members of a message. Serde rejects duplicate members and skips unknown members.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(default, deserialize_with = "deserialize_present")]
    id: Option<RawJsonRpcId>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "deserialize_params")]
    params: Option<RawJsonRpcParams>,
    #[serde(default, deserialize_with = "deserialize_present")]
    result: Option<UniqueKeyValue>,
    error: Option<Box<RawJsonRpcError>>,
}

impl Envelope<'_> {
    fn into_message(self) -> Option<RawJsonRpcMessage> {
        if self.jsonrpc != "2.0" || self.id.as_ref().is_some_and(is_id_too_long) {
            return None;
        }
        let Self { params, .. } = self;
        Some(match (self.method, self.id, self.result, self.error) {
            (Some(_), Some(RawJsonRpcId::Null), ..) => return None,
            (Some(method), Some(id), None, None) => {
                RawJsonRpcRequest { id, method: method.into(), params }.into()
            }
            (Some(method), None, None, None) => {
                RawJsonRpcNotification { method: method.into(), params }.into()
            }
            (None, Some(id), Some(UniqueKeyValue(result)), None) => {
                RawJsonRpcResponse::Result { id, result }.into()
            }
            (None, Some(id), None, Some(error)) => RawJsonRpcResponse::Error { id, error }.into(),
            _ => return None,
        })
    }
}

fn is_id_too_long(id: &RawJsonRpcId) -> bool {
    serde_json::to_string(id).is_ok_and(|text| text.len() > MAX_ID_BYTES)
}

/// The members that determine the error response to an invalid object. The members may have any
/// values.
#[derive(Deserialize)]
struct MemberPresence {
    id: Option<AnyId>,
    #[serde(default, deserialize_with = "deserialize_present")]
    method: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "deserialize_present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "deserialize_present")]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyId {
    Valid(RawJsonRpcId),
    Other(IgnoredAny),
}

/// Deserialises a member that is present. The result distinguishes a null member from a missing
/// member.
fn deserialize_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    member: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

fn deserialize_params<'de, D: Deserializer<'de>>(
    member: D,
) -> Result<Option<RawJsonRpcParams>, D::Error> {
    let UniqueKeyValue(value) = UniqueKeyValue::deserialize(member)?;
    RawJsonRpcParams::from_value(value).map_err(|error| D::Error::custom(error.message))
}

/// Returns the kind and the id of an object that is not a valid message. An invalid id becomes
/// null.
fn invalid_object_kind_and_id(text: &str) -> Result<(InvalidObjectKind, RawJsonRpcId), LineError> {
    let outline: MemberPresence =
        serde_json::from_str(text).map_err(|error| match error.is_data() {
            true => LineError::InvalidEnvelope,
            false => LineError::NotJson,
        })?;
    let is_response =
        outline.method.is_none() && (outline.result.is_some() || outline.error.is_some());
    let id = match outline.id {
        Some(AnyId::Valid(id)) if !is_id_too_long(&id) => id,
        _ => RawJsonRpcId::Null,
    };
    Ok((if is_response { InvalidObjectKind::Response } else { InvalidObjectKind::Other }, id))
}

/// The kind of message that an invalid object was meant to be.
enum InvalidObjectKind {
    Response,
    Other,
}

fn error_for_non_object(text: &str) -> LineError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => LineError::NotAnObject,
        Err(_) => LineError::NotJson,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::limits::{MAX_DEPTH, MAX_JSON_VALUES};

    fn decode(line: &[u8]) -> Result<RawJsonRpcMessage, RejectedLineHandling> {
        check_line(line)?.decode()
    }

    #[test]
    fn a_valid_line_becomes_the_message_that_the_sdk_would_read() {
        let rows = [
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,null,"x"]}}"#,
            r#" {"params":[1],"method":"m","id":"1","jsonrpc":"2.0"} "#,
            r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":"","method":"m","params":null,"unknown":{}}"#,
            r#"{"jsonrpc":"2.0","method":"m\u00e9\n","params":{"id":null}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"m","more":1}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":null}}"#,
        ];
        for line in rows {
            let expected: RawJsonRpcMessage = serde_json::from_str(line).unwrap();
            assert_eq!(decode(line.as_bytes()), Ok(expected), "{line}");
        }
    }

    fn assert_refused(line: &[u8], id: impl Into<Value>, fault: LineError) {
        let id = serde_json::from_value(id.into()).unwrap();
        let start = String::from_utf8_lossy(&line[..line.len().min(80)]);
        assert_eq!(decode(line), Err(RejectedLineHandling::Respond(id, fault)), "{start}");
    }

    #[test]
    fn a_line_that_is_no_object_is_refused_without_an_id() {
        let rows: &[(LineError, &[&[u8]])] = &[
            (LineError::NotUtf8, &[b"\xff", b"[\xff]", b"{\"x\":\"\xc3\"}", b"{\"id\":1,\xc3"]),
            (
                LineError::NotJson,
                &[b"garbage", b"[", b"\0", b"\xef\xbb\xbf{}", b"{\"id\":1", b"{}{}"],
            ),
            (LineError::NotJson, &[b"{\"id\":1.5,\"method\":", b"{\"jsonrpc\":\"2.0\",\"id\":1"]),
            (LineError::NotAnObject, &[b"[]", b"[\"2.0\",1,\"m\"]", b"17", b"null", b"\"m\""]),
        ];
        for (fault, lines) in rows {
            lines.iter().for_each(|line| assert_refused(line, Value::Null, *fault));
        }
    }

    #[test]
    fn a_line_of_a_bad_shape_is_refused_before_it_is_parsed() {
        let deep = "[".repeat(MAX_DEPTH);
        let many = "[0".to_owned() + &",0".repeat(MAX_JSON_VALUES) + "]";
        for (params, fault) in [(deep, LineError::TooDeep), (many, LineError::TooManyValues)] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
            assert_refused(line.as_bytes(), Value::Null, fault);
        }
    }

    #[test]
    fn an_invalid_message_is_refused_with_its_valid_id() {
        let longest = "i".repeat(MAX_ID_BYTES - 2);
        let rows = [
            (json!(null), r"{}"),
            (json!(1), r#"{"id":1,"method":"m"}"#),
            (json!("a"), r#"{"jsonrpc":"1.0","id":"a","method":"m"}"#),
            (json!(longest), &format!(r#"{{"id":"{longest}","method":"m"}}"#)),
            (json!(null), &format!(r#"{{"id":"{longest}i","method":"m"}}"#)),
            (json!(1), r#"{"jsonrpc":2,"id":1,"method":"m"}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":1}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":5}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1e400]}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":["\ud800"]}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#),
            (json!(1), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[{"a":1,"a":1}]}"#),
            (json!(null), r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#),
            (json!(null), r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#),
            (json!(null), r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}"#),
            (json!(null), r#"{"jsonrpc":"2.0","id":{"a":1},"method":"m"}"#),
            (json!(null), r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#),
            (json!(null), r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}"#),
        ];
        for (id, line) in rows {
            assert_refused(line.as_bytes(), id, LineError::InvalidEnvelope);
        }
    }

    #[test]
    fn a_request_id_over_its_bound_makes_the_message_invalid() {
        for (length, is_valid) in [(MAX_ID_BYTES - 2, true), (MAX_ID_BYTES - 1, false)] {
            let id = "i".repeat(length);
            let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"m"}}"#);
            assert_eq!(decode(line.as_bytes()).is_ok(), is_valid, "{length}");
        }
    }

    #[test]
    fn a_response_that_is_not_utf_8_is_accepted_with_replacements() {
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"caf\xe9 \xff\xfe\"}}";
        let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"content":"caf\ufffd \ufffd\ufffd"}}"#;
        assert_eq!(decode(line), Ok(serde_json::from_str(whole).unwrap()));
        let line =
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"d\xe9j\xe0\"}}";
        assert!(matches!(decode(line), Ok(RawJsonRpcMessage::Response(_))));
        // If the replacements make the line too long, adjacent replacements are merged. The
        // remaining replacements count against the length limit.
        let long =
            |gaps: Vec<u8>| [&line[..line.len() - 3], &gaps, &line[line.len() - 3..]].concat();
        let merged = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"d\ufffdj\ufffd"}}"#;
        let merged = Ok(serde_json::from_str(merged).unwrap());
        assert_eq!(decode(&long(vec![0xff; MAX_LINE_BYTES / 3 + 1])), merged);
        assert_eq!(
            decode(&long(b"\xffa".repeat(MAX_LINE_BYTES / 4 + 1))),
            Err(LineError::TooLong.into())
        );
        let broken = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":\"\xff\"}";
        assert_eq!(decode(broken), Err(RejectedLineHandling::EndRequest(RawJsonRpcId::Number(1))));
    }

    #[test]
    fn a_request_that_is_not_utf_8_is_refused_with_its_unaltered_id() {
        let rows: &[(Value, &[u8])] = &[
            (json!(7), b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":[\"\xe9\"]}"),
            (json!("a"), b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"\xe9\"}"),
            (json!(7), b"{\"id\":7,\"method\":\"m\",\"\xe9\":1}"),
            (json!(null), b"{\"jsonrpc\":\"2.0\",\"id\":\"\xe9\",\"method\":\"m\"}"),
            (json!(null), b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[\"\xe9\"]}"),
        ];
        for (id, line) in rows {
            assert_refused(line, id.clone(), LineError::NotUtf8);
        }
    }

    #[test]
    fn a_broken_response_ends_its_request() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"1.0","id":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"text"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"a":1,"a":2}}}"#,
        ] {
            let expected = Err(RejectedLineHandling::EndRequest(RawJsonRpcId::Number(1)));
            assert_eq!(decode(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_broken_response_without_a_valid_id_ends_no_request() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":1.5,"result":null}"#[..],
            br#"{"jsonrpc":"2.0","result":null}"#,
            b"{\"jsonrpc\":\"1.0\",\"id\":\"\xe9\",\"result\":null}",
        ] {
            assert_eq!(
                decode(line),
                Err(RejectedLineHandling::EndRequest(RawJsonRpcId::Null)),
                "{line:?}"
            );
        }
    }
}
