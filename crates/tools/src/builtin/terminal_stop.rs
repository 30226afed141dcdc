//! `terminal_stop`: ends a background command and all processes that it started.

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::terminal::background::{self, find_command};
use crate::error::ToolError;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};

/// The tool `terminal_stop`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalStop;

/// The command.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id, such as `bg-1`.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: String,
}

impl Tool for TerminalStop {
    type Args = Args;
    type Plan = Args;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal_stop".into(),
            aliases: &[],
            description: "Ends a background command and everything it started.".into(),
            kind: ToolKind::Execute,
            side_effects: SideEffects::Nothing,
            title: "terminal-stop".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        background::describe_command_call("terminal-stop", &args.id, context)
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
        let Args { id } = pinned.release(grant)?;
        let command = find_command(&id, invocation.context)?;
        command.info.stop.cancel();
        invocation.context.workspace.background_commands().wait_until_ended(&command.id).await;
        background::status_with_new_output(&id, invocation).await
    }
}
