//! Tests of the scripted server with a plain HTTP client.

use serde_json::{Value, json};

use super::{
    Dialect, MockReply, MockReplyStep, MockResponse, MockStopReason, MockToolCall, MockUsage,
    ModelServer, ResponseProgress,
};

/// Returns a path that selects the dialect.
fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiChat => "/chat/completions",
        Dialect::OpenAiResponses => "/responses",
        Dialect::Anthropic => "/v1/messages",
        Dialect::Gemini => "/v1beta/models/scripted:streamGenerateContent?alt=sse",
        Dialect::Ollama => "/api/chat",
    }
}

async fn send_request(server: &ModelServer, dialect: Dialect) -> reqwest::Response {
    let url = server.base_url(dialect) + path(dialect);
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    client.build().unwrap().post(url).body("{\"model\":\"scripted\"}").send().await.unwrap()
}

/// Parses the JSON of all events or lines of a body.
fn events(body: &str) -> Vec<Value> {
    let lines = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    lines.filter(|line| line.starts_with('{')).map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Joins the texts at a JSON pointer in all events.
fn joined(events: &[Value], place: &str) -> String {
    events.iter().filter_map(|event| event.pointer(place)?.as_str()).collect()
}

fn reply() -> MockReply {
    let usage = MockUsage { input: 100, cached: 64, output: 7, thought: 3 };
    let call = MockToolCall::new("read_file", &json!({"path": "ä.txt"})).with_fragment_bytes(3);
    MockReply::new()
        .with_thought("Hm.")
        .with_text("It ")
        .with_text("is.")
        .with_call(call)
        .with_usage(usage)
}

#[tokio::test]
async fn a_reply_is_encoded_in_every_dialect() {
    for (dialect, text, thought, arguments, reason) in [
        (
            Dialect::OpenAiChat,
            "/choices/0/delta/content",
            "/choices/0/delta/reasoning_content",
            "/choices/0/delta/tool_calls/0/function/arguments",
            ("/choices/0/finish_reason", "tool_calls"),
        ),
        (
            Dialect::OpenAiResponses,
            "/response/output/1/content/0/text",
            "/response/output/0/summary/0/text",
            "/response/output/2/arguments",
            ("/response/status", "in_progressin_progresscompleted"),
        ),
        (
            Dialect::Anthropic,
            "/delta/text",
            "/delta/thinking",
            "/delta/partial_json",
            ("/delta/stop_reason", "tool_use"),
        ),
        (
            Dialect::Gemini,
            "/candidates/0/content/parts/0/text",
            "/no",
            "/candidates/0/content/parts/0/functionCall/args/path",
            ("/candidates/0/finishReason", "STOP"),
        ),
        (
            Dialect::Ollama,
            "/message/content",
            "/message/thinking",
            "/message/tool_calls/0/function/arguments/path",
            ("/done_reason", "stop"),
        ),
    ] {
        let server = ModelServer::start([reply().into()]).await.unwrap();
        let answer = send_request(&server, dialect).await;
        assert_eq!(answer.status(), 200);
        let events = events(&answer.text().await.unwrap());
        // Gemini sends thoughts in the same field as text.
        let thoughts = if dialect == Dialect::Gemini { "Hm." } else { "" };
        assert_eq!(joined(&events, text), format!("{thoughts}It is."), "{dialect:?}");
        assert_eq!(joined(&events, thought).is_empty(), thought == "/no", "{dialect:?}");
        assert!(joined(&events, arguments).contains("ä.txt"), "{dialect:?}: {events:#?}");
        assert_eq!(joined(&events, reason.0), reason.1, "{dialect:?}");
        let asked = &server.reply_requests()[0];
        assert_eq!(
            (asked.dialect, asked.body_json()),
            (Some(dialect), json!({"model": "scripted"}))
        );
    }
}

#[tokio::test]
async fn an_error_has_its_status_headers_and_position_in_the_dialect() {
    for dialect in Dialect::ALL {
        let slow = MockResponse::error(429, "slow down").with_header("retry-after", "7");
        let server = ModelServer::start([slow]).await.unwrap();
        let answer = send_request(&server, dialect).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["retry-after"]),
            (429, &"7".parse().unwrap())
        );
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        let message = if dialect == Dialect::Ollama { "/error" } else { "/error/message" };
        assert_eq!(body.pointer(message), Some(&json!("slow down")), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_as_scripted() {
    let text = || MockReply::new().with_text("It ");
    for (reply, is_whole, holds, lacks) in [
        (text(), true, "[DONE]", "error"),
        (text().without_end_marker(), true, "\"stop\"", "[DONE]"),
        (text().with_stop_reason(MockStopReason::Nothing), true, "It ", "\"stop\""),
        (text().with_step(MockReplyStep::Cut), false, "", ""),
        (text().with_step(MockReplyStep::Error("broken".to_owned())), true, "broken", "[DONE]"),
        (
            text().with_step(MockReplyStep::Raw(b"data: {\n\n".to_vec())),
            true,
            "data: {\n\n",
            "error",
        ),
        (text().with_write_size(1), true, "[DONE]", "error"),
    ] {
        let server = ModelServer::start([reply.clone().into()]).await.unwrap();
        let body = send_request(&server, Dialect::OpenAiChat).await.text().await;
        assert_eq!(body.is_ok(), is_whole, "{reply:?}");
        let body = body.unwrap_or_default();
        assert!(body.contains(holds) && (lacks.is_empty() || !body.contains(lacks)), "{body}");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_reply_is_recorded() {
    let server = ModelServer::start([MockReply::new()
        .with_text("It ")
        .with_step(MockReplyStep::Hang)
        .into()])
    .await
    .unwrap();
    let answer = send_request(&server, Dialect::Anthropic).await;
    assert_eq!(server.reply_requests()[0].progress, ResponseProgress::Pending);
    drop(answer);
    assert!(
        server
            .wait_until_requests_match(|asked| matches!(
                asked[0].progress,
                ResponseProgress::Disconnected(_)
            ))
            .await
    );
}

#[tokio::test]
async fn requests_share_a_connection_and_the_script_ends() {
    let server = ModelServer::start([MockResponse::redirect("http://127.0.0.1:1/")]).await.unwrap();
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let url = server.base_url(Dialect::Ollama) + "/api/chat";
    for holds in ["", "used up"] {
        let answer = client.post(&url).send().await.unwrap().text().await.unwrap();
        assert!(answer.contains(holds), "{answer}");
    }
    let listed = client.get(server.base_url(Dialect::OpenAiChat) + "/models").send();
    let listed = listed.await.unwrap().text().await.unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["data"][0]["id"], "scripted");
    let connections: Vec<_> = server.requests().iter().map(|asked| asked.connection).collect();
    assert_eq!(connections, [0, 0, 0]);
    assert_eq!(server.reply_requests().len(), 2);
    assert!(reqwest::get(server.base_url(Dialect::Ollama) + "/no").await.unwrap().status() == 404);
}

#[test]
fn a_response_is_parsed_from_json() {
    let answer: MockResponse = serde_json::from_value(json!({
        "status": 200,
        "body": {"reply": {
            "steps": [{"text": "a"}, {"call": {"name": "think", "args": {}}}, {"pause_ms": 5}, "cut"],
            "stop": "max_tokens",
        }},
    }))
    .unwrap();
    assert!(matches!(answer.body, super::MockBody::Reply(reply) if reply.steps.len() == 4));
    serde_json::from_value::<MockResponse>(json!({"satus": 200})).unwrap_err();
}
