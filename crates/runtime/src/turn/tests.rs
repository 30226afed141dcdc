//! Tests of whole turns with a fake model and fake tools. A client checks every update.

mod background_commands;
mod cancellation;
mod changed_files;
mod images;
mod late_writes;
mod parallel_calls;
mod reply_endings;
mod secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    ClientUnreachable, Effect, Effects, Grant, OutboxItem, OutboxSink, PermissionAnswer,
    PinnedPlan, Session, Titles, drive_session,
};
use acp_tools::{
    CallDescription, Invocation, Registry, SideEffects, Spec, Tool, ToolError, ToolOutput,
    ToolPreview, Workspace,
};
use acp_types::client_state::v1::V1ClientState;
use acp_types::wire::v1::{self, V1Projection};
use acp_types::{Content, Image, Role, SessionStatePart, ToolKind};
use callboard_models::{Model, ModelCapabilities, ModelEvent, ModelRequest, ReplyStream};
use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::task::{JoinHandle, yield_now};

use super::history::tests::check_valid;
use super::*;
use crate::secrets::LiveSecrets;

/// Number of times that a client, a tool and a model yield before they continue.
const STEPS: usize = 3;

/// A tool that works for several steps. The tool `look` reads files, `alter` changes files and
/// needs permission, and `order` runs a command.
#[derive(Debug)]
struct Worker {
    name: &'static str,
    reach: SideEffects,
    started: Arc<AtomicUsize>,
    /// The starts and ends of all calls, in the order in which they happened.
    log: Arc<Mutex<Vec<Step>>>,
}

/// The start or the end of a call. The value is the text of the call's result.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Begin(String),
    End(String),
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Args {
    path: String,
    /// Number of steps of the call. If this field is set, each step takes 1 ms of the paused clock.
    steps: Option<usize>,
    /// The text of the call's result.
    says: Option<String>,
}

impl Tool for Worker {
    type Args = Args;
    type Plan = Args;

    fn spec(&self) -> Spec {
        let kind = match self.reach {
            SideEffects::Reads => ToolKind::Read,
            _ => ToolKind::Other,
        };
        Spec::new(self.name, "Works for a few steps.", kind).with_side_effects(self.reach)
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        match args.path.as_str() {
            "" => CallDescription::new(self.name),
            path => CallDescription::new(self.name).with_location(path, 0, context),
        }
    }

    async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<ToolPreview<Args>, ToolError> {
        yield_now().await;
        let path = PathBuf::from(&args.path);
        let mut draft = ToolPreview::new(args);
        if self.reach == SideEffects::Changes {
            draft.effects = Effects::from(Effect::Write(path));
        }
        Ok(draft)
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Args>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let args = pinned.release(grant)?;
        self.started.fetch_add(1, SeqCst);
        let name = args.says.unwrap_or_else(|| "done".to_owned());
        self.log.lock().unwrap().push(Step::Begin(name.clone()));
        if name == "changes its file" {
            let file = invocation.context.workspace.cwd().join(&args.path);
            std::fs::write(file, "changed").unwrap();
        }
        for step in 0..args.steps.unwrap_or(STEPS) {
            invocation.call.append_content(Content::from_text(format!("step {step}")));
            match args.steps {
                // The clock is paused. The clock advances only when no call can begin or continue.
                Some(_) => {
                    let never = std::future::pending::<()>();
                    drop(tokio::time::timeout(Duration::from_millis(1), never).await);
                }
                None => yield_now().await,
            }
        }
        self.log.lock().unwrap().push(Step::End(name.clone()));
        let image = (name == "an image")
            .then(|| vec![Content::from_text("so"), Image::new("image/png", "AA==").into()]);
        let mut output = ToolOutput::new(name);
        output.content = image;
        Ok(output)
    }
}

