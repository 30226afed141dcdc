//! Files whose text in the editor differs from the text on the disk. Unsaved changes are never
//! overwritten without a notice. The tests cover every set of client capabilities and every fault
//! of the client.

use std::time::{Duration, Instant};

use acp_conformance::{FileService, ServiceBehaviour, call_text};
use acp_types::schema::v1::{ToolCall, ToolCallContent, ToolCallStatus};
use futures::{FutureExt as _, StreamExt as _, stream};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{call, end, text};
use crate::harness::{Agent, Options};

/// The agent's time limits for a request to read a text from the client, and to write a text to the
/// client.
const CLIENT_TEXT_READ: Duration = Duration::from_secs(2);
const CLIENT_TEXT_WRITE: Duration = Duration::from_secs(10);

const DISK: &str = "one\ntwo\nthree\n";
const BUFFER: &str = "one\nTWO\nthree\n";
const CONTENT: &str = "one\n2\nthree\n";

/// The requests for files that the client supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientFileAccess {
    Nothing,
    Read,
    ReadAndWrite,
}

/// The state of the file in the editor, compared with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EditorState {
    Same,
    Differs,
    /// The editor has a text for the file, which does not exist on the disk.
    NotOnDisk,
    /// The editor's text differs from the disk, but the client answers every request with an error.
    Fails,
    /// The editor's text differs from the disk, but the client never answers.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EditorAction {
    Read,
    Edit,
    Write,
}

/// The expected outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ExpectedOutcome {
    /// The code of the error if the call must fail.
    error: Option<String>,
    /// The text of the file on the disk after the call.
    disk: Option<String>,
    /// Number of texts that the agent writes to the client.
    client_writes: usize,
    /// The note in the call's content, which is one of [`NOTES`].
    note: Option<&'static str>,
}

const DIFFERS: &str = "that are not saved: the editor's text is changed";
const READ_DIFFERS: &str = "not all of which are saved";
const ABSENT: &str = "is not on the disk yet";
const UNKNOWN: &str = "It is not known whether notes.txt has changes";
const NOTES: [&str; 4] = [DIFFERS, READ_DIFFERS, ABSENT, UNKNOWN];

/// Returns the expected outcome for a combination of client, state and call.
fn expected(can: ClientFileAccess, state: EditorState, deed: EditorAction) -> ExpectedOutcome {
    let is_held = can != ClientFileAccess::Nothing
        && matches!(state, EditorState::Differs | EditorState::NotOnDisk);
    let is_unknown = can != ClientFileAccess::Nothing
        && matches!(state, EditorState::Fails | EditorState::Never);
    let before = (state != EditorState::NotOnDisk).then_some(DISK);
    let failed = |code: &str| (Some(code.to_owned()), before);
    let edited = if is_held { BUFFER } else { DISK }.replace("one", "1");
    let (error, disk) = match deed {
        EditorAction::Read if before.is_none() && !is_held => failed("not_found"),
        EditorAction::Read => (None, before),
        _ if is_held && can == ClientFileAccess::Read => failed("unsaved_changes"),
        EditorAction::Edit if before.is_none() && !is_held => failed("not_found"),
        EditorAction::Edit => (None, Some(&*edited)),
        EditorAction::Write => (None, Some(CONTENT)),
    };
    let note = match (deed, state) {
        _ if error.is_some() => None,
        _ if is_unknown => Some(UNKNOWN),
        (_, EditorState::NotOnDisk) if is_held => Some(ABSENT),
        (EditorAction::Read, EditorState::Differs) if is_held => Some(READ_DIFFERS),
        (_, EditorState::Differs) if is_held => Some(DIFFERS),
        _ => None,
    };
    let client_writes =
        usize::from(is_held && deed != EditorAction::Read && can == ClientFileAccess::ReadAndWrite);
    ExpectedOutcome { error, disk: disk.map(str::to_owned), client_writes, note }
}

fn tool_call_of(deed: EditorAction) -> (&'static str, Value) {
    match deed {
        EditorAction::Read => ("read_file", json!({"path": "notes.txt"})),
        EditorAction::Edit => {
            ("edit_file", json!({"path": "notes.txt", "old_text": "one", "new_text": "1"}))
        }
        EditorAction::Write => ("write_file", json!({"path": "notes.txt", "content": CONTENT})),
    }
}

/// Starts an agent. The client's editor has the file in this state.
async fn start(files: Option<FileService>, state: EditorState, deed: EditorAction) -> Agent {
    start_with(Options::default().with_files(files), state, deed).await
}

