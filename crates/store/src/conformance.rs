//! Checks whether a store obeys the rules of [`SessionStore`].
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//!
//! use acp_store::{MemorySessionStore, conformance};
//!
//! let stores = Mutex::new(HashMap::<String, MemorySessionStore>::new());
//! let verdicts = conformance::check_store_rules(&|name| {
//!     let mut stores = stores.lock().unwrap();
//!     Arc::new(stores.entry(name.to_owned()).or_default().clone())
//! });
//! assert!(verdicts.iter().all(|verdict| verdict.outcome.is_ok()));
//! ```

mod bench;
mod forking_and_pruning;
mod listing;
mod loading;
mod writing;

use std::fmt;
use std::sync::Arc;

use self::bench::{RuleBroken, StoreRuleBench};
use crate::store::SessionStore;

/// The result of checking one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleVerdict {
    /// The rule, as a sentence with underscores instead of spaces.
    pub rule: &'static str,
    /// The result. An error describes how the store breaks the rule.
    pub outcome: Result<(), String>,
}

impl fmt::Display for RuleVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(()) => write!(formatter, "ok   {}", self.rule),
            Err(how) => write!(formatter, "FAIL {}: {how}", self.rule),
        }
    }
}

/// Checks every rule that the docs of [`SessionStore`] and [`OpenSession`](crate::OpenSession)
/// state.
///
/// `open` opens the store with a given name, as another process would. For a new name, `open` must
/// return an empty store. For a name that was used before, `open` must return the same store again,
/// even if that store is still open.
pub fn check_store_rules(open: &dyn Fn(&str) -> Arc<dyn SessionStore>) -> Vec<RuleVerdict> {
    let rules =
        [writing::RULES, loading::RULES, listing::RULES, forking_and_pruning::RULES].concat();
    let verdict = |(rule, check): &Rule| {
        let bench = StoreRuleBench::new(rule, open);
        RuleVerdict { rule, outcome: check(&bench).map_err(|RuleBroken(how)| how) }
    };
    rules.iter().map(verdict).collect()
}

/// A rule and the function that checks it.
type Rule = (&'static str, fn(&StoreRuleBench<'_>) -> Result<(), RuleBroken>);

/// Creates a list of rules from functions. The name of each function is the text of the rule.
macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        pub(super) const RULES: &[super::Rule] = &[$((stringify!($rule), $rule)),*];
    };
}
use rules;
