//! The client: judges each message, stores the reported state, and decides the reply.

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

use acp_types::schema::v1::{
    PermissionOptionKind, RequestPermissionRequest, SessionModeId, SessionNotification,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::behaviour::{ClientBehaviour, FormReply, PermissionReply, PermissionReplyTiming};
use crate::limits::{MAX_KEPT_ITEMS, MAX_KEPT_TRANSCRIPT_BYTES};
use crate::session::ObservedSession;
use crate::{RuleViolation, Side, TranscriptJudge};

/// The content of a JSON-RPC response: the result, or the error object.
pub type JsonRpcResult = Result<Value, Value>;

/// A permission request that the client received.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReceivedPermissionRequest {
    /// The id of the JSON-RPC request.
    pub id: Value,
    /// The parameters of the request.
    pub request: RequestPermissionRequest,
}

/// The reaction of the client to a message.
#[derive(Debug)]
pub(crate) enum ClientAction {
    Send(Value),
    SendDelayed(Duration, Value),
    /// A request for the client's files or terminals.
    Serve {
        id: Value,
        method: String,
        params: Value,
    },
}

/// An unanswered request of the client.
#[derive(Debug)]
struct OpenClientRequest {
    method: String,
    session: Option<String>,
    /// The mode that `session/set_mode` requests.
    mode: Option<String>,
}

/// The client, with everything that the client has sent and received.
#[derive(Debug)]
pub struct TestClient {
    behaviour: ClientBehaviour,
    judge: TranscriptJudge,
    violations: Vec<RuleViolation>,
    requests: HashMap<String, OpenClientRequest>,
    answers: HashMap<String, JsonRpcResult>,
    transcript: VecDeque<String>,
    transcript_bytes: usize,
    sessions: HashMap<String, ObservedSession>,
    deferred_replies: Vec<Value>,
    /// The id of the first session that was opened.
    pub first_session: Option<String>,
    /// All permission requests, in order.
    pub permission_requests: Vec<ReceivedPermissionRequest>,
    /// The parameters of all form requests.
    pub forms: Vec<Value>,
    /// The ids of the requests that the agent cancelled.
    pub cancelled_requests: Vec<Value>,
    /// The results and error objects of responses without a matching request.
    pub unmatched_errors: Vec<Value>,
}

impl TestClient {
    /// Creates a client that has sent nothing.
    pub(crate) fn new(behaviour: ClientBehaviour) -> Self {
        Self {
            behaviour,
            judge: TranscriptJudge::new(),
            violations: Vec::new(),
            requests: HashMap::new(),
            answers: HashMap::new(),
            transcript: VecDeque::new(),
            transcript_bytes: 0,
            sessions: HashMap::new(),
            deferred_replies: Vec::new(),
            first_session: None,
            permission_requests: Vec::new(),
            forms: Vec::new(),
            cancelled_requests: Vec::new(),
            unmatched_errors: Vec::new(),
        }
    }

    /// Returns the client's behaviour.
    pub(crate) fn behaviour(&self) -> &ClientBehaviour {
        &self.behaviour
    }

    /// Returns the response to a request, if the response has arrived.
    #[must_use]
    pub fn response(&self, id: &Value) -> Option<&JsonRpcResult> {
        self.answers.get(&id.to_string())
    }

    /// Returns the state of a session. For an unknown session, the state is empty.
    #[must_use]
    pub fn session(&self, id: &str) -> &ObservedSession {
        static NONE: LazyLock<ObservedSession> = LazyLock::new(ObservedSession::default);
        self.sessions.get(id).unwrap_or(&NONE)
    }

    /// Returns every session that was opened, with its id.
    pub fn sessions(&self) -> impl Iterator<Item = (&str, &ObservedSession)> {
        self.sessions.iter().map(|(id, session)| (id.as_str(), session))
    }

    /// Returns the violations of one side. At most 100,000 violations of both sides together are
    /// kept.
    #[must_use]
    pub fn violations_by(&self, side: Side) -> Vec<RuleViolation> {
        self.violations.iter().filter(|fault| fault.side == side).cloned().collect()
    }

