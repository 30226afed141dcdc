//! Streams that violate the rules of their dialect, and streams that end early.

use callboard_models::mock_server::{
    Dialect, MockReply, MockReplyStep, MockResponse, MockStopReason, MockToolCall, ModelServer,
};
use serde_json::json;

use crate::models::case::{
    STREAMING, count_runs, final_answer, in_all_dialects, ready, run_call, runs_once,
};

/// The chat dialect of OpenAI. Many servers implement it, each with small differences.
const CHAT: &[Dialect] = &[Dialect::OpenAiChat];

#[tokio::test]
async fn a_call_without_an_id() {
    let reply = MockReply::new().with_call(run_call().with_id(None));
    in_all_dialects([reply.into(), final_answer()])
        .expect_runs(1)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn calls_with_one_id() {
    let reply = MockReply::new()
        .with_call(run_call().with_id(Some("same")))
        .with_call(run_call().with_id(Some("same")));
    in_all_dialects([reply.into(), final_answer()])
        .expect_runs(2)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn the_id_of_an_earlier_call() {
    let reply = || MockReply::new().with_call(run_call().with_id(Some("same"))).into();
    in_all_dialects([reply(), reply(), final_answer()])
        .expect_runs(2)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn an_empty_id() {
    let reply = MockReply::new().with_call(run_call().with_id(Some("")));
    in_all_dialects([reply.into(), final_answer()])
        .expect_runs(1)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn calls_without_positions() {
    let reply = MockReply::new()
        .with_call(run_call().with_id(Some("a")))
        .with_call(run_call().with_id(Some("b")))
        .without_call_index();
    in_all_dialects([reply.into(), final_answer()])
        .only_in(CHAT)
        .expect_runs(2)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn no_end_marker() {
    let reply = runs_once().without_end_marker();
    in_all_dialects([reply.into(), final_answer()])
        .expect_runs(1)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn arguments_that_are_not_json_are_an_error_for_the_model() {
    for arguments in ["{\"command\": \"echo ran >> ran.txt\"", "echo ran", "[1]", "\"x\"", "null"] {
        let wrong = MockToolCall::new("terminal", &json!(arguments));
        let reply = MockReply::new().with_call(wrong);
        in_all_dialects([reply.into(), runs_once().into(), final_answer()])
            .only_in(STREAMING)
            .expect_runs(1)
            .expect_text("Done.")
            .check()
            .await;
    }
}

#[tokio::test]
async fn arguments_that_violate_the_schema_are_an_error_for_the_model() {
    let wrong = MockToolCall::new("terminal", &json!({"comand": "echo ran >> ran.txt"}));
    in_all_dialects([MockReply::new().with_call(wrong).into(), runs_once().into(), final_answer()])
        .expect_runs(1)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_for_the_model() {
    let wrong = MockToolCall::new("run_it", &json!({}));
    in_all_dialects([MockReply::new().with_call(wrong).into(), runs_once().into(), final_answer()])
        .expect_runs(1)
        .expect_text("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn cut_off_before_the_first_event() {
    let cut = MockReply::new().with_step(MockReplyStep::Cut).into();
    in_all_dialects([cut, final_answer()]).expect_text("Done.").check().await;
}

#[tokio::test]
async fn cut_off_within_text() {
    let cut = || MockReply::new().with_text("It is ").with_step(MockReplyStep::Cut);
    check_broken(cut, "cut off").await;
}

#[tokio::test]
async fn an_end_without_a_reason() {
    check_broken(
        || MockReply::new().with_text("It is ").with_stop_reason(MockStopReason::Nothing),
        "cut off",
    )
    .await;
}

#[tokio::test]
async fn cut_off_within_arguments() {
    let part = MockToolCall::new("terminal", &json!("{\"command\": \"echo ran >> ran.txt\""));
    let cut = MockResponse::from(MockReply::new().with_call(part).with_step(MockReplyStep::Cut));
    let whole = || runs_once().into();
    in_all_dialects([cut.clone(), whole(), final_answer()])
        .only_in(STREAMING)
        .expect_text("Done.")
        .expect_runs(1)
        .check()
        .await;
    in_all_dialects([cut.clone(), cut, final_answer()])
        .only_in(STREAMING)
        .expect_error("cut off")
        .expect_requests(2)
        .check()
        .await;
}

#[tokio::test]
async fn cut_off_after_a_complete_call() {
    check_broken(|| runs_once().with_step(MockReplyStep::Cut), "cut off").await;
}

#[tokio::test]
async fn an_error_within_the_stream() {
    let error = || MockReplyStep::Error("overloaded, the roof is on fire".to_owned());
    check_broken(|| MockReply::new().with_text("It is ").with_step(error()), "the roof is on fire")
        .await;
    check_broken(|| runs_once().with_step(error()), "the roof is on fire").await;
}

/// Checks that calls of an incomplete reply do not run, and that the agent repeats the request
/// once. If the second reply is complete, its calls run once. If it is also incomplete, the turn
/// ends with an error.
async fn check_broken(broken: impl Fn() -> MockReply, message: &'static str) {
    let broken = || MockResponse::from(broken());
    in_all_dialects([broken(), runs_once().into(), final_answer()])
        .expect_text("Done.")
        .expect_runs(1)
        .check()
        .await;
    in_all_dialects([broken(), broken(), final_answer()])
        .expect_error(message)
        .expect_requests(2)
        .check()
        .await;
}

#[tokio::test]
async fn a_reply_that_a_filter_stops_is_a_refusal() {
    const FILTERED: &[Dialect] =
        &[Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini];
    in_all_dialects([MockReply::new()
        .with_text("It is ")
        .with_stop_reason(MockStopReason::Filter)
        .into()])
    .only_in(FILTERED)
    .expect_stop_reason("refusal")
    .check()
    .await;
    in_all_dialects([runs_once().with_stop_reason(MockStopReason::Filter).into()])
        .only_in(FILTERED)
        .expect_stop_reason("refusal")
        .check()
        .await;
}

#[tokio::test]
async fn a_call_of_a_reply_at_the_token_limit_does_not_run() {
    in_all_dialects([runs_once().with_stop_reason(MockStopReason::MaxTokens).into()])
        .expect_stop_reason("max_tokens")
        .check()
        .await;
}

#[tokio::test]
async fn a_line_that_is_not_json() {
    let broken = MockReply::new()
        .with_step(MockReplyStep::Raw(b"data: {\"choices\":[\n\n".to_vec()))
        .with_text("So.");
    for reply in [broken.clone(), broken.with_step(MockReplyStep::Cut)] {
        let server = ModelServer::start([MockResponse::from(reply)]).await.unwrap();
        let mut agent = ready(&server, Dialect::OpenAiChat).await;
        let prompt = agent.prompt("go").await;
        // The agent may answer with a reply or with a clear error. No call may be left open.
        if let Err(error) = agent.answer(&prompt).await {
            assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{error}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf_8() {
    let broken = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n".to_vec();
    let reply = MockReply::new().with_step(MockReplyStep::Raw(broken)).with_text("So.");
    let server = ModelServer::start([MockResponse::from(reply)]).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "\u{fffd}\u{fffd}So.");
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_ends_a_silent_stream_and_its_connection() {
    for dialect in Dialect::ALL {
        let silent = MockReply::new().with_text("Let me ").with_step(MockReplyStep::Hang);
        let server =
            ModelServer::start([MockResponse::from(silent), final_answer()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let prompt = agent.prompt("go").await;
        let session = agent.session_id();
        agent.until(|client| client.session(&session).message_text() == "Let me ").await;
        agent.cancel().await;
        assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
        let left = |asked: &[callboard_models::mock_server::RecordedRequest]| {
            let reply = asked.iter().find(|asked| asked.dialect.is_some()).unwrap();
            matches!(
                reply.progress,
                callboard_models::mock_server::ResponseProgress::Disconnected(_)
            )
        };
        assert!(server.wait_until_requests_match(left).await);
        assert_eq!(agent.turn("again").await, "end_turn");
        assert_eq!(count_runs(&agent), 0);
        agent.finish().await;
    }
}
