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
use crate::session::SessionCwdPaths;

/// One change of a stored session. One commit can make several changes: see
/// [`OpenSession::write`](crate::OpenSession::write).
///
/// The enum is exhaustive: if a variant is added, a store that does not handle the variant no
/// longer compiles.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a store that ignores a change would lose it")]
pub enum SessionChange {
    /// Begins the next prompt, with the record that shows the prompt.
    Prompt(SessionRecord),
    /// Adds a record at the end; the record belongs to the newest prompt.
    Append(SessionRecord),
    /// Replaces all records of the same stream and the same subject by this record, at the position
    /// of the first replaced record. If there is no such record, adds the new record at the end.
    /// Only records of the newest prompt are replaced, so that earlier prompts stay unchanged for a
    /// rewind.
    Fold(SessionRecord),
    /// Sets the title. Only the first [`MAX_TITLE_BYTES`](crate::limits::MAX_TITLE_BYTES) bytes of
    /// the title are stored.
    Title(String),
    /// Sets or removes a part: a named JSON value of the session that is not a record. Parts do not
    /// belong to a prompt.
    Part {
        /// Name of the part.
        name: String,
        /// JSON of the part; `None` removes the part.
        json: Option<String>,
    },
    /// Moves the session to another folder.
    Move(SessionCwdPaths),
    /// Removes all prompts after the first `keep` prompts, with all of their records in both
    /// streams.
    Truncate {
        /// Number of prompts to keep.
        keep: u32,
    },
}

/// One of the two streams of a session. Each record belongs to one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordStream {
    /// Records from which the client's view is replayed.
    Client,
    /// Records from which the model's messages are rebuilt.
    Model,
}

/// A record to be stored: JSON that can be parsed without any other record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The stream of the record.
    pub stream: RecordStream,
    /// Type of the record. The store does not interpret it.
    pub kind: String,
    /// Version of the record's JSON format.
    pub version: u32,
    /// Id of the call, message or other subject of the record, for [`SessionChange::Fold`].
    pub subject: Option<String>,
    /// The whole form of the record, as JSON.
    pub json: String,
    /// The short form of the record, as JSON. In the short form, links replace large contents. A
    /// load returns the short form if the whole form exceeds the load's budget.
    pub brief: Option<String>,
    /// The contents to which the links in the short form refer: see [`AttachmentId::for_bytes`].
    pub attachments: Vec<Arc<[u8]>>,
    /// The text in which searches look for words. Only the first 64 KiB of the text are stored.
    pub search_text: Option<String>,
    /// Whether this record replaces all earlier records of its stream, as a summary does. A load
    /// begins at the newest record with this flag.
    pub starts_stream: bool,
}

impl SessionRecord {
    /// Creates a record of the client's stream.
    ///
    /// # Errors
    ///
    /// Returns [`SessionStoreError::Invalid`] if the value cannot be serialized as JSON.
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

    /// Sets the stream of the record.
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

    /// Adds a short form, and the contents to which its links refer.
    ///
    /// # Errors
    ///
    /// Returns [`SessionStoreError::Invalid`] if the short form cannot be serialized as JSON.
    pub fn with_short_form(
        mut self,
        brief: &impl Serialize,
        attachments: Vec<Arc<[u8]>>,
    ) -> Result<Self, SessionStoreError> {
        self.brief = Some(to_json_text(brief)?);
        self.attachments = attachments;
        Ok(self)
    }

    /// Sets the text in which searches look for words.
    #[must_use]
    pub fn with_search_text(mut self, text: impl Into<String>) -> Self {
        self.search_text = Some(text.into());
        self
    }

    /// Makes this record replace all earlier records of its stream: see
    /// [`starts_stream`](Self::starts_stream).
    #[must_use]
    pub fn with_stream_start(mut self) -> Self {
        self.starts_stream = true;
        self
    }

    /// Returns the part of the search text that is stored.
    #[must_use]
    pub fn searchable_text(&self) -> Option<&str> {
        self.search_text.as_deref().map(|text| head(text, limits::MAX_SEARCHED_BYTES))
    }

    /// Returns the size of the record in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        let texts = [self.brief.as_deref(), self.searchable_text()];
        let texts = texts.into_iter().flatten().map(str::len);
        let attachments = self.attachments.iter().map(|bytes| bytes.len());
        self.json.len() + texts.sum::<usize>() + attachments.sum::<usize>()
    }

    fn check_bounds(&self) -> Result<(), SessionStoreError> {
        check_name_length("the kind of a record", &self.kind)?;
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
    /// Returns the record that this change stores, if it stores a record.
    pub(crate) fn stored_record(&self) -> Option<&SessionRecord> {
        match self {
            Self::Prompt(record) | Self::Append(record) | Self::Fold(record) => Some(record),
            _ => None,
        }
    }

    /// Returns the size of the change in bytes.
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
                check_name_length("the name of a part", part)?;
                require_within_bytes("a part", json.as_deref(), limits::MAX_PART_BYTES)
            }
            Self::Move(folder) => folder.check_path_lengths(),
            other => other.stored_record().map_or(Ok(()), SessionRecord::check_bounds),
        }
    }
}

