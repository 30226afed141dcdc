//! What a prompt says to a model: its text, images and recordings, and the files that it links to.
//!
//! What the model cannot take is named, never dropped silently.

use callboard_models::{Part, Traits};
use callboard_text::path_text;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_tools::Workspace;
use acp_tools::files::read::read_window;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource, ResourceLink};
use callboard_text::visible;
use callboard_text::{fenced, head};
use url::Url;

use crate::context::ReadRules;
use crate::limits;

/// Returns what the user typed, without what is attached to it.
pub(crate) fn typed(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Makes the parts of a prompt for a model that takes what `traits` says.
pub(crate) fn parts(blocks: Vec<ContentBlock>, traits: &Traits) -> Vec<Part> {
    let mut parts = Parts { traits, parts: Vec::new(), text: String::new() };
    for block in blocks {
        match block {
            ContentBlock::Text(block) => parts.text(&block.text),
            ContentBlock::ResourceLink(link) => {
                parts.text(&format!("[{}]({})", link.name, link.uri));
                if path_of(&link).is_none() {
                    parts.text("[it is only named; what is there was not read]");
                }
            }
            ContentBlock::Resource(resource) => parts.resource(resource.resource),
            ContentBlock::Image(image) => parts.medium(Kind::Image, image.mime_type, image.data),
            ContentBlock::Audio(audio) => parts.medium(Kind::Audio, audio.mime_type, audio.data),
            _ => parts.text("[content of an unknown kind]"),
        }
    }
    parts.end_text();
    parts.parts
}

/// Parts that are being gathered.
struct Parts<'a> {
    traits: &'a Traits,
    parts: Vec<Part>,
    /// The text since the last part that is none.
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Audio,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Image => "an image",
            Self::Audio => "audio",
        }
    }
}

impl Parts<'_> {
    fn text(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Text(std::mem::take(&mut self.text)));
        }
    }

    fn resource(&mut self, resource: EmbeddedResourceResource) {
        match resource {
            EmbeddedResourceResource::TextResourceContents(contents) => {
                self.text(&format!("{}\n{}", contents.uri, fenced("", &contents.text)));
            }
            EmbeddedResourceResource::BlobResourceContents(contents) => {
                self.text(&format!("{}:", contents.uri));
                let media_type = contents.mime_type.unwrap_or_default();
                match media_type.split_once('/') {
                    Some(("image", _)) => self.medium(Kind::Image, media_type, contents.blob),
                    Some(("audio", _)) => self.medium(Kind::Audio, media_type, contents.blob),
                    _ => self.text("[a binary resource, which cannot be read]"),
                }
            }
            _ => self.text("[a resource of an unknown kind]"),
        }
    }

    fn medium(&mut self, kind: Kind, media_type: String, data: String) {
        if let Some(why) = self.why_not(kind, &media_type, &data) {
            let (what, kib) = (kind.name(), data.len() / 4 * 3 / 1024);
            let media_type = visible(head(&media_type, MEDIA_TYPE_BYTES));
            return self.text(&format!("[{what} ({media_type}, {kib} KiB), {why}]"));
        }
        self.end_text();
        self.parts.push(match kind {
            Kind::Image => Part::Image { media_type, data },
            Kind::Audio => Part::Audio { media_type, data },
        });
    }

    /// Returns why the model is not given it: what a provider refuses would end each later turn.
    fn why_not(&self, kind: Kind, media_type: &str, data: &str) -> Option<&'static str> {
        let media = self.parts.iter().filter(|part| !matches!(part, Part::Text(_))).count();
        match kind {
            Kind::Image if !self.traits.images => Some("which this model cannot see"),
            Kind::Audio if !self.traits.audio => Some("which this model cannot hear"),
            _ if media >= limits::MAX_PROMPT_MEDIA => Some("which is one too many"),
            _ if data.len() > limits::MAX_MEDIA_BYTES => Some("which is too large"),
            Kind::Image if !IMAGES.contains(&media_type) => Some("which no model can see"),
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

/// Bytes that are told of a media type that is not known.
const MEDIA_TYPE_BYTES: usize = 80;

/// The media types of images that every provider with images takes.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The files that a prompt links to.
#[derive(Debug)]
pub(crate) struct Linked {
    /// What there is to tell of them.
    pub(crate) text: String,
    /// Those that were looked at, and whether they were read.
    pub(crate) files: Vec<(PathBuf, bool)>,
}

/// Reads the files in the workspace that a prompt links to; `None` if it links to none. Other links
/// are named in the prompt and no more.
pub(crate) async fn linked(
    blocks: &[ContentBlock],
    workspace: &Arc<Workspace>,
    rules: ReadRules,
) -> Option<Linked> {
    let links = blocks.iter().filter_map(|block| match block {
        ContentBlock::ResourceLink(link) => path_of(link),
        _ => None,
    });
    let (paths, workspace) = (links.collect::<Vec<_>>(), workspace.clone());
    if paths.is_empty() {
        return None;
    }
    tokio::task::spawn_blocking(move || look(paths, &workspace, &rules)).await.ok()
}

fn look(paths: Vec<PathBuf>, workspace: &Workspace, rules: &ReadRules) -> Linked {
    let mut text = "Files that the prompt links to:".to_owned();
    let mut files = Vec::new();
    for (place, path) in paths.into_iter().enumerate() {
        let shown = workspace.display(&path);
        let read = match place < limits::MAX_LINKED_FILES {
            true => {
                let read = match rules.permit(workspace, &path) {
                    true => read(workspace, &path),
                    false => Err("it lies elsewhere, or a rule forbids it".to_owned()),
                };
                files.push((path, read.is_ok()));
                read
            }
            false => Err("one of too many files".to_owned()),
        };
        // Writing to a String cannot fail.
        let _ = match read {
            Ok(lines) => write!(text, "\n\n{shown}\n{}", fenced("", &lines)),
            Err(why) => write!(text, "\n\n{shown} was not read: {why}"),
        };
    }
    Linked { text, files }
}

fn path_of(link: &ResourceLink) -> Option<PathBuf> {
    let uri = Url::parse(&link.uri).ok().filter(|uri| uri.scheme() == "file")?;
    uri.to_file_path().ok()
}

/// Reads a small text file, with the numbers of its lines.
fn read(workspace: &Workspace, path: &Path) -> Result<String, String> {
    let path = &path_text(path);
    let at = workspace.resolve(path).map_err(|error| error.to_string())?;
    let bytes = workspace.metadata(&at).map_err(|error| error.to_string())?.len();
    if bytes > limits::MAX_LINKED_BYTES {
        return Err(format!("it has {bytes} bytes. Read it by a tool"));
    }
    let window = read_window(workspace, path, None, None).map_err(|error| error.to_string())?;
    Ok(window.for_model())
}

#[cfg(test)]
mod tests;
