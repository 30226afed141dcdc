//! A record as a row of the database, with a checksum of all its columns.

use std::borrow::Cow;

use rusqlite::{Error, Row, Transaction, params};
use sha2::{Digest as _, Sha256};

use super::files::LargeContentFolder;
use crate::limits::FILE_BYTES;
use crate::record::{AttachmentId, RecordForm, RecordStream, SessionRecord, StoredRecord};
use crate::time::time_from_millis;

/// The columns that [`RecordRow::from_row`] expects before the column with the JSON.
pub(super) const COLUMNS: &str = "id, prompt, begins_prompt, stream, starts_stream, at, kind, \
     version, subject, brief, attachments, bytes, json_bytes, json_hash, sum";

/// A record as a row of the database.
#[derive(Debug)]
pub(super) struct RecordRow<'a> {
    pub(super) seq: u64,
    pub(super) prompt: u32,
    pub(super) begins_prompt: bool,
    pub(super) at: u64,
    stream: i64,
    starts_stream: bool,
    kind: Cow<'a, str>,
    version: u32,
    subject: Option<Cow<'a, str>>,
    brief: Option<Cow<'a, str>>,
    attachments: Vec<AttachmentId>,
    pub(super) bytes: i64,
    json_bytes: i64,
    json_hash: AttachmentId,
    /// The JSON. `None` if the JSON is stored in a file or was not read.
    json: Option<Cow<'a, str>>,
    is_damaged: bool,
}

impl<'a> RecordRow<'a> {
    /// Creates the row of a record.
    pub(super) fn from_record(
        record: &'a SessionRecord,
        (seq, prompt, begins_prompt, at): (u64, u32, bool, u64),
    ) -> Self {
        Self {
            seq,
            prompt,
            begins_prompt,
            at,
            stream: record_stream_number(record.stream),
            starts_stream: record.starts_stream,
            kind: Cow::Borrowed(&record.kind),
            version: record.version,
            subject: record.subject.as_deref().map(Cow::Borrowed),
            brief: record.brief.as_deref().map(Cow::Borrowed),
            attachments: record
                .attachments
                .iter()
                .map(|bytes| AttachmentId::for_bytes(bytes))
                .collect(),
            bytes: i64::try_from(record.byte_len()).unwrap_or(i64::MAX),
            json_bytes: i64::try_from(record.json.len()).unwrap_or(i64::MAX),
            json_hash: AttachmentId::for_bytes(record.json.as_bytes()),
            json: is_stored_in_row(record).then_some(Cow::Borrowed(&record.json)),
            is_damaged: false,
        }
    }

