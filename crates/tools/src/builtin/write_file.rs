//! `write_file`: makes a file, or replaces all of it.

use std::path::PathBuf;
use std::time::Instant;

use acp_lifecycle::{CallHandle, Effect, Effects, Grant, Pinned};
use acp_types::{Location, Operation, ToolKind, diff};
use callboard_text::{grouped_count, path_text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::unsaved::{Held, Rewrite, remember, require_as_on_disk, rewrite};
use crate::edit::placeholder;
use crate::error::{Code, ToolError};
use crate::files::encoding::{Text, Whole};
use crate::files::stamp::Stamp;
use crate::files::workspace::{Resolved, Workspace, guard};
use crate::files::write::{Change, PreImage, Protection, read_whole, write_all_watched};
use crate::limits::{DIFF_TIME, FILE_BYTES};
use crate::note::Note;
use crate::progress::Teller;
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, ToolHint,
    to_its_end,
};

/// Writes a whole file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteFile;

/// Which file, and what it shall hold.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "x-refused" = ["append", "mode=append", "mode=insert", "mode=a", "dry_run", "preview", "line",
        "start_line", "end_line", "insert_line", "offset", "overwrite=false"],
    "x-instead" = "write_file replaces the whole content of a file, at once. To add to a file or to \
                   change a part of it, use edit_file.",
))]
pub(crate) struct Args {
    /// The file, absolute or relative to the working directory. Missing directories are made.
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target"]))]
    path: String,
    /// The whole content.
    #[schemars(extend("x-aliases" = ["contents", "text", "file_text", "file_content", "new_content", "code", "data"]))]
    content: String,
}

/// One file with what is there and what shall be there.
#[derive(Debug)]
pub(crate) struct Plan {
    at: Resolved,
    bytes: Vec<u8>,
    found: PreImage,
    /// The real place of a file of which the client holds another text: that is what was found, but
    /// for this last line end, which the client lost.
    held: Option<(PathBuf, &'static str)>,
    /// The file, if the client held what the disk holds of it.
    as_on_disk: Option<Resolved>,
    protection: Protection,
    /// What there is to know of what the client holds, and of what is kept of the form of the file,
    /// one sentence each.
    notes: Vec<Note>,
}

impl Tool for WriteFile {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "write_file".into(),
            aliases: &["write", "create_file"],
            description: "Makes a file or replaces its whole content; the encoding and line \
                          ends of a file stay. To change a part of a file, use edit_file."
                .into(),
            kind: ToolKind::Edit,
            reach: Reach::Changes,
            title: "write-file".into(),
            surface: Surface::Content,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Change files with edit_file; write_file is for new files and for those of which \
            little stays.";
        Some(ToolHint::new(text).with_tools(&["edit_file"]))
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        let description = Description::new("write-file")
            .with_path("path", &args.path, context)
            .at(&args.path, 0, context);
        Description { lines: Some("content"), ..description }
    }

