//! One session: its prompts in order, its history, and its cancellation and closing.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use acp_connection::{ClientSession, ClientSessionBuilder, OpenPrompt};
use acp_lifecycle::{OutboxItem, SessionConfig, SessionHandle, ToolUsage};
use acp_tools::{Context, Registry};
use acp_types::{CallEndReason, MessageChunk, Role, SessionStatePart, TraceContext, TurnId};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    ContentBlock, PromptResponse, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use agent_client_protocol::{RequestCancellation, Result};
use callboard_models::ToolSpec;
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use ulid::Ulid;

use crate::backends::{ClientTerminals, ClientTextFiles};
use crate::commands::{CommandContext, SlashCommands};
use crate::context::{KnownFile, WorkspaceContext};
use crate::lock::lock;
use crate::options::{ActiveOptions, OptionSelection, SessionOptions};
use crate::permission::{PermissionSetup, RulePersister};
use crate::rewind::{FinishedRewind, RewindSessionResponse, SessionRewind};
use crate::secrets::{LiveSecrets, SessionSecrets};
use crate::stored_sessions::{
    RewoundSession, SessionRecording, StoredKnownFiles, StoredPermissions,
};
use crate::turn::{self, History, Turn};
use crate::{commands, errors, limits, prompt, spans};

/// An open session.
pub(crate) struct Session {
    client: ClientSession,
    options: Arc<SessionOptions>,
    work: mpsc::Sender<SessionWork>,
    queue: Arc<Mutex<PromptQueue>>,
    /// Cancelled when the session accepts no further prompt.
    closing: CancellationToken,
    /// Cancelled when the session no longer waits for running work.
    aborting: CancellationToken,
    /// Cancelled when all work is done and all updates are sent.
    closed: CancellationToken,
    recording: Option<Arc<SessionRecording>>,
    rewind: Option<SessionRewind>,
}

/// The parameters of a new session.
pub(crate) struct SessionSetup {
    pub(crate) selection: OptionSelection,
    pub(crate) registry: Registry,
    pub(crate) context: Context,
    pub(crate) secrets: LiveSecrets,
    pub(crate) permission: PermissionSetup,
    pub(crate) commands: SlashCommands,
    pub(crate) config: SessionConfig,
    /// Text that replaces our own system prompt.
    pub(crate) instructions: Option<Arc<str>>,
    /// The messages that the model already received.
    pub(crate) history: History,
    /// The recording; `None` if the session is not stored.
    pub(crate) recording: Option<Arc<SessionRecording>>,
    /// Number of prompts that the session had in earlier processes.
    pub(crate) prompts: u32,
    /// The files that the model of a stored session knows.
    pub(crate) known_files: Vec<KnownFile>,
}

/// Saves remembered rules after each answer to a permission request. Rules that cannot be saved are
/// logged, and listed as rules of the session only.
fn save_rules_after_answers(
    client: ClientSessionBuilder,
    keeper: Arc<RulePersister>,
) -> ClientSessionBuilder {
    client.with_permission_answer_hook(move || {
        let keeper = keeper.clone();
        async move { drop(keeper.save_pending_changes().await) }
    })
}

/// Records each item before it is sent, if the session is stored, and the decisions that may have
/// come before it.
fn record_items(
    client: ClientSessionBuilder,
    recording: Option<Arc<SessionRecording>>,
    folders: Vec<PathBuf>,
) -> ClientSessionBuilder {
    let Some(recording) = recording else { return client };
    let handle = client.handle().clone();
    client.before_delivery(move |item| {
        let follows_decision = match item {
            OutboxItem::ToolCall(_, patch) => patch.status.is_some(),
            OutboxItem::PromptResponse(_) => true,
            _ => false,
        };
        if follows_decision && !recording.is_replay() {
            recording.record_permissions(
                handle.update(|session, _| StoredPermissions::of_session(session, &folders)),
            );
        }
        recording.record_item(item)
    })
}

/// Returns the function that lists the slash commands for the client.
fn command_menu(
    commands: SlashCommands,
    registry: Registry,
    tools: Arc<[ToolSpec]>,
) -> impl Fn(&ActiveOptions) -> SessionStatePart {
    move |chosen| commands.available_commands(chosen, &registry, &tools)
}

