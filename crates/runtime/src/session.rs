//! One session: its prompts in order, its history, and how it is cancelled and closed.
//!
//! It knows nothing of other sessions and of how a turn is made.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{SessionHandle, drive};
use acp_tools::{Context, Registry};
use acp_types::{Chunk, Reason, Role, Trace, TurnId};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{ContentBlock, PromptResponse, StopReason};
use agent_client_protocol::{RequestCancellation, Result};
use callboard_models::ToolSpec;
use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use ulid::Ulid;

use crate::commands::{CommandContext, Commands};
use crate::context::WorkspaceContext;
use crate::lock::lock;
use crate::options::{Chosen, Options, Selection};
use crate::permission::{Keeper, Permission};
use crate::secrets::{LiveSecrets, OfSession};
use crate::turn::{self, History, Turn};
use crate::wire::{Answers, Wire};
use crate::{commands, errors, limits, prompt, spans};

/// An open session.
pub(crate) struct Session {
    handle: SessionHandle,
    answers: Answers,
    options: Arc<Options>,
    prompts: mpsc::Sender<Prompt>,
    turns: Arc<Mutex<Turns>>,
    /// Says that no prompt will come any more.
    closing: CancellationToken,
    /// Says that what runs is not waited for any more.
    giving_up: CancellationToken,
    /// Is cancelled when everything is done and sent.
    closed: CancellationToken,
}

/// What a session is opened with.
pub(crate) struct SessionSetup {
    pub(crate) selection: Selection,
    pub(crate) registry: Registry,
    pub(crate) context: Context,
    pub(crate) secrets: LiveSecrets,
    pub(crate) permission: Permission,
    pub(crate) commands: Commands,
    /// In the place of our own system prompt.
    pub(crate) instructions: Option<Arc<str>>,
}

/// Which prompts may still run.
#[derive(Debug, Default)]
struct Turns {
    /// Prompts of an earlier epoch were cancelled while they waited.
    epoch: u64,
    /// Cancels the turn that runs.
    current: Option<CancellationToken>,
    /// Prompts taken so far, which name their turns.
    count: u64,
    /// The prompts that wait, by the names of their turns; cancelled when they wait no more.
    waiting: HashMap<TurnId, CancellationToken>,
}

/// A prompt that waits for its turn.
struct Prompt {
    blocks: Vec<ContentBlock>,
    /// What the client traces it by.
    trace: Trace,
    turn: TurnId,
    requested: RequestCancellation,
    epoch: u64,
}

