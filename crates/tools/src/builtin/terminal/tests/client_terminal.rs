//! Tests for commands that a client runs. Some of these clients are faulty. Each call must end with
//! the result that the client reports, and must release the terminal exactly once.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use acp_lifecycle::{CallOutcome, SessionHandle, execute_call};
use acp_types::{CallEndReason, Status, TerminalExit, ToolCallId, ToolCallReport};
use futures::future::{BoxFuture, FutureExt as _};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::TestSession;
use crate::limits::MAX_CLIENT_OUTPUT_BYTES;
use crate::{ClientCommand, ClientError, ClientOutput, ClientTerminal, TerminalBackend};

/// How the client responds to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RequestBehaviour {
    Works,
    Fails,
    /// The client never answers. The caller gives up after ten seconds.
    Never,
}

use RequestBehaviour::{Fails, Never, Works};

/// The behaviour of a client, and of the command that it runs.
#[derive(Debug, Clone)]
struct ClientScript {
    creates: RequestBehaviour,
    waits: RequestBehaviour,
    outputs: RequestBehaviour,
    kills: RequestBehaviour,
    /// The time after which the command ends by itself. `None` if the command only ends when it is
    /// killed.
    ends: Option<Duration>,
    exit: TerminalExit,
    text: String,
    is_cut: bool,
}

impl Default for ClientScript {
    fn default() -> Self {
        Self {
            creates: Works,
            waits: Works,
            outputs: Works,
            kills: Works,
            ends: Some(Duration::from_secs(3)),
            exit: exit(Some(0), None),
            text: "one\r\ntwo\r\n".to_owned(),
            is_cut: false,
        }
    }
}

/// Returns the script of a client whose command only ends when it is killed.
fn endless() -> ClientScript {
    ClientScript { ends: None, ..ClientScript::default() }
}

fn exit(code: Option<i32>, signal: Option<&str>) -> TerminalExit {
    TerminalExit { code, signal: signal.map(str::to_owned) }
}

#[derive(Debug, Clone)]
struct ScriptedClient {
    script: ClientScript,
    session: Arc<OnceLock<SessionHandle>>,
    /// The received requests in order, each as one word.
    received_requests: Arc<Mutex<Vec<&'static str>>>,
    commands: Arc<Mutex<Vec<ClientCommand>>>,
}

impl ScriptedClient {
    fn new(script: ClientScript) -> Self {
        Self {
            script,
            session: Arc::default(),
            received_requests: Arc::default(),
            commands: Arc::default(),
        }
    }

    /// Records a request, and responds to it as the script requires.
    async fn perform_request(
        &self,
        word: &'static str,
        does: RequestBehaviour,
    ) -> Result<(), ClientError> {
        self.record_request(word);
        match does {
            Works => Ok(()),
            Fails => Err(ClientError::new("no\u{202e} luck.")),
            Never => {
                sleep(Duration::from_secs(10)).await;
                Err(ClientError::new("it did not answer"))
            }
        }
    }

    fn record_request(&self, word: &'static str) {
        self.received_requests.lock().unwrap().push(word);
    }

    fn request_log(&self) -> String {
        self.received_requests.lock().unwrap().join(" ")
    }
}

impl TerminalBackend for ScriptedClient {
    fn create(
        &self,
        command: ClientCommand,
    ) -> BoxFuture<'_, Result<Arc<dyn ClientTerminal>, ClientError>> {
        self.commands.lock().unwrap().push(command);
        let created = async {
            self.perform_request("create", self.script.creates).await?;
            let (begun, killed) = (Instant::now(), CancellationToken::new());
            Ok(Arc::new(ScriptedTerminal { client: self.clone(), begun, killed }) as _)
        };
        created.boxed()
    }
}

#[derive(Debug)]
struct ScriptedTerminal {
    client: ScriptedClient,
    begun: Instant,
    killed: CancellationToken,
}

impl ScriptedTerminal {
    fn ended(&self) -> Option<TerminalExit> {
        let ClientScript { ends, exit: by_itself, .. } = &self.client.script;
        match ends {
            Some(ends) if self.begun.elapsed() >= *ends => Some(by_itself.clone()),
            _ => self.killed.is_cancelled().then(|| exit(None, Some("SIGKILL"))),
        }
    }
}

impl ClientTerminal for ScriptedTerminal {
    fn id(&self) -> &str {
        "theirs"
    }

    fn wait(&self) -> BoxFuture<'_, Result<TerminalExit, ClientError>> {
        let waiting = async {
            match self.client.script.waits {
                Never => {
                    self.client.record_request("wait");
                    std::future::pending::<()>().await;
                }
                waits => self.client.perform_request("wait", waits).await?,
            }
            let ends = async {
                match self.client.script.ends {
                    Some(ends) => tokio::time::sleep_until(self.begun + ends).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ends => {}
                () = self.killed.cancelled() => {}
            }
            Ok(self.ended().unwrap())
        };
        waiting.boxed()
    }

