//! One judged session: its turns, its calls, its terminals and its plan.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::bounded_map::{BoundedMap, truncate_key};
use super::calls::{JudgedCalls, UpdateCarrier, array_objects, is_absolute};
use super::choices::SessionChoices;
use super::methods::DRAFT_UPDATES;
use super::{ConformanceRule, LineViolations, escaped_excerpt, value_excerpt};
use crate::limits::{MAX_JUDGED_CALLS, MAX_OPEN_REQUESTS};

/// The judged state of a session.
pub(super) struct JudgedSession {
    /// The state before a load (`session/load` or `session/resume`) that is not answered yet.
    earlier: Option<Box<Self>>,
    /// Number of loads that are not answered yet.
    loads: usize,
    calls: JudgedCalls,
    choices: SessionChoices,
    terminals: BoundedMap<TerminalPhase>,
    prompts: VecDeque<OpenPromptState>,
    /// Number of unanswered requests of extension methods.
    extension_requests: usize,
    /// The truncated texts of the last plan's entries. The first set contains the entries that are
    /// not completed, and the second set contains all entries.
    plan: (HashSet<String>, HashSet<String>),
    phase: SessionPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    /// The history is replayed, outside of any turn.
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
    /// The terminal is open and has no output yet.
    Open,
    Written,
    Exited,
    /// The client created the terminal and runs its command.
    RunByClient,
    Released,
}

impl JudgedSession {
    /// Creates the state of a session that was opened, or of a session whose history is replayed.
    pub(super) fn new(is_replayed: bool) -> Self {
        Self {
            calls: JudgedCalls::new(),
            choices: SessionChoices::default(),
            terminals: BoundedMap::new(MAX_JUDGED_CALLS),
            prompts: VecDeque::new(),
            extension_requests: 0,
            plan: Default::default(),
            earlier: None,
            loads: 0,
            phase: if is_replayed { SessionPhase::Replaying } else { SessionPhase::Open },
        }
    }

    /// Keeps the earlier state of an open session while the session is loaded again, until the
    /// response. If the session is being loaded already, keeps the state before the first load.
    pub(super) fn keep_earlier_until_loaded(&mut self, earlier: Option<Self>) {
        self.loads = 1 + earlier.as_ref().map_or(0, |earlier| earlier.loads);
        self.earlier = match earlier {
            Some(loading) if loading.phase == SessionPhase::Replaying => loading.earlier,
            open => open.map(Box::new),
        };
    }

    /// Judges a message. While a load of an open session is not answered, the message may belong to
    /// the replay or to a running turn. If the message is valid as a part of the replay or as a
    /// part of the turn, no violation is reported. Otherwise, the message is judged as a part of
    /// the replay.
    pub(super) fn judge_as_turn_or_replay(
        &mut self,
        faults: &mut LineViolations,
        judge: impl Fn(&mut Self, &mut LineViolations),
    ) {
        let Some(mut earlier) = self.earlier.take() else { return judge(self, faults) };
        let empty = || LineViolations { violations: Vec::new(), ..*faults };
        let (mut of_turn, mut of_replay) = (empty(), empty());
        judge(&mut earlier, &mut of_turn);
        judge(self, &mut of_replay);
        if !of_turn.violations.is_empty() {
            faults.violations.append(&mut of_replay.violations);
        }
        self.earlier = Some(earlier);
    }

    /// Records the response to `session/load` or `session/resume`, which ends the replay. A turn
    /// that runs during the load continues.
    pub(super) fn record_load_response(&mut self) {
        self.loads = self.loads.saturating_sub(1);
        if let Some(earlier) = self.earlier.take() {
            self.prompts = earlier.prompts;
            self.extension_requests = earlier.extension_requests;
            for (id, phase) in earlier.terminals.iter() {
                if *phase == TerminalPhase::RunByClient {
                    self.terminals.insert(id, TerminalPhase::RunByClient);
                }
            }
        }
        self.phase = SessionPhase::Open;
    }

