//! `edit_file`: replaces text in files. The tool writes exactly the changes that the preview
//! showed, or writes nothing.

mod edited_file;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use acp_lifecycle::{CallHandle, Effect, Effects, Grant, PinnedPlan};
use acp_types::{Location, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::change_locations;
use crate::builtin::unsaved_files::{
    UnsavedTexts, record_rewrites, require_no_unsaved_changes, restore_in_client, rewrite_in_client,
};
use crate::edit::{Edit, Occurrence};
use crate::error::{ErrorCode, ToolError};
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::files::write::{CrashProtection, write_all_with_progress};
use crate::limits::{MAX_EDIT_TIME, MAX_EDITED_BYTES_PER_CALL, MAX_EDITS_PER_CALL};
use crate::note::Note;
use crate::progress::{FilesDone, ProgressReporter};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolHint,
    ToolOutput, ToolPreview, redact_secrets, run_detached,
};

use edited_file::{EditedFile, files_total_too_large_error, load_file_and_add_edit};

/// The tool `edit_file`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EditFile;

/// One replacement in the fields of the call, or several in `edits`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "x-refused" = ["append", "mode=append", "mode=insert", "mode=a", "dry_run", "preview",
        "end_line", "insert_line", "regex", "is_regex", "use_regex"],
    "x-instead" = "edit_file replaces exactly the text of old_text, at once. To insert, give \
                   an empty old_text and, as line, the line before which new_text goes.",
))]
pub(crate) struct Args {
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: Option<String>,
    /// Exactly as in the file.
    #[schemars(extend("x-aliases" = ["old_string", "old_str", "old", "original", "original_text", "old_content", "search", "search_text", "find"]))]
    old_text: Option<String>,
    #[schemars(extend("x-aliases" = ["new_string", "new_str", "new", "updated", "updated_text", "new_content", "replace", "replacement", "replace_with"]))]
    new_text: Option<String>,
    /// Replace every occurrence.
    #[schemars(extend("x-aliases" = ["all", "global", "all_occurrences", "allow_multiple"]))]
    #[serde(default)]
    replace_all: bool,
    /// The number of the occurrence, from 1.
    occurrence: Option<u32>,
    /// A line near the occurrence, from 1.
    #[schemars(extend("x-aliases" = ["line_number", "near_line"]))]
    line: Option<u32>,
    /// Replacements in order, instead of `old_text` and `new_text`.
    #[schemars(extend("x-aliases" = ["changes", "replacements", "multi_edits", "operations"]))]
    #[serde(default)]
    edits: Vec<SingleEdit>,
}

// One replacement. The fields of the call are the defaults of the optional fields. Models receive
// comments only of the fields that differ from those of the call.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "x-refused" = ["append", "mode=append", "mode=insert", "mode=a", "dry_run", "preview",
        "end_line", "insert_line", "regex", "is_regex", "use_regex"],
    "x-instead" = "edit_file replaces exactly the text of old_text, at once. To insert, give \
                   an empty old_text and, as line, the line before which new_text goes.",
))]
pub(crate) struct SingleEdit {
    /// Default: the `path` of the call.
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: Option<String>,
    #[schemars(extend("x-aliases" = ["old_string", "old_str", "old", "original", "original_text", "old_content", "search", "search_text", "find"]))]
    old_text: String,
    #[schemars(extend("x-aliases" = ["new_string", "new_str", "new", "updated", "updated_text", "new_content", "replace", "replacement", "replace_with"]))]
    new_text: String,
    #[schemars(extend("x-aliases" = ["all", "global", "all_occurrences", "allow_multiple"]))]
    replace_all: Option<bool>,
    occurrence: Option<u32>,
    #[schemars(extend("x-aliases" = ["line_number", "near_line"]))]
    line: Option<u32>,
}

/// The files to change, with their new contents.
#[derive(Debug)]
pub(crate) struct Plan {
    files: Vec<EditedFile>,
    /// The files that are written to disk. For each of these files, the client had no unsaved
    /// changes when the preview was created.
    saved_files: Vec<WorkspacePath>,
    crash_protection: CrashProtection,
    /// Notes about earlier changes of the files, and about unsaved changes in the client.
    notes: Vec<Note>,
}

