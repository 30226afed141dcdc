//! `read_file`: shows an image, or lines of a text file.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use acp_lifecycle::{CallHandle, Effect, Grant, PinnedPlan, SessionHandle, Verdict};
use acp_types::{Content, Location, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::unsaved_files::UnsavedTexts;
use crate::error::ToolError;
use crate::files::read::{
    FileContent, FileExcerpt, ImageFile, SeenContent, read_text_or_image, unsaved_excerpt,
};
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::limits::{DEFAULT_READ_LINES, MAX_CLIENT_IMAGE_BYTES, MAX_PREVIEW_READ_BYTES};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolHint,
    ToolOutput, ToolPreview, run_on_blocking_thread,
};

/// The tool `read_file`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadFile;

/// The file, and the range of lines.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: String,
    /// First line, from 1; a negative number counts from the end.
    #[schemars(extend("x-aliases" = ["start_line", "line_start", "from_line", "start", "line"]))]
    offset: Option<i64>,
    /// Maximum lines; default 2000.
    #[schemars(extend("x-aliases" = ["line_count", "num_lines", "max_lines", "count", "lines"]))]
    limit: Option<u32>,
}

/// A read that waits for its permission.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    args: Args,
    at: WorkspacePath,
    workspace: Arc<Workspace>,
    /// The result, if the preview has already read the file. It reads a small file that may be read
    /// without a permission request, because another thread would take longer than the read.
    result: Option<ReadResult>,
}

/// The output, and the content of the file if all of it was read.
type ReadResult = Result<(ToolOutput, Option<SeenContent>), ToolError>;

impl Tool for ReadFile {
    type Args = Args;
    type Plan = ReadPlan;