impl Session {
    /// Opens a session and starts its tasks, in the span that is current.
    pub(crate) fn open(
        setup: SessionSetup,
        wire: impl FnOnce(SessionHandle, Answers) -> Wire,
    ) -> Arc<Self> {
        let SessionSetup {
            selection,
            registry,
            context,
            secrets,
            permission,
            commands,
            instructions,
        } = setup;
        let cwd = context.workspace.cwd().to_owned();
        let mut core = acp_lifecycle::Session::new(&cwd);
        core.set_secrets(secrets.all());
        core.set_locale(registry.locale());
        let roots: Vec<_> = context.workspace.roots().map(Path::to_owned).collect();
        let store = permission.set_up(&mut core, &roots);
        let handle = SessionHandle::new(core, SystemTime::now);
        let keeper = store.map(|store| Arc::new(Keeper::new(handle.clone(), store, cwd)));
        let answers = Answers::default();
        let tools = turn::tools(&registry);
        let menu = {
            let (commands, registry, tools) = (commands.clone(), registry.clone(), tools.clone());
            move |chosen: &Chosen| commands.available(chosen, &registry, &tools)
        };
        let options = Options::new(selection, handle.clone(), answers.clone(), menu, roots);
        let wire = wire(handle.clone(), answers.clone()).kept_by(keeper.clone());
        let context = context.with_text(wire.texts()).with_terminal(wire.terminals());
        let (prompts, waiting) = mpsc::channel(limits::MAX_WAITING_PROMPTS);
        let session = Arc::new(Self {
            handle: handle.clone(),
            answers: answers.clone(),
            options: options.clone(),
            prompts,
            turns: Arc::default(),
            closing: CancellationToken::new(),
            giving_up: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        let runner = Runner {
            handle: handle.clone(),
            options,
            commands,
            tools,
            surroundings: WorkspaceContext::new(context.workspace.clone(), SystemTime::now())
                .instructed(instructions)
                .with_hints(registry.hints()),
            registry,
            context,
            secrets: OfSession::new(handle.clone(), secrets),
            told: None,
            answers,
            keeper,
            turns: session.turns.clone(),
            history: History::default(),
            giving_up: session.giving_up.clone(),
        };
        let (closing, closed) = (session.closing.clone(), session.closed.clone());
        let (context, giving_up) = (runner.context.clone(), session.giving_up.clone());
        let life = async move {
            let sent = CancellationToken::new();
            let driver = tokio::spawn(drive(handle, wire, sent.clone()).in_current_span());
            let work = async {
                runner.run(waiting, &closing).await;
                let ending = async {
                    context.workspace.background().end().await;
                    // No turn will tell of it, and nobody looks from now on.
                    for late in context.late_writes().await {
                        tracing::warn!("{late}");
                    }
                };
                let _is_over = giving_up.run_until_cancelled(ending).await;
            };
            // A panic outside of a turn ends the session, whose wire then answers every prompt.
            drop(AssertUnwindSafe(work).catch_unwind().await);
            sent.cancel();
            // A driver that panicked has nothing more to send.
            drop(driver.await);
            closed.cancel();
        };
        drop(tokio::spawn(life.in_current_span()));
        session
    }

    /// Takes a prompt, which waits until those before it are done.
    pub(crate) fn prompt(
        &self,
        blocks: Vec<ContentBlock>,
        trace: Trace,
        responder: Responder<PromptResponse>,
    ) -> Result<()> {
        let place = match self.prompts.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Full(())) => {
                let waiting = limits::MAX_WAITING_PROMPTS;
                let what = format!("{waiting} prompts wait already; wait for the end of one");
                return responder.respond_with_error(errors::busy(&what));
            }
            Err(mpsc::error::TrySendError::Closed(())) => {
                return responder.respond_with_error(errors::session_closing());
            }
        };
        let begins = CancellationToken::new();
        let (turn, epoch) = {
            let mut turns = lock(&self.turns);
            turns.count += 1;
            let turn = TurnId::from(format!("t{}", turns.count));
            turns.waiting.insert(turn.clone(), begins.clone());
            (turn, turns.epoch)
        };
        let requested = responder.cancellation();
        self.answers.expect(&turn, responder);
        self.answer_if_cancelled(turn.clone(), requested.clone(), begins);
        place.send(Prompt { blocks, trace, turn, requested, epoch });
        Ok(())
    }

    /// Answers a prompt that is cancelled by `$/cancel_request` while it waits, at once.
    fn answer_if_cancelled(
        &self,
        turn: TurnId,
        requested: RequestCancellation,
        begins: CancellationToken,
    ) {
        let (turns, answers, handle) =
            (self.turns.clone(), self.answers.clone(), self.handle.clone());
        drop(tokio::spawn(async move {
            tokio::select! {
                () = requested.cancelled() => {}
                () = begins.cancelled() => return,
            }
            if lock(&turns).waiting.remove(&turn).is_some() {
                answers.set(&turn, Err(errors::request_cancelled()));
                handle.end_turn(&turn, Reason::User);
            }
        }));
    }

    /// What is chosen in the session.
    pub(crate) fn options(&self) -> &Arc<Options> {
        &self.options
    }

    /// Cancels the turn that runs and every prompt that waits.
    pub(crate) fn cancel(&self) {
        let mut turns = lock(&self.turns);
        turns.epoch += 1;
        if let Some(current) = &turns.current {
            current.cancel();
        }
    }

    /// Cancels everything and waits until its end is sent, but no longer than `deadline`.
    pub(crate) async fn close(&self, deadline: Duration) {
        self.closing.cancel();
        self.handle.with(|session, _| session.close());
        self.cancel();
        if tokio::time::timeout(deadline, self.closed.cancelled()).await.is_err() {
            // What still runs is left behind: its card ends, and its prompt is answered.
            self.giving_up.cancel();
            drop(tokio::time::timeout(limits::LAST_WORDS, self.closed.cancelled()).await);
        }
    }
}

