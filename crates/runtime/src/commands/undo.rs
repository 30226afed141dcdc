//! `/undo`: takes the last change of files back, by the tool of that name, as a call of this turn.

use futures::FutureExt as _;
use serde_json::json;

use super::SlashCommand;
use crate::turn::Turn;

pub(super) const COMMAND: SlashCommand = SlashCommand {
    name: TOOL,
    hint: "",
    description: "take back the last change of files; again, the one before",
    run: |asked, _| run(asked.turn).boxed(),
};

/// The tool that does it.
pub(super) const TOOL: &str = "undo";

async fn run(turn: Turn<'_>) -> String {
    match turn.call(TOOL, json!({})).await {
        Some(ended) => ended.text.trim_end().to_owned(),
        None => "Nothing can be undone in this session.".to_owned(),
    }
}
