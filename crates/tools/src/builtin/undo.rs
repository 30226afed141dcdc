//! `undo`: reverts the last file change that the session made.

use std::path::PathBuf;

use acp_lifecycle::{Effect, Effects, Grant, PinnedPlan};
use acp_types::ToolKind;
use callboard_text::path_text;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::change_locations;
use crate::error::ToolError;
use crate::files::undo::{SkippedRestore, UndoPlan};
use crate::files::workspace::{Workspace, WorkspacePath, guard};
use crate::note::Note;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview, ToolRole,
};

/// The tool `undo`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Undo;

/// No arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

/// The changes to revert.
#[derive(Debug)]
pub(crate) struct Plan(UndoPlan);

impl Tool for Undo {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "undo".into(),
            aliases: &[],
            description: "Undoes the last recorded change of project files, by a tool or a \
                          command. Call it again for the change before."
                .into(),
            kind: ToolKind::Edit,
            side_effects: SideEffects::Changes,
            title: "undo".into(),
            display: OutputDisplay::Content,
        }
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Undo)
    }

    fn describe(&self, _: &Args, _: &Context) -> CallDescription {
        CallDescription::new("undo")
    }

    async fn paths_read_by_preview(
        &self,
        _: &Args,
        context: &Context,
    ) -> Result<Vec<String>, ToolError> {
        let places = context.run_blocking(|workspace| {
            let undoing = UndoPlan::for_last_session_change(workspace)?;
            Ok(undoing.affected_paths().map(|(path, _)| path_text(path).into_owned()).collect())
        });
        places.await
    }

    async fn preview(
        &self,
        _: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        let preview = context.run_blocking(|workspace| {
            // Detect late writes first, so that the plan includes them.
            workspace.detect_late_writes();
            let undoing = UndoPlan::for_last_session_change(workspace)?;
            let changes: Vec<_> = undoing.changes().collect();
            let effects: Effects = undoing
                .affected_paths()
                .map(|(path, is_gone)| {
                    let path = path.to_owned();
                    if is_gone { Effect::Delete(path) } else { Effect::Write(path) }
                })
                .chain(undoing.created_directories().map(|at| Effect::Delete(at.path().to_owned())))
                .collect();
            let files = undoing.affected_workspace_paths();
            let files = files.filter_map(|(at, _)| guard::ask_reason_for_change(workspace, at));
            let directories = undoing.created_directories();
            let directories =
                directories.filter_map(|at| guard::ask_reason_for_removal(workspace, at, false));
            let ask_reasons: Vec<_> = files.chain(directories).collect();
            let late = workspace.take_late_writes().into_iter();
            let late = late.map(|late| late.note(workspace.display(&late.path)));
            let protection = undoing.crash_protection();
            let notes = mode_and_skip_notes(&undoing, workspace).into_iter().chain(late);
            let notes = notes.chain(protection.notes());
            let notes = notes.chain(removed_directories_note(&undoing, workspace));
            let is_torn_by_crash = protection.can_crash_mix_contents();
            Ok(ToolPreview {
                locations: Some(change_locations(&changes)),
                changes,
                effects,
                pre_image: [undoing.state_fingerprint(), protection.fingerprint()].concat(),
                notes: notes.collect(),
                ..ToolPreview::new(Plan(undoing))
            }
            .always_ask_if(is_torn_by_crash)
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
        let Plan(undoing) = pinned.release(grant)?;
        let run = invocation.context.run_blocking(move |workspace| {
            let mut paths: Vec<_> = Vec::new();
            for (path, _) in undoing.affected_paths() {
                // A path whose entry is replaced is removed and restored.
                let name = workspace.display(path);
                if !paths.contains(&name) {
                    paths.push(name);
                }
            }
            let notes: Vec<_> =
                mode_and_skip_notes(&undoing, workspace).iter().map(Note::to_string).collect();
            let keeps_files = undoing.backs_up_replaced_files();
            let directories = undoing.run(workspace)?;
            paths.extend(directories.removed.iter().map(|path| workspace.display(path)));
            let kept = workspace
                .display_first(directories.kept.iter().map(PathBuf::as_path))
                .map(|names| Note::new("stays-folders").with_text("names", names));
            let mut text = match &paths[..] {
                [] => String::new(),
                paths => format!("Took back the last change, of {}.\n", paths.join(", ")),
            };
            let notes = notes.into_iter().chain(kept.iter().map(Note::to_string));
            text.push_str(&notes.collect::<Vec<_>>().join("\n"));
            if let Some(folder) =
                workspace.undo_store().session_folder_if_created().filter(|_| keeps_files)
            {
                let folder = path_text(&folder);
                text.push_str(&format!(
                    "\nThe versions from before this undo are kept in {folder}."
                ));
            }
            let raw = Some(json!({ "paths": paths }));
            Ok((kept, ToolOutput { text, raw_output: raw, ..ToolOutput::default() }))
        });
        let (kept, output) = run.await?;
        kept.iter().for_each(|note| invocation.append_note(note));
        Ok(output)
    }
}

/// Returns a note that names the directories that the undo removes, if any.
fn removed_directories_note(undoing: &UndoPlan, workspace: &Workspace) -> Option<Note> {
    let directories =
        workspace.display_first(undoing.created_directories().map(WorkspacePath::path))?;
    Some(Note::new("removes-empty").with_text("paths", directories))
}

/// Returns notes about the modes that change, and about the parts of the last change that cannot be
/// undone.
fn mode_and_skip_notes(undoing: &UndoPlan, workspace: &Workspace) -> Vec<Note> {
    let note = |SkippedRestore { path, reason: why, backup: kept }: &SkippedRestore| {
        let Some(kept) = kept else { return workspace.not_reverted_note(path, why.clone()) };
        let note = Note::new("stays-kept").with_text("path", workspace.display(path));
        note.with_joined_notes("why", [why.clone()], "").with_text("kept", path_text(kept))
    };
    let mut skipped: Vec<_> = skipped_restores_per_path(undoing).iter().map(note).collect();
    if !skipped.is_empty() && undoing.has_earlier_change() {
        skipped.push(Note::new("undo-before"));
    }
    let modes = undoing.mode_changes();
    let modes = modes.filter_map(|(path, modes)| modes.note(workspace.display(path)));
    modes.chain(skipped).collect()
}

/// Returns the files that the undo skips, each only once. An entry that was replaced by another
/// kind of entry was removed and created. The first reason is about the created entry, and only the
/// removed entry has a backup.
fn skipped_restores_per_path(undoing: &UndoPlan) -> Vec<SkippedRestore> {
    let mut files = Vec::<SkippedRestore>::new();
    for skipped in undoing.skipped() {
        match files.iter_mut().find(|file| file.path == skipped.path) {
            Some(file) if file.backup.is_none() => file.backup.clone_from(&skipped.backup),
            Some(_) => {}
            None => files.push(skipped.clone()),
        }
    }
    files
}
