//! Tests of answers to requests other than prompts. Each answer is sent at its position in the
//! order of the items, and does not end a turn.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{AgentResponseId, OutboxItem, Session, Timestamp};
use acp_types::{SessionStatePart, ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;

fn mode(id: &'static str) -> SessionStatePart {
    SessionStatePart::Mode(id.to_owned())
}

#[test]
fn an_agent_response_is_sent_between_older_and_newer_state_and_ends_no_turn() {
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let mut session = Session::new("/p");
    session.announce_call(
        &"c".into(),
        &"t".into(),
        ToolCallPatch::for_new_call("x", "X", ToolKind::Other),
        now,
    );
    session.send_state_part(mode("a"), now);
    while session.poll(now.monotonic).is_some() {}
    // This mode is set within the update interval of the previous mode, so its update is delayed.
    session.send_state_part(mode("b"), now);
    assert_eq!(session.poll(now.monotonic), None);
    session.enqueue_agent_response(AgentResponseId::new(1), now);
    session.send_state_part(mode("c"), now);
    let mut next = || session.poll(now.monotonic);
    assert_eq!(next(), Some(OutboxItem::State(mode("b"))));
    assert_eq!(next(), Some(OutboxItem::AgentResponse(AgentResponseId::new(1))));
    assert_eq!(next(), None, "a later mode waits for its time");
    assert!(session.board().open_call_report(&"c".into()).is_some(), "its turn goes on");
}
