//! The JSON of a `session/update`: a first report names its kind and its status.

use std::ops::Deref;

use serde::{Serialize, Serializer};

use crate::ToolKind;
use crate::schema::v1::{SessionId, SessionUpdate, ToolCall, ToolCallStatus};

/// An update as it is serialised for a client.
///
/// The schema crate omits `kind` and `status` of a `tool_call` where they have their default value.
/// The protocol says the same of a missing field, but clients differ: some take a call without a
/// status as one that runs. So these two fields are always written.
#[derive(Debug, Clone, PartialEq)]
pub struct Update(SessionUpdate);

/// The parameters of a `session/update` notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Notification {
    /// The session that the update belongs to.
    pub session_id: SessionId,
    /// What changed.
    pub update: Update,
}

impl Update {
    /// Returns the parameters of the notification that carries this update.
    #[must_use]
    pub fn in_session(self, session_id: impl Into<SessionId>) -> Notification {
        Notification { session_id: session_id.into(), update: self }
    }

    /// Returns the update as the schema crate's type, which omits fields when it is serialised.
    #[must_use]
    pub fn into_inner(self) -> SessionUpdate {
        self.0
    }
}

impl Notification {
    /// The method that these parameters belong to.
    pub const METHOD: &'static str = "session/update";
}

impl From<SessionUpdate> for Update {
    fn from(update: SessionUpdate) -> Self {
        Self(update)
    }
}

impl Deref for Update {
    type Target = SessionUpdate;

    fn deref(&self) -> &SessionUpdate {
        &self.0
    }
}

impl Serialize for Update {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            SessionUpdate::ToolCall(call) => FirstReport::new(call).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

/// A `tool_call` with the fields that the schema crate omits.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FirstReport<'a> {
    session_update: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ToolCallStatus>,
    #[serde(flatten)]
    call: &'a ToolCall,
}

impl<'a> FirstReport<'a> {
    fn new(call: &'a ToolCall) -> Self {
        Self {
            session_update: "tool_call",
            kind: (call.kind == ToolKind::default()).then_some(call.kind),
            status: (call.status == ToolCallStatus::default()).then_some(call.status),
            call,
        }
    }
}
