//! The call that is measured, and how. Shared by the benches with and without the SDK.

#![expect(clippy::expect_used, reason = "a bench may fail by a panic")]

use std::time::SystemTime;

use acp_lifecycle::{End, Item, Session, SessionHandle};
use acp_types::wire::v1::{Sent, Surface, Update};
use acp_types::{Content, Location, Progress, ToolCallId, ToolCallPatch, ToolKind};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Calls of one round.
pub(crate) const CALLS: usize = 200;

/// Rounds, unless the first argument says otherwise.
pub(crate) fn rounds() -> usize {
    std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(200)
}

/// A session, and what its client was told.
pub(crate) struct Stage {
    session: SessionHandle,
    sent: Sent,
    cancel: CancellationToken,
    calls: usize,
    /// What each call reads.
    text: String,
}

impl Stage {
    pub(crate) fn new(wall: fn() -> SystemTime) -> Self {
        let session = SessionHandle::new(Session::new("/project"), wall);
        let sent = Sent::new(Surface::Text);
        let text = LINES.split_inclusive('\n').cycle().take(40).collect();
        Self { session, sent, cancel: CancellationToken::new(), calls: 0, text }
    }

    pub(crate) fn round(&mut self, mut send: impl FnMut(Update)) {
        for _ in 0..CALLS {
            self.call(&mut send);
        }
    }

    /// One complete call: announced, started, changed three times, ended; each step is sent.
    fn call(&mut self, send: &mut impl FnMut(Update)) {
        self.calls += 1;
        let id = ToolCallId::new(format!("turn-1/toolu_{:012}", self.calls));
        let open = self.session.announce(&id, &"turn-1".into(), announcement(), &self.cancel);
        let open = open.expect("the id is new");
        self.send_all(send);
        self.session.with(|session, now| session.start(&id, now));
        self.send_all(send);
        for step in 0..3_u8 {
            let call = open.handle();
            match step {
                0 => call.change(ToolCallPatch::new().append(Content::text(self.text.clone()))),
                1 => call.progress(Progress::new(2.0).with_total(3.0)),
                _ => call.change(ToolCallPatch::new().title("Read src/main.rs, lines 1 to 40")),
            }
            self.send_all(send);
        }
        open.finish(End::completed().with(ending(&self.text)));
        self.send_all(send);
    }

    /// As the driver would, were there no least time between updates.
    fn send_all(&mut self, send: &mut impl FnMut(Update)) {
        let mut is_over = false;
        while !is_over {
            let item = self.session.with(|session, now| {
                session.flush(now.at);
                let item = session.poll(now.at);
                is_over = session.outbox().is_empty();
                item
            });
            if let Some(Item::ToolCall(id, patch)) = item {
                self.sent.tool_call(&id, patch).into_iter().for_each(&mut *send);
            }
        }
    }
}

fn announcement() -> ToolCallPatch {
    let location = Location::try_new("/project/src/main.rs").expect("an absolute path");
    ToolCallPatch::announce("read_file", "Read src/main.rs", ToolKind::Read)
        .raw_input(json!({"path": "src/main.rs", "offset": 1, "limit": 40}))
        .locations(vec![location.at_line(1)])
}

fn ending(text: &str) -> ToolCallPatch {
    ToolCallPatch::new().raw_output(json!({"lines": 40, "bytes": text.len(), "text": text}))
}

/// What the file holds, over and over.
const LINES: &str = concat!(
    "//! The program: reads its arguments, does what they say, and tells how that went.\n\n",
    "use std::process::ExitCode;\n\nfn main() -> ExitCode {\n",
    "    match run(std::env::args().skip(1)) {\n        Ok(()) => ExitCode::SUCCESS,\n",
    "        Err(error) => {\n            eprintln!(\"{error}\");\n            ExitCode::FAILURE\n",
    "        }\n    }\n}\n",
);

pub(crate) fn messages_of_a_round(stage: &mut Stage) -> Vec<Update> {
    let mut messages = Vec::new();
    stage.round(|update| messages.push(update));
    messages
}

pub(crate) fn serialised(update: &Update) -> Vec<u8> {
    serde_json::to_vec(update).expect("a message is JSON")
}

/// The CPU time that this process has taken, in nanoseconds.
pub(crate) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The value in the middle; not a number for none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