    /// Returns the last 64 MiB of the transcript, one message per line, in the format that
    /// `callboard check-wire` reads.
    #[must_use]
    pub fn transcript(&self) -> String {
        self.transcript.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Records a line that the client sends.
    pub(crate) fn record_sent(&mut self, line: &[u8]) {
        self.judge_and_record_line(Side::Client, line);
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        let (id, method) = (&message["id"], message["method"].as_str());
        let Some(method) = method.filter(|_| id.is_string() || id.is_i64()) else { return };
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        match (method, &session) {
            ("session/prompt", Some(session)) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.prompts.push(id.clone());
                }
            }
            // Insert the session now, because the agent replays the history before it responds.
            ("session/load" | "session/resume", Some(session)) => {
                self.sessions.insert(session.clone(), ObservedSession::default());
            }
            _ => {}
        }
        let mode = message["params"]["modeId"].as_str().map(str::to_owned);
        let request = OpenClientRequest { method: method.to_owned(), session, mode };
        self.requests.insert(id.to_string(), request);
    }

    /// Processes a line of the agent; returns the client's actions.
    pub(crate) fn process_agent_line(&mut self, line: &[u8]) -> Vec<ClientAction> {
        self.judge_and_record_line(Side::Agent, line);
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        let id = message.get_mut("id").map(Value::take);
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => return self.handle_request(id, method.to_owned(), params),
            (Some(method), None) => self.handle_notification(method, &params),
            (None, id) => self.handle_response(&id.unwrap_or_default(), &message),
        }
        Vec::new()
    }

    /// Returns the replies to send after a `session/cancel`.
    pub(crate) fn take_deferred_replies(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.deferred_replies)
    }

    /// Records the end of the transcript.
    pub(crate) fn finish_transcript(&mut self) {
        let faults = self.judge.finish_and_report_unanswered();
        self.add_violations(faults);
    }

    fn judge_and_record_line(&mut self, side: Side, line: &[u8]) {
        let faults = self.judge.judge_line_of_side(side, line);
        self.add_violations(faults);
        let line = line_with_direction(side, line);
        self.transcript_bytes += line.len();
        self.transcript.push_back(line);
        while self.transcript_bytes > MAX_KEPT_TRANSCRIPT_BYTES
            && let Some(oldest) = self.transcript.pop_front()
        {
            self.transcript_bytes -= oldest.len();
        }
    }

    fn add_violations(&mut self, faults: Vec<RuleViolation>) {
        let room = MAX_KEPT_ITEMS.saturating_sub(self.violations.len());
        self.violations.extend(faults.into_iter().take(room));
    }

    fn handle_request(&mut self, id: Value, method: String, params: Value) -> Vec<ClientAction> {
        let is_offered = match method.split('/').next() {
            Some("fs") => self.behaviour.files.is_some(),
            Some("terminal") => self.behaviour.terminals.is_some(),
            _ => false,
        };
        if is_offered {
            return vec![ClientAction::Serve { id, method, params }];
        }
        if let ("elicitation/create", Some(form)) = (&*method, self.behaviour.form) {
            let reply = form.build_reply(&id, &params);
            push_unless_full(&mut self.forms, params);
            return reply.map(ClientAction::Send).into_iter().collect();
        }
        if method != "session/request_permission" {
            return vec![ClientAction::Send(error_response(&id, -32601, "Method not found"))];
        }
        let Ok(request) = RequestPermissionRequest::deserialize(&params) else {
            return vec![ClientAction::Send(error_response(&id, -32602, "Invalid params"))];
        };
        if let Some(session) = self.sessions.get_mut(&*request.session_id.0) {
            session.client_state.apply_permission_request(&request);
        }
        let asked = ReceivedPermissionRequest { id, request };
        let reply = asked.build_reply(self.behaviour.permission);
        push_unless_full(&mut self.permission_requests, asked);
        let Some(reply) = reply else { return Vec::new() };
        match self.behaviour.timing {
            PermissionReplyTiming::Immediately => vec![ClientAction::Send(reply)],
            PermissionReplyTiming::Twice => {
                vec![ClientAction::Send(reply.clone()), ClientAction::Send(reply)]
            }
            PermissionReplyTiming::Delayed(after) => vec![ClientAction::SendDelayed(after, reply)],
            PermissionReplyTiming::AfterCancel => {
                push_unless_full(&mut self.deferred_replies, reply);
                Vec::new()
            }
        }
    }

    fn handle_notification(&mut self, method: &str, params: &Value) {
        match method {
            "session/update" => {
                let Ok(notification) = SessionNotification::deserialize(params) else { return };
                if let Some(session) = self.sessions.get_mut(&*notification.session_id.0) {
                    session.apply_update(notification.update);
                }
            }
            "$/cancel_request" => {
                push_unless_full(&mut self.cancelled_requests, params["requestId"].clone());
            }
            _ => {}
        }
    }

    fn handle_response(&mut self, id: &Value, message: &Value) {
        let answer = match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        };
        let Some(request) = self.requests.remove(&id.to_string()) else {
            push_unless_full(&mut self.unmatched_errors, answer.unwrap_or_else(|error| error));
            return;
        };
        if let Ok(result) = &answer {
            self.apply_result(&request, result);
        }
        let session = request.session.and_then(|id| self.sessions.get_mut(&id));
        if let ("session/prompt", Some(session)) = (&*request.method, session) {
            session.record_prompt_response(id);
        }
        if self.answers.len() < MAX_KEPT_ITEMS {
            self.answers.insert(id.to_string(), answer);
        }
    }

    fn apply_result(&mut self, request: &OpenClientRequest, result: &Value) {
        let session = request.session.as_deref();
        match &*request.method {
            "session/new" | "session/fork" => {
                let id = result["sessionId"].as_str().unwrap_or_default().to_owned();
                self.first_session.get_or_insert_with(|| id.clone());
                let mut session = ObservedSession::default();
                session.apply_modes_and_options(result);
                self.sessions.insert(id, session);
            }
            "session/load" | "session/resume" | "session/set_config_option" => {
                if let Some(session) = session.and_then(|id| self.sessions.get_mut(id)) {
                    session.apply_modes_and_options(result);
                }
            }
            "session/set_mode" => {
                let session = session.and_then(|id| self.sessions.get_mut(id));
                if let (Some(session), Some(mode)) = (session, &request.mode) {
                    session.record_current_mode(&SessionModeId::new(mode.as_str()));
                }
            }
            "session/close" => {
                if let Some(session) = session.and_then(|id| self.sessions.get_mut(id)) {
                    session.is_closed = true;
                }
            }
            _ => {}
        }
    }
}

