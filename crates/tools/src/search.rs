//! Searches the contents ([`grep`]) and the names ([`find`]) of files, and lists directories
//! ([`list`]).

pub mod find;
pub mod grep;
pub mod list;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use callboard_text::{group_thousands, grouped_count_with_noun};
use globset::{GlobBuilder, GlobMatcher};

use crate::error::{ErrorCode, ToolError};
use crate::files::walk::EarlyStop;
use crate::limits::{MAX_DIRECTORY_ENTRIES, MAX_PATTERN_BYTES};

/// A glob that matches the names of files. If the glob contains a slash, it matches their paths.
#[derive(Debug)]
pub(crate) struct SearchGlob {
    matcher: GlobMatcher,
    matches_names_only: bool,
    /// Whether the glob ends with a slash.
    names_directory: bool,
}

impl SearchGlob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, ToolError> {
        let bad = |why: &str| {
            ToolError::recoverable(
                ErrorCode::BadPattern,
                format!("the glob {pattern} is invalid: {why}"),
            )
        };
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(ToolError::recoverable(ErrorCode::BadPattern, "the glob is too long"));
        }
        let glob = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
        if glob.is_empty() {
            return Err(bad("it is empty"));
        }
        if glob.starts_with('/') {
            return Err(bad("it must be relative to the searched directory (path)"));
        }
        let matcher = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| bad(&error.kind().to_string()))?
            .compile_matcher();
        let names_directory = pattern.ends_with('/');
        Ok(Self { matcher, matches_names_only: !glob.contains('/'), names_directory })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        if self.matches_names_only {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        }
    }

    /// Returns whether the glob matches a file or one of its parent directories. A glob that ends
    /// with a slash matches only directories. The path is relative to the searched directory.
    pub(crate) fn matches_file_or_parent(&self, path: &Path) -> bool {
        let entries = path.ancestors().skip(usize::from(self.names_directory));
        entries.take_while(|entry| *entry != Path::new("")).any(|entry| self.matches(entry))
    }
}

/// One page of the entries of a directory and its subdirectories, and the number of entries that
/// the page does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryPage<E> {
    /// The absolute path of the listed or searched directory.
    pub path: PathBuf,
    /// At most 1,000 entries. Each path is relative to the field `path`.
    pub entries: Vec<E>,
    /// Number of entries before this page, which were skipped as requested.
    pub skipped_entries: usize,
    /// Number of entries after this page. If [`Self::stop`] is set, there may be more.
    pub omitted_entries: usize,
    /// The reason why the search stopped before its end. `None` if the search is complete.
    pub stop: Option<EarlyStop>,
    /// Number of directories that could not be read.
    pub unreadable: usize,
    /// Number of directories in which only the first 500,000 entries were read.
    pub truncated_directories: usize,
}

impl<E> EntryPage<E> {
    /// Returns the last lines of a result, which report the entries that are not shown, and the
    /// offset of the next page.
    fn omission_footer(&self, next: Option<usize>) -> String {
        let mut text = String::new();
        if self.omitted_entries > 0 {
            let at_least = if self.stop.is_some() { "at least " } else { "" };
            let more = group_thousands(self.omitted_entries as u64);
            let next =
                next.map_or(String::new(), |next| format!(", or continue with offset {next}"));
            let _ = writeln!(text, "[{at_least}{more} more; narrow the path or the pattern{next}]");
        }
        match self.stop {
            Some(EarlyStop::Cancelled) => {
                text.push_str("[cancelled before everything was searched]\n");
            }
            Some(EarlyStop::TimedOut) => {
                text.push_str("[stopped at the time limit before everything was searched]\n");
            }
            Some(EarlyStop::LimitReached) | None => {}
        }
        if self.unreadable > 0 {
            let _ = writeln!(text, "[{} could not be read]", directory_count_text(self.unreadable));
        }
        if self.truncated_directories > 0 {
            let most = group_thousands(MAX_DIRECTORY_ENTRIES as u64);
            let _ = writeln!(
                text,
                "[{} more than {most} entries: the rest is not shown]",
                grouped_count_with_noun(
                    self.truncated_directories as u64,
                    "directory has",
                    "directories have"
                )
            );
        }
        text
    }
}

fn directory_count_text(count: usize) -> String {
    grouped_count_with_noun(count as u64, "directory", "directories")
}
