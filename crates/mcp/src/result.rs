//! The result of a call: content for the client, and text for the model.

use acp_tools::{ErrorCode, ToolOutput};
use acp_types::schema::v1::EmbeddedResourceResource;
use acp_types::{CallEndReason, Content, ContentBlock};
use callboard_text::{base64_decoded_len, grouped_count_with_noun, head};
use rmcp::model::CallToolResult;

use crate::limits::MAX_SHOWN_TEXT_BYTES;

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
    use serde_json::{Value, json};

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
}
