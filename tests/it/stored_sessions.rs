//! Stored sessions: the stored data, and the way in which a later process restores a session.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use acp_store::{
    NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionFilter, SessionHolder,
    SessionRecord, SessionStore as _, SessionSummary, SqliteSessionStore, StoredRecord,
};
use acp_types::schema::v1::{ContentBlock, SessionUpdate, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::scratch::{SECRET, Scratch};
use crate::harness::script::{Model, call, end, run, text};
use crate::harness::session::{call_text, meta, shown_terminal_id};
use crate::harness::{Agent, DEADLINE, JsonRpcResult, Options};

/// A script: one reply with a call of each kind, and a last reply.
fn all_kinds() -> Model {
    let lines = vec![
        json!({"thought": "First I look."}),
        text("I read it."),
        call("read_file", json!({"path": "notes.txt"})),
        call("write_file", json!({"path": "new.txt", "content": "a\n"})),
        end(),
        run("echo one; echo two >&2; exit 3"),
        end(),
        call("read_file", json!({"path": "missing.txt"})),
        call("todo_write", json!({"todos": [{"content": "Look", "status": "completed"}]})),
        end(),
        text("Done."),
    ];
    Model::from(lines)
}

/// Starts the agent in a folder where it may have worked before.
fn start(scratch: &Scratch, model: &Model, args: &[&str], options: impl Into<Options>) -> Agent {
    let model = scratch.model(model);
    let args = [&["acp", "--model", &model], args].concat();
    Agent::start_in(scratch.clone(), &args, &[], options)
}

/// Starts the agent like [`start`], and opens a session.
async fn ready(scratch: &Scratch, model: &Model, args: &[&str]) -> Agent {
    let mut agent = start(scratch, model, args, Options::default());
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent
}

fn store(scratch: &Scratch) -> SqliteSessionStore {
    let holder = SessionHolder::new(1, "test", std::time::SystemTime::now());
    SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap()
}

fn sessions(store: &SqliteSessionStore) -> Vec<SessionSummary> {
    store.list(&SessionFilter::default()).unwrap().sessions
}

fn records(
    store: &SqliteSessionStore,
    summary: &SessionSummary,
    stream: RecordStream,
) -> Vec<StoredRecord> {
    let mut load = store.begin_load(&summary.id, stream, u64::MAX).unwrap();
    let records = store.load_next_records(&mut load).unwrap();
    assert_eq!((load.damaged, store.load_next_records(&mut load).unwrap().len()), (0, 0));
    records
}

/// The bytes of all files in a folder.
fn bytes_in(folder: &Path) -> Vec<u8> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { bytes_in(&path) } else { fs::read(path).unwrap() })
        .collect()
}

#[tokio::test]
async fn a_session_is_stored_as_documents_with_its_title_and_the_models_messages() {
    let scratch = Scratch::new();
    let mut agent = ready(&scratch, &all_kinds(), &["--mode", "auto"]).await;
    assert_eq!(agent.turn("Do it all").await, "end_turn");
    assert_eq!(agent.turn("/mode ask").await, "end_turn");
    agent.finish().await;
    let store = store(&scratch);
    let stored = sessions(&store);
    let [session] = &stored[..] else { panic!("one session: {stored:?}") };
    assert_eq!(session.title.as_deref(), Some("Do it all"));
    assert_eq!((session.id.to_string(), session.prompts), (agent.session_id(), 2));
    assert_eq!(session.folder.as_ref().unwrap().cwd, scratch.cwd());
    let client = records(&store, session, RecordStream::Client);
    let mut kinds: Vec<_> = client.iter().map(|record| &*record.kind).collect();
    kinds.retain(|kind| *kind != "state");
    assert_eq!(
        kinds,
        [
            "prompt", "message", "message", "call", "call", "call", "call", "call", "plan",
            "message", "prompt", "message"
        ]
    );
    let calls = client.iter().filter(|record| record.kind == "call");
    let statuses = calls.map(|record| {
        let document: serde_json::Value = record.parse_json().unwrap();
        document["value"]["call"]["status"].as_str().unwrap().to_owned()
    });
    let statuses: Vec<_> = statuses.collect();
    assert_eq!(statuses, ["completed", "completed", "failed", "failed", "completed"]);
    let model = records(&store, session, RecordStream::Model);
    let roles = model.iter().map(|record| {
        record.parse_json::<serde_json::Value>().unwrap()["role"].as_str().unwrap().to_owned()
    });
    let mut roles: Vec<_> = roles.collect();
    roles.retain(|role| role != "context");
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "tool_results",
            "assistant",
            "tool_results",
            "assistant",
            "tool_results",
            "assistant"
        ]
    );
    assert_eq!(store.find_integrity_faults().unwrap(), [""; 0]);
}

