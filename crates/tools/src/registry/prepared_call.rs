//! One call of a tool. [`execute_call`](acp_lifecycle::execute_call()) previews it, requests
//! permission and runs it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::{
    CallExecutor, CallFailure, CallHandle, CallPreview, CallSuccess, Effect, Effects, ErasedPlan,
    Grant, PermissionSubject, PinnedPlan, Titles, Verdict,
};
use acp_types::{Content, ContentBlock, FileChange, FileChangeOperation, Location, ToolCallPatch};
use serde_json::Value;

use super::arguments::NormalisedArguments;
use super::{RegisteredTool, results};
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::files::write::{PreImage, read_whole};
use crate::limits::MAX_WHOLE_FILE_BYTES;
use crate::note::Note;
use crate::shown_changes;
use crate::tool::{
    Context, Invocation, OutputDisplay, SideEffects, Spec, ToolPreview, to_final_patch,
};

/// One call of a tool, for [`execute_call`](acp_lifecycle::execute_call()).
#[derive(Debug)]
pub struct PreparedCall {
    tool: Option<Arc<RegisteredTool>>,
    tool_names: Vec<Cow<'static, str>>,
    name: String,
    /// The arguments as the model wrote them.
    args: Value,
    /// The normalised arguments. The `bool` is whether the title shows each of its arguments in
    /// full.
    normalised: Option<(Value, bool)>,
    /// Notes for the model about the arguments.
    notes: Vec<String>,
    context: Context,
    titles: Arc<Titles>,
    /// Whether the client shows the content of an earlier preview. This content may be outdated.
    is_previewed: bool,
    /// URIs of the patch files for the permission request. Each contains the changes that the
    /// request omits. These files are deleted if the call does not run.
    patch_file_uris: Vec<String>,
}

impl CallExecutor for PreparedCall {
    type Plan = ErasedPlan;

    async fn read_effects_of_preview(&mut self, call: &CallHandle) -> Result<Effects, CallFailure> {
        let (entry, args, _) = self.normalise_and_report_description(call).await?;
        let paths = entry
            .tool
            .paths_read_by_preview(args, &self.context)
            .await
            .map_err(|error| to_failure(error, call))?;
        if paths.is_empty() {
            return Ok(Effects::empty());
        }
        let shared = Arc::new(paths);
        let paths = shared.clone();
        let reads = self
            .context
            .run_blocking(move |workspace| Ok(effects_of_reading(workspace, &paths, |_| true)));
        let reads = reads.await.map_err(|error| to_failure(error, call))?;
        if call.judge_effects(&reads) != Verdict::Ask {
            return Ok(reads);
        }
        // If the session has already read a file, reading it again requires no permission.
        let unread = self.context.run_blocking(move |workspace| {
            Ok(effects_of_reading(workspace, &shared, |at| {
                !is_current_content_already_read(workspace, at)
            }))
        });
        let unread = unread.await.map_err(|error| to_failure(error, call))?;
        if call.judge_effects(&unread) == Verdict::Ask {
            // The permission request for these reads shows a note. The content of the preview must
            // replace this note.
            self.is_previewed = true;
        }
        Ok(unread)
    }

