//! Tests of the outbox: the order, the merging and the deadlines of items.

use super::{FirstReportTiming, Outbox, OutboxCounters, OutboxItem};
use crate::ids::{AgentRequestId, AgentResponseId, PermissionId};
use crate::limits::{DEFAULT_UPDATE_INTERVAL, MAX_FIRST_REPORT_WAIT, MAX_MESSAGE_CHUNK_BYTES};
use acp_types::{MessageChunk, Role, Status, TerminalExit, TerminalPatch, ToolCallPatch};
use pretty_assertions::assert_eq;
use std::time::{Duration, Instant};

/// Enqueues changes of one call in order, then returns every item that is sent.
fn sent_patches(patches: &[(ToolCallPatch, FirstReportTiming)]) -> Vec<ToolCallPatch> {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    for (patch, is_first) in patches {
        outbox.enqueue_or_merge(OutboxItem::ToolCall("c".into(), patch.clone()), *is_first, now);
    }
    outbox.make_all_items_due(now);
    let items = std::iter::from_fn(|| outbox.poll(now));
    let patches = items.map(|item| match item {
        OutboxItem::ToolCall(_, patch) => patch,
        item => panic!("{item:?}"),
    });
    patches.collect()
}

fn title_patch(title: &str) -> ToolCallPatch {
    ToolCallPatch::new().with_title(title)
}

fn status_patch(status: Status) -> ToolCallPatch {
    ToolCallPatch::new().with_status(status)
}

#[test]
fn waiting_patches_are_merged_only_within_a_phase() {
    let running = (status_patch(Status::InProgress), FirstReportTiming::Immediate);
    let done = (status_patch(Status::Completed), FirstReportTiming::NotFirst);
    let change = |title| (title_patch(title), FirstReportTiming::NotFirst);
    let pending = (status_patch(Status::Pending), FirstReportTiming::Immediate);
    assert_eq!(
        sent_patches(&[pending, change("a"), running.clone(), change("b"), done.clone()]),
        [
            status_patch(Status::Pending).with_title("a"),
            status_patch(Status::InProgress).with_title("b"),
            status_patch(Status::Completed),
        ]
    );
    // A title that was enqueued before the start is sent first, in a separate item, even if the
    // title is the only change.
    assert_eq!(
        sent_patches(&[change("a"), running, done.clone()]),
        [title_patch("a"), status_patch(Status::InProgress), status_patch(Status::Completed)]
    );
    // The last change before the end is merged into the end.
    assert_eq!(
        sent_patches(&[change("a"), done]),
        [status_patch(Status::Completed).with_title("a")]
    );
}

#[test]
fn a_call_and_its_terminal_share_one_rate_and_take_turns() {
    let (mut outbox, start) = (Outbox::default(), Instant::now());
    let mut counts = (0, 0);
    for millisecond in 0..1000 {
        let now = start + Duration::from_millis(millisecond);
        let call = OutboxItem::ToolCall("c".into(), title_patch(&millisecond.to_string()));
        outbox.enqueue_or_merge(call, FirstReportTiming::NotFirst, now);
        outbox.enqueue_or_merge(
            OutboxItem::Terminal("c".into(), TerminalPatch::default()),
            FirstReportTiming::NotFirst,
            now,
        );
        match outbox.poll(now) {
            Some(OutboxItem::ToolCall(..)) => counts.0 += 1,
            Some(_) => counts.1 += 1,
            None => {}
        }
    }
    assert_eq!(counts, (10, 10));
}

fn title_item(id: &'static str, title: &str) -> OutboxItem {
    OutboxItem::ToolCall(id.into(), title_patch(title))
}

fn chunk_item(role: Role, message: &str, bytes: usize) -> OutboxItem {
    let (message, text) = (message.to_owned(), "x".repeat(bytes));
    OutboxItem::Chunk(MessageChunk::new(role, message, text))
}

fn text_item(message: &str, text: &str) -> OutboxItem {
    OutboxItem::Chunk(MessageChunk::new(Role::Agent, message.to_owned(), text.to_owned()))
}

/// Returns every item that is due, in order.
fn drain_due(outbox: &mut Outbox, now: Instant) -> Vec<OutboxItem> {
    std::iter::from_fn(|| outbox.poll(now)).collect()
}

/// Returns an outbox that has just sent an update of the call `c` and contains a later update of
/// `c` that is not due.
fn outbox_with_held_report() -> (Outbox, Instant) {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.enqueue_or_merge(title_item("c", "sent"), FirstReportTiming::NotFirst, now);
    assert_eq!(drain_due(&mut outbox, now).len(), 1);
    outbox.enqueue_or_merge(title_item("c", "held"), FirstReportTiming::NotFirst, now);
    assert_eq!(outbox.poll(now), None);
    (outbox, now)
}

