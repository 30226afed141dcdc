//! The tool calls of one session, as far as they are needed to judge the next update.
//!
//! It knows nothing of requests, terminals and turns.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::bounded_map::BoundedMap;
use super::{Faults, Rule, excerpt};
use crate::limits::MAX_JUDGED_CALLS;

/// The calls of one session.
#[derive(Debug)]
pub(super) struct Calls(BoundedMap<Call>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Pending,
    InProgress,
    Final,
}

/// What was answered when permission was asked for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    NotAsked,
    Asked,
    Given,
    Refused,
}

#[derive(Debug)]
struct Call {
    status: Status,
    permission: Permission,
    /// Hashes of what the client holds.
    content: u64,
    locations: u64,
    /// Whether it was said that it outlived its turn.
    is_told: bool,
}

/// Which message an update comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    Update,
    /// A permission request, which repeats what is known.
    Permission,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self(BoundedMap::new(MAX_JUDGED_CALLS))
    }

    /// Takes a `tool_call` in.
    pub(super) fn announce(&mut self, call: &Value, faults: &mut Faults) {
        let Some(id) = call["toolCallId"].as_str() else { return };
        if call["title"].as_str().is_some_and(|title| title.trim().is_empty()) {
            faults.add_to_call(Rule::NoTitle, id, "it has no title");
        }
        let known = Call {
            status: status(&call["status"]).unwrap_or(Status::Pending),
            permission: Permission::NotAsked,
            content: array(&call["content"]),
            locations: array(&call["locations"]),
            is_told: false,
        };
        if self.0.insert(id, known).is_some() {
            faults.add_to_call(Rule::CallTwice, id, "it was announced before");
        }
        places(id, call, faults);
    }

    /// Takes a `tool_call_update` in, or the `toolCall` of a permission request.
    pub(super) fn change(&mut self, update: &Value, within: Within, faults: &mut Faults) {
        let Some(id) = update["toolCallId"].as_str() else { return };
        places(id, update, faults);
        let Some(call) = self.0.get_mut(id) else {
            let rule = match within {
                Within::Update => Rule::CallUnannounced,
                Within::Permission => Rule::PermissionUnknownCall,
            };
            faults.add_to_call(rule, id, "it was not announced");
            // Said once; from here on it is known.
            return self.announce_unseen(update);
        };
        if call.status == Status::Final {
            return faults.add_to_call(Rule::CallAfterEnd, id, "it has ended before");
        }
        if within == Within::Update {
            call.repeats(id, update, faults);
        }
        call.hold(update);
        call.step(id, &update["status"], faults);
    }

    /// Notes that permission is asked for a call.
    pub(super) fn ask(&mut self, id: &str) {
        if let Some(call) = self.0.get_mut(id) {
            call.permission = Permission::Asked;
        }
    }

    /// Notes what was answered.
    pub(super) fn permit(&mut self, id: &str, is_given: bool) {
        if let Some(call) = self.0.get_mut(id) {
            call.permission = if is_given { Permission::Given } else { Permission::Refused };
        }
    }

    /// Ends a turn: no call may be open.
    pub(super) fn end_turn(&mut self, faults: &mut Faults) {
        let is_open = |call: &Call| call.status != Status::Final && !call.is_told;
        let open = self.0.iter().filter(|(_, call)| is_open(call));
        let open: Vec<String> = open.map(|(id, _)| id.to_owned()).collect();
        for id in open {
            faults.add_to_call(Rule::CallOpenAtAnswer, &id, "it is open and its turn is answered");
            if let Some(call) = self.0.get_mut(&id) {
                call.is_told = true;
            }
        }
    }

    fn announce_unseen(&mut self, update: &Value) {
        let mut ignored = Faults { line: 0, side: super::Side::Agent, found: Vec::new() };
        self.announce(update, &mut ignored);
    }
}

impl Call {
    /// Finds what says nothing new.
    fn repeats(&self, id: &str, update: &Value, faults: &mut Faults) {
        let says = |(key, value): (&String, &Value)| match &**key {
            "toolCallId" | "sessionUpdate" => false,
            "_meta" => value.as_object().is_some_and(|meta| !meta.is_empty()),
            _ => !value.is_null(),
        };
        if !update.as_object().is_some_and(|fields| fields.iter().any(says)) {
            faults.add_to_call(Rule::EmptyUpdate, id, "an update that says nothing");
        }
        for (name, held) in [("content", self.content), ("locations", self.locations)] {
            if update[name].is_array() && array(&update[name]) == held {
                faults.add_to_call(Rule::ArrayResent, id, format!("its {name} did not change"));
            }
        }
    }

    fn hold(&mut self, update: &Value) {
        for (name, held) in [("content", &mut self.content), ("locations", &mut self.locations)] {
            if update[name].is_array() {
                *held = array(&update[name]);
            }
        }
    }

    fn step(&mut self, id: &str, to: &Value, faults: &mut Faults) {
        let Some(status) = status(to) else { return };
        let is_completed = to == "completed";
        if status < self.status {
            faults.add_to_call(Rule::StatusBack, id, format!("it goes back to {}", excerpt(to)));
        }
        let starts = status == Status::InProgress && self.status == Status::Pending;
        match self.permission {
            _ if !starts && !is_completed => {}
            Permission::NotAsked | Permission::Given => {}
            Permission::Asked => {
                let text = "it goes on before its permission is given";
                faults.add_to_call(Rule::RanUnpermitted, id, text);
            }
            Permission::Refused => {
                let text = "it goes on without its permission";
                faults.add_to_call(Rule::RanUnpermitted, id, text);
            }
        }
        if is_completed && self.status == Status::Pending {
            let text = "it is completed and was never in progress";
            faults.add_to_call(Rule::StatusSkipped, id, text);
        }
        self.status = self.status.max(status);
    }
}

fn status(status: &Value) -> Option<Status> {
    Some(match status.as_str()? {
        "pending" => Status::Pending,
        "in_progress" => Status::InProgress,
        "completed" | "failed" => Status::Final,
        _ => return None,
    })
}

/// The hash of an array; none is an empty one.
fn array(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.as_array().map_or(&[][..], Vec::as_slice).hash(&mut hasher);
    hasher.finish()
}

/// Looks at the paths and lines of an update.
fn places(id: &str, update: &Value, faults: &mut Faults) {
    for location in items(&update["locations"]) {
        place(id, "a location", location, faults);
        if location.get("line").is_some_and(|line| *line == 0) {
            faults.add_to_call(Rule::LineZero, id, "a location on line 0: the first is 1");
        }
    }
    for content in items(&update["content"]).filter(|content| content["type"] == "diff") {
        place(id, "a diff", content, faults);
    }
}

fn place(id: &str, what: &str, place: &Value, faults: &mut Faults) {
    if let Some(path) = place["path"].as_str().filter(|path| !is_absolute(path)) {
        let text = format!("{what} with the path {}", excerpt(&path.into()));
        faults.add_to_call(Rule::RelativePath, id, text);
    }
}

/// The objects of an array.
pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().filter(|item| item.is_object())
}

/// Whether a path is absolute, on whichever system it was written.
pub(super) fn is_absolute(path: &str) -> bool {
    let mut bytes = path.bytes();
    match (bytes.next(), bytes.next(), bytes.next()) {
        (Some(b'/'), ..) | (Some(b'\\'), Some(b'\\'), _) => true,
        (Some(drive), Some(b':'), Some(b'\\' | b'/')) => drive.is_ascii_alphabetic(),
        _ => false,
    }
}
