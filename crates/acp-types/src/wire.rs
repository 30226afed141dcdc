//! Projections: patches become the messages of a protocol version, and only what changed is sent.

pub mod v1;
#[cfg(feature = "v2")]
pub mod v2;

use crate::PlanEntry;
use crate::limits::{REPEATED_BYTES, RUNNING_TEXT, STREAMED_BYTES};
use crate::schema::v1::Meta;

/// Returns the `_meta` of a plan's step: the model's own id, for which no protocol has a place.
fn plan_meta(entry: &PlanEntry, meta_key: &str) -> Option<Meta> {
    let id = entry.id.as_ref()?;
    Some(Meta::from_iter([(meta_key.to_owned(), serde_json::json!({ "id": id }))]))
}

/// Returns whether a streamed update may hold what is large of a call: its line has to fit, and
/// what is sent again and again has to stay in proportion to what there is. `streamed` counts it.
fn may_stream(line: usize, large: impl FnOnce() -> usize, streamed: &mut usize) -> bool {
    if line <= RUNNING_TEXT {
        return true;
    }
    let large = large();
    let fits = large <= RUNNING_TEXT
        || (line <= STREAMED_BYTES && *streamed <= REPEATED_BYTES.saturating_add(large));
    if fits && large > RUNNING_TEXT {
        *streamed = streamed.saturating_add(large);
    }
    fits
}
