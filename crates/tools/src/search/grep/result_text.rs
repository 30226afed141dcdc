//! Converts the result of a content search to text and to locations.

use std::fmt::Write as _;
use std::ops::Range;

use acp_types::Location;
use callboard_text::grouped_count_with_noun;

use crate::files::walk::EarlyStop;
use crate::files::workspace::Workspace;
use crate::limits::MAX_MATCH_LOCATIONS;

use super::{MatchLine, Matches, PartialFileSearchReason, UnsearchedCounts};

impl Matches {
    /// Returns the offset of the next page, or `None` if this is the last page.
    #[must_use]
    pub fn next_offset(&self) -> Option<usize> {
        (self.truncated && self.count > 0).then_some(self.skipped_matches + self.count)
    }

    /// Returns the first matches as locations, for the client.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        let lines = self.files.iter().flat_map(|file| {
            file.lines.iter().filter(|line| line.is_match).map(|line| (&file.path, line.number))
        });
        lines.take(MAX_MATCH_LOCATIONS).filter_map(|(path, number)| {
            let line = u32::try_from(number).unwrap_or(0);
            Some(Location::try_new(path).ok()?.with_line(line))
        })
    }

    /// Returns the matches as text, grouped by file. A path inside `cwd` is relative to `cwd`.
    #[must_use]
    pub fn to_text(&self, workspace: &Workspace) -> String {
        let mut text = String::new();
        for file in &self.files {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", workspace.display(&file.path));
            let mut expected = None;
            for MatchLine { number, text: line, is_match } in &file.lines {
                // Gaps between lines are only marked if the result has context lines.
                let has_gap = expected.is_some_and(|expected| expected != *number);
                if has_gap && file.lines.iter().any(|line| !line.is_match) {
                    text.push_str("--\n");
                }
                let _ = writeln!(text, "{number}{}{line}", if *is_match { ':' } else { '-' });
                expected = Some(number + 1);
            }
            text.push_str(match file.partial_reason {
                Some(PartialFileSearchReason::MatchLimit) => "[more matches in this file]\n",
                Some(PartialFileSearchReason::Binary) => "[the rest of the file is binary]\n",
                Some(PartialFileSearchReason::LongLine) => {
                    "[searched up to a line that is too long]\n"
                }
                None => "",
            });
            text.push('\n');
        }
        text + &self.omission_footer()
    }

    fn omission_footer(&self) -> String {
        let (files, first, last) =
            (self.files.len(), self.skipped_matches + 1, self.skipped_matches + self.count);
        let mut text = match (self.count, self.skipped_matches) {
            (0, 0) => "[no match]\n".to_owned(),
            (0, passed) if self.truncated => {
                format!("[{} passed over]\n", matching_line_count_text(passed))
            }
            (0, passed) => format!("[no more matches: there are {passed}]\n"),
            (count, 0) => {
                format!("[{} in {}]\n", matching_line_count_text(count), file_count_text(files))
            }
            (_, _) => {
                format!("[matching lines {first} to {last}, in {}]\n", file_count_text(files))
            }
        };
        match self.next_offset() {
            Some(next) => {
                let _ = writeln!(
                    text,
                    "[there are more; narrow the pattern, path or glob, or continue with offset \
                     {next}]"
                );
            }
            None if self.truncated => text.push_str("[there are more; ask for less context]\n"),
            None => {}
        }
        match self.stop {
            Some(EarlyStop::Cancelled) => {
                text.push_str("[cancelled; some files were not searched]\n");
            }
            Some(_) => text.push_str("[stopped at the time limit; some files were not searched]\n"),
            None => {}
        }
        let UnsearchedCounts { binary, large, long_lines, unreadable, truncated_directories: cut } =
            self.unsearched;
        for (count, what) in [
            (binary, "binary files were not searched"),
            (large, "files were too large for a multi-line search"),
            (long_lines, "files were searched up to a line that was too long"),
            (unreadable, "files or directories could not be read"),
            (cut, "directories have more entries than are read"),
        ] {
            if count > 0 && !self.truncated {
                let _ = writeln!(text, "[{count} {what}]");
            }
        }
        text
    }
}
fn matching_line_count_text(lines: usize) -> String {
    grouped_count_with_noun(lines as u64, "matching line", "matching lines")
}

fn file_count_text(files: usize) -> String {
    grouped_count_with_noun(files as u64, "file", "files")
}

/// Returns about `max` bytes of a line, with the match in the middle. Marks where text was omitted.
pub(super) fn excerpt_around(line: &[u8], found: Range<usize>, max: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let room = max.saturating_sub(found.len()) / 2;
    let start = found.start.saturating_sub(room).min(line.len().saturating_sub(max));
    let start = char_boundary(line, start);
    let end = char_boundary(line, start.saturating_add(max).min(line.len()));
    let text = String::from_utf8_lossy(&line[start..end]);
    match (start > 0, end < line.len()) {
        (false, false) => text.into_owned(),
        (before, after) => {
            format!("{}{text}{}", if before { "…" } else { "" }, if after { "…" } else { "" })
        }
    }
}

/// Returns the offset at which the character at `at` begins. The bytes should be UTF-8.
fn char_boundary(line: &[u8], at: usize) -> usize {
    let is_continuation = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // A character has at most three continuation bytes. A longer sequence of such bytes is not
    // UTF-8.
    (at.saturating_sub(3)..=at).rev().find(|at| !is_continuation(at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::excerpt_around;

    #[test]
    fn short_lines_are_whole_and_long_ones_are_shown_around_the_match() {
        for (line, found, max, expected) in [
            ("short\r\n", 0..2, 20, "short"),
            ("0123456789", 0..1, 4, "0123…"),
            ("0123456789", 9..10, 4, "…6789"),
            ("0123456789", 5..6, 5, "…34567…"),
            ("0123456789", 1..9, 4, "…1234…"),
            ("ääääää", 4..6, 5, "…ää…"),
            ("", 0..0, 4, ""),
        ] {
            assert_eq!(excerpt_around(line.as_bytes(), found, max), expected, "{line}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_all_the_same() {
        for at in 0..64 {
            let shown = excerpt_around(&[0x80; 64], at..at + 1, 8);
            assert!(shown.contains('\u{fffd}'), "{at}");
        }
    }
}
