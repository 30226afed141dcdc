//! W3C trace context from the `_meta` of a request.
//!
//! This module only propagates the context and generates no identifiers. As the specification
//! requires, it drops malformed values, so that other systems do not receive them.

use serde::{Deserialize, Serialize};

use crate::limits::{
    MAX_BAGGAGE_BYTES, MAX_TRACEPARENT_BYTES, MAX_TRACESTATE_BYTES, MAX_TRACESTATE_MEMBERS,
};
use crate::schema::v1::Meta;

/// W3C trace context (<https://www.w3.org/TR/trace-context/>, <https://www.w3.org/TR/baggage/>).
/// Valid values are propagated unchanged.
///
/// The three keys of the trace context are reserved at the root of `_meta`
/// (<https://agentclientprotocol.com/protocol/v1/extensibility#the-_meta-field>).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceContext {
    /// Ids of the trace and the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Entries of tracing vendors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Entries of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
}

impl TraceContext {
    /// Reads the trace context of a request. Drops values that are malformed or too long, and a
    /// `tracestate` without a valid `traceparent`.
    #[must_use]
    pub fn from_meta(meta: Option<&Meta>) -> Self {
        let text = |key: &str, is_valid: fn(&str) -> bool| {
            let text = meta?.get(key)?.as_str()?;
            is_valid(text).then(|| text.to_owned())
        };
        let traceparent = text("traceparent", is_traceparent);
        let tracestate = traceparent.as_ref().and_then(|_| text("tracestate", is_tracestate));
        Self { traceparent, tracestate, baggage: text("baggage", is_baggage) }
    }

    /// Returns whether the trace context contains no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns whether `text` consists of version, trace id, parent id and flags, in lower-case
/// hexadecimal digits and separated by dashes. A later version of the format may have more fields.
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<_> = text.splitn(5, '-').collect();
    let [version, trace, parent, flags, more @ ..] = parts.as_slice() else { return false };
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    text.len() <= MAX_TRACEPARENT_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && [(version, 2), (trace, 32), (parent, 16), (flags, 2)]
            .iter()
            .all(|(part, len)| part.len() == *len && part.bytes().all(is_lowercase_hex_digit))
        && !is_zero(trace)
        && !is_zero(parent)
        && *version != "ff"
        && (more.is_empty() || *version != "00")
}

fn is_lowercase_hex_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Returns whether `text` is a list of `key=value` members, separated by commas. Empty members are
/// allowed.
fn is_tracestate(text: &str) -> bool {
    let members = || text.split(',').map(str::trim).filter(|member| !member.is_empty());
    text.len() <= MAX_TRACESTATE_BYTES
        && members().count() <= MAX_TRACESTATE_MEMBERS
        && members().next().is_some()
        && members().all(|member| {
            member.split_once('=').is_some_and(|(key, value)| {
                let is_of_key = |byte: u8| {
                    matches!(byte, b'a'..=b'z' | b'0'..=b'9')
                        || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
                };
                let is_of_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
                (1..=256).contains(&key.len())
                    && key.bytes().all(is_of_key)
                    && (1..=256).contains(&value.len())
                    && value.bytes().all(is_of_value)
            })
        })
}

/// Returns whether `text` is a list of `key=value` members, separated by commas. A member may have
/// properties after semicolons. Only characters of an HTTP header are allowed: printable ASCII and
/// tabs.
fn is_baggage(text: &str) -> bool {
    text.len() <= MAX_BAGGAGE_BYTES
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && text.split(',').all(|member| {
            member.split_once('=').is_some_and(|(key, _)| {
                let key = key.trim();
                !key.is_empty() && !key.contains([' ', '"', ';', '(', ')'])
            })
        })
}

#[cfg(test)]
mod tests {
    use super::TraceContext;
    use crate::limits::MAX_BAGGAGE_BYTES;
    use serde_json::{Map, Value, json};

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn trace(meta: &Value) -> TraceContext {
        TraceContext::from_meta(meta.as_object())
    }

    #[test]
    fn well_formed_values_are_propagated_unchanged() {
        let meta = json!({
            "traceparent": PARENT,
            "tracestate": "congo=t61rcWkgMzE,rojo@x=00f067aa, ",
            "baggage": "userId=alice, isProduction=false;a=b",
            "other": 1,
        });
        let expected = TraceContext {
            traceparent: Some(PARENT.to_owned()),
            tracestate: Some("congo=t61rcWkgMzE,rojo@x=00f067aa, ".to_owned()),
            baggage: Some("userId=alice, isProduction=false;a=b".to_owned()),
        };
        assert_eq!(trace(&meta), expected);
        assert!(TraceContext::from_meta(None).is_empty());
        assert!(TraceContext::from_meta(Some(&Map::new())).is_empty());
    }

    #[test]
    fn a_malformed_traceparent_is_dropped_with_its_tracestate() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        for parent in [
            json!(""),
            json!(7),
            json!(null),
            json!([PARENT]),
            json!(format!("00-{id}-00f067aa0ba902b7")),
            json!(format!("00-{id}-00f067aa0ba902b7-01-more")),
            json!(format!("ff-{id}-00f067aa0ba902b7-01")),
            json!(format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32))),
            json!(format!("00-{id}-{}-01", "0".repeat(16))),
            json!(format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase())),
            json!(format!("00-{id}-00f067aa0ba902b7-1")),
            json!(format!("00-{id}x-00f067aa0ba902b7-01")),
            json!(format!("01-{id}-00f067aa0ba902b7-01-{}", "x".repeat(300))),
            json!(format!("01-{id}-00f067aa0ba902b7-01-\n")),
            json!(format!(" {PARENT}")),
        ] {
            let meta = json!({ "traceparent": parent, "tracestate": "a=b" });
            assert!(trace(&meta).is_empty(), "{parent}");
        }
        // A later version of the format may have more fields.
        let later = format!("01-{id}-00f067aa0ba902b7-01-more");
        assert_eq!(trace(&json!({ "traceparent": later })).traceparent, Some(later));
    }

    #[test]
    fn a_malformed_tracestate_or_baggage_is_dropped_alone() {
        let many = (0..33).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        for state in ["", ",", "a", "=b", "A=b", "a=", "a=b=c", "a=ü", &many, &"a".repeat(600)] {
            let meta = json!({ "traceparent": PARENT, "tracestate": state });
            let found = trace(&meta);
            assert_eq!((found.traceparent.is_some(), found.tracestate), (true, None), "{state}");
        }
        let long = format!("a={}", "x".repeat(MAX_BAGGAGE_BYTES));
        for baggage in ["", "a", "a=1,", "=1", "a b=1", "a=\u{202e}", "a=\n", &long] {
            assert!(trace(&json!({ "baggage": baggage })).is_empty(), "{baggage}");
        }
    }
}
