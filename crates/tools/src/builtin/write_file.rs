//! `write_file`: creates a file, or replaces its whole content.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use acp_lifecycle::{CallHandle, Effect, Effects, Grant, PinnedPlan};
use acp_types::{FileChangeOperation, Location, ToolKind, diff};
use callboard_text::{grouped_count_with_noun, quote_path_unless_utf8};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::unsaved_files::{
    UnsavedTextChange, UnsavedTexts, record_rewrites, require_no_unsaved_changes, rewrite_in_client,
};
use crate::edit::find_placeholder_line;
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::{DecodedText, ReencodedText};
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::files::write::{
    CrashProtection, FileWrite, PreImage, read_whole, write_all_with_progress,
};
use crate::limits::{MAX_DIFF_TIME, MAX_WHOLE_FILE_BYTES};
use crate::note::Note;
use crate::progress::ProgressReporter;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolHint,
    ToolOutput, ToolPreview, run_detached,
};

/// The tool `write_file`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteFile;

/// The path of the file, and its new content.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "x-refused" = ["append", "mode=append", "mode=insert", "mode=a", "dry_run", "preview", "line",
        "start_line", "end_line", "insert_line", "offset", "overwrite=false"],
    "x-instead" = "write_file replaces the whole content of a file, at once. To add to a file or to \
                   change a part of it, use edit_file.",
))]
pub(crate) struct Args {
    /// Missing directories are created.
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: String,
    #[schemars(extend("x-aliases" = ["contents", "text", "file_text", "file_content", "new_content", "code", "data"]))]
    content: String,
}

/// The file, with its old and its new content.
#[derive(Debug)]
pub(crate) struct Plan {
    at: WorkspacePath,
    bytes: Vec<u8>,
    found: PreImage,
    /// The canonical path and the final line ending of a file that has unsaved changes in the
    /// client. The client dropped the line ending, so the old content is the client's text plus
    /// this line ending.
    unsaved: Option<(PathBuf, &'static str)>,
    /// The file, if the client had no unsaved changes when the preview was created.
    saved_file: Option<WorkspacePath>,
    crash_protection: CrashProtection,
    /// Notes about unsaved changes in the client and about the preserved format of the file. Each
    /// note is one sentence.
    notes: Vec<Note>,
}

impl Tool for WriteFile {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "write_file".into(),
            aliases: &["write", "create_file"],
            description: "Creates a file or replaces its whole content; its encoding and line \
                          ends stay."
                .into(),
            kind: ToolKind::Edit,
            side_effects: SideEffects::Changes,
            title: "write-file".into(),
            display: OutputDisplay::Content,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Change files with edit_file; write_file is for new files, or if little stays.";
        Some(ToolHint::new(text).with_mentioned_tools(&["edit_file"]))
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let description = CallDescription::new("write-file")
            .with_path_argument("path", &args.path, context)
            .with_location(&args.path, 0, context);
        CallDescription { file_text_argument: Some("content"), ..description }
    }

