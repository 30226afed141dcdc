//! Local usage counters of the calls of each tool and of the sent updates. The counters are sent
//! outside of the process only on request.

use std::collections::BTreeMap;

use acp_types::{CallEndReason, Status, ToolCallReport};
use serde::{Deserialize, Serialize};

/// Usage totals of the ended calls of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ToolUsage {
    /// Number of completed calls.
    pub completed: u64,
    /// Number of failed calls.
    pub failed: u64,
    /// Number of cancelled calls.
    pub cancelled: u64,
    /// Number of failed or cancelled calls per reason.
    pub reasons: BTreeMap<CallEndReason, u64>,
    /// Total run time, in milliseconds.
    pub total_run_ms: u64,
    /// Longest run time of one call, in milliseconds.
    pub longest_run_ms: u64,
    /// Total time between announcement and start, in milliseconds.
    pub total_queued_ms: u64,
}

impl ToolUsage {
    /// Returns the number of ended calls.
    #[must_use]
    pub fn ended_calls(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }

    fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.completed, other.completed);
        add(&mut self.failed, other.failed);
        add(&mut self.cancelled, other.cancelled);
        add(&mut self.total_run_ms, other.total_run_ms);
        add(&mut self.total_queued_ms, other.total_queued_ms);
        self.longest_run_ms = self.longest_run_ms.max(other.longest_run_ms);
        for (reason, count) in &other.reasons {
            add(self.reasons.entry(*reason).or_default(), *count);
        }
    }

    /// Adds an ended call.
    pub(crate) fn add_ended_call(&mut self, report: &ToolCallReport) {
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

/// Counts of the updates of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateCounts {
    /// Number of enqueued updates.
    pub offered: u64,
    /// Number of updates that were merged with a waiting update, so that one message contains both
    /// updates.
    pub joined: u64,
    /// Number of sent updates.
    pub sent: u64,
    /// Number of updates that could not be delivered or arrived after the end of their call.
    pub dropped: u64,
}

/// Usage counters of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCallUsage {
    /// The totals per tool, sorted by name. Calls of tools beyond the first 128 are counted under
    /// the empty name.
    pub tools: Vec<(String, ToolUsage)>,
    /// Counts of the session's updates.
    pub updates: UpdateCounts,
}

impl SessionCallUsage {
    /// Adds the calls of an earlier process of the session.
    pub fn add_earlier_process_totals(&mut self, earlier: &[(String, ToolUsage)]) {
        for (name, usage) in earlier {
            match self.tools.binary_search_by(|(other, _)| other.cmp(name)) {
                Ok(at) => self.tools[at].1.add(usage),
                Err(at) => self.tools.insert(at, (name.clone(), usage.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SessionCallUsage, ToolUsage};

    #[test]
    fn the_calls_of_an_earlier_process_are_added_by_tool() {
        let usage = |completed, longest_run_ms| ToolUsage {
            completed,
            longest_run_ms,
            total_run_ms: longest_run_ms,
            reasons: [(CallEndReason::Error, completed)].into(),
            ..ToolUsage::default()
        };
        let tools = |list: &[(&str, ToolUsage)]| -> Vec<_> {
            list.iter().map(|(name, usage)| ((*name).to_owned(), usage.clone())).collect()
        };
        let mut session =
            SessionCallUsage { tools: tools(&[("b", usage(1, 5))]), ..SessionCallUsage::default() };
        session.add_earlier_process_totals(&tools(&[("a", usage(2, 1)), ("b", usage(3, 2))]));
        let both = ToolUsage { longest_run_ms: 5, ..usage(4, 7) };
        assert_eq!(session.tools, tools(&[("a", usage(2, 1)), ("b", both)]));
    }

    use acp_types::{CallEndReason, Status, ToolCallReport};
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
            let mut report = ToolCallReport::new("c".into());
            report.status = status;
            report.meta.duration_ms = Some(ran);
            report.meta.queued_ms = Some(queued);
            report.meta.reason = reason;
            usage.add_ended_call(&report);
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
