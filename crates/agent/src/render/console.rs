//! The output of a command as it grows, whether it comes as a text that is replaced or in pieces.
//!
//! A text that is replaced is aligned with the last one, so that only what is new is printed.
//! It knows nothing of statuses and messages.

use acp_types::text;

use super::excerpt::Excerpt;
use super::limits::{ALIGNED_LINES, LIVE_LINES, PARTIAL_BYTES, SEEN_BYTES, TEXT_LINES};
use super::page::Page;
use super::safe;

/// What was printed of a command's output.
#[derive(Debug)]
pub(super) struct Console {
    /// The end of the last text, and the length of the whole.
    seen: String,
    seen_len: usize,
    /// The line of a terminal that has not ended yet.
    partial: String,
    lines: usize,
    /// The last printed line, if it may go on.
    open: String,
    /// What came after the live lines.
    held: Excerpt,
}

impl Default for Console {
    fn default() -> Self {
        Self {
            seen: String::new(),
            seen_len: 0,
            partial: String::new(),
            lines: 0,
            open: String::new(),
            held: Excerpt::new(0, TEXT_LINES),
        }
    }
}

impl Console {
    /// Returns what is new in `text`, which replaces the one before, and remembers it. The
    /// first part says how it joins what was printed.
    pub(super) fn replace<'a>(&mut self, text: &'a str) -> (Joint, &'a str) {
        let grown = growth(&self.seen, self.seen_len, text);
        text::tail(text, SEEN_BYTES).clone_into(&mut self.seen);
        self.seen_len = text.len();
        grown
    }

    /// Takes a piece of a terminal's output; returns the lines that it completes.
    pub(super) fn append(&mut self, piece: &str) -> String {
        self.partial.push_str(piece);
        let end = match self.partial.rfind('\n') {
            Some(end) => end + 1,
            None if self.partial.len() > PARTIAL_BYTES => self.partial.len(),
            None => 0,
        };
        self.partial.drain(..end).collect()
    }

    /// Prints what is new. The page must be the call's.
    pub(super) fn print(&mut self, joint: Joint, text: &str, page: &mut Page) {
        let mut text = safe::output(text);
        match joint {
            // Someone else has ended the line: either it ends here too, or it is begun again.
            Joint::GoesOn if page.is_fresh() && text.starts_with('\n') && !self.open.is_empty() => {
                text.remove(0);
            }
            Joint::GoesOn if page.is_fresh() => text.insert_str(0, &self.open),
            Joint::GoesOn => {}
            Joint::NewLine => page.fresh(),
            Joint::Gap => {
                page.fresh();
                page.gutter("…\n");
            }
        }
        if page.is_fresh() {
            self.open.clear();
        }
        for piece in text.split_inclusive('\n') {
            if self.lines < LIVE_LINES {
                page.gutter(piece);
            } else {
                page.fresh();
                self.held.push(piece);
            }
            if piece.ends_with('\n') {
                self.open.clear();
                self.lines += 1;
            } else if self.lines < LIVE_LINES {
                self.open.push_str(piece);
            }
        }
        self.open.truncate(text::head(&self.open, PARTIAL_BYTES).len());
    }

    /// Returns whether something waits for the end of the call.
    pub(super) fn has_rest(&self) -> bool {
        !self.partial.is_empty() || self.held.total() > 0
    }

    /// Prints what waited for the end of the call. The page must be the call's.
    pub(super) fn finish(&mut self, page: &mut Page) {
        let partial = std::mem::take(&mut self.partial);
        self.print(Joint::GoesOn, &partial, page);
        for line in self.held.lines() {
            page.fresh();
            page.gutter(&line);
        }
    }
}

/// How new output joins what was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// It goes on where the last piece stopped, also within a line.
    GoesOn,
    /// It begins a line.
    NewLine,
    /// Something between was never seen.
    Gap,
}

/// Returns what is new in `new`, given the end of the text before and that text's length.
fn growth<'a>(seen: &str, seen_len: usize, new: &'a str) -> (Joint, &'a str) {
    if new.get(..seen_len).is_some_and(|old| old.ends_with(seen)) {
        return (Joint::GoesOn, &new[seen_len..]);
    }
    if let Some((joint, at)) = overlap(seen, new) {
        return (joint, &new[at..]);
    }
    let command = new.split_inclusive('\n').next().filter(|line| line.starts_with("$ "));
    (Joint::Gap, &new[command.map_or(0, str::len)..])
}

