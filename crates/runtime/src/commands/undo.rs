//! The command `/undo`, which calls the undo tool in this turn to revert the last change of files.

use acp_tools::ToolRole;
use serde_json::json;

use super::{SlashCommand, SlashCommandContext};

pub(super) fn command() -> SlashCommand {
    let description = "undo the last change of files; use it again for the one before";
    SlashCommand::new("undo", description, |asked| Box::pin(undo_last_change(asked)))
        .with_availability(|_, tools| tools.registry().spec_for_role(ToolRole::Undo).is_some())
}

async fn undo_last_change(asked: SlashCommandContext<'_>) -> String {
    let turn = asked.turn;
    if let Some(tool) = turn.tools.registry().spec_for_role(ToolRole::Undo)
        && let Some(ended) = turn.call_tool_for_user(&tool.name, json!({})).await
    {
        return ended.text.trim_end().to_owned();
    }
    "Nothing can be undone in this session.".to_owned()
}
