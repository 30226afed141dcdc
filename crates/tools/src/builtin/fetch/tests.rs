//! Tests of whole calls of the tools for the web: the permission requests, and the results for the
//! model and the client.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use acp_lifecycle::rules::HostPattern;
use acp_lifecycle::{
    CallOutcome, Matcher, PermissionAnswer, Policy, ReadOnlyPolicy, Rule, RuleScope, Session,
    SessionHandle, Titles, Verdict, execute_call,
};
use acp_types::{Content, ContentBlock, Status, ToolCallId, ToolCallReport};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::web::testing::{Answer, TestNetwork, TestServer, page, redirect, response};
use crate::web::{SharedWebAccess, WebSearchSettings, WebSearchShape};
use crate::{CATALOGUES, Context, Registry, Workspace};

/// A session whose user allows some hosts.
pub(crate) struct WebStage {
    pub(crate) session: SessionHandle,
    pub(crate) registry: Registry,
    pub(crate) context: Context,
    pub(crate) server: TestServer,
    pub(crate) network: TestNetwork,
    /// The permission requests, each as its effects and the content of the call.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
    calls: usize,
}

/// Returns the addresses of a host name in the test network.
fn addresses(name: &str, _: usize) -> Vec<&'static str> {
    match name {
        "intern.example" => vec!["10.0.0.1"],
        "local.example" => vec!["127.0.0.1"],
        "none.example" => Vec::new(),
        _ => vec!["203.0.113.1"],
    }
}

impl WebStage {
    /// Creates a session. The user allows the hosts in `allowed`, each once.
    pub(crate) async fn start(
        respond: impl Fn(&str) -> Answer + Send + Sync + 'static,
        allowed: &'static [&'static str],
    ) -> Self {
        let server = TestServer::start(respond).await;
        let network = TestNetwork::new(&server, addresses);
        let folder = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::new(folder.path().to_owned(), Vec::new()).unwrap());
        let mut context = Context::new(workspace);
        context.web = Arc::new(SharedWebAccess::in_network(network.network.clone(), None));
        let session = SessionHandle::new(Session::new(folder.path().to_owned()), SystemTime::now);
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let questions = asked.clone();
        session.set_approver(move |request, call| {
            let effects = format!("{:?}", request.effects().iter().collect::<Vec<_>>());
            let is_allowed = allowed.iter().any(|host| effects.contains(&format!("({host:?})")));
            questions.lock().unwrap().push(format!("{effects}: {}", texts(&call).join(" ")));
            std::future::ready(Some(match is_allowed {
                true => PermissionAnswer::allow_once(),
                false => PermissionAnswer::reject_once(None),
            }))
        });
        let mut registry = Registry::builtin();
        registry.add_web_tools(None);
        Self { session, registry, context, server, network, asked, _folder: folder, calls: 0 }
    }

    pub(crate) async fn call(&mut self, tool: &str, args: Value) -> (CallOutcome, ToolCallReport) {
        self.call_until(&CancellationToken::new(), tool, args).await
    }

    async fn call_until(
        &mut self,
        cancel: &CancellationToken,
        tool: &str,
        args: Value,
    ) -> (CallOutcome, ToolCallReport) {
        self.calls += 1;
        let id = ToolCallId::new(format!("call{}", self.calls));
        let Self { session, registry, context, .. } = self;
        let open =
            registry.announce_call(session, &id, &"t".into(), tool, context, cancel).unwrap();
        let ended = execute_call(open, registry.prepare_call(tool, args, context)).await;
        (ended, session.call_report(&id).unwrap())
    }

    pub(crate) fn add_rule(&self, host: &str, verdict: Verdict) {
        let matcher = Matcher::Host(HostPattern::parse(host).unwrap());
        let rule = Rule::new(RuleScope::Session, matcher, verdict);
        assert!(self.session.update(|session, _| session.add_rule(rule)));
    }

    pub(crate) fn set_policy(&self, policy: impl Policy + 'static) {
        drop(self.session.update(|session, _| session.replace_policy(Arc::new(policy))));
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Returns the texts in the content of a call.
fn texts(call: &ToolCallReport) -> Vec<String> {
    let text = |content: &Content| match content {
        Content::Block(ContentBlock::Text(text)) => Some(text.text.clone()),
        _ => None,
    };
    call.content.iter().filter_map(text).collect()
}

fn whole(answer: Vec<u8>) -> impl Fn(&str) -> Answer + Send + Sync + 'static {
    move |_| Answer::Whole(answer.clone())
}