    fn output(&self) -> BoxFuture<'_, Result<ClientOutput, ClientError>> {
        let response = async {
            self.client.perform_request("output", self.client.script.outputs).await?;
            let ClientScript { text, is_cut, .. } = self.client.script.clone();
            Ok(ClientOutput { text, is_truncated: is_cut, exit: self.ended() })
        };
        response.boxed()
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), ClientError>> {
        let killed = async {
            self.client.perform_request("kill", self.client.script.kills).await?;
            self.killed.cancel();
            Ok(())
        };
        killed.boxed()
    }
}

impl Drop for ScriptedTerminal {
    fn drop(&mut self) {
        let session = self.client.session.get().unwrap();
        let is_open =
            session.update(|session, _| session.board().open_call_report(&id()).is_some());
        self.client.record_request(if is_open { "released-too-early" } else { "release" });
    }
}

/// The id of the first call in each session.
fn id() -> ToolCallId {
    ToolCallId::new("call1")
}

fn session_with_client(client: &ScriptedClient) -> TestSession {
    let mut stage = TestSession::new();
    stage.context.terminal = Some(Arc::new(client.clone()));
    client.session.set(stage.session.clone()).unwrap();
    stage
}

async fn run_at_client(client: &ScriptedClient, args: Value) -> (CallOutcome, ToolCallReport) {
    // The test clock is paused, so the ten seconds of a silent client take no real time.
    timeout(Duration::from_secs(200), Box::pin(session_with_client(client).call("terminal", args)))
        .await
        .expect("an end")
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_as_the_client_reports() {
    let with = |code, signal| ClientScript { exit: exit(code, signal), ..ClientScript::default() };
    for (script, text, asked) in [
        (ClientScript::default(), "[exit code 0]\none\ntwo\n", "create wait output release"),
        (with(Some(3), None), "[exit code 3]\none\ntwo\n", "create wait output release"),
        (
            with(None, Some("9\u{202e}")),
            "[ended by 9\\u{202e}]\none\ntwo\n",
            "create wait output release",
        ),
        // If a signal ended the command, some clients report exit code 0 although there is no exit
        // code.
        (with(Some(0), Some("KILL")), "[ended by KILL]\none\ntwo\n", "create wait output release"),
        (
            with(None, Some(" ")),
            "[the client did not report how it ended; it may have had effects]\none\ntwo\n",
            "create wait output release",
        ),
        (
            ClientScript { is_cut: true, ..ClientScript::default() },
            "[exit code 0; the client kept only a part of its output, and the rest, at the \
             beginning or at the end, is not counted]\none\ntwo\n",
            "create wait output release",
        ),
        (
            ClientScript { outputs: Fails, ..with(Some(1), None) },
            "[exit code 1; the client did not return its output: no\\u{202e} luck]\n",
            "create wait output release",
        ),
        (
            ClientScript { outputs: Never, ..ClientScript::default() },
            "[exit code 0; the client did not return its output: it did not answer]\n",
            "create wait output release",
        ),
        // The wait request fails or stays unanswered, so polling detects the end of the command.
        (
            ClientScript { waits: Fails, ..with(Some(4), None) },
            "[exit code 4]\none\ntwo\n",
            "create wait output output output output output output release",
        ),
        (
            ClientScript { waits: Never, ..with(Some(5), None) },
            "[exit code 5]\none\ntwo\n",
            "create wait output output release",
        ),
        // The client no longer has the terminal.
        (
            ClientScript { waits: Fails, outputs: Fails, ..ClientScript::default() },
            "[the client did not report how it ended; it may have had effects; the client did not \
             return its output: no\\u{202e} luck]\n",
            "create wait output output release",
        ),
    ] {
        let client = ScriptedClient::new(script.clone());
        let (ended, report) = run_at_client(&client, json!({"command": "x"})).await;
        assert_eq!(
            (ended.text.as_str(), client.request_log().as_str()),
            (text, asked),
            "{script:?}"
        );
        let is_success = script.exit == exit(Some(0), None) && ended.text.starts_with("[exit code");
        let status = if is_success { Status::Completed } else { Status::Failed };
        assert_eq!((ended.status, report.status), (status, status), "{script:?}");
        let code = report.raw_output.unwrap()["exitCode"].clone();
        assert_eq!(report.meta.exit_code.map_or(Value::Null, |it| json!(it)), code);
        let is_noted = format!("{:?}", report.content).contains("did not return the output");
        assert_eq!(is_noted, text.contains("did not return its output"), "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_ended_or_left_to_the_client() {
    let timed_out = "[ended after its timeout of 1000 ms; it may have had effects";
    for (script, end, signal, asked) in [
        (endless(), "]\none\ntwo\n", Some("SIGKILL"), "create wait kill output release"),
        (
            ClientScript { kills: Fails, ..endless() },
            "]\none\ntwo\n",
            None,
            "create wait kill output output output release",
        ),
        (
            ClientScript { kills: Never, waits: Never, ..endless() },
            "]\none\ntwo\n",
            None,
            "create wait kill output output output release",
        ),
        (
            ClientScript { waits: Never, ..endless() },
            "]\none\ntwo\n",
            Some("SIGKILL"),
            "create wait kill output release",
        ),
        (
            ClientScript { outputs: Never, ..endless() },
            "; the client did not return its output: it did not answer in time]\n",
            Some("SIGKILL"),
            "create wait kill output release",
        ),
    ] {
        let client = ScriptedClient::new(script.clone());
        let begun = Instant::now();
        let (ended, report) =
            run_at_client(&client, json!({"command": "x", "timeout_ms": 1000})).await;
        assert_eq!(ended.text, format!("{timed_out}{end}"), "{script:?}");
        assert_eq!(client.request_log(), asked, "{script:?}");
        assert_eq!((ended.status, ended.reason), (Status::Failed, Some(CallEndReason::Timeout)));
        assert_eq!(report.meta.signal.as_deref(), signal, "{script:?}");
        let shown = format!("{:?}", report.content);
        assert!(shown.contains("ended after its timeout of 1,000 ms"), "{shown}");
        let is_refused = matches!(script.kills, Fails);
        assert_eq!(shown.contains("could not end the command"), is_refused, "{shown}");
        assert!(begun.elapsed() <= Duration::from_secs(12), "{:?}", begun.elapsed());
    }
    // Without `timeout_ms`, a local command would move to the background at this time. A command in
    // the client's terminal is ended instead.
    let client = ScriptedClient::new(endless());
    let (ended, _) = run_at_client(&client, json!({"command": "x"})).await;
    let why = "[ended after 120000 ms, because `timeout_ms` was not set; it may have had effects.";
    assert!(ended.text.starts_with(why) && ended.text.contains("`background`"), "{}", ended.text);
    assert_eq!((ended.status, ended.reason), (Status::Failed, Some(CallEndReason::Timeout)));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_that_is_refused_is_a_failed_call() {
    for (creates, why) in [(Fails, "no\\u{202e} luck"), (Never, "it did not answer")] {
        let client = ScriptedClient::new(ClientScript { creates, ..ClientScript::default() });
        let (ended, report) = run_at_client(&client, json!({"command": "x"})).await;
        let text = format!("The client started no terminal for the command: {why}.");
        assert_eq!((ended.status, report.status), (Status::Failed, Status::Failed));
        assert_eq!((ended.text, client.request_log().as_str()), (text, "create"));
    }
}

/// Starts a call. While the call runs, cancels its turn or aborts its task.
async fn run_and_cancel(client: &ScriptedClient, is_aborted: bool) -> Option<CallOutcome> {
    let stage = session_with_client(client);
    let TestSession { session, registry, context, .. } = &stage;
    let cancel = CancellationToken::new();
    let open =
        registry.announce_call(session, &id(), &"t".into(), "terminal", context, &cancel).unwrap();
    let running =
        execute_call(open, registry.prepare_call("terminal", json!({"command": "x"}), context));
    let running = tokio::spawn(running);
    let last = if client.script.creates == Never { "create" } else { "wait" };
    let asked = async {
        while !client.request_log().ends_with(last) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(200), asked).await.expect("it is asked");
    let begun = Instant::now();
    match is_aborted {
        true => running.abort(),
        false => cancel.cancel(),
    }
    let ended = running.await.ok();
    assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
    ended
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_waits_for_no_client_longer_than_its_grace() {
    for (script, asked) in [
        (endless(), "create wait kill output release"),
        (ClientScript { kills: Never, ..endless() }, "create wait kill output release"),
        (ClientScript { kills: Fails, ..endless() }, "create wait kill output release"),
        (ClientScript { outputs: Never, ..endless() }, "create wait kill output release"),
        (
            ClientScript { kills: Never, outputs: Never, ..endless() },
            "create wait kill output release",
        ),
        // If the client creates the terminal after the cancellation, the backend releases it.
        (ClientScript { creates: Never, ..endless() }, "create"),
    ] {
        let client = ScriptedClient::new(script.clone());
        let ended = run_and_cancel(&client, false).await.unwrap();
        assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(CallEndReason::Turn)));
        assert!(ended.text.starts_with("[cancelled while it ran;"), "{}", ended.text);
        assert_eq!(client.request_log(), asked, "{script:?}");
    }
}

/// Some clients kill only the shell. Its child processes then keep the output open, and the client
/// never reports an end.
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_does_not_wait_for_an_end_that_does_not_come() {
    for script in [
        endless(),
        ClientScript { kills: Fails, ..endless() },
        ClientScript { waits: Never, ..endless() },
        ClientScript { waits: Fails, ..endless() },
        ClientScript { waits: Never, kills: Fails, ..endless() },
    ] {
        let client = ScriptedClient::new(script.clone());
        let begun = Instant::now();
        let asked = run_and_cancel(&client, false).await.unwrap();
        // The limit of 50 ms includes the few milliseconds before the call is cancelled.
        assert!(begun.elapsed() < Duration::from_millis(50), "{script:?}: {:?}", begun.elapsed());
        assert_eq!(asked.status, Status::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_releases_its_terminal() {
    let client = ScriptedClient::new(endless());
    assert_eq!(run_and_cancel(&client, true).await, None);
    assert_eq!(client.request_log(), "create wait release");
}

#[tokio::test(start_paused = true)]
async fn the_client_receives_no_variables_of_the_agents_environment() {
    let client = ScriptedClient::new(ClientScript::default());
    let mut stage = session_with_client(&client);
    let mut env = (*stage.context.env).clone();
    env.insert("SSH_AUTH_SOCK".to_owned(), "/run/secret".to_owned());
    stage.context.env = Arc::new(env);
    std::fs::create_dir(stage.folder.path().join("root/sub")).unwrap();
    stage.call("terminal", json!({"command": "a | b", "cwd": "sub"})).await;
    let commands = client.commands.lock().unwrap().clone();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = ClientCommand {
        program: "/bin/sh".to_owned(),
        args: ["-c", "a | b"].map(str::to_owned).into(),
        env: vec![
            pair("GIT_CONFIG_COUNT", "1"),
            pair("GIT_CONFIG_KEY_0", "safe.bareRepository"),
            pair("GIT_CONFIG_VALUE_0", "explicit"),
            pair("GIT_EDITOR", "true"),
            pair("GIT_PAGER", "cat"),
            pair("GIT_TERMINAL_PROMPT", "0"),
            pair("PAGER", "cat"),
        ],
        cwd: stage.context.workspace.cwd().join("sub"),
        output_bytes: MAX_CLIENT_OUTPUT_BYTES,
    };
    assert_eq!(commands, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_the_client_cannot_run_or_only_displays_run_locally() {
    for (asked, shows_ours) in [
        (json!({"tty": true}), false),
        (json!({"background_after_ms": 60_000}), false),
        (json!({}), true),
    ] {
        let client = ScriptedClient::new(ClientScript::default());
        let mut stage = session_with_client(&client);
        stage.session.update(|session, _| session.set_shows_terminals(shows_ours));
        let mut args = asked.clone();
        args["command"] = json!("echo so");
        let (ended, _) = stage.call("terminal", args).await;
        assert_eq!(
            (ended.text.as_str(), client.request_log().as_str()),
            ("[exit code 0]\nso\n", "")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_output_of_a_client_is_in_a_file_and_secrets_are_hidden() {
    let text = format!("{}hunter2hunter2\n", "line\n".repeat(20_000));
    let client =
        ScriptedClient::new(ClientScript { text: text.clone(), ..ClientScript::default() });
    let mut stage = session_with_client(&client);
    let (ended, report) = stage.call("terminal", json!({"command": "x"})).await;
    assert!(ended.text.ends_with("line\n[redacted]\n"), "{}", &ended.text[..200]);
    let raw = report.raw_output.unwrap();
    assert_eq!(raw["outputBytes"], text.len());
    let file = raw["outputFile"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);
    assert_eq!(report.content.len(), 2, "the terminal and the file: {:?}", report.content);
}

#[tokio::test(start_paused = true)]
async fn excess_client_output_loses_its_beginning() {
    let text = format!("{}\u{e4}{}y", "x".repeat(3_000_000), "y\n".repeat(524_287));
    let client = ScriptedClient::new(ClientScript { text, ..ClientScript::default() });
    let mut stage = session_with_client(&client);
    let (ended, report) = stage.call("terminal", json!({"command": "x"})).await;
    assert!(ended.text.contains("the client kept only a part of its output"), "{}", ended.text);
    let raw = report.raw_output.unwrap();
    assert_eq!((&raw["outputBytes"], &raw["outputLines"]), (&json!(1_048_575), &json!(524_287)));
    let file = std::fs::read_to_string(raw["outputFile"].as_str().unwrap()).unwrap();
    assert!(file.starts_with("y\ny\n"));
}
