//! Checks the nesting and the number of values of a JSON line in one pass, before the line is
//! parsed.
//!
//! The check recognises only strings, brackets, commas and colons. Later, the parser rejects lines
//! that are not JSON.

use crate::errors::LineError;
use crate::limits::{CONTAINER_VALUE_COUNT, ESTIMATED_VALUE_BYTES, MAX_DEPTH, MAX_JSON_VALUES};

/// Rejects a line that is nested too deeply or contains too many values, and returns the estimated
/// size of its message in bytes.
///
/// The check is exact for JSON. A line that is not JSON may pass or fail the check; the parser
/// rejects the line anyway.
pub(crate) fn check_bounds_and_estimate_size(line: &[u8]) -> Result<usize, LineError> {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                values += CONTAINER_VALUE_COUNT;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(LineError::TooDeep);
        }
        if values > MAX_JSON_VALUES {
            return Err(LineError::TooManyValues);
        }
    }
    Ok(line.len() + values * ESTIMATED_VALUE_BYTES)
}

/// Advances past the quote that closes the current string.
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
            (&nested("[", "]", MAX_DEPTH + 1), Some(LineError::TooDeep)),
            (&nested("{\"a\":", "}", MAX_DEPTH), None),
            (&nested("{\"a\":", "}", MAX_DEPTH + 1), Some(LineError::TooDeep)),
            (&"[".repeat(100_000), Some(LineError::TooDeep)),
            // The depths of sibling arrays are not added, and unmatched closing brackets cause no
            // underflow.
            (&format!("[{}[]]", "[],".repeat(200)), None),
            (&format!("]]]]{}", "[".repeat(MAX_DEPTH)), None),
            // Brackets in a string are text, and an escaped quote does not end the string.
            (&format!("\"{}\"", "[".repeat(1000)), None),
            (&format!(r#""\"{}""#, "[".repeat(1000)), None),
            (&format!(r#""\\"{}"#, "[".repeat(1000)), Some(LineError::TooDeep)),
            (&format!("\"{}\"", ",".repeat(MAX_JSON_VALUES * 2)), None),
            // A string without a closing quote, and a string that ends within an escape sequence.
            ("\"[[[", None),
            ("\"\\", None),
            (&format!("[0{}]", ",0".repeat(MAX_JSON_VALUES - 4)), None),
            (&format!("[0{}]", ",0".repeat(MAX_JSON_VALUES - 3)), Some(LineError::TooManyValues)),
            (&format!("[0{}]", ",{}".repeat(MAX_JSON_VALUES / 5)), Some(LineError::TooManyValues)),
            (&format!("{{{}}}", "\"\":0,".repeat(MAX_JSON_VALUES / 2 - 2)), None),
            (
                &format!("{{{}}}", "\"\":0,".repeat(MAX_JSON_VALUES / 2 - 1)),
                Some(LineError::TooManyValues),
            ),
        ];
        for (line, fault) in rows {
            let start: String = line.chars().take(40).collect();
            assert_eq!(check_bounds_and_estimate_size(line.as_bytes()).err(), fault, "{start}");
        }
    }
}
