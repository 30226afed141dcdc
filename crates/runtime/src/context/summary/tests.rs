//! What the model is asked, and what is told of what it answers.

use callboard_models::{Call, Fault, Reply, ToolResult};
use futures::{StreamExt as _, stream};
use pretty_assertions::assert_eq;

use super::*;

/// Says what it is made of, and remembers nothing.
#[derive(Debug)]
struct Says(Vec<Event>);

impl Model for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn reply(&self, request: Request) -> Reply {
        assert!(request.tools.is_empty());
        assert_eq!(&*request.system, INSTRUCTIONS);
        assert_eq!(request.index, 7);
        stream::iter(self.0.clone()).boxed()
    }
}

async fn asked_of(events: &[Event]) -> Result<Summary, NoSummary> {
    let prompt = Message::user("go");
    let asked = Asked { old: &[&prompt], prompt: None, max: 1_000, window: 100_000 };
    ask(&Says(events.to_vec()), 7, asked).await
}

#[tokio::test]
async fn a_summary_is_what_the_model_says_without_its_thoughts() {
    let usage = Usage { input_tokens: Some(3), ..Usage::default() };
    let events = [
        Event::Thought("hm".into()),
        Event::Text(" It ".into()),
        Event::Text("was so.\n".into()),
        Event::Usage(usage),
        Event::Stop(Stop::MaxTokens),
    ];
    let summary = asked_of(&events).await.unwrap();
    assert_eq!((summary.text.as_str(), summary.usage), ("It was so.", Some(usage)));
    let long = Event::Text("x".repeat(limits::SUMMARY_BYTES + 1));
    let cut = asked_of(&[long, Event::Stop(Stop::EndTurn)]).await.unwrap();
    assert!(cut.text.len() <= limits::SUMMARY_BYTES);
}

#[tokio::test]
async fn a_model_that_fails_gives_no_summary_and_says_why() {
    let error = ModelError::new(Fault::TooLong, "too long");
    let text = || Event::Text("half".into());
    for (events, expected) in [
        (vec![], "the model failed: its reply was cut off"),
        (vec![text()], "the model failed: its reply was cut off"),
        (vec![Event::Stop(Stop::EndTurn)], "the model wrote no summary"),
        (vec![text(), Event::Stop(Stop::Refusal)], "the model wrote no summary"),
        (vec![text(), Event::Error(error)], "the model failed: too long"),
    ] {
        assert_eq!(asked_of(&events).await.unwrap_err().to_string(), expected);
    }
}

fn session() -> [Message; 5] {
    let reply = |text: &str, name: &str, arguments: &str| Message::Assistant {
        text: text.to_owned(),
        thought: "secret thought".to_owned(),
        calls: vec![Call { id: "1".into(), name: name.into(), arguments: arguments.into() }],
        replay: None,
    };
    let result = ToolResult {
        call_id: "1".into(),
        name: "read_file".into(),
        text: "line\n".repeat(10_000),
        parts: Vec::new(),
        is_error: true,
    };
    [
        Message::Context(format!("{}\n\nUse tabs.", instructions::PREFACE)),
        Message::user("Mend it."),
        reply("I look.", "read_file", r#"{"path":"a"}"#),
        Message::ToolResults(vec![result]),
        reply("", "todo_write", r#"{"todos":[{"content":"mend","status":"in_progress"}]}"#),
    ]
}

#[test]
fn the_model_is_told_the_session_shortened() {
    let session = session();
    let text = transcript(&session.iter().collect::<Vec<_>>(), 1 << 20);
    for part in ["USER: Mend it.", "AGENT: I look.", r#"CALL read_file: {"path":"a"}"#] {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains("FAILED read_file: line"), "{text}");
    assert!(text.len() < 2 * limits::EXCERPT_BYTES, "{}", text.len());
    assert!(!text.contains("tabs") && !text.contains("secret thought"), "{text}");
    assert!(transcript(&session.iter().collect::<Vec<_>>(), 100).len() <= 100);
}

#[test]
fn in_the_place_of_messages_stand_their_summary_and_the_plan() {
    let session = session();
    let old: Vec<_> = session.iter().collect();
    let with = told(Some("All of it."), &old, Some("todo_write"), 1 << 20);
    assert!(with.contains("summary.\n\nAll of it.\n\nThe plan"), "{with}");
    assert!(with.ends_with("- [in_progress] mend"), "{with}");
    let without = told(None, &old, None, 1 << 20);
    assert!(without.contains("USER: Mend it.") && !without.contains("I look."), "{without}");
    // A second compaction keeps what the first one told.
    let earlier = Message::Context(with);
    assert!(is_told(&earlier) && !is_told(&old[0].clone()));
    assert!(told(None, &[&earlier], None, 1 << 20).contains("All of it."));
    assert!(transcript(&[&earlier], 1 << 20).contains("EARLIER: "));
}
