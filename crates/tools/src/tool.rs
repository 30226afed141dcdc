//! The [`Tool`] trait. A tool has a spec, a preview without side effects, and a run that requires a
//! grant.

pub mod backend;
mod context;
mod dynamic;
mod role;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use acp_lifecycle::{CallHandle, Effects, Grant, GrantMismatch, PinnedPlan, Titles};
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

pub use self::context::{CommandOutputStream, Context};
pub(crate) use self::context::{run_detached, run_on_blocking_thread};
pub use self::dynamic::DynTool;
pub use self::role::{ToolHint, ToolRole};

/// The static description of a tool, which is the same for all calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Spec {
    /// The name that the model uses to call the tool.
    pub name: Cow<'static, str>,
    /// Other names that models may use to call the tool.
    pub aliases: &'static [&'static str],
    /// A text for the model that describes the tool and its use.
    pub description: Cow<'static, str>,
    /// The category of the tool.
    pub kind: ToolKind,
    /// The worst side effects that the tool may have with any arguments.
    pub side_effects: SideEffects,
    /// The key of the title in the catalogue. Before the arguments are known, the key is this key
    /// plus `-pending`. If the catalogue does not contain the message, the title is the name of the
    /// tool.
    pub title: Cow<'static, str>,
    /// How the client shows the output.
    pub display: OutputDisplay,
}

impl Spec {
    /// Creates a spec with the side effects [`Anything`](SideEffects::Anything). Each call then
    /// requires permission, unless its preview declares the effects. The key of the title is the
    /// name of the tool, and the output is shown as content.
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

    /// Sets the worst side effects that the tool may have. If these are less than
    /// [`Anything`](SideEffects::Anything), a call whose [`ToolPreview`] contains no effects and no
    /// changes runs without permission. Therefore the preview of such a tool must list all effects.
    #[must_use]
    pub fn with_side_effects(self, reach: SideEffects) -> Self {
        Self { side_effects: reach, ..self }
    }

    /// Returns the key of the title. If the key is the name of the tool, returns an empty string.
    pub(crate) fn title_message_key_unless_name(&self) -> String {
        if self.title == self.name { String::new() } else { self.title.clone().into_owned() }
    }

    /// Sets the key of the title.
    #[must_use]
    pub fn with_title_message_key(self, key: impl Into<Cow<'static, str>>) -> Self {
        Self { title: key.into(), ..self }
    }

    /// Sets how the client shows the output.
    #[must_use]
    pub fn with_display(self, surface: OutputDisplay) -> Self {
        Self { display: surface, ..self }
    }
}

/// The worst side effects that a tool may have.
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

/// How the client shows the output of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputDisplay {
    /// The output is shown as content items of the call.
    Content,
    /// The output is shown in a terminal, which is opened when the call is announced.
    Terminal,
}

/// One call, while it is previewed or while it runs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Invocation<'a> {
    /// The handle of the call. The tool uses it to report progress, locations and output.
    pub call: &'a CallHandle,
    /// The context of the call.
    pub context: &'a Context,
    /// The titles in the language of the user.
    pub titles: &'a Arc<Titles>,
}

impl<'a> Invocation<'a> {
    /// Creates an invocation from a call, its context and the titles in the language of the user.
    #[must_use]
    pub fn new(call: &'a CallHandle, context: &'a Context, titles: &'a Arc<Titles>) -> Self {
        Self { call, context, titles }
    }

    /// Appends a note to the content of the call, in the language of the user.
    pub fn append_note(&self, note: &Note) {
        self.call.append_content(Content::from_text(note.render(self.titles)));
    }
}

/// The result of a preview, before the plan is pinned.
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolPreview<P> {
    /// The plan that [`Tool::run`] will receive.
    pub plan: P,
    /// The places that the call would change. `None` if the locations from the arguments are exact
    /// enough.
    pub locations: Option<Vec<Location>>,
    /// The changes of files that the call would make.
    pub changes: Vec<FileChange>,
    /// The effects that the call would have.
    pub effects: Effects,
    /// The folder in which the call runs. `None` for the working directory of the session.
    pub cwd: Option<PathBuf>,
    /// The state on which the change depends, as bytes. This value is kept until the call has
    /// ended, so it should be small. If a second preview has the same effects and the same
    /// pre-image, permission is not requested again. The run must then do exactly what was
    /// permitted.
    pub pre_image: Vec<u8>,
    /// Further information that the permission request shows. Each note is one sentence.
    pub notes: Vec<Note>,
}

