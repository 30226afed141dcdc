//! Caps of raw input and output, which stay valid JSON of the same shape where they can.

use acp_types::text;
use serde_json::{Value, json};

/// Bytes that a string inside a raw value keeps when the value is too large.
const STRING_BYTES: usize = 1024;

/// Fits a raw value into `max` serialised bytes: long strings are shortened first, and what is
/// still too large is replaced by its size. Null is no value: both protocols read it as absence.
#[must_use]
pub fn raw(value: Value, max: usize) -> Option<Value> {
    if value.is_null() {
        return None;
    }
    let bytes = byte_len(&value);
    if bytes <= max {
        return Some(value);
    }
    let short = shorten(value);
    if byte_len(&short) <= max { Some(short) } else { Some(json!({ "bytesLeftOut": bytes })) }
}

/// Returns whether a raw value would be cut by [`raw`].
#[must_use]
pub fn is_cut(value: &Value, max: usize) -> bool {
    byte_len(value) > max
}

fn shorten(value: Value) -> Value {
    match value {
        Value::String(string) if string.len() > STRING_BYTES => {
            let head = text::head(&string, STRING_BYTES);
            Value::String(format!("{head}… ({} bytes in all)", string.len()))
        }
        Value::Array(items) => items.into_iter().map(shorten).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, shorten(value))).collect()
        }
        value => value,
    }
}

fn byte_len(value: &Value) -> usize {
    text::json_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::raw;
    use serde_json::{Value, json};

    #[test]
    fn a_raw_value_fits_and_keeps_its_shape() {
        assert_eq!(raw(Value::Null, 10), None);
        assert_eq!(raw(json!({"a": 1}), 10), Some(json!({"a": 1})));
        let long = json!({"path": "a", "content": "ä".repeat(1000)});
        let short = raw(long, 1500).unwrap();
        assert_eq!(short["path"], "a");
        assert_eq!(short["content"], format!("{}… (2000 bytes in all)", "ä".repeat(512)));
        let many: Vec<u32> = (0..1000).collect();
        assert_eq!(raw(json!(many), 100), Some(json!({"bytesLeftOut": 3891})));
    }
}
