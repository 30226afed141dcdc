//! Tests of the guarantee G9: after a load, a client shows the same state as before. The tests use
//! random sessions that end at any point, and three kinds of clients: v1 with text, v1 with
//! terminals, and draft v2.
//!
//! `PROPTEST_CASES` sets the number of sessions, and `PROPTEST_RNG_SEED` sets the seed.

mod client;

use std::collections::HashSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use acp_lifecycle::{
    CallEnd, Effect, Effects, PermissionAnswer, PermissionId, PermissionSubject, PermitDecision,
    PromptDocument, Session, SessionDocument, SessionHandle, Timestamp,
};
use acp_store::{
    MemorySessionStore, NewSession, RecordStream, SessionChange, SessionCwdPaths, SessionRecord,
};
use acp_types::{
    CallEndReason, Compaction, CompactionStatus, Content, ContextUsage, FileChange, Image,
    Location, MessageChunk, Plan, PlanEntry, PlanPriority, PlanStatus, Progress, Role, SessionInfo,
    SessionStatePart, TerminalExit, TerminalId, TerminalPatch, ToolCallId, ToolCallPatch, ToolKind,
    TurnId,
};
use agent_client_protocol::v1::schema::{ContentBlock, SessionId};
use pretty_assertions::assert_eq;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::{collection::vec, sample::select};
use serde_json::json;
use tokio::time::Instant;

use super::document::DOCUMENT_VERSION;
use super::*;
use client::{ProcessEnd, TestClient, TestClientKind, expected_view_after_load};

