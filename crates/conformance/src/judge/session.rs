//! One session: its turns, its calls, its terminals and its plan.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::bounded_map::{BoundedMap, truncate_key};
use super::calls::{JudgedCalls, UpdateCarrier, array_items, is_absolute};
use super::choices::SessionChoices;
use super::methods::DRAFT_UPDATES;
use super::{ConformanceRule, ViolationLog, escaped_excerpt, value_excerpt};
use crate::limits::{MAX_JUDGED_CALLS, MAX_OPEN_REQUESTS};

/// What is known of a session.
pub(super) struct JudgedSession {
    calls: JudgedCalls,
    choices: SessionChoices,
    terminals: BoundedMap<TerminalPhase>,
    prompts: VecDeque<OpenPromptState>,
    /// Hashes of the last plan's entries that are not completed; and of all its entries.
    plan: (HashSet<String>, HashSet<String>),
    phase: SessionPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    /// What it was is told again, outside of any turn.
    Replaying,
    Open,
    Closed,
}

struct OpenPromptState {
    id: Value,
    is_cancelled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TerminalPhase {
    /// Nothing was written there yet.
    Open,
    Written,
    Exited,
    /// The client has made it and runs its command.
    RunByClient,
    Released,
}

impl JudgedSession {
    /// A session that was opened, or whose past is being told.
    pub(super) fn new(is_replayed: bool) -> Self {
        Self {
            calls: JudgedCalls::new(),
            choices: SessionChoices::default(),
            terminals: BoundedMap::new(MAX_JUDGED_CALLS),
            prompts: VecDeque::new(),
            plan: Default::default(),
            phase: if is_replayed { SessionPhase::Replaying } else { SessionPhase::Open },
        }
    }

    /// Takes the answer to `session/load` or `session/resume` in.
    pub(super) fn finish_replay(&mut self) {
        self.phase = SessionPhase::Open;
    }

    /// Takes in what an answer tells of what can be chosen.
    pub(super) fn update_choices(&mut self, result: &Value, faults: &mut ViolationLog) {
        self.choices.update_offered(result, faults);
    }

    /// Takes in what the client chooses.
    pub(super) fn check_choice(&mut self, method: &str, params: &Value, faults: &mut ViolationLog) {
        match method {
            "session/set_mode" => self.choices.check_mode(&params["modeId"], faults),
            _ => self.choices.check_set_config_option(params, faults),
        }
    }

    /// Takes the answer to `session/close` in.
    pub(super) fn close(&mut self, faults: &mut ViolationLog) {
        self.phase = SessionPhase::Closed;
        if !self.prompts.is_empty() {
            faults.add(ConformanceRule::PromptOrder, "a prompt is open and its session is closed");
        }
        for (id, _) in
            self.terminals.iter().filter(|(_, state)| **state == TerminalPhase::RunByClient)
        {
            faults.add(
                ConformanceRule::TerminalLeft,
                format!("{} is not released", escaped_excerpt(id)),
            );
        }
    }

    /// Takes a prompt in.
    pub(super) fn begin_prompt(&mut self, id: &Value) {
        if self.prompts.len() < MAX_OPEN_REQUESTS {
            self.prompts.push_back(OpenPromptState { id: id.clone(), is_cancelled: false });
        }
    }

    /// Takes a `session/cancel` in, which is about every prompt that is not answered.
    pub(super) fn cancel_prompts(&mut self) {
        for prompt in &mut self.prompts {
            prompt.is_cancelled = true;
        }
    }

    /// Takes the answer to a prompt in. One that was refused may overtake.
    pub(super) fn finish_prompt(
        &mut self,
        id: &Value,
        result: Option<&Value>,
        faults: &mut ViolationLog,
    ) {
        let at = self.prompts.iter().position(|prompt| prompt.id == *id);
        let Some((at, prompt)) = at.and_then(|at| Some((at, self.prompts.remove(at)?))) else {
            return;
        };
        if at > 0 {
            if result.is_some() {
                faults.add(ConformanceRule::PromptOrder, "an earlier prompt is not answered");
            }
            return;
        }
        let reason = result.map_or(&Value::Null, |result| &result["stopReason"]);
        if prompt.is_cancelled && reason != "cancelled" {
            let text = format!("a turn that was cancelled is answered {}", value_excerpt(reason));
            faults.add(ConformanceRule::NotCancelled, text);
        }
        self.calls.end_turn(faults);
    }

