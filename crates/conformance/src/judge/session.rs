//! One session: its turns, its calls, its terminals and its plan.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::bounded_map::{BoundedMap, key};
use super::calls::{Calls, Within, is_absolute, items};
use super::choices::Choices;
use super::methods::DRAFT_UPDATES;
use super::{Faults, Rule, excerpt, shown};
use crate::limits::{MAX_JUDGED_CALLS, MAX_OPEN_REQUESTS};

/// What is known of a session.
pub(super) struct Session {
    calls: Calls,
    choices: Choices,
    terminals: BoundedMap<Terminal>,
    prompts: VecDeque<Prompt>,
    /// Hashes of the last plan's entries that are not completed; and of all its entries.
    plan: (HashSet<String>, HashSet<String>),
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// What it was is told again, outside of any turn.
    Replayed,
    Open,
    Closed,
}

struct Prompt {
    id: Value,
    is_cancelled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terminal {
    /// Nothing was written there yet.
    Open,
    Written,
    Exited,
    /// The client has made it and runs its command.
    AtClient,
    Released,
}

impl Session {
    /// A session that was opened, or whose past is being told.
    pub(super) fn new(is_replayed: bool) -> Self {
        Self {
            calls: Calls::new(),
            choices: Choices::default(),
            terminals: BoundedMap::new(MAX_JUDGED_CALLS),
            prompts: VecDeque::new(),
            plan: Default::default(),
            phase: if is_replayed { Phase::Replayed } else { Phase::Open },
        }
    }

    /// Takes the answer to `session/load` or `session/resume` in.
    pub(super) fn loaded(&mut self) {
        self.phase = Phase::Open;
    }

    /// Takes in what an answer tells of what can be chosen.
    pub(super) fn choices(&mut self, result: &Value, faults: &mut Faults) {
        self.choices.told(result, faults);
    }

    /// Takes in what the client chooses.
    pub(super) fn choose(&mut self, method: &str, params: &Value, faults: &mut Faults) {
        match method {
            "session/set_mode" => self.choices.mode(&params["modeId"], faults),
            _ => self.choices.set(params, faults),
        }
    }

    /// Takes the answer to `session/close` in.
    pub(super) fn closed(&mut self, faults: &mut Faults) {
        self.phase = Phase::Closed;
        if !self.prompts.is_empty() {
            faults.add(Rule::PromptOrder, "a prompt is open and its session is closed");
        }
        for (id, _) in self.terminals.iter().filter(|(_, state)| **state == Terminal::AtClient) {
            faults.add(Rule::TerminalLeft, format!("{} is not released", shown(id)));
        }
    }

    /// Takes a prompt in.
    pub(super) fn prompt(&mut self, id: &Value) {
        if self.prompts.len() < MAX_OPEN_REQUESTS {
            self.prompts.push_back(Prompt { id: id.clone(), is_cancelled: false });
        }
    }

    /// Takes a `session/cancel` in, which is about every prompt that is not answered.
    pub(super) fn cancel(&mut self) {
        for prompt in &mut self.prompts {
            prompt.is_cancelled = true;
        }
    }

    /// Takes the answer to a prompt in. One that was refused may overtake.
    pub(super) fn answered(&mut self, id: &Value, result: Option<&Value>, faults: &mut Faults) {
        let at = self.prompts.iter().position(|prompt| prompt.id == *id);
        let Some((at, prompt)) = at.and_then(|at| Some((at, self.prompts.remove(at)?))) else {
            return;
        };
        if at > 0 {
            if result.is_some() {
                faults.add(Rule::PromptOrder, "an earlier prompt is not answered");
            }
            return;
        }
        let reason = result.map_or(&Value::Null, |result| &result["stopReason"]);
        if prompt.is_cancelled && reason != "cancelled" {
            let text = format!("a turn that was cancelled is answered {}", excerpt(reason));
            faults.add(Rule::NotCancelled, text);
        }
        self.calls.end_turn(faults);
    }

    /// Takes a `session/update` in.
    pub(super) fn update(&mut self, update: &Value, faults: &mut Faults) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match self.phase {
            Phase::Closed => return faults.add(Rule::AfterClose, "its session is closed"),
            Phase::Open if self.prompts.is_empty() && is_of_turn(kind) => {
                faults.add(Rule::OutsideTurn, format!("{} outside of a turn", shown(kind)));
            }
            Phase::Open | Phase::Replayed => {}
        }
        match kind {
            "tool_call" => {
                self.events(update, faults);
                self.calls.announce(update, faults);
                self.contents(update, faults);
            }
            "tool_call_update" => {
                self.events(update, faults);
                self.calls.change(update, Within::Update, faults);
                self.contents(update, faults);
            }
            "current_mode_update" => self.choices.mode(&update["currentModeId"], faults),
            "config_option_update" => self.choices.told(update, faults),
            "plan" => self.replan(&update["entries"], faults),
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk"
                if update["content"]["text"] == "" =>
            {
                faults.add(Rule::EmptyUpdate, format!("{kind} with no text"));
            }
            _ => {}
        }
    }

