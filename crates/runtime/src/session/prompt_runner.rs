//! Runs the prompts and rewinds of one session, one after the other.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use acp_connection::ClientSession;
use acp_lifecycle::{SessionHandle, ToolUsage};
use acp_mcp::McpServers;
use acp_tools::Context;
use acp_types::{CallEndReason, Role, TurnId};
use agent_client_protocol::v1::schema::{ContentBlock, PromptResponse, StopReason};
use agent_client_protocol::{RequestCancellation, Result};
use futures::FutureExt as _;
use futures::future::OptionFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::backends::ServerRequestHandler;
use crate::commands::{SlashCommandContext, SlashCommands};
use crate::context::WorkspaceContext;
use crate::lock::lock;
use crate::offered_tools::OfferedTools;
use crate::options::SessionOptions;
use crate::permission::RulePersister;
use crate::rewind::{FinishedRewind, RewindSessionResponse, SessionRewind};
use crate::secrets::SessionSecrets;
use crate::stored_sessions::{RewoundSession, SessionRecording, StoredKnownFiles};
use crate::turn::{self, History, Turn};
use crate::{commands, errors, limits, prompt, spans};

use super::{PromptContent, PromptQueue, QueuedPrompt, SessionWork};

/// Runs the work of a session until the session is closed, and then closes the session's connection
/// to the client.
pub(super) async fn run_until_closed(
    runner: PromptRunner,
    work: mpsc::Receiver<SessionWork>,
    client: ClientSession,
    closing: CancellationToken,
    closed: CancellationToken,
) {
    let (context, giving_up) = (runner.context.clone(), runner.aborting.clone());
    let tools = runner.tools.clone();
    let waiting = runner.queue.clone();
    let work = async {
        runner.run_queued_prompts(work, &closing).await;
        let _is_over = giving_up.run_until_cancelled(end_background_work(&context, &tools)).await;
    };
    // A panic outside a turn ends the session, and every prompt is answered.
    drop(AssertUnwindSafe(work).catch_unwind().await);
    // Dropping a prompt ends its turn. The lock of the queue is therefore released before the
    // prompts are dropped.
    let left = std::mem::take(&mut *lock(&waiting));
    drop(left);
    client.close(Duration::ZERO).await;
    closed.cancel();
}

/// Stops background commands and servers.
async fn end_background_work(context: &Context, tools: &OfferedTools) {
    let servers = OptionFuture::from(tools.servers().map(McpServers::stop));
    let commands = context.workspace.background_commands().stop_all_and_wait();
    let ((), _) = tokio::join!(commands, servers);
    // Log late writes of other programs, because no later turn can report these writes.
    for late in context.take_concurrent_write_reports().await {
        tracing::warn!("{late}");
    }
}

/// Runs the prompts of a session, one after the other.
pub(super) struct PromptRunner {
    pub(super) handle: SessionHandle,
    pub(super) options: Arc<SessionOptions>,
    pub(super) commands: SlashCommands,
    pub(super) tools: Arc<OfferedTools>,
    pub(super) context: Context,
    pub(super) workspace_context: WorkspaceContext,
    pub(super) secrets: SessionSecrets,
    /// The notice about the model that was last shown to the user.
    pub(super) model_notice: Option<String>,
    pub(super) rule_persister: Option<Arc<RulePersister>>,
    pub(super) queue: Arc<Mutex<PromptQueue>>,
    pub(super) history: History,
    pub(super) recording: Option<Arc<SessionRecording>>,
    pub(super) rewind: Option<SessionRewind>,
    /// Number of prompts of the session so far.
    pub(super) prompt_count: u32,
    /// For each tool, the calls of the session that ended in earlier processes.
    pub(super) earlier_calls: Vec<(String, ToolUsage)>,
    pub(super) aborting: CancellationToken,
    /// The handler of the servers' requests. This field keeps the handler alive, because the
    /// servers have only a weak reference to it.
    pub(super) _server_requests: Arc<ServerRequestHandler>,
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

