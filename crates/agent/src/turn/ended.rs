//! Commands in the background that have ended: the turn that learns of it shows each by a call of
//! its own, and its model is told.

use acp_types::Status;
use callboard_process::text::head_tail;
use serde_json::json;
use ulid::Ulid;

use super::Turn;
use super::history::History;
use crate::limits::MAX_TOLD_END_BYTES;

/// The tool that tells of a command.
const TELLS: &str = "terminal_output";

impl Turn<'_> {
    /// Posts a call for each command whose end was not told yet, and tells the model. What a
    /// cancelled turn does not come to, the next one does.
    pub(super) async fn hear_ended(&self, history: &mut History) {
        let batch = Ulid::generate().to_string();
        let background = self.context.workspace.background();
        while !self.cancel.is_cancelled()
            && let Some(command) = background.next_ended()
        {
            let Some(open) = self.begin(&command, TELLS, &batch) else { continue };
            let told = self.perform(open, TELLS, json!({ "id": command })).await;
            history.note(&match told.status {
                Status::Completed => {
                    let told = head_tail(&told.text, MAX_TOLD_END_BYTES);
                    format!("A command in the background has ended.\n{told}")
                }
                _ => format!("{command} in the background has ended. {TELLS} tells how."),
            });
        }
    }
}
