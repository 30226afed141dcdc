//! The judge of one connection: checks its messages one by one.

mod responses;

use std::fmt;
use std::io::{self, BufRead, Read as _};

use acp_transport::{MAX_LINE_BYTES, is_within_json_bounds};
use serde_json::{Map, Value};

use super::bounded_map::{BoundedMap, truncate_key};
use super::calls::array_objects;
use super::capabilities;
use super::methods::{self, CANCEL_REQUEST, DRAFT_UPDATES, ProtocolMethod};
use super::requests::{AskedPermission, OpenJsonRpcRequest, RequestLog};
use super::session::{JudgedSession, check_path_param};
use super::{ConformanceRule, LineViolations, RuleViolation, Side, escaped_excerpt, value_excerpt};
use crate::limits::{
    MAX_AGENT_LINE_BYTES, MAX_JUDGED_OPTIONS, MAX_JUDGED_SESSIONS, MAX_STREAMED_UPDATE_BYTES,
};

/// The state of one connection that is needed to judge its next message.
pub struct TranscriptJudge {
    client: RequestLog,
    agent: RequestLog,
    sessions: BoundedMap<JudgedSession>,
    /// The capabilities that each side declared.
    client_capabilities: Value,
    agent_capabilities: Value,
    handshake: HandshakePhase,
    faults: LineViolations,
}

/// The progress of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HandshakePhase {
    NotStarted,
    InitializeSent,
    Initialized,
}

type JsonObject = Map<String, Value>;

impl TranscriptJudge {
    /// Creates the judge of a connection without messages.
    #[must_use]
    pub fn new() -> Self {
        Self {
            client: RequestLog::default(),
            agent: RequestLog::default(),
            sessions: BoundedMap::new(MAX_JUDGED_SESSIONS),
            client_capabilities: Value::Null,
            agent_capabilities: Value::Null,
            handshake: HandshakePhase::NotStarted,
            faults: LineViolations { line: 0, side: Side::Agent, violations: Vec::new() },
        }
    }

    /// Judges the next line of a file, with or without its direction; returns its violations.
    pub fn judge_line(&mut self, line: &[u8]) -> Vec<RuleViolation> {
        self.judge_line_with_optional_side(None, line)
    }

    /// Judges the next raw line that a side sent; returns its violations.
    pub fn judge_line_of_side(&mut self, side: Side, line: &[u8]) -> Vec<RuleViolation> {
        self.judge_line_with_optional_side(Some(side), line)
    }

