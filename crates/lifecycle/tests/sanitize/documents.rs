//! Tests a session that receives secrets through every input. The session must show none of the
//! secrets.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{
    CallEnd, Effect, Effects, PermissionSubject, PermitDecision, Secrets, Session, Timestamp,
};
use acp_types::{
    CallEndReason, Content, Location, MessageChunk, Plan, PlanEntry, Role, SessionInfo,
    SessionStatePart, TerminalPatch, ToolCallPatch, ToolKind,
};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, proptest};
use proptest::sample::Index;
use serde_json::{Value, json};

use super::planted::{self, Part};
use super::shape::assert_shape;
use super::wire::Clients;

/// Input of a session.
#[derive(Debug, Clone)]
struct InputCase {
    secrets: Vec<String>,
    text: Vec<Part>,
    input: planted::Plan,
    output: planted::Plan,
    said: Vec<Part>,
    written: Vec<Part>,
    cuts: Vec<Index>,
    /// Events between two chunks. Each event ends the current chunk of a message.
    between: Vec<Between>,
}

#[derive(Debug, Clone, Copy)]
enum Between {
    Nothing,
    Send,
    Plan,
    Thought,
}

fn case() -> impl Strategy<Value = InputCase> {
    let between = proptest::sample::select(vec![
        Between::Nothing,
        Between::Nothing,
        Between::Send,
        Between::Plan,
        Between::Thought,
    ]);
    let texts = (planted::text(), planted::text(), planted::text());
    let values = (planted::value(), planted::value());
    let pieces = (vec(any::<Index>(), 1..8), vec(between, 1..8));
    let all = (planted::secrets(), texts, values, pieces);
    all.prop_map(|(secrets, (text, said, written), (input, output), (cuts, between))| InputCase {
        secrets,
        text,
        input,
        output,
        said,
        written,
        cuts,
        between,
    })
}

/// Maximum size in bytes of a raw value that is shown.
const MAX_RAW_BYTES: usize = 64 * 1024;

struct Stage {
    session: Session,
    clients: Clients,
    now: Timestamp,
}

impl Stage {
    fn new(secrets: &[String]) -> Self {
        let mut session = Session::new("/p");
        session.set_secrets(Secrets::new(secrets));
        let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
        Self { session, clients: Clients::new(), now }
    }

    /// Reports a call with all its fields, but does not end the call.
    fn tell(&mut self, case: &InputCase) {
        let text = planted::write(&case.text, &case.secrets);
        let now = self.now;
        let open = TerminalPatch::for_new_terminal(&text, format!("/p/{text}"));
        self.session.announce_terminal(&"c".into(), open, now);
        let patch = ToolCallPatch::for_new_call(&text, &text, ToolKind::Execute)
            .with_content(vec![Content::Terminal("c".into()), Content::from_text(&text)]);
        assert!(self.session.announce_call(&"c".into(), &"t".into(), patch, now));
        let mut patch =
            ToolCallPatch::new().with_appended_content(Content::fenced_code_block("", &text));
        patch.locations =
            Location::try_new(format!("/p/{text}")).ok().map(|location| vec![location]);
        patch.raw_input = Some(planted::json(&case.input, &case.secrets));
        self.session.update_call(&"c".into(), patch, now);
        let change = |meta: &mut acp_types::CallMeta| {
            meta.title = Some(json!({ "arguments": { "command": text } }));
            meta.custom.insert(text.clone(), Value::from(text.as_str()));
        };
        self.session.update_call_meta(&"c".into(), change, now);
        let effects = Effects::from(Effect::Run { command: text.clone(), cwd: "/p".into() });
        let subject = PermissionSubject::for_call("tool", &json!(text), "/p".as_ref(), b"");
        let PermitDecision::AwaitingAnswer(_) =
            self.session.decide_or_ask_permission(&"c".into(), &effects, subject, true, now)
        else {
            return;
        };
        let info = SessionInfo::new().with_title(text);
        self.session.send_state_part(SessionStatePart::Info(info), now);
        self.send();
        self.session.start_call(&"c".into(), now);
    }

