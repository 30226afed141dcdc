//! Paths as text, including paths that are not UTF-8.

use std::fmt::Write as _;
use std::path::Path;

/// Serialises a path as its [text](callboard_text::path_text), even if the path is not UTF-8. Use
/// this module as `#[serde(with = "acp_types::path::as_text")]`.
pub mod as_text {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Serialises a path.
    ///
    /// # Errors
    ///
    /// Returns only errors of the serialiser.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&callboard_text::path_text(path))
    }

    /// Deserialises a path.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not a string.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(callboard_text::unquote_path(&String::deserialize(from)?).into_owned())
    }
}

/// Serialises an optional path in the same way as [`as_text`].
pub(crate) mod as_optional_text {
    use std::path::PathBuf;

    use callboard_text::{path_text, unquote_path};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(path_text).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.map(|text| unquote_path(&text).into_owned()))
    }
}

/// Formats an absolute path as a `file` URI (RFC 8089).
#[must_use]
pub fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}
