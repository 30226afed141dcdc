//! Streams as they are when all goes well, in all the shapes that this has.

use callboard::testing::models::{Answer, Call, Dialect, Reply, Step, Stop, Usage};
use serde_json::json;

use crate::case::{STREAMING, case, done, run, runs_once};

#[tokio::test]
async fn text_is_said() {
    case([Reply::new().text("It is ").text("so.").into()]).says("It is so.").check().await;
}

#[tokio::test]
async fn nothing_is_said() {
    case([Reply::new().into()]).check().await;
}

#[tokio::test]
async fn a_thought_and_text() {
    case([Reply::new().thought("Hm, ").thought("so.").text("So.").into()])
        .says("So.")
        .check()
        .await;
}

#[tokio::test]
async fn a_call_and_its_result() {
    case([runs_once().into(), done()]).says("Done.").runs(1).check().await;
}

#[tokio::test]
async fn a_call_behind_text_and_a_thought() {
    let reply = Reply::new().thought("I have to run it.").text("I run it.").call(run());
    case([reply.into(), done()]).says("I run it.Done.").runs(1).check().await;
}

#[tokio::test]
async fn text_behind_a_call() {
    let reply = runs_once().text("I ran it.");
    case([reply.into(), done()]).says("I ran it.Done.").runs(1).check().await;
}

#[tokio::test]
async fn arguments_in_fragments() {
    for bytes in [1, 7] {
        let reply = Reply::new().call(run().chunk(bytes));
        case([reply.into(), done()]).only(STREAMING).runs(1).says("Done.").check().await;
    }
}

#[tokio::test]
async fn calls_side_by_side() {
    let list = Call::new("list_directory", &json!({}));
    let reply = Reply::new().call(run().id(Some("a"))).call(list).call(run().id(Some("b")));
    case([reply.into(), done()]).runs(2).says("Done.").check().await;
}

#[tokio::test]
async fn calls_one_after_the_other() {
    let reply = |id| Reply::new().call(run().id(Some(id))).into();
    case([reply("a"), reply("b"), reply("c"), done()]).runs(3).says("Done.").check().await;
}

#[tokio::test]
async fn a_call_without_arguments() {
    let reply = Reply::new().call(Call::new("list_directory", &json!("")));
    case([reply.into(), done()]).only(STREAMING).says("Done.").check().await;
}

#[tokio::test]
async fn tokens_are_told() {
    let usage = Usage { input: 1234, cached: 1000, output: 56, thought: 7 };
    case([Reply::new().text("So.").usage(usage).into()]).says("So.").check().await;
}

#[tokio::test]
async fn the_longest_length_is_reached() {
    case([Reply::new().text("On and").stop(Stop::MaxTokens).into()])
        .says("On and")
        .stops("max_tokens")
        .check()
        .await;
}

#[tokio::test]
async fn bytes_come_one_at_a_time() {
    let reply = Reply::new().text("Zeile für Zeile 🎭").write_bytes(1);
    case([reply.into()]).says("für Zeile 🎭").check().await;
}

#[tokio::test]
async fn a_slow_start_and_pauses() {
    let reply = Reply::new().text("One ").step(Step::PauseMs(300)).text("two.");
    case([Answer::from(reply).after_ms(300)]).says("One two.").check().await;
}

#[tokio::test]
async fn comments_and_unknown_events_between() {
    let noise =
        b": keep-alive\n\nevent: news\ndata: {\"type\":\"news\",\"sparkle\":1}\n\n".to_vec();
    let reply = Reply::new().text("One ").step(Step::Raw(noise)).text("two.");
    case([reply.into()]).only(STREAMING).says("One two.").check().await;
}

#[tokio::test]
async fn lines_that_end_as_in_letters() {
    let body = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"One \"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two.\"},",
        "\"finish_reason\":\"stop\"}]}\r\n\r\n",
        "data: [DONE]\r\n\r\n",
    );
    case([Answer::raw("text/event-stream", body)])
        .only(&[Dialect::OpenAiChat])
        .says("One two.")
        .check()
        .await;
}

#[tokio::test]
async fn a_very_long_line() {
    let text = "many words ".repeat(1 << 17);
    case([Reply::new().text(&text).text("The end.").into()]).says("The end.").check().await;
}