    async fn paths_read_by_preview(
        &self,
        args: &Args,
        _: &Context,
    ) -> Result<Vec<String>, ToolError> {
        Ok(vec![args.path.clone()])
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        let held =
            UnsavedTexts::query_for_change(context, std::slice::from_ref(&args.path)).await?;
        let preview = context.run_blocking(move |workspace| {
            let at = workspace.resolve_and_follow_links(&args.path)?;
            // Permission rules apply to the file that changes, not to a link that leads to it.
            let real = workspace.canonicalize(&at)?;
            let text = held.unsaved_text(real.path());
            let found = match text {
                Some(text) => PreImage::Bytes(text.into()),
                None => read_whole(workspace, &at, MAX_WHOLE_FILE_BYTES)?,
            };
            let is_new = found == PreImage::Missing;
            let operation =
                if is_new { FileChangeOperation::Add } else { FileChangeOperation::Modify };
            let (OldText { text: old, is_utf8_invalid }, whole) = encode_like_old(&args, &found)?;
            let ReencodedText { text: new, bytes, preserved: kept } = whole;
            if text.is_none() && found.bytes() == Some(&*bytes) {
                return Ok(unchanged_preview(workspace, at, (found, bytes), kept, &held));
            }
            let old = old + held.final_line_end_if_lost(real.path());
            if let Some(line) = find_placeholder_line(&args.content, &old, &old, 0) {
                return Err(ToolError::invalid_arguments(format!(
                    "content has a placeholder for omitted text (`{line}`), which would be lost. \
                     Give the whole text, or use edit_file for a part of it"
                )));
            }
            let stamp = ContentHash::of_bytes(found.bytes().unwrap_or_default());
            if !is_new && workspace.known_hashes().is_stale(real.path(), stamp) {
                let message = format!("{} has changed since it was read. Read it again", args.path);
                return Err(ToolError::recoverable(ErrorCode::ChangedSinceRead, message));
            }
            let change =
                diff::diff_texts(at.path(), operation, &old, &new, Instant::now() + MAX_DIFF_TIME);
            let line = change.hunk_first_changed_line_numbers().next().unwrap_or(1);
            let location = Location::try_new(at.path()).map(|at| at.with_line(line));
            let effects = Effects::from(Effect::Write(real.path().to_owned()));
            let holds_something = found.bytes().is_some_and(|found| !found.is_empty());
            let is_blind = holds_something && !workspace.known_hashes().contains(real.path());
            let is_sensitive = is_blind || guard::is_executable_change(workspace, &real, &bytes);
            let effects = if is_sensitive { effects.with_high_risk_mark() } else { effects };
            let blind = is_blind.then(|| note_with_path("unread", workspace, &at));
            let ask_reason = guard::ask_reason_for_change(workspace, &real);
            let invalid = is_utf8_invalid.then(|| note_with_path("invalid-utf8", workspace, &at));
            let notes = kept_note(kept).into_iter().chain(invalid).chain(blind);
            let notes = notes.chain(held.notes_for_change());
            let written = FileWrite::new(&at, found.bytes(), &bytes);
            // If the client has unsaved changes, the client writes the file, and the tool does not.
            let written = text.is_none().then_some(written);
            let protection = CrashProtection::assess(workspace, written.as_slice())?;
            let notes: Vec<_> = notes.chain(protection.notes()).collect();
            let is_torn_by_crash = protection.can_crash_mix_contents();
            let kind = [u8::from(is_new), u8::from(text.is_some())];
            let pre_image =
                [&kind[..], stamp.as_bytes(), &protection.fingerprint(), &[u8::from(is_blind)]]
                    .concat();
            let as_on_disk = held.is_same_on_disk(real.path()).then(|| at.clone());
            let held =
                text.map(|_| (real.path().to_owned(), held.final_line_end_if_lost(real.path())));
            let plan = Plan {
                at,
                bytes,
                found,
                unsaved: held,
                saved_file: as_on_disk,
                crash_protection: protection,
                notes: notes.clone(),
            };
            Ok(ToolPreview {
                locations: location.ok().map(|location| vec![location]),
                changes: vec![change],
                effects,
                pre_image,
                notes,
                ..ToolPreview::new(plan)
            }
            .always_ask_if(is_torn_by_crash)
            .always_ask_because(ask_reason))
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
    /// Sends the text to the client if the client has unsaved changes of the file. Otherwise writes
    /// the file to disk.
    async fn apply(self, call: &CallHandle, context: &Context) -> Result<ToolOutput, ToolError> {
        require_no_unsaved_changes(
            context,
            self.saved_file.iter().cloned().collect(),
            call.cancel_token(),
        )
        .await?;
        let rewrites: Vec<_> = self.client_rewrite().into_iter().collect();
        rewrite_in_client(context, &rewrites, call.cancel_token()).await?;
        record_rewrites(context, &rewrites).await;
        let mut reporter = ProgressReporter::for_call(Some(call.clone()));
        let written = context.run_blocking(move |workspace| {
            if self.unsaved.is_none() && !self.is_unchanged() {
                let (at, found) = (&self.at, self.found.bytes());
                let change = FileWrite::new(at, found, &self.bytes);
                let mut watch = |far| reporter.report_if_due(far, Vec::new);
                write_all_with_progress(workspace, &[change], &self.crash_protection, &mut watch)?;
            }
            Ok(self.build_tool_output(workspace))
        });
        written.await
    }

    /// Returns whether the file on disk already has the new content. Such a file is not written.
    fn is_unchanged(&self) -> bool {
        self.unsaved.is_none() && self.found.bytes() == Some(&*self.bytes)
    }

    fn build_tool_output(&self, workspace: &Workspace) -> ToolOutput {
        let (path, bytes) = (workspace.display(self.at.path()), self.bytes.len());
        let size = grouped_count_with_noun(bytes as u64, "byte", "bytes");
        let done = match self.found {
            // A note reports that nothing was changed.
            PreImage::Bytes(_) if self.is_unchanged() => None,
            PreImage::Bytes(_) => Some(format!("Replaced {path} ({size}).")),
            PreImage::Missing => Some(format!("Made {path} ({size}).")),
        };
        let parts: Vec<_> =
            done.into_iter().chain(self.notes.iter().map(Note::to_string)).collect();
        let text = parts.join(" ");
        let raw = json!({ "path": quote_path_unless_utf8(self.at.path()), "bytes": bytes });
        ToolOutput::for_change_with_warnings(text, raw, workspace)
    }

    /// Returns the new text to send to the client. Returns `None` if the client has no unsaved
    /// changes of the file.
    fn client_rewrite(&self) -> Option<UnsavedTextChange<'_>> {
        let (real, end) = self.unsaved.as_ref()?;
        let found = str::from_utf8(self.found.bytes()?).ok()?;
        Some(UnsavedTextChange {
            at: &self.at,
            real_path: real,
            expected_text: found,
            lost_line_end: end,
            new_text: str::from_utf8(&self.bytes).ok()?,
        })
    }
}

/// Returns the preview of a call that changes no byte of the file. The call has no effects, so it
/// needs no permission.
fn unchanged_preview(
    workspace: &Workspace,
    at: WorkspacePath,
    (found, bytes): (PreImage, Vec<u8>),
    kept: Vec<Note>,
    held: &UnsavedTexts,
) -> ToolPreview<Plan> {
    let unchanged = note_with_path("unchanged", workspace, &at);
    let notes = [unchanged].into_iter().chain(kept_note(kept)).chain(held.notes_for_change());
    let notes: Vec<_> = notes.collect();
    let plan = Plan {
        at,
        bytes,
        found,
        unsaved: None,
        saved_file: None,
        crash_protection: CrashProtection::default(),
        notes: notes.clone(),
    };
    ToolPreview { notes, ..ToolPreview::new(plan) }
}

fn note_with_path(key: &'static str, workspace: &Workspace, at: &WorkspacePath) -> Note {
    Note::new(key).with_text("path", workspace.display(at.path()))
}

/// Returns a note about the parts of a file's format that a write keeps.
fn kept_note(kept: Vec<Note>) -> Option<Note> {
    (!kept.is_empty()).then(|| Note::new("kept").with_joined_notes("what", kept, ", "))
}

/// The old content of a file, as the diff shows it.
#[derive(Debug, Default)]
struct OldText {
    text: String,
    /// Whether `text` shows bytes that are not valid UTF-8, see [`show_invalid_bytes`].
    is_utf8_invalid: bool,
}

/// Returns the old text, and the new text in the encoding and with the line ends of the old file.
///
/// Fails if the old file cannot be decoded and the new text contains U+FFFD. This character
/// probably comes from the output of `read_file`, and stands for bytes that the write would
/// destroy.
fn encode_like_old(args: &Args, found: &PreImage) -> Result<(OldText, ReencodedText), ToolError> {
    let plain = || {
        let (text, bytes) = (args.content.clone(), args.content.clone().into_bytes());
        ReencodedText { text, bytes, preserved: Vec::new() }
    };
    let Some(bytes) = found.bytes() else { return Ok((OldText::default(), plain())) };
    let old = match DecodedText::decode(&args.path, bytes.to_vec()) {
        Ok(old) => old,
        Err(error) => {
            // A file that is not text has no encoding and no line ends to preserve.
            let is_utf8_invalid = str::from_utf8(bytes).is_err();
            return match is_utf8_invalid && args.content.contains(char::REPLACEMENT_CHARACTER) {
                true => Err(error),
                false => {
                    Ok((OldText { text: show_invalid_bytes(bytes), is_utf8_invalid }, plain()))
                }
            };
        }
    };
    let whole = old.encode_replacement(&args.content).map_err(|letter| {
        let (path, encoding) = (&args.path, old.non_utf8_encoding_name().unwrap_or_default());
        let message = format!(
            "{path} is {encoding}, which does not have {letter:?}. Leave it out, or delete the \
             file first to write it as UTF-8"
        );
        ToolError::recoverable(ErrorCode::Unencodable, message)
    })?;
    Ok((OldText { text: old.into_string(), is_utf8_invalid: false }, whole))
}

/// Decodes UTF-8, and shows each invalid byte in the form `\xff`.
///
/// U+FFFD precedes each sequence of invalid bytes. Because the new text does not contain U+FFFD,
/// its lines differ from these lines even if it contains `\xff` literally, so the diff shows them.
fn show_invalid_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
