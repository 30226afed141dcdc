//! Tests of requests to search services, and of their responses.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    WebSearchSettings, WebSearchSettingsError, WebSearchShape, parse_results, results_text,
};
use crate::web::limits::{MAX_SEARCH_RESULTS, MAX_SEARCH_SNIPPET_BYTES, MAX_SEARCH_TITLE_BYTES};

use WebSearchShape::{Brave, SearXng, Tavily};

fn search(endpoint: &str, shape: WebSearchShape, key: Option<&str>) -> WebSearchSettings {
    WebSearchSettings::try_new(endpoint, shape, key.map(str::to_owned)).unwrap()
}

#[test]
fn each_service_has_its_request() {
    for (shape, endpoint, url, body, secret) in [
        (
            SearXng,
            "https://s.example/search?language=en",
            "https://s.example/search?language=en&q=a+%26+b%3D%22c%22&format=json",
            None,
            Some(("authorization", "Bearer key")),
        ),
        (
            Brave,
            "https://s.example/res/v1/web/search",
            "https://s.example/res/v1/web/search?q=a+%26+b%3D%22c%22&count=10",
            None,
            Some(("x-subscription-token", "key")),
        ),
        (
            Tavily,
            "https://s.example/search",
            "https://s.example/search",
            Some(json!({ "query": "a & b=\"c\"", "max_results": 10 })),
            Some(("authorization", "Bearer key")),
        ),
    ] {
        let request = search(endpoint, shape, Some("key")).request("a & b=\"c\"");
        assert_eq!(request.url.to_string(), url);
        let sent = request.json.map(|json| serde_json::from_str::<Value>(&json).unwrap());
        assert_eq!(sent, body);
        let (name, value) = request.secret.unwrap();
        assert!(value.is_sensitive());
        assert_eq!(Some((name.as_str(), value.to_str().unwrap())), secret);
        assert!(search(endpoint, shape, None).request("x").secret.is_none());
    }
}

#[test]
fn settings_are_checked() {
    let create = |endpoint: &str, key: &str| {
        WebSearchSettings::try_new(endpoint, SearXng, Some(key.to_owned()))
    };
    for endpoint in
        ["https://s.example", "http://localhost:8888/search", "http://127.0.0.1/", "http://[::1]/"]
    {
        assert!(create(endpoint, "key").is_ok(), "{endpoint}");
    }
    let host = "10.0.0.1".to_owned();
    assert_eq!(
        create("http://10.0.0.1/", "key"),
        Err(WebSearchSettingsError::UnencryptedKey { host })
    );
    assert!(WebSearchSettings::try_new("http://10.0.0.1/", SearXng, None).is_ok());
    assert_eq!(create("https://s.example", "key\n"), Err(WebSearchSettingsError::InvalidKey));
    for endpoint in ["ftp://s.example", "https://u:p@s.example", ""] {
        let error = create(endpoint, "key").unwrap_err();
        assert!(matches!(error, WebSearchSettingsError::InvalidEndpoint(_)), "{endpoint}");
    }
    let shown = format!("{:?}", create("https://s.example", "sesame").unwrap());
    assert!(shown.contains("s.example") && !shown.contains("sesame"), "{shown}");
    for (name, shape) in [
        ("searxng", Some(SearXng)),
        ("brave", Some(Brave)),
        ("tavily", Some(Tavily)),
        ("bing", None),
    ] {
        assert_eq!(WebSearchShape::from_name(name), shape);
    }
}

fn parse(shape: WebSearchShape, response: &Value) -> Result<String, String> {
    let results = parse_results(shape, response.to_string().as_bytes(), MAX_SEARCH_RESULTS)?;
    Ok(results_text(&results))
}

const EXPECTED: &str = "1. A & B page
   https://a.example/x
   Some words of\\u{202e} the page.

2. https://b.example/
   https://b.example/
";

#[test]
fn each_service_has_its_results() {
    let first = |snippet: &str| {
        json!({
            "title": "A &amp; <strong>B</strong>\n <T> page",
            "url": "https://a.example/x",
            snippet: "Some <b>words</b> of\u{202e} the page.",
            "score": 0.9,
        })
    };
    let second = json!({ "url": "https://b.example", "title": null });
    let bad = [json!({ "title": "no URL" }), json!({ "url": "javascript:alert(1)" }), json!(3)];
    let list =
        |snippet: &str| [&[first(snippet)], &bad[..], std::slice::from_ref(&second)].concat();
    let searxng = json!({ "query": "x", "results": list("content") });
    assert_eq!(parse(SearXng, &searxng).unwrap(), EXPECTED);
    assert_eq!(parse(Tavily, &searxng).unwrap(), EXPECTED);
    let brave = json!({ "web": { "results": list("description") } });
    assert_eq!(parse(Brave, &brave).unwrap(), EXPECTED);
    assert_eq!(parse(Brave, &json!({ "type": "search" })), Ok(String::new()));
    assert_eq!(parse(SearXng, &json!({ "results": [] })), Ok(String::new()));
}

#[test]
fn other_responses_are_errors() {
    for (shape, response) in [
        (SearXng, json!({ "web": { "results": [] } })),
        (Tavily, json!([])),
        (Brave, json!({ "web": {} })),
        (SearXng, json!({ "results": "none" })),
    ] {
        assert_eq!(parse(shape, &response), Err("it has no list of results".to_owned()));
    }
    let error = parse_results(SearXng, b"<html>", 10).unwrap_err();
    assert!(error.starts_with("it is not JSON ("), "{error}");
}

#[test]
fn results_are_bounded() {
    let long = "x < y ".repeat(10_000);
    let result = |number: usize| json!({ "title": long, "content": long, "url": format!("https://a.example/{number}") });
    let mut results: Vec<_> = (0..50).map(result).collect();
    results.insert(0, json!({ "title": "t", "url": format!("https://a.example/{long}") }));
    let response = json!({ "results": results }).to_string();
    let results = parse_results(SearXng, response.as_bytes(), MAX_SEARCH_RESULTS).unwrap();
    assert_eq!(results.len(), MAX_SEARCH_RESULTS);
    for result in &results {
        assert!(result.title.len() <= MAX_SEARCH_TITLE_BYTES && result.title.starts_with("x < y"));
        assert!(result.snippet.len() <= MAX_SEARCH_SNIPPET_BYTES);
    }
    assert!(results_text(&results).len() < 16 * 1024);
    assert_eq!(parse_results(SearXng, response.as_bytes(), 3).unwrap().len(), 3);
}