/// Runs the work of a session until it is closed, and closes its connection.
async fn run_until_closed(
    runner: PromptRunner,
    work: mpsc::Receiver<SessionWork>,
    client: ClientSession,
    closing: CancellationToken,
    closed: CancellationToken,
) {
    let (context, giving_up) = (runner.context.clone(), runner.aborting.clone());
    let waiting = runner.queue.clone();
    let work = async {
        runner.run_queued_prompts(work, &closing).await;
        let _is_over = giving_up.run_until_cancelled(end_background_work(&context)).await;
    };
    // A panic outside a turn ends the session, and every prompt is answered.
    drop(AssertUnwindSafe(work).catch_unwind().await);
    // The prompts are dropped outside of the lock, because each prompt ends its turn on drop.
    let left = std::mem::take(&mut *lock(&waiting));
    drop(left);
    client.close(Duration::ZERO).await;
    closed.cancel();
}

/// Stops background commands.
async fn end_background_work(context: &Context) {
    context.workspace.background_commands().stop_all_and_wait().await;
    // No later turn can report these late writes of other programs.
    for late in context.take_foreign_change_reports().await {
        tracing::warn!("{late}");
    }
}

#[derive(Default)]
struct PromptQueue {
    /// The prompts that wait for their turn, in order.
    prompts: Vec<QueuedPrompt>,
    /// Notices for the user, which the next turn sends.
    notices: Vec<String>,
}

/// A prompt that waits for its turn.
struct QueuedPrompt {
    open: OpenPrompt,
    /// Cancelled when the prompt no longer waits.
    dequeued: CancellationToken,
}

/// Work of a session that waits until the work before it is done.
enum SessionWork {
    Prompt(PromptContent),
    /// Goes back to the state before a prompt.
    Rewind {
        prompt: u32,
        /// Set when the changes begin, or when the request is withdrawn before.
        decided: Arc<OnceLock<()>>,
        answer: oneshot::Sender<Result<RewindSessionResponse>>,
    },
}

/// The content of a prompt that waits for its turn.
struct PromptContent {
    blocks: Vec<ContentBlock>,
    /// Trace context that the client sent.
    trace: TraceContext,
    turn: TurnId,
}

impl PromptQueue {
    /// Removes the prompt of a turn from the queue, if it still waits.
    fn take_prompt_of_turn(&mut self, turn: &TurnId) -> Option<QueuedPrompt> {
        let at = self.prompts.iter().position(|waiting| waiting.open.turn().id == *turn)?;
        Some(self.prompts.remove(at))
    }
}

impl Session {
    /// Opens a session and spawns its tasks in the current span.
    pub(crate) fn open(
        setup: SessionSetup,
        connect: impl FnOnce(acp_lifecycle::Session) -> ClientSessionBuilder,
    ) -> Arc<Self> {
        let SessionSetup {
            selection,
            registry,
            context,
            secrets,
            permission,
            mut commands,
            config,
            instructions,
            mut history,
            recording,
            prompts: prompt_count,
            known_files,
        } = setup;
        let rewind = recording.clone().map(|recording| {
            SessionRewind::new(context.workspace.clone(), recording, prompt_count)
        });
        commands.retain_for_session(rewind.is_some());
        let cwd = context.workspace.cwd().to_owned();
        let mut core = acp_lifecycle::Session::new(&cwd).with_config(config);
        core.set_secrets(secrets.current());
        core.set_locale(registry.locale());
        let roots: Vec<_> = context.workspace.roots().map(Path::to_owned).collect();
        let store = permission.configure_session(&mut core, &roots);
        let mut client = connect(core);
        let handle = client.handle().clone();
        let keeper = store.map(|store| Arc::new(RulePersister::new(handle.clone(), store, cwd)));
        if let Some(keeper) = keeper.clone() {
            client = save_rules_after_answers(client, keeper);
        }
        let client = record_items(client, recording.clone(), roots.clone()).open();
        history.set_recording(recording.clone());
        let tools = turn::tool_specs(&registry);
        let menu = command_menu(commands.clone(), registry.clone(), tools.clone());
        let options = SessionOptions::new(selection, handle.clone(), menu, roots);
        let texts = ClientTextFiles::for_client(&client).map(|texts| Arc::new(texts) as _);
        let terminals = ClientTerminals::for_client(&client).map(|own| Arc::new(own) as _);
        let (work, taken) = mpsc::channel(limits::MAX_WAITING_PROMPTS);
        let session = Arc::new(Self {
            client: client.clone(),
            options: options.clone(),
            work,
            queue: Arc::default(),
            closing: CancellationToken::new(),
            aborting: CancellationToken::new(),
            closed: CancellationToken::new(),
            recording: recording.clone(),
            rewind: rewind.clone(),
        });
        let runner = PromptRunner {
            options,
            commands,
            tools,
            workspace_context: WorkspaceContext::new(context.workspace.clone(), SystemTime::now())
                .with_instructions(instructions)
                .with_known_files(known_files, prompt_count)
                .with_hints(registry.hints()),
            registry,
            context: context.with_text_backend(texts).with_terminal_backend(terminals),
            secrets: SessionSecrets::new(handle.clone(), secrets),
            handle,
            model_notice: None,
            rule_persister: keeper,
            queue: session.queue.clone(),
            history,
            earlier_calls: recording.as_ref().map(|it| it.earlier_calls()).unwrap_or_default(),
            recording,
            rewind,
            prompt_count,
            aborting: session.aborting.clone(),
        };
        let life = run_until_closed(
            runner,
            taken,
            client,
            session.closing.clone(),
            session.closed.clone(),
        );
        drop(tokio::spawn(life.in_current_span()));
        session
    }

