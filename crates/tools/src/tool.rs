//! The [`Tool`] trait: a spec, a preview without side effects, and a run that requires a grant.

pub mod backend;
mod context;
mod dynamic;
mod role;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use acp_lifecycle::{CallHandle, Effects, Grant, GrantMismatch, PinnedPlan};
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
pub(crate) use self::context::{run_on_blocking_thread, run_to_completion};
pub use self::dynamic::DynTool;
pub use self::role::{ToolHint, ToolRole};

/// The static description of a tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Spec {
    /// The name by which the model calls the tool.
    pub name: Cow<'static, str>,
    /// Other names by which models call the tool.
    pub aliases: &'static [&'static str],
    /// The description of the tool and its use, for the model.
    pub description: Cow<'static, str>,
    /// The category of the tool.
    pub kind: ToolKind,
    /// The worst-case side effects of the tool, for any arguments.
    pub side_effects: SideEffects,
    /// The key of the title in the catalogue. `{key}-pending` is the key of the title before the
    /// arguments are known. If the catalogue does not contain these messages, the title is the name
    /// of the tool.
    pub title: Cow<'static, str>,
    /// How the output is shown.
    pub display: OutputDisplay,
}

impl Spec {
    /// Creates a spec with the side effects [`Anything`](SideEffects::Anything). So each call
    /// requires permission unless its preview declares the effects. The key of the title is the
    /// name, and the output is shown as content.
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

    /// Sets the worst-case side effects. For a tool with less than
    /// [`Anything`](SideEffects::Anything), a call runs without permission if its [`ToolPreview`]
    /// has no effects and no changes. So the preview of such a tool must list all effects.
    #[must_use]
    pub fn with_side_effects(self, reach: SideEffects) -> Self {
        Self { side_effects: reach, ..self }
    }

    /// Returns the key of the title. Returns an empty string if the key is the name of the tool.
    pub(crate) fn title_key_unless_name(&self) -> String {
        if self.title == self.name { String::new() } else { self.title.clone().into_owned() }
    }

    /// Sets the key of the title.
    #[must_use]
    pub fn with_title(self, key: impl Into<Cow<'static, str>>) -> Self {
        Self { title: key.into(), ..self }
    }

    /// Sets how the output is shown.
    #[must_use]
    pub fn with_display(self, surface: OutputDisplay) -> Self {
        Self { display: surface, ..self }
    }
}

/// The worst-case side effects of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SideEffects {
    /// The tool has no effects outside of the session.
    Nothing,
    /// The tool reads files.
    Reads,
    /// The tool creates or changes files.
    Changes,
    /// The tool may have any effect.
    Anything,
}

/// How the output of a tool is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputDisplay {
    /// The output is shown as content items.
    Content,
    /// The output is shown as a terminal, which is opened when the call is announced.
    Terminal,
}

/// One call during its preview or run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Invocation<'a> {
    /// The handle of the call, for progress, locations and output.
    pub call: &'a CallHandle,
    /// The context of the call.
    pub context: &'a Context,
}

impl<'a> Invocation<'a> {
    /// Creates an invocation from a call and its context.
    #[must_use]
    pub fn new(call: &'a CallHandle, context: &'a Context) -> Self {
        Self { call, context }
    }
}

/// The result of a preview, before the plan is pinned.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolPreview<P> {
    /// The plan that [`Tool::run`] receives.
    pub plan: P,
    /// The places that the call would change. `None` if the places that the arguments name are
    /// exact enough.
    pub locations: Option<Vec<Location>>,
    /// The file changes that the call would make.
    pub changes: Vec<FileChange>,
    /// The effects that the call would have.
    pub effects: Effects,
    /// The folder in which the call works. `None` for the working directory of the session.
    pub cwd: Option<PathBuf>,
    /// The state on which the change is based, as bytes. This value should be small, because it is
    /// kept until the call has finished. If a call is previewed again with the same effects and the
    /// same pre-image, permission is not requested again. In this case the run must do exactly what
    /// was permitted.
    pub pre_image: Vec<u8>,
    /// Further information for the permission request. Each note is one sentence.
    pub notes: Vec<Note>,
}

impl<P> ToolPreview<P> {
    /// Creates the preview of a call without effects.
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