#[test]
fn the_next_deadline_is_the_earliest_due_item() {
    let (mut outbox, now) = outbox_with_held_report();
    assert_eq!(outbox.next_deadline(), Some(now + DEFAULT_UPDATE_INTERVAL));
    // This item is later in the queue, but is due earlier.
    outbox.enqueue_or_merge(title_item("d", "other"), FirstReportTiming::NotFirst, now);
    assert_eq!(outbox.next_deadline(), Some(now));
    assert_eq!(drain_due(&mut outbox, now), [title_item("d", "other")]);
    let due = now + DEFAULT_UPDATE_INTERVAL;
    assert_eq!(drain_due(&mut outbox, due), [title_item("c", "held")]);
    assert_eq!((outbox.next_deadline(), outbox.is_empty(), outbox.len()), (None, true, 0));
}

#[test]
fn a_flush_makes_every_item_due() {
    let (mut outbox, now) = outbox_with_held_report();
    outbox.enqueue_or_merge(title_item("d", "other"), FirstReportTiming::NotFirst, now);
    assert_eq!((outbox.is_empty(), outbox.len()), (false, 2));
    outbox.make_all_items_due(now);
    assert_eq!(drain_due(&mut outbox, now), [title_item("c", "held"), title_item("d", "other")]);
}

#[test]
fn a_fence_sends_earlier_items_first_and_no_others() {
    let announcement = || OutboxItem::ToolCall("n".into(), status_patch(Status::Pending));
    let start = || OutboxItem::ToolCall("n".into(), status_patch(Status::InProgress));
    let end = || OutboxItem::ToolCall("n".into(), status_patch(Status::Failed));
    for (fence, is_first) in [
        (announcement(), FirstReportTiming::Immediate),
        (start(), FirstReportTiming::Immediate),
        (end(), FirstReportTiming::NotFirst),
        (OutboxItem::PermissionRequest(PermissionId(1)), FirstReportTiming::NotFirst),
        (OutboxItem::RejectionReasonRequest(PermissionId(1)), FirstReportTiming::NotFirst),
        (OutboxItem::AgentRequest(AgentRequestId::new(1)), FirstReportTiming::NotFirst),
        (OutboxItem::PromptResponse("t".into()), FirstReportTiming::NotFirst),
        (OutboxItem::AgentResponse(AgentResponseId::new(1)), FirstReportTiming::NotFirst),
    ] {
        let (mut outbox, now) = outbox_with_held_report();
        outbox.enqueue_or_merge(fence.clone(), is_first, now);
        assert_eq!(drain_due(&mut outbox, now), [title_item("c", "held"), fence]);
        // After the fence is sent, the rate limit applies again.
        outbox.enqueue_or_merge(title_item("c", "later"), FirstReportTiming::NotFirst, now);
        assert_eq!(outbox.poll(now), None);
    }
    // Resuming is not a first start, so nothing is sent early.
    let (mut outbox, now) = outbox_with_held_report();
    outbox.enqueue_or_merge(start(), FirstReportTiming::NotFirst, now);
    assert_eq!(drain_due(&mut outbox, now), [start()]);
}

#[test]
fn a_withdrawn_request_is_no_longer_a_fence() {
    let (mut outbox, now) = outbox_with_held_report();
    outbox.enqueue_or_merge(
        OutboxItem::PermissionRequest(PermissionId(1)),
        FirstReportTiming::NotFirst,
        now,
    );
    outbox.enqueue_or_merge(
        OutboxItem::RejectionReasonRequest(PermissionId(1)),
        FirstReportTiming::NotFirst,
        now,
    );
    outbox.remove_permission_items(PermissionId(2));
    assert_eq!(outbox.len(), 3);
    outbox.remove_permission_items(PermissionId(1));
    assert_eq!((outbox.len(), outbox.poll(now)), (1, None));
    outbox.enqueue_or_merge(
        OutboxItem::AgentRequest(AgentRequestId::new(1)),
        FirstReportTiming::NotFirst,
        now,
    );
    outbox.remove_permission_items(PermissionId(1));
    assert_eq!(outbox.len(), 2);
    outbox.remove_agent_request(AgentRequestId::new(1));
    assert_eq!((outbox.len(), outbox.poll(now)), (1, None));
    assert_eq!(drain_due(&mut outbox, now + DEFAULT_UPDATE_INTERVAL), [title_item("c", "held")]);
}

