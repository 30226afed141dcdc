//! The media type of a response, and how the response is shown.

use callboard_process::binary_kind;
use encoding_rs::Encoding;

/// The value of a field `Content-Type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// The type and subtype in lower case. Empty if the response has none.
    pub(crate) essence: String,
    /// The parameter `charset`, as it was written.
    pub(crate) charset: Option<String>,
}

/// How a response is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// A page that is converted to Markdown.
    Html,
    /// Text that is shown as it is.
    Text,
    /// An image that models may see.
    Image,
    /// Any other content. Only its type and its size are shown.
    Binary,
}

impl MediaType {
    pub(crate) fn parse(value: &str) -> Self {
        let mut parts = value.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_token = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"[]?=".contains(&byte))
        };
        let is_valid = essence.split_once('/').is_some_and(|(kind, name)| {
            let is_short = kind.len() + name.len() <= 127;
            !kind.is_empty() && !name.is_empty() && is_short && is_token(&essence)
        });
        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty())
                .then(|| value.to_owned())
        });
        Self { essence: if is_valid { essence } else { String::new() }, charset }
    }

    /// Returns how a response of this type is shown. Returns `None` if this depends on the body.
    pub(crate) fn representation(&self) -> Option<Representation> {
        Some(match self.essence.as_str() {
            "" | "application/octet-stream" | "binary/octet-stream" | "unknown/unknown" => {
                return None;
            }
            "text/html" | "application/xhtml+xml" => Representation::Html,
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Representation::Image,
            "application/json"
            | "application/xml"
            | "application/javascript"
            | "application/x-javascript"
            | "application/ecmascript"
            | "application/typescript"
            | "application/graphql"
            | "application/sql"
            | "application/toml"
            | "application/yaml"
            | "application/x-yaml"
            | "application/x-sh"
            | "application/x-ndjson"
            | "application/jsonl"
            | "application/json-seq"
            | "application/x-www-form-urlencoded" => Representation::Text,
            essence if essence.starts_with("text/") => Representation::Text,
            essence if essence.ends_with("+json") || essence.ends_with("+xml") => {
                Representation::Text
            }
            _ => Representation::Binary,
        })
    }

    /// Returns how a body is shown. A body that is declared as text but contains binary data counts
    /// as binary.
    pub(crate) fn representation_of_body(&self, body: &[u8]) -> Representation {
        // A body with a declared charset or a byte order mark is not checked, because UTF-16
        // contains zero bytes like a binary file.
        let has_mark = Encoding::for_bom(body).is_some();
        let is_binary = self.charset.is_none() && !has_mark && binary_kind(body).is_some();
        match self.representation() {
            // An HTML page with NUL characters is not binary. Some generators copy this character
            // from the documented source code.
            Some(Representation::Html) if begins_with_html(body) => Representation::Html,
            Some(Representation::Html | Representation::Text) if is_binary => {
                Representation::Binary
            }
            Some(known) => known,
            None if begins_with_html(body) => Representation::Html,
            None if has_mark || binary_kind(body).is_none() => Representation::Text,
            None => Representation::Binary,
        }
    }
}

fn begins_with_html(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    ["<!doctype html", "<html"].iter().any(|start| {
        body.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
    })
}

#[cfg(test)]
mod tests;
