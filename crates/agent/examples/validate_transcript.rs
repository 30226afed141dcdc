//! Judges transcripts of ACP v1: raw JSON-RPC messages of both directions, one a line.
//!
//! `cargo run -p callboard --example validate_transcript -- FILE…` takes what a client writes
//! down, such as `acpx --format json --json-strict exec …`. Parameters and results are held
//! against the JSON Schemas of the protocol's types, answers are paired with their requests, and
//! the session's updates are folded by the observer. It prints every fault and one line a file,
//! and fails if there is a fault. It knows nothing of who said what but the method's name.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;

use acp_types::observe::v1::Observer;
use acp_types::schema::v1;
use jsonschema::Validator;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, from_str, from_value, to_value};

type Failure = Box<dyn Error>;

/// More faults than this are counted and not shown.
const MAX_SHOWN: usize = 20;

fn main() -> Result<ExitCode, Failure> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let methods = Methods::new()?;
    let mut out = io::stdout().lock();
    let mut is_good = !files.is_empty();
    for file in &files {
        let mut transcript = Transcript::new(&methods);
        for line in fs::read_to_string(file)?.lines() {
            transcript.line(line);
        }
        transcript.end();
        for fault in transcript.faults.iter().take(MAX_SHOWN) {
            writeln!(out, "{file}:{fault}")?;
        }
        let Transcript { lines, requests, notifications, faults, .. } = &transcript;
        let count = faults.len();
        writeln!(
            out,
            "{file}: {lines} lines, {requests} requests, {notifications} notifications, \
             {count} violations"
        )?;
        is_good &= faults.is_empty();
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who sends a request or a notification; the other side answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Agent,
}

/// What is wrong with a value, one text for each fault.
type Check = Box<dyn Fn(&Value) -> Vec<String>>;

/// A method: who sends it, and how its parameters and its result have to look.
struct Method {
    side: Side,
    params: Check,
    /// None for a notification.
    result: Option<Check>,
}

/// The methods of the protocol that are stable, and the check of an error.
struct Methods {
    by_name: HashMap<&'static str, Method>,
    error: Check,
}

impl Methods {
    fn new() -> Result<Self, Failure> {
        let mut all = Self { by_name: HashMap::new(), error: check::<v1::Error>(Side::Agent)? };
        all.client()?;
        all.agent()?;
        Ok(all)
    }

    /// What the client sends.
    fn client(&mut self) -> Result<(), Failure> {
        use Side::Client;
        self.request::<v1::InitializeRequest, v1::InitializeResponse>(Client, "initialize")?;
        self.request::<v1::AuthenticateRequest, v1::AuthenticateResponse>(Client, "authenticate")?;
        self.request::<v1::LogoutRequest, v1::LogoutResponse>(Client, "logout")?;
        self.request::<v1::NewSessionRequest, v1::NewSessionResponse>(Client, "session/new")?;
        self.request::<v1::LoadSessionRequest, v1::LoadSessionResponse>(Client, "session/load")?;
        self.request::<v1::ResumeSessionRequest, v1::ResumeSessionResponse>(
            Client,
            "session/resume",
        )?;
        self.request::<v1::ListSessionsRequest, v1::ListSessionsResponse>(Client, "session/list")?;
        self.request::<v1::CloseSessionRequest, v1::CloseSessionResponse>(Client, "session/close")?;
        self.request::<v1::DeleteSessionRequest, v1::DeleteSessionResponse>(
            Client,
            "session/delete",
        )?;
        self.request::<v1::SetSessionModeRequest, v1::SetSessionModeResponse>(
            Client,
            "session/set_mode",
        )?;
        self.request::<v1::SetSessionConfigOptionRequest, v1::SetSessionConfigOptionResponse>(
            Client,
            "session/set_config_option",
        )?;
        self.request::<v1::PromptRequest, v1::PromptResponse>(Client, "session/prompt")?;
        self.notification::<v1::CancelNotification>(Client, "session/cancel")?;
        self.notification::<v1::CancelRequestNotification>(Client, "$/cancel_request")
    }