async fn start_with(mut options: Options, state: EditorState, deed: EditorAction) -> Agent {
    let scratch = Scratch::new();
    if state == EditorState::NotOnDisk {
        std::fs::remove_file(scratch.path("notes.txt")).unwrap();
    }
    if let Some(files) = &mut options.files {
        let text = if state == EditorState::Same { DISK } else { BUFFER };
        files.unsaved.insert(scratch.path("notes.txt"), text.to_owned());
    }
    let (tool, args) = tool_call_of(deed);
    let model = scratch.model(&[call(tool, args), end(), text("Done.")].into());
    let mut agent = Agent::start_in(scratch, &["acp", "--model", &model], &[], options);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    agent
}

fn files(can: ClientFileAccess, state: EditorState) -> Option<FileService> {
    let service = match state {
        EditorState::Fails => ServiceBehaviour::Fails,
        EditorState::Never => ServiceBehaviour::NoReply,
        _ => ServiceBehaviour::Works,
    };
    let writes = (can == ClientFileAccess::ReadAndWrite).then_some(ServiceBehaviour::Works);
    (can != ClientFileAccess::Nothing)
        .then(|| FileService::default().with_read_behaviour(service).with_write_behaviour(writes))
}

fn count_client_writes(agent: &Agent) -> usize {
    agent.client.transcript().matches("\"fs/write_text_file\"").count()
}

/// Returns the ids of all requests of a method in the transcript.
fn requests_of(agent: &Agent, method: &str) -> Vec<Value> {
    let transcript = agent.client.transcript();
    let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = lines.filter(|line| line["msg"]["method"] == method);
    messages.map(|line| line["msg"]["id"].clone()).collect()
}

/// Returns the whole content as text, including the old and the new texts of changes.
fn texts(content: &[ToolCallContent]) -> String {
    serde_json::to_string(content).unwrap()
}

async fn check_combination(can: ClientFileAccess, state: EditorState, deed: EditorAction) {
    let row = format!("{can:?} {state:?} {deed:?}");
    let mut agent = start(files(can, state), state, deed).await;
    assert_eq!(agent.turn("go").await, "end_turn", "{row}");
    let call: ToolCall = agent.call(tool_call_of(deed).0);
    let raw = call.raw_output.clone().unwrap_or_default();
    let error = (call.status == ToolCallStatus::Failed)
        .then(|| raw["code"].as_str().unwrap_or_default().to_owned());
    let disk = std::fs::read_to_string(agent.scratch.path("notes.txt")).ok();
    let seen = texts(&call.content);
    let note = NOTES.into_iter().find(|note| seen.contains(note));
    let outcome = ExpectedOutcome { error, disk, client_writes: count_client_writes(&agent), note };
    let expected = expected(can, state, deed);
    assert_eq!(outcome, expected, "{row}: {seen}");
    // A permission request shows the same note as the call, and the text that will be changed.
    let is_asked = deed != EditorAction::Read && expected.error.is_none();
    assert_eq!(agent.client.permission_requests.len(), usize::from(is_asked), "{row}");
    if is_asked {
        let asked = &agent.client.permission_requests[0].request.tool_call.fields.content;
        let asked = texts(asked.as_deref().unwrap_or_default());
        assert!(note.is_none_or(|note| asked.contains(note)), "{row}: {asked}");
        assert_eq!(asked.contains("TWO"), expected.client_writes > 0, "{row}: {asked}");
    } else if expected.error.is_none() {
        assert_eq!(call_text(&call).contains("TWO"), note.is_some_and(|it| it != UNKNOWN), "{row}");
    }
    agent.finish().await;
}

async fn check_state(state: EditorState) {
    let clients =
        [ClientFileAccess::Nothing, ClientFileAccess::Read, ClientFileAccess::ReadAndWrite];
    let deeds = [EditorAction::Read, EditorAction::Edit, EditorAction::Write];
    let rows = clients
        .into_iter()
        .flat_map(|can| deeds.map(|deed| check_combination(can, state, deed).boxed()));
    // Rows run one at a time, so that a row cannot delay the answers of another row. Only rows
    // whose client never answers run in parallel.
    let at_once = if state == EditorState::Never { 3 } else { 1 };
    stream::iter(rows).for_each_concurrent(at_once, |row| row).await;
}

#[tokio::test]
async fn a_text_without_unsaved_changes_is_read_and_changed_on_the_disk() {
    check_state(EditorState::Same).await;
}

#[tokio::test]
async fn a_text_with_unsaved_changes_is_only_read_and_changed_in_the_editor() {
    check_state(EditorState::Differs).await;
}

