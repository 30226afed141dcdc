//! Runs the built program in a scratch folder, with the client of the test kit (`acp-conformance`).
//!
//! In every test, the client validates every line of both sides. Every wait has a time limit. A
//! failed test prints the whole transcript and the log. This module contains only the parts that
//! are specific to callboard: its folder, its models, and its exit.

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

/// Time limit of every wait. A turn can take several seconds on a busy machine. A command that a
/// test must end sleeps for a longer time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Path of the tested program.
pub(crate) const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");

/// Pseudo-argument of a test whose commands run in a sandbox.
pub(crate) const SANDBOX: &str = "--sandbox";

/// Returns arguments of callboard with which commands run without a sandbox, because a system may
/// have none. With the pseudo-argument [`SANDBOX`], commands run in a sandbox.
pub(crate) fn test_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut list: Vec<_> = args.iter().copied().filter(|arg| *arg != SANDBOX).collect();
    // An `exec` without options is a test of the command line itself, so it gets no further option.
    let runs = match list[..] {
        ["acp", ..] => true,
        ["exec", ref rest @ ..] => rest.iter().any(|arg| arg.starts_with("--")),
        _ => false,
    };
    if runs && list.len() == args.len() {
        list.push("--no-sandbox");
    }
    list
}

/// The running agent and its client. Every test must call [`Agent::finish`] at its end.
pub(crate) struct Agent {
    kit: acp_conformance::AgentUnderTest,
    is_finished: bool,
    /// Whether the agent may leave some requests unanswered, because of the behaviour of the
    /// client.
    is_wild: bool,
    /// The scratch folder of the agent.
    pub(crate) scratch: Scratch,
}

