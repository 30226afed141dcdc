//! What a tool is: a spec, a preview that changes nothing, and a run that needs a grant.
//!
//! It knows nothing of models and protocols; `acp-lifecycle` drives it.

pub mod backend;
mod context;
mod dynamic;
mod role;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use acp_lifecycle::{CallHandle, Effects, Grant, GrantMismatch, Pinned};
use acp_types::{
    CallEndReason, Content, FileChange, Image, Location, TerminalPatch, ToolCallPatch, ToolKind,
};
use callboard_text::group_thousands;
use callboard_text::path_text;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ErrorCode, ToolError};
use crate::files::workspace::Workspace;
use crate::limits::{MAX_UNDO_BYTES, MAX_UNDO_ENTRIES};
use crate::note::Note;

pub use self::context::Context;
pub(crate) use self::context::{blocking, run_to_completion};
pub use self::dynamic::DynTool;
pub use self::role::{ToolHint, ToolRole};

/// What a tool says of itself, once.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Spec {
    /// The name the model calls it by.
    pub name: Cow<'static, str>,
    /// Other names that models call it by.
    pub aliases: &'static [&'static str],
    /// What it does and how it is used, for the model.
    pub description: Cow<'static, str>,
    /// The category.
    pub kind: ToolKind,
    /// What it can do at worst, whatever its arguments.
    pub side_effects: SideEffects,
    /// The key of its title in the catalogue; `{key}-pending` is its title before the arguments
    /// are known. Without such messages its name is its title.
    pub title: Cow<'static, str>,
    /// How its output is shown.
    pub display: OutputDisplay,
}

impl Spec {
    /// Describes a tool that can do [anything](Reach::Anything), so that each call is asked about
    /// unless its preview says what it does. The key of its title is its name, and its output is shown
    /// as content.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        kind: ToolKind,
    ) -> Self {
        let name = name.into();
        Self {
            title: name.clone(),
            name,
            aliases: &[],
            description: description.into(),
            kind,
            side_effects: SideEffects::Anything,
            display: OutputDisplay::Content,
        }
    }

    /// Sets what it can do at worst. A call of a tool that cannot do anything runs without a question
    /// if its [`Draft`] has no effect and no change: a preview has to name all of them.
    #[must_use]
    pub fn with_side_effects(self, reach: SideEffects) -> Self {
        Self { side_effects: reach, ..self }
    }

    /// Returns the key of its title, if it is not only its name; else nothing.
    pub(crate) fn custom_title(&self) -> String {
        if self.title == self.name { String::new() } else { self.title.clone().into_owned() }
    }

    /// Sets the key of its title.
    #[must_use]
    pub fn with_title(self, key: impl Into<Cow<'static, str>>) -> Self {
        Self { title: key.into(), ..self }
    }

    /// Sets how its output is shown.
    #[must_use]
    pub fn with_display(self, surface: OutputDisplay) -> Self {
        Self { display: surface, ..self }
    }
}

/// What a tool can do at worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SideEffects {
    /// Nothing outside of the session.
    Nothing,
    /// It reads.
    Reads,
    /// It makes or changes files.
    Changes,
    /// Anything.
    Anything,
}

/// How a tool's output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputDisplay {
    /// As items of content.
    Content,
    /// As a terminal, which is opened when the call is announced.
    Terminal,
}

/// One call while it is previewed or runs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Invocation<'a> {
    /// The call, for progress, locations and output.
    pub call: &'a CallHandle,
    /// What it may use.
    pub context: &'a Context,
}

impl<'a> Invocation<'a> {
    /// Joins a call and what it may use.
    #[must_use]
    pub fn new(call: &'a CallHandle, context: &'a Context) -> Self {
        Self { call, context }
    }
}

/// What a call would do, before it is pinned.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolPreview<P> {
    /// What [`Tool::run`] will get.
    pub plan: P,
    /// The places it would change, where they are known better than by the arguments.
    pub locations: Option<Vec<Location>>,
    /// The changes it would make.
    pub changes: Vec<FileChange>,
    /// What it would do to the world.
    pub effects: Effects,
    /// The folder it works in, where that is not the session's.
    pub cwd: Option<PathBuf>,
    /// What it found and its change rests on, as bytes, and small: they are kept until its call
    /// has ended. A call that is previewed again is
    /// not asked about again where this and its effects are the same: then what is done has to be
    /// what was permitted.
    pub pre_image: Vec<u8>,
    /// What else there is to know before it is permitted, one sentence each.
    pub notes: Vec<Note>,
}

