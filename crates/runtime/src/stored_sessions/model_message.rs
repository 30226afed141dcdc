//! The stored form of a model's messages. This form has its own version, so that the message type
//! in requests can change without affecting stored messages.
//!
//! All texts are redacted, except replay data, which must be returned to the provider unchanged and
//! may be signed.

use std::sync::Arc;

use acp_lifecycle::Secrets;
use acp_store::{RecordStream, SessionRecord, SessionStore, SessionStoreError, StoredRecord};
use agent_client_protocol::v1::schema::SessionId;
use callboard_models::{ChatMessage, ContentPart, ModelToolCall, ProviderReplay, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Kind of the records that contain a message.
const KIND: &str = "model_message";
/// Kind of a record that replaces all earlier records, although it contains no message.
const RESET_KIND: &str = "model_reset";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum StoredMessage {
    User {
        parts: Vec<StoredPart>,
    },
    Context {
        text: String,
    },
    Assistant {
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thought: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<StoredCall>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<StoredReplay>,
    },
    ToolResults {
        results: Vec<StoredResult>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StoredPart {
    Text { text: String },
    Image { media_type: String, data: String },
    Audio { media_type: String, data: String },
}

#[derive(Serialize, Deserialize)]
struct StoredCall {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Serialize, Deserialize)]
struct StoredReplay {
    origin: String,
    items: Value,
}

#[derive(Serialize, Deserialize)]
struct StoredResult {
    call_id: String,
    name: String,
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<StoredPart>,
    is_error: bool,
}

/// Creates the record of a message.
pub(super) fn message_record(
    message: &ChatMessage,
    secrets: &Secrets,
) -> Result<SessionRecord, SessionStoreError> {
    let record = SessionRecord::new(KIND, VERSION, &StoredMessage::new(message, secrets))?;
    Ok(record.with_stream(RecordStream::Model))
}

/// Creates a record that discards all messages before it.
pub(super) fn reset_record() -> Result<SessionRecord, SessionStoreError> {
    let record = SessionRecord::new(RESET_KIND, VERSION, &())?;
    Ok(record.with_stream(RecordStream::Model).with_stream_start())
}

/// Parses a record of the model's stream. Returns `None` if the record contains no message.
///
/// # Errors
///
/// Returns an error if the kind or the version of the record is unknown, or if its JSON has another
/// form.
pub(super) fn read_message(record: &StoredRecord) -> Result<Option<ChatMessage>, UnreadableRecord> {
    match (&*record.kind, record.version) {
        (KIND, VERSION) => {
            let message = record.parse_json::<StoredMessage>();
            message.map(|message| Some(message.into())).map_err(|_malformed| UnreadableRecord)
        }
        (RESET_KIND, VERSION) => Ok(None),
        _ => Err(UnreadableRecord),
    }
}

/// Reads the messages of the model. Also returns the number of records that could not be read.
pub(crate) fn read_messages(
    store: &dyn SessionStore,
    id: &SessionId,
) -> Result<(Vec<Arc<ChatMessage>>, u64), SessionStoreError> {
    let mut load = store.begin_load(id, RecordStream::Model, u64::MAX)?;
    let (mut messages, mut unread) = (Vec::new(), 0);
    loop {
        let page = store.load_next_records(&mut load)?;
        if page.is_empty() {
            return Ok((with_matching_results(messages), load.damaged + unread));
        }
        for record in &page {
            match read_message(record) {
                Ok(message) => messages.extend(message),
                Err(_) => unread += 1,
            }
        }
    }
}

/// Adds results for calls whose results are missing, and removes results without calls. Providers
/// refuse a history in which a call is not directly followed by its result, e.g. after a record was
/// damaged.
fn with_matching_results(messages: Vec<ChatMessage>) -> Vec<Arc<ChatMessage>> {
    let mut matching: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    // Add no results to the last reply, because `History` adds its missing results.
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        let called = match &message {
            ChatMessage::ToolResults(_) => continue,
            ChatMessage::Assistant { calls, .. } if !calls.is_empty() => calls.clone(),
            _ => Vec::new(),
        };
        matching.push(message);
        if called.is_empty() || messages.peek().is_none() {
            continue;
        }
        let found = messages.next_if(|next| matches!(next, ChatMessage::ToolResults(_)));
        let mut found = match found {
            Some(ChatMessage::ToolResults(results)) => results,
            _ => Vec::new(),
        };
        let results = called.into_iter().map(|call| {
            let at = found.iter().position(|result| result.call_id == call.id);
            at.map_or_else(|| lost_result(&call), |at| found.swap_remove(at))
        });
        matching.push(ChatMessage::ToolResults(results.collect()));
    }
    matching.into_iter().map(Arc::new).collect()
}

fn lost_result(call: &ModelToolCall) -> ToolResult {
    ToolResult::error(call, "The result was lost, because its stored record is damaged.")
}

/// A stored record that this version cannot parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnreadableRecord;

impl StoredMessage {
    fn new(message: &ChatMessage, secrets: &Secrets) -> Self {
        let redact = |text: &str| secrets.redact(text).into_owned();
        match message {
            ChatMessage::User(parts) => {
                Self::User { parts: parts.iter().map(|part| stored_part(part, secrets)).collect() }
            }
            ChatMessage::Context(text) => Self::Context { text: redact(text) },
            ChatMessage::Assistant { text, thought, calls, replay } => Self::Assistant {
                text: redact(text),
                thought: redact(thought),
                calls: calls
                    .iter()
                    .map(|call| StoredCall {
                        id: call.id.clone(),
                        name: redact(&call.name),
                        arguments: redact(&call.arguments),
                    })
                    .collect(),
                replay: replay.as_ref().map(|replay| StoredReplay {
                    origin: replay.origin.to_string(),
                    items: replay.items.clone(),
                }),
            },
            ChatMessage::ToolResults(results) => Self::ToolResults {
                results: results
                    .iter()
                    .map(|result| StoredResult {
                        call_id: result.call_id.clone(),
                        name: redact(&result.name),
                        text: redact(&result.text),
                        parts: result.parts.iter().map(|it| stored_part(it, secrets)).collect(),
                        is_error: result.is_error,
                    })
                    .collect(),
            },
        }
    }
}

fn stored_part(part: &ContentPart, secrets: &Secrets) -> StoredPart {
    match part {
        ContentPart::Text(text) => StoredPart::Text { text: secrets.redact(text).into_owned() },
        ContentPart::Image { media_type, data } => {
            StoredPart::Image { media_type: media_type.clone(), data: data.clone() }
        }
        ContentPart::Audio { media_type, data } => {
            StoredPart::Audio { media_type: media_type.clone(), data: data.clone() }
        }
    }
}

impl From<StoredPart> for ContentPart {
    fn from(part: StoredPart) -> Self {
        match part {
            StoredPart::Text { text } => Self::Text(text),
            StoredPart::Image { media_type, data } => Self::Image { media_type, data },
            StoredPart::Audio { media_type, data } => Self::Audio { media_type, data },
        }
    }
}

impl From<StoredMessage> for ChatMessage {
    fn from(message: StoredMessage) -> Self {
        let parts = |parts: Vec<StoredPart>| parts.into_iter().map(ContentPart::from).collect();
        match message {
            StoredMessage::User { parts: stored } => Self::User(parts(stored)),
            StoredMessage::Context { text } => Self::Context(text),
            StoredMessage::Assistant { text, thought, calls, replay } => Self::Assistant {
                text,
                thought,
                calls: calls
                    .into_iter()
                    .map(|StoredCall { id, name, arguments }| {
                        ModelToolCall::new(id, name, arguments)
                    })
                    .collect(),
                replay: replay.map(|StoredReplay { origin, items }| ProviderReplay {
                    origin: Arc::from(origin),
                    items,
                }),
            },
            StoredMessage::ToolResults { results } => Self::ToolResults(
                results
                    .into_iter()
                    .map(|stored| {
                        let mut result = ToolResult::new(stored.call_id, stored.name, stored.text);
                        result.parts = parts(stored.parts);
                        result.is_error = stored.is_error;
                        result
                    })
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_followed_by_its_result_whatever_record_is_missing() {
        let call = |id: &str| ModelToolCall::new(id, "t", "{}");
        let reply = |ids: &[&str]| ChatMessage::Assistant {
            text: String::new(),
            thought: String::new(),
            calls: ids.iter().map(|id| call(id)).collect(),
            replay: None,
        };
        let results = |ids: &[&str]| {
            let result = |id: &&str| ToolResult::error(&call(id), *id);
            ChatMessage::ToolResults(ids.iter().map(result).collect())
        };
        let prompt = || ChatMessage::User(Vec::new());
        let whole = [prompt(), reply(&["a", "b"]), results(&["a", "b"]), prompt(), reply(&["c"])];
        for missing in 0..=whole.len() {
            let mut messages = whole.to_vec();
            if missing < messages.len() {
                messages.remove(missing);
            }
            let repaired = with_matching_results(messages.clone());
            if missing == whole.len() {
                assert_eq!(repaired.iter().map(|it| (**it).clone()).collect::<Vec<_>>(), messages);
            }
            for (at, message) in repaired.iter().enumerate() {
                let ids = |results: &[ToolResult]| -> Vec<_> {
                    results.iter().map(|result| result.call_id.clone()).collect()
                };
                let before = at.checked_sub(1).map(|at| &*repaired[at]);
                match (before, &**message) {
                    (
                        Some(ChatMessage::Assistant { calls, .. }),
                        ChatMessage::ToolResults(found),
                    ) => {
                        let called: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
                        assert_eq!(ids(found), called, "{missing}");
                    }
                    (_, ChatMessage::ToolResults(_)) => panic!("results without calls: {missing}"),
                    (Some(ChatMessage::Assistant { calls, .. }), _) => assert!(calls.is_empty()),
                    _ => {}
                }
            }
        }
    }
}
