//! `edit_file`: replaces text in files. The tool writes exactly the changes that the preview
//! showed, or writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use acp_lifecycle::{CallHandle, Effect, Effects, Grant, PinnedPlan};
use acp_types::{FileChange, Location, ToolKind, diff};
use callboard_text::group_thousands;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::change_locations;
use crate::builtin::unsaved_files::{
    ClientRewrite, UnsavedTexts, record_rewrites, require_no_unsaved_changes, restore_in_client,
    rewrite_in_client,
};
use crate::edit::{Edit, EditOutcome, MatchKind, Occurrence, apply_cancellable};
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::walk::IsCancelled;
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::files::write::{FileWrite, PreImage, WriteSafety, read_whole, write_all_with_progress};
use crate::limits::{
    MAX_EDIT_TIME, MAX_EDITED_BYTES_PER_CALL, MAX_EDITS_PER_CALL, MAX_FILES_PER_EDIT_CALL,
    MAX_WHOLE_FILE_BYTES,
};
use crate::note::Note;
use crate::progress::{FileProgress, ProgressReporter};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolHint,
    ToolOutput, ToolPreview, redact_secrets, run_to_completion,
};

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
    /// The file, absolute or relative to the working directory.
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: Option<String>,
    /// The existing text, exactly as in the file. This text must occur exactly once, unless
    /// `occurrence` or `replace_all` is set.
    #[schemars(extend("x-aliases" = ["old_string", "old_str", "old", "original", "original_text", "old_content", "search", "search_text", "find"]))]
    old_text: Option<String>,
    /// The text that replaces `old_text`.
    #[schemars(extend("x-aliases" = ["new_string", "new_str", "new", "updated", "updated_text", "new_content", "replace", "replacement", "replace_with"]))]
    new_text: Option<String>,
    /// Replace every occurrence.
    #[schemars(extend("x-aliases" = ["all", "global", "all_occurrences", "allow_multiple"]))]
    #[serde(default)]
    replace_all: bool,
    /// The number of the occurrence to replace, from 1.
    occurrence: Option<u32>,
    /// A line near the occurrence to replace, from 1. If `old_text` is empty, `new_text` is
    /// inserted before this line.
    #[schemars(extend("x-aliases" = ["line_number", "near_line"]))]
    line: Option<u32>,
    /// Several replacements, applied in order. If set, do not set the fields above, except `path`.
    #[schemars(extend("x-aliases" = ["changes", "replacements", "multi_edits", "operations"]))]
    #[serde(default)]
    edits: Vec<One>,
}

/// One replacement.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "x-refused" = ["append", "mode=append", "mode=insert", "mode=a", "dry_run", "preview",
        "end_line", "insert_line", "regex", "is_regex", "use_regex"],
    "x-instead" = "edit_file replaces exactly the text of old_text, at once. To insert, give \
                   an empty old_text and, as line, the line before which new_text goes.",
))]
pub(crate) struct One {
    /// The file, absolute or relative to the working directory; the `path` of the call if not
    /// given.
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: Option<String>,
    /// The existing text, exactly as in the file. If empty, `new_text` is inserted before `line`.
    #[schemars(extend("x-aliases" = ["old_string", "old_str", "old", "original", "original_text", "old_content", "search", "search_text", "find"]))]
    old_text: String,
    /// The text that replaces `old_text`.
    #[schemars(extend("x-aliases" = ["new_string", "new_str", "new", "updated", "updated_text", "new_content", "replace", "replacement", "replace_with"]))]
    new_text: String,
    /// Replace every occurrence.
    #[schemars(extend("x-aliases" = ["all", "global", "all_occurrences", "allow_multiple"]))]
    #[serde(default)]
    replace_all: bool,
    /// The number of the occurrence to replace, from 1.
    occurrence: Option<u32>,
    /// A line near the occurrence to replace, from 1. If `old_text` is empty, `new_text` is
    /// inserted before this line.
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
    write_safety: WriteSafety,
    /// Notes about earlier changes of the files, and about unsaved changes in the client.
    notes: Vec<Note>,
}

