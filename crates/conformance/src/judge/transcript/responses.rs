//! Judges the responses of a transcript, and updates its state from them.

use acp_types::schema::v1;
use serde_json::Value;

use super::{HandshakePhase, JsonObject, TranscriptJudge};
use crate::judge::bounded_map::truncate_key;
use crate::judge::capabilities;
use crate::judge::requests::{AskedPermission, OpenJsonRpcRequest, RequestLog};
use crate::judge::schema::check_schema;
use crate::judge::session::JudgedSession;
use crate::judge::{ConformanceRule, LineViolations, Side, escaped_excerpt, value_excerpt};

impl TranscriptJudge {
    /// Judges a response.
    pub(super) fn judge_response(&mut self, side: Option<Side>, message: &mut JsonObject) {
        let id = message.remove("id").unwrap_or_default();
        let (result, error) = (message.remove("result"), message.remove("error"));
        let asker = side.map_or_else(|| self.infer_requester(&id, result.as_ref()), Side::opposite);
        self.faults.side = asker.opposite();
        if result.is_some() == error.is_some() {
            self.faults.report_violation(
                ConformanceRule::ResultOrError,
                "a response has either a result or an error",
            );
            if result.is_none() && self.requests(asker).find_oldest_with_id(&id).is_none() {
                return self.record_malformed_request(side, Some(&id));
            }
        }
        if let Some(error) = &error {
            self.judge_error_object(error);
        }
        let Some(asked) = self.requests(asker).take_oldest_as_answered(&id) else {
            return self.report_unasked_response(asker, &id, error.is_some());
        };
        if let (Some(result), Some(check)) =
            (&result, asked.method.and_then(|method| method.result))
        {
            check(result, &format!("the result of {}", asked.name), &mut self.faults);
        }
        if let Some(result) = &result {
            capabilities::check_result(&self.client_capabilities, result, &mut self.faults);
        }
        self.apply_response(&id, &asked, result.as_ref());
    }

    fn judge_error_object(&mut self, error: &Value) {
        check_schema::<v1::Error>(error, "an error", &mut self.faults);
        let message = error["message"].as_str().unwrap_or_default();
        if message.trim().is_empty() || message.contains(['\n', '\r']) {
            self.faults.report_violation(
                ConformanceRule::ErrorMessage,
                "an error message must be one line",
            );
        }
    }

    /// Reports a response without a request. An error without an id is legal, because such an error
    /// answers a malformed line.
    fn report_unasked_response(&mut self, asker: Side, id: &Value, is_error: bool) {
        if id.is_null() && is_error {
            return;
        }
        let rule = match self.requests(asker).was_answered(id) {
            true => ConformanceRule::AnsweredTwice,
            false => ConformanceRule::UnaskedAnswer,
        };
        self.faults.report_violation(rule, format!("a response to {}", value_excerpt(id)));
    }

    /// Infers the requester of a response in a transcript without directions. If both sides have an
    /// open request with this id, the requester is the side whose method can have such a result.
    fn infer_requester(&self, id: &Value, result: Option<&Value>) -> Side {
        let fits = |requests: &RequestLog| {
            let asked = requests.find_oldest_with_id(id)?;
            let check = asked.method.and_then(|method| method.result);
            let (Some(result), Some(check)) = (result, check) else { return Some(true) };
            let mut faults = LineViolations { line: 0, side: Side::Agent, violations: Vec::new() };
            check(result, "", &mut faults);
            Some(faults.violations.is_empty())
        };
        match (fits(&self.client), fits(&self.agent)) {
            (None, Some(_)) | (Some(false), Some(true)) => Side::Agent,
            (None, None) if self.agent.was_answered(id) && !self.client.was_answered(id) => {
                Side::Agent
            }
            _ => Side::Client,
        }
    }

    /// Updates the state from a response.
    fn apply_response(&mut self, id: &Value, asked: &OpenJsonRpcRequest, result: Option<&Value>) {
        let faults = &mut self.faults;
        match (&*asked.name, result) {
            ("initialize", Some(result)) => {
                self.handshake = HandshakePhase::Initialized;
                self.agent_capabilities = result["agentCapabilities"].clone();
                if result["protocolVersion"] != 1 {
                    let text = format!("version {}", value_excerpt(&result["protocolVersion"]));
                    faults.report_violation(ConformanceRule::ProtocolVersion, text);
                }
                return;
            }
            ("session/new" | "session/fork", Some(result)) => {
                return self.record_new_session(result);
            }
            _ => {}
        }
        let session = asked.session.as_ref().and_then(|id| self.sessions.get_mut(id));
        let Some(session) = session else { return };
        match (&*asked.name, result) {
            ("session/load" | "session/resume", Some(result)) => {
                session.record_load_response();
                return session.update_choices(result, faults);
            }
            ("session/load" | "session/resume", None) => return session.record_failed_load(),
            _ => {}
        }
        session.judge_as_turn_or_replay(faults, |session, faults| {
            match (&*asked.name, result, &asked.permission) {
                ("session/set_config_option", Some(result), _) => {
                    session.update_choices(result, faults);
                }
                ("session/prompt", result, _) => session.judge_prompt_response(id, result, faults),
                (name, ..) if name.starts_with('_') && faults.side == Side::Agent => {
                    session.record_extension_response();
                }
                ("session/close" | "session/delete", Some(_), _) => {
                    session.judge_close_response(faults);
                }
                ("terminal/create", Some(result), _) => {
                    session.add_client_terminal(
                        result["terminalId"].as_str().unwrap_or_default(),
                        faults,
                    );
                }
                (_, result, Some(AskedPermission { call, options })) => {
                    let selected = result.and_then(|result| result["outcome"]["optionId"].as_str());
                    let option =
                        options.iter().find(|(id, _)| Some(&**id) == selected.map(truncate_key));
                    if selected.is_some() && option.is_none() {
                        faults.report_violation(
                            ConformanceRule::UnknownOption,
                            "an option that was not offered",
                        );
                    }
                    session
                        .record_permission_reply(call, option.is_some_and(|(_, allows)| *allows));
                }
                _ => {}
            }
        });
    }

    fn record_new_session(&mut self, result: &Value) {
        let id = result["sessionId"].as_str().unwrap_or_default();
        if id.is_empty() {
            self.faults.report_violation(ConformanceRule::Schema, "the id of a session is empty");
        }
        let mut session = JudgedSession::new(false);
        session.update_choices(result, &mut self.faults);
        if self.sessions.insert(id, session).is_some() {
            self.faults.report_violation(
                ConformanceRule::SessionTwice,
                format!("{} was used before", escaped_excerpt(id)),
            );
        }
    }
}
