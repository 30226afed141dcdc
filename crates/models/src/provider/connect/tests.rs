//! Tests of the replies in each dialect, and of the requests for these replies.

mod encoded_prefix;
mod images;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use super::create_model;
use crate::limits;
use crate::{
    ChatMessage, Model, ModelErrorKind, ModelEvent, ModelRequest, ModelStopReason, TokenUsage,
    ToolResult, ToolSpec,
    provider::{
        ApiKey, Provider, ProviderSettings,
        test_server::{format_response, serve_over_tls, serve_responses},
    },
};
use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpListener};

/// Returns an event stream in which each line of `lines` is one event.
fn events(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format_response(
        "200 OK",
        "content-type: text/event-stream",
        &format!("{}\n\n", lines.join("\n\n")),
    )
}

fn model(provider: Provider, url: &str) -> Arc<dyn Model> {
    create_model(ProviderSettings {
        base_url: Some(url.to_owned()),
        key: ApiKey::from_nonempty_text("sk-test-secret"),
        ..ProviderSettings::new(provider, NAME)
    })
}

const NAME: &str = "some-model";

fn request(messages: Vec<ChatMessage>) -> ModelRequest {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "Does it.".into(),
        input_schema: schema.clone(),
    };
    ModelRequest {
        system: "Be brief.".into(),
        messages: Arc::new(messages.into_iter().map(Arc::new).collect()),
        tools: vec![tool("read_file")].into(),
        max_tokens: NonZeroU32::new(100),
        ..ModelRequest::default()
    }
}

async fn collect_events(model: &Arc<dyn Model>, request: ModelRequest) -> Vec<ModelEvent> {
    tokio::time::timeout(Duration::from_secs(10), model.reply(request).collect()).await.unwrap()
}

/// Joins neighbouring texts and neighbouring fragments, and removes replay events.
fn join_neighbours(events: &[ModelEvent]) -> Vec<ModelEvent> {
    let mut joined: Vec<ModelEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (_, ModelEvent::Replay(_)) => {}
            (Some(ModelEvent::Text(text)), ModelEvent::Text(more))
            | (Some(ModelEvent::Thought(text)), ModelEvent::Thought(more)) => text.push_str(more),
            (
                Some(ModelEvent::CallArguments { id, fragment }),
                ModelEvent::CallArguments { id: same, fragment: more },
            ) if id == same => fragment.push_str(more),
            (_, event) => joined.push(event.clone()),
        }
    }
    joined
}

/// Returns the messages of a session after a reply with one call: the prompt, the reply and the
/// call's result.
fn history_after(prompt: &str, events: &[ModelEvent], result: &str) -> Vec<ChatMessage> {
    let mut call =
        crate::ModelToolCall { id: String::new(), name: String::new(), arguments: String::new() };
    let mut replay = None;
    for event in events {
        match event.clone() {
            ModelEvent::CallStart { id, name } => (call.id, call.name) = (id, name),
            ModelEvent::CallArguments { fragment, .. } => call.arguments.push_str(&fragment),
            ModelEvent::Replay(it) => replay = Some(it),
            _ => {}
        }
    }
    let results = vec![ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: result.to_owned(),
        parts: Vec::new(),
        is_error: false,
    }];
    let (text, thought) = (String::new(), String::new());
    vec![
        ChatMessage::user(prompt),
        ChatMessage::Assistant { text, thought, calls: vec![call], replay },
        ChatMessage::ToolResults(results),
    ]
}

fn call(id: &str, name: &str, arguments: &str) -> Vec<ModelEvent> {
    vec![
        ModelEvent::CallStart { id: id.into(), name: name.into() },
        ModelEvent::CallArguments { id: id.into(), fragment: arguments.into() },
        ModelEvent::CallEnd { id: id.into() },
    ]
}