/// A step of a session. Calls are named by small numbers, so that several steps often concern the
/// same call.
#[derive(Debug, Clone)]
enum Step {
    Announce(u8, ToolKind),
    Stream(u8, ToolKind),
    Change(u8, CallChange),
    Adopt(u8, u8),
    Progress(u8, u8),
    /// Opens a terminal. If the flag is false and the client cannot show terminals of the agent,
    /// the client runs the command in its own terminal.
    Terminal(u8, bool),
    Output(u8, &'static str),
    Exit(u8, i32),
    Start(u8),
    Pause(u8),
    Ask(u8),
    Answer(&'static str),
    Finish(u8, u8),
    Say(Role, &'static str, &'static str),
    Plan(u8),
    State(u8, u8),
    NextPrompt(&'static str),
    /// Goes back to the state before one of the prompts so far.
    Rewind(u8),
    Wait(u64),
    /// The client receives at most this number of items.
    Deliver(u8),
}

/// A change of a call's fields.
#[derive(Debug, Clone, Copy)]
enum CallChange {
    Title(&'static str),
    Text(&'static str),
    /// A text that is so long that it may be replayed as a link.
    LongText,
    Replace(&'static str),
    File,
    Image,
    Input(u8),
    Output(u8),
    LongOutput,
    Locations(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let call = || 0..4_u8;
    let kind = || select(&[ToolKind::Read, ToolKind::Execute, ToolKind::Edit, ToolKind::Fetch][..]);
    let text = || select(&["", "a", "b\n", "\u{e4} \u{4e16}", "`x`"][..]);
    let role = select(&[Role::Agent, Role::Agent, Role::Thought][..]);
    let change = prop_oneof![
        select(&["Read it", "Run it \u{e4}"][..]).prop_map(CallChange::Title),
        text().prop_map(CallChange::Text),
        text().prop_map(CallChange::Replace),
        select(&[CallChange::File, CallChange::Image, CallChange::LongText][..]),
        select(&[CallChange::LongOutput][..]),
        any::<u8>().prop_map(CallChange::Input),
        any::<u8>().prop_map(CallChange::Output),
        (0..3_u8).prop_map(CallChange::Locations),
    ];
    prop_oneof![
        4 => (call(), kind()).prop_map(|(call, kind)| Step::Announce(call, kind)),
        2 => (call(), kind()).prop_map(|(call, kind)| Step::Stream(call, kind)),
        8 => (call(), change).prop_map(|(call, change)| Step::Change(call, change)),
        1 => (call(), call()).prop_map(|(parent, call)| Step::Adopt(parent, call)),
        1 => (call(), 0..9_u8).prop_map(|(call, done)| Step::Progress(call, done)),
        2 => (call(), any::<bool>()).prop_map(|(call, ours)| Step::Terminal(call, ours)),
        4 => (call(), text()).prop_map(|(call, text)| Step::Output(call, text)),
        1 => (call(), 0..2_i32).prop_map(|(call, code)| Step::Exit(call, code)),
        4 => call().prop_map(Step::Start),
        1 => call().prop_map(Step::Pause),
        2 => call().prop_map(Step::Ask),
        2 => select(&["allow", "allow_always", "reject", "none"][..]).prop_map(Step::Answer),
        3 => (call(), 0..4_u8).prop_map(|(call, end)| Step::Finish(call, end)),
        5 => (role, select(&["m", "n"][..]), text())
            .prop_map(|(role, message, text)| Step::Say(role, message, text)),
        1 => (0..3_u8).prop_map(Step::Plan),
        2 => (0..5_u8, any::<u8>()).prop_map(|(part, value)| Step::State(part, value)),
        2 => select(&["go", "and now?"][..]).prop_map(Step::NextPrompt),
        1 => any::<u8>().prop_map(Step::Rewind),
        3 => select(&[10, 60, 300, 1100][..]).prop_map(Step::Wait),
        6 => (0..6_u8).prop_map(Step::Deliver),
    ]
}

/// The store of all cases of this process, and the number of sessions so far.
static STORE: LazyLock<(MemorySessionStore, OpenedStore)> = LazyLock::new(|| {
    let store = MemorySessionStore::new();
    let shared: Arc<dyn SessionStore> = Arc::new(store.clone());
    let writer = StoreWriter::start(shared.clone()).unwrap();
    (store, OpenedStore { store: shared, writer })
});
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A live session with its client and its recording.
struct Live {
    handle: SessionHandle,
    recording: Arc<SessionRecording>,
    client: TestClient,
    id: SessionId,
    protocol: TestClientKind,
    turn: u32,
    /// Number of remaining prompts.
    prompts: u32,
    /// The terminals that were opened. A tool opens at most one terminal per call.
    opened: HashSet<TerminalId>,
    asked: Option<PermissionId>,
}

impl Live {
    fn new(protocol: TestClientKind) -> Self {
        let (store, opened) = &*STORE;
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
        let new = NewSession::new(SessionId::new(format!("s{number}")), folder);
        let prompt = SessionDocument::Prompt(PromptDocument::new("p", vec!["first".into()]));
        let prompt = SessionRecord::new("prompt", DOCUMENT_VERSION, &prompt).unwrap();
        let first = [SessionChange::Prompt(prompt)];
        let open = store.create(&new, &first, std::time::SystemTime::UNIX_EPOCH).unwrap();
        let settings = StoredSettings::default();
        let recording = SessionRecording::resume(
            opened,
            open,
            (settings, 1),
            None,
            crate::LiveSecrets::from_env([]),
        );
        let mut session = Session::new("/p");
        session.set_shows_terminals(protocol == TestClientKind::V1Terminals);
        let mut client = TestClient::new(protocol);
        client.type_prompt("first");
        let handle = SessionHandle::new(session, std::time::SystemTime::now);
        Self {
            handle,
            recording,
            client,
            id: new.id,
            protocol,
            turn: 1,
            prompts: 1,
            opened: HashSet::new(),
            asked: None,
        }
    }

    fn update_session<T>(&self, change: impl FnOnce(&mut Session, Timestamp) -> T) -> T {
        self.handle.update(|session, _| change(session, now()))
    }

    fn call_id(&self, number: u8) -> ToolCallId {
        format!("t{}/{number}", self.turn).into()
    }

    fn turn_id(&self) -> TurnId {
        format!("t{}", self.turn).into()
    }

    fn apply_step(&mut self, step: &Step) {
        match *step {
            Step::Announce(call, kind) => self.announce(call, kind, Session::announce_call),
            Step::Stream(call, kind) => self.announce(call, kind, Session::announce_streamed_call),
            Step::Change(call, change) => {
                let (id, patch) = (self.call_id(call), change.to_patch());
                self.update_session(|session, now| session.update_call(&id, patch, now));
            }
            Step::Adopt(parent, call) => {
                let (parent, id) = (self.call_id(parent), self.call_id(call));
                self.update_session(|session, now| {
                    let adopt =
                        |meta: &mut acp_types::CallMeta| meta.parent = Some(parent.to_string());
                    session.update_call_meta(&id, adopt, now);
                });
            }
            Step::Progress(call, done) => {
                let (id, progress) =
                    (self.call_id(call), Progress::new(done.into()).with_total(9.0));
                self.update_session(|session, now| session.report_progress(&id, progress, now));
            }
            Step::Terminal(call, is_ours) => self.open_terminal(call, is_ours),
            Step::Output(call, text) => {
                let id = terminal_id(&self.call_id(call));
                self.update_session(|it, now| it.append_terminal_output(&id, text.as_bytes(), now));
            }
            Step::Exit(call, code) => {
                let id = terminal_id(&self.call_id(call));
                let exit = TerminalExit { code: Some(code), signal: None };
                self.update_session(|session, now| session.exit_terminal(&id, exit, now));
            }
            Step::Start(call) => {
                let id = self.call_id(call);
                self.update_session(|session, now| session.start_call(&id, now));
            }
            Step::Pause(call) => {
                let id = self.call_id(call);
                self.update_session(|session, now| session.pause_call(&id, now));
            }
            Step::Ask(call) => self.ask(call),
            Step::Answer(option) => self.answer(option),
            Step::Finish(call, end) => {
                let (id, end) = (self.call_id(call), call_end(end));
                self.update_session(|session, now| session.finish_call(&id, end, now));
            }
            Step::Say(role, message, text) => {
                let chunk = MessageChunk::new(role, message, text);
                self.update_session(|session, now| session.send_message_chunk(chunk, now));
            }
            Step::Plan(steps) => {
                let plan = plan_with_steps(steps);
                self.update_session(|session, now| session.send_plan(plan, now));
            }
            Step::State(part, value) => {
                let state = create_state_part(part, value);
                self.update_session(|session, now| session.send_state_part(state, now));
            }
            Step::NextPrompt(text) => self.end_turn_and_send_prompt(text),
            Step::Rewind(number) => self.rewind(number.into()),
            Step::Wait(millis) => RUNTIME.with(|runtime| {
                runtime.block_on(tokio::time::advance(Duration::from_millis(millis)));
            }),
            Step::Deliver(items) => self.deliver(items.into()),
        }
    }

    fn announce(
        &self,
        call: u8,
        kind: ToolKind,
        announce: fn(&mut Session, &ToolCallId, &TurnId, ToolCallPatch, Timestamp) -> bool,
    ) {
        let (id, turn) = (self.call_id(call), self.turn_id());
        let patch = ToolCallPatch::for_new_call("tool", "Title", kind);
        self.update_session(|session, now| announce(session, &id, &turn, patch, now));
    }

    /// Opens the terminal of a call. If `is_beneath_writable_folder` is false and the client cannot
    /// show terminals of the agent, the client runs the command. Only such clients are asked to run
    /// commands.
    fn open_terminal(&mut self, call: u8, is_ours: bool) {
        let id = self.call_id(call);
        let terminal = terminal_id(&id);
        let is_open =
            self.update_session(|session, _| session.board().open_call_report(&id).is_some());
        if !is_open || !self.opened.insert(terminal.clone()) {
            return;
        }
        let is_in_client = !is_ours && self.protocol == TestClientKind::V1Text;
        self.update_session(|session, now| {
            session.announce_terminal(
                &terminal,
                TerminalPatch::for_new_terminal("make", "/p"),
                now,
            );
            let shown = ToolCallPatch::new().with_appended_content(terminal.clone().into());
            session.update_call(&id, shown, now);
            if is_in_client {
                let theirs = TerminalPatch::for_client_terminal(format!("client-{id}").into());
                session.update_terminal(&terminal, theirs, now);
            }
        });
    }

    fn ask(&mut self, call: u8) {
        let id = self.call_id(call);
        let effects = Effects::from(Effect::Write(format!("/p/{}", call % 2).into()));
        let subject =
            PermissionSubject::for_call("tool", &json!({}), "/p".as_ref(), id.0.as_bytes());
        let decision = self.update_session(|session, now| {
            session.decide_or_ask_permission(&id, &effects, subject, true, now)
        });
        if let PermitDecision::AwaitingAnswer(number) = decision {
            self.asked = Some(number);
        }
    }

    fn answer(&mut self, option: &str) {
        if let Some(number) = self.asked.take() {
            let answer = match option {
                "none" => PermissionAnswer::Cancelled,
                option => PermissionAnswer::Selected { option_id: option.into(), reason: None },
            };
            drop(self.update_session(|session, _| session.answer_permission(number, answer)));
        }
    }

    /// Ends the turn and delivers its response, and then sends the next prompt.
    fn end_turn_and_send_prompt(&mut self, text: &str) {
        let turn = self.turn_id();
        self.update_session(|session, now| session.end_turn(&turn, CallEndReason::Turn, now));
        self.update_session(|session, now| session.make_all_items_due(now.monotonic));
        self.deliver(usize::MAX);
        self.turn += 1;
        self.prompts += 1;
        self.client.type_prompt(text);
        let blocks = [ContentBlock::from(text)];
        self.recording.record_prompt(&self.turn_id(), &blocks, &self.handle);
    }

    /// Sends the prompt `/rewind`, which goes back to an earlier prompt. The new prompt itself is
    /// kept.
    fn rewind(&mut self, number: u32) {
        let keep = number % (self.prompts + 1);
        self.end_turn_and_send_prompt("/rewind");
        // Use a runtime with a running clock, because the paused clock of the test would not wait
        // for the thread of the writer.
        WRITER_RUNTIME.with(|runtime| runtime.block_on(self.recording.rewind(keep, true))).unwrap();
        self.prompts = keep + 1;
        self.client.rewind(keep as usize, "/rewind");
    }

    /// Records and delivers items, as the driver does.
    fn deliver(&mut self, most: usize) {
        for _ in 0..most {
            let Some(item) = self.update_session(|session, now| session.poll(now.monotonic)) else {
                return;
            };
            let recorded = self.recording.record_item(&item);
            WRITER_RUNTIME.with(|runtime| runtime.block_on(recorded));
            self.client.receive(&item);
        }
    }

    /// Simulates the end of the process. After a kill, nothing more is recorded, and the kill comes
    /// so late that all recorded changes were sent to the store. Returns the client
    /// with its last view, and a new client that has loaded the session with this budget.
    fn reload(self, cut: ProcessEnd, budget: u64) -> (TestClient, TestClient) {
        let Self { recording, client, id, protocol, .. } = self;
        if cut == ProcessEnd::End {
            recording.record_open_documents();
        }
        drop(recording);
        let (store, opened) = &*STORE;
        opened.writer.wait_for_queued_writes().wait_blocking().unwrap();
        let mut loaded = TestClient::new(protocol);
        let mut session = Session::new("/p");
        session.set_shows_terminals(protocol == TestClientKind::V1Terminals);
        let mut load = store.begin_load(&id, RecordStream::Client, budget).unwrap();
        loop {
            let page = store.load_next_records(&mut load).unwrap();
            if page.is_empty() {
                break;
            }
            assert_eq!(replay_page(&mut session, &page, now()), 0);
            while let Some(item) = session.poll(now().monotonic) {
                loaded.receive(&item);
            }
        }
        store.delete(&id).unwrap();
        (client, loaded)
    }
}

impl CallChange {
    fn to_patch(self) -> ToolCallPatch {
        let patch = ToolCallPatch::new();
        match self {
            Self::Title(title) => patch.with_title(title),
            Self::Text(text) => patch.with_appended_content(Content::from_text(text)),
            Self::LongText => patch.with_appended_content(Content::from_text("x".repeat(2000))),
            Self::Replace(text) => patch.with_content(vec![Content::from_text(text)]),
            Self::File => {
                let change = FileChange::modify("/p/a", "one\ntwo\n", "one\nthree\n");
                patch.with_appended_content(change.into())
            }
            Self::Image => patch.with_appended_content(Image::new("image/png", "AA==").into()),
            Self::Input(value) => patch.with_raw_input(json!({ "value": value })),
            Self::Output(value) => patch.with_raw_output(json!({ "value": value })),
            Self::LongOutput => patch.with_raw_output(json!("y".repeat(2000))),
            Self::Locations(count) => {
                let location = |line| Location::try_new("/p/a").unwrap().with_line(line);
                patch.with_locations((1..=count.into()).map(location).collect())
            }
        }
    }
}

fn terminal_id(call: &ToolCallId) -> TerminalId {
    TerminalId::new(call.0.clone())
}

fn call_end(number: u8) -> CallEnd {
    match number {
        0 => CallEnd::completed().with_patch(CallChange::Text("done").to_patch()),
        1 => CallEnd::completed(),
        2 => CallEnd::failed(CallEndReason::Error),
        _ => CallEnd::cancelled(CallEndReason::User),
    }
}

fn plan_with_steps(steps: u8) -> Plan {
    let (priority, status) = (PlanPriority::Medium, PlanStatus::InProgress);
    let entry = PlanEntry::new("step", priority, status);
    Plan::new(vec![entry; steps.into()])
}

fn create_state_part(part: u8, value: u8) -> SessionStatePart {
    let compaction = |status| {
        let summary = vec![format!("{status:?} {value}")];
        SessionStatePart::Compaction(Compaction::new("c", status, summary))
    };
    match part {
        0 => SessionStatePart::Usage(ContextUsage::new(value.into(), 1000)),
        1 => SessionStatePart::Info(SessionInfo::new().with_title(format!("Title {value}"))),
        2 => compaction(CompactionStatus::InProgress),
        3 => compaction(CompactionStatus::Completed),
        _ => SessionStatePart::Mode("ask".to_owned()),
    }
}

fn now() -> Timestamp {
    let wall = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Timestamp { monotonic: Instant::now().into_std(), wall }
}

thread_local! {
    /// The runtime of a test. Only a step advances the clock of this runtime.
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    /// A runtime whose clock is not paused.
    static WRITER_RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
}

fn check(protocol: TestClientKind, steps: &[Step], cut: ProcessEnd, budget: u64) {
    let handle = RUNTIME.with(|runtime| runtime.handle().clone());
    let _entered = handle.enter();
    let mut live = Live::new(protocol);
    steps.iter().for_each(|step| live.apply_step(step));
    let (live, loaded) = live.reload(cut, budget);
    assert_eq!(loaded.violations(), "");
    let open = live.open_calls();
    let (mut before, mut after) = (expected_view_after_load(live, budget), loaded.into_view());
    if cut == ProcessEnd::Kill {
        after.remove_allowed_kill_differences(&mut before, &open);
    }
    assert_eq!(after, before);
}

/// Checks the same session with the client of each protocol.
fn check_each_protocol(steps: &[Step], cut: ProcessEnd, budget: u64) {
    for protocol in [TestClientKind::V1Text, TestClientKind::V1Terminals, TestClientKind::V2] {
        check(protocol, steps, cut, budget);
    }
}

proptest! {
    #[test]
    fn a_load_shows_what_the_client_held(steps in vec(step(), 0..60)) {
        check_each_protocol(&steps, ProcessEnd::End, crate::limits::REPLAY_BYTES);
    }

    #[test]
    fn a_load_over_its_budget_has_links_and_is_the_same_otherwise(steps in vec(step(), 0..60)) {
        check_each_protocol(&steps, ProcessEnd::End, 0);
    }

    #[test]
    fn a_load_after_a_kill_lacks_only_the_end_of_what_was_open(steps in vec(step(), 0..60)) {
        check_each_protocol(&steps, ProcessEnd::Kill, crate::limits::REPLAY_BYTES);
    }
}
