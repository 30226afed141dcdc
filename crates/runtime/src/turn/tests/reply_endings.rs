//! Tests of the ways in which a reply can end: the updates to the client, the next request, and the
//! answer to the prompt.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use acp_types::CompactionStatus;
use acp_types::schema::v1::{ImageContent, ToolCallStatus};
use callboard_models::TokenUsage;
use futures::future;
use pretty_assertions::assert_eq;
use tokio::time::Instant;

use super::*;

/// A model that sends one scripted reply per request, and then a final reply. The model records all
/// requests.
#[derive(Debug, Default)]
pub(super) struct FakeModel {
    replies: Mutex<VecDeque<Vec<ModelEvent>>>,
    pub(super) asked: Mutex<Vec<Vec<Arc<ChatMessage>>>>,
    traits: ModelCapabilities,
    /// This token is cancelled when a reply reaches the point at which it hangs.
    hangs: CancellationToken,
    /// Whether a reply that hangs has been dropped.
    is_dropped: Arc<AtomicBool>,
}

impl FakeModel {
    pub(super) fn new(replies: Vec<Vec<ModelEvent>>) -> Self {
        Self { replies: Mutex::new(replies.into()), ..Self::default() }
    }

    /// Makes the model accept images in prompts.
    pub(super) fn with_images(self) -> Self {
        Self { traits: self.traits.with_images(), ..self }
    }

    pub(super) fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// A value that sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A marker at the end of a scripted reply. At this marker, the reply hangs: no event follows, and
/// the reply does not end.
const HANGS: fn() -> ModelEvent = || {
    let mut usage = TokenUsage::default();
    usage.input_tokens = Some(0);
    ModelEvent::Usage(usage)
};

impl Model for FakeModel {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.traits
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        self.asked.lock().unwrap().push(request.messages.to_vec());
        let next = self.replies.lock().unwrap().pop_front();
        let mut events =
            next.unwrap_or_else(|| vec![text("Done."), ModelEvent::Stop(ModelStopReason::EndTurn)]);
        if events.last() != Some(&HANGS()) {
            return stream::iter(events).boxed();
        }
        events.pop();
        let (dropped, hangs) = (SetOnDrop(self.is_dropped.clone()), self.hangs.clone());
        let hangs = stream::once(async move {
            let _dropped = dropped;
            hangs.cancel();
            future::pending().await
        });
        stream::iter(events).chain(hangs).boxed()
    }
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn stop(stop: ModelStopReason) -> ModelEvent {
    ModelEvent::Stop(stop)
}

fn error_event(fault: ModelErrorKind) -> ModelEvent {
    ModelEvent::Error(error(fault))
}

/// Returns each message of a history as a line of text.
fn history_in_words(messages: &[Arc<ChatMessage>]) -> Vec<String> {
    let said = |message: &Arc<ChatMessage>| match &**message {
        ChatMessage::User(parts) => format!("user: {parts:?}"),
        ChatMessage::Context(text) => format!("context: {text}"),
        ChatMessage::Assistant { text, calls, .. } => {
            let calls: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
            format!("assistant: {text}{calls:?}")
        }
        ChatMessage::ToolResults(results) => {
            let result = |it: &callboard_models::ToolResult| {
                format!("{}{} {}", it.call_id, if it.is_error { "!" } else { ":" }, it.text)
            };
            format!("results: {}", results.iter().map(result).collect::<Vec<_>>().join(", "))
        }
    };
    messages.iter().map(said).map(|it| it.replace("user: [Text(\"go\")]", "go")).collect()
}

/// The replies of a turn, and the expected results of the turn.
struct Case {
    replies: Vec<Vec<ModelEvent>>,
    ending: Result<StopReason, i32>,
    /// The text that the client must show.
    said: &'static str,
    requests: usize,
    /// The messages of the history after the turn.
    history: &'static [&'static str],
    /// The number of completed calls, and the number of calls that ended in another way.
    calls: (usize, usize),
}

async fn check_turn(name: &str, case: Case) {
    let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(case.replies)));
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    check_valid(&history);
    assert_eq!(ending.map_err(|error| error.code.into()), case.ending, "{name}");
    assert_eq!(history_in_words(history.messages()), case.history, "{name}");
    assert_eq!(model.requests(), case.requests, "{name}");
    let started = stage.started.load(SeqCst);
    let seen = stage.end().await;
    assert_eq!(seen.said, case.said, "{name}");
    assert_eq!(seen.client_state.violations(), [], "{name}");
    let done =
        |status| seen.client_state.observed_calls().filter(|call| call.status == status).count();
    let ended = (done(ToolCallStatus::Completed), done(ToolCallStatus::Failed));
    assert_eq!(ended, case.calls, "{name}");
    assert_eq!(started, case.calls.0, "{name}");
}