#[test]
fn pieces_of_one_message_are_merged_up_to_the_limit() {
    for (first, second, items) in [
        (chunk_item(Role::Agent, "m", 200), chunk_item(Role::Agent, "m", 200), 1),
        (
            chunk_item(Role::Agent, "m", 1),
            chunk_item(Role::Agent, "m", MAX_MESSAGE_CHUNK_BYTES - 1),
            1,
        ),
        (
            chunk_item(Role::Agent, "m", 2),
            chunk_item(Role::Agent, "m", MAX_MESSAGE_CHUNK_BYTES - 1),
            2,
        ),
        // Each control character takes six bytes as JSON.
        (
            chunk_item(Role::Agent, "m", 1),
            text_item("m", &"\u{1}".repeat(MAX_MESSAGE_CHUNK_BYTES / 6)),
            1,
        ),
        (
            chunk_item(Role::Agent, "m", 1),
            text_item("m", &"\u{1}".repeat(MAX_MESSAGE_CHUNK_BYTES / 6 + 1)),
            2,
        ),
        (chunk_item(Role::Agent, "m", 1), chunk_item(Role::Agent, "n", 1), 2),
        (chunk_item(Role::Agent, "m", 1), chunk_item(Role::Thought, "m", 1), 2),
    ] {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        outbox.enqueue_or_merge(first, FirstReportTiming::NotFirst, now);
        outbox.enqueue_or_merge(second, FirstReportTiming::NotFirst, now);
        outbox.make_all_items_due(now);
        assert_eq!(drain_due(&mut outbox, now).len(), items);
    }
}

#[test]
fn messages_that_alternate_are_sent_in_time() {
    let (mut outbox, start) = (Outbox::default(), Instant::now());
    let mut sent = 0;
    for piece in 0_u32..500 {
        let now = start + Duration::from_millis(10) * piece;
        let role = if piece % 2 == 0 { Role::Agent } else { Role::Thought };
        let chunk = chunk_item(role, "m", 1);
        outbox.enqueue_or_merge(chunk, FirstReportTiming::NotFirst, now);
        sent += drain_due(&mut outbox, now).len();
        // A piece waits for at most one interval, in which five pieces arrive.
        assert!(outbox.len() <= 5, "{piece}: {}", outbox.len());
    }
    assert!(sent > 490, "{sent}");
}

#[test]
fn a_plan_is_not_merged_into_a_plan_of_the_turn_before() {
    use acp_types::{Plan, PlanEntry, PlanPriority, PlanStatus};
    let plan = |step: &str| {
        let entry = PlanEntry::new(step, PlanPriority::Medium, PlanStatus::Pending);
        OutboxItem::Plan(Plan::new(vec![entry]))
    };
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let response = OutboxItem::PromptResponse("t".into());
    for item in [plan("a"), plan("b"), response.clone(), plan("c"), plan("d")] {
        outbox.enqueue_or_merge(item, FirstReportTiming::NotFirst, now);
    }
    outbox.make_all_items_due(now);
    assert_eq!(drain_due(&mut outbox, now), [plan("b"), response, plan("d")]);
}

#[test]
fn text_chunks_are_not_merged_across_another_message() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let said =
        [chunk_item(Role::Agent, "m", 1), title_item("c", "a"), chunk_item(Role::Agent, "m", 2)];
    for item in said.clone() {
        outbox.enqueue_or_merge(item, FirstReportTiming::NotFirst, now);
    }
    outbox.make_all_items_due(now);
    assert_eq!(drain_due(&mut outbox, now), said);
}

#[test]
fn a_patch_is_merged_with_its_own_call_past_other_calls() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let pending =
        |title| OutboxItem::ToolCall("c".into(), status_patch(Status::Pending).with_title(title));
    let ended = OutboxItem::ToolCall("d".into(), status_patch(Status::Completed));
    outbox.enqueue_or_merge(pending("a"), FirstReportTiming::Immediate, now);
    outbox.enqueue_or_merge(title_item("d", "its own"), FirstReportTiming::NotFirst, now);
    outbox.enqueue_or_merge(
        OutboxItem::PermissionRequest(PermissionId(1)),
        FirstReportTiming::NotFirst,
        now,
    );
    outbox.enqueue_or_merge(ended.clone(), FirstReportTiming::NotFirst, now);
    outbox.enqueue_or_merge(title_item("c", "b"), FirstReportTiming::NotFirst, now);
    // An item before a fence is not merged into the end of its call after the fence.
    let expected = [
        pending("b"),
        title_item("d", "its own"),
        OutboxItem::PermissionRequest(PermissionId(1)),
        ended,
    ];
    assert_eq!(drain_due(&mut outbox, now), expected);
}

