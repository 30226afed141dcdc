//! The client's side: it judges each message, holds what it was told, and says what to answer.
//!
//! It does no input and no output.

use std::collections::HashMap;

use acp_types::schema::v1::{
    CancelRequestNotification, PermissionOptionKind, RequestPermissionRequest, SessionNotification,
};
use serde_json::{Value, json};

use super::envelope::{self, Message};
use super::session::Session;
use super::{Answer, schema};

/// What the client answers when it is asked for permission.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Permission {
    /// The option of this kind.
    Select(PermissionOptionKind),
    /// An option by its id, which may be none of those offered.
    SelectId(&'static str),
    /// The outcome `cancelled`.
    Cancelled,
    /// A JSON-RPC error.
    Error,
    /// Nothing.
    Never,
}

impl Default for Permission {
    fn default() -> Self {
        Self::Select(PermissionOptionKind::AllowOnce)
    }
}

/// A permission request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The id of the JSON-RPC request.
    pub(crate) id: Value,
    /// What was asked.
    pub(crate) request: RequestPermissionRequest,
}

/// A request of the client that is not answered.
#[derive(Debug)]
struct Request {
    method: String,
    session: Option<String>,
}

/// Everything the client said and was told.
#[derive(Debug)]
pub(crate) struct Client {
    permission: Permission,
    requests: HashMap<String, Request>,
    answers: HashMap<String, Answer>,
    transcript: Vec<String>,
    sessions: HashMap<String, Session>,
    /// The session that was opened first.
    pub(crate) first: Option<String>,
    /// What was asked.
    pub(crate) asked: Vec<Asked>,
    /// The ids of requests that the agent took back.
    pub(crate) withdrawn: Vec<Value>,
    /// The errors that answer no request in particular.
    pub(crate) strays: Vec<Value>,
}

impl Client {
    /// Makes a client that has said nothing and answers like this.
    pub(crate) fn new(permission: Permission) -> Self {
        Self {
            permission,
            requests: HashMap::new(),
            answers: HashMap::new(),
            transcript: Vec::new(),
            sessions: HashMap::new(),
            first: None,
            asked: Vec::new(),
            withdrawn: Vec::new(),
            strays: Vec::new(),
        }
    }

    /// Notes a line that is sent, whatever it is.
    pub(crate) fn sent(&mut self, line: &str) {
        self.transcript.push(format!("→ {line}"));
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let (id, method) = (&message["id"], message["method"].as_str());
        let Some(method) = method.filter(|_| id.is_string() || id.is_i64()) else { return };
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        if method == "session/prompt"
            && let Some(session) = session.as_ref().and_then(|id| self.sessions.get_mut(id))
        {
            session.prompts.push(id.clone());
        }
        let request = Request { method: method.to_owned(), session };
        self.requests.insert(id.to_string(), request);
    }

    /// Takes a line of the agent; returns what to reply.
    ///
    /// # Panics
    /// If the line breaks a rule.
    pub(crate) fn receive(&mut self, line: &[u8]) -> Option<Value> {
        self.transcript.push(format!("← {}", String::from_utf8_lossy(line).trim_end()));
        match envelope::parse(line) {
            Message::Request { id, method, params } => return self.asked(id, &method, &params),
            Message::Notification { method, params } => self.told(&method, &params),
            Message::Answer { id, answer } => self.answered(&id, answer),
        }
        None
    }

    /// The answer to a request, if it came.
    pub(crate) fn answer(&self, id: &Value) -> Option<&Answer> {
        self.answers.get(&id.to_string())
    }

    /// What the client holds of a session.
    pub(crate) fn session(&self, id: &str) -> &Session {
        &self.sessions[id]
    }

    /// Judges what was told as a whole.
    ///
    /// # Panics
    /// If a rule of order was broken.
    pub(crate) fn judge(&self) {
        for (id, session) in &self.sessions {
            assert_eq!(session.observer.violations(), [], "in session {id}");
        }
    }

