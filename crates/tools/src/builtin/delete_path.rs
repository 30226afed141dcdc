//! `delete_path`: deletes a file or a directory. A backup is stored if possible.

use acp_lifecycle::{Effect, Effects, Grant, PinnedPlan};
use acp_types::ToolKind;
use callboard_text::quote_path_unless_utf8;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::unsaved_files::UnsavedTexts;
use crate::error::ToolError;
use crate::files::remove::{ExistingEntry, inspect_entry_with_text};
use crate::files::workspace::guard;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};

/// The tool `delete_path`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeletePath;

/// The path of the entry to delete.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// A link is deleted, not its target.
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file", "absolute_path", "relative_path", "relative_workspace_path", "target", "dir", "directory", "folder"]))]
    path: String,
}

/// The entry that the call deletes.
#[derive(Debug)]
pub(crate) struct Plan(ExistingEntry);

impl Tool for DeletePath {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "delete_path".into(),
            aliases: &["delete", "remove"],
            description: "Deletes a file, or a directory with its content. `undo` restores it, \
                          unless the result says otherwise."
                .into(),
            kind: ToolKind::Delete,
            side_effects: SideEffects::Changes,
            title: "delete-path".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        CallDescription::new("delete-path")
            .with_path_argument("path", &args.path, context)
            .with_location(&args.path, 0, context)
    }

    async fn paths_read_by_preview(
        &self,
        args: &Args,
        context: &Context,
    ) -> Result<Vec<String>, ToolError> {
        // A path outside of the project folders is refused before permission to read it is
        // requested.
        context.workspace.resolve(&args.path)?;
        Ok(vec![args.path.clone()])
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        let unsaved = UnsavedTexts::notes_for_removal(context, &args.path).await;
        let preview = context.run_blocking(move |workspace| {
            let found = inspect_entry_with_text(workspace, &workspace.resolve(&args.path)?)?;
            found.require_restorable_or_inspected()?;
            let effects = Effects::from(Effect::Delete(found.entry.path.path().to_owned()));
            let (path, is_directory) = (&found.entry.path, found.is_directory());
            let ask_reason = guard::ask_reason_for_removal(workspace, path, is_directory);
            let always_asks = !found.can_be_restored() || !unsaved.is_empty();
            let notes = found.size_note().into_iter().chain(found.restorability_note());
            Ok(ToolPreview {
                changes: vec![found.deletion_change()],
                effects,
                pre_image: found.fingerprint.kind_and_hash_bytes(),
                notes: notes.chain(unsaved).collect(),
                ..ToolPreview::new(Plan(found))
            }
            .always_ask_if(always_asks)
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
        let Plan(found) = pinned.release(grant)?;
        let run = invocation.context.run_blocking(move |workspace| {
            found.delete_and_record_undo(workspace)?;
            let path = found.entry.path.path();
            let mut text = format!("Deleted {}.", workspace.display(path));
            text.extend(found.restorability_note().map(|caveat| format!(" {caveat}")));
            Ok(ToolOutput::for_change_with_warnings(
                text,
                json!({ "path": quote_path_unless_utf8(path) }),
                workspace,
            ))
        });
        run.await
    }
}
