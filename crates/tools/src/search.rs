//! Searches through the files of a workspace: by what they hold ([`grep`]), by their names ([`find`]),
//! and lists of directories ([`list`]).

pub mod find;
pub mod grep;
pub mod list;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use callboard_text::{grouped, grouped_count};
use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Code, ToolError};
use crate::files::walk::Stop;
use crate::limits::{DIRECTORY_ENTRIES, PATTERN_BYTES};

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

/// Some of the names beneath a directory, and how many there are besides.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names<E> {
    /// The absolute path of the directory.
    pub path: PathBuf,
    /// At most 1,000 entries, whose paths are relative to it.
    pub entries: Vec<E>,
    /// How many entries were passed over before these, as was asked for.
    pub passed: usize,
    /// How many entries are not shown; at least so many where [`Self::stop`] is set.
    pub left_out: usize,
    /// Why it did not look at everything, if so.
    pub stop: Option<Stop>,
    /// How many directories could not be read.
    pub unreadable: usize,
    /// How many directories have more than 500,000 entries, which are looked at.
    pub cut: usize,
}

impl<E> Names<E> {
    /// Says what is not shown, and with which offset to go on.
    fn ending(&self, next: Option<usize>) -> String {
        let mut text = String::new();
        if self.left_out > 0 {
            let at_least = if self.stop.is_some() { "at least " } else { "" };
            let more = grouped(self.left_out as u64);
            let next = next.map_or(String::new(), |next| format!(", or go on with offset {next}"));
            let _ = writeln!(text, "[{at_least}{more} more; narrow the path or the pattern{next}]");
        }
        match self.stop {
            Some(Stop::Cancelled) => {
                text.push_str("[cancelled before everything was looked at]\n");
            }
            Some(Stop::TimedOut) => text.push_str("[its time was over before all was looked at]\n"),
            Some(Stop::Enough) | None => {}
        }
        if self.unreadable > 0 {
            let _ = writeln!(text, "[{} could not be read]", directories(self.unreadable));
        }
        if self.cut > 0 {
            let most = grouped(DIRECTORY_ENTRIES as u64);
            let _ = writeln!(
                text,
                "[{} more than {most} entries: the rest is not shown]",
                grouped_count(self.cut as u64, "directory has", "directories have")
            );
        }
        text
    }
}

fn directories(count: usize) -> String {
    grouped_count(count as u64, "directory", "directories")
}
