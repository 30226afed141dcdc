//! One session: its prompts in order, its history, and its cancellation and closing.

mod prompt_runner;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use acp_connection::{ClientSession, ClientSessionBuilder, OpenPrompt};
use acp_lifecycle::{OutboxItem, SessionConfig};
use acp_tools::{Context, Workspace};
use acp_types::{SessionStatePart, TraceContext, TurnId};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    ContentBlock, PromptResponse, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::{RequestCancellation, Result};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::backends::{ClientTerminals, ClientTextFiles, ServerRequestHandler};
use crate::commands::SlashCommands;
use crate::context::{KnownFile, WorkspaceContext};
use crate::lock::lock;
use crate::offered_tools::{OfferedTools, ServerStartSettings};
use crate::options::{ActiveOptions, OptionSelection, SessionOptions};
use crate::permission::{PermissionSetup, RulePersister};
use crate::rewind::{RewindSessionResponse, SessionRewind};
use crate::secrets::{LiveSecrets, SessionSecrets};
use crate::stored_sessions::{SessionRecording, StoredPermissions};
use crate::turn::History;
use crate::{errors, limits};

use prompt_runner::{PromptRunner, run_until_closed};

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
    pub(crate) tools: OfferedTools,
    pub(crate) servers: ServerStartSettings,
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

/// Saves remembered rules after each answer to a permission request. If a rule cannot be saved,
/// this is logged, and the rule applies only to this session.
fn save_rules_after_answers(
    client: ClientSessionBuilder,
    keeper: Arc<RulePersister>,
) -> ClientSessionBuilder {
    client.with_permission_answer_hook(move || {
        let keeper = keeper.clone();
        async move { drop(keeper.save_pending_changes().await) }
    })
}

/// If the session is stored, records each item before the item is sent. Before an item that may
/// follow a permission decision (a status of a call, or the response to a prompt), also records the
/// decisions of the session.
fn record_items_before_delivery(
    client: ClientSessionBuilder,
    recording: Option<Arc<SessionRecording>>,
    workspace: Arc<Workspace>,
) -> ClientSessionBuilder {
    let Some(recording) = recording else { return client };
    let handle = client.session_handle().clone();
    client.with_before_delivery_hook(move |item| {
        let follows_decision = match item {
            OutboxItem::ToolCall(_, patch) => patch.status.is_some(),
            OutboxItem::PromptResponse(_) => true,
            _ => false,
        };
        if follows_decision && !recording.is_paused_for_replay() {
            recording.record_permissions(
                handle.update(|session, _| StoredPermissions::of_session(session, &workspace)),
            );
        }
        recording.record_item(item)
    })
}

/// Returns the function that records the chosen options, if the session is stored.
fn options_recorder(recording: Option<Arc<SessionRecording>>) -> impl Fn(&ActiveOptions) {
    move |options| recording.iter().for_each(|recording| recording.record_options(options))
}

/// Sets the secrets that are redacted in texts of the session, and the language of the texts.
fn set_secrets_and_locale(
    core: &mut acp_lifecycle::Session,
    secrets: &LiveSecrets,
    tools: &OfferedTools,
) {
    core.set_secrets(secrets.current());
    core.set_locale(tools.registry().locale());
}

