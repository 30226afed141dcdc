//! Tool calls for models without native tool calls. Such a model replies in a format that a JSON
//! Schema enforces.
//!
//! A reply is one JSON object, `{"text": …}` or `{"tool": …, "arguments": {…}}`. Text is passed on
//! while it arrives, and a call starts as soon as the name of its tool has arrived. Providers that
//! do not enforce the schema are supported: a reply in another format becomes text. Incomplete
//! arguments are passed on unchanged, so that the session reports the error to the model in the
//! usual way.

mod reply_parser;

use std::fmt::Write as _;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use serde_json::{Map, Value, json};

use super::{
    ChatMessage, ContentPart, Model, ModelCapabilities, ModelRequest, ModelToolCall, ReplyStream,
    ToolResult, ToolSpec,
};
use reply_parser::ReplyParser;

/// Adds tool calls to a model without native tool calls.
pub(crate) fn emulate_tools(model: Arc<dyn Model>) -> Arc<dyn Model> {
    Arc::new(ToolEmulation(model))
}

#[derive(Debug)]
struct ToolEmulation(Arc<dyn Model>);

impl Model for ToolEmulation {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.0.capabilities()
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        // A request without tools expects only text, e.g. a summary.
        if request.tools.is_empty() {
            return self.0.reply(request);
        }
        let mut form = ReplyParser::with_call_id(format!("reply_{}", request.index));
        let reply = self.0.reply(move_tools_to_instructions(request));
        reply.flat_map(move |event| stream::iter(form.parse_event(event))).boxed()
    }
}

/// Moves the tools of a request into the instructions and the schema of the request.
fn move_tools_to_instructions(request: ModelRequest) -> ModelRequest {
    let schema = reply_schema(&request.tools);
    let mut system = request.system.to_string();
    system.push_str(REPLY_FORMAT_INSTRUCTIONS);
    for ToolSpec { name, description, input_schema } in request.tools.iter() {
        let _ = write!(system, "\n- {name}: {description}\n  arguments: {input_schema}");
    }
    let messages = request.messages.iter().cloned().map(encode_message).collect();
    let (messages, system, tools) = (Arc::new(messages), system.into(), Arc::default());
    ModelRequest { system, messages, tools, response_schema: Some(Arc::new(schema)), ..request }
}

/// Description of the reply format for the model.
const REPLY_FORMAT_INSTRUCTIONS: &str = "\n\n\
Answer with one JSON object and nothing around it. To use a tool: \
{\"tool\": \"NAME\", \"arguments\": {…}}; its result follows with the next message. \
To speak to the user: {\"text\": \"…\"}. The tools:";

/// Returns the schema of a reply: text, or a call of one of the tools.
fn reply_schema(tools: &[ToolSpec]) -> Value {
    let object = |properties: Value, required: Value| {
        json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false})
    };
    let text = object(json!({"text": {"type": "string"}}), json!(["text"]));
    let calls = tools.iter().map(|tool| {
        let arguments = inline_definitions(&tool.input_schema);
        let properties = json!({"tool": {"const": tool.name}, "arguments": arguments});
        object(properties, json!(["tool", "arguments"]))
    });
    let forms: Vec<_> = [text].into_iter().chain(calls).collect();
    json!({"title": "reply", "anyOf": forms})
}

/// Returns a tool's schema with all definitions inlined. A reference in a schema is relative to the
/// root of the document, and the tool's schema is no longer the root here.
fn inline_definitions(schema: &Value) -> Value {
    let none = Map::new();
    let definitions = schema["$defs"].as_object().unwrap_or(&none);
    let mut whole = inline_refs(schema, definitions, MAX_REF_DEPTH);
    if let Some(fields) = whole.as_object_mut() {
        fields.retain(|key, _| key != "$defs" && key != "$schema");
    }
    whole
}

/// Maximum depth to which references are followed. At a greater depth, the schema accepts any
/// value.
const MAX_REF_DEPTH: usize = 4;

fn inline_refs(schema: &Value, definitions: &Map<String, Value>, nested: usize) -> Value {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            if let Some(name) = name.and_then(|name| name.strip_prefix("#/$defs/")) {
                return match definitions.get(name) {
                    Some(definition) if nested > 0 => {
                        inline_refs(definition, definitions, nested - 1)
                    }
                    _ => json!({}),
                };
            }
            let inlined = |(key, value): (&String, &Value)| {
                (key.clone(), inline_refs(value, definitions, nested))
            };
            Value::Object(fields.iter().filter(|(key, _)| *key != "$defs").map(inlined).collect())
        }
        Value::Array(items) => {
            items.iter().map(|item| inline_refs(item, definitions, nested)).collect()
        }
        other => other.clone(),
    }
}

/// Converts a message into the reply format.
fn encode_message(message: Arc<ChatMessage>) -> Arc<ChatMessage> {
    match &*message {
        ChatMessage::Assistant { text, thought, calls, .. } => Arc::new(ChatMessage::Assistant {
            text: encode_reply(text, calls),
            thought: thought.clone(),
            calls: Vec::new(),
            replay: None,
        }),
        ChatMessage::ToolResults(results) => {
            let shown = results.iter().flat_map(|result| result.parts.iter().cloned());
            let text = ContentPart::Text(format_results(results));
            Arc::new(ChatMessage::User(std::iter::once(text).chain(shown).collect()))
        }
        ChatMessage::User(_) | ChatMessage::Context(_) => message,
    }
}

fn encode_reply(text: &str, calls: &[ModelToolCall]) -> String {
    let text = (!text.is_empty()).then(|| json!({ "text": text }));
    let calls = calls.iter().map(|call| {
        let arguments = serde_json::from_str(&call.arguments);
        let arguments = arguments.unwrap_or_else(|_| Value::String(call.arguments.clone()));
        json!({"tool": call.name, "arguments": arguments})
    });
    text.into_iter().chain(calls).map(|part| part.to_string()).collect::<Vec<_>>().join("\n")
}

fn format_results(results: &[ToolResult]) -> String {
    let texts = results.iter().map(|ToolResult { name, text, is_error, .. }| {
        let came = if *is_error { "failed" } else { "result" };
        format!("{name} {came}:\n{text}")
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests;
