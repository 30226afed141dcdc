//! The whole life of a call around any `async fn(name, args)`, which knows nothing of it.
//!
//! It is [`perform()`] with an [`Executor`] made of a closure: what the agent does for its own
//! tools and what this does for yours is the same code.

use std::fmt;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use acp_types::tool_kind::{self, ToolAnnotations};
use acp_types::{
    CallEndReason, Content, ContentPatch, Progress, Status, ToolCallId, ToolCallPatch, ToolKind,
    TurnId, id,
};
use callboard_text::{count_with_noun, head, visible};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::board::CallEnd;
use crate::catch_panic::catch_panic;
use crate::effects::{Effect, Effects};
use crate::execute_call::{
    CallExecutor, CallFailure, CallOutcome, CallPreview, CallSuccess, execute_call,
};
use crate::handle::{CallHandle, OpenCall, SessionHandle};
use crate::limits::DEFAULT_RESULT_TEXT_BYTES;
use crate::permission::{Grant, PermissionSubject, Pinned};
use crate::schedule::{Footprint, Schedule};
use crate::title;

/// Lives the lives of calls whose tools somebody else runs.
///
/// ```
/// # #![allow(clippy::disallowed_methods)]
/// use acp_lifecycle::{CancellationToken, Middleware, Session, SessionHandle};
/// use serde_json::{Value, json};
///
/// async fn my_tools(name: &str, args: Value) -> Result<String, std::io::Error> {
///     Ok(format!("{name} of {args}"))
/// }
///
/// async fn on_tool_call(session: SessionHandle, cancel: CancellationToken) {
///     let tools = Middleware::new(session).titles(|name, args| format!("{name} {args}"));
///     let args = json!({ "city": "Bern" });
///     match tools.call(&"turn1".into(), "id1", "get_weather", args, &cancel, my_tools).await {
///         Ok(text) => println!("to the model: {text}"),
///         Err(ended) => println!("to the model: {} It is over: {}", ended.text, ended.ends_turn),
///     }
/// }
/// ```
///
/// Left alone, under the policy of a new session, it asks the client about every call: nothing is
/// known of what a foreign tool does, so nothing is allowed and nothing can be remembered. Say more with [`Middleware::effects`].
pub struct ToolMiddleware {
    session: SessionHandle,
    titles: CallFn<String>,
    effects: CallFn<Effects>,
    previews: Option<PreviewFn>,
    kinds: ToolFn<Option<ToolKind>>,
    annotations: ToolFn<ToolAnnotations>,
    timeout: Option<Duration>,
}

/// What is shown of a call before it is permitted.
type PreviewFn = CallFn<BoxFuture<'static, Result<ToolCallPatch, String>>>;

/// What is said about a call by its tool's name and its arguments.
type CallFn<T> = Box<dyn Fn(&str, &Value) -> T + Send + Sync>;

/// What is said about a tool by its name.
type ToolFn<T> = Box<dyn Fn(&str) -> T + Send + Sync>;

impl ToolMiddleware {
    /// Makes a middleware whose calls are those of a session.
    #[must_use]
    pub fn new(session: SessionHandle) -> Self {
        Self {
            session,
            titles: Box::new(title::default_title),
            effects: Box::new(|_, _| Effects::from(Effect::Unknown)),
            previews: None,
            kinds: Box::new(|_| None),
            annotations: Box::new(|_| ToolAnnotations::default()),
            timeout: None,
        }
    }

    /// Says what a call is called; its tool's name and its arguments otherwise, as
    /// [`title::of_call`] writes them. What would hide or reorder text is
    /// shown. Show what is approved: many clients show nothing but the title.
    #[must_use]
    pub fn titles(
        mut self,
        titles: impl Fn(&str, &Value) -> String + Send + Sync + 'static,
    ) -> Self {
        self.titles = Box::new(titles);
        self
    }