impl Drop for Session {
    /// Ends what runs for a connection that was dropped without being closed.
    fn drop(&mut self) {
        self.closing.cancel();
        self.giving_up.cancel();
        self.cancel();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Runs the prompts of a session, one after the other.
struct Runner {
    handle: SessionHandle,
    options: Arc<Options>,
    commands: Commands,
    registry: Registry,
    tools: Arc<[ToolSpec]>,
    context: Context,
    surroundings: WorkspaceContext,
    secrets: OfSession,
    /// Which model it is, as the user was told last.
    told: Option<String>,
    answers: Answers,
    keeper: Option<Arc<Keeper>>,
    turns: Arc<Mutex<Turns>>,
    history: History,
    giving_up: CancellationToken,
}

impl Runner {
    async fn run(mut self, mut waiting: mpsc::Receiver<Prompt>, closing: &CancellationToken) {
        loop {
            let prompt = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                prompt = waiting.recv() => prompt,
            };
            let Some(prompt) = prompt else { return };
            self.turn(prompt).await;
        }
        // Those that still wait were cancelled by the close.
        waiting.close();
        while let Some(prompt) = waiting.recv().await {
            self.turn(prompt).await;
        }
    }

    async fn turn(&mut self, prompt: Prompt) {
        let token = CancellationToken::new();
        let Prompt { blocks, trace, turn: name, requested, epoch } = prompt;
        let may_run = {
            let mut turns = lock(&self.turns);
            // It was cancelled and answered while it waited.
            let Some(begins) = turns.waiting.remove(&name) else { return };
            begins.cancel();
            turns.current = Some(token.clone());
            turns.epoch == epoch
        };
        let span = spans::turn(name.as_str(), self.options.chosen().model.name(), &trace);
        self.handle.trace_turn(&name, trace);
        let ending = if may_run && !requested.is_cancelled() {
            let turn = Turn {
                name: &name,
                chosen: &|| self.options.chosen(),
                registry: &self.registry,
                tools: &self.tools,
                context: &self.context,
                surroundings: &self.surroundings,
                handle: &self.handle,
                secrets: &self.secrets,
                cancel: &token,
            };
            let running = async {
                let (options, keeper) = (&self.options, self.keeper.as_ref());
                let spent = *self.history.spent();
                let asked = CommandContext::new(turn, options, &self.commands, keeper, spent);
                let typed = prompt::typed(&blocks);
                let said = commands::answer(&typed, asked);
                match said.await {
                    Some(said) => Ok(answer(&self.handle, said, &token)),
                    None => {
                        let (secrets, told) = (&self.secrets, &mut self.told);
                        take_up(options, &token, &self.handle, secrets, told).await;
                        turn::run(turn, &mut self.history, blocks).await
                    }
                }
            };
            let running = running.instrument(span.clone());
            // A panic of a model or a description must not leave the prompt without an answer.
            let running = AssertUnwindSafe(running).catch_unwind();
            tokio::pin!(running);
            tokio::select! {
                ending = &mut running => {
                    ending.unwrap_or_else(|_| Err(errors::fault("something panicked")))
                }
                () = self.giving_up.cancelled() => Ok(StopReason::Cancelled),
                () = pass_on(&requested, &token) => Ok(StopReason::Cancelled),
            }
        } else {
            Ok(StopReason::Cancelled)
        };
        // What a model can, and which there are, may have come out in the turn.
        self.options.refresh();
        if let Some(keeper) = &self.keeper {
            tokio::select! {
                () = keeper.settle() => {}
                () = self.giving_up.cancelled() => {}
            }
        }
        lock(&self.turns).current = None;
        let ending = ending.map_err(|mut error| {
            error.message = self.secrets.redact(&error.message);
            error
        });
        if let Ok(stop) = &ending {
            let word = serde_json::to_value(stop).unwrap_or_default();
            span.record("stop_reason", word.as_str());
        }
        self.answers.set(&name, ending.map(PromptResponse::new));
        let closing = self.giving_up.is_cancelled();
        self.handle.end_turn(&name, if closing { Reason::Shutdown } else { Reason::Turn });
        // Nothing of this turn runs on behind its answer.
        token.cancel();
    }
}

/// Cancels a turn when its request is cancelled, and never ends.
async fn pass_on(requested: &RequestCancellation, turn: &CancellationToken) {
    requested.cancelled().await;
    turn.cancel();
    std::future::pending::<()>().await;
}

/// Lets the model look for what it needs, which nobody is shown from then on, and tells which one
/// it is, unless that was told last.
async fn take_up(
    options: &Arc<Options>,
    cancel: &CancellationToken,
    handle: &SessionHandle,
    secrets: &OfSession,
    told: &mut Option<String>,
) {
    let model = options.chosen().model;
    let found = tokio::select! {
        found = model.prepare() => found,
        () = cancel.cancelled() => None,
    };
    secrets.renew();
    options.refresh();
    options.explore();
    if let Some(found) = found
        && told.as_ref() != Some(&found)
    {
        say(handle, found.clone());
        *told = Some(found);
    }
}

/// Ends a turn with what there is to say about a command.
fn answer(handle: &SessionHandle, said: String, turn: &CancellationToken) -> StopReason {
    say(handle, said);
    if turn.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn }
}

fn say(handle: &SessionHandle, text: String) {
    let message = Ulid::generate().to_string();
    handle.say(Chunk { role: Role::Agent, message, text });
}

#[cfg(test)]
mod tests;
