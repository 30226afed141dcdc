//! The key of a provider is sent only to that provider. The key does not appear in a log, an
//! update, an error or the environment of a child process.

use std::io::Write as _;
use std::process::{Command, Stdio};

use callboard_models::mock_server::{Dialect, MockReply, MockResponse, MockToolCall, ModelServer};
use serde_json::json;

use crate::harness::scratch::Scratch;
use crate::harness::{Agent, CALLBOARD};
use crate::models::case::{KEY, final_answer, provider, start, start_logged_in};

/// Environment variables that enable all logging.
const TRACE: [(&str, &str); 2] = [("RUST_LOG", "trace"), ("CALLBOARD_LOG", "trace")];

#[tokio::test]
async fn a_key_is_sent_only_to_its_provider() {
    for dialect in Dialect::ALL {
        let server = repeating_server().await;
        let agent = start(&server, dialect, &TRACE);
        check(dialect, &server, agent).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_login_stored_is_sent_only_to_its_provider() {
    for dialect in Dialect::ALL {
        let server = repeating_server().await;
        let scratch = Scratch::new();
        log_in(&scratch, dialect, &server.base_url(dialect));
        let agent = start_logged_in(scratch, dialect, &TRACE);
        check(dialect, &server, agent).await;
    }
}

/// Stores the key for a dialect's provider. Because there is no keyring, the key is stored in a
/// file.
fn log_in(scratch: &Scratch, dialect: Dialect, url: &str) {
    let name = provider(dialect).trim_end_matches("-responses");
    let mut command = Command::new(CALLBOARD);
    command.args(["login", name]).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    command.envs(TRACE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The input `y` stores the key even if it cannot be verified.
    let input = format!("{url}\n{KEY}\ny\n");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && !said.contains(KEY), "{dialect:?}: {said}");
}

/// Starts a server that first requests a command which prints its environment. The server later
/// repeats the key in an error, like some real servers.
async fn repeating_server() -> ModelServer {
    let env = "env; tr '\\0' '\\n' < /proc/self/environ; cat \"$XDG_STATE_HOME\"/callboard/keys/*";
    let answers = [
        MockReply::new().with_call(MockToolCall::new("terminal", &json!({"command": env}))).into(),
        MockReply::new().with_text(&format!("It is {KEY}.")).into(),
        MockResponse::error(401, &format!("Incorrect API key provided: {KEY}")),
        final_answer(),
    ];
    ModelServer::start(answers).await.unwrap()
}

async fn check(dialect: Dialect, server: &ModelServer, mut agent: Agent) {
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let prompt = agent.prompt("again").await;
    agent.answer(&prompt).await.unwrap_err();
    agent.finish().await;

    let asked = server.reply_requests();
    let carries = |text: &str| text.contains(KEY);
    let header = asked[0].headers.iter().any(|(_, value)| carries(value));
    assert!(header || carries(&asked[0].path), "{dialect:?}: the provider needs the key");
    // The second request contains the output of the first reply's command.
    let shown = asked[1].body_json().to_string();
    assert!(shown.contains("XDG_STATE_HOME"), "{dialect:?}: {shown}");
    assert!(!carries(&shown), "{dialect:?}: what a command could see");
    assert!(!carries(&agent.client.transcript()), "{dialect:?}: what the client was told");
    let log = agent.stderr_log();
    assert!(log.len() > 1000, "the log is on: {log}");
    let at = log.find(KEY).map(|at| log[at.saturating_sub(200)..at].to_owned());
    assert_eq!(at, None, "{dialect:?}: the log");
}
