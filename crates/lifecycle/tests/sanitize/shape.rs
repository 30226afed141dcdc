//! Tests that truncated raw values keep their shape and do not exceed the budget, for every budget.

use acp_lifecycle::sanitize::{REDACTION_MARKER, truncate_json};
use proptest::prelude::proptest;
use serde_json::Value;

use super::planted::{json, value};

/// Asserts that all remaining parts of the shown value have their original types.
pub(crate) fn assert_shape(was: &Value, shown: &Value, place: &str) {
    match (was, shown) {
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) => {}
        (Value::Array(was), Value::Array(shown)) => {
            let marker = shown.last().and_then(Value::as_str).filter(|it| it.starts_with("… "));
            let kept = shown.len() - usize::from(shown.len() <= was.len() && marker.is_some());
            assert!(kept <= was.len() && (marker.is_some() || kept == was.len() || kept == 0));
            for (at, (was, shown)) in was.iter().zip(&shown[..kept]).enumerate() {
                assert_shape(was, shown, &format!("{place}/{at}"));
            }
        }
        (Value::Object(was), Value::Object(shown)) => {
            assert!(shown.len() <= was.len(), "{place}");
            let kept =
                shown.iter().filter(|(key, _)| *key != "…" && !key.contains(REDACTION_MARKER));
            for (key, shown) in kept {
                let was = was.get(key).expect("no field is new");
                assert_shape(was, shown, &format!("{place}/{key}"));
            }
        }
        (was, shown) => assert_eq!(was, shown, "{place}"),
    }
}

proptest! {
    #[test]
    fn a_truncated_value_keeps_its_shape(plan in value(), max in 64..4_000_usize) {
        let whole = json(&plan, &["secret-of-ada".to_owned()]);
        let (shown, left_out) = truncate_json(whole.clone(), max);
        let (bytes, shown_bytes) = (whole.to_string().len(), shown.to_string().len());
        assert!(shown_bytes <= max, "{shown_bytes} of {max} bytes");
        assert_shape(&whole, &shown, "");
        assert_eq!(left_out, bytes.saturating_sub(shown_bytes) as u64);
        assert!(bytes > max || shown == whole);
        assert_eq!(truncate_json(whole, max).0, shown);
        assert_eq!(truncate_json(shown.clone(), max), (shown, 0));
    }
}
