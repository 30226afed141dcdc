//! A middleware that runs the whole lifecycle of a call around any `async fn(name, args)`.
//!
//! The middleware calls [`execute_call()`] with a [`CallExecutor`](crate::CallExecutor) that wraps
//! a closure. The agent `callboard` runs its tools with the same function.

mod foreign_tool;
mod path_arguments;

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use acp_types::tool_kind::{self, ToolAnnotations};
use acp_types::{
    CallEndReason, Location, Progress, Status, ToolCallId, ToolCallPatch, ToolKind, TurnId, id,
};
use callboard_text::{escape_invisible, normalise};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::board::CallEnd;
use crate::catch_panic::catch_panic;
use crate::effects::{Effect, Effects};
use crate::execute_call::{CallFailure, CallOutcome, execute_call};
use crate::handle::{CallHandle, OpenCall, SessionHandle};
use crate::schedule::{Footprint, Schedule};
use crate::title;

use foreign_tool::{BoxTool, ForeignCallExecutor, failure_from_error, wait_for_timeout_or_forever};
use path_arguments::PathArguments;

/// Runs calls of tools that another agent loop provides.
///
/// ```
/// # #![allow(clippy::disallowed_methods)]
/// use acp_lifecycle::{CancellationToken, Session, SessionHandle, ToolMiddleware};
/// use serde_json::{Value, json};
///
/// async fn my_tools(name: &str, args: Value) -> Result<String, std::io::Error> {
///     Ok(format!("{name} of {args}"))
/// }
///
/// async fn on_tool_call(session: SessionHandle, cancel: CancellationToken) {
///     let tools = ToolMiddleware::new(session).with_titles(|name, args| format!("{name} {args}"));
///     let args = json!({ "city": "Bern" });
///     match tools.call(&"turn1".into(), "id1", "get_weather", args, &cancel, my_tools).await {
///         Ok(text) => println!("to the model: {text}"),
///         Err(ended) => {
///             println!("to the model: {} End the turn: {}", ended.text, ended.ends_turn);
///         }
///     }
/// }
/// ```
///
/// By default, with the policy of a new session, the client is asked about every call. The effects
/// of a foreign tool are unknown, so no call is allowed without asking and no answer is remembered.
/// Declare the effects with [`ToolMiddleware::with_effects`].
pub struct ToolMiddleware {
    session: SessionHandle,
    titles: DescribeCallFn<String>,
    effects: DescribeCallFn<Effects>,
    previews: PreviewFn,
    kinds: DescribeToolFn<Option<ToolKind>>,
    annotations: DescribeToolFn<ToolAnnotations>,
    path_arguments: Option<PathArguments>,
    timeout: Option<Duration>,
    cwd: PathBuf,
}

/// A callback that returns the preview of a call, i.e. the changes that are shown before the
/// permission request. The callback returns `None` for a tool without a preview.
type PreviewFn = DescribeCallFn<Option<BoxFuture<'static, Result<ToolCallPatch, String>>>>;

/// A callback that receives the tool's name and the arguments of a call, and returns one property
/// of the call.
type DescribeCallFn<T> = Box<dyn Fn(&str, &Value) -> T + Send + Sync>;

/// A callback that receives the name of a tool, and returns one property of the tool.
type DescribeToolFn<T> = Box<dyn Fn(&str) -> T + Send + Sync>;

impl ToolMiddleware {
    /// Creates a middleware for the calls of a session.
    #[must_use]
    pub fn new(session: SessionHandle) -> Self {
        let cwd = session.update(|session, _| session.cwd().to_owned());
        Self {
            session,
            titles: Box::new(title::default_title),
            effects: Box::new(|_, _| Effects::from(Effect::Unknown)),
            previews: Box::new(|_, _| None),
            kinds: Box::new(|_| None),
            annotations: Box::new(|_| ToolAnnotations::default()),
            path_arguments: None,
            timeout: None,
            cwd,
        }
    }

    /// Sets the titles of calls. The default, [`title::default_title`], shows the tool's name and
    /// its arguments. Characters that hide or reorder text are escaped. The title should show
    /// everything that the user approves, because many clients show only the title.
    #[must_use]
    pub fn with_titles(
        mut self,
        titles: impl Fn(&str, &Value) -> String + Send + Sync + 'static,
    ) -> Self {
        self.titles = Box::new(titles);
        self
    }