#[tokio::test]
async fn a_page_is_fetched_after_a_question() {
    let html = b"<title>A page</title><main><h1>Head</h1><p>Text with <a href=/x>link</a>.</main>";
    let mut stage = WebStage::start(whole(page("text/html", html)), &["a.example"]).await;
    let (ended, report) = stage.call("fetch", json!({ "url": "HTTP://a.EXAMPLE/b#c" })).await;
    assert_eq!(ended.status, Status::Completed, "{}", ended.text);
    assert_eq!(stage.asked(), ["[Connect(\"a.example\")]: "]);
    stage.call("fetch", json!({ "url": "http://203.0.113.7" })).await;
    assert_eq!(stage.asked(), ["[Connect(\"203.0.113.7\")]: "]);
    assert_eq!(report.title, "Fetch `http://a.example/b`");
}

#[tokio::test]
async fn the_model_and_the_client_receive_the_page() {
    let html = b"<title>A page</title><main><h1>Head</h1><p>Text with <a href=/x>link</a>.</main>";
    let mut stage = WebStage::start(whole(page("text/html", html)), &["a.example"]).await;
    let (ended, report) = stage.call("fetch", json!({ "url": "http://a.example/b" })).await;
    let expected = "URL: http://a.example/b
Status: 200
Type: text/html, converted to Markdown without navigation, forms and scripts
Title: A page

# Head

Text with [link](http://a.example/x).
";
    assert_eq!(ended.text, expected);
    let shown = "```markdown\n# Head\n\nText with [link](http://a.example/x).\n```";
    assert_eq!(texts(&report).join("\n").trim_end(), shown);
    let facts = json!({
        "url": "http://a.example/b", "status": 200, "mediaType": "text/html", "cached": false,
        "firstLine": 1, "lastLine": 3, "totalLines": 3, "nextOffset": null,
    });
    assert_eq!(report.raw_output, Some(facts));
    assert_eq!(
        *stage.network.connected.lock().unwrap(),
        ["203.0.113.1".parse::<std::net::IpAddr>().unwrap()]
    );
    // The cached page also contains its source, so showing the source needs no second request.
    let raw = json!({ "url": "http://a.example/b", "raw": true });
    let (ended, _) = stage.call("fetch", raw).await;
    assert!(
        ended.text.contains("Type: text/html (source)\n") && ended.text.contains("<title>A page")
    );
    assert_eq!(stage.server.request_count(), 1);
}

#[tokio::test]
async fn a_rejected_host_is_not_even_resolved() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &[]).await;
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(stage.asked().len(), 1);
    assert_eq!((stage.network.resolved(), stage.network.connected()), (vec![], vec![]));
    // If the user rejects the host of a redirect, this host is not resolved either.
    let mut stage = WebStage::start(redirecting, &["a.example"]).await;
    stage.call("fetch", json!({ "url": "http://a.example/data.b.example" })).await;
    assert_eq!(stage.asked().len(), 2);
    assert_eq!(stage.network.resolved(), ["a.example"]);
}

#[tokio::test]
async fn a_denied_host_is_not_even_resolved() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &["a.example"]).await;
    stage.add_rule("b.example", Verdict::Deny);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://b.example" })).await;
    assert_eq!(ended.status, Status::Failed);
    stage.set_policy(ReadOnlyPolicy);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!(ended.status, Status::Failed);
    assert!(stage.asked().is_empty());
    assert_eq!((stage.network.resolved(), stage.network.connected()), (vec![], vec![]));
}

