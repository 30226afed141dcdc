//! Converts the arguments that a model wrote to the form of the tool's schema.
//!
//! Models sometimes use other names for a field or a value. These keywords in the schema declare
//! such names:
//!
//! - `x-aliases` lists other names of a field or a value.
//! - `x-opposites` lists names whose meaning is the opposite of a boolean field.
//! - `x-fallback` of a field is the value that replaces unknown values.
//! - `x-refused` of an object lists fields that the object does not have, but that must not be
//!   ignored. If such a field were ignored, the call would do something else than the model
//!   requested. For example, the entry `append` rejects the field `append` if its value is neither
//!   false nor empty. The entry `mode=a` rejects the field `mode` only if its value is `a`.
//! - `x-instead` is the advice that the model receives if such a field is rejected.
//!
//! The schema that models receive does not contain these keywords. Valid arguments are not changed.

use serde_json::{Map, Number, Value, json};

use callboard_text::escape_invisible;
use callboard_text::head;

use crate::error::ToolError;
use crate::limits::{MAX_ARGUMENT_NAME_BYTES, MAX_ARGUMENT_NOTES};
use crate::tool::CallDescription;

/// Normalised arguments, and notes that inform the model about the changes.
#[derive(Debug, Default)]
pub(crate) struct NormalisedArguments {
    pub(crate) args: Value,
    pub(crate) notes: Vec<String>,
}

/// Converts arguments to the form of a schema. Values that cannot be interpreted stay unchanged.
///
/// # Errors
///
/// `invalid_arguments` if a field is given under two names with different values, or if a field is
/// rejected.
pub(crate) fn normalise(schema: &Value, args: &Value) -> Result<NormalisedArguments, ToolError> {
    let mut form = Normaliser { root: schema, notes: Vec::new() };
    let args = form.normalise_value(schema, args, "")?.unwrap_or(Value::Null);
    Ok(NormalisedArguments { args, notes: form.notes })
}

/// Returns whether a name that the model wrote refers to this field.
pub(crate) fn is_name_of_field(schema: &Value, field: &str, written: &str) -> bool {
    let property = &schema["properties"][field];
    written == field
        || name_and_aliases(field, property).any(|name| fold_name(name) == fold_name(written))
}

/// Describes a call whose arguments are incomplete. Returns `None` if they are not sufficient for a
/// title.
///
/// A tool can only describe complete arguments, so a placeholder replaces each missing string. The
/// placeholder cannot occur in a path or title. If a part of the description contains the
/// placeholder, the title is not known yet.
pub(super) fn describe_partial(
    schema: &Value,
    args: &Map<String, Value>,
    describe: impl Fn(&Value) -> Option<CallDescription>,
) -> Option<CallDescription> {
    if args.is_empty() {
        return None;
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let is_text = |name: &&str| schema["properties"][*name]["type"] == "string";
    let missing = required.filter_map(Value::as_str).filter(|name| !args.contains_key(*name));
    let missing: Vec<_> = missing.filter(is_text).collect();
    // If the model gave a field under an alias, an additional placeholder for this field makes the
    // arguments invalid. The description is therefore also tried without each single placeholder.
    let mut left_out = std::iter::once(None).chain(missing.iter().map(Some));
    let about = left_out.find_map(|left_out| {
        let mut args = args.clone();
        let stood_in = missing.iter().filter(|name| Some(*name) != left_out);
        args.extend(stood_in.map(|name| ((*name).to_owned(), PENDING_STRING.into())));
        describe(&Value::Object(args))
    })?;
    // An empty value may belong to an optional argument that is still incomplete.
    let is_known =
        |(_, value): &(&str, String)| !value.contains(PENDING_STRING) && !value.is_empty();
    about.arguments.iter().all(is_known).then_some(about)
}

/// Placeholder for a string that has not been received completely. This character cannot occur in a
/// path on any system.
const PENDING_STRING: &str = "\0";

struct Normaliser<'a> {
    root: &'a Value,
    notes: Vec<String>,
}

