//! Tests of the longest protocol messages (one line each). Each tested message contains a whole
//! call.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{CallEnd, OutboxItem, Session, Timestamp};
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{Content, ToolCallPatch, ToolKind};
use serde_json::json;

/// Maximum size, in bytes, of a protocol message that is not streamed.
const LINE: usize = 1024 * 1024;

/// Maximum size of a title in bytes.
const MAX_TITLE_BYTES: usize = 12 * 1024;

/// Maximum size of a call's content in bytes.
const MAX_CONTENT_BYTES: usize = 768 * 1024;

/// Maximum size of a raw value in bytes.
const MAX_RAW_BYTES: usize = 64 * 1024;

#[test]
fn the_largest_request_and_end_fit_in_a_line() {
    // A quote takes two bytes in JSON, and a control character takes six bytes.
    for letter in ["x", "\"", "\u{1}", "\u{e9}"] {
        let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
        let mut session = Session::new("/p");
        let id = "c".into();
        let long = |bytes: usize| letter.repeat(bytes / letter.len());
        let title = long(MAX_TITLE_BYTES);
        session.announce_call(
            &id,
            &"t".into(),
            ToolCallPatch::for_new_call("x", title, ToolKind::Other),
            now,
        );
        for part in [2, 3, 6, 12, 24] {
            let item = Content::from_text(long(MAX_CONTENT_BYTES / part));
            session.update_call(&id, ToolCallPatch::new().with_appended_content(item), now);
        }
        let raw = || json!({ "value": long(MAX_RAW_BYTES) });
        session.update_call(
            &id,
            ToolCallPatch::new().with_raw_input(raw()).with_raw_output(raw()),
            now,
        );
        session.start_call(&id, now);
        let mut sent = V1Projection::new(TerminalDisplay::Text);
        let mut items = std::iter::from_fn(|| session.poll(now.monotonic));
        for item in items.by_ref() {
            if let OutboxItem::ToolCall(id, patch) = item {
                drop(sent.updates_for_call_patch(&id, &patch));
            }
        }
        let request = sent.permission_request_for_call("s".into(), &id, Vec::new()).unwrap();
        let bytes = serde_json::to_vec(&request).unwrap().len();
        assert!((LINE / 2..LINE).contains(&bytes), "a request of {bytes} bytes");
        session.finish_call(&id, CallEnd::completed(), now);
        while let Some(item) = session.poll(now.monotonic) {
            let OutboxItem::ToolCall(id, patch) = item else { panic!("{item:?}") };
            for update in sent.updates_for_call_patch(&id, &patch) {
                assert!(serde_json::to_vec(&update).unwrap().len() < LINE);
            }
        }
    }
}
