//! Runs the shipped binary in a scratch folder and speaks ACP v1 with it, line by line.
//!
//! Every line, both ways, is judged by the [`client`], also where a test looks at something else.
//! Every wait has a deadline; a test that fails shows the whole exchange and what was logged.

pub(crate) mod client;
mod envelope;
mod process;
mod schema;
pub(crate) mod scratch;
pub(crate) mod script;
mod self_test;
pub(crate) mod session;

use std::time::Duration;

use acp_types::schema::v1::ToolCall;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use self::client::{Client, Permission};
use self::process::Process;
use self::scratch::Scratch;
use self::script::Model;
use self::session::Session;

/// The longest that any wait may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// The longest that the agent may take to exit when its input ends.
const EXIT_DEADLINE: Duration = Duration::from_secs(2);

/// The longest that what was killed may take to be gone.
const LEFT_BEHIND: Duration = Duration::from_millis(500);

/// A result, or an error object.
pub(crate) type Answer = Result<Value, Value>;

/// The program under test.
pub(crate) const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");

/// How the client of a test behaves.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// What it answers when it is asked for permission.
    pub(crate) permission: Permission,
    /// What it says of itself in `initialize`.
    pub(crate) capabilities: Value,
}

impl Default for Options {
    fn default() -> Self {
        Self { permission: Permission::default(), capabilities: json!({}) }
    }
}

impl From<Permission> for Options {
    fn from(permission: Permission) -> Self {
        Self { permission, ..Self::default() }
    }
}

/// The running agent and the client that it serves. A test ends with [`Agent::finish`].
pub(crate) struct Agent {
    process: Process,
    last_id: i64,
    is_finished: bool,
    capabilities: Value,
    /// Where it works.
    pub(crate) scratch: Scratch,
    /// What was said, and what the client holds.
    pub(crate) client: Client,
}

impl Agent {
    /// Starts the agent and says nothing to it.
    pub(crate) fn start(model: impl Into<Model>, options: impl Into<Options>) -> Self {
        let Options { permission, capabilities } = options.into();
        let scratch = Scratch::new();
        let model = scratch.model(&model.into());
        Self {
            process: Process::start(&scratch, &model),
            last_id: 0,
            is_finished: false,
            capabilities,
            scratch,
            client: Client::new(permission),
        }
    }

    /// Starts the agent, initializes it and opens a session.
    pub(crate) async fn ready(model: impl Into<Model>, options: impl Into<Options>) -> Self {
        let mut agent = Self::start(model, options);
        agent.initialize().await.expect("it initializes");
        agent.new_session().await;
        agent
    }

