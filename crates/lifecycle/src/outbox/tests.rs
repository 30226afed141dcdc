//! What waits, what is joined, and what goes first.

use super::{Counters, IsFirst, Item, Outbox};
use crate::ids::{ClientRequestId, PermissionId, ResponseId};
use crate::limits::{CHUNK_BYTES, FIRST_REPORT_WAIT, UPDATE_INTERVAL};
use acp_types::{Chunk, Exit, Role, Status, TerminalPatch, ToolCallPatch};
use pretty_assertions::assert_eq;
use std::time::{Duration, Instant};

/// Offers changes of one call in turn, then takes all of them.
fn sent(patches: &[(ToolCallPatch, IsFirst)]) -> Vec<ToolCallPatch> {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    for (patch, is_first) in patches {
        outbox.offer(Item::ToolCall("c".into(), patch.clone()), *is_first, now);
    }
    outbox.flush(now);
    let items = std::iter::from_fn(|| outbox.poll(now));
    let patches = items.map(|item| match item {
        Item::ToolCall(_, patch) => patch,
        item => panic!("{item:?}"),
    });
    patches.collect()
}

fn titled(title: &str) -> ToolCallPatch {
    ToolCallPatch::new().title(title)
}

fn status(status: Status) -> ToolCallPatch {
    ToolCallPatch::new().status(status)
}

#[test]
fn what_waits_is_joined_within_its_segment_only() {
    let running = (status(Status::InProgress), IsFirst::Yes);
    let done = (status(Status::Completed), IsFirst::No);
    let change = |title| (titled(title), IsFirst::No);
    let pending = (status(Status::Pending), IsFirst::Yes);
    assert_eq!(
        sent(&[pending, change("a"), running.clone(), change("b"), done.clone()]),
        [
            status(Status::Pending).title("a"),
            status(Status::InProgress).title("b"),
            status(Status::Completed),
        ]
    );
    // A title that was offered before the start is told before it, though it waits alone.
    assert_eq!(
        sent(&[change("a"), running, done.clone()]),
        [titled("a"), status(Status::InProgress), status(Status::Completed)]
    );
    // The last change goes with the end.
    assert_eq!(sent(&[change("a"), done]), [status(Status::Completed).title("a")]);
}

#[test]
fn a_call_and_its_terminal_share_one_rate_and_take_turns() {
    let (mut outbox, start) = (Outbox::default(), Instant::now());
    let mut counts = (0, 0);
    for millisecond in 0..1000 {
        let now = start + Duration::from_millis(millisecond);
        let call = Item::ToolCall("c".into(), titled(&millisecond.to_string()));
        outbox.offer(call, IsFirst::No, now);
        outbox.offer(Item::Terminal("c".into(), TerminalPatch::default()), IsFirst::No, now);
        match outbox.poll(now) {
            Some(Item::ToolCall(..)) => counts.0 += 1,
            Some(_) => counts.1 += 1,
            None => {}
        }
    }
    assert_eq!(counts, (10, 10));
}

fn change(id: &'static str, title: &str) -> Item {
    Item::ToolCall(id.into(), titled(title))
}

fn chunk(role: Role, message: &str, bytes: usize) -> Item {
    let (message, text) = (message.to_owned(), "x".repeat(bytes));
    Item::Chunk(Chunk { role, message, text })
}

/// Everything that goes at once, in order.
fn taken(outbox: &mut Outbox, now: Instant) -> Vec<Item> {
    std::iter::from_fn(|| outbox.poll(now)).collect()
}

/// An outbox that has just sent an update of `c`, and holds another, which is not due yet.
fn held_back() -> (Outbox, Instant) {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.offer(change("c", "sent"), IsFirst::No, now);
    assert_eq!(taken(&mut outbox, now).len(), 1);
    outbox.offer(change("c", "held"), IsFirst::No, now);
    assert_eq!(outbox.poll(now), None);
    (outbox, now)
}