    /// Says what a call would do to the world, which rules and the session's policy judge;
    /// [`Effect::Unknown`] otherwise, which the default policy asks about.
    ///
    /// Nothing but this decides whether somebody is asked. So say `Unknown` for every name and
    /// every argument that you do not know, [`Effects::none`] only for what does nothing, which files
    /// are in no folder of the session's by [`Effects::with_outside`], and what is to be asked about
    /// each time by [`Effects::guarded`]. It is asked several times about a call: where it says
    /// something else right before the tool runs, the call is permitted anew.
    #[must_use]
    pub fn effects(
        mut self,
        effects: impl Fn(&str, &Value) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.effects = Box::new(effects);
        self
    }

    /// Shows what a call would do before the question about it: the change of a file, as
    /// [`Content::Change`], its locations, a better title. An error ends the call, and the model
    /// reads it.
    ///
    /// It must change nothing, and read no file but those that the call's [effects](Self::effects)
    /// name: reading these is judged first, as guarded, sensitive or outside as the call is. Where the
    /// effects are unknown, so is what it reads, and the call is asked about twice. It is asked again
    /// right before the tool runs: where it shows something else by then, the call is permitted anew.
    #[must_use]
    pub fn previews<R>(
        mut self,
        previews: impl Fn(&str, &Value) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<ToolCallPatch, String>> + Send + 'static,
    {
        self.previews = Some(Box::new(move |name, args| Box::pin(previews(name, args))));
        self
    }

    /// Declares kinds of tools; of the others, the annotations, then the whole words of the name
    /// tell ([`kind::infer`]).
    #[must_use]
    pub fn kinds(
        mut self,
        kinds: impl Fn(&str) -> Option<ToolKind> + Send + Sync + 'static,
    ) -> Self {
        self.kinds = Box::new(kinds);
        self
    }

    /// Tells what MCP servers hint of their tools.
    #[must_use]
    pub fn annotations(
        mut self,
        annotations: impl Fn(&str) -> ToolAnnotations + Send + Sync + 'static,
    ) -> Self {
        self.annotations = Box::new(annotations);
        self
    }

    /// Ends a call that ran longer than this, or whose [preview](Self::previews) did. Waiting for
    /// permission does not count. There is no limit otherwise.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Announces a call, has it permitted, runs it, and ends it, whatever happens.
    ///
    /// `id` is the model's own id of the call; what the client is told is unique in the session.
    /// `cancel` is the turn's token. A call that is cancelled or takes too long is dropped where
    /// it awaits, as async Rust does; one that panics ends as failed. The tool gets `args` as they
    /// were permitted; by [`progress`] or [`CallHandle::current`] it can tell more while it runs.
    ///
    /// # Errors
    ///
    /// [`Ended`] if it did not complete: failed, rejected, cancelled, too late. `text` is what the
    /// model is to be told (the tool's own error, for one), `ends_turn` whether to stop there.
    pub async fn call<'a, T, E, F, R>(
        &self,
        turn: &TurnId,
        id: &str,
        name: &'a str,
        args: Value,
        cancel: &CancellationToken,
        tool: F,
    ) -> Result<T, CallOutcome>
    where
        T: Serialize + Send,
        E: Display + Send,
        F: FnOnce(&'a str, Value) -> R + Send + 'a,
        R: Future<Output = Result<T, E>> + Send + 'a,
    {
        let Some(open) = self.announce(turn, id, name, &args, cancel) else {
            return Err(turn_over_outcome());
        };
        let tool: BoxTool<'a, T, E> = Box::new(move |args| Box::pin(tool(name, args)));
        self.run(open, name, args, tool).await
    }

    /// Announces the calls of one reply, then runs them: side by side, unless one has to wait for
    /// another ([`Schedule`]), as their [effects](Self::effects) tell. Returns the results in the
    /// order of the calls.
    ///
    /// Where one says that the turn is over, those that run are cancelled and the others do not
    /// begin. Otherwise each is what [`Middleware::call`] makes of it.
    pub async fn call_batch<'a, T, E, F, R>(
        &self,
        turn: &TurnId,
        calls: Vec<BatchCall<'a>>,
        cancel: &CancellationToken,
        tool: F,
    ) -> Vec<Result<T, CallOutcome>>
    where
        T: Serialize + Send,
        E: Display + Send,
        F: Fn(&'a str, Value) -> R + Send + Sync + 'a,
        R: Future<Output = Result<T, E>> + Send + 'a,
    {
        let (cancel, tool) = (cancel.child_token(), Arc::new(tool));
        let footprints: Vec<_> = calls.iter().map(|call| self.footprint(call)).collect();
        let mut schedule = Schedule::new(&footprints);
        let announce = |call: BatchCall<'a>| {
            let open = self.announce(turn, call.id, call.name, &call.args, &cancel)?;
            Some((open, call))
        };
        let mut waiting: Vec<_> = calls.into_iter().map(announce).collect();
        let mut results: Vec<_> = waiting.iter().map(|_| Err(turn_over_outcome())).collect();
        let mut running = FuturesUnordered::new();
        loop {
            while !cancel.is_cancelled()
                && let Some(place) = schedule.start_next()
            {
                match waiting[place].take() {
                    Some((open, call)) => {
                        let (tool, name) = (tool.clone(), call.name);
                        let tool: BoxTool<'a, T, E> =
                            Box::new(move |args| Box::pin(tool(name, args)));
                        let run = self.run(open, name, call.args, tool);
                        running.push(async move { (place, run.await) });
                    }
                    None => schedule.finish(place),
                }
            }
            let Some((place, result)) = running.next().await else { break };
            schedule.finish(place);
            if matches!(&result, Err(ended) if ended.ends_turn) {
                cancel.cancel();
            }
            results[place] = result;
        }
        for (open, _) in waiting.into_iter().flatten() {
            open.finish(CallEnd::cancelled(CallEndReason::Turn));
        }
        results
    }