    /// What the agent sends.
    fn agent(&mut self) -> Result<(), Failure> {
        use Side::Agent;
        self.request::<v1::RequestPermissionRequest, v1::RequestPermissionResponse>(
            Agent,
            "session/request_permission",
        )?;
        self.request::<v1::ReadTextFileRequest, v1::ReadTextFileResponse>(
            Agent,
            "fs/read_text_file",
        )?;
        self.request::<v1::WriteTextFileRequest, v1::WriteTextFileResponse>(
            Agent,
            "fs/write_text_file",
        )?;
        self.request::<v1::CreateTerminalRequest, v1::CreateTerminalResponse>(
            Agent,
            "terminal/create",
        )?;
        self.request::<v1::TerminalOutputRequest, v1::TerminalOutputResponse>(
            Agent,
            "terminal/output",
        )?;
        self.request::<v1::WaitForTerminalExitRequest, v1::WaitForTerminalExitResponse>(
            Agent,
            "terminal/wait_for_exit",
        )?;
        self.request::<v1::KillTerminalRequest, v1::KillTerminalResponse>(Agent, "terminal/kill")?;
        self.request::<v1::ReleaseTerminalRequest, v1::ReleaseTerminalResponse>(
            Agent,
            "terminal/release",
        )?;
        self.request::<v1::CreateElicitationRequest, v1::CreateElicitationResponse>(
            Agent,
            "elicitation/create",
        )?;
        self.notification::<v1::SessionNotification>(Agent, "session/update")?;
        self.notification::<v1::CompleteElicitationNotification>(Agent, "elicitation/complete")
    }

    fn request<P: Message, R: Message>(
        &mut self,
        side: Side,
        name: &'static str,
    ) -> Result<(), Failure> {
        let answers = match side {
            Side::Client => Side::Agent,
            Side::Agent => Side::Client,
        };
        let (params, result) = (check::<P>(side)?, Some(check::<R>(answers)?));
        self.by_name.insert(name, Method { side, params, result });
        Ok(())
    }

    fn notification<P: Message>(&mut self, side: Side, name: &'static str) -> Result<(), Failure> {
        self.by_name.insert(name, Method { side, params: check::<P>(side)?, result: None });
        Ok(())
    }
}

/// A type of the protocol.
trait Message: JsonSchema + Serialize + DeserializeOwned + 'static {}

impl<T: JsonSchema + Serialize + DeserializeOwned + 'static> Message for T {}

/// Makes the check of a type. What the agent sends has to come back whole from a parse: peers
/// drop unknown keys and malformed optional fields in silence.
fn check<T: Message>(from: Side) -> Result<Check, Failure> {
    let validator: Validator = jsonschema::validator_for(&to_value(schema_for!(T))?)?;
    Ok(Box::new(move |value| {
        let mut faults: Vec<_> =
            validator.iter_errors(value).map(|error| error.to_string()).collect();
        match from_value::<T>(value.clone()).and_then(to_value) {
            Ok(again) if from == Side::Agent && again != *value => {
                faults.push(format!("a parse makes {again} of {value}"));
            }
            Ok(_) => {}
            Err(error) => faults.push(error.to_string()),
        }
        faults
    }))
}

/// A request that is not answered yet.
struct Asked<'a> {
    id: Value,
    name: String,
    method: &'a Method,
    session: Option<String>,
}

/// What is known of a file so far.
struct Transcript<'a> {
    methods: &'a Methods,
    asked: Vec<Asked<'a>>,
    sessions: BTreeMap<String, Observer>,
    lines: usize,
    requests: usize,
    notifications: usize,
    /// Each begins with its line's number.
    faults: Vec<String>,
}

impl<'a> Transcript<'a> {
    fn new(methods: &'a Methods) -> Self {
        Self {
            methods,
            asked: Vec::new(),
            sessions: BTreeMap::new(),
            lines: 0,
            requests: 0,
            notifications: 0,
            faults: Vec::new(),
        }
    }

