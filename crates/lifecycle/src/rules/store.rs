//! Where rules lie that outlive their session. It knows no file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Rule, RuleScope};
use crate::limits::MAX_STORED_RULES;

/// Keeps the rules of projects and of the user.
///
/// It may block; whoever has a session calls it without holding the session's state. A project is
/// known by the path of its root. At most 1,024 rules are kept for a project, and as many for the
/// user.
pub trait RuleStore: fmt::Debug + Send + Sync {
    /// Returns the rules of a project and those of the user.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they are there and cannot be read, or must not be trusted. Then every
    /// call is to be asked about: see [`Session::load_rules`](crate::Session::load_rules).
    fn load(&self, root: &Path) -> Result<Vec<Rule>, RuleStoreError>;

    /// Remembers and forgets rules of a project and of the user, in this order.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if one of them could not be; the others may have been.
    fn save(&self, root: &Path, changes: &[RuleChange]) -> Result<(), RuleStoreError>;

    /// Returns the folder that holds the rules, if one does. A session whose tools reach it takes
    /// from it what denies and asks, and nothing that allows.
    fn folder(&self) -> Option<&Path> {
        None
    }
}

/// A change of the rules that outlive their session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleChange {
    /// A rule is to be remembered.
    Add(Rule),
    /// A rule is to be forgotten.
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

    /// Makes the change in a list of rules of its scope, for those who write a store.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the list is full.
    pub fn apply(&self, rules: &mut Vec<Rule>) -> Result<(), RuleStoreError> {
        match self {
            Self::Remove(rule) => rules.retain(|other| other != rule),
            Self::Add(rule) if rules.contains(rule) => {}
            Self::Add(_) if rules.len() >= MAX_STORED_RULES => {
                return Err(RuleStoreError::new(format!(
                    "{MAX_STORED_RULES} rules are kept already"
                )));
            }
            Self::Add(rule) => rules.push(rule.clone()),
        }
        Ok(())
    }
}

/// Why rules could not be loaded or saved, for the user to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleStoreError(String);

impl RuleStoreError {
    /// Makes an error that says why and where.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A store that lasts as long as itself, for tests.
#[derive(Debug, Default)]
pub struct MemoryRuleStore(Mutex<Vec<(Option<PathBuf>, Vec<Rule>)>>);

impl RuleStore for MemoryRuleStore {
    fn load(&self, root: &Path) -> Result<Vec<Rule>, RuleStoreError> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = lists.iter().filter(|(of, _)| of.as_deref().is_none_or(|of| of == root));
        Ok(of.flat_map(|(_, rules)| rules.clone()).collect())
    }

    fn save(&self, root: &Path, changes: &[RuleChange]) -> Result<(), RuleStoreError> {
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
