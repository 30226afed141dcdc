//! A client of one protocol, and the view that it must have after a load.

use std::collections::BTreeMap;

use acp_connection::UpdateEncoder;
use acp_lifecycle::OutboxItem;
use acp_types::client_state::{v1::V1ClientState, v2::V2ClientState};
use acp_types::wire::v2::V2Projection;
use acp_types::{TerminalReport, tool_kind};
use agent_client_protocol::v1::schema::{ClientCapabilities, SessionUpdate};
use serde_json::{Map, Value, json};

/// A protocol, with the way in which its client shows terminals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestClientKind {
    V1Text,
    V1Terminals,
    V2,
}

/// The way in which a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// The sessions are closed. A turn may be running, e.g. if a tool does not end.
    End,
    Kill,
}

/// A client of a session.
pub(super) struct TestClient {
    wire: ClientProtocolState,
    view: ClientView,
    /// The terminals that the client runs itself.
    own_terminals: BTreeMap<String, TerminalReport>,
    /// The view at the start of each remaining prompt.
    starts: Vec<ClientView>,
    /// The plan after a rewind, until the next plan arrives.
    rewound_plan: Option<Value>,
}

enum ClientProtocolState {
    V1(UpdateEncoder, V1ClientState),
    V2(V2Projection, V2ClientState),
}

/// The state of a session that a client shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClientView {
    /// Prompts and messages, and the ids of calls, in the order in which they are shown.
    transcript: Vec<Value>,
    calls: BTreeMap<String, Value>,
    terminals: BTreeMap<String, Value>,
    plan: Value,
    usage: Value,
    info: Map<String, Value>,
    compactions: BTreeMap<String, Value>,
}

impl TestClient {
    pub(super) fn new(protocol: TestClientKind) -> Self {
        let v1 = |capabilities: Value| {
            let capabilities: ClientCapabilities = serde_json::from_value(capabilities).unwrap();
            ClientProtocolState::V1(UpdateEncoder::new(&capabilities), V1ClientState::new())
        };
        let wire = match protocol {
            TestClientKind::V1Text => v1(json!({})),
            TestClientKind::V1Terminals => {
                v1(json!({"_meta": {"terminal_output": true}, "session": {"compaction": {}}}))
            }
            TestClientKind::V2 => {
                ClientProtocolState::V2(V2Projection::new(), V2ClientState::new())
            }
        };
        Self {
            wire,
            view: ClientView::default(),
            own_terminals: BTreeMap::new(),
            starts: Vec::new(),
            rewound_plan: None,
        }
    }

    /// Shows a prompt that the user typed.
    pub(super) fn type_prompt(&mut self, text: &str) {
        self.starts.push(ClientView { plan: self.shown_plan(), ..self.view.clone() });
        self.view.transcript.push(json!({"prompt": text}));
    }

    /// Removes everything that a rewind removed. This removal is one of the exceptions of G9. The
    /// prompt that requested the rewind stays.
    pub(super) fn rewind(&mut self, keep: usize, prompt: &str) {
        self.starts.truncate(keep + 1);
        self.view = self.starts[keep].clone();
        self.rewound_plan = Some(self.view.plan.clone());
        self.view.transcript.push(json!({"prompt": prompt}));
    }

    fn shown_plan(&self) -> Value {
        let latest = || match &self.wire {
            ClientProtocolState::V1(_, seen) => seen.latest_plan().map(to_json),
            ClientProtocolState::V2(_, seen) => seen.latest_plan().map(to_json),
        };
        self.rewound_plan.clone().or_else(latest).unwrap_or_default()
    }

