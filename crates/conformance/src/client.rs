//! The client's side: it judges each message, holds what it was told, and says what to do.
//!
//! It does no input and no output.

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

use acp_types::schema::v1::{
    PermissionOptionKind, RequestPermissionRequest, SessionModeId, SessionNotification,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::behaviour::{Behaviour, Form, Permission, Timing};
use crate::limits::{MAX_KEPT, MAX_KEPT_TRANSCRIPT_BYTES};
use crate::session::Session;
use crate::{Fault, Side, Transcript};

/// A result, or an error object.
pub type Answer = Result<Value, Value>;

/// A permission request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The id of the JSON-RPC request.
    pub id: Value,
    /// What was asked.
    pub request: RequestPermissionRequest,
}

/// What is to be done about a message.
#[derive(Debug)]
pub(crate) enum Todo {
    Say(Value),
    SayLate(Duration, Value),
    /// A request about the client's files or terminals.
    Serve {
        id: Value,
        method: String,
        params: Value,
    },
}

/// A request of the client that is not answered.
#[derive(Debug)]
struct Request {
    method: String,
    session: Option<String>,
    /// What `session/set_mode` asks for.
    mode: Option<String>,
}

/// Everything that the client said and was told.
#[derive(Debug)]
pub struct Client {
    behaviour: Behaviour,
    judge: Transcript,
    faults: Vec<Fault>,
    requests: HashMap<String, Request>,
    answers: HashMap<String, Answer>,
    transcript: VecDeque<String>,
    transcript_bytes: usize,
    sessions: HashMap<String, Session>,
    after_cancel: Vec<Value>,
    /// The session that was opened first.
    pub first: Option<String>,
    /// What was asked.
    pub asked: Vec<Asked>,
    /// The forms that were shown, as the parameters of their requests.
    pub forms: Vec<Value>,
    /// The ids of requests that the agent took back.
    pub withdrawn: Vec<Value>,
    /// The errors that answer no request in particular.
    pub strays: Vec<Value>,
}

