//! Turns one line into one JSON-RPC message, or says why not.
//!
//! Knows the JSON-RPC envelope and no ACP method. What it says of a bad line holds nothing of
//! that line but a valid id.

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

/// A line that may be parsed.
#[derive(Debug)]
pub(crate) struct CheckedLine<'a> {
    /// Where the line is not UTF-8, with U+FFFD for what is wrong.
    text: Cow<'a, str>,
    /// The estimated bytes of its message.
    pub(crate) size: usize,
}

/// Checks what can be told of a line, which is not blank, without parsing it.
pub(crate) fn check_line(line: &[u8]) -> Result<CheckedLine<'_>, LineError> {
    let text = match str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_lossy(line)?),
    };
    let size = json_bounds::check_bounds(text.as_bytes())?;
    Ok(CheckedLine { text, size })
}

/// Which gaps of a text U+FFFD stands for.
#[derive(Clone, Copy)]
enum InvalidUtf8 {
    /// Each of them, as usual.
    ReplaceEach,
    /// All that stand side by side.
    MergeAdjacent,
}

/// Decodes a line that is not UTF-8. What stands for a gap may be longer than it; where the text
/// would be over the bound of a line, gaps are merged.
fn decode_lossy(line: &[u8]) -> Result<String, LineError> {
    for gaps in [InvalidUtf8::ReplaceEach, InvalidUtf8::MergeAdjacent] {
        // Counted first: it may come to three times the line.
        let length = replaced_pieces(line, gaps).map(str::len).sum::<usize>();
        if length <= MAX_LINE_BYTES {
            let mut text = String::with_capacity(length);
            text.extend(replaced_pieces(line, gaps));
            return Ok(text);
        }
    }
    Err(LineError::TooLong)
}

fn replaced_pieces(line: &[u8], gaps: InvalidUtf8) -> impl Iterator<Item = &str> {
    let mut is_behind_gap = false;
    line.utf8_chunks().flat_map(move |chunk| {
        let is_merged =
            matches!(gaps, InvalidUtf8::MergeAdjacent) && is_behind_gap && chunk.valid().is_empty();
        is_behind_gap = !chunk.invalid().is_empty();
        [chunk.valid(), if is_behind_gap && !is_merged { "\u{fffd}" } else { "" }]
    })
}

impl CheckedLine<'_> {
    /// Parses the line.
    pub(crate) fn decode(self) -> Result<RawJsonRpcMessage, RejectedLine> {
        let text = &*self.text;
        let is_utf8 = matches!(self.text, Cow::Borrowed(_));
        if !text.trim_start().starts_with('{') {
            return Err(if is_utf8 { reject_non_object(text) } else { LineError::NotUtf8 }.into());
        }
        let envelope: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        match envelope.and_then(Envelope::into_message) {
            // Clients send the bytes of a file as the text that they were asked for. An answer gets
            // none, so that whoever waits for it takes it with the gaps that it has; what it must
            // not be used for is to be seen from U+FFFD.
            Some(message @ RawJsonRpcMessage::Response(_)) => Ok(message),
            Some(message) if is_utf8 => Ok(message),
            Some(message) => {
                Err(RejectedLine::Respond(intact_request_id(&message), LineError::NotUtf8))
            }
            None if is_utf8 => Err(reject_object(text)),
            None => Err(match reject_object(text) {
                RejectedLine::Respond(id, _) => {
                    RejectedLine::Respond(intact_id(id), LineError::NotUtf8)
                }
                RejectedLine::Ignore => RejectedLine::Ignore,
            }),
        }
    }
}

/// The id of a request that is refused; none where it may not be the one that was sent.
fn intact_request_id(message: &RawJsonRpcMessage) -> RawJsonRpcId {
    match message {
        RawJsonRpcMessage::Request(request) => intact_id(request.id.clone()),
        _ => RawJsonRpcId::Null,
    }
}

fn intact_id(id: RawJsonRpcId) -> RawJsonRpcId {
    match id {
        RawJsonRpcId::Str(text) if text.contains(char::REPLACEMENT_CHARACTER) => RawJsonRpcId::Null,
        id => id,
    }
}

