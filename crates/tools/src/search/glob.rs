//! Globs over the paths of a walk. It knows nothing of walks.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Code, ToolError};
use crate::limits::PATTERN_BYTES;

/// A glob for names, or for paths if it has a slash.
#[derive(Debug)]
pub(crate) struct PathGlob {
    matcher: GlobMatcher,
    for_names: bool,
}

impl PathGlob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, ToolError> {
        let bad = |why: &str| {
            ToolError::report(Code::BadPattern, format!("the glob {pattern} does not work: {why}"))
        };
        if pattern.len() > PATTERN_BYTES {
            return Err(ToolError::report(Code::BadPattern, "the glob is too long"));
        }
        let glob = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
        if glob.is_empty() {
            return Err(bad("it is empty"));
        }
        if glob.starts_with('/') {
            return Err(bad("it has to be relative to the searched directory, which path sets"));
        }
        let matcher = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| bad(&error.kind().to_string()))?
            .compile_matcher();
        Ok(Self { matcher, for_names: !glob.contains('/') })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        if self.for_names {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        }
    }
}
