//! Storage of rules that outlive their session.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Rule, RuleScope};
use crate::limits::MAX_STORED_RULES;

/// A store for the rules of projects and of the user.
///
/// The methods may block, so callers must not hold the lock of the session while they call a
/// method. A project is identified by the path of its root. A store keeps at most 1,024 rules per
/// project, and at most 1,024 rules for the user.
pub trait RuleStore: fmt::Debug + Send + Sync {
    /// Returns the rules of a project and the rules of the user.
    ///
    /// # Errors
    ///
    /// Returns [`RuleStoreError`] if rules exist and cannot be read or must not be trusted. The
    /// caller must then ask about every call: see
    /// [`Session::add_loaded_rules`](crate::Session::add_loaded_rules).
    fn load(&self, root: &Path) -> Result<Vec<Rule>, RuleStoreError>;

    /// Applies changes to the rules of a project and of the user, in order.
    ///
    /// # Errors
    ///
    /// Returns [`RuleStoreError`] if a change could not be applied. The other changes may have been
    /// applied.
    fn save_rule_changes(&self, root: &Path, changes: &[RuleChange]) -> Result<(), RuleStoreError>;

    /// Returns the folder of the rule files, if the store uses one. If a session's tools can write
    /// to that folder, the session loads only rules that deny or ask.
    fn rule_files_folder(&self) -> Option<&Path> {
        None
    }
}

/// A change of a stored rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleChange {
    /// Add the rule.
    Add(Rule),
    /// Remove the rule.
    Remove(Rule),
}

impl RuleChange {
    /// Returns the rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        match self {
            Self::Add(rule) | Self::Remove(rule) => rule,
        }
    }

    /// Applies the change to the list of stored rules with the same scope. Implementations of a
    /// store should use this method.
    ///
    /// # Errors
    ///
    /// Returns [`RuleStoreError`] if the list is full.
    pub fn apply(&self, rules: &mut Vec<Rule>) -> Result<(), RuleStoreError> {
        match self {
            Self::Remove(rule) => rules.retain(|other| other != rule),
            Self::Add(rule) if rules.contains(rule) => {}
            Self::Add(_) if rules.len() >= MAX_STORED_RULES => {
                return Err(RuleStoreError::new(format!(
                    "{MAX_STORED_RULES} rules are stored already"
                )));
            }
            Self::Add(rule) => rules.push(rule.clone()),
        }
        Ok(())
    }
}

/// An error of loading or saving rules, with a message for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleStoreError(String);

impl RuleStoreError {
    /// Creates an error. The message should name the cause and the file or other location.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A store in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryRuleStore(Mutex<Vec<(Option<PathBuf>, Vec<Rule>)>>);

impl RuleStore for MemoryRuleStore {
    fn load(&self, root: &Path) -> Result<Vec<Rule>, RuleStoreError> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = lists.iter().filter(|(of, _)| of.as_deref().is_none_or(|of| of == root));
        Ok(of.flat_map(|(_, rules)| rules.clone()).collect())
    }

    fn save_rule_changes(&self, root: &Path, changes: &[RuleChange]) -> Result<(), RuleStoreError> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            let of = match change.rule().scope {
                RuleScope::Project => Some(root.to_owned()),
                _ => None,
            };
            let at = lists.iter().position(|(other, _)| *other == of).unwrap_or_else(|| {
                lists.push((of, Vec::new()));
                lists.len() - 1
            });
            change.apply(&mut lists[at].1)?;
        }
        Ok(())
    }
}
