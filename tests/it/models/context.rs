//! Context that the model receives in addition to the prompts, and the compaction of a full
//! session.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use acp_types::schema::v1::SessionUpdate;
use callboard_models::mock_server::{
    Dialect, MockReply, MockReplyStep, MockResponse, MockToolCall, ModelServer, RecordedRequest,
};
use serde_json::{Value, json};

use crate::harness::{Agent, Options};
use crate::models::case::{final_answer, ready, start_for, strings};

/// Returns all texts in a request for a reply. Requests are counted from 0.
fn request_text(server: &ModelServer, request: usize) -> String {
    strings(&server.reply_requests()[request].body_json()).join("\n")
}

fn read(path: &str) -> MockResponse {
    MockReply::new()
        .with_call(MockToolCall::new("read_file", &json!({"path": path})).with_id(None))
        .into()
}

#[tokio::test]
async fn the_model_receives_our_instructions_and_those_of_the_project() {
    for dialect in Dialect::ALL {
        let answers = [read("notes.txt"), read("src/lib.rs"), final_answer(), final_answer()];
        let server = ModelServer::start(answers).await.unwrap();
        let mut agent = ready(&server, dialect).await;
        fs::write(agent.scratch.path("AGENTS.md"), "Use tabs.").unwrap();
        fs::write(agent.scratch.path("src/AGENTS.md"), "In src, spaces.").unwrap();
        assert_eq!(agent.turn("please go").await, "end_turn");
        fs::write(agent.scratch.path("AGENTS.md"), "Use spaces.").unwrap();
        assert_eq!(agent.turn("again").await, "end_turn");
        agent.finish().await;
        // The instructions of the root folder are sent with the first request. The instructions of
        // another folder are sent when a file in that folder is used. Instructions are sent again
        // only if they have changed.
        for (request, root, src, changed) in
            [(0, 1, 0, 0), (1, 1, 0, 0), (2, 1, 1, 0), (3, 1, 1, 1)]
        {
            let sent = request_text(&server, request);
            let times = ["Use tabs.", "In src, spaces.", "Use spaces."]
                .map(|text| sent.matches(text).count());
            assert_eq!(times, [root, src, changed], "{dialect:?} {request}: {sent}");
            assert_eq!(sent.matches("You are Callboard, a coding agent").count(), 1);
            assert!(sent.contains("The user is shown each change"), "{dialect:?}: the mode");
        }
        let bodies: Vec<_> =
            server.reply_requests().iter().map(|asked| asked.body.to_vec()).collect();
        assert!(bodies.iter().all(|body| !body.is_empty()));
    }
}

#[tokio::test]
async fn the_model_receives_the_description_of_the_current_mode() {
    let server = ModelServer::start([final_answer(), final_answer()]).await.unwrap();
    let mut agent = ready(&server, Dialect::Anthropic).await;
    agent.turn("go").await;
    agent.turn("/mode read-only").await;
    agent.turn("go").await;
    agent.finish().await;
    assert!(request_text(&server, 1).contains("Only reading inside the roots is possible"));
    assert!(!request_text(&server, 1).contains("The user is shown each change"));
}

#[tokio::test]
async fn the_model_is_informed_of_changed_files() {
    let edit = json!({"path": "src/lib.rs", "old_text": "Nothing", "new_text": "Something"});
    let run = json!({"command": "echo four >> notes.txt"});
    let answers = [
        read("notes.txt"),
        MockReply::new().with_call(MockToolCall::new("edit_file", &edit)).into(),
        read("README.md"),
        MockReply::new().with_call(MockToolCall::new("terminal", &run)).into(),
        final_answer(),
        final_answer(),
        final_answer(),
    ];
    let server = ModelServer::start(answers).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    agent.turn("go").await;
    fs::write(agent.scratch.path("README.md"), "# Changed\n").unwrap();
    fs::remove_file(agent.scratch.path("src/lib.rs")).unwrap();
    agent.turn("and now?").await;
    agent.turn("and now?").await;
    agent.finish().await;
    let changed = "were changed by the user, another program or a command";
    let times = |request| request_text(&server, request).matches(changed).count();
    // Edits by the agent are not reported to the model. Each change by a command or another program
    // is reported once.
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(times), [0, 0, 0, 0, 1, 2, 2]);
    assert!(request_text(&server, 4).contains("rely on them:\n- notes.txt"));
    let last = request_text(&server, 6);
    assert!(last.contains("rely on them:\n- README.md"), "{last}");
    assert!(last.contains("are gone:\n- src/lib.rs"), "{last}");
}