impl<P> ToolPreview<P> {
    /// Creates the preview of a call that has no effects.
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

    /// Sets the changes of files that the call would make.
    #[must_use]
    pub fn with_changes(self, changes: Vec<FileChange>) -> Self {
        Self { changes, ..self }
    }

    /// If the condition holds, the call requires permission each time, even if the policy allows
    /// it. Another note must name the reason.
    #[must_use]
    pub(crate) fn always_ask_if(mut self, condition: bool) -> Self {
        if condition {
            self.effects = self.effects.always_ask();
        }
        self
    }

    /// If there is a reason, the call requires permission each time, and a note names the reasons.
    /// Each reason is a part of a sentence.
    #[must_use]
    pub(crate) fn always_ask_because(mut self, reasons: impl IntoIterator<Item = Note>) -> Self {
        let note = Note::from_ask_reasons(&reasons.into_iter().collect::<Vec<_>>());
        let is_asked = note.is_some();
        self.notes.extend(note);
        self.always_ask_if(is_asked)
    }
}

/// The description of a call, based only on its arguments. The client shows it before the preview.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallDescription {
    /// The key of the title in the catalogue. If the catalogue does not contain this message, the
    /// title consists of the name of the tool and the arguments of the title.
    pub key: Cow<'static, str>,
    /// The arguments of the title.
    pub arguments: Vec<(&'static str, String)>,
    /// The files that the call names. A tool that changes files must name either all changed files
    /// or none. If the tool names its files, calls on the same file run one after the other. If the
    /// tool names no files, its call runs alone.
    pub locations: Vec<Location>,
    /// The terminal with the command. Only tools whose output is shown in a terminal set this
    /// field.
    pub terminal: Option<TerminalPatch>,
    /// The name of the argument that contains the text of the named file, from its first line.
    /// While this argument is streamed, the client receives the number of the current line.
    pub file_text_argument: Option<&'static str>,
}

impl CallDescription {
    /// Creates a description with the key of its title.
    #[must_use]
    pub fn new(key: impl Into<Cow<'static, str>>) -> Self {
        let (key, arguments, locations) = (key.into(), Vec::new(), Vec::new());
        Self { key, arguments, locations, terminal: None, file_text_argument: None }
    }

    /// Creates the description of a call on a directory. The key is `here` for the working
    /// directory. For any other directory, the key is `there`, and the path is an argument of the
    /// title.
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
            _ => Self::new(there).with_path_argument("path", given, context),
        }
    }

    /// Adds an argument of the title.
    #[must_use]
    pub fn with_argument(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.arguments.push((name, value.into()));
        self
    }

    /// Adds a path as an argument of the title. The path gets the form that the session displays.
    #[must_use]
    pub fn with_path_argument(self, name: &'static str, given: &str, context: &Context) -> Self {
        let workspace = &context.workspace;
        let shown = workspace.resolve(given).map(|at| workspace.display(at.path()));
        self.with_argument(name, shown.unwrap_or_else(|_| given.to_owned()))
    }

    /// Adds the location of a file that the call names. The line number 0 means that there is no
    /// line.
    #[must_use]
    pub fn with_location(mut self, given: &str, line: u32, context: &Context) -> Self {
        let at = context.workspace.resolve(given).ok();
        let location = at.and_then(|at| Location::try_new(at.path()).ok());
        self.locations.extend(location.map(|location| location.with_line(line)));
        self
    }
}

