//! Pages and searches of the web, by the shipped binary.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, text};
use crate::harness::session::call_text;
use crate::harness::{Agent, PermissionReply};

const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);
const REJECT: PermissionReply = PermissionReply::Select(PermissionOptionKind::RejectOnce);

/// A server that gives one answer to all requests.
struct Server {
    url: String,
    /// The heads of the requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(media_type: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let received = requests.clone();
        drop(std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
                received.lock().unwrap().push(head.join("\n"));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }));
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Runs one call in a session of an agent with this configuration and environment.
async fn run_call(
    (name, args): (&str, Value),
    config: &str,
    env: &[(&str, &str)],
    reply: PermissionReply,
) -> Agent {
    let scratch = Scratch::new();
    let folder = Path::new(&scratch.env()["XDG_CONFIG_HOME"]).join("callboard");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    let script = vec![call(name, args), end(), text("Done.")];
    let model = scratch.model(&Model::from(script));
    let mut agent = Agent::start_in(scratch, &["acp", "--model", &model], env, reply);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    agent
}

/// Returns the title, the state and the text of the only call.
fn shown(agent: &Agent) -> (String, ToolCallStatus, String) {
    let calls = agent.session().calls();
    let [call] = &calls[..] else { panic!("{calls:?}") };
    (call.title.clone(), call.status, call_text(call))
}

#[tokio::test]
async fn a_page_is_shown_after_a_question() {
    let page = "<title>A</title><main><h1>Head</h1><p>Text.</main>";
    for (reply, status, count) in
        [(ALLOW, ToolCallStatus::Completed, 1), (REJECT, ToolCallStatus::Failed, 0)]
    {
        // The page is behind a proxy, because pages on this computer are refused.
        let server = Server::start("text/html", page);
        let env = [("HTTP_PROXY", &*server.url)];
        let args = json!({"url": "http://a.example/b"});
        let mut agent = run_call(("fetch", args), "", &env, reply).await;
        let (title, ended, text) = shown(&agent);
        assert_eq!((title.as_str(), ended), ("Fetch `http://a.example/b`", status), "{text}");
        assert_eq!(agent.client.permission_requests.len(), 1);
        let requests = server.requests();
        assert_eq!(requests.len(), count);
        if count == 1 {
            assert!(text.contains("# Head\n\nText."), "{text}");
            assert!(requests[0].starts_with("GET http://a.example/b HTTP/1.1"), "{requests:?}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_page_on_this_computer_is_refused_without_a_question() {
    let server = Server::start("text/plain", "secret");
    let mut agent = run_call(("fetch", json!({"url": server.url})), "", &[], ALLOW).await;
    let (_, status, text) = shown(&agent);
    assert_eq!(status, ToolCallStatus::Failed);
    assert!(text.contains("127.0.0.1 is a loopback address."), "{text}");
    assert!(agent.client.permission_requests.is_empty() && server.requests().is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn the_configured_service_is_searched_without_a_question() {
    let results = json!({"results": [
        {"title": "Rust", "url": "https://rust.example/", "content": "A language."},
    ]});
    let server = Server::start("application/json", &results.to_string());
    let config = format!(
        "[web.search]\nservice = 'searxng'\nurl = '{}/search'\nkey_env = 'SEARCH_WORD'\n",
        server.url
    );
    let search = ("web_search", json!({"query": "msrv"}));
    // The name of the variable does not say that its value is secret.
    let env = [("SEARCH_WORD", "k-9f8e7d6c5b4a")];
    let mut agent = run_call(search.clone(), &config, &env, REJECT).await;
    let (title, status, text) = shown(&agent);
    assert_eq!(
        (title.as_str(), status),
        ("Search the web for `msrv`", ToolCallStatus::Completed),
        "{text}"
    );
    assert!(text.contains("https://rust.example/"), "{text}");
    assert!(agent.client.permission_requests.is_empty());
    let requests = server.requests();
    assert!(requests[0].starts_with("GET /search?q=msrv&format=json"), "{requests:?}");
    assert!(requests[0].to_lowercase().contains("authorization: bearer k-9f8e7d6c5b4a"));
    agent.finish().await;
    // Without a configured search service, there is no search tool.
    let mut agent = run_call(search, "", &[], ALLOW).await;
    assert!(shown(&agent).2.contains("There is no tool \"web_search\""));
    agent.finish().await;
}
