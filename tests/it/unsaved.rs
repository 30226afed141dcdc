//! Files that an editor shows otherwise than the disk holds them: nothing that is not saved is
//! overwritten unseen, whatever the client can do and however it fails.

use std::time::{Duration, Instant};

use acp_conformance::{Files, Service, shown};
use acp_types::schema::v1::{ToolCall, ToolCallContent, ToolCallStatus};
use futures::{FutureExt as _, StreamExt as _, stream};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{call, end, text};
use crate::harness::{Agent, Options};

/// How long the agent waits for a text, and for one to be taken.
const CLIENT_TEXT_READ: Duration = Duration::from_secs(2);
const CLIENT_TEXT_WRITE: Duration = Duration::from_secs(10);

const DISK: &str = "one\ntwo\nthree\n";
const BUFFER: &str = "one\nTWO\nthree\n";
const CONTENT: &str = "one\n2\nthree\n";

/// What the client can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Can {
    Nothing,
    Read,
    ReadAndWrite,
}

/// What is in the editor and on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Same,
    Differs,
    /// The editor has a text of a file that is not on the disk.
    NotOnDisk,
    /// The editor has a text that differs, and answers every request by an error.
    Fails,
    /// It answers none.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Read,
    Edit,
    Write,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    /// The code of the error, if the call failed.
    error: Option<String>,
    /// What the disk holds.
    disk: Option<String>,
    /// How often the client was told a text.
    told: usize,
    /// What the call shows of this, beside texts and changes: which of the [`NOTES`].
    note: Option<&'static str>,
}

const DIFFERS: &str = "that are not saved: it is the editor's text that is changed";
const READ_DIFFERS: &str = "not all of which are saved";
const ABSENT: &str = "is not on the disk yet";
const UNKNOWN: &str = "It is not known whether notes.txt has changes";
const NOTES: [&str; 4] = [DIFFERS, READ_DIFFERS, ABSENT, UNKNOWN];

/// What is expected of each combination.
fn expected(can: Can, state: State, deed: Deed) -> Outcome {
    let is_held = can != Can::Nothing && matches!(state, State::Differs | State::NotOnDisk);
    let is_unknown = can != Can::Nothing && matches!(state, State::Fails | State::Never);
    let before = (state != State::NotOnDisk).then_some(DISK);
    let failed = |code: &str| (Some(code.to_owned()), before);
    let edited = if is_held { BUFFER } else { DISK }.replace("one", "1");
    let (error, disk) = match deed {
        Deed::Read if before.is_none() && !is_held => failed("not_found"),
        Deed::Read => (None, before),
        _ if is_held && can == Can::Read => failed("unsaved_changes"),
        Deed::Edit if before.is_none() && !is_held => failed("not_found"),
        Deed::Edit => (None, Some(&*edited)),
        Deed::Write => (None, Some(CONTENT)),
    };
    let note = match (deed, state) {
        _ if error.is_some() => None,
        _ if is_unknown => Some(UNKNOWN),
        (_, State::NotOnDisk) if is_held => Some(ABSENT),
        (Deed::Read, State::Differs) if is_held => Some(READ_DIFFERS),
        (_, State::Differs) if is_held => Some(DIFFERS),
        _ => None,
    };
    let told = usize::from(is_held && deed != Deed::Read && can == Can::ReadAndWrite);
    Outcome { error, disk: disk.map(str::to_owned), told, note }
}

fn called(deed: Deed) -> (&'static str, Value) {
    match deed {
        Deed::Read => ("read_file", json!({"path": "notes.txt"})),
        Deed::Edit => {
            ("edit_file", json!({"path": "notes.txt", "old_text": "one", "new_text": "1"}))
        }
        Deed::Write => ("write_file", json!({"path": "notes.txt", "content": CONTENT})),
    }
}

/// Starts an agent whose client holds the file so.
async fn start(files: Option<Files>, state: State, deed: Deed) -> Agent {
    start_with(Options { files, ..Options::default() }, state, deed).await
}

async fn start_with(mut options: Options, state: State, deed: Deed) -> Agent {
    let scratch = Scratch::new();
    if state == State::NotOnDisk {
        std::fs::remove_file(scratch.path("notes.txt")).unwrap();
    }
    if let Some(files) = &mut options.files {
        let text = if state == State::Same { DISK } else { BUFFER };
        files.unsaved.insert(scratch.path("notes.txt"), text.to_owned());
    }
    let (tool, args) = called(deed);
    let model = scratch.model(&[call(tool, args), end(), text("Done.")].into());
    let mut agent = Agent::start_in(scratch, &["acp", "--model", &model], &[], options);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    agent
}

fn files(can: Can, state: State) -> Option<Files> {
    let service = match state {
        State::Fails => Service::Fails,
        State::Never => Service::Never,
        _ => Service::Works,
    };
    let writes = (can == Can::ReadAndWrite).then_some(Service::Works);
    (can != Can::Nothing).then(|| Files { service, writes, ..Files::default() })
}

fn told(agent: &Agent) -> usize {
    agent.client.transcript().matches("\"fs/write_text_file\"").count()
}

/// The ids of the requests of a method.
fn asked(agent: &Agent, method: &str) -> Vec<Value> {
    let transcript = agent.client.transcript();
    let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = lines.filter(|line| line["msg"]["method"] == method);
    messages.map(|line| line["msg"]["id"].clone()).collect()
}

