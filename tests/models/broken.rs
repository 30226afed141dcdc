//! Streams that break the rules of their dialect, or break off.

use callboard_models::mock_server::{Answer, Call, Dialect, ModelServer, Reply, Step, Stop};
use serde_json::json;

use crate::case::{STREAMING, case, done, ready, run, runs, runs_once};

/// OpenAI's chat alone: many servers speak it, each a little differently.
const CHAT: &[Dialect] = &[Dialect::OpenAiChat];

#[tokio::test]
async fn a_call_without_an_id() {
    let reply = Reply::new().call(run().id(None));
    case([reply.into(), done()]).runs(1).says("Done.").check().await;
}

#[tokio::test]
async fn calls_with_one_id() {
    let reply = Reply::new().call(run().id(Some("same"))).call(run().id(Some("same")));
    case([reply.into(), done()]).runs(2).says("Done.").check().await;
}

#[tokio::test]
async fn the_id_of_an_earlier_call() {
    let reply = || Reply::new().call(run().id(Some("same"))).into();
    case([reply(), reply(), done()]).runs(2).says("Done.").check().await;
}

#[tokio::test]
async fn an_empty_id() {
    let reply = Reply::new().call(run().id(Some("")));
    case([reply.into(), done()]).runs(1).says("Done.").check().await;
}

#[tokio::test]
async fn calls_without_positions() {
    let reply = Reply::new().call(run().id(Some("a"))).call(run().id(Some("b"))).without_index();
    case([reply.into(), done()]).only(CHAT).runs(2).says("Done.").check().await;
}

#[tokio::test]
async fn no_marker_at_the_end() {
    let reply = runs_once().without_marker();
    case([reply.into(), done()]).runs(1).says("Done.").check().await;
}

#[tokio::test]
async fn arguments_that_are_no_json_are_told_to_the_model() {
    for arguments in ["{\"command\": \"echo ran >> ran.txt\"", "echo ran", "[1]", "\"x\"", "null"] {
        let wrong = Call::new("terminal", &json!(arguments));
        let reply = Reply::new().call(wrong);
        case([reply.into(), runs_once().into(), done()])
            .only(STREAMING)
            .runs(1)
            .says("Done.")
            .check()
            .await;
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model() {
    let wrong = Call::new("terminal", &json!({"comand": "echo ran >> ran.txt"}));
    case([Reply::new().call(wrong).into(), runs_once().into(), done()])
        .runs(1)
        .says("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn a_tool_that_there_is_not_is_told_to_the_model() {
    let wrong = Call::new("run_it", &json!({}));
    case([Reply::new().call(wrong).into(), runs_once().into(), done()])
        .runs(1)
        .says("Done.")
        .check()
        .await;
}

#[tokio::test]
async fn cut_before_a_word() {
    let cut = Reply::new().step(Step::Cut).into();
    case([cut, done()]).says("Done.").check().await;
}

#[tokio::test]
async fn cut_within_text() {
    let cut = || Reply::new().text("It is ").step(Step::Cut);
    check_broken(cut, "cut off").await;
}

#[tokio::test]
async fn an_end_without_a_reason() {
    check_broken(|| Reply::new().text("It is ").stop(Stop::Nothing), "cut off").await;
}

#[tokio::test]
async fn cut_within_arguments() {
    let part = Call::new("terminal", &json!("{\"command\": \"echo ran >> ran.txt\""));
    let cut = Answer::from(Reply::new().call(part).step(Step::Cut));
    let whole = || runs_once().into();
    case([cut.clone(), whole(), done()]).only(STREAMING).says("Done.").runs(1).check().await;
    case([cut.clone(), cut, done()]).only(STREAMING).fails("cut off").asks(2).check().await;
}

#[tokio::test]
async fn cut_behind_a_whole_call() {
    check_broken(|| runs_once().step(Step::Cut), "cut off").await;
}

#[tokio::test]
async fn an_error_within_the_stream() {
    let error = || Step::Error("overloaded, the roof is on fire".to_owned());
    check_broken(|| Reply::new().text("It is ").step(error()), "the roof is on fire").await;
    check_broken(|| runs_once().step(error()), "the roof is on fire").await;
}

/// What is broken off runs nothing. The request is made once more; when that reply is whole, what
/// it calls runs once, and when it breaks off as well, the turn ends by an error.
async fn check_broken(broken: impl Fn() -> Reply, message: &'static str) {
    let broken = || Answer::from(broken());
    case([broken(), runs_once().into(), done()]).says("Done.").runs(1).check().await;
    case([broken(), broken(), done()]).fails(message).asks(2).check().await;
}

#[tokio::test]
async fn a_filter_takes_the_rest_away() {
    const FILTERED: &[Dialect] =
        &[Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini];
    case([Reply::new().text("It is ").stop(Stop::Filter).into()])
        .only(FILTERED)
        .stops("refusal")
        .check()
        .await;
    case([runs_once().stop(Stop::Filter).into()]).only(FILTERED).stops("refusal").check().await;
}

#[tokio::test]
async fn a_call_that_the_longest_length_cuts_is_not_run() {
    case([runs_once().stop(Stop::MaxTokens).into()]).stops("max_tokens").check().await;
}

#[tokio::test]
async fn a_line_that_is_no_json() {
    let broken = Reply::new().step(Step::Raw(b"data: {\"choices\":[\n\n".to_vec())).text("So.");
    for reply in [broken.clone(), broken.step(Step::Cut)] {
        let server = ModelServer::start([Answer::from(reply)]).await.unwrap();
        let mut agent = ready(&server, Dialect::OpenAiChat).await;
        let prompt = agent.prompt("go").await;
        // A reply or a clear error: either is right, if nothing is left open.
        if let Err(error) = agent.answer(&prompt).await {
            assert!(error["message"].as_str().is_some_and(|told| told.len() > 10), "{error}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn bytes_that_are_no_text() {
    let broken = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n".to_vec();
    let reply = Reply::new().step(Step::Raw(broken)).text("So.");
    let server = ModelServer::start([Answer::from(reply)]).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().said(), "\u{fffd}\u{fffd}So.");
    agent.finish().await;
}

#[tokio::test]
async fn silence_can_be_cancelled_and_ends_the_connection() {
    for dialect in Dialect::ALL {
        let silent = Reply::new().text("Let me ").step(Step::Hang);
        let server = ModelServer::start([Answer::from(silent), done()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let prompt = agent.prompt("go").await;
        let session = agent.session_id();
        agent.until(|client| client.session(&session).said() == "Let me ").await;
        agent.cancel().await;
        assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
        let left = |asked: &[callboard_models::mock_server::Asked]| {
            let reply = asked.iter().find(|asked| asked.dialect.is_some()).unwrap();
            matches!(reply.fate, callboard_models::mock_server::Fate::Left(_))
        };
        assert!(server.until(left).await);
        assert_eq!(agent.turn("again").await, "end_turn");
        assert_eq!(runs(&agent), 0);
        agent.finish().await;
    }
}