#[tokio::test]
async fn what_is_stored_holds_no_secret() {
    let scratch = Scratch::new();
    let lines = vec![
        text(&format!("It is {SECRET}.")),
        run(&format!("echo '{SECRET}'")),
        end(),
        text(SECRET),
    ];
    let mut agent = ready(&scratch, &Model::from(lines), &["--mode", "auto"]).await;
    agent.turn(&format!("Look for {SECRET} here")).await;
    agent.finish().await;
    let bytes = bytes_in(&scratch.sessions());
    let holds = |text: &str| bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(holds("[redacted]") && holds("Look for"));
    assert!(!holds(SECRET) && !holds("s3cr3t"));
}

#[tokio::test]
async fn a_process_that_ends_leaves_no_long_log_to_the_next_one() {
    let scratch = Scratch::new();
    fs::write(scratch.path("long.txt"), "a line of a long file\n".repeat(2_500)).unwrap();
    let call = |_| call("read_file", json!({"path": "long.txt"}));
    let reads: Vec<_> = (0..200).map(call).chain([end(), text("Done.")]).collect();
    let mut agent = ready(&scratch, &Model::from(reads), &[]).await;
    assert_eq!(agent.turn("Read it often").await, "end_turn");
    agent.finish().await;
    let bytes = |name| fs::metadata(scratch.sessions().join(name)).unwrap().len();
    assert!(bytes("sessions.sqlite3") > 4 << 20, "{}", bytes("sessions.sqlite3"));
    assert!(bytes("sessions.sqlite3-wal") < 4 << 20, "{}", bytes("sessions.sqlite3-wal"));
}

#[tokio::test]
async fn nothing_is_stored_of_a_session_without_a_prompt() {
    let scratch = Scratch::new();
    let mut agent = ready(&scratch, &Model::Direct, &[]).await;
    agent.finish().await;
    assert_eq!(sessions(&store(&scratch)), []);
}

#[tokio::test]
async fn a_session_that_is_ephemeral_writes_nothing() {
    for is_flag in [true, false] {
        let scratch = Scratch::new();
        let args: &[&str] = if is_flag { &["--ephemeral"] } else { &[] };
        if !is_flag {
            let folder = scratch.cwd().parent().unwrap().join("home/CONFIG_HOME/callboard");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("config.toml"), "[sessions]\nenabled = false\n").unwrap();
        }
        let mut agent = ready(&scratch, &Model::Direct, args).await;
        assert_eq!(agent.turn("read notes.txt").await, "end_turn");
        agent.finish().await;
        assert!(!scratch.sessions().exists());
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_one_notice_and_the_session_goes_on() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.sessions().parent().unwrap()).unwrap();
    fs::write(scratch.sessions(), "not a folder").unwrap();
    let mut agent = ready(&scratch, &Model::Direct, &[]).await;
    for _ in 0..2 {
        assert_eq!(agent.turn("read notes.txt").await, "end_turn");
    }
    let thoughts = agent.session().thought_text();
    assert_eq!(thoughts.matches("This session is not stored: ").count(), 1, "{thoughts}");
    assert!(thoughts.contains("callboard/sessions"), "{thoughts}");
    agent.finish().await;
}

