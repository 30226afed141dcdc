//! Tests of the title and the subtitle of a running call, with random lifecycles and in single
//! cases.

#![expect(clippy::expect_used, reason = "a test may fail by a panic")]
#![expect(clippy::disallowed_methods, reason = "a test reads the clock that the crate may not")]

use std::time::{Duration, Instant, SystemTime};

use acp_lifecycle::title::SUBTITLE_SEPARATOR;
use acp_lifecycle::{
    CallEnd, Effect, Effects, OutboxItem, PermissionAnswer, PermissionId, PermissionSubject,
    PermitDecision, Session, Timestamp,
};
use acp_types::wire::v1::{TerminalDisplay, V1Projection, WireUpdate};
use acp_types::{CallEndReason, Progress, ToolCallId, ToolCallPatch, ToolKind};
use callboard_text::escape_invisible;
use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};
use serde_json::json;

/// Maximum size in bytes of a command in a title.
const MAX_TITLE_COMMAND_BYTES: usize = 4 * 1024;

/// Maximum size of a title in bytes.
const MAX_TITLE_BYTES: usize = 12 * 1024;

/// Maximum size of a subtitle in bytes.
const MAX_SUBTITLE_BYTES: usize = 160;

/// Maximum size in bytes of a progress message in a document.
const MAX_PROGRESS_MESSAGE_BYTES: usize = 1024;

/// One call of a session, and the titles that a client received for it.
struct Life {
    session: Session,
    now: Timestamp,
    sent: V1Projection,
    updates: Vec<WireUpdate>,
    /// The titles in permission requests.
    asked: Vec<String>,
    request: Option<PermissionId>,
}

impl Life {
    fn new(base: &str) -> Self {
        let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
        let mut session = Session::new("/p");
        let patch = ToolCallPatch::for_new_call("tool", base, ToolKind::Other);
        assert!(session.announce_call(&call(), &"t".into(), patch, now), "nothing has this id");
        let sent = V1Projection::new(TerminalDisplay::Text);
        Self { session, now, sent, updates: Vec::new(), asked: Vec::new(), request: None }
    }

    fn title(&self) -> String {
        let open = self.session.board().open_call_report(&call());
        let report = open.or_else(|| self.session.board().history().get(&call()));
        report.expect("the call is known").title.clone()
    }

    fn progress(&mut self, current: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(str::to_owned);
        let progress = Progress::new(current).with_total(total).with_message(message);
        self.session.report_progress(&call(), progress, self.now);
    }

    fn ask(&mut self) {
        let subject = PermissionSubject::for_call("tool", &json!({}), "/p".as_ref(), b"");
        let effects = Effects::from(Effect::Unknown);
        match self.session.decide_or_ask_permission(&call(), &effects, subject, true, self.now) {
            PermitDecision::AwaitingAnswer(number) => self.request = Some(number),
            permit => {
                assert!(self.session.board().open_call_report(&call()).is_none(), "{permit:?}");
            }
        }
    }

    fn answer(&mut self) {
        if let Some(number) = self.request.take() {
            let answer = PermissionAnswer::Selected { option_id: "allow".to_owned(), reason: None };
            self.session.answer_permission(number, answer);
        }
    }

    /// Advances the time by one second, then sends everything that is due.
    fn send(&mut self) {
        self.now.monotonic += Duration::from_secs(1);
        while let Some(item) = self.session.poll(self.now.monotonic) {
            match item {
                OutboxItem::ToolCall(id, patch) => {
                    self.updates.extend(self.sent.updates_for_call_patch(&id, &patch));
                }
                OutboxItem::PermissionRequest(number) => {
                    let options = self
                        .session
                        .pending_permission_request(number)
                        .expect("it waits")
                        .options
                        .clone();
                    let request =
                        self.sent.permission_request_for_call("s".into(), &call(), options);
                    let fields = request.expect("the call was sent").tool_call.fields;
                    self.asked.push(fields.title.expect("a request has a title"));
                }
                _ => {}
            }
        }
    }
}

fn call() -> ToolCallId {
    "c".into()
}

