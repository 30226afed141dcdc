//! Well-formed streams in all variants.

use callboard_models::mock_server::{
    Dialect, MockReply, MockReplyStep, MockResponse, MockStopReason, MockToolCall, MockUsage,
    ModelServer, ResponseProgress,
};
use serde_json::json;

use crate::harness::TestClient;
use crate::models::case::{
    STREAMING, final_answer, in_all_dialects, provider, ready, run_call, runs_once,
};
use crate::models::context::updates;

#[tokio::test]
async fn a_reply_of_text() {
    in_all_dialects([MockReply::new().with_text("It is ").with_text("so.").into()])
        .expect_text("It is so.")
        .check()
        .await;
}

#[tokio::test]
async fn an_empty_reply() {
    in_all_dialects([MockReply::new().into()]).check().await;
}

#[tokio::test]
async fn a_thought_and_text() {
    in_all_dialects([MockReply::new()
        .with_thought("Hm, ")
        .with_thought("so.")
        .with_text("So.")
        .into()])
    .expect_text("So.")
    .check()
    .await;
}

#[tokio::test]
async fn a_call_and_its_result() {
    in_all_dialects([runs_once().into(), final_answer()])
        .expect_text("Done.")
        .expect_runs(1)
        .check()
        .await;
}

#[tokio::test]
async fn a_call_after_text_and_a_thought() {
    let reply = MockReply::new()
        .with_thought("I have to run it.")
        .with_text("I run it.")
        .with_call(run_call());
    in_all_dialects([reply.into(), final_answer()])
        .expect_text("I run it.Done.")
        .expect_runs(1)
        .check()
        .await;
}

#[tokio::test]
async fn text_after_a_call() {
    let reply = runs_once().with_text("I ran it.");
    in_all_dialects([reply.into(), final_answer()])
        .expect_text("I ran it.Done.")
        .expect_runs(1)
        .check()
        .await;
}

#[tokio::test]
async fn arguments_in_fragments() {
    for bytes in [1, 7] {
        let reply = MockReply::new().with_call(run_call().with_fragment_bytes(bytes));
        in_all_dialects([reply.into(), final_answer()])
            .only_in(STREAMING)
            .expect_runs(1)
            .expect_text("Done.")
            .check()
            .await;
    }
}