/// A file before and after the edits.
#[derive(Debug)]
struct EditedFile {
    at: WorkspacePath,
    real: WorkspacePath,
    edits: Vec<Edit>,
    /// The old content. If the client dropped the final line ending when it read the file, that
    /// line ending is added here.
    old: DecodedText,
    lost_line_end: &'static str,
    old_hash: ContentHash,
    /// Whether the client has unsaved changes of this file.
    is_unsaved: bool,
    /// Whether the file has changed since the session last read or wrote it.
    is_stale: bool,
    /// The new content of the file in bytes. Until the edits are applied, this field and `change`
    /// are empty.
    new: Vec<u8>,
    change: Option<FileChange>,
    outcomes: Vec<EditOutcome>,
}

impl Tool for EditFile {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "edit_file".into(),
            aliases: &["edit", "replace"],
            description: "Replaces text in a file. `old_text` must occur exactly once, so include \
                          enough of the surrounding lines, or set `occurrence`, `line` or \
                          `replace_all`. An empty `old_text` with a `line` inserts before that \
                          line. Several replacements, in one or more files, go into `edits`: all \
                          are done, or none."
                .into(),
            kind: ToolKind::Edit,
            side_effects: SideEffects::Changes,
            title: "edit-file".into(),
            display: OutputDisplay::Content,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Read a file before you edit it. `old_text` is copied from it exactly, white \
            space too, with as many lines as make it unique. If it is not found, take it from \
            the closest text that the error shows, instead of guessing. Put the edits of one \
            step into one call.";
        Some(ToolHint::new(text).with_tools(&["read_file"]))
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

