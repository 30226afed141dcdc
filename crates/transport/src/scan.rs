//! Bounds the shape of a line of JSON in one pass over its bytes, before anything parses it.
//!
//! Knows strings and brackets only; whether the line is JSON at all is the parser's business.

use crate::errors::Fault;
use crate::limits::{CONTAINER_VALUES, MAX_DEPTH, MAX_JSON_VALUES, VALUE_BYTES};

/// Refuses a line that is nested too deep or holds too many values, and estimates the bytes that
/// its message will take.
///
/// Exact for JSON. For anything else it may answer either way, and the parser refuses it.
pub(crate) fn check(line: &[u8]) -> Result<usize, Fault> {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                values += CONTAINER_VALUES;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        if values > MAX_JSON_VALUES {
            return Err(Fault::TooManyValues);
        }
    }
    Ok(line.len() + values * VALUE_BYTES)
}

/// Moves behind the quote that closes the string just opened.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn nested(open: &str, close: &str, depth: usize) -> String {
        open.repeat(depth) + &close.repeat(depth)
    }

    #[test]
    fn depth_and_values_are_bounded_outside_strings() {
        let rows = [
            ("", None),
            ("17", None),
            (&nested("[", "]", MAX_DEPTH), None),
            (&nested("[", "]", MAX_DEPTH + 1), Some(Fault::TooDeep)),
            (&nested("{\"a\":", "}", MAX_DEPTH), None),
            (&nested("{\"a\":", "}", MAX_DEPTH + 1), Some(Fault::TooDeep)),
            (&"[".repeat(100_000), Some(Fault::TooDeep)),
            // Siblings do not add up, and closing brackets alone do not underflow.
            (&format!("[{}[]]", "[],".repeat(200)), None),
            (&format!("]]]]{}", "[".repeat(MAX_DEPTH)), None),
            // Brackets in a string are text, an escaped quote does not end one.
            (&format!("\"{}\"", "[".repeat(1000)), None),
            (&format!(r#""\"{}""#, "[".repeat(1000)), None),
            (&format!(r#""\\"{}"#, "[".repeat(1000)), Some(Fault::TooDeep)),
            (&format!("\"{}\"", ",".repeat(MAX_JSON_VALUES * 2)), None),
            // A string that never ends, and one that ends in its escape.
            ("\"[[[", None),
            ("\"\\", None),
            (&format!("[0{}]", ",0".repeat(MAX_JSON_VALUES - 4)), None),
            (&format!("[0{}]", ",0".repeat(MAX_JSON_VALUES - 3)), Some(Fault::TooManyValues)),
            (&format!("[0{}]", ",{}".repeat(MAX_JSON_VALUES / 5)), Some(Fault::TooManyValues)),
            (&format!("{{{}}}", "\"\":0,".repeat(MAX_JSON_VALUES / 2 - 2)), None),
            (
                &format!("{{{}}}", "\"\":0,".repeat(MAX_JSON_VALUES / 2 - 1)),
                Some(Fault::TooManyValues),
            ),
        ];
        for (line, fault) in rows {
            let start: String = line.chars().take(40).collect();
            assert_eq!(check(line.as_bytes()).err(), fault, "{start}");
        }
    }
}