/// The result of a call, as the tool returns it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The result for the model. The tool keeps this text within its size limit.
    pub text: String,
    /// Images for the model that are too large for the client. Images in the field `content` are
    /// always sent to both the model and the client.
    pub images: Vec<Image>,
    /// The content for the client. With `None`, the client keeps the content that it already shows.
    pub content: Option<Vec<Content>>,
    /// The result as JSON data.
    pub raw_output: Option<Value>,
    /// The files on which the call worked. With `None`, the locations that were already reported
    /// stay.
    pub locations: Option<Vec<Location>>,
    /// Whether the text is already stored in a file that the model can read, so that it is not
    /// stored again.
    pub is_stored: bool,
    /// The reason why the call counts as failed although it ran to its end, e.g. because of the
    /// exit code of a command.
    pub failure: Option<(ErrorCode, CallEndReason)>,
}

impl ToolOutput {
    /// Creates a result for the model only.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a result that the model and the client receive as the same text.
    #[must_use]
    pub fn for_model_and_client_alike(text: String, raw: Value) -> Self {
        let content = Some(vec![Content::fenced_code_block("", &text)]);
        Self { text, content, raw_output: Some(raw), ..Self::default() }
    }

    /// Adds a note for the model and the user.
    pub(crate) fn add_note(&mut self, note: &Note, invocation: Invocation<'_>) {
        self.text = format!("{}\n[{note}]", self.text.trim_end());
        match &mut self.content {
            Some(content) => content.push(Content::from_text(note.render(invocation.titles))),
            None => invocation.append_note(note),
        }
    }

    /// Creates the result of a file change. Also reports late writes by other programs, and changes
    /// that can no longer be undone.
    pub(crate) fn for_change_with_warnings(
        mut text: String,
        raw: Value,
        workspace: &Workspace,
    ) -> Self {
        workspace.append_late_writes(&mut text);
        for path in workspace.undo_store().take_paths_without_backup() {
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

/// Redacts the secrets of the call's session in a text for the model.
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
    /// The arguments of the tool, in the form in which the model sends them. The model receives the
    /// doc comments of the fields as descriptions, but not the doc comment of the type itself.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The plan that the preview creates and the run executes.
    type Plan: Send + 'static;

    /// Returns the static description of the tool.
    fn spec(&self) -> Spec;

    /// Returns the purpose for which the agent itself may call the tool. By default, there is none.
    fn role(&self) -> Option<ToolRole> {
        None
    }

    /// Returns a usage hint that the model receives in addition to the description. By default,
    /// there is none.
    fn hint(&self) -> Option<ToolHint> {
        None
    }

    /// Describes a call, based only on its arguments.
    fn describe(&self, args: &Self::Args, context: &Context) -> CallDescription;

    /// Returns the paths of the files whose text the preview shows or quotes. Each path has the
    /// form in which the model wrote it. Before the preview starts, the permission to read these
    /// files is checked. If the session requires permission to read a file, this permission is
    /// requested.
    ///
    /// By default, a tool that may change files returns the paths of [`describe`](Self::describe).
    /// Any other tool returns no paths.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call is impossible. No permission is requested after this error.
    fn paths_read_by_preview(
        &self,
        args: &Self::Args,
        context: &Context,
    ) -> impl Future<Output = Result<Vec<String>, ToolError>> + Send {
        let describe = || Some(self.describe(args, context));
        std::future::ready(Ok(default_paths_read_by_preview(self.spec().side_effects, describe)))
    }

    /// Determines the effects of a call. Must not have side effects.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call is impossible. No permission is requested after this error.
    fn preview(
        &self,
        args: Self::Args,
        invocation: Invocation<'_>,
    ) -> impl Future<Output = Result<ToolPreview<Self::Plan>, ToolError>> + Send;

    /// Runs a call for which permission was given. `pinned` contains the plan, and releases it only
    /// for the grant that belongs to it.
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

/// Returns the paths that [`Tool::paths_read_by_preview`] returns by default.
fn default_paths_read_by_preview(
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

/// Creates the patch that sets the final content, raw output and locations of a call.
pub(crate) fn to_final_patch(output: ToolOutput) -> ToolCallPatch {
    let mut patch = ToolCallPatch::new();
    if let Some(content) = output.content {
        patch = patch.with_content(content);
    }
    patch.raw_output = output.raw_output;
    patch.locations = output.locations;
    patch
}
