//! Errors of writing a file.

use std::io;

use crate::error::{ErrorCode, ToolError};
use crate::files::workspace::{Workspace, WorkspacePath};

/// The reason why a step of writing a file failed.
pub(super) enum StageError {
    Io(io::Error),
    Tool(ToolError),
}

impl From<io::Error> for StageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ToolError> for StageError {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl StageError {
    pub(super) fn into_tool_error(self, workspace: &Workspace, at: &WorkspacePath) -> ToolError {
        match self {
            Self::Io(error) => workspace.explain_io_error(at, &error),
            Self::Tool(error) => error,
        }
    }
}

/// Creates the error for a file that has changed since the preview.
pub(super) fn changed_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} was changed by another program since this change was prepared, so nothing was written. \
         Read it again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Creates the error for a file that must be written in place. The next preview mentions that the
/// file is written in place.
pub(super) fn in_place_only_error(at: &WorkspacePath) -> ToolError {
    let message = format!(
        "{} can only be written in place, because its owner or attributes cannot be copied to \
         another file or it has several hard links, so nothing was written. Try again",
        at.given()
    );
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

/// Creates the error for a new file whose path is a link.
pub(super) fn dangling_link_error(at: &WorkspacePath) -> ToolError {
    let message =
        format!("{} is a link to a file that does not exist. Write the target instead", at.given());
    ToolError::recoverable(ErrorCode::NotFound, message)
}