    pub(super) fn receive(&mut self, item: &OutboxItem) {
        if let OutboxItem::Plan(_) = item {
            self.rewound_plan = None;
        }
        if let OutboxItem::Terminal(id, patch) = item {
            let report = TerminalReport::new(id.clone());
            patch.clone().apply(self.own_terminals.entry(id.to_string()).or_insert(report));
        }
        let updates: Vec<Value> = match &mut self.wire {
            ClientProtocolState::V1(encoder, seen) => {
                // The encoder returns no updates for requests and responses.
                let updates = encoder.encode(item.clone()).unwrap_or_default();
                let updates = updates.into_iter().map(|update| {
                    let update = serde_json::to_value(update).unwrap();
                    let parsed: SessionUpdate = serde_json::from_value(update.clone()).unwrap();
                    seen.apply_session_update(&parsed);
                    update
                });
                updates.collect()
            }
            ClientProtocolState::V2(sent, seen) => {
                let updates = match item {
                    OutboxItem::ToolCall(id, patch) => sent.updates_for_call_patch(id, patch),
                    OutboxItem::Terminal(id, patch) => sent.updates_for_terminal_patch(id, patch),
                    OutboxItem::Chunk(chunk) => vec![sent.update_for_chunk(chunk)],
                    OutboxItem::Plan(plan) => vec![sent.update_for_plan("plan", plan)],
                    OutboxItem::State(state) => sent.update_for_state(state).into_iter().collect(),
                    // For draft v2, no function encodes this item, so the test uses the form of v1.
                    OutboxItem::Prompt(block) => {
                        let content = serde_json::to_value(&block.block).unwrap();
                        let kind = "user_message_chunk";
                        return self.view.fold(&json!({"sessionUpdate": kind, "content": content}));
                    }
                    _ => Vec::new(),
                };
                updates.iter().for_each(|update| seen.apply_session_update(update));
                updates.iter().map(|update| serde_json::to_value(update).unwrap()).collect()
            }
        };
        updates.iter().for_each(|update| self.view.fold(update));
    }

    /// Returns the violations of the protocol's ordering rules.
    pub(super) fn violations(&self) -> String {
        let violations = match &self.wire {
            ClientProtocolState::V1(_, seen) => seen.violations(),
            ClientProtocolState::V2(_, seen) => seen.violations(),
        };
        violations.iter().map(|violation| format!("{violation}\n")).collect()
    }

    /// Returns the state that the client shows.
    pub(super) fn into_view(self) -> ClientView {
        let plan = self.shown_plan();
        let Self { wire, mut view, .. } = self;
        view.plan = plan;
        match wire {
            ClientProtocolState::V1(_, seen) => {
                let is_left = |id: &str| view.transcript.contains(&json!({ "call": id }));
                for call in seen.observed_calls().filter(|call| is_left(&call.tool_call_id.0)) {
                    view.calls.insert(call.tool_call_id.to_string(), to_json(call));
                }
                for id in view.calls.keys() {
                    if let Some(shown) = seen.observed_terminal(id) {
                        let shown =
                            json!({"cwd": shown.cwd, "output": shown.output, "exit": shown.exit});
                        view.terminals.insert(id.clone(), shown);
                    }
                }
            }
            ClientProtocolState::V2(_, seen) => {
                let calls = view.transcript.iter().filter_map(|entry| entry["call"].as_str());
                for id in calls {
                    let call = to_json(seen.observed_call(id).unwrap());
                    view.calls.insert(id.to_owned(), call);
                    if let Some((shown, output)) = seen.observed_terminal(id) {
                        let output = String::from_utf8_lossy(output);
                        let shown = json!({"terminal": to_json(shown), "output": output});
                        view.terminals.insert(id.to_owned(), shown);
                    }
                }
            }
        }
        // If a call no longer contains its terminal, the client does not show the terminal.
        let ClientView { calls, terminals, .. } = &mut view;
        terminals.retain(|id, _| calls[id]["content"].to_string().contains("\"terminalId\""));
        view.remove_defaults();
        view
    }
}

