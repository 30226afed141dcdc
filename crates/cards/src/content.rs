//! Converts content blocks to text.

use std::borrow::Cow;

use crate::ui_text::UiText;
use acp_types::schema::v1::{ContentBlock, EmbeddedResourceResource};
use callboard_text::base64_decoded_len;

/// Returns the text of a block, or a placeholder if it contains no text.
pub(super) fn block_text_or_placeholder<'a>(
    block: &'a ContentBlock,
    words: &UiText,
) -> Cow<'a, str> {
    match block {
        ContentBlock::Text(text) => Cow::Borrowed(&text.text),
        ContentBlock::Image(image) => binary_placeholder(&image.mime_type, &image.data, words),
        ContentBlock::Audio(audio) => binary_placeholder(&audio.mime_type, &audio.data, words),
        ContentBlock::ResourceLink(link) => Cow::Owned(format!("[{}]({})", link.name, link.uri)),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => Cow::Borrowed(&text.text),
            EmbeddedResourceResource::BlobResourceContents(blob) => {
                let kind = blob.mime_type.as_deref().unwrap_or(&blob.uri);
                binary_placeholder(kind, &blob.blob, words)
            }
            _ => Cow::Borrowed(""),
        },
        _ => Cow::Borrowed(""),
    }
}

fn binary_placeholder<'a>(kind: &str, base64: &str, words: &UiText) -> Cow<'a, str> {
    Cow::Owned(words.binary_data_text(kind, base64_decoded_len(base64)))
}

/// Splits a text that is one Markdown code fence into its language and its body. Returns an empty
/// language and the unchanged text if the text is anything else. The fence may be unclosed.
pub(super) fn split_fence_language_and_body(text: &str) -> (&str, &str) {
    let trimmed = text.trim();
    let ticks = trimmed.len() - trimmed.trim_start_matches('`').len();
    let (fence, rest) = trimmed.split_at(ticks);
    let Some((language, inside)) = rest.split_once('\n') else {
        return ("", text);
    };
    if ticks < 3 || language.contains('`') {
        return ("", text);
    }
    let body = inside.strip_suffix(fence).unwrap_or(inside);
    if body.lines().any(|line| line.trim_end() == fence) {
        return ("", text);
    }
    (language.trim(), body.strip_suffix('\n').unwrap_or(body))
}

#[cfg(test)]
mod tests {
    use super::split_fence_language_and_body;

    #[test]
    fn a_fence_around_the_whole_text_is_removed() {
        for (text, expected) in [
            ("```console\n$ ls\na\n```", ("console", "$ ls\na")),
            ("````sh\n```\n````\n", ("sh", "```")),
            ("```console\n$ ls", ("console", "$ ls")),
            ("```console\n```", ("console", "")),
            ("```\na\n```\nand\n```\nb\n```", ("", "```\na\n```\nand\n```\nb\n```")),
            ("`a`", ("", "`a`")),
            ("``` a```\n", ("", "``` a```\n")),
            ("", ("", "")),
        ] {
            assert_eq!(split_fence_language_and_body(text), expected, "{text:?}");
        }
    }
}
