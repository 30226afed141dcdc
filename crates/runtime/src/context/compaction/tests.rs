//! Tests of the compaction of full sessions: the remaining messages, and the updates to the client.

use std::sync::Mutex;
use std::time::SystemTime;

use acp_lifecycle::{ClientUnreachable, OutboxItem, OutboxSink, Session, drive_session};
use acp_types::wire::v1::{TerminalDisplay, V1Projection, WireUpdate};
use callboard_models::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStopReason, ReplyStream, ToolResult,
};
use futures::{StreamExt as _, stream};
use pretty_assertions::assert_eq;
use tokio::time::Instant;

use super::*;
use crate::limits;

/// A model that returns a fixed summary, fails, or never answers.
#[derive(Debug)]
enum SummaryModel {
    Says(&'static str),
    /// Answers the given number of requests with the error, and later requests with a summary.
    FailsFirst(ModelError, usize),
    Fails,
    Hangs,
}

impl Model for SummaryModel {
    fn name(&self) -> &'static str {
        "summariser"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let says = |text: &str| {
            vec![
                ModelEvent::Text(text.to_owned()),
                ModelEvent::Usage(used()),
                ModelEvent::Stop(ModelStopReason::EndTurn),
            ]
        };
        let events = match self {
            Self::FailsFirst(error, times) if request.index < INDEX + times => {
                vec![ModelEvent::Error(error.clone())]
            }
            Self::FailsFirst(..) => says("At last."),
            Self::Says(text) => says(text),
            Self::Fails => Vec::new(),
            Self::Hangs => return stream::pending().boxed(),
        };
        stream::iter(events).boxed()
    }
}

/// Returns the token usage of a summary.
fn used() -> TokenUsage {
    let mut usage = TokenUsage::default();
    usage.input_tokens = Some(9);
    usage
}

/// Number of requests to the model before the compaction.
const INDEX: usize = 3;

struct TestCompaction {
    handle: SessionHandle,
    cancel: CancellationToken,
    /// The client, which records the updates in order.
    client: CompactionClient,
}

#[derive(Clone, Default)]
struct CompactionClient(Arc<Mutex<Vec<WireUpdate>>>);

impl OutboxSink for CompactionClient {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if let OutboxItem::State(state) = item {
            self.0
                .lock()
                .unwrap()
                .push(V1Projection::new(TerminalDisplay::Text).update_for_state(&state));
        }
        Ok(())
    }
}

impl TestCompaction {
    fn new() -> Self {
        let handle = SessionHandle::new(Session::new("/w"), SystemTime::now);
        Self { handle, cancel: CancellationToken::new(), client: CompactionClient::default() }
    }

    async fn make(
        &self,
        model: &SummaryModel,
        messages: &mut Vec<Arc<ChatMessage>>,
    ) -> CompactionOutcome {
        self.make_because(CompactionCause::NearlyFull, model, messages).await
    }

    async fn make_because(
        &self,
        cause: CompactionCause,
        model: &SummaryModel,
        messages: &mut Vec<Arc<ChatMessage>>,
    ) -> CompactionOutcome {
        let budget = ContextBudget::new("summariser", Some(20_000));
        let (handle, cancel) = (&self.handle, &self.cancel);
        let maker = Compactor {
            model,
            handle,
            cancel,
            overhead_bytes: 4_000,
            index: INDEX,
            plan_tool: None,
            cause,
        };
        let made = maker.compact(&budget, messages).await;
        let stop = CancellationToken::new();
        stop.cancel();
        drive_session(self.handle.clone(), self.client.clone(), stop).await;
        made
    }

    fn last(&self) -> serde_json::Value {
        serde_json::to_value(self.client.0.lock().unwrap().last().unwrap()).unwrap()
    }
}

