//! The part of a stored session that contains its remembered permission decisions.

use std::collections::BTreeSet;

use acp_lifecycle::rules::RuleStoreError;
use acp_lifecycle::{PermissionMemory, Session};
use acp_store::{SessionChange, StoredParts};
use acp_tools::Workspace;
use callboard_text::path_text;
use serde::{Deserialize, Serialize};

const PART: &str = "permissions.1";

/// The remembered decisions of a session, with the folders for which they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPermissions {
    /// The canonical paths of the project folders, as text.
    folders: BTreeSet<String>,
    memory: PermissionMemory,
}

impl StoredPermissions {
    /// Returns the decisions of a session that works in the roots of this workspace.
    pub(crate) fn of_session(session: &Session, workspace: &Workspace) -> Self {
        let folders = workspace.roots().map(|folder| path_text(folder).into_owned()).collect();
        Self { folders, memory: session.permission_memory() }
    }

    /// Restores the decisions if the workspace has the same roots.
    pub(crate) fn restore_if_same_folders(self, session: &mut Session, workspace: &Workspace) {
        if Self::of_session(session, workspace).folders == self.folders {
            session.restore_permission_memory(self.memory);
        }
    }

    /// Returns whether these decisions must be stored in place of the earlier decisions. If the
    /// earlier decisions were made in other folders, they stay stored until a decision is made in
    /// the current folders.
    pub(super) fn must_replace_stored(&self, stored: Option<&Self>) -> bool {
        let is_of_these_folders = stored.is_some_and(|stored| stored.folders == self.folders);
        stored != Some(self) && (is_of_these_folders || self.memory != PermissionMemory::default())
    }

    /// Reads the stored decisions. Returns `None` if no decisions are stored, and an error if they
    /// may be damaged.
    pub(super) fn read(parts: &StoredParts) -> Result<Option<Self>, RuleStoreError> {
        match parts.parts.get(PART) {
            Some(json) => {
                serde_json::from_str(json).map(Some).map_err(|_malformed| damaged_error())
            }
            None if parts.damaged > 0 => Err(damaged_error()),
            None => Ok(None),
        }
    }

    pub(super) fn to_change(&self) -> SessionChange {
        SessionChange::Part { name: PART.to_owned(), json: serde_json::to_string(self).ok() }
    }
}

fn damaged_error() -> RuleStoreError {
    RuleStoreError::new("the decisions of this session cannot be read")
}
