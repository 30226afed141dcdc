//! Runs the shipped binary in a scratch folder and speaks ACP v1 with it, line by line.
//!
//! Every line, both ways, is judged by the [`client`], also where a test looks at something else.
//! Every wait has a deadline; a test that fails shows the whole exchange and what was logged.

pub(crate) mod client;
mod envelope;
mod schema;
pub(crate) mod scratch;
pub(crate) mod script;
mod self_test;
pub(crate) mod session;

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_types::schema::v1::ToolCall;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::client::{Client, Permission};
use self::scratch::Scratch;
use self::script::Model;
use self::session::Session;

/// The longest that any wait may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// The longest that the agent may take to exit when its input ends.
const EXIT_DEADLINE: Duration = Duration::from_secs(2);

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
    process: Child,
    stdin: Option<ChildStdin>,
    lines: UnboundedReceiver<Vec<u8>>,
    reader: JoinHandle<()>,
    reading: Arc<tokio::sync::Mutex<()>>,
    log: Arc<Mutex<String>>,
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
        let mut process = Command::new(CALLBOARD)
            .args(["acp", "--model", &model])
            .current_dir(scratch.cwd())
            .env_clear()
            .envs(scratch.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = mpsc::unbounded_channel();
        let log = Arc::<Mutex<String>>::default();
        let reading = Arc::<tokio::sync::Mutex<()>>::default();
        let stdout = process.stdout.take().unwrap();
        let reader = tokio::spawn(read_lines(stdout, sender, Arc::clone(&reading)));
        tokio::spawn(read_log(process.stderr.take().unwrap(), Arc::clone(&log)));
        Self {
            stdin: process.stdin.take(),
            process,
            lines,
            reader,
            reading,
            log,
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
        let stdin = self.stdin.as_mut().expect("the input is open");
        let line = format!("{line}\n");
        let written = timeout(DEADLINE, stdin.write_all(line.as_bytes())).await;
        written.expect("it reads its input").expect("its input is open");
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
                let line = self.lines.recv().await.expect("the agent ended before that");
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
            && self.stdin.is_some()
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
        Arc::clone(&self.reading).lock_owned().await
    }

    /// Closes the agent's output, and waits until it has noticed and exited.
    pub(crate) async fn vanish(&mut self) {
        self.reader.abort();
        let exited = timeout(EXIT_DEADLINE, self.process.wait()).await;
        exited.expect("it exits when nobody reads its output").unwrap();
    }

    /// Waits until nothing but the agent runs in the scratch folder.
    pub(crate) async fn until_alone(&self) {
        let alone = async {
            while !self.processes().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(DEADLINE, alone).await.expect("what it runs ends");
    }

    /// What the agent wrote to its standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Ends the agent's input: it must say the rest by the rules, exit with 0 in time, and leave
    /// no process behind.
    pub(crate) async fn finish(&mut self) {
        drop(self.stdin.take());
        let exited = timeout(EXIT_DEADLINE, self.process.wait()).await;
        let status = exited.expect("it exits when its input ends").unwrap();
        while let Some(line) = timeout(DEADLINE, self.lines.recv()).await.expect("its output ends")
        {
            self.take(&line).await;
        }
        assert_eq!(status.code(), Some(0), "{status}");
        self.client.judge();
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
        // What was killed may take a moment to be gone.
        let gone = async {
            while !self.scratch.processes(None).is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let gone = timeout(Duration::from_millis(500), gone).await;
        assert!(gone.is_ok(), "left behind: {:#?}", self.scratch.processes(None));
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

async fn read_lines(
    stdout: ChildStdout,
    lines: UnboundedSender<Vec<u8>>,
    reading: Arc<tokio::sync::Mutex<()>>,
) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).await.is_ok_and(|bytes| bytes > 0) {
        if lines.send(std::mem::take(&mut line)).is_err() {
            break;
        }
        drop(reading.lock().await);
    }
}

async fn read_log(mut stderr: ChildStderr, log: Arc<Mutex<String>>) {
    let mut bytes = vec![0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        log.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}
