//! The flags that continue a stored session in another command, such as `exec`.

use std::path::Path;
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use callboard_runtime::SessionArchive;
use callboard_text::{escape_invisible, path_text};
use clap::Args;

use crate::error::SessionsError;
use crate::listing::describe_session;

/// The flags that select a session to be continued; at most one of them is given.
#[derive(Debug, Default, Args)]
#[group(multiple = false)]
pub struct ResumeArgs {
    /// Continue the newest session of this folder.
    #[arg(long = "continue", conflicts_with = "ephemeral")]
    is_newest_continued: bool,
    /// Continue a session, which is named by its id or a beginning of it.
    #[arg(long, value_name = "ID", conflicts_with = "ephemeral")]
    resume: Option<String>,
    /// Continue a copy of a session.
    #[arg(long, value_name = "ID", conflicts_with = "ephemeral")]
    fork: Option<String>,
}

/// A session that was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelectedSession {
    /// Its id. That of a copy is new.
    pub id: SessionId,
    /// A sentence that names it, for the user.
    pub description: String,
}

impl ResumeArgs {
    /// Returns whether one of the flags is given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.is_newest_continued || self.resume.is_some() || self.fork.is_some()
    }

    /// Finds the session, and copies it if that is wanted; `None` if no flag is given. It continues
    /// in the folder `cwd`. Blocks.
    ///
    /// # Errors
    ///
    /// [`SessionsError::Archive`], [`SessionsError::NoneOfFolder`].
    pub fn select(
        &self,
        archive: &SessionArchive,
        cwd: &Path,
        now: SystemTime,
    ) -> Result<Option<SelectedSession>, SessionsError> {
        // A link may lead to another folder by now.
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