/// Requests a reply with one call, and checks this reply. Then sends the call's result, and returns
/// the events of the next reply.
async fn check_turn(
    model: &Arc<dyn Model>,
    reply_start: &[ModelEvent],
    usage: TokenUsage,
) -> Vec<ModelEvent> {
    let first = collect_events(model, request(vec![ChatMessage::user("read a")])).await;
    let call = call("call_1", "read_file", r#"{"path":"a"}"#);
    let end = [ModelEvent::Usage(usage), ModelEvent::Stop(ModelStopReason::ToolCalls)];
    assert_eq!(join_neighbours(&first), [reply_start, &call, &end].concat());
    collect_events(model, request(history_after("read a", &first, "it says b"))).await
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
async fn a_chat_completion_streams_and_its_call_is_sent_back_with_the_servers_id() {
    let (url, asked) = serve_responses(vec![events(CHAT), events(CHAT_TEXT)]).await;
    let model = model(Provider::OpenAi, &url);
    let reply_start = [ModelEvent::Thought("Hm.".into()), ModelEvent::Text("I read.".into())];
    let usage = TokenUsage {
        input_tokens: Some(10),
        output_tokens: Some(5),
        cached_tokens: Some(4),
        thought_tokens: Some(2),
        ..TokenUsage::default()
    };
    let second = check_turn(&model, &reply_start, usage).await;
    assert_eq!(second.last(), Some(&ModelEvent::Stop(ModelStopReason::EndTurn)));
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
async fn errors_have_the_right_kind() {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;
    let key = r#"{"error":{"message":"Incorrect API key provided: sk-test-secret"}}"#;
    let cases: [(String, ModelErrorKind, &str); 8] = [
        (
            format_response("429 Too Many", "retry-after: 7", r#"{"error":{"message":"slow"}}"#),
            ModelErrorKind::Transient,
            "slow",
        ),
        (format_response("401 No", "", key), ModelErrorKind::Auth, "provided: [key] (status 401)"),
        (
            format_response("400 Bad", "", too_long),
            ModelErrorKind::ContextTooLong,
            "maximum context",
        ),
        (
            format_response("502 Bad", "", "<html>oh</html>"),
            ModelErrorKind::Transient,
            "responded with an HTML page",
        ),
        (
            format_response("302 Found", "location: http://elsewhere", ""),
            ModelErrorKind::Other,
            "elsewhere",
        ),
        (
            format_response("200 OK", "content-type: text/html", "hi"),
            ModelErrorKind::Other,
            "text/html",
        ),
        (
            format_response(
                "200 OK",
                "content-type: application/json",
                r#"{"error":{"message":"no such model"}}"#,
            ),
            ModelErrorKind::Other,
            "no such model",
        ),
        (
            events(r#"data: {"choices":[{"index":0,"delta":{"content":"I "}}]}"#),
            ModelErrorKind::Transient,
            "was cut off",
        ),
    ];
    for (answer, fault, text) in cases {
        let (url, _asked) = serve_responses(vec![answer.clone()]).await;
        let received =
            collect_events(&model(Provider::OpenAi, &url), request(vec![ChatMessage::user("hi")]))
                .await;
        let Some(ModelEvent::Error(error)) = received.last() else {
            panic!("{answer}: {received:?}")
        };
        assert_eq!(error.kind, fault, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        if fault == ModelErrorKind::Transient && text == "slow" {
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        }
    }
}

const MESSAGES: &str = r#"
    event: message_start
    data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"some-model","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":3,"output_tokens":1}}}
    data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
    data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}
    data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"signed"}}
    data: {"type":"content_block_stop","index":0}
    data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
    data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I read."}}
    data: {"type":"content_block_stop","index":1}
    data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_a","name":"read_file","input":{}}}
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}
    data: {"type":"content_block_stop","index":2}
    data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":25}}
    data: {"type":"message_stop"}
"#;

#[tokio::test]
async fn a_message_streams_and_its_signed_thought_is_sent_back() {
    let (url, asked) = serve_responses(vec![events(MESSAGES), events(MESSAGES)]).await;
    let model = model(Provider::Anthropic, &url);
    let reply_start = [ModelEvent::Thought("Hm.".into()), ModelEvent::Text("I read.".into())];
    let usage = TokenUsage {
        input_tokens: Some(17),
        output_tokens: Some(25),
        cached_tokens: Some(4),
        cache_written_tokens: Some(3),
        ..TokenUsage::default()
    };
    check_turn(&model, &reply_start, usage).await;
    let asked = asked.await.unwrap();
    assert!(asked[0].head.starts_with("POST /v1/messages "), "{}", asked[0].head);
    assert!(asked[0].head.contains("x-api-key: sk-test-secret"), "{}", asked[0].head);
    let ephemeral = json!({ "type": "ephemeral" });
    let body = &asked[1].body;
    assert_eq!(body["system"][0]["cache_control"], ephemeral);
    assert_eq!(body["tools"][0]["cache_control"], ephemeral);
    assert_eq!(body["messages"][2]["content"][0]["cache_control"], ephemeral);
    let reply = &body["messages"][1]["content"];
    assert_eq!(reply[0], json!({ "type": "thinking", "thinking": "Hm.", "signature": "signed" }));
    assert_eq!(reply[2]["id"], "toolu_a");
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "toolu_a");
}

