//! Which news a client can show, and what it is told where it cannot (G8).

use acp_types::schema::MaybeUndefined;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, CompactionUpdate, ContentBlock, ContentChunk, MessageId, Notice,
    NoticeSeverity, SessionUpdate,
};

/// What a client's capabilities say of news that not every client takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shows {
    compaction: bool,
    notices: bool,
}

impl Shows {
    pub(super) fn of(capabilities: &ClientCapabilities) -> Self {
        let session = capabilities.session.as_ref();
        Self {
            compaction: session.is_some_and(|session| session.compaction.is_some()),
            notices: session.is_some_and(|session| session.notices.is_some()),
        }
    }

    /// Returns news as this client takes it: a compaction is a notice, or else a thought, with the
    /// first text that the client would have been shown.
    pub(super) fn fit(self, news: SessionUpdate) -> SessionUpdate {
        match news {
            SessionUpdate::CompactionUpdate(update) if !self.compaction => {
                let words = words(&update);
                if self.notices {
                    let notice = Notice::new(NoticeSeverity::Info, "Older messages make room");
                    return SessionUpdate::Notice(notice.description(words));
                }
                // One message, however often something is said of it.
                let message = MessageId::new(update.compaction_id.0);
                let chunk = ContentChunk::new(ContentBlock::from(words + "\n"));
                SessionUpdate::AgentThoughtChunk(chunk.message_id(message))
            }
            other => other,
        }
    }
}

fn words(update: &CompactionUpdate) -> String {
    match &update.summary {
        MaybeUndefined::Value(blocks) => match blocks.first() {
            Some(ContentBlock::Text(text)) => text.text.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{CompactionStatus, UsageUpdate};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    fn told(capabilities: &Value, news: SessionUpdate) -> Value {
        let session = serde_json::from_value(json!({ "session": capabilities })).unwrap();
        serde_json::to_value(Shows::of(&session).fit(news)).unwrap()
    }

    #[test]
    fn a_compaction_is_told_as_the_client_can_show_it() {
        let summary = vec![ContentBlock::from("It is shorter."), ContentBlock::from("All of it.")];
        let update = CompactionUpdate::new("c1", CompactionStatus::Completed).summary(summary);
        let update = SessionUpdate::CompactionUpdate(update);
        let all = told(&json!({"compaction": {}, "notices": {}}), update.clone());
        assert_eq!(all, serde_json::to_value(&update).unwrap());
        assert_eq!(
            told(&json!({"notices": {}}), update.clone()),
            json!({
                "sessionUpdate": "notice",
                "severity": "info",
                "title": "Older messages make room",
                "description": "It is shorter.",
            })
        );
        for capabilities in [json!({}), Value::Null] {
            assert_eq!(
                told(&capabilities, update.clone()),
                json!({
                    "sessionUpdate": "agent_thought_chunk",
                    "messageId": "c1",
                    "content": {"type": "text", "text": "It is shorter.\n"},
                })
            );
        }
    }

    #[test]
    fn other_news_stays_as_it_is() {
        let news = SessionUpdate::UsageUpdate(UsageUpdate::new(1, 2));
        assert_eq!(told(&Value::Null, news.clone()), serde_json::to_value(news).unwrap());
    }
}