impl<P> ToolPreview<P> {
    /// Makes the draft of a call that does nothing to the world.
    #[must_use]
    pub fn new(plan: P) -> Self {
        Self {
            plan,
            locations: None,
            changes: Vec::new(),
            effects: Effects::empty(),
            cwd: None,
            pre_image: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets what the call would do to the world.
    #[must_use]
    pub fn with_effects(self, effects: Effects) -> Self {
        Self { effects, ..self }
    }

    /// Sets the changes of files that the call would make.
    #[must_use]
    pub fn with_changes(self, changes: Vec<FileChange>) -> Self {
        Self { changes, ..self }
    }

    /// Has it asked about each time, if that is so.
    #[must_use]
    pub(crate) fn always_ask_if(mut self, is_guarded: bool) -> Self {
        if is_guarded {
            self.effects = self.effects.always_ask();
        }
        self
    }
}

/// What a call is about, by its arguments alone: shown before anything else is known of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallDescription {
    /// The key of its title in the catalogue. Without such a message the title is the name of the tool
    /// and the arguments of the title.
    pub key: Cow<'static, str>,
    /// The arguments of the title.
    pub arguments: Vec<(&'static str, String)>,
    /// The files it names. A tool that changes files names all of them, so that calls that share
    /// one can follow each other, or none, and runs alone.
    pub locations: Vec<Location>,
    /// What its terminal would run, for tools that are shown as one.
    pub terminal: Option<TerminalPatch>,
    /// The argument whose lines are those of the file that is named, from the first one on: while it
    /// comes, the client is told which line has come.
    pub file_text_argument: Option<&'static str>,
}

impl CallDescription {
    /// Begins a description by the key of its title.
    #[must_use]
    pub fn new(key: impl Into<Cow<'static, str>>) -> Self {
        let (key, arguments, locations) = (key.into(), Vec::new(), Vec::new());
        Self { key, arguments, locations, terminal: None, file_text_argument: None }
    }

    /// Begins a description of what is done in a directory: with its path by the key `there`,
    /// without it by `here` where that is the working directory.
    #[must_use]
    pub(crate) fn for_directory(
        there: &'static str,
        here: &'static str,
        given: &str,
        context: &Context,
    ) -> Self {
        let workspace = &context.workspace;
        match workspace.resolve(given) {
            Ok(at) if at.path() == workspace.cwd() => Self::new(here),
            _ => Self::new(there).with_path("path", given, context),
        }
    }

    /// Adds an argument of the title.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.arguments.push((name, value.into()));
        self
    }

    /// Adds a path as an argument of the title, in the words of the session.
    #[must_use]
    pub fn with_path(self, name: &'static str, given: &str, context: &Context) -> Self {
        let workspace = &context.workspace;
        let shown = workspace.resolve(given).map(|at| workspace.display(at.path()));
        self.with(name, shown.unwrap_or_else(|_| given.to_owned()))
    }

    /// Adds a file that it names, and a line of it; 0 is no line.
    #[must_use]
    pub fn at_line(mut self, given: &str, line: u32, context: &Context) -> Self {
        let at = context.workspace.resolve(given).ok();
        let location = at.and_then(|at| Location::try_new(at.path()).ok());
        self.locations.extend(location.map(|location| location.at_line(line)));
        self
    }
}

/// What a call did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The result as the model reads it, within its bounds.
    pub text: String,
    /// Images for the model that are too large for the client to be shown; it sees those of the
    /// content anyway.
    pub images: Vec<Image>,
    /// What the client is shown, if it differs from what it is shown already.
    pub content: Option<Vec<Content>>,
    /// The result as data.
    pub raw_output: Option<Value>,
    /// The files it worked on, if that is known better now.
    pub locations: Option<Vec<Location>>,
    /// Whether the text lies in a file already that the model can read: then it is not kept again.
    pub is_stored: bool,
    /// Why it counts as failed although it ran to its end and shows how: a command's exit code.
    pub failure: Option<(ErrorCode, CallEndReason)>,
}

impl ToolOutput {
    /// Makes a result that only the model reads.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Makes a result that the client is shown as the model reads it.
    #[must_use]
    pub fn for_model_and_client(text: String, raw: Value) -> Self {
        let content = Some(vec![Content::code("", &text)]);
        Self { text, content, raw_output: Some(raw), ..Self::default() }
    }