#[test]
fn an_end_absorbs_only_the_last_patch_of_its_call() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.enqueue_or_merge(title_item("c", "last"), FirstReportTiming::NotFirst, now);
    outbox.enqueue_or_merge(title_item("d", "other"), FirstReportTiming::NotFirst, now);
    outbox.enqueue_or_merge(
        OutboxItem::ToolCall("c".into(), status_patch(Status::Failed)),
        FirstReportTiming::NotFirst,
        now,
    );
    let ended = OutboxItem::ToolCall("c".into(), status_patch(Status::Failed).with_title("last"));
    assert_eq!(drain_due(&mut outbox, now), [title_item("d", "other"), ended]);
    outbox.record_undelivered_item();
    let counters = OutboxCounters { enqueued: 3, merged: 1, handed_over: 2, undelivered: 1 };
    assert_eq!(outbox.counters(), counters);
}

#[test]
fn running_is_sent_before_paused() {
    let running = (status_patch(Status::InProgress), FirstReportTiming::Immediate);
    let (paused, on) = (status_patch(Status::Paused), status_patch(Status::InProgress));
    let sent = sent_patches(&[
        running,
        (paused.clone(), FirstReportTiming::NotFirst),
        (on.clone(), FirstReportTiming::NotFirst),
    ]);
    // The pause is merged with the resumption after it, so only `in_progress` is sent a second
    // time.
    assert_eq!(sent, [on.clone(), on]);
    let joined = [
        (title_patch("a"), FirstReportTiming::NotFirst),
        (paused.clone(), FirstReportTiming::NotFirst),
    ];
    assert_eq!(sent_patches(&joined), [paused.with_title("a")]);
}

#[test]
fn a_step_is_not_merged_into_the_previous_phase() {
    let steps = [
        (status_patch(Status::Pending), FirstReportTiming::Immediate),
        (status_patch(Status::InProgress), FirstReportTiming::NotFirst),
    ];
    assert_eq!(
        sent_patches(&steps),
        [status_patch(Status::Pending), status_patch(Status::InProgress)]
    );
}

#[test]
fn the_first_word_of_a_turn_does_not_wait_for_the_interval_of_the_turn_before() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let send = |outbox: &mut Outbox, item: OutboxItem| {
        outbox.enqueue_or_merge(item, FirstReportTiming::NotFirst, now);
        outbox.poll(now).is_some()
    };
    let terminal = || OutboxItem::Terminal("c".into(), TerminalPatch::default());
    let word = || chunk_item(Role::Agent, "m", 1);
    assert!(send(&mut outbox, terminal()) && send(&mut outbox, word()));
    assert!(!send(&mut outbox, word()), "one turn has an interval");
    outbox.make_all_items_due(now);
    outbox.poll(now).unwrap();
    assert!(send(&mut outbox, OutboxItem::PromptResponse("t1".into())));
    assert!(send(&mut outbox, word()));
    // A command in the background goes on.
    assert!(!send(&mut outbox, terminal()));
}

#[test]
fn a_terminal_keeps_its_rate_until_it_has_ended() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let terminal = |patch| OutboxItem::Terminal("c".into(), patch);
    outbox.enqueue_or_merge(
        terminal(TerminalPatch::from_output(b"a")),
        FirstReportTiming::NotFirst,
        now,
    );
    assert_eq!(drain_due(&mut outbox, now).len(), 1);
    outbox.enqueue_or_merge(
        terminal(TerminalPatch::from_exit(TerminalExit::default())),
        FirstReportTiming::NotFirst,
        now,
    );
    assert_eq!(outbox.poll(now), None);
    let due = now + DEFAULT_UPDATE_INTERVAL;
    assert_eq!(outbox.next_deadline(), Some(due));
    assert_eq!(drain_due(&mut outbox, due).len(), 1);
    // The outbox keeps no state for ended calls and terminals.
    assert!(outbox.last_sent.is_empty());
}

fn pending_item(id: &'static str, title: &str) -> OutboxItem {
    OutboxItem::ToolCall(id.into(), status_patch(Status::Pending).with_title(title))
}