    async fn preview(&mut self, call: &CallHandle) -> Result<CallPreview<ErasedPlan>, CallFailure> {
        let (entry, args, is_full) = self.normalise_and_report_description(call).await?;
        let invocation = Invocation::new(call, &self.context, &self.titles);
        let draft = entry.tool.preview(args.clone(), invocation).await;
        let draft = draft.map_err(|error| self.failure_with_notes(to_failure(error, call)))?;
        let cwd = draft.cwd.as_deref().unwrap_or(self.context.workspace.cwd());
        let subject = PermissionSubject::for_call(&entry.spec.name, &args, cwd, &draft.pre_image);
        let effects = guard::mark_outside_effects(
            &self.context.workspace,
            declared_or_unknown_effects(&entry.spec, &draft),
        );
        let outside: Vec<_> = effects.outside_paths().map(Path::to_owned).collect();
        let mut patch = ToolCallPatch::new();
        patch.locations = draft.locations.or_else(|| to_locations(&outside));
        let titles = self.titles.clone();
        let (mut shown, is_shown) =
            shown_changes::content_with_patch_if_truncated(draft.changes, &self.context, &titles)
                .await;
        self.discard_patch_files();
        self.patch_file_uris.extend(shown.iter().filter_map(linked_uri));
        let outside = outside.iter().map(|path| self.context.workspace.display(path));
        let outside = outside.map(|path| Note::new("outside").with_text("path", path));
        let notes = draft.notes.into_iter().chain(outside).map(|note| note.render(&titles));
        shown.extend(shown_changes::notes_to_content(notes.collect()));
        if entry.spec.display == OutputDisplay::Terminal {
            // Keep the terminal of the call: append the content instead of replacing it.
            patch = shown.into_iter().fold(patch, ToolCallPatch::with_appended_content);
        } else if !shown.is_empty() || self.is_previewed {
            patch = patch.with_content(shown);
        }
        self.is_previewed = true;
        let pinned = PinnedPlan::new(draft.plan, subject);
        let mut preview = CallPreview::new(pinned, effects).with_patch(patch);
        preview.is_shown_in_full = is_shown && is_full;
        Ok(preview)
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        let Some(entry) = &self.tool else { return Err(self.unknown_tool_failure()) };
        self.patch_file_uris.clear();
        let invocation = Invocation::new(call, &self.context, &self.titles);
        let ran = entry.tool.run(pinned, grant, invocation).await;
        let mut output = ran.map_err(|error| self.failure_with_notes(to_failure(error, call)))?;
        if entry.spec.display == OutputDisplay::Content {
            results::store_long_result(&mut output, call, &self.context).await;
        }
        let (text, failed) = (self.text_with_notes(&output.text), output.failure);
        let images = std::mem::take(&mut output.images);
        let patch = to_final_patch(output);
        match failed {
            None => {
                let mut success = CallSuccess::new(text);
                (success.images, success.patch) = (images, patch);
                Ok(success)
            }
            Some((code, reason)) => {
                let mut failure = CallFailure::recoverable(code.as_str(), text);
                // The client already shows the error of this call.
                failure.note = None;
                (failure.reason, failure.patch) = (reason, patch);
                Err(failure)
            }
        }
    }
}

impl Drop for PreparedCall {
    fn drop(&mut self) {
        self.discard_patch_files();
    }
}

impl PreparedCall {
    /// Creates a call of a tool. If the tool is unknown, `tool` is `None`, and the error of the
    /// call lists all names in `tool_names`.
    pub(super) fn new(
        tool: Option<Arc<RegisteredTool>>,
        tool_names: Vec<Cow<'static, str>>,
        name: &str,
        args: Value,
        context: &Context,
        titles: &Arc<Titles>,
    ) -> Self {
        Self {
            tool,
            tool_names,
            name: name.to_owned(),
            args,
            normalised: None,
            notes: Vec::new(),
            context: context.clone(),
            titles: Arc::clone(titles),
            is_previewed: false,
            patch_file_uris: Vec::new(),
        }
    }

    /// Normalises the arguments and reports the description of the call to the client. Returns the
    /// tool, the arguments, and whether the title shows each of its arguments in full.
    async fn normalise_and_report_description(
        &mut self,
        call: &CallHandle,
    ) -> Result<(Arc<RegisteredTool>, Value, bool), CallFailure> {
        let Some(entry) = self.tool.clone() else {
            call.update(ToolCallPatch::new().with_raw_input(self.args.clone()));
            return Err(self.unknown_tool_failure());
        };
        if let Some((args, is_full)) = self.normalised.clone() {
            return Ok((entry, args, is_full));
        }
        let formed = entry.normalise(&self.args);
        let args = formed.as_ref().map_or(&self.args, |formed| &formed.args);
        let is_full = entry.send_description(&self.titles, call, (&self.args, args), &self.context);
        if !self.args.is_object() {
            let text = "The arguments have to be one JSON object.";
            return Err(CallFailure::recoverable(ErrorCode::InvalidArguments.as_str(), text));
        }
        if entry.spec.side_effects != SideEffects::Nothing {
            self.context
                .ensure_changes_recovered()
                .await
                .map_err(|error| to_failure(error, call))?;
        }
        let NormalisedArguments { args, notes } =
            formed.map_err(|error| to_failure(error, call))?;
        self.notes = notes;
        self.normalised = Some((args.clone(), is_full));
        Ok((entry, args, is_full))
    }

