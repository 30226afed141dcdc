//! Checks that both stores obey every rule.
#![cfg(all(feature = "conformance", feature = "sqlite"))]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use acp_store::conformance::{RuleVerdict, check_store_rules};
use acp_store::{MemorySessionStore, SessionHolder, SqliteSessionStore};

#[track_caller]
fn assert_all(verdicts: &[RuleVerdict]) {
    let broken: Vec<_> = verdicts.iter().filter(|verdict| verdict.outcome.is_err()).collect();
    assert!(verdicts.len() > 40, "{} rules", verdicts.len());
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_store_in_memory_obeys_every_rule() {
    let stores = Mutex::new(HashMap::<String, MemorySessionStore>::new());
    assert_all(&check_store_rules(&|name| {
        Arc::new(stores.lock().unwrap().entry(name.to_owned()).or_default().clone())
    }));
}

#[test]
fn the_store_in_sqlite_obeys_every_rule() {
    let folder = tempfile::tempdir().unwrap();
    let holder = SessionHolder::new(1, "test", SystemTime::UNIX_EPOCH);
    assert_all(&check_store_rules(&|name| {
        let folder = folder.path().join(name);
        Arc::new(SqliteSessionStore::open(&folder, holder.clone(), || 4).unwrap())
    }));
}
