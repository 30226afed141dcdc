//! A random file, random edits of it, and checks of their results.

use std::num::NonZeroU32;
use std::ops::Range;

use acp_tools::edit::{Edit, Occurrence};
use acp_tools::files::encoding::DecodedText;
use acp_types::diff::TextEdit;
use encoding_rs::{Encoding, SHIFT_JIS, WINDOWS_1252};

use super::random::Random;

/// Words that all encodings in these tests can represent.
const PLAIN: [&str; 8] = ["let", "x", "=", "foo();", "{", "}", "\"it's\"", "a-b"];
const LATIN: [&str; 6] = ["Größe", "straße", "fällt", "déjà", "über", "être"];
const CJK: [&str; 6] = ["吾輩は", "猫である", "名前は", "まだ無い", "東京", "日本語"];
const SIGNS: [&str; 5] = ["“x”", "it’s", "a – b", "\u{a0}", "𝄞"];
const BLANKS: [&str; 5] = ["", "", "", "  ", "\t"];

/// A random file. Its debug output contains its bytes and the seed of its edits, from which the
/// case can be reproduced.
#[derive(Debug)]
pub(crate) struct RandomEditCase {
    pub(crate) bytes: Vec<u8>,
    seed: u64,
}

/// The encoding of a file. If possible, the tests use another implementation of the encoding than
/// the code under test.
pub(crate) enum FileEncoding {
    Utf8,
    Utf16(fn(u16) -> [u8; 2]),
    Legacy(&'static Encoding),
}

impl FileEncoding {
    pub(crate) fn detect(text: &DecodedText) -> Self {
        match text.non_utf8_encoding_name().as_deref() {
            None => Self::Utf8,
            Some("UTF-16LE") => Self::Utf16(u16::to_le_bytes),
            Some("UTF-16BE") => Self::Utf16(u16::to_be_bytes),
            Some(name) => {
                let name = name.trim_end_matches(" (guessed)");
                Self::Legacy(Encoding::for_label(name.as_bytes()).unwrap())
            }
        }
    }

    pub(crate) fn encode(&self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Utf16(to_bytes) => text.encode_utf16().flat_map(to_bytes).collect(),
            Self::Legacy(encoding) => encoding.encode(text).0.into_owned(),
        }
    }
}

impl RandomEditCase {
    pub(crate) fn new(random: &mut Random) -> Self {
        let (form, mark, words): (_, _, &[&[&str]]) = match random.below(7) {
            0 => (FileEncoding::Utf8, "", &[&PLAIN]),
            1 => (FileEncoding::Utf8, "", &[&PLAIN, &LATIN, &CJK, &SIGNS]),
            2 => (FileEncoding::Utf8, "\u{feff}", &[&PLAIN, &SIGNS]),
            3 => (FileEncoding::Utf16(u16::to_le_bytes), "\u{feff}", &[&PLAIN, &CJK, &SIGNS]),
            4 => (FileEncoding::Utf16(u16::to_be_bytes), "\u{feff}", &[&PLAIN, &LATIN]),
            5 => (FileEncoding::Legacy(WINDOWS_1252), "", &[&PLAIN, &LATIN]),
            _ => (FileEncoding::Legacy(SHIFT_JIS), "", &[&PLAIN, &CJK]),
        };
        let ends: &[&str] = random.pick(&[
            &["\n"],
            &["\r\n"],
            &["\r"],
            &["\n", "\r\n"],
            &["\n", "\n", "\n", "\r\n", "\r", "\n\n"],
        ]);
        let mut text = mark.to_owned();
        let lines = if random.one_in(50) { 200 } else { random.below(24) };
        for _ in 0..lines {
            text.push_str(random.pick(&["", "", "  ", "    ", "\t", "\t  "]));
            let length = if random.one_in(200) { 1_000 } else { random.below(5) };
            for _ in 0..length {
                let words = random.pick(words);
                text.push_str(random.pick(words));
                text.push_str(random.pick(&["", " "]));
            }
            text.push_str(random.pick(&BLANKS));
            text.push_str(random.pick(ends));
        }
        if random.one_in(3) {
            text.truncate(text.trim_end().len());
        }
        Self { bytes: form.encode(&text), seed: random.next() }
    }

    /// Generates edits of one to three places, beginning with the last place. The places do not
    /// touch. Also returns the spans of these places in the text. Returns `None` for a file that is
    /// not text.
    pub(crate) fn exact_edits(&self) -> Option<(Vec<Edit>, Vec<Range<usize>>)> {
        let text = DecodedText::decode("f", self.bytes.clone()).ok()?;
        let text = text.as_str();
        let mut random = Random::new(self.seed);
        let (mut edits, mut spans, mut end) = (Vec::new(), Vec::new(), text.len());
        for _ in 0..=random.below(3) {
            let Some(span) = random_span(&mut random, &text[..end]) else { break };
            end = span.start.saturating_sub(1);
            while !text.is_char_boundary(end) || is_inside_character(text, end) {
                end -= 1;
            }
            let old = &text[span.clone()];
            let new = new_text(&mut random, old);
            let edit = exact_edit(&mut random, text, &span, new, edits.is_empty());
            if let Some(edit) = edit.filter(|edit| edit.old_text != edit.new_text) {
                edits.push(edit);
                spans.push(span);
            }
        }
        (!edits.is_empty()).then_some((edits, spans))
    }