    /// Streams a message and terminal output in chunks, with other events between them.
    fn stream(&mut self, case: &InputCase) {
        let said = planted::pieces(&case.said, &case.secrets, &case.cuts);
        let written = planted::pieces(&case.written, &case.secrets, &case.cuts);
        for at in 0..said.len().max(written.len()) {
            if let Some(text) = said.get(at) {
                self.say(Role::Agent, "m", text);
            }
            if let Some(text) = written.get(at) {
                self.session.append_terminal_output(&"c".into(), text.as_bytes(), self.now);
            }
            match case.between[at % case.between.len()] {
                Between::Nothing => {}
                Between::Send => self.send(),
                Between::Thought => {
                    let text = planted::write(&case.text, &case.secrets);
                    self.say(Role::Thought, "thought", &text);
                }
                Between::Plan => {
                    let content = planted::write(&case.text, &case.secrets);
                    let (priority, status) = Default::default();
                    let entry = PlanEntry::new(content.clone(), priority, status).with_id(content);
                    self.session.send_plan(Plan::new(vec![entry]), self.now);
                }
            }
        }
    }

    fn say(&mut self, role: Role, message: &str, text: &str) {
        let chunk = MessageChunk::new(role, message, text);
        self.session.send_message_chunk(chunk, self.now);
    }

    fn end(&mut self, case: &InputCase) {
        let text = planted::write(&case.text, &case.secrets);
        let patch = ToolCallPatch::new()
            .with_raw_output(planted::json(&case.output, &case.secrets))
            .with_appended_content(Content::from_text(text));
        self.session.finish_call(
            &"c".into(),
            CallEnd::failed(CallEndReason::Error).with_patch(patch),
            self.now,
        );
        self.session.end_turn(&"t".into(), CallEndReason::Turn, self.now);
        self.send();
    }

    fn send(&mut self) {
        self.session.make_all_items_due(self.now.monotonic);
        while let Some(item) = self.session.poll(self.now.monotonic) {
            self.clients.deliver(&self.session, item);
        }
    }
}

/// Returns the first secret that is visible, with the text that shows it.
fn leak<'a>(
    case: &InputCase,
    shown: impl IntoIterator<Item = &'a String>,
) -> Option<(String, String)> {
    let needles = planted::needles(&case.secrets);
    shown.into_iter().find_map(|shown| {
        let needle = needles.iter().find(|needle| shown.contains(needle.as_str()))?;
        Some((needle.clone(), shown.clone()))
    })
}

proptest! {
    #[test]
    fn no_secret_reaches_the_wire_the_history_or_a_log(case in case()) {
        let mut stage = Stage::new(&case.secrets);
        stage.tell(&case);
        stage.stream(&case);
        stage.end(&case);
        assert_eq!(leak(&case, &stage.clients.lines), None);
        assert_eq!(leak(&case, &stage.clients.streams("c")), None);

        let history = stage.session.board().history();
        let reports: Vec<_> = history.iter().collect();
        assert_eq!(leak(&case, [&serde_json::to_string(&reports).unwrap()]), None);

        let text = planted::write(&case.text, &case.secrets);
        let logged = [text.clone(), format!("{text:?}"), format!("{:?}", json!(text))];
        let logged = logged.map(|line| stage.session.secrets().redact(&line).into_owned());
        assert_eq!(leak(&case, &logged), None);

        for (was, shown) in [(&case.input, &reports[0].raw_input), (&case.output, &reports[0].raw_output)] {
            let was = planted::json(was, &case.secrets);
            let Some(shown) = shown.as_ref().filter(|_| !was.is_null()) else { continue };
            assert!(shown.to_string().len() <= MAX_RAW_BYTES);
            assert_shape(&was, shown, "");
        }
    }
}
