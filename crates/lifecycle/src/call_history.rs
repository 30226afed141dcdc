//! The history of ended calls: a limited number of their reports, and usage totals per tool.

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher as _;

use acp_types::{Status, ToolCallId, ToolCallReport};
use foldhash::HashMap;
use foldhash::quality::FixedState;
use serde_json::Value;

use crate::limits;
use crate::usage::ToolUsage;

/// Hash of the complete input of a call. The report may show only a part of this input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputHash(u64);

impl InputHash {
    pub(crate) fn new(input: &Value) -> Self {
        Self(FixedState::default().hash_one(input))
    }
}

/// The calls that ended most recently, and usage totals of all ended calls.
#[derive(Debug, Default)]
pub struct CallHistory {
    /// Reports of ended calls. The reports of older calls are dropped, but their ids are kept
    /// longer.
    reports: HashMap<ToolCallId, Option<Box<ToolCallReport>>>,
    ended_ids: VecDeque<ToolCallId>,
    kept_reports: VecDeque<(ToolCallId, usize)>,
    bytes: usize,
    /// The newest failed calls with the hashes of their inputs. A new call is compared with the
    /// newest failed calls to detect a retry.
    failed: VecDeque<(ToolCallId, Option<InputHash>)>,
    usage: BTreeMap<String, ToolUsage>,
}

impl CallHistory {
    /// Returns the report of an ended call, if the report is still in the history.
    #[must_use]
    pub fn get(&self, id: &ToolCallId) -> Option<&ToolCallReport> {
        self.reports.get(id)?.as_deref()
    }

    /// Returns whether the history contains the id of an ended call.
    #[must_use]
    pub fn has_ended(&self, id: &ToolCallId) -> bool {
        self.reports.contains_key(id)
    }

    /// Returns the reports in the history, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &ToolCallReport> {
        self.kept_reports.iter().filter_map(|(id, _)| self.get(id))
    }

    /// Returns the usage totals per tool, ordered by name.
    pub fn usage_by_tool(&self) -> impl Iterator<Item = (&str, &ToolUsage)> {
        self.usage.iter().map(|(name, usage)| (name.as_str(), usage))
    }

    /// Returns the newest failed call with this tool and these arguments.
    pub(crate) fn newest_failed(&self, name: &str, input: InputHash) -> Option<&ToolCallId> {
        let is_same = |id: &ToolCallId| self.get(id).is_some_and(|report| report.name == name);
        let mut same_input = self.failed.iter().rev().filter(|(_, failed)| *failed == Some(input));
        same_input.find_map(|(id, _)| is_same(id).then_some(id))
    }

    /// Inserts the report of an ended call. `content_bytes` is the approximate size of the report's
    /// content.
    pub(crate) fn insert(
        &mut self,
        report: Box<ToolCallReport>,
        content_bytes: usize,
        input: Option<InputHash>,
    ) {
        let (id, bytes) =
            (report.id.clone(), content_bytes + report_bytes_without_content(&report));
        if report.status == Status::Failed {
            if self.failed.len() >= limits::MAX_FAILED_CALLS {
                self.failed.pop_front();
            }
            self.failed.push_back((id.clone(), input));
        }
        self.reports.insert(id.clone(), Some(report));
        self.ended_ids.push_back(id.clone());
        self.kept_reports.push_back((id, bytes));
        self.bytes += bytes;
        while self.bytes > limits::MAX_HISTORY_BYTES
            || self.kept_reports.len() > limits::MAX_HISTORY_CALLS
        {
            let Some((oldest, bytes)) = self.kept_reports.pop_front() else { break };
            self.bytes -= bytes;
            if let Some(report) = self.reports.get_mut(&oldest) {
                *report = None;
            }
        }
        if self.ended_ids.len() > limits::MAX_ENDED_CALL_IDS
            && let Some(oldest) = self.ended_ids.pop_front()
        {
            self.reports.remove(&oldest);
        }
    }

    /// Adds a call to the usage totals of its tool. If the maximum number of tools is reached,
    /// further tools share the entry with the empty name.
    pub(crate) fn add_usage(&mut self, report: &ToolCallReport) {
        if let Some(usage) = self.usage.get_mut(&report.name) {
            return usage.add_ended_call(report);
        }
        let has_room = self.usage.len() < limits::MAX_USAGE_TOOLS;
        let name = if has_room { report.name.clone() } else { String::new() };
        self.usage.entry(name).or_default().add_ended_call(report);
    }
}

/// Returns the approximate size of a report in bytes, without its content.
fn report_bytes_without_content(report: &ToolCallReport) -> usize {
    let raw = [&report.raw_input, &report.raw_output].into_iter().flatten();
    let raw: usize = raw.map(approximate_value_bytes).sum();
    raw + report.title.len() + report.name.len()
}

/// Returns the approximate size of a raw value in bytes, without serialising it.
fn approximate_value_bytes(value: &Value) -> usize {
    match value {
        Value::String(string) => string.len(),
        Value::Array(items) => items.iter().map(approximate_value_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + approximate_value_bytes(value)).sum()
        }
        _ => size_of::<Value>(),
    }
}

#[cfg(test)]
mod tests {
    use super::CallHistory;
    use crate::limits;
    use acp_types::{Content, Status, ToolCallReport};
    use pretty_assertions::assert_eq;

    fn insert(history: &mut CallHistory, number: usize, name: &str, status: Status, text: &str) {
        let content = vec![Content::from_text(text)];
        let bytes = content.iter().map(Content::approximate_json_len).sum();
        let mut report = ToolCallReport::new(format!("c{number}").into());
        report.name = name.to_owned();
        report.status = status;
        report.content = content;
        report.meta.duration_ms = Some(2);
        history.add_usage(&report);
        history.insert(Box::new(report), bytes, None);
    }

    #[test]
    fn the_newest_reports_are_kept_within_the_limits() {
        let mut history = CallHistory::default();
        let half = "x".repeat(limits::MAX_HISTORY_BYTES / 2);
        for number in 0..3 {
            insert(&mut history, number, "t", Status::Completed, &half);
        }
        let kept: Vec<_> = history.iter().map(|report| report.id.to_string()).collect();
        assert_eq!(kept, ["c2"]);
        assert!(history.has_ended(&"c0".into()) && history.get(&"c0".into()).is_none());
        for number in 3..limits::MAX_ENDED_CALL_IDS + 10 {
            insert(&mut history, number, "t", Status::Completed, "");
        }
        assert_eq!(history.iter().count(), limits::MAX_HISTORY_CALLS);
        assert!(!history.has_ended(&"c0".into()));
        assert_eq!(history.reports.len(), limits::MAX_ENDED_CALL_IDS);
    }

    #[test]
    fn invented_tool_names_share_one_usage_entry() {
        let mut history = CallHistory::default();
        for number in 0..limits::MAX_USAGE_TOOLS + 5 {
            insert(&mut history, number, &format!("tool{number}"), Status::Failed, "");
        }
        assert_eq!(history.usage_by_tool().count(), limits::MAX_USAGE_TOOLS + 1);
        assert_eq!(
            history.usage_by_tool().next().map(|(name, usage)| (name, usage.failed)),
            Some(("", 5))
        );
    }
}