const RESPONSES: &str = r#"
    data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}
    data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}
    data: {"type":"response.reasoning_summary_text.delta","sequence_number":2,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Hm."}
    data: {"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"sealed"}}
    data: {"type":"response.output_item.added","sequence_number":4,"output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"id_a","name":"read_file","arguments":"","status":"in_progress"}}
    data: {"type":"response.function_call_arguments.delta","sequence_number":5,"item_id":"fc_1","output_index":1,"delta":"{\"path\":"}
    data: {"type":"response.function_call_arguments.delta","sequence_number":6,"item_id":"fc_1","output_index":1,"delta":"\"a\"}"}
    data: {"type":"response.function_call_arguments.done","sequence_number":7,"item_id":"fc_1","output_index":1,"arguments":"{\"path\":\"a\"}"}
    data: {"type":"response.output_item.done","sequence_number":8,"output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"id_a","name":"read_file","arguments":"{\"path\":\"a\"}","status":"completed"}}
    data: {"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}}
"#;

#[tokio::test]
async fn a_response_streams_and_its_items_are_sent_back() {
    let (url, asked) = serve_responses(vec![events(RESPONSES), events(RESPONSES)]).await;
    let model = model(Provider::OpenAiResponses, &format!("{url}/v1"));
    let reply_start = [ModelEvent::Thought("Hm.".into())];
    let usage = TokenUsage {
        input_tokens: Some(10),
        output_tokens: Some(5),
        cached_tokens: Some(4),
        thought_tokens: Some(2),
        ..TokenUsage::default()
    };
    check_turn(&model, &reply_start, usage).await;
    let asked = asked.await.unwrap();
    assert!(asked[0].head.starts_with("POST /v1/responses "), "{}", asked[0].head);
    assert_eq!(asked[0].body["store"], false);
    let input = asked[1].body["input"].as_array().unwrap();
    let of = |kind: &str| input.iter().find(|item| item["type"] == kind).unwrap();
    assert_eq!(of("reasoning")["encrypted_content"], "sealed");
    assert_eq!(of("function_call")["call_id"], "id_a");
    assert_eq!(of("function_call_output")["call_id"], "id_a");
}

const GEMINI: &str = r#"
    data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true}]}}]}
    data: {"candidates":[{"content":{"role":"model","parts":[{"text":"I read."}]}}]}
    data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read_file","args":{"path":"a"}},"thoughtSignature":"c2lnbmVk"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":2,"totalTokenCount":17}}
"#;

#[tokio::test]
async fn generated_content_streams_and_its_thought_signature_is_sent_back() {
    let (url, asked) = serve_responses(vec![events(GEMINI), events(GEMINI)]).await;
    let model = model(Provider::Gemini, &url);
    let reply_start = [ModelEvent::Thought("Hm.".into()), ModelEvent::Text("I read.".into())];
    let usage = TokenUsage {
        input_tokens: Some(10),
        output_tokens: Some(7),
        cached_tokens: Some(4),
        thought_tokens: Some(2),
        ..TokenUsage::default()
    };
    check_turn(&model, &reply_start, usage).await;
    let asked = asked.await.unwrap();
    let path = "POST /v1beta/models/some-model:streamGenerateContent?alt=sse HTTP/1.1";
    assert_eq!(asked[0].head.lines().next(), Some(path));
    assert!(asked[0].head.contains("x-goog-api-key: sk-test-secret"), "{}", asked[0].head);
    let contents = &asked[1].body["contents"];
    let parts = contents[1]["parts"].as_array().unwrap();
    assert_eq!(parts.last().unwrap()["thoughtSignature"], "c2lnbmVk");
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["name"], "read_file");
}

const OLLAMA: &str = r#"
    {"model":"some-model","message":{"role":"assistant","content":"","thinking":"Hm."},"done":false}
    {"model":"some-model","message":{"role":"assistant","content":"I read."},"done":false}
    {"model":"some-model","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read_file","arguments":{"path":"a"}}}]},"done":false}
    {"model":"some-model","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":5}
"#;