/// What becomes of a line that is not handed over.
#[derive(Debug, PartialEq)]
pub(crate) enum RejectedLine {
    /// It gets one error response with this id.
    Respond(RawJsonRpcId, LineError),
    /// It is a broken response: an answer to an answer might never end.
    Ignore,
}

impl From<LineError> for RejectedLine {
    fn from(fault: LineError) -> Self {
        Self::Respond(RawJsonRpcId::Null, fault)
    }
}

/// The members of a message. Serde refuses one that comes twice; unknown ones are skipped.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(default, deserialize_with = "present")]
    id: Option<RawJsonRpcId>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "params")]
    params: Option<RawJsonRpcParams>,
    #[serde(default, deserialize_with = "present")]
    result: Option<UniqueKeyValue>,
    error: Option<Box<RawJsonRpcError>>,
}

impl Envelope<'_> {
    fn into_message(self) -> Option<RawJsonRpcMessage> {
        if self.jsonrpc != "2.0" || self.id.as_ref().is_some_and(is_too_long) {
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

fn is_too_long(id: &RawJsonRpcId) -> bool {
    serde_json::to_string(id).is_ok_and(|text| text.len() > MAX_ID_BYTES)
}

/// The members that decide how an invalid object is answered, whatever their values.
#[derive(Deserialize)]
struct MemberPresence {
    id: Option<AnyId>,
    #[serde(default, deserialize_with = "present")]
    method: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyId {
    Valid(RawJsonRpcId),
    Other(IgnoredAny),
}

/// Tells a member that is null from one that is missing.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    member: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

fn params<'de, D: Deserializer<'de>>(member: D) -> Result<Option<RawJsonRpcParams>, D::Error> {
    let UniqueKeyValue(value) = UniqueKeyValue::deserialize(member)?;
    RawJsonRpcParams::from_value(value).map_err(|error| D::Error::custom(error.message))
}

fn reject_object(text: &str) -> RejectedLine {
    let outline: MemberPresence = match serde_json::from_str(text) {
        Ok(outline) => outline,
        Err(error) if error.is_data() => return LineError::InvalidEnvelope.into(),
        Err(_) => return LineError::NotJson.into(),
    };
    if outline.method.is_none() && (outline.result.is_some() || outline.error.is_some()) {
        return RejectedLine::Ignore;
    }
    let id = match outline.id {
        Some(AnyId::Valid(id)) if !is_too_long(&id) => id,
        _ => RawJsonRpcId::Null,
    };
    RejectedLine::Respond(id, LineError::InvalidEnvelope)
}

fn reject_non_object(text: &str) -> LineError {
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

    fn decode(line: &[u8]) -> Result<RawJsonRpcMessage, RejectedLine> {
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
        assert_eq!(decode(line), Err(RejectedLine::Respond(id, fault)), "{start}");
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
    fn an_invalid_message_is_refused_with_the_id_that_it_validly_has() {
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
    fn an_answer_that_is_not_utf_8_is_taken_with_gaps() {
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"caf\xe9 \xff\xfe\"}}";
        let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"content":"caf\ufffd \ufffd\ufffd"}}"#;
        assert_eq!(decode(line), Ok(serde_json::from_str(whole).unwrap()));
        let line =
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"d\xe9j\xe0\"}}";
        assert!(matches!(decode(line), Ok(RawJsonRpcMessage::Response(_))));
        // Where they are too many for the bound of a line, they are merged; else they count for it.
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
        assert_eq!(decode(broken), Err(RejectedLine::Ignore));
    }

    #[test]
    fn a_request_that_is_not_utf_8_is_refused_with_the_id_that_it_surely_has() {
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
    fn a_broken_response_is_dropped() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"result":null}"#,
            r#"{"jsonrpc":"2.0","result":null}"#,
            r#"{"jsonrpc":"1.0","id":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"text"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"a":1,"a":2}}}"#,
        ] {
            assert_eq!(decode(line.as_bytes()), Err(RejectedLine::Ignore), "{line}");
        }
    }
}
