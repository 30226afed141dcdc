//! What a call is about while some of its arguments are still to come.
//!
//! A tool describes whole arguments only. Here the strings that are missing are stood in for by a
//! text that no path and no title can hold, and whatever came to depend on one is not told.

use serde_json::{Map, Value};

use crate::tool::Description;

/// Stands for a string that is still to come: no path of any system holds it.
const TO_COME: &str = "\0";

/// Describes a call by the arguments that are there; none if they do not tell enough for a title.
pub(crate) fn describe(
    schema: &Value,
    args: &Map<String, Value>,
    describe: impl Fn(&Value) -> Option<Description>,
) -> Option<Description> {
    let required = schema["required"].as_array().into_iter().flatten();
    let is_text = |name: &&str| schema["properties"][*name]["type"] == "string";
    let missing = required.filter_map(Value::as_str).filter(|name| !args.contains_key(*name));
    let missing: Vec<_> = missing.filter(is_text).collect();
    // One that came under another name fits only where nothing stands in for it.
    let mut left_out = std::iter::once(None).chain(missing.iter().map(Some));
    let about = left_out.find_map(|left_out| {
        let mut args = args.clone();
        let stood_in = missing.iter().filter(|name| Some(*name) != left_out);
        args.extend(stood_in.map(|name| ((*name).to_owned(), TO_COME.into())));
        describe(&Value::Object(args))
    })?;
    // An empty one is what a tool makes of an optional argument that may still come.
    let is_known = |(_, value): &(&str, String)| !value.contains(TO_COME) && !value.is_empty();
    about.arguments.iter().all(is_known).then_some(about)
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::tool::Description;
    use serde_json::{Value, json};

    fn about(args: &Value) -> Option<Vec<(&'static str, String)>> {
        let schema = json!({
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["path", "text"],
        });
        let args = args.as_object().unwrap();
        let told = describe(&schema, args, |args| {
            args["text"].as_str()?;
            let path = args["path"].as_str().xor(args["file"].as_str())?;
            Some(Description::new("edit").with("path", path))
        });
        told.map(|about| about.arguments)
    }

    #[test]
    fn a_title_is_known_when_all_that_it_says_has_come() {
        let known = Some(vec![("path", "a.rs".to_owned())]);
        assert_eq!(about(&json!({"path": "a.rs"})), known);
        assert_eq!(about(&json!({"text": "x"})), None);
        assert_eq!(about(&json!({"path": 1, "text": "x"})), None);
        assert_eq!(about(&json!({"path": "", "text": "x"})), None);
        // Under another name, beside which the right one is refused.
        assert_eq!(about(&json!({"file": "a.rs"})), known);
    }
}
