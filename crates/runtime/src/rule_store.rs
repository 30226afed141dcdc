//! Rules in files of the user's state folder, never in a workspace.
//!
//! It knows nothing of sessions.

use callboard_text::path_text;
use std::path::{Path, PathBuf};

use acp_lifecycle::limits::RULES;
use acp_lifecycle::rules::{Change, StoreError};
use acp_lifecycle::{Rule, RuleStore, Scope};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::limits::MAX_RULES_BYTES;
use crate::private_files as private;

/// Keeps rules as JSON: `user.json` for the user, a file for each project, named by the SHA-256 of
/// its root's path.
///
/// Files are replaced in one step, under a lock, and readable by the user alone. A file or folder
/// that belongs to another user, or that others may write, is refused: whoever can write it could
/// allow anything.
#[derive(Debug, Clone)]
pub struct StateStore {
    folder: PathBuf,
}

/// What a file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// Whose rules they are, for people who read the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    rules: Vec<Rule>,
}

impl StateStore {
    /// Makes a store in a folder that need not be there.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn file(&self, scope: Scope, root: &Path) -> PathBuf {
        match scope {
            Scope::User => self.folder.join("user.json"),
            _ => {
                let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
                self.folder.join(format!("project-{}.json", hex(&digest)))
            }
        }
    }

    /// Reads the rules of a scope; none where there is no file.
    fn read(&self, scope: Scope, root: &Path) -> Result<Vec<Rule>, StoreError> {
        let path = self.file(scope, root);
        let text = private::read(&self.folder, &path, MAX_RULES_BYTES)
            .map_err(|error| at(&path, &error))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let stored: Stored = serde_json::from_slice(&text).map_err(|error| at(&path, &error))?;
        if stored.rules.iter().any(|rule| rule.scope != scope) {
            return Err(at(&path, &"a rule has another scope than the file"));
        }
        if stored.rules.len() > RULES {
            return Err(at(&path, &format!("there are over {RULES} rules")));
        }
        Ok(stored.rules)
    }

    fn write(&self, scope: Scope, root: &Path, rules: Vec<Rule>) -> Result<(), StoreError> {
        let path = self.file(scope, root);
        let root = (scope == Scope::Project).then(|| path_text(root).into_owned());
        let text = serde_json::to_vec_pretty(&Stored { root, rules });
        let text = text.map_err(|error| at(&path, &error))?;
        if text.len() as u64 > MAX_RULES_BYTES {
            return Err(at(&path, &format!("it would be over {MAX_RULES_BYTES} bytes")));
        }
        private::replace(&self.folder, &path, &text).map_err(|error| at(&path, &error))
    }
}

impl RuleStore for StateStore {
    fn load(&self, root: &Path) -> Result<Vec<Rule>, StoreError> {
        let mut rules = self.read(Scope::Project, root)?;
        rules.extend(self.read(Scope::User, root)?);
        Ok(rules)
    }

    fn save(&self, root: &Path, changes: &[Change]) -> Result<(), StoreError> {
        let _lock = private::lock(&self.folder).map_err(|error| at(&self.folder, &error))?;
        for scope in [Scope::Project, Scope::User] {
            let mut changes =
                changes.iter().filter(|change| change.rule().scope == scope).peekable();
            if changes.peek().is_some() {
                let mut rules = self.read(scope, root)?;
                changes.try_for_each(|change| change.apply(&mut rules))?;
                self.write(scope, root, rules)?;
            }
        }
        Ok(())
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

fn at(path: &Path, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(format!("{}: {why}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