impl Client {
    /// Makes a client that has said nothing.
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            judge: Transcript::new(),
            faults: Vec::new(),
            requests: HashMap::new(),
            answers: HashMap::new(),
            transcript: VecDeque::new(),
            transcript_bytes: 0,
            sessions: HashMap::new(),
            after_cancel: Vec::new(),
            first: None,
            asked: Vec::new(),
            forms: Vec::new(),
            withdrawn: Vec::new(),
            strays: Vec::new(),
        }
    }

    /// Returns how it behaves.
    pub(crate) fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Returns the answer to a request, if it came.
    #[must_use]
    pub fn answer(&self, id: &Value) -> Option<&Answer> {
        self.answers.get(&id.to_string())
    }

    /// Returns what it holds of a session: nothing of one that was not opened.
    #[must_use]
    pub fn session(&self, id: &str) -> &Session {
        static NONE: LazyLock<Session> = LazyLock::new(Session::default);
        self.sessions.get(id).unwrap_or(&NONE)
    }

    /// Returns every session that was opened, with its id.
    pub fn sessions(&self) -> impl Iterator<Item = (&str, &Session)> {
        self.sessions.iter().map(|(id, session)| (id.as_str(), session))
    }

    /// Returns every broken rule of a side, the first 100,000 of both.
    #[must_use]
    pub fn faults_of(&self, side: Side) -> Vec<Fault> {
        self.faults.iter().filter(|fault| fault.side == side).cloned().collect()
    }

    /// Returns what was said, a message a line, as `callboard check-wire` reads it: the last
    /// 64 MiB of it.
    #[must_use]
    pub fn transcript(&self) -> String {
        self.transcript.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Notes a line that is sent, whatever it is.
    pub(crate) fn sent(&mut self, line: &[u8]) {
        self.note(Side::Client, line);
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
            // What it was is told before the answer.
            ("session/load" | "session/resume", Some(session)) => {
                self.sessions.insert(session.clone(), Session::default());
            }
            _ => {}
        }
        let mode = message["params"]["modeId"].as_str().map(str::to_owned);
        let request = Request { method: method.to_owned(), session, mode };
        self.requests.insert(id.to_string(), request);
    }

    /// Takes a line of the agent; returns what to do.
    pub(crate) fn receive(&mut self, line: &[u8]) -> Vec<Todo> {
        self.note(Side::Agent, line);
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        let id = message.get_mut("id").map(Value::take);
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => return self.asked(id, method.to_owned(), params),
            (Some(method), None) => self.told(method, &params),
            (None, id) => self.answered(&id.unwrap_or_default(), &message),
        }
        Vec::new()
    }

    /// What is to be said behind a `session/cancel`.
    pub(crate) fn after_cancel(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.after_cancel)
    }

    /// Notes that nothing more will be said.
    pub(crate) fn ended(&mut self) {
        let faults = self.judge.end();
        self.blame(faults);
    }

    fn note(&mut self, side: Side, line: &[u8]) {
        let faults = self.judge.said(side, line);
        self.blame(faults);
        let line = wrapped(side, line);
        self.transcript_bytes += line.len();
        self.transcript.push_back(line);
        while self.transcript_bytes > MAX_KEPT_TRANSCRIPT_BYTES
            && let Some(oldest) = self.transcript.pop_front()
        {
            self.transcript_bytes -= oldest.len();
        }
    }

    fn blame(&mut self, faults: Vec<Fault>) {
        let room = MAX_KEPT.saturating_sub(self.faults.len());
        self.faults.extend(faults.into_iter().take(room));
    }

    fn asked(&mut self, id: Value, method: String, params: Value) -> Vec<Todo> {
        let is_offered = match method.split('/').next() {
            Some("fs") => self.behaviour.files.is_some(),
            Some("terminal") => self.behaviour.terminals.is_some(),
            _ => false,
        };
        if is_offered {
            return vec![Todo::Serve { id, method, params }];
        }
        if let ("elicitation/create", Some(form)) = (&*method, self.behaviour.form) {
            let reply = form.reply(&id, &params);
            keep(&mut self.forms, params);
            return reply.map(Todo::Say).into_iter().collect();
        }
        if method != "session/request_permission" {
            return vec![Todo::Say(failure(&id, -32601, "Method not found"))];
        }
        let Ok(request) = RequestPermissionRequest::deserialize(&params) else {
            return vec![Todo::Say(failure(&id, -32602, "Invalid params"))];
        };
        if let Some(session) = self.sessions.get_mut(&*request.session_id.0) {
            session.observer.permission(&request);
        }
        let asked = Asked { id, request };
        let reply = asked.reply(self.behaviour.permission);
        keep(&mut self.asked, asked);
        let Some(reply) = reply else { return Vec::new() };
        match self.behaviour.timing {
            Timing::AtOnce => vec![Todo::Say(reply)],
            Timing::Twice => vec![Todo::Say(reply.clone()), Todo::Say(reply)],
            Timing::Late(after) => vec![Todo::SayLate(after, reply)],
            Timing::AfterCancel => {
                keep(&mut self.after_cancel, reply);
                Vec::new()
            }
        }
    }

    fn told(&mut self, method: &str, params: &Value) {
        match method {
            "session/update" => {
                let Ok(told) = SessionNotification::deserialize(params) else { return };
                if let Some(session) = self.sessions.get_mut(&*told.session_id.0) {
                    session.update(told.update);
                }
            }
            "$/cancel_request" => keep(&mut self.withdrawn, params["requestId"].clone()),
            _ => {}
        }
    }

    fn answered(&mut self, id: &Value, message: &Value) {
        let answer = match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        };
        let Some(request) = self.requests.remove(&id.to_string()) else {
            keep(&mut self.strays, answer.unwrap_or_else(|error| error));
            return;
        };
        if let Ok(result) = &answer {
            self.noted(&request, result);
        }
        let session = request.session.and_then(|id| self.sessions.get_mut(&id));
        if let ("session/prompt", Some(session)) = (&*request.method, session) {
            session.answered(id);
        }
        if self.answers.len() < MAX_KEPT {
            self.answers.insert(id.to_string(), answer);
        }
    }

    fn noted(&mut self, request: &Request, result: &Value) {
        let session = request.session.as_deref();
        match &*request.method {
            "session/new" => {
                let id = result["sessionId"].as_str().unwrap_or_default().to_owned();
                self.first.get_or_insert_with(|| id.clone());
                let mut session = Session::default();
                session.choices(result);
                self.sessions.insert(id, session);
            }
            "session/load" | "session/resume" | "session/set_config_option" => {
                if let Some(session) = session.and_then(|id| self.sessions.get_mut(id)) {
                    session.choices(result);
                }
            }
            "session/set_mode" => {
                let session = session.and_then(|id| self.sessions.get_mut(id));
                if let (Some(session), Some(mode)) = (session, &request.mode) {
                    session.set_mode(&SessionModeId::new(mode.as_str()));
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

impl Asked {
    /// Returns the client's reply, if it makes one.
    #[must_use]
    pub fn reply(&self, permission: Permission) -> Option<Value> {
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        let cancelled = json!({"outcome": {"outcome": "cancelled"}});
        let result = match permission {
            Permission::Never => return None,
            Permission::Error => return Some(failure(&self.id, -32603, "The dialog is broken")),
            Permission::Malformed => json!({"outcome": "allow"}),
            Permission::Cancelled => cancelled,
            Permission::SelectId(id) => selected(id),
            Permission::Select(kind) => self.option(kind).map_or(cancelled, selected),
        };
        Some(success(&self.id, &result))
    }

    fn option(&self, kind: PermissionOptionKind) -> Option<&str> {
        let option = self.request.options.iter().find(|option| option.kind == kind)?;
        Some(&option.option_id.0)
    }
}

impl Form {
    /// Returns the client's reply to a request with these parameters, if it makes one.
    fn reply(self, id: &Value, params: &Value) -> Option<Value> {
        let filled = |text: &str| {
            let fields = params["requestedSchema"]["properties"].as_object();
            let fields = fields.into_iter().flat_map(Map::keys);
            fields.map(|name| (name.clone(), json!(text))).collect::<Map<_, _>>()
        };
        let result = match self {
            Self::Never => return None,
            Self::Error => return Some(failure(id, -32603, "The form is broken")),
            Self::Fill(text) => json!({"action": "accept", "content": filled(text)}),
            Self::LeaveEmpty => json!({"action": "accept", "content": {}}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        };
        Some(success(id, &result))
    }
}

/// A JSON-RPC answer with a result.
pub(crate) fn success(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// A JSON-RPC answer with an error.
pub(crate) fn failure(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn keep<T>(kept: &mut Vec<T>, value: T) {
    if kept.len() < MAX_KEPT {
        kept.push(value);
    }
}

/// A line with its direction, as the agent sees it; one that is no object as a string.
fn wrapped(side: Side, line: &[u8]) -> String {
    let direction = if side == Side::Client { "in" } else { "out" };
    let text = String::from_utf8_lossy(line.trim_ascii());
    let is_object = text.starts_with('{') && serde_json::from_str::<Value>(&text).is_ok();
    let message = if is_object { text.into_owned() } else { json!(text).to_string() };
    format!("{{\"dir\":\"{direction}\",\"msg\":{message}}}")
}