/// Returns the events of a call whose arguments arrive in fragments of five bytes.
fn call(id: &str, name: &str) -> Vec<ModelEvent> {
    call_with(id, name, &format!(r#"{{"path": "/{id}"}}"#))
}

fn call_with(id: &str, name: &str, arguments: &str) -> Vec<ModelEvent> {
    let id = id.to_owned();
    let mut events = vec![ModelEvent::CallStart { id: id.clone(), name: name.to_owned() }];
    for piece in arguments.as_bytes().chunks(5) {
        let fragment = str::from_utf8(piece).unwrap().to_owned();
        events.push(ModelEvent::CallArguments { id: id.clone(), fragment });
    }
    events.push(ModelEvent::CallEnd { id });
    events
}

fn error(fault: ModelErrorKind) -> ModelError {
    ModelError::new(fault, "busy")
}

/// All updates that the client has received.
#[derive(Default)]
struct ClientRecord {
    client_state: V1ClientState,
    said: String,
    thought: String,
    states: Vec<SessionStatePart>,
    /// The roles and message ids of the received chunks, without repetitions.
    messages: Vec<(Role, String)>,
    turn_answered: bool,
    after_the_answer: usize,
}

/// A client that allows each permission request after a few steps.
struct Client {
    handle: SessionHandle,
    sent: V1Projection,
    seen: Arc<Mutex<ClientRecord>>,
}

impl OutboxSink for Client {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        let mut seen = self.seen.lock().unwrap();
        seen.after_the_answer += usize::from(seen.turn_answered);
        match item {
            OutboxItem::ToolCall(id, patch) => {
                for update in self.sent.updates_for_call_patch(&id, &patch) {
                    seen.client_state.apply_session_update(&update);
                }
            }
            OutboxItem::PermissionRequest(number) => {
                let request = self.handle.pending_permission_request(number).unwrap();
                let request = self.sent.permission_request_for_call(
                    "s".into(),
                    &request.call,
                    request.options,
                );
                seen.client_state.apply_permission_request(&request.unwrap());
                let handle = self.handle.clone();
                drop(tokio::spawn(async move {
                    for _ in 0..STEPS {
                        yield_now().await;
                    }
                    let option_id = "allow".to_owned();
                    handle.answer_permission(
                        number,
                        PermissionAnswer::Selected { option_id, reason: None },
                    );
                }));
            }
            OutboxItem::Chunk(chunk) => {
                let words = match chunk.role {
                    Role::Thought => &mut seen.thought,
                    _ => &mut seen.said,
                };
                words.push_str(&chunk.text);
                seen.messages.push((chunk.role, chunk.message));
                seen.messages.dedup();
            }
            OutboxItem::State(state) => seen.states.push(state),
            OutboxItem::PromptResponse(_) => {
                seen.client_state.check_calls_ended();
                seen.turn_answered = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// A session with tools and a client, before its first turn.
struct TurnFixture {
    folder: TempDir,
    name: TurnId,
    tools: OfferedTools,
    context: Context,
    surroundings: WorkspaceContext,
    handle: SessionHandle,
    live: LiveSecrets,
    secrets: SessionSecrets,
    cancel: CancellationToken,
    seen: Arc<Mutex<ClientRecord>>,
    started: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<Step>>>,
    stop: CancellationToken,
    driver: JoinHandle<()>,
}

impl TurnFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
        let context = Context::new(Arc::new(workspace));
        let (started, log) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<Step>>>::default());
        let mut registry = Registry::new(Titles::parse("en", TITLES).unwrap());
        let tools = [
            ("look", SideEffects::Reads),
            ("alter", SideEffects::Changes),
            ("order", SideEffects::Anything),
        ];
        for (name, reach) in tools {
            registry.add(Worker { name, reach, started: started.clone(), log: log.clone() });
        }
        let handle = SessionHandle::new(Session::new(folder.path()), || SystemTime::UNIX_EPOCH);
        let (seen, sent) =
            (Arc::<Mutex<ClientRecord>>::default(), V1Projection::new(v1::TerminalDisplay::Text));
        let client = Client { handle: handle.clone(), sent, seen: seen.clone() };
        let stop = CancellationToken::new();
        let driver = tokio::spawn(drive_session(handle.clone(), client, stop.clone()));
        let (tools, cancel) = (OfferedTools::new(registry), CancellationToken::new());
        let surroundings = WorkspaceContext::new(&context, SystemTime::UNIX_EPOCH);
        let live = LiveSecrets::from_env(None);
        Self {
            folder,
            name: "t1".into(),
            tools,
            context,
            surroundings,
            secrets: SessionSecrets::new(handle.clone(), &live),
            live,
            handle,
            cancel,
            seen,
            started,
            log,
            stop,
            driver,
        }
    }

    /// Runs a turn with this prompt.
    async fn run(
        &self,
        model: &Arc<impl Model + 'static>,
        history: &mut History,
        blocks: Vec<ContentBlock>,
    ) -> TurnOutcome {
        let chosen = || ActiveOptions::defaults_for_model(model.clone());
        run_turn(self.turn(&chosen), history, blocks).await
    }

    fn turn<'a>(&'a self, chosen: &'a (dyn Fn() -> ActiveOptions + Sync)) -> Turn<'a> {
        Turn {
            id: &self.name,
            active_options: chosen,
            tools: &self.tools,
            context: &self.context,
            workspace_context: &self.surroundings,
            handle: &self.handle,
            secrets: &self.secrets,
            cancel: &self.cancel,
        }
    }

    /// Ends the turn as a session does. Returns everything that the client received, including
    /// updates after the end.
    async fn end(self) -> ClientRecord {
        self.handle.end_turn(&"t1".into(), CallEndReason::Turn);
        self.cancel.cancel();
        tokio::time::advance(Duration::from_secs(10)).await;
        for _ in 0..100 {
            yield_now().await;
        }
        self.stop.cancel();
        self.driver.await.unwrap();
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        drop(self.folder);
        seen
    }
}

const TITLES: &str = "look = Look\nlook-pending = Look\nalter = Alter\nalter-pending = Alter\n\
                      order = Order\norder-pending = Order\n";
