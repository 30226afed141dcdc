//! Tests of stored sessions of an agent in this process, with a store in memory.

use std::sync::mpsc;
use std::time::SystemTime;

use acp_conformance::{AgentUnderTest, ClientBehaviour};
use acp_lifecycle::{OutboxItem, Secrets, SessionHandle};
use acp_store::{
    MemorySessionStore, NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionFilter,
    SessionRecord,
};
use acp_types::{MessageChunk, Status, ToolCallPatch, ToolKind};
use agent_client_protocol::v1::schema::ContentBlock;
use callboard_models::direct::DirectModel;
use callboard_models::{ChatMessage, ContentPart, ModelToolCall, ProviderReplay, ToolResult};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::CodingAgent;
use crate::secrets::LiveSecrets;
use crate::stored_sessions::model_message::{message_record, read_message};

/// Returns an agent that stores its sessions in the store that `open` returns.
async fn agent(
    open: impl Fn() -> Result<Arc<dyn SessionStore>, SessionStoreError> + Send + Sync + 'static,
) -> AgentUnderTest {
    let agent = CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let agent = agent.with_session_store(open);
    let mut agent = AgentUnderTest::in_process(agent, ClientBehaviour::default());
    agent.initialize().await.unwrap();
    agent
}

pub(crate) fn records(store: &MemorySessionStore, id: &str, stream: RecordStream) -> Vec<String> {
    let mut load = store.begin_load(&id.to_owned().into(), stream, u64::MAX).unwrap();
    store.load_next_records(&mut load).unwrap().into_iter().map(|record| record.kind).collect()
}

#[tokio::test]
async fn records_that_cannot_be_read_are_left_out_and_counted_for_the_user() {
    let store = MemorySessionStore::new();
    let cwd = std::env::temp_dir();
    let folder = SessionCwdPaths { cwd: cwd.clone(), canonical: cwd.clone() };
    let new = NewSession::new("old", folder);
    let record = |version| SessionRecord::new("message", version, &json!({"type": "x"})).unwrap();
    let changes = [
        SessionChange::Prompt(record(1)),
        SessionChange::Append(record(99)),
        SessionChange::Append(record(99).with_stream(RecordStream::Model)),
    ];
    drop(store.create(&new, &changes, SystemTime::now()).unwrap());
    let opened = store.clone();
    let mut agent = agent(move || Ok(Arc::new(opened.clone()))).await;
    let params = json!({"sessionId": "old", "cwd": cwd, "mcpServers": []});
    agent.send_request_and_wait("session/load", params).await.unwrap();
    assert_eq!(
        agent.client.session("old").thought_text(),
        "",
        "clients expect no message outside of a turn"
    );
    assert_eq!(agent.prompt_and_wait_for_stop("old", "list").await.unwrap(), "end_turn");
    let thoughts = agent.client.session("old").thought_text();
    assert!(thoughts.contains("3 records of this session are damaged"), "{thoughts}");
    // A notice is a part of its turn.
    let kinds = records(&store, "old", RecordStream::Client);
    assert_eq!(kinds.iter().filter(|kind| **kind == "message").count(), 4, "{kinds:?}");
}

