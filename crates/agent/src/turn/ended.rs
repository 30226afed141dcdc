//! Commands in the background that have ended: the turn that learns of it shows each by a call of
//! its own, and its model is told.

use acp_lifecycle::perform;
use acp_tools::exec::text::head_tail;
use serde_json::json;
use ulid::Ulid;

use super::Turn;
use super::history::History;
use crate::limits::MAX_TOLD_END_BYTES;

/// The tool that tells of a command.
const TELLS: &str = "terminal_output";

impl Turn<'_> {
    /// Posts a call for each command whose end was not told yet, and tells the model.
    pub(super) async fn hear_ended(&self, history: &mut History) {
        if self.cancel.is_cancelled() {
            // The next turn does.
            return;
        }
        let batch = Ulid::generate().to_string();
        for command in self.context.workspace.background().take_ended() {
            let Some(open) = self.begin(&command, TELLS, &batch) else { continue };
            let tells = self.registry.call(TELLS, json!({ "id": command }), self.context);
            let told = perform(open, tells).await.text;
            let told = head_tail(&told, MAX_TOLD_END_BYTES);
            history.note(&format!("A command in the background has ended.\n{told}"));
        }
    }
}