    /// Judges the lines of a file, with or without their directions, and its end. `found` is called
    /// with each violation. Returns the number of lines that are not blank.
    ///
    /// # Errors
    ///
    /// Returns every error of the reader.
    pub fn judge_reader(
        mut self,
        mut input: impl BufRead,
        mut found: impl FnMut(&RuleViolation),
    ) -> io::Result<u64> {
        let (mut line, mut count) = (Vec::new(), 0);
        while input.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)? > 0 {
            let faults = if line.len() <= MAX_LINE_BYTES || line.ends_with(b"\n") {
                self.judge_line(&line)
            } else {
                input.skip_until(b'\n')?;
                self.report_unjudged_long_line()
            };
            faults.iter().for_each(&mut found);
            count += u64::from(!line.trim_ascii().is_empty());
            line.clear();
        }
        self.finish_and_report_unanswered().iter().for_each(found);
        Ok(count)
    }

    /// Reports a line that is too long to be read.
    fn report_unjudged_long_line(&mut self) -> Vec<RuleViolation> {
        self.faults.line += 1;
        self.faults.side = Side::Agent;
        self.faults.report_violation(
            ConformanceRule::NotJudged,
            format!("longer than {MAX_LINE_BYTES} bytes"),
        );
        std::mem::take(&mut self.faults.violations)
    }

    /// Ends the transcript; returns a violation for each unanswered request.
    pub fn finish_and_report_unanswered(&mut self) -> Vec<RuleViolation> {
        for asker in [Side::Client, Side::Agent] {
            self.faults.side = asker.opposite();
            for (id, asked) in self.requests(asker).take_all() {
                if asked.is_valid {
                    let text = format!(
                        "{} {} is not answered",
                        escaped_excerpt(&asked.name),
                        escaped_excerpt(&id)
                    );
                    self.faults.report_violation(ConformanceRule::NeverAnswered, text);
                }
            }
        }
        std::mem::take(&mut self.faults.violations)
    }

    fn judge_line_with_optional_side(
        &mut self,
        side: Option<Side>,
        line: &[u8],
    ) -> Vec<RuleViolation> {
        self.faults.line += 1;
        self.faults.side = side.unwrap_or(Side::Agent);
        let line = line.trim_ascii();
        if !line.is_empty()
            && let Some(value) = self.parse_line_or_report(line)
        {
            match side_of_direction(&value).filter(|_| side.is_none()) {
                Some(side) => self.judge_message_with_direction(side, value, line.len()),
                None => self.judge_message(side, value, line.len()),
            }
        }
        std::mem::take(&mut self.faults.violations)
    }

    fn parse_line_or_report(&mut self, line: &[u8]) -> Option<Value> {
        if line.len() > MAX_LINE_BYTES || !is_within_json_bounds(line) {
            self.faults.report_violation(
                ConformanceRule::NotJudged,
                "too long, too deep or too many values",
            );
            return None;
        }
        let Ok(text) = str::from_utf8(line) else {
            self.faults.report_violation(ConformanceRule::NotUtf8, "the line is not UTF-8");
            return None;
        };
        serde_json::from_str(text)
            .map_err(|error| {
                self.faults.report_violation(
                    ConformanceRule::NotJson,
                    escaped_excerpt(&error.to_string()),
                );
            })
            .ok()
    }

    /// Judges a message with its direction. If the message is a string, the sent line was not a
    /// JSON object, and the string is the text of the line.
    fn judge_message_with_direction(&mut self, side: Side, mut wrapped: Value, bytes: usize) {
        self.faults.side = side;
        match wrapped["msg"].take() {
            Value::String(line) => {
                let line = line.trim_ascii();
                if let Some(value) = self.parse_line_or_report(line.as_bytes()) {
                    self.judge_message(Some(side), value, line.len());
                }
            }
            message => self.judge_message(Some(side), message, bytes.saturating_sub(WRAPPER_BYTES)),
        }
    }

    fn judge_message(&mut self, side: Option<Side>, message: Value, bytes: usize) {
        let Value::Object(mut message) = message else {
            return self
                .faults
                .report_violation(ConformanceRule::NotAMessage, "the line is not a JSON object");
        };
        let found = self.faults.violations.len();
        if message.remove("jsonrpc").is_none_or(|version| version != "2.0") {
            self.faults.report_violation(ConformanceRule::JsonrpcVersion, "jsonrpc is not \"2.0\"");
        }
        let stray = |key: &String| !["id", "method", "params", "result", "error"].contains(&&**key);
        if let Some(key) = message.keys().find(|key| stray(key)) {
            self.faults.report_violation(
                ConformanceRule::StrayKey,
                format!("the key {}", escaped_excerpt(key)),
            );
        }
        let is_sound = self.faults.violations.len() == found;
        let is_streamed = is_intermediate_update(&message);
        match message.remove("method") {
            Some(Value::String(name)) => {
                self.judge_request_or_notification(side, &name, &message, is_sound);
            }
            Some(other) => {
                self.faults.report_violation(
                    ConformanceRule::BadMethod,
                    format!("{} is not a method name", value_excerpt(&other)),
                );
                self.record_malformed_request(side, message.get("id"));
            }
            None => self.judge_response(side, &mut message),
        }
        if self.faults.side == Side::Agent {
            self.check_length(bytes, is_streamed);
        }
    }

    fn check_length(&mut self, bytes: usize, is_streamed: bool) {
        if bytes > MAX_AGENT_LINE_BYTES {
            self.faults
                .report_violation(ConformanceRule::LongLine, format!("a line of {bytes} bytes"));
        } else if is_streamed && bytes > MAX_STREAMED_UPDATE_BYTES {
            self.faults.report_violation(
                ConformanceRule::LongUpdate,
                format!("an update of {bytes} bytes"),
            );
        }
    }

    /// Judges a request or a notification.
    fn judge_request_or_notification(
        &mut self,
        side: Option<Side>,
        name: &str,
        message: &JsonObject,
        is_sound: bool,
    ) {
        let params = message.get("params").unwrap_or(&Value::Null);
        let id = message.get("id");
        let method = methods::find_method(name);
        let sender =
            side.or_else(|| self.infer_sender(name, method, params)).unwrap_or(Side::Client);
        self.faults.side = sender;
        if id.is_some_and(|id| !is_valid_request_id(id)) {
            return self
                .faults
                .report_violation(ConformanceRule::BadId, "an id must be a string or an integer");
        }
        match method {
            _ if methods::is_extension_or_draft(name) => {}
            None => {
                self.faults.report_violation(ConformanceRule::UnknownMethod, escaped_excerpt(name));
            }
            Some(method) => self.judge_known_method(sender, method, id, params),
        }
        let mut asked = OpenJsonRpcRequest {
            name: truncate_key(name).to_owned(),
            method,
            session: session_id(params).map(|id| truncate_key(id).to_owned()),
            permission: None,
            is_valid: is_sound,
        };
        if sender == Side::Agent || method.is_some_and(|method| method.side == sender) {
            self.apply_request_or_notification(name, id, params);
            asked.permission = asked_permission(name, params);
        }
        if let Some(id) = id {
            self.record_request(sender, id, asked);
        }
    }

    fn record_request(&mut self, sender: Side, id: &Value, asked: OpenJsonRpcRequest) {
        if self.requests(sender).find_oldest_with_id(id).is_some() {
            self.faults.report_violation(
                ConformanceRule::IdReused,
                format!("{} is not answered yet", value_excerpt(id)),
            );
        }
        let is_extension = sender == Side::Client && asked.name.starts_with('_');
        let session = asked.session.clone().filter(|_| is_extension);
        if !self.requests(sender).insert(id, asked) {
            self.faults
                .report_violation(ConformanceRule::NotJudged, "too many unanswered requests");
        } else if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.judge_as_turn_or_replay(&mut self.faults, |session, _| {
                session.record_extension_request();
            });
        }
    }

    /// Infers the sender of a method in a transcript without directions.
    fn infer_sender(
        &self,
        name: &str,
        method: Option<&ProtocolMethod>,
        params: &Value,
    ) -> Option<Side> {
        if name != CANCEL_REQUEST {
            return method.map(|method| method.side);
        }
        let is_asked_by =
            |requests: &RequestLog| requests.find_oldest_with_id(&params["requestId"]).is_some();
        let only_agent = is_asked_by(&self.agent) && !is_asked_by(&self.client);
        Some(if only_agent { Side::Agent } else { Side::Client })
    }

    /// Judges a request or notification of a known method.
    fn judge_known_method(
        &mut self,
        sender: Side,
        method: &ProtocolMethod,
        id: Option<&Value>,
        params: &Value,
    ) {
        let name = method.name;
        if sender != method.side && name != CANCEL_REQUEST {
            self.faults.report_violation(
                ConformanceRule::WrongSide,
                format!("{name} belongs to the {}", method.side),
            );
        }
        if method.result.is_some() != id.is_some() {
            let text = if id.is_some() { "is a notification" } else { "is a request" };
            self.faults.report_violation(ConformanceRule::WrongForm, format!("{name} {text}"));
        }
        let due = if sender == Side::Agent {
            HandshakePhase::Initialized
        } else {
            HandshakePhase::InitializeSent
        };
        if self.handshake < due && name != "initialize" && name != CANCEL_REQUEST {
            self.faults.report_violation(
                ConformanceRule::BeforeInitialize,
                format!("{name} before initialize"),
            );
        }
        let update = params["update"]["sessionUpdate"].as_str().unwrap_or_default();
        if !DRAFT_UPDATES.contains(&update) {
            (method.params)(params, name, &mut self.faults);
        }
        let can = if sender == Side::Agent {
            &self.client_capabilities
        } else {
            &self.agent_capabilities
        };
        if method.required_capability.is_some_and(|gate| !capabilities::has_capability(can, gate)) {
            self.faults.report_violation(
                ConformanceRule::Capability,
                format!("{name} without its capability"),
            );
        }
    }

    /// Updates the state from a request or notification.
    fn apply_request_or_notification(&mut self, name: &str, id: Option<&Value>, params: &Value) {
        let faults = &mut self.faults;
        match name {
            "initialize" => {
                self.handshake = self.handshake.max(HandshakePhase::InitializeSent);
                self.client_capabilities = params["clientCapabilities"].clone();
            }
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                check_path_param(params, "cwd", faults);
                if matches!(name, "session/load" | "session/resume")
                    && let Some(id) = session_id(params)
                {
                    let earlier = self.sessions.insert(id, JudgedSession::new(true));
                    if let Some(session) = self.sessions.get_mut(id) {
                        session.keep_earlier_until_loaded(earlier);
                    }
                }
            }
            "fs/read_text_file" | "fs/write_text_file" => {
                check_path_param(params, "path", faults);
                if params["line"] == 0 {
                    faults
                        .report_violation(ConformanceRule::LineZero, "line 0; lines count from 1");
                }
            }
            "terminal/create" => check_path_param(params, "cwd", faults),
            _ => {}
        }
        match name {
            "session/prompt" => {
                capabilities::check_prompt(&self.agent_capabilities, params, faults);
            }
            "session/update" => {
                capabilities::check_update(&self.client_capabilities, &params["update"], faults);
            }
            _ => {}
        }
        self.judge_in_session(name, id, params);
    }

    fn judge_in_session(&mut self, name: &str, id: Option<&Value>, params: &Value) {
        let Some(session_id) = session_id(params) else { return };
        let faults = &mut self.faults;
        let Some(session) = self.sessions.get_mut(session_id) else {
            if faults.side == Side::Agent && !self.sessions.has_removed() {
                faults.report_violation(
                    ConformanceRule::UnknownSession,
                    format!("{} was not opened", escaped_excerpt(session_id)),
                );
            }
            return;
        };
        let terminal = params["terminalId"].as_str();
        session.judge_as_turn_or_replay(faults, |session, faults| match (name, id, terminal) {
            ("session/prompt", Some(id), _) => session.record_prompt(id),
            ("session/cancel", ..) => session.record_cancel(),
            ("session/set_mode" | "session/set_config_option", ..) => {
                session.check_set_mode_or_option(name, params, faults);
            }
            ("session/update", ..) => session.judge_update(&params["update"], faults),
            ("session/request_permission", ..) => session.judge_permission_request(params, faults),
            (_, _, Some(terminal)) => session.judge_terminal_request(name, terminal, faults),
            _ => {}
        });
    }

    /// Records a message that may be a malformed request. The other side may answer the request,
    /// because the id is valid.
    fn record_malformed_request(&mut self, side: Option<Side>, id: Option<&Value>) {
        let Some(id) = id.filter(|id| is_valid_request_id(id)) else { return };
        let (name, is_sound) = (String::new(), false);
        let asked = OpenJsonRpcRequest {
            name,
            method: None,
            session: None,
            permission: None,
            is_valid: is_sound,
        };
        self.record_request(side.unwrap_or(Side::Client), id, asked);
    }

    fn requests(&mut self, side: Side) -> &mut RequestLog {
        match side {
            Side::Client => &mut self.client,
            Side::Agent => &mut self.agent,
        }
    }
}

