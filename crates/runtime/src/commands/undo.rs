//! `/undo`: takes the last change of files back, by the tool that does that, as a call of this turn.

use acp_tools::ToolRole;
use serde_json::json;

use super::{CommandContext, SlashCommand};

pub(super) fn command() -> SlashCommand {
    let description = "take back the last change of files; again, the one before";
    SlashCommand::new("undo", description, |asked| Box::pin(run(asked)))
        .with_availability(|_, registry| registry.for_role(ToolRole::Undo).is_some())
}

async fn run(asked: CommandContext<'_>) -> String {
    let turn = asked.turn;
    if let Some(tool) = turn.registry.for_role(ToolRole::Undo)
        && let Some(ended) = turn.call_tool(&tool.name, json!({})).await
    {
        return ended.text.trim_end().to_owned();
    }
    "Nothing can be undone in this session.".to_owned()
}