    /// Sets the callback that returns the effects of a call. Rules and the session's policy judge
    /// these effects. By default, the effect of every call is [`Effect::Unknown`]. For an unknown
    /// effect, the default policy asks the client.
    ///
    /// Whether the user is asked depends on the effects that this callback returns:
    ///
    /// - Return `Unknown` for every name and every argument that you do not know.
    /// - Return [`Effects::empty`] only for a call without effects.
    /// - Files whose path does not begin with the session's folder are marked in the same way as by
    ///   [`Effects::with_outside_path_marks`], so the user is asked about these files. Symbolic
    ///   links are not followed. Resolve paths with
    ///   [`with_path_arguments`](Self::with_path_arguments).
    /// - Mark effects that need a permission request each time with [`Effects::always_ask`].
    ///
    /// The callback runs several times per call. If the callback returns different effects
    /// immediately before the tool runs, permission is requested again.
    #[must_use]
    pub fn with_effects(
        mut self,
        effects: impl Fn(&str, &Value) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.effects = Box::new(effects);
        self
    }

    /// Sets the callback that previews a call. A preview is shown before the permission request. It
    /// contains e.g. the change of a file (as [`Content::Change`](acp_types::Content::Change)),
    /// locations or a better title. Return `None` for a call without a preview. An error ends the
    /// call, and the text of the error is sent to the model.
    ///
    /// A preview must change nothing, and may read only files that the call's
    /// [effects](Self::with_effects) name, e.g. as files to write. Before the preview runs, the
    /// rules and the policy decide whether it may read these files. If the call's effects are
    /// marked, e.g. as sensitive, the marks apply to this decision too. Unknown effects name no
    /// file, so the preview of a call with unknown effects should show only its arguments.
    ///
    /// The callback itself must not read files, because the callback runs before this decision. The
    /// future that the callback returns runs after the decision. The callback and its future run
    /// again immediately before the tool runs. If the second preview is different, permission is
    /// requested again.
    ///
    /// ```
    /// use acp_lifecycle::{SessionHandle, ToolMiddleware};
    /// use acp_types::{FileChange, ToolCallPatch};
    /// use serde_json::Value;
    ///
    /// async fn preview(path: Value) -> Result<ToolCallPatch, String> {
    ///     let path = path.as_str().ok_or("`path` is missing")?;
    ///     let old = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    ///     let new = old.to_uppercase();
    ///     Ok(ToolCallPatch::new().with_appended_content(FileChange::modify(path, old, new).into()))
    /// }
    ///
    /// fn middleware(session: SessionHandle) -> ToolMiddleware {
    ///     ToolMiddleware::new(session)
    ///         .with_previews(|name, args| (name == "upcase").then(|| preview(args["path"].clone())))
    /// }
    /// ```
    #[must_use]
    pub fn with_previews<R>(
        mut self,
        previews: impl Fn(&str, &Value) -> Option<R> + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<ToolCallPatch, String>> + Send + 'static,
    {
        self.previews = Box::new(move |name, args| Some(Box::pin(previews(name, args)?)));
        self
    }

    /// Names the arguments that contain paths, and sets the callback that resolves a path. Each
    /// named argument that is a string is resolved before the call is judged. The effects, the
    /// preview, the permission request and the tool receive the resolved path. The title and the
    /// raw input that the client sees contain the path that the model wrote. If the callback
    /// returns an error, the call ends without a permission request, and the text of the error is
    /// sent to the model.
    ///
    /// `Turn::resolve_path` of `acp-connection` resolves a path in the folder of the session.
    #[must_use]
    pub fn with_path_arguments(
        mut self,
        names: impl IntoIterator<Item = &'static str>,
        resolve: impl Fn(&str) -> Result<PathBuf, String> + Send + Sync + 'static,
    ) -> Self {
        let (names, resolve) = (names.into_iter().collect(), Box::new(resolve));
        self.path_arguments = Some(PathArguments { names, resolve });
        self
    }

    /// Declares the kinds of tools. For a tool without a declared kind, the kind is inferred from
    /// the annotations, and then from the words of the name ([`tool_kind::infer_kind`]). The kind
    /// is not inferred from the [effects](Self::with_effects), because a rule may allow all calls
    /// of a kind.
    #[must_use]
    pub fn with_kinds(
        mut self,
        kinds: impl Fn(&str) -> Option<ToolKind> + Send + Sync + 'static,
    ) -> Self {
        self.kinds = Box::new(kinds);
        self
    }

    /// Sets the annotations that MCP servers declare for their tools.
    #[must_use]
    pub fn with_annotations(
        mut self,
        annotations: impl Fn(&str) -> ToolAnnotations + Send + Sync + 'static,
    ) -> Self {
        self.annotations = Box::new(annotations);
        self
    }

    /// Limits the time that a call, or its [preview](Self::with_previews), may run. The time of
    /// waiting for permission does not count. By default, the time is not limited.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Announces a call, requests its permission, runs it, and always ends it.
    ///
    /// `id` is the id of the call in the model's reply. The client receives a different id, which
    /// is unique in the session. `cancel` is the turn's token. A call that is cancelled or times
    /// out is dropped at its next await point. A call that panics ends as failed. The tool receives
    /// the permitted `args`. While the tool runs, it can report its progress with
    /// [`report_progress`] and further changes with [`CallHandle::current`].
    ///
    /// # Errors
    ///
    /// Returns the [`CallOutcome`] if the call did not complete, i.e. if the call failed, timed
    /// out, or was rejected or cancelled. The outcome's `text` is the message for the model, such
    /// as the tool's error. The outcome's `ends_turn` states whether the turn is over.
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
        let effects = self.known_effects(name, &args);
        let Some(open) = self.announce(turn, id, name, &args, effects.as_ref(), cancel) else {
            return Err(cancelled_because_turn_ended());
        };
        let tool: BoxTool<'a, T, E> = Box::new(move |args| Box::pin(tool(name, args)));
        self.run_announced_call(open, name, args, tool).await
    }

