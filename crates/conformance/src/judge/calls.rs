//! The tool calls of one session, with the state that is needed to judge the next update.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::bounded_map::BoundedMap;
use super::{ConformanceRule, LineViolations, value_excerpt};
use crate::limits::MAX_JUDGED_CALLS;

/// The calls of one session.
#[derive(Debug)]
pub(super) struct JudgedCalls(BoundedMap<JudgedCall>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallPhase {
    Pending,
    InProgress,
    Final,
}

/// The state of a call's permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionState {
    NotAsked,
    Asked,
    Allowed,
    Rejected,
}

#[derive(Debug)]
struct JudgedCall {
    status: CallPhase,
    permission: PermissionState,
    /// Hashes of the most recently reported content and locations.
    content: u64,
    locations: u64,
    /// Whether a violation was already reported because the call was open at the end of its turn.
    is_open_call_reported: bool,
}

/// The message that contains an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateCarrier {
    Update,
    /// A permission request, which may repeat known fields.
    Permission,
}

impl JudgedCalls {
    pub(super) fn new() -> Self {
        Self(BoundedMap::new(MAX_JUDGED_CALLS))
    }

    /// Judges a `tool_call`.
    pub(super) fn judge_announcement(&mut self, call: &Value, faults: &mut LineViolations) {
        let Some(id) = call["toolCallId"].as_str() else { return };
        if call["title"].as_str().is_some_and(|title| title.trim().is_empty()) {
            faults.report_call_violation(ConformanceRule::NoTitle, id, "it has no title");
        }
        let known = JudgedCall {
            status: call_phase(&call["status"]).unwrap_or(CallPhase::Pending),
            permission: PermissionState::NotAsked,
            content: array_hash(&call["content"]),
            locations: array_hash(&call["locations"]),
            is_open_call_reported: false,
        };
        if self.0.insert(id, known).is_some() {
            faults.report_call_violation(ConformanceRule::CallTwice, id, "it was announced before");
        }
        check_paths_and_lines(id, call, faults);
    }

    /// Judges a `tool_call_update`, or the `toolCall` of a permission request.
    pub(super) fn judge_update(
        &mut self,
        update: &Value,
        within: UpdateCarrier,
        faults: &mut LineViolations,
    ) {
        let Some(id) = update["toolCallId"].as_str() else { return };
        check_paths_and_lines(id, update, faults);
        let Some(call) = self.0.get_mut(id) else {
            let rule = match within {
                UpdateCarrier::Update => ConformanceRule::CallUnannounced,
                UpdateCarrier::Permission => ConformanceRule::PermissionUnknownCall,
            };
            if !self.0.has_removed() {
                faults.report_call_violation(rule, id, "it was not announced");
            }
            // The violation is reported only once, because the call then counts as announced.
            return self.insert_unannounced(update);
        };
        if call.status == CallPhase::Final {
            return faults.report_call_violation(
                ConformanceRule::CallAfterEnd,
                id,
                "it has ended before",
            );
        }
        if within == UpdateCarrier::Update {
            call.check_repeated_or_empty(id, update, faults);
        }
        call.store_array_hashes(update);
        call.check_and_apply_status(id, &update["status"], faults);
    }

    /// Records that permission is requested for a call. If the call already runs, the request is
    /// not recorded: it concerns only a further effect, e.g. a network connection of a command, and
    /// not the whole call.
    pub(super) fn record_permission_request(&mut self, id: &str) {
        if let Some(call) = self.0.get_mut(id).filter(|call| call.status == CallPhase::Pending) {
            call.permission = PermissionState::Asked;
        }
    }

    /// Records the reply to a permission request.
    pub(super) fn record_permission_reply(&mut self, id: &str, is_given: bool) {
        if let Some(call) =
            self.0.get_mut(id).filter(|call| call.permission == PermissionState::Asked)
        {
            call.permission =
                if is_given { PermissionState::Allowed } else { PermissionState::Rejected };
        }
    }

    /// Judges the end of a turn, at which no call may be open.
    pub(super) fn judge_turn_end(&mut self, faults: &mut LineViolations) {
        let is_open =
            |call: &JudgedCall| call.status != CallPhase::Final && !call.is_open_call_reported;
        let open = self.0.iter().filter(|(_, call)| is_open(call));
        let open: Vec<String> = open.map(|(id, _)| id.to_owned()).collect();
        for id in open {
            faults.report_call_violation(
                ConformanceRule::CallOpenAtAnswer,
                &id,
                "it is open and its turn is answered",
            );
            if let Some(call) = self.0.get_mut(&id) {
                call.is_open_call_reported = true;
            }
        }
    }