impl<'a> Normaliser<'a> {
    /// Converts a value. Returns `None` if the value means that the model did not give the field.
    fn normalise_value(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &str,
    ) -> Result<Option<Value>, ToolError> {
        let fallback = &schema["x-fallback"];
        let schema = self.resolve_schema(schema);
        let spellings: Vec<_> = enum_values(schema).collect();
        if !spellings.is_empty() {
            return Ok(Some(self.match_enum_value(&spellings, fallback, value, path)));
        }
        let is = |kind: &str| match &schema["type"] {
            Value::Array(kinds) => kinds.iter().any(|other| other == kind),
            only => only == kind,
        };
        let read = || value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        match value {
            Value::Null => Ok(None),
            Value::Object(fields) if is("object") => {
                self.normalise_object(schema, fields, path).map(Some)
            }
            Value::Array(items) if is("array") => {
                self.normalise_array(schema, items, path).map(Some)
            }
            _ if is("array") => match read() {
                Some(Value::Array(items)) => self.normalise_array(schema, &items, path).map(Some),
                _ => self.normalise_array(schema, std::slice::from_ref(value), path).map(Some),
            },
            Value::String(_) if is("object") => match read() {
                Some(Value::Object(fields)) => {
                    self.normalise_object(schema, &fields, path).map(Some)
                }
                _ => Ok(Some(value.clone())),
            },
            Value::Number(_) | Value::Bool(_) if is("string") => Ok(Some(json!(value.to_string()))),
            Value::String(text) if is("boolean") || is("integer") || is("number") => Ok(match text
                .trim()
            {
                "" => None,
                text if is("boolean") => Some(parse_bool(text).unwrap_or_else(|| value.clone())),
                text => Some(parse_number(text).unwrap_or_else(|| value.clone())),
            }),
            Value::Number(number) if is("boolean") => {
                Ok(Some(parse_bool(&number.to_string()).unwrap_or_else(|| value.clone())))
            }
            Value::Number(given) if is("integer") => {
                Ok(Some(parse_number(&given.to_string()).unwrap_or_else(|| value.clone())))
            }
            _ => Ok(Some(value.clone())),
        }
    }

    fn normalise_array(
        &mut self,
        schema: &'a Value,
        items: &[Value],
        path: &str,
    ) -> Result<Value, ToolError> {
        let form =
            |item| Ok(self.normalise_value(&schema["items"], item, path)?.unwrap_or(Value::Null));
        items.iter().map(form).collect()
    }

    fn normalise_object(
        &mut self,
        schema: &'a Value,
        fields: &Map<String, Value>,
        path: &str,
    ) -> Result<Value, ToolError> {
        let Some(properties) = schema["properties"].as_object() else {
            return Ok(Value::Object(self.drop_unknown_fields(schema, fields.clone(), path)?));
        };
        let (mut formed, mut written) = (Map::new(), Map::new());
        let mut others = Map::new();
        for (name, value) in fields {
            let Some((field, property, is_opposite)) = find_field(properties, name) else {
                others.insert(name.clone(), value.clone());
                continue;
            };
            let inner = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            let Some(mut value) = self.normalise_value(property, value, &inner)? else { continue };
            if let (true, Value::Bool(is_so)) = (is_opposite, &value) {
                value = Value::Bool(!is_so);
            }
            match formed.get(field) {
                Some(other) if *other != value => {
                    let first: &Value = &written[field];
                    return Err(ToolError::invalid_arguments(format!(
                        "{} and {} are names of the same argument, and their values differ. Give \
                         only {field}.",
                        first.as_str().unwrap_or(field),
                        shorten_and_escape_name(name),
                    )));
                }
                _ => {
                    formed.insert(field.clone(), value);
                    written.insert(field.clone(), json!(name));
                }
            }
        }
        formed.extend(self.drop_unknown_fields(schema, others, path)?);
        Ok(Value::Object(formed))
    }

    /// Removes unknown fields, unless the schema allows additional fields.
    fn drop_unknown_fields(
        &mut self,
        schema: &Value,
        fields: Map<String, Value>,
        path: &str,
    ) -> Result<Map<String, Value>, ToolError> {
        if schema["additionalProperties"] != false {
            return Ok(fields);
        }
        for (name, value) in &fields {
            let dot = if path.is_empty() { "" } else { "." };
            let name_shown = format!("{path}{dot}{}", shorten_and_escape_name(name));
            if string_items(&schema["x-refused"]).any(|refused| is_refused(refused, name, value)) {
                return Err(ToolError::invalid_arguments(format!(
                    "There is no argument {name_shown}, and without it the call would do something \
                     else, so nothing was done. {}",
                    schema["x-instead"].as_str().unwrap_or_default()
                )));
            }
            self.add_note(format!("The argument {name_shown} is unknown and was ignored."));
        }
        Ok(Map::new())
    }