    /// Announces the calls of one reply, then runs the calls. Calls run concurrently unless their
    /// [effects](Self::with_effects) require an order ([`Schedule`]). Returns the results in the
    /// order of the calls.
    ///
    /// If one call ends the turn, the running calls are cancelled and the other calls do not start.
    /// In all other respects, each call behaves as in [`ToolMiddleware::call`].
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
        let effects: Vec<_> =
            calls.iter().map(|call| self.known_effects(call.name, &call.args)).collect();
        // The footprint of a call whose effects are not known is unknown.
        let footprint = |(call, effects): (&BatchCall<'a>, &Option<Effects>)| {
            let known = effects.as_ref();
            known.map_or(Footprint::Unknown, |it| Footprint::from_effects(call.name, it))
        };
        let footprints: Vec<_> = calls.iter().zip(&effects).map(footprint).collect();
        let mut schedule = Schedule::new(&footprints);
        let announce = |(call, effects): (BatchCall<'a>, Option<Effects>)| {
            let effects = effects.as_ref();
            let open = self.announce(turn, call.id, call.name, &call.args, effects, &cancel)?;
            Some((open, call))
        };
        let mut waiting: Vec<_> = calls.into_iter().zip(effects).map(announce).collect();
        let mut results: Vec<_> =
            waiting.iter().map(|_| Err(cancelled_because_turn_ended())).collect();
        let mut running = FuturesUnordered::new();
        loop {
            while !cancel.is_cancelled()
                && let Some(place) = schedule.take_next_ready()
            {
                match waiting[place].take() {
                    Some((open, call)) => {
                        let (tool, name) = (tool.clone(), call.name);
                        let tool: BoxTool<'a, T, E> =
                            Box::new(move |args| Box::pin(tool(name, args)));
                        let run = self.run_announced_call(open, name, call.args, tool);
                        running.push(async move { (place, run.await) });
                    }
                    None => schedule.mark_ended(place),
                }
            }
            let Some((place, result)) = running.next().await else { break };
            schedule.mark_ended(place);
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

    /// Returns the effects of a call with these arguments, whose paths are not resolved yet.
    /// Returns `None` if a path cannot be resolved or a callback panics.
    fn known_effects(&self, name: &str, args: &Value) -> Option<Effects> {
        let effects = catch_panic(|| {
            let args = self.resolve_paths(args.clone()).ok()?;
            Some(self.effects_of(name, &args))
        });
        effects.flatten()
    }

    fn announce(
        &self,
        turn: &TurnId,
        id: &str,
        name: &str,
        args: &Value,
        effects: Option<&Effects>,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let id = self.unique_call_id(turn, id);
        // If a callback panics, the default value is used.
        let title = catch_panic(|| (self.titles)(name, args));
        let title = title.unwrap_or_else(|| title::default_title(name, args));
        let kind = catch_panic(|| (self.kinds)(name)).flatten();
        let annotations = catch_panic(|| (self.annotations)(name)).unwrap_or_default();
        let kind = tool_kind::infer_kind(kind, annotations, name);
        let paths = effects.into_iter().flat_map(Effects::iter).filter_map(Effect::path);
        let paths: BTreeSet<_> = paths.map(|path| normalise(&self.cwd.join(path))).collect();
        let locations = paths.iter().filter_map(|path| Location::try_new(path).ok());
        let locations: Vec<_> = locations.collect();
        let mut patch = ToolCallPatch::for_new_call(name, escape_invisible(&title), kind)
            .with_raw_input(args.clone());
        patch.locations = (!locations.is_empty()).then_some(locations);
        self.session.announce_call(&id, turn, patch, cancel)
    }

    /// Requests permission for an announced call, runs it, and ends it.
    async fn run_announced_call<'a, T, E>(
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
        let wrapped = ForeignCallExecutor {
            middleware: self,
            name,
            args: self.resolve_paths(args),
            tool,
            last_preview: look,
            result: &mut result,
        };
        let ended = execute_call(open, wrapped).await;
        result.ok_or(ended)
    }

