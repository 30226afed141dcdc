//! Projections, which convert patches to the messages of a protocol version. A projection sends
//! only changes.

pub mod v1;
#[cfg(feature = "v2")]
pub mod v2;

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use crate::limits::{
    MAX_REMEMBERED_ENDED_CALLS, MAX_RESENT_BYTES, MAX_RUNNING_OUTPUT_BYTES,
    MAX_STREAMED_UPDATE_BYTES,
};
use crate::schema::MaybeUndefined;
use crate::schema::v1::Meta;
use crate::{Compaction, PlanEntry, ToolCallId, ToolCallPatch};

/// A message to a client as JSON, for agents without an SDK, and for agents whose SDK uses another
/// version of the wire types.
///
/// The message is a `session/update` notification or a `session/request_permission` request.
pub trait ClientMessage {
    /// Returns the name of the method.
    fn method(&self) -> &'static str;

    /// Returns the parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if the parameters cannot be represented in JSON. The projections create no
    /// such message.
    fn params(&self) -> serde_json::Result<Value>;
}

const SESSION_UPDATE: &str = "session/update";
const REQUEST_PERMISSION: &str = "session/request_permission";

/// Returns the `_meta` of a plan entry. This `_meta` contains the id that the model assigned,
/// because no protocol version has a field for the id.
fn plan_entry_meta(entry: &PlanEntry, meta_key: &str) -> Option<Meta> {
    let id = entry.id.as_ref()?;
    Some(Meta::from_iter([(meta_key.to_owned(), serde_json::json!({ "id": id }))]))
}

/// Returns the `_meta` of a compaction. This `_meta` contains the numbers of tokens, because no
/// protocol version has fields for these numbers.
fn compaction_token_counts_meta(compaction: &Compaction, meta_key: &str) -> Option<Meta> {
    let Compaction { tokens_before, tokens_after, context_tokens, .. } = compaction;
    let sizes = [tokens_before, tokens_after, context_tokens];
    let object = serde_json::json!({
        "tokensBefore": tokens_before,
        "tokensAfter": tokens_after,
        "contextTokens": context_tokens,
    });
    let is_any = sizes.into_iter().any(Option::is_some);
    is_any.then(|| Meta::from_iter([(meta_key.to_owned(), object)]))
}

fn maybe_undefined<T>(value: Option<T>) -> MaybeUndefined<T> {
    value.map_or(MaybeUndefined::Undefined, MaybeUndefined::Value)
}

/// Returns whether a streamed update may include the large fields of a call. There are two
/// conditions. The line of the update must not exceed the limit of streamed updates. The bytes that
/// were spent on large fields so far must be in proportion to the current size of these fields,
/// unless this size is small. `streamed` counts the spent bytes. `terminals` is the number of
/// terminals that the call shows.
fn may_stream_and_count_large_fields(
    line: usize,
    large: impl FnOnce() -> usize,
    terminals: usize,
    streamed: &mut usize,
) -> bool {
    if line <= MAX_RUNNING_OUTPUT_BYTES {
        return true;
    }
    let large = large();
    let is_small = large <= MAX_RUNNING_OUTPUT_BYTES.saturating_mul(1 + terminals);
    let fits = line <= MAX_STREAMED_UPDATE_BYTES
        && (is_small || *streamed <= MAX_RESENT_BYTES.saturating_add(large));
    if fits && !is_small {
        *streamed = streamed.saturating_add(large);
    }
    fits
}

/// The most recently finished calls of a connection. Later patches of these calls are dropped.
#[derive(Debug, Default)]
struct EndedCalls {
    ids: HashSet<ToolCallId>,
    order: VecDeque<ToolCallId>,
    /// Number of dropped patches.
    dropped_patches: u64,
}

impl EndedCalls {
    /// Returns whether a patch may be sent. A patch that may not be sent is counted. A patch may be
    /// sent if its call is open, or if the patch announces a new call. A patch without a title
    /// cannot announce a call in any protocol version.
    fn admit_or_count_patch(
        &mut self,
        id: &ToolCallId,
        patch: &ToolCallPatch,
        is_open: bool,
    ) -> bool {
        let admits = is_open || (patch.title.is_some() && !self.ids.contains(id));
        self.dropped_patches += u64::from(!admits);
        admits
    }

    fn insert(&mut self, id: ToolCallId) {
        if self.order.len() >= MAX_REMEMBERED_ENDED_CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.ids.insert(id);
    }
}
