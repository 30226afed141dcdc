//! The flags of other commands, such as `exec`, that continue a stored session.

use std::path::Path;
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use callboard_runtime::SessionArchive;
use callboard_text::{escape_invisible, path_text};
use clap::Args;

use crate::error::SessionsError;
use crate::listing::describe_session;

/// The flags that select a session to continue. At most one of them is given.
#[derive(Debug, Default, Args)]
#[group(multiple = false)]
pub struct ResumeArgs {
    /// Continue the newest session of this folder.
    #[arg(long = "continue", conflicts_with = "ephemeral")]
    is_newest_continued: bool,
    /// Continue the session with this id or with this beginning of its id.
    #[arg(long, value_name = "ID", conflicts_with = "ephemeral")]
    resume: Option<String>,
    /// Continue a copy of the session with this id or with this beginning of its id.
    #[arg(long, value_name = "ID", conflicts_with = "ephemeral")]
    fork: Option<String>,
}

/// A stored session that the flags select.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundSession {
    /// Id of the stored session.
    pub id: SessionId,
    /// Name of the model that the session used last, if it is known.
    pub model: Option<String>,
    is_copied: bool,
    /// A short description with the id.
    described: String,
    /// A sentence that names the folder of the session, if the session continues in another folder.
    moved: String,
}

/// A session that can be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelectedSession {
    /// Id of the session. A copy has a new id.
    pub id: SessionId,
    /// A sentence for the user that describes the session.
    pub description: String,
}

impl ResumeArgs {
    /// Returns whether one of the flags is given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.is_newest_continued || self.resume.is_some() || self.fork.is_some()
    }

    /// Finds the session that the flags select, to continue it in the folder `cwd`. Returns `None`
    /// if no flag is given. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Returns [`SessionsError::Archive`] or [`SessionsError::NoneOfFolder`].
    pub fn find(
        &self,
        archive: &SessionArchive,
        cwd: &Path,
        now: SystemTime,
    ) -> Result<Option<FoundSession>, SessionsError> {
        // Symbolic links in the path are resolved now, because they may have changed since the
        // session was stored.
        let real = cwd.canonicalize().unwrap_or_else(|_gone| cwd.to_owned());
        let session = match self.resume.as_ref().or(self.fork.as_ref()) {
            Some(id) => archive.find_by_id_prefix(id)?,
            None if self.is_newest_continued => match archive.sessions(Some(&real)).next() {
                Some(newest) => newest?,
                None => return Err(SessionsError::NoneOfFolder(cwd.to_owned())),
            },
            None => return Ok(None),
        };
        let described = describe_session(&session, archive, now);
        let moved = session.folder.as_ref().filter(|folder| folder.canonical != real);
        let moved = moved
            .map(|folder| format!(" It was in {}.", escape_invisible(&path_text(&folder.cwd))));
        Ok(Some(FoundSession {
            model: archive.model_name(&session.id)?,
            id: session.id,
            is_copied: self.fork.is_some(),
            described,
            moved: moved.unwrap_or_default(),
        }))
    }
}

impl FoundSession {
    /// Returns the session to continue. If the flag `--fork` is given, this is a new copy in the
    /// folder `cwd`. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Returns [`SessionsError::Archive`] if the session cannot be copied.
    pub fn fork_if_requested(
        self,
        archive: &SessionArchive,
        cwd: &Path,
        now: SystemTime,
    ) -> Result<SelectedSession, SessionsError> {
        let Self { id, is_copied, described, moved, .. } = self;
        if !is_copied {
            return Ok(SelectedSession {
                id,
                description: format!("Continuing {described}.{moved}"),
            });
        }
        let id = archive.fork(&id, cwd.to_owned(), now)?;
        let description = format!("Continuing {id}, a copy of {described}.{moved}");
        Ok(SelectedSession { id, description })
    }
}
