//! Schemas of the arguments of tools, as models receive them.

use serde_json::{Map, Value, json};

/// The keyword of a schema that was generated from a Rust type.
const GENERATED: &str = "x-generated";

/// Turns the schema of a tool into the schema that models receive, which has no internal keywords.
/// A generated schema says the same in fewer bytes:
///
/// - Fields that have the keyword `x-hidden` are removed. A model may still give such a field.
/// - Constants without descriptions become one `enum`.
/// - A definition that is used once replaces its reference, and an unused one is removed.
/// - `additionalProperties` is removed if it is `false`. The call ignores other fields, and its
///   result names them.
/// - `default` is removed if it is `false`.
pub(crate) fn shorten_for_model(schema: &mut Value) {
    let is_generated = schema[GENERATED] == true;
    change_each_schema(schema, &|keywords| {
        if let Some(Value::Object(properties)) = keywords.get_mut("properties")
            && is_generated
        {
            properties.retain(|_, property| property["x-hidden"] != true);
        }
        keywords.retain(|name, value| {
            let is_implied =
                ["additionalProperties", "default"].contains(&&**name) && *value == false;
            !(name.starts_with("x-") || is_generated && is_implied)
        });
    });
    if is_generated {
        change_each_schema(schema, &merge_constants);
        inline_definitions_used_once(schema);
    }
}

/// Replaces a choice between constants that have no description by an `enum`.
fn merge_constants(keywords: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = keywords.get("oneOf") else { return };
    let constants = choices.iter().map(|choice| {
        let is_constant = choice["type"] == "string" && choice["const"].is_string();
        let has_more = choice.as_object().is_none_or(|choice| choice.len() > 2);
        (is_constant && !has_more).then(|| choice["const"].clone())
    });
    if let Some(constants) = constants.collect::<Option<Vec<_>>>() {
        keywords.remove("oneOf");
        keywords.insert("type".to_owned(), json!("string"));
        keywords.insert("enum".to_owned(), Value::Array(constants));
    }
}

/// Replaces each reference to a definition that is used only once. Removes unused definitions.
fn inline_definitions_used_once(schema: &mut Value) {
    while let Some((reference, definition)) = take_definition_used_at_most_once(schema) {
        change_each_schema(schema, &|keywords| {
            if keywords.get("$ref") == Some(&reference) {
                keywords.remove("$ref");
                for (name, value) in &definition {
                    keywords.entry(name).or_insert(value.clone());
                }
            }
        });
    }
    if let Some(root) = schema.as_object_mut()
        && root.get("$defs").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        root.remove("$defs");
    }
}

/// Removes a definition that contains no reference, and to which there is at most one reference.
/// Returns the reference and the definition.
fn take_definition_used_at_most_once(schema: &mut Value) -> Option<(Value, Map<String, Value>)> {
    let text = schema.to_string();
    let definitions = schema.get_mut("$defs")?.as_object_mut()?;
    let reference = |name: &str| json!(format!("#/$defs/{name}"));
    let is_used_rarely =
        |name: &str| text.matches(&format!("\"$ref\":{}", reference(name))).count() <= 1;
    let found = definitions.iter().find(|(name, definition)| {
        definition.is_object()
            && !definition.to_string().contains("\"$ref\"")
            && is_used_rarely(name)
    });
    let name = found?.0.clone();
    let Some(Value::Object(definition)) = definitions.remove(&name) else { return None };
    Some((reference(&name), definition))
}

/// Marks a generated schema, and removes the parts that every request to a model would repeat
/// although they do not help the model: the name and the description of the whole, the number
/// formats of Rust, and the value `null` of fields that need not be given. In an argument, `null`
/// means that the field is not given.
pub(crate) fn shorten_generated_schema(schema: &mut Value) {
    if let Value::Object(root) = schema {
        root.retain(|name, _| !matches!(&**name, "$schema" | "title" | "description"));
        root.insert(GENERATED.to_owned(), json!(true));
    }
    change_each_schema(schema, &|keywords| {
        remove_number_format(keywords);
        if let Some(Value::String(text)) = keywords.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        let required = keywords.get("required").cloned().unwrap_or_default();
        let Some(Value::Object(properties)) = keywords.get_mut("properties") else { return };
        let is_required =
            |name: &str| required.as_array().is_some_and(|names| names.iter().any(|it| it == name));
        let optional = properties.iter_mut().filter(|(name, _)| !is_required(name));
        optional.filter_map(|(_, property)| property.as_object_mut()).for_each(remove_null);
    });
}

