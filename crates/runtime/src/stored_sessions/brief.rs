//! The short form of a document. If all documents together are larger than the budget of a load,
//! the load returns the short form of the older documents.

use acp_lifecycle::{CallDocument, SessionDocument};
use acp_types::{Content, ContentBlock};
use agent_client_protocol::v1::schema::ResourceLink;
use callboard_text::group_thousands;
use serde_json::Value;

use crate::limits::MAX_BRIEF_CONTENT_BYTES;

/// Scheme and path of a link to stored content. The id of the call or prompt follows. No client can
/// open the link. The name of the link says that the content was omitted.
const STORED_CONTENT: &str = "stored-session";

/// Returns a document with a link in place of each large content, or `None` if it has no large
/// content. The texts of messages stay, because they are what the user searches for.
pub(super) fn shorten_document(document: &SessionDocument) -> Option<SessionDocument> {
    match document {
        SessionDocument::Prompt(prompt) => {
            let len = |block: &ContentBlock| Content::Block(block.clone()).approximate_json_len();
            let is_heavy = |block: &ContentBlock| {
                !matches!(block, ContentBlock::Text(_)) && len(block) > MAX_BRIEF_CONTENT_BYTES
            };
            prompt.blocks.iter().any(is_heavy).then(|| {
                let mut prompt = prompt.clone();
                for block in prompt.blocks.iter_mut().filter(|block| is_heavy(block)) {
                    *block = stored_content_link(len(block), &prompt.message);
                }
                SessionDocument::Prompt(prompt)
            })
        }
        SessionDocument::ToolCall(document) => {
            shorten_call(document).map(|call| SessionDocument::ToolCall(Box::new(call)))
        }
        _ => None,
    }
}

fn shorten_call(document: &CallDocument) -> Option<CallDocument> {
    let CallDocument { call, .. } = document;
    let lens: Vec<_> =
        call.content.iter().map(|item| call_content_byte_len(item, document)).collect();
    let [input, output] =
        [&call.raw_input, &call.raw_output].map(|it| it.as_ref().map_or(0, serialized_json_len));
    let largest = lens.iter().copied().chain([input, output]).max().unwrap_or_default();
    if largest <= MAX_BRIEF_CONTENT_BYTES {
        return None;
    }
    let id = &call.id.0;
    let mut brief = document.clone();
    for (item, len) in brief.call.content.iter_mut().zip(lens) {
        if len > MAX_BRIEF_CONTENT_BYTES {
            if let Content::Terminal(terminal) = item {
                brief.terminals.retain(|report| report.id != *terminal);
            }
            *item = Content::Block(stored_content_link(len, id));
        }
    }
    for (value, len) in [(&mut brief.call.raw_input, input), (&mut brief.call.raw_output, output)] {
        if len > MAX_BRIEF_CONTENT_BYTES {
            *value = Some(Value::String(omitted_bytes_note(len)));
        }
    }
    Some(brief)
}

/// Returns the size of an item in bytes. The size of a terminal is the size of its output.
fn call_content_byte_len(item: &Content, document: &CallDocument) -> usize {
    match item {
        Content::Terminal(id) => {
            let shown = document.terminals.iter().find(|terminal| terminal.id == *id);
            shown.map_or(0, |shown| shown.output.head().len() + shown.output.tail().len())
        }
        item => item.approximate_json_len(),
    }
}

fn serialized_json_len(value: &Value) -> usize {
    serde_json::to_string(value).map_or(0, |json| json.len())
}

fn stored_content_link(bytes: usize, subject: &str) -> ContentBlock {
    let uri = format!("{STORED_CONTENT}/{subject}");
    ContentBlock::ResourceLink(ResourceLink::new(omitted_bytes_note(bytes), uri))
}

fn omitted_bytes_note(bytes: usize) -> String {
    let bytes = group_thousands(bytes as u64);
    format!("{bytes} bytes, left out of this load")
}
