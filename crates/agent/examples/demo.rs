//! The demo: runs a complete turn of callboard in a temporary copy of a folder.
//!
//! `cargo xtask demo [PATH]` builds and runs the demo. The demo is an ACP client that is based on
//! the SDK and starts `callboard acp` as a subprocess. The script of the model reads, lists,
//! searches, edits with permission, runs a command with live output, writes a plan and makes one
//! call that fails. The demo prints the cards while they change. It fails if a message violates a
//! rule of the protocol.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use acp_cards::CardRenderer;
use acp_types::client_state::v1::V1ClientState;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, StopReason, ToolCallStatus,
};
use agent_client_protocol::{AcpAgent, Agent, Client, on_receive_notification, on_receive_request};
use ignore::WalkBuilder;
use serde_json::{Value, json};
use terminal_size::{Width, terminal_size};

/// Maximum number of files in the copy. This limit and the next one let the demo accept a folder of
/// any size.
const MAX_FILES: usize = 2_000;
const MAX_FILE_BYTES: u64 = 1 << 20;

type DemoError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match demo().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(&format!("The demo failed: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The client's state: the renderer of the cards, and the client state that checks the messages.
struct DemoClient {
    cards: CardRenderer,
    client_state: V1ClientState,
}

/// Prints a text, with colours if the terminal supports colours. A closed standard output is not an
/// error.
fn print(text: &str) {
    let mut stdout = anstream::stdout();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

async fn demo() -> Result<(), DemoError> {
    let Args { agent, source } = Args::parse(std::env::args_os().skip(1))?;
    let scratch = tempfile::tempdir()?;
    let project = scratch.path().join("project");
    let copied = copy_project(&source, &project)?;
    let script = scratch.path().join("script.jsonl");
    fs::write(&script, script_for(&project)?)?;
    print(&format!("A scratch copy of {} ({copied} files).\n\n", source.display()));

    let model = format!("script:{}", script.display());
    let command = [agent.as_os_str(), "acp".as_ref(), "--model".as_ref(), model.as_ref()];
    let agent = AcpAgent::from_args(command.map(|word| word.to_string_lossy().into_owned()))?;
    let width = terminal_size().map_or(100, |(Width(columns), _)| usize::from(columns).max(40));
    let stage = Arc::new(Mutex::new(DemoClient {
        cards: CardRenderer::new(&project, width).with_colours(),
        client_state: V1ClientState::new(),
    }));
    let (shown, asked) = (stage.clone(), stage.clone());
    let stop = Client
        .v1()
        .name("demo")
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                shown.lock().unwrap_or_else(PoisonError::into_inner).update(&notification);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let outcome = asked.lock().unwrap_or_else(PoisonError::into_inner).allow(&request);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(agent, async |agent: ConnectionTo<Agent>| turn(&agent, project).await)
        .await?;
    let mut stage = stage.lock().unwrap_or_else(PoisonError::into_inner);
    stage.check_result(stop)
}

async fn turn(
    agent: &ConnectionTo<Agent>,
    project: PathBuf,
) -> agent_client_protocol::Result<StopReason> {
    agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
    let session = agent.send_request(NewSessionRequest::new(project)).block_task().await?;
    let prompt = vec![ContentBlock::from("Show what you can do.".to_owned())];
    let request = PromptRequest::new(session.session_id, prompt);
    Ok(agent.send_request(request).block_task().await?.stop_reason)
}

impl DemoClient {
    fn update(&mut self, notification: &SessionNotification) {
        self.client_state.apply_session_update(&notification.update);
        let text = self.cards.render_update(&notification.update, serialized_len(notification));
        print(&text);
    }

    fn allow(&mut self, request: &RequestPermissionRequest) -> RequestPermissionOutcome {
        self.client_state.apply_permission_request(request);
        let text = self.cards.render_request_without_options(request, serialized_len(request));
        print(&text);
        let allow = |option: &&agent_client_protocol::v1::schema::PermissionOption| {
            option.kind == PermissionOptionKind::AllowOnce
        };
        match request.options.iter().find(allow) {
            Some(option) => {
                print("  ▸ allowed by the demo\n");
                let id = option.option_id.clone();
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id))
            }
            None => RequestPermissionOutcome::Cancelled,
        }
    }

    /// Prints the table of calls. Fails if a rule was violated, or if the calls did not end as
    /// expected.
    fn check_result(&mut self, stop: StopReason) -> Result<(), DemoError> {
        self.client_state.check_calls_ended();
        let end = self.cards.finish_open_line();
        let table = self.cards.render_call_table();
        print(&format!("{end}\n{table}\n"));
        let violations = self.client_state.violations();
        if let Some(first) = violations.first() {
            return Err(format!("{} rule violations, the first: {first}", violations.len()).into());
        }
        let calls = self.client_state.observed_calls();
        let failed = calls.filter(|call| call.status == ToolCallStatus::Failed).count();
        let all = self.client_state.observed_calls().count();
        if (all, failed, stop) != (EXPECTED_CALLS, EXPECTED_FAILURES, StopReason::EndTurn) {
            let meant =
                format!("{EXPECTED_CALLS} calls, {EXPECTED_FAILURES} failed, the end of the turn");
            return Err(format!("{all} calls, {failed} failed, {stop:?}; expected {meant}").into());
        }
        print(&format!(
            "{all} calls, each announced, permitted if required, and ended once; {failed} failed as \
             expected.\n"
        ));
        Ok(())
    }
}

/// Number of calls in the script; the next constant is the number of calls that are expected to
/// fail.
const EXPECTED_CALLS: usize = 9;
const EXPECTED_FAILURES: usize = 1;

/// Returns the script of the model.
fn script_for(project: &Path) -> Result<String, DemoError> {
    let (file, line) = first_line(project)?;
    let word = line.split(|letter: char| !letter.is_alphanumeric()).find(|word| word.len() > 2);
    let command = format!(
        "for step in 1 2 3 4; do echo \"step $step of 4\"; sleep 0.15; done; wc -l '{file}'"
    );
    let plan = |first: &str, second: &str| {
        json!({ "todos": [
            { "content": "Look around", "status": first },
            { "content": "Change a line", "status": second, "priority": "high" },
            { "content": "Check it", "status": "pending" },
        ] })
    };
    let call = |id: &str, name: &str, args: Value| json!({ "call": { "id": id, "name": name, "args": args, "chunk": 24 } });
    let lines = [
        json!({ "text": "I look around first.\n" }),
        call("plan", "todo_write", plan("in_progress", "pending")),
        json!({ "end": "tool_calls" }),
        call("read", "read_file", json!({ "path": file, "limit": 6 })),
        call("list", "list_directory", json!({ "path": "." })),
        call("find", "find_path", json!({ "pattern": "*.md" })),
        call("search", "grep", json!({ "pattern": word.unwrap_or("the"), "max_results": 5 })),
        json!({ "end": "tool_calls" }),
        json!({ "thought": "One line to change, then a command to check it." }),
        call(
            "edit",
            "edit_file",
            json!({
                "path": file,
                "old_text": line,
                "new_text": format!("{line}\n\n_Changed by the demo._"),
                "occurrence": 1,
            }),
        ),
        call("run", "terminal", json!({ "command": command })),
        json!({ "end": "tool_calls" }),
        call("missing", "read_file", json!({ "path": "no/such/file.txt" })),
        call("done", "todo_write", plan("completed", "completed")),
        json!({ "end": "tool_calls" }),
        json!({ "text": "Done: one line changed, and one file that is not there." }),
        json!({ "end": "end_turn" }),
    ];
    Ok(lines.map(|line| format!("{line}\n")).concat())
}

/// Returns the name and the first line of `README.md`. Creates the file if it does not exist.
fn first_line(project: &Path) -> Result<(String, String), DemoError> {
    let readme = project.join("README.md");
    if !readme.is_file() {
        fs::write(&readme, "# A folder without a README\n")?;
    }
    let text = fs::read_to_string(&readme)?;
    let line = text.lines().find(|line| !line.trim().is_empty());
    match line {
        Some(line) => Ok(("README.md".to_owned(), line.to_owned())),
        None => Err("README.md is empty".into()),
    }
}

/// Copies a folder without the files that git ignores. Stops at a limit. Returns the number of
/// copied files.
fn copy_project(source: &Path, target: &Path) -> Result<usize, DemoError> {
    fs::create_dir_all(target)?;
    let mut copied = 0;
    for entry in WalkBuilder::new(source).hidden(false).require_git(false).build() {
        let entry = entry?;
        let path = entry.path().strip_prefix(source)?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || path.starts_with(".git") || entry.metadata()?.len() > MAX_FILE_BYTES {
            continue;
        }
        let place = target.join(path);
        fs::create_dir_all(place.parent().unwrap_or(target))?;
        fs::copy(entry.path(), place)?;
        copied += 1;
        if copied == MAX_FILES {
            break;
        }
    }
    Ok(copied)
}

fn serialized_len(message: &impl serde::Serialize) -> usize {
    serde_json::to_vec(message).map_or(0, |bytes| bytes.len())
}

/// The arguments `--agent PROGRAM [PATH]`.
struct Args {
    agent: PathBuf,
    source: PathBuf,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, DemoError> {
        let (mut agent, mut source) = (None, PathBuf::from("."));
        while let Some(word) = words.next() {
            if word == "--agent" {
                agent = words.next().map(PathBuf::from);
            } else {
                source = word.into();
            }
        }
        let agent = agent.ok_or("missing option: --agent PROGRAM")?;
        Ok(Self { agent: std::path::absolute(agent)?, source: fs::canonicalize(source)? })
    }
}
