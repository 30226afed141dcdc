//! The records of a session, and the changes that add and remove them.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use callboard_text::head;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::error::{SessionStoreError, require_within_bytes, too_large_error};
use crate::limits;
use crate::session::SessionFolder;

/// One change of a stored session. Several are made by one commit: see
/// [`OpenSession::write`](crate::OpenSession::write).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SessionChange {
    /// Begins the next prompt, with the record that shows it.
    Prompt(SessionRecord),
    /// Adds a record at the end, which belongs to the newest prompt.
    Append(SessionRecord),
    /// Puts a record in the place of the first one that is about the same in its stream, and removes
    /// the others; adds it at the end if there is none. It never reaches into an earlier prompt, so
    /// that going back to that finds it as it was.
    Fold(SessionRecord),
    /// Sets the title, of which the first [`MAX_TITLE_BYTES`](crate::limits::MAX_TITLE_BYTES) are
    /// kept.
    Title(String),
    /// Sets a part of the session beside its records, or removes it. Parts are not bound to prompts.
    Part {
        /// Which part it is.
        name: String,
        /// Its JSON.
        json: Option<String>,
    },
    /// Moves the session to another folder.
    Move(SessionFolder),
    /// Removes every prompt but the first `keep`, with all that belongs to them in both streams.
    Truncate {
        /// How many prompts are kept.
        keep: u32,
    },
}

/// Which of a session's two streams a record is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordStream {
    /// Records from which the client's view is replayed.
    Client,
    /// Records from which the model's messages are rebuilt.
    Model,
}

/// A record to be stored: JSON that can be read without any other record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The stream that it is in.
    pub stream: RecordStream,
    /// Its type, for the program that reads it.
    pub kind: String,
    /// The version of its form.
    pub version: u32,
    /// The call, message or the like that it is about, for [`SessionChange::Fold`].
    pub subject: Option<String>,
    /// All of it.
    pub json: String,
    /// The same with links in the place of what is heavy, for a load that would be too large.
    pub brief: Option<String>,
    /// The contents of those links: see [`AttachmentId::for_bytes`].
    pub attachments: Vec<Arc<[u8]>>,
    /// The text by which a search finds it, of which the first
    /// [`MAX_SEARCHED_BYTES`](crate::limits::MAX_SEARCHED_BYTES) are kept.
    pub search_text: Option<String>,
    /// Whether it stands for everything before it in its stream, as a summary does: a load begins
    /// at the newest record of which that is true.
    pub starts_stream: bool,
}

impl SessionRecord {
    /// Makes a record of the client's stream.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError::Invalid`] if it cannot be written as JSON.
    pub fn new(
        kind: impl Into<String>,
        version: u32,
        content: &impl Serialize,
    ) -> Result<Self, SessionStoreError> {
        Ok(Self {
            stream: RecordStream::Client,
            kind: kind.into(),
            version,
            subject: None,
            json: to_json_text(content)?,
            brief: None,
            attachments: Vec::new(),
            search_text: None,
            starts_stream: false,
        })
    }

    /// Puts it into a stream.
    #[must_use]
    pub fn with_stream(mut self, stream: RecordStream) -> Self {
        self.stream = stream;
        self
    }

    /// Sets the subject.
    #[must_use]
    pub fn with_subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Adds a shorter form, and the contents of its links.
    ///
    /// # Errors
    ///
    /// [`SessionStoreError::Invalid`] if it cannot be written as JSON.
    pub fn with_brief(
        mut self,
        brief: &impl Serialize,
        attachments: Vec<Arc<[u8]>>,
    ) -> Result<Self, SessionStoreError> {
        self.brief = Some(to_json_text(brief)?);
        self.attachments = attachments;
        Ok(self)
    }

    /// Adds the text by which a search finds it.
    #[must_use]
    pub fn with_search_text(mut self, text: impl Into<String>) -> Self {
        self.search_text = Some(text.into());
        self
    }