fn remove_number_format(keywords: &mut Map<String, Value>) {
    let format = keywords.get("format").and_then(Value::as_str).unwrap_or_default();
    let is_unsigned = format.starts_with("uint");
    if is_unsigned || ["int", "float", "double"].iter().any(|name| format.starts_with(name)) {
        keywords.remove("format");
        keywords.retain(|name, value| !(is_unsigned && name == "minimum" && *value == 0));
    }
}

/// Removes `null` from the values of a field, unless it is the only value.
fn remove_null(field: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            field.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = field.get_mut("enum")
        && values.len() > 1
    {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = field.get_mut("anyOf")
        && let [Value::Object(only), null] = &mut choices[..]
        && *null == json!({ "type": "null" })
    {
        let only = std::mem::take(only);
        field.remove("anyOf");
        for (name, value) in only {
            field.entry(name).or_insert(value);
        }
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
        many: Vec<Option<u8>>,
        inlined: Option<Inlined>,
        #[serde(default)]
        defaulted: i32,
    }

    #[derive(Deserialize, JsonSchema)]
    #[schemars(inline)]
    #[serde(rename_all = "snake_case")]
    enum Inlined {
        Third,
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
        shorten_generated_schema(&mut schema);
        shorten_for_model(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "A file. Its name may be long."},
                "format": {"type": "integer"},
                "minimum": {"type": "integer"},
                "null": {
                    "type": "object",
                    "description": "More.",
                    "properties": {
                        "kind": {"type": "string", "description": "One of two.", "enum": ["first", "second"]},
                    },
                },
                "x-own": {"type": "number"},
                "any": {"type": "boolean"},
                // An item may be `null`.
                "many": {"type": "array", "items": {"type": ["integer", "null"], "maximum": 255}},
                "inlined": {"type": "string", "enum": ["third"]},
                "defaulted": {"type": "integer", "default": 0},
            },
            "required": ["title", "minimum", "many"],
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn constants_are_merged_and_hidden_fields_are_removed() {
        let constant = |name: &str| json!({"const": name, "type": "string", "x-aliases": ["y"]});
        let described = json!([{"const": "a", "type": "string", "description": "A."}]);
        let shared = json!({"type": "string"});
        let mut schema = json!({
            "x-generated": true,
            "properties": {
                "one": {"$ref": "#/$defs/Choice", "description": "One."},
                "hidden": {"$ref": "#/$defs/Hidden", "x-hidden": true},
                "described": {"oneOf": described},
                "more": {"additionalProperties": {"$ref": "#/$defs/Shared"}},
                "other": {"$ref": "#/$defs/Shared"},
            },
            "additionalProperties": false,
            "$defs": {
                "Choice": {"oneOf": [constant("a"), constant("b")], "description": "Not this."},
                "Hidden": {"type": "string"},
                "Shared": shared,
            },
        });
        shorten_for_model(&mut schema);
        let expected = json!({
            "properties": {
                "one": {"type": "string", "enum": ["a", "b"], "description": "One."},
                "described": {"oneOf": described},
                "more": {"additionalProperties": {"$ref": "#/$defs/Shared"}},
                "other": {"$ref": "#/$defs/Shared"},
            },
            "$defs": {"Shared": shared},
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
                "e": {"type": ["string", "null"]},
                "f": {"type": "number", "minimum": 0},
                "g": {"enum": [null]},
            },
            "required": ["e"],
        });
        let mut shortened = schema.clone();
        shorten_generated_schema(&mut shortened);
        shorten_for_model(&mut shortened);
        assert_eq!(shortened, schema);
    }
}