    /// Records that a load failed. If no other load is unanswered, restores the earlier state of
    /// the session, or closes the session if it has no earlier state.
    pub(super) fn record_failed_load(&mut self) {
        self.loads = self.loads.saturating_sub(1);
        if self.loads > 0 || self.phase != SessionPhase::Replaying {
            return;
        }
        match self.earlier.take() {
            Some(earlier) => *self = *earlier,
            None => self.phase = SessionPhase::Closed,
        }
    }

    /// Updates the modes and options from a response.
    pub(super) fn update_choices(&mut self, result: &Value, faults: &mut LineViolations) {
        self.choices.update_offered(result, faults);
    }

    /// Judges a mode or an option that the client sets.
    pub(super) fn check_set_mode_or_option(
        &mut self,
        method: &str,
        params: &Value,
        faults: &mut LineViolations,
    ) {
        match method {
            "session/set_mode" => self.choices.check_mode(&params["modeId"], faults),
            _ => self.choices.check_set_config_option(params, faults),
        }
    }

    /// Judges the response to `session/close`.
    pub(super) fn judge_close_response(&mut self, faults: &mut LineViolations) {
        self.phase = SessionPhase::Closed;
        if !self.prompts.is_empty() {
            faults.report_violation(
                ConformanceRule::PromptOrder,
                "its session is closed, but a prompt is open",
            );
        }
        for (id, _) in
            self.terminals.iter().filter(|(_, state)| **state == TerminalPhase::RunByClient)
        {
            faults.report_violation(
                ConformanceRule::TerminalLeft,
                format!("{} is not released", escaped_excerpt(id)),
            );
        }
    }

    /// Records a prompt.
    pub(super) fn record_prompt(&mut self, id: &Value) {
        if self.prompts.len() < MAX_OPEN_REQUESTS {
            self.prompts.push_back(OpenPromptState { id: id.clone(), is_cancelled: false });
        }
    }

    /// Records a `session/cancel`. A cancel affects every unanswered prompt.
    pub(super) fn record_cancel(&mut self) {
        for prompt in &mut self.prompts {
            prompt.is_cancelled = true;
        }
    }

    /// Judges the response to a prompt. The error of a refused prompt may be sent before the
    /// responses to earlier prompts.
    pub(super) fn judge_prompt_response(
        &mut self,
        id: &Value,
        result: Option<&Value>,
        faults: &mut LineViolations,
    ) {
        let at = self.prompts.iter().position(|prompt| prompt.id == *id);
        let Some((at, prompt)) = at.and_then(|at| Some((at, self.prompts.remove(at)?))) else {
            return;
        };
        if at > 0 {
            if result.is_some() {
                faults.report_violation(
                    ConformanceRule::PromptOrder,
                    "an earlier prompt is not answered",
                );
            }
            return;
        }
        let reason = result.map_or(&Value::Null, |result| &result["stopReason"]);
        if prompt.is_cancelled && reason != "cancelled" {
            let text = format!("a cancelled turn is answered {}", value_excerpt(reason));
            faults.report_violation(ConformanceRule::NotCancelled, text);
        }
        self.calls.judge_turn_end(faults);
    }

    /// Records a request of an extension method. An extension may define that such a request has
    /// updates like a turn.
    pub(super) fn record_extension_request(&mut self) {
        self.extension_requests += 1;
    }

    /// Records the response to a request of an extension method.
    pub(super) fn record_extension_response(&mut self) {
        self.extension_requests = self.extension_requests.saturating_sub(1);
    }