    fn insert_unannounced(&mut self, update: &Value) {
        let mut ignored =
            LineViolations { line: 0, side: super::Side::Agent, violations: Vec::new() };
        self.judge_announcement(update, &mut ignored);
    }
}

impl JudgedCall {
    /// Reports fields that repeat known values, and empty updates.
    fn check_repeated_or_empty(&self, id: &str, update: &Value, faults: &mut LineViolations) {
        let says = |(key, value): (&String, &Value)| match &**key {
            "toolCallId" | "sessionUpdate" => false,
            "_meta" => value.as_object().is_some_and(|meta| !meta.is_empty()),
            _ => !value.is_null(),
        };
        if !update.as_object().is_some_and(|fields| fields.iter().any(says)) {
            faults.report_call_violation(ConformanceRule::EmptyUpdate, id, "the update is empty");
        }
        for (name, held) in [("content", self.content), ("locations", self.locations)] {
            if update[name].is_array() && array_hash(&update[name]) == held {
                faults.report_call_violation(
                    ConformanceRule::ArrayResent,
                    id,
                    format!("its {name} did not change"),
                );
            }
        }
    }

    fn store_array_hashes(&mut self, update: &Value) {
        for (name, held) in [("content", &mut self.content), ("locations", &mut self.locations)] {
            if update[name].is_array() {
                *held = array_hash(&update[name]);
            }
        }
    }

    fn check_and_apply_status(&mut self, id: &str, to: &Value, faults: &mut LineViolations) {
        let Some(status) = call_phase(to) else { return };
        let is_completed = to == "completed";
        if status < self.status {
            faults.report_call_violation(
                ConformanceRule::StatusBack,
                id,
                format!("its status goes back to {}", value_excerpt(to)),
            );
        }
        let starts = status == CallPhase::InProgress && self.status == CallPhase::Pending;
        match self.permission {
            _ if !starts && !is_completed => {}
            PermissionState::NotAsked | PermissionState::Allowed => {}
            PermissionState::Asked => {
                let text = "it runs before its permission is granted";
                faults.report_call_violation(ConformanceRule::RanUnpermitted, id, text);
            }
            PermissionState::Rejected => {
                let text = "it runs without permission";
                faults.report_call_violation(ConformanceRule::RanUnpermitted, id, text);
            }
        }
        if is_completed && self.status == CallPhase::Pending {
            let text = "it is completed, but was never in progress";
            faults.report_call_violation(ConformanceRule::StatusSkipped, id, text);
        }
        self.status = self.status.max(status);
    }
}

fn call_phase(status: &Value) -> Option<CallPhase> {
    Some(match status.as_str()? {
        "pending" => CallPhase::Pending,
        "in_progress" => CallPhase::InProgress,
        "completed" | "failed" => CallPhase::Final,
        _ => return None,
    })
}

/// Returns the hash of an array; a missing array counts as empty.
fn array_hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.as_array().map_or(&[][..], Vec::as_slice).hash(&mut hasher);
    hasher.finish()
}

/// Checks the paths and lines of an update.
fn check_paths_and_lines(id: &str, update: &Value, faults: &mut LineViolations) {
    for location in array_objects(&update["locations"]) {
        check_path_is_absolute(id, "a location", location, faults);
        if location.get("line").is_some_and(|line| *line == 0) {
            faults.report_call_violation(
                ConformanceRule::LineZero,
                id,
                "a location on line 0; lines count from 1",
            );
        }
    }
    for content in array_objects(&update["content"]).filter(|content| content["type"] == "diff") {
        check_path_is_absolute(id, "a diff", content, faults);
    }
}

fn check_path_is_absolute(id: &str, what: &str, place: &Value, faults: &mut LineViolations) {
    if let Some(path) = place["path"].as_str().filter(|path| !is_absolute(path)) {
        let text = format!("{what} with the path {}", value_excerpt(&path.into()));
        faults.report_call_violation(ConformanceRule::RelativePath, id, text);
    }
}

/// Returns the objects of an array.
pub(super) fn array_objects(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().filter(|item| item.is_object())
}

/// Returns whether a path is absolute on Unix or Windows.
pub(super) fn is_absolute(path: &str) -> bool {
    let mut bytes = path.bytes();
    match (bytes.next(), bytes.next(), bytes.next()) {
        (Some(b'/'), ..) | (Some(b'\\'), Some(b'\\'), _) => true,
        (Some(drive), Some(b':'), Some(b'\\' | b'/')) => drive.is_ascii_alphabetic(),
        _ => false,
    }
}