#[tokio::test]
async fn a_turn_is_answered_though_the_store_does_not_open() {
    let (hold, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let mut agent = agent(move || {
        let _is_dropped = held.lock().unwrap().recv();
        Err(SessionStoreError::WriterEnded)
    })
    .await;
    let id = agent.new_session(&std::env::temp_dir()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(agent.prompt_and_wait_for_stop(&id, "list").await.unwrap(), "end_turn");
    }
    let thoughts = agent.client.session(&id).thought_text();
    assert_eq!(thoughts.matches("This session is not stored").count(), 1, "{thoughts}");
    drop(hold);
}

#[tokio::test]
async fn messages_that_change_are_stored_anew() {
    let store = MemorySessionStore::new();
    let opened = LazySessionStore::new({
        let store = store.clone();
        move || Ok(Arc::new(store.clone()))
    });
    let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
    let recording = SessionRecording::begin_new_session(
        opened,
        NewSession::new("s", folder),
        LiveSecrets::from_env([]),
    );
    let handle = SessionHandle::new(acp_lifecycle::Session::new("/p"), SystemTime::now);
    recording.record_prompt(&"t1".into(), &[ContentBlock::from("hi")], &handle);
    let message = |text: &str| Arc::new(ChatMessage::user(text));
    let (first, second) = (message("1"), message("2"));
    let secrets = Secrets::default();
    recording.record_messages(std::slice::from_ref(&first), 0, &secrets);
    recording.record_messages(&[first, second.clone()], 0, &secrets);
    recording.commit().await;
    let stored = || records(&store, "s", RecordStream::Model);
    assert_eq!(stored(), ["model_message", "model_message"]);
    recording.record_messages(&[second], 1, &secrets);
    recording.commit().await;
    assert_eq!(stored(), ["model_reset", "model_message"]);
    assert_eq!(recording.take_notice(), None);
    recording.close().await;
    assert_eq!(store.list(&SessionFilter::default()).unwrap().sessions.len(), 1);
    drop(store.open(&"s".into()).expect("it is free"));
}

/// Returns a recording, and a sender. The store of the recording opens when a message is sent.
pub(crate) fn held_recording(
    store: &MemorySessionStore,
) -> (Arc<SessionRecording>, mpsc::Sender<()>) {
    let (open, held) = mpsc::channel();
    let (store, held) = (store.clone(), std::sync::Mutex::new(held));
    let opened = LazySessionStore::new(move || {
        let _is_dropped = held.lock().unwrap().recv();
        Ok(Arc::new(store.clone()))
    });
    let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
    (
        SessionRecording::begin_new_session(
            opened,
            NewSession::new("s", folder),
            LiveSecrets::from_env([]),
        ),
        open,
    )
}

#[tokio::test]
async fn an_item_on_which_the_client_may_rely_is_delivered_after_its_commit() {
    let store = MemorySessionStore::new();
    let (recording, open) = held_recording(&store);
    let handle = SessionHandle::new(acp_lifecycle::Session::new("/p"), SystemTime::now);
    recording.record_prompt(&"t1".into(), &[ContentBlock::from("hi")], &handle);
    let chunk = OutboxItem::Chunk(MessageChunk::from_agent("m", "text"));
    assert!(recording.record_item(&chunk).now_or_never().is_some());
    let call = |patch: ToolCallPatch| OutboxItem::ToolCall("c".into(), patch);
    let new = ToolCallPatch::for_new_call("tool", "Title", ToolKind::Read);
    // The message ends where the call begins, so the message is complete.
    let mut announced = Box::pin(recording.record_item(&call(new)));
    assert!(announced.as_mut().now_or_never().is_none());
    let running = ToolCallPatch::new().with_status(Status::InProgress);
    assert!(recording.record_item(&call(running)).now_or_never().is_some());
    let ended = ToolCallPatch::new().with_status(Status::Completed);
    let mut ended = Box::pin(recording.record_item(&call(ended)));
    assert!(ended.as_mut().now_or_never().is_none());
    let mut answered = Box::pin(recording.record_item(&OutboxItem::PromptResponse("t1".into())));
    assert!(answered.as_mut().now_or_never().is_none());
    open.send(()).unwrap();
    tokio::join!(announced, ended, answered);
    assert_eq!(records(&store, "s", RecordStream::Client), ["prompt", "message", "call"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_change_before_a_pause_is_recorded_within_a_second() {
    let store = MemorySessionStore::new();
    let (recording, open) = held_recording(&store);
    open.send(()).unwrap();
    let handle = SessionHandle::new(acp_lifecycle::Session::new("/p"), SystemTime::now);
    recording.record_prompt(&"t1".into(), &[ContentBlock::from("hi")], &handle);
    for text in ["first", " and last"] {
        let chunk = OutboxItem::Chunk(MessageChunk::from_agent("m", text));
        recording.record_item(&chunk).await;
    }
    // Yield before and after the time is advanced, so that the task that waits for this time runs.
    tokio::task::yield_now().await;
    tokio::time::advance(acp_lifecycle::limits::OPEN_DOCUMENT_INTERVAL * 2).await;
    tokio::task::yield_now().await;
    tokio::time::resume();
    recording.commit().await;
    let mut load = store.begin_load(&"s".into(), RecordStream::Client, u64::MAX).unwrap();
    let last = store.load_next_records(&mut load).unwrap().pop().unwrap();
    assert!(last.json.contains("first and last"), "{}", last.json);
}

#[tokio::test]
async fn changes_for_whose_commit_nobody_waits_are_committed_too() {
    let message = |text: &str| Arc::new(ChatMessage::user(text));
    let stored_messages = async |store: &MemorySessionStore, count: usize| {
        let begun = std::time::Instant::now();
        while store.list(&SessionFilter::default()).unwrap().sessions.is_empty()
            || records(store, "s", RecordStream::Model).len() < count
        {
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "nothing is committed");
            tokio::task::yield_now().await;
        }
    };
    let store = MemorySessionStore::new();
    let (recording, open) = held_recording(&store);
    open.send(()).unwrap();
    let handle = SessionHandle::new(acp_lifecycle::Session::new("/p"), SystemTime::now);
    recording.record_prompt(&"t1".into(), &[ContentBlock::from("hi")], &handle);
    recording.commit().await;
    let secrets = Secrets::default();
    recording.record_messages(&[message("1")], 0, &secrets);
    stored_messages(&store, 1).await;
    // The last changes are committed also if the recording is dropped at once.
    recording.record_messages(&[message("1"), message("2")], 0, &secrets);
    drop(recording);
    stored_messages(&store, 2).await;
}

#[test]
fn a_message_is_read_as_it_was_stored_without_its_secrets() {
    let secrets = Secrets::default().with_added_values(["s3cr3t-value"]);
    let items = json!([{"signature": "s3cr3t-value"}]);
    let part = |text: &str| ContentPart::Text(text.to_owned());
    let image = ContentPart::Image { media_type: "image/png".into(), data: "AA==".into() };
    let result = |text: &str| {
        let mut result = ToolResult::error(&ModelToolCall::new("c", "read", "{}"), text);
        result.parts = vec![image.clone()];
        result
    };
    let assistant = |text: &str| ChatMessage::Assistant {
        text: text.into(),
        thought: text.into(),
        calls: vec![ModelToolCall::new("c", "read", text)],
        replay: Some(ProviderReplay { origin: "o".into(), items: items.clone() }),
    };
    for (message, expected) in [
        (
            ChatMessage::User(vec![part("a s3cr3t-value")]),
            ChatMessage::User(vec![part("a [redacted]")]),
        ),
        (ChatMessage::Context("s3cr3t-value".into()), ChatMessage::Context("[redacted]".into())),
        (assistant("s3cr3t-value"), assistant("[redacted]")),
        (
            ChatMessage::ToolResults(vec![result("s3cr3t-value")]),
            ChatMessage::ToolResults(vec![result("[redacted]")]),
        ),
    ] {
        let store = MemorySessionStore::new();
        let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
        let record = message_record(&message, &secrets).unwrap();
        let prompt = SessionRecord::new("prompt", 1, &()).unwrap();
        let changes = [SessionChange::Prompt(prompt), SessionChange::Append(record)];
        let new = NewSession::new("s", folder);
        drop(store.create(&new, &changes, SystemTime::now()).unwrap());
        let mut load = store.begin_load(&new.id, RecordStream::Model, u64::MAX).unwrap();
        let read = read_message(&store.load_next_records(&mut load).unwrap()[0]);
        assert_eq!(read, Ok(Some(expected)));
    }
}