#[test]
fn the_driver_is_woken_for_whatever_is_due_first() {
    let (mut outbox, now) = held_back();
    assert_eq!(outbox.next_deadline(), Some(now + UPDATE_INTERVAL));
    // Behind it in the queue, before it in time.
    outbox.offer(change("d", "other"), IsFirst::No, now);
    assert_eq!(outbox.next_deadline(), Some(now));
    assert_eq!(taken(&mut outbox, now), [change("d", "other")]);
    let due = now + UPDATE_INTERVAL;
    assert_eq!(taken(&mut outbox, due), [change("c", "held")]);
    assert_eq!((outbox.next_deadline(), outbox.is_empty(), outbox.len()), (None, true, 0));
}

#[test]
fn a_flush_lets_everything_go_at_once() {
    let (mut outbox, now) = held_back();
    outbox.offer(change("d", "other"), IsFirst::No, now);
    assert_eq!((outbox.is_empty(), outbox.len()), (false, 2));
    outbox.flush(now);
    assert_eq!(taken(&mut outbox, now), [change("c", "held"), change("d", "other")]);
}

#[test]
fn what_was_offered_before_a_fence_goes_before_it_and_nothing_else_is_hurried() {
    let announcement = || Item::ToolCall("n".into(), status(Status::Pending));
    let start = || Item::ToolCall("n".into(), status(Status::InProgress));
    let end = || Item::ToolCall("n".into(), status(Status::Failed));
    for (fence, is_first) in [
        (announcement(), IsFirst::Yes),
        (start(), IsFirst::Yes),
        (end(), IsFirst::No),
        (Item::Permission(PermissionId(1)), IsFirst::No),
        (Item::Reason(PermissionId(1)), IsFirst::No),
        (Item::Request(ClientRequestId::new(1)), IsFirst::No),
        (Item::Answer("t".into()), IsFirst::No),
        (Item::Response(ResponseId::new(1)), IsFirst::No),
    ] {
        let (mut outbox, now) = held_back();
        outbox.offer(fence.clone(), is_first, now);
        assert_eq!(taken(&mut outbox, now), [change("c", "held"), fence]);
        // The fence is gone: the rate holds again.
        outbox.offer(change("c", "later"), IsFirst::No, now);
        assert_eq!(outbox.poll(now), None);
    }
    // Going on is no first start: nothing is hurried.
    let (mut outbox, now) = held_back();
    outbox.offer(start(), IsFirst::No, now);
    assert_eq!(taken(&mut outbox, now), [start()]);
}

#[test]
fn a_request_that_is_withdrawn_hurries_nothing_and_takes_nothing_with_it() {
    let (mut outbox, now) = held_back();
    outbox.offer(Item::Permission(PermissionId(1)), IsFirst::No, now);
    outbox.offer(Item::Reason(PermissionId(1)), IsFirst::No, now);
    outbox.withdraw(PermissionId(2));
    assert_eq!(outbox.len(), 3);
    outbox.withdraw(PermissionId(1));
    assert_eq!((outbox.len(), outbox.poll(now)), (1, None));
    outbox.offer(Item::Request(ClientRequestId::new(1)), IsFirst::No, now);
    outbox.withdraw(PermissionId(1));
    assert_eq!(outbox.len(), 2);
    outbox.withdraw_request(ClientRequestId::new(1));
    assert_eq!((outbox.len(), outbox.poll(now)), (1, None));
    assert_eq!(taken(&mut outbox, now + UPDATE_INTERVAL), [change("c", "held")]);
}

#[test]
fn pieces_of_one_message_join_up_to_their_bound() {
    for (first, second, items) in [
        (chunk(Role::Agent, "m", 200), chunk(Role::Agent, "m", 200), 1),
        (chunk(Role::Agent, "m", 1), chunk(Role::Agent, "m", CHUNK_BYTES - 1), 1),
        (chunk(Role::Agent, "m", 2), chunk(Role::Agent, "m", CHUNK_BYTES - 1), 2),
        (chunk(Role::Agent, "m", 1), chunk(Role::Agent, "n", 1), 2),
        (chunk(Role::Agent, "m", 1), chunk(Role::Thought, "m", 1), 2),
    ] {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        outbox.offer(first, IsFirst::No, now);
        outbox.offer(second, IsFirst::No, now);
        outbox.flush(now);
        assert_eq!(taken(&mut outbox, now).len(), items);
    }
}

