//! Compiles the source of the store in memory as part of another crate. This proves that another
//! crate can implement a store.
#![cfg(feature = "conformance")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use acp_store::conformance::check_store_rules;
use acp_store::*;

#[path = "../src/memory.rs"]
#[expect(dead_code, unreachable_pub, reason = "the module is public in its own crate")]
mod memory;

#[test]
fn a_store_of_another_crate_obeys_every_rule() {
    let stores = Mutex::new(HashMap::<String, memory::MemorySessionStore>::new());
    let verdicts = check_store_rules(&|name| {
        let mut stores = stores.lock().unwrap();
        Arc::new(stores.entry(name.to_owned()).or_default().clone())
    });
    let broken: Vec<_> = verdicts.iter().filter(|verdict| verdict.outcome.is_err()).collect();
    assert!(verdicts.len() > 40 && broken.is_empty(), "{broken:#?}");
}
