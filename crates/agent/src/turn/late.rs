//! What other programs wrote late to files that the session had replaced: results of changes tell of
//! it, and turns of what came after the last one.

use super::Turn;
use super::history::History;

impl Turn<'_> {
    /// Tells the user and the model of it. What a cancelled turn does not come to, the next one
    /// does.
    pub(super) async fn hear_late(&self, history: &mut History) {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            late = self.context.late_writes() => {
                for told in late {
                    history.note(&told);
                    self.aside(told);
                }
            }
        }
    }
}
