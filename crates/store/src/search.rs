//! Searches in the texts of all sessions: the words of a query, and excerpts of texts.

use std::path::PathBuf;
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use callboard_text::{head, tail};

use crate::limits::{EXCERPT_BYTES, MAX_HITS, MAX_WORD_BYTES, MAX_WORDS};

/// A search query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSearch {
    /// Words to search for, in any order and any case. A text is a hit if it contains each of these
    /// words, as a whole word or as the beginning of a longer word.
    pub words: String,
    /// Searches only in sessions of this folder: see
    /// [`SessionFilter::cwd`](crate::SessionFilter::cwd).
    pub cwd: Option<PathBuf>,
    /// Maximum number of hits. `None` means the maximum of a search.
    pub limit: Option<usize>,
}

/// A text that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session to which the text belongs.
    pub session: SessionId,
    /// The title of the session.
    pub title: Option<String>,
    /// Number of the prompt to which the text belongs.
    pub prompt: u32,
    /// Time at which the text was stored.
    pub at: SystemTime,
    /// The whole search text of the record, at most 64 KiB. [`SessionSearch::excerpt`] returns the
    /// part to show.
    pub text: String,
}

impl SearchHit {
    /// Creates a hit in a session without a title.
    #[must_use]
    pub fn new(session: SessionId, prompt: u32, at: SystemTime, text: String) -> Self {
        Self { session, title: None, prompt, at, text }
    }
}

impl SessionSearch {
    /// Creates a search in all sessions, with the maximum number of hits.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), ..Self::default() }
    }

    /// Returns the maximum number of hits.
    #[must_use]
    pub fn max_hits(&self) -> usize {
        self.limit.unwrap_or(MAX_HITS).min(MAX_HITS)
    }

    /// Returns the part of a text around the first occurrence of a search word, as one line of at
    /// most 200 bytes. Redact secrets before this call: redaction would not recognize a secret that
    /// this call truncates.
    #[must_use]
    pub fn excerpt(&self, text: &str) -> String {
        excerpt_around_first_term(text, &self.search_terms())
    }

    /// Returns the words to search for.
    #[must_use]
    pub fn search_terms(&self) -> Vec<&str> {
        let words = self.words.split(|letter: char| !letter.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty()).take(MAX_WORDS);
        words.map(|word| head(word, MAX_WORD_BYTES)).collect()
    }
}

/// Returns the words of a text with their byte offsets.
fn words_with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(|letter: char| !letter.is_alphanumeric()).filter_map(move |piece| {
        let begin = at;
        at += piece.len();
        let word = piece.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        (!word.is_empty()).then_some((begin, word))
    })
}

fn has_prefix_ignoring_case(word: &str, term: &str) -> bool {
    let mut letters = word.chars().flat_map(char::to_lowercase);
    term.chars().flat_map(char::to_lowercase).all(|letter| letters.next() == Some(letter))
}

/// Returns whether a text contains all terms of a search, in any order and case. A text contains a
/// term if one of its words begins with the term.
#[must_use]
pub fn has_words_beginning_with_terms(text: &str, terms: &[&str]) -> bool {
    terms
        .iter()
        .all(|term| words_with_offsets(text).any(|(_, word)| has_prefix_ignoring_case(word, term)))
}

/// Returns the text around the first found term, in one line.
fn excerpt_around_first_term(text: &str, terms: &[&str]) -> String {
    let mut found = words_with_offsets(text)
        .filter(|(_, word)| terms.iter().any(|term| has_prefix_ignoring_case(word, term)));
    let at = found.next().map_or(0, |(at, _)| at);
    let (before, after) = text.split_at_checked(at).unwrap_or(("", text));
    let context = tail(before, EXCERPT_BYTES / 4);
    let rest = head(after, EXCERPT_BYTES - context.len());
    to_one_line(&format!("{context}{rest}"))
}

/// Returns the beginning of a text in one line.
pub(crate) fn one_line_beginning(text: &str) -> String {
    to_one_line(head(text, EXCERPT_BYTES))
}

fn to_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_terms_of_a_query_are_its_words() {
        let search = SessionSearch {
            words: "fix \"the\" src/lib.rs* AND -x^2 (".into(),
            ..Default::default()
        };
        assert_eq!(search.search_terms(), ["fix", "the", "src", "lib", "rs", "AND", "x", "2"]);
        let long =
            SessionSearch { words: "ab ".repeat(99) + &"ä".repeat(99), ..Default::default() };
        assert_eq!(long.search_terms().len(), MAX_WORDS);
    }

    #[test]
    fn a_text_contains_terms_as_word_beginnings_in_any_order_and_case() {
        let text = "Migrate the ÄRA table, then\nrun tests.";
        for terms in [&["migr"][..], &["TESTS", "the"], &["ära"], &[]] {
            assert!(has_words_beginning_with_terms(text, terms), "{terms:?}");
        }
        for terms in [&["igrate"][..], &["tests", "absent"], &["testsx"]] {
            assert!(!has_words_beginning_with_terms(text, terms), "{terms:?}");
        }
    }

    #[test]
    fn an_excerpt_shows_the_first_found_word_in_its_context() {
        let text = format!("{} before\n\tneedle  after {}", "x ".repeat(500), "ö".repeat(500));
        let shown = excerpt_around_first_term(&text, &["need"]);
        assert!(shown.contains("x before needle after ö"), "{shown}");
        assert!(shown.len() <= EXCERPT_BYTES);
        assert_eq!(excerpt_around_first_term("a b", &["absent"]), "a b");
        assert_eq!(one_line_beginning(&"ä".repeat(500)).len(), EXCERPT_BYTES);
    }
}
