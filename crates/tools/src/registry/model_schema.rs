//! The schema of a tool's arguments, as models receive it.

use serde_json::{Map, Value};

/// Removes the internal keywords from a schema, because they are not for models.
pub(super) fn strip_internal_keywords(schema: &mut Value) {
    change_each_schema(schema, &|keywords| keywords.retain(|name, _| !name.starts_with("x-")));
}

/// Removes the parts of a generated schema that every request would repeat although they do not help
/// the model: the name and the description of the whole, the number formats of Rust, and the type
/// `null`. Whether a field is needed stands in `required`, and `null` means that a field is not
/// given.
pub(super) fn shorten_generated_schema(schema: &mut Value) {
    if let Value::Object(root) = schema {
        root.retain(|name, _| !matches!(&**name, "$schema" | "title" | "description"));
    }
    change_each_schema(schema, &|keywords| {
        let is_number = is_type(keywords, "integer") || is_type(keywords, "number");
        if is_number {
            keywords.retain(|name, value| {
                name != "format" && !(name == "minimum" && value.as_f64() == Some(0.0))
            });
        }
        if let Some(Value::Array(types)) = keywords.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &mut types[..] {
                let only = only.take();
                keywords.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(choices)) = keywords.get_mut("anyOf") {
            choices.retain(|choice| choice["type"] != "null");
            if let [Value::Object(only)] = &mut choices[..] {
                let only = std::mem::take(only);
                keywords.remove("anyOf");
                for (name, value) in only {
                    keywords.entry(name).or_insert(value);
                }
            }
        }
        if let Some(Value::String(text)) = keywords.get_mut("description") {
            *text = text.replace('\n', " ");
        }
    });
}

fn is_type(keywords: &Map<String, Value>, name: &str) -> bool {
    match keywords.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == name),
        only => only.is_some_and(|only| only == name),
    }
}

/// Changes the keywords of a schema and of all schemas in it.
fn change_each_schema(schema: &mut Value, change: &dyn Fn(&mut Map<String, Value>)) {
    match schema {
        Value::Object(keywords) => {
            change(keywords);
            for (keyword, value) in keywords {
                match (&**keyword, value) {
                    // These objects contain names, which a tool chooses, and not keywords.
                    ("properties" | "patternProperties" | "$defs", Value::Object(named)) => {
                        named.values_mut().for_each(|inner| change_each_schema(inner, change));
                    }
                    ("const" | "default" | "enum" | "examples", _) => {}
                    (_, value) => change_each_schema(value, change),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| change_each_schema(item, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// The arguments.
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("x-refused" = ["append"]))]
    #[expect(dead_code, reason = "only the schema is used")]
    struct Args {
        /// A file. Its name
        /// may be long.
        title: String,
        format: Option<u32>,
        minimum: i64,
        #[schemars(extend("x-aliases" = ["n"]))]
        null: Option<Inner>,
        #[serde(rename = "x-own")]
        own: Option<f32>,
        any: Option<bool>,
    }

    /// More.
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only the schema is used")]
    struct Inner {
        /// One of two.
        kind: Option<Kind>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        First,
        Second,
    }

    #[test]
    fn a_generated_schema_is_short_and_keeps_its_names_and_descriptions() {
        let mut schema = schemars::schema_for!(Args).to_value();
        strip_internal_keywords(&mut schema);
        shorten_generated_schema(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "A file. Its name may be long."},
                "format": {"type": "integer"},
                "minimum": {"type": "integer"},
                "null": {"$ref": "#/$defs/Inner"},
                "x-own": {"type": "number"},
                "any": {"type": "boolean"},
            },
            "required": ["title", "minimum"],
            "$defs": {
                "Inner": {
                    "type": "object",
                    "description": "More.",
                    "properties": {
                        "kind": {"$ref": "#/$defs/Kind", "description": "One of two."},
                    },
                },
                "Kind": {"type": "string", "enum": ["first", "second"]},
            },
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn other_parts_of_a_schema_stay() {
        let schema = json!({
            "properties": {
                "a": {"type": ["string", "integer"], "minimum": 1, "const": {"format": "x"}},
                "b": {"type": "string", "format": "uri", "minimum": 0},
                "c": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "d": {"type": "array", "items": {"enum": ["x-", null]}, "minItems": 0},
            },
        });
        let mut shortened = schema.clone();
        strip_internal_keywords(&mut shortened);
        shorten_generated_schema(&mut shortened);
        assert_eq!(shortened, schema);
    }
}
