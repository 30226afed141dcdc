//! A session, a small model of its required behaviour, and its clients.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use acp_lifecycle::title::SUBTITLE_SEPARATOR;
use acp_lifecycle::{CallEnd, OutboxItem, Session, Timestamp};
use acp_types::{
    CallCapabilities, CallEndReason, Content, MessageChunk, Plan, PlanEntry, PlanPriority,
    PlanStatus, Progress, Role, Status, TerminalExit, TerminalId, TerminalOutput, TerminalPatch,
    TerminalReport, ToolCallId, ToolCallPatch, ToolKind, TurnId,
};
use callboard_text::escape_invisible;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::clients::Clients;
use super::event::{CALLS, Event, Pace};
use super::order::{Fence, Order};
use super::permits::Permits;

/// Number of items that a client receives before it disconnects.
const LEAVES_AFTER: u64 = 6;

pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) now: Timestamp,
    pace: Pace,
    turn: u32,
    calls: HashMap<ToolCallId, Call>,
    terminals: HashMap<TerminalId, TerminalReport>,
    pub(crate) permits: Permits,
    plan: Option<usize>,
    says: usize,
    pub(crate) order: Order,
    clients: Clients,
}

/// The expected state of a call.
struct Call {
    status: Status,
    title: String,
    items: usize,
    arguments: u8,
    output: Option<Value>,
    terminal: Option<TerminalId>,
    parent: Option<ToolCallId>,
}

impl Call {
    fn titled(title: &str) -> Self {
        Self {
            status: Status::Pending,
            title: title.to_owned(),
            items: 0,
            arguments: 0,
            output: None,
            terminal: None,
            parent: None,
        }
    }
}

impl World {
    pub(crate) fn new(pace: Pace) -> Self {
        let at = Instant::now();
        let mut world = Self {
            session: Session::new("/p"),
            now: Timestamp { monotonic: at, wall: SystemTime::UNIX_EPOCH },
            pace,
            turn: 0,
            calls: HashMap::new(),
            terminals: HashMap::new(),
            permits: Permits::default(),
            plan: None,
            says: 0,
            order: Order::default(),
            clients: Clients::new(),
        };
        world.end_turn();
        world
    }

