//! Local counters: the calls of each tool, and what became of their updates. They leave the
//! process only if somebody asks for them.

use std::collections::BTreeMap;

use acp_types::{CallEndReason, Status, ToolCallReport};

/// Sums over the calls of one tool that have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUsage {
    /// Calls that completed.
    pub completed: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Why calls failed or were cancelled: how many for each reason.
    pub reasons: BTreeMap<CallEndReason, u64>,
    /// Milliseconds that they ran, all together.
    pub total_run_ms: u64,
    /// Milliseconds that the longest of them ran.
    pub longest_run_ms: u64,
    /// Milliseconds that they waited before they ran, all together.
    pub total_queued_ms: u64,
}

impl ToolUsage {
    /// Returns how many calls have ended.
    #[must_use]
    pub fn ended_calls(&self) -> u64 {
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
        self.total_run_ms = self.total_run_ms.saturating_add(ran_ms);
        self.longest_run_ms = self.longest_run_ms.max(ran_ms);
        self.total_queued_ms =
            self.total_queued_ms.saturating_add(report.meta.queued_ms.unwrap_or(0));
    }
}

/// What became of the updates of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateCounts {
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
    pub tools: Vec<(String, ToolUsage)>,
    /// What became of what was to be sent.
    pub updates: UpdateCounts,
}

#[cfg(test)]
mod tests {
    use super::ToolUsage;
    use acp_types::{CallEndReason, CallMeta, Status, ToolCallReport};
    use pretty_assertions::assert_eq;

    #[test]
    fn calls_are_summed_by_status_and_reason() {
        let mut usage = ToolUsage::default();
        for (status, reason, ran, queued) in [
            (Status::Completed, None, 2, 1),
            (Status::Failed, Some(CallEndReason::Error), 5, 1),
            (Status::Failed, Some(CallEndReason::User), 0, 9),
            (Status::Cancelled, Some(CallEndReason::User), 3, 0),
        ] {
            let meta = CallMeta {
                duration_ms: Some(ran),
                queued_ms: Some(queued),
                reason,
                ..CallMeta::default()
            };
            usage.add(&ToolCallReport { status, meta, ..ToolCallReport::new("c".into()) });
        }
        let expected = ToolUsage {
            completed: 1,
            failed: 2,
            cancelled: 1,
            reasons: [(CallEndReason::Error, 1), (CallEndReason::User, 2)].into(),
            total_run_ms: 10,
            longest_run_ms: 5,
            total_queued_ms: 11,
        };
        assert_eq!((usage.ended_calls(), usage), (4, expected));
    }
}
