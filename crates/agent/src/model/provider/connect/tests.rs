//! Replies of each dialect, from a responder on loopback that sends what a test says.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::connect;
use crate::model::{
    Event, Fault, Message, Model, Request, Stop, ToolResult, ToolSpec, Usage,
    provider::{Key, Provider, Settings},
};

/// Answers one connection after the other, each with what is written for it, and returns what it
/// was sent.
async fn respond(answers: Vec<String>) -> (String, JoinHandle<Vec<Asked>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
            }
            let text = String::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let body = serde_json::from_str(body).unwrap_or_default();
            asked.push(Asked { head: head.to_owned(), body });
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    });
    (url, asked)
}

struct Asked {
    head: String,
    body: Value,
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    body.len() >= length.unwrap_or(0)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n\r\n{body}")
}

/// A stream of events, one a line.
fn events(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    answer("200 OK", "content-type: text/event-stream", &format!("{}\n\n", lines.join("\n\n")))
}

fn model(provider: Provider, url: &str) -> Arc<dyn Model> {
    connect(Settings {
        base_url: Some(url.to_owned()),
        key: Key::new("sk-test-secret"),
        ..Settings::new(provider, NAME)
    })
}

const NAME: &str = "some-model";

fn request(messages: Vec<Message>) -> Request {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "Does it.".into(),
        input_schema: schema.clone(),
    };
    Request {
        system: "Be brief.".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![tool("read_file")].into(),
        max_tokens: NonZeroU32::new(100),
        ..Request::default()
    }
}

async fn hear(model: &Arc<dyn Model>, request: Request) -> Vec<Event> {
    tokio::time::timeout(Duration::from_secs(10), model.reply(request).collect()).await.unwrap()
}

/// The events, with neighbouring texts and neighbouring fragments joined, and without replay.
fn joined(events: &[Event]) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (_, Event::Replay(_)) => {}
            (Some(Event::Text(text)), Event::Text(more))
            | (Some(Event::Thought(text)), Event::Thought(more)) => text.push_str(more),
            (
                Some(Event::CallArguments { id, fragment }),
                Event::CallArguments { id: same, fragment: more },
            ) if id == same => fragment.push_str(more),
            (_, event) => joined.push(event.clone()),
        }
    }
    joined
}

/// The history after a reply of one call, with the call's result.
fn after(prompt: &str, events: &[Event], result: &str) -> Vec<Message> {
    let mut call =
        crate::model::Call { id: String::new(), name: String::new(), arguments: String::new() };
    let mut replay = None;
    for event in events {
        match event.clone() {
            Event::CallStart { id, name } => (call.id, call.name) = (id, name),
            Event::CallArguments { fragment, .. } => call.arguments.push_str(&fragment),
            Event::Replay(it) => replay = Some(it),
            _ => {}
        }
    }
    let results = vec![ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: result.to_owned(),
        is_error: false,
    }];
    let (text, thought) = (String::new(), String::new());
    vec![
        Message::user(prompt),
        Message::Assistant { text, thought, calls: vec![call], replay },
        Message::ToolResults(results),
    ]
}

fn call(id: &str, name: &str, arguments: &str) -> Vec<Event> {
    vec![
        Event::CallStart { id: id.into(), name: name.into() },
        Event::CallArguments { id: id.into(), fragment: arguments.into() },
        Event::CallEnd { id: id.into() },
    ]
}

const CHAT: &str = r#"
    data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm."}}]}
    data: {"choices":[{"index":0,"delta":{"content":"I "}}]}
    data: {"choices":[{"index":0,"delta":{"content":"read."}}]}
    data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"id_a","type":"function","function":{"name":"read_file","arguments":""}}]}}]}
    data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}
    data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}}]}
    data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}
    data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}
    data: [DONE]
"#;

const CHAT_TEXT: &str = r#"
    data: {"choices":[{"index":0,"delta":{"content":"Done."}}]}
    data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
    data: [DONE]
"#;

#[tokio::test]
async fn a_chat_completion_streams_and_its_call_is_told_again_by_the_servers_id() {
    let (url, asked) = respond(vec![events(CHAT), events(CHAT_TEXT)]).await;
    let model = model(Provider::OpenAi, &url);
    let first = hear(&model, request(vec![Message::user("read a")])).await;
    let mut expected = vec![Event::Thought("Hm.".into()), Event::Text("I read.".into())];
    expected.extend(call("call_1", "read_file", r#"{"path":"a"}"#));
    expected.push(Event::Usage(Usage {
        input_tokens: Some(10),
        output_tokens: Some(5),
        cached_tokens: Some(4),
        thought_tokens: Some(2),
        ..Usage::default()
    }));
    expected.push(Event::Stop(Stop::ToolCalls));
    assert_eq!(joined(&first), expected);

    let second = hear(&model, request(after("read a", &first, "it says b"))).await;
    assert_eq!(second.last(), Some(&Event::Stop(Stop::EndTurn)));
    let asked = asked.await.unwrap();
    assert!(asked[0].head.starts_with("POST /v1/chat/completions "), "{}", asked[0].head);
    assert!(asked[0].head.contains("authorization: Bearer sk-test-secret"), "{}", asked[0].head);
    assert_eq!(asked[0].body["model"], NAME);
    let messages = asked[1].body["messages"].as_array().unwrap();
    assert_eq!(messages[2]["tool_calls"][0]["id"], "id_a");
    assert_eq!(messages[2]["reasoning_content"], "Hm.");
    assert_eq!(messages[3]["tool_call_id"], "id_a");
    assert_eq!(messages[3]["content"], "it says b");
}

#[tokio::test]
async fn errors_say_what_is_worth_doing() {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;
    let key = r#"{"error":{"message":"Incorrect API key provided: sk-test-secret"}}"#;
    let cases: [(String, Fault, &str); 8] = [
        (
            answer("429 Too Many", "retry-after: 7", r#"{"error":{"message":"slow"}}"#),
            Fault::Transient,
            "slow",
        ),
        (answer("401 No", "", key), Fault::Auth, "provided: [key] (status 401)"),
        (answer("400 Bad", "", too_long), Fault::TooLong, "maximum context"),
        (answer("502 Bad", "", "<html>oh</html>"), Fault::Transient, "answered with a page"),
        (answer("302 Found", "location: http://elsewhere", ""), Fault::Other, "elsewhere"),
        (answer("200 OK", "content-type: text/html", "hi"), Fault::Other, "text/html"),
        (
            answer(
                "200 OK",
                "content-type: application/json",
                r#"{"error":{"message":"no such model"}}"#,
            ),
            Fault::Other,
            "no such model",
        ),
        (
            events(r#"data: {"choices":[{"index":0,"delta":{"content":"I "}}]}"#),
            Fault::Transient,
            "was cut off",
        ),
    ];
    for (answer, fault, text) in cases {
        let (url, _asked) = respond(vec![answer.clone()]).await;
        let heard = hear(&model(Provider::OpenAi, &url), request(vec![Message::user("hi")])).await;
        let Some(Event::Error(error)) = heard.last() else { panic!("{answer}: {heard:?}") };
        assert_eq!(error.fault, fault, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        if fault == Fault::Transient && text == "slow" {
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        }
    }
}
