//! The judge: it takes messages one by one and says what is wrong with each.

use std::fmt;
use std::io::{self, BufRead, Read as _};

use acp_transport::{MAX_LINE_BYTES, is_within_bounds};
use acp_types::schema::v1;
use serde_json::{Map, Value};

use super::bounded_map::{BoundedMap, key};
use super::calls::items;
use super::capabilities;
use super::methods::{self, CANCEL_REQUEST, DRAFT_UPDATES, Method};
use super::requests::{Asked, Permission, Requests};
use super::schema::check;
use super::session::{Session, path};
use super::{Fault, Faults, Rule, Side, excerpt, shown};
use crate::limits::{
    MAX_AGENT_LINE_BYTES, MAX_JUDGED_OPTIONS, MAX_JUDGED_SESSIONS, MAX_STREAMED_UPDATE_BYTES,
};

/// What was said on one connection so far, as far as it is needed to judge what comes next.
pub struct Transcript {
    client: Requests,
    agent: Requests,
    sessions: BoundedMap<Session>,
    /// What each side said that it can do.
    client_can: Value,
    agent_can: Value,
    start: Start,
    faults: Faults,
}

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Start {
    Nothing,
    Asked,
    Initialized,
}

type Object = Map<String, Value>;

impl Transcript {
    /// Makes the transcript of a connection on which nothing was said.
    #[must_use]
    pub fn new() -> Self {
        Self {
            client: Requests::default(),
            agent: Requests::default(),
            sessions: BoundedMap::new(MAX_JUDGED_SESSIONS),
            client_can: Value::Null,
            agent_can: Value::Null,
            start: Start::Nothing,
            faults: Faults { line: 0, side: Side::Agent, found: Vec::new() },
        }
    }

    /// Takes the next line of a file, with or without its direction; returns its faults.
    pub fn line(&mut self, line: &[u8]) -> Vec<Fault> {
        self.take(None, line)
    }

    /// Takes the next line of a side, as it was on the wire; returns its faults.
    pub fn said(&mut self, side: Side, line: &[u8]) -> Vec<Fault> {
        self.take(Some(side), line)
    }