    /// Lets it stand for everything before it: see [`starts_stream`](Self::starts_stream).
    #[must_use]
    pub fn with_stream_start(mut self) -> Self {
        self.starts_stream = true;
        self
    }

    /// Returns the text that is kept for searches.
    pub(crate) fn searchable_text(&self) -> Option<&str> {
        self.search_text.as_deref().map(|text| head(text, limits::MAX_SEARCHED_BYTES))
    }

    /// Returns the bytes that it takes.
    pub(crate) fn byte_len(&self) -> usize {
        let texts = [self.brief.as_deref(), self.searchable_text()];
        let texts = texts.into_iter().flatten().map(str::len);
        let attachments = self.attachments.iter().map(|bytes| bytes.len());
        self.json.len() + texts.sum::<usize>() + attachments.sum::<usize>()
    }

    fn check_bounds(&self) -> Result<(), SessionStoreError> {
        check_name("the kind of a record", &self.kind)?;
        require_within_bytes(
            "what a record is about",
            self.subject.as_deref(),
            limits::MAX_SUBJECT_BYTES,
        )?;
        require_within_bytes("a record", Some(&self.json), limits::MAX_RECORD_BYTES)?;
        require_within_bytes(
            "the short form of a record",
            self.brief.as_deref(),
            limits::MAX_RECORD_BYTES,
        )?;
        if self.attachments.len() > limits::MAX_ATTACHMENTS {
            return Err(SessionStoreError::Invalid("a record has too many attachments"));
        }
        let max = limits::MAX_RECORD_BYTES;
        match self.attachments.iter().find(|bytes| bytes.len() > max) {
            Some(bytes) => Err(too_large_error("an attachment", bytes.len() as u64, max as u64)),
            None => Ok(()),
        }
    }
}

impl SessionChange {
    /// Returns the record that it stores.
    pub(crate) fn stored_record(&self) -> Option<&SessionRecord> {
        match self {
            Self::Prompt(record) | Self::Append(record) | Self::Fold(record) => Some(record),
            _ => None,
        }
    }

    /// Returns the bytes that it takes.
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Self::Title(title) => title.len(),
            Self::Part { name, json } => name.len() + json.as_ref().map_or(0, String::len),
            other => other.stored_record().map_or(0, SessionRecord::byte_len),
        }
    }

    fn check_bounds(&self) -> Result<(), SessionStoreError> {
        match self {
            Self::Fold(record) if record.subject.is_none() => {
                Err(SessionStoreError::Invalid("a record is folded that is about nothing"))
            }
            Self::Part { name: part, json } => {
                check_name("the name of a part", part)?;
                require_within_bytes("a part", json.as_deref(), limits::MAX_PART_BYTES)
            }
            Self::Move(folder) => folder.check_path_lengths(),
            other => other.stored_record().map_or(Ok(()), SessionRecord::check_bounds),
        }
    }
}

/// Checks all that can be checked of changes without the session: the same in every store.
pub(crate) fn check_changes(changes: &[SessionChange]) -> Result<(), SessionStoreError> {
    if changes.len() > limits::MAX_CHANGES {
        return Err(SessionStoreError::Invalid("there are too many changes in one write"));
    }
    changes.iter().try_for_each(SessionChange::check_bounds)
}

/// Checks the changes that a session is created with.
pub(crate) fn check_first_changes(changes: &[SessionChange]) -> Result<(), SessionStoreError> {
    match changes.first() {
        Some(SessionChange::Prompt(_)) => check_changes(changes),
        _ => Err(SessionStoreError::Invalid("a session is created without its first prompt")),
    }
}

fn to_json_text(content: &impl Serialize) -> Result<String, SessionStoreError> {
    serde_json::to_string(content)
        .map_err(|_not_json| SessionStoreError::Invalid("a record cannot be written as JSON"))
}