#[tokio::test]
async fn several_calls_in_one_reply() {
    let list = MockToolCall::new("list_directory", &json!({}));
    let reply = MockReply::new()
        .with_call(run_call().with_id(Some("a")))
        .with_call(list)
        .with_call(run_call().with_id(Some("b")));
    in_all_dialects([reply.into(), final_answer()])
        .expect_runs(2)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn one_call_in_each_of_several_replies() {
    let reply = |id| MockReply::new().with_call(run_call().with_id(Some(id))).into();
    in_all_dialects([reply("a"), reply("b"), reply("c"), final_answer()])
        .expect_runs(3)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn a_call_without_arguments() {
    let reply = MockReply::new().with_call(MockToolCall::new("list_directory", &json!("")));
    in_all_dialects([reply.into(), final_answer()])
        .only_in(STREAMING)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn tokens_and_their_cost_are_reported() {
    let mut usage = MockUsage::default();
    usage.input = 12_000;
    usage.cached = 10_000;
    usage.output = 560;
    usage.thought = 70;
    let answer = || MockResponse::from(MockReply::new().with_text("So.").with_usage(usage));
    // The prices of models, including the price of cached tokens, are from the built-in catalogue.
    // If only the dialect of a server is known, its prices are unknown.
    for (dialect, model, size, cost) in [
        (Dialect::OpenAiChat, "gpt-4o", 128_000, None),
        (Dialect::OpenAiResponses, "gpt-4o", 128_000, None),
        (Dialect::Anthropic, "claude-haiku-4-5", 200_000, Some(0.0058)),
        (Dialect::Gemini, "gemini-2.5-flash", 1_048_576, Some(0.0023)),
        (Dialect::Ollama, "my-own", 16_384, None),
    ] {
        let server = ModelServer::start([answer(), answer()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        agent.turn(&format!("/model {}/{model}", provider(dialect))).await;
        for _ in 0..2 {
            assert_eq!(agent.turn("go").await, "end_turn");
        }
        let expected = |times: f64| {
            let mut update = json!({"sessionUpdate": "usage_update", "used": 12_560, "size": size});
            if let Some(cost) = cost {
                update["cost"] = json!({"amount": cost * times, "currency": "USD"});
            }
            update
        };
        assert_eq!(updates(&agent, "usage_update"), [expected(1.0), expected(2.0)], "{dialect:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_token_limit_is_reached() {
    in_all_dialects([MockReply::new()
        .with_text("On and")
        .with_stop_reason(MockStopReason::MaxTokens)
        .into()])
    .expect_text("On and")
    .expect_stop_reason("max_tokens")
    .check()
    .await;
}

#[tokio::test]
async fn bytes_come_one_at_a_time() {
    let reply = MockReply::new().with_text("Zeile für Zeile 🎭").with_write_size(1);
    in_all_dialects([reply.into()]).expect_text("für Zeile 🎭").check().await;
}

#[tokio::test]
async fn a_slow_start_and_pauses() {
    let reply =
        MockReply::new().with_text("One ").with_step(MockReplyStep::PauseMs(300)).with_text("two.");
    in_all_dialects([MockResponse::from(reply).with_delay_ms(300)])
        .expect_text("One two.")
        .check()
        .await;
}

#[tokio::test]
async fn comments_and_unknown_events_are_ignored() {
    let noise =
        b": keep-alive\n\nevent: news\ndata: {\"type\":\"news\",\"sparkle\":1}\n\n".to_vec();
    let reply =
        MockReply::new().with_text("One ").with_step(MockReplyStep::Raw(noise)).with_text("two.");
    in_all_dialects([reply.into()]).only_in(STREAMING).expect_text("One two.").check().await;
}

#[tokio::test]
async fn lines_that_end_with_carriage_return_and_newline() {
    let body = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"One \"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two.\"},",
        "\"finish_reason\":\"stop\"}]}\r\n\r\n",
        "data: [DONE]\r\n\r\n",
    );
    in_all_dialects([MockResponse::raw("text/event-stream", body)])
        .only_in(&[Dialect::OpenAiChat])
        .expect_text("One two.")
        .check()
        .await;
}

#[tokio::test]
async fn a_very_long_line() {
    let text = "many words ".repeat(1 << 17);
    in_all_dialects([MockReply::new().with_text(&text).with_text("The end.").into()])
        .expect_text("The end.")
        .check()
        .await;
}

#[tokio::test]
async fn a_call_has_its_title_before_its_arguments_are_complete() {
    for dialect in STREAMING {
        let args = json!({"path": "far/away.txt", "content": "many words ".repeat(200)});
        let write = MockToolCall::new("write_file", &args)
            .with_fragment_bytes(20)
            .with_fragment_pause_ms(20);
        let server = ModelServer::start([MockReply::new().with_call(write).into()]).await.unwrap();
        let mut agent = ready(&server, *dialect).await;
        let prompt = agent.prompt("go").await;
        let session = agent.session_id();
        let has_title = |client: &TestClient| {
            let call = client.session(&session).only_call_of_tool("write_file");
            call.is_some_and(|call| call.title.contains("far/away.txt"))
        };
        agent.until(has_title).await;
        assert_eq!(
            server.reply_requests()[0].progress,
            ResponseProgress::Pending,
            "{dialect:?}: only then it was whole"
        );
        let place = agent.scratch.path("far/away.txt");
        assert_eq!(agent.call("write_file").locations[0].path, place, "{dialect:?}");
        agent.cancel().await;
        assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
        assert!(!place.exists());
        agent.finish().await;
    }
}