    /// Takes the lines of a file, with or without their directions, and its end. `found` gets each
    /// fault. Returns how many lines there are.
    ///
    /// # Errors
    ///
    /// Whatever reading gives.
    pub fn read(
        mut self,
        mut input: impl BufRead,
        mut found: impl FnMut(&Fault),
    ) -> io::Result<u64> {
        let mut line = Vec::new();
        while input.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)? > 0 {
            let faults = if line.len() <= MAX_LINE_BYTES || line.ends_with(b"\n") {
                self.line(&line)
            } else {
                input.skip_until(b'\n')?;
                self.skipped()
            };
            faults.iter().for_each(&mut found);
            line.clear();
        }
        self.end().iter().for_each(found);
        Ok(self.faults.line)
    }

    /// Counts a line that is too long to be read.
    fn skipped(&mut self) -> Vec<Fault> {
        self.faults.line += 1;
        self.faults.side = Side::Agent;
        self.faults.add(Rule::NotJudged, format!("longer than {MAX_LINE_BYTES} bytes"));
        std::mem::take(&mut self.faults.found)
    }

    /// Ends the transcript: returns a fault for each request that is not answered.
    pub fn end(&mut self) -> Vec<Fault> {
        for asker in [Side::Client, Side::Agent] {
            self.faults.side = asker.other();
            for (id, asked) in self.requests(asker).take() {
                if asked.is_sound {
                    let text = format!("{} {} is not answered", shown(&asked.name), shown(&id));
                    self.faults.add(Rule::NeverAnswered, text);
                }
            }
        }
        std::mem::take(&mut self.faults.found)
    }

    fn take(&mut self, side: Option<Side>, line: &[u8]) -> Vec<Fault> {
        self.faults.line += 1;
        self.faults.side = side.unwrap_or(Side::Agent);
        let line = line.trim_ascii();
        if !line.is_empty()
            && let Some(value) = self.parse(line)
        {
            match direction(&value).filter(|_| side.is_none()) {
                Some(side) => self.wrapped(side, value, line.len()),
                None => self.message(side, value, line.len()),
            }
        }
        std::mem::take(&mut self.faults.found)
    }

    fn parse(&mut self, line: &[u8]) -> Option<Value> {
        if line.len() > MAX_LINE_BYTES || !is_within_bounds(line) {
            self.faults.add(Rule::NotJudged, "too long, too deep or too many values");
            return None;
        }
        let Ok(text) = str::from_utf8(line) else {
            self.faults.add(Rule::NotUtf8, "the line is not UTF-8");
            return None;
        };
        serde_json::from_str(text)
            .map_err(|error| self.faults.add(Rule::NotJson, shown(&error.to_string())))
            .ok()
    }

    /// Takes a message with its direction; one that is a string is the line itself.
    fn wrapped(&mut self, side: Side, mut wrapped: Value, bytes: usize) {
        self.faults.side = side;
        match wrapped["msg"].take() {
            Value::String(line) => {
                let line = line.trim_ascii();
                if let Some(value) = self.parse(line.as_bytes()) {
                    self.message(Some(side), value, line.len());
                }
            }
            message => self.message(Some(side), message, bytes.saturating_sub(WRAPPER_BYTES)),
        }
    }

    fn message(&mut self, side: Option<Side>, message: Value, bytes: usize) {
        let Value::Object(mut message) = message else {
            return self.faults.add(Rule::NotAMessage, "the line is no JSON object");
        };
        let found = self.faults.found.len();
        if message.remove("jsonrpc").is_none_or(|version| version != "2.0") {
            self.faults.add(Rule::JsonrpcVersion, "jsonrpc is not \"2.0\"");
        }
        let stray = |key: &String| !["id", "method", "params", "result", "error"].contains(&&**key);
        if let Some(key) = message.keys().find(|key| stray(key)) {
            self.faults.add(Rule::StrayKey, format!("the key {}", shown(key)));
        }
        let is_sound = self.faults.found.len() == found;
        let is_streamed = is_streamed(&message);
        match message.remove("method") {
            Some(Value::String(name)) => self.call(side, &name, &message, is_sound),
            Some(other) => {
                self.faults.add(Rule::BadMethod, format!("{} is no method", excerpt(&other)));
                self.broken(side, message.get("id"));
            }
            None => self.answer(side, &mut message),
        }
        if self.faults.side == Side::Agent {
            self.length(bytes, is_streamed);
        }
    }

    fn length(&mut self, bytes: usize, is_streamed: bool) {
        if bytes > MAX_AGENT_LINE_BYTES {
            self.faults.add(Rule::LongLine, format!("a line of {bytes} bytes"));
        } else if is_streamed && bytes > MAX_STREAMED_UPDATE_BYTES {
            self.faults.add(Rule::LongUpdate, format!("an update of {bytes} bytes"));
        }
    }

    /// Takes a request or a notification.
    fn call(&mut self, side: Option<Side>, name: &str, message: &Object, is_sound: bool) {
        let params = message.get("params").unwrap_or(&Value::Null);
        let id = message.get("id");
        let method = methods::find(name);
        let sender = side.or_else(|| self.sender(name, method, params)).unwrap_or(Side::Client);
        self.faults.side = sender;
        if id.is_some_and(|id| !is_id(id)) {
            return self.faults.add(Rule::BadId, "an id is a string or an integer");
        }
        match method {
            _ if methods::is_foreign(name) => {}
            None => self.faults.add(Rule::UnknownMethod, shown(name)),
            Some(method) => self.known(sender, method, id, params),
        }
        let mut asked = Asked {
            name: key(name).to_owned(),
            method,
            session: session_id(params).map(|id| key(id).to_owned()),
            permission: None,
            is_sound,
        };
        if sender == Side::Agent || method.is_some_and(|method| method.side == sender) {
            self.fold(name, id, params);
            asked.permission = permission(name, params);
        }
        if let Some(id) = id {
            self.ask(sender, id, asked);
        }
    }

    fn ask(&mut self, sender: Side, id: &Value, asked: Asked) {
        if self.requests(sender).find(id).is_some() {
            self.faults.add(Rule::IdReused, format!("{} is not answered yet", excerpt(id)));
        }
        if !self.requests(sender).ask(id, asked) {
            self.faults.add(Rule::NotJudged, "too many requests that are not answered");
        }
    }

    /// Who sends a method, where the transcript does not say.
    fn sender(&self, name: &str, method: Option<&Method>, params: &Value) -> Option<Side> {
        if name != CANCEL_REQUEST {
            return method.map(|method| method.side);
        }
        let is_asked_by = |requests: &Requests| requests.find(&params["requestId"]).is_some();
        let only_agent = is_asked_by(&self.agent) && !is_asked_by(&self.client);
        Some(if only_agent { Side::Agent } else { Side::Client })
    }

    /// Judges a call of a method that the protocol knows.
    fn known(&mut self, sender: Side, method: &Method, id: Option<&Value>, params: &Value) {
        let name = method.name;
        if sender != method.side && name != CANCEL_REQUEST {
            self.faults.add(Rule::WrongSide, format!("{name} is of the {}", method.side));
        }
        if method.result.is_some() != id.is_some() {
            let text = if id.is_some() { "is a notification" } else { "is a request" };
            self.faults.add(Rule::WrongForm, format!("{name} {text}"));
        }
        let due = if sender == Side::Agent { Start::Initialized } else { Start::Asked };
        if self.start < due && name != "initialize" && name != CANCEL_REQUEST {
            self.faults.add(Rule::BeforeInitialize, format!("{name} before initialize"));
        }
        let update = params["update"]["sessionUpdate"].as_str().unwrap_or_default();
        if !DRAFT_UPDATES.contains(&update) {
            (method.params)(params, name, &mut self.faults);
        }
        let can = if sender == Side::Agent { &self.client_can } else { &self.agent_can };
        if method.gate.is_some_and(|gate| !capabilities::has(can, gate)) {
            self.faults.add(Rule::Capability, format!("{name} without its capability"));
        }
    }

    /// Lets a call change what is known.
    fn fold(&mut self, name: &str, id: Option<&Value>, params: &Value) {
        let faults = &mut self.faults;
        match name {
            "initialize" => {
                self.start = self.start.max(Start::Asked);
                self.client_can = params["clientCapabilities"].clone();
            }
            "session/new" | "session/load" | "session/resume" => {
                path(params, "cwd", faults);
                if name != "session/new"
                    && let Some(id) = session_id(params)
                {
                    self.sessions.insert(id, Session::new(true));
                }
            }
            "fs/read_text_file" | "fs/write_text_file" => {
                path(params, "path", faults);
                if params["line"] == 0 {
                    faults.add(Rule::LineZero, "line 0: the first is 1");
                }
            }
            "terminal/create" => path(params, "cwd", faults),
            _ => {}
        }
        match name {
            "session/prompt" => capabilities::prompt(&self.agent_can, params, faults),
            "session/update" => capabilities::update(&self.client_can, &params["update"], faults),
            _ => {}
        }
        self.fold_in_session(name, id, params);
    }

    fn fold_in_session(&mut self, name: &str, id: Option<&Value>, params: &Value) {
        let Some(session_id) = session_id(params) else { return };
        let faults = &mut self.faults;
        let Some(session) = self.sessions.get_mut(session_id) else {
            if faults.side == Side::Agent {
                faults.add(Rule::UnknownSession, format!("{} was not opened", shown(session_id)));
            }
            return;
        };
        let terminal = params["terminalId"].as_str();
        match (name, id, terminal) {
            ("session/prompt", Some(id), _) => session.prompt(id),
            ("session/cancel", ..) => session.cancel(),
            ("session/set_mode" | "session/set_config_option", ..) => {
                session.choose(name, params, faults);
            }
            ("session/update", ..) => session.update(&params["update"], faults),
            ("session/request_permission", ..) => session.ask(params, faults),
            (_, _, Some(terminal)) => session.use_terminal(name, terminal, faults),
            _ => {}
        }
    }

    /// Takes a message that may have been a request: it may be answered, as its id can be read.
    fn broken(&mut self, side: Option<Side>, id: Option<&Value>) {
        let Some(id) = id.filter(|id| is_id(id)) else { return };
        let (name, is_sound) = (String::new(), false);
        let asked = Asked { name, method: None, session: None, permission: None, is_sound };
        self.ask(side.unwrap_or(Side::Client), id, asked);
    }

    /// Takes an answer.
    fn answer(&mut self, side: Option<Side>, message: &mut Object) {
        let id = message.remove("id").unwrap_or_default();
        let (result, error) = (message.remove("result"), message.remove("error"));
        let asker = side.map_or_else(|| self.asker(&id, result.as_ref()), Side::other);
        self.faults.side = asker.other();
        if result.is_some() == error.is_some() {
            self.faults.add(Rule::ResultOrError, "an answer has either a result or an error");
            if result.is_none() && self.requests(asker).find(&id).is_none() {
                return self.broken(side, Some(&id));
            }
        }
        if let Some(error) = &error {
            self.error(error);
        }
        let Some(asked) = self.requests(asker).answer(&id) else {
            return self.unasked(asker, &id, error.is_some());
        };
        if let (Some(result), Some(check)) =
            (&result, asked.method.and_then(|method| method.result))
        {
            check(result, &format!("the result of {}", asked.name), &mut self.faults);
        }
        if let Some(result) = &result {
            capabilities::result(&self.client_can, result, &mut self.faults);
        }
        self.fold_answer(&id, &asked, result.as_ref());
    }

    fn error(&mut self, error: &Value) {
        check::<v1::Error>(error, "an error", &mut self.faults);
        let message = error["message"].as_str().unwrap_or_default();
        if message.trim().is_empty() || message.contains(['\n', '\r']) {
            self.faults.add(Rule::ErrorMessage, "an error's message is one line");
        }
    }

    /// An answer without a request. What was no message is answered by an error without an id.
    fn unasked(&mut self, asker: Side, id: &Value, is_error: bool) {
        if id.is_null() && is_error {
            return;
        }
        let rule = match self.requests(asker).was_answered(id) {
            true => Rule::AnsweredTwice,
            false => Rule::UnaskedAnswer,
        };
        self.faults.add(rule, format!("an answer to {}", excerpt(id)));
    }

    /// Who asked what is answered, where the transcript does not say. Where both may have, it is
    /// the one whose method can have such a result.
    fn asker(&self, id: &Value, result: Option<&Value>) -> Side {
        let fits = |requests: &Requests| {
            let asked = requests.find(id)?;
            let check = asked.method.and_then(|method| method.result);
            let (Some(result), Some(check)) = (result, check) else { return Some(true) };
            let mut faults = Faults { line: 0, side: Side::Agent, found: Vec::new() };
            check(result, "", &mut faults);
            Some(faults.found.is_empty())
        };
        match (fits(&self.client), fits(&self.agent)) {
            (None, Some(_)) | (Some(false), Some(true)) => Side::Agent,
            (None, None) if self.agent.was_answered(id) && !self.client.was_answered(id) => {
                Side::Agent
            }
            _ => Side::Client,
        }
    }

    /// Lets an answer change what is known.
    fn fold_answer(&mut self, id: &Value, asked: &Asked, result: Option<&Value>) {
        let faults = &mut self.faults;
        match (&*asked.name, result) {
            ("initialize", Some(result)) => {
                self.start = Start::Initialized;
                self.agent_can = result["agentCapabilities"].clone();
                if result["protocolVersion"] != 1 {
                    let text = format!("version {}", excerpt(&result["protocolVersion"]));
                    faults.add(Rule::ProtocolVersion, text);
                }
                return;
            }
            ("session/new", Some(result)) => return self.opened(result),
            _ => {}
        }
        let session = asked.session.as_ref().and_then(|id| self.sessions.get_mut(id));
        let Some(session) = session else { return };
        match (&*asked.name, result, &asked.permission) {
            ("session/load" | "session/resume", result, _) => {
                session.loaded();
                session.choices(result.unwrap_or(&Value::Null), faults);
            }
            ("session/set_config_option", Some(result), _) => session.choices(result, faults),
            ("session/prompt", result, _) => session.answered(id, result, faults),
            ("session/close", Some(_), _) => session.closed(faults),
            ("terminal/create", Some(result), _) => {
                session.terminal(result["terminalId"].as_str().unwrap_or_default(), faults);
            }
            (_, result, Some(Permission { call, options })) => {
                let selected = result.and_then(|result| result["outcome"]["optionId"].as_str());
                let option = options.iter().find(|(id, _)| Some(&**id) == selected.map(key));
                if selected.is_some() && option.is_none() {
                    faults.add(Rule::UnknownOption, "an option that was not offered");
                }
                session.permit(call, option.is_some_and(|(_, allows)| *allows));
            }
            _ => {}
        }
    }

    fn opened(&mut self, result: &Value) {
        let id = result["sessionId"].as_str().unwrap_or_default();
        if id.is_empty() {
            self.faults.add(Rule::Schema, "the id of a session is empty");
        }
        let mut session = Session::new(false);
        session.choices(result, &mut self.faults);
        if self.sessions.insert(id, session).is_some() {
            self.faults.add(Rule::SessionTwice, format!("{} was given before", shown(id)));
        }
    }

    fn requests(&mut self, side: Side) -> &mut Requests {
        match side {
            Side::Client => &mut self.client,
            Side::Agent => &mut self.agent,
        }
    }
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Transcript")
            .field("line", &self.faults.line)
            .finish_non_exhaustive()
    }
}

