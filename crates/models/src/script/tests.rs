//! Tests of valid and malformed scripts.

use futures::FutureExt as _;
use pretty_assertions::assert_eq;

use super::*;

fn script(text: &str) -> ScriptModel {
    ScriptModel::parse(text.as_bytes(), "script:test".to_owned()).unwrap()
}

/// Returns the events of the reply to request number `index`, each as a short text.
async fn played_events(script: &ScriptModel, index: usize) -> Vec<String> {
    let show = |event| match event {
        ModelEvent::Text(text) => format!("text {text}"),
        ModelEvent::Thought(text) => format!("thought {text}"),
        ModelEvent::CallStart { id, name } => format!("start {id} {name}"),
        ModelEvent::CallArguments { id, fragment } => format!("args {id} {fragment}"),
        ModelEvent::CallEnd { id } => format!("end {id}"),
        ModelEvent::Stop(stop) => format!("stop {stop:?}"),
        ModelEvent::Error(error) => format!("error {error}"),
        event @ (ModelEvent::Usage(_) | ModelEvent::Replay(_)) => panic!("{event:?}"),
    };
    let request = ModelRequest { index, ..ModelRequest::default() };
    script.reply(request).map(show).collect().await
}

async fn check(text: &str, replies: &[&[&str]]) {
    let script = script(text);
    for (index, expected) in replies.iter().enumerate() {
        assert_eq!(played_events(&script, index).await, *expected, "reply {index} of {text}");
    }
    let used_up = format!(
        "text `script:test` is used up: it has {} replies, and this is request {}.",
        replies.len(),
        replies.len() + 1
    );
    assert_eq!(played_events(&script, replies.len()).await, [used_up, "stop EndTurn".to_owned()]);
}

#[tokio::test]
async fn each_request_gets_the_next_reply_until_the_script_is_used_up() {
    let text = r##"
        # A comment, and an empty line.

        {"thought": "hm"}
        // Two calls of one reply.
        {"call": {"id": "a", "name": "read_file", "args": {"path": "é"}, "chunk": 10}}
        {"call": {"id": "b", "name": "list_directory", "args": null}}
        {"end": "tool_calls"}
        {"text": "one "}
        {"text": "two"}
        {"end": "refusal"}
        {"end": "max_tokens"}
        {"end": "max_turn_requests"}
    "##;
    let first: &[&str] = &[
        "thought hm",
        "start a read_file",
        "args a {\"path\":\"",
        "args a é\"}",
        "end a",
        "start b list_directory",
        "args b null",
        "end b",
        "stop ToolCalls",
    ];
    let second: &[&str] = &["text one ", "text two", "stop Refusal"];
    check(text, &[first, second, &["stop MaxTokens"], &["stop MaxTurnRequests"]]).await;
}

#[tokio::test]
async fn a_script_needs_no_end_and_no_reply() {
    check("", &[]).await;
    check("{\"text\":\"a\"}\r\n", &[&["text a", "stop EndTurn"]]).await;
    check("{\"delay_ms\":0}", &[&["stop EndTurn"]]).await;
    let calls = r#"{"call":{"name":"x"}}"#;
    check(calls, &[&["start call_1 x", "args call_1 {}", "end call_1", "stop ToolCalls"]]).await;
}

#[tokio::test]
async fn calls_without_an_id_are_counted_through_the_script() {
    let text = r#"{"call":{"name":"x","args":""}}
        {"call":{"id":"mine","name":"x","args":""}}
        {"end":"tool_calls"}
        {"call":{"name":"x","args":""}}
        {"end":"end_turn"}"#;
    let first: &[&str] =
        &["start call_1 x", "end call_1", "start mine x", "end mine", "stop ToolCalls"];
    check(text, &[first, &["start call_2 x", "end call_2", "stop EndTurn"]]).await;
}

#[tokio::test]
async fn arguments_in_a_json_string_are_sent_as_its_text() {
    let text = r#"{"call":{"id":"a","name":"x","args":"{\"path\": tru","chunk":9}}"#;
    let reply: &[&str] =
        &["start a x", "args a {\"path\": ", "args a tru", "end a", "stop ToolCalls"];
    check(text, &[reply]).await;
}