    /// Waits until all updates before a prompt are recorded, and then records the prompt.
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
        notices.into_iter().for_each(|notice| turn::send_notice_as_thought(&self.handle, notice));
        let token = open.turn().cancel.clone();
        let span =
            spans::turn_span(name.as_str(), self.options.active_options().model.name(), &trace);
        self.handle.set_turn_trace_context(&name, trace);
        let ending = if !token.is_cancelled() && !open.request_cancelled_signal().is_cancelled() {
            let turn = Turn {
                id: &name,
                active_options: &|| self.options.active_options(),
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
                    SlashCommandContext::new(turn, options, &self.commands, keeper, spent, rewind);
                let typed = prompt::typed_text(&blocks);
                let said = commands::run_slash_command(&typed, asked);
                match said.await {
                    Some(said) => Ok(send_command_answer(&self.handle, said, &token)),
                    None => {
                        let show = |notice| turn::send_notice_as_thought(&self.handle, notice);
                        self.tools.wait_for_servers(&token, show).await;
                        let told = &mut self.model_notice;
                        prepare_model_for_turn(options, &token, &self.handle, told).await;
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
                () = forward_cancel(open.request_cancelled_signal(), &token) => Ok(StopReason::Cancelled),
            }
        } else {
            Ok(StopReason::Cancelled)
        };
        self.apply_rewind_of_turn(&ending).await;
        // The turn may have changed the available models and their capabilities.
        self.options.advertise_unrequested_changes();
        if let Some(keeper) = &self.rule_persister {
            tokio::select! {
                () = keeper.save_and_wait_until_timeout() => {}
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

    /// Goes back to the state before a prompt, on request of the client, which has asked its user.
    /// The next turn begins with the message about the rewind, because clients expect no message
    /// outside of a turn. `withdrawn` resolves if the client no longer waits. `decided` is set when
    /// the changes begin. From then on, the rewind is completed even if the request is withdrawn.
    async fn rewind_for_client(
        &mut self,
        prompt: u32,
        decided: &OnceLock<()>,
        withdrawn: impl Future<Output = ()>,
    ) -> Result<RewindSessionResponse> {
        let Some(rewind) = self.rewind.clone() else {
            return Err(errors::sessions_not_stored_error());
        };
        let planned = async {
            self.handle.wait_drained().await;
            self.commit_records().await;
            rewind.plan_unless_denied(prompt, &self.handle, &self.options).await
        };
        let plan = tokio::select! {
            plan = planned => plan?,
            () = withdrawn => return Err(errors::request_cancelled_error()),
            () = self.aborting.cancelled() => return Err(errors::session_closing_error()),
        };
        if decided.set(()).is_err() {
            return Err(errors::request_cancelled_error());
        }
        let response = plan.response();
        tokio::select! {
            // If the rewind fails, `apply_rewind` reports the error.
            _ = rewind.run(plan.into_plan(), false) => {}
            () = self.aborting.cancelled() => return Err(errors::session_closing_error()),
        }
        let report = self.apply_rewind(0).await.ok_or_else(errors::session_closing_error)?;
        let report = report.map_err(|error| errors::rewind_failed_error(&error))?;
        lock(&self.queue).notices.push(report);
        Ok(response)
    }

    /// Applies the rewind that a turn has run. If the turn was cancelled, a notice reports the
    /// outcome of the rewind, because the call that started the rewind may have ended before the
    /// rewind.
    async fn apply_rewind_of_turn(&mut self, ending: &Result<StopReason>) {
        if let (Some(report), Ok(StopReason::Cancelled)) = (self.apply_rewind(1).await, ending) {
            lock(&self.queue).notices.push(report.unwrap_or_else(|error| error));
        }
    }

    /// Waits for a running rewind. Then replaces the messages of the model, and sends the plan.
    /// `newer` is the number of prompts that come after the removed prompts and are kept. Returns
    /// the report or the error of the rewind, or `None` if there was no rewind.
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
            self.history.use_next_prompt_as_title();
        }
        self.workspace_context.begin_prompt(self.prompt_count);
        self.workspace_context.forget_prompts_after(prompts);
        Some(report)
    }

    /// Stores the changes of a turn, and notifies the user once if storing fails.
    async fn commit_records(&self) {
        let Some(recording) = &self.recording else { return };
        self.history.queue_messages_to_store(&self.handle);
        let options = self.options.active_options();
        recording.record_settings(|settings| {
            settings.set_options(&options);
            settings.usage = *self.history.usage_totals();
            settings.is_titled = self.history.is_titled();
            let mut calls = self.handle.total_call_usage();
            calls.add_earlier_process_totals(&self.earlier_calls);
            settings.calls = calls.tools;
        });
        // A disk may hang. The list of the last turn then stays.
        let record = self.workspace_context.record_noted_files();
        drop(tokio::time::timeout(limits::COMMIT_TIMEOUT, record).await);
        if let Some(files) = self.workspace_context.known_files() {
            let roots: Vec<_> = self.context.workspace.roots().map(Path::to_owned).collect();
            recording.record_known_files(StoredKnownFiles::new(&roots, files));
        }
        recording.commit().await;
        if let Some(notice) = recording.take_notice() {
            turn::send_notice_as_thought(&self.handle, notice);
        }
    }
}

/// Cancels a turn when its request is cancelled; never returns.
async fn forward_cancel(withdrawn: &RequestCancellation, turn: &CancellationToken) {
    withdrawn.cancelled().await;
    turn.cancel();
    std::future::pending::<()>().await;
}

/// Calls `prepare_for_turn` of the model. Shows the returned notice about the model, unless the
/// last shown notice was the same.
async fn prepare_model_for_turn(
    options: &Arc<SessionOptions>,
    cancel: &CancellationToken,
    handle: &SessionHandle,
    told: &mut Option<String>,
) {
    let model = options.active_options().model;
    let found = tokio::select! {
        found = model.prepare_for_turn() => found,
        () = cancel.cancelled() => None,
    };
    options.advertise_unrequested_changes();
    options.discover_models();
    if let Some(found) = found
        && told.as_ref() != Some(&found)
    {
        turn::send_message_and_blank_line(handle, Role::Agent, found.clone());
        *told = Some(found);
    }
}

/// Ends a turn with the answer of a slash command.
fn send_command_answer(
    handle: &SessionHandle,
    said: String,
    turn: &CancellationToken,
) -> StopReason {
    turn::send_message(handle, Role::Agent, said);
    if turn.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn }
}