    async fn paths_to_read(&self, args: &Args, _: &Context) -> Result<Vec<String>, ToolError> {
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
                    reporter.report_if_due(file_read_progress(&files, of_files), || {
                        current_locations(files.last())
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
                room = room.checked_sub(file.new.len()).ok_or_else(too_large_error)?;
            }
            let changes: Vec<_> = files
                .iter()
                .filter(|file| file.is_written_to_disk())
                .map(EditedFile::file_write)
                .collect();
            let protection = WriteSafety::assess(workspace, &changes)?;
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
        run_to_completion(async move { plan.apply(&call, &context).await }).await
    }
}

impl Plan {
    /// Applies the edits to all files or to none. Files with unsaved changes are sent to the
    /// client, and all other files are written to disk.
    async fn apply(self, call: &CallHandle, context: &Context) -> Result<ToolOutput, ToolError> {
        require_no_unsaved_changes(context, self.saved_files.clone(), call.cancel_token()).await?;
        let plan = Arc::new(self);
        let held: Vec<_> = plan.files.iter().filter_map(EditedFile::client_rewrite).collect();
        rewrite_in_client(context, &held, call.cancel_token()).await?;
        let (shared, mut reporter) = (plan.clone(), ProgressReporter::for_call(Some(call.clone())));
        let written = context.run_blocking(move |workspace| {
            let files: Vec<_> =
                shared.files.iter().filter(|file| file.is_written_to_disk()).collect();
            let changes: Vec<_> = files.iter().copied().map(EditedFile::file_write).collect();
            if !changes.is_empty() {
                write_all_with_progress(workspace, &changes, &shared.write_safety, &mut |far| {
                    reporter
                        .report_if_due(far, || current_locations(files.get(far.files).copied()));
                })?;
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
    /// Returns each replacement together with the path of its file. Fails if the arguments use both
    /// the single form and `edits`, or neither.
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
            (Some(old_text), Some(new_text), true) => {
                vec![One { path: None, old_text, new_text, replace_all, occurrence, line }]
            }
            _ => {
                return Err(ToolError::invalid_arguments(
                    "Give path, old_text and new_text for one replacement, or edits for several. \
                     To insert, set old_text to an empty string, and line.",
                ));
            }
        };
        let edit = |one: One| {
            let which = Occurrence::from_arguments(one.replace_all, one.occurrence, one.line)?;
            let path = one.path.or_else(|| path.clone());
            let path =
                path.ok_or_else(|| ToolError::invalid_arguments("Give the path of each edit."))?;
            Ok((path, Edit { old_text: one.old_text, new_text: one.new_text, occurrence: which }))
        };
        edits.into_iter().map(edit).collect()
    }
}

/// Adds a replacement to the edits of its file. Reads the file before its first replacement is
/// added.
fn load_file_and_add_edit(
    files: &mut Vec<EditedFile>,
    (path, edit): (&str, Edit),
    workspace: &Workspace,
    held: &UnsavedTexts,
) -> Result<(), ToolError> {
    let at = workspace.resolve_and_follow_links(path)?;
    let real = workspace.canonicalize(&at)?;
    if let Some(file) = files.iter_mut().find(|file| file.real.path() == real.path()) {
        file.edits.push(edit);
        return Ok(());
    }
    if files.len() == MAX_FILES_PER_EDIT_CALL {
        let message =
            format!("more than {MAX_FILES_PER_EDIT_CALL} files in one call. Edit them in several");
        return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
    }
    let text = held.unsaved_text(real.path());
    let found = match text {
        Some(text) => PreImage::Bytes(text.into()),
        None => read_whole(workspace, &at, MAX_WHOLE_FILE_BYTES)?,
    };
    let lost_end = held.lost_line_end(real.path());
    let mut bytes = match found {
        PreImage::Bytes(bytes) => bytes,
        PreImage::Missing => {
            // If the file is missing, `open_read` fails with an error that lists files with similar
            // names.
            drop(workspace.open_read(&at)?);
            Vec::new()
        }
    };
    let held: usize = files.iter().map(|file| file.old.original_bytes().len()).sum();
    if held + bytes.len() > MAX_EDITED_BYTES_PER_CALL {
        return Err(too_large_error());
    }
    let stamp = ContentHash::of_bytes(&bytes);
    let is_stale = workspace.known_hashes().is_stale(real.path(), stamp);
    bytes.extend_from_slice(lost_end.as_bytes());
    let old = DecodedText::decode(at.given(), bytes)?;
    let (is_held, new, change, done) = (text.is_some(), Vec::new(), None, Vec::new());
    files.push(EditedFile {
        at,
        real,
        edits: vec![edit],
        old,
        lost_line_end: lost_end,
        old_hash: stamp,
        is_unsaved: is_held,
        is_stale,
        new,
        change,
        outcomes: done,
    });
    Ok(())
}

/// Returns how many of the files to edit have been read.
fn file_read_progress(files: &[EditedFile], of_files: usize) -> FileProgress {
    let bytes = files.iter().map(|file| file.old.original_bytes().len()).sum();
    FileProgress { files: files.len(), total_files: of_files, bytes, total_bytes: None }
}

/// Returns the locations of the changed lines in the current file. If these lines are not known
/// yet, returns the location of the whole file.
fn current_locations(file: Option<&EditedFile>) -> Vec<Location> {
    let Some(file) = file else { return Vec::new() };
    match &file.change {
        Some(change) => change_locations([change]),
        None => Location::try_new(file.at.path()).into_iter().collect(),
    }
}

fn too_large_error() -> ToolError {
    let bytes = group_thousands(MAX_EDITED_BYTES_PER_CALL as u64);
    let message =
        format!("the files of one call have more than {bytes} bytes. Edit them in several");
    ToolError::recoverable(ErrorCode::TooLarge, message)
}

impl EditedFile {
    fn apply_edits(&mut self, cancel: &IsCancelled<'_>) -> Result<(), ToolError> {
        let given = self.at.given();
        if self.is_stale && self.depends_on_position(cancel) {
            let message = format!(
                "{given} has changed since it was read, so occurrence or line may now select \
                 another place. Read it again"
            );
            return Err(ToolError::recoverable(ErrorCode::ChangedSinceRead, message));
        }
        let edited =
            apply_cancellable(self.old.as_str(), &self.edits, cancel).map_err(|error| {
                let code = ToolError::from(error.clone()).code().unwrap_or(ErrorCode::NoMatch);
                ToolError::recoverable(code, format!("{given}: {error}"))
            })?;
        self.outcomes.clone_from(&edited.outcomes);
        if edited.text != self.old.as_str() {
            let (old, path) = (self.old.as_str(), self.at.path());
            self.change = Some(diff::change_from_edits(path, old, &edited.text, &edited.splices));
            self.new = edited.into_bytes(&self.old).map_err(|letter| {
                let encoding = self.old.non_utf8_encoding_name().unwrap_or_default();
                let message = format!("{given} is {encoding}, which does not have {letter:?}");
                ToolError::recoverable(ErrorCode::Unencodable, message)
            })?;
            if self.new.len() as u64 > MAX_WHOLE_FILE_BYTES {
                let message =
                    format!("{given} would exceed {MAX_WHOLE_FILE_BYTES} bytes after the edit");
                return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
            }
        }
        Ok(())
    }

    /// Returns whether the edits need an occurrence number or a line number to select one of
    /// several matching places.
    fn depends_on_position(&self, cancel: &IsCancelled<'_>) -> bool {
        let is_near = |edit: &Edit| matches!(edit.occurrence, Occurrence::NearLine(_));
        let is_counted = |edit: &Edit| match edit.occurrence {
            Occurrence::Nth(_) => true,
            Occurrence::NearLine(_) => edit.old_text.is_empty(),
            Occurrence::Only | Occurrence::All => false,
        };
        if self.edits.iter().any(is_counted) {
            return true;
        }
        if !self.edits.iter().any(is_near) {
            return false;
        }
        let without = |edit: &Edit| match is_near(edit) {
            true => Edit { occurrence: Occurrence::Only, ..edit.clone() },
            false => edit.clone(),
        };
        let without: Vec<_> = self.edits.iter().map(without).collect();
        apply_cancellable(self.old.as_str(), &without, cancel)
            .is_err_and(|error| ToolError::from(error).code() == Some(ErrorCode::AmbiguousMatch))
    }

    /// Returns a fingerprint of the text that the change depends on. This text is the lines that
    /// the permission request shows, without their line numbers. The fingerprint covers the whole
    /// file if not all changed lines are shown, or if an edit has an occurrence number or a line
    /// number.
    fn pre_image_fingerprint(&self) -> Vec<u8> {
        let Some(change) = &self.change else { return Vec::new() };
        let counts =
            |edit: &Edit| matches!(edit.occurrence, Occurrence::Nth(_) | Occurrence::NearLine(_));
        if change.unlisted != (0, 0) || self.edits.iter().any(counts) {
            return self.old_hash.as_bytes().to_vec();
        }
        let lines: Vec<_> = change.hunks.iter().map(|hunk| &hunk.lines).collect();
        let rests_on = format!("{:?}", (self.is_unsaved, self.old.non_utf8_encoding_name(), lines));
        ContentHash::of_bytes(rests_on.as_bytes()).as_bytes().to_vec()
    }

    /// Returns whether the tool writes the new content to disk. All other contents are sent to the
    /// client.
    fn is_written_to_disk(&self) -> bool {
        self.change.is_some() && !self.is_unsaved
    }

    /// Returns a note for each edit whose new text was already in the file.
    fn already_applied_notes(&self, workspace: &Workspace) -> Vec<Note> {
        let path = workspace.display(self.at.path());
        let note = |(index, done): (usize, &EditOutcome)| {
            let EditOutcome::AlreadyApplied { line } = done else { return None };
            let note = match self.outcomes.len() {
                1 => Note::new("applied"),
                edits => Note::new("applied-of")
                    .with_text("edit", (index + 1).to_string())
                    .with_text("edits", edits.to_string()),
            };
            Some(note.with_text("path", &path).with_text("line", line.to_string()))
        };
        self.outcomes.iter().enumerate().filter_map(note).collect()
    }

    fn file_write(&self) -> FileWrite<'_> {
        FileWrite { path: &self.at, expected: Some(self.old.original_bytes()), bytes: &self.new }
    }

    /// Returns the new text to send to the client. Returns `None` if the client has no unsaved
    /// changes of the file.
    fn client_rewrite(&self) -> Option<ClientRewrite<'_>> {
        self.change.as_ref().filter(|_| self.is_unsaved)?;
        let (old, end) = (self.old.as_str(), self.lost_line_end);
        let found = old.strip_suffix(end).unwrap_or(old);
        let text = str::from_utf8(&self.new).ok()?;
        Some(ClientRewrite {
            at: &self.at,
            real_path: self.real.path(),
            expected_text: found,
            lost_line_end: end,
            new_text: text,
        })
    }

