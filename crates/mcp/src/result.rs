//! The result of a call: content for the client, and text for the model.

use acp_tools::{ErrorCode, ToolOutput};
use acp_types::schema::v1::EmbeddedResourceResource;
use acp_types::{CallEndReason, Content, ContentBlock};
use callboard_text::{base64_decoded_len, grouped_count_with_noun, head};
use rmcp::model::{CallToolResult, ContentBlock as McpContentBlock};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::limits::MAX_SHOWN_TEXT_BYTES;

/// Reads a result that the SDK could not read, e.g. because the kind of a part is newer than the
/// SDK. A part that cannot be read becomes a text about it.
pub(crate) fn read_unknown_result(mut result: Value) -> Option<CallToolResult> {
    for part in result.get_mut("content")?.as_array_mut()? {
        if let Err(error) = McpContentBlock::deserialize(&*part) {
            let text = format!("[A part of the result cannot be read: {error}]");
            *part = json!({"type": "text", "text": text});
        }
    }
    serde_json::from_value(result).ok()
}

/// Converts a result of a server.
pub(crate) fn to_tool_output(result: CallToolResult) -> ToolOutput {
    let mut content = Vec::new();
    let mut texts = Vec::new();
    for block in result.content {
        // The blocks of MCP and ACP have the same form.
        let block = serde_json::to_value(&block).and_then(serde_json::from_value::<ContentBlock>);
        match block {
            Ok(ContentBlock::Text(mut text)) => {
                let shown = head(&text.text, MAX_SHOWN_TEXT_BYTES).to_owned();
                texts.push(std::mem::replace(&mut text.text, shown));
                content.push(Content::Block(ContentBlock::Text(text)));
            }
            Ok(block) => {
                texts.extend(text_for_model(&block));
                content.push(Content::Block(block));
            }
            Err(error) => texts.push(format!("[A part of the result cannot be read: {error}]")),
        }
    }
    if texts.is_empty()
        && content.is_empty()
        && let Some(data) = &result.structured_content
    {
        let text = serde_json::to_string_pretty(data).unwrap_or_default();
        content.push(Content::fenced_code_block("json", &text));
        texts.push(text);
    }
    if texts.is_empty() && content.is_empty() {
        texts.push("[The result is empty.]".to_owned());
    }
    let text = match texts.len() {
        1 => texts.remove(0),
        _ => texts.join("\n"),
    };
    let mut output = ToolOutput::new(text);
    output.content = (!content.is_empty()).then_some(content);
    output.raw_output = result.structured_content;
    if result.is_error == Some(true) {
        output.failure = Some((ErrorCode::ServerError, CallEndReason::Error));
    }
    output
}

/// Returns the text of a block for the model. Returns `None` for an image, because the model
/// receives images separately.
fn text_for_model(block: &ContentBlock) -> Option<String> {
    let size = |base64: &str| grouped_count_with_noun(base64_decoded_len(base64), "byte", "bytes");
    match block {
        ContentBlock::Image(_) => None,
        ContentBlock::Audio(audio) => {
            Some(format!("[Audio for the user: {}, {}]", audio.mime_type, size(&audio.data)))
        }
        ContentBlock::ResourceLink(link) => Some(format!("[Link: {} ({})]", link.uri, link.name)),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(it) => {
                Some(format!("[Resource: {}]\n{}", it.uri, it.text))
            }
            EmbeddedResourceResource::BlobResourceContents(it) => {
                Some(format!("[Resource for the user: {}, {}]", it.uri, size(&it.blob)))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn output(result: Value) -> ToolOutput {
        to_tool_output(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn each_kind_of_content_reaches_the_client() {
        let output = output(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "demo://x", "name": "x"},
            {"type": "resource", "resource": {"uri": "demo://y", "text": "two"}},
            {"type": "resource", "resource": {"uri": "demo://z", "blob": "aGk="}},
        ]}));
        assert_eq!(output.content.unwrap().len(), 6);
        let expected = "one\n[Audio for the user: audio/wav, 2 bytes]\n[Link: demo://x (x)]\n\
                        [Resource: demo://y]\ntwo\n\
                        [Resource for the user: demo://z, 2 bytes]";
        assert_eq!((output.text.as_str(), output.failure), (expected, None));
    }

    #[test]
    fn structured_results_and_errors_are_shown() {
        let structured = output(json!({"content": [], "structuredContent": {"a": 1}}));
        assert_eq!(structured.text, "{\n  \"a\": 1\n}");
        assert_eq!(structured.raw_output, Some(json!({"a": 1})));
        let failed = output(json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
        assert_eq!(failed.failure, Some((ErrorCode::ServerError, CallEndReason::Error)));
        assert_eq!(output(json!({"content": []})).text, "[The result is empty.]");
    }

    #[test]
    fn a_part_of_an_unknown_kind_does_not_hide_the_other_parts() {
        let result = json!({"content": [
            {"type": "video", "data": "aGk="},
            {"type": "text", "text": "one"},
            {"type": "text"},
            3,
        ], "structuredContent": {"a": 1}, "isError": true});
        let output = to_tool_output(read_unknown_result(result).unwrap());
        assert_eq!(output.text.matches("[A part of the result cannot be read: ").count(), 3);
        assert!(output.text.contains("`video`") && output.text.contains("]\none\n["));
        assert_eq!(output.raw_output, Some(json!({"a": 1})));
        assert_eq!(output.failure, Some((ErrorCode::ServerError, CallEndReason::Error)));
        for other in [json!({"contents": []}), json!({"content": "x"}), json!(null)] {
            assert_eq!(read_unknown_result(other), None);
        }
    }
}