    /// Creates a copy of a damaged row. The copy is marked as damaged too. It keeps the columns
    /// that decide where a load begins and which prompts are listed.
    ///
    /// # Errors
    ///
    /// Returns the errors of SQLite.
    pub(super) fn damaged_copy(row: &Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            seq: u64::from(row.get::<_, i64>(0)? as u32),
            prompt: row.get(1).unwrap_or_default(),
            begins_prompt: row.get(2).unwrap_or_default(),
            at: row.get(5).map(i64::cast_unsigned).unwrap_or_default(),
            stream: row.get(3).unwrap_or_default(),
            starts_stream: row.get(4).unwrap_or_default(),
            kind: Cow::Borrowed(""),
            version: 0,
            subject: None,
            brief: None,
            attachments: Vec::new(),
            bytes: 0,
            json_bytes: 0,
            json_hash: AttachmentId::for_bytes(b""),
            json: Some(Cow::Borrowed("")),
            is_damaged: true,
        })
    }

    /// Reads the columns of [`COLUMNS`], and the JSON after them. Returns `None` if the row does
    /// not match its checksum.
    ///
    /// # Errors
    ///
    /// Returns the errors of SQLite.
    pub(super) fn from_row(row: &Row<'_>, session: &str) -> Result<Option<Self>, Error> {
        let hash = |at: usize| row.get::<_, [u8; 32]>(at);
        let attachments: Option<Vec<u8>> = row.get(10)?;
        let attachments = attachments.unwrap_or_default();
        let (hashes, rest) = attachments.as_chunks();
        let read = Self {
            seq: u64::from(row.get::<_, i64>(0)? as u32),
            prompt: row.get(1)?,
            begins_prompt: row.get(2)?,
            at: row.get::<_, i64>(5)?.cast_unsigned(),
            stream: row.get(3)?,
            starts_stream: row.get(4)?,
            kind: Cow::Owned(row.get(6)?),
            version: row.get(7)?,
            subject: row.get::<_, Option<String>>(8)?.map(Cow::Owned),
            brief: row.get::<_, Option<String>>(9)?.map(Cow::Owned),
            attachments: hashes.iter().map(|hash| AttachmentId::from_bytes(*hash)).collect(),
            bytes: row.get(11)?,
            json_bytes: row.get(12)?,
            json_hash: AttachmentId::from_bytes(hash(13)?),
            json: row.get::<_, Option<String>>(15)?.map(Cow::Owned),
            is_damaged: false,
        };
        let is_intact = rest.is_empty() && hash(14)? == read.checksum(session);
        Ok(is_intact.then_some(read))
    }

    /// Inserts the row into the session with this key and id.
    pub(super) fn insert(
        &self,
        transaction: &Transaction<'_>,
        (key, session): (i64, &str),
        text: Option<&str>,
    ) -> Result<(), Error> {
        let sql = "INSERT INTO record(id, prompt, begins_prompt, stream, starts_stream, at, kind, \
                   version, subject, brief, attachments, bytes, json_bytes, json_hash, sum, json, \
                   text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, \
                   ?16, ?17)";
        let attachments: Vec<u8> = self.attachments.iter().flat_map(|id| *id.as_bytes()).collect();
        let sum = self.checksum(session);
        // No row matches an empty checksum, so the row is read as damaged.
        let sum = if self.is_damaged { &[][..] } else { &sum[..] };
        transaction.prepare_cached(sql)?.execute(params![
            row_id(key, self.seq),
            self.prompt,
            self.begins_prompt,
            self.stream,
            self.starts_stream,
            i64::try_from(self.at).unwrap_or(i64::MAX),
            self.kind,
            self.version,
            self.subject,
            self.brief,
            (!attachments.is_empty()).then_some(attachments),
            self.bytes,
            self.json_bytes,
            self.json_hash.as_bytes(),
            sum,
            self.json,
            text,
        ])?;
        Ok(())
    }

    /// Returns the ids of this record's contents that are stored in files.
    pub(super) fn ids_of_files(&self) -> Vec<AttachmentId> {
        let json = self.json.is_none().then_some(self.json_hash);
        json.into_iter().chain(self.attachments.iter().copied()).collect()
    }

    /// Returns the record, and whether a part of it is damaged. The record has its short form if
    /// its number is less than `whole_from` or if its whole form is damaged.
    pub(super) fn into_stored_record(
        self,
        files: &LargeContentFolder,
        whole_from: u64,
    ) -> (Option<StoredRecord>, bool) {
        let is_brief = self.brief.is_some() && self.seq < whole_from;
        let whole = match self.json {
            _ if is_brief => None,
            Some(json) => (AttachmentId::for_bytes(json.as_bytes()) == self.json_hash)
                .then(|| json.into_owned()),
            None => {
                files.read_if_intact(self.json_hash).and_then(|json| String::from_utf8(json).ok())
            }
        };
        let is_damaged = whole.is_none() && !is_brief;
        let form = if whole.is_some() { RecordForm::Whole } else { RecordForm::Brief };
        let json = whole.or_else(|| self.brief.map(Cow::into_owned));
        let record = json.map(|json| StoredRecord {
            seq: self.seq,
            prompt: self.prompt,
            at: time_from_millis(self.at),
            kind: self.kind.into_owned(),
            version: self.version,
            subject: self.subject.map(Cow::into_owned),
            json,
            form,
            attachments: self.attachments,
        });
        (record, is_damaged)
    }

    /// Returns the checksum of the row. The checksum covers the whole JSON by its hash. It does not
    /// cover the search text, because no result depends on the search text alone.
    fn checksum(&self, session: &str) -> [u8; 32] {
        let mut sum = FieldHasher::for_session_id(session);
        let numbers = [
            self.seq,
            u64::from(self.prompt),
            u64::from(self.begins_prompt),
            self.stream.cast_unsigned(),
            u64::from(self.starts_stream),
            self.at,
            u64::from(self.version),
            self.bytes.cast_unsigned(),
            self.json_bytes.cast_unsigned(),
            self.attachments.len() as u64,
        ];
        numbers.iter().for_each(|number| sum.add_field(&number.to_le_bytes()));
        for text in [Some(&self.kind), self.subject.as_ref(), self.brief.as_ref()] {
            sum.add_optional_field(text.map(|text| text.as_bytes()));
        }
        for hash in self.attachments.iter().chain([&self.json_hash]) {
            sum.add_field(hash.as_bytes());
        }
        sum.finish()
    }
}

/// Returns those contents of a record that must be stored in files.
pub(super) fn contents_for_files(record: &SessionRecord) -> Vec<(AttachmentId, &[u8])> {
    let json = (!is_stored_in_row(record)).then_some(record.json.as_bytes());
    let contents = json.into_iter().chain(record.attachments.iter().map(|bytes| &**bytes));
    contents.map(|bytes| (AttachmentId::for_bytes(bytes), bytes)).collect()
}

fn is_stored_in_row(record: &SessionRecord) -> bool {
    record.json.len() < FILE_BYTES
}

/// Returns the number that represents a stream in the database.
pub(super) fn record_stream_number(stream: RecordStream) -> i64 {
    match stream {
        RecordStream::Client => 0,
        RecordStream::Model => 1,
    }
}

/// Returns the id of a record's row. The rows of one session have adjacent ids.
pub(super) fn row_id(key: i64, seq: u64) -> i64 {
    (key << 32) | (seq & u64::from(u32::MAX)).cast_signed()
}

/// A hash over a sequence of fields. The hash also depends on the boundaries between the fields.
pub(super) struct FieldHasher(Sha256);

impl FieldHasher {
    /// Creates a hash whose first field is the id of the session.
    pub(super) fn for_session_id(session: &str) -> Self {
        let mut sum = Self(Sha256::new());
        sum.add_field(session.as_bytes());
        sum
    }

    pub(super) fn add_field(&mut self, field: &[u8]) {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
    }

    fn add_optional_field(&mut self, field: Option<&[u8]>) {
        self.add_field(&[u8::from(field.is_some())]);
        self.add_field(field.unwrap_or_default());
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