#[tokio::test]
async fn an_allowed_host_is_connected_to_at_public_addresses_only() {
    let allowed = &["intern.example", "local.example", "none.example"];
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), allowed).await;
    for (url, code, reason) in [
        ("http://intern.example", "not_permitted", "intern.example has only private addresses."),
        ("http://local.example", "not_permitted", "local.example has only loopback addresses."),
        ("http://169.254.169.254/", "not_permitted", "169.254.169.254 is a link-local address."),
        ("http://0x7f.1/", "not_permitted", "127.0.0.1 is a loopback address."),
        ("http://none.example", "unreachable", "cannot be resolved"),
        ("file:///etc/passwd", "invalid_arguments", "Only http and https"),
    ] {
        let (ended, report) = stage.call("fetch", json!({ "url": url })).await;
        assert_eq!(ended.status, Status::Failed, "{url}");
        assert!(ended.text.contains(reason), "{url}: {}", ended.text);
        assert_eq!(report.raw_output.unwrap()["code"], code, "{url}");
    }
    // A URL with a forbidden address fails without a permission request.
    assert_eq!(stage.asked().len(), allowed.len());
    assert_eq!(stage.network.connected(), [""; 0]);
}

#[tokio::test]
async fn a_rule_opens_a_private_host_without_a_question() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &[]).await;
    stage.add_rule("*.example", Verdict::Allow);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://intern.example" })).await;
    assert_eq!(ended.status, Status::Completed, "{}", ended.text);
    assert_eq!(stage.network.connected(), ["10.0.0.1"]);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://local.example" })).await;
    assert!(ended.text.contains("only loopback addresses"), "{}", ended.text);
    assert!(stage.asked().is_empty());
    assert_eq!(stage.network.connected().len(), 1);
}

#[tokio::test]
async fn a_rule_about_the_tool_opens_no_private_host() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &[]).await;
    let rule = Rule::new(RuleScope::Session, Matcher::Tool("fetch".to_owned()), Verdict::Allow);
    assert!(stage.session.update(|session, _| session.add_rule(rule)));
    let (ended, _) = stage.call("fetch", json!({ "url": "http://intern.example" })).await;
    assert!(ended.text.contains("only private addresses"), "{}", ended.text);
    assert_eq!(stage.network.connected(), [""; 0]);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!(ended.status, Status::Completed, "{}", ended.text);
}

#[tokio::test]
async fn a_rule_that_names_a_private_host_opens_it_although_the_tool_is_asked_about() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &["intern.example"]).await;
    stage.add_rule("intern.example", Verdict::Allow);
    let rule = Rule::new(RuleScope::Session, Matcher::Tool("fetch".to_owned()), Verdict::Ask);
    assert!(stage.session.update(|session, _| session.add_rule(rule)));
    let (ended, _) = stage.call("fetch", json!({ "url": "http://intern.example" })).await;
    assert_eq!(ended.status, Status::Completed, "{}", ended.text);
    assert_eq!((stage.asked().len(), stage.network.connected()), (1, vec!["10.0.0.1".to_owned()]));
}

#[tokio::test]
async fn a_page_that_is_read_again_is_fetched_again() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &["a.example"]).await;
    for _ in 0..2 {
        let (_, report) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
        assert_eq!(report.raw_output.unwrap()["cached"], false);
    }
    assert_eq!(stage.server.request_count(), 2);
}

/// Redirects from `a.example` to the host that the path names.
fn redirecting(request: &str) -> Answer {
    let path = request.split(' ').nth(1).unwrap().trim_start_matches('/');
    Answer::Whole(match request.contains("host: a.example") && !path.is_empty() {
        true => redirect(&format!("http://{path}/")),
        false => page("text/plain", b"text"),
    })
}

