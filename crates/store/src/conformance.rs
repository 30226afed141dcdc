//! The rules of [`SessionStore`] as a function that checks any store.
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

use self::bench::{RuleBench, RuleBroken};
use crate::store::SessionStore;

/// Whether a store keeps one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleVerdict {
    /// The rule, as a sentence with underscores.
    pub rule: &'static str,
    /// How it is broken, if it is.
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

/// Checks every rule that is stated of a [`SessionStore`] and of an
/// [`OpenSession`](crate::OpenSession).
///
/// `open` opens the store of a name as another process would: an empty one for a new name, and for
/// one that was used before the same again, while it may be open still.
pub fn check_store_rules(open: &dyn Fn(&str) -> Arc<dyn SessionStore>) -> Vec<RuleVerdict> {
    let rules =
        [writing::RULES, loading::RULES, listing::RULES, forking_and_pruning::RULES].concat();
    let verdict = |(rule, check): &Rule| {
        let bench = RuleBench::new(rule, open);
        RuleVerdict { rule, outcome: check(&bench).map_err(|RuleBroken(how)| how) }
    };
    rules.iter().map(verdict).collect()
}

/// A rule, and what checks it.
type Rule = (&'static str, fn(&RuleBench<'_>) -> Result<(), RuleBroken>);

/// Lists functions as rules of their names.
macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        pub(super) const RULES: &[super::Rule] = &[$((stringify!($rule), $rule)),*];
    };
}
use rules;
