//! Items of a tool call's content: blocks, file changes, terminals and images.

use callboard_text::wrap_in_code_fence;
use serde::{Deserialize, Serialize};

use crate::schema::v1::ImageContent;
use crate::{ContentBlock, FileChange, TerminalId, json};

/// One item of a call's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text, image, audio, resource or link.
    Block(ContentBlock),
    /// A change of one file.
    Change(FileChange),
    /// The id of a terminal. The output of the terminal is in the terminal's document.
    Terminal(TerminalId),
}

impl Content {
    /// Creates a text block.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Block(ContentBlock::from(text.into()))
    }

    /// Creates a text block with `text` in a code fence of `language`, so that no client renders
    /// `text` as Markdown.
    #[must_use]
    pub fn fenced_code_block(language: &str, text: &str) -> Self {
        Self::from_text(wrap_in_code_fence(language, text))
    }

    /// Returns the image if this is an image block.
    #[must_use]
    pub fn to_image(&self) -> Option<Image> {
        match self {
            Self::Block(ContentBlock::Image(image)) => {
                Some(Image::new(image.mime_type.clone(), image.data.clone()))
            }
            _ => None,
        }
    }

    /// Returns the approximate size of this item in a message, in bytes.
    #[must_use]
    pub fn approximate_json_len(&self) -> usize {
        match self {
            Self::Block(ContentBlock::Text(text)) => {
                "\"\"".len() + json::escaped_string_len(&text.text)
            }
            Self::Block(block) => json::serialized_len(block),
            Self::Change(change) => change.max_json_len(),
            Self::Terminal(id) => id.0.len(),
        }
    }
}

/// An image for clients and models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// The bytes of the image in Base64.
    pub data: String,
}

impl Image {
    /// Creates an image from its bytes in Base64.
    #[must_use]
    pub fn new(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self { media_type: media_type.into(), data: data.into() }
    }
}

impl From<Image> for Content {
    fn from(Image { media_type, data }: Image) -> Self {
        Self::Block(ContentBlock::Image(ImageContent::new(data, media_type)))
    }
}

impl From<FileChange> for Content {
    fn from(change: FileChange) -> Self {
        Self::Change(change)
    }
}

impl From<TerminalId> for Content {
    fn from(id: TerminalId) -> Self {
        Self::Terminal(id)
    }
}