    fn spec(&self) -> Spec {
        Spec {
            name: "read_file".into(),
            aliases: &["read"],
            description: "Returns numbered lines of a text file, at most 256 KiB at once, or \
                          an image."
                .into(),
            kind: ToolKind::Read,
            side_effects: SideEffects::Reads,
            title: "read-file".into(),
            display: OutputDisplay::Content,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "- The line numbers that read_file shows are not in the file.";
        Some(ToolHint::new(text))
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let line = args.offset.and_then(|offset| u32::try_from(offset).ok()).unwrap_or(0);
        let description = describe_requested_lines(args);
        description
            .with_path_argument("path", &args.path, context)
            .with_location(&args.path, line, context)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Self::Plan>, ToolError> {
        let context = invocation.context;
        let workspace = context.workspace.output_workspace_or_self(&args.path);
        if !Arc::ptr_eq(&workspace, &context.workspace) {
            // A stored output of this session is outside of the project folders, but reading it
            // needs no permission. If a link has replaced the output file, the link is not
            // followed.
            let at = workspace.resolve(&args.path)?;
            return Ok(ToolPreview::new(ReadPlan { args, at, workspace, result: None }));
        }
        let (call, may_be_unsaved) = (invocation.call.clone(), context.text.is_some());
        let inspected = context.run_blocking(move |workspace| {
            let (at, effects) = guard::inspect_with_effects(workspace, &args.path, Effect::Read)?;
            let outside = guard::mark_outside_effects(workspace, effects.clone());
            let is_allowed = || call.judge_effects(&outside) == Verdict::Allow;
            let result =
                (!may_be_unsaved && is_allowed() && is_small_enough_for_preview(workspace, &at))
                    .then(|| read(workspace, &at, &args, &UnsavedTexts::default(), false, &call));
            Ok((args, at, effects, result))
        });
        let (args, at, effects, result) = inspected.await?;
        let plan = ReadPlan { args, at, workspace, result };
        Ok(ToolPreview { effects, ..ToolPreview::new(plan) })
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let was_asked = grant.is_from_answer();
        let ReadPlan { args, at, workspace, result } = pinned.release(grant)?;
        // The rules have changed since the preview if a request was needed. The file may have
        // changed while the user decided.
        if let Some(result) = result.filter(|_| !was_asked) {
            return result.map(|read| record_seen(&workspace, read));
        }
        let Invocation { call, context, .. } = invocation;
        let is_output = !Arc::ptr_eq(&workspace, &context.workspace);
        let held = match is_output {
            true => None,
            false => {
                call.cancel_token()
                    .run_until_cancelled(UnsavedTexts::query_for_read(context, &at))
                    .await
            }
        };
        let (held, call) = (held.unwrap_or_default(), call.clone());
        run_on_blocking_thread(move || {
            let result = read(&workspace, &at, &args, &held, is_output, &call);
            result.map(|read| record_seen(&workspace, read))
        })
        .await
    }
}

/// Records that the session has seen the content of a file, and returns the output.
fn record_seen(
    workspace: &Workspace,
    (output, seen): (ToolOutput, Option<SeenContent>),
) -> ToolOutput {
    if let Some(seen) = seen {
        seen.record(workspace);
    }
    output
}

/// Reads the file, or the unsaved text of the client.
fn read(
    workspace: &Workspace,
    at: &WorkspacePath,
    args: &Args,
    held: &UnsavedTexts,
    is_output: bool,
    call: &CallHandle,
) -> ReadResult {
    let Args { offset, limit, .. } = *args;
    let (content, seen) = match held.text_if_single_file() {
        Some(text) => {
            let (excerpt, seen) = unsaved_excerpt(workspace, at, text, offset, limit)?;
            (FileContent::Text(excerpt), seen)
        }
        None => {
            let is_cancelled = || call.cancel_token().is_cancelled();
            read_text_or_image(workspace, at, offset, limit, &is_cancelled)?
        }
    };
    let output = match content {
        FileContent::Text(mut window) => {
            // Stored outputs of other sessions are redacted too. Reading such an output needs
            // permission, like any file outside of the project folders.
            let is_kept = is_output || workspace.outputs().is_output_of_any_session(at.path());
            if is_kept {
                redact(&mut window, call.session());
            }
            ToolOutput { is_stored: is_kept, ..text_output(window, &held.notes_for_read()) }
        }
        FileContent::Image(image) => image_output(&image, at.path()),
    };
    Ok((output, seen))
}

/// Returns whether a file is so small that it is read in the preview.
fn is_small_enough_for_preview(workspace: &Workspace, at: &WorkspacePath) -> bool {
    let metadata = workspace.open_read(at).map(|file| file.metadata());
    metadata.is_ok_and(|it| it.is_ok_and(|it| it.len() <= MAX_PREVIEW_READ_BYTES))
}

/// Redacts known secrets in the output of a command.
fn redact(window: &mut FileExcerpt, session: &SessionHandle) {
    let secrets = session.update(|session, _| session.secrets().clone());
    if let Cow::Owned(shown) = secrets.redact(&window.text) {
        // Redact before the lines are numbered. A secret may span several lines, and line numbers
        // inside the secret would hide it from the redaction.
        window.numbered = number_redacted_lines(window.first_line, &window.text, &shown);
        window.text = shown;
    }
}

/// Adds line numbers to a redacted text. The numbers are those of the original text `was`, because
/// a redaction may replace several lines by one line.
fn number_redacted_lines(first: u32, was: &str, text: &str) -> String {
    let (was, lines): (Vec<_>, Vec<_>) = (was.lines().collect(), text.lines().collect());
    let (mut at, mut gone) = (0, was.len().saturating_sub(lines.len()));
    let mut numbered = String::new();
    for (place, line) in lines.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(numbered, "{:>6}\t{line}", first as usize + at);
        at += 1;
        let next = lines.get(place + 1);
        let ahead = was.iter().skip(at).take(gone + 1).position(|line| Some(line) == next);
        let skipped = ahead.unwrap_or(0);
        (at, gone) = (at + skipped, gone - skipped);
    }
    numbered
}

fn describe_requested_lines(args: &Args) -> CallDescription {
    match (args.offset, args.limit) {
        (None, None) => CallDescription::new("read-file"),
        (Some(-1), _) => CallDescription::new("read-file-last-line"),
        (Some(offset), limit) if offset < 0 => {
            let (count, limit) = (offset.unsigned_abs(), limit.unwrap_or(DEFAULT_READ_LINES));
            let description = if u64::from(limit) < count {
                CallDescription::new("read-file-of-last").with_argument("lines", limit.to_string())
            } else {
                CallDescription::new("read-file-last")
            };
            description.with_argument("count", count.to_string())
        }
        (offset, Some(limit)) => {
            // An offset of zero means the beginning of the file.
            let first = offset.unwrap_or(1).max(1);
            let last = first.saturating_add(i64::from(limit) - 1);
            CallDescription::new("read-file-lines")
                .with_argument("first", first.to_string())
                .with_argument("last", last.to_string())
        }
        (Some(first), None) => {
            CallDescription::new("read-file-from").with_argument("first", first.max(1).to_string())
        }
    }
}

/// Creates the result for a text file. The model and the user receive the notes, because both must
/// know whether the text comes from the disk or from the editor.
fn text_output(mut window: FileExcerpt, notes: &[String]) -> ToolOutput {
    window.notes.extend_from_slice(notes);
    let language = window.path.extension().and_then(|name| name.to_str()).unwrap_or_default();
    let mut content = vec![Content::fenced_code_block(language, &window.text)];
    content.extend(notes.iter().map(Content::from_text));
    ToolOutput {
        text: window.for_model(),
        content: Some(content),
        raw_output: Some(json!({
            "firstLine": window.first_line,
            "lastLine": window.last_line,
            "totalLines": window.total_lines,
            "nextOffset": window.next_offset(),
            "bytes": window.file_bytes,
        })),
        locations: first_shown_line_location(&window).map(|place| vec![place]),
        ..ToolOutput::default()
    }
}

/// Returns the location of the first shown line. If the arguments count lines from the end, this
/// location is only known after the file was read.
fn first_shown_line_location(window: &FileExcerpt) -> Option<Location> {
    Some(Location::try_new(&window.path).ok()?.with_line(window.first_line))
}

/// Creates the result for an image. The model always receives the image. The client receives the
/// image if it is small enough, and a link to the file otherwise.
fn image_output(image: &ImageFile, path: &Path) -> ToolOutput {
    let (images, content) = match image.bytes.len() > MAX_CLIENT_IMAGE_BYTES {
        true => (vec![image.to_base64()], image.to_link_content(path)),
        false => (Vec::new(), vec![image.to_base64().into()]),
    };
    ToolOutput {
        text: image.describe(),
        images,
        content: Some(content),
        raw_output: Some(json!({ "mediaType": image.media_type, "bytes": image.bytes.len() })),
        ..ToolOutput::default()
    }
}

#[cfg(test)]
mod tests {
    use super::number_redacted_lines;
    use pretty_assertions::assert_eq;

    #[test]
    fn lines_keep_their_numbers_where_several_became_one() {
        let was = "a\nkey=1\n2\n3\nb\nkey=1\n2\n3\nb\nc\n";
        let all = was.replace("key=1\n2\n3", "key=[]");
        for (text, expected) in [
            (all, &["1 a", "2 key=[]", "5 b", "6 key=[]", "9 b", "10 c"][..]),
            (was.replace("key", "[]"), &["1 a", "2 []=1", "3 2"]),
            ("a\n[]\n".to_owned(), &["1 a", "2 []"]),
        ] {
            let numbered = number_redacted_lines(1, was, &text);
            let lines: Vec<_> =
                numbered.lines().map(|line| line.trim().replace('\t', " ")).collect();
            assert_eq!(lines[..expected.len()], *expected);
            assert_eq!(numbered.lines().count(), text.lines().count());
        }
        assert_eq!(number_redacted_lines(99, "x\n", "y\n"), "    99\ty\n");
    }
}