    /// Previews a call. For a call without a preview, the patch is empty. The returned text
    /// identifies the preview: the text changes whenever the effects or the patch change.
    async fn preview_call(
        &self,
        name: &str,
        args: &Value,
    ) -> Result<(Effects, ToolCallPatch, String), CallFailure> {
        let effects = self.effects_of(name, args);
        let shown = match (self.previews)(name, args) {
            Some(preview) => tokio::select! {
                shown = preview => shown,
                () = wait_for_timeout_or_forever(self.timeout) => {
                    let text = "The preview timed out. The call did not run.";
                    let failure = CallFailure::recoverable("timeout", text);
                    return Err(CallFailure { reason: CallEndReason::Timeout, ..failure });
                }
            },
            None => Ok(ToolCallPatch::new()),
        };
        let shown = shown.map_err(|text| failure_from_error(&text))?;
        let text = format!("{:?} {shown:?}", effects.sorted());
        Ok((effects, shown, text))
    }

    /// Returns the effects of a call. Files outside of the session's folder are marked.
    fn effects_of(&self, name: &str, args: &Value) -> Effects {
        let effects = (self.effects)(name, args);
        let marked: Vec<_> = effects.outside_paths().map(Path::to_owned).collect();
        let is_inside = |path: &Path| normalise(&self.cwd.join(path)).starts_with(&self.cwd);
        effects
            .with_outside_path_marks(|path| !is_inside(path) || marked.iter().any(|it| it == path))
    }

    fn resolve_paths(&self, args: Value) -> Result<Value, String> {
        match &self.path_arguments {
            Some(paths) => paths.resolve(args),
            None => Ok(args),
        }
    }

    /// Creates an id that is unique in the session, even after a restart.
    fn unique_call_id(&self, turn: &TurnId, model_id: &str) -> ToolCallId {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let fresh = || {
            let since = self.session.now().wall.duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{:x}_{}", since.as_nanos(), COUNT.fetch_add(1, Relaxed))
        };
        let is_taken = |id: &str| self.session.is_id_used(&ToolCallId::new(id));
        id::unique_tool_call_id(turn, model_id, is_taken, fresh)
    }
}

/// One call of a reply with several calls: see [`ToolMiddleware::call_batch`].
#[derive(Debug, Clone)]
pub struct BatchCall<'a> {
    id: &'a str,
    name: &'a str,
    args: Value,
}

impl<'a> BatchCall<'a> {
    /// Creates a call of a tool. `id` is the id of the call in the model's reply.
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

/// Reports the progress of the call that this task runs: `report_progress(3.0, 10.0, "compiling")`.
/// If the total is unknown, pass `None` as the total. Outside of a call, the function does nothing.
/// The client shows the progress after the title until the call ends, e.g. `build · 3/10
/// compiling`.
///
/// [`CallHandle::current`] defines which tasks belong to a call. The function may be called as
/// often as needed. The client receives at most one update per 50 ms, or per [configured
/// interval](crate::SessionConfig::with_update_interval), with the newest progress. The final
/// update of a call contains no progress. The last reported progress may therefore never be sent.
pub fn report_progress(current: f64, total: impl Into<Option<f64>>, message: &str) {
    if let Some(call) = CallHandle::current() {
        let message = (!message.is_empty()).then(|| escape_invisible(message));
        call.report_progress(Progress::new(current).with_total(total).with_message(message));
    }
}

/// Returns the outcome of a call that was never announced, because its turn was over.
fn cancelled_because_turn_ended() -> CallOutcome {
    let text = "The turn is over. It did not run.";
    CallOutcome {
        ends_turn: true,
        ..CallOutcome::new(Status::Cancelled, Some(CallEndReason::Turn), text)
    }
}