#[tokio::test]
async fn each_other_host_of_a_redirect_is_asked_about() {
    let allowed = &["a.example", "b.example", "intern.example"];
    let mut stage = WebStage::start(redirecting, allowed).await;
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example/b.example" })).await;
    assert!(ended.text.starts_with("URL: http://b.example/\nStatus: 200\n"), "{}", ended.text);
    let [first, second] = &stage.asked()[..] else { panic!() };
    assert!(first.starts_with("[Connect(\"a.example\")]: "), "{first}");
    let note = "The page redirects to b.example.";
    assert!(second.starts_with("[Connect(\"b.example\")]: ") && second.ends_with(note), "{second}");
    // A redirect to the same host requests no second permission.
    stage.call("fetch", json!({ "url": "http://a.example/a.example" })).await;
    assert_eq!(stage.asked().len(), 1);
    let requests = stage.server.request_count();
    for (host, reason) in [
        ("c.example", "Connections to c.example are not permitted."),
        ("intern.example", "intern.example has only private addresses."),
        ("169.254.169.254", "169.254.169.254 is a link-local address."),
    ] {
        let (ended, _) =
            stage.call("fetch", json!({ "url": format!("http://a.example/{host}") })).await;
        assert_eq!(ended.status, Status::Failed);
        assert!(ended.text.contains(reason), "{}", ended.text);
    }
    assert_eq!(stage.server.request_count(), requests + 3);
    stage.add_rule("intern.example", Verdict::Allow);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example/intern.example" })).await;
    assert_eq!(ended.status, Status::Completed, "{}", ended.text);
}

#[tokio::test]
async fn a_long_page_is_read_on_without_another_connection() {
    let lines: String = (1..=9_000).map(|number| format!("line {number}\n")).collect();
    let mut stage =
        WebStage::start(whole(page("text/plain", lines.as_bytes())), &["a.example"]).await;
    let (ended, report) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert!(ended.text.len() < 32 * 1024, "{}", ended.text.len());
    let next = report.raw_output.unwrap()["nextOffset"].as_u64().unwrap();
    let note = format!("[lines 1-{} of 9,000; continue with offset {next}]\n", next - 1);
    assert!(ended.text.ends_with(&note), "{}", ended.text);
    let (ended, report) =
        stage.call("fetch", json!({ "url": "http://a.example", "offset": next })).await;
    assert_eq!(report.title, format!("Fetch `http://a.example/`, from line {next}"));
    assert!(ended.text.contains(&format!("\n\nline {next}\n")), "{}", &ended.text[..300]);
    assert_eq!(report.raw_output.unwrap()["cached"], true);
    let (ended, _) =
        stage.call("fetch", json!({ "url": "http://a.example", "offset": 9_001 })).await;
    assert!(ended.text.contains("which has 9000 lines. Use a smaller offset."), "{}", ended.text);
    assert_eq!((stage.asked().len(), stage.server.request_count()), (1, 1));
    // A rule that was added after the first call also applies to cached pages.
    stage.add_rule("a.example", Verdict::Deny);
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!(ended.status, Status::Failed);
}

#[tokio::test]
async fn images_are_shown_and_other_files_are_linked() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
    let respond = move |request: &str| {
        Answer::Whole(match request.split(' ').nth(1).unwrap() {
            "/x.png" => page("image/png", png),
            "/big.png" => page("image/png", &[png, &vec![0; 600 << 10]].concat()),
            _ => page("application/pdf", b"%PDF-1.7"),
        })
    };
    let mut stage = WebStage::start(respond, &["a.example"]).await;
    let (ended, report) = stage.call("fetch", json!({ "url": "http://a.example/x.png" })).await;
    assert!(ended.text.ends_with("Type: image/png\n[image/png, 16 bytes]\n"), "{}", ended.text);
    assert!(matches!(report.content[..], [Content::Block(ContentBlock::Image(_))]));
    let link = |report: &ToolCallReport| match &report.content[..] {
        [Content::Block(ContentBlock::ResourceLink(link))] => {
            format!("{} {} {:?} {:?}", link.name, link.uri, link.mime_type, link.size)
        }
        other => panic!("{other:?}"),
    };
    let (ended, report) = stage.call("fetch", json!({ "url": "http://a.example/big.png" })).await;
    assert_eq!(ended.images.len(), 1);
    assert!(
        link(&report).starts_with("big.png http://a.example/big.png Some(\"image/png\") Some(614")
    );
    let (ended, report) = stage.call("fetch", json!({ "url": "http://a.example/a/b.pdf?c" })).await;
    let expected = "b.pdf http://a.example/a/b.pdf?c Some(\"application/pdf\") Some(8)";
    assert_eq!(link(&report), expected);
    assert!(ended.text.contains("[This is not text: 8 bytes."), "{}", ended.text);
}

