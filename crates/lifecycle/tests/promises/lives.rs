//! G1, G2, G3 and G5 over random interleavings of calls, requests, output and slow clients.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use acp_lifecycle::{
    Answer, Board, Chunk, Digest, Effect, Effects, End, Item, Moment, Permit, Role, Session,
};
use acp_types::observe::{v1, v2};
use acp_types::wire::{self, v1::Surface};
use acp_types::{
    Content, Exit, Reason, TerminalId, TerminalPatch, TerminalReport, ToolCallId, ToolCallPatch,
    ToolCallReport, ToolKind,
};
use pretty_assertions::assert_eq;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::{collection::vec, prop_assert};
use serde_json::json;

/// One thing that happens. Calls are named by small numbers, so that lives collide often.
#[derive(Debug, Clone)]
enum Event {
    Announce(u8),
    Title(u8, String),
    Append(u8, String),
    RawOutput(u8, u8),
    Start(u8),
    Output(u8, Vec<u8>),
    Ask(u8),
    Answer(&'static str),
    Finish(u8, u8),
    Say(String),
    Wait(u64),
    Send(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let call = || 0..4_u8;
    let text = || "[a-z]{0,4}";
    let answers = proptest::sample::select(vec!["allow", "allow_always", "reject", "nonsense"]);
    prop_oneof![
        2 => call().prop_map(Event::Announce),
        1 => (call(), text()).prop_map(|(call, text)| Event::Title(call, text)),
        2 => (call(), text()).prop_map(|(call, text)| Event::Append(call, text)),
        1 => (call(), any::<u8>()).prop_map(|(call, value)| Event::RawOutput(call, value)),
        2 => call().prop_map(Event::Start),
        2 => (call(), vec(any::<u8>(), 0..9)).prop_map(|(call, bytes)| Event::Output(call, bytes)),
        1 => call().prop_map(Event::Ask),
        1 => answers.prop_map(Event::Answer),
        2 => (call(), 0..4_u8).prop_map(|(call, end)| Event::Finish(call, end)),
        1 => text().prop_map(Event::Say),
        2 => (0..200_u64).prop_map(Event::Wait),
        3 => (0..5_u8).prop_map(Event::Send),
    ]
}

/// A session, a second board that is told the same, and two clients of it.
struct World {
    session: Session,
    truth: Board,
    documents: HashMap<ToolCallId, ToolCallReport>,
    terminals: HashMap<TerminalId, TerminalReport>,
    requests: Vec<u64>,
    now: Moment,
    v1: (wire::v1::Sent, v1::Observer),
    v2: (wire::v2::Sent, v2::Observer),
    said: String,
    heard: String,
    answered: bool,
}

const TURN: &str = "t";

impl World {
    fn new(surface: Surface) -> Self {
        Self {
            session: Session::new("/p"),
            truth: Board::default(),
            documents: HashMap::new(),
            terminals: HashMap::new(),
            requests: Vec::new(),
            now: Moment { at: Instant::now(), wall: SystemTime::UNIX_EPOCH },
            v1: (wire::v1::Sent::new(surface), v1::Observer::new()),
            v2: (wire::v2::Sent::new(), v2::Observer::new()),
            said: String::new(),
            heard: String::new(),
            answered: false,
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Announce(call) => self.announce(call),
            Event::Title(call, title) => self.change(call, ToolCallPatch::new().title(title)),
            Event::Append(call, text) => {
                self.change(call, ToolCallPatch::new().append(Content::text(text)));
            }
            Event::RawOutput(call, value) => {
                self.change(call, ToolCallPatch::new().raw_output(json!({ "value": value })));
            }
            Event::Start(call) => {
                let id = call_id(call);
                self.session.start(&id, now);
                let patch = self.truth.start(&id, now);
                self.note(&id, patch);
            }
            Event::Output(call, bytes) => {
                let id = terminal_id(call);
                self.session.terminal_output(&id, &bytes, now);
                self.note_terminal(&id, |truth| truth.terminal_output(&id, &bytes));
            }
            Event::Ask(call) => self.ask(call),
            Event::Answer(option) => {
                if let Some(number) = self.requests.pop() {
                    let option_id = option.to_owned();
                    self.session.answer(number, Answer::Selected { option_id, reason: None });
                }
            }
            Event::Finish(call, end) => self.finish(call, end),
            Event::Say(text) => {
                self.said.push_str(&text);
                let chunk = Chunk { role: Role::Agent, message: "m".to_owned(), text };
                self.session.say(chunk, now);
            }
            Event::Wait(millis) => self.now.at += Duration::from_millis(millis),
            Event::Send(count) => {
                for _ in 0..count {
                    let item = self.session.outbox_mut().poll(self.now.at);
                    item.into_iter().for_each(|item| self.deliver(item));
                }
            }
        }
    }

    fn announce(&mut self, call: u8) {
        let (id, terminal, now) = (call_id(call), terminal_id(call), self.now);
        let mut patch = ToolCallPatch::announce("tool", "Title", ToolKind::Execute);
        if call.is_multiple_of(2) && !self.truth.has_seen(&id) {
            let open = TerminalPatch::open("ls", "/p");
            self.session.open_terminal(&terminal, open.clone(), now);
            self.terminals.insert(terminal.clone(), TerminalReport::new(terminal.clone()));
            self.note_terminal(&terminal, |truth| truth.open_terminal(&terminal, open));
            patch = patch.append(Content::Terminal(terminal));
        }
        self.session.announce(&id, TURN, patch.clone(), now);
        if let Some(patch) = self.truth.announce(&id, TURN, patch, now) {
            self.documents.insert(id.clone(), ToolCallReport::new(id.clone()));
            self.note(&id, Some(patch));
        }
    }

    fn change(&mut self, call: u8, patch: ToolCallPatch) {
        let id = call_id(call);
        self.session.change(&id, patch.clone(), self.now);
        let patch = self.truth.change(&id, patch);
        self.note(&id, patch);
    }

    fn ask(&mut self, call: u8) {
        let id = call_id(call);
        // A request is about a call that is posted and has not run: perform sees to that.
        if self.session.board().tool_call(&id).is_none() {
            return;
        }
        let effects = Effects::from(Effect::Write(format!("/p/{call}").into()));
        let digest = Digest::of_call("tool", &json!(call), "/p".as_ref(), b"");
        if let Permit::Asked(number) = self.session.permit(&id, &effects, digest, true, self.now) {
            self.requests.push(number);
        }
    }

    fn finish(&mut self, call: u8, end: u8) {
        let (id, terminal, now) = (call_id(call), terminal_id(call), self.now);
        let exit = Exit { code: Some(0), signal: None };
        self.session.terminal_exit(&terminal, exit.clone(), now);
        self.note_terminal(&terminal, |truth| truth.terminal_exit(&terminal, exit));
        let end = match end {
            0 | 1 => End::completed(),
            2 => End::failed(Reason::Error),
            _ => End::cancelled(Reason::User),
        };
        self.session.finish(&id, end.clone(), now);
        let patch = self.truth.finish(&id, end, now);
        self.note(&id, patch);
    }

    /// Applies what the second board says to the documents that clients should hold.
    fn note(&mut self, id: &ToolCallId, patch: Option<ToolCallPatch>) {
        if let (Some(patch), Some(document)) = (patch, self.documents.get_mut(id)) {
            patch.apply(document);
        }
    }

    fn note_terminal(
        &mut self,
        id: &TerminalId,
        change: impl FnOnce(&mut Board) -> Option<TerminalPatch>,
    ) {
        let patch = change(&mut self.truth);
        if let (Some(patch), Some(document)) = (patch, self.terminals.get_mut(id)) {
            patch.apply(document);
        }
    }

    fn deliver(&mut self, item: Item) {
        assert!(!self.answered, "something follows the answer: {item:?}");
        let (v1_updates, v2_updates) = match item {
            Item::ToolCall(id, patch) => {
                (self.v1.0.tool_call(&id, &patch), self.v2.0.tool_call(&id, &patch))
            }
            Item::Terminal(id, patch) => {
                (self.v1.0.terminal(&id, &patch), self.v2.0.terminal(&id, &patch))
            }
            Item::Permission(number) => return self.deliver_request(number),
            Item::Chunk(chunk) => {
                self.heard.push_str(&chunk.text);
                return;
            }
            Item::Answer(_) => {
                self.answered = true;
                self.v1.1.turn_answered();
                self.v2.1.turn_answered(|_| false);
                return;
            }
            _ => return,
        };
        v1_updates.iter().for_each(|update| self.v1.1.update(update));
        v2_updates.iter().for_each(|update| self.v2.1.update(update));
    }

    fn deliver_request(&mut self, number: u64) {
        let request = self.session.request(number).expect("a delivered request waits");
        let id = request.call.clone();
        let v1 = self.v1.0.permission("s".into(), &id, request.options.clone());
        self.v1.1.permission(&v1.expect("the call is told"));
        let v2 = self.v2.0.permission("s".into(), &id, Vec::new());
        // A v2 request repeats what is known; its own update would count as empty.
        assert!(v2.is_some() && self.v2.1.tool_call(&id.0).is_some());
    }

    /// Ends the turn, sends the rest, and compares what the clients hold with the truth.
    fn end(mut self, surface: Surface) {
        for id in self.truth.open_calls(Some(TURN)) {
            let patch = self.truth.finish(&id, End::cancelled(Reason::Turn), self.now);
            self.note(&id, patch);
        }
        self.session.end_turn(TURN, Reason::Turn, self.now);
        while let Some(item) = self.session.outbox_mut().poll(self.now.at) {
            self.deliver(item);
        }
        assert!(self.answered && self.session.outbox().is_empty());
        assert_eq!(self.v1.1.violations(), []);
        assert_eq!(self.v2.1.violations(), []);
        assert_eq!(self.heard, self.said);
        for (id, document) in &self.documents {
            let expected =
                wire::v1::tool_call(document, surface, "callboard", |id| self.terminals.get(id));
            assert_eq!(self.v1.1.tool_call(&id.0), Some(&expected));
            let held = self.v2.1.tool_call(&id.0).expect("every call is told");
            let expected = wire::v2::tool_call(document, "callboard");
            assert_eq!(held.status, expected.status);
            assert_eq!(held.raw_output, expected.raw_output);
            let content = held.content.value().cloned().unwrap_or_default();
            assert_eq!(Some(&content), expected.content.value());
        }
    }
}

fn call_id(call: u8) -> ToolCallId {
    format!("t/{call}").into()
}

fn terminal_id(call: u8) -> TerminalId {
    format!("t/{call}").into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn g1_g2_g3_g5_hold_for_clients_that_show_text(events in vec(event(), 0..60)) {
        let mut world = World::new(Surface::Text);
        events.into_iter().for_each(|event| world.happen(event));
        world.end(Surface::Text);
    }

    #[test]
    fn g1_g2_g3_g5_hold_for_clients_that_show_terminals(events in vec(event(), 0..60)) {
        let mut world = World::new(Surface::Meta);
        events.into_iter().for_each(|event| world.happen(event));
        world.end(Surface::Meta);
    }

    #[test]
    fn a_slow_client_costs_no_more_than_three_entries_a_call(events in vec(event(), 0..100)) {
        let mut world = World::new(Surface::Text);
        for event in events {
            if !matches!(event, Event::Send(_) | Event::Ask(_) | Event::Say(_)) {
                world.happen(event);
            }
        }
        let mut waiting = 0;
        world.session.end_turn(TURN, Reason::Turn, world.now);
        while world.session.outbox_mut().poll(world.now.at).is_some() {
            waiting += 1;
        }
        // Four calls of three segments, two terminals of one, and the answer.
        prop_assert!(waiting <= 4 * 3 + 2 + 1, "{waiting} entries");
    }

    #[test]
    fn updates_of_one_call_keep_their_distance(gaps in vec(0..40_u64, 1..80)) {
        let mut world = World::new(Surface::Text);
        world.happen(Event::Announce(1));
        world.happen(Event::Start(1));
        world.happen(Event::Send(5));
        let (start, mut sent) = (world.now.at, 0);
        for gap in gaps {
            world.happen(Event::Append(1, "x".to_owned()));
            while world.session.outbox_mut().poll(world.now.at).is_some() {
                sent += 1;
            }
            world.happen(Event::Wait(gap));
        }
        let most = (world.now.at - start).as_millis() / 50;
        prop_assert!(sent <= most, "{sent} updates where {most} may be");
    }
}