#[tokio::test]
async fn a_kill_loses_nothing_that_was_answered() {
    let scratch = Scratch::new();
    let mut agent = ready(&scratch, &Model::Direct, &[]).await;
    assert_eq!(agent.turn("read notes.txt").await, "end_turn");
    agent.kill().await;
    let store = store(&scratch);
    let session = sessions(&store).remove(0);
    let client = records(&store, &session, RecordStream::Client);
    let mut kinds: Vec<_> = client.iter().map(|record| &*record.kind).collect();
    kinds.retain(|kind| *kind != "state");
    assert_eq!(kinds, ["prompt", "call", "message"]);
    assert_eq!(store.find_integrity_faults().unwrap(), [""; 0]);
    drop(store.open(&session.id).expect("a kill frees the session"));
}

/// The state of a session that a client holds, in a form that can be compared.
fn held(agent: &Agent, id: &str) -> serde_json::Value {
    let session = agent.client.session(id);
    let calls = session.calls().into_iter().map(|call| {
        let terminal = shown_terminal_id(call).and_then(|id| {
            session.client_state.observed_terminal(&id).map(|terminal| format!("{terminal:?}"))
        });
        json!({"call": call, "terminal": terminal})
    });
    json!({
        "calls": calls.collect::<Vec<_>>(),
        "plan": session.client_state.latest_plan(),
        "messages": session.message_text(),
        "thoughts": session.thought_text(),
    })
}

/// The texts of the prompts that were sent again to a client.
fn replayed_prompts(agent: &Agent, id: &str) -> Vec<String> {
    let updates = agent.client.session(id).updates.iter();
    let prompts = updates.filter_map(|update| match update {
        SessionUpdate::UserMessageChunk(chunk) => match &chunk.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        _ => None,
    });
    prompts.collect()
}

/// Loads a session in another process.
async fn load(
    scratch: &Scratch,
    id: &str,
    model: &Model,
    args: &[&str],
    options: impl Into<Options>,
) -> (Agent, JsonRpcResult) {
    restore("session/load", scratch, id, model, args, options).await
}

async fn restore(
    method: &str,
    scratch: &Scratch,
    id: &str,
    model: &Model,
    args: &[&str],
    options: impl Into<Options>,
) -> (Agent, JsonRpcResult) {
    let mut agent = start(scratch, model, args, options);
    agent.initialize().await.expect("it initializes");
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let loaded = agent.request(method, params).await;
    (agent, loaded)
}

fn terminal_client() -> Options {
    Options::default().with_capabilities(json!({"_meta": {"terminal_output": true}}))
}

