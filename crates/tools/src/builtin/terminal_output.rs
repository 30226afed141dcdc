//! `terminal_output`: what a command in the background wrote since the last look, or all of it.

use acp_lifecycle::{Grant, Pinned};
use acp_types::ToolKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::terminal::background::{self, find};
use crate::error::ToolError;
use crate::terminal::{Command, Phase};
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, ToolRole, blocking,
};

/// Reads the output of a command in the background.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalOutput;

/// Of which command.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id that the command got when it went to the background, such as `bg-1`.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: String,
    /// Whether all that it wrote is told, not only what is new since the last look.
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
            description: "Returns what a command in the background has written since it was \
                          looked at last, and whether it still runs or how it ended. Does not \
                          wait. Long output is shown by its beginning and end."
                .into(),
            kind: ToolKind::Read,
            reach: Reach::Nothing,
            title: "terminal-output".into(),
            surface: Surface::Content,
        }
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::CommandEnd)
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        let command = context.workspace.background().find(args.id.trim());
        let key = match command.is_none_or(|command| command.is_running()) {
            true => "terminal-output",
            false => "terminal-output-ended",
        };
        background::describe(key, &args.id, context)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<Draft<Args>, ToolError> {
        let context = invocation.context;
        find(&args.id, context)?;
        Ok(Draft::new(args))
    }

    async fn run(
        &self,
        pinned: Pinned<Args>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let args = pinned.release(grant)?;
        if args.whole == Some(true) {
            let command = find(&args.id, invocation.context)?;
            let text =
                format!("[{}]\n{}", background::state(&command).await?, all(&command).await?);
            return Ok(background::shown(&command, &text, invocation.call));
        }
        background::news(&args.id, invocation).await
    }
}

async fn all(command: &Command) -> Result<String, ToolError> {
    match command.phase.clone() {
        Phase::Running(recording) => blocking(move || Ok(recording.so_far().for_model())).await,
        Phase::Ended(done) => Ok(done.recorded.for_model()),
    }
}
