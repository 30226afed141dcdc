//! `/undo`: takes the last change of files back, by the tool of that name, as a call of this turn.

use acp_lifecycle::perform;
use acp_types::id::tool_call_id;
use futures::FutureExt as _;
use serde_json::json;
use ulid::Ulid;

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
    let Turn { name, registry, context, handle, cancel, .. } = turn;
    let is_taken = |id: &str| handle.has_seen(&id.to_owned().into());
    let id = tool_call_id(name, TOOL, is_taken, || Ulid::generate().to_string());
    let open = match registry.spec(TOOL) {
        Some(_) => registry.announce(handle, &id, name, TOOL, context, cancel),
        None => None,
    };
    let Some(open) = open else { return "Nothing can be undone in this session.".to_owned() };
    // A task of its own: whoever cancels the turn does not wait for it, and it ends as it should.
    let undone = tokio::spawn(perform(open, registry.call(TOOL, json!({}), context))).await;
    let Ok(ended) = undone else { return "The call was lost by a fault of the agent.".to_owned() };
    if ended.ends_turn {
        cancel.cancel();
    }
    ended.text.trim_end().to_owned()
}
