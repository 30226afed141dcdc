//! The query of a content search, and the filter that selects the files.

use std::path::Path;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::types::{Types, TypesBuilder};

use crate::error::{ErrorCode, ToolError};
use crate::limits::{
    DEFAULT_MATCHES_SHOWN, MAX_COMPILED_REGEX_BYTES, MAX_MATCH_OFFSET, MAX_MATCHES_SHOWN,
    MAX_PATTERN_BYTES, MAX_REGEX_CACHE_BYTES,
};
use crate::search::SearchGlob;

/// The parameters of a content search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepQuery {
    /// A regular expression, or literal text if [`GrepQuery::literal`] is set.
    pub pattern: String,
    /// The file or directory to search. `None` means `cwd`.
    pub path: Option<String>,
    /// Globs of the files to search, separated by spaces. Each glob has the syntax of
    /// [`find`](crate::search::find::find). A glob that begins with `!` excludes the files
    /// and directories that it matches. If there are other globs, a file must match at least one of
    /// them.
    pub glob: Option<String>,
    /// The types of files to search, separated by spaces or commas. The types have the same names
    /// as in ripgrep.
    pub file_type: Option<String>,
    /// Whether the search is case-sensitive.
    pub case_sensitive: bool,
    /// Whether the pattern is literal text and not a regular expression.
    pub literal: bool,
    /// Whether a match must begin and end at a word boundary.
    pub word: bool,
    /// Whether a match may span several lines.
    pub multiline: bool,
    /// Whether to include files that `.gitignore` and similar files exclude.
    pub include_ignored: bool,
    /// Number of context lines before and after each match. The maximum is 20.
    pub context: u32,
    /// Maximum number of matching lines to show. The default is 250, and the maximum is
    /// [`MAX_MATCHES_SHOWN`].
    pub max_results: Option<u32>,
    /// Maximum number of matching lines to show per file. By default, there is no limit.
    pub max_per_file: Option<u32>,
    /// Number of matching lines to skip before the first line that is shown. The maximum is
    /// [`MAX_MATCH_OFFSET`].
    pub offset: u32,
}

impl GrepQuery {
    /// Creates a case-sensitive search for a regular expression in all files in `cwd` and its
    /// subdirectories.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            path: None,
            glob: None,
            file_type: None,
            case_sensitive: true,
            literal: false,
            word: false,
            multiline: false,
            include_ignored: false,
            context: 0,
            max_results: None,
            max_per_file: None,
            offset: 0,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.max_results.unwrap_or(DEFAULT_MATCHES_SHOWN).clamp(1, MAX_MATCHES_SHOWN) as usize
    }

    pub(super) fn checked_offset(&self) -> Result<usize, ToolError> {
        if self.offset > MAX_MATCH_OFFSET {
            let message =
                format!("offset is at most {MAX_MATCH_OFFSET}; narrow the search instead");
            return Err(ToolError::invalid_arguments(message));
        }
        Ok(self.offset as usize)
    }

    pub(super) fn matcher(&self) -> Result<RegexMatcher, ToolError> {
        let bad = |message| ToolError::recoverable(ErrorCode::BadPattern, message);
        if self.pattern.len() > MAX_PATTERN_BYTES {
            return Err(bad("the pattern is too long".to_owned()));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(!self.case_sensitive)
            .fixed_strings(self.literal)
            .word(self.word)
            .multi_line(true)
            .unicode(true)
            .octal(false)
            .crlf(true)
            .size_limit(MAX_COMPILED_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_CACHE_BYTES);
        if self.multiline {
            builder.line_terminator(None);
        }
        builder.build(&self.pattern).map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().rev().find(|line| !line.trim().is_empty());
            let reason = reason.unwrap_or(&text).trim_start_matches("error: ");
            let wants_lines = self.pattern.contains("\\n") || self.pattern.contains('\n');
            let hint = match wants_lines && !self.multiline {
                true => "; with multiline a match may span several lines",
                false => "",
            };
            bad(format!("the regular expression is invalid: {reason}{hint}"))
        })
    }
}

/// The filter that selects the files to search in a directory.
#[derive(Debug)]
pub(super) struct FileFilter {
    included: Vec<SearchGlob>,
    excluded: Vec<SearchGlob>,
    types: Option<Types>,
}

impl FileFilter {
    pub(super) fn from_query(query: &GrepQuery) -> Result<Self, ToolError> {
        let mut filter = Self { included: Vec::new(), excluded: Vec::new(), types: None };
        for glob in query.glob.iter().flat_map(|globs| globs.split_whitespace()) {
            match glob.strip_prefix('!') {
                Some(glob) => filter.excluded.push(SearchGlob::parse(glob)?),
                None => filter.included.push(SearchGlob::parse(glob)?),
            }
        }
        filter.types = query.file_type.as_deref().map(parse_file_types).transpose()?;
        Ok(filter)
    }

    /// Returns whether the filter selects a file. The path is relative to the searched directory.
    pub(super) fn matches(&self, path: &Path) -> bool {
        let matches = |glob: &SearchGlob| glob.matches(path);
        (self.included.is_empty() || self.included.iter().any(matches))
            && !self.excluded.iter().any(|glob| glob.matches_file_or_parent(path))
            && self.types.as_ref().is_none_or(|types| types.matched(path, false).is_whitelist())
    }
}

/// Parses a list of file types that are separated by spaces or commas, such as `rust,py`.
fn parse_file_types(names: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let names = names.split([' ', ',']).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(str::to_lowercase).collect();
    for name in &names {
        builder.select(name);
    }
    if names.is_empty() {
        return Err(ToolError::invalid_arguments(
            "file_type is empty; leave it out to search all files",
        ));
    }
    builder.build().map_err(|_unknown| {
        let message = format!(
            "unknown file type {}. Types have names such as rust, py, js, md; or use glob",
            names.join(",")
        );
        ToolError::invalid_arguments(message)
    })
}
