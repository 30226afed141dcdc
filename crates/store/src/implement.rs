//! For authors of another [`SessionStore`](crate::SessionStore): checks and texts that are the same
//! in every store.
//!
//! The source of [`MemorySessionStore`](crate::MemorySessionStore) is an example, because it uses
//! only this module and the public types. `conformance::check_store_rules` tests a store.

pub use crate::load::{RecordPage, first_whole_record_number};
pub use crate::record::{check_changes, check_first_changes};
pub use crate::retention::PruneBudget;
pub use crate::search::has_words_beginning_with_terms;
pub use crate::time::{millis_since_epoch, time_from_millis};