/// Returns where `seen` ends in `new`: after the longest run of lines that are its last ones,
/// the first such run where several are as long. Its very last line may have grown since, or
/// have been overwritten.
fn overlap(seen: &str, new: &str) -> Option<(Joint, usize)> {
    let (complete, open) = seen.rsplit_once('\n')?;
    let old: Vec<_> = complete.rsplit('\n').take(ALIGNED_LINES).collect();
    let lines: Vec<_> = new.split_inclusive('\n').collect();
    let mut best = (0, None);
    let mut start = 0;
    for at in 0..=lines.len() {
        let line = lines.get(at).copied().unwrap_or_default();
        let before = lines[..at].iter().rev().map(|line| line.trim_end_matches('\n'));
        let run = before.zip(&old).take_while(|(new, old)| new == *old).count();
        // Blank lines are found everywhere, and so is the beginning of a line.
        let is_sure = old[..run].iter().any(|line| !line.is_empty());
        let is_same = !open.is_empty() && line.trim_end_matches('\n') == open;
        if line.starts_with(open) && (is_sure || is_same) && run + 1 > best.0 {
            best = (run + 1, Some((Joint::GoesOn, start + open.len())));
        } else if is_sure && run > best.0 {
            best = (run, Some((Joint::NewLine, start)));
        }
        start += line.len();
    }
    best.1
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{Console, Joint, PARTIAL_BYTES, SEEN_BYTES};

    /// Replaces a text by the next one; returns what is new in the last.
    fn replaced(texts: &[&str]) -> (Joint, String) {
        let mut console = Console::default();
        let mut last = (Joint::GoesOn, String::new());
        for text in texts {
            let (joint, new) = console.replace(text);
            last = (joint, new.to_owned());
        }
        last
    }

    #[test]
    fn only_what_is_new_is_found() {
        use Joint::{Gap, GoesOn, NewLine};
        for (texts, joint, expected) in [
            (&["$ c\na"][..], GoesOn, "$ c\na"),
            (&["$ c\na", "$ c\nab\nc"], GoesOn, "b\nc"),
            (&["$ c\na", "$ c\na"], GoesOn, ""),
            // Shortened from the front.
            (&["$ c\na\nb\nc", "$ c\n[…]\nb\nc\nd"], GoesOn, "\nd"),
            (&["$ c\na\nb\nwor", "$ c\n[…]\nb\nwork"], GoesOn, "k"),
            (&["$ c\na\nb\n10%", "$ c\n[…]\nb\n20%"], NewLine, "20%"),
            // The whole after the end of it.
            (&["[…]\nb\nc", "a\nb\nc\nd"], GoesOn, "\nd"),
            // The longest run wins, the first of those as long.
            (&["x\nok\nok\nok\n-", "ok\nok\nok\nok\n-\ny"], GoesOn, "\ny"),
            (&["a\nok\nb\nok\n-", "[…]\nok\nb\nok\n-\nok"], GoesOn, "\nok"),
            (&["[…]\nlast", "a\nlast\nb\nlast"], GoesOn, "\nb\nlast"),
            // Nothing in common.
            (&["a\nb", "z\nbc"], Gap, "z\nbc"),
            (&["$ c\na\n\n", "$ c\n[…]\n\nz"], Gap, "[…]\n\nz"),
            (&["", "x"], GoesOn, "x"),
        ] {
            let found = replaced(texts);
            assert_eq!(found, (joint, expected.to_owned()), "{texts:?}");
        }
    }

    #[test]
    fn a_text_longer_than_what_is_remembered_still_grows() {
        let long = "line\n".repeat(SEEN_BYTES);
        let more = format!("{long}more");
        assert_eq!(replaced(&[&long, &more]), (Joint::GoesOn, "more".to_owned()));
    }

    #[test]
    fn pieces_become_whole_lines() {
        let mut console = Console::default();
        assert_eq!(console.append("a\nb\u{1b}[3"), "a\n");
        assert_eq!(console.append("1mc"), "");
        assert_eq!(console.append("\n"), "b\u{1b}[31mc\n");
        assert_eq!(console.append(&"x".repeat(PARTIAL_BYTES + 1)).len(), PARTIAL_BYTES + 1);
        assert_eq!(console.append("end"), "");
        assert!(console.has_rest());
    }
}
