//! The requests that a provider receives. The requests contain the session in the format of the
//! dialect.

use callboard_models::mock_server::{
    Dialect, MockReply, MockResponse, MockToolCall, ModelServer, RecordedRequest,
};
use serde_json::{Value, json};

use crate::models::case::{KEY, final_answer, ready, run_call, runs_once, strings};

/// Runs a turn, and returns the bodies of its requests for a reply.
async fn request_bodies(dialect: Dialect, answers: Vec<MockResponse>) -> Vec<Value> {
    let server = ModelServer::start(answers).await.unwrap();
    let mut agent = ready(&server, dialect).await;
    assert_eq!(agent.turn("please go").await, "end_turn");
    agent.finish().await;
    server.reply_requests().iter().map(RecordedRequest::body_json).collect()
}

#[tokio::test]
async fn the_request_contains_the_prompt_and_the_tools_and_no_key_in_its_body() {
    for dialect in Dialect::ALL {
        let bodies = request_bodies(dialect, vec![final_answer()]).await;
        let texts = strings(&bodies[0]);
        assert!(texts.iter().any(|text| text == "please go"), "{dialect:?}: {texts:?}");
        for tool in ["read_file", "edit_file", "terminal"] {
            assert!(texts.iter().any(|text| text == tool), "{dialect:?}: {tool}");
        }
        assert!(!bodies[0].to_string().contains(KEY), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_call_and_its_result() {
    for dialect in Dialect::ALL {
        let reply = MockReply::new()
            .with_thought("Hm.")
            .with_text("I run it.")
            .with_call(run_call().with_id(Some("call_7")));
        let bodies = request_bodies(dialect, vec![reply.into(), final_answer()]).await;
        assert_eq!(bodies.len(), 2);
        let (place, call, result) = match dialect {
            Dialect::OpenAiChat => ("/messages", "/tool_calls/0/function/name", ("/role", "tool")),
            Dialect::OpenAiResponses => ("/input", "/name", ("/type", "function_call_output")),
            Dialect::Anthropic => {
                ("/messages", "/content/2/name", ("/content/0/type", "tool_result"))
            }
            Dialect::Gemini => (
                "/contents",
                "/parts/2/functionCall/name",
                ("/parts/0/functionResponse/name", "terminal"),
            ),
            Dialect::Ollama => ("/messages", "/tool_calls/0/function/name", ("/role", "tool")),
        };
        let messages = bodies[1].pointer(place).and_then(Value::as_array).unwrap();
        let find = |pointer: &str, value: &str| {
            let at = messages.iter().position(|it| it.pointer(pointer).is_some_and(|v| v == value));
            at.unwrap_or_else(|| panic!("{dialect:?}: no {pointer} {value} in {messages:#?}"))
        };
        assert!(find(call, "terminal") < find(result.0, result.1), "{dialect:?}");
    }
}

#[tokio::test]
async fn the_request_contains_long_arguments_unchanged() {
    let content = "a \"line\"\n\\ of many\n".repeat(100);
    for dialect in Dialect::ALL {
        let args = json!({"path": "long.txt", "content": content});
        let reply = MockReply::new().with_call(MockToolCall::new("write_file", &args));
        let bodies = request_bodies(dialect, vec![reply.into(), final_answer()]).await;
        // A dialect sends the arguments either as an object, or as a string that contains JSON.
        let is_sent = strings(&bodies[1]).into_iter().any(|text| {
            let inner = serde_json::from_str::<Value>(&text).unwrap_or_default();
            text == content || inner["content"] == *content
        });
        assert!(is_sent, "{dialect:?}: {:#}", bodies[1]);
    }
}

#[tokio::test]
async fn the_request_contains_the_replay_data_of_the_provider() {
    // In these dialects, the scripted server sends a signature or an encrypted thought, which the
    // agent must return.
    for dialect in [Dialect::Anthropic, Dialect::OpenAiResponses, Dialect::Gemini] {
        let reply = MockReply::new().with_thought("Hm.").with_call(run_call());
        let bodies = request_bodies(dialect, vec![reply.into(), final_answer()]).await;
        let texts = strings(&bodies[1]);
        assert!(texts.iter().any(|text| text == "c2NyaXB0ZWQ="), "{dialect:?}: {:#}", bodies[1]);
    }
}

#[tokio::test]
async fn the_request_marks_the_content_that_may_be_cached() {
    let bodies = request_bodies(Dialect::Anthropic, vec![runs_once().into(), final_answer()]).await;
    assert!(bodies[1].to_string().contains("\"cache_control\""));
}

#[tokio::test]
async fn the_requests_of_a_session_reuse_connections() {
    for dialect in Dialect::ALL {
        let server =
            ModelServer::start([runs_once().into(), final_answer(), final_answer()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        agent.turn("one").await;
        agent.turn("two").await;
        agent.finish().await;
        // The list of models may be requested at the same time on other connections, and the later
        // requests may use any of them.
        let (all, replies) = (server.requests(), server.reply_requests());
        let is_reused = |reply: &RecordedRequest| {
            let earlier = all.iter().filter(|it| it.received_at < reply.received_at);
            earlier.into_iter().any(|it| it.connection == reply.connection)
        };
        assert_eq!(replies.len(), 3);
        assert!(replies[1..].iter().all(is_reused), "{dialect:?}: {all:?}");
    }
}