    /// Generates an edit whose old text differs slightly from the text of the file.
    pub(crate) fn loose_edits(&self) -> Option<Vec<Edit>> {
        let text = DecodedText::decode("f", self.bytes.clone()).ok()?;
        let random = &mut Random::new(self.seed);
        let text = text.as_str().replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim_start_matches('\u{feff}');
        let lines: Vec<_> = text.lines().collect();
        if lines.is_empty() {
            return None;
        }
        let first = random.below(lines.len());
        let count = 1 + random.below(4);
        let lines: Vec<_> = lines[first..].iter().take(count).copied().collect();
        let shift = random.pick(&["", "  ", "\t"]);
        let ends = random.pick(&BLANKS);
        let loosen = |line: &str| {
            let line = line.replace(['’', '‘'], "'").replace(['“', '”'], "\"").replace('–', "-");
            if line.trim().is_empty() { line } else { format!("{shift}{}{ends}", line.trim_end()) }
        };
        let old: Vec<_> = lines.iter().map(|line| loosen(line)).collect();
        let mut new = old.clone();
        new.insert(random.below(new.len() + 1), format!("{shift}inserted_line();"));
        if random.one_in(2) {
            new.pop();
        }
        let end = random.pick(&["", "\n"]);
        let which = if random.one_in(4) { Occurrence::All } else { Occurrence::Only };
        let (old_text, new_text) = (old.join("\n") + end, new.join("\n") + end);
        (!old_text.trim().is_empty())
            .then(|| vec![Edit::new(old_text, new_text).with_occurrence(which)])
    }

    /// Asserts that the new bytes equal the old bytes outside of the spans. Inside the spans, they
    /// must equal the new texts. Differences in line endings are ignored.
    pub(crate) fn require_spans(&self, new: &[u8], edits: &[Edit], spans: &[Range<usize>]) {
        let old = DecodedText::decode("f", self.bytes.clone()).unwrap();
        let form = FileEncoding::detect(&old);
        let (mut rest, mut from) = (new, 0);
        for (edit, span) in edits.iter().zip(spans).rev() {
            rest = self.require_prefix(rest, &form.encode(&old.as_str()[from..span.start]));
            rest = self.skip_text(rest, &edit.new_text, &form);
            from = span.end;
        }
        rest = self.require_prefix(rest, &form.encode(&old.as_str()[from..]));
        assert!(rest.is_empty(), "{self:?} {edits:?}");
    }

    /// Asserts that an edit of a single place changes no byte in the lines before and after this
    /// place. Does not rely on the place that the edit reports.
    pub(crate) fn require_lines(&self, new: &[u8], edit: &Edit) {
        if edit.occurrence != Occurrence::Only {
            return;
        }
        let old = DecodedText::decode("f", self.bytes.clone()).unwrap();
        let (form, end) =
            (FileEncoding::detect(&old), if old.as_str().contains('\n') { '\n' } else { '\r' });
        let lines = old.as_str().split_inclusive(end).map(|line| form.encode(line));
        let (lines, mut rest) = (lines.collect::<Vec<_>>(), new);
        let mut before = 0;
        while let Some(more) = lines.get(before).and_then(|line| rest.strip_prefix(&line[..])) {
            (before, rest) = (before + 1, more);
        }
        let mut after = lines.len();
        while after > before
            && let Some(less) = rest.strip_suffix(&lines[after - 1][..])
        {
            (after, rest) = (after - 1, less);
        }
        let changed = after - before;
        assert!(changed <= edit.old_text.split('\n').count(), "{self:?} {edit:?} {rest:?}");
    }

    fn require_prefix<'a>(&self, bytes: &'a [u8], start: &[u8]) -> &'a [u8] {
        bytes.strip_prefix(start).unwrap_or_else(|| panic!("{self:?}: {bytes:?} {start:?}"))
    }

    /// Skips a text at the beginning of some bytes. The bytes may have other line endings than the
    /// text.
    fn skip_text<'a>(&self, mut bytes: &'a [u8], text: &str, form: &FileEncoding) -> &'a [u8] {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                let ends = ["\r\n", "\n", "\r"].map(|end| form.encode(end));
                let after = ends.iter().find_map(|end| bytes.strip_prefix(&end[..]));
                bytes = after.unwrap_or_else(|| panic!("no line end: {self:?} {bytes:?}"));
            }
            bytes = self.require_prefix(bytes, &form.encode(line));
        }
        bytes
    }
}