    /// Judges a `session/update`.
    pub(super) fn judge_update(&mut self, update: &Value, faults: &mut LineViolations) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match self.phase {
            SessionPhase::Closed => {
                return faults
                    .report_violation(ConformanceRule::AfterClose, "its session is closed");
            }
            SessionPhase::Open
                if self.prompts.is_empty()
                    && self.extension_requests == 0
                    && belongs_to_turn(kind) =>
            {
                faults.report_violation(
                    ConformanceRule::OutsideTurn,
                    format!("{} outside of a turn", escaped_excerpt(kind)),
                );
            }
            SessionPhase::Open | SessionPhase::Replaying => {}
        }
        match kind {
            "tool_call" => {
                self.judge_terminal_events(update, faults);
                self.calls.judge_announcement(update, faults);
                self.check_shown_terminals(update, faults);
            }
            "tool_call_update" => {
                self.judge_terminal_events(update, faults);
                self.calls.judge_update(update, UpdateCarrier::Update, faults);
                self.check_shown_terminals(update, faults);
            }
            "current_mode_update" => self.choices.check_mode(&update["currentModeId"], faults),
            "config_option_update" => self.choices.update_offered(update, faults),
            "plan" => self.judge_plan(&update["entries"], faults),
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk"
                if update["content"]["text"] == "" =>
            {
                faults
                    .report_violation(ConformanceRule::EmptyUpdate, format!("{kind} with no text"));
            }
            _ => {}
        }
    }

    /// Judges a permission request.
    pub(super) fn judge_permission_request(&mut self, params: &Value, faults: &mut LineViolations) {
        if self.phase == SessionPhase::Closed {
            return faults.report_violation(ConformanceRule::AfterClose, "its session is closed");
        }
        if self.prompts.is_empty() {
            faults.report_violation(
                ConformanceRule::OutsideTurn,
                "a permission request outside of a turn",
            );
        }
        let call = &params["toolCall"];
        self.calls.judge_update(call, UpdateCarrier::Permission, faults);
        self.check_shown_terminals(call, faults);
        self.calls.record_permission_request(call["toolCallId"].as_str().unwrap_or_default());
        let mut ids = HashSet::new();
        if !array_objects(&params["options"]).all(|option| ids.insert(&option["optionId"])) {
            faults.report_violation(
                ConformanceRule::PermissionOptions,
                "two options have the same id",
            );
        } else if ids.is_empty() {
            faults.report_violation(ConformanceRule::PermissionOptions, "there is no option");
        }
        let mut kinds = HashSet::new();
        let is_remembered = |kind: &&Value| kind.as_str().is_some_and(|it| it.ends_with("_always"));
        let mut remembered =
            array_objects(&params["options"]).map(|option| &option["kind"]).filter(is_remembered);
        if !remembered.all(|kind| kinds.insert(kind)) {
            faults.report_violation(
                ConformanceRule::PermissionKinds,
                "two options that remember the answer are of the same kind",
            );
        }
    }

    /// Records the reply to a permission request.
    pub(super) fn record_permission_reply(&mut self, call: &str, is_given: bool) {
        self.calls.record_permission_reply(call, is_given);
    }

    /// Records a terminal that the client created.
    pub(super) fn add_client_terminal(&mut self, id: &str, faults: &mut LineViolations) {
        if self.terminals.insert(id, TerminalPhase::RunByClient).is_some() {
            let text = format!("the terminal {} was opened before", escaped_excerpt(id));
            faults.report_violation(ConformanceRule::TerminalTwice, text);
        }
    }

    /// Judges a request about a terminal of the client.
    pub(super) fn judge_terminal_request(
        &mut self,
        method: &str,
        id: &str,
        faults: &mut LineViolations,
    ) {
        let may_be_removed = self.terminals.has_removed();
        match self.terminals.get_mut(id) {
            Some(state @ TerminalPhase::RunByClient) if method == "terminal/release" => {
                *state = TerminalPhase::Released;
            }
            Some(TerminalPhase::RunByClient) => {}
            Some(TerminalPhase::Released) => {
                faults.report_violation(
                    ConformanceRule::TerminalUnknown,
                    format!("{} is released", escaped_excerpt(id)),
                );
            }
            None if may_be_removed => {}
            Some(TerminalPhase::Open | TerminalPhase::Written | TerminalPhase::Exited) | None => {
                faults.report_violation(
                    ConformanceRule::TerminalUnknown,
                    format!("{} was not opened", escaped_excerpt(id)),
                );
            }
        }
    }

    /// Judges the events of the `_meta.terminal_*` convention.
    fn judge_terminal_events(&mut self, update: &Value, faults: &mut LineViolations) {
        let call = update["toolCallId"].as_str().unwrap_or_default();
        let id = |event: &str| update["_meta"][event]["terminal_id"].as_str();
        if let Some(id) = id("terminal_info") {
            // An update may repeat this event for an open terminal without output, because the
            // working directory is known only when the arguments of the call are complete.
            let is_update = update["sessionUpdate"] == "tool_call_update";
            let before = self.terminals.insert(id, TerminalPhase::Open);
            if before.is_some_and(|before| !is_update || before != TerminalPhase::Open) {
                faults.report_call_violation(
                    ConformanceRule::TerminalTwice,
                    call,
                    "its terminal was opened before",
                );
            }
        }
        for event in ["terminal_output", "terminal_exit"] {
            let Some(id) = id(event) else { continue };
            let may_be_removed = self.terminals.has_removed();
            match self.terminals.get_mut(id) {
                Some(state @ (TerminalPhase::Open | TerminalPhase::Written)) => {
                    let is_exit = event == "terminal_exit";
                    *state = if is_exit { TerminalPhase::Exited } else { TerminalPhase::Written };
                }
                Some(TerminalPhase::Exited) => {
                    let text = format!("{event} after the exit");
                    faults.report_call_violation(ConformanceRule::TerminalAfterExit, call, text);
                }
                None if may_be_removed => {}
                Some(TerminalPhase::RunByClient | TerminalPhase::Released) | None => {
                    let text = format!("{event} of a terminal that was not opened");
                    faults.report_call_violation(ConformanceRule::TerminalUnknown, call, text);
                }
            }
        }
    }

    /// Checks the terminals that an update shows.
    fn check_shown_terminals(&self, update: &Value, faults: &mut LineViolations) {
        let shown =
            array_objects(&update["content"]).filter_map(|item| item["terminalId"].as_str());
        for id in shown {
            let why = match self.terminals.get(id) {
                None if self.terminals.has_removed() => continue,
                None => "was not opened",
                Some(TerminalPhase::Released) => "is released",
                Some(_) => continue,
            };
            let call = update["toolCallId"].as_str().unwrap_or_default();
            let text = format!("it shows the terminal {}, which {why}", escaped_excerpt(id));
            faults.report_call_violation(ConformanceRule::TerminalUnknown, call, text);
        }
    }

    /// Judges a plan. Each update of a plan contains the complete plan.
    fn judge_plan(&mut self, entries: &Value, faults: &mut LineViolations) {
        let text = |entry: &Value| entry["content"].as_str().unwrap_or_default().to_owned();
        if array_objects(entries).any(|entry| text(entry).trim().is_empty()) {
            faults.report_violation(ConformanceRule::PlanEntry, "an entry of the plan is empty");
        }
        let entries = || array_objects(entries).take(MAX_OPEN_REQUESTS);
        let all: HashSet<_> =
            entries().map(|entry| truncate_key(&text(entry)).to_owned()).collect();
        let open = entries().filter(|entry| entry["status"] != "completed");
        let open = open.map(|entry| truncate_key(&text(entry)).to_owned()).collect();
        let (was_open, were_all) = &self.plan;
        if !all.is_empty() && all.is_subset(were_all) && !was_open.is_subset(&all) {
            faults.report_violation(
                ConformanceRule::PlanPartial,
                "entries that were not completed are missing",
            );
        }
        self.plan = (open, all);
    }
}

/// Checks a path in the parameters of a request.
pub(super) fn check_path_param(params: &Value, name: &str, faults: &mut LineViolations) {
    if let Some(path) = params[name].as_str().filter(|path| !is_absolute(path)) {
        faults.report_violation(
            ConformanceRule::RelativePath,
            format!("{name} is {}", value_excerpt(&path.into())),
        );
    }
}

/// Returns whether an update belongs to a turn. Draft updates are not judged.
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
