//! A running agent and the client that serves it, with their input and output.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_transport::Transport;
use agent_client_protocol::ConnectTo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::io::SyncIoBridge;

use crate::behaviour::{ClientBehaviour, PermissionReply};
use crate::client::{ClientAction, TestClient, error_response, success_response};
use crate::limits::{IN_PROCESS_BUFFER_BYTES, MAX_KEPT_ITEMS, MAX_UNREAD_LINES};
use crate::service_reply::ServiceReply;
use crate::services::ClientFilesAndTerminals;
use crate::streams::{AgentStdin, ClientEvent, read_lines, read_stderr};

/// The reason why a test cannot continue. A test that returns this error prints its `Debug` form,
/// which is therefore the same text as its `Display` form.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AgentTestError {
    /// The expected message did not arrive in time.
    #[error(
        "the expected message did not arrive within {0:?}. See `client.transcript()` for the messages \
         that arrived. If the agent is a process, see `stderr_log()` for its log"
    )]
    TimedOut(Duration),
    /// The agent closed its output before the expected message.
    #[error("the agent closed its output")]
    OutputClosed,
    /// A stream failed, or the agent could not be started.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The agent answered with this error object.
    #[error("the agent answered with the error {0}")]
    ErrorResponse(Value),
    /// The agent's result lacks a required field.
    #[error("the agent answered with the invalid result {0}")]
    InvalidResult(Value),
}

impl fmt::Debug for AgentTestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A running agent and the client that serves it.
///
/// Dropping the value kills the agent. To let the agent exit by itself, call
/// [`AgentUnderTest::close_input_and_wait_for_exit`]. The client processes and answers messages of
/// the agent only while a method of this type waits.
pub struct AgentUnderTest {
    child: Option<Child>,
    input: Option<AgentStdin>,
    sender: Sender<ClientEvent>,
    events: Receiver<ClientEvent>,
    /// Events that arrived during a write and are not processed yet.
    unprocessed: VecDeque<ClientEvent>,
    has_ended: bool,
    reader: JoinHandle<()>,
    reading_lock: Arc<tokio::sync::Mutex<()>>,
    log: Arc<Mutex<String>>,
    client_services: ClientFilesAndTerminals,
    last_id: i64,
    /// The client, with all messages and the state that the client has received.
    pub client: TestClient,
}

