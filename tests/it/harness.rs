//! Runs the shipped binary in a scratch folder, with the test kit as its client.
//!
//! The kit's client validates every line in both directions in every test. Every wait has a
//! timeout, and a failing test prints the whole transcript and the log. This module contains only
//! the parts that are specific to this program: its folder, its models, and its exit.

pub(crate) mod normalized;
pub(crate) mod raw;
mod schema;
pub(crate) mod scratch;
pub(crate) mod script;
pub(crate) mod session;

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use acp_conformance::{AgentTestError, ConformanceRule, Side};
use acp_types::schema::v1::ToolCall;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use self::scratch::Scratch;
use self::script::Model;
use self::session::ObservedSession;

pub(crate) use acp_conformance::{
    ClientBehaviour as Options, JsonRpcResult, PermissionReply, ReceivedPermissionRequest,
    TestClient,
};

/// Timeout of every wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Path of the program under test.
pub(crate) const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");

/// The running agent and its client. A test ends with [`Agent::finish`].
pub(crate) struct Agent {
    kit: acp_conformance::AgentUnderTest,
    is_finished: bool,
    /// Whether the client's behaviour allows that some of its requests stay unanswered.
    is_wild: bool,
    /// The scratch folder of the agent.
    pub(crate) scratch: Scratch,
}

/// Gives access to the methods and fields of the kit's agent, including `client`.
impl Deref for Agent {
    type Target = acp_conformance::AgentUnderTest;

    fn deref(&self) -> &acp_conformance::AgentUnderTest {
        &self.kit
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut acp_conformance::AgentUnderTest {
        &mut self.kit
    }
}

impl Agent {
    /// Starts the agent, and sends no message.
    pub(crate) fn start(model: impl Into<Model>, options: impl Into<Options>) -> Self {
        let scratch = Scratch::new();
        let model = scratch.model(&model.into());
        Self::start_in(scratch, &["acp", "--model", &model], &[], options)
    }

    /// Starts the agent in a folder, with these arguments and additional variables.
    pub(crate) fn start_in(
        scratch: Scratch,
        args: &[&str],
        env: &[(&str, &str)],
        options: impl Into<Options>,
    ) -> Self {
        Self::start_changed(scratch, args, options, |command| {
            command.envs(env.iter().copied());
        })
    }

    /// Starts the agent in a folder, with these arguments, after a final change of its command.
    pub(crate) fn start_changed(
        scratch: Scratch,
        args: &[&str],
        options: impl Into<Options>,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        Self::start_program(CALLBOARD.as_ref(), scratch, args, options, change)
    }

    /// Starts a copy of the program like [`Self::start_changed`].
    pub(crate) fn start_program(
        program: &Path,
        scratch: Scratch,
        args: &[&str],
        options: impl Into<Options>,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(program);
        command.args(args).current_dir(scratch.cwd());
        command.env_clear().envs(scratch.env());
        change(&mut command);
        let kit =
            acp_conformance::AgentUnderTest::start(command, options).expect("the binary starts");
        Self { kit, is_finished: false, is_wild: false, scratch }
    }

    /// Starts the agent like [`Self::ready`], but without a store. With a store, the speed of the
    /// disk would determine which changes of a call are sent together, and a snapshot contains
    /// every message.
    pub(crate) async fn ready_without_store(
        model: impl Into<Model>,
        options: impl Into<Options>,
    ) -> Self {
        let scratch = Scratch::new();
        let model = scratch.model(&model.into());
        let args = ["acp", "--ephemeral", "--model", &model];
        let mut agent = Self::start_in(scratch, &args, &[], options);
        agent.initialize().await.expect("it initializes");
        agent.new_session().await;
        agent
    }

    /// Starts the agent, initializes it and opens a session.
    pub(crate) async fn ready(model: impl Into<Model>, options: impl Into<Options>) -> Self {
        let mut agent = Self::start(model, options);
        agent.initialize().await.expect("it initializes");
        agent.new_session().await;
        agent
    }

    /// Initializes the agent with the capabilities of the test's options.
    pub(crate) async fn initialize(&mut self) -> JsonRpcResult {
        answer(self.kit.initialize().await)
    }

    /// Opens a session in the scratch folder and returns its id.
    pub(crate) async fn new_session(&mut self) -> String {
        self.kit.new_session(&self.scratch.cwd()).await.expect("a session opens")
    }

    /// Sends a request with valid parameters; returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> Value {
        let before = self.client.violations_by(Side::Client).len();
        let id = self.send_unchecked(method, params).await;
        let mut faults = self.client.violations_by(Side::Client).split_off(before);
        let about_shape =
            [ConformanceRule::UnknownMethod, ConformanceRule::Schema, ConformanceRule::LostField];
        faults.retain(|fault| about_shape.contains(&fault.rule));
        assert_eq!(faults, [], "send it unchecked");
        id
    }

    /// Sends a request with any parameters; returns its id.
    pub(crate) async fn send_unchecked(&mut self, method: &str, params: Value) -> Value {
        self.kit.send_request(method, params).await.expect("it reads its input")
    }

    /// Sends a request as [`Agent::send`] does, and waits for its answer.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> JsonRpcResult {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// Sends a request as [`Agent::send_unchecked`] does, and waits for its answer.
    pub(crate) async fn request_unchecked(&mut self, method: &str, params: Value) -> JsonRpcResult {
        let id = self.send_unchecked(method, params).await;
        self.answer(&id).await
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.kit.notify(method, params).await.expect("it reads its input");
    }

