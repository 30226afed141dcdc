//! One item of what a call shows: a block, a file change or a terminal by its id; an image.

use callboard_text::code_fence;
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
    /// A change of one file, with what was there and what is there now.
    Change(FileChange),
    /// A terminal, whose own document says what it shows.
    Terminal(TerminalId),
}

impl Content {
    /// Makes a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Block(ContentBlock::from(text.into()))
    }

    /// Makes a text block with `text` fenced as code of `language`, so that no client renders it
    /// as Markdown.
    #[must_use]
    pub fn code(language: &str, text: &str) -> Self {
        Self::text(code_fence(language, text))
    }

    /// Returns the image that it is, if it is one.
    #[must_use]
    pub fn to_image(&self) -> Option<Image> {
        match self {
            Self::Block(ContentBlock::Image(image)) => {
                Some(Image::new(image.mime_type.clone(), image.data.clone()))
            }
            _ => None,
        }
    }

    /// Returns about how many bytes this item takes in a message.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Block(ContentBlock::Text(text)) => {
                "\"\"".len() + json::escaped_string_len(&text.text)
            }
            Self::Block(block) => json::serialized_len(block),
            Self::Change(change) => change.json_len(),
            Self::Terminal(id) => id.0.len(),
        }
    }
}

/// An image, as clients show it and models see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// Its media type: `image/png`.
    pub media_type: String,
    /// Its bytes, in Base64.
    pub data: String,
}

impl Image {
    /// Makes an image of its bytes in Base64.
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