#[tokio::test]
async fn the_model_receives_linked_files() {
    let server = ModelServer::start([final_answer(), final_answer()]).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    fs::write(agent.scratch.path("src/AGENTS.md"), "In src, spaces.").unwrap();
    let file = agent.scratch.path("src/lib.rs");
    let prompt = json!([
        {"type": "resource_link", "name": "lib", "uri": format!("file://{}", file.display())},
        {"type": "resource_link", "name": "page", "uri": "https://example.org/page"},
    ]);
    let params = json!({"sessionId": agent.session_id(), "prompt": prompt});
    let answer = agent.request("session/prompt", params).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    let first = request_text(&server, 0);
    let text = fs::read_to_string(&file).unwrap();
    // The instructions in the folder of a linked file are sent at once, as if a tool had read the
    // file.
    for part in ["In src, spaces.", "Files that the prompt links to:", text.lines().next().unwrap()]
    {
        assert!(first.contains(part), "{part}: {first}");
    }
    let page = "[page](https://example.org/page)\n[it is only named; what is there was not read]";
    assert!(first.contains(page), "{first}");

    fs::write(&file, "changed").unwrap();
    assert_eq!(agent.turn("and now?").await, "end_turn");
    agent.finish().await;
    let second = request_text(&server, 1);
    assert!(second.contains("rely on them:\n- src/lib.rs"), "{second}");
}

/// Writes a file. One read of the file fills about half of the context window that the agent
/// assumes.
fn write_big_file(agent: &Agent) {
    let text = (0..4_000).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line:05} {}", "x".repeat(100));
        text
    });
    fs::write(agent.scratch.path("big.txt"), text).unwrap();
}

/// Returns the number of reads of this file that fill a session. Ollama needs fewer, because its
/// default context window is small.
fn reads_that_fill(dialect: Dialect) -> usize {
    if dialect == Dialect::Ollama { 1 } else { 2 }
}

/// Returns the answers of a model that fills the session: a long text with a plan, the reads, the
/// summary, and the end of the turn. The text is longer than a summary for the smallest window.
fn filling_answers(dialect: Dialect, summary: impl Into<MockResponse>) -> Vec<MockResponse> {
    let todo = json!({"todos": [{"content": "Mend the roof", "status": "in_progress"}]});
    let plan = MockReply::new()
        .with_text(&"The roof is old. ".repeat(600))
        .with_call(MockToolCall::new("todo_write", &todo));
    let mut answers = vec![plan.into()];
    answers.extend((0..reads_that_fill(dialect)).map(|_| read("big.txt")));
    answers.extend([summary.into(), final_answer()]);
    answers
}

async fn open(server: &ModelServer, dialect: Dialect, capabilities: Value) -> Agent {
    let options = Options::default().with_capabilities(capabilities);
    let mut agent = start_for(server, dialect, &[], options);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    write_big_file(&agent);
    fs::write(agent.scratch.path("AGENTS.md"), "Use tabs.").unwrap();
    agent
}

pub(crate) fn updates(agent: &Agent, kind: &str) -> Vec<Value> {
    let updates = agent.session().updates.iter().map(serde_json::to_value);
    updates.map(Result::unwrap).filter(|update| update["sessionUpdate"] == kind).collect()
}

#[tokio::test]
async fn a_full_session_continues_with_a_summary() {
    for dialect in Dialect::ALL {
        let summary = MockReply::new().with_text("The roof leaks at the north.");
        let server = ModelServer::start(filling_answers(dialect, summary)).await.unwrap();
        let mut agent = open(&server, dialect, json!({"session": {"compaction": {}}})).await;
        assert_eq!(agent.turn("please mend the roof").await, "end_turn");
        let compactions = updates(&agent, "compaction_update");
        let last = compactions.last().unwrap();
        assert_eq!(last["status"], "completed", "{dialect:?}");
        assert_eq!(
            last["summary"][1]["text"], "The roof leaks at the north.",
            "{dialect:?}: {last}"
        );
        assert_eq!(updates(&agent, "agent_thought_chunk"), Vec::<Value>::new());
        agent.finish().await;
        let summary = 1 + reads_that_fill(dialect);
        let asked = request_text(&server, summary);
        assert!(asked.contains("You write down the state"), "{dialect:?}: {asked}");
        assert!(!asked.contains("Use tabs.") && asked.contains("USER: please mend the roof"));
        // After the compaction, the request still contains the summary, the plan, the project's
        // instructions, and the whole prompt.
        let after = request_text(&server, summary + 1);
        for text in [
            "The roof leaks at the north.",
            "[in_progress] Mend the roof",
            "Use tabs.",
            "\nplease mend the roof",
        ] {
            assert!(after.contains(text), "{dialect:?}: {text}");
        }
        assert!(after.len() < 350_000, "{dialect:?}: {}", after.len());
    }
}

