//! The definition of a tool, as its server sends it. The definition is not trusted: its texts have
//! a limited length, and permissions do not depend on them.

use acp_types::ToolKind;
use acp_types::tool_kind::{ToolAnnotations, infer_kind};
use callboard_text::head;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::limits::{MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH};
use crate::output_schema::OutputSchema;

/// The definition of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolDefinition {
    /// The name of the tool in the protocol.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    /// The schema of structured results. `None` if results are not compared with a schema.
    pub(crate) output_schema: Option<OutputSchema>,
    pub(crate) kind: ToolKind,
    /// Whether the server says that the tool may destroy something.
    pub(crate) is_destructive: bool,
    /// A hash of everything on which a decision of a user or a policy may depend: the description,
    /// the schema, the hints, and the address of the server.
    pub(crate) digest: String,
}

/// The name and the description of a tool, as its server sends them. The description is truncated
/// to its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpToolDescription {
    /// The name of the tool in the protocol.
    pub name: String,
    /// The description; it may contain any characters.
    pub description: String,
}

/// The parts of the first definition of a tool with which later definitions are compared.
#[derive(Debug)]
pub(crate) struct FirstToolDefinition {
    pub(crate) description: String,
    pub(crate) digest: String,
}

impl ToolDefinition {
    /// Returns the parts with which later definitions are compared.
    pub(crate) fn to_comparison_parts(&self) -> FirstToolDefinition {
        FirstToolDefinition { description: self.description.clone(), digest: self.digest.clone() }
    }

    /// Converts the definition that the server with this address has
    /// sent. Applies the limits.
    pub(crate) fn from_server(tool: &Tool, address: &str) -> Self {
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let hints = tool.annotations.as_ref();
        let mut annotations = ToolAnnotations::default();
        annotations.destructive = hints.and_then(|it| it.destructive_hint);
        // A destructive tool without a hint about reading is not read-only.
        let changes = (annotations.destructive == Some(true)).then_some(false);
        annotations.read_only = hints.and_then(|it| it.read_only_hint).or(changes);
        annotations.open_world = hints.and_then(|it| it.open_world_hint);
        let description = head(description, MAX_DESCRIPTION_BYTES).to_owned();
        let input_schema = usable_schema_or_any_object(&tool.input_schema);
        let output_schema = tool.output_schema.as_deref().and_then(OutputSchema::from_server);
        let kind = infer_kind(None, annotations, &tool.name);
        let is_destructive = annotations.destructive == Some(true);
        let judged = json!([description, input_schema, hints, address]).to_string();
        let name = tool.name.clone().into_owned();
        let digest = short_digest(&judged);
        Self { name, description, input_schema, output_schema, kind, is_destructive, digest }
    }

    /// Returns the information about the tool that users see.
    pub(crate) fn description_for_user(&self) -> McpToolDescription {
        McpToolDescription { name: self.name.clone(), description: self.description.clone() }
    }
}

/// Returns the first 16 bytes of the SHA-256 of a text, in hexadecimal digits.
pub(crate) fn short_digest(text: &str) -> String {
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a schema that model providers accept. The schema must describe an object, and must not
/// be too large or too deep. Any other schema is replaced by a schema that accepts any object.
fn usable_schema_or_any_object(schema: &Map<String, Value>) -> Value {
    let any = || json!({ "type": "object", "additionalProperties": true });
    let mut schema = schema.clone();
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        None => drop(schema.insert("type".to_owned(), "object".into())),
        Some(_) => return any(),
    }
    if !schema.get("properties").is_none_or(Value::is_object) {
        return any();
    }
    let schema = Value::Object(schema);
    let is_usable = depth(&schema) <= MAX_SCHEMA_DEPTH
        && acp_types::json::serialized_len(&schema) <= MAX_SCHEMA_BYTES;
    if is_usable { schema } else { any() }
}

/// Returns the nesting depth of a value. The recursion is safe, because the JSON parser limits the
/// depth.
fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn tool(json: Value) -> ToolDefinition {
        ToolDefinition::from_server(&serde_json::from_value(json).unwrap(), "a")
    }

    #[test]
    fn annotations_choose_the_kind() {
        for (annotations, kind, is_destructive) in [
            (json!({"readOnlyHint": true, "openWorldHint": false}), ToolKind::Read, false),
            (json!({"readOnlyHint": false, "destructiveHint": true}), ToolKind::Delete, true),
            (json!({"destructiveHint": true}), ToolKind::Delete, true),
            (json!({}), ToolKind::Other, false),
        ] {
            let tool = tool(json!({
                "name": "widget", "inputSchema": {"type": "object"}, "annotations": annotations,
            }));
            assert_eq!((tool.kind, tool.is_destructive), (kind, is_destructive), "{annotations}");
        }
    }

    #[test]
    fn unusable_schemas_accept_anything() {
        let deep = (0..40).fold(json!({}), |inner, _| json!({ "items": inner }));
        let large = json!({ "type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES) });
        for (schema, is_kept) in [
            (json!({}), true),
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), true),
            (json!({"$ref": "#"}), true),
            (json!({"type": "array"}), false),
            (json!({"properties": []}), false),
            (deep, false),
            (large, false),
        ] {
            let made = tool(json!({"name": "a", "inputSchema": schema})).input_schema;
            assert_eq!(made["type"], "object");
            assert_eq!(made.get("additionalProperties").is_none(), is_kept, "{schema}");
        }
    }

    #[test]
    fn digest_changes_with_the_definition_and_the_address() {
        let digest = |description: &str, schema: Value| {
            tool(json!({"name": "a", "description": description, "inputSchema": schema})).digest
        };
        let first = digest("one", json!({}));
        let elsewhere = json!({"name": "a", "description": "one", "inputSchema": {}});
        let elsewhere = serde_json::from_value(elsewhere).unwrap();
        assert_eq!(first, ToolDefinition::from_server(&elsewhere, "a").digest);
        assert_ne!(first, ToolDefinition::from_server(&elsewhere, "b").digest);
        assert_eq!(first, digest("one", json!({})));
        assert_ne!(first, digest("two", json!({})));
        assert_ne!(first, digest("one", json!({"required": ["x"]})));
        let hints = json!({"name": "a", "description": "one", "inputSchema": {}, "annotations": {
            "destructiveHint": true,
        }});
        assert_ne!(first, tool(hints).digest);
    }
}