/// All text that stands in a request or a call, and the old and new texts of its changes.
fn texts(content: &[ToolCallContent]) -> String {
    serde_json::to_string(content).unwrap()
}

async fn row(can: Can, state: State, deed: Deed) {
    let row = format!("{can:?} {state:?} {deed:?}");
    let mut agent = start(files(can, state), state, deed).await;
    assert_eq!(agent.turn("go").await, "end_turn", "{row}");
    let call: ToolCall = agent.call(called(deed).0);
    let raw = call.raw_output.clone().unwrap_or_default();
    let error = (call.status == ToolCallStatus::Failed)
        .then(|| raw["code"].as_str().unwrap_or_default().to_owned());
    let disk = std::fs::read_to_string(agent.scratch.path("notes.txt")).ok();
    let seen = texts(&call.content);
    let note = NOTES.into_iter().find(|note| seen.contains(note));
    let outcome = Outcome { error, disk, told: told(&agent), note };
    let expected = expected(can, state, deed);
    assert_eq!(outcome, expected, "{row}: {seen}");
    // The user is shown what they are asked about: the same note, and the text that is changed.
    let is_asked = deed != Deed::Read && expected.error.is_none();
    assert_eq!(agent.client.asked.len(), usize::from(is_asked), "{row}");
    if is_asked {
        let asked = &agent.client.asked[0].request.tool_call.fields.content;
        let asked = texts(asked.as_deref().unwrap_or_default());
        assert!(note.is_none_or(|note| asked.contains(note)), "{row}: {asked}");
        assert_eq!(asked.contains("TWO"), expected.told > 0, "{row}: {asked}");
    } else if expected.error.is_none() {
        assert_eq!(shown(&call).contains("TWO"), note.is_some_and(|it| it != UNKNOWN), "{row}");
    }
    agent.finish().await;
}

async fn rows(state: State) {
    let clients = [Can::Nothing, Can::Read, Can::ReadAndWrite];
    let deeds = [Deed::Read, Deed::Edit, Deed::Write];
    let rows = clients.into_iter().flat_map(|can| deeds.map(|deed| row(can, state, deed).boxed()));
    // One by one, but for a few that wait: no answer must come late because others are at work.
    let at_once = if state == State::Never { 3 } else { 1 };
    stream::iter(rows).for_each_concurrent(at_once, |row| row).await;
}

#[tokio::test]
async fn a_text_that_is_the_same_is_worked_on_upon_the_disk() {
    rows(State::Same).await;
}

#[tokio::test]
async fn a_text_that_differs_is_read_and_changed_in_the_editor_or_not_at_all() {
    rows(State::Differs).await;
}

#[tokio::test]
async fn a_text_without_a_file_is_read_and_changed_in_the_editor_or_not_at_all() {
    rows(State::NotOnDisk).await;
}

#[tokio::test]
async fn an_editor_that_fails_is_told_and_the_disk_counts() {
    rows(State::Fails).await;
}

#[tokio::test]
async fn an_editor_that_never_answers_is_told_and_the_disk_counts() {
    rows(State::Never).await;
}

/// Lets the editor have a text that differs, and not take another.
async fn untaken(writes: Service, deed: Deed, said: &str) -> Agent {
    let files = Files { writes: Some(writes), ..Files::default() };
    let deadline = CLIENT_TEXT_WRITE + Duration::from_secs(10);
    let options = Options { files: Some(files), deadline, ..Options::default() };
    let mut agent = start_with(options, State::Differs, deed).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let call = agent.call(called(deed).0);
    assert_eq!(call.status, ToolCallStatus::Failed);
    let told = format!("the editor did not take the change of notes.txt: {said}.");
    assert!(shown(&call).contains(&told), "{}", shown(&call));
    assert_eq!((self::told(&agent), agent.scratch.read("notes.txt")), (1, DISK.to_owned()));
    agent
}

#[tokio::test]
async fn a_change_that_the_editor_refuses_is_not_made_on_the_disk_instead() {
    for deed in [Deed::Edit, Deed::Write] {
        let mut agent = untaken(Service::Fails, deed, "The editor is busy").await;
        assert!(agent.client.withdrawn.is_empty());
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_change_that_the_editor_never_answers_is_taken_back_and_told_as_one_that_may_be_made() {
    let said = "the client did not answer within 10 s, and may have taken it";
    let mut agent = untaken(Service::Never, Deed::Edit, said).await;
    assert_eq!(agent.client.withdrawn, asked(&agent, "fs/write_text_file"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_waits_for_no_editor() {
    let files = Files { service: Service::Never, ..Files::default() };
    let mut agent = start(Some(files), State::Differs, Deed::Edit).await;
    let prompt = agent.prompt("go").await;
    let method = "fs/read_text_file";
    agent.until(|client| client.transcript().contains(method)).await;
    let begun = Instant::now();
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.until(|client| !client.withdrawn.is_empty()).await;
    assert!(begun.elapsed() < CLIENT_TEXT_READ, "it was taken back only then");
    assert_eq!(agent.client.withdrawn, asked(&agent, method));
    assert_eq!(agent.scratch.read("notes.txt"), DISK);
    agent.finish().await;
}
