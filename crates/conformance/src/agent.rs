//! A running agent, and the client that it serves: the part that does input and output.

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

use crate::behaviour::{Behaviour, Permission};
use crate::client::{Client, Todo, failure, success};
use crate::limits::{IN_PROCESS_BYTES, MAX_KEPT, MAX_UNREAD_LINES};
use crate::served::Served;
use crate::services::Services;
use crate::streams::{Event, Input, read_lines, read_log};

/// Why a test cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was waited for did not come in time.
    #[error("nothing that was waited for came within {0:?}")]
    Deadline(Duration),
    /// The agent ended its output before that.
    #[error("the agent said nothing more")]
    Ended,
    /// A stream failed, or the agent could not be started.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The agent answered with this error object.
    #[error("the agent answered with the error {0}")]
    Refused(Value),
    /// The agent's result lacks what it must have.
    #[error("the agent answered {0}")]
    Answer(Value),
}

/// A running agent and the client that it serves.
///
/// The agent is ended when this is dropped; [`Agent::end`] lets it end by itself. What the agent
/// says is taken in while a method waits for something: then the client answers, too.
pub struct Agent {
    child: Option<Child>,
    input: Option<Input>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// What came while something was written.
    unseen: VecDeque<Event>,
    has_ended: bool,
    reader: JoinHandle<()>,
    reading: Arc<tokio::sync::Mutex<()>>,
    log: Arc<Mutex<String>>,
    services: Services,
    last_id: i64,
    /// What was said, and what the client holds.
    pub client: Client,
}

