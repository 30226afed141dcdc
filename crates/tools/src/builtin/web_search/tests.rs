//! Tests of whole searches.

use acp_lifecycle::{AskAlwaysPolicy, ReadOnlyPolicy, Verdict};
use acp_types::Status;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::builtin::fetch::tests::WebStage;
use crate::web::testing::{Answer, page, redirect, response};
use crate::web::{WebSearchSettings, WebSearchShape};

async fn stage(
    endpoint: &str,
    respond: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> WebStage {
    let mut stage = WebStage::start(respond, &[]).await;
    let key = endpoint.starts_with("https").then(|| "key".to_owned());
    let search = WebSearchSettings::try_new(endpoint, WebSearchShape::SearXng, key).unwrap();
    stage.registry.add_web_tools(Some(search));
    stage
}

fn results(_: &str) -> Answer {
    let results = json!({ "results": [
        { "title": "One", "url": "https://a.example/1", "content": "First." },
        { "title": "Two", "url": "https://a.example/2", "content": "Second." },
    ] });
    Answer::Whole(page("application/json", results.to_string().as_bytes()))
}

#[tokio::test]
async fn a_search_runs_without_a_question() {
    let mut stage = stage("http://s.example/search", results).await;
    for policy_asks in [false, true] {
        if policy_asks {
            stage.set_policy(AskAlwaysPolicy);
        }
        let (ended, report) = stage.call("web_search", json!({ "query": " a & b " })).await;
        assert_eq!(ended.status, Status::Completed, "{}", ended.text);
        let expected = "1. One\n   https://a.example/1\n   First.\n\n2. Two\n   https://a.example/2\n   \
                        Second.\n";
        assert_eq!(ended.text, expected);
        assert_eq!(report.title, "Search the web for `a & b`");
    }
    let request = stage.server.requests.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET /search?q=a+%26+b&format=json HTTP/1.1\r\n"), "{request}");
    assert!(stage.asked().is_empty());
    let (ended, _) = stage.call("web_search", json!({ "q": "x", "max_results": 1 })).await;
    assert!(ended.text.contains("One") && !ended.text.contains("Two"), "{}", ended.text);
}

#[tokio::test]
async fn the_endpoint_may_be_on_this_computer_or_in_its_network() {
    for endpoint in
        ["http://local.example/search", "http://127.0.0.1:8888/", "http://intern.example"]
    {
        let mut stage = stage(endpoint, results).await;
        let (ended, _) = stage.call("web_search", json!({ "query": "x" })).await;
        assert_eq!(ended.status, Status::Completed, "{endpoint}: {}", ended.text);
    }
    let mut stage = stage("http://169.254.169.254/", results).await;
    let (ended, _) = stage.call("web_search", json!({ "query": "x" })).await;
    assert!(ended.text.contains("169.254.169.254 is a link-local address."), "{}", ended.text);
    assert_eq!(stage.network.connected(), [""; 0]);
}

#[tokio::test]
async fn rules_and_policies_that_deny_the_endpoint_hold() {
    let mut stage = stage("http://s.example/search", results).await;
    stage.add_rule("s.example", Verdict::Ask);
    let (ended, _) = stage.call("web_search", json!({ "query": "x" })).await;
    assert_eq!((ended.status, stage.asked().len()), (Status::Failed, 1));
    stage.add_rule("s.example", Verdict::Deny);
    let (ended, _) = stage.call("web_search", json!({ "query": "x" })).await;
    assert_eq!((ended.status, stage.asked().len()), (Status::Failed, 0));
    assert_eq!(stage.network.resolved(), [""; 0]);
}

#[tokio::test]
async fn a_mode_without_connections_denies_the_search() {
    let mut stage = stage("http://s.example/search", results).await;
    stage.set_policy(ReadOnlyPolicy);
    let (ended, _) = stage.call("web_search", json!({ "query": "x" })).await;
    assert_eq!((ended.status, stage.server.request_count()), (Status::Failed, 0));
}

#[tokio::test]
async fn responses_without_results_are_errors() {
    for (answer, reason) in [
        (response(401, "", b"no key"), "its status is 401"),
        (redirect("http://other.example/"), "its status is 302"),
        (page("text/html", b"<html>"), "it is not JSON"),
        (page("application/json", b"{}"), "it has no list of results"),
        (page("application/pdf", b"%PDF"), "the response is not text"),
        (page("application/json", &vec![b' '; 3 << 20]), "the response is too large"),
    ] {
        let mut stage = stage("http://s.example/", move |_| Answer::Whole(answer.clone())).await;
        let (ended, report) = stage.call("web_search", json!({ "query": "x" })).await;
        assert_eq!(ended.status, Status::Failed);
        assert!(ended.text.contains(reason), "{}", ended.text);
        assert_eq!(report.raw_output.unwrap()["code"], "http_status");
        assert_eq!(stage.network.resolved(), ["s.example"]);
    }
    let none = page("application/json", b"{\"results\": []}");
    let mut stage = stage("http://s.example/", move |_| Answer::Whole(none.clone())).await;
    let (ended, _) = stage.call("web_search", json!({ "query": "x" })).await;
    assert_eq!((ended.status, &*ended.text), (Status::Completed, "No results. Try other words.\n"));
}

#[tokio::test]
async fn queries_are_bounded() {
    let mut stage = stage("http://s.example/", results).await;
    for query in [String::new(), "  ".to_owned(), "x".repeat(1_001)] {
        let (ended, _) = stage.call("web_search", json!({ "query": query })).await;
        assert!(ended.text.contains("must have 1 to 1000 bytes"), "{}", ended.text);
    }
    assert_eq!(stage.server.request_count(), 0);
}
