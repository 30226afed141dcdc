//! Converts a prompt to the parts of a message for a model: its text, its images and recordings,
//! and the files that it links to.
//!
//! If the model does not support a kind of content, the message names the content instead.

use callboard_models::{ContentPart, ModelCapabilities};
use callboard_text::path_text;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_tools::Workspace;
use acp_tools::files::read::read_excerpt;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource, ResourceLink};
use callboard_text::escape_invisible;
use callboard_text::{base64_decoded_len, head, wrap_in_code_fence};
use url::Url;

use crate::context::ImplicitReadChecker;
use crate::limits;

/// Returns the text that the user typed, without attachments and links.
pub(crate) fn typed_text(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Converts the content blocks of a prompt to message parts, for a model with these capabilities.
pub(crate) fn parts_from_blocks(
    blocks: Vec<ContentBlock>,
    traits: &ModelCapabilities,
) -> Vec<ContentPart> {
    let mut parts = PartsBuilder { traits, parts: Vec::new(), text: String::new() };
    for block in blocks {
        match block {
            ContentBlock::Text(block) => parts.push_text(&block.text),
            ContentBlock::ResourceLink(link) => {
                parts.push_text(&format!("[{}]({})", link.name, link.uri));
                if file_path_of_link(&link).is_none() {
                    parts.push_text("[it is only named; what is there was not read]");
                }
            }
            ContentBlock::Resource(resource) => parts.push_resource(resource.resource),
            ContentBlock::Image(image) => {
                parts.push_media(MediaKind::Image, image.mime_type, image.data);
            }
            ContentBlock::Audio(audio) => {
                parts.push_media(MediaKind::Audio, audio.mime_type, audio.data);
            }
            _ => parts.push_text("[content of an unknown kind]"),
        }
    }
    parts.finish_text();
    parts.parts
}

/// Builds the parts of a message.
struct PartsBuilder<'a> {
    traits: &'a ModelCapabilities,
    parts: Vec<ContentPart>,
    /// Text after the last image or recording, which is not a part yet.
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MediaKind {
    Image,
    Audio,
}

impl MediaKind {
    fn name(self) -> &'static str {
        match self {
            Self::Image => "an image",
            Self::Audio => "audio",
        }
    }
}

impl PartsBuilder<'_> {
    fn push_text(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    fn finish_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(ContentPart::Text(std::mem::take(&mut self.text)));
        }
    }

    fn push_resource(&mut self, resource: EmbeddedResourceResource) {
        match resource {
            EmbeddedResourceResource::TextResourceContents(contents) => {
                self.push_text(&format!(
                    "{}\n{}",
                    contents.uri,
                    wrap_in_code_fence("", &contents.text)
                ));
            }
            EmbeddedResourceResource::BlobResourceContents(contents) => {
                self.push_text(&format!("{}:", contents.uri));
                let media_type = contents.mime_type.unwrap_or_default();
                match media_type.split_once('/') {
                    Some(("image", _)) => {
                        self.push_media(MediaKind::Image, media_type, contents.blob);
                    }
                    Some(("audio", _)) => {
                        self.push_media(MediaKind::Audio, media_type, contents.blob);
                    }
                    _ => self.push_text("[a binary resource, which cannot be read]"),
                }
            }
            _ => self.push_text("[a resource of an unknown kind]"),
        }
    }

    fn push_media(&mut self, kind: MediaKind, media_type: String, data: String) {
        if let Some(why) = self.reason_not_to_send_media(kind, &media_type, &data) {
            let (what, kib) = (kind.name(), base64_decoded_len(&data) / 1024);
            let media_type = escape_invisible(head(&media_type, MAX_MEDIA_TYPE_BYTES));
            return self.push_text(&format!("[{what} ({media_type}, {kib} KiB), {why}]"));
        }
        self.finish_text();
        self.parts.push(match kind {
            MediaKind::Image => ContentPart::Image { media_type, data },
            MediaKind::Audio => ContentPart::Audio { media_type, data },
        });
    }

    /// Returns a reason why an image or a recording cannot be sent to the model. If a provider
    /// refused an image or a recording, it would also refuse every later request of the session,
    /// because these requests contain the same image or recording.
    fn reason_not_to_send_media(
        &self,
        kind: MediaKind,
        media_type: &str,
        data: &str,
    ) -> Option<&'static str> {
        let media = self.parts.iter().filter(|part| !matches!(part, ContentPart::Text(_))).count();
        match kind {
            MediaKind::Image if !self.traits.images => Some("which this model cannot see"),
            MediaKind::Audio if !self.traits.audio => Some("which this model cannot hear"),
            _ if media >= limits::MAX_PROMPT_MEDIA => Some("which is one too many"),
            _ if data.len() > limits::MAX_MEDIA_BYTES => Some("which is too large"),
            MediaKind::Image if !IMAGE_MEDIA_TYPES.contains(&media_type) => {
                Some("which no model can see")
            }
            _ if !is_base64(data) => Some("which is not in base64"),
            _ => None,
        }
    }
}

