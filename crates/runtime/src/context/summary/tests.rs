//! Tests of the request for a summary, and of the text that replaces messages.

use callboard_models::{ModelErrorKind, ModelToolCall, ReplyStream, ToolResult};
use futures::{StreamExt as _, stream};
use pretty_assertions::assert_eq;

use super::*;

/// A model that answers each request with the same events.
#[derive(Debug)]
struct ScriptedModel(Vec<ModelEvent>);

impl Model for ScriptedModel {
    fn name(&self) -> &'static str {
        "says"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        assert!(request.tools.is_empty());
        assert_eq!(&*request.system, INSTRUCTIONS);
        assert_eq!(request.index, 7);
        stream::iter(self.0.clone()).boxed()
    }
}

async fn summary_of(events: &[ModelEvent]) -> Result<Summary, SummaryError> {
    let prompt = ChatMessage::user("go");
    let asked = SummaryRequest {
        old: &[&prompt],
        kept_prompt: None,
        max_bytes: 1_000,
        context_tokens: 100_000,
    };
    request_summary(&ScriptedModel(events.to_vec()), 7, asked).await
}

#[tokio::test]
async fn a_summary_is_the_text_of_the_model_without_its_thoughts() {
    let mut usage = TokenUsage::default();
    usage.input_tokens = Some(3);
    let events = [
        ModelEvent::Thought("hm".into()),
        ModelEvent::Text(" It ".into()),
        ModelEvent::Text("was so.\n".into()),
        ModelEvent::Usage(usage),
        ModelEvent::Stop(ModelStopReason::MaxTokens),
    ];
    let summary = summary_of(&events).await.unwrap();
    assert_eq!((summary.text.as_str(), summary.usage), ("It was so.", Some(usage)));
    let long = ModelEvent::Text("x".repeat(limits::MAX_SUMMARY_BYTES + 1));
    let cut = summary_of(&[long, ModelEvent::Stop(ModelStopReason::EndTurn)]).await.unwrap();
    assert!(cut.text.len() <= limits::MAX_SUMMARY_BYTES);
}

#[tokio::test]
async fn a_failed_model_returns_no_summary_but_the_reason() {
    let error = ModelError::new(ModelErrorKind::ContextTooLong, "too long");
    let text = || ModelEvent::Text("half".into());
    for (events, expected) in [
        (vec![], "the model failed: its reply was cut off"),
        (vec![text()], "the model failed: its reply was cut off"),
        (vec![ModelEvent::Stop(ModelStopReason::EndTurn)], "the model wrote no summary"),
        (vec![text(), ModelEvent::Stop(ModelStopReason::Refusal)], "the model wrote no summary"),
        (vec![text(), ModelEvent::Error(error)], "the model failed: too long"),
    ] {
        assert_eq!(summary_of(&events).await.unwrap_err().to_string(), expected);
    }
}

fn session() -> [ChatMessage; 5] {
    let reply = |text: &str, name: &str, arguments: &str| ChatMessage::Assistant {
        text: text.to_owned(),
        thought: "secret thought".to_owned(),
        calls: vec![ModelToolCall::new("1", name, arguments)],
        replay: None,
    };
    let mut result = ToolResult::new("1", "read_file", "line\n".repeat(10_000));
    result.is_error = true;
    [
        ChatMessage::Context(format!("{}\n\nUse tabs.", instructions::PREFACE)),
        ChatMessage::user("Mend it."),
        reply("I look.", "read_file", r#"{"path":"a"}"#),
        ChatMessage::ToolResults(vec![result]),
        reply("", "todo_write", r#"{"todos":[{"content":"mend","status":"in_progress"}]}"#),
    ]
}

#[test]
fn the_model_receives_the_shortened_session() {
    let session = session();
    let text = transcript(&session.iter().collect::<Vec<_>>(), 1 << 20);
    for part in ["USER: Mend it.", "AGENT: I look.", r#"CALL read_file: {"path":"a"}"#] {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains("FAILED read_file: line"), "{text}");
    assert!(text.len() < 2 * limits::MAX_EXCERPT_BYTES, "{}", text.len());
    assert!(!text.contains("tabs") && !text.contains("secret thought"), "{text}");
    assert!(transcript(&session.iter().collect::<Vec<_>>(), 100).len() <= 100);
}

#[test]
fn messages_are_replaced_by_their_summary_and_the_plan() {
    let session = session();
    let old: Vec<_> = session.iter().collect();
    let with = replacement_text(Some("All of it."), &old, Some("todo_write"), 1 << 20);
    assert!(with.contains("summary.\n\nAll of it.\n\nThe plan"), "{with}");
    assert!(with.ends_with("- [in_progress] mend"), "{with}");
    let without = replacement_text(None, &old, None, 1 << 20);
    assert!(without.contains("USER: Mend it.") && !without.contains("I look."), "{without}");
    // The second compaction keeps the text of the first compaction.
    let earlier = ChatMessage::Context(with);
    assert!(is_replacement(&earlier) && !is_replacement(&old[0].clone()));
    assert!(replacement_text(None, &[&earlier], None, 1 << 20).contains("All of it."));
    assert!(transcript(&[&earlier], 1 << 20).contains("EARLIER: "));
}
