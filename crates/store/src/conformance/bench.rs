//! The fixture of each rule: a separate store, helpers that create sessions in it, and comparisons
//! with descriptive errors.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use acp_types::schema::v1::SessionId;

use crate::error::SessionStoreError;
use crate::record::{RecordStream, SessionChange, SessionRecord, StoredRecord};
use crate::session::{NewSession, SessionCwdPaths, SessionFilter};
use crate::store::{OpenSession, SessionStore};

/// A description of how a store breaks a rule.
#[derive(Debug)]
pub(super) struct RuleBroken(pub(super) String);

impl From<SessionStoreError> for RuleBroken {
    fn from(error: SessionStoreError) -> Self {
        Self(format!("an operation failed: {error}"))
    }
}

pub(super) type CheckResult = Result<(), RuleBroken>;

/// The store in which one rule is checked.
pub(super) struct StoreRuleBench<'a> {
    name: &'a str,
    open: &'a dyn Fn(&str) -> Arc<dyn SessionStore>,
    pub(super) store: Arc<dyn SessionStore>,
}

impl<'a> StoreRuleBench<'a> {
    pub(super) fn new(name: &'a str, open: &'a dyn Fn(&str) -> Arc<dyn SessionStore>) -> Self {
        Self { name, open, store: open(name) }
    }

    /// Opens the store again, as another process would.
    pub(super) fn open_again(&self) -> Arc<dyn SessionStore> {
        (self.open)(self.name)
    }

    /// Stores a session with one prompt at the time `at`.
    pub(super) fn create_session(
        &self,
        session: &str,
        at: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        self.store.create(&new_session(session), &[prompt_change("first")], at)
    }

    /// Returns the texts of the client's stream. The number of the prompt precedes each text, as in
    /// `1:text`.
    pub(super) fn client_texts(&self, session: &str) -> Result<Vec<String>, SessionStoreError> {
        self.texts_of_stream(session, RecordStream::Client)
    }

    pub(super) fn texts_of_stream(
        &self,
        session: &str,
        stream: RecordStream,
    ) -> Result<Vec<String>, SessionStoreError> {
        let records = self.load_records(session, stream, u64::MAX)?;
        let text = |record: &StoredRecord| format!("{}:{}", record.prompt, record_text(record));
        Ok(records.iter().map(text).collect())
    }

    pub(super) fn load_records(
        &self,
        session: &str,
        stream: RecordStream,
        budget: u64,
    ) -> Result<Vec<StoredRecord>, SessionStoreError> {
        let mut load = self.store.begin_load(&session_id(session), stream, budget)?;
        let mut records = Vec::new();
        loop {
            let page = self.store.load_next_records(&mut load)?;
            if page.is_empty() {
                return Ok(records);
            }
            records.extend(page);
        }
    }

    /// Returns the ids of all listed sessions.
    pub(super) fn listed_ids(
        &self,
        filter: &SessionFilter,
    ) -> Result<Vec<String>, SessionStoreError> {
        let page = self.store.list(filter)?;
        Ok(page.sessions.iter().map(|session| session.id.to_string()).collect())
    }
}

pub(super) fn session_id(session: &str) -> SessionId {
    SessionId::new(session)
}

/// A session in `/project`, which is a link to `/real/project`.
pub(super) fn new_session(session: &str) -> NewSession {
    NewSession {
        id: session_id(session),
        folder: session_folder_from_paths("/project", "/real/project"),
    }
}

pub(super) fn session_folder_from_paths(cwd: &str, canonical: &str) -> SessionCwdPaths {
    SessionCwdPaths { cwd: cwd.into(), canonical: canonical.into() }
}

/// Returns the time `seconds` seconds after a fixed start time.
pub(super) fn time_after_start(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

/// Returns a record that contains a text. A search for the text finds the record.
pub(super) fn text_record(text: &str) -> SessionRecord {
    SessionRecord {
        stream: RecordStream::Client,
        kind: "text".to_owned(),
        version: 1,
        subject: None,
        json: serde_json::Value::from(text).to_string(),
        brief: None,
        attachments: Vec::new(),
        search_text: Some(text.to_owned()),
        starts_stream: false,
    }
}

pub(super) fn prompt_change(text: &str) -> SessionChange {
    SessionChange::Prompt(text_record(text))
}

pub(super) fn append_change(text: &str) -> SessionChange {
    SessionChange::Append(text_record(text))
}

/// Returns a record with a short form.
pub(super) fn record_with_brief(whole: &str, brief: &str) -> SessionRecord {
    SessionRecord { brief: Some(serde_json::Value::from(brief).to_string()), ..text_record(whole) }
}

pub(super) fn part_change(name: &str, json: Option<&str>) -> SessionChange {
    SessionChange::Part { name: name.to_owned(), json: json.map(str::to_owned) }
}

/// Returns the text in a record.
pub(super) fn record_text(record: &StoredRecord) -> String {
    record.parse_json().unwrap_or_else(|error| format!("{}: {error}", record.json))
}

/// Returns an error unless `is_so` is true.
pub(super) fn ensure(is_so: bool, what: &str) -> CheckResult {
    if is_so { Ok(()) } else { Err(RuleBroken(what.to_owned())) }
}

/// Checks that two values are equal.
pub(super) fn ensure_equal<A: Debug + PartialEq<B>, B: Debug + ?Sized>(
    found: &A,
    expected: &B,
) -> CheckResult {
    match found == expected {
        true => Ok(()),
        false => Err(RuleBroken(format!("found {found:?}, expected {expected:?}"))),
    }
}

/// Checks that an operation fails with a given error.
macro_rules! refused {
    ($result:expr, $error:pat) => {
        match $result {
            Err($error) => Ok(()),
            Err(other) => Err(crate::conformance::bench::RuleBroken(format!(
                "{} fails by {other:?}, expected {}",
                stringify!($result),
                stringify!($error)
            ))),
            Ok(_) => Err(crate::conformance::bench::RuleBroken(format!(
                "{} succeeds, expected {}",
                stringify!($result),
                stringify!($error)
            ))),
        }
    };
}
pub(super) use refused;