    /// Sets the effects that the call would have.
    #[must_use]
    pub fn with_effects(self, effects: Effects) -> Self {
        Self { effects, ..self }
    }

    /// Sets the file changes that the call would make.
    #[must_use]
    pub fn with_changes(self, changes: Vec<FileChange>) -> Self {
        Self { changes, ..self }
    }

    /// Requires permission for this call, regardless of the policy, if `is_guarded` is set.
    #[must_use]
    pub(crate) fn always_ask_if(mut self, is_guarded: bool) -> Self {
        if is_guarded {
            self.effects = self.effects.always_ask();
        }
        self
    }
}

/// The description of a call by its arguments alone. The client shows the description before the
/// preview.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallDescription {
    /// The key of the title in the catalogue. If the catalogue does not have this message, the
    /// title consists of the name of the tool and the arguments of the title.
    pub key: Cow<'static, str>,
    /// The arguments of the title.
    pub arguments: Vec<(&'static str, String)>,
    /// The files that the call names. A tool that changes files has two options. If the tool names
    /// all changed files, calls on the same file run one after the other. If the tool names no
    /// files, its call runs alone.
    pub locations: Vec<Location>,
    /// The command of the terminal. Only tools whose output is shown as a terminal set this field.
    pub terminal: Option<TerminalPatch>,
    /// The name of the argument that contains the lines of the named file, from the first line.
    /// While this argument streams, the client receives the current line number.
    pub file_text_argument: Option<&'static str>,
}

impl CallDescription {
    /// Creates a description from the key of its title.
    #[must_use]
    pub fn new(key: impl Into<Cow<'static, str>>) -> Self {
        let (key, arguments, locations) = (key.into(), Vec::new(), Vec::new());
        Self { key, arguments, locations, terminal: None, file_text_argument: None }
    }

    /// Creates a description of a call on a directory. For the working directory the key is `here`.
    /// For any other directory the key is `there`, with the path as an argument.
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
    pub fn with_argument(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.arguments.push((name, value.into()));
        self
    }

    /// Adds a path as an argument of the title. The path has the form that the session displays.
    #[must_use]
    pub fn with_path(self, name: &'static str, given: &str, context: &Context) -> Self {
        let workspace = &context.workspace;
        let shown = workspace.resolve(given).map(|at| workspace.display(at.path()));
        self.with_argument(name, shown.unwrap_or_else(|_| given.to_owned()))
    }

    /// Adds a file that the call names, with a line number. The line number 0 means no line.
    #[must_use]
    pub fn with_location(mut self, given: &str, line: u32, context: &Context) -> Self {
        let at = context.workspace.resolve(given).ok();
        let location = at.and_then(|at| Location::try_new(at.path()).ok());
        self.locations.extend(location.map(|location| location.with_line(line)));
        self
    }
}

/// The result of a call.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The result for the model. The text is within its size limit.
    pub text: String,
    /// Images for the model that are too large for the client. Images in the content are always
    /// sent to both the model and the client.
    pub images: Vec<Image>,
    /// The content for the client. `None` if the content that is already shown stays.
    pub content: Option<Vec<Content>>,
    /// The result as data.
    pub raw_output: Option<Value>,
    /// The files that the call worked on. `None` if the reported locations stay.
    pub locations: Option<Vec<Location>>,
    /// Whether the text is already stored in a file that the model can read. Such a text is not
    /// stored again.
    pub is_stored: bool,
    /// The reason why the call counts as failed although it completed, e.g. because of the exit
    /// code of a command.
    pub failure: Option<(ErrorCode, CallEndReason)>,
}

impl ToolOutput {
    /// Creates a result for the model only.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a result that the model and the client receive in the same form.
    #[must_use]
    pub fn for_model_and_client(text: String, raw: Value) -> Self {
        let content = Some(vec![Content::fenced_code_block("", &text)]);
        Self { text, content, raw_output: Some(raw), ..Self::default() }
    }

