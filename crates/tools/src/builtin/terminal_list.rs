//! `terminal_list`: lists the running and the finished background commands.

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::terminal::background;
use crate::error::ToolError;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview, redact_secrets,
};

/// The tool `terminal_list`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalList;

/// No arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

impl Tool for TerminalList {
    type Args = Args;
    type Plan = ();

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal_list".into(),
            aliases: &[],
            description: "Lists the background commands of this session with their ids and their \
                          status."
                .into(),
            kind: ToolKind::Read,
            side_effects: SideEffects::Nothing,
            title: "terminal-list".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, _: &Args, _: &Context) -> CallDescription {
        CallDescription::new("terminal-list")
    }

    async fn preview(&self, _: Args, _: Invocation<'_>) -> Result<ToolPreview<()>, ToolError> {
        Ok(ToolPreview::new(()))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        pinned.release(grant)?;
        let commands = invocation.context.workspace.background_commands().list();
        let mut lines = Vec::with_capacity(commands.len());
        for command in &commands {
            lines.push(format!(
                "{}: {}",
                background::status_text(command).await?,
                command.info.command_line
            ));
        }
        if lines.is_empty() {
            lines.push("No command of this session is or was in the background.".to_owned());
        }
        let text = redact_secrets(invocation.call, &lines.join("\n"));
        let raw: Vec<_> = commands.iter().map(background::raw_output).collect();
        Ok(ToolOutput::for_model_and_client(text, json!({ "commands": raw })))
    }
}