    /// Takes a `session/update` in.
    pub(super) fn judge_update(&mut self, update: &Value, faults: &mut ViolationLog) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match self.phase {
            SessionPhase::Closed => {
                return faults.add(ConformanceRule::AfterClose, "its session is closed");
            }
            SessionPhase::Open if self.prompts.is_empty() && belongs_to_turn(kind) => {
                faults.add(
                    ConformanceRule::OutsideTurn,
                    format!("{} outside of a turn", escaped_excerpt(kind)),
                );
            }
            SessionPhase::Open | SessionPhase::Replaying => {}
        }
        match kind {
            "tool_call" => {
                self.judge_terminal_events(update, faults);
                self.calls.announce(update, faults);
                self.check_shown_terminals(update, faults);
            }
            "tool_call_update" => {
                self.judge_terminal_events(update, faults);
                self.calls.apply_update(update, UpdateCarrier::Update, faults);
                self.check_shown_terminals(update, faults);
            }
            "current_mode_update" => self.choices.check_mode(&update["currentModeId"], faults),
            "config_option_update" => self.choices.update_offered(update, faults),
            "plan" => self.judge_plan(&update["entries"], faults),
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk"
                if update["content"]["text"] == "" =>
            {
                faults.add(ConformanceRule::EmptyUpdate, format!("{kind} with no text"));
            }
            _ => {}
        }
    }

    /// Takes a permission request in.
    pub(super) fn judge_permission_request(&mut self, params: &Value, faults: &mut ViolationLog) {
        if self.phase == SessionPhase::Closed {
            return faults.add(ConformanceRule::AfterClose, "its session is closed");
        }
        if self.prompts.is_empty() {
            faults.add(ConformanceRule::OutsideTurn, "a question outside of a turn");
        }
        let call = &params["toolCall"];
        self.calls.apply_update(call, UpdateCarrier::Permission, faults);
        self.check_shown_terminals(call, faults);
        self.calls.note_permission_request(call["toolCallId"].as_str().unwrap_or_default());
        let mut ids = HashSet::new();
        if !array_items(&params["options"]).all(|option| ids.insert(&option["optionId"])) {
            faults.add(ConformanceRule::PermissionOptions, "two options have the same id");
        } else if ids.is_empty() {
            faults.add(ConformanceRule::PermissionOptions, "there is no option");
        }
        let mut kinds = HashSet::new();
        if !array_items(&params["options"]).all(|option| kinds.insert(&option["kind"])) {
            faults.add(ConformanceRule::PermissionKinds, "two options are of the same kind");
        }
    }

    /// Takes the answer to a permission request in.
    pub(super) fn note_permission_reply(&mut self, call: &str, is_given: bool) {
        self.calls.note_permission_reply(call, is_given);
    }

    /// Takes a terminal in that the client has made.
    pub(super) fn add_client_terminal(&mut self, id: &str, faults: &mut ViolationLog) {
        if self.terminals.insert(id, TerminalPhase::RunByClient).is_some() {
            let text = format!("the terminal {} was opened before", escaped_excerpt(id));
            faults.add(ConformanceRule::TerminalTwice, text);
        }
    }

    /// Takes a request about a terminal of the client in.
    pub(super) fn judge_terminal_request(
        &mut self,
        method: &str,
        id: &str,
        faults: &mut ViolationLog,
    ) {
        match self.terminals.get_mut(id) {
            Some(state @ TerminalPhase::RunByClient) if method == "terminal/release" => {
                *state = TerminalPhase::Released;
            }
            Some(TerminalPhase::RunByClient) => {}
            Some(TerminalPhase::Released) => {
                faults.add(
                    ConformanceRule::TerminalUnknown,
                    format!("{} is released", escaped_excerpt(id)),
                );
            }
            Some(TerminalPhase::Open | TerminalPhase::Written | TerminalPhase::Exited) | None => {
                faults.add(
                    ConformanceRule::TerminalUnknown,
                    format!("{} was not opened", escaped_excerpt(id)),
                );
            }
        }
    }