    /// Finds what a call touches; if its effects closure panics, that is unknown.
    fn footprint(&self, call: &BatchCall<'_>) -> Footprint {
        let effects = catch_panic(|| (self.effects)(call.name, &call.args));
        effects.map_or(Footprint::Unknown, |effects| Footprint::from_effects(call.name, &effects))
    }

    fn announce(
        &self,
        turn: &TurnId,
        id: &str,
        name: &str,
        args: &Value,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let id = self.unique_call_id(turn, id);
        // What says nothing, because it panics, says what is said by default.
        let title = catch_panic(|| (self.titles)(name, args));
        let title = title.unwrap_or_else(|| title::default_title(name, args));
        let kind = catch_panic(|| (self.kinds)(name)).flatten();
        let annotations = catch_panic(|| (self.annotations)(name)).unwrap_or_default();
        let kind = tool_kind::infer_kind(kind, annotations, name);
        let patch = ToolCallPatch::announce(name, visible(&title), kind).raw_input(args.clone());
        self.session.announce(&id, turn, patch, cancel)
    }

    /// Has an announced call permitted, runs it, and ends it.
    async fn run<'a, T, E>(
        &self,
        open: OpenCall,
        name: &'a str,
        args: Value,
        tool: BoxTool<'a, T, E>,
    ) -> Result<T, CallOutcome>
    where
        T: Serialize + Send,
        E: Display + Send,
    {
        let (mut result, look, tool) = (None, String::new(), Some(tool));
        let wrapped = ForeignTool {
            middleware: self,
            name,
            args,
            tool,
            last_preview: look,
            result: &mut result,
        };
        let ended = execute_call(open, wrapped).await;
        result.ok_or(ended)
    }

    /// Looks at what a call would do, which is shown by nothing where nobody says how. The text is
    /// another one wherever anything of it is.
    async fn preview_call(
        &self,
        name: &str,
        args: &Value,
    ) -> Result<(Effects, ToolCallPatch, String), CallFailure> {
        let effects = (self.effects)(name, args);
        let shown = match &self.previews {
            Some(previews) => tokio::select! {
                shown = previews(name, args) => shown,
                () = wait_timeout(self.timeout) => {
                    let text = "What it works on could not be looked at in time. It did not run.";
                    let failure = CallFailure::recoverable("timeout", text);
                    return Err(CallFailure { reason: CallEndReason::Timeout, ..failure });
                }
            },
            None => Ok(ToolCallPatch::new()),
        };
        let shown = shown.map_err(|text| {
            CallFailure::recoverable("failed", truncate_result(text, DEFAULT_RESULT_TEXT_BYTES))
        })?;
        let text = format!("{:?} {shown:?}", effects.sorted());
        Ok((effects, shown, text))
    }

    /// Makes an id that is new in the session, and after a restart too.
    fn unique_call_id(&self, turn: &TurnId, model_id: &str) -> ToolCallId {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let fresh = || {
            let since = self.session.now().wall.duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{:x}_{}", since.as_nanos(), COUNT.fetch_add(1, Relaxed))
        };
        let is_taken = |id: &str| self.session.is_id_used(&ToolCallId::new(id));
        id::tool_call_id(turn, model_id, is_taken, fresh)
    }
}