impl Tool for EditFile {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "edit_file".into(),
            aliases: &["edit", "replace"],
            description: "Replaces text in a file. `old_text` must occur exactly once: include \
                          enough surrounding lines, or set `occurrence`, `line` or \
                          `replace_all`. An empty `old_text` with a `line` inserts before that \
                          line. `edits` makes several replacements, in one or more files: all, \
                          or none."
                .into(),
            kind: ToolKind::Edit,
            side_effects: SideEffects::Changes,
            title: "edit-file".into(),
            display: OutputDisplay::Content,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Read a file before you edit it. Copy `old_text` from it exactly, with white space \
            and enough lines to be unique. If it is not found, copy the closest text that the \
            error shows. Put the edits of one step into one call.";
        Some(ToolHint::new(text).with_mentioned_tools(&["read_file"]))
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let mut paths: Vec<_> = args.path.iter().collect();
        paths.extend(args.edits.iter().filter_map(|edit| edit.path.as_ref()));
        paths.dedup();
        let shown = |given: &&String| {
            let at = context.workspace.resolve(given);
            at.map_or_else(|_| (*given).clone(), |at| context.workspace.display(at.path()))
        };
        let names: Vec<_> = paths.iter().map(shown).collect();
        let description = CallDescription::new("edit-file").with_argument("path", names.join(", "));
        paths.into_iter().fold(description, |all, path| all.with_location(path, 0, context))
    }

    async fn paths_read_by_preview(
        &self,
        args: &Args,
        _: &Context,
    ) -> Result<Vec<String>, ToolError> {
        if args.edits.len() > MAX_EDITS_PER_CALL {
            // A call with too many edits is rejected before any file is read.
            return Ok(Vec::new());
        }
        let of_edits = args.edits.iter().filter_map(|edit| edit.path.as_ref());
        let distinct: BTreeSet<_> = args.path.iter().chain(of_edits).collect();
        Ok(distinct.into_iter().cloned().collect())
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        let edits = args.into_edits()?;
        let mut given: Vec<_> = edits.iter().map(|(path, _)| path.clone()).collect();
        given.dedup();
        let held = UnsavedTexts::query_for_change(context, &given).await?;
        let of_files = given.iter().collect::<BTreeSet<_>>().len();
        let call = CallHandle::current();
        let mut reporter = ProgressReporter::for_call(call.clone());
        let preview = context.run_blocking(move |workspace| {
            let mut files = Vec::new();
            for (path, edit) in edits {
                load_file_and_add_edit(&mut files, (&path, edit), workspace, &held)?;
                // Reading a single file takes less time than the minimum interval between two
                // progress reports.
                if of_files > 1 {
                    reporter.report_if_due(files_read_progress(&files, of_files), || {
                        locations_in_current_file(files.last())
                    });
                }
            }
            reporter.clear_reported_progress();
            let mut room = MAX_EDITED_BYTES_PER_CALL;
            let deadline = Instant::now() + MAX_EDIT_TIME;
            let is_over = || {
                call.as_ref().is_some_and(|call| call.cancel_token().is_cancelled())
                    || Instant::now() >= deadline
            };
            for file in &mut files {
                file.apply_edits(&is_over).map_err(|error| match (&call, error) {
                    // The error message may quote text of the file, which may contain secrets.
                    (Some(call), ToolError::Recoverable(report)) => {
                        ToolError::recoverable(report.code, redact_secrets(call, &report.message))
                    }
                    (_, error) => error,
                })?;
                room = room.checked_sub(file.new.len()).ok_or_else(files_total_too_large_error)?;
            }
            let changes: Vec<_> = files
                .iter()
                .filter(|file| file.is_written_to_disk())
                .map(EditedFile::file_write)
                .collect();
            let protection = CrashProtection::assess(workspace, &changes)?;
            Ok(build_preview(files, protection, &held, workspace))
        });
        preview.await
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let plan = pinned.release(grant)?;
        let (call, context) = (invocation.call.clone(), invocation.context.clone());
        run_detached(async move { plan.apply(&call, &context).await }).await
    }
}

impl Plan {
    /// Applies the edits to all files or to none. Files with unsaved changes are sent to the
    /// client, and all other files are written to disk.
    async fn apply(self, call: &CallHandle, context: &Context) -> Result<ToolOutput, ToolError> {
        require_no_unsaved_changes(context, self.saved_files.clone(), call.cancel_token()).await?;
        let plan = Arc::new(self);
        let held: Vec<_> = plan.files.iter().filter_map(EditedFile::unsaved_text_change).collect();
        rewrite_in_client(context, &held, call.cancel_token()).await?;
        let (shared, mut reporter) = (plan.clone(), ProgressReporter::for_call(Some(call.clone())));
        let written = context.run_blocking(move |workspace| {
            let files: Vec<_> =
                shared.files.iter().filter(|file| file.is_written_to_disk()).collect();
            let changes: Vec<_> = files.iter().copied().map(EditedFile::file_write).collect();
            if !changes.is_empty() {
                write_all_with_progress(
                    workspace,
                    &changes,
                    &shared.crash_protection,
                    &mut |far| {
                        reporter.report_if_due(far, || {
                            locations_in_current_file(files.get(far.files).copied())
                        });
                    },
                )?;
            }
            Ok(build_tool_output(&shared, workspace))
        });
        match written.await {
            Err(error) if !held.is_empty() => {
                let left = restore_in_client(context, &held).await;
                // The original error code may promise that nothing was changed. If a text could not
                // be restored, that promise is false.
                let code = error.code().filter(|_| left.is_empty()).unwrap_or(ErrorCode::Io);
                Err(ToolError::recoverable(code, format!("{error}{left}")))
            }
            written => {
                record_rewrites(context, &held).await;
                written
            }
        }
    }
}