#[test]
fn a_report_without_a_title_is_held_and_absorbs_changes() {
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.enqueue_or_merge(pending_item("c", "Edit a file"), FirstReportTiming::Held, now);
    outbox.enqueue_or_merge(chunk_item(Role::Agent, "m", 1), FirstReportTiming::NotFirst, now);
    assert_eq!(drain_due(&mut outbox, now), [chunk_item(Role::Agent, "m", 1)]);
    let due = now + MAX_FIRST_REPORT_WAIT;
    assert_eq!(outbox.next_deadline(), Some(due));
    outbox.enqueue_or_merge(title_item("c", "Edit a.rs"), FirstReportTiming::NotFirst, now);
    assert_eq!(outbox.poll(due - Duration::from_nanos(1)), None);
    assert_eq!(drain_due(&mut outbox, due), [pending_item("c", "Edit a.rs")]);
    assert!(outbox.is_empty());
}

#[test]
fn a_report_with_its_title_is_sent_at_once_after_earlier_items() {
    let (mut outbox, now) = outbox_with_held_report();
    let text = chunk_item(Role::Agent, "m", 1);
    outbox.enqueue_or_merge(text.clone(), FirstReportTiming::NotFirst, now);
    outbox.enqueue_or_merge(pending_item("a", "Edit a file"), FirstReportTiming::Held, now);
    outbox.enqueue_or_merge(pending_item("b", "Edit a file"), FirstReportTiming::Held, now);
    outbox.advance_held_report_deadline(&"x".into(), now, now);
    outbox.advance_held_report_deadline(&"b".into(), now, now);
    // The report that still waits for its title stays held.
    let first = [title_item("c", "held"), text, pending_item("b", "Edit a file")];
    assert_eq!(drain_due(&mut outbox, now), first);
    let soon = now + Duration::from_millis(3);
    outbox.advance_held_report_deadline(&"a".into(), soon, now);
    outbox.advance_held_report_deadline(&"a".into(), now + MAX_FIRST_REPORT_WAIT * 2, now);
    assert_eq!((outbox.poll(now), outbox.next_deadline()), (None, Some(soon)));
    assert_eq!(drain_due(&mut outbox, soon), [pending_item("a", "Edit a file")]);
}

#[test]
fn a_held_report_is_sent_before_a_later_fence() {
    for (fence, is_first) in [
        (OutboxItem::PermissionRequest(PermissionId(1)), FirstReportTiming::NotFirst),
        (OutboxItem::PromptResponse("t".into()), FirstReportTiming::NotFirst),
        (
            OutboxItem::ToolCall("c".into(), status_patch(Status::InProgress)),
            FirstReportTiming::Immediate,
        ),
        (
            OutboxItem::ToolCall("c".into(), status_patch(Status::Failed)),
            FirstReportTiming::NotFirst,
        ),
    ] {
        for is_titled in [false, true] {
            let (mut outbox, now) = (Outbox::default(), Instant::now());
            outbox.enqueue_or_merge(pending_item("c", "Edit a file"), FirstReportTiming::Held, now);
            outbox.enqueue_or_merge(fence.clone(), is_first, now);
            if is_titled {
                outbox.advance_held_report_deadline(&"c".into(), now, now);
            }
            let expected = [pending_item("c", "Edit a file"), fence.clone()];
            assert_eq!(drain_due(&mut outbox, now), expected);
        }
    }
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    outbox.enqueue_or_merge(pending_item("c", "Edit a file"), FirstReportTiming::Held, now);
    outbox.make_all_items_due(now);
    assert_eq!(drain_due(&mut outbox, now), [pending_item("c", "Edit a file")]);
}

#[test]
fn each_compaction_has_its_end() {
    use acp_types::{Compaction, CompactionStatus, SessionStatePart};
    let (mut outbox, now) = (Outbox::default(), Instant::now());
    let updates = [
        ("a", CompactionStatus::InProgress),
        ("a", CompactionStatus::Completed),
        ("b", CompactionStatus::InProgress),
    ];
    for (id, status) in updates {
        let state = SessionStatePart::Compaction(Compaction::new(id, status, Vec::new()));
        outbox.enqueue_or_merge(OutboxItem::State(state), FirstReportTiming::NotFirst, now);
    }
    outbox.make_all_items_due(now);
    let items = std::iter::from_fn(|| outbox.poll(now));
    let sent = items.map(|item| match item {
        OutboxItem::State(SessionStatePart::Compaction(compaction)) => {
            (compaction.id, compaction.status)
        }
        item => panic!("{item:?}"),
    });
    let expected = updates[1..].iter().map(|(id, status)| ((*id).to_owned(), *status));
    assert_eq!(sent.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
