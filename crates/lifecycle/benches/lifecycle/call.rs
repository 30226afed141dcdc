//! The measured call and its harness, shared by the benches with and without the SDK.

#![expect(clippy::expect_used, reason = "a bench may fail by a panic")]

use std::time::SystemTime;

use acp_lifecycle::{CallEnd, OutboxItem, Session, SessionHandle};
use acp_types::wire::v1::{TerminalDisplay, V1Projection, WireUpdate};
use acp_types::{Content, Location, Progress, ToolCallId, ToolCallPatch, ToolKind};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Number of calls in one round.
pub(crate) const CALLS_PER_ROUND: usize = 200;

/// Returns the number of rounds: the first argument, or 200.
pub(crate) fn round_count() -> usize {
    std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(200)
}

/// A session, and the projection of the updates that were sent to its client.
pub(crate) struct CallBench {
    session: SessionHandle,
    sent: V1Projection,
    cancel: CancellationToken,
    calls: usize,
    /// The text of the file that each call reads.
    text: String,
}

impl CallBench {
    pub(crate) fn new(wall: fn() -> SystemTime) -> Self {
        let session = SessionHandle::new(Session::new("/project"), wall);
        let sent = V1Projection::new(TerminalDisplay::Text);
        let text = SOURCE_LINES.split_inclusive('\n').cycle().take(40).collect();
        Self { session, sent, cancel: CancellationToken::new(), calls: 0, text }
    }

    pub(crate) fn run_round(&mut self, mut send: impl FnMut(WireUpdate)) {
        for _ in 0..CALLS_PER_ROUND {
            self.run_call(&mut send);
        }
    }

    /// Runs one complete call and sends each step: announce, start, three changes, end.
    fn run_call(&mut self, send: &mut impl FnMut(WireUpdate)) {
        self.calls += 1;
        let id = ToolCallId::new(format!("turn-1/toolu_{:012}", self.calls));
        let open =
            self.session.announce_call(&id, &"turn-1".into(), announcement_patch(), &self.cancel);
        let open = open.expect("the id is new");
        self.send_waiting_items(send);
        self.session.update(|session, now| session.start_call(&id, now));
        self.send_waiting_items(send);
        for step in 0..3_u8 {
            let call = open.handle();
            match step {
                0 => call.update(
                    ToolCallPatch::new()
                        .with_appended_content(Content::from_text(self.text.clone())),
                ),
                1 => call.report_progress(Progress::new(2.0).with_total(3.0)),
                _ => {
                    call.update(ToolCallPatch::new().with_title("Read src/main.rs, lines 1 to 40"));
                }
            }
            self.send_waiting_items(send);
        }
        open.finish(CallEnd::completed().with_patch(completion_patch(&self.text)));
        self.send_waiting_items(send);
    }

    /// Sends every item in the same way as the driver, but without the minimum interval between
    /// updates.
    fn send_waiting_items(&mut self, send: &mut impl FnMut(WireUpdate)) {
        let mut is_over = false;
        while !is_over {
            let item = self.session.update(|session, now| {
                session.make_all_items_due(now.monotonic);
                let item = session.poll(now.monotonic);
                is_over = session.outbox().is_empty();
                item
            });
            if let Some(OutboxItem::ToolCall(id, patch)) = item {
                self.sent.updates_for_call_patch(&id, patch).into_iter().for_each(&mut *send);
            }
        }
    }
}

fn announcement_patch() -> ToolCallPatch {
    let location = Location::try_new("/project/src/main.rs").expect("an absolute path");
    ToolCallPatch::for_new_call("read_file", "Read src/main.rs", ToolKind::Read)
        .with_raw_input(json!({"path": "src/main.rs", "offset": 1, "limit": 40}))
        .with_locations(vec![location.with_line(1)])
}

fn completion_patch(text: &str) -> ToolCallPatch {
    ToolCallPatch::new().with_raw_output(json!({"lines": 40, "bytes": text.len(), "text": text}))
}

/// Lines of source code. The file that each call reads consists of repetitions of these lines.
const SOURCE_LINES: &str = concat!(
    "//! The program: reads its arguments, does what they say, and tells how that went.\n\n",
    "use std::process::ExitCode;\n\nfn main() -> ExitCode {\n",
    "    match run(std::env::args().skip(1)) {\n        Ok(()) => ExitCode::SUCCESS,\n",
    "        Err(error) => {\n            eprintln!(\"{error}\");\n            ExitCode::FAILURE\n",
    "        }\n    }\n}\n",
);

pub(crate) fn collect_round_updates(stage: &mut CallBench) -> Vec<WireUpdate> {
    let mut messages = Vec::new();
    stage.run_round(|update| messages.push(update));
    messages
}

pub(crate) fn serialised(update: &WireUpdate) -> Vec<u8> {
    serde_json::to_vec(update).expect("a message is JSON")
}

/// Returns the CPU time that this process has used, in nanoseconds.
pub(crate) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the median, or NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
