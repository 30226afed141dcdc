//! Projections: patches become the messages of a protocol version, and only what changed is sent.

pub mod v1;
#[cfg(feature = "v2")]
pub mod v2;

use crate::PlanEntry;
use crate::schema::v1::Meta;

/// Returns the `_meta` of a plan's step: the model's own id, for which no protocol has a place.
fn plan_meta(entry: &PlanEntry, meta_key: &str) -> Option<Meta> {
    let id = entry.id.as_ref()?;
    Some(Meta::from_iter([(meta_key.to_owned(), serde_json::json!({ "id": id }))]))
}