fn check_name(what: &'static str, name: &str) -> Result<(), SessionStoreError> {
    if name.is_empty() {
        return Err(SessionStoreError::Invalid("a name is empty"));
    }
    require_within_bytes(what, Some(name), limits::MAX_NAME_BYTES)
}

/// A record as it is given back.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Its place in the session, which grows from record to record over both streams.
    pub seq: u64,
    /// The prompt that it belongs to, counted from 1.
    pub prompt: u32,
    /// When it was stored.
    pub at: SystemTime,
    /// Its type.
    pub kind: String,
    /// The version of its form.
    pub version: u32,
    /// Its subject.
    pub subject: Option<String>,
    /// All of it, or its short form.
    pub json: String,
    /// Which of the two.
    pub form: RecordForm,
    /// The contents of the links in its short form.
    pub attachments: Vec<AttachmentId>,
}

/// Which form of a record was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordForm {
    /// All of it.
    Whole,
    /// The short one.
    Brief,
}

impl StoredRecord {
    /// Reads what it holds.
    ///
    /// # Errors
    ///
    /// If it is not of that form.
    pub fn parse_json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.json)
    }
}

/// Names an attachment of a session by what it holds: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentId([u8; 32]);

impl AttachmentId {
    /// Returns the id of an attachment that holds these bytes, which a short form may name before it
    /// is stored.
    #[must_use]
    pub fn for_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads an id as it is displayed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Takes an id of its bytes.
    #[cfg(feature = "sqlite")]
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for AttachmentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for AttachmentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_displayed_and_nothing_else_is() {
        let id = AttachmentId::for_bytes(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(id.to_string(), text);
        assert_eq!(AttachmentId::parse(text), Some(id));
        for wrong in ["", "../..", &text[1..], &text.replace('b', "+"), &format!("{text}0")] {
            assert_eq!(AttachmentId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_over_a_bound_is_refused_and_a_text_for_searches_is_cut() {
        let record = || SessionRecord::new("k", 1, &1).unwrap();
        let long = |bytes| "x".repeat(bytes);
        let part = |name: String, json| SessionChange::Part { name, json: Some(json) };
        for change in [
            SessionChange::Append(record().with_subject(long(limits::MAX_SUBJECT_BYTES + 1))),
            SessionChange::Append(
                SessionRecord::new("k", 1, &long(limits::MAX_RECORD_BYTES)).unwrap(),
            ),
            SessionChange::Append(
                record().with_brief(&long(limits::MAX_RECORD_BYTES), Vec::new()).unwrap(),
            ),
            SessionChange::Append(
                record()
                    .with_brief(&1, vec![vec![0; limits::MAX_RECORD_BYTES + 1].into()])
                    .unwrap(),
            ),
            SessionChange::Append(
                SessionRecord::new(long(limits::MAX_NAME_BYTES + 1), 1, &1).unwrap(),
            ),
            part(long(limits::MAX_NAME_BYTES + 1), "1".into()),
            part("p".into(), long(limits::MAX_PART_BYTES + 1)),
        ] {
            assert!(matches!(check_changes(&[change]), Err(SessionStoreError::TooLarge { .. })));
        }
        let many = vec![Arc::from(*b"x"); limits::MAX_ATTACHMENTS + 1];
        for changes in [
            vec![SessionChange::Fold(record())],
            vec![SessionChange::Append(SessionRecord::new("", 1, &1).unwrap())],
            vec![SessionChange::Append(record().with_brief(&1, many).unwrap())],
            vec![SessionChange::Title(String::new()); limits::MAX_CHANGES + 1],
        ] {
            assert!(matches!(check_changes(&changes), Err(SessionStoreError::Invalid(_))));
        }
        let text = record().with_search_text(long(limits::MAX_SEARCHED_BYTES + 1));
        assert_eq!(text.searchable_text().unwrap().len(), limits::MAX_SEARCHED_BYTES);
        check_changes(&[SessionChange::Append(text)]).unwrap();
    }
}