    /// Adds notices for the user. They are sent in the next turn, because clients expect no message
    /// outside of a turn.
    pub(crate) fn add_notices(&self, notices: impl IntoIterator<Item = String>) {
        lock(&self.queue).notices.extend(notices);
    }

    /// Queues a prompt, which waits until the prompts before it are done.
    pub(crate) fn queue_prompt(
        &self,
        blocks: Vec<ContentBlock>,
        trace: TraceContext,
        responder: Responder<PromptResponse>,
    ) -> Result<()> {
        let place = match self.work.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Full(())) => {
                return responder.respond_with_error(errors::too_many_waiting_prompts());
            }
            Err(mpsc::error::TrySendError::Closed(())) => {
                return responder.respond_with_error(errors::session_closing_error());
            }
        };
        let open = self.client.open_prompt(responder);
        let (turn, withdrawn) = (open.turn().id.clone(), open.request_cancellation().clone());
        let begins = CancellationToken::new();
        lock(&self.queue).prompts.push(QueuedPrompt { open, dequeued: begins.clone() });
        self.answer_waiting_prompt_on_cancel(turn.clone(), withdrawn, begins);
        place.send(SessionWork::Prompt(PromptContent { blocks, trace, turn }));
        Ok(())
    }

    /// Answers a waiting prompt at once if `$/cancel_request` cancels it.
    fn answer_waiting_prompt_on_cancel(
        &self,
        turn: TurnId,
        withdrawn: RequestCancellation,
        begins: CancellationToken,
    ) {
        let waiting = self.queue.clone();
        drop(tokio::spawn(async move {
            tokio::select! {
                () = withdrawn.cancelled() => {}
                () = begins.cancelled() => return,
            }
            let withdrawn = lock(&waiting).take_prompt_of_turn(&turn);
            if let Some(QueuedPrompt { open, .. }) = withdrawn {
                open.end_turn_and_respond(Err(errors::request_cancelled()), CallEndReason::User);
            }
        }));
    }

    /// Handles `session/set_mode`.
    pub(crate) fn handle_set_mode(
        &self,
        request: &SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
    ) -> Result<()> {
        self.options.handle_set_mode(request, responder, &self.client)
    }

    /// Handles `session/set_config_option`.
    pub(crate) fn handle_set_option(
        &self,
        request: &SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
    ) -> Result<()> {
        self.options.handle_set_config_option(request, responder, &self.client)
    }

    /// Returns the connection to the session's client.
    pub(crate) fn client(&self) -> &ClientSession {
        &self.client
    }

    /// Waits until all work is done and all updates are sent.
    pub(crate) async fn wait_closed(&self) {
        self.closed.cancelled().await;
    }

    /// Goes back to the state before a prompt, after the prompts that wait. A dry run does not wait,
    /// and returns what this would change now. A request that is withdrawn changes nothing if it is
    /// withdrawn before the changes begin.
    pub(crate) async fn rewind(
        &self,
        prompt: u32,
        is_dry_run: bool,
        withdrawn: &RequestCancellation,
    ) -> Result<RewindSessionResponse> {
        let Some(rewind) = &self.rewind else { return Err(errors::sessions_not_stored()) };
        if is_dry_run {
            let plan = rewind.checked_plan(prompt, self.client.handle(), &self.options).await?;
            return Ok(plan.response());
        }
        let (answer, answered) = oneshot::channel();
        let decided = Arc::new(OnceLock::new());
        let is_withdrawn = async {
            withdrawn.cancelled().await;
            if decided.set(()).is_err() {
                std::future::pending::<()>().await;
            }
        };
        let work = SessionWork::Rewind { prompt, decided: decided.clone(), answer };
        match self.work.try_send(work) {
            Ok(()) => tokio::select! {
                answer = answered => {
                    answer.unwrap_or_else(|_| Err(errors::session_closing_error()))
                }
                () = is_withdrawn => Err(errors::request_cancelled()),
            },
            Err(mpsc::error::TrySendError::Full(_)) => Err(errors::too_many_waiting_prompts()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(errors::session_closing_error()),
        }
    }

    /// Returns the recording of the session, if it is stored.
    pub(crate) fn recording(&self) -> Option<&Arc<SessionRecording>> {
        self.recording.as_ref()
    }

    /// Returns the options of the session.
    pub(crate) fn options(&self) -> &Arc<SessionOptions> {
        &self.options
    }

    /// Cancels the running turn and every waiting prompt.
    pub(crate) fn cancel(&self) {
        self.client.cancel();
    }

    /// Cancels all work and waits until the final updates are sent, for at most `deadline`.
    pub(crate) async fn close(&self, deadline: Duration) {
        self.closing.cancel();
        self.client.handle().update(|session, _| session.mark_closing());
        self.cancel();
        if tokio::time::timeout(deadline, self.closed.cancelled()).await.is_err() {
            // The session abandons running work: its calls end, and its prompt is answered.
            self.aborting.cancel();
            drop(tokio::time::timeout(limits::FINAL_SEND_TIMEOUT, self.closed.cancelled()).await);
        }
        if let Some(rewind) = &self.rewind {
            // The history must follow the files that a rewind has restored.
            let finished = rewind.take_finished();
            drop(tokio::time::timeout(limits::REWIND_COMMIT_TIMEOUT, finished).await);
        }
        if let Some(recording) = &self.recording {
            recording
                .record_settings(|settings| settings.set_options(&self.options.active_options()));
            recording.close().await;
        }
    }
}

