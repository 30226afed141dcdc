//! Images in the formats that clients and models support.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_text::{group_thousands, grouped_count_with_noun};
use infer::MatcherType;

use crate::files::system::read_all_if_within_limit;
#[cfg(feature = "web")]
use crate::limits::SNIFF_BYTES;
use crate::limits::{MAX_CLIENT_IMAGE_BYTES, MAX_IMAGE_BYTES};
use acp_types::path::file_uri;

/// A whole image.
#[derive(Debug)]
pub(crate) struct ImageFile {
    /// The media type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub(crate) media_type: &'static str,
    /// The bytes of the image, at most [`MAX_IMAGE_BYTES`].
    pub(crate) bytes: Vec<u8>,
}

impl ImageFile {
    /// Returns an image if the bytes have a format and a size that clients and models support.
    /// Otherwise returns the bytes.
    #[cfg(feature = "web")]
    pub(crate) fn from_bytes_if_supported(bytes: Vec<u8>) -> Result<Self, Vec<u8>> {
        let media_type = sniff_media_type(&bytes[..bytes.len().min(SNIFF_BYTES)]);
        match media_type.filter(|_| bytes.len() as u64 <= MAX_IMAGE_BYTES) {
            Some(media_type) => Ok(Self { media_type, bytes }),
            None => Err(bytes),
        }
    }

    /// Returns the image encoded as Base64.
    pub(crate) fn to_base64(&self) -> acp_types::Image {
        acp_types::Image::new(self.media_type, STANDARD.encode(&self.bytes))
    }

    /// Returns a link to an image that is too large for the client, and a note for the user.
    pub(crate) fn to_link_content(&self, path: &Path) -> Vec<Content> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let link = ResourceLink::new(name, file_uri(path))
            .mime_type(self.media_type.to_owned())
            .size(i64::try_from(self.bytes.len()).ok());
        let (bytes, most) = (self.bytes.len() as u64, MAX_CLIENT_IMAGE_BYTES as u64);
        let note = format!(
            "The image has {} bytes, and up to {} are shown here. Models with image support \
             receive all of it.",
            group_thousands(bytes),
            group_thousands(most)
        );
        vec![Content::Block(ContentBlock::ResourceLink(link)), Content::from_text(note)]
    }

    /// Returns a description of one line, for models without image support.
    pub(crate) fn describe(&self) -> String {
        format!(
            "[{}, {}]\n",
            self.media_type,
            grouped_count_with_noun(self.bytes.len() as u64, "byte", "bytes")
        )
    }
}

/// Detects the media type of an image from its first bytes. Returns `None` if clients and models do
/// not support the type.
pub(super) fn sniff_media_type(start: &[u8]) -> Option<&'static str> {
    // A text may begin with the same bytes as an image, e.g. with "GIF".
    if !start.contains(&0) && std::str::from_utf8(start).is_ok() {
        return None;
    }
    let kind = infer::get(start).filter(|kind| kind.matcher_type() == MatcherType::Image)?;
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    known.into_iter().find(|known| *known == kind.mime_type())
}

/// Reads the whole file. Returns `None` if the file is larger than [`MAX_IMAGE_BYTES`].
pub(super) fn read_capped_image(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    file.rewind()?;
    read_all_if_within_limit(file, MAX_IMAGE_BYTES)
}
