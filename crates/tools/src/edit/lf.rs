//! A text as if all its lines ended with a line feed, and the way back to its bytes.
//!
//! It knows nothing of what is searched in it.

use std::borrow::Cow;
use std::ops::Range;

/// A text in which matches are searched, and the text that it stands for.
pub(super) struct View<'a> {
    raw: &'a str,
    pub(super) text: Cow<'a, str>,
    /// The places in `text` of the line feeds that have a carriage return in `raw`.
    without_cr: Vec<usize>,
}

impl<'a> View<'a> {
    /// Shows the text as it is.
    pub(super) fn exact(raw: &'a str) -> Self {
        Self { raw, text: Cow::Borrowed(raw), without_cr: Vec::new() }
    }

    /// Shows the text with all CRLF as line feeds. Other carriage returns stay.
    pub(super) fn lf(raw: &'a str) -> Self {
        let mut view = Self::exact(raw);
        if !raw.contains("\r\n") {
            return view;
        }
        let mut text = String::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(at) = rest.find("\r\n") {
            text.push_str(&rest[..at]);
            view.without_cr.push(text.len());
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        Self { text: Cow::Owned(text), ..view }
    }

    /// Returns the raw text with all `ranges` of the view replaced, each by `new` with the line
    /// ends that its surroundings have.
    pub(super) fn spliced(&self, ranges: impl Iterator<Item = Range<usize>>, new: &str) -> String {
        let mut text = String::with_capacity(self.raw.len() + new.len());
        let mut end = 0;
        for range in ranges {
            let range = self.raw_place(range.start)..self.raw_place(range.end);
            text.push_str(&self.raw[end..range.start]);
            if self.without_cr.is_empty() || !new.contains('\n') || !self.has_crlf_at(&range) {
                text.push_str(new);
            } else {
                text.push_str(&new.replace('\n', "\r\n"));
            }
            end = range.end;
        }
        text + &self.raw[end..]
    }

    /// Finds the place in the raw text. That of a line feed begins with its carriage return.
    fn raw_place(&self, place: usize) -> usize {
        place + self.without_cr.partition_point(|line_feed| *line_feed < place)
    }

    /// Returns whether the first line end in the range is CRLF; else the next one; else the last
    /// one before.
    fn has_crlf_at(&self, range: &Range<usize>) -> bool {
        let next = self.raw[range.start..].find('\n').map(|at| range.start + at);
        let line_feed = next.or_else(|| self.raw[..range.start].rfind('\n'));
        line_feed.is_some_and(|at| self.raw[..at].ends_with('\r'))
    }
}

/// Returns the text with all CRLF as line feeds.
pub(super) fn without_cr(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}