#[tokio::test]
async fn a_client_without_compactions_receives_a_text_about_them() {
    for (capabilities, kind) in
        [(json!({}), "agent_thought_chunk"), (json!({"session": {"notices": {}}}), "notice")]
    {
        let server = ModelServer::start(filling_answers(
            Dialect::OpenAiChat,
            MockReply::new().with_text("So far."),
        ))
        .await
        .unwrap();
        let mut agent = open(&server, Dialect::OpenAiChat, capabilities).await;
        assert_eq!(agent.turn("go").await, "end_turn");
        let texts = updates(&agent, kind);
        let texts = texts.last().unwrap().to_string();
        assert!(texts.contains("Older messages were replaced by a summary"), "{texts}");
        assert!(updates(&agent, "compaction_update").is_empty());
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_full_session_continues_without_a_summary_if_the_summary_fails() {
    let server =
        ModelServer::start(filling_answers(Dialect::Anthropic, MockResponse::error(400, "no")))
            .await
            .unwrap();
    let mut agent = open(&server, Dialect::Anthropic, json!({})).await;
    assert_eq!(agent.turn("please mend the roof").await, "end_turn");
    let thought = updates(&agent, "agent_thought_chunk").pop().unwrap().to_string();
    assert!(thought.contains("left out without a summary"), "{thought}");
    agent.finish().await;
}

#[tokio::test]
async fn a_request_that_is_too_long_for_the_provider_is_repeated_with_a_shorter_session() {
    let too_long = "This model's maximum context length is 8192 tokens, however you requested more";
    let answers = [
        MockReply::new().with_text(&"Long ago. ".repeat(5_000)).into(),
        MockResponse::error(400, too_long),
        MockReply::new().with_text("It was long ago.").into(),
        final_answer(),
    ];
    let server = ModelServer::start(answers).await.unwrap();
    let mut agent = ready(&server, Dialect::OpenAiChat).await;
    assert_eq!(agent.turn("tell me").await, "end_turn");
    assert_eq!(agent.turn("and now?").await, "end_turn");
    assert!(agent.session().message_text().ends_with("Done."));
    agent.finish().await;
    let [refused, after] = [1, 3].map(|request| request_text(&server, request));
    assert!(after.contains("It was long ago.") && after.contains("and now?"));
    assert!(after.len() < refused.len() / 2, "{} {}", after.len(), refused.len());
}

#[tokio::test]
async fn a_cancel_ends_the_wait_for_a_summary() {
    let hangs = MockReply::new().with_text("The roof").with_step(MockReplyStep::Hang);
    let server = ModelServer::start(filling_answers(Dialect::OpenAiChat, hangs)).await.unwrap();
    let mut agent =
        open(&server, Dialect::OpenAiChat, json!({"session": {"compaction": {}}})).await;
    let prompt = agent.prompt("go").await;
    let replies =
        |asked: &[RecordedRequest]| asked.iter().filter(|asked| asked.dialect.is_some()).count();
    assert!(server.wait_until_requests_match(|asked| replies(asked) == 4).await);
    let cancelled = Instant::now();
    agent.cancel().await;
    assert_eq!(agent.answer(&prompt).await.unwrap()["stopReason"], "cancelled");
    assert!(cancelled.elapsed() < Duration::from_secs(10), "{:?}", cancelled.elapsed());
    let last = agent.session().updates.iter().rev().find_map(|update| match update {
        SessionUpdate::CompactionUpdate(update) => Some(serde_json::to_value(update).unwrap()),
        _ => None,
    });
    assert_eq!(last.unwrap()["status"], "cancelled");
    agent.finish().await;
}
