//! Truncation of JSON values to a budget of bytes.

use acp_types::json;
use serde_json::{Map, Value};

use crate::limits::MAX_RAW_DEPTH;

/// Truncates a value to `max` serialized bytes, and returns the number of omitted bytes.
///
/// Small parts stay complete, and large parts share the remaining budget. A string keeps its
/// beginning, an array keeps its first items, and an object keeps the fields that fit. A truncated
/// string ends with e.g. `… 7 more bytes`. A truncated array ends with an item such as
/// `… 7 more items`, and a truncated object ends with a field `…`. All kept parts keep their type.
/// Arrays and objects deeper than 32 levels become empty. A `max` of less than 64 bytes counts as
/// 64 bytes.
///
/// The run time is proportional to the size of the value multiplied by the depth of the truncated
/// parts.
#[must_use]
pub fn truncate_json(value: Value, max: usize) -> (Value, u64) {
    let max = max.max(MIN_VALUE_BYTES);
    if is_within_depth(&value, MAX_RAW_DEPTH) && json::value_len(&value) <= max {
        return (value, 0);
    }
    let bytes = json::value_len(&value);
    let fitting = truncate_value(value, max, MAX_RAW_DEPTH);
    let left_out = bytes.saturating_sub(json::value_len(&fitting));
    (fitting, left_out as u64)
}

fn truncate_value(value: Value, max: usize, depth: usize) -> Value {
    match value {
        Value::Array(_) if depth == 0 => Value::Array(Vec::new()),
        Value::Object(_) if depth == 0 => Value::Object(Map::new()),
        Value::String(string) => Value::String(truncate_string(string, max)),
        Value::Array(items) => Value::Array(truncate_array(items, max, depth)),
        Value::Object(fields) => Value::Object(truncate_object(fields, max, depth)),
        scalar => scalar,
    }
}

fn truncate_string(string: String, max: usize) -> String {
    let room = max.saturating_sub(2);
    if json::escaped_string_len(&string) <= room {
        return string;
    }
    let longest = omission_note(string.len(), "bytes").len();
    let head = json::prefix_within_escaped_len(&string, room.saturating_sub(longest));
    format!("{head}{}", omission_note(string.len() - head.len(), "bytes"))
}

fn truncate_array(items: Vec<Value>, max: usize, depth: usize) -> Vec<Value> {
    let count = items.len();
    let lens = items.iter().map(|item| (0, json::value_len(item)));
    let mut shares = divide_budget(lens, max).into_iter();
    // Drop items only from the end, so that indices stay valid.
    let kept = items.into_iter().map_while(|item| Some((item, shares.next()??)));
    let kept = kept.map(|(item, share)| truncate_value(item, share, depth - 1));
    let mut kept: Vec<_> = kept.collect();
    if kept.len() < count {
        kept.push(Value::String(omission_note(count - kept.len(), "items")));
    }
    kept
}

fn truncate_object(mut fields: Map<String, Value>, max: usize, depth: usize) -> Map<String, Value> {
    let count = fields.len();
    fields.remove(OMISSION_MARK);
    let key_len = |key: &str| json::escaped_string_len(key) + "\"\":".len();
    let lens = fields.iter().map(|(key, value)| (key_len(key), json::value_len(value)));
    let shares = divide_budget(lens, max);
    let kept = fields
        .into_iter()
        .zip(shares)
        .filter_map(|((key, value), share)| Some((key, truncate_value(value, share?, depth - 1))));
    let mut kept: Map<_, _> = kept.collect();
    if kept.len() < count {
        let left_out = omission_note(count - kept.len(), "fields");
        kept.insert(OMISSION_MARK.to_owned(), Value::String(left_out));
    }
    kept
}

