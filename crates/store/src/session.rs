//! Sessions as they are created and listed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use callboard_text::path_text;

use crate::error::{SessionStoreError, require_within_bytes};
use crate::limits::{MAX_CWD_BYTES, MAX_ID_BYTES, MAX_PAGE_SESSIONS};
use crate::time::millis_since_epoch;

/// A session that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Its id: ASCII letters, digits, `-` and `_`.
    pub id: SessionId,
    /// Its folder.
    pub folder: SessionFolder,
}

/// The folder that a session works in, under both of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFolder {
    /// As the client gave it.
    pub cwd: PathBuf,
    /// Without links.
    pub canonical: PathBuf,
}

/// The metadata of a session, which is read without loading it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// Its folder; none if that is damaged, so that no rule is used in a folder it was not given for.
    pub folder: Option<SessionFolder>,
    /// The session that it was forked from.
    pub parent: Option<SessionId>,
    /// Its title.
    pub title: Option<String>,
    /// When it was created.
    pub created: SystemTime,
    /// When its records changed last. It never goes back, even if the clock does.
    pub updated: SystemTime,
    /// How many prompts it has.
    pub prompts: u32,
    /// About how many bytes it takes.
    pub bytes: u64,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those of this folder, under either of its names.
    pub cwd: Option<PathBuf>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// At most so many; none for as many as a page may have.
    pub limit: Option<usize>,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions, that with the newest update first.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A prompt in the list of those of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPrompt {
    /// Its number, counted from 1.
    pub number: u32,
    /// When it was stored.
    pub at: SystemTime,
    /// The beginning of its text, if it has one, in one line.
    pub text: String,
}

/// The parts of a session beside its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredParts {
    /// The JSON of each, by its name.
    pub parts: BTreeMap<String, String>,
    /// How many were left out because they are damaged.
    pub damaged: u64,
}

impl NewSession {
    pub(crate) fn check_id_and_folder(&self) -> Result<(), SessionStoreError> {
        require_valid_id(&self.id)?;
        self.folder.check_path_lengths()
    }
}

impl SessionFolder {
    pub(crate) fn check_path_lengths(&self) -> Result<(), SessionStoreError> {
        let paths = [&self.cwd, &self.canonical];
        paths.into_iter().try_for_each(|path| {
            require_within_bytes("the path of a folder", Some(&path_text(path)), MAX_CWD_BYTES)
        })
    }

    /// Returns whether one of its names is that of a folder.
    pub(crate) fn has_path(&self, cwd: &Path) -> bool {
        self.cwd == cwd || self.canonical == cwd
    }
}

impl SessionFilter {
    /// Returns how many sessions a page has at most.
    pub(crate) fn page_size(&self) -> usize {
        self.limit.unwrap_or(MAX_PAGE_SESSIONS).clamp(1, MAX_PAGE_SESSIONS)
    }

    /// Returns the update and id of the last session before the page.
    pub(crate) fn parse_cursor(&self) -> Result<Option<(u64, &str)>, SessionStoreError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let parsed = cursor.split_once('.').and_then(|(updated, id)| {
            let updated = u64::from_str_radix(updated, 16).ok()?;
            is_valid_session_id(id).then_some((updated, id))
        });
        parsed
            .map(Some)
            .ok_or(SessionStoreError::Invalid("the cursor is none of a list of sessions"))
    }
}

impl SessionPage {
    /// Makes a page of the sessions that follow, of which there may be one too many.
    pub(crate) fn from_possibly_too_many(mut sessions: Vec<SessionSummary>, size: usize) -> Self {
        let is_more = sessions.len() > size;
        sessions.truncate(size);
        let last = sessions.last().filter(|_| is_more);
        let next = last.map(|last| format!("{:x}.{}", millis_since_epoch(last.updated), last.id));
        Self { sessions, next }
    }
}

/// Refuses an id that could not name a file, or a cursor.
pub(crate) fn require_valid_id(id: &SessionId) -> Result<(), SessionStoreError> {
    match is_valid_session_id(&id.0) {
        true => Ok(()),
        false => Err(SessionStoreError::Invalid(
            "the id of a session to be stored has 1 to 128 letters, digits, `-` and `_`",
        )),
    }
}

/// Returns whether a session can have this id.
pub(crate) fn is_valid_session_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn ids_that_could_name_another_file_are_refused() {
        for good in ["01J9ZZZZZZZZZZZZZZZZZZZZZZ", "a-b_C", &"x".repeat(128)] {
            assert!(is_valid_session_id(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a.b", "a\0", "ä", "a b", &"x".repeat(129)] {
            assert!(!is_valid_session_id(bad), "{bad}");
        }
    }

    #[test]
    fn a_cursor_is_read_back_and_nothing_else_is() {
        let filter =
            |cursor: &str| SessionFilter { cursor: Some(cursor.into()), ..Default::default() };
        assert_eq!(filter("ff.a-b").parse_cursor().unwrap(), Some((255, "a-b")));
        for wrong in ["", "ff", "ff.", ".a", "g.a", "ff.a b", "-1.a", "ffffffffffffffffff.a"] {
            assert!(filter(wrong).parse_cursor().is_err(), "{wrong}");
        }
    }
}