impl Args {
    /// Returns each replacement together with the path of its file. Fails if the arguments contain
    /// both `edits` and the fields of a single replacement, or none of them.
    fn into_edits(self) -> Result<Vec<(String, Edit)>, ToolError> {
        let Self { path, old_text, new_text, replace_all, occurrence, line, edits } = self;
        let edits = match (old_text, new_text, edits.is_empty()) {
            (None, None, false) if edits.len() > MAX_EDITS_PER_CALL => {
                let message = format!(
                    "more than {MAX_EDITS_PER_CALL} replacements. Make them in several calls"
                );
                return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
            }
            (None, None, false) => edits,
            (Some(old_text), Some(new_text), true) => vec![SingleEdit {
                path: None,
                old_text,
                new_text,
                replace_all: None,
                occurrence: None,
                line: None,
            }],
            _ => {
                return Err(ToolError::invalid_arguments(
                    "Give path, old_text and new_text for one replacement, or edits for several. \
                     To insert, set old_text to an empty string, and line.",
                ));
            }
        };
        let edit = |one: SingleEdit| {
            // The call and an edit may select places in different ways. Then the edit decides.
            let has_own =
                one.replace_all == Some(true) || one.occurrence.is_some() || one.line.is_some();
            let (occurrence, line) =
                if has_own { (one.occurrence, one.line) } else { (occurrence, line) };
            let replace_all = one.replace_all.unwrap_or(replace_all && !has_own);
            let which = Occurrence::from_arguments(replace_all, occurrence, line)?;
            let path = one.path.or_else(|| path.clone());
            let path =
                path.ok_or_else(|| ToolError::invalid_arguments("Give the path of each edit."))?;
            Ok((path, Edit { old_text: one.old_text, new_text: one.new_text, occurrence: which }))
        };
        edits.into_iter().map(edit).collect()
    }
}

/// Returns how many of the files to edit have been read.
fn files_read_progress(files: &[EditedFile], of_files: usize) -> FilesDone {
    let bytes = files.iter().map(|file| file.old.original_bytes().len()).sum();
    FilesDone { files: files.len(), total_files: of_files, bytes, total_bytes: None }
}

/// Returns the locations of the changed lines in the current file. If these lines are not known
/// yet, returns the location of the whole file.
fn locations_in_current_file(file: Option<&EditedFile>) -> Vec<Location> {
    let Some(file) = file else { return Vec::new() };
    match &file.change {
        Some(change) => change_locations([change]),
        None => Location::try_new(file.at.path()).into_iter().collect(),
    }
}

fn build_preview(
    files: Vec<EditedFile>,
    protection: CrashProtection,
    held: &UnsavedTexts,
    workspace: &Workspace,
) -> ToolPreview<Plan> {
    let changed = || files.iter().filter(|file| file.change.is_some());
    let as_on_disk = changed().filter(|file| held.is_same_on_disk(file.real.path()));
    let as_on_disk = as_on_disk.map(|file| file.at.clone()).collect();
    let stale = files
        .iter()
        .filter(|file| file.is_stale)
        .map(|file| Note::new("stale").with_text("path", workspace.display(file.at.path())));
    let applied = files.iter().flat_map(|file| file.no_effect_notes(workspace));
    let notes = applied.chain(stale).chain(held.notes_for_change()).chain(protection.notes());
    let notes: Vec<_> = notes.collect();
    let is_torn_by_crash = protection.can_crash_mix_contents();
    let ask_reasons: Vec<_> =
        changed().filter_map(|file| guard::ask_reason_for_change(workspace, &file.real)).collect();
    let effects: Effects =
        changed().map(|file| Effect::Write(file.real.path().to_owned())).collect();
    let is_run =
        changed().any(|file| guard::is_executable_change(workspace, &file.real, &file.new));
    let effects = if is_run { effects.with_high_risk_mark() } else { effects };
    let changes: Vec<_> = files.iter().filter_map(|file| file.change.clone()).collect();
    let pre_image = files
        .iter()
        .flat_map(EditedFile::pre_image_fingerprint)
        .chain(protection.fingerprint())
        .collect();
    ToolPreview {
        locations: Some(change_locations(&changes)),
        effects,
        changes,
        pre_image,
        notes: notes.clone(),
        ..ToolPreview::new(Plan {
            files,
            saved_files: as_on_disk,
            crash_protection: protection,
            notes,
        })
    }
    .always_ask_if(is_torn_by_crash)
    .always_ask_because(ask_reasons)
}

fn build_tool_output(plan: &Plan, workspace: &Workspace) -> ToolOutput {
    let (mut text, mut replacements) = (String::new(), 0);
    for file in &plan.files {
        let (places, report) = file.describe_outcomes(workspace);
        replacements += places;
        text.push_str(&report);
    }
    plan.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    // Report the locations in all files, because the last progress report may name only one file.
    let locations = change_locations(plan.files.iter().filter_map(|file| file.change.as_ref()));
    let locations = (!locations.is_empty()).then_some(locations);
    let raw = json!({ "replacements": replacements });
    ToolOutput { locations, ..ToolOutput::for_change_with_warnings(text, raw, workspace) }
}