#[test]
fn text_does_not_join_past_what_was_said_between() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let said = [chunk(Role::Agent, "m", 1), change("c", "a"), chunk(Role::Agent, "m", 2)];
    for item in said.clone() {
        outbox.offer(item, IsFirst::No, now);
    }
    outbox.flush(now);
    assert_eq!(taken(&mut outbox, now), said);
}

#[test]
fn a_change_joins_its_own_call_whatever_waits_of_others() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let pending = |title| Item::ToolCall("c".into(), status(Status::Pending).title(title));
    let ended = Item::ToolCall("d".into(), status(Status::Completed));
    outbox.offer(pending("a"), IsFirst::Yes, now);
    outbox.offer(change("d", "its own"), IsFirst::No, now);
    outbox.offer(Item::Permission(PermissionId(1)), IsFirst::No, now);
    outbox.offer(ended.clone(), IsFirst::No, now);
    outbox.offer(change("c", "b"), IsFirst::No, now);
    // What stands before a fence does not go behind it with the end.
    let expected = [pending("b"), change("d", "its own"), Item::Permission(PermissionId(1)), ended];
    assert_eq!(taken(&mut outbox, now), expected);
}

#[test]
fn an_end_takes_the_last_change_of_its_own_call_alone() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.offer(change("c", "last"), IsFirst::No, now);
    outbox.offer(change("d", "other"), IsFirst::No, now);
    outbox.offer(Item::ToolCall("c".into(), status(Status::Failed)), IsFirst::No, now);
    let ended = Item::ToolCall("c".into(), status(Status::Failed).title("last"));
    assert_eq!(taken(&mut outbox, now), [change("d", "other"), ended]);
    outbox.count_undelivered();
    let counters = Counters { offered: 3, joined: 1, handed_over: 2, undelivered: 1 };
    assert_eq!(outbox.counters(), counters);
}

#[test]
fn a_call_is_seen_to_run_before_it_is_seen_to_pause() {
    let running = (status(Status::InProgress), IsFirst::Yes);
    let (paused, on) = (status(Status::Paused), status(Status::InProgress));
    let sent = sent(&[running, (paused.clone(), IsFirst::No), (on.clone(), IsFirst::No)]);
    // What waits behind the start wins.
    assert_eq!(sent, [on.clone(), on]);
    let joined = [(titled("a"), IsFirst::No), (paused.clone(), IsFirst::No)];
    assert_eq!(self::sent(&joined), [paused.title("a")]);
}

#[test]
fn a_step_is_not_joined_to_the_segment_before_it() {
    let steps =
        [(status(Status::Pending), IsFirst::Yes), (status(Status::InProgress), IsFirst::No)];
    assert_eq!(sent(&steps), [status(Status::Pending), status(Status::InProgress)]);
}

#[test]
fn a_terminal_keeps_its_rate_until_it_has_ended() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let terminal = |patch| Item::Terminal("c".into(), patch);
    outbox.offer(terminal(TerminalPatch::output(b"a")), IsFirst::No, now);
    assert_eq!(taken(&mut outbox, now).len(), 1);
    outbox.offer(terminal(TerminalPatch::exit(Exit::default())), IsFirst::No, now);
    assert_eq!(outbox.poll(now), None);
    let due = now + UPDATE_INTERVAL;
    assert_eq!(outbox.next_deadline(), Some(due));
    assert_eq!(taken(&mut outbox, due).len(), 1);
    // Nothing is remembered of what has ended.
    assert!(outbox.sent.is_empty());
}

fn pending(id: &'static str, title: &str) -> Item {
    Item::ToolCall(id.into(), status(Status::Pending).title(title))
}

