//! Serialises `session/update` notifications. A first report always contains a kind and a status.

use std::ops::Deref;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::ToolKind;
use crate::schema::v1::{
    RequestPermissionRequest, SessionId, SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use crate::wire::{ClientMessage, REQUEST_PERMISSION, SESSION_UPDATE};

/// A session update with the serialised form that clients expect.
///
/// The schema crate omits `kind` and `status` of a `tool_call` if they have their default values.
/// The protocol defines the same defaults for missing fields, but some clients treat a call without
/// a status as running. Therefore both fields are always written.
#[derive(Debug, Clone, PartialEq)]
pub struct WireUpdate(SessionUpdate);

/// The parameters of a `session/update` notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionUpdateParams {
    /// Session of the update.
    pub session_id: SessionId,
    /// The update.
    pub update: WireUpdate,
}

impl WireUpdate {
    /// Returns the parameters of a notification with this update.
    #[must_use]
    pub fn into_params(self, session_id: impl Into<SessionId>) -> SessionUpdateParams {
        SessionUpdateParams { session_id: session_id.into(), update: self }
    }

    /// Returns the update of a call, reduced to its id, title, kind and status. Returns `None` for
    /// an update that is not about a call.
    fn reduced_to_encodable_call_fields(&self) -> Option<Self> {
        let reduced = match &self.0 {
            SessionUpdate::ToolCall(call) => {
                let reduced = ToolCall::new(call.tool_call_id.clone(), call.title.clone());
                SessionUpdate::ToolCall(reduced.kind(call.kind).status(call.status))
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let mut fields = ToolCallUpdateFields::new();
                fields.title.clone_from(&update.fields.title);
                (fields.kind, fields.status) = (update.fields.kind, update.fields.status);
                let id = update.tool_call_id.clone();
                SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
            }
            _ => return None,
        };
        Some(Self(reduced))
    }
}

impl ClientMessage for SessionUpdateParams {
    fn method(&self) -> &'static str {
        SESSION_UPDATE
    }

    /// Returns the parameters.
    ///
    /// An update that cannot be represented in JSON is reduced to the id, the title, the kind and
    /// the status of its call. The id, the title, the kind and the status can always be
    /// represented. The projections create no such update, but other code may.
    ///
    /// # Errors
    ///
    /// Returns an error for an update that is not about a call, if the update cannot be represented
    /// in JSON.
    fn params(&self) -> serde_json::Result<Value> {
        let params = serde_json::to_value(self).or_else(|error| {
            let update = self.update.reduced_to_encodable_call_fields().ok_or(error)?;
            serde_json::to_value(update.into_params(self.session_id.clone()))
        });
        params.map(|params| with_null_for_missing_old_texts(params, "/update/content"))
    }
}

impl ClientMessage for RequestPermissionRequest {
    fn method(&self) -> &'static str {
        REQUEST_PERMISSION
    }

    fn params(&self) -> serde_json::Result<Value> {
        let params = serde_json::to_value(self)?;
        Ok(with_null_for_missing_old_texts(params, "/toolCall/content"))
    }
}

/// Writes the old text of a new file as `null`. The protocol permits a missing field, but some
/// clients then show no diff at all.
fn with_null_for_missing_old_texts(mut params: Value, content: &str) -> Value {
    if let Some(Value::Array(items)) = params.pointer_mut(content) {
        let diffs = items.iter_mut().filter(|item| item["type"] == "diff");
        for diff in diffs.filter_map(Value::as_object_mut) {
            diff.entry("oldText").or_insert(Value::Null);
        }
    }
    params
}

impl From<SessionUpdate> for WireUpdate {
    fn from(update: SessionUpdate) -> Self {
        Self(update)
    }
}

impl Deref for WireUpdate {
    type Target = SessionUpdate;

    fn deref(&self) -> &SessionUpdate {
        &self.0
    }
}

impl Serialize for WireUpdate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            SessionUpdate::ToolCall(call) => {
                ToolCallJsonWithDefaults::new(call).serialize(serializer)
            }
            other => other.serialize(serializer),
        }
    }
}

/// The JSON of a `tool_call`, including the fields that the schema crate omits.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCallJsonWithDefaults<'a> {
    session_update: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ToolCallStatus>,
    #[serde(flatten)]
    call: &'a ToolCall,
}

impl<'a> ToolCallJsonWithDefaults<'a> {
    fn new(call: &'a ToolCall) -> Self {
        Self {
            session_update: "tool_call",
            kind: (call.kind == ToolKind::default()).then_some(call.kind),
            status: (call.status == ToolCallStatus::default()).then_some(call.status),
            call,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use serde_json::json;

    use super::{ClientMessage as _, WireUpdate};
    use crate::ToolKind;
    use crate::schema::v1::{
        Diff, RequestPermissionRequest, SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation,
        ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    };

    #[test]
    fn an_update_that_json_cannot_hold_keeps_its_status() {
        let path = Path::new(OsStr::from_bytes(b"/a\xff"));
        let places = vec![ToolCallLocation::new(path)];
        let first = ToolCall::new("c", "Read").kind(ToolKind::Read).locations(places.clone());
        let fields = ToolCallUpdateFields::new()
            .status(ToolCallStatus::Completed)
            .content(vec![Diff::new(path, "").into()])
            .locations(places);
        for (update, expected) in [
            (
                SessionUpdate::ToolCall(first),
                json!({
                    "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read",
                    "kind": "read", "status": "pending",
                }),
            ),
            (
                SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("c", fields)),
                json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
                }),
            ),
        ] {
            let sent = WireUpdate::from(update).into_params("s").params().unwrap();
            assert_eq!(sent, json!({ "sessionId": "s", "update": expected }));
        }
    }

    #[test]
    fn the_old_text_of_a_new_file_is_null() {
        let diff = ToolCallContent::Diff(Diff::new("/f", "new"));
        let fields = ToolCallUpdateFields::new().content(vec![diff, "text".into()]);
        let call = ToolCallUpdate::new("c", fields);
        let update = SessionUpdate::ToolCallUpdate(call.clone());
        let update = WireUpdate::from(update).into_params("s").params().unwrap();
        let request = RequestPermissionRequest::new("s", call, Vec::new()).params().unwrap();
        let expected = json!([
            {"type": "diff", "path": "/f", "newText": "new", "oldText": null},
            {"type": "content", "content": {"type": "text", "text": "text"}},
        ]);
        assert_eq!([&update["update"]["content"], &request["toolCall"]["content"]], [&expected; 2]);
    }
}