    fn discard_patch_files(&mut self) {
        let outputs = self.context.workspace.outputs();
        self.patch_file_uris.drain(..).for_each(|uri| outputs.remove_by_uri(&uri));
    }

    /// Appends the notes about the arguments to a text for the model.
    fn text_with_notes(&self, text: &str) -> String {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        match &self.notes[..] {
            [] => text.to_owned(),
            notes => format!("{text}{end}{}", notes.join("\n")),
        }
    }

    fn failure_with_notes(&self, mut failure: CallFailure) -> CallFailure {
        failure.text = self.text_with_notes(&failure.text);
        failure
    }

    fn unknown_tool_failure(&self) -> CallFailure {
        let names = self.tool_names.join(", ");
        let text = format!("There is no tool {:?}. The tools are: {names}.", self.name);
        CallFailure::recoverable("unknown_tool", text)
    }
}

fn linked_uri(content: &Content) -> Option<String> {
    match content {
        Content::Block(ContentBlock::ResourceLink(link)) => Some(link.uri.clone()),
        _ => None,
    }
}

/// Returns the effects of reading those files that `is_meant` selects. A file that does not exist
/// or has an invalid path has no effects.
fn effects_of_reading(
    workspace: &Workspace,
    paths: &[String],
    is_meant: impl Fn(&WorkspacePath) -> bool,
) -> Effects {
    let found = paths
        .iter()
        .filter_map(|path| workspace.resolve_and_follow_links(path).ok())
        .filter(is_meant);
    let effects = found.flat_map(|at| {
        guard::path_effects(workspace, &at, Effect::Read).iter().cloned().collect::<Vec<_>>()
    });
    let distinct: BTreeSet<_> = effects.collect();
    guard::mark_outside_effects(workspace, distinct.into_iter().collect())
}

/// Returns whether the session has already read the current content of a file.
fn is_current_content_already_read(workspace: &Workspace, at: &WorkspacePath) -> bool {
    let Ok(PreImage::Bytes(bytes)) = read_whole(workspace, at, MAX_WHOLE_FILE_BYTES) else {
        return false;
    };
    let real = workspace.canonicalize(at);
    real.is_ok_and(|real| {
        workspace.known_hashes().is_last_seen_content(real.path(), ContentHash::of_bytes(&bytes))
    })
}

/// Returns the effects that the preview declares. If the preview declares no effects, but the tool
/// changes files or may have any effect, the effects are unknown. Unknown effects always require
/// permission.
pub(super) fn declared_or_unknown_effects<P>(spec: &Spec, draft: &ToolPreview<P>) -> Effects {
    let is_silent = draft.effects.iter().next().is_none();
    let changes = |change: &FileChange| {
        let is_same =
            change.operation == FileChangeOperation::Modify && change.old_text == change.new_text;
        !is_same || !change.hunks.is_empty() || change.unlisted != (0, 0)
    };
    let acts = spec.side_effects == SideEffects::Anything || draft.changes.iter().any(changes);
    if is_silent && acts { Effects::from(Effect::Unknown) } else { draft.effects.clone() }
}

/// Converts paths to locations. Returns `None` if there are no locations.
fn to_locations(paths: &[PathBuf]) -> Option<Vec<Location>> {
    let located: Vec<_> = paths.iter().filter_map(|path| Location::try_new(path).ok()).collect();
    (!located.is_empty()).then_some(located)
}

/// Converts an error to the failure of a call. Removes the names of files that the call may not
/// read.
fn to_failure(error: ToolError, call: &CallHandle) -> CallFailure {
    match error {
        ToolError::Recoverable(mut report) => {
            let may_read = |path: &Path| {
                call.judge_effects(&Effect::Read(path.to_owned()).into()) == Verdict::Allow
            };
            report.retain_suggestions(may_read);
            let mut failure = CallFailure::recoverable(report.code.as_str(), report.to_string());
            failure.is_outdated = report.code == ErrorCode::ChangedSincePreview;
            failure
        }
        ToolError::Fatal(source) => {
            let mut failure = CallFailure::recoverable("internal_error", source.to_string());
            failure.is_fatal = true;
            failure
        }
    }
}