/// Returns the event that starts a call, without its arguments.
fn started_call() -> Vec<ModelEvent> {
    vec![ModelEvent::CallStart { id: "a".into(), name: "look".into() }]
}

fn case(
    replies: Vec<Vec<ModelEvent>>,
    ending: Result<StopReason, i32>,
    said: &'static str,
    requests: usize,
    history: &'static [&'static str],
    calls: (usize, usize),
) -> Case {
    Case { replies, ending, said, requests, history, calls }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn whole_replies() -> Vec<(&'static str, Case)> {
    vec![
        (
            "a reply",
            case(
                vec![vec![text("Hi"), stop(ModelStopReason::EndTurn)]],
                Ok(StopReason::EndTurn),
                "Hi",
                1,
                &["go", "assistant: Hi[]"],
                (0, 0),
            ),
        ),
        (
            "an empty reply to a prompt",
            case(
                vec![vec![stop(ModelStopReason::EndTurn)]],
                Ok(StopReason::EndTurn),
                "The model's reply is empty.",
                1,
                &["go"],
                (0, 0),
            ),
        ),
        (
            "an empty reply after a call",
            case(
                vec![
                    [call("a", "look"), vec![stop(ModelStopReason::ToolCalls)]].concat(),
                    vec![stop(ModelStopReason::EndTurn)],
                ],
                Ok(StopReason::EndTurn),
                "",
                2,
                &["go", "assistant: [\"a\"]", "results: a: done"],
                (1, 0),
            ),
        ),
        (
            "calls that say that the turn is over",
            case(
                vec![[call("a", "look"), vec![stop(ModelStopReason::EndTurn)]].concat()],
                Ok(StopReason::EndTurn),
                "Done.",
                2,
                &["go", "assistant: [\"a\"]", "results: a: done", "assistant: Done.[]"],
                (1, 0),
            ),
        ),
        (
            "a call that is cut short",
            case(
                vec![
                    [vec![text("So")], started_call(), vec![stop(ModelStopReason::MaxTokens)]]
                        .concat(),
                ],
                Ok(StopReason::MaxTokens),
                "So",
                1,
                &[
                    "go",
                    "assistant: So[]",
                    "context: The reply ended here before it was whole. None of its calls was run.",
                ],
                (0, 1),
            ),
        ),
        (
            "a refusal",
            case(
                vec![
                    [call("a", "look"), vec![stop(ModelStopReason::ToolCalls)]].concat(),
                    vec![text("No."), stop(ModelStopReason::Refusal)],
                ],
                Ok(StopReason::Refusal),
                "No.",
                2,
                &[],
                (1, 0),
            ),
        ),
        (
            "arguments that are not JSON, and a tool that is not there",
            case(
                vec![
                    [
                        call_with("a", "look", "{\"path\": "),
                        call("b", "find"),
                        vec![stop(ModelStopReason::ToolCalls)],
                    ]
                    .concat(),
                ],
                Ok(StopReason::EndTurn),
                "Done.",
                2,
                &[
                    "go",
                    "assistant: [\"a\", \"b\"]",
                    "results: a! The arguments are not JSON: EOF while parsing a value at line 1 \
                     column 9. Send one JSON object., b! There is no tool \"find\". The tools are: \
                     look, alter, order.",
                    "assistant: Done.[]",
                ],
                (0, 2),
            ),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn broken_replies() -> Vec<(&'static str, Case)> {
    vec![
        (
            "a fault that passes",
            case(
                vec![
                    vec![error_event(ModelErrorKind::Transient)],
                    vec![],
                    vec![error_event(ModelErrorKind::Transient)],
                ],
                Ok(StopReason::EndTurn),
                "Done.",
                4,
                &["go", "assistant: Done.[]"],
                (0, 0),
            ),
        ),
        (
            "a reply that breaks off once, with a call",
            case(
                vec![
                    [
                        vec![text("We")],
                        call("a", "look"),
                        vec![error_event(ModelErrorKind::Transient)],
                    ]
                    .concat(),
                ],
                Ok(StopReason::EndTurn),
                "WeDone.",
                2,
                &["go", "assistant: Done.[]"],
                (0, 1),
            ),
        ),
        (
            "a reply that breaks off twice",
            case(
                vec![
                    vec![text("We"), error_event(ModelErrorKind::Transient)],
                    [
                        vec![text("So")],
                        started_call(),
                        vec![error_event(ModelErrorKind::Transient)],
                    ]
                    .concat(),
                ],
                Err(-32603),
                "WeSo",
                2,
                &[
                    "go",
                    "assistant: So[]",
                    "context: The reply broke off here because of an error. None of its calls was run.",
                ],
                (0, 1),
            ),
        ),
        (
            "a fault that does not pass",
            case(
                vec![vec![error_event(ModelErrorKind::Transient)]; limits::MAX_RETRIES + 1],
                Err(-32603),
                "",
                limits::MAX_RETRIES + 1,
                &["go"],
                (0, 0),
            ),
        ),
        (
            "no key",
            case(
                vec![vec![error_event(ModelErrorKind::Auth)]],
                Err(-32000),
                "",
                1,
                &["go"],
                (0, 0),
            ),
        ),
        (
            "another fault",
            case(
                vec![vec![error_event(ModelErrorKind::Other)]],
                Err(-32603),
                "",
                1,
                &["go"],
                (0, 0),
            ),
        ),
        (
            "too long, with nothing to leave out",
            case(
                vec![vec![error_event(ModelErrorKind::ContextTooLong)]],
                Err(-32603),
                "",
                1,
                &["go"],
                (0, 0),
            ),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_the_stop_reason_of_its_last_reply() {
    for (name, case) in whole_replies() {
        check_turn(name, case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_reply_is_requested_again_if_that_may_help() {
    for (name, case) in broken_replies() {
        check_turn(name, case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_too_long_is_summarised_and_continues() {
    let stage = TurnFixture::new();
    let long = || vec![text(&"long ".repeat(2_000)), stop(ModelStopReason::EndTurn)];
    let too_long = vec![error_event(ModelErrorKind::ContextTooLong)];
    let model = Arc::new(FakeModel::new(vec![long(), long(), long(), too_long]));
    let mut history = History::default();
    for prompt in ["one", "two", "three", "four"] {
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from(prompt)]).await;
        assert_eq!(ending, Ok(StopReason::EndTurn));
    }
    let asked = model.asked.lock().unwrap().clone();
    // The fifth of these requests is the request for the summary.
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [1, 3, 5, 7, 1, 2]);
    assert!(matches!(&*asked[5][0], ChatMessage::Context(summary) if summary.contains("Done.")));
    assert_eq!(*asked[5][1], ChatMessage::user("four"));
    check_valid(&history);
    assert_eq!(history.usage_totals().requests, 6);
    drop(stage.end().await);
}

/// Returns the statuses of the compactions that a client has received.
fn compaction_statuses(seen: &ClientRecord) -> Vec<CompactionStatus> {
    let statuses = seen.states.iter().filter_map(|state| match state {
        SessionStatePart::Compaction(compaction) => Some(compaction.status),
        _ => None,
    });
    statuses.collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_prompt_after_a_short_exchange_is_not_followed_by_summaries() {
    let looks = |id: &str| [call(id, "look"), vec![stop(ModelStopReason::ToolCalls)]].concat();
    let hello = vec![text("Hello."), stop(ModelStopReason::EndTurn)];
    let replies = [vec![hello], ["a", "b", "c", "d"].map(looks).to_vec()].concat();
    let traits = ModelCapabilities::new().with_context_tokens(16_000);
    let (stage, model) =
        (TurnFixture::new(), Arc::new(FakeModel { traits, ..FakeModel::new(replies) }));
    let mut history = History::default();
    for prompt in ["hi".to_owned(), "log ".repeat(13_000)] {
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from(prompt)]).await;
        assert_eq!(ending, Ok(StopReason::EndTurn));
    }
    assert_eq!(model.requests(), 1 + 5);
    assert_eq!(compaction_statuses(&stage.end().await), []);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_makes_no_room_is_counted_and_its_compaction_ends() {
    let mut usage = TokenUsage::default();
    usage.input_tokens = Some(1_000);
    let hello = vec![text("Hello."), stop(ModelStopReason::EndTurn)];
    let too_long = vec![error_event(ModelErrorKind::ContextTooLong)];
    let summary = vec![
        text(&"They said hello. ".repeat(100)),
        ModelEvent::Usage(usage),
        stop(ModelStopReason::EndTurn),
    ];
    let (stage, model) =
        (TurnFixture::new(), Arc::new(FakeModel::new(vec![hello, too_long, summary])));
    let mut history = History::default();
    drop(stage.run(&model, &mut history, vec![ContentBlock::from("hi")]).await);
    let long = ContentBlock::from("log ".repeat(15_000));
    let ending = stage.run(&model, &mut history, vec![long]).await;
    assert!(ending.is_err());
    assert_eq!(model.requests(), 3);
    let spent = history.usage_totals();
    assert_eq!((spent.requests, spent.input_tokens), (3, 1_000));
    let statuses = compaction_statuses(&stage.end().await);
    assert_eq!(statuses.last(), Some(&CompactionStatus::Failed));
}

#[tokio::test(start_paused = true)]
async fn the_delay_of_the_provider_is_used_and_sent_to_the_client() {
    let asked = Duration::from_secs(30);
    let busy = error(ModelErrorKind::Transient).with_retry_after(asked).with_status(429);
    let (stage, model) =
        (TurnFixture::new(), Arc::new(FakeModel::new(vec![vec![ModelEvent::Error(busy)]])));
    let (mut history, before) = (History::default(), Instant::now());
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    assert!((asked..asked * 2).contains(&before.elapsed()), "{:?}", before.elapsed());
    let thought = stage.end().await.thought;
    assert_eq!(thought, "The model failed: busy (status 429). It is asked again in 30.0 s.\n\n");
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_gets_two_requests() {
    let (stage, model) =
        (TurnFixture::new(), Arc::new(FakeModel::new(vec![vec![HANGS()], vec![HANGS()]])));
    let (mut history, before) = (History::default(), Instant::now());
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert!(ending.is_err_and(|error| error.message.contains("it said nothing for 300 s")));
    assert_eq!(model.requests(), 2);
    assert!(before.elapsed() >= limits::MODEL_IDLE_TIMEOUT * 2 && model.is_dropped.load(SeqCst));
    drop(stage.end().await);
}

#[tokio::test(start_paused = true)]
async fn a_turn_cancelled_during_a_reply_keeps_the_received_text() {
    let half = vec![
        text("We"),
        ModelEvent::CallStart { id: "a".into(), name: "look".into() },
        ModelEvent::CallArguments { id: "a".into(), fragment: "{\"pa".into() },
        HANGS(),
    ];
    let stage = TurnFixture::new();
    let model = Arc::new(FakeModel { hangs: stage.cancel.clone(), ..FakeModel::new(vec![half]) });
    let (mut history, before) = (History::default(), Instant::now());
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!((ending, before.elapsed()), (Ok(StopReason::Cancelled), Duration::ZERO));
    assert!(model.is_dropped.load(SeqCst), "which closes the connection");
    let note = "context: The user cancelled the turn here. None of its calls was run.";
    assert_eq!(history_in_words(history.messages()), ["go", "assistant: We[]", note]);
    drop(stage.end().await);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_image_that_the_provider_refuses_is_not_sent_again() {
    let image = ContentBlock::Image(ImageContent::new("AAAA", "image/png"));
    let images = ModelCapabilities::new().with_images();
    let too_large = error(ModelErrorKind::ContextTooLong).with_status(413);
    for (fault, remembered) in [
        (error(ModelErrorKind::InvalidRequest), 0),
        (too_large, 0),
        (error(ModelErrorKind::Auth), 1),
        (error(ModelErrorKind::Other).with_status(404), 1),
    ] {
        let stage = TurnFixture::new();
        let model = Arc::new(FakeModel {
            traits: images,
            ..FakeModel::new(vec![vec![ModelEvent::Error(fault.clone())]])
        });
        let mut history = History::default();
        let ending = stage.run(&model, &mut history, vec![image.clone()]).await;
        assert!(ending.is_err());
        assert_eq!(history.messages().len(), remembered, "{fault}");
        drop(stage.end().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_sends_at_most_the_maximum_number_of_requests() {
    let again = || [call("a", "look"), vec![stop(ModelStopReason::ToolCalls)]].concat();
    let replies = std::iter::repeat_with(again).take(limits::MAX_TURN_REQUESTS + 1);
    let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(replies.collect())));
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::MaxTurnRequests));
    assert_eq!(model.requests(), limits::MAX_TURN_REQUESTS);
    check_valid(&history);
    drop(stage.end().await);
}

#[tokio::test(start_paused = true)]
async fn an_endless_reply_is_interrupted() {
    let piece = text(&"x".repeat(1 << 20));
    let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(vec![vec![piece; 17]])));
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert!(ending.is_err_and(|error| error.message.contains("16777216 bytes")));
    drop(stage.end().await);
}

#[tokio::test(start_paused = true)]
async fn a_text_of_another_role_begins_a_new_message() {
    let thought = |text: &str| ModelEvent::Thought(text.to_owned());
    let reply = [
        vec![thought("a"), thought("b"), text("c"), text("d"), thought("e"), text("f")],
        call("a", "look"),
        vec![text("g"), stop(ModelStopReason::ToolCalls)],
    ];
    let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(vec![reply.concat()])));
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    let seen = stage.end().await;
    let (roles, ids): (Vec<_>, Vec<_>) = seen.messages.into_iter().unzip();
    let (thought, agent) = (Role::Thought, Role::Agent);
    assert_eq!(roles, [thought, agent, thought, agent, agent, agent]);
    let different: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn the_title_is_sent_once_and_the_usage_after_each_reply() {
    let used = |input, output, cost_micros| {
        let mut usage = TokenUsage::default();
        (usage.input_tokens, usage.output_tokens) = (Some(input), Some(output));
        usage.cost_micros = cost_micros;
        ModelEvent::Usage(usage)
    };
    let reply = |usage| vec![text("Hi."), usage, stop(ModelStopReason::EndTurn)];
    let replies = vec![
        reply(used(1000, 50, None)),
        reply(used(1100, 60, Some(2_500))),
        reply(used(1200, 70, Some(1_000_000))),
    ];
    let traits = ModelCapabilities::new().with_context_tokens(8192);
    let (stage, model) =
        (TurnFixture::new(), Arc::new(FakeModel { traits, ..FakeModel::new(replies) }));
    let mut history = History::default();
    for prompt in ["mend it\nnow", "and now", "again"] {
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from(prompt)]).await;
        assert_eq!(ending, Ok(StopReason::EndTurn));
        tokio::time::advance(Duration::from_secs(1)).await;
        yield_now().await;
    }
    let spent = *history.usage_totals();
    assert_eq!((spent.requests, spent.input_tokens, spent.output_tokens), (3, 3300, 180));
    assert_eq!(spent.cost_micros, Some(1_002_500));
    let (mut titles, mut usage) = (Vec::new(), Vec::new());
    for state in stage.end().await.states {
        match state {
            SessionStatePart::Info(info) => titles.push((info.title, info.updated_at)),
            SessionStatePart::Usage(update) => {
                let cost = update.cost.map(|cost| (cost.amount, cost.currency));
                usage.push((update.used, update.size, cost));
            }
            other => panic!("{other:?}"),
        }
    }
    let at = Some("1970-01-01T00:00:00Z".to_owned());
    let (title, none) = (Some("mend it".to_owned()), None);
    assert_eq!(titles, [(title, at.clone()), (none.clone(), at.clone()), (none, at)]);
    let dollars = |amount: f64| Some((amount, "USD".to_owned()));
    assert_eq!(
        usage,
        [(1050, 8192, None), (1160, 8192, dollars(0.0025)), (1270, 8192, dollars(1.0025))]
    );
}

#[tokio::test(start_paused = true)]
async fn replay_data_is_kept_only_with_the_whole_reply() {
    let wanted = || {
        let items = serde_json::json!(["signed"]);
        ModelEvent::Replay(callboard_models::ProviderReplay { origin: "fake".into(), items })
    };
    let many = || (0..=limits::MAX_REPLY_CALLS).flat_map(|id| call(&id.to_string(), "look"));
    for (reply, is_kept) in [
        (vec![text("Hi"), wanted(), stop(ModelStopReason::EndTurn)], true),
        ([call("a", "look"), vec![wanted(), stop(ModelStopReason::ToolCalls)]].concat(), true),
        (many().chain([wanted(), stop(ModelStopReason::ToolCalls)]).collect(), false),
        (vec![text("Hi"), wanted(), stop(ModelStopReason::MaxTokens)], false),
        (vec![text("Hi"), wanted(), error_event(ModelErrorKind::Other)], false),
    ] {
        let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(vec![reply])));
        let mut history = History::default();
        drop(stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await);
        let ChatMessage::Assistant { replay, .. } = &*history.messages()[1] else {
            panic!("a reply")
        };
        assert_eq!(replay.is_some(), is_kept);
        drop(stage.end().await);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_calls_of_a_reply_are_reported_to_the_model_and_the_client() {
    let many = (0..limits::MAX_REPLY_CALLS + 2).flat_map(|id| call(&id.to_string(), "look"));
    let reply = many.chain([stop(ModelStopReason::ToolCalls)]).collect();
    let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(vec![reply])));
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!((ending, model.requests()), (Ok(StopReason::EndTurn), 2));
    check_valid(&history);
    let words = "Calls left out at the end of this reply: 2. The limit is 128 per reply.";
    let asked = model.asked.lock().unwrap()[1].clone();
    assert_eq!(history_in_words(&asked).last().unwrap(), &format!("context: {words}"));
    let seen = stage.end().await;
    assert_eq!(seen.thought, format!("{words}\n\n"));
    assert_eq!(seen.client_state.observed_calls().count(), limits::MAX_REPLY_CALLS);
}

#[tokio::test(start_paused = true)]
async fn a_result_is_truncated_to_its_limit() {
    let says = "x".repeat(2 * limits::MAX_RESULT_BYTES);
    let look = call_with("a", "look", &serde_json::json!({"path": "", "says": says}).to_string());
    let reply = [look, vec![stop(ModelStopReason::ToolCalls)]].concat();
    // The window is large enough for all messages, so that the session is not compacted.
    let traits = ModelCapabilities::new().with_context_tokens(1 << 20);
    let (stage, model) =
        (TurnFixture::new(), Arc::new(FakeModel { traits, ..FakeModel::new(vec![reply]) }));
    let mut history = History::default();
    drop(stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await);
    let ChatMessage::ToolResults(results) = &*history.messages()[2] else { panic!("results") };
    assert!(results[0].text.contains(&format!("[... {} bytes left out", limits::MAX_RESULT_BYTES)));
    drop(stage.end().await);
}

#[tokio::test(start_paused = true)]
async fn each_call_of_an_aborted_turn_gets_a_result() {
    let (stage, model) = (TurnFixture::new(), Arc::new(FakeModel::new(Vec::new())));
    let mut history = History::default();
    let lost = callboard_models::ModelToolCall::new("a", "look", String::new());
    let (text, thought, calls) = (String::new(), String::new(), vec![lost]);
    history.push_message_within_limits(ChatMessage::Assistant {
        text,
        thought,
        calls,
        replay: None,
    });
    drop(stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await);
    check_valid(&history);
    drop(stage.end().await);
}

/// A tool that fails with a fatal error at the moment when the user cancels the turn.
#[derive(Debug)]
struct FatalTool(CancellationToken);

impl Tool for FatalTool {
    type Args = Args;
    type Plan = ();

    fn spec(&self) -> Spec {
        Spec::new("doom", "Fails for good.", ToolKind::Other)
            .with_side_effects(SideEffects::Nothing)
            .with_title_message_key("look")
    }

    fn describe(&self, _: &Args, _: &Context) -> CallDescription {
        CallDescription::new("look")
    }

    async fn preview(&self, _: Args, _: Invocation<'_>) -> Result<ToolPreview<()>, ToolError> {
        Ok(ToolPreview::new(()))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        _: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        pinned.release(grant)?;
        self.0.cancel();
        Err(ToolError::fatal("the disk is gone"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_cancelled_while_it_fails_ends_as_cancelled() {
    for is_cancelled in [true, false] {
        let mut stage = TurnFixture::new();
        let cancel = if is_cancelled { stage.cancel.clone() } else { CancellationToken::new() };
        stage.tools.add(FatalTool(cancel));
        let reply = [call("a", "doom"), vec![stop(ModelStopReason::ToolCalls)]].concat();
        let model = Arc::new(FakeModel::new(vec![reply]));
        let mut history = History::default();
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
        match is_cancelled {
            true => assert_eq!(ending, Ok(StopReason::Cancelled)),
            false => assert!(ending.is_err_and(|error| error.message.contains("disk"))),
        }
        drop(stage.end().await);
    }
}
