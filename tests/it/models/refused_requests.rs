//! Requests that the server refuses or never answers. Transient failures are retried, and other
//! failures are reported to the user.

use std::time::{Duration, Instant};

use callboard_models::mock_server::{Dialect, MockReply, MockResponse, ModelServer};

use crate::models::case::{final_answer, in_all_dialects, ready, run_call, runs_once, strings};

#[tokio::test]
async fn a_busy_server_is_retried() {
    for status in [429, 500, 503, 529] {
        let busy = MockResponse::error(status, "slow down").with_header("retry-after-ms", "50");
        in_all_dialects([busy, final_answer()]).expect_text("Done.").check().await;
    }
}

#[tokio::test]
async fn a_busy_server_is_retried_after_the_delay_that_it_names() {
    for dialect in Dialect::ALL {
        let busy = MockResponse::error(503, "slow down").with_header("retry-after", "1");
        let server = ModelServer::start([busy, final_answer()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let before = Instant::now();
        assert_eq!(agent.turn("go").await, "end_turn");
        assert!(before.elapsed() >= Duration::from_secs(1), "{dialect:?}: {:?}", before.elapsed());
        let thought = agent.session().thought_text();
        assert!(thought.ends_with("It is asked again in 1.0 s.\n\n"), "{dialect:?}: {thought}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_retry_within_a_turn_runs_no_call_twice() {
    let busy = MockResponse::error(503, "slow down").with_header("retry-after-ms", "50");
    in_all_dialects([runs_once().into(), busy, final_answer()])
        .expect_text("Done.")
        .expect_runs(1)
        .check()
        .await;
}

#[tokio::test]
async fn a_rejected_key() {
    for status in [401, 403] {
        in_all_dialects([MockResponse::error(status, "no such key")])
            .expect_error("no such key")
            .check()
            .await;
    }
}

#[tokio::test]
async fn an_unknown_model() {
    in_all_dialects([MockResponse::error(404, "no model `scripted`")])
        .expect_error("no model `scripted`")
        .check()
        .await;
}

#[tokio::test]
async fn a_rejected_request() {
    in_all_dialects([MockResponse::error(400, "wrong in this way")])
        .expect_error("wrong in this way")
        .check()
        .await;
}

/// Returns the answer of a server whose content filter refuses the prompt.
fn filtered(dialect: Dialect) -> MockResponse {
    if dialect == Dialect::Gemini {
        let body = "data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\"}}\n\n";
        return MockResponse::raw("text/event-stream", body);
    }
    let body = r#"{"error":{"message":"The response was filtered.","code":"content_filter"}}"#;
    let mut filtered = MockResponse::raw("application/json", body);
    filtered.status = 400;
    filtered
}

#[tokio::test]
async fn a_prompt_that_a_content_filter_refuses_is_not_sent_again() {
    for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Gemini] {
        let answers = [final_answer(), filtered(dialect), final_answer()];
        let server = ModelServer::start(answers).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        assert_eq!(agent.turn("a good prompt").await, "end_turn");
        assert_eq!(agent.turn("a bad prompt").await, "refusal", "{dialect:?}");
        let thought = agent.session().thought_text();
        assert!(thought.contains("A content filter of the provider refused"), "{thought}");
        assert_eq!(agent.turn("another prompt").await, "end_turn", "{dialect:?}");
        agent.finish().await;
        let last = strings(&server.reply_requests()[2].body_json()).join("\n");
        assert!(last.contains("a good prompt") && last.contains("another prompt"), "{last}");
        assert!(!last.contains("a bad prompt"), "{last}");
    }
}

#[tokio::test]
async fn an_error_of_great_length() {
    let message = "long \u{1b}[31m".repeat(10_000);
    in_all_dialects([MockResponse::error(400, &message)]).expect_error("long").check().await;
}

#[tokio::test]
async fn an_error_page_of_a_proxy() {
    let page = MockResponse::raw("text/html", "<html><body>Bad gateway</body></html>");
    let (mut busy, mut refused) = (page.clone().with_header("retry-after-ms", "50"), page);
    (busy.status, refused.status) = (502, 400);
    in_all_dialects([busy, final_answer()]).expect_text("Done.").check().await;
    in_all_dialects([refused]).expect_error("400").check().await;
}

#[tokio::test]
async fn a_page_instead_of_a_stream() {
    let page =
        MockResponse::raw("text/html", "<html><body>Sign in to the hotel's WLAN</body></html>");
    in_all_dialects([page])
        .expect_error("text/html, which is no stream of events: is the address right?")
        .check()
        .await;
}

#[tokio::test]
async fn an_error_with_a_good_status() {
    let body = "{\"error\":{\"message\":\"no credits left\",\"code\":402}}";
    in_all_dialects([MockResponse::raw("application/json", body)])
        .only_in(&[Dialect::OpenAiChat])
        .expect_error("no credits left")
        .check()
        .await;
}

#[tokio::test]
async fn a_connection_that_closes_before_the_response_is_retried() {
    in_all_dialects([MockResponse::hang_up(), final_answer()]).expect_text("Done.").check().await;
}

#[tokio::test]
async fn a_redirect_is_an_error() {
    // The agent must not follow the redirect, because a key must be sent only to the configured
    // server. No server listens at the target of the redirect.
    in_all_dialects([MockResponse::redirect("http://127.0.0.1:1/v1/elsewhere")])
        .expect_error("the server sends elsewhere: is the address right?")
        .check()
        .await;
}

#[tokio::test]
async fn a_turn_continues_the_session_after_a_failed_turn() {
    for dialect in Dialect::ALL {
        let answers = [
            MockReply::new().with_call(run_call()).into(),
            MockResponse::error(400, "wrong in this way"),
            final_answer(),
        ];
        let server = ModelServer::start(answers).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let prompt = agent.prompt("go").await;
        agent.answer(&prompt).await.unwrap_err();
        assert_eq!(agent.turn("again").await, "end_turn");
        assert_eq!(crate::models::case::count_runs(&agent), 1);
        agent.finish().await;
    }
}