    /// Sends a raw line.
    pub(crate) async fn raw(&mut self, line: impl AsRef<[u8]>) {
        self.is_wild = true;
        self.kit.send_raw_line(line.as_ref()).await.expect("it reads its input");
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: &Value) -> JsonRpcResult {
        answer(self.kit.wait_for_result(id).await)
    }

    /// Receives messages until the client is in the expected state.
    pub(crate) async fn until(&mut self, has: impl Fn(&TestClient) -> bool) {
        self.kit.wait_until(has).await.expect("what the test waits for");
    }

    /// Waits until a call of a session shows a line.
    pub(crate) async fn until_shown(&mut self, session: &str, line: &str) {
        self.until(|client| client.session(session).shows_line(line)).await;
    }

    /// Sends a prompt to a session; returns the request's id.
    pub(crate) async fn prompt_in(&mut self, session: &str, text: &str) -> Value {
        self.kit.send_prompt(session, text).await.expect("it reads its input")
    }

    /// Sends a prompt to the first session; returns the request's id.
    pub(crate) async fn prompt(&mut self, text: &str) -> Value {
        let session = self.session_id();
        self.prompt_in(&session, text).await
    }

    /// Runs a whole turn of the first session; returns its stop reason.
    pub(crate) async fn turn(&mut self, text: &str) -> String {
        let id = self.prompt(text).await;
        self.stop_reason(&id).await
    }

    /// Waits for the answer to a prompt; returns its stop reason.
    pub(crate) async fn stop_reason(&mut self, id: &Value) -> String {
        self.kit.wait_for_stop_reason(id).await.expect("a turn is not answered by an error")
    }

    /// Cancels the turn of the first session.
    pub(crate) async fn cancel(&mut self) {
        let session = self.session_id();
        self.kit.cancel_and_send_deferred_replies(&session).await.expect("it reads its input");
    }

    /// Answers a permission request that was left open.
    pub(crate) async fn permit(&mut self, asked: usize, permission: PermissionReply) {
        self.kit.answer_permission(asked, permission).await.expect("it reads its input");
    }

    /// Returns the id of the session that was opened first.
    pub(crate) fn session_id(&self) -> String {
        self.client.first_session.clone().expect("a session")
    }

    /// Returns the client's state of the session that was opened first.
    pub(crate) fn session(&self) -> &ObservedSession {
        self.client.session(&self.session_id())
    }

    /// Returns the only call of a tool in the first session.
    pub(crate) fn call(&self, name: &str) -> ToolCall {
        self.session().only_call_of_tool(name).expect("one call of the tool").clone()
    }

    /// Returns the processes in the scratch folder besides the agent itself.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.scratch.processes(self.kit.process_id())
    }

    /// Closes the agent's output.
    pub(crate) fn close_output(&mut self) {
        self.is_wild = true;
        self.kit.stop_reading_output();
    }

    /// Closes the agent's output, and waits until the agent has exited.
    pub(crate) async fn vanish(&mut self) {
        self.close_output();
        let exited = timeout(DEADLINE, self.kit.wait_for_exit()).await;
        exited.expect("it exits in time").expect("it can be waited for");
    }

    /// Waits until only the agent runs in the scratch folder.
    pub(crate) async fn until_alone(&self) {
        self.scratch.until_alone(self.kit.process_id(), DEADLINE).await;
    }

    /// Ends the agent's input. The agent must send its remaining messages without a violation, exit
    /// with 0 in time, and leave no process behind.
    pub(crate) async fn finish(&mut self) {
        self.kit.close_input();
        self.end(0).await;
    }

    /// Sends SIGTERM to the agent, whose input stays open. The agent must end in the same way as at
    /// the end of its input, but with the exit code for SIGTERM.
    pub(crate) async fn terminate(&mut self) {
        let id = self.kit.process_id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(id.expect("it runs"), Signal::TERM).unwrap();
        self.is_wild = true;
        self.end(128 + 15).await;
    }

    /// Kills the agent with SIGKILL, and waits until it has exited.
    pub(crate) async fn kill(&mut self) {
        let id = self.kit.process_id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(id.expect("it runs"), Signal::KILL).unwrap();
        let exited = timeout(DEADLINE, self.kit.wait_for_exit()).await;
        exited.expect("it exits in time").expect("it can be waited for");
        self.is_finished = true;
    }

    async fn end(&mut self, code: i32) {
        let ended = timeout(DEADLINE, self.kit.drain_and_wait()).await.expect("it exits in time");
        let status = ended.expect("its output ends").expect("it is a process");
        assert_eq!(status.code(), Some(code), "{status}");
        self.judge();
        let log = self.stderr_log();
        assert!(!log.contains("panicked"), "{log}");
        self.scratch.until_alone(None, DEADLINE).await;
        self.is_finished = true;
    }

    /// Validates the whole transcript three times: with the wire validator, the observer and the
    /// JSON Schema.
    fn judge(&self) {
        let mut faults = self.client.violations_by(Side::Agent);
        faults.retain(|fault| !self.is_wild || fault.rule != ConformanceRule::NeverAnswered);
        assert_eq!(faults, []);
        for (id, session) in self.client.sessions() {
            assert_eq!(session.observer.violations(), [], "in session {id}");
        }
        schema::judge(&self.client.transcript());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nstderr:\n{}", self.client.transcript(), self.stderr_log());
            eprintln!("faults: {:#?}", self.client.violations_by(Side::Agent));
        } else {
            assert!(self.is_finished, "a test ends with finish()");
        }
    }
}

/// Returns the answer of the agent; panics if there was none.
fn answer(answered: Result<Value, AgentTestError>) -> JsonRpcResult {
    match answered {
        Ok(result) => Ok(result),
        Err(AgentTestError::ErrorResponse(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}