#[test]
fn a_report_without_its_title_is_held_for_a_while_and_takes_what_changes_meanwhile() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.offer(pending("c", "Edit a file"), IsFirst::Held, now);
    outbox.offer(chunk(Role::Agent, "m", 1), IsFirst::No, now);
    assert_eq!(taken(&mut outbox, now), [chunk(Role::Agent, "m", 1)]);
    let due = now + FIRST_REPORT_WAIT;
    assert_eq!(outbox.next_deadline(), Some(due));
    outbox.offer(change("c", "Edit a.rs"), IsFirst::No, now);
    assert_eq!(outbox.poll(due - Duration::from_nanos(1)), None);
    assert_eq!(taken(&mut outbox, due), [pending("c", "Edit a.rs")]);
    assert!(outbox.is_empty());
}

#[test]
fn a_report_that_got_its_title_goes_at_once_behind_what_was_said_before_it() {
    let (mut outbox, now) = held_back();
    let text = chunk(Role::Agent, "m", 1);
    outbox.offer(text.clone(), IsFirst::No, now);
    outbox.offer(pending("a", "Edit a file"), IsFirst::Held, now);
    outbox.offer(pending("b", "Edit a file"), IsFirst::Held, now);
    outbox.hasten(&"x".into(), now, now);
    outbox.hasten(&"b".into(), now, now);
    // The one that still waits for its title is not driven on by the other.
    let first = [change("c", "held"), text, pending("b", "Edit a file")];
    assert_eq!(taken(&mut outbox, now), first);
    let soon = now + Duration::from_millis(3);
    outbox.hasten(&"a".into(), soon, now);
    outbox.hasten(&"a".into(), now + FIRST_REPORT_WAIT * 2, now);
    assert_eq!((outbox.poll(now), outbox.next_deadline()), (None, Some(soon)));
    assert_eq!(taken(&mut outbox, soon), [pending("a", "Edit a file")]);
}

#[test]
fn a_held_report_goes_before_whatever_has_to_stand_behind_it() {
    for (fence, is_first) in [
        (Item::Permission(PermissionId(1)), IsFirst::No),
        (Item::Answer("t".into()), IsFirst::No),
        (Item::ToolCall("c".into(), status(Status::InProgress)), IsFirst::Yes),
        (Item::ToolCall("c".into(), status(Status::Failed)), IsFirst::No),
    ] {
        for is_titled in [false, true] {
            let (mut outbox, now) = (Outbox::default(), Instant::now());
            outbox.offer(pending("c", "Edit a file"), IsFirst::Held, now);
            outbox.offer(fence.clone(), is_first, now);
            if is_titled {
                outbox.hasten(&"c".into(), now, now);
            }
            let expected = [pending("c", "Edit a file"), fence.clone()];
            assert_eq!(taken(&mut outbox, now), expected);
        }
    }
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.offer(pending("c", "Edit a file"), IsFirst::Held, now);
    outbox.flush(now);
    assert_eq!(taken(&mut outbox, now), [pending("c", "Edit a file")]);
}

#[test]
fn each_compaction_has_its_end() {
    use acp_types::{Compaction, CompactionStatus, SessionState};
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let updates = [
        ("a", CompactionStatus::InProgress),
        ("a", CompactionStatus::Completed),
        ("b", CompactionStatus::InProgress),
    ];
    for (id, status) in updates {
        let state = SessionState::Compaction(Compaction::new(id, status, Vec::new()));
        outbox.offer(Item::State(state), IsFirst::No, now);
    }
    outbox.flush(now);
    let items = std::iter::from_fn(|| outbox.poll(now));
    let sent = items.map(|item| match item {
        Item::State(SessionState::Compaction(compaction)) => (compaction.id, compaction.status),
        item => panic!("{item:?}"),
    });
    let expected = updates[1..].iter().map(|(id, status)| ((*id).to_owned(), *status));
    assert_eq!(sent.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
