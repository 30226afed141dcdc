//! `terminal_wait`: waits until a command in the background has ended.

use std::time::Duration;

use acp_lifecycle::{Grant, Pinned};
use acp_types::ToolKind;
use futures::future::OptionFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use super::terminal::background::{self, find};
use crate::error::{Code, ToolError};
use crate::limits::{BACKGROUND_WAIT, COMMAND_TIMEOUT_MAX};
use crate::tool::{Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool};
use callboard_process::Input;

/// Waits for the end of a command in the background.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalWait;

/// For which command, and how long.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id that the command got when it went to the background, such as `bg-1`.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: String,
    /// Milliseconds after which the wait is over though it runs on; 60000 if not given, at most
    /// 3600000.
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
            description: "Waits until a command in the background has ended, or for input, or a \
                          time is over. Returns what it has written since it was looked at last, \
                          and how it ended. A command that still runs then runs on."
                .into(),
            kind: ToolKind::Read,
            reach: Reach::Nothing,
            title: "terminal-wait".into(),
            surface: Surface::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        background::describe("terminal-wait", &args.id, context)
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
        let Args { id, timeout_ms } = pinned.release(grant)?;
        let command = find(&id, invocation.context)?;
        let within = timeout_ms.map_or(BACKGROUND_WAIT, Duration::from_millis);
        tokio::select! {
            () = invocation.context.workspace.background().ended(&command.id) => {}
            Some(()) = OptionFuture::from(command.job.input.as_ref().map(Input::awaited)) => {}
            () = sleep(within.min(COMMAND_TIMEOUT_MAX)) => {}
            () = invocation.call.cancel().cancelled() => {
                let message = format!("The wait was cancelled. {} was not ended by it.", command.id);
                return Err(ToolError::report(Code::Cancelled, message));
            }
        }
        background::news(&id, invocation).await
    }
}