    /// Makes the result of a change of files, with what other programs did to them meanwhile, and
    /// what cannot be undone any more because of it.
    pub(crate) fn for_change(mut text: String, raw: Value, workspace: &Workspace) -> Self {
        workspace.append_late_writes(&mut text);
        for path in workspace.undo_store().take_unrecoverable() {
            let path = workspace.display(&path);
            text.push_str(&format!(
                "\nWhat was in {path} before could not be kept, so this change cannot be undone."
            ));
        }
        if workspace.undo_store().take_has_dropped_entries() {
            let (steps, bytes) =
                (group_thousands(MAX_UNDO_ENTRIES as u64), group_thousands(MAX_UNDO_BYTES));
            text.push_str(&format!(
                "\nThe oldest changes of this session cannot be undone any more: {steps} are kept, \
                 and {bytes} bytes of them."
            ));
        }
        Self { text, raw_output: Some(raw), ..Self::default() }
    }
}

/// Returns a text for the model without the secrets that the session of a call knows.
pub(crate) fn redact_secrets(call: &CallHandle, text: &str) -> String {
    let secrets = call.session().update(|session, _| session.secrets().clone());
    secrets.redact(text).into_owned()
}

/// A tool.
///
/// ```
/// use acp_lifecycle::{Grant, Pinned};
/// use acp_tools::{
///     Context, Description, Draft, Invocation, Output, Reach, Spec, Tool, ToolError,
/// };
///
/// /// Says hello.
/// #[derive(Debug)]
/// struct Greet;
///
/// /// Whom to greet.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Args {
///     name: String,
/// }
///
/// impl Tool for Greet {
///     type Args = Args;
///     type Plan = String;
///
///     fn spec(&self) -> Spec {
///         Spec::new("greet", "Greets somebody.", acp_types::ToolKind::Other)
///             .with_reach(Reach::Nothing)
///     }
///
///     fn describe(&self, args: &Args, _: &Context) -> Description {
///         Description::new("greet").with("name", &args.name)
///     }
///
///     async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<Draft<String>, ToolError> {
///         Ok(Draft::new(args.name))
///     }
///
///     async fn run(
///         &self,
///         pinned: Pinned<String>,
///         grant: Grant,
///         _: Invocation<'_>,
///     ) -> Result<Output, ToolError> {
///         let name = pinned.release(grant)?;
///         Ok(Output::new(format!("Hello, {name}.")))
///     }
/// }
/// ```
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// The arguments, as the model gives them.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// What the preview decided and the run does.
    type Plan: Send + 'static;

    /// Says what the tool is.
    fn spec(&self) -> Spec;

    /// Says what the agent itself may call the tool for; by default nothing.
    fn role(&self) -> Option<ToolRole> {
        None
    }

    /// Says how the tool is used well, beside its description; by default nothing.
    fn hint(&self) -> Option<ToolHint> {
        None
    }

    /// Says what a call is about, by its arguments alone.
    fn describe(&self, args: &Self::Args, context: &Context) -> CallDescription;

    /// Returns the paths, as a model gives them, of the files whose text the preview shows or
    /// quotes. Reading them is judged before the preview begins, and asked about where the session
    /// asks about reads.
    ///
    /// By default, those of [`describe`](Self::describe) for a tool that may change files, and none for
    /// others.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call could not be done; then nobody is asked.
    fn reads(
        &self,
        args: &Self::Args,
        context: &Context,
    ) -> impl Future<Output = Result<Vec<String>, ToolError>> + Send {
        let describe = || Some(self.describe(args, context));
        std::future::ready(Ok(default_reads(self.spec().side_effects, describe)))
    }

    /// Finds out what a call would do, without doing it.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it could not be done; then nobody is asked.
    fn preview(
        &self,
        args: Self::Args,
        invocation: Invocation<'_>,
    ) -> impl Future<Output = Result<ToolPreview<Self::Plan>, ToolError>> + Send;

    /// Does what was permitted: `pinned` gives its plan only for the grant that is meant for it.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it was not done.
    fn run(
        &self,
        pinned: Pinned<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// Returns the paths of the files that a preview is taken to show.
fn default_reads(
    reach: SideEffects,
    describe: impl FnOnce() -> Option<CallDescription>,
) -> Vec<String> {
    let about = match reach {
        SideEffects::Changes | SideEffects::Anything => describe(),
        SideEffects::Nothing | SideEffects::Reads => None,
    };
    let locations = about.map(|about| about.locations).unwrap_or_default();
    locations.iter().map(|location| path_text(location.path()).into_owned()).collect()
}

impl From<GrantMismatch> for ToolError {
    fn from(mismatch: GrantMismatch) -> Self {
        Self::fatal(mismatch)
    }
}

/// Adds what changed with the end to a patch.
pub(crate) fn final_patch(output: ToolOutput) -> ToolCallPatch {
    let mut patch = ToolCallPatch::new();
    if let Some(content) = output.content {
        patch = patch.content(content);
    }
    patch.raw_output = output.raw_output;
    patch.locations = output.locations;
    patch
}