impl Random {
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Returns a random span of a text that does not begin or end between the two bytes of a line
/// ending.
fn random_span(random: &mut Random, text: &str) -> Option<Range<usize>> {
    let fits = |at: &usize| text.is_char_boundary(*at) && !is_inside_character(text, *at);
    let start = random.below(text.len() + 1);
    let start = (start..text.len()).find(fits)?;
    let length = if random.one_in(4) { 1 + random.below(400) } else { 1 + random.below(40) };
    let end = (start + 1..=text.len()).skip(length - 1).find(fits).unwrap_or(text.len());
    Some(start..end)
}

/// Returns whether a position is between the two bytes of a line ending.
fn is_inside_character(text: &str, at: usize) -> bool {
    text.as_bytes()[..at].ends_with(b"\r") && text.as_bytes()[at..].starts_with(b"\n")
}

fn new_text(random: &mut Random, old: &str) -> String {
    let old = old.replace("\r\n", "\n").replace('\r', "\n");
    let mut new = if random.one_in(3) { old } else { String::new() };
    for _ in 0..random.below(5) {
        let mut at = random.below(new.len() + 1);
        while !new.is_char_boundary(at) {
            at -= 1;
        }
        new.insert_str(at, random.pick(&["new", " ", "\n", "\n  y();\n", "}"]));
    }
    new
}

/// Returns an edit that replaces a span. If the text of the span occurs several times, the edit has
/// an occurrence number. Returns `None` if the span overlaps an earlier occurrence and so has no
/// number.
fn exact_edit(
    random: &mut Random,
    text: &str,
    span: &Range<usize>,
    new_text: String,
    is_first: bool,
) -> Option<Edit> {
    let is_mac = !text.contains('\n');
    let lf =
        |part: &str| if is_mac { part.replace('\r', "\n") } else { part.replace("\r\n", "\n") };
    let (old, before) = (&text[span.clone()], &text[..span.start]);
    // If the old text contains a carriage return, it is matched literally. The occurrences are then
    // counted in the raw text.
    let is_raw = lf(old).contains('\r') || (old.contains('\r') && random.one_in(2));
    let as_meant = |part: &str| if is_raw { part.to_owned() } else { lf(part) };
    let (old_text, text, before) = (as_meant(old), as_meant(text), as_meant(before));
    let places = (0..text.len()).filter(|at| {
        text.is_char_boundary(*at)
            && text.as_bytes()[*at..].starts_with(old_text.as_bytes())
            && !(is_raw
                && (is_inside_character(&text, *at)
                    || is_inside_character(&text, *at + old_text.len())))
    });
    let places: Vec<_> = places.collect();
    let mut end = 0;
    let is_counted = |at: &usize| {
        let is_apart = *at >= end;
        end = if is_apart { at + old_text.len() } else { end };
        is_apart
    };
    let mut counted = places.iter().copied().filter(is_counted);
    let number = counted.position(|at| at == before.len())? + 1;
    let is_only = places.len() == 1;
    // If the file has no line feed, a line feed in the new text would change the kind of its line
    // endings.
    let new_text = if is_raw && is_mac { new_text.replace('\n', "\r") } else { new_text };
    // If the new text contains the old text, it may already exist in the file, or an earlier edit
    // may have inserted it.
    let which = if is_first && is_only && !new_text.contains(&old_text) && random.one_in(2) {
        Occurrence::Only
    } else {
        Occurrence::Nth(NonZeroU32::new(u32::try_from(number).unwrap()).unwrap())
    };
    Some(Edit::new(old_text, new_text).with_occurrence(which))
}

/// Returns the parts of a file, as bytes, that are not in a replaced span.
pub(crate) fn bytes_outside(old: &DecodedText, splices: &[TextEdit]) -> Vec<Vec<u8>> {
    let form = FileEncoding::detect(old);
    let starts = std::iter::once(0).chain(splices.iter().map(|splice| splice.old.end));
    let ends = splices.iter().map(|splice| splice.old.start).chain([old.as_str().len()]);
    starts.zip(ends).map(|(start, end)| form.encode(&old.as_str()[start..end])).collect()
}

/// Asserts that the new bytes begin with the first preserved part and end with the last one. All
/// preserved parts must occur in order.
pub(crate) fn require_in_order(new: &[u8], kept: &[Vec<u8>], case: &RandomEditCase) {
    assert!(new.starts_with(&kept[0]), "{case:?}");
    assert!(new.ends_with(&kept[kept.len() - 1]), "{case:?}");
    let mut at = 0;
    for part in kept {
        let found = memchr::memmem::find(&new[at..], part);
        at += found.unwrap_or_else(|| panic!("{part:?} is missing: {case:?}")) + part.len();
    }
}