fn session(prompts: usize, results: usize) -> Vec<Arc<ChatMessage>> {
    let said = || ChatMessage::Assistant {
        text: "s".repeat(1_000),
        thought: String::new(),
        calls: Vec::new(),
        replay: None,
    };
    let result = |_| ToolResult::new("1", "grep", "r".repeat(3_000));
    let mut messages = Vec::new();
    for n in 0..prompts {
        messages.extend([ChatMessage::user(format!("prompt {n}")), said()]);
        if results > 0 {
            messages.push(ChatMessage::ToolResults((0..results).map(result).collect()));
        }
    }
    messages.into_iter().map(Arc::new).collect()
}

#[tokio::test]
async fn only_older_results_are_cleared_if_that_is_enough() {
    let stage = TestCompaction::new();
    let mut messages = session(4, 5);
    let count = messages.len();
    let made = stage.make(&SummaryModel::Fails, &mut messages).await;
    assert!(matches!(made, CompactionOutcome::Compacted { requests: 0, usage: None }), "{made:?}");
    assert_eq!(messages.len(), count);
    assert!(4_000 + total_estimated_bytes(&messages) <= 40_000);
    let last = stage.last();
    assert_eq!(last["status"], "completed");
    let words = last["summary"][0]["text"].as_str().unwrap();
    assert!(words.contains("older results of calls were left out."), "{words}");
    assert_eq!(last["_meta"]["callboard"]["contextTokens"], 20_000);
    assert_eq!(stage.client.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_summary_takes_the_place_of_older_messages() {
    let stage = TestCompaction::new();
    let mut messages = session(80, 0);
    let made = stage.make(&SummaryModel::Says("All was well."), &mut messages).await;
    assert!(matches!(made, CompactionOutcome::Compacted { requests: 1, .. }), "{made:?}");
    assert!(4_000 + total_estimated_bytes(&messages) <= 40_000);
    assert!(matches!(&*messages[0], ChatMessage::Context(text) if text.contains("All was well.")));
    assert!(messages.contains(&Arc::new(ChatMessage::user("prompt 79"))));
    let last = stage.last();
    assert_eq!(
        (&last["status"], &last["summary"][1]["text"]),
        (&"completed".into(), &"All was well.".into())
    );
    let [before, after] = ["tokensBefore", "tokensAfter"]
        .map(|key| last["_meta"]["callboard"][key].as_u64().unwrap());
    assert!(before > 20_000 && after <= 10_000, "{before} {after}");
}

fn failure(fault: ModelErrorKind, retry_after: Option<Duration>) -> ModelError {
    ModelError::new(fault, "busy").with_status(429).with_retry_after(retry_after)
}

#[tokio::test(start_paused = true)]
async fn a_summary_request_to_a_busy_model_is_retried() {
    let pause = Duration::from_secs(30);
    let model = SummaryModel::FailsFirst(failure(ModelErrorKind::Transient, Some(pause)), 2);
    let (stage, before) = (TestCompaction::new(), Instant::now());
    let mut messages = session(80, 0);
    let made = stage.make(&model, &mut messages).await;
    assert!(matches!(made, CompactionOutcome::Compacted { requests: 3, .. }), "{made:?}");
    assert!((pause * 2..pause * 3).contains(&before.elapsed()), "{:?}", before.elapsed());
    assert!(matches!(&*messages[0], ChatMessage::Context(text) if text.contains("At last.")));
    let last = stage.last();
    assert_eq!(
        (&last["status"], &last["summary"][1]["text"]),
        (&"completed".into(), &"At last.".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_summary_request_has_as_many_retries_as_a_reply() {
    for (fault, asked) in [
        (ModelErrorKind::Transient, 1 + limits::MAX_RETRIES),
        (ModelErrorKind::IdleTimeout, 1 + limits::MAX_COSTLY_RETRIES),
        (ModelErrorKind::ContextTooLong, 1),
        (ModelErrorKind::Auth, 1),
    ] {
        let model = SummaryModel::FailsFirst(failure(fault, None), 100);
        let stage = TestCompaction::new();
        let made = stage.make(&model, &mut session(80, 0)).await;
        assert!(
            matches!(made, CompactionOutcome::Compacted { requests: times, .. } if times == asked),
            "{made:?}"
        );
        assert_eq!(stage.last()["error"], "the model failed: busy (status 429)");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_before_the_retry_of_a_summary_does_not_change_the_session() {
    let stage = TestCompaction::new();
    let model = SummaryModel::FailsFirst(failure(ModelErrorKind::Transient, None), 100);
    let mut messages = session(80, 0);
    let before = messages.clone();
    // The model fails at once, so the first poll reaches the delay before the retry.
    let cancel = async { stage.cancel.cancel() };
    let (made, ()) = tokio::join!(stage.make(&model, &mut messages), cancel);
    assert!(matches!(made, CompactionOutcome::Cancelled { requests: 1 }), "{made:?}");
    assert_eq!(messages, before);
    assert_eq!(stage.last()["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn without_a_summary_the_prompts_are_kept_and_the_client_is_informed() {
    let stage = TestCompaction::new();
    let mut messages = session(80, 0);
    stage.make(&SummaryModel::Fails, &mut messages).await;
    assert!(matches!(&*messages[0], ChatMessage::Context(text) if text.contains("USER: prompt 3")));
    let last = stage.last();
    assert_eq!(last["error"], "the model failed: its reply was cut off");
    assert!(last["summary"][0]["text"].as_str().unwrap().contains("without a summary"));
}

#[tokio::test]
async fn a_cancelled_compaction_does_not_change_the_session() {
    let stage = TestCompaction::new();
    let mut messages = session(80, 0);
    let before = messages.clone();
    stage.cancel.cancel();
    let made = stage.make(&SummaryModel::Hangs, &mut messages).await;
    assert!(matches!(made, CompactionOutcome::Cancelled { requests: 1 }), "{made:?}");
    assert_eq!(messages, before);
    assert_eq!(stage.last()["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn if_nothing_can_be_removed_no_summary_is_requested_or_sent() {
    let stage = TestCompaction::new();
    let short = session(1, 0);
    let only_replacement = vec![
        Arc::new(ChatMessage::Context(summary::replacement_text(
            Some(&"x".repeat(50_000)),
            &[],
            None,
            1 << 20,
        ))),
        Arc::new(ChatMessage::user("x".repeat(90_000))),
    ];
    let alone = vec![Arc::new(ChatMessage::user("x".repeat(90_000)))];
    let [first, reply] = [session(1, 0)[0].clone(), session(1, 0)[1].clone()];
    let long = Arc::new(ChatMessage::user("x".repeat(70_000)));
    let result = ChatMessage::ToolResults(vec![ToolResult::new("1", "grep", "r".repeat(1_000))]);
    let long_prompt = vec![first, reply.clone(), long, reply, Arc::new(result)];
    for mut messages in [short, only_replacement, alone, long_prompt] {
        let before = messages.clone();
        let made = stage.make(&SummaryModel::Hangs, &mut messages).await;
        assert!(
            matches!(made, CompactionOutcome::Nothing { requests: 0, usage: None }),
            "{made:?}"
        );
        assert_eq!(messages, before);
    }
    assert!(stage.client.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_summary_that_makes_no_room_is_counted_and_reported() {
    let stage = TestCompaction::new();
    let long = Arc::new(ChatMessage::user("x".repeat(70_000)));
    let mut messages = vec![Arc::new(ChatMessage::user("hi")), long];
    let before = messages.clone();
    let model = SummaryModel::Says("They said hi, and nothing else.");
    let made = stage.make_because(CompactionCause::Refused, &model, &mut messages).await;
    let CompactionOutcome::Nothing { requests: 1, usage } = made else { panic!("{made:?}") };
    assert_eq!((usage, messages), (Some(used()), before));
    let last = stage.last();
    assert_eq!(last["status"], "failed");
    assert!(last["error"].as_str().unwrap().contains("not shorter"), "{last}");
}