    /// Creates the result of a file change. Adds reports of late writes by other programs, and of
    /// changes that can no longer be undone.
    pub(crate) fn for_change(mut text: String, raw: Value, workspace: &Workspace) -> Self {
        workspace.append_late_writes(&mut text);
        for path in workspace.undo_store().take_unrecoverable() {
            let path = workspace.display(&path);
            text.push_str(&format!(
                "\nThe previous content of {path} could not be kept, so this change cannot be \
                 undone."
            ));
        }
        if workspace.undo_store().take_dropped_entries_flag() {
            let (steps, bytes) =
                (group_thousands(MAX_UNDO_ENTRIES as u64), group_thousands(MAX_UNDO_BYTES));
            text.push_str(&format!(
                "\nThe oldest changes of this session cannot be undone: at most {steps} changes and \
                 {bytes} bytes are kept."
            ));
        }
        Self { text, raw_output: Some(raw), ..Self::default() }
    }
}

/// Redacts the secrets of a call's session in a text for the model.
pub(crate) fn redact_secrets(call: &CallHandle, text: &str) -> String {
    let secrets = call.session().update(|session, _| session.secrets().clone());
    secrets.redact(text).into_owned()
}

/// A tool that a model can call.
///
/// ```
/// use acp_lifecycle::{Grant, PinnedPlan};
/// use acp_tools::{
///     CallDescription, Context, Invocation, SideEffects, Spec, Tool, ToolError, ToolOutput,
///     ToolPreview,
/// };
///
/// /// Says hello.
/// #[derive(Debug)]
/// struct Greet;
///
/// /// The person to greet.
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
///         Spec::new("greet", "Greets a person.", acp_types::ToolKind::Other)
///             .with_side_effects(SideEffects::Nothing)
///     }
///
///     fn describe(&self, args: &Args, _: &Context) -> CallDescription {
///         CallDescription::new("greet").with_argument("name", &args.name)
///     }
///
///     async fn preview(
///         &self,
///         args: Args,
///         _: Invocation<'_>,
///     ) -> Result<ToolPreview<String>, ToolError> {
///         Ok(ToolPreview::new(args.name))
///     }
///
///     async fn run(
///         &self,
///         pinned: PinnedPlan<String>,
///         grant: Grant,
///         _: Invocation<'_>,
///     ) -> Result<ToolOutput, ToolError> {
///         let name = pinned.release(grant)?;
///         Ok(ToolOutput::new(format!("Hello, {name}.")))
///     }
/// }
/// ```
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// The arguments of the tool, as the model sends them.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The plan that the preview makes and that the run executes.
    type Plan: Send + 'static;

    /// Returns the static description of the tool.
    fn spec(&self) -> Spec;

    /// Returns the purpose for which the agent itself may call the tool. The default is `None`.
    fn role(&self) -> Option<ToolRole> {
        None
    }

    /// Returns a usage hint in addition to the description. The default is `None`.
    fn hint(&self) -> Option<ToolHint> {
        None
    }

    /// Describes a call by its arguments alone.
    fn describe(&self, args: &Self::Args, context: &Context) -> CallDescription;

    /// Returns the paths of the files whose text the preview shows or quotes. The paths have the
    /// form that the model used. The permission to read these files is checked before the preview
    /// starts. The permission is requested if the session asks about reads.
    ///
    /// By default, a tool that may change files returns the paths of [`describe`](Self::describe),
    /// and any other tool returns no paths.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call is impossible. In this case no permission is requested.
    fn paths_to_read(
        &self,
        args: &Self::Args,
        context: &Context,
    ) -> impl Future<Output = Result<Vec<String>, ToolError>> + Send {
        let describe = || Some(self.describe(args, context));
        std::future::ready(Ok(default_paths_to_read(self.spec().side_effects, describe)))
    }

    /// Determines the effects of a call, without side effects.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call is impossible. In this case no permission is requested.
    fn preview(
        &self,
        args: Self::Args,
        invocation: Invocation<'_>,
    ) -> impl Future<Output = Result<ToolPreview<Self::Plan>, ToolError>> + Send;

    /// Runs the permitted call. `pinned` contains the plan and releases it only for the matching
    /// grant.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call failed.
    fn run(
        &self,
        pinned: PinnedPlan<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// Returns the paths that [`Tool::paths_to_read`] returns by default.
fn default_paths_to_read(
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

/// Creates a patch with the fields that changed at the end of a call.
pub(crate) fn to_final_patch(output: ToolOutput) -> ToolCallPatch {
    let mut patch = ToolCallPatch::new();
    if let Some(content) = output.content {
        patch = patch.with_content(content);
    }
    patch.raw_output = output.raw_output;
    patch.locations = output.locations;
    patch
}
