//! For authors of another [`SessionStore`](crate::SessionStore): the checks and texts that are equal
//! in every store.
//!
//! [`MemorySessionStore`](crate::MemorySessionStore) uses only this module and the public types, so
//! its source is an example. `conformance::check_store_rules` tests a store.

pub use crate::load::{RecordPage, first_whole_record_number};
pub use crate::record::{check_changes, check_first_changes};
pub use crate::retention::PruneBudget;
pub use crate::search::contains_all_terms;
pub use crate::time::{millis_since_epoch, time_from_millis};
