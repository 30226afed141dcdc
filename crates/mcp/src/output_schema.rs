//! The schema of a tool's structured results, with which results are compared. The work is limited,
//! because the schema comes from the server, and references in a schema can multiply the work.

use callboard_text::{escape_invisible, head};
use jsonschema::PatternOptions;
use serde_json::{Map, Value, json};

use crate::limits::{
    MAX_CHECKED_RESULT_BYTES, MAX_OUTPUT_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, OUTPUT_CHECK_TIMEOUT,
};

/// The schema of a tool's structured results, without references.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputSchema(Value);

impl OutputSchema {
    /// Converts the schema of a server. Returns `None` if the schema is recursive, too large or too
    /// deep. Results are then not compared with a schema.
    pub(crate) fn from_server(schema: &Map<String, Value>) -> Option<Self> {
        if acp_types::json::serialized_len(schema) > MAX_OUTPUT_SCHEMA_BYTES {
            return None;
        }
        let root = Value::Object(schema.clone());
        let mut room = MAX_OUTPUT_SCHEMA_BYTES;
        let mut without_definitions = schema.clone();
        for key in ["$defs", "definitions"] {
            without_definitions.remove(key);
        }
        let schema = Expansion { root: &root, room: &mut room, depth: 0 };
        schema.expand(&Value::Object(without_definitions)).map(Self)
    }

    /// Compares a result with the schema. Returns the first difference as the end of a sentence. A
    /// result that is too large, or that takes too long to compare, counts as valid.
    pub(crate) async fn first_difference(&self, result: &Value) -> Option<String> {
        if acp_types::json::serialized_len(result) > MAX_CHECKED_RESULT_BYTES {
            return None;
        }
        let (schema, result) = (self.0.clone(), result.clone());
        let compare = tokio::task::spawn_blocking(move || difference(&schema, &result));
        tokio::time::timeout(OUTPUT_CHECK_TIMEOUT, compare).await.ok()?.ok()?
    }
}

fn difference(schema: &Value, result: &Value) -> Option<String> {
    // This regex engine needs only linear time for each pattern.
    let patterns = PatternOptions::regex().size_limit(MAX_OUTPUT_SCHEMA_BYTES);
    let schema = jsonschema::options().with_pattern_options(patterns).build(schema).ok()?;
    let error = schema.validate(result).err()?;
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "the result" } else { head(&place, 200) };
    let text = error.masked().to_string();
    Some(format!("{}: {}", escape_invisible(place), escape_invisible(head(&text, 300))))
}

/// A schema with one of these keywords is not used. The meaning of the first two keywords depends
/// on the references through which a schema is reached. The other keywords evaluate the
/// neighbouring keywords once more, which multiplies the work if they are nested.
const UNUSED_KEYWORDS: [&str; 4] =
    ["$id", "$dynamicRef", "unevaluatedProperties", "unevaluatedItems"];

/// Replaces the references of a schema.
struct Expansion<'a> {
    root: &'a Value,
    /// Number of bytes by which the expanded schema may still grow.
    room: &'a mut usize,
    depth: usize,
}

impl Expansion<'_> {
    /// Returns a part of the schema without references. Returns `None` if the expanded part becomes
    /// too large or too deep. This is always the case for a recursive schema.
    fn expand(mut self, part: &Value) -> Option<Value> {
        if self.depth > MAX_SCHEMA_DEPTH {
            return None;
        }
        Some(match part {
            Value::Object(fields) => match fields.get("$ref").and_then(Value::as_str) {
                Some(reference) => {
                    let mut others = fields.clone();
                    others.remove("$ref");
                    let pointer = reference.strip_prefix('#').filter(|it| !it.contains('%'))?;
                    let target = self.root.pointer(pointer)?;
                    let target = self.below(10)?.expand(target)?;
                    json!({ "allOf": [target, self.below(0)?.expand(&Value::Object(others))?] })
                }
                None if UNUSED_KEYWORDS.iter().any(|keyword| fields.contains_key(*keyword)) => {
                    return None;
                }
                None => {
                    let fields = fields.iter().map(|(key, value)| {
                        Some((key.clone(), self.below(key.len() + 4)?.expand(value)?))
                    });
                    Value::Object(fields.collect::<Option<_>>()?)
                }
            },
            Value::Array(items) => {
                let items = items.iter().map(|item| self.below(1)?.expand(item));
                Value::Array(items.collect::<Option<_>>()?)
            }
            Value::String(text) => {
                *self.room = self.room.checked_sub(text.len() + 2)?;
                part.clone()
            }
            scalar => scalar.clone(),
        })
    }

    /// Returns the expansion of a child of this part. `bytes` is the size that the child adds to
    /// this part, apart from its own content.
    fn below(&mut self, bytes: usize) -> Option<Expansion<'_>> {
        *self.room = self.room.checked_sub(bytes + 1)?;
        Some(Expansion { root: self.root, room: &mut *self.room, depth: self.depth + 1 })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn schema(schema: Value) -> Option<OutputSchema> {
        OutputSchema::from_server(schema.as_object().unwrap())
    }

    async fn difference(of: Value, result: Value) -> Option<String> {
        schema(of).unwrap().first_difference(&result).await
    }

    #[tokio::test]
    async fn results_are_compared_with_the_schema() {
        let point = json!({"type": "object", "properties": {"x": {"type": "integer"}},
            "required": ["x"]});
        let list = json!({"$defs": {"a/b": point}, "type": "object",
            "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}},
                "definitions": {"type": "string"}}, "additionalProperties": false});
        for (schema, result, expected) in [
            (&point, json!({"x": 1}), None),
            (&point, json!({"x": "1"}), Some("/x: ")),
            (&point, json!({}), Some("the result: ")),
            (&list, json!({"points": [{"x": 1}], "definitions": "a"}), None),
            (&list, json!({"points": [{"x": 1}, {"x": null}]}), Some("/points/1/x: ")),
            (&json!({"pattern": "(a+)+$"}), json!("a".repeat(1000) + "b"), Some("the result: ")),
            (&json!({"type": 5}), json!({}), None),
        ] {
            let found = difference(schema.clone(), result.clone()).await;
            let is_expected =
                found.as_deref().map(|found| found.starts_with(expected.unwrap_or("?")));
            assert_eq!(is_expected, expected.map(|_| true), "{schema} {result}: {found:?}");
        }
    }

    #[test]
    fn schemas_whose_comparison_has_no_bound_are_not_used() {
        let doubled = (0..40).map(|at| {
            let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
            (format!("a{at}"), json!({"allOf": [next.clone(), next]}))
        });
        let doubled: Map<_, _> = doubled.chain([("a40".to_owned(), json!({}))]).collect();
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        for bad in [
            json!({"$ref": "#"}),
            tree,
            json!({"$defs": doubled, "$ref": "#/$defs/a0"}),
            json!({"$ref": "https://example.com/schema"}),
            json!({"$ref": "#/$defs/missing"}),
            json!({"items": {"$dynamicRef": "#node"}}),
            json!({"unevaluatedProperties": false, "if": {"unevaluatedProperties": false}}),
            json!({"description": "x".repeat(MAX_OUTPUT_SCHEMA_BYTES)}),
        ] {
            assert_eq!(schema(bad.clone()), None, "{bad}");
        }
    }
}
