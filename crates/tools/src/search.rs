//! Searches through the files of a workspace: by what they hold ([`grep`]), by their names ([`find`]),
//! and lists of directories ([`list`]).

pub mod find;
pub mod grep;
pub mod list;

use std::fmt::Write as _;
use std::path::Path;

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

/// Says what a listing or a search for names does not show.
pub(crate) fn ending(
    left_out: usize,
    next: Option<usize>,
    stop: Option<Stop>,
    (unreadable, cut): (usize, usize),
) -> String {
    let mut text = String::new();
    if left_out > 0 {
        let at_least = if stop.is_some() { "at least " } else { "" };
        let left_out = grouped(left_out as u64);
        let next = next.map_or(String::new(), |next| format!(", or go on with offset {next}"));
        let _ = writeln!(text, "[{at_least}{left_out} more; narrow the path or the pattern{next}]");
    }
    match stop {
        Some(Stop::Cancelled) => text.push_str("[cancelled before everything was looked at]\n"),
        Some(Stop::TimedOut) => text.push_str("[its time was over before all was looked at]\n"),
        Some(Stop::Enough) | None => {}
    }
    if unreadable > 0 {
        let _ = writeln!(text, "[{} could not be read]", directories(unreadable));
    }
    if cut > 0 {
        let most = grouped(DIRECTORY_ENTRIES as u64);
        let _ = writeln!(
            text,
            "[{} more than {most} entries: the rest is not shown]",
            grouped_count(cut as u64, "directory has", "directories have")
        );
    }
    text
}

fn directories(count: usize) -> String {
    grouped_count(count as u64, "directory", "directories")
}
