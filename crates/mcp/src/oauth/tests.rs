//! Tests of logins with a server in Python, whose authorization server accepts each refresh token
//! only once.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_tools::LiveTools;
use futures::future::join_all;
use futures::stream;
use pretty_assertions::assert_eq;
use rmcp::model::{CallToolRequestParams, Implementation};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::tokens::RefreshError;
use super::{McpLoginError, McpLoginFlow, ServerLogin};
use crate::client::{AgentSide, ServerMessages};
use crate::config::{McpServerConfig, McpTransport, SessionFolders};
use crate::lock::lock;
use crate::login::{McpLoginClient, McpLoginConfig, McpLoginStore};
use crate::requests::McpClientCapabilities;
use crate::server::RunningServer;
use crate::servers::{McpServerState, McpServers};
use crate::tool::ServerConnection;

/// A server that runs until the value is dropped.
struct TestServer {
    child: Child,
    url: String,
}

impl TestServer {
    fn start(behaviour: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/oauth/tests/oauth_server.py");
        let mut command = Command::new("python3");
        let child = command.arg(script).arg(behaviour).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    fn at(&self, path: &str) -> String {
        self.url.replace("/mcp", path)
    }

    async fn post(&self, path: &str) {
        browser().post(self.at(path)).send().await.unwrap();
    }

    async fn counts(&self) -> Value {
        let counts = browser().get(self.at("/counts")).send().await.unwrap();
        serde_json::from_slice(&counts.bytes().await.unwrap()).unwrap()
    }

    async fn count(&self, what: &str) -> u64 {
        self.counts().await["counts"][what].as_u64().unwrap_or_default()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn browser() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A store that ignores the URL of a login. The tests then check that the URL is also compared
/// outside of the store.
#[derive(Debug, Default)]
struct MemoryStore {
    logins: Mutex<BTreeMap<String, String>>,
    redacted: Mutex<Vec<String>>,
    /// The secrets that were replaced.
    replaced: Mutex<Vec<String>>,
    /// Whether saving a login fails.
    is_full: AtomicBool,
}

impl McpLoginStore for MemoryStore {
    fn load(&self, server: &str, _: &str) -> Result<Option<String>, String> {
        Ok(lock(&self.logins).get(server).cloned())
    }

    fn save(&self, server: &str, _: &str, login: &str) -> Result<(), String> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err("there is no space".to_owned());
        }
        lock(&self.logins).insert(server.to_owned(), login.to_owned());
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<Box<dyn Send>, String> {
        Ok(Box::new(()))
    }

    fn redact(&self, secret: &str) {
        lock(&self.redacted).push(secret.to_owned());
    }

    fn mark_secret_replaced(&self, secret: &str) {
        lock(&self.replaced).push(secret.to_owned());
    }
}

impl MemoryStore {
    fn login(&self) -> Value {
        serde_json::from_str(&lock(&self.logins)["docs"]).unwrap()
    }

    /// Makes the stored access token expire.
    fn expire(&self) {
        let mut login = self.login();
        login["credentials"]["token_received_at"] = 0.into();
        lock(&self.logins).insert("docs".to_owned(), login.to_string());
    }
}

fn config(url: &str, store: &Arc<MemoryStore>) -> McpServerConfig {
    let transport = McpTransport::Http { url: url.to_owned(), headers: Vec::new() };
    let mut config = McpServerConfig::new("docs", transport);
    config.login = Some(McpLoginConfig::new(store.clone(), "run `agent login docs`"));
    config
}

fn server_login(config: &McpServerConfig) -> ServerLogin {
    let McpTransport::Http { url, headers } = &config.transport else { panic!("a URL") };
    ServerLogin::new(config, url, headers)
}

/// A stream for tests in which the user pastes no line.
fn never() -> stream::Pending<String> {
    stream::pending()
}

fn no_line() {
    panic!("no line was pasted");
}

/// Logs in. Acts like a browser whose user agrees. Also returns the page that the browser shows at
/// the end.
async fn log_in(config: &McpServerConfig) -> (Result<(), McpLoginError>, String) {
    let flow = match McpLoginFlow::start(config, "Agent").await {
        Ok(flow) => flow,
        Err(error) => return (Err(error), String::new()),
    };
    let page = browser().get(flow.url()).send();
    let page = async { page.await.unwrap().text().await.unwrap() };
    tokio::join!(flow.finish(never(), no_line), page)
}

async fn connect(config: &McpServerConfig) -> Result<RunningServer, String> {
    let agent = AgentSide {
        info: Implementation::new("agent", "1"),
        roots: Vec::new(),
        capabilities: McpClientCapabilities::default(),
        handler: Arc::default(),
    };
    let messages = ServerMessages::new(config, agent);
    let folders = SessionFolders::new("/", []);
    RunningServer::start(config, messages, &folders, None, &CancellationToken::new()).await
}

/// Returns a server to which the user has logged in, and a connection to it.
async fn logged_in() -> (TestServer, Arc<MemoryStore>, McpServerConfig, RunningServer) {
    let (server, store) = (TestServer::start(""), Arc::default());
    let config = config(&server.url, &store);
    log_in(&config).await.0.unwrap();
    let running = connect(&config).await.unwrap();
    (server, store, config, running)
}

/// Sends this number of calls at the same time. Returns the error messages of the failed calls.
async fn call(connected: &ServerConnection, number: usize) -> Vec<String> {
    let call = || connected.peer.call_tool(CallToolRequestParams::new("echo"));
    let answers: Vec<Result<_, ServiceError>> = join_all((0..number).map(|_| call())).await;
    let failed = answers.into_iter().filter_map(Result::err);
    failed.map(|error| format!("{:?}", connected.error("echo", &error))).collect()
}

#[tokio::test]
async fn a_login_is_stored_and_used_and_its_secrets_are_redacted() {
    let (server, store, config, running) = logged_in().await;
    assert_eq!(running.list_tools(&config).await.unwrap().tools.len(), 1);
    assert!(call(&running.connection_for_calls(&config), 1).await.is_empty());
    assert_eq!([server.count("register").await, server.count("exchange").await], [1, 1]);
    let tokens = store.login()["credentials"]["token_response"].clone();
    // Tokens that the agent does not use are not stored.
    assert_eq!(tokens.get("id_token"), None);
    for name in ["access_token", "refresh_token"] {
        let token = tokens[name].as_str().unwrap().to_owned();
        assert!(lock(&store.redacted).contains(&token), "{name}");
        assert!(!format!("{config:?}").contains(&token));
    }
    let received = server.counts().await["received"].to_string();
    assert!(received.contains(tokens["access_token"].as_str().unwrap()), "{received}");
    running.end().await;
}

#[tokio::test]
async fn parallel_calls_renew_a_refused_token_once() {
    let (server, store, config, running) = logged_in().await;
    let before = store.login();
    server.post("/expire?16").await;
    assert_eq!(call(&running.connection_for_calls(&config), 50).await, [""; 0]);
    assert_eq!(server.count("refresh").await, 1);
    // The next connection uses the new refresh token.
    assert_ne!(store.login(), before);
    running.end().await;
    server.post("/expire").await;
    connect(&config).await.unwrap().end().await;
    assert_eq!(server.count("refresh").await, 2);
}

#[tokio::test]
async fn the_tokens_before_a_renewal_are_marked_as_replaced() {
    let (server, store, config, running) = logged_in().await;
    let tokens = |login: &Value| {
        let tokens = &login["credentials"]["token_response"];
        ["access_token", "refresh_token"].map(|name| tokens[name].as_str().unwrap().to_owned())
    };
    let before = tokens(&store.login());
    let connected = running.connection_for_calls(&config);
    assert_eq!(call(&connected, 1).await, [""; 0]);
    assert_eq!(*lock(&store.replaced), [""; 0]);
    server.post("/expire").await;
    assert_eq!(call(&connected, 1).await, [""; 0]);
    assert_ne!(tokens(&store.login()), before);
    assert_eq!(*lock(&store.replaced), before);
    running.end().await;
}

#[tokio::test]
async fn parallel_calls_renew_a_token_once_before_it_ends() {
    let (server, store, config, running) = logged_in().await;
    running.end().await;
    store.expire();
    let received = server.counts().await["received"].as_array().unwrap().len();
    let running = connect(&config).await.unwrap();
    assert_eq!(call(&running.connection_for_calls(&config), 50).await, [""; 0]);
    assert_eq!(server.count("refresh").await, 1);
    let ended = store.login()["credentials"]["token_received_at"] == 0;
    assert!(!ended && server.counts().await["received"].as_array().unwrap().len() > received);
    running.end().await;
}

#[tokio::test]
async fn a_login_whose_metadata_only_the_challenge_names_is_renewed() {
    let (server, store) = (TestServer::start("hidden"), Arc::default());
    let mut config = config(&server.url, &store);
    let headers = vec![("X-Tenant".to_owned(), "a".to_owned())];
    config.transport = McpTransport::Http { url: server.url.clone(), headers };
    log_in(&config).await.0.unwrap();
    let running = connect(&config).await.unwrap();
    server.post("/expire").await;
    assert_eq!(call(&running.connection_for_calls(&config), 1).await, [""; 0]);
    assert_eq!(server.count("refresh").await, 1);
    running.end().await;
}

#[tokio::test]
async fn fifty_requests_share_one_refresh() {
    let (server, store, config, running) = logged_in().await;
    running.end().await;
    store.expire();
    let login = Arc::new(server_login(&config));
    let tokens = join_all((0..50).map(|_| login.token())).await;
    let tokens: Vec<_> = tokens.into_iter().map(|token| token.unwrap().unwrap()).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(server.count("refresh").await, 1);
    let others = join_all((0..50).map(|_| login.token_after(&tokens[0]))).await;
    assert!(others.iter().all(|token| *token.as_ref().unwrap() != tokens[0]));
    assert_eq!(server.count("refresh").await, 2);
}

#[tokio::test]
async fn a_failure_of_the_authorization_server_does_not_end_a_login() {
    let (server, store, config, running) = logged_in().await;
    server.post("/expire").await;
    server.post("/break").await;
    let failed = call(&running.connection_for_calls(&config), 1).await;
    assert!(failed[0].contains("The login to the server docs cannot be renewed: "), "{failed:?}");
    store.expire();
    let failed = connect(&config).await.err().unwrap();
    assert!(failed.starts_with("its login cannot be renewed: "), "{failed}");
    let login = Arc::new(server_login(&config));
    let before = server.count("broken").await;
    assert!(join_all((0..50).map(|_| login.token())).await.iter().all(Result::is_err));
    assert_eq!(server.count("broken").await, before + 1);
    server.post("/repair").await;
    assert_eq!(call(&running.connection_for_calls(&config), 1).await, [""; 0]);
    running.end().await;
}

#[tokio::test]
async fn tokens_of_another_process_are_used() {
    let (server, store, config, running) = logged_in().await;
    let old = store.login();
    server.post("/expire").await;
    connect(&config).await.unwrap().end().await;
    assert_ne!(store.login(), old);
    // This connection still has the old tokens in memory.
    assert_eq!(call(&running.connection_for_calls(&config), 1).await, [""; 0]);
    assert_eq!(server.count("refresh").await, 1);
    running.end().await;
}

#[tokio::test]
async fn a_revoked_login_fails_each_call_and_is_tried_once() {
    let (server, _store, config, mut running) = logged_in().await;
    let connected = running.connection_for_calls(&config);
    server.post("/revoke?16").await;
    let failed = call(&connected, 50).await;
    assert_eq!(failed.len(), 50);
    let expected = "The server docs cannot be used: it needs a login: run `agent login docs`.";
    assert!(failed.iter().all(|text| text.contains(expected)), "{failed:?}");
    assert_eq!(server.count("refresh").await, 1);
    assert!(!running.wait_tools_changed_or_ended(tokio::time::Instant::now()).await);
    assert_eq!(running.end().await, "it needs a login: run `agent login docs`");
}

#[tokio::test]
async fn a_server_without_a_login_has_failed_until_the_user_logs_in() {
    let (server, store) = (TestServer::start(""), Arc::default());
    let config = config(&server.url, &store);
    let mut without_store = config.clone();
    without_store.name = "other".to_owned();
    without_store.login = None;
    let servers = McpServers::start(
        vec![config.clone(), without_store],
        SessionFolders::new("/", []),
        None,
        LiveTools::default(),
        ("agent", "1"),
        McpClientCapabilities::default(),
    );
    servers.wait_started().await;
    let mut notices = servers.take_notices();
    notices.sort();
    assert_eq!(
        notices,
        [
            "The MCP server docs does not run: it needs a login: run `agent login docs`.",
            "The MCP server other does not run: it needs a login."
        ]
    );
    log_in(&config).await.0.unwrap();
    assert!(servers.restart("docs"));
    while !matches!(servers.statuses()[0].state, McpServerState::Ready { .. }) {
        tokio::task::yield_now().await;
    }
    servers.stop().await;
}

#[tokio::test]
async fn a_changed_url_gets_no_token() {
    let (server, _store, config, running) = logged_in().await;
    running.end().await;
    let mut changed = config.clone();
    changed.transport = McpTransport::Http { url: server.at("/other"), headers: Vec::new() };
    let failed = connect(&changed).await.err();
    assert_eq!(failed.as_deref(), Some("it needs a login: run `agent login docs`"));
    let received = server.counts().await["received"].clone();
    let to_other = received.as_array().unwrap().iter().filter(|request| request[0] == "/other");
    let tokens: Vec<_> = to_other.map(|request| request[1].as_str().unwrap()).collect();
    assert_eq!(tokens, [""]);
}

#[tokio::test]
async fn other_answers_do_not_end_a_login() {
    let (server, store) = (TestServer::start(""), Arc::default());
    let config = config(&server.url, &store);
    let flow = McpLoginFlow::start(&config, "Agent").await.unwrap();
    let (login, address) = (flow.url().to_owned(), flow.listener.redirect_url().to_owned());
    let requests = async {
        for wrong in ["?code=x&state=wrong", "?error=access_denied", "?code=<b>"] {
            let answer = browser().get(format!("{address}{wrong}")).send().await.unwrap();
            assert_eq!(answer.status(), 404, "{wrong}");
            assert!(!answer.text().await.unwrap().contains("<b>"));
        }
        browser().get(login).send().await.unwrap().status()
    };
    let (finished, status) = tokio::join!(flow.finish(never(), no_line), requests);
    assert_eq!((finished, status.as_u16()), (Ok(()), 200));
}

#[tokio::test]
async fn the_address_can_be_pasted() {
    let (server, store) = (TestServer::start(""), Arc::default());
    let config = config(&server.url, &store);
    let flow = McpLoginFlow::start(&config, "Agent").await.unwrap();
    // On another computer, the browser shows the address but cannot open it.
    let elsewhere = reqwest::Client::builder().no_proxy();
    let elsewhere = elsewhere.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let redirect = elsewhere.get(flow.url()).send().await.unwrap();
    let address = redirect.headers()["location"].to_str().unwrap().to_owned();
    // A wrong line does not end the login.
    let other = address.replace("state=", "state=x");
    let lines = stream::iter(["callboard".to_owned(), other, "\n".to_owned(), address + "\n"]);
    let mut wrong = 0;
    assert_eq!(flow.finish(lines, || wrong += 1).await, Ok(()));
    assert_eq!((wrong, server.count("exchange").await), (2, 1));
    let mut flow = McpLoginFlow::start(&config, "Agent").await.unwrap();
    flow.deadline = tokio::time::Instant::now();
    assert_eq!(flow.finish(never(), no_line).await, Err(McpLoginError::TimedOut));
}

#[tokio::test]
async fn a_login_that_is_not_possible_has_a_reason() {
    use McpLoginError as E;
    let check = async |behaviour: &str, expected: &str| {
        let (server, store) = (TestServer::start(behaviour), Arc::<MemoryStore>::default());
        let (result, page) = log_in(&config(&server.url, &store)).await;
        let error = result.expect_err(behaviour);
        assert!(format!("{error:?}: {error}").contains(expected), "{behaviour}: {error:?}");
        assert!(!page.contains("never"), "{page}");
        assert_eq!(server.count("exchange").await, 0, "{behaviour}");
        assert!(lock(&store.logins).is_empty(), "{behaviour}");
    };
    check("denies", "Refused(\"access was denied\")").await;
    check("fails", "the login was refused: <b>").await;
    check("impostor", "other.example").await;
    check("private", "10.1.2.3").await;
    check("insecure", "Insecure(\"http://192.0.2.1/token\")").await;
    check("refuses", "Registration").await;
    check("closed", "Registration").await;
    check("silent", "NoMetadata").await;
    let (server, store) = (TestServer::start("silent"), Arc::<MemoryStore>::default());
    let of = |url: &str| config(url, &store);
    let program = McpServerConfig::new("docs", McpTransport::stdio("x", [""; 0]));
    assert_eq!(log_in(&program).await.0, Err(E::Program));
    let public = log_in(&of("http://mcp.example/")).await.0;
    assert!(public.is_err(), "{public:?}");
    let gone = log_in(&of(&server.at("/gone"))).await.0;
    assert_eq!(gone, Err(E::Failed("it answered with HTTP 404 Not Found".to_owned())));
}

#[tokio::test]
async fn a_server_that_answers_without_a_login_needs_none() {
    let (server, store) = (TestServer::start("open"), Arc::<MemoryStore>::default());
    let (_, page) = log_in(&config(&server.url, &store)).await;
    // The server publishes how to log in, so it may offer more tools after a login.
    assert!(page.contains("The answer has arrived."), "{page}");
}

#[tokio::test]
async fn a_registered_client_is_used() {
    let (server, store) = (TestServer::start("closed"), Arc::default());
    let mut config = config(&server.url, &store);
    let secret = "client-secret-1";
    let mut client = McpLoginClient::new("mine");
    client.secret = Some(secret.to_owned());
    config.login.as_mut().unwrap().client = Some(client.clone());
    // The server alone must not decide which authorization server receives the secret.
    let issuer = server.at("");
    assert_eq!(log_in(&config).await.0, Err(McpLoginError::OtherIssuer(issuer.clone())));
    let client = client.with_secret_for_issuer(Some(secret.to_owned()), issuer);
    config.login.as_mut().unwrap().client = Some(client.clone());
    assert!(!format!("{config:?}").contains(secret));
    log_in(&config).await.0.unwrap();
    let login = store.login();
    assert_eq!(login["credentials"]["client_id"], "mine");
    assert!(!login.to_string().contains(secret), "{login}");
    server.post("/expire").await;
    connect(&config).await.unwrap().end().await;
    assert_eq!(server.count("refresh").await, 1);
    // In the meantime, the user has registered the client at another authorization server.
    server.post("/expire").await;
    let client = client.with_secret_for_issuer(Some(secret.to_owned()), "https://other.example");
    config.login.as_mut().unwrap().client = Some(client);
    let failed = connect(&config).await.err();
    assert_eq!(failed.as_deref(), Some("it needs a login: run `agent login docs`"));
    assert_eq!(server.count("refresh").await, 1);
}

#[tokio::test]
async fn a_foreign_authorization_server_gets_no_refresh_token() {
    // Each of these servers pretends to be the authorization server of the login: it names the same
    // issuer or the same token endpoint.
    for (behaviour, expected) in [
        ("foreign", "are not those of their issuer"),
        ("moved", "it needs a login: run `agent login docs`"),
        ("renamed", "it needs a login: run `agent login docs`"),
    ] {
        let (server, store, config, running) = logged_in().await;
        running.end().await;
        server.post("/expire").await;
        server.post(&format!("/behave?{behaviour}")).await;
        let failed = connect(&config).await.err().unwrap();
        assert!(failed.contains(expected), "{behaviour}: {failed}");
        assert_eq!([server.count("refresh").await, server.count("stolen").await], [0, 0]);
        let before = store.login();
        let (result, _) = log_in(&config).await;
        // If the new authorization server publishes its own metadata, a new login is possible, and
        // is bound to this server.
        assert_eq!(result.is_ok(), behaviour != "foreign", "{behaviour}: {result:?}");
        assert_eq!(store.login() == before, behaviour == "foreign");
    }
}

#[tokio::test]
async fn a_client_that_is_not_registered_any_more_ends_the_login() {
    let (server, _store, config, running) = logged_in().await;
    server.post("/expire").await;
    server.post("/behave?forgets").await;
    let failed = call(&running.connection_for_calls(&config), 2).await;
    let expected = "it needs a login: run `agent login docs`.";
    assert!(failed.len() == 2 && failed.iter().all(|text| text.contains(expected)), "{failed:?}");
    assert_eq!(running.end().await, "it needs a login: run `agent login docs`");
}

#[tokio::test]
async fn a_login_that_cannot_be_saved_is_used_and_its_old_refresh_token_is_not() {
    let (server, store, config, running) = logged_in().await;
    let connected = running.connection_for_calls(&config);
    let before = store.login();
    store.is_full.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        server.post("/expire").await;
        assert_eq!(call(&connected, 1).await, [""; 0]);
    }
    assert_eq!(store.login(), before);
    store.is_full.store(false, Ordering::Relaxed);
    server.post("/expire").await;
    assert_eq!(call(&connected, 1).await, [""; 0]);
    assert_ne!(store.login(), before);
    // A new login of the user replaces the tokens in memory.
    store.is_full.store(true, Ordering::Relaxed);
    server.post("/expire").await;
    assert_eq!(call(&connected, 1).await, [""; 0]);
    store.is_full.store(false, Ordering::Relaxed);
    server.post("/revoke").await;
    log_in(&config).await.0.unwrap();
    let refreshes = server.count("refresh").await;
    assert_eq!(call(&connected, 1).await, [""; 0]);
    assert_eq!(server.count("refresh").await, refreshes);
    running.end().await;
}

/// Starts a renewal that the authorization server does not answer.
async fn slow_renewal() -> (TestServer, Arc<MemoryStore>, Arc<ServerLogin>) {
    let (server, store, config, running) = logged_in().await;
    running.end().await;
    store.expire();
    server.post("/behave?slow").await;
    let mut login = server_login(&config);
    login.patience = Duration::from_millis(50);
    let login = Arc::new(login);
    // The first request for tokens was sent by the login itself.
    while server.count("asked for tokens").await < 2 {
        assert!(login.token().await.is_err());
    }
    (server, store, login)
}

#[tokio::test]
async fn new_tokens_are_saved_if_no_request_waits_for_them_any_more() {
    let (server, store, login) = slow_renewal().await;
    let before = store.login();
    server.post("/behave?").await;
    let token = loop {
        if let Ok(token) = login.token().await {
            break token.unwrap();
        }
    };
    assert_eq!(store.login()["credentials"]["token_response"]["access_token"], token);
    assert_ne!(store.login(), before);
    assert_eq!(server.count("refresh").await, 1);
}

#[tokio::test]
async fn a_renewal_does_not_restore_a_login_that_was_removed() {
    let (server, store, login) = slow_renewal().await;
    lock(&store.logins).clear();
    server.post("/behave?").await;
    while !matches!(login.token().await, Err(RefreshError::Ended)) {}
    assert!(lock(&store.logins).is_empty());
    assert_eq!(server.count("refresh").await, 1);
}