    /// Returns the number of replaced places, and a text that describes the outcome of the edits.
    fn describe_outcomes(&self, workspace: &Workspace) -> (usize, String) {
        let path = workspace.display(self.at.path());
        let (mut places, mut text) = (0, String::new());
        for done in &self.outcomes {
            match done {
                EditOutcome::Replaced { places: more, match_kind: rung } => {
                    places += more;
                    if let Some(how) = inexact_match_note(*rung) {
                        text.push_str(&format!("In {path}, {how}.\n"));
                    }
                }
                // `already_applied_notes` reports these outcomes.
                EditOutcome::AlreadyApplied { .. } => {}
            }
        }
        if places > 0 {
            let noun = if places == 1 { "place" } else { "places" };
            text.insert_str(0, &format!("Replaced {places} {noun} in {path}.\n"));
        }
        if let Some(encoding) = self.old.non_utf8_encoding_name() {
            text.push_str(&format!("{path} is {encoding}; the encoding was kept.\n"));
        }
        (places, text)
    }
}

/// Describes how the old text was found. Returns `None` if it matches exactly.
fn inexact_match_note(rung: MatchKind) -> Option<&'static str> {
    match rung {
        MatchKind::Exact => None,
        MatchKind::TrailingWhitespace => {
            Some("the old text was found with different whitespace or line ends")
        }
        MatchKind::Indentation => {
            Some("the old text was found indented differently, and the new one was adjusted")
        }
        MatchKind::LookalikeCharacters => {
            Some("the old text was found with different quotes, dashes or spaces")
        }
        MatchKind::TabsOrSpaces => Some(
            "the old text was found with tabs for spaces or spaces for tabs, and the new one was \
             indented in the same way",
        ),
        MatchKind::LineNumbers => {
            Some("the line numbers of read_file were removed from both texts")
        }
    }
}

fn build_preview(
    files: Vec<EditedFile>,
    protection: WriteSafety,
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
    let applied = files.iter().flat_map(|file| file.already_applied_notes(workspace));
    let notes = applied.chain(stale).chain(held.notes_for_change()).chain(protection.notes());
    let notes: Vec<_> = notes.collect();
    let is_guarded = protection.can_crash_mix_contents()
        || changed().any(|file| {
            guard::is_guarded(workspace, &file.real)
                || guard::has_other_hard_links(workspace, &file.real)
        });
    let effects: Effects =
        changed().map(|file| Effect::Write(file.real.path().to_owned())).collect();
    let is_run =
        changed().any(|file| guard::is_executable_change(workspace, &file.real, &file.new));
    let effects = if is_run { effects.with_sensitive_mark() } else { effects };
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
        ..ToolPreview::new(Plan { files, saved_files: as_on_disk, write_safety: protection, notes })
    }
    .always_ask_if(is_guarded)
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
    ToolOutput { locations, ..ToolOutput::for_change(text, raw, workspace) }
}