    pub(crate) fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Announce(call) => self.announce(call, Session::announce_call),
            Event::Stream(call) => self.announce(call, Session::announce_streamed_call),
            Event::ReportWithin(call, wait) => {
                let id = self.call_id(call);
                self.session.limit_first_report_delay(&id, Duration::from_millis(wait), now);
            }
            Event::Title(call, title) => {
                let patch = ToolCallPatch::new().with_title(title);
                self.change(call, patch, |call| {
                    if !title.is_empty() {
                        call.title = escape_invisible(title);
                    }
                });
            }
            Event::Append(call, text) => {
                let patch = ToolCallPatch::new().with_appended_content(Content::from_text(text));
                self.change(call, patch, |call| call.items += 1);
            }
            Event::Replace(call, text) => self.replace(call, text),
            Event::Arguments(call, value) => {
                let patch = ToolCallPatch::new().with_raw_input(arguments(value));
                self.change(call, patch, |call| call.arguments = value);
            }
            Event::RawOutput(call, value) => {
                let output = json!({ "value": value });
                let patch = ToolCallPatch::new().with_raw_output(output.clone());
                self.change(call, patch, |call| call.output = Some(output));
            }
            Event::Progress(call, done) => {
                let progress = Progress::new(done.into());
                let id = self.call_id(call);
                self.session.report_progress(&id, progress, now);
            }
            Event::ShowTerminal(call) => self.show_terminal(call),
            Event::Output(call, bytes) => self.output(call, &bytes),
            Event::Exit(call, code) => self.exit(call, code),
            Event::Start(call) => self.start(call),
            Event::Pause(call) => self.pause(call),
            Event::Upsert(call, status) => self.upsert(call, status),
            Event::Adopt(parent, call) => self.adopt(parent, call),
            Event::OfferCancel(call) => {
                let capabilities = CallCapabilities::default().with_cancel();
                self.change(call, ToolCallPatch::new().with_capabilities(capabilities), |_| ());
            }
            Event::Finish(call, end) => self.finish(call, end),
            Event::Ask(call, wish) => self.ask(call, wish),
            Event::Answer(which, reply) => self.answer(which, reply),
            Event::Withdraw(which) => self.withdraw(which),
            Event::Revoke => self.revoke(),
            Event::Say(text) => self.say(text),
            Event::Plan(steps) => self.set_plan(steps.into()),
            Event::EndTurn => self.end_turn(),
            Event::Wait(millis) => self.now.monotonic += Duration::from_millis(millis),
            Event::Take(count) => self.take(count.into()),
            Event::Flush => self.flush(),
        }
        if self.pace == Pace::Quick {
            self.take(usize::MAX);
        }
        self.check_requests();
        self.check_queue();
    }

    /// Ends the turn, sends the remaining items, and compares the clients' state with the
    /// documents.
    pub(crate) fn end(mut self) {
        self.happen(Event::EndTurn);
        if self.pace == Pace::Stuck {
            self.pace = Pace::OnEvent;
        }
        // The response to the prompt makes all earlier items due, regardless of the rate limits.
        self.take(usize::MAX);
        assert!(self.session.outbox().is_empty());
        self.check_held();
        assert_eq!(self.session.board().open_calls(None), []);
        assert!(self.permits.are_over());
    }

    /// Returns the version of an open call's arguments.
    pub(crate) fn arguments(&mut self, id: &ToolCallId) -> Option<u8> {
        self.open_call(id).map(|call| call.arguments)
    }

    /// Returns the id of the call with this number in the current turn. The number [`CALLS`] means
    /// a call of the previous turn.
    pub(crate) fn call_id(&self, call: u8) -> ToolCallId {
        match call {
            CALLS => format!("t{}/0", self.turn - 1).into(),
            call => format!("t{}/{call}", self.turn).into(),
        }
    }

    fn open_call(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        self.calls.get_mut(id).filter(|call| !call.status.is_final())
    }

    fn announce(
        &mut self,
        number: u8,
        post: fn(&mut Session, &ToolCallId, &TurnId, ToolCallPatch, Timestamp) -> bool,
    ) {
        let (id, now) = (self.call_id(number), self.now);
        let is_new = number < CALLS && !self.calls.contains_key(&id);
        let mut call = Call::titled("Title");
        let mut patch = ToolCallPatch::for_new_call("tool", "Title", ToolKind::Execute);
        patch = patch.with_raw_input(arguments(0));
        if number.is_multiple_of(2) && is_new {
            let terminal = self.open_terminal(&id);
            patch = patch.with_appended_content(Content::Terminal(terminal.clone()));
            (call.items, call.terminal) = (1, Some(terminal));
        }
        assert_eq!(post(&mut self.session, &id, &turn_of(&id), patch, now), is_new);
        if is_new {
            self.order.offer(Fence::Announced(id.clone()));
            self.calls.insert(id, call);
        }
    }

    fn change(&mut self, call: u8, patch: ToolCallPatch, expected: impl FnOnce(&mut Call)) {
        let id = self.call_id(call);
        self.session.update_call(&id, patch, self.now);
        self.open_call(&id).map(expected);
    }

    /// Replaces the content of a call except for the terminal.
    fn replace(&mut self, call: u8, text: &'static str) {
        let terminal = self.calls.get(&self.call_id(call)).and_then(|call| call.terminal.clone());
        let mut content = vec![Content::from_text(text)];
        content.extend(terminal.map(Content::Terminal));
        let items = content.len();
        self.change(call, ToolCallPatch::new().with_content(content), |call| call.items = items);
    }

    fn open_terminal(&mut self, call: &ToolCallId) -> TerminalId {
        let id = TerminalId::new(call.0.clone());
        let open = TerminalPatch::for_new_terminal("ls", "/p");
        self.session.announce_terminal(&id, open.clone(), self.now);
        let report = self.terminals.entry(id.clone());
        open.apply(report.or_insert_with(|| TerminalReport::new(id.clone())));
        id
    }

    fn show_terminal(&mut self, call: u8) {
        let id = self.call_id(call);
        if self.open_call(&id).is_some_and(|call| call.terminal.is_none()) {
            let terminal = self.open_terminal(&id);
            let patch =
                ToolCallPatch::new().with_appended_content(Content::Terminal(terminal.clone()));
            self.change(call, patch, |call| {
                (call.items, call.terminal) = (call.items + 1, Some(terminal));
            });
        }
    }

    fn output(&mut self, call: u8, bytes: &[u8]) {
        let id = TerminalId::new(self.call_id(call).0);
        self.session.append_terminal_output(&id, bytes, self.now);
        if let Some(terminal) = self.terminals.get_mut(&id)
            && terminal.exit.is_none()
        {
            terminal.output.append_output(&TerminalOutput::from_bytes(bytes));
        }
    }

    fn exit(&mut self, call: u8, code: i32) {
        let id = TerminalId::new(self.call_id(call).0);
        let exit = TerminalExit { code: Some(code), signal: None };
        self.session.exit_terminal(&id, exit.clone(), self.now);
        if let Some(terminal) = self.terminals.get_mut(&id) {
            terminal.exit.get_or_insert(exit);
        }
    }

    fn start(&mut self, call: u8) {
        let id = self.call_id(call);
        let starts = self.session.start_call(&id, self.now);
        assert_eq!(starts, self.started(&id));
    }

    /// Records that a call was started. Returns whether the start changes the status of the call.
    fn started(&mut self, id: &ToolCallId) -> bool {
        let Some(call) = self.open_call(id) else { return false };
        let before = std::mem::replace(&mut call.status, Status::InProgress);
        if before == Status::Pending {
            self.order.offer(Fence::Ran(id.clone()));
        }
        before != Status::InProgress
    }

    fn pause(&mut self, call: u8) {
        let id = self.call_id(call);
        self.session.pause_call(&id, self.now);
        self.paused(&id);
    }

    fn paused(&mut self, id: &ToolCallId) {
        if let Some(call) = self.open_call(id)
            && call.status == Status::InProgress
        {
            call.status = Status::Paused;
        }
    }

    fn upsert(&mut self, number: u8, status: Status) {
        let id = self.call_id(number);
        let patch =
            ToolCallPatch::for_new_call("tool", "Told", ToolKind::Execute).with_status(status);
        self.session.upsert_foreign_call(&id, &turn_of(&id), patch, self.now);
        if number < CALLS && !self.calls.contains_key(&id) {
            self.calls.insert(id.clone(), Call::titled("Told"));
            self.order.offer(Fence::Announced(id.clone()));
        }
        let Some(call) = self.open_call(&id) else { return };
        "Told".clone_into(&mut call.title);
        match status {
            Status::InProgress => drop(self.started(&id)),
            Status::Paused => self.paused(&id),
            Status::Completed => {
                self.started(&id);
                self.ended(&id, &CallEnd::completed());
            }
            Status::Cancelled => self.ended(&id, &CallEnd::cancelled(CallEndReason::User)),
            Status::Failed => self.ended(&id, &CallEnd::failed(CallEndReason::Error)),
            _ => {}
        }
    }

    fn adopt(&mut self, parent: u8, call: u8) {
        let (parent, id) = (self.call_id(parent), self.call_id(call));
        self.session.update_call_meta(&id, |meta| meta.parent = Some(parent.to_string()), self.now);
        // A call does not accept an unknown call, itself or one of its descendants as its parent.
        let is_known = parent != id && self.calls.contains_key(&parent);
        let parent = Some(parent).filter(|parent| is_known && !self.descends(parent, &id));
        if let Some(call) = self.open_call(&id) {
            call.parent = parent;
        }
    }

    /// Returns whether a call is a direct or indirect child of another call.
    fn descends(&self, id: &ToolCallId, other: &ToolCallId) -> bool {
        let parent = self.calls.get(id).and_then(|call| call.parent.as_ref());
        parent.is_some_and(|parent| parent == other || self.descends(parent, other))
    }

    fn finish(&mut self, call: u8, end: u8) {
        let id = self.call_id(call);
        let end = match end {
            0 | 1 => CallEnd::completed(),
            2 => CallEnd::failed(CallEndReason::Error),
            3 => CallEnd::cancelled(CallEndReason::User),
            _ => CallEnd::failed(CallEndReason::Timeout)
                .with_patch(ToolCallPatch::new().with_title("Too late")),
        };
        self.session.finish_call(&id, end.clone(), self.now);
        self.ended(&id, &end);
    }

    /// Records the end of a call, unless the call had already ended.
    fn ended(&mut self, id: &ToolCallId, end: &CallEnd) {
        if self.open_call(id).is_none() {
            return;
        }
        let is_child = |call: &Call| call.parent.as_ref() == Some(id);
        let children = self.calls.iter().filter(|(_, call)| is_child(call));
        let children: Vec<_> = children.map(|(id, _)| id.clone()).collect();
        children.iter().for_each(|id| self.ended(id, &CallEnd::cancelled(CallEndReason::Dropped)));
        let Some(call) = self.open_call(id) else { return };
        let has_run = call.status == Status::InProgress;
        call.status = match end.status {
            Status::Completed if !has_run => Status::Failed,
            status => status,
        };
        if let Some(title) = &end.patch.title {
            call.title.clone_from(title);
        }
        if let Some(terminal) = call.terminal.clone()
            && let Some(terminal) = self.terminals.get_mut(&terminal)
        {
            terminal.exit.get_or_insert_default();
        }
        self.permits.call_ended(id);
        self.order.offer(Fence::Ended(id.clone()));
    }

    fn say(&mut self, text: &'static str) {
        let chunk = MessageChunk::new(Role::Agent, "m", text);
        self.session.send_message_chunk(chunk, self.now);
        self.order.say(text);
        self.says += 1;
    }

    fn set_plan(&mut self, steps: usize) {
        let (priority, status) = (PlanPriority::Medium, PlanStatus::Pending);
        let entry = PlanEntry::new("step", priority, status);
        self.session.send_plan(Plan::new(vec![entry; steps]), self.now);
        self.plan = Some(steps);
    }

    fn end_turn(&mut self) {
        let turn = TurnId::from(format!("t{}", self.turn));
        let of_turn = format!("{turn}/");
        let open: Vec<_> =
            self.calls.keys().filter(|id| id.0.starts_with(&of_turn)).cloned().collect();
        self.session.end_turn(&turn, CallEndReason::Turn, self.now);
        open.iter().for_each(|id| self.ended(id, &CallEnd::cancelled(CallEndReason::Turn)));
        self.order.offer(Fence::Answered(turn));
        self.turn += 1;
    }

    fn take(&mut self, count: usize) {
        if self.pace == Pace::Stuck {
            return;
        }
        for _ in 0..count {
            let Some(item) = self.session.poll(self.now.monotonic) else { break };
            self.deliver(&item);
        }
        self.check_held_if_empty();
    }

    fn flush(&mut self) {
        self.session.make_all_items_due(self.now.monotonic);
        self.take(usize::MAX);
        assert!(self.session.outbox().is_empty() || self.pace == Pace::Stuck);
    }

    fn is_gone(&self) -> bool {
        self.pace == Pace::Leaving && self.order.handed_over > LEAVES_AFTER
    }

    fn deliver(&mut self, item: &OutboxItem) {
        self.order.take(item);
        if self.is_gone() {
            self.session.record_undelivered_item();
            if let OutboxItem::PermissionRequest(number) = item {
                self.undelivered(*number);
            }
        } else if let OutboxItem::PermissionRequest(number) = item {
            let request = self
                .session
                .pending_permission_request(*number)
                .expect("a delivered request waits");
            self.clients.ask(request);
        } else {
            self.clients.take(item);
        }
    }

    /// Asserts that every enqueued item is queued, merged, withdrawn or sent. If a client receives
    /// nothing, at most four items per call and one plan per turn may be queued (guarantee G6).
    fn check_queue(&self) {
        let outbox = self.session.outbox();
        let counters = outbox.counters();
        assert_eq!(counters.handed_over, self.order.handed_over);
        let gone = counters.merged + counters.handed_over + self.permits.taken_back();
        assert_eq!(counters.enqueued, outbox.len() as u64 + gone);
        let calls = 4 * self.calls.len() + self.terminals.len() + self.permits.asked();
        let turns = self.turn as usize;
        let plans = if self.plan.is_some() { 1 + turns } else { 0 };
        let most = calls + self.says + turns + plans;
        assert!(outbox.len() <= most, "{} entries, at most {most}", outbox.len());
    }

    fn check_held_if_empty(&self) {
        if self.session.outbox().is_empty() {
            self.check_held();
        }
    }

    /// Asserts that the queue is empty, the documents are as expected, and every client has these
    /// documents (guarantee G5).
    fn check_held(&self) {
        self.order.check_empty();
        for (id, call) in &self.calls {
            let board = self.session.board();
            let document = board.open_call_report(id).or_else(|| board.history().get(id));
            let document = document.expect("a call is open or remembered");
            // The progress of an open call may be shown after the title. The progress is not
            // compared.
            let title = match document.title.split_once(SUBTITLE_SEPARATOR) {
                Some((base, _)) if !call.status.is_final() => base,
                _ => &document.title,
            };
            assert_eq!(
                (document.status, title, document.content.len()),
                (call.status, &*call.title, call.items)
            );
            let completed = [Status::Completed, Status::Failed, Status::Cancelled];
            let has_reason = completed[1..].contains(&call.status);
            assert_eq!(document.meta.reason.is_some(), has_reason, "{document:?}");
            match &call.output {
                Some(output) => assert_eq!(document.raw_output.as_ref(), Some(output)),
                None => assert_eq!(document.raw_output.is_some(), has_reason),
            }
            if !self.is_gone() {
                let terminal = call.terminal.as_ref().and_then(|id| self.terminals.get(id));
                self.clients.check(document, terminal);
            }
        }
        if !self.is_gone() {
            self.clients.check_order();
            self.plan.into_iter().for_each(|steps| self.clients.check_plan(steps));
        }
    }
}

fn turn_of(id: &ToolCallId) -> TurnId {
    id.0.split('/').next().unwrap_or_default().into()
}

/// Returns the given version of a call's arguments.
pub(crate) fn arguments(version: u8) -> Value {
    json!({ "version": version })
}