impl Drop for Session {
    /// Cancels the running work when the connection is dropped without being closed.
    fn drop(&mut self) {
        self.closing.cancel();
        self.aborting.cancel();
        self.cancel();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Runs the prompts of a session, one after the other.
struct PromptRunner {
    handle: SessionHandle,
    options: Arc<SessionOptions>,
    commands: SlashCommands,
    registry: Registry,
    tools: Arc<[ToolSpec]>,
    context: Context,
    workspace_context: WorkspaceContext,
    secrets: SessionSecrets,
    /// The notice about the model that was last shown to the user.
    model_notice: Option<String>,
    rule_persister: Option<Arc<RulePersister>>,
    queue: Arc<Mutex<PromptQueue>>,
    history: History,
    recording: Option<Arc<SessionRecording>>,
    rewind: Option<SessionRewind>,
    /// Number of prompts of the session so far.
    prompt_count: u32,
    /// The ended calls of the session in earlier processes, by tool.
    earlier_calls: Vec<(String, ToolUsage)>,
    aborting: CancellationToken,
}

impl PromptRunner {
    async fn run_queued_prompts(
        mut self,
        mut waiting: mpsc::Receiver<SessionWork>,
        closing: &CancellationToken,
    ) {
        let _is_closing = closing.run_until_cancelled(self.history.wait_for_messages()).await;
        loop {
            let work = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                work = waiting.recv() => work,
            };
            match work {
                Some(SessionWork::Prompt(prompt)) => self.process_queued_prompt(prompt).await,
                Some(SessionWork::Rewind { prompt, decided, mut answer }) => {
                    let rewound = self.rewind_for_client(prompt, &decided, answer.closed()).await;
                    // The client may have disconnected.
                    drop(answer.send(rewound));
                }
                None => return,
            }
        }
        // Closing the session has cancelled the waiting prompts.
        waiting.close();
        while let Some(work) = waiting.recv().await {
            if let SessionWork::Prompt(prompt) = work {
                self.process_queued_prompt(prompt).await;
            }
        }
    }

    /// Records a prompt, after all that the client receives before the prompt.
    async fn record_prompt(&mut self, name: &TurnId, blocks: &[ContentBlock]) {
        self.prompt_count += 1;
        self.workspace_context.begin_prompt(self.prompt_count);
        let Some(recording) = &self.recording else { return };
        tokio::select! {
            () = self.handle.wait_drained() => {}
            () = self.aborting.cancelled() => {}
        }
        recording.record_prompt(name, blocks, &self.handle);
    }

    async fn process_queued_prompt(&mut self, prompt: PromptContent) {
        let PromptContent { blocks, trace, turn: name } = prompt;
        // `None` if the prompt was cancelled and answered while it waited.
        let Some(waited) = lock(&self.queue).take_prompt_of_turn(&name) else { return };
        let QueuedPrompt { open, dequeued: begins } = waited;
        begins.cancel();
        self.record_prompt(&name, &blocks).await;
        let notices = std::mem::take(&mut lock(&self.queue).notices);
        notices.into_iter().for_each(|notice| turn::send_notice(&self.handle, notice));
        let token = open.turn().cancel.clone();
        let span =
            spans::turn_span(name.as_str(), self.options.active_options().model.name(), &trace);
        self.handle.set_turn_trace(&name, trace);
        let ending = if !token.is_cancelled() && !open.request_cancellation().is_cancelled() {
            let turn = Turn {
                id: &name,
                active_options: &|| self.options.active_options(),
                registry: &self.registry,
                tools: &self.tools,
                context: &self.context,
                workspace_context: &self.workspace_context,
                handle: &self.handle,
                secrets: &self.secrets,
                cancel: &token,
            };
            let running = async {
                let (options, keeper) = (&self.options, self.rule_persister.as_ref());
                let spent = (*self.history.usage_totals(), &*self.earlier_calls);
                let rewind = (self.rewind.as_ref(), self.prompt_count);
                let asked =
                    CommandContext::new(turn, options, &self.commands, keeper, spent, rewind);
                let typed = prompt::typed_text(&blocks);
                let said = commands::run_command(&typed, asked);
                match said.await {
                    Some(said) => Ok(send_command_answer(&self.handle, said, &token)),
                    None => {
                        let (secrets, told) = (&self.secrets, &mut self.model_notice);
                        prepare_model_for_turn(options, &token, &self.handle, secrets, told).await;
                        turn::run_turn(turn, &mut self.history, blocks).await
                    }
                }
            };
            let running = running.instrument(span.clone());
            // If a model panics, the prompt must still be answered.
            let running = AssertUnwindSafe(running).catch_unwind();
            tokio::pin!(running);
            tokio::select! {
                ending = &mut running => {
                    ending.unwrap_or_else(|_| Err(errors::internal_error("something panicked")))
                }
                () = self.aborting.cancelled() => Ok(StopReason::Cancelled),
                () = forward_cancel(open.request_cancellation(), &token) => Ok(StopReason::Cancelled),
            }
        } else {
            Ok(StopReason::Cancelled)
        };
        self.apply_rewind_of_turn(&ending).await;
        // The turn may have changed the available models and their capabilities.
        self.options.advertise_unrequested_changes();
        if let Some(keeper) = &self.rule_persister {
            tokio::select! {
                () = keeper.save_within_timeout() => {}
                () = self.aborting.cancelled() => {}
            }
        }
        tokio::select! {
            () = self.commit_records() => {}
            () = self.aborting.cancelled() => {}
        }
        let ending = ending.map_err(|mut error| {
            error.message = self.secrets.redact(&error.message);
            error
        });
        if let Ok(stop) = &ending {
            let word = serde_json::to_value(stop).unwrap_or_default();
            span.record("stop_reason", word.as_str());
        }
        let closing = self.aborting.is_cancelled();
        let reason = if closing { CallEndReason::Shutdown } else { CallEndReason::Turn };
        open.end_turn_and_respond(ending.map(PromptResponse::new), reason);
    }

    /// Goes back to the state before a prompt for the client, which has asked its user. The next turn
    /// begins with the message about it, because clients expect no message outside of a turn.
    /// `withdrawn` resolves if the client no longer waits. If `decided` is not set yet when the changes
    /// begin, it is set, and the rewind is completed.
    async fn rewind_for_client(
        &mut self,
        prompt: u32,
        decided: &OnceLock<()>,
        withdrawn: impl Future<Output = ()>,
    ) -> Result<RewindSessionResponse> {
        let Some(rewind) = self.rewind.clone() else { return Err(errors::sessions_not_stored()) };
        let planned = async {
            self.handle.wait_drained().await;
            self.commit_records().await;
            rewind.checked_plan(prompt, &self.handle, &self.options).await
        };
        let plan = tokio::select! {
            plan = planned => plan?,
            () = withdrawn => return Err(errors::request_cancelled()),
            () = self.aborting.cancelled() => return Err(errors::session_closing_error()),
        };
        if decided.set(()).is_err() {
            return Err(errors::request_cancelled());
        }
        let response = plan.response();
        tokio::select! {
            // `apply_rewind` reports an error.
            _ = rewind.run(plan.into_plan(), false) => {}
            () = self.aborting.cancelled() => return Err(errors::session_closing_error()),
        }
        let report = self.apply_rewind(0).await.ok_or_else(errors::session_closing_error)?;
        let report = report.map_err(|error| errors::rewind_failed(&error))?;
        lock(&self.queue).notices.push(report);
        Ok(response)
    }

    /// Applies the rewind that a turn has run. If the turn was cancelled, the call of the rewind may
    /// have ended before the rewind, so a notice reports the outcome.
    async fn apply_rewind_of_turn(&mut self, ending: &Result<StopReason>) {
        if let (Some(report), Ok(StopReason::Cancelled)) = (self.apply_rewind(1).await, ending) {
            lock(&self.queue).notices.push(report.unwrap_or_else(|error| error));
        }
    }

    /// Waits for a rewind that runs. Replaces the messages of the model after a rewind that left
    /// `newer` prompts behind it, and sends the plan. Returns the report or the error of the rewind,
    /// if there was one.
    async fn apply_rewind(&mut self, newer: u32) -> Option<Result<String, String>> {
        let rewind = self.rewind.as_ref()?;
        let finished = tokio::select! {
            finished = rewind.take_finished() => finished,
            () = self.aborting.cancelled() => None,
        };
        let FinishedRewind { report, rewound, plan } = finished?;
        plan.into_iter().for_each(|plan| self.handle.send_plan(plan));
        let Some(RewoundSession { messages, prompts }) = rewound else { return Some(report) };
        self.history.restore_messages(messages);
        self.prompt_count = prompts + newer;
        if prompts == 0 {
            self.history.forget_title();
        }
        self.workspace_context.begin_prompt(self.prompt_count);
        self.workspace_context.forget_prompts_after(prompts);
        Some(report)
    }

    /// Stores the changes of a turn, and notifies the user once if storing fails.
    async fn commit_records(&self) {
        let Some(recording) = &self.recording else { return };
        self.history.record(&self.handle);
        recording.record_settings(|settings| {
            settings.set_options(&self.options.active_options());
            settings.usage = *self.history.usage_totals();
            settings.is_titled = self.history.is_titled();
            let mut calls = self.handle.call_usage();
            calls.add_tools(&self.earlier_calls);
            settings.calls = calls.tools;
        });
        if let Some(files) = self.workspace_context.known_files() {
            let roots: Vec<_> = self.context.workspace.roots().map(Path::to_owned).collect();
            recording.record_known_files(StoredKnownFiles::new(&roots, files));
        }
        recording.commit().await;
        if let Some(notice) = recording.take_notice() {
            turn::send_notice(&self.handle, notice);
        }
    }
}

/// Cancels a turn when its request is cancelled; never returns.
async fn forward_cancel(withdrawn: &RequestCancellation, turn: &CancellationToken) {
    withdrawn.cancelled().await;
    turn.cancel();
    std::future::pending::<()>().await;
}

/// Calls `prepare_for_turn` of the model and redacts secrets that the model learns. Shows the
/// returned notice about the model unless the user saw the same notice last.
async fn prepare_model_for_turn(
    options: &Arc<SessionOptions>,
    cancel: &CancellationToken,
    handle: &SessionHandle,
    secrets: &SessionSecrets,
    told: &mut Option<String>,
) {
    let model = options.active_options().model;
    let found = tokio::select! {
        found = model.prepare_for_turn() => found,
        () = cancel.cancelled() => None,
    };
    secrets.apply_learnt_secrets();
    options.advertise_unrequested_changes();
    options.discover_models();
    if let Some(found) = found
        && told.as_ref() != Some(&found)
    {
        send_agent_message(handle, found.clone());
        *told = Some(found);
    }
}

/// Ends a turn with the answer of a slash command.
fn send_command_answer(
    handle: &SessionHandle,
    said: String,
    turn: &CancellationToken,
) -> StopReason {
    send_agent_message(handle, said);
    if turn.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn }
}

fn send_agent_message(handle: &SessionHandle, text: String) {
    let message = Ulid::generate().to_string();
    handle.send_message_chunk(MessageChunk::new(Role::Agent, message, text));
}

#[cfg(test)]
mod tests;