#[tokio::test]
async fn a_load_shows_what_the_client_held() {
    for options in [Options::default, terminal_client] {
        let scratch = Scratch::new();
        let mut live = start(&scratch, &all_kinds(), &["--mode", "auto"], options());
        live.initialize().await.unwrap();
        let id = live.new_session().await;
        assert_eq!(live.turn("Do it all").await, "end_turn");
        assert_eq!(live.turn("/usage").await, "end_turn");
        live.finish().await;
        let before = held(&live, &id);
        assert_eq!(before["calls"].as_array().unwrap().len(), 5);

        let (mut agent, loaded) =
            load(&scratch, &id, &all_kinds(), &["--mode", "auto"], options()).await;
        let loaded = loaded.unwrap();
        assert_eq!(loaded["modes"]["currentModeId"], "auto");
        assert_eq!(loaded["configOptions"][0]["id"], "model");
        assert_eq!(held(&agent, &id), before);
        assert_eq!(replayed_prompts(&agent, &id), ["Do it all", "/usage"]);
        // The session continues, and its new calls have new ids.
        let prompt = agent.prompt_in(&id, "Again").await;
        assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
        assert_eq!(agent.client.session(&id).calls().len(), 10);
        let before = held(&agent, &id);
        agent.finish().await;
        let (mut agent, loaded) =
            load(&scratch, &id, &all_kinds(), &["--mode", "auto"], options()).await;
        assert!(loaded.is_ok());
        assert_eq!(held(&agent, &id), before);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_file_that_was_read_before_a_load_counts_as_read_unless_it_changed() {
    let edits = ["--mode", "accept-edits"];
    for (is_changed, expected) in [(false, 0), (true, 1)] {
        let scratch = Scratch::new();
        let read = call("read_file", json!({"path": "notes.txt"}));
        let read = Model::from(vec![read, end(), text("Read.")]);
        let mut first = start(&scratch, &read, &edits, Options::default());
        first.initialize().await.unwrap();
        let id = first.new_session().await;
        first.turn("Read it").await;
        first.finish().await;
        if is_changed {
            fs::write(scratch.path("notes.txt"), "another text\n").unwrap();
        }
        let write = call("write_file", json!({"path": "notes.txt", "content": "new\n"}));
        let write = Model::from(vec![write, end(), text("Written.")]);
        let (mut agent, _) = load(&scratch, &id, &write, &edits, Options::default()).await;
        let prompt = agent.prompt_in(&id, "Write it").await;
        assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
        let asked = &agent.client.permission_requests;
        assert_eq!(asked.len(), expected, "{is_changed}: {asked:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_load_sends_each_document_once_before_its_response() {
    let scratch = Scratch::new();
    let mut live = ready(&scratch, &all_kinds(), &["--mode", "auto"]).await;
    let id = live.session_id();
    assert_eq!(live.turn("Do it all").await, "end_turn");
    live.finish().await;
    let options = Options::default();
    let (mut agent, loaded) = load(&scratch, &id, &all_kinds(), &["--mode", "auto"], options).await;
    assert!(loaded.is_ok());
    agent.finish().await;
    insta::assert_snapshot!(agent.wire());
}

#[tokio::test]
async fn a_turn_that_a_prompt_waits_for_is_recorded_before_the_prompt() {
    let scratch = Scratch::new();
    let wait = run("until [ -e go ]; do sleep 0.01; done");
    let model = Model::from([wait, end(), text("The first answer."), end(), text("The second.")]);
    let mut live = ready(&scratch, &model, &["--mode", "auto"]).await;
    let id = live.session_id();
    let prompts = [live.prompt("one").await, live.prompt("two").await];
    // When this request is answered, the agent has read both prompts.
    live.request("session/list", json!({})).await.unwrap();
    fs::write(scratch.path("go"), "").unwrap();
    for prompt in &prompts {
        assert_eq!(live.stop_reason(prompt).await, "end_turn");
    }
    live.finish().await;
    let before = held(&live, &id);
    assert_eq!(before["messages"], "The first answer.The second.");
    let (mut agent, _) = load(&scratch, &id, &model, &[], Options::default()).await;
    assert_eq!(held(&agent, &id), before);
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_shows_less_loads_a_session_of_one_that_shows_terminals() {
    let scratch = Scratch::new();
    let mut live = start(&scratch, &all_kinds(), &["--mode", "auto"], terminal_client());
    live.initialize().await.unwrap();
    let id = live.new_session().await;
    live.turn("Do it all").await;
    live.finish().await;
    let (mut agent, _) = load(&scratch, &id, &all_kinds(), &[], Options::default()).await;
    let call = agent.client.session(&id).only_call_of_tool("terminal").unwrap().clone();
    assert!(call_text(&call).contains("one\ntwo\n[exit code 3]"), "{}", call_text(&call));
    agent.finish().await;
}

#[tokio::test]
async fn a_call_that_a_kill_cut_off_is_failed_once_after_a_load() {
    let scratch = Scratch::new();
    let model = Model::from([run("echo started; sleep 600"), end(), text("Next.")]);
    let mut agent = ready(&scratch, &model, &["--mode", "auto"]).await;
    let id = agent.session_id();
    agent.prompt("go").await;
    agent.until_shown(&id, "started").await;
    // An update of a running call is sent before it is stored.
    scratch.until_stored("call/").await;
    agent.kill().await;
    scratch.until_alone(None, DEADLINE).await;
    for _ in 0..2 {
        let (mut agent, loaded) = load(&scratch, &id, &model, &[], Options::default()).await;
        assert!(loaded.is_ok(), "{loaded:?}");
        let call = agent.client.session(&id).only_call_of_tool("terminal").unwrap().clone();
        assert_eq!(
            (call.status, &meta(&call)["reason"]),
            (ToolCallStatus::Failed, &json!("shutdown"))
        );
        agent.finish().await;
    }
    // The session continues, with its title.
    let next = Model::from([text("Next.")]);
    let (mut agent, _) = load(&scratch, &id, &next, &[], Options::default()).await;
    let prompt = agent.prompt_in(&id, "go on").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    agent.finish().await;
    assert_eq!(sessions(&store(&scratch))[0].title.as_deref(), Some("go"));
}

#[tokio::test]
async fn a_session_is_open_in_one_process_until_it_is_closed_there() {
    let scratch = Scratch::new();
    let mut first = ready(&scratch, &Model::Direct, &[]).await;
    let id = first.session_id();
    first.turn("read notes.txt").await;
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let error = first.request("session/load", params.clone()).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32603), &json!("session_held"))
    );
    let (mut second, error) = load(&scratch, &id, &Model::Direct, &[], Options::default()).await;
    let error = error.unwrap_err();
    let process = format!("process {}", first.process_id().unwrap());
    assert_eq!(error["data"]["reason"], "session_held");
    assert!(error["message"].as_str().unwrap().contains(&process), "{error}");
    let deleted = second.request("session/delete", json!({"sessionId": id})).await;
    assert_eq!(deleted.unwrap_err()["data"]["reason"], "session_held");
    first.request("session/close", json!({"sessionId": id})).await.unwrap();
    second.request("session/load", params).await.unwrap();
    second.kill().await;
    first.finish().await;
}

#[tokio::test]
async fn a_resumed_session_goes_on_without_a_replay() {
    let scratch = Scratch::new();
    let mut agent = ready(&scratch, &Model::Direct, &[]).await;
    let id = agent.session_id();
    agent.turn("read notes.txt").await;
    agent.finish().await;
    let (mut agent, resumed) =
        restore("session/resume", &scratch, &id, &Model::Direct, &[], Options::default()).await;
    assert_eq!(resumed.unwrap()["configOptions"][0]["currentValue"], "direct");
    assert_eq!(held(&agent, &id)["calls"], json!([]));
    let prompt = agent.prompt_in(&id, "read README.md").await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let call = agent.client.session(&id).calls()[0].tool_call_id.to_string();
    assert!(call.starts_with("t2/"), "{call}");
    agent.finish().await;
    let store = store(&scratch);
    let model = records(&store, &sessions(&store)[0], RecordStream::Model);
    // The store contains the messages of both processes, and each message only once.
    let roles = model.iter().map(|record| {
        record.parse_json::<serde_json::Value>().unwrap()["role"].as_str().unwrap_or("-").to_owned()
    });
    let mut roles: Vec<_> = roles.collect();
    roles.retain(|role| role != "context");
    let turn = ["user", "assistant", "tool_results", "assistant"];
    assert_eq!(roles, [turn, turn].concat());
}

#[tokio::test]
async fn a_mode_is_restored_unless_it_allows_more_than_the_process_was_started_with() {
    for (own, stored, expected) in
        [("ask", "auto", "ask"), ("auto", "read-only", "read-only"), ("ask", "ask", "ask")]
    {
        let scratch = Scratch::new();
        let mut agent = ready(&scratch, &Model::Direct, &["--mode", stored]).await;
        let id = agent.session_id();
        agent.turn("read notes.txt").await;
        agent.finish().await;
        let (mut agent, loaded) =
            load(&scratch, &id, &Model::Direct, &["--mode", own], Options::default()).await;
        assert_eq!(loaded.unwrap()["modes"]["currentModeId"], expected);
        let prompt = agent.prompt_in(&id, "/help").await;
        assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
        let thoughts = agent.client.session(&id).thought_text();
        assert_eq!(thoughts.contains("The mode of this session was"), stored == "auto");
        agent.finish().await;
    }
}

#[tokio::test]
async fn sessions_are_listed_page_by_page_and_by_folder_and_deleted() {
    let scratch = Scratch::new();
    let mut agent = ready(&scratch, &Model::Direct, &[]).await;
    let id = agent.session_id();
    agent.turn("read notes.txt").await;
    {
        let store = store(&scratch);
        for number in 0..101_u64 {
            let folder =
                SessionCwdPaths { cwd: "/elsewhere".into(), canonical: "/elsewhere".into() };
            let new = NewSession::new(format!("other{number}"), folder);
            let prompt = SessionRecord::new("prompt", 1, &json!({})).unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(number);
            drop(store.create(&new, &[SessionChange::Prompt(prompt)], at).unwrap());
        }
    }
    let first = agent.request("session/list", json!({})).await.unwrap();
    let listed = first["sessions"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["sessionId"]), (100, &json!(id)));
    assert_eq!(listed[0]["title"], "read notes.txt");
    assert_eq!(listed[0]["cwd"], json!(scratch.cwd()));
    assert!(listed[0]["updatedAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(listed[1]["sessionId"], "other100");
    let cursor = first["nextCursor"].clone();
    let rest = agent.request("session/list", json!({"cursor": cursor})).await.unwrap();
    assert_eq!(rest["sessions"][0]["sessionId"], "other1");
    assert_eq!((rest["sessions"].as_array().unwrap().len(), rest.get("nextCursor")), (2, None));
    let here = agent.request("session/list", json!({"cwd": scratch.cwd()})).await.unwrap();
    assert_eq!(here["sessions"].as_array().unwrap().len(), 1);
    let error = agent.request("session/list", json!({"cursor": "x"})).await.unwrap_err();
    assert_eq!(error["code"], -32602);
    agent.request("session/delete", json!({"sessionId": "other5"})).await.unwrap();
    // A session that is open on this connection is closed before it is deleted.
    agent.request("session/delete", json!({"sessionId": id})).await.unwrap();
    let here = agent.request("session/list", json!({"cwd": scratch.cwd()})).await.unwrap();
    assert_eq!(here["sessions"], json!([]));
    for (method, params) in [
        ("session/load", json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []})),
        ("session/resume", json!({"sessionId": "../x", "cwd": scratch.cwd(), "mcpServers": []})),
    ] {
        let error = agent.request(method, params).await.unwrap_err();
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32002), &json!("unknown_session"))
        );
    }
    agent.finish().await;
}

#[tokio::test]
async fn stored_sessions_are_offered_only_where_sessions_are_stored() {
    let scratch = Scratch::new();
    let mut agent = start(&scratch, &Model::Direct, &["--ephemeral"], Options::default());
    let capabilities = agent.initialize().await.unwrap()["agentCapabilities"].clone();
    assert_eq!(capabilities["loadSession"], false);
    let session = &capabilities["sessionCapabilities"];
    for name in ["list", "resume", "delete"] {
        assert!(session.get(name).is_none(), "{session}");
    }
    let error = agent.request_unchecked("session/list", json!({})).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32601), &json!("method_not_found"))
    );
    agent.finish().await;
}