/// Checks changes as far as this is possible without the session. All stores use this function.
///
/// # Errors
///
/// Returns [`SessionStoreError::Invalid`] or [`SessionStoreError::TooLarge`].
pub fn check_changes(changes: &[SessionChange]) -> Result<(), SessionStoreError> {
    if changes.len() > limits::MAX_CHANGES {
        return Err(SessionStoreError::Invalid("there are too many changes in one write"));
    }
    changes.iter().try_for_each(SessionChange::check_bounds)
}

/// Checks the changes with which a session is created.
///
/// # Errors
///
/// Returns [`SessionStoreError::Invalid`] if the first change is not a prompt. Also returns the
/// errors of [`check_changes`].
pub fn check_first_changes(changes: &[SessionChange]) -> Result<(), SessionStoreError> {
    match changes.first() {
        Some(SessionChange::Prompt(_)) => check_changes(changes),
        _ => Err(SessionStoreError::Invalid("a session is created without its first prompt")),
    }
}

fn to_json_text(content: &impl Serialize) -> Result<String, SessionStoreError> {
    serde_json::to_string(content)
        .map_err(|_not_json| SessionStoreError::Invalid("a record cannot be written as JSON"))
}

fn check_name_length(what: &'static str, name: &str) -> Result<(), SessionStoreError> {
    if name.is_empty() {
        return Err(SessionStoreError::Invalid("a name is empty"));
    }
    require_within_bytes(what, Some(name), limits::MAX_NAME_BYTES)
}

/// A record that the store returns.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Number of the record in the session. Both streams share one sequence of increasing numbers.
    pub seq: u64,
    /// Number of the prompt to which the record belongs, counted from 1.
    pub prompt: u32,
    /// Time at which the record was stored.
    pub at: SystemTime,
    /// Type of the record.
    pub kind: String,
    /// Version of the record's JSON format.
    pub version: u32,
    /// Subject of the record.
    pub subject: Option<String>,
    /// JSON of the record, in its whole form or its short form.
    pub json: String,
    /// The form of `json`.
    pub form: RecordForm,
    /// Ids of the contents to which the links in the short form refer.
    pub attachments: Vec<AttachmentId>,
}

/// The form in which a record is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordForm {
    /// The whole form of the record.
    Whole,
    /// The short form of the record.
    Brief,
}

impl StoredRecord {
    /// Creates a record as a load returns it. The record has its short form if `form` is
    /// `RecordForm::Brief` and if there is a short form. Otherwise it has its whole form.
    #[must_use]
    pub fn new(
        seq: u64,
        prompt: u32,
        at: SystemTime,
        record: &SessionRecord,
        form: RecordForm,
    ) -> Self {
        let brief = record.brief.as_ref().filter(|_| form == RecordForm::Brief);
        let attachments = record.attachments.iter().map(|bytes| AttachmentId::for_bytes(bytes));
        Self {
            seq,
            prompt,
            at,
            kind: record.kind.clone(),
            version: record.version,
            subject: record.subject.clone(),
            json: brief.unwrap_or(&record.json).clone(),
            form: if brief.is_some() { RecordForm::Brief } else { RecordForm::Whole },
            attachments: attachments.collect(),
        }
    }

    /// Parses the JSON of the record.
    ///
    /// # Errors
    ///
    /// Returns an error if the JSON does not match the type `T`.
    pub fn parse_json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.json)
    }
}

/// Id of an attachment of a session: the SHA-256 of the attachment's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentId([u8; 32]);

impl AttachmentId {
    /// Returns the id of an attachment with these bytes. The attachment need not be stored yet, so
    /// a short form can already contain the id.
    #[must_use]
    pub fn for_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses an id in its displayed form.
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

    /// Creates an id from the bytes of its hash.
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
    fn only_the_displayed_form_of_an_id_is_parsed() {
        let id = AttachmentId::for_bytes(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(id.to_string(), text);
        assert_eq!(AttachmentId::parse(text), Some(id));
        for wrong in ["", "../..", &text[1..], &text.replace('b', "+"), &format!("{text}0")] {
            assert_eq!(AttachmentId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn changes_beyond_a_limit_are_refused_and_search_texts_are_truncated() {
        let record = || SessionRecord::new("k", 1, &1).unwrap();
        let long = |bytes| "x".repeat(bytes);
        let part = |name: String, json| SessionChange::Part { name, json: Some(json) };
        for change in [
            SessionChange::Append(record().with_subject(long(limits::MAX_SUBJECT_BYTES + 1))),
            SessionChange::Append(
                SessionRecord::new("k", 1, &long(limits::MAX_RECORD_BYTES)).unwrap(),
            ),
            SessionChange::Append(
                record().with_short_form(&long(limits::MAX_RECORD_BYTES), Vec::new()).unwrap(),
            ),
            SessionChange::Append(
                record()
                    .with_short_form(&1, vec![vec![0; limits::MAX_RECORD_BYTES + 1].into()])
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
            vec![SessionChange::Append(record().with_short_form(&1, many).unwrap())],
            vec![SessionChange::Title(String::new()); limits::MAX_CHANGES + 1],
        ] {
            assert!(matches!(check_changes(&changes), Err(SessionStoreError::Invalid(_))));
        }
        let text = record().with_search_text(long(limits::MAX_SEARCHED_BYTES + 1));
        assert_eq!(text.searchable_text().unwrap().len(), limits::MAX_SEARCHED_BYTES);
        check_changes(&[SessionChange::Append(text)]).unwrap();
    }
}
