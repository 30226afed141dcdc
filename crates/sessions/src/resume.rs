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

/// A session that the user selected.
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

    /// Finds the session that the flags select. Copies the session if the flag `--fork` is given.
    /// The session continues in the folder `cwd`. Returns `None` if no flag is given. Blocks the
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns [`SessionsError::Archive`] or [`SessionsError::NoneOfFolder`].
    pub fn select(
        &self,
        archive: &SessionArchive,
        cwd: &Path,
        now: SystemTime,
    ) -> Result<Option<SelectedSession>, SessionsError> {
        // Symbolic links in the path are resolved now, because they may have changed since the
        // session was stored.
        let real = cwd.canonicalize().unwrap_or_else(|_gone| cwd.to_owned());
        let session = match self.resume.as_ref().or(self.fork.as_ref()) {
            Some(id) => archive.find(id)?,
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
        let moved = moved.unwrap_or_default();
        Ok(Some(match self.fork {
            None => SelectedSession {
                id: session.id,
                description: format!("Continuing {described}.{moved}"),
            },
            Some(_) => {
                let id = archive.fork(&session.id, cwd.to_owned(), now)?;
                let description = format!("Continuing {id}, a copy of {described}.{moved}");
                SelectedSession { id, description }
            }
        }))
    }
}