impl AgentUnderTest {
    /// Starts the command of an agent with piped streams. No message is sent.
    ///
    /// # Errors
    ///
    /// Returns [`AgentTestError::Io`] if the command does not start.
    pub fn start(
        mut command: Command,
        behaviour: impl Into<ClientBehaviour>,
    ) -> Result<Self, AgentTestError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(AgentTestError::OutputClosed);
        };
        let mut agent = Self::connect(stdout, stdin, behaviour);
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(read_stderr(stderr, Arc::clone(&agent.log)));
        }
        agent.child = Some(child);
        Ok(agent)
    }

    /// Connects to an agent through two streams: the output and the input of the agent.
    pub fn connect(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        behaviour: impl Into<ClientBehaviour>,
    ) -> Self {
        let behaviour = behaviour.into();
        let (sender, events) = mpsc::channel(MAX_UNREAD_LINES);
        let reading_lock = Arc::<tokio::sync::Mutex<()>>::default();
        let lines =
            read_lines(output, sender.clone(), Arc::clone(&reading_lock), behaviour.read_delay);
        Self {
            child: None,
            input: Some(Box::new(input)),
            sender,
            events,
            unprocessed: VecDeque::new(),
            has_ended: false,
            reader: tokio::spawn(lines),
            reading_lock,
            log: Arc::default(),
            client_services: ClientFilesAndTerminals::new(&behaviour),
            last_id: 0,
            client: TestClient::new(behaviour),
        }
    }

    /// Starts an agent in this process. The messages have the same line format as with an agent in
    /// a separate process.
    pub fn in_process(
        agent: impl ConnectTo<agent_client_protocol::Client> + 'static,
        behaviour: impl Into<ClientBehaviour>,
    ) -> Self {
        let (heard, input) = tokio::io::duplex(IN_PROCESS_BUFFER_BYTES);
        let (output, said) = tokio::io::duplex(IN_PROCESS_BUFFER_BYTES);
        let transport = Transport::new(SyncIoBridge::new(heard), SyncIoBridge::new(said));
        tokio::spawn(agent.connect_to(transport));
        Self::connect(output, input, behaviour)
    }

    /// Initializes the agent with the capabilities of the client's behaviour.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_request_and_wait`].
    pub async fn initialize(&mut self) -> Result<Value, AgentTestError> {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": self.client.behaviour().advertised_capabilities(),
            "clientInfo": {"name": "callboard-testing", "version": env!("CARGO_PKG_VERSION")},
        });
        self.send_request_and_wait("initialize", params).await
    }

    /// Opens a session and returns its id.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_request_and_wait`].
    pub async fn new_session(&mut self, cwd: &Path) -> Result<String, AgentTestError> {
        let params = json!({"cwd": cwd, "mcpServers": []});
        let result = self.send_request_and_wait("session/new", params).await?;
        result["sessionId"].as_str().map(str::to_owned).ok_or(AgentTestError::InvalidResult(result))
    }

    /// Sends a prompt; returns the id of the request.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn send_prompt(
        &mut self,
        session: &str,
        text: &str,
    ) -> Result<Value, AgentTestError> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send_request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Runs a complete turn; returns its stop reason.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_request_and_wait`].
    pub async fn prompt_and_wait_for_stop(
        &mut self,
        session: &str,
        text: &str,
    ) -> Result<String, AgentTestError> {
        let id = self.send_prompt(session, text).await?;
        self.wait_for_stop_reason(&id).await
    }

    /// Waits for the response to a prompt; returns its stop reason.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::wait_for_result`].
    pub async fn wait_for_stop_reason(&mut self, prompt: &Value) -> Result<String, AgentTestError> {
        let result = self.wait_for_result(prompt).await?;
        result["stopReason"]
            .as_str()
            .map(str::to_owned)
            .ok_or(AgentTestError::InvalidResult(result))
    }

    /// Cancels the turns of a session.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn cancel(&mut self, session: &str) -> Result<(), AgentTestError> {
        self.notify("session/cancel", json!({ "sessionId": session })).await
    }

    /// Cancels the turns of a session, and then sends the replies that the client deferred.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn cancel_and_send_deferred_replies(
        &mut self,
        session: &str,
    ) -> Result<(), AgentTestError> {
        self.cancel(session).await?;
        for reply in self.client.take_deferred_replies() {
            self.send_message(&reply).await?;
        }
        Ok(())
    }

    /// Answers a permission request, even if it was answered before. `asked` is the index of the
    /// request. The first request has the index 0.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn answer_permission(
        &mut self,
        asked: usize,
        permission: PermissionReply,
    ) -> Result<(), AgentTestError> {
        let asked = self.client.permission_requests.get(asked);
        match asked.and_then(|asked| asked.build_reply(permission)) {
            Some(reply) => self.send_message(&reply).await,
            None => Ok(()),
        }
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`] and
    /// [`AgentUnderTest::wait_for_result`].
    pub async fn send_request_and_wait(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Value, AgentTestError> {
        let id = self.send_request(method, params).await?;
        self.wait_for_result(&id).await
    }

    /// Sends a request; returns its id.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn send_request(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Value, AgentTestError> {
        self.last_id += 1;
        let id = json!(self.last_id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send_message(&message).await?;
        Ok(id)
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<(), AgentTestError> {
        self.send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Sends the same request many times, as fast as the agent reads; returns the ids.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::send_raw_line`].
    pub async fn send_request_many_times(
        &mut self,
        times: usize,
        method: &str,
        params: &Value,
    ) -> Result<Vec<Value>, AgentTestError> {
        let mut ids = Vec::new();
        for _ in 0..times {
            ids.push(self.send_request(method, params.clone()).await?);
        }
        Ok(ids)
    }

    /// Writes a line unchanged, followed by a line feed.
    ///
    /// # Errors
    ///
    /// Returns [`AgentTestError::TimedOut`] if the agent does not read the line, and
    /// [`AgentTestError::Io`] if the agent's input is closed.
    pub async fn send_raw_line(&mut self, line: &[u8]) -> Result<(), AgentTestError> {
        self.client.record_sent(line);
        let deadline = self.client.behaviour().deadline;
        let Self { input: Some(input), events, unprocessed: unseen, .. } = self else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        };
        let line = [line, b"\n"].concat();
        let writing = async {
            input.write_all(&line).await?;
            input.flush().await
        };
        // An agent may stop reading while its output is blocked, so the client reads the agent's
        // output during the write.
        let mut writing = std::pin::pin!(with_deadline(deadline, writing));
        loop {
            tokio::select! {
                written = &mut writing => return Ok(written??),
                Some(event) = events.recv(), if unseen.len() < MAX_KEPT_ITEMS => unseen.push_back(event),
            }
        }
    }

    async fn send_message(&mut self, message: &Value) -> Result<(), AgentTestError> {
        self.send_raw_line(message.to_string().as_bytes()).await
    }

    /// Waits for the response to a request; returns its result.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::wait_until`]. If the response is an error,
    /// returns [`AgentTestError::ErrorResponse`].
    pub async fn wait_for_result(&mut self, id: &Value) -> Result<Value, AgentTestError> {
        self.wait_until(|client| client.response(id).is_some()).await?;
        match self.client.response(id).cloned() {
            Some(answer) => answer.map_err(AgentTestError::ErrorResponse),
            None => Err(AgentTestError::OutputClosed),
        }
    }

    /// Processes messages until the condition `has` is true for the client.
    ///
    /// # Errors
    ///
    /// Returns [`AgentTestError::TimedOut`] if the condition does not become true in time,
    /// [`AgentTestError::OutputClosed`] if the agent closes its output, and [`AgentTestError::Io`]
    /// if a reply of the client cannot be written.
    pub async fn wait_until(
        &mut self,
        has: impl Fn(&TestClient) -> bool,
    ) -> Result<(), AgentTestError> {
        let deadline = self.client.behaviour().deadline;
        let waiting = async {
            while !has(&self.client) {
                if !self.process_next_event().await? {
                    return Err(AgentTestError::OutputClosed);
                }
            }
            Ok(())
        };
        // The future is boxed, because otherwise the future of every test that waits would be
        // large.
        with_deadline(deadline, Box::pin(waiting)).await?
    }

    /// Processes one message; returns false if there are no more messages.
    async fn process_next_event(&mut self) -> Result<bool, AgentTestError> {
        if self.has_ended {
            return Ok(false);
        }
        let event = match self.unprocessed.pop_front() {
            Some(event) => Some(event),
            None => self.events.recv().await,
        };
        match event {
            Some(ClientEvent::AgentLine(line)) => {
                for todo in self.client.process_agent_line(&line) {
                    self.perform_action(todo).await?;
                }
            }
            Some(ClientEvent::Send(message)) if self.input.is_some() => {
                self.send_message(&message).await?;
            }
            Some(ClientEvent::Send(_)) => {}
            Some(ClientEvent::OutputClosed) | None => self.has_ended = true,
        }
        Ok(!self.has_ended)
    }

    async fn perform_action(&mut self, todo: ClientAction) -> Result<(), AgentTestError> {
        let reply = match todo {
            ClientAction::Send(reply) => Some(reply),
            ClientAction::SendDelayed(after, reply) => {
                self.send_when_ready(async move {
                    sleep(after).await;
                    reply
                });
                None
            }
            ClientAction::Serve { id, method, params } => self.serve_request(&id, &method, &params),
        };
        match reply.filter(|_| self.input.is_some()) {
            Some(reply) => self.send_message(&reply).await,
            None => Ok(()),
        }
    }

    /// Serves a request for files or terminals. Returns the response, or `None` if the response is
    /// sent later or never.
    fn serve_request(&mut self, id: &Value, method: &str, params: &Value) -> Option<Value> {
        match self.client_services.serve_request(method, params) {
            Ok(ServiceReply::Now(result)) => Some(success_response(id, &result)),
            Ok(ServiceReply::Later(result)) => {
                let id = id.clone();
                self.send_when_ready(async move { success_response(&id, &result.await) });
                None
            }
            Ok(ServiceReply::Never) => None,
            Err(error) => Some(error_response(id, -32603, &error)),
        }
    }

    /// Returns the number of the client's terminals that the agent has not released.
    #[must_use]
    pub fn open_terminal_count(&self) -> usize {
        self.client_services.open_terminal_count()
    }

    fn send_when_ready(&self, reply: impl Future<Output = Value> + Send + 'static) {
        let sender = self.sender.clone();
        tokio::spawn(async move { sender.send(ClientEvent::Send(reply.await)).await });
    }

    /// Stops reading the agent's output until the guard is dropped. At most one more line is read.
    pub async fn pause_reading(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.reading_lock).lock_owned().await
    }

    /// Closes only the agent's output, like a client that has exited.
    pub fn stop_reading_output(&mut self) {
        self.reader.abort();
        self.has_ended = true;
    }

    /// Closes only the agent's input.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Waits for the agent's process to exit; returns `None` if the agent has no separate process.
    ///
    /// # Errors
    ///
    /// Returns [`AgentTestError::TimedOut`] if the process does not exit in time, and
    /// [`AgentTestError::Io`] if waiting fails.
    pub async fn wait_for_exit(&mut self) -> Result<Option<ExitStatus>, AgentTestError> {
        let deadline = self.client.behaviour().deadline;
        let Some(child) = &mut self.child else { return Ok(None) };
        Ok(Some(with_deadline(deadline, child.wait()).await??))
    }

    /// Closes the agent's input, processes its remaining output, and waits until the agent has
    /// exited.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AgentUnderTest::drain_and_wait_for_exit`].
    pub async fn close_input_and_wait_for_exit(
        &mut self,
    ) -> Result<Option<ExitStatus>, AgentTestError> {
        self.close_input();
        self.drain_and_wait_for_exit().await
    }

    /// Processes the agent's output until the agent closes it, and then waits until the agent has
    /// exited.
    ///
    /// # Errors
    ///
    /// Returns [`AgentTestError::TimedOut`] if the agent does not exit in time, and
    /// [`AgentTestError::Io`] if waiting fails.
    pub async fn drain_and_wait_for_exit(&mut self) -> Result<Option<ExitStatus>, AgentTestError> {
        let deadline = self.client.behaviour().deadline;
        let rest = async {
            while self.process_next_event().await? {}
            Ok::<_, AgentTestError>(())
        };
        with_deadline(deadline, Box::pin(rest)).await??;
        self.client.finish_transcript();
        self.wait_for_exit().await
    }

    /// Returns the id of the agent's process while it runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Returns the first 1 MiB of the text that the agent has written to standard error.
    #[must_use]
    pub fn stderr_log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for AgentUnderTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AgentUnderTest")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

async fn with_deadline<T>(
    deadline: Duration,
    work: impl Future<Output = T>,
) -> Result<T, AgentTestError> {
    timeout(deadline, work).await.or(Err(AgentTestError::TimedOut(deadline)))
}