    /// Takes the events of the `_meta.terminal_*` convention in.
    fn judge_terminal_events(&mut self, update: &Value, faults: &mut ViolationLog) {
        let call = update["toolCallId"].as_str().unwrap_or_default();
        let id = |event: &str| update["_meta"][event]["terminal_id"].as_str();
        if let Some(id) = id("terminal_info") {
            // Where it runs is known when the arguments of its call are whole, and told again.
            let is_update = update["sessionUpdate"] == "tool_call_update";
            let before = self.terminals.insert(id, TerminalPhase::Open);
            if before.is_some_and(|before| !is_update || before != TerminalPhase::Open) {
                faults.add_to_call(
                    ConformanceRule::TerminalTwice,
                    call,
                    "its terminal was opened before",
                );
            }
        }
        for event in ["terminal_output", "terminal_exit"] {
            let Some(id) = id(event) else { continue };
            match self.terminals.get_mut(id) {
                Some(state @ (TerminalPhase::Open | TerminalPhase::Written)) => {
                    let is_exit = event == "terminal_exit";
                    *state = if is_exit { TerminalPhase::Exited } else { TerminalPhase::Written };
                }
                Some(TerminalPhase::Exited) => {
                    let text = format!("{event} after the exit");
                    faults.add_to_call(ConformanceRule::TerminalAfterExit, call, text);
                }
                Some(TerminalPhase::RunByClient | TerminalPhase::Released) | None => {
                    let text = format!("{event} of a terminal that was not opened");
                    faults.add_to_call(ConformanceRule::TerminalUnknown, call, text);
                }
            }
        }
    }

    /// Looks at the terminals that an update shows.
    fn check_shown_terminals(&self, update: &Value, faults: &mut ViolationLog) {
        let shown = array_items(&update["content"]).filter_map(|item| item["terminalId"].as_str());
        for id in shown {
            let why = match self.terminals.get(id) {
                None => "was not opened",
                Some(TerminalPhase::Released) => "is released",
                Some(_) => continue,
            };
            let call = update["toolCallId"].as_str().unwrap_or_default();
            let text = format!("it shows the terminal {}, which {why}", escaped_excerpt(id));
            faults.add_to_call(ConformanceRule::TerminalUnknown, call, text);
        }
    }

    /// Takes a plan in, which is always told whole.
    fn judge_plan(&mut self, entries: &Value, faults: &mut ViolationLog) {
        let text = |entry: &Value| entry["content"].as_str().unwrap_or_default().to_owned();
        if array_items(entries).any(|entry| text(entry).trim().is_empty()) {
            faults.add(ConformanceRule::PlanEntry, "an entry of the plan is empty");
        }
        let entries = || array_items(entries).take(MAX_OPEN_REQUESTS);
        let all: HashSet<_> =
            entries().map(|entry| truncate_key(&text(entry)).to_owned()).collect();
        let open = entries().filter(|entry| entry["status"] != "completed");
        let open = open.map(|entry| truncate_key(&text(entry)).to_owned()).collect();
        let (was_open, were_all) = &self.plan;
        if !all.is_empty() && all.is_subset(were_all) && !was_open.is_subset(&all) {
            faults.add(ConformanceRule::PlanPartial, "entries that were not completed are missing");
        }
        self.plan = (open, all);
    }
}

/// Checks the path of a request.
pub(super) fn check_path(params: &Value, name: &str, faults: &mut ViolationLog) {
    if let Some(path) = params[name].as_str().filter(|path| !is_absolute(path)) {
        faults.add(
            ConformanceRule::RelativePath,
            format!("{name} is {}", value_excerpt(&path.into())),
        );
    }
}

/// Whether an update belongs to a turn. What is not stable is not judged.
fn belongs_to_turn(kind: &str) -> bool {
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