/// Divides the budget of an array or object among its parts. Each element of `lens` is the fixed
/// cost and the length of one part. Small parts get the size that they need, and larger parts get
/// equal shares. A part that does not fit gets `None`.
fn divide_budget(lens: impl Iterator<Item = (usize, usize)>, max: usize) -> Vec<Option<usize>> {
    // Each part takes at least two bytes, so no more than `max` parts fit.
    let lens: Vec<_> = lens.take(max).collect();
    // The brackets take two bytes. The first part needs no comma, so it needs one byte less than
    // the other parts.
    let mut room = max.saturating_sub(1);
    let least = |(cost, len): (usize, usize)| cost + ",".len() + len.min(MIN_VALUE_BYTES);
    if lens.iter().copied().map(least).sum::<usize>() > room {
        room = room.saturating_sub(MIN_VALUE_BYTES);
    }
    let fits = |part: &(usize, usize)| {
        let is_kept = least(*part) <= room;
        room = room.saturating_sub(if is_kept { least(*part) } else { 0 });
        is_kept
    };
    let kept: Vec<_> = lens.iter().map(fits).collect();
    // Distribute the budget beyond the minimum, beginning with the smallest parts.
    let beyond = |len: usize| len - len.min(MIN_VALUE_BYTES);
    let large = |(is_kept, (_, len)): (&bool, &(usize, usize))| is_kept.then(|| beyond(*len));
    let mut wanted: Vec<_> =
        kept.iter().zip(&lens).filter_map(large).filter(|len| *len > 0).collect();
    wanted.sort_unstable();
    let mut share = 0;
    for (at, want) in wanted.iter().enumerate() {
        share = room / (wanted.len() - at);
        if *want > share {
            break;
        }
        (share, room) = (*want, room - want);
    }
    let give = |(is_kept, (_, len)): (bool, (usize, usize))| {
        is_kept.then(|| len.min(MIN_VALUE_BYTES) + beyond(len).min(share))
    };
    kept.into_iter().zip(lens).map(give).collect()
}

fn is_within_depth(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => {
            items.is_empty()
                || depth > 0 && items.iter().all(|item| is_within_depth(item, depth - 1))
        }
        Value::Object(fields) => {
            fields.is_empty()
                || depth > 0 && fields.values().all(|field| is_within_depth(field, depth - 1))
        }
        _ => true,
    }
}

fn omission_note(count: usize, what: &str) -> String {
    format!("{OMISSION_MARK} {count} more {what}")
}

/// The mark of an omission. The mark is also the key of the field that states an omission in an
/// object.
const OMISSION_MARK: &str = "…";

/// Minimum budget of a value, in bytes. Every value can be truncated to this budget.
const MIN_VALUE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::truncate_json;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!([]), |value, _| json!([value]))
    }

    #[test]
    fn small_parts_stay_complete_and_large_parts_share_the_budget() {
        let numbers: Vec<_> = (0..1000).collect();
        for (value, max, expected) in [
            (json!({"a": 1}), 64, json!({"a": 1})),
            (json!("x".repeat(62)), 64, json!("x".repeat(62))),
            (json!("ä".repeat(40)), 64, json!(format!("{}… 36 more bytes", "ä".repeat(22)))),
            (json!(numbers), 75, json!([0, 1, 2, 3, 4, "… 995 more items"])),
            (
                json!({"path": "a", "old": "x".repeat(90), "new": "y".repeat(200)}),
                240,
                json!({
                    "path": "a",
                    "old": "x".repeat(90),
                    "new": format!("{}… 98 more bytes", "y".repeat(102)),
                }),
            ),
            (
                json!({"k".repeat(100): 1, "z": true}),
                100,
                json!({"z": true, "…": "… 1 more fields"}),
            ),
        ] {
            let (fitting, left_out) = truncate_json(value.clone(), max);
            assert_eq!(fitting, expected);
            let saved = value.to_string().len().saturating_sub(expected.to_string().len());
            assert_eq!(left_out, saved as u64);
            assert!(fitting.to_string().len() <= max);
        }
    }

    #[test]
    fn parts_that_are_nested_too_deeply_become_empty() {
        assert_eq!(truncate_json(nested(32), 1000), (nested(32), 0));
        assert_eq!(truncate_json(nested(40), 1000), (nested(32), 16));
        assert_eq!(truncate_json(json!({"a": nested(32)}), 1000).0, json!({"a": nested(31)}));
    }
}