/// Gives access to the methods and fields of the test kit's agent, including `client`.
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
    /// Starts the agent without sending a message.
    pub(crate) fn start(model: impl Into<Model>, options: impl Into<Options>) -> Self {
        let scratch = Scratch::new();
        let model = scratch.model(&model.into());
        Self::start_in(scratch, &["acp", "--model", &model], &[], options)
    }

    /// Starts the agent in a scratch folder, with these arguments and additional environment
    /// variables.
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

    /// Starts the agent in a scratch folder, with these arguments. `change` can change the command
    /// before it is run.
    pub(crate) fn start_changed(
        scratch: Scratch,
        args: &[&str],
        options: impl Into<Options>,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        Self::start_program(CALLBOARD.as_ref(), scratch, args, options, change)
    }

    /// Starts `program`, which is a copy of callboard, as [`Self::start_changed`] does.
    pub(crate) fn start_program(
        program: &Path,
        scratch: Scratch,
        args: &[&str],
        options: impl Into<Options>,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(program);
        command.args(test_args(args)).current_dir(scratch.cwd());
        command.env_clear().envs(scratch.env());
        change(&mut command);
        let mut options = options.into();
        options.deadline = options.deadline.max(DEADLINE);
        let kit =
            acp_conformance::AgentUnderTest::start(command, options).expect("the binary starts");
        Self { kit, is_finished: false, is_wild: false, scratch }
    }

    /// Starts the agent as [`Self::ready`] does, but without a store. With a store, the speed of
    /// the disk would influence which changes of a call are sent in one update. A snapshot contains
    /// every update.
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

    /// Starts the agent, initializes it, and opens a session.
    pub(crate) async fn ready(model: impl Into<Model>, options: impl Into<Options>) -> Self {
        let mut agent = Self::start(model, options);
        agent.initialize().await.expect("it initializes");
        agent.new_session().await;
        agent
    }

    /// Initializes the agent. The client's capabilities are those of the test's options.
    pub(crate) async fn initialize(&mut self) -> JsonRpcResult {
        answer(self.kit.initialize().await)
    }

    /// Opens a session in the scratch folder, and returns the session id.
    pub(crate) async fn new_session(&mut self) -> String {
        self.kit.new_session(&self.scratch.cwd()).await.expect("a session opens")
    }

    /// Sends a request that must be valid, and returns its id.
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

    /// Sends a request that may be invalid, and returns its id.
    pub(crate) async fn send_unchecked(&mut self, method: &str, params: Value) -> Value {
        self.kit.send_request(method, params).await.expect("it reads its input")
    }

    /// Sends a request as [`Agent::send`] does, and waits for the response.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> JsonRpcResult {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// Sends a request as [`Agent::send_unchecked`] does, and waits for the response.
    pub(crate) async fn request_unchecked(&mut self, method: &str, params: Value) -> JsonRpcResult {
        let id = self.send_unchecked(method, params).await;
        self.answer(&id).await
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.kit.notify(method, params).await.expect("it reads its input");
    }

    /// Sends a line that need not be a valid message.
    pub(crate) async fn raw(&mut self, line: impl AsRef<[u8]>) {
        self.is_wild = true;
        self.kit.send_raw_line(line.as_ref()).await.expect("it reads its input");
    }

    /// Waits for the response to a request.
    pub(crate) async fn answer(&mut self, id: &Value) -> JsonRpcResult {
        answer(self.kit.wait_for_result(id).await)
    }

    /// Receives messages until `has` returns true for the client.
    pub(crate) async fn until(&mut self, has: impl Fn(&TestClient) -> bool) {
        self.kit.wait_until(has).await.expect("what the test waits for");
    }

    /// Waits until a call of a session shows this line.
    pub(crate) async fn until_shown(&mut self, session: &str, line: &str) {
        self.until(|client| client.session(session).any_call_shows_line(line)).await;
    }

    /// Sends a prompt to a session, and returns the id of the request.
    pub(crate) async fn prompt_in(&mut self, session: &str, text: &str) -> Value {
        self.kit.send_prompt(session, text).await.expect("it reads its input")
    }

    /// Sends a prompt to the first session, and returns the id of the request.
    pub(crate) async fn prompt(&mut self, text: &str) -> Value {
        let session = self.session_id();
        self.prompt_in(&session, text).await
    }

    /// Runs a whole turn in the first session, and returns its stop reason.
    pub(crate) async fn turn(&mut self, text: &str) -> String {
        let id = self.prompt(text).await;
        self.stop_reason(&id).await
    }

    /// Waits for the response to a prompt, and returns its stop reason.
    pub(crate) async fn stop_reason(&mut self, id: &Value) -> String {
        self.kit.wait_for_stop_reason(id).await.expect("a turn is not answered by an error")
    }

    /// Cancels the turn of the first session.
    pub(crate) async fn cancel(&mut self) {
        let session = self.session_id();
        self.kit.cancel_and_send_deferred_replies(&session).await.expect("it reads its input");
    }

    /// Answers the permission request with the index `asked`, which the client had left unanswered.
    pub(crate) async fn permit(&mut self, asked: usize, permission: PermissionReply) {
        self.kit.answer_permission(asked, permission).await.expect("it reads its input");
    }

    /// Returns the id of the first session.
    pub(crate) fn session_id(&self) -> String {
        self.client.first_session.clone().expect("a session")
    }

    /// Returns the client's view of the first session.
    pub(crate) fn session(&self) -> &ObservedSession {
        self.client.session(&self.session_id())
    }

    /// Returns the call of a tool in the first session. Panics if there is not exactly one such
    /// call.
    pub(crate) fn call(&self, name: &str) -> ToolCall {
        self.session().only_call_of_tool(name).expect("one call of the tool").clone()
    }

    /// Returns the processes of this test, without the agent itself.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.scratch.processes(self.kit.process_id())
    }

    /// Closes the client's end of the agent's stdout.
    pub(crate) fn close_output(&mut self) {
        self.is_wild = true;
        self.kit.stop_reading_output();
    }

    /// Closes the client's end of the agent's stdout, and waits until the agent has exited.
    pub(crate) async fn vanish(&mut self) {
        self.close_output();
        let exited = timeout(DEADLINE, self.kit.wait_for_exit()).await;
        exited.expect("it exits in time").expect("it can be waited for");
    }

    /// Waits until the agent is the only process of this test.
    pub(crate) async fn until_alone(&self) {
        self.scratch.until_alone(self.kit.process_id(), DEADLINE).await;
    }

    /// Closes the agent's stdin. The agent must send its remaining messages without a violation,
    /// exit with code 0 in time, and leave no process behind.
    pub(crate) async fn finish(&mut self) {
        self.kit.close_input();
        self.end(0).await;
    }

    /// Sends SIGTERM to the agent, and leaves its stdin open. The agent must end as in
    /// [`Agent::finish`], but with the exit code for SIGTERM.
    pub(crate) async fn terminate(&mut self) {
        let id = self.kit.process_id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(id.expect("it runs"), Signal::TERM).unwrap();
        self.is_wild = true;
        self.end(128 + 15).await;
    }

    /// Sends SIGKILL to the agent, and waits until it has exited.
    pub(crate) async fn kill(&mut self) {
        let id = self.kit.process_id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(id.expect("it runs"), Signal::KILL).unwrap();
        let exited = timeout(DEADLINE, self.kit.wait_for_exit()).await;
        exited.expect("it exits in time").expect("it can be waited for");
        self.is_finished = true;
    }

    async fn end(&mut self, code: i32) {
        let ended =
            timeout(DEADLINE, self.kit.drain_and_wait_for_exit()).await.expect("it exits in time");
        let status = ended.expect("its output ends").expect("it is a process");
        assert_eq!(status.code(), Some(code), "{status}");
        self.judge();
        let log = self.stderr_log();
        assert!(!log.contains("panicked"), "{log}");
        self.scratch.until_alone(None, DEADLINE).await;
        self.is_finished = true;
    }

    /// Validates the whole transcript in three ways: with the wire validator, the client state, and
    /// the JSON Schema.
    fn judge(&self) {
        let mut faults = self.client.violations_by(Side::Agent);
        faults.retain(|fault| !self.is_wild || fault.rule != ConformanceRule::NeverAnswered);
        assert_eq!(faults, []);
        for (id, session) in self.client.sessions() {
            assert_eq!(session.client_state.violations(), [], "in session {id}");
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

/// Returns the response of the agent. Panics if no response has arrived.
fn answer(answered: Result<Value, AgentTestError>) -> JsonRpcResult {
    match answered {
        Ok(result) => Ok(result),
        Err(AgentTestError::ErrorResponse(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}
