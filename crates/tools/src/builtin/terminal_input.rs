//! `terminal_input`: types text into the terminal of a background command.

use std::path::PathBuf;

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use super::terminal::background::{self, find_command};
use crate::builtin::terminal::risks;
use crate::error::{ErrorCode, ToolError};
use crate::limits::{BACKGROUND_START_WAIT, MAX_TERMINAL_INPUT_BYTES};
use crate::note::Note;
use crate::sandbox::CommandIsolation;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview, run_on_blocking_thread,
};
use callboard_process::CommandInput;

/// The tool `terminal_input`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalInput;

/// The input, and the id of the command that receives it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The id, such as `bg-1`.
    #[schemars(extend("x-aliases" = ["bash_id", "shell_id", "session_id", "task_id", "terminal_id", "process_id", "command_id"]))]
    id: String,
    /// A line break is the Enter key, U+0003 is Ctrl-C, U+0004 is Ctrl-D.
    #[schemars(extend("x-aliases" = ["input", "chars", "keys", "stdin", "data"]))]
    text: String,
}

/// The input, and the command that receives it.
#[derive(Debug)]
pub(crate) struct Plan {
    id: String,
    text: String,
    input: CommandInput,
}

impl Tool for TerminalInput {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal_input".into(),
            aliases: &[],
            description: "Types text at the terminal of a background command that was started \
                          with `tty`, and returns its output after half a second."
                .into(),
            kind: ToolKind::Execute,
            side_effects: SideEffects::Anything,
            title: "terminal-input".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        background::describe_command_call("terminal-input", &args.id, context)
            .with_argument("text", &args.text)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        let command = find_command(&args.id, context)?;
        let Args { text, .. } = args;
        if text.is_empty() {
            return Err(ToolError::invalid_arguments("The text is empty."));
        }
        if text.len() > MAX_TERMINAL_INPUT_BYTES {
            let message = format!(
                "The text is {} bytes long, and the limit is {MAX_TERMINAL_INPUT_BYTES}.",
                text.len()
            );
            return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
        }
        if !command.is_running() {
            let message = format!("{} has ended and no longer reads input.", command.id);
            return Err(ToolError::recoverable(ErrorCode::NotFound, message));
        }
        let Some(input) = command.info.input else {
            let message = format!(
                "{} has no terminal for input. Start it again with `tty` if it has to read \
                 input.",
                command.id
            );
            return Err(ToolError::invalid_arguments(message));
        };
        // The program that reads the input is unknown, so permission rules for commands do not
        // apply. The program may be a shell. If a command line always requires permission, typing
        // the same line therefore also requires permission.
        let (workspace, line) = (context.workspace.clone(), text.clone());
        let home = context.env.get("HOME").map(PathBuf::from);
        let judged = run_on_blocking_thread(move || {
            Ok(risks::assess_terminal_input(&line, home.as_deref(), &workspace))
        });
        let risks::RiskAssessment { effects, note } = judged.await?;
        // A person allowed only the line that started the command, so typing is another command.
        let is_unconfined =
            !command.info.is_sandboxed && !matches!(&*context.isolation, CommandIsolation::Off);
        let (effects, outside) = match is_unconfined {
            true => (effects.always_ask(), Some(Note::new("typing-outside-sandbox"))),
            false => (effects, None),
        };
        let notes = note.into_iter().chain(outside).collect();
        Ok(ToolPreview { effects, notes, ..ToolPreview::new(Plan { id: command.id, text, input }) })
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Plan { id, text, input } = pinned.release(grant)?;
        let bytes = text.len();
        let typed = run_on_blocking_thread(move || {
            input.type_text(&text).map_err(|error| {
                ToolError::recoverable(
                    ErrorCode::Io,
                    format!("The input could not be sent: {error}."),
                )
            })
        });
        let typed = typed.await?;
        tokio::select! {
            () = sleep(BACKGROUND_START_WAIT) => {}
            () = invocation.context.workspace.background_commands().wait_until_ended(&id) => {}
            () = invocation.call.cancel_token().cancelled() => {}
        }
        let output = background::status_with_new_output(&id, invocation).await?;
        if typed == bytes {
            return Ok(output);
        }
        let were_accepted = if bytes == 1 { "byte was accepted" } else { "bytes were accepted" };
        let text = format!("Only {typed} of {bytes} {were_accepted}.\n{}", output.text);
        Ok(ToolOutput {
            text,
            failure: Some((ErrorCode::TimedOut, acp_types::CallEndReason::Error)),
            ..output
        })
    }
}
