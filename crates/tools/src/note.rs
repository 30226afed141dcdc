//! Notes about a call. The user receives a note in the language of the session. The model receives
//! the same note in English.

use std::fmt;
use std::sync::LazyLock;

use acp_lifecycle::Titles;
use callboard_shell::risks::RiskReason;
use callboard_text::{escape_invisible, head};

use crate::limits::{MAX_ASK_REASON_TEXT_BYTES, MAX_ASK_REASONS_SHOWN};

/// A sentence or a part of a sentence: the key of a message in a catalogue, and the arguments of
/// this message.
///
/// [`Note::render`] returns the text for the user, in the user's language. `Display` writes the
/// English text for the model.
///
/// ```
/// use acp_lifecycle::Titles;
/// use acp_tools::{CATALOGUES, Note};
///
/// let note = Note::new("stale").with_text("path", "a.rs");
/// assert_eq!(note.to_string(), "a.rs has changed since it was read.");
/// let titles = Titles::negotiate(CATALOGUES, "de")?;
/// assert_eq!(note.render(&titles), "a.rs wurde anderswo geändert, seit sie gelesen wurde.");
/// # Ok::<(), acp_lifecycle::TitlesError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    key: &'static str,
    texts: Vec<(&'static str, String)>,
    counts: Vec<(&'static str, u64)>,
    notes: Vec<(&'static str, JoinedNotes)>,
}

/// Notes that are an argument of another note, and the text that separates them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JoinedNotes {
    notes: Vec<Note>,
    separator: &'static str,
}

impl Note {
    /// Creates a note with the key of its message.
    #[must_use]
    pub fn new(key: &'static str) -> Self {
        Self { key, texts: Vec::new(), counts: Vec::new(), notes: Vec::new() }
    }

    /// Creates the note of a call that requires permission each time. Each reason is a part of a
    /// sentence. Returns `None` if there is no reason.
    pub(crate) fn from_ask_reasons(reasons: &[Self]) -> Option<Self> {
        if reasons.is_empty() {
            return None;
        }
        let note = match reasons.len().saturating_sub(MAX_ASK_REASONS_SHOWN) {
            0 => Self::new("risks"),
            more => Self::new("risks-more").with_text("more", more.to_string()),
        };
        let shown = reasons.iter().take(MAX_ASK_REASONS_SHOWN);
        let shown = shown.map(|why| why.clone().with_truncated_texts(MAX_ASK_REASON_TEXT_BYTES));
        Some(note.with_joined_notes("reasons", shown, "; "))
    }

    /// Adds a text as an argument of the message. The text is inserted unchanged.
    #[must_use]
    pub fn with_text(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.texts.push((name, text.into()));
        self
    }

    /// Adds a number as an argument of the message. See [`Titles::render_unescaped_with_counts`].
    #[must_use]
    pub(crate) fn with_count(mut self, name: &'static str, count: u64) -> Self {
        self.counts.push((name, count));
        self
    }

    /// Adds several notes as one argument of the message, joined with a separator.
    #[must_use]
    pub(crate) fn with_joined_notes(
        mut self,
        name: &'static str,
        notes: impl IntoIterator<Item = Self>,
        joint: &'static str,
    ) -> Self {
        self.notes
            .push((name, JoinedNotes { notes: notes.into_iter().collect(), separator: joint }));
        self
    }

    /// Truncates each text argument to `bytes` bytes, and escapes invisible characters in it.
    #[must_use]
    pub(crate) fn with_truncated_texts(mut self, bytes: usize) -> Self {
        for (_, text) in &mut self.texts {
            *text = escape_invisible(head(text, bytes));
        }
        self
    }

    /// Returns the text in the language of a catalogue. Returns the English text if the catalogue
    /// does not contain the key.
    #[must_use]
    pub fn render(&self, titles: &Titles) -> String {
        let titles = if titles.has(self.key) { titles } else { &*ENGLISH };
        let within = self.notes.iter().map(|(name, JoinedNotes { notes, separator: joint })| {
            let notes: Vec<_> = notes.iter().map(|note| note.render(titles)).collect();
            (*name, notes.join(joint))
        });
        let texts: Vec<_> = self.texts.iter().cloned().chain(within).collect();
        titles.render_unescaped_with_counts(self.key, &texts, &self.counts)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(&ENGLISH))
    }
}

impl From<RiskReason> for Note {
    fn from(reason: RiskReason) -> Self {
        let note = Self::new(reason.key);
        match reason.subject {
            Some((name, text)) => note.with_text(name, text),
            None => note,
        }
    }
}

/// A text that is the same in every language.
impl From<String> for Note {
    fn from(text: String) -> Self {
        Self::new("text").with_text("text", text)
    }
}

/// The titles and notes of the built-in tools, one catalogue per locale. English comes first, and
/// is used if no other locale fits.
///
/// An agent that has additional tools appends its own catalogues:
/// `Titles::negotiate(&[CATALOGUES, MINE].concat(), locale)`.
pub const CATALOGUES: &[(&str, &str)] =
    &[("en", include_str!("../locales/en.ftl")), ("de", include_str!("../locales/de.ftl"))];

/// The messages in English, which the model receives.
static ENGLISH: LazyLock<Titles> = LazyLock::new(|| {
    // A test checks that the catalogue is valid. With an invalid catalogue, the keys of the
    // messages would be shown instead.
    Titles::negotiate(CATALOGUES, "en").unwrap_or_default()
});

#[cfg(test)]
mod tests {
    use super::{CATALOGUES, Note};
    use acp_lifecycle::Titles;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_catalogue_without_a_note_leaves_it_in_english() {
        let own = Titles::parse("de", "thousands = .\nown = Eigenes").unwrap();
        let note = Note::new("outside").with_text("path", "/x");
        assert_eq!(note.render(&own), "Outside of the project folders: /x");
        assert_eq!(Note::new("own").render(&own), "Eigenes");
        assert_eq!(Note::from("as it is".to_owned()).render(&own), "as it is");
    }

    #[test]
    fn notes_within_a_note_are_in_its_language() {
        let kept = ["kept-mark", "kept-mark"].map(Note::new);
        let note = Note::new("kept").with_joined_notes("what", kept, ", ");
        assert_eq!(note.to_string(), "The file keeps its byte order mark, its byte order mark.");
        let german = note.render(&Titles::negotiate(CATALOGUES, "de").unwrap());
        assert_eq!(german, "Die Datei behält ihr Byte Order Mark, ihr Byte Order Mark.");
    }
}
