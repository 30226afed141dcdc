//! `move_path`: moves a file or a directory to a path that does not exist yet.

use std::fmt::Display;
use std::path::Path;

use acp_lifecycle::{Effect, Effects, Grant, PinnedPlan};
use acp_types::{FileChange, FileChangeOperation, ToolKind};
use callboard_text::quote_path_unless_utf8;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::unsaved_files::UnsavedTexts;
use crate::error::{ErrorCode, ToolError};
use crate::files::remove::{ExistingEntry, inspect_entry};
use crate::files::workspace::open::EntryPath;
use crate::files::workspace::{Workspace, guard};
use crate::sandbox::denied_reads::{DeniedReadPattern, denied_read_patterns, first_denied_in};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};

/// The tool `move_path`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovePath;

/// The source and the destination.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The old path.
    #[schemars(extend("x-aliases" = ["source", "src", "source_path", "from_path", "old_path", "source_file"]))]
    from: String,
    /// Missing directories are created.
    #[schemars(extend("x-aliases" = ["destination", "dest", "dst", "target", "destination_path", "target_path", "to_path", "new_path"]))]
    to: String,
}

/// The entry to move, and its destination.
#[derive(Debug)]
pub(crate) struct Plan {
    found: ExistingEntry,
    to: EntryPath,
}

impl Tool for MovePath {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "move_path".into(),
            aliases: &["move", "rename"],
            description: "Moves or renames a file or directory. Nothing may be at the new path."
                .into(),
            kind: ToolKind::Move,
            side_effects: SideEffects::Changes,
            title: "move-path".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        CallDescription::new("move-path")
            .with_path_argument("from", &args.from, context)
            .with_path_argument("to", &args.to, context)
            .with_location(&args.from, 0, context)
            .with_location(&args.to, 0, context)
    }

    async fn paths_read_by_preview(&self, _: &Args, _: &Context) -> Result<Vec<String>, ToolError> {
        // The preview shows names only, so the call needs no permission to read the file.
        Ok(Vec::new())
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        let denied = invocation.call.session().update(|it, _| denied_read_patterns(it.rules()));
        let unsaved = UnsavedTexts::notes_for_removal(context, &args.from).await;
        let preview = context.run_blocking(move |workspace| {
            let found = inspect_entry(workspace, &workspace.resolve(&args.from)?)?;
            let to =
                EntryPath::resolve_without_following(workspace, &workspace.resolve(&args.to)?)?;
            found.require_movable(workspace, &to)?;
            let (old, new) = (found.entry.path.path().to_owned(), to.path.path().to_owned());
            if new.starts_with(&old) {
                let message = format!("{} lies in {}", args.to, args.from);
                return Err(ToolError::invalid_arguments(message));
            }
            if found.is_directory() {
                require_no_denied_read(workspace, &denied, &old)?;
            }
            let (is_directory, has_unsaved) = (found.is_directory(), !unsaved.is_empty());
            let moved = guard::ask_reason_for_removal(workspace, &found.entry.path, is_directory);
            let written = guard::ask_reason_for_change(workspace, &to.path);
            let ask_reasons: Vec<_> = moved.into_iter().chain(written).collect();
            // At the new path, other rules for reading may apply. If a move did not require
            // permission to read the old path, a call could move a file in order to read it.
            let read = if found.is_directory() { Effect::Search } else { Effect::Read };
            let effects =
                [read(old.clone()), Effect::Delete(old.clone()), Effect::Write(new.clone())];
            let effects: Effects = effects.into_iter().collect();
            Ok(ToolPreview {
                changes: vec![FileChange::new(FileChangeOperation::Move { from: old }, new)],
                effects,
                pre_image: found.fingerprint.kind_and_hash_bytes(),
                notes: found.size_note().into_iter().chain(unsaved).collect(),
                ..ToolPreview::new(Plan { found, to })
            }
            .always_ask_if(has_unsaved)
            .always_ask_because(ask_reasons))
        });
        preview.await
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Plan { found, to } = pinned.release(grant)?;
        let run = invocation.context.run_blocking(move |workspace| {
            found.move_and_record_undo(workspace, &to)?;
            let (from, to) = (found.entry.path.path(), to.path.path());
            let shown = |path| workspace.display(path);
            let text = format!("Moved {} to {}.", shown(from), shown(to));
            let raw =
                json!({ "from": quote_path_unless_utf8(from), "to": quote_path_unless_utf8(to) });
            Ok(ToolOutput::for_change_with_warnings(text, raw, workspace))
        });
        run.await
    }
}

/// Requires that a folder contains no file that a rule denies reading. At its new path, another
/// rule might permit it.
fn require_no_denied_read(
    workspace: &Workspace,
    denied: &[DeniedReadPattern],
    folder: &Path,
) -> Result<(), ToolError> {
    let refused = |why: &dyn Display| {
        let message = format!("{} cannot be moved: {why}", workspace.display(folder));
        ToolError::recoverable(ErrorCode::NotPermitted, message)
    };
    match first_denied_in(denied, folder).map_err(|error| refused(&error))? {
        Some(path) => {
            let path = workspace.display(&path);
            Err(refused(&format_args!("a rule denies reading {path} in it")))
        }
        None => Ok(()),
    }
}