fn is_base64(data: &str) -> bool {
    let text = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - text.len() <= 2
        && text.bytes().all(is_digit)
}

/// Maximum number of bytes of an unsupported media type that are shown.
const MAX_MEDIA_TYPE_BYTES: usize = 80;

/// Media types of images that all providers with support for images accept.
const IMAGE_MEDIA_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The files that a prompt links to, with their texts.
#[derive(Debug)]
pub(crate) struct LinkedFiles {
    /// The lines of the files with line numbers. For a file that was not read, contains the reason.
    pub(crate) text: String,
    /// The linked files, up to [`limits::MAX_LINKED_FILES`]. The flag of a file states whether the
    /// file was read.
    pub(crate) files: Vec<(PathBuf, bool)>,
}

/// Reads the local files that a prompt links to. Returns `None` if the prompt has no such links.
/// Links to anything else are only named in the message.
pub(crate) async fn read_linked_files(
    blocks: &[ContentBlock],
    workspace: &Arc<Workspace>,
    rules: ImplicitReadChecker,
) -> Option<LinkedFiles> {
    let links = blocks.iter().filter_map(|block| match block {
        ContentBlock::ResourceLink(link) => file_path_of_link(link),
        _ => None,
    });
    let (paths, workspace) = (links.collect::<Vec<_>>(), workspace.clone());
    if paths.is_empty() {
        return None;
    }
    tokio::task::spawn_blocking(move || read_linked_files_blocking(paths, &workspace, &rules))
        .await
        .ok()
}

fn read_linked_files_blocking(
    paths: Vec<PathBuf>,
    workspace: &Workspace,
    rules: &ImplicitReadChecker,
) -> LinkedFiles {
    let mut text = "Files that the prompt links to:".to_owned();
    let mut files = Vec::new();
    for (place, path) in paths.into_iter().enumerate() {
        let shown = workspace.display(&path);
        let read = match place < limits::MAX_LINKED_FILES {
            true => {
                let read = match rules.permits_reading(workspace, &path) {
                    true => read_with_line_numbers(workspace, &path),
                    false => Err("it lies elsewhere, or a rule forbids it".to_owned()),
                };
                files.push((path, read.is_ok()));
                read
            }
            false => Err("one of too many files".to_owned()),
        };
        // Writing to a String cannot fail.
        let _ = match read {
            Ok(lines) => write!(text, "\n\n{shown}\n{}", wrap_in_code_fence("", &lines)),
            Err(why) => write!(text, "\n\n{shown} was not read: {why}"),
        };
    }
    LinkedFiles { text, files }
}

fn file_path_of_link(link: &ResourceLink) -> Option<PathBuf> {
    let uri = Url::parse(&link.uri).ok().filter(|uri| uri.scheme() == "file")?;
    uri.to_file_path().ok()
}

/// Reads a small text file, and returns its lines with line numbers.
fn read_with_line_numbers(workspace: &Workspace, path: &Path) -> Result<String, String> {
    let path = &path_text(path);
    let at = workspace.resolve(path).map_err(|error| error.to_string())?;
    let bytes = workspace.metadata(&at).map_err(|error| error.to_string())?.len();
    if bytes > limits::MAX_LINKED_FILE_BYTES {
        return Err(format!("it has {bytes} bytes. Read it by a tool"));
    }
    let window = read_excerpt(workspace, path, None, None).map_err(|error| error.to_string())?;
    Ok(window.for_model())
}

#[cfg(test)]
mod tests;
