//! The content of messages and calls, within the limits of an entry.

use acp_types::FileChange;
use acp_types::schema::v1::{ContentBlock, EmbeddedResourceResource, ToolCallContent};
use callboard_text::{base64_decoded_len, head};

use crate::limits::{MAX_ENTRY_BYTES, MAX_IMAGE_BYTES, MAX_TEXT_BYTES, PART_OVERHEAD_BYTES};
use crate::{diff, sanitise};

/// One piece of content.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    /// An image in base64. Every browser can show images of its type.
    Image {
        mime: String,
        data: String,
    },
    /// Data that cannot be shown, e.g. sound.
    Binary {
        kind: String,
        bytes: u64,
    },
    Link {
        name: String,
        uri: String,
    },
    /// A text that is attached to a prompt, e.g. a file.
    Resource {
        uri: String,
        text: String,
    },
    Change(FileChange),
    Terminal(String),
}

impl Part {
    /// Returns the approximate size in memory in bytes.
    fn byte_len(&self) -> usize {
        let lines = match self {
            Self::Change(change) => change.hunks.iter().map(|hunk| hunk.lines.len()).sum(),
            _ => 0,
        };
        self.content_len() + (1 + lines) * PART_OVERHEAD_BYTES
    }

    /// Returns the number of bytes that are lost if this part is discarded.
    fn content_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image { data, .. } => data.len(),
            Self::Binary { .. } | Self::Terminal(_) => 0,
            Self::Link { name, uri } => name.len() + uri.len(),
            Self::Resource { uri, text } => uri.len() + text.len(),
            Self::Change(change) => {
                let lines = change.hunks.iter().flat_map(|hunk| &hunk.lines);
                lines.map(|line| line.text.len()).sum()
            }
        }
    }
}

/// Content within the limits of an entry. Bytes beyond the limits are only counted.
#[derive(Debug, Default)]
pub(super) struct Parts {
    items: Vec<Part>,
    bytes: usize,
    text_bytes: usize,
    omitted_bytes: u64,
}

impl Parts {
    /// Creates the content of a call. Consecutive hunks of one file become one change.
    pub(super) fn from_call_content(content: &[ToolCallContent], meta_key: &str) -> Self {
        let mut parts = Self::default();
        for item in content {
            match item {
                ToolCallContent::Content(item) => parts.push_block(&item.content),
                ToolCallContent::Diff(diff) => {
                    parts.push_change(diff::bounded_change(diff, meta_key));
                }
                ToolCallContent::Terminal(terminal) => {
                    parts.push(Part::Terminal(terminal.terminal_id.0.to_string()));
                }
                _ => {}
            }
        }
        parts
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.items.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.omitted_bytes == 0
    }

    pub(super) fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Returns the number of bytes that are not kept.
    pub(super) fn omitted_bytes(&self) -> u64 {
        self.omitted_bytes
    }

    /// Returns all texts, without attachments.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Appends a chunk of a message. A text continues the previous text.
    pub(super) fn append_chunk(&mut self, block: &ContentBlock) {
        if let ContentBlock::Text(chunk) = block
            && let Some(Part::Text(_)) = self.items.last()
        {
            let more = self.take_text_within_limit(&chunk.text);
            if let Some(Part::Text(text)) = self.items.last_mut() {
                text.push_str(&more);
                self.bytes += more.len();
            }
        } else {
            self.push_block(block);
        }
    }

    fn push_block(&mut self, block: &ContentBlock) {
        let part = match block {
            ContentBlock::Text(text) => Part::Text(self.take_text_within_limit(&text.text)),
            ContentBlock::Image(image) if is_shown_image(&image.mime_type, &image.data) => {
                Part::Image { mime: image.mime_type.clone(), data: image.data.clone() }
            }
            ContentBlock::Image(image) => binary_placeholder(&image.mime_type, &image.data),
            ContentBlock::Audio(audio) => binary_placeholder(&audio.mime_type, &audio.data),
            ContentBlock::ResourceLink(link) => Part::Link {
                name: self.take_text_within_limit(&link.name),
                uri: self.take_text_within_limit(&link.uri),
            },
            ContentBlock::Resource(resource) => match &resource.resource {
                EmbeddedResourceResource::TextResourceContents(file) => Part::Resource {
                    uri: self.take_text_within_limit(&file.uri),
                    text: self.take_text_within_limit(&file.text),
                },
                EmbeddedResourceResource::BlobResourceContents(file) => {
                    binary_placeholder(file.mime_type.as_deref().unwrap_or(&file.uri), &file.blob)
                }
                _ => return,
            },
            _ => return,
        };
        self.push(part);
    }

    fn push_change(&mut self, change: FileChange) {
        match self.items.last_mut() {
            Some(Part::Change(last))
                if last.path == change.path && last.operation == change.operation =>
            {
                last.unlisted.0 += change.unlisted.0;
                last.unlisted.1 += change.unlisted.1;
                let part = Part::Change(change);
                let bytes = part.byte_len();
                if self.bytes + bytes > MAX_ENTRY_BYTES {
                    self.omitted_bytes += part.content_len() as u64;
                } else if let Part::Change(change) = part {
                    last.hunks.extend(change.hunks);
                    self.bytes += bytes;
                }
            }
            _ => self.push(Part::Change(change)),
        }
    }

    fn push(&mut self, part: Part) {
        let bytes = part.byte_len();
        if self.bytes + bytes > MAX_ENTRY_BYTES {
            self.omitted_bytes += part.content_len() as u64;
        } else {
            self.bytes += bytes;
            self.items.push(part);
        }
    }

    /// Returns the beginning of a text, as much as the limits allow, and counts the rest.
    fn take_text_within_limit(&mut self, text: &str) -> String {
        let taken = head(text, MAX_TEXT_BYTES - self.text_bytes);
        self.text_bytes += taken.len();
        self.omitted_bytes += (text.len() - taken.len()) as u64;
        taken.to_owned()
    }

    /// Discards all content. Adds its size and `other_bytes` to the number of omitted bytes.
    pub(super) fn discard_content(&mut self, other_bytes: u64) {
        let content: usize = self.items.iter().map(Part::content_len).sum();
        let omitted_bytes = self.omitted_bytes + content as u64 + other_bytes;
        *self = Self { omitted_bytes, text_bytes: MAX_TEXT_BYTES, ..Self::default() };
    }

    /// Replaces each image by its placeholder.
    pub(super) fn discard_images(&mut self) {
        for part in &mut self.items {
            if let Part::Image { mime, data } = part {
                let left = binary_placeholder(mime, data);
                self.bytes -= part.byte_len() - left.byte_len();
                *part = left;
            }
        }
    }
}

/// Returns a placeholder for base64 data.
fn binary_placeholder(kind: &str, base64: &str) -> Part {
    let kind = sanitise::truncate_line(&sanitise::escape_line(kind), 100);
    Part::Binary { kind, bytes: base64_decoded_len(base64) }
}

/// Returns whether an image may be part of a page: its type must not allow scripts, and its data
/// must be plain base64.
fn is_shown_image(mime: &str, data: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
        && data.len() <= MAX_IMAGE_BYTES
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}
