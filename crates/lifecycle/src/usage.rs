//! Local counters: the calls of each tool, and what became of their updates. They leave the
//! process only if somebody asks for them.

use std::collections::BTreeMap;

use acp_types::{Reason, Status, ToolCallReport};

/// Sums over the calls of one tool that have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls that completed.
    pub completed: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Why calls failed or were cancelled: how many for each reason.
    pub reasons: BTreeMap<Reason, u64>,
    /// Milliseconds that they ran, all together.
    pub ran_ms: u64,
    /// Milliseconds that the longest of them ran.
    pub longest_ms: u64,
    /// Milliseconds that they waited before they ran, all together.
    pub queued_ms: u64,
}

impl Usage {
    /// Returns how many calls have ended.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }

    /// Adds a call that has ended.
    pub(crate) fn add(&mut self, report: &ToolCallReport) {
        match report.status {
            Status::Completed => self.completed += 1,
            Status::Cancelled => self.cancelled += 1,
            _ => self.failed += 1,
        }
        if let Some(reason) = report.meta.reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
        let ran_ms = report.meta.duration_ms.unwrap_or(0);
        self.ran_ms = self.ran_ms.saturating_add(ran_ms);
        self.longest_ms = self.longest_ms.max(ran_ms);
        self.queued_ms = self.queued_ms.saturating_add(report.meta.queued_ms.unwrap_or(0));
    }
}

/// What became of the updates of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Updates {
    /// Changes offered to be sent.
    pub offered: u64,
    /// Those joined to one that was waiting, so that one message told both.
    pub joined: u64,
    /// Those sent.
    pub sent: u64,
    /// Those that could not be sent, and those that came after the end of their call.
    pub dropped: u64,
}

/// What a session did so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// The sums of each tool, in the order of the names. The calls of tools beyond the first 128
    /// are under the empty name.
    pub tools: Vec<(String, Usage)>,
    /// What became of what was to be sent.
    pub updates: Updates,
}

#[cfg(test)]
mod tests {
    use super::Usage;
    use acp_types::{CallMeta, Reason, Status, ToolCallReport};
    use pretty_assertions::assert_eq;

    #[test]
    fn calls_are_summed_by_status_and_reason() {
        let mut usage = Usage::default();
        for (status, reason, ran, queued) in [
            (Status::Completed, None, 2, 1),
            (Status::Failed, Some(Reason::Error), 5, 1),
            (Status::Failed, Some(Reason::User), 0, 9),
            (Status::Cancelled, Some(Reason::User), 3, 0),
        ] {
            let meta = CallMeta {
                duration_ms: Some(ran),
                queued_ms: Some(queued),
                reason,
                ..CallMeta::default()
            };
            usage.add(&ToolCallReport { status, meta, ..ToolCallReport::new("c".into()) });
        }
        let expected = Usage {
            completed: 1,
            failed: 2,
            cancelled: 1,
            reasons: [(Reason::Error, 1), (Reason::User, 2)].into(),
            ran_ms: 10,
            longest_ms: 5,
            queued_ms: 11,
        };
        assert_eq!((usage.calls(), usage), (4, expected));
    }
}