    /// Takes a permission request in.
    pub(super) fn ask(&mut self, params: &Value, faults: &mut Faults) {
        if self.phase == Phase::Closed {
            return faults.add(Rule::AfterClose, "its session is closed");
        }
        if self.prompts.is_empty() {
            faults.add(Rule::OutsideTurn, "a question outside of a turn");
        }
        let call = &params["toolCall"];
        self.calls.change(call, Within::Permission, faults);
        self.contents(call, faults);
        self.calls.ask(call["toolCallId"].as_str().unwrap_or_default());
        let mut ids = HashSet::new();
        if !items(&params["options"]).all(|option| ids.insert(&option["optionId"])) {
            faults.add(Rule::PermissionOptions, "two options have the same id");
        } else if ids.is_empty() {
            faults.add(Rule::PermissionOptions, "there is no option");
        }
        let mut kinds = HashSet::new();
        if !items(&params["options"]).all(|option| kinds.insert(&option["kind"])) {
            faults.add(Rule::PermissionKinds, "two options are of the same kind");
        }
    }

    /// Takes the answer to a permission request in.
    pub(super) fn permit(&mut self, call: &str, is_given: bool) {
        self.calls.permit(call, is_given);
    }

    /// Takes a terminal in that the client has made.
    pub(super) fn terminal(&mut self, id: &str, faults: &mut Faults) {
        if self.terminals.insert(id, Terminal::AtClient).is_some() {
            let text = format!("the terminal {} was opened before", shown(id));
            faults.add(Rule::TerminalTwice, text);
        }
    }

    /// Takes a request about a terminal of the client in.
    pub(super) fn use_terminal(&mut self, method: &str, id: &str, faults: &mut Faults) {
        match self.terminals.get_mut(id) {
            Some(state @ Terminal::AtClient) if method == "terminal/release" => {
                *state = Terminal::Released;
            }
            Some(Terminal::AtClient) => {}
            Some(Terminal::Released) => {
                faults.add(Rule::TerminalUnknown, format!("{} is released", shown(id)));
            }
            Some(Terminal::Open | Terminal::Written | Terminal::Exited) | None => {
                faults.add(Rule::TerminalUnknown, format!("{} was not opened", shown(id)));
            }
        }
    }

    /// Takes the events of the `_meta.terminal_*` convention in.
    fn events(&mut self, update: &Value, faults: &mut Faults) {
        let call = update["toolCallId"].as_str().unwrap_or_default();
        let id = |event: &str| update["_meta"][event]["terminal_id"].as_str();
        if let Some(id) = id("terminal_info") {
            // Where it runs is known when the arguments of its call are whole, and told again.
            let is_update = update["sessionUpdate"] == "tool_call_update";
            let before = self.terminals.insert(id, Terminal::Open);
            if before.is_some_and(|before| !is_update || before != Terminal::Open) {
                faults.add_to_call(Rule::TerminalTwice, call, "its terminal was opened before");
            }
        }
        for event in ["terminal_output", "terminal_exit"] {
            let Some(id) = id(event) else { continue };
            match self.terminals.get_mut(id) {
                Some(state @ (Terminal::Open | Terminal::Written)) => {
                    let is_exit = event == "terminal_exit";
                    *state = if is_exit { Terminal::Exited } else { Terminal::Written };
                }
                Some(Terminal::Exited) => {
                    let text = format!("{event} after the exit");
                    faults.add_to_call(Rule::TerminalAfterExit, call, text);
                }
                Some(Terminal::AtClient | Terminal::Released) | None => {
                    let text = format!("{event} of a terminal that was not opened");
                    faults.add_to_call(Rule::TerminalUnknown, call, text);
                }
            }
        }
    }

    /// Looks at the terminals that an update shows.
    fn contents(&self, update: &Value, faults: &mut Faults) {
        let shown = items(&update["content"]).filter_map(|item| item["terminalId"].as_str());
        for id in shown {
            let why = match self.terminals.get(id) {
                None => "was not opened",
                Some(Terminal::Released) => "is released",
                Some(_) => continue,
            };
            let call = update["toolCallId"].as_str().unwrap_or_default();
            let text = format!("it shows the terminal {}, which {why}", super::shown(id));
            faults.add_to_call(Rule::TerminalUnknown, call, text);
        }
    }

    /// Takes a plan in, which is always told whole.
    fn replan(&mut self, entries: &Value, faults: &mut Faults) {
        let text = |entry: &Value| entry["content"].as_str().unwrap_or_default().to_owned();
        if items(entries).any(|entry| text(entry).trim().is_empty()) {
            faults.add(Rule::PlanEntry, "an entry of the plan is empty");
        }
        let entries = || items(entries).take(MAX_OPEN_REQUESTS);
        let all: HashSet<_> = entries().map(|entry| key(&text(entry)).to_owned()).collect();
        let open = entries().filter(|entry| entry["status"] != "completed");
        let open = open.map(|entry| key(&text(entry)).to_owned()).collect();
        let (was_open, were_all) = &self.plan;
        if !all.is_empty() && all.is_subset(were_all) && !was_open.is_subset(&all) {
            faults.add(Rule::PlanPartial, "entries that were not completed are missing");
        }
        self.plan = (open, all);
    }
}

/// Checks the path of a request.
pub(super) fn path(params: &Value, name: &str, faults: &mut Faults) {
    if let Some(path) = params[name].as_str().filter(|path| !is_absolute(path)) {
        faults.add(Rule::RelativePath, format!("{name} is {}", excerpt(&path.into())));
    }
}

/// Whether an update belongs to a turn. What is not stable is not judged.
fn is_of_turn(kind: &str) -> bool {
    const NOT_OF_TURN: [&str; 8] = [
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "usage_update",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
    ];
    !NOT_OF_TURN.contains(&kind) && !DRAFT_UPDATES.contains(&kind)
}