    /// Initializes the agent with the capabilities of the test's options.
    pub(crate) async fn initialize(&mut self) -> Answer {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": self.capabilities,
            "clientInfo": {"name": "it", "version": "0"},
        });
        self.request("initialize", params).await
    }

    /// Opens a session in the scratch folder and returns its id.
    pub(crate) async fn new_session(&mut self) -> String {
        let params = json!({"cwd": self.scratch.cwd(), "mcpServers": []});
        let session = self.request("session/new", params).await.expect("a session opens");
        session["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a request whose parameters are as the protocol wants them; returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> Value {
        schema::check_sent(method, &params);
        self.send_unchecked(method, params).await
    }

    /// Sends a request whatever its parameters are; returns its id.
    pub(crate) async fn send_unchecked(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.raw(&message.to_string()).await;
        id
    }

    /// Sends a request as [`Agent::send`] does, and waits for its answer.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Answer {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// Sends a request as [`Agent::send_unchecked`] does, and waits for its answer.
    pub(crate) async fn request_unchecked(&mut self, method: &str, params: Value) -> Answer {
        let id = self.send_unchecked(method, params).await;
        self.answer(&id).await
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        schema::check_sent(method, &params);
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw(&message.to_string()).await;
    }

    /// Sends a line as it is.
    pub(crate) async fn raw(&mut self, line: &str) {
        self.client.sent(line);
        self.process.write(line).await;
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: &Value) -> Answer {
        self.until(|client| client.answer(id).is_some()).await;
        self.client.answer(id).cloned().unwrap()
    }

    /// Takes messages until the client has what the test waits for.
    pub(crate) async fn until(&mut self, has: impl Fn(&Client) -> bool) {
        let waiting = async {
            while !has(&self.client) {
                let line = self.process.line().await.expect("the agent ended before that");
                self.take(&line).await;
            }
        };
        // Boxed: the future would be large in every test that waits.
        let waited = timeout(DEADLINE, Box::pin(waiting)).await;
        waited.expect("nothing that the test waits for came in time");
    }

    /// Waits until a call of a session shows a line.
    pub(crate) async fn until_shown(&mut self, session: &str, line: &str) {
        self.until(|client| client.session(session).shows(line)).await;
    }

    async fn take(&mut self, line: &[u8]) {
        if let Some(reply) = self.client.receive(line)
            && self.process.listens()
        {
            self.raw(&reply.to_string()).await;
        }
    }

    /// Sends a prompt to a session; returns the request's id.
    pub(crate) async fn prompt_in(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Sends a prompt to the first session; returns the request's id.
    pub(crate) async fn prompt(&mut self, text: &str) -> Value {
        let session = self.session_id();
        self.prompt_in(&session, text).await
    }

    /// Lets a whole turn of the first session pass; returns its stop reason.
    pub(crate) async fn turn(&mut self, text: &str) -> String {
        let id = self.prompt(text).await;
        self.stop_reason(&id).await
    }

    /// Waits for the answer to a prompt; returns its stop reason.
    pub(crate) async fn stop_reason(&mut self, id: &Value) -> String {
        let answer = self.answer(id).await.expect("a turn is not answered by an error");
        answer["stopReason"].as_str().unwrap().to_owned()
    }

    /// Cancels the turn of the first session.
    pub(crate) async fn cancel(&mut self) {
        let params = json!({"sessionId": self.session_id()});
        self.notify("session/cancel", params).await;
    }

    /// Answers a permission request that was left open.
    pub(crate) async fn permit(&mut self, asked: usize, permission: Permission) {
        let reply = self.client.asked[asked].reply(permission).expect("an answer");
        self.raw(&reply.to_string()).await;
    }

    /// The id of the session that was opened first.
    pub(crate) fn session_id(&self) -> String {
        self.client.first.clone().expect("a session")
    }

    /// What the client holds of the session that was opened first.
    pub(crate) fn session(&self) -> &Session {
        self.client.session(&self.session_id())
    }

    /// The only call of a tool in the first session.
    pub(crate) fn call(&self, name: &str) -> ToolCall {
        self.session().call(name).clone()
    }

    /// What runs in the scratch folder beside the agent itself.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.scratch.processes(self.process.id())
    }

    /// Reads nothing more, beyond one line, until the guard is dropped.
    pub(crate) async fn stop_reading(&self) -> OwnedMutexGuard<()> {
        self.process.stop_reading().await
    }

    /// Closes the agent's output, and waits until it has noticed and exited.
    pub(crate) async fn vanish(&mut self) {
        self.process.close_output();
        self.process.exit().await;
    }

    /// Waits until nothing but the agent runs in the scratch folder.
    pub(crate) async fn until_alone(&self) {
        self.scratch.until_alone(self.process.id(), DEADLINE).await;
    }

    /// What the agent wrote to its standard error so far.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Ends the agent's input: it must say the rest by the rules, exit with 0 in time, and leave
    /// no process behind.
    pub(crate) async fn finish(&mut self) {
        self.process.close_input();
        self.end(0).await;
    }

    /// Sends SIGTERM to the agent, whose input stays open: it must end as with its input, but with
    /// the code that says so.
    pub(crate) async fn terminate(&mut self) {
        self.process.terminate();
        self.end(128 + 15).await;
    }

    async fn end(&mut self, code: i32) {
        let status = self.process.exit().await;
        self.process.close_input();
        while let Some(line) =
            timeout(DEADLINE, self.process.line()).await.expect("its output ends")
        {
            self.take(&line).await;
        }
        assert_eq!(status.code(), Some(code), "{status}");
        self.client.judge();
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
        self.scratch.until_alone(None, LEFT_BEHIND).await;
        self.is_finished = true;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nstderr:\n{}", self.client.transcript(), self.log());
        } else {
            assert!(self.is_finished, "a test ends with finish()");
        }
    }
}
