//! A fetched page. One part of its text is shown at a time.

use std::fmt::Write as _;

use callboard_text::{
    escape_invisible_truncated, group_thousands, grouped_count_with_noun, is_strippable_from_output,
};

use super::body::Body;
use super::charset::decode_page;
use super::html::{ConvertedHtml, convert_html};
use super::media_type::{MediaType, Representation};
use super::page_url::PageUrl;
use crate::files::read::ImageFile;
use crate::web::limits::{MAX_MEDIA_TYPE_BYTES, MAX_PAGE_LINE_BYTES, MAX_PAGE_PART_BYTES};

/// A page, as its server has sent it.
#[derive(Debug)]
pub(crate) struct Page {
    /// The URL after all redirects.
    pub(crate) url: PageUrl,
    /// The status of the response, e.g. 200.
    pub(crate) status: u16,
    pub(crate) media_type: MediaType,
    pub(crate) content: PageContent,
}

/// The content of a page.
#[derive(Debug)]
pub(crate) enum PageContent {
    /// A page that was converted.
    Html { converted: ConvertedHtml, source: String, details: TextDetails },
    /// A text that is shown as it is.
    Text { text: String, details: TextDetails },
    /// An image that models may see.
    Image(ImageFile),
    /// Any other content, with its size in bytes if the size is known.
    Binary { bytes: Option<u64> },
}

/// Facts about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextDetails {
    /// The encoding from which the text was decoded.
    pub(crate) encoding: &'static str,
    /// Whether the text is only the beginning of the page.
    pub(crate) is_truncated: bool,
}

/// Some consecutive lines of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PagePart {
    pub(crate) text: String,
    /// The number of the first line, counted from 1. 0 if the page is empty.
    pub(crate) first_line: usize,
    /// The number of the last line. 0 if the page is empty.
    pub(crate) last_line: usize,
    pub(crate) total_lines: usize,
}

impl Page {
    /// Decodes and converts a body. The time is proportional to the size of the body.
    pub(crate) fn from_body(url: PageUrl, status: u16, media_type: MediaType, body: Body) -> Self {
        let host = url.destination().host;
        let charset = media_type.charset.as_deref();
        let content = match media_type.representation_of_body(&body.bytes) {
            Representation::Html => {
                let (source, details) = decode_body_text(body, charset, true, &host);
                let mut converted = convert_html(&source, url.as_url());
                converted.text = clean_text(converted.text);
                PageContent::Html { converted, source: clean_text(source), details }
            }
            Representation::Text => {
                let (text, details) = decode_body_text(body, charset, false, &host);
                PageContent::Text { text: clean_text(text), details }
            }
            Representation::Image | Representation::Binary => {
                let bytes = (!body.is_truncated).then_some(body.bytes.len() as u64);
                let image = if body.is_truncated {
                    Err(body.bytes)
                } else {
                    ImageFile::from_bytes_if_supported(body.bytes)
                };
                image.map_or(PageContent::Binary { bytes }, PageContent::Image)
            }
        };
        Self { url, status, media_type, content }
    }

    /// Creates a page whose body is not downloaded.
    pub(crate) fn binary(
        url: PageUrl,
        status: u16,
        media_type: MediaType,
        bytes: Option<u64>,
    ) -> Self {
        Self { url, status, media_type, content: PageContent::Binary { bytes } }
    }