#[test]
fn progress_follows_the_title_until_the_end() {
    let mut life = Life::new("Run `make`");
    life.session.start_call(&call(), life.now);
    life.progress(3.0, Some(10.0), Some("compiling…"));
    assert_eq!(life.title(), "Run `make` · 3/10 compiling…");
    life.progress(40.0, Some(100.0), None);
    assert_eq!(life.title(), "Run `make` · 40 %");
    life.session.update_call(&call(), ToolCallPatch::new().with_title("Run `make all`"), life.now);
    assert_eq!(life.title(), "Run `make all` · 40 %");
    life.session.set_subtitle(&call(), Some("\u{1b}[1mlinking\n  now"), life.now);
    assert_eq!(life.title(), "Run `make all` · \\u{1b}[1mlinking now");
    life.session.set_subtitle(&call(), None, life.now);
    assert_eq!(life.title(), "Run `make all`");
    life.progress(50.0, Some(100.0), None);
    life.session.finish_call(&call(), CallEnd::completed(), life.now);
    assert_eq!(life.title(), "Run `make all`");
    life.progress(60.0, Some(100.0), None);
    life.session.set_subtitle(&call(), Some("late"), life.now);
    assert_eq!(life.title(), "Run `make all`");
    assert_eq!(life.session.board().rejected_change_counters().late_changes, 2);
}

#[test]
fn a_title_in_the_end_of_a_call_is_the_final_title() {
    let mut life = Life::new("Fetch x");
    life.session.start_call(&call(), life.now);
    life.progress(1.0, None, None);
    let end = CallEnd::completed().with_patch(ToolCallPatch::new().with_title("Fetched x"));
    life.session.finish_call(&call(), end, life.now);
    assert_eq!(life.title(), "Fetched x");
}

#[test]
fn progress_metadata_has_the_numbers_and_a_limited_message() {
    let mut life = Life::new("Work");
    life.session.start_call(&call(), life.now);
    life.send();
    life.updates.clear();
    life.progress(0.25, Some(1.0), Some("one\ntwo"));
    life.send();
    let update = serde_json::to_value(&life.updates).unwrap();
    let fields = &update[0];
    assert_eq!(update.as_array().map(Vec::len), Some(1), "title and numbers go together");
    assert_eq!(fields["title"], "Work · 25 % one two");
    let progress = &fields["_meta"]["callboard"]["progress"];
    let expected = json!({ "current": 0.25, "total": 1.0, "percent": 25, "message": "one\ntwo" });
    assert_eq!(*progress, expected);
    life.progress(1.0, None, Some(&"é".repeat(1_000_000)));
    let report = life.session.board().open_call_report(&call()).unwrap();
    let message = report.meta.progress.clone().unwrap().message.unwrap();
    assert_eq!(message.len(), MAX_PROGRESS_MESSAGE_BYTES);
    assert!(report.title.len() <= "Work".len() + SUBTITLE_SEPARATOR.len() + MAX_SUBTITLE_BYTES);
}

#[test]
fn a_permission_request_shows_no_progress() {
    let mut life = Life::new("Write x");
    life.session.set_subtitle(&call(), Some("12 KiB"), life.now);
    life.send();
    assert_eq!(life.title(), "Write x · 12 KiB");
    life.ask();
    life.session.set_subtitle(&call(), Some("more"), life.now);
    life.progress(1.0, Some(2.0), None);
    life.send();
    assert_eq!((life.title(), life.asked.clone()), ("Write x".to_owned(), vec!["Write x".into()]));
    life.answer();
    life.progress(1.0, Some(2.0), None);
    assert_eq!(life.title(), "Write x · 1/2");
    let long = format!("Run `{}`", "x".repeat(MAX_TITLE_COMMAND_BYTES));
    let mut life = Life::new(&long);
    life.ask();
    life.send();
    assert_eq!(life.asked, [long]);
}