impl ClientView {
    fn fold(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap();
        match kind {
            "user_message_chunk" => {
                self.transcript.push(json!({"prompt": update["content"]["text"]}));
            }
            "agent_message_chunk" | "agent_thought_chunk" => {
                let entry = json!({"kind": kind, "id": update["messageId"], "text": ""});
                let text = update["content"]["text"].as_str().unwrap();
                let is_same =
                    |last: &&mut Value| last["kind"] == entry["kind"] && last["id"] == entry["id"];
                if self.transcript.last_mut().filter(is_same).is_none() {
                    self.transcript.push(entry);
                }
                if let Some(Value::String(all)) =
                    self.transcript.last_mut().and_then(|last| last.get_mut("text"))
                {
                    all.push_str(text);
                }
            }
            "tool_call" | "tool_call_update" => {
                let call = json!({"call": update["toolCallId"]});
                if !self.transcript.contains(&call) {
                    self.transcript.push(call);
                }
            }
            "usage_update" => self.usage = update.clone(),
            "session_info_update" => self.info.extend(update.as_object().unwrap().clone()),
            "compaction_update" => {
                let id = update["compactionId"].as_str().unwrap().to_owned();
                self.compactions.insert(id, update.clone());
            }
            // Modes and options are part of the response to a load. The state of terminals and
            // plans comes from the client state in [`TestClient::into_view`].
            _ => {}
        }
    }

    /// Removes fields whose value has the same meaning as a missing field.
    fn remove_defaults(&mut self) {
        for call in self.calls.values_mut().filter_map(Value::as_object_mut) {
            let is_default =
                |value: &Value| *value == Value::Null || *value == json!([]) || *value == json!({});
            if call.get("_meta").is_some_and(|meta| meta["callboard"] == json!({})) {
                call.remove("_meta");
            }
            call.retain(|_, value| !is_default(value));
        }
    }

    /// Removes the permitted differences between the view before a kill and the view after it.
    /// After a kill, an open message may lack its end, and an open call may lack its last changes.
    pub(super) fn remove_allowed_kill_differences(&mut self, before: &mut Self, open: &[String]) {
        for id in open {
            assert_eq!(self.calls[id]["status"], "failed");
            for view in [&mut *self, &mut *before] {
                view.calls.remove(id);
                view.terminals.remove(id);
            }
        }
        let text = |entry: Option<&Value>| Some(entry?["text"].as_str()?.to_owned());
        let (mine, theirs) = (text(self.transcript.last()), text(before.transcript.last()));
        if let (Some(mine), Some(theirs)) = (mine, theirs)
            && theirs.starts_with(&mine)
            && let Some(last) = self.transcript.last_mut()
        {
            last["text"] = theirs.into();
        }
    }
}

impl TestClient {
    /// Returns the calls that have not ended.
    pub(super) fn open_calls(&self) -> Vec<String> {
        let is_open = |id: &&str| match &self.wire {
            ClientProtocolState::V1(_, seen) => seen.observed_call(id).is_some_and(|call| {
                !["completed", "failed"].contains(&&*to_json_string_content(&call.status))
            }),
            ClientProtocolState::V2(_, seen) => seen.observed_call(id).is_some_and(|call| {
                let ended = ["completed", "failed", "cancelled"];
                !ended.contains(&&*to_json_string_content(&call.status))
            }),
        };
        let calls = self.view.transcript.iter().filter_map(|entry| entry["call"].as_str());
        calls.filter(is_open).map(str::to_owned).collect()
    }
}

fn to_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn to_json_string_content(value: &impl serde::Serialize) -> String {
    to_json(value).as_str().unwrap_or_default().to_owned()
}

/// Returns the view that a client must have after a load. The expected view is the view of the live
/// session, changed only by the exceptions of G9.
pub(super) fn expected_view_after_load(live: TestClient, budget: u64) -> ClientView {
    let (open, own_terminals) = (live.open_calls(), live.own_terminals.clone());
    let is_v1 = matches!(live.wire, ClientProtocolState::V1(..));
    let mut view = live.into_view();
    for (id, call) in &mut view.calls {
        if open.contains(id) {
            end_cut_off_call(call, is_v1);
            // The client of draft v2 may not have received an update of the terminal yet.
            if call["content"].to_string().contains("\"terminalId\"") && !is_v1 {
                let opened = json!({"terminal": {"terminalId": id}, "output": ""});
                view.terminals.entry(id.clone()).or_insert(opened);
            }
            if let Some(terminal) = view.terminals.get_mut(id) {
                end_terminal(id, terminal, is_v1);
            }
        }
        replace_own_terminals_by_text(call, &own_terminals);
        if budget == 0 {
            link_large_content(id, call);
        }
    }
    view
}

