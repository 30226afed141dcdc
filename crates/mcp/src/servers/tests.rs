//! Tests of connections to servers over HTTP. The server runs in the process of the test.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// The answer of a test server to a request.
enum Answer {
    /// The result of the request.
    Result(Value),
    /// An HTTP status without a body.
    Status(u16),
    /// The server closes the connection without an answer.
    Close,
}

type Call = Arc<dyn Fn(String) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A server over HTTP. Each request has its own TCP connection.
#[derive(Clone)]
struct HttpServer {
    capabilities: Value,
    tools: Value,
    /// Answers a call of the tool with this name.
    call: Call,
    /// The methods of all received requests.
    methods: Arc<Mutex<Vec<String>>>,
}

impl HttpServer {
    /// Creates a server with the tool `echo`.
    fn new<F: Future<Output = Answer> + Send + 'static>(
        call: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self {
        Self {
            capabilities: json!({"tools": {}}),
            tools: json!([{"name": "echo", "inputSchema": {"type": "object"}}]),
            call: Arc::new(move |tool| call(tool).boxed()),
            methods: Arc::default(),
        }
    }

    /// Serves requests in the background. Connects to the server, and waits until it is ready.
    async fn connect(&self) -> McpServers {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        let transport = McpTransport::Http { url, headers: Vec::new() };
        let servers = McpServers::start(
            vec![McpServerConfig::new("docs", transport)],
            SessionFolders::new("/", []),
            None,
            LiveTools::default(),
            ("agent", "1"),
            McpClientCapabilities::default(),
        );
        servers.wait_started().await;
        servers
    }

    /// Reads one request, and answers it.
    async fn serve(&self, stream: TcpStream) {
        let (mut stream, mut length, mut line) = (BufReader::new(stream), 0, String::new());
        while stream.read_line(&mut line).await.unwrap() > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, body) = match self.answer(&message).await {
            Answer::Result(result) => {
                (200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
            }
            Answer::Status(status) => (status, String::new()),
            Answer::Close => return,
        };
        let response = format!(
            "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        // The client may have closed the connection.
        drop(stream.write_all(response.as_bytes()).await);
    }

    async fn answer(&self, message: &Value) -> Answer {
        let Some(method) = message["method"].as_str() else { return Answer::Status(405) };
        lock(&self.methods).push(method.to_owned());
        match method {
            "initialize" => Answer::Result(json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": self.capabilities,
                "serverInfo": {"name": "test", "version": "1"},
            })),
            "tools/list" => Answer::Result(json!({"tools": self.tools})),
            "tools/call" => (self.call)(message["params"]["name"].as_str().unwrap().into()).await,
            _ => Answer::Status(202),
        }
    }

    /// Returns how often the server has received a request with this method.
    fn count(&self, method: &str) -> usize {
        lock(&self.methods).iter().filter(|other| *other == method).count()
    }
}

/// Returns the current connection to the only server.
fn connection(servers: &McpServers) -> Arc<ServerConnection> {
    match &*lock(&servers.state.entries[0].state) {
        EntryState::Ready { server, .. } => server.clone(),
        _ => panic!("the server is not ready"),
    }
}

/// Calls a tool. An error is reported as the call of a model would report it.
async fn call(server: &ServerConnection, tool: &'static str) -> Result<CallToolResult, String> {
    let answer = server.peer.call_tool(CallToolRequestParams::new(tool)).await;
    answer.map_err(|error| server.error(tool, &error).to_string())
}

fn empty_result() -> Answer {
    Answer::Result(json!({"content": []}))
}

#[tokio::test]
async fn a_request_that_the_server_refuses_does_not_end_the_other_calls() {
    for status in [404, 429, 500, 503] {
        let finish_slow = Arc::new(Notify::new());
        let finish = finish_slow.clone();
        let server = HttpServer::new(move |tool| {
            let finish = finish.clone();
            async move {
                if tool == "fail" {
                    return Answer::Status(status);
                }
                finish.notified().await;
                empty_result()
            }
        });
        let servers = server.connect().await;
        let connected = connection(&servers);
        let failed = async {
            let failed = call(&connected, "fail").await.unwrap_err();
            assert!(
                connected.messages.wait_until_connection_lost().now_or_never().is_none(),
                "{failed}"
            );
            finish_slow.notify_one();
            failed
        };
        let (slow, failed) = join(call(&connected, "slow"), failed).await;
        assert!(slow.is_ok(), "{slow:?}");
        let expected = "fail of the server docs failed: ";
        assert!(failed.starts_with(expected) && failed.contains(&status.to_string()), "{failed}");
        assert_eq!(server.count("initialize"), 1);
        servers.stop().await;
    }
}

#[tokio::test]
async fn the_next_request_to_the_model_waits_for_a_server_that_reconnects() {
    let server = HttpServer::new(async |tool: String| match &*tool {
        "fail" => Answer::Close,
        _ => empty_result(),
    });
    let servers = server.connect().await;
    let failed = call(&connection(&servers), "fail").await.unwrap_err();
    assert!(failed.contains("has failed, and is opened again: it cannot be reached"), "{failed}");
    // On a slow machine, one wait may end before the server is connected.
    for _ in 0..20 {
        let start = Instant::now();
        servers.wait_changes_listed().await;
        if start.elapsed() < LIST_WAIT {
            break;
        }
    }
    assert_eq!(server.count("initialize"), 2);
    assert_eq!(connection(&servers).name, "docs");
    assert_eq!(call(&connection(&servers), "echo").await.map(drop), Ok(()));
    servers.stop().await;
}

fn tool_names(servers: &McpServers) -> Vec<String> {
    match &servers.statuses()[0].state {
        McpServerState::Ready { tools } => tools.iter().map(|tool| tool.name.clone()).collect(),
        state => panic!("{state:?}"),
    }
}

#[tokio::test]
async fn a_server_without_the_capability_of_tools_runs_without_tools() {
    let mut server = HttpServer::new(async |_| empty_result());
    server.capabilities = json!({"prompts": {}});
    let servers = server.connect().await;
    assert_eq!(tool_names(&servers), [""; 0]);
    assert_eq!((server.count("initialize"), server.count("tools/list")), (1, 0));
    servers.stop().await;
}

#[tokio::test]
async fn a_malformed_tool_does_not_hide_the_other_tools() {
    let mut server = HttpServer::new(async |_| empty_result());
    let tool = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    server.tools = json!([
        tool("echo", json!({"type": "object"})),
        tool("wrong", json!("no schema")),
        {"title": "A tool without a name"},
        7,
        tool("look", json!({})),
    ]);
    let servers = server.connect().await;
    assert_eq!(tool_names(&servers), ["echo", "look"]);
    let expected = "The MCP server docs has tools with malformed definitions: 3 are left out.";
    assert_eq!(servers.take_notices(), [expected]);
    servers.stop().await;
}
