//! Stores rules in files of the user's state folder, and never in a project folder.

use callboard_text::path_text;
use std::path::{Path, PathBuf};

use acp_lifecycle::limits::MAX_STORED_RULES;
use acp_lifecycle::rules::{RuleChange, RuleStoreError};
use acp_lifecycle::{Rule, RuleScope, RuleStore};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::limits::MAX_RULE_FILE_BYTES;
use crate::private_files as private;

/// Stores rules as JSON files: `user.json` for the user, and one file per project. The name of a
/// project's file contains the SHA-256 hash of the path of the project folder.
///
/// Files are replaced atomically while a lock is held, and only the user can read them. A file or
/// folder is refused if another user owns it or can write to it, because that user could add rules
/// that allow any call.
#[derive(Debug, Clone)]
pub struct FileRuleStore {
    folder: PathBuf,
}

/// The content of a file with rules.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    /// Path of the project folder, as information for users who read the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    rules: Vec<Rule>,
}

impl FileRuleStore {
    /// Creates a store in a folder. The folder need not exist.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Creates the store of an agent that keeps its state in `folder`.
    #[must_use]
    pub fn in_state_folder(folder: &Path) -> Self {
        Self::new(folder.join("permissions"))
    }

    fn file_path(&self, scope: RuleScope, root: &Path) -> PathBuf {
        match scope {
            RuleScope::User => self.folder.join("user.json"),
            _ => {
                let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
                self.folder.join(format!("project-{}.json", hex(&digest)))
            }
        }
    }

    /// Reads the rules of a scope. If the file does not exist, returns no rules.
    fn read_rules(&self, scope: RuleScope, root: &Path) -> Result<Vec<Rule>, RuleStoreError> {
        let path = self.file_path(scope, root);
        let text = private::read_if_only_user_writes(&self.folder, &path, MAX_RULE_FILE_BYTES)
            .map_err(|error| store_error(&path, &error))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let stored: RuleFile =
            serde_json::from_slice(&text).map_err(|error| store_error(&path, &error))?;
        if stored.rules.iter().any(|rule| rule.scope != scope) {
            return Err(store_error(&path, &"a rule has another scope than the file"));
        }
        if stored.rules.len() > MAX_STORED_RULES {
            return Err(store_error(&path, &format!("there are over {MAX_STORED_RULES} rules")));
        }
        Ok(stored.rules)
    }

    fn write_rules(
        &self,
        scope: RuleScope,
        root: &Path,
        rules: Vec<Rule>,
    ) -> Result<(), RuleStoreError> {
        let path = self.file_path(scope, root);
        let root = (scope == RuleScope::Project).then(|| path_text(root).into_owned());
        let text = serde_json::to_vec_pretty(&RuleFile { root, rules });
        let text = text.map_err(|error| store_error(&path, &error))?;
        if text.len() as u64 > MAX_RULE_FILE_BYTES {
            return Err(store_error(
                &path,
                &format!("it would be over {MAX_RULE_FILE_BYTES} bytes"),
            ));
        }
        private::replace_file_atomically(&self.folder, &path, &text)
            .map_err(|error| store_error(&path, &error))
    }
}

impl RuleStore for FileRuleStore {
    fn load(&self, root: &Path) -> Result<Vec<Rule>, RuleStoreError> {
        let mut rules = self.read_rules(RuleScope::Project, root)?;
        rules.extend(self.read_rules(RuleScope::User, root)?);
        Ok(rules)
    }

    fn save_rule_changes(&self, root: &Path, changes: &[RuleChange]) -> Result<(), RuleStoreError> {
        let _lock = private::lock_private_folder(&self.folder)
            .map_err(|error| store_error(&self.folder, &error))?;
        for scope in [RuleScope::Project, RuleScope::User] {
            let mut changes =
                changes.iter().filter(|change| change.rule().scope == scope).peekable();
            if changes.peek().is_some() {
                let mut rules = self.read_rules(scope, root)?;
                changes.try_for_each(|change| change.apply(&mut rules))?;
                self.write_rules(scope, root, rules)?;
            }
        }
        Ok(())
    }

    fn rule_files_folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

fn store_error(path: &Path, why: &dyn std::fmt::Display) -> RuleStoreError {
    RuleStoreError::new(format!("{}: {why}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
