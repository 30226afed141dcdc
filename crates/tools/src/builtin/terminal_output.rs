//! `terminal_output`: returns the output of a background command, either all of it or only the new
//! part, after the command has ended if this is requested. Without a command, lists the background
//! commands.

use std::time::Duration;

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use callboard_process::CommandInput;
use futures::future::OptionFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use super::terminal::background::{self, find_command};
use crate::background::{BackgroundCommand, CommandPhase};
use crate::error::{ErrorCode, ToolError};
use crate::limits::MAX_COMMAND_TIMEOUT;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview, ToolRole, redact_secrets, run_on_blocking_thread,
};

/// The tool `terminal_output`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalOutput;

/// The command, and the maximum time to wait.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id, such as `bg-1`. Without it, all background commands are listed.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: Option<String>,
    /// Return the whole output.
    #[schemars(extend("x-aliases" = ["all", "full"]))]
    whole: Option<bool>,
    /// Wait this long, at most 3600000, until the command ends or needs input.
    #[schemars(extend("x-aliases" = ["timeout_ms", "timeout", "timeout_millis", "timeout_milliseconds"]))]
    wait_ms: Option<u64>,
}

impl Tool for TerminalOutput {
    type Args = Args;
    type Plan = Args;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal_output".into(),
            aliases: &[],
            description: "Returns the new output of a background command, and whether it still \
                          runs or how it ended."
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
        let Some(id) = &args.id else { return CallDescription::new("terminal-list") };
        let command = context.workspace.background_commands().find_by_id(id.trim());
        let key = match command.is_none_or(|command| command.is_running()) {
            true if args.wait_ms.is_some() => "terminal-wait",
            true => "terminal-output",
            false => "terminal-output-ended",
        };
        background::describe_command_call(key, id, context)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Args>, ToolError> {
        match &args.id {
            Some(id) => drop(find_command(id, invocation.context)?),
            None if args.wait_ms.is_some() || args.whole == Some(true) => {
                return Err(ToolError::invalid_arguments("Which command? Set its `id`."));
            }
            None => {}
        }
        Ok(ToolPreview::new(args))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Args>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Args { id, whole, wait_ms } = pinned.release(grant)?;
        let Some(id) = id else { return list_commands(invocation).await };
        if let Some(wait) = wait_ms {
            let command = find_command(&id, invocation.context)?;
            wait_for_end_or_input(&command, Duration::from_millis(wait), invocation).await?;
        }
        if whole == Some(true) {
            let command = find_command(&id, invocation.context)?;
            let text = format!(
                "[{}]\n{}",
                background::status_text(&command).await?,
                full_output(&command).await?
            );
            return Ok(background::command_call_result(&command, &text, invocation));
        }
        background::status_with_new_output(&id, invocation).await
    }
}

async fn list_commands(invocation: Invocation<'_>) -> Result<ToolOutput, ToolError> {
    let commands = invocation.context.workspace.background_commands().list();
    let mut lines = Vec::with_capacity(commands.len());
    for command in &commands {
        let status = background::status_text(command).await?;
        lines.push(format!("{status}: {}", command.info.command_line));
    }
    if lines.is_empty() {
        lines.push(background::NONE_IN_BACKGROUND.to_owned());
    }
    let text = redact_secrets(invocation.call, &lines.join("\n"));
    let raw: Vec<_> = commands.iter().map(background::raw_output).collect();
    Ok(ToolOutput::for_model_and_client_alike(text, json!({ "commands": raw })))
}

/// Waits until a command has ended or reads input, but no longer than `limit`.
async fn wait_for_end_or_input(
    command: &BackgroundCommand,
    limit: Duration,
    invocation: Invocation<'_>,
) -> Result<(), ToolError> {
    let commands = invocation.context.workspace.background_commands();
    let input = command.info.input.as_ref().map(CommandInput::wait_until_input_awaited);
    tokio::select! {
        () = commands.wait_until_ended(&command.id) => Ok(()),
        Some(()) = OptionFuture::from(input) => Ok(()),
        () = sleep(limit.min(MAX_COMMAND_TIMEOUT)) => Ok(()),
        () = invocation.call.cancel_token().cancelled() => {
            let message = format!("The wait was cancelled. {} was not ended.", command.id);
            Err(ToolError::recoverable(ErrorCode::Cancelled, message))
        }
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