/// The bytes of `{"dir":"out","msg":` and its end.
const WRAPPER_BYTES: usize = 20;

/// The side of a line that says its direction.
fn direction(value: &Value) -> Option<Side> {
    let wrapped = value.as_object().filter(|object| object.contains_key("msg"))?;
    match wrapped.get("dir")?.as_str()? {
        "in" => Some(Side::Client),
        "out" => Some(Side::Agent),
        _ => None,
    }
}

/// First and final reports of a call, and answers, may be larger than what is streamed.
fn is_streamed(message: &Object) -> bool {
    let update = message.get("params").map_or(&Value::Null, |params| &params["update"]);
    let is_final = matches!(update["status"].as_str(), Some("completed" | "failed"));
    update["sessionUpdate"].is_string() && update["sessionUpdate"] != "tool_call" && !is_final
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

fn session_id(params: &Value) -> Option<&str> {
    params["sessionId"].as_str()
}

/// What is asked, where it is permission.
fn permission(name: &str, params: &Value) -> Option<Permission> {
    let option = |option: &Value| {
        let allows = matches!(option["kind"].as_str(), Some("allow_once" | "allow_always"));
        Some((key(option["optionId"].as_str()?).to_owned(), allows))
    };
    let call = params["toolCall"]["toolCallId"].as_str().unwrap_or_default();
    (name == "session/request_permission").then(|| Permission {
        call: key(call).to_owned(),
        options: items(&params["options"]).take(MAX_JUDGED_OPTIONS).filter_map(option).collect(),
    })
}
