//! Requests that are refused or never answered: what is worth trying again is tried again, what is
//! not is told to the user.

use std::time::{Duration, Instant};

use callboard_models::mock_server::{Answer, Dialect, ModelServer, Reply};

use crate::case::{case, done, ready, run, runs_once};

#[tokio::test]
async fn busy_and_then_not() {
    for status in [429, 500, 503, 529] {
        let busy = Answer::error(status, "slow down").header("retry-after-ms", "50");
        case([busy, done()]).says("Done.").check().await;
    }
}

#[tokio::test]
async fn busy_for_as_many_seconds_as_the_provider_says() {
    for dialect in Dialect::ALL {
        let busy = Answer::error(503, "slow down").header("retry-after", "1");
        let server = ModelServer::start([busy, done()]).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let before = Instant::now();
        assert_eq!(agent.turn("go").await, "end_turn");
        assert!(before.elapsed() >= Duration::from_secs(1), "{dialect:?}: {:?}", before.elapsed());
        let thought = agent.session().thought();
        assert!(thought.ends_with("It is asked again in 1.0 s."), "{dialect:?}: {thought}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn busy_in_the_middle_of_a_turn_runs_nothing_twice() {
    let busy = Answer::error(503, "slow down").header("retry-after-ms", "50");
    case([runs_once().into(), busy, done()]).says("Done.").runs(1).check().await;
}

#[tokio::test]
async fn a_key_that_is_wrong() {
    for status in [401, 403] {
        case([Answer::error(status, "no such key")]).fails("no such key").check().await;
    }
}

#[tokio::test]
async fn a_model_that_there_is_not() {
    case([Answer::error(404, "no model `scripted`")]).fails("no model `scripted`").check().await;
}

#[tokio::test]
async fn a_request_that_is_wrong() {
    case([Answer::error(400, "wrong in this way")]).fails("wrong in this way").check().await;
}

#[tokio::test]
async fn an_error_of_great_length() {
    let message = "long \u{1b}[31m".repeat(10_000);
    case([Answer::error(400, &message)]).fails("long").check().await;
}

#[tokio::test]
async fn an_error_page_of_a_proxy() {
    let page = Answer::raw("text/html", "<html><body>Bad gateway</body></html>");
    case([Answer { status: 502, ..page.clone() }.header("retry-after-ms", "50"), done()])
        .says("Done.")
        .check()
        .await;
    case([Answer { status: 400, ..page }]).fails("400").check().await;
}

#[tokio::test]
async fn a_page_instead_of_a_stream() {
    let page = Answer::raw("text/html", "<html><body>Sign in to the hotel's WLAN</body></html>");
    case([page])
        .fails("text/html, which is no stream of events: is the address right?")
        .check()
        .await;
}

#[tokio::test]
async fn an_error_with_a_good_status() {
    let body = "{\"error\":{\"message\":\"no credits left\",\"code\":402}}";
    case([Answer::raw("application/json", body)])
        .only(&[Dialect::OpenAiChat])
        .fails("no credits left")
        .check()
        .await;
}

#[tokio::test]
async fn hung_up_before_a_word() {
    case([Answer::hang_up(), done()]).says("Done.").check().await;
}

#[tokio::test]
async fn sent_elsewhere() {
    // Nobody listens there, and a key is for whom it was given to.
    case([Answer::redirect("http://127.0.0.1:1/v1/elsewhere")])
        .fails("the server sends elsewhere: is the address right?")
        .check()
        .await;
}

#[tokio::test]
async fn a_turn_goes_on_after_one_that_failed() {
    for dialect in Dialect::ALL {
        let answers =
            [Reply::new().call(run()).into(), Answer::error(400, "wrong in this way"), done()];
        let server = ModelServer::start(answers).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let prompt = agent.prompt("go").await;
        agent.answer(&prompt).await.unwrap_err();
        assert_eq!(agent.turn("again").await, "end_turn");
        assert_eq!(crate::case::runs(&agent), 1);
        agent.finish().await;
    }
}