#[tokio::test]
async fn a_file_with_unsaved_changes_is_deleted_or_moved_only_after_a_question() {
    let delete = ("delete_path", json!({"path": "notes.txt"}));
    let moves = ("move_path", json!({"from": "notes.txt", "to": "b.txt"}));
    for (tool, args) in [delete, moves] {
        for (state, expected) in [(EditorState::Same, 0), (EditorState::Differs, 1)] {
            let scratch = Scratch::new();
            let mut files = files(ClientFileAccess::ReadAndWrite, state).unwrap();
            let held = if state == EditorState::Same { DISK } else { BUFFER };
            files.unsaved.insert(scratch.path("notes.txt"), held.to_owned());
            let options = Options::default().with_files(Some(files));
            let model = scratch.model(&[call(tool, args.clone()), end(), text("Done.")].into());
            let args = ["acp", "--model", &model, "--mode", "auto"];
            let mut agent = Agent::start_in(scratch, &args, &[], options);
            agent.initialize().await.unwrap();
            agent.new_session().await;
            assert_eq!(agent.turn("go").await, "end_turn");
            let asked = &agent.client.permission_requests;
            assert_eq!(asked.len(), expected, "{tool} {state:?}");
            let content = asked.first().map(|asked| &asked.request.tool_call.fields.content);
            let shown = texts(content.and_then(Option::as_deref).unwrap_or_default());
            assert_eq!(shown.contains("Only the file on the disk"), expected == 1, "{shown}");
            assert!(!agent.scratch.path("notes.txt").exists(), "{tool} {state:?}");
            agent.finish().await;
        }
    }
}

#[tokio::test]
async fn a_text_without_a_file_is_only_read_and_changed_in_the_editor() {
    check_state(EditorState::NotOnDisk).await;
}

#[tokio::test]
async fn if_the_editor_fails_the_disk_is_used_with_a_notice() {
    check_state(EditorState::Fails).await;
}

#[tokio::test]
async fn if_the_editor_never_answers_the_disk_is_used_with_a_notice() {
    check_state(EditorState::Never).await;
}

/// Runs a call that must fail: the editor's text differs from the disk, and the client does not
/// confirm the write.
async fn run_with_rejected_write(
    writes: ServiceBehaviour,
    deed: EditorAction,
    said: &str,
) -> Agent {
    let files = FileService::default().with_write_behaviour(writes);
    let deadline = CLIENT_TEXT_WRITE + Duration::from_secs(10);
    let mut options = Options::default();
    options.files = Some(files);
    options.deadline = deadline;
    let mut agent = start_with(options, EditorState::Differs, deed).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let call = agent.call(tool_call_of(deed).0);
    assert_eq!(call.status, ToolCallStatus::Failed);
    let expected = format!("the editor did not take the change of notes.txt: {said}.");
    assert!(call_text(&call).contains(&expected), "{}", call_text(&call));
    assert_eq!(
        (count_client_writes(&agent), agent.scratch.read("notes.txt")),
        (1, DISK.to_owned())
    );
    agent
}

#[tokio::test]
async fn a_change_that_the_editor_refuses_is_not_made_on_the_disk() {
    for deed in [EditorAction::Edit, EditorAction::Write] {
        let mut agent =
            run_with_rejected_write(ServiceBehaviour::Fails, deed, "The editor is busy").await;
        assert!(agent.client.cancelled_requests.is_empty());
        agent.finish().await;
    }
}

#[tokio::test]
async fn an_unanswered_change_is_cancelled_and_reported_as_possibly_made() {
    let said = "the client did not answer within 10 s, and may have taken it";
    let mut agent =
        run_with_rejected_write(ServiceBehaviour::NoReply, EditorAction::Edit, said).await;
    assert_eq!(agent.client.cancelled_requests, requests_of(&agent, "fs/write_text_file"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_does_not_wait_for_the_editor() {
    let files = FileService::default().with_read_behaviour(ServiceBehaviour::NoReply);
    let mut agent = start(Some(files), EditorState::Differs, EditorAction::Edit).await;
    let prompt = agent.prompt("go").await;
    let method = "fs/read_text_file";
    agent.until(|client| client.transcript().contains(method)).await;
    let begun = Instant::now();
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.until(|client| !client.cancelled_requests.is_empty()).await;
    assert!(begun.elapsed() < CLIENT_TEXT_READ, "it was taken back only then");
    assert_eq!(agent.client.cancelled_requests, requests_of(&agent, method));
    assert_eq!(agent.scratch.read("notes.txt"), DISK);
    agent.finish().await;
}
