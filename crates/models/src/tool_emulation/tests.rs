//! Tests of the reply format, with a model that sends fixed replies.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::super::{ModelEvent, ModelStopReason, ProviderReplay};
use super::*;

/// A model that replies with pieces of text and records the requests.
#[derive(Debug)]
struct ScriptedReplyModel {
    pieces: Vec<String>,
    stop: ModelStopReason,
    asked: Mutex<Vec<ModelRequest>>,
}

impl Model for ScriptedReplyModel {
    fn name(&self) -> &'static str {
        "parrot"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        self.asked.lock().unwrap().push(request);
        let texts = self.pieces.clone().into_iter().map(ModelEvent::Text);
        stream::iter(texts.chain([ModelEvent::Stop(self.stop)]).collect::<Vec<_>>()).boxed()
    }
}

fn parrot(pieces: Vec<String>, stop: ModelStopReason) -> Arc<ScriptedReplyModel> {
    Arc::new(ScriptedReplyModel { pieces, stop, asked: Mutex::default() })
}

fn tool() -> ToolSpec {
    let input_schema = json!({
        "type": "object",
        "properties": {"edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}}},
        "$defs": {"Edit": {"type": "object", "properties": {"then": {"$ref": "#/$defs/Edit"}}}},
    });
    ToolSpec { name: "edit".into(), description: "Edits.".into(), input_schema }
}

async fn collect_events(model: &Arc<ScriptedReplyModel>) -> Vec<ModelEvent> {
    let request = ModelRequest {
        tools: vec![tool()].into(),
        system: "Be good.".into(),
        ..ModelRequest::default()
    };
    emulate_tools(Arc::clone(model) as Arc<dyn Model>).reply(request).collect().await
}

/// Returns the text, the calls and the stop reason of a reply.
fn summarize(events: &[ModelEvent]) -> (String, Vec<(String, String)>, ModelStopReason) {
    let (mut text, mut calls, mut ended) = (String::new(), Vec::new(), 0);
    let mut stop = None;
    for event in events {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::CallStart { name, .. } => calls.push((name.clone(), String::new())),
            ModelEvent::CallArguments { fragment, .. } => {
                calls.last_mut().unwrap().1.push_str(fragment);
            }
            ModelEvent::CallEnd { .. } => ended += 1,
            ModelEvent::Stop(end) => stop = Some(*end),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ended, calls.len());
    (text, calls, stop.unwrap())
}

#[tokio::test]
async fn the_split_of_a_reply_into_pieces_does_not_matter() {
    let call = |arguments: &str| vec![("edit".to_owned(), arguments.to_owned())];
    for (written, text, calls, stop) in [
        (
            r#"{"text": "a\n\"b\" é \u00e9 \ud83c\udfad \\"}"#,
            "a\n\"b\" é é 🎭 \\",
            vec![],
            ModelStopReason::EndTurn,
        ),
        (r#"{"text":""}"#, "", vec![], ModelStopReason::EndTurn),
        (
            " {\n\"tool\": \"edit\", \"arguments\": {\"a\": \"}\\\"{\", \"b\": [{}]} }\n",
            "",
            call(r#"{"a": "}\"{", "b": [{}]}"#),
            ModelStopReason::ToolCalls,
        ),
        (
            r#"{"arguments": {"a": 1}, "tool": "edit"}"#,
            "",
            call(r#"{"a":1}"#),
            ModelStopReason::ToolCalls,
        ),
        (r#"{"tool": "edit"}"#, "", call(""), ModelStopReason::ToolCalls),
        (r#"{"tool": "edit", "arguments": [1]}"#, "", call("[1]"), ModelStopReason::ToolCalls),
        // This reply is not in the format.
        ("Hello {there}", "Hello {there}", vec![], ModelStopReason::EndTurn),
        (r#"{"answer": 42}"#, r#"{"answer": 42}"#, vec![], ModelStopReason::EndTurn),
        ("", "", vec![], ModelStopReason::EndTurn),
        // This reply is interrupted.
        (
            r#"{"tool": "edit", "arguments": {"a": "#,
            "",
            call(r#"{"a": "#),
            ModelStopReason::ToolCalls,
        ),
        (r#"{"text": "so"#, "so", vec![], ModelStopReason::EndTurn),
    ] {
        let expected = (text.to_owned(), calls, stop);
        for bytes in [1, 3, 7, 1000] {
            let pieces = pieces(written, bytes);
            let events = collect_events(&parrot(pieces, ModelStopReason::EndTurn)).await;
            assert_eq!(summarize(&events), expected, "{written} by {bytes}");
        }
    }
}

fn pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<_> = text.chars().collect();
    characters.chunks(count).map(|piece| piece.iter().collect()).collect()
}

#[tokio::test]
async fn a_long_beginning_takes_linear_time_and_is_complete() {
    let (space, long) = (" ".repeat(512 << 10), "x".repeat(512 << 10));
    for (written, text, calls) in [
        (format!(r#"{space}{{"text": "hi"}}"#), "hi".to_owned(), vec![]),
        (format!("{space}hi"), format!("{space}hi"), vec![]),
        (
            format!(r#"{{"arguments": {{"a":"{long}"}}, "tool": "edit"}}"#),
            String::new(),
            vec![("edit".to_owned(), format!(r#"{{"a":"{long}"}}"#))],
        ),
        (format!(r#"{{"tool": "{long}"#), format!(r#"{{"tool": "{long}"#), vec![]),
    ] {
        let before = Instant::now();
        let summary = summarize(
            &collect_events(&parrot(pieces(&written, 16), ModelStopReason::EndTurn)).await,
        );
        assert!((summary.0, summary.1) == (text, calls), "{} bytes", written.len());
        assert!(before.elapsed() < Duration::from_secs(30), "{:?}", before.elapsed());
    }
    // This reply exceeds the maximum size of a call.
    let written = format!(r#"{{"arguments": "{}", "tool": "edit"}}"#, "x".repeat(9 << 20));
    let summary = summarize(
        &collect_events(&parrot(pieces(&written, 1 << 20), ModelStopReason::EndTurn)).await,
    );
    assert!(summary == (written, Vec::new(), ModelStopReason::EndTurn));
}

#[tokio::test]
async fn text_streams_and_a_call_begins_when_its_tool_is_named() {
    let model = parrot(vec![r#"{"text": "one "#.into(), "two".into()], ModelStopReason::EndTurn);
    let events = collect_events(&model).await;
    assert_eq!(events[..2], [ModelEvent::Text("one ".into()), ModelEvent::Text("two".into())]);
    let named = r#"{"tool": "edit", "arguments": {"#;
    let events =
        collect_events(&parrot(vec![named.into(), "}}".into()], ModelStopReason::EndTurn)).await;
    let start = ModelEvent::CallStart { id: "reply_0".into(), name: "edit".into() };
    let fragment = ModelEvent::CallArguments { id: "reply_0".into(), fragment: "{".into() };
    assert_eq!(events[..2], [start, fragment]);
}

#[tokio::test]
async fn a_call_truncated_by_the_maximum_length_keeps_its_stop_reason() {
    let model =
        parrot(vec![r#"{"tool": "edit", "arguments": {"a"#.into()], ModelStopReason::MaxTokens);
    assert_eq!(summarize(&collect_events(&model).await).2, ModelStopReason::MaxTokens);
    let model = parrot(vec![r#"{"tool": "edit""#.into()], ModelStopReason::MaxTokens);
    assert_eq!(summarize(&collect_events(&model).await).1, []);
}

#[tokio::test]
async fn the_model_receives_tools_and_session_in_the_reply_format() {
    let call = ModelToolCall { id: "c".into(), name: "edit".into(), arguments: "{\"a\":1}".into() };
    let replay = Some(ProviderReplay { origin: "parrot".into(), items: json!([]) });
    let result = ToolResult {
        call_id: "c".into(),
        name: "edit".into(),
        text: "no such file".into(),
        parts: Vec::new(),
        is_error: true,
    };
    let messages = [
        ChatMessage::user("go"),
        ChatMessage::Assistant {
            text: "So.".into(),
            thought: String::new(),
            calls: vec![call],
            replay,
        },
        ChatMessage::ToolResults(vec![result]),
    ];
    let model = parrot(vec![r#"{"text": "done"}"#.into()], ModelStopReason::EndTurn);
    let request = ModelRequest {
        tools: vec![tool()].into(),
        messages: Arc::new(messages.map(Arc::new).to_vec()),
        ..ModelRequest::default()
    };
    emulate_tools(Arc::clone(&model) as Arc<dyn Model>).reply(request).collect::<Vec<_>>().await;
    let asked = model.asked.lock().unwrap().pop().unwrap();
    assert!(asked.tools.is_empty() && asked.system.contains("- edit: Edits."));
    let written = "{\"text\":\"So.\"}\n{\"tool\":\"edit\",\"arguments\":{\"a\":1}}";
    let ChatMessage::Assistant { text, calls, replay, .. } = &*asked.messages[1] else { panic!() };
    assert_eq!((&**text, calls.len(), replay), (written, 0, &None));
    assert_eq!(*asked.messages[2], ChatMessage::user("edit failed:\nno such file"));
}

#[tokio::test]
async fn the_schema_allows_text_and_each_tool_without_references() {
    let model = parrot(Vec::new(), ModelStopReason::EndTurn);
    collect_events(&model).await;
    let schema = model.asked.lock().unwrap().pop().unwrap().response_schema.unwrap();
    assert!(!schema.to_string().contains("$ref") && !schema.to_string().contains("$defs"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (reply, is_right) in [
        (json!({"text": "a"}), true),
        (json!({"tool": "edit", "arguments": {"edits": [{"then": {}}]}}), true),
        (json!({"tool": "edit", "arguments": {"edits": 1}}), false),
        (json!({"tool": "other", "arguments": {}}), false),
        (json!({"tool": "edit"}), false),
    ] {
        assert_eq!(validator.is_valid(&reply), is_right, "{reply}");
    }
}

#[tokio::test]
async fn a_request_without_tools_is_passed_on_unchanged() {
    let model = parrot(vec!["A summary.".into()], ModelStopReason::EndTurn);
    let wrapped = emulate_tools(Arc::clone(&model) as Arc<dyn Model>);
    let events: Vec<_> = wrapped.reply(ModelRequest::default()).collect().await;
    assert_eq!(summarize(&events).0, "A summary.");
    assert_eq!(model.asked.lock().unwrap()[0].response_schema, None);
}
