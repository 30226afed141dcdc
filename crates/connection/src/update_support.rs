//! Optional updates that a client supports, and the replacements for clients that lack support
//! (guarantee G8 in `ARCHITECTURE.md`).

use acp_types::wire::v1::{V1Projection, WireUpdate};
use acp_types::{MessageChunk, Role, SessionStatePart};
use agent_client_protocol::v1::schema::{
    ClientCapabilities, Notice, NoticeSeverity, SessionUpdate,
};

/// The client's capabilities for optional updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateSupport {
    compaction: bool,
    notices: bool,
}

impl UpdateSupport {
    pub(crate) fn from_capabilities(capabilities: &ClientCapabilities) -> Self {
        let session = capabilities.session.as_ref();
        Self {
            compaction: session.is_some_and(|session| session.compaction.is_some()),
            notices: session.is_some_and(|session| session.notices.is_some()),
        }
    }

    /// Returns the update in a form that this client supports. For a client that does not support
    /// compactions, a compaction becomes a notice with the first text of its summary. For a client
    /// that supports neither compactions nor notices, a compaction becomes a thought.
    pub(crate) fn supported_update(
        self,
        state: &SessionStatePart,
        sent: &V1Projection,
    ) -> WireUpdate {
        let compaction = match state {
            SessionStatePart::Compaction(compaction) if !self.compaction => compaction,
            state => return sent.update_for_state(state),
        };
        let words = compaction.summary.first().cloned().unwrap_or_default();
        if self.notices {
            let notice = Notice::new(NoticeSeverity::Info, "Older messages make room");
            return SessionUpdate::Notice(notice.description(words)).into();
        }
        // The whole compaction is one message, so its updates share one message id.
        let message = compaction.id.clone();
        sent.update_for_chunk(&MessageChunk::new(Role::Thought, message, words + "\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_types::wire::v1::TerminalDisplay;
    use acp_types::{Compaction, CompactionStatus, ContextUsage};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    fn sent_json(capabilities: &Value, state: &SessionStatePart) -> Value {
        let session = serde_json::from_value(json!({ "session": capabilities })).unwrap();
        let sent = V1Projection::new(TerminalDisplay::Text);
        serde_json::to_value(
            UpdateSupport::from_capabilities(&session).supported_update(state, &sent),
        )
        .unwrap()
    }

    #[test]
    fn a_compaction_is_sent_in_a_form_that_the_client_supports() {
        let summary = vec!["It is shorter.".to_owned(), "All of it.".to_owned()];
        let compaction = Compaction::new("c1", CompactionStatus::Completed, summary);
        let state = SessionStatePart::Compaction(compaction);
        assert_eq!(
            sent_json(&json!({"compaction": {}, "notices": {}}), &state),
            json!({
                "sessionUpdate": "compaction_update",
                "compactionId": "c1",
                "status": "completed",
                "summary": [
                    {"type": "text", "text": "It is shorter."},
                    {"type": "text", "text": "All of it."},
                ],
            })
        );
        assert_eq!(
            sent_json(&json!({"notices": {}}), &state),
            json!({
                "sessionUpdate": "notice",
                "severity": "info",
                "title": "Older messages make room",
                "description": "It is shorter.",
            })
        );
        for capabilities in [json!({}), Value::Null] {
            assert_eq!(
                sent_json(&capabilities, &state),
                json!({
                    "sessionUpdate": "agent_thought_chunk",
                    "messageId": "c1",
                    "content": {"type": "text", "text": "It is shorter.\n"},
                })
            );
        }
    }

    #[test]
    fn updates_that_every_client_supports_are_unchanged() {
        assert_eq!(
            sent_json(&Value::Null, &SessionStatePart::Usage(ContextUsage::new(1, 2))),
            json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})
        );
    }
}