    async fn reads(&self, args: &Args, _: &Context) -> Result<Vec<String>, ToolError> {
        Ok(vec![args.path.clone()])
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<Draft<Plan>, ToolError> {
        let context = invocation.context;
        let held = Held::to_change(context, std::slice::from_ref(&args.path)).await?;
        let preview = context.on_files(move |workspace| {
            let at = workspace.look(&args.path)?;
            // Rules look at the file that will change, not at a link to it.
            let real = workspace.settle(&at)?;
            let text = held.text(real.path());
            let found = match text {
                Some(text) => PreImage::Bytes(text.into()),
                None => read_whole(workspace, &at, FILE_BYTES)?,
            };
            let operation = match &found {
                PreImage::Missing => Operation::Add,
                PreImage::Bytes(_) => Operation::Modify,
            };
            let (old, Whole { text: new, bytes, kept }) = rewritten(&args, &found)?;
            let old = old + held.lost_end(real.path());
            if let Some(line) = placeholder(&args.content, &old, &old, 0) {
                return Err(ToolError::invalid(format!(
                    "content leaves text out and says so (`{line}`), which would be lost. Give \
                     the whole text, or use edit_file for a part of it"
                )));
            }
            let stamp = Stamp::of(found.bytes().unwrap_or_default());
            if found != PreImage::Missing && workspace.stamps().is_stale(real.path(), stamp) {
                let message = format!("{} has changed since it was read. Read it again", args.path);
                return Err(ToolError::report(Code::ChangedSinceRead, message));
            }
            let change = diff::change(at.path(), operation, &old, &new, Instant::now() + DIFF_TIME);
            let line = change.changed_lines().next().unwrap_or(1);
            let location = Location::try_new(at.path()).map(|at| at.at_line(line));
            let effects = Effects::from(Effect::Write(real.path().to_owned()));
            let holds_something = found.bytes().is_some_and(|found| !found.is_empty());
            let is_blind = holds_something && !workspace.stamps().knows(real.path());
            let is_sensitive = is_blind || guard::is_run(workspace, &real, &bytes);
            let effects = if is_sensitive { effects.sensitive() } else { effects };
            let blind =
                is_blind.then(|| Note::new("unread").with("path", workspace.display(at.path())));
            let is_guarded =
                guard::is_guarded(workspace, &real) || guard::is_shared(workspace, &real);
            let keeps = !kept.is_empty();
            let kept = keeps.then(|| Note::new("kept").with_notes("what", kept, ", "));
            let notes = kept.into_iter().chain(blind).chain(held.notes_of_change());
            let written = Change { at: &at, found: found.bytes(), bytes: &bytes };
            // What the client holds, the client writes.
            let written = text.is_none().then_some(written);
            let protection = Protection::of(workspace, written.as_slice())?;
            let notes: Vec<_> = notes.chain(protection.notes()).collect();
            let is_guarded = is_guarded || protection.is_risky();
            let kind = [u8::from(found == PreImage::Missing), u8::from(text.is_some())];
            let pre_image =
                [&kind[..], stamp.as_bytes(), &protection.pre_image(), &[u8::from(is_blind)]]
                    .concat();
            let as_on_disk = held.is_as_on_disk(real.path()).then(|| at.clone());
            let held = text.map(|_| (real.path().to_owned(), held.lost_end(real.path())));
            let notes_of_plan = notes.clone();
            let plan =
                Plan { at, bytes, found, held, as_on_disk, protection, notes: notes_of_plan };
            Ok(Draft {
                locations: location.ok().map(|location| vec![location]),
                changes: vec![change],
                effects,
                pre_image,
                notes,
                ..Draft::new(plan)
            }
            .guarded_if(is_guarded))
        });
        preview.await
    }

    async fn run(
        &self,
        pinned: Pinned<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let plan = pinned.release(grant)?;
        let (call, context) = (invocation.call.clone(), invocation.context.clone());
        to_its_end(async move { plan.carry_out(&call, &context).await }).await
    }
}

impl Plan {
    /// Tells the client the text, if it holds the file, or writes it.
    async fn carry_out(self, call: &CallHandle, context: &Context) -> Result<Output, ToolError> {
        require_as_on_disk(context, self.as_on_disk.iter().cloned().collect(), call.cancel())
            .await?;
        let told: Vec<_> = self.rewrite().into_iter().collect();
        rewrite(context, &told, call.cancel()).await?;
        remember(context, &told).await;
        let mut teller = Teller::of(Some(call.clone()));
        let written = context.on_files(move |workspace| {
            if self.held.is_none() {
                let (at, found) = (&self.at, self.found.bytes());
                let change = Change { at, found, bytes: &self.bytes };
                let mut watch = |far| teller.tell(far, Vec::new);
                write_all_watched(workspace, &[change], &self.protection, &mut watch)?;
            }
            Ok(self.output(workspace))
        });
        written.await
    }

    fn output(&self, workspace: &Workspace) -> Output {
        let (path, bytes) = (workspace.display(self.at.path()), self.bytes.len());
        let verb = match self.found {
            PreImage::Missing => "Made",
            PreImage::Bytes(_) => "Replaced",
        };
        let notes: String = self.notes.iter().map(|note| format!(" {note}")).collect();
        let text =
            format!("{verb} {path} ({}).{notes}", grouped_count(bytes as u64, "byte", "bytes"));
        let raw = json!({ "path": path_text(self.at.path()), "bytes": bytes });
        Output::of_change(text, raw, workspace)
    }

    /// Returns what the client is told, if it holds another text of the file.
    fn rewrite(&self) -> Option<Rewrite<'_>> {
        let (real, end) = self.held.as_ref()?;
        let found = str::from_utf8(self.found.bytes()?).ok()?;
        Some(Rewrite { at: &self.at, real, found, end, text: str::from_utf8(&self.bytes).ok()? })
    }
}

/// Returns the text that is there, and the new one in the form that it has.
fn rewritten(args: &Args, found: &PreImage) -> Result<(String, Whole), ToolError> {
    let plain = || {
        let (text, bytes) = (args.content.clone(), args.content.clone().into_bytes());
        Whole { text, bytes, kept: Vec::new() }
    };
    let Some(bytes) = found.bytes() else { return Ok((String::new(), plain())) };
    let Ok(old) = Text::decode(&args.path, bytes.to_vec()) else {
        // What is no text has no form to keep.
        return Ok((String::from_utf8_lossy(bytes).into_owned(), plain()));
    };
    let whole = old.replaced(&args.content).map_err(|letter| {
        let (path, encoding) = (&args.path, old.encoding().unwrap_or_default());
        let message = format!(
            "{path} is {encoding}, which does not have {letter:?}. Leave it out, or delete the \
             file first to write it as UTF-8"
        );
        ToolError::report(Code::Unencodable, message)
    })?;
    Ok((old.as_str().to_owned(), whole))
}