    /// Returns the value of an enumeration to which a text of the model refers.
    fn match_enum_value(
        &mut self,
        spellings: &[(&str, &Value)],
        fallback: &Value,
        value: &Value,
        path: &str,
    ) -> Value {
        let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
        let is_meant = |name: &&str| fold_name(name) == fold_name(&text);
        let meant = spellings
            .iter()
            .find(|(name, schema)| name_and_aliases(name, schema).any(|name| is_meant(&name)));
        match (meant, fallback) {
            (Some((name, _)), _) => json!(name),
            (None, Value::Null) => value.clone(),
            (None, fallback) => {
                let known: Vec<_> = spellings.iter().map(|(name, _)| *name).collect();
                self.add_note(format!(
                    "{path} {:?} is unknown, so it is {}. Known are {}.",
                    shorten_and_escape_name(&text),
                    fallback.as_str().unwrap_or_default(),
                    known.join(", ")
                ));
                fallback.clone()
            }
        }
    }

    /// Follows the references in a schema. If a schema only adds `null` to another schema, returns
    /// the other schema.
    fn resolve_schema(&self, mut schema: &'a Value) -> &'a Value {
        // The limit only matters for a schema that refers to itself. No tool has such a schema.
        for _ in 0..8 {
            let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
            let some = schema["anyOf"].as_array().into_iter().flatten();
            let some = some.filter(|schema| schema["type"] != "null").collect::<Vec<_>>();
            schema = match (name.and_then(|name| self.root.pointer(name)), &some[..]) {
                (Some(schema), _) => schema,
                (None, [only]) => only,
                (None, _) => return schema,
            };
        }
        schema
    }

    fn add_note(&mut self, note: String) {
        if self.notes.len() < MAX_ARGUMENT_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Returns the field to which a name of the model refers. The `bool` is whether the name has the
/// opposite meaning.
fn find_field<'a>(
    properties: &'a Map<String, Value>,
    written: &str,
) -> Option<(&'a String, &'a Value, bool)> {
    if let Some((field, property)) = properties.get_key_value(written) {
        return Some((field, property, false));
    }
    let written = fold_name(written);
    properties.iter().find_map(|(field, property)| {
        let is_name = name_and_aliases(field, property).any(|name| fold_name(name) == written);
        let is_opposite =
            || string_items(&property["x-opposites"]).any(|name| fold_name(name) == written);
        (is_name || is_opposite()).then_some((field, property, !is_name))
    })
}

/// Returns whether an entry of `x-refused` rejects a field with this value.
fn is_refused(refused: &str, name: &str, value: &Value) -> bool {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match refused.split_once('=') {
        Some((refused, only)) => {
            fold_name(refused) == fold_name(name) && fold_name(only) == fold_name(&text)
        }
        None => {
            let is_empty = value.is_null() || text.trim().is_empty();
            fold_name(refused) == fold_name(name)
                && !is_empty
                && parse_bool(&text) != Some(json!(false))
        }
    }
}

/// Returns the values of an enumeration. For each value, also returns its schema.
fn enum_values(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let plain = string_items(&schema["enum"]).map(|name| (name, &Value::Null));
    let described = schema["oneOf"].as_array().into_iter().flatten();
    plain.chain(described.filter_map(|schema| Some((schema["const"].as_str()?, schema))))
}

/// Returns the name of a field or value, followed by its aliases.
fn name_and_aliases<'a>(name: &'a str, schema: &'a Value) -> impl Iterator<Item = &'a str> {
    std::iter::once(name).chain(string_items(&schema["x-aliases"]))
}

fn string_items(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Converts a name to a form for comparisons. The names `filePath`, `FILE-PATH` and `file_path`
/// have the same form.
fn fold_name(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

fn parse_bool(text: &str) -> Option<Value> {
    match fold_name(text).as_str() {
        "true" | "yes" | "1" => Some(json!(true)),
        "false" | "no" | "0" => Some(json!(false)),
        _ => None,
    }
}

/// Parses a number. If the number has no fraction, it becomes an integer, even if it is written as
/// `1.0`.
fn parse_number(text: &str) -> Option<Value> {
    let whole = |float: f64| float.fract() == 0.0 && float.abs() < 9e15;
    let float = || text.parse::<f64>().ok();
    let integer =
        text.parse::<i64>().ok().or_else(|| float().filter(|f| whole(*f)).map(|f| f as i64));
    match integer {
        Some(integer) => Some(json!(integer)),
        None => Number::from_f64(float()?).map(Value::Number),
    }
}

fn shorten_and_escape_name(name: &str) -> String {
    escape_invisible(head(name, MAX_ARGUMENT_NAME_BYTES))
}

#[cfg(test)]
mod tests {
    use super::{describe_partial, normalise};
    use crate::tool::CallDescription;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, json};

    /// A struct with one field of each kind.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "its schema is used")]
    struct Args {
        #[schemars(extend("x-aliases" = ["file_path", "file"]))]
        path: String,
        lines: Option<u32>,
        #[serde(default)]
        #[schemars(extend("x-opposites" = ["-i"]))]
        exact: bool,
        #[serde(default)]
        edits: Vec<One>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(extend("x-refused" = ["append", "mode=a"], "x-instead" = "Use another."))]
    #[expect(dead_code, reason = "its schema is used")]
    struct One {
        text: String,
        #[serde(default)]
        #[schemars(extend("x-fallback" = "new"))]
        state: State,
        kind: Option<State>,
    }

    #[derive(Debug, Default, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum State {
        /// Not started.
        #[default]
        #[schemars(extend("x-aliases" = ["todo"]))]
        New,
        /// In progress.
        InWork,
    }

    fn normalised_args(args: &Value) -> Result<(Value, Vec<String>), String> {
        let schema = schemars::schema_for!(Args).to_value();
        let formed = normalise(&schema, args).map_err(|error| error.to_string())?;
        if let Err(error) = serde_json::from_value::<Args>(formed.args.clone()) {
            return Err(error.to_string());
        }
        Ok((formed.args, formed.notes))
    }

    #[test]
    fn arguments_get_the_form_of_the_schema() {
        for (args, expected) in [
            (json!({"file_path": "a"}), json!({"path": "a"})),
            (json!({"filePath": "a"}), json!({"path": "a"})),
            (json!({"FILE-PATH": "a"}), json!({"path": "a"})),
            (json!({"path": "a", "file": "a", "file_path": null}), json!({"path": "a"})),
            (json!({"path": 17, "lines": "12"}), json!({"path": "17", "lines": 12})),
            (json!({"path": "a", "lines": " 12 "}), json!({"path": "a", "lines": 12})),
            (json!({"path": "a", "lines": "12.0"}), json!({"path": "a", "lines": 12})),
            (json!({"path": "a", "lines": 12.0}), json!({"path": "a", "lines": 12})),
            (json!({"path": "a", "lines": ""}), json!({"path": "a"})),
            (json!({"path": "a", "exact": "True"}), json!({"path": "a", "exact": true})),
            (json!({"path": "a", "exact": 0}), json!({"path": "a", "exact": false})),
            (json!({"path": "a", "exact": null}), json!({"path": "a"})),
            (json!({"path": "a", "-i": "true"}), json!({"path": "a", "exact": false})),
            (
                json!({"path": "a", "edits": "[{\"text\": \"[1]\"}]"}),
                json!({"path": "a", "edits": [{"text": "[1]"}]}),
            ),
            (
                json!({"path": "a", "edits": {"Text": 1, "kind": "IN-WORK"}}),
                json!({"path": "a", "edits": [{"text": "1", "kind": "in_work"}]}),
            ),
            (
                json!({"path": "a", "edits": [{"text": "x", "state": "To Do"}]}),
                json!({"path": "a", "edits": [{"text": "x", "state": "new"}]}),
            ),
        ] {
            assert_eq!(normalised_args(&args), Ok((expected, Vec::new())), "{args}");
        }
    }

    #[test]
    fn unknown_fields_are_removed_and_noted() {
        let args = json!({"path": "a", "color": 1, "edits": [
            {"text": "x", "state": "soon", "why": 1}, {"text": "y", "state": 3, "why": 2},
            // A field that is normally rejected is accepted if its value means the default
            // behaviour.
            {"text": "z", "append": false, "mode": "w"}, {"text": "z", "append": null},
        ]});
        let expected = json!({"path": "a", "edits": [
            {"text": "x", "state": "new"}, {"text": "y", "state": "new"},
            {"text": "z"}, {"text": "z"},
        ]});
        let notes = [
            "edits.state \"soon\" is unknown, so it is new. Known are new, in_work.",
            "The argument edits.why is unknown and was ignored.",
            "The argument edits.append is unknown and was ignored.",
            "The argument edits.mode is unknown and was ignored.",
            "edits.state \"3\" is unknown, so it is new. Known are new, in_work.",
            "The argument color is unknown and was ignored.",
        ];
        let (args, mut found) = normalised_args(&args).unwrap();
        found.sort();
        let mut notes = notes.map(str::to_owned);
        notes.sort();
        assert_eq!((args, &found[..]), (expected, &notes[..]));
    }

    #[test]
    fn arguments_that_cannot_be_interpreted_are_errors() {
        for (args, says) in [
            (json!({"path": "a", "file_path": "b"}), "are names of the same argument"),
            (json!({"file": "a", "filePath": "b"}), "are names of the same argument"),
            (json!({"path": "a", "lines": "many"}), "invalid type: string \"many\""),
            (json!({"path": "a", "lines": 1.5}), "floating point"),
            (json!({"path": ["a"]}), "invalid type: sequence"),
            (json!({"path": "a", "edits": "no"}), "invalid type: string \"no\""),
            (json!({"path": "a", "edits": [{"text": "x", "kind": "soon"}]}), "unknown variant"),
            (json!({"path": "a", "edits": [{"text": "x", "Append": true}]}), "edits.Append,"),
            (json!({"path": "a", "edits": {"text": "x", "append": "yes"}}), "Use another."),
            (json!({"path": "a", "edits": {"text": "x", "mode": "A"}}), "Use another."),
            (json!({"lines": 1}), "missing field `path`"),
            (json!([]), "invalid"),
        ] {
            let error = normalised_args(&args).unwrap_err();
            assert!(error.contains(says), "{args}: {error}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z0-9{}\\[\\]\":.,]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let name = prop_oneof![
                "path",
                "file",
                "lines",
                "exact",
                "edits",
                "text",
                "state",
                "[a-z-]{0,4}"
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_arguments_stay_unchanged_and_nothing_panics(args in any_value()) {
            let schema = schemars::schema_for!(Args).to_value();
            if let Ok(once) = normalise(&schema, &args) {
                let twice = normalise(&schema, &once.args).unwrap();
                prop_assert_eq!(&twice.args, &once.args);
                prop_assert!(serde_json::from_value::<Args>(once.args).is_err() || twice.notes.is_empty());
            }
        }
    }

    fn describe_partial_args(args: &Value) -> Option<Vec<(&'static str, String)>> {
        let schema = json!({
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["path", "text"],
        });
        let args = args.as_object().unwrap();
        let described = describe_partial(&schema, args, |args| {
            args["text"].as_str()?;
            let path = args["path"].as_str().xor(args["file"].as_str())?;
            Some(CallDescription::new("edit").with_argument("path", path))
        });
        described.map(|about| about.arguments)
    }

    #[test]
    fn a_title_is_known_when_its_arguments_are_complete() {
        let known = Some(vec![("path", "a.rs".to_owned())]);
        assert_eq!(describe_partial_args(&json!({"path": "a.rs"})), known);
        assert_eq!(describe_partial_args(&json!({"text": "x"})), None);
        assert_eq!(describe_partial_args(&json!({})), None);
        assert_eq!(describe_partial_args(&json!({"path": 1, "text": "x"})), None);
        assert_eq!(describe_partial_args(&json!({"path": "", "text": "x"})), None);
        // The model gave the field under an alias. With an additional placeholder for the same
        // field, the arguments do not match the schema.
        assert_eq!(describe_partial_args(&json!({"file": "a.rs"})), known);
    }

    #[test]
    fn a_call_is_not_described_before_an_argument_is_complete() {
        let schema = json!({"properties": {"path": {"type": "string"}}});
        let describe = |_: &Value| Some(CallDescription::new("list"));
        let is_described =
            |args: Value| describe_partial(&schema, args.as_object().unwrap(), describe).is_some();
        assert!(!is_described(json!({})));
        assert!(is_described(json!({"path": "src"})));
    }
}
