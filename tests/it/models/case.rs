//! A case: the replies of the scripted server, and the expected result of the turn in each dialect.

use std::fs;
use std::path::Path;

use callboard_models::mock_server::{Dialect, MockReply, MockResponse, MockToolCall, ModelServer};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::{Agent, Options};

/// The API key that the agent uses for every provider.
pub(crate) const KEY: &str = "sk-scripted-1f0b2c7e9d";

/// Dialects that stream the arguments of a call as text.
pub(crate) const STREAMING: &[Dialect] =
    &[Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic];

/// The expected end of a turn.
#[derive(Clone, Copy, Debug)]
enum ExpectedEnd {
    Stop(&'static str),
    /// The prompt is answered with an error whose message contains this text.
    Error(&'static str),
}

/// The answers of the server during a turn, and the expected results.
#[derive(Clone)]
pub(crate) struct DialectCase {
    answers: Vec<MockResponse>,
    dialects: &'static [Dialect],
    end: ExpectedEnd,
    said: &'static str,
    runs: usize,
    requests: usize,
}

/// Returns a case for all dialects. By default, it expects that the turn ends normally, that the
/// command of [`run_call`] does not run, and that the agent sends one request per answer.
pub(crate) fn in_all_dialects(answers: impl IntoIterator<Item = MockResponse>) -> DialectCase {
    let answers: Vec<_> = answers.into_iter().collect();
    DialectCase {
        requests: answers.len(),
        answers,
        dialects: &Dialect::ALL,
        end: ExpectedEnd::Stop("end_turn"),
        said: "",
        runs: 0,
    }
}

impl DialectCase {
    /// Restricts the case to these dialects.
    pub(crate) fn only_in(mut self, dialects: &'static [Dialect]) -> Self {
        self.dialects = dialects;
        self
    }

    /// Expects that the turn ends with this stop reason.
    pub(crate) fn expect_stop_reason(mut self, reason: &'static str) -> Self {
        self.end = ExpectedEnd::Stop(reason);
        self
    }

    /// Expects an error whose message contains this text, instead of a stop reason.
    pub(crate) fn expect_error(mut self, message: &'static str) -> Self {
        self.end = ExpectedEnd::Error(message);
        self
    }

    /// Expects that the agent's message contains this text.
    pub(crate) fn expect_text(mut self, text: &'static str) -> Self {
        self.said = text;
        self
    }

    /// Expects that the command of [`run_call`] runs this number of times.
    pub(crate) fn expect_runs(mut self, times: usize) -> Self {
        self.runs = times;
        self
    }

    /// Expects that the agent sends this number of requests for a reply.
    pub(crate) fn expect_requests(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// Runs the case in all of its dialects at the same time, because a case may wait for a retry.
    pub(crate) async fn check(self) {
        join_all(self.dialects.iter().map(|dialect| self.check_in(*dialect))).await;
    }

    async fn check_in(&self, dialect: Dialect) {
        let server = ModelServer::start(self.answers.clone()).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        let prompt = agent.prompt("go").await;
        match (agent.answer(&prompt).await, self.end) {
            (Ok(answer), ExpectedEnd::Stop(reason)) => assert_eq!(answer["stopReason"], reason),
            (Err(error), ExpectedEnd::Error(message)) => {
                let shown = error["message"].as_str().unwrap_or_default();
                assert!(shown.contains(message), "{error}");
                assert!(shown.len() < 1024 && !shown.contains(char::is_control), "{error}");
            }
            (answer, end) => panic!("{end:?} was to come, and not {answer:?}"),
        }
        let said = agent.session().message_text();
        assert!(said.contains(self.said), "{said}");
        assert_eq!(count_runs(&agent), self.runs, "runs of the command");
        let asked = server.reply_requests();
        assert_eq!(asked.len(), self.requests, "requests");
        assert!(asked.iter().all(|asked| asked.dialect == Some(dialect)));
        agent.finish().await;
        // If the test fails, the dialect that fails is one that is not printed.
        eprintln!("{dialect:?} passed");
    }
}

/// Returns a call of a command that appends a line to a file each time it runs.
pub(crate) fn run_call() -> MockToolCall {
    MockToolCall::new("terminal", &json!({"command": "echo ran >> ran.txt"}))
}

/// Returns a reply that consists of [`run_call`].
pub(crate) fn runs_once() -> MockReply {
    MockReply::new().with_call(run_call())
}

/// Returns the number of times that the command of [`run_call`] has run.
pub(crate) fn count_runs(agent: &Agent) -> usize {
    let text = fs::read_to_string(agent.scratch.path("ran.txt")).unwrap_or_default();
    text.lines().count()
}

/// Returns a reply that ends the turn.
pub(crate) fn final_answer() -> MockResponse {
    MockReply::new().with_text("Done.").into()
}

/// Starts the agent with this server as its model provider, and additional environment variables.
pub(crate) fn start(server: &ModelServer, dialect: Dialect, env: &[(&str, &str)]) -> Agent {
    start_for(server, dialect, env, Options::default())
}

/// Starts the agent as [`start`] does, with a client that has these options.
pub(crate) fn start_for(
    server: &ModelServer,
    dialect: Dialect,
    env: &[(&str, &str)],
    options: Options,
) -> Agent {
    start_in(Scratch::new(), server, dialect, env, options)
}

/// Starts the agent with additional lines in its provider's configuration, initializes it, and
/// opens a session.
pub(crate) async fn start_configured(server: &ModelServer, dialect: Dialect, lines: &str) -> Agent {
    let scratch = Scratch::new();
    let folder = Path::new(&scratch.env()["XDG_CONFIG_HOME"]).join("callboard");
    let config = format!("[providers.{}]\n{lines}\n", provider(dialect));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    let mut agent = start_in(scratch, server, dialect, &[], Options::default());
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent
}

/// Starts the agent as [`start_for`] does, in a folder where it may have worked before.
pub(crate) fn start_in(
    scratch: Scratch,
    server: &ModelServer,
    dialect: Dialect,
    env: &[(&str, &str)],
    options: Options,
) -> Agent {
    let (url, key) = match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        Dialect::Anthropic => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        Dialect::Gemini => ("GEMINI_BASE_URL", "GEMINI_API_KEY"),
        Dialect::Ollama => ("OLLAMA_HOST", "OLLAMA_API_KEY"),
    };
    let base = server.base_url(dialect);
    let env = [&[(url, &*base), (key, KEY)], env].concat();
    let model = format!("{}/scripted", provider(dialect));
    Agent::start_in(scratch, &["acp", "--model", &model], &env, options)
}

/// Starts an agent that uses the key of an earlier login.
pub(crate) fn start_logged_in(scratch: Scratch, dialect: Dialect, env: &[(&str, &str)]) -> Agent {
    let model = format!("{}/scripted", provider(dialect));
    Agent::start_in(scratch, &["acp", "--model", &model], env, Options::default())
}

/// Starts the agent, initializes it, and opens a session.
pub(crate) async fn ready(server: &ModelServer, dialect: Dialect) -> Agent {
    let mut agent = start(server, dialect, &[]);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent
}

/// Returns the name of the dialect's provider, which is the part of `--model` before the slash.
pub(crate) fn provider(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiChat => "openai",
        Dialect::OpenAiResponses => "openai-responses",
        Dialect::Anthropic => "anthropic",
        Dialect::Gemini => "gemini",
        Dialect::Ollama => "ollama",
    }
}

/// Returns all strings in a JSON value, at any depth.
pub(crate) fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}