/// Returns the function that lists the slash commands for the client.
fn command_menu(
    commands: SlashCommands,
    tools: Arc<OfferedTools>,
) -> impl Fn(&ActiveOptions) -> SessionStatePart {
    move |chosen| commands.available_commands(chosen, &tools)
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

/// Work of a session that waits until all earlier work is done.
enum SessionWork {
    Prompt(PromptContent),
    /// Goes back to the state before a prompt.
    Rewind {
        prompt: u32,
        /// Set when the changes begin, or when the request is withdrawn before the changes begin.
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
            tools,
            servers,
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
        commands.remove_needing_storage_unless(rewind.is_some());
        let cwd = context.workspace.cwd().to_owned();
        let mut core = acp_lifecycle::Session::new(&cwd).with_config(config);
        set_secrets_and_locale(&mut core, &secrets, &tools);
        let folders: Vec<_> = context.workspace.folders().map(Path::to_owned).collect();
        let store = permission.configure_session(&mut core, &context.workspace);
        let mut client = connect(core);
        let handle = client.session_handle().clone();
        let keeper = store.map(|store| Arc::new(RulePersister::new(handle.clone(), store, cwd)));
        if let Some(keeper) = &keeper {
            client = save_rules_after_answers(client, keeper.clone());
        }
        let workspace = context.workspace.clone();
        let client = record_items_before_delivery(client, recording.clone(), workspace).open();
        history.set_session_recording(recording.clone());
        // Start the servers after the rules are set, because the sandbox of the servers depends on
        // these rules.
        let tools = Arc::new(tools.start_servers(servers, &context, &client));
        let menu = command_menu(commands.clone(), tools.clone());
        let record = options_recorder(recording.clone());
        let options = SessionOptions::new(selection, handle.clone(), menu, folders, record);
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
            _server_requests: ServerRequestHandler::connect(&client, &options, &tools, &secrets),
            options,
            commands,
            workspace_context: WorkspaceContext::new(&context, SystemTime::now())
                .with_instructions(instructions)
                .with_known_files(known_files, prompt_count)
                .with_tool_hints(tools.registry().hints()),
            tools,
            context: context.with_unsaved_text_backend(texts).with_terminal_backend(terminals),
            secrets: SessionSecrets::new(handle.clone(), &secrets),
            handle,
            model_notice: None,
            rule_persister: keeper,
            queue: session.queue.clone(),
            history,
            earlier_calls: recording
                .as_ref()
                .map(|it| it.recorded_tool_usage())
                .unwrap_or_default(),
            recording,
            rewind,
            prompt_count,
            aborting: session.aborting.clone(),
        };
        let (closing, closed) = (session.closing.clone(), session.closed.clone());
        let life = run_until_closed(runner, taken, client, closing, closed);
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
                return responder.respond_with_error(errors::too_many_waiting_prompts_error());
            }
            Err(mpsc::error::TrySendError::Closed(())) => {
                return responder.respond_with_error(errors::session_closing_error());
            }
        };
        let open = self.client.open_prompt(responder);
        let (turn, withdrawn) = (open.turn().id.clone(), open.request_cancelled_signal().clone());
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
                open.withdraw_and_respond();
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

    /// Goes back to the state before a prompt, after all waiting prompts are done. A dry run does
    /// not wait, and only returns what a rewind would change now. If the request is withdrawn
    /// before the changes begin, nothing is changed.
    pub(crate) async fn rewind_to_before_prompt(
        &self,
        prompt: u32,
        is_dry_run: bool,
        withdrawn: &RequestCancellation,
    ) -> Result<RewindSessionResponse> {
        let Some(rewind) = &self.rewind else { return Err(errors::sessions_not_stored_error()) };
        if is_dry_run {
            let plan =
                rewind.plan_unless_denied(prompt, self.client.handle(), &self.options).await?;
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
                () = is_withdrawn => Err(errors::request_cancelled_error()),
            },
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(errors::too_many_waiting_prompts_error())
            }
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
            // Abandon the running work: its calls end, and its prompt is answered.
            self.aborting.cancel();
            drop(tokio::time::timeout(limits::FINAL_SEND_TIMEOUT, self.closed.cancelled()).await);
        }
        if let Some(rewind) = &self.rewind {
            // Wait for a running rewind, so that the history matches the files that the rewind
            // restores.
            let finished = rewind.take_finished();
            drop(tokio::time::timeout(limits::REWIND_COMMIT_TIMEOUT, finished).await);
        }
        if let Some(recording) = &self.recording {
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

#[cfg(test)]
mod tests;