impl Default for TranscriptJudge {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TranscriptJudge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TranscriptJudge")
            .field("line", &self.faults.line)
            .finish_non_exhaustive()
    }
}

/// Number of bytes of `{"dir":"out","msg":` and the closing brace.
const WRAPPER_BYTES: usize = 20;

/// Returns the side of a line that contains its direction.
fn side_of_direction(value: &Value) -> Option<Side> {
    let wrapped = value.as_object().filter(|object| object.contains_key("msg"))?;
    match wrapped.get("dir")?.as_str()? {
        "in" => Some(Side::Client),
        "out" => Some(Side::Agent),
        _ => None,
    }
}

/// Returns whether a message is a streamed update, i.e. whether the stricter limit of size applies.
/// First and final reports of a call, and responses, may be larger.
fn is_intermediate_update(message: &JsonObject) -> bool {
    let update = message.get("params").map_or(&Value::Null, |params| &params["update"]);
    let is_final = matches!(update["status"].as_str(), Some("completed" | "failed"));
    update["sessionUpdate"].is_string() && update["sessionUpdate"] != "tool_call" && !is_final
}

fn is_valid_request_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

fn session_id(params: &Value) -> Option<&str> {
    params["sessionId"].as_str()
}

/// Returns the call and the options of a permission request.
fn asked_permission(name: &str, params: &Value) -> Option<AskedPermission> {
    let option = |option: &Value| {
        let allows = matches!(option["kind"].as_str(), Some("allow_once" | "allow_always"));
        Some((truncate_key(option["optionId"].as_str()?).to_owned(), allows))
    };
    let call = params["toolCall"]["toolCallId"].as_str().unwrap_or_default();
    (name == "session/request_permission").then(|| AskedPermission {
        call: truncate_key(call).to_owned(),
        options: array_objects(&params["options"])
            .take(MAX_JUDGED_OPTIONS)
            .filter_map(option)
            .collect(),
    })
}
