//! The tool of the command `/rewind`.

use acp_lifecycle::{Grant, PinnedPlan};
use acp_tools::{
    CallDescription, Context, Invocation, Note, SideEffects, Spec, Tool, ToolError, ToolOutput,
    ToolPreview,
};
use acp_types::{Location, ToolKind};
use callboard_text::path_text;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{SessionRewind, SessionRewindPlan, change_paths};
use crate::limits::MAX_NAMED_PATHS;

/// The tool of `/rewind`. The tool is not offered to models. Each call requests permission, and the
/// request shows the changes of files.
pub(crate) struct RewindCommandTool(pub(crate) SessionRewind);

impl RewindCommandTool {
    pub(crate) const NAME: &'static str = "rewind";
}

/// The arguments of [`RewindCommandTool`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RewindArgs {
    /// The first prompt that is removed.
    prompt: u32,
}

impl Tool for RewindCommandTool {
    type Args = RewindArgs;
    type Plan = SessionRewindPlan;

    fn spec(&self) -> Spec {
        let description = "Restores the files and the history of the session before a prompt.";
        Spec::new(Self::NAME, description, ToolKind::Edit).with_side_effects(SideEffects::Changes)
    }

    fn describe(&self, args: &RewindArgs, _: &Context) -> CallDescription {
        CallDescription::new(Self::NAME).with_argument("prompt", args.prompt.to_string())
    }

    async fn paths_read_by_preview(
        &self,
        args: &RewindArgs,
        context: &Context,
    ) -> Result<Vec<String>, ToolError> {
        let (files, _) = self.0.plan_file_restoration(args.prompt).await?;
        let paths = files.changes().iter().flat_map(change_paths);
        Ok(paths.map(|path| context.workspace.display(path)).collect())
    }

    async fn preview(
        &self,
        args: RewindArgs,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<SessionRewindPlan>, ToolError> {
        let plan = self.0.plan(args.prompt).await?;
        let changes = plan.changes().to_vec();
        let locations =
            changes.iter().filter_map(|change| Location::try_new(&change.path).ok()).collect();
        let first = Note::new("rewind-removes").with_text("prompt", args.prompt.to_string());
        let kept = plan.kept().iter().take(MAX_NAMED_PATHS);
        let kept = kept.map(|kept| kept.note(&invocation.context.workspace));
        let modes = plan.files.mode_notes(&invocation.context.workspace).into_iter();
        let notes = [first].into_iter().chain(modes.take(MAX_NAMED_PATHS)).chain(kept);
        let notes = notes.chain(plan.unrecorded_note()).collect();
        let pre_image = plan.files.fingerprint().to_vec();
        let effects = plan.effects().always_ask();
        let mut preview = ToolPreview::new(plan).with_effects(effects).with_changes(changes);
        (preview.locations, preview.notes, preview.pre_image) = (Some(locations), notes, pre_image);
        Ok(preview)
    }

    async fn run(
        &self,
        pinned: PinnedPlan<SessionRewindPlan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let plan = pinned.release(grant)?;
        let text = plan.report(&invocation.context.workspace);
        let paths = plan.changes().iter().map(|change| path_text(&change.path).into_owned());
        let raw = json!({ "paths": paths.collect::<Vec<_>>(), "prompt": plan.prompt });
        self.0.run(plan, true).await?;
        let mut output = ToolOutput::new(text);
        output.raw_output = Some(raw);
        Ok(output)
    }
}

impl std::fmt::Debug for RewindCommandTool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RewindCommandTool")
    }
}
