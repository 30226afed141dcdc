//! The unanswered requests of one side, and its most recently answered ids.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::bounded_map::truncate_key;
use super::methods::ProtocolMethod;
use crate::limits::{MAX_OPEN_REQUESTS, MAX_REMEMBERED_ANSWERS};

/// An unanswered request.
pub(super) struct OpenJsonRpcRequest {
    /// The name of the method, and its definition in the protocol.
    pub(super) name: String,
    pub(super) method: Option<&'static ProtocolMethod>,
    pub(super) session: Option<String>,
    /// The call and the options of the request, if it is a permission request.
    pub(super) permission: Option<AskedPermission>,
    /// Whether the JSON-RPC fields of the request are valid, so that the request must be answered.
    pub(super) is_valid: bool,
}

/// The call and the options of a permission request.
pub(super) struct AskedPermission {
    pub(super) call: String,
    /// The options, and whether each one allows the call.
    pub(super) options: Vec<(String, bool)>,
}

/// The requests of one side.
#[derive(Default)]
pub(super) struct RequestLog {
    open: HashMap<String, VecDeque<OpenJsonRpcRequest>>,
    open_count: usize,
    answered_ids: VecDeque<String>,
}

impl RequestLog {
    /// Inserts a request. Returns false if there are too many unanswered requests.
    pub(super) fn insert(&mut self, id: &Value, asked: OpenJsonRpcRequest) -> bool {
        if self.open_count >= MAX_OPEN_REQUESTS {
            return false;
        }
        self.open_count += 1;
        self.open.entry(id_text(id)).or_default().push_back(asked);
        true
    }

    /// Removes the oldest request with an id and records the id as answered.
    pub(super) fn take_oldest_as_answered(&mut self, id: &Value) -> Option<OpenJsonRpcRequest> {
        let id = id_text(id);
        let asked = self.open.get_mut(&id)?;
        let oldest = asked.pop_front();
        self.open_count -= usize::from(oldest.is_some());
        if asked.is_empty() {
            self.open.remove(&id);
        }
        if self.answered_ids.len() == MAX_REMEMBERED_ANSWERS {
            self.answered_ids.pop_front();
        }
        self.answered_ids.push_back(id);
        oldest
    }

    /// Returns the oldest request with an id.
    pub(super) fn find_oldest_with_id(&self, id: &Value) -> Option<&OpenJsonRpcRequest> {
        self.open.get(&id_text(id))?.front()
    }

    /// Returns whether a request with this id was answered recently.
    pub(super) fn was_answered(&self, id: &Value) -> bool {
        self.answered_ids.contains(&id_text(id))
    }

    /// Removes all requests, ordered by id.
    pub(super) fn take_all(&mut self) -> Vec<(String, OpenJsonRpcRequest)> {
        self.open_count = 0;
        let open = std::mem::take(&mut self.open).into_iter();
        let mut all: Vec<_> = open
            .flat_map(|(id, asked)| asked.into_iter().map(move |asked| (id.clone(), asked)))
            .collect();
        all.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        all
    }
}

/// Returns an id as JSON text, so that `1` and `"1"` differ.
fn id_text(id: &Value) -> String {
    truncate_key(&id.to_string()).to_owned()
}