impl Agent {
    /// Starts the agent of a command, whose streams are taken, and says nothing to it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it does not start.
    pub fn start(mut command: Command, behaviour: impl Into<Behaviour>) -> Result<Self, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(Error::Ended) };
        let mut agent = Self::connect(stdout, stdin, behaviour);
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(read_log(stderr, Arc::clone(&agent.log)));
        }
        agent.child = Some(child);
        Ok(agent)
    }

    /// Takes an agent by its two streams: what it says, and what it hears.
    pub fn connect(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        behaviour: impl Into<Behaviour>,
    ) -> Self {
        let behaviour = behaviour.into();
        let (sender, events) = mpsc::channel(MAX_UNREAD_LINES);
        let reading = Arc::<tokio::sync::Mutex<()>>::default();
        let lines = read_lines(output, sender.clone(), Arc::clone(&reading), behaviour.pause);
        Self {
            child: None,
            input: Some(Box::new(input)),
            sender,
            events,
            unseen: VecDeque::new(),
            has_ended: false,
            reader: tokio::spawn(lines),
            reading,
            log: Arc::default(),
            services: Services::new(&behaviour),
            last_id: 0,
            client: Client::new(behaviour),
        }
    }

    /// Serves an agent in this process, over lines as any other.
    pub fn in_process(
        agent: impl ConnectTo<agent_client_protocol::Client> + 'static,
        behaviour: impl Into<Behaviour>,
    ) -> Self {
        let (heard, input) = tokio::io::duplex(IN_PROCESS_BYTES);
        let (output, said) = tokio::io::duplex(IN_PROCESS_BYTES);
        let transport = Transport::new(SyncIoBridge::new(heard), SyncIoBridge::new(said));
        tokio::spawn(agent.connect_to(transport));
        Self::connect(output, input, behaviour)
    }

    /// Initializes the agent with the capabilities of the client's behaviour.
    ///
    /// # Errors
    ///
    /// As [`Agent::request`].
    pub async fn initialize(&mut self) -> Result<Value, Error> {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": self.client.behaviour().advertised(),
            "clientInfo": {"name": "callboard-testing", "version": env!("CARGO_PKG_VERSION")},
        });
        self.request("initialize", params).await
    }

    /// Opens a session and returns its id.
    ///
    /// # Errors
    ///
    /// As [`Agent::request`].
    pub async fn new_session(&mut self, cwd: &Path) -> Result<String, Error> {
        let params = json!({"cwd": cwd, "mcpServers": []});
        let result = self.request("session/new", params).await?;
        result["sessionId"].as_str().map(str::to_owned).ok_or(Error::Answer(result))
    }

    /// Sends a prompt; returns the request's id.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`].
    pub async fn prompt(&mut self, session: &str, text: &str) -> Result<Value, Error> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Lets a whole turn pass; returns its stop reason.
    ///
    /// # Errors
    ///
    /// As [`Agent::request`].
    pub async fn turn(&mut self, session: &str, text: &str) -> Result<String, Error> {
        let id = self.prompt(session, text).await?;
        self.stop_reason(&id).await
    }

    /// Waits for the answer to a prompt; returns its stop reason.
    ///
    /// # Errors
    ///
    /// As [`Agent::answer`].
    pub async fn stop_reason(&mut self, prompt: &Value) -> Result<String, Error> {
        let result = self.answer(prompt).await?;
        result["stopReason"].as_str().map(str::to_owned).ok_or(Error::Answer(result))
    }

    /// Cancels the turns of a session; what the client answers only then follows.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`].
    pub async fn cancel(&mut self, session: &str) -> Result<(), Error> {
        self.notify("session/cancel", json!({ "sessionId": session })).await?;
        for reply in self.client.after_cancel() {
            self.say(&reply).await?;
        }
        Ok(())
    }

    /// Answers a permission request again or at last; `asked` counts them from 0.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`].
    pub async fn permit(&mut self, asked: usize, permission: Permission) -> Result<(), Error> {
        let asked = self.client.asked.get(asked);
        match asked.and_then(|asked| asked.reply(permission)) {
            Some(reply) => self.say(&reply).await,
            None => Ok(()),
        }
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`] and [`Agent::answer`].
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        let id = self.send(method, params).await?;
        self.answer(&id).await
    }

    /// Sends a request; returns its id.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`].
    pub async fn send(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.last_id += 1;
        let id = json!(self.last_id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(&message).await?;
        Ok(id)
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`].
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<(), Error> {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Sends requests of one kind as fast as the agent takes them; returns their ids.
    ///
    /// # Errors
    ///
    /// As [`Agent::raw`].
    pub async fn flood(
        &mut self,
        times: usize,
        method: &str,
        params: &Value,
    ) -> Result<Vec<Value>, Error> {
        let mut ids = Vec::new();
        for _ in 0..times {
            ids.push(self.send(method, params.clone()).await?);
        }
        Ok(ids)
    }

    /// Writes a line as it is; the line feed is added.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] if the agent does not take it, [`Error::Io`] if its input is closed.
    pub async fn raw(&mut self, line: &[u8]) -> Result<(), Error> {
        self.client.sent(line);
        let deadline = self.client.behaviour().deadline;
        let Self { input: Some(input), events, unseen, .. } = self else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        };
        let line = [line, b"\n"].concat();
        let writing = async {
            input.write_all(&line).await?;
            input.flush().await
        };
        // An agent that cannot write need not read: what it says meanwhile is kept for later.
        let mut writing = std::pin::pin!(within(deadline, writing));
        loop {
            tokio::select! {
                written = &mut writing => return Ok(written??),
                Some(event) = events.recv(), if unseen.len() < MAX_KEPT => unseen.push_back(event),
            }
        }
    }

    async fn say(&mut self, message: &Value) -> Result<(), Error> {
        self.raw(message.to_string().as_bytes()).await
    }

    /// Waits for the answer to a request; returns its result.
    ///
    /// # Errors
    ///
    /// As [`Agent::until`], and [`Error::Refused`] if the answer is an error.
    pub async fn answer(&mut self, id: &Value) -> Result<Value, Error> {
        self.until(|client| client.answer(id).is_some()).await?;
        match self.client.answer(id).cloned() {
            Some(answer) => answer.map_err(Error::Refused),
            None => Err(Error::Ended),
        }
    }

    /// Takes messages until the client has what the test waits for.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] if it does not come in time, [`Error::Ended`] if nothing more comes,
    /// [`Error::Io`] if an answer of the client cannot be written.
    pub async fn until(&mut self, has: impl Fn(&Client) -> bool) -> Result<(), Error> {
        let deadline = self.client.behaviour().deadline;
        let waiting = async {
            while !has(&self.client) {
                if !self.step().await? {
                    return Err(Error::Ended);
                }
            }
            Ok(())
        };
        // Boxed: the future would be large in every test that waits.
        within(deadline, Box::pin(waiting)).await?
    }

    /// Takes one message; returns false when there are no more.
    async fn step(&mut self) -> Result<bool, Error> {
        if self.has_ended {
            return Ok(false);
        }
        let event = match self.unseen.pop_front() {
            Some(event) => Some(event),
            None => self.events.recv().await,
        };
        match event {
            Some(Event::Line(line)) => {
                for todo in self.client.receive(&line) {
                    self.attend(todo).await?;
                }
            }
            Some(Event::Say(message)) if self.input.is_some() => self.say(&message).await?,
            Some(Event::Say(_)) => {}
            Some(Event::End) | None => self.has_ended = true,
        }
        Ok(!self.has_ended)
    }

    async fn attend(&mut self, todo: Todo) -> Result<(), Error> {
        let reply = match todo {
            Todo::Say(reply) => Some(reply),
            Todo::SayLate(after, reply) => {
                self.say_later(async move {
                    sleep(after).await;
                    reply
                });
                None
            }
            Todo::Serve { id, method, params } => self.serve(&id, &method, &params),
        };
        match reply.filter(|_| self.input.is_some()) {
            Some(reply) => self.say(&reply).await,
            None => Ok(()),
        }
    }

    /// Serves a request about files or terminals; returns the answer unless it comes later.
    fn serve(&mut self, id: &Value, method: &str, params: &Value) -> Option<Value> {
        match self.services.serve(method, params) {
            Ok(Served::Now(result)) => Some(success(id, &result)),
            Ok(Served::Later(result)) => {
                let id = id.clone();
                self.say_later(async move { success(&id, &result.await) });
                None
            }
            Ok(Served::Never) => None,
            Err(error) => Some(failure(id, -32603, &error)),
        }
    }

    /// Returns how many terminals the client runs that the agent has not released.
    #[must_use]
    pub fn terminals(&self) -> usize {
        self.services.terminals()
    }

    fn say_later(&self, reply: impl Future<Output = Value> + Send + 'static) {
        let sender = self.sender.clone();
        tokio::spawn(async move { sender.send(Event::Say(reply.await)).await });
    }

    /// Reads nothing more, beyond one line, until the guard is dropped.
    pub async fn stop_reading(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.reading).lock_owned().await
    }

    /// Closes the agent's output and nothing else, as a client that is gone.
    pub fn close_output(&mut self) {
        self.reader.abort();
        self.has_ended = true;
    }

    /// Closes the agent's input and nothing else.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Waits for the agent's process to exit; none if it is not a process of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] if it does not, [`Error::Io`] if it cannot be waited for.
    pub async fn exit(&mut self) -> Result<Option<ExitStatus>, Error> {
        let deadline = self.client.behaviour().deadline;
        let Some(child) = &mut self.child else { return Ok(None) };
        Ok(Some(within(deadline, child.wait()).await??))
    }

    /// Closes the agent's input, takes in what it still says, and waits until it has exited.
    ///
    /// # Errors
    ///
    /// As [`Agent::ended`].
    pub async fn end(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.close_input();
        self.ended().await
    }

    /// Takes in what the agent still says until it ends, and waits until it has exited.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] if it does not end, [`Error::Io`] if it cannot be waited for.
    pub async fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        let deadline = self.client.behaviour().deadline;
        let rest = async {
            while self.step().await? {}
            Ok::<_, Error>(())
        };
        within(deadline, Box::pin(rest)).await??;
        self.client.ended();
        self.exit().await
    }

    /// Returns the id of the agent's process while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Returns what the agent wrote to its standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Agent").field("client", &self.client).finish_non_exhaustive()
    }
}

async fn within<T>(deadline: Duration, work: impl Future<Output = T>) -> Result<T, Error> {
    timeout(deadline, work).await.or(Err(Error::Deadline(deadline)))
}