/// Converts an open call to a failed call with the reason `shutdown`.
fn end_cut_off_call(call: &mut Value, is_v1: bool) {
    let was_pending = call.get("status").is_none_or(|status| status == "pending");
    call["status"] = "failed".into();
    let call = call.as_object_mut().unwrap();
    call.remove("capabilities");
    let error = "Ended because the session or the agent ended.";
    call.entry("rawOutput").or_insert_with(|| json!({"error": error, "code": "shutdown"}));
    let kind = call.get("kind").cloned().unwrap_or_else(|| "other".into());
    let kind = serde_json::from_value(kind).unwrap();
    let meta = call.entry("_meta").or_insert_with(|| json!({}));
    let own = meta.as_object_mut().unwrap().entry("callboard").or_insert_with(|| json!({}));
    let own = own.as_object_mut().unwrap();
    let has_started = own.contains_key("startedAt");
    own.insert("reason".into(), "shutdown".into());
    own.insert(
        "mayHaveActed".into(),
        (has_started && tool_kind::may_have_side_effects(kind)).into(),
    );
    own.remove("progress");
    own.remove("arriving");
    // While a call waits, its text contains the folder of its command.
    if is_v1
        && was_pending
        && let Some(Value::Array(items)) = call.get_mut("content")
    {
        for text in items.iter_mut().filter_map(|item| item.pointer_mut("/content/text")) {
            *text = text.as_str().unwrap().replace("[in /p]\n", "").into();
        }
    }
}

/// Converts the terminal of an open call to an ended terminal without an exit code.
fn end_terminal(id: &str, terminal: &mut Value, is_v1: bool) {
    if is_v1 && terminal["exit"].is_null() {
        terminal["exit"] = json!({"terminal_id": id, "exit_code": null, "signal": null});
    } else if !is_v1 && terminal["terminal"].get("exitStatus").is_none() {
        terminal["terminal"]["exitStatus"] = json!({});
    }
}

/// Replaces terminals that ran in the client by texts with their last output.
fn replace_own_terminals_by_text(
    call: &mut Value,
    own_terminals: &BTreeMap<String, TerminalReport>,
) {
    let Some(Value::Array(items)) = call.get_mut("content") else { return };
    for item in items.iter_mut().filter(|item| item["type"] == "terminal") {
        let shown = item["terminalId"].as_str().unwrap();
        let is_shown =
            |report: &&TerminalReport| report.client_id.as_ref().is_some_and(|id| &*id.0 == shown);
        if let Some(report) = own_terminals.values().find(is_shown) {
            let output = report.output.to_bytes_with_omission_line();
            let mut text = format!("$ make\n{}", String::from_utf8_lossy(&output));
            if report.exit.as_ref().is_some_and(|exit| exit.code == Some(1)) {
                let line = if text.ends_with('\n') { "" } else { "\n" };
                text += &format!("{line}[exit code 1]");
            }
            let text = callboard_text::wrap_in_code_fence("console", &text);
            *item = json!({"type": "content", "content": {"type": "text", "text": text}});
        }
    }
}

/// Replaces large content by links, as in a load that exceeds its budget.
fn link_large_content(id: &str, call: &mut Value) {
    let name = "2,002 bytes, left out of this load";
    let is_large = |text: &Value| text.as_str().is_some_and(|text| text.len() == 2000);
    if is_large(&call["rawOutput"]) {
        call["rawOutput"] = name.into();
    }
    let Some(Value::Array(items)) = call.get_mut("content") else { return };
    for item in items {
        if is_large(&item["content"]["text"]) {
            let uri = format!("stored-session/{id}");
            item["content"] = json!({"type": "resource_link", "name": name, "uri": uri});
        }
    }
}
