//! File locations of a call. A location has an absolute, normalised path, and may have a line. This
//! module does not access the disk.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use callboard_text::{normalise, path_text};
use serde::{Deserialize, Serialize};

use crate::path;

/// A file, and a line of the file if the line is known.
///
/// Clients use locations to follow the agent
/// (<https://agentclientprotocol.com/protocol/v1/tool-calls#following-the-agent>).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    #[serde(with = "path::as_text")]
    path: PathBuf,
    line: Option<NonZeroU32>,
}

impl Location {
    /// Creates a location from an absolute path, and normalises the path lexically.
    ///
    /// # Errors
    ///
    /// Returns [`LocationError::NotAbsolute`] for a relative path, because a client could not
    /// resolve it.
    pub fn try_new(path: impl AsRef<Path>) -> Result<Self, LocationError> {
        let path = path.as_ref();
        if !path.is_absolute() {
            return Err(LocationError::NotAbsolute { path: path.to_owned() });
        }
        Ok(Self { path: normalise(path), line: None })
    }

    /// Sets the line, counted from 1. The value 0 removes the line.
    #[must_use]
    pub fn with_line(mut self, line: u32) -> Self {
        self.line = NonZeroU32::new(line);
        self
    }

    /// Returns the absolute, normalised path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the line, counted from 1, or `None` if the line is not known.
    #[must_use]
    pub fn line(&self) -> Option<NonZeroU32> {
        self.line
    }
}

/// The reason why a path is not a valid location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The path is relative. Join it to the session's `cwd` first.
    #[error("a location needs an absolute path, not {}", path_text(path))]
    NotAbsolute {
        /// The path as passed by the caller.
        path: PathBuf,
    },
}

#[cfg(all(test, unix))]
mod tests {
    use super::{Location, LocationError};
    use std::path::Path;

    #[test]
    fn a_location_is_absolute_and_normal() {
        for (given, expected) in [
            ("/a/b.rs", "/a/b.rs"),
            ("/a/./b.rs", "/a/b.rs"),
            ("/a//b.rs", "/a/b.rs"),
            ("/a/c/../b.rs", "/a/b.rs"),
            ("/../../b.rs", "/b.rs"),
            ("/", "/"),
        ] {
            assert_eq!(Location::try_new(given).unwrap().path(), Path::new(expected), "{given}");
        }
        assert!(matches!(Location::try_new("b.rs"), Err(LocationError::NotAbsolute { .. })));
        assert!(Location::try_new("").is_err());
    }

    #[test]
    fn lines_count_from_one() {
        let location = Location::try_new("/a").unwrap();
        assert_eq!(location.clone().with_line(0).line(), None);
        assert_eq!(location.with_line(7).line().map(u32::from), Some(7));
    }
}
