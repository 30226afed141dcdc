//! Sessions to create, and sessions in lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use callboard_text::{normalise, path_text};

use crate::error::{SessionStoreError, require_within_bytes};
use crate::limits::{MAX_CWD_BYTES, MAX_ID_BYTES, MAX_PAGE_SESSIONS};
use crate::search::one_line_beginning;
use crate::time::millis_since_epoch;

/// A session that is about to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewSession {
    /// Id of the session: ASCII letters, digits, `-` and `_`.
    pub id: SessionId,
    /// Folder of the session.
    pub folder: SessionCwdPaths,
}

/// The folder in which a session works. The folder has two paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCwdPaths {
    /// Path of the folder as the client sent it.
    pub cwd: PathBuf,
    /// Path of the folder with symbolic links resolved.
    pub canonical: PathBuf,
}

/// The metadata of a session. Reading it does not load the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Id of the session.
    pub id: SessionId,
    /// Folder of the session. `None` if the stored folder is damaged. The permission rules of the
    /// session are valid only in its folder, so a folder that may be wrong is not returned.
    pub folder: Option<SessionCwdPaths>,
    /// The session from which this session was forked.
    pub parent: Option<SessionId>,
    /// Title of the session.
    pub title: Option<String>,
    /// Time at which the session was created.
    pub created: SystemTime,
    /// Time of the last change of the session's records. This time never decreases, even if the
    /// system clock is set back.
    pub updated: SystemTime,
    /// Number of prompts.
    pub prompts: u32,
    /// Approximate size in bytes.
    pub bytes: u64,
}

/// Selects the sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Lists only sessions of the folder with this path. Both paths of a session's folder are
    /// compared.
    pub cwd: Option<PathBuf>,
    /// The cursor from which to continue: [`SessionPage::next`] of the previous page.
    pub cursor: Option<String>,
    /// Maximum number of sessions. `None` means the maximum page size.
    pub limit: Option<usize>,
}

/// A page of a list of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions of this page. The session with the newest update is the first.
    pub sessions: Vec<SessionSummary>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A prompt in a session's list of prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptSummary {
    /// Number of the prompt, counted from 1.
    pub number: u32,
    /// Time at which the prompt was stored.
    pub at: SystemTime,
    /// Beginning of the prompt's text, as one line. Empty if the prompt has no text.
    pub text: String,
}

/// The parts of a session: named JSON values that are not records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredParts {
    /// The JSON of each part, by the part's name.
    pub parts: BTreeMap<String, String>,
    /// Number of damaged parts. They are missing in `parts`.
    pub damaged: u64,
}

impl SessionSummary {
    /// Creates the summary of a session without a folder, parent, title and prompts.
    #[must_use]
    pub fn new(id: SessionId, created: SystemTime, updated: SystemTime) -> Self {
        Self { id, folder: None, parent: None, title: None, created, updated, prompts: 0, bytes: 0 }
    }
}

impl PromptSummary {
    /// Creates an entry of the list from the whole text of the prompt.
    #[must_use]
    pub fn new(number: u32, at: SystemTime, text: &str) -> Self {
        Self { number, at, text: one_line_beginning(text) }
    }
}

impl NewSession {
    /// Creates the description of a new session.
    #[must_use]
    pub fn new(id: impl Into<SessionId>, folder: SessionCwdPaths) -> Self {
        Self { id: id.into(), folder }
    }

    /// Checks the id, and the lengths of the folder's paths.
    ///
    /// # Errors
    ///
    /// Returns [`SessionStoreError::Invalid`] or [`SessionStoreError::TooLarge`].
    pub fn check_id_and_folder(&self) -> Result<(), SessionStoreError> {
        require_valid_id(&self.id)?;
        self.folder.check_path_lengths()
    }
}

impl SessionCwdPaths {
    pub(crate) fn check_path_lengths(&self) -> Result<(), SessionStoreError> {
        let paths = [&self.cwd, &self.canonical];
        paths.into_iter().try_for_each(|path| {
            require_within_bytes("the path of a folder", Some(&path_text(path)), MAX_CWD_BYTES)
        })
    }

    /// Returns whether `cwd` is one of the two paths of this folder.
    #[must_use]
    pub fn is_at_path(&self, cwd: &Path) -> bool {
        self.is_at_normalised_path(&normalise(cwd))
    }

    pub(crate) fn is_at_normalised_path(&self, cwd: &Path) -> bool {
        let mut paths = [&self.cwd, &self.canonical].into_iter();
        // Most stored paths are normalised.
        paths.any(|path| path == cwd || normalise(path) == cwd)
    }
}

impl SessionFilter {
    /// Returns the maximum number of sessions in a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.limit.unwrap_or(MAX_PAGE_SESSIONS).clamp(1, MAX_PAGE_SESSIONS)
    }

    /// Returns the update time and the id of the last session before the page.
    ///
    /// # Errors
    ///
    /// Returns [`SessionStoreError::Invalid`] if the cursor does not come from
    /// [`SessionPage::next`].
    pub fn parse_cursor(&self) -> Result<Option<(u64, &str)>, SessionStoreError> {
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
    /// Creates a page of at most `size` sessions from `sessions`. If `sessions` has one session
    /// more than the page, the page gets a cursor for the next page.
    #[must_use]
    pub fn from_possibly_too_many(mut sessions: Vec<SessionSummary>, size: usize) -> Self {
        let is_more = sessions.len() > size;
        sessions.truncate(size);
        let last = sessions.last().filter(|_| is_more);
        let next = last.map(|last| format!("{:x}.{}", millis_since_epoch(last.updated), last.id));
        Self { sessions, next }
    }
}

/// Returns an error if an id cannot be used in a file name or a cursor.
pub(crate) fn require_valid_id(id: &SessionId) -> Result<(), SessionStoreError> {
    match is_valid_session_id(&id.0) {
        true => Ok(()),
        false => Err(SessionStoreError::Invalid(
            "the id of a session to be stored has 1 to 128 letters, digits, `-` and `_`",
        )),
    }
}

/// Returns whether an id is valid for a session.
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
    fn only_a_cursor_of_a_page_is_parsed() {
        let filter =
            |cursor: &str| SessionFilter { cursor: Some(cursor.into()), ..Default::default() };
        assert_eq!(filter("ff.a-b").parse_cursor().unwrap(), Some((255, "a-b")));
        for wrong in ["", "ff", "ff.", ".a", "g.a", "ff.a b", "-1.a", "ffffffffffffffffff.a"] {
            assert!(filter(wrong).parse_cursor().is_err(), "{wrong}");
        }
    }
}