/// One call of a reply that makes several: see [`Middleware::batch`].
#[derive(Debug, Clone)]
pub struct BatchCall<'a> {
    id: &'a str,
    name: &'a str,
    args: Value,
}

impl<'a> BatchCall<'a> {
    /// Makes a call of a tool by the model's own id of the call.
    #[must_use]
    pub fn new(id: &'a str, name: &'a str, args: Value) -> Self {
        Self { id, name, args }
    }
}

impl fmt::Debug for ToolMiddleware {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ToolMiddleware")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Reports how far the call is that this task runs: `progress(3.0, 10.0, "compiling")`, or with
/// `None` where the total is unknown. Outside of a call, nothing happens.
///
/// See [`CallHandle::current`] for what counts as the same task. It may be called as often as you
/// like: a client gets an update every 50 ms at most, with the newest progress. The final update has
/// none, so the last progress before it may never be sent.
pub fn report_progress(current: f64, total: impl Into<Option<f64>>, message: &str) {
    if let Some(call) = CallHandle::current() {
        let message = (!message.is_empty()).then(|| visible(message));
        call.report_progress(Progress::new(current).with_total(total).with_message(message));
    }
}

/// A tool with its name. It is boxed because a future that holds a closure over `&'a str` is not
/// known to be `Send` in a spawned task (<https://github.com/rust-lang/rust/issues/110338>).
type BoxTool<'a, T, E> = Box<dyn FnOnce(Value) -> BoxFuture<'a, Result<T, E>> + Send + 'a>;

/// One call of a foreign tool.
struct ForeignTool<'a, 'm, T, E> {
    middleware: &'m ToolMiddleware,
    name: &'a str,
    args: Value,
    /// None once it runs.
    tool: Option<BoxTool<'a, T, E>>,
    /// What the preview found last.
    last_preview: String,
    /// What the tool gives, for whoever made the call.
    result: &'m mut Option<T>,
}

impl<T, E> CallExecutor for ForeignTool<'_, '_, T, E>
where
    T: Serialize + Send,
    E: Display + Send,
{
    type Plan = Value;

    async fn preview_reads(&mut self, _: &CallHandle) -> Result<Effects, CallFailure> {
        if self.middleware.previews.is_none() {
            return Ok(Effects::empty());
        }
        Ok((self.middleware.effects)(self.name, &self.args).preview_reads())
    }

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<Value>, CallFailure> {
        let (effects, mut patch, look) =
            self.middleware.preview_call(self.name, &self.args).await?;
        // Whatever is found anew is asked about anew.
        let subject =
            PermissionSubject::for_call(self.name, &self.args, "".as_ref(), look.as_bytes());
        let pinned = Pinned::new(self.args.clone(), subject);
        self.last_preview = look;
        // What an earlier preview showed may not hold any more.
        if let ContentPatch::Append(shown) = patch.content {
            patch.content = ContentPatch::Set(shown);
        }
        Ok(CallPreview::new(pinned, effects).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: Pinned<Value>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        let args = pinned
            .release(grant)
            .map_err(|fault| CallFailure::recoverable("fault", fault.to_string()))?;
        let timeout = self.middleware.timeout;
        let (.., look) = tokio::select! {
            biased;
            () = call.cancel_token().cancelled() => return Err(cancelled_before_run()),
            look = self.middleware.preview_call(self.name, &self.args) => look?,
        };
        if look != self.last_preview {
            let text = "What it works on was changed each time before it ran. Nothing was done.";
            return Err(CallFailure {
                is_outdated: true,
                ..CallFailure::recoverable("outdated", text)
            });
        }
        let tool =
            self.tool.take().ok_or_else(|| CallFailure::recoverable("fault", "It ran before."))?;
        let done = tokio::select! {
            biased;
            () = call.cancel_token().cancelled() => return Err(cancelled_while_running()),
            done = tool(args) => done,
            () = wait_timeout(timeout) => return Err(timeout_failure(timeout.unwrap_or_default())),
        };
        let value = done.map_err(|error| {
            CallFailure::recoverable(
                "failed",
                truncate_result(error.to_string(), DEFAULT_RESULT_TEXT_BYTES),
            )
        })?;
        let config = self.middleware.session.config();
        // An item that is larger than the call's room would not be shown at all.
        let success =
            success_from_value(&value, config.result_text_bytes.min(config.content_bytes / 2));
        *self.result = Some(value);
        Ok(success)
    }
}

/// Waits for a timeout, if there is one.
async fn wait_timeout(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Shows a result: as text of so many bytes, and as raw output of its own shape.
fn success_from_value(value: &impl Serialize, text_bytes: usize) -> CallSuccess {
    // A value that cannot be JSON is not shown; who made the call has it.
    let raw = serde_json::to_value(value).unwrap_or_default();
    let text = match &raw {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut patch = ToolCallPatch::new();
    if !text.is_empty() {
        patch = patch.append(Content::text(truncate_result(text.clone(), text_bytes)));
    }
    CallSuccess { text, patch: patch.raw_output(raw), ..CallSuccess::default() }
}

fn truncate_result(text: String, bytes: usize) -> String {
    match text.len().checked_sub(bytes) {
        None | Some(0) => text,
        Some(over) => {
            let over = count_with_noun(over as u64, "more byte", "more bytes");
            format!("{}… and {over}", head(&text, bytes))
        }
    }
}

fn cancelled_while_running() -> CallFailure {
    let text = "Cancelled while it ran. It may have had effects already.";
    CallFailure {
        reason: CallEndReason::Turn,
        note: None,
        ..CallFailure::recoverable("cancelled", text)
    }
}

fn cancelled_before_run() -> CallFailure {
    let text = "Cancelled before it ran.";
    CallFailure {
        reason: CallEndReason::Turn,
        note: None,
        ..CallFailure::recoverable("cancelled", text)
    }
}

fn timeout_failure(timeout: Duration) -> CallFailure {
    let text = format!("Stopped after {timeout:?}. It may have had effects already.");
    CallFailure { reason: CallEndReason::Timeout, ..CallFailure::recoverable("timeout", text) }
}

/// The end of a call that nobody was told of, because its turn was answered.
fn turn_over_outcome() -> CallOutcome {
    let text = "The turn is over. It did not run.";
    CallOutcome {
        ends_turn: true,
        ..CallOutcome::new(Status::Cancelled, Some(CallEndReason::Turn), text)
    }
}