#[tokio::test]
async fn the_status_of_an_error_fails_the_call_with_its_text() {
    let answer = response(404, "Content-Type: text/plain\r\n", b"no such page");
    let mut stage = WebStage::start(whole(answer), &["a.example"]).await;
    let (ended, report) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!((ended.status, report.status), (Status::Failed, Status::Failed));
    assert!(ended.text.contains("Status: 404\n") && ended.text.contains("no such page"));
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!((stage.server.request_count(), ended.status), (2, Status::Failed));
}

#[tokio::test]
async fn a_cancelled_call_does_not_wait_for_the_server() {
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let respond = move |_: &str| {
        stop.cancel();
        Answer::Stalled(b"HTTP/1.1 200 OK\r\n\r\nstart".to_vec())
    };
    let mut stage = WebStage::start(respond, &["a.example"]).await;
    let args = json!({ "url": "http://a.example" });
    let (ended, _) = stage.call_until(&cancel, "fetch", args).await;
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(stage.server.request_count(), 1);
}

#[tokio::test]
async fn the_environment_of_the_session_names_the_proxy() {
    let mut stage = WebStage::start(whole(page("text/plain", b"text")), &["a.example"]).await;
    let env = [("HTTP_PROXY".to_owned(), "http://proxy.example:8".to_owned())];
    stage.context = stage.context.clone().with_env(Arc::new(env.into()));
    let (ended, _) = stage.call("fetch", json!({ "url": "http://a.example" })).await;
    assert_eq!(ended.status, Status::Completed, "{}", ended.text);
    let note = "The proxy that your environment names connects to a.example, so its address is not \
                checked.";
    assert!(stage.asked()[0].ends_with(note));
    assert_eq!(stage.network.resolved(), ["proxy.example"]);
    let request = stage.server.requests.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET http://a.example/ HTTP/1.1\r\n"), "{request}");
}

#[test]
fn titles_and_notes_are_in_the_language_of_the_user() {
    // Only the German catalogue is loaded. Otherwise an English text would replace a missing German
    // text.
    let german: Vec<_> = CATALOGUES.iter().filter(|it| it.0 == "de").copied().collect();
    let titles = Titles::negotiate(&german, "de").unwrap();
    for key in [
        "fetch",
        "fetch-from",
        "fetch-pending",
        "web-search",
        "web-search-pending",
        "fetch-by-proxy",
        "fetch-redirect",
        "fetch-redirect-by-proxy",
    ] {
        assert!(titles.has(key), "{key}");
    }
}

#[tokio::test]
async fn the_tools_are_registered_on_demand() {
    let names = |registry: &Registry| {
        let names = registry.definitions_for_model().map(|tool| tool.spec.name.into_owned());
        names.filter(|name| name.contains("fetch") || name.contains("web")).collect::<Vec<_>>()
    };
    let mut registry = Registry::builtin();
    assert_eq!(names(&registry), [""; 0]);
    registry.add_web_tools(None);
    assert_eq!(names(&registry), ["fetch"]);
    assert!(!registry.hints().iter().any(|hint| hint.contains("web_search")));
    let endpoint = "https://s.example/search";
    let search = WebSearchSettings::try_new(endpoint, WebSearchShape::SearXng, None).unwrap();
    registry.add_web_tools(Some(search));
    assert_eq!(names(&registry), ["fetch", "web_search"]);
    assert!(registry.spec("web_fetch").is_some());
}
