//! What a prompt says to a model that takes text.

use std::fmt::Write as _;

use acp_types::text::fenced;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};

/// Joins the blocks of a prompt to one text. What a text cannot hold is named, never dropped
/// silently.
pub(crate) fn text(blocks: &[ContentBlock]) -> String {
    let mut text = String::new();
    for block in blocks {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = match block {
            ContentBlock::Text(block) => write!(text, "{}", block.text),
            ContentBlock::ResourceLink(link) => write!(text, "[{}]({})", link.name, link.uri),
            ContentBlock::Resource(resource) => match &resource.resource {
                EmbeddedResourceResource::TextResourceContents(contents) => {
                    write!(text, "{}\n{}", contents.uri, fenced("", &contents.text))
                }
                _ => write!(text, "[a binary resource, which this model cannot read]"),
            },
            ContentBlock::Image(_) => write!(text, "[an image, which this model cannot see]"),
            ContentBlock::Audio(_) => write!(text, "[audio, which this model cannot hear]"),
            _ => write!(text, "[content of an unknown kind]"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;
    use serde_json::json;

    #[test]
    fn blocks_are_joined_and_nothing_is_dropped_silently() {
        let blocks = serde_json::from_value(json!([
            {"type": "text", "text": "read this"},
            {"type": "resource_link", "uri": "file:///a b", "name": "a b"},
            {"type": "resource", "resource": {"uri": "file:///c", "text": "see"}},
            {"type": "resource", "resource": {"uri": "file:///d", "blob": "AA=="}},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ]));
        assert_eq!(
            text(&blocks.unwrap() as &Vec<_>),
            "read this\n[a b](file:///a b)\nfile:///c\n```\nsee\n```\n\
             [a binary resource, which this model cannot read]\n\
             [an image, which this model cannot see]"
        );
    }
}