    /// Takes the next line.
    fn line(&mut self, line: &str) {
        self.lines += 1;
        let mut message = match from_str(line) {
            Ok(Value::Object(message)) => message,
            Ok(other) => return self.fault(&format!("{other} is no object")),
            Err(error) => return self.fault(&format!("not JSON: {error}")),
        };
        if message.remove("jsonrpc") != Some("2.0".into()) {
            self.fault("not JSON-RPC 2.0");
        }
        match message.remove("method") {
            Some(Value::String(name)) => self.call(name, &mut message),
            Some(other) => self.fault(&format!("{other} is no method")),
            None => self.answer(&mut message),
        }
        if !message.is_empty() {
            self.fault(&format!("keys that do not belong there: {message:?}"));
        }
    }

    /// Ends the transcript: everything is answered, and the observers say what they saw.
    fn end(&mut self) {
        for asked in std::mem::take(&mut self.asked) {
            self.fault(&format!("{} {} was never answered", asked.name, asked.id));
        }
        for (session, observer) in std::mem::take(&mut self.sessions) {
            for violation in observer.violations() {
                self.fault(&format!("{session}: {violation}"));
            }
        }
    }

    fn call(&mut self, name: String, message: &mut Map<String, Value>) {
        let params = message.remove("params").unwrap_or_default();
        let id = message.remove("id");
        match id {
            Some(_) => self.requests += 1,
            None => self.notifications += 1,
        }
        // What a peer made up is its own affair.
        if name.starts_with('_') {
            return;
        }
        let Some(method) = self.methods.by_name.get(name.as_str()) else {
            return self.fault(&format!("{name} is no method of the protocol"));
        };
        if method.result.is_some() != id.is_some() {
            self.fault(&format!("{name} with the id {id:?}"));
        }
        self.faults(&name, (method.params)(&params));
        self.fold(&name, &params);
        if let Some(id) = id {
            let session = params["sessionId"].as_str().map(str::to_owned);
            self.asked.push(Asked { id, name, method, session });
        }
    }

    fn fold(&mut self, name: &str, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let params = params.clone();
        match name {
            "session/update" => {
                if let Ok(told) = from_value::<v1::SessionNotification>(params) {
                    self.sessions.entry(session).or_default().update(&told.update);
                }
            }
            "session/request_permission" => {
                if let Ok(request) = from_value(params) {
                    self.sessions.entry(session).or_default().permission(&request);
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, message: &mut Map<String, Value>) {
        let id = message.remove("id").unwrap_or_default();
        let (result, error) = (message.remove("result"), message.remove("error"));
        let Some(asked) = self.take(&id, result.as_ref()) else {
            return self.fault(&format!("an answer to {id}, which nobody asked"));
        };
        match (result, error, &asked.method.result) {
            (Some(result), None, Some(check)) => self.faults(&asked.name, check(&result)),
            (None, Some(error), _) => self.faults(&asked.name, (self.methods.error)(&error)),
            _ => self.fault(&format!("{id}: not one of result and error")),
        }
        if asked.name == "session/prompt"
            && let Some(observer) = asked.session.and_then(|id| self.sessions.get_mut(&id))
        {
            observer.turn_answered();
        }
    }

    /// Finds the request that an answer is for. Both sides may have used the same id; then it is
    /// the request whose result may look like this, the oldest if both may.
    fn take(&mut self, id: &Value, result: Option<&Value>) -> Option<Asked<'a>> {
        let fits = |asked: &Asked<'a>| match (result, &asked.method.result) {
            (Some(result), Some(check)) => check(result).is_empty(),
            _ => true,
        };
        let with_id = || {
            let asked = self.asked.iter().enumerate();
            asked.filter(|(_, asked)| asked.id == *id)
        };
        let sides: Vec<Side> = with_id().map(|(_, asked)| asked.method.side).collect();
        let is_clear = sides.iter().all(|side| Some(side) == sides.first());
        let found = with_id().find(|(_, asked)| is_clear || fits(asked)).or(with_id().next());
        let at = found.map(|(at, _)| at)?;
        Some(self.asked.remove(at))
    }

    fn faults(&mut self, name: &str, faults: Vec<String>) {
        for fault in faults {
            self.fault(&format!("{name}: {fault}"));
        }
    }

    fn fault(&mut self, what: &str) {
        self.faults.push(format!("{}: {what}", self.lines));
    }
}