    /// Returns the number of bytes that the page needs in memory, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        let content = match &self.content {
            PageContent::Html { converted, source, .. } => converted.text.len() + source.len(),
            PageContent::Text { text, .. } => text.len(),
            PageContent::Image(image) => image.bytes.len(),
            PageContent::Binary { .. } => 0,
        };
        content + self.url.as_url().as_str().len() + size_of::<Self>()
    }

    /// Returns the text that is shown, if the page has one. `raw` selects the source of HTML.
    pub(crate) fn shown_text(&self, raw: bool) -> Option<&str> {
        match &self.content {
            PageContent::Html { source, .. } if raw => Some(source),
            PageContent::Html { converted, .. } => Some(&converted.text),
            PageContent::Text { text, .. } => Some(text),
            PageContent::Image(_) | PageContent::Binary { .. } => None,
        }
    }

    /// Returns lines about the page for the model: the URL, the status, the type and the title.
    pub(crate) fn header_lines(&self, raw: bool) -> String {
        let media_type =
            escape_invisible_truncated(&self.media_type.essence, MAX_MEDIA_TYPE_BYTES).0;
        let media_type = if media_type.is_empty() { "not declared".to_owned() } else { media_type };
        let mut head = format!("URL: {}\nStatus: {}\nType: {media_type}", self.url, self.status);
        match &self.content {
            PageContent::Html { .. } if raw => head += " (source)",
            PageContent::Html { converted, .. } if converted.is_markdown => {
                head += ", converted to Markdown without navigation, forms and scripts";
            }
            PageContent::Html { .. } => head += ", converted to plain text",
            _ => {}
        }
        if let PageContent::Html { details, .. } | PageContent::Text { details, .. } = &self.content
        {
            if details.encoding != "UTF-8" {
                // Writing to a string cannot fail.
                let _ = write!(head, ", decoded from {}", details.encoding);
            }
            if details.is_truncated {
                head += ", only its beginning, because the page is too large";
            }
        }
        head.push('\n');
        if let PageContent::Html { converted: ConvertedHtml { title: Some(title), .. }, .. } =
            &self.content
        {
            let _ = writeln!(head, "Title: {title}");
        }
        head
    }

    /// Returns the description of a binary page for the model.
    pub(crate) fn describe_binary(&self, bytes: Option<u64>) -> String {
        let size = bytes.map(|bytes| grouped_count_with_noun(bytes, "byte", "bytes"));
        let size = size.unwrap_or_else(|| "unknown size".to_owned());
        format!(
            "[This is not text: {size}. The client shows a link. To work on it, download it with a \
             command.]\n"
        )
    }
}

impl PagePart {
    /// Returns the part of a text that begins at a line, counted from 1. A line that is too long
    /// counts as several lines. Returns `None` if the text has fewer lines.
    pub(crate) fn starting_at_line(text: &str, offset: usize) -> Option<Self> {
        let start = offset.saturating_sub(1);
        let (mut part, mut last_line, mut total_lines) = (String::new(), start, 0);
        let mut is_full = false;
        for line in text.lines().flat_map(fold_line) {
            total_lines += 1;
            is_full |= last_line > start && part.len() + line.len() + 1 > MAX_PAGE_PART_BYTES;
            if total_lines > start && !is_full {
                part.push_str(line);
                part.push('\n');
                last_line += 1;
            }
        }
        if start >= total_lines {
            let empty = Self { text: String::new(), first_line: 0, last_line: 0, total_lines };
            return (total_lines == 0 && start == 0).then_some(empty);
        }
        Some(Self { text: part, first_line: start + 1, last_line, total_lines })
    }

    /// Returns the offset of the next part, if there is one.
    pub(crate) fn next_offset(&self) -> Option<usize> {
        (self.last_line < self.total_lines).then_some(self.last_line + 1)
    }

    /// Returns a note about the lines that are shown. Empty if all lines are shown.
    pub(crate) fn note(&self) -> String {
        let Self { first_line, last_line, total_lines, .. } = self;
        let total = group_thousands(*total_lines as u64);
        match self.next_offset() {
            Some(next) => {
                format!(
                    "[lines {first_line}-{last_line} of {total}; continue with offset {next}]\n"
                )
            }
            None if *first_line > 1 => format!("[lines {first_line}-{last_line} of {total}]\n"),
            None => String::new(),
        }
    }
}

/// Splits a long line, if possible after a space.
fn fold_line(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        if line.len() <= MAX_PAGE_LINE_BYTES {
            return Some(line);
        }
        let head = callboard_text::head(line, MAX_PAGE_LINE_BYTES);
        let end = head.rfind(' ').map_or(head.len(), |space| space + 1);
        let (head, tail) = line.split_at(end);
        rest = (!tail.is_empty()).then_some(tail);
        Some(head)
    })
}

/// Decodes a body, and frees its bytes.
fn decode_body_text(
    body: Body,
    charset: Option<&str>,
    is_html: bool,
    host: &str,
) -> (String, TextDetails) {
    let (text, encoding) = decode_page(&body.bytes, charset, is_html, host);
    let is_truncated = body.is_truncated;
    (text, TextDetails { encoding: encoding.name(), is_truncated })
}

/// Removes characters that hide or reorder text, and control characters other than tabs and line
/// ends.
fn clean_text(mut text: String) -> String {
    if text.contains('\r') {
        text = text.replace("\r\n", "\n").replace('\r', "\n");
    }
    text.retain(|letter| {
        matches!(letter, '\n' | '\t') || !letter.is_control() && !is_strippable_from_output(letter)
    });
    text
}

#[cfg(test)]
mod tests;
