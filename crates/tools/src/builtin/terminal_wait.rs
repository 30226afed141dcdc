//! `terminal_wait`: waits until a background command has finished.

use std::time::Duration;

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use futures::future::OptionFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use super::terminal::background::{self, find_command};
use crate::error::{ErrorCode, ToolError};
use crate::limits::{DEFAULT_BACKGROUND_WAIT, MAX_COMMAND_TIMEOUT};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};
use callboard_process::CommandInput;

/// The tool `terminal_wait`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalWait;

/// The command, and the maximum time to wait.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id of the command, such as `bg-1`.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: String,
    /// Milliseconds to wait, at most 3600000; 60000 by default.
    #[schemars(extend("x-aliases" = ["timeout", "timeout_millis", "timeout_milliseconds"]))]
    timeout_ms: Option<u64>,
}

impl Tool for TerminalWait {
    type Args = Args;
    type Plan = Args;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal_wait".into(),
            aliases: &[],
            description: "Waits until a background command ends or waits for input. Returns its \
                          output since the last call, and how it ended. Does not end it."
                .into(),
            kind: ToolKind::Read,
            side_effects: SideEffects::Nothing,
            title: "terminal-wait".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        background::describe_command_call("terminal-wait", &args.id, context)
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
        let Args { id, timeout_ms } = pinned.release(grant)?;
        let command = find_command(&id, invocation.context)?;
        let within = timeout_ms.map_or(DEFAULT_BACKGROUND_WAIT, Duration::from_millis);
        tokio::select! {
            () = invocation.context.workspace.background_commands().wait_until_ended(&command.id) => {}
            Some(()) = OptionFuture::from(command.info.input.as_ref().map(CommandInput::wait_until_input_awaited)) => {}
            () = sleep(within.min(MAX_COMMAND_TIMEOUT)) => {}
            () = invocation.call.cancel_token().cancelled() => {
                let message = format!("The wait was cancelled. {} was not ended.", command.id);
                return Err(ToolError::recoverable(ErrorCode::Cancelled, message));
            }
        }
        background::status_with_new_output(&id, invocation).await
    }
}