#[test]
fn titles_names_and_options_hide_no_characters() {
    let hostile = "a\u{202e}b\u{1b}[8m\u{200b}\u{e0041}\nc";
    let shown = escape_invisible(hostile);
    let mut life = Life::new(hostile);
    assert_eq!(life.title(), shown);
    life.session.update_call(
        &call(),
        ToolCallPatch::new().with_title(format!("2{hostile}")),
        life.now,
    );
    assert_eq!(life.title(), format!("2{shown}"));
    let (foreign, now) = ("f".into(), life.now);
    let mut patch = ToolCallPatch::new();
    patch.name = Some(hostile.to_owned());
    life.session.announce_call(&foreign, &"t".into(), patch, now);
    let report = life.session.board().open_call_report(&foreign).unwrap();
    assert_eq!((&report.title, &report.name), (&shown, &shown));
    let long = ToolCallPatch::new().with_title("\u{202e}".repeat(MAX_TITLE_BYTES));
    life.session.update_call(&call(), long, now);
    assert!(life.title().len() <= MAX_TITLE_BYTES && life.title().ends_with("}…"));
    for effect in [
        Effect::Connect(hostile.to_owned()),
        Effect::Mcp {
            server: hostile.to_owned(),
            tool: hostile.to_owned(),
            definition: String::new(),
        },
        Effect::Run { command: hostile.to_owned(), cwd: format!("/p/{hostile}").into() },
        Effect::Write(format!("/p/{hostile}").into()),
        Effect::Delete(format!("/{hostile}").into()),
    ] {
        let subject = PermissionSubject::for_call("tool", &json!({}), "/p".as_ref(), b"");
        let effects = Effects::from(effect);
        let permit = life.session.decide_or_ask_permission(&call(), &effects, subject, true, now);
        let PermitDecision::AwaitingAnswer(number) = permit else { panic!("{permit:?}") };
        for option in &life.session.pending_permission_request(number).unwrap().options {
            assert_eq!(option.name, escape_invisible(&option.name));
        }
    }
}

/// One event in the lifecycle of the call.
#[derive(Debug, Clone)]
enum Event {
    Title(String),
    Subtitle(Option<String>),
    Progress(f64, Option<f64>, Option<String>),
    Start,
    Ask,
    Answer,
    Send,
}

fn event() -> impl Strategy<Value = Event> {
    let text = || vec(any::<char>(), 0..12).prop_map(String::from_iter);
    let some = || proptest::option::of(text());
    let total = proptest::option::of(any::<f64>());
    prop_oneof![
        text().prop_map(Event::Title),
        some().prop_map(Event::Subtitle),
        (any::<f64>(), total, some())
            .prop_map(|(done, total, text)| Event::Progress(done, total, text)),
        proptest::strategy::Just(Event::Start),
        proptest::strategy::Just(Event::Ask),
        proptest::strategy::Just(Event::Answer),
        proptest::strategy::Just(Event::Send),
    ]
}

proptest! {
    #[test]
    fn an_ended_call_and_a_request_show_only_the_title(events in vec(event(), 0..40)) {
        let mut life = Life::new("Base");
        let mut base = "Base".to_owned();
        for event in events {
            let now = life.now;
            match event {
                Event::Title(title) => {
                    if !title.trim().is_empty() {
                        base = escape_invisible(&title);
                    }
                    life.session.update_call(&call(), ToolCallPatch::new().with_title(title), now);
                }
                Event::Subtitle(text) => life.session.set_subtitle(&call(), text.as_deref(), now),
                Event::Progress(done, total, text) => life.progress(done, total, text.as_deref()),
                Event::Start => drop(life.session.start_call(&call(), now)),
                Event::Ask if life.request.is_none() => {
                    life.ask();
                    life.send();
                    prop_assert_eq!(life.asked.last(), Some(&base));
                }
                Event::Ask => {}
                Event::Answer => life.answer(),
                Event::Send => life.send(),
            }
            let title = life.title();
            prop_assert_eq!(escape_invisible(&title), title.clone());
            let rest = title.strip_prefix(&base);
            prop_assert!(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(SUBTITLE_SEPARATOR)));
            prop_assert!(title == base || life.request.is_none());
        }
        life.session.end_turn(&"t".into(), CallEndReason::Turn, life.now);
        prop_assert_eq!(life.title(), base);
    }
}