    /// Everything that was said, a message a line.
    pub(crate) fn transcript(&self) -> String {
        self.transcript.join("\n")
    }

    /// CLIENTCAP-001..003: without the capabilities there is only this one method.
    fn asked(&mut self, id: Value, method: &str, params: &Value) -> Option<Value> {
        assert_eq!(method, "session/request_permission", "a method without its capability");
        let request: RequestPermissionRequest = schema::parse(params);
        let session = self.sessions.get_mut(&*request.session_id.0).expect("a session");
        assert!(!session.prompts.is_empty(), "a question outside of a turn");
        session.observer.permission(&request);
        let asked = Asked { id, request };
        let reply = asked.reply(self.permission);
        self.asked.push(asked);
        reply
    }

    fn told(&mut self, method: &str, params: &Value) {
        match method {
            "session/update" => {
                let SessionNotification { session_id, update, .. } = schema::parse(params);
                let session = self.sessions.get_mut(&*session_id.0);
                session.expect("a session that was opened").update(update);
            }
            "$/cancel_request" => {
                schema::parse::<CancelRequestNotification>(params);
                self.withdrawn.push(params["requestId"].clone());
            }
            other => panic!("the protocol knows no {other}"),
        }
    }

    /// JSONRPC-001: an id comes back as it is; JSONRPC-003: nothing else is answered.
    fn answered(&mut self, id: &Value, answer: Answer) {
        if let Err(error) = &answer {
            schema::check_error(error);
        }
        let Some(request) = self.requests.remove(&id.to_string()) else {
            assert!(id.is_null(), "an answer to nothing: {id}");
            self.strays.push(answer.expect_err("an answer to nothing is an error"));
            return;
        };
        if let Ok(result) = &answer {
            schema::check_result(&request.method, result);
            self.noted(&request, result);
        }
        let session = request.session.and_then(|id| self.sessions.get_mut(&id));
        if let ("session/prompt", Some(session)) = (&*request.method, session) {
            session.answered(id, &answer);
        }
        self.answers.insert(id.to_string(), answer);
    }

    fn noted(&mut self, request: &Request, result: &Value) {
        match &*request.method {
            "session/new" => {
                let id = result["sessionId"].as_str().unwrap_or_default().to_owned();
                assert!(!id.is_empty(), "SESSION-001: an id is not empty");
                self.first.get_or_insert_with(|| id.clone());
                let other = self.sessions.insert(id, Session::default());
                assert!(other.is_none(), "SESSION-002: an id is given once");
            }
            "session/close" => {
                let session = request.session.as_ref().and_then(|id| self.sessions.get_mut(id));
                if let Some(session) = session {
                    let is_done = session.prompts.is_empty();
                    assert!(is_done, "prompts are answered before their session's end");
                    session.is_closed = true;
                }
            }
            _ => {}
        }
    }
}

impl Asked {
    /// The client's reply.
    ///
    /// # Panics
    /// If no option of the kind was offered.
    pub(crate) fn reply(&self, permission: Permission) -> Option<Value> {
        let selected = |id: &str| json!({"outcome": "selected", "optionId": id});
        let outcome = match permission {
            Permission::Never => return None,
            Permission::Error => {
                let error = json!({"code": -32603, "message": "The dialog is broken"});
                return Some(json!({"jsonrpc": "2.0", "id": self.id, "error": error}));
            }
            Permission::Cancelled => json!({"outcome": "cancelled"}),
            Permission::SelectId(id) => selected(id),
            Permission::Select(kind) => {
                let mut options = self.request.options.iter();
                let option = options.find(|option| option.kind == kind);
                selected(&option.unwrap_or_else(|| panic!("no option {kind:?}")).option_id.0)
            }
        };
        let result = json!({ "outcome": outcome });
        schema::check_reply(&result);
        Some(json!({"jsonrpc": "2.0", "id": self.id, "result": result}))
    }
}
