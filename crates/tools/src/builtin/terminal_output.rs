//! `terminal_output`: returns the output of a background command, either all of it or only the new
//! part.

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::terminal::background::{self, find_command};
use crate::background::{BackgroundCommand, CommandPhase};
use crate::error::ToolError;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview, ToolRole, run_on_blocking_thread,
};

/// The tool `terminal_output`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalOutput;

/// The command.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id of the command, such as `bg-1`.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: String,
    /// Return the whole output.
    #[schemars(extend("x-aliases" = ["all", "full"]))]
    whole: Option<bool>,
}

impl Tool for TerminalOutput {
    type Args = Args;
    type Plan = Args;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal_output".into(),
            aliases: &[],
            description: "Returns the output of a background command since the last call, and \
                          whether it still runs or how it ended. Does not wait."
                .into(),
            kind: ToolKind::Read,
            side_effects: SideEffects::Nothing,
            title: "terminal-output".into(),
            display: OutputDisplay::Content,
        }
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::CommandEnd)
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let command = context.workspace.background_commands().find_by_id(args.id.trim());
        let key = match command.is_none_or(|command| command.is_running()) {
            true => "terminal-output",
            false => "terminal-output-ended",
        };
        background::describe_command_call(key, &args.id, context)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Args>, ToolError> {
        let context = invocation.context;
        find_command(&args.id, context)?;
        Ok(ToolPreview::new(args))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Args>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let args = pinned.release(grant)?;
        if args.whole == Some(true) {
            let command = find_command(&args.id, invocation.context)?;
            let text = format!(
                "[{}]\n{}",
                background::status_text(&command).await?,
                full_output(&command).await?
            );
            return Ok(background::command_result(&command, &text, invocation));
        }
        background::status_with_new_output(&args.id, invocation).await
    }
}

async fn full_output(command: &BackgroundCommand) -> Result<String, ToolError> {
    match command.phase.clone() {
        CommandPhase::Running(recording) => {
            run_on_blocking_thread(move || Ok(recording.snapshot().for_model())).await
        }
        CommandPhase::Ended(done) => Ok(done.recorded.for_model()),
    }
}