#[tokio::test]
async fn a_local_chat_streams_and_its_request_sets_the_context_size() {
    let lines: Vec<_> = OLLAMA.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let body = format!("{}\n", lines.join("\n"));
    let reply = format_response("200 OK", "content-type: application/x-ndjson", &body);
    let (url, asked) = serve_responses(vec![reply.clone(), reply]).await;
    let model = create_model(ProviderSettings {
        base_url: Some(url),
        context_tokens: Some(32_768),
        ..ProviderSettings::new(Provider::Ollama, NAME)
    });
    let reply_start = [ModelEvent::Thought("Hm.".into()), ModelEvent::Text("I read.".into())];
    let usage =
        TokenUsage { input_tokens: Some(10), output_tokens: Some(5), ..TokenUsage::default() };
    check_turn(&model, &reply_start, usage).await;
    let asked = asked.await.unwrap();
    assert!(asked[0].head.starts_with("POST /api/chat "), "{}", asked[0].head);
    assert!(!asked[0].head.contains("authorization"), "{}", asked[0].head);
    assert_eq!(asked[0].body["options"]["num_ctx"], 32_768);
    assert_eq!(asked[1].body["messages"][3]["content"], "it says b");
}

#[tokio::test]
async fn a_private_certificate_authority_is_trusted_if_configured() {
    let (url, pem) = serve_over_tls(events(CHAT_TEXT)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let missing = folder.path().join("missing.pem");
    let pipe = folder.path().join("pipe.pem");
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    #[cfg(not(target_os = "linux"))]
    std::fs::create_dir(&pipe).unwrap();
    for (ca_file, expected) in [
        (Some(file("ca.pem", &pem)), None),
        (None, Some("the certificate of 127.0.0.1:")),
        (Some(file("empty.pem", "")), Some("it contains no PEM certificate")),
        (Some(missing), Some("missing.pem (`ca_file`) cannot be used: No such file")),
        // Opening a FIFO would block until another process opens it for writing.
        (Some(pipe), Some("pipe.pem (`ca_file`) cannot be used: it is not a regular file")),
    ] {
        let base_url = Some(format!("{url}/v1"));
        let settings =
            ProviderSettings { base_url, ca_file, ..ProviderSettings::new(Provider::OpenAi, NAME) };
        let received =
            collect_events(&create_model(settings), request(vec![ChatMessage::user("hi")])).await;
        match (received.last(), expected) {
            (Some(ModelEvent::Stop(ModelStopReason::EndTurn)), None) => {}
            (Some(ModelEvent::Error(error)), Some(text)) => {
                assert!(error.message.contains(text), "{error}");
                assert!(error.message.contains("`ca_file`"), "{error}");
                assert_eq!(error.kind, ModelErrorKind::Other);
            }
            (got, expected) => panic!("{got:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_never_responds_is_an_idle_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let reply = model(Provider::OpenAi, &url).reply(request(vec![ChatMessage::user("hi")]));
    let received = tokio::spawn(reply.collect::<Vec<_>>());
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 1);
    tokio::time::pause();
    tokio::time::advance(limits::RESPONSE_HEADERS_TIMEOUT).await;
    let received = received.await.unwrap();
    let [ModelEvent::Error(error)] = &*received else { panic!("{received:?}") };
    assert_eq!(error.kind, ModelErrorKind::IdleTimeout);
    assert!(error.message.ends_with("did not start to respond within 240 s"), "{error}");
}

#[tokio::test]
async fn a_local_server_that_is_not_running_is_named_without_a_retry() {
    let (url, asked) = serve_responses(Vec::new()).await;
    asked.await.unwrap();
    let received =
        collect_events(&model(Provider::OpenAi, &url), request(vec![ChatMessage::user("hi")]))
            .await;
    let [ModelEvent::Error(error)] = &*received else { panic!("{received:?}") };
    assert_eq!(error.kind, ModelErrorKind::Unreachable);
    let host = url.trim_start_matches("http://");
    let expected = format!("nothing listens at {host}: is the model server running?");
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn no_log_line_contains_the_key() {
    use std::sync::Mutex;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let to = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || Shared(to.clone()))
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    for provider in Provider::ALL {
        let key = r#"{"error":{"message":"wrong key: sk-test-secret"}}"#;
        let (url, asked) = serve_responses(vec![format_response("400 Bad", "", key)]).await;
        let model = model(provider, &url);
        let received = collect_events(&model, request(vec![ChatMessage::user("hi")])).await;
        assert!(matches!(received.last(), Some(ModelEvent::Error(_))), "{received:?}");
        tracing::trace!(?model, ?received);
        assert!(asked.await.unwrap()[0].head.contains("sk-test-secret"));
    }
    drop(guard);
    let lines = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("Be brief.") && lines.contains("hyper"), "{lines}");
    assert!(!lines.contains("sk-test-secret"), "{lines}");
}

struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