impl ReceivedPermissionRequest {
    /// Returns the client's reply to this request. Returns `None` if the client does not reply.
    #[must_use]
    pub fn build_reply(&self, permission: PermissionReply) -> Option<Value> {
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        let cancelled = json!({"outcome": {"outcome": "cancelled"}});
        let result = match permission {
            PermissionReply::NoReply => return None,
            PermissionReply::Error => {
                return Some(error_response(&self.id, -32603, "The dialog is broken"));
            }
            PermissionReply::Malformed => json!({"outcome": "allow"}),
            PermissionReply::Cancelled => cancelled,
            PermissionReply::SelectId(id) => selected(id),
            PermissionReply::SelectFirstOffered(ids) => {
                let options = &self.request.options;
                let is_offered = |id: &&&str| options.iter().any(|it| &*it.option_id.0 == **id);
                ids.iter().find(is_offered).map_or(cancelled, |id| selected(id))
            }
            PermissionReply::Select(kind) => {
                self.find_option_id_by_kind(kind).map_or(cancelled, selected)
            }
        };
        Some(success_response(&self.id, &result))
    }

    fn find_option_id_by_kind(&self, kind: PermissionOptionKind) -> Option<&str> {
        let option = self.request.options.iter().find(|option| option.kind == kind)?;
        Some(&option.option_id.0)
    }
}

impl FormReply {
    /// Returns the client's reply to a form request with these parameters. Returns `None` if the
    /// client does not reply.
    fn build_reply(self, id: &Value, params: &Value) -> Option<Value> {
        let filled = |text: &str| {
            let fields = params["requestedSchema"]["properties"].as_object();
            let fields = fields.into_iter().flat_map(Map::keys);
            fields.map(|name| (name.clone(), json!(text))).collect::<Map<_, _>>()
        };
        let result = match self {
            Self::NoReply => return None,
            Self::Error => return Some(error_response(id, -32603, "The form is broken")),
            Self::Fill(text) => json!({"action": "accept", "content": filled(text)}),
            Self::LeaveEmpty => json!({"action": "accept", "content": {}}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        };
        Some(success_response(id, &result))
    }
}

/// Returns a JSON-RPC response with a result.
pub(crate) fn success_response(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns a JSON-RPC response with an error.
pub(crate) fn error_response(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn push_unless_full<T>(kept: &mut Vec<T>, value: T) {
    if kept.len() < MAX_KEPT_ITEMS {
        kept.push(value);
    }
}

/// Returns a line of a transcript: the direction as the agent sees it (`in` or `out`), and the
/// message. If the line is not a JSON object, the message is the text of the line as a string.
fn line_with_direction(side: Side, line: &[u8]) -> String {
    let direction = if side == Side::Client { "in" } else { "out" };
    let text = String::from_utf8_lossy(line.trim_ascii());
    let is_object = text.starts_with('{') && serde_json::from_str::<Value>(&text).is_ok();
    let message = if is_object { text.into_owned() } else { json!(text).to_string() };
    format!("{{\"dir\":\"{direction}\",\"msg\":{message}}}")
}