#[tokio::test]
async fn an_error_ends_its_reply_with_or_without_an_end() {
    let text = r#"{"text":"a"}
        {"error":{"message":"busy","status":529}}
        {"error":{"message":"gone"}}
        {"end":"end_turn"}
        {"end":"refusal"}
        {"text":"b"}
        {"end":"end_turn"}"#;
    let replies: [&[&str]; 4] = [
        &["text a", "error busy (status 529)"],
        &["error gone"],
        &["stop Refusal"],
        &["text b", "stop EndTurn"],
    ];
    check(text, &replies).await;
}

#[tokio::test]
async fn a_delay_delays_the_later_events() {
    let script = script("{\"text\":\"a\"}\n{\"delay_ms\":3600000}\n{\"text\":\"b\"}");
    let mut reply = script.reply(ModelRequest::default());
    assert_eq!(reply.next().await, Some(ModelEvent::Text("a".into())));
    assert_eq!(reply.next().now_or_never(), None);
}

#[test]
fn an_invalid_line_is_reported_with_its_error() {
    let one_of = "expected one of text, thought, call, delay_ms, error, end";
    let cases = [
        ("{\"text\":\"a\"}\n\n#\n{\"txet\":\"a\"}", "line 4: unknown field `txet`"),
        ("hello", "line 1: expected value (column 1)"),
        ("{}", &format!("line 1: {one_of}")),
        (r#"{"text":null}"#, &format!("line 1: {one_of}")),
        (r#"{"text":"a","thought":"b"}"#, &format!("line 1: {one_of}")),
        (r#"{"text":"a","text":"b"}"#, "line 1: duplicate field `text`"),
        (r#"{"text":1}"#, "line 1: invalid type: integer `1`, expected a string (column 9)"),
        (r#"{"text":"a"} x"#, "line 1: trailing characters"),
        (r#"{"text":"a""#, "line 1: EOF while parsing an object"),
        (r#"{"delay_ms":-1}"#, "line 1: invalid value: integer `-1`"),
        (r#"{"delay_ms":"1"}"#, "line 1: invalid type: string"),
        (r#"{"call":{"id":"a"}}"#, "line 1: missing field `name`"),
        (r#"{"call":{"name":"a","arg":{}}}"#, "line 1: unknown field `arg`"),
        (r#"{"call":{"name":"a","chunk":0}}"#, "line 1: invalid value: integer `0`"),
        (r#"{"error":{"message":"a","status":99999}}"#, "line 1: invalid value: integer `99999`"),
        (r#"{"error":{"message":"a","code":1}}"#, "line 1: unknown field `code`"),
        (r#"{"error":"a"}"#, "line 1: invalid type: string"),
        (
            r#"{"end":"cancelled"}"#,
            "line 1: unknown variant `cancelled`, expected one of `end_turn`",
        ),
    ];
    for (text, expected) in cases {
        let error = ScriptModel::parse(text.as_bytes(), String::new()).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let error =
        ScriptModel::parse(b"#\n{\"text\":\"\xff\"}", String::new()).unwrap_err().to_string();
    assert!(error.starts_with("line 2: invalid unicode"), "{error}");
}

#[test]
fn scripts_and_lines_have_a_maximum_length() {
    let error = |text: &str| {
        ScriptModel::parse(text.as_bytes(), String::new()).err().map(|error| error.to_string())
    };
    let line = format!("#{}", "x".repeat(MAX_LINE_BYTES - 1));
    assert_eq!(error(&format!("{line}\n{line}")), None);
    let expected = "line 2: the line exceeds 1048576 bytes";
    assert_eq!(error(&format!("\n{line}x")).as_deref(), Some(expected));

    let mut longest =
        format!("{}\n", &line[1..].replace('x', "#")).repeat(MAX_SCRIPT_BYTES / MAX_LINE_BYTES);
    assert_eq!((longest.len(), error(&longest)), (MAX_SCRIPT_BYTES, None));
    longest.push('#');
    let expected = "line 17: the script exceeds 16777216 bytes";
    assert_eq!(error(&longest).as_deref(), Some(expected));
}
