//! Tests of the board's steps.

use super::{CallBoard, CallEnd, Secrets, SessionConfig, TerminalPiece, Timestamp};
use acp_types::{
    CallEndReason, CallMeta, Content, FileChange, FileChangeOperation, Progress, Status,
    TerminalPatch, ToolCallId, ToolCallPatch, ToolKind, TurnId,
};
use serde_json::json;
use std::time::{Duration, Instant, SystemTime};

fn timestamp_at(start: Instant, millis: u64) -> Timestamp {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    Timestamp { monotonic: start + Duration::from_millis(millis), wall }
}

fn board_with_call(start: Instant) -> (CallBoard, ToolCallId) {
    let (mut board, id) = (CallBoard::default(), ToolCallId::from("c"));
    let patch = ToolCallPatch::for_new_call("read_file", "Read x", ToolKind::Read);
    board.announce_call(&id, &"t".into(), patch, timestamp_at(start, 0)).unwrap();
    (board, id)
}

#[test]
fn a_call_is_timed_from_its_start() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    board.start_or_resume_call(&id, timestamp_at(start, 30)).unwrap();
    let last = board.finish_call(&id, CallEnd::completed(), timestamp_at(start, 75)).unwrap();
    let meta = last.meta.unwrap();
    assert_eq!((meta.queued_ms, meta.duration_ms), (Some(30), Some(45)));
    assert_eq!(meta.started_at, Some(timestamp_at(start, 30).wall));
    assert_eq!(last.status, Some(Status::Completed));
}

#[test]
fn changes_after_the_end_are_dropped_and_counted() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    assert!(
        board
            .finish_call(&id, CallEnd::cancelled(CallEndReason::User), timestamp_at(start, 1))
            .is_some()
    );
    assert_eq!(board.finish_call(&id, CallEnd::completed(), timestamp_at(start, 2)), None);
    assert_eq!(board.update_call(&id, ToolCallPatch::new().with_title("later")), None);
    assert_eq!(board.start_or_resume_call(&id, timestamp_at(start, 3)), None);
    let again = ToolCallPatch::for_new_call("a", "b", ToolKind::Other);
    assert_eq!(board.announce_call(&id, &"t".into(), again, timestamp_at(start, 4)), None);
    assert_eq!(
        (
            board.rejected_change_counters().late_changes,
            board.rejected_change_counters().illegal_steps
        ),
        (3, 1)
    );
}

#[test]
fn a_call_that_never_ran_cannot_complete() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    let last = board.finish_call(&id, CallEnd::completed(), timestamp_at(start, 1)).unwrap();
    assert_eq!(last.status, Some(Status::Failed));
}

#[test]
fn a_change_cannot_set_the_status_or_clear_the_title() {
    let (mut board, id) = board_with_call(Instant::now());
    let patch = ToolCallPatch::new().with_status(Status::Completed).with_title(" ");
    assert_eq!(board.update_call(&id, patch), None);
    assert_eq!(board.open_call_report(&id).unwrap().status, Status::Pending);
}

#[test]
fn a_paused_call_can_resume_but_not_complete() {
    let (mut board, id) = board_with_call(Instant::now());
    let start = Instant::now();
    assert_eq!(board.mark_call_paused(&id), None);
    board.start_or_resume_call(&id, timestamp_at(start, 1)).unwrap();
    assert_eq!(board.mark_call_paused(&id).unwrap().status, Some(Status::Paused));
    assert_eq!(board.mark_call_paused(&id), None);
    // Resuming a call is not a start, so the start time is unchanged.
    let on = board.start_or_resume_call(&id, timestamp_at(start, 9)).unwrap();
    assert_eq!((on.status, on.meta), (Some(Status::InProgress), None));
    board.mark_call_paused(&id).unwrap();
    let last = board.finish_call(&id, CallEnd::completed(), timestamp_at(start, 10)).unwrap();
    assert_eq!(last.status, Some(Status::Failed));
}

#[test]
fn an_end_states_whether_the_call_may_have_had_side_effects() {
    let start = Instant::now();
    let ends = |kind, ran: bool, end: CallEnd| {
        let (mut board, id) = (CallBoard::default(), ToolCallId::from("c"));
        board.announce_call(
            &id,
            &"t".into(),
            ToolCallPatch::for_new_call("x", "X", kind),
            timestamp_at(start, 0),
        );
        if ran {
            board.start_or_resume_call(&id, timestamp_at(start, 1));
        }
        let last = board.finish_call(&id, end, timestamp_at(start, 2)).unwrap();
        last.meta.and_then(|meta| meta.may_have_acted)
    };
    let cancelled = || CallEnd::cancelled(CallEndReason::User);
    assert_eq!(ends(ToolKind::Execute, true, cancelled()), Some(true));
    assert_eq!(ends(ToolKind::Execute, false, cancelled()), Some(false));
    assert_eq!(ends(ToolKind::Read, true, CallEnd::failed(CallEndReason::Error)), Some(false));
    assert_eq!(ends(ToolKind::Execute, true, CallEnd::completed()), None);
}

#[test]
fn repeating_a_failed_call_sets_retry_of() {
    let start = Instant::now();
    let mut board = CallBoard::default();
    let mut live = |id: &str, path: &str, end: CallEnd| {
        let id = ToolCallId::new(id);
        let patch = ToolCallPatch::for_new_call("read_file", "Read", ToolKind::Read);
        board.announce_call(&id, &"t".into(), patch, timestamp_at(start, 0)).unwrap();
        let input = ToolCallPatch::new().with_raw_input(json!({ "path": path }));
        board.update_call(&id, input).unwrap();
        board.start_or_resume_call(&id, timestamp_at(start, 1)).unwrap();
        board.finish_call(&id, end, timestamp_at(start, 2)).unwrap();
        board.history().get(&id).unwrap().meta.retry_of.clone()
    };
    let failed = || CallEnd::failed(CallEndReason::Error);
    assert_eq!(live("a", "x", failed()), None);
    assert_eq!(live("b", "y", CallEnd::completed()), None);
    assert_eq!(live("c", "y", failed()), None);
    assert_eq!(live("d", "x", failed()).as_deref(), Some("a"));
    assert_eq!(live("e", "x", CallEnd::completed()).as_deref(), Some("d"));
}

#[test]
fn a_retry_is_detected_by_the_whole_input_even_if_less_is_shown() {
    let start = Instant::now();
    for raw_bytes in [0, 64, 1024] {
        let mut board = CallBoard::default();
        board.set_config(SessionConfig::default().with_max_raw_bytes(raw_bytes));
        board.set_secrets(Secrets::new(["hunter2-hunter2", "hunter3-hunter3"]));
        let mut fail = |id: &str, input: String| {
            let id = ToolCallId::new(id);
            let patch = ToolCallPatch::for_new_call("read_file", "Read", ToolKind::Read);
            let patch = patch.with_raw_input(json!({ "path": input }));
            board.announce_call(&id, &"t".into(), patch, timestamp_at(start, 0)).unwrap();
            board.finish_call(&id, CallEnd::failed(CallEndReason::Error), timestamp_at(start, 2));
            let report = board.history().get(&id).unwrap();
            let raw = [&report.raw_input, &report.raw_output].into_iter().flatten();
            assert!(raw.map(|raw| raw.to_string().len()).max().unwrap_or(0) <= raw_bytes);
            report.meta.retry_of.clone()
        };
        let long = "x".repeat(100);
        assert_eq!(fail("a", format!("{long}1")), None);
        assert_eq!(fail("b", format!("{long}2")), None, "{raw_bytes}");
        assert_eq!(fail("c", format!("{long}1")).as_deref(), Some("a"), "{raw_bytes}");
        assert_eq!(fail("d", "hunter2-hunter2".to_owned()), None);
        assert_eq!(fail("e", "hunter3-hunter3".to_owned()), None, "{raw_bytes}");
    }
}

#[test]
fn partial_arguments_equal_to_a_failed_call_clear_retry_of() {
    let start = Instant::now();
    let (mut board, first) = board_with_call(start);
    let input = |value| ToolCallPatch::new().with_raw_input(value);
    board.update_call(&first, input(json!({ "path": "x" }))).unwrap();
    board
        .finish_call(&first, CallEnd::failed(CallEndReason::Error), timestamp_at(start, 1))
        .unwrap();
    let id = ToolCallId::from("d");
    let patch = ToolCallPatch::for_new_call("read_file", "Read", ToolKind::Read);
    board.announce_call(&id, &"t".into(), patch, timestamp_at(start, 2)).unwrap();
    board.update_call(&id, input(json!({ "path": "x" }))).unwrap();
    assert_eq!(board.open_call_report(&id).unwrap().meta.retry_of.as_deref(), Some("c"));
    board.update_call(&id, input(json!({ "path": "x", "offset": 9 }))).unwrap();
    assert_eq!(board.open_call_report(&id).unwrap().meta.retry_of, None);
}

#[test]
fn a_truncated_title_is_not_shown_in_full() {
    let (mut board, id) = board_with_call(Instant::now());
    assert!(board.is_shown_in_full(&id));
    let long = "x".repeat(crate::limits::MAX_TITLE_BYTES);
    board.update_call(&id, ToolCallPatch::new().with_title(format!("{long}…"))).unwrap();
    assert!(!board.is_shown_in_full(&id));
}

#[test]
fn an_invalid_field_is_dropped_and_counted() {
    let (mut board, id) = board_with_call(Instant::now());
    let mut meta = CallMeta::default();
    meta.progress = Some(Progress::new(f64::NAN));
    meta.parent = Some("nobody".to_owned());
    meta.retry_of = Some("c".to_owned());
    meta.batch = Some("b".to_owned());
    let mut patch = ToolCallPatch::new();
    patch.name = Some(String::new());
    board.update_call(&id, patch.with_title(" ").with_meta(meta)).unwrap();
    let report = board.open_call_report(&id).unwrap();
    let mut kept = CallMeta::default();
    kept.batch = Some("b".to_owned());
    assert_eq!((report.title.as_str(), &report.meta), ("Read x", &kept));
    assert_eq!(board.rejected_change_counters().fields_dropped, 5);
}

#[test]
fn content_over_its_bound_is_counted() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    board.start_or_resume_call(&id, timestamp_at(start, 1));
    for _ in 0..200 {
        board.update_call(&id, ToolCallPatch::new().with_appended_content(Content::from_text("x")));
    }
    let large = Content::from_text("x".repeat(crate::limits::MAX_CONTENT_BYTES));
    assert_eq!(
        board.open_call_report(&id).unwrap().content.len(),
        crate::limits::MAX_CONTENT_ITEMS
    );
    let end = CallEnd::completed().with_patch(ToolCallPatch::new().with_appended_content(large));
    let last = board.finish_call(&id, end, timestamp_at(start, 2)).unwrap();
    assert_eq!(last.meta.unwrap().dropped.unwrap().items, 73);
}

#[test]
fn parents_must_be_known_and_acyclic() {
    let start = Instant::now();
    let (mut board, parent) = board_with_call(start);
    let child = ToolCallId::from("d");
    let patch = ToolCallPatch::for_new_call("read_file", "Read y", ToolKind::Read);
    board.announce_call(&child, &"t".into(), patch, timestamp_at(start, 1)).unwrap();
    let mut set_and_get = |id: &ToolCallId, parent: &str, retry_of: &str| {
        let (parent, retry_of) = (Some(parent.to_owned()), Some(retry_of.to_owned()));
        let dropped = board.rejected_change_counters().fields_dropped;
        let mut meta = CallMeta::default();
        meta.parent = parent;
        meta.retry_of = retry_of;
        board.update_call(id, ToolCallPatch::new().with_meta(meta));
        let meta = &board.open_call_report(id).unwrap().meta;
        let dropped = board.rejected_change_counters().fields_dropped - dropped;
        (meta.parent.clone(), meta.retry_of.clone(), dropped)
    };
    let known = |id: &str| Some(id.to_owned());
    assert_eq!(set_and_get(&child, "c", "c"), (known("c"), known("c"), 0));
    // `c` is already the parent of `d`, so `d` cannot become the parent of `c`.
    assert_eq!(set_and_get(&parent, "d", "d"), (None, known("d"), 1));
    assert_eq!(set_and_get(&parent, "c", "c"), (None, None, 2));
    assert_eq!(set_and_get(&parent, "x", "x"), (None, None, 2));
    // Setting the same parent again is legal.
    assert_eq!(set_and_get(&child, "c", "c"), (known("c"), known("c"), 0));
}

#[test]
fn a_call_starts_once_and_a_non_final_end_fails() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    board.start_or_resume_call(&id, timestamp_at(start, 1)).unwrap();
    assert_eq!(board.start_or_resume_call(&id, timestamp_at(start, 2)), None);
    assert_eq!(board.rejected_change_counters().illegal_steps, 1);
    let paused = CallEnd { status: Status::Paused, ..CallEnd::completed() };
    let last = board.finish_call(&id, paused, timestamp_at(start, 3)).unwrap();
    assert_eq!(last.status, Some(Status::Failed));
    assert_eq!(last.meta.unwrap().reason, Some(CallEndReason::Error));
}

#[test]
fn a_complete_call_reports_no_losses() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    board.start_or_resume_call(&id, timestamp_at(start, 1)).unwrap();
    let last = board.finish_call(&id, CallEnd::completed(), timestamp_at(start, 2)).unwrap();
    assert_eq!(last.meta.unwrap().dropped, None);
    assert_eq!((last.raw_output, last.capabilities), (None, None));
}

#[test]
fn a_call_with_dropped_content_is_not_shown_in_full() {
    let (mut board, id) = board_with_call(Instant::now());
    let large = Content::from_text("x".repeat(crate::limits::MAX_CONTENT_BYTES));
    board.update_call(&id, ToolCallPatch::new().with_appended_content(large));
    assert!(!board.is_shown_in_full(&id));
    // When content is replaced, the count of omitted content starts at zero again.
    board
        .update_call(&id, ToolCallPatch::new().with_content(vec![Content::from_text("x")]))
        .unwrap();
    assert!(board.is_shown_in_full(&id));
    assert!(!board.is_shown_in_full(&"unknown".into()));
}

#[test]
fn content_fills_its_bounds_exactly() {
    let text = |bytes: usize| Content::from_text("x".repeat(bytes));
    let frame = text(0).approximate_json_len();
    for (over, kept) in [(0, 2), (1, 1)] {
        let (mut board, id) = board_with_call(Instant::now());
        let rest = crate::limits::MAX_CONTENT_BYTES - 2 * frame - 10 + over;
        board.update_call(&id, ToolCallPatch::new().with_appended_content(text(10))).unwrap();
        board.update_call(&id, ToolCallPatch::new().with_appended_content(text(rest)));
        assert_eq!(board.open_call_report(&id).unwrap().content.len(), kept);
        assert_eq!(board.rejected_change_counters().content_dropped, over as u64);
    }
}

#[test]
fn a_terminal_opens_and_ends_once() {
    let (mut board, id) = (CallBoard::default(), acp_types::TerminalId::from("c"));
    let open = || TerminalPatch::for_new_terminal("ls", "/");
    assert!(board.open_terminal(&id, open()).is_some());
    assert_eq!(
        (board.open_terminal(&id, open()), board.rejected_change_counters().illegal_steps),
        (None, 1)
    );
    assert_eq!(board.push_terminal_output(&id, TerminalPiece::Bytes(b"")), None);
    assert!(board.push_terminal_output(&id, TerminalPiece::Bytes(b"x")).is_some());
    assert!(board.update_terminal(&id, open()).is_some());
    assert!(board.exit_terminal(&id, acp_types::TerminalExit::default()).is_some());
    assert_eq!(board.rejected_change_counters().late_changes, 0);
    assert_eq!(board.exit_terminal(&id, acp_types::TerminalExit::default()), None);
    assert_eq!(board.push_terminal_output(&id, TerminalPiece::Bytes(b"y")), None);
    assert_eq!(board.update_terminal(&id, open()), None);
    assert_eq!(board.rejected_change_counters().late_changes, 3);
    assert_eq!(board.terminal(&id).unwrap().output.to_bytes_with_omission_line(), b"x");
    board.forget_terminal(&id);
    assert!(board.terminal(&id).is_none());
}

#[test]
fn a_call_with_an_unlisted_change_is_not_shown_in_full() {
    let (mut board, id) = board_with_call(Instant::now());
    let mut change = FileChange::new(FileChangeOperation::Modify, "/p/a");
    change.unlisted = (1, 1);
    board
        .update_call(&id, ToolCallPatch::new().with_appended_content(Content::Change(change)))
        .unwrap();
    assert!(!board.is_shown_in_full(&id));
}

#[test]
fn a_secret_in_terminal_output_is_counted_as_redacted() {
    let start = Instant::now();
    let (mut board, id) = board_with_call(start);
    board.set_secrets(Secrets::new(["hunter2-hunter2"]));
    let terminal = acp_types::TerminalId::from("c");
    let patch = TerminalPatch::for_new_terminal("login hunter2-hunter2", "/");
    board.open_terminal(&terminal, patch).unwrap();
    assert!(board.is_shown_in_full(&id));
    board
        .update_call(
            &id,
            ToolCallPatch::new().with_appended_content(Content::Terminal(terminal.clone())),
        )
        .unwrap();
    assert!(!board.is_shown_in_full(&id));
    board.update_call(&id, ToolCallPatch::new().with_title("Log in")).unwrap();
    assert_eq!(board.open_call_report(&id).unwrap().meta.dropped.as_ref().unwrap().redacted, 1);
}

#[test]
fn a_long_command_of_a_terminal_is_truncated() {
    let max = crate::limits::MAX_TERMINAL_COMMAND_BYTES;
    for (length, is_whole) in [(max, true), (max + 1, false), (2_000_000, false)] {
        let (mut board, id) = board_with_call(Instant::now());
        let terminal = acp_types::TerminalId::from("c");
        let patch = TerminalPatch::for_new_terminal("x".repeat(length), "/");
        let sent = board.open_terminal(&terminal, patch).unwrap().command.unwrap();
        assert!(sent.len() <= max + 64 && (sent.len() == length) == is_whole, "{}", sent.len());
        assert_eq!(board.terminal(&terminal).unwrap().command.as_ref(), Some(&sent));
        let shown = ToolCallPatch::new().with_appended_content(Content::Terminal(terminal.clone()));
        board.update_call(&id, shown).unwrap();
        assert_eq!(board.is_shown_in_full(&id), is_whole, "{length}");
        // A later command replaces the first one.
        let patch = TerminalPatch::for_new_terminal("ls", "/");
        board.update_terminal(&terminal, patch).unwrap();
        assert!(board.is_shown_in_full(&id));
    }
}

#[test]
fn a_note_is_added_once() {
    let (mut board, id) = board_with_call(Instant::now());
    assert!(board.add_note(&id, "Look.").is_some());
    assert_eq!(board.add_note(&id, "Look."), None);
    assert_eq!(board.open_call_report(&id).unwrap().content, [Content::from_text("Look.")]);
}

#[test]
fn calls_are_found_by_their_turn_in_the_order_of_their_announcement() {
    let (start, mut board) = (Instant::now(), CallBoard::default());
    for (index, (id, turn)) in [("z", "t"), ("y", "u"), ("x", "t")].into_iter().enumerate() {
        let patch = ToolCallPatch::for_new_call("x", "X", ToolKind::Other);
        board
            .announce_call(&id.into(), &turn.into(), patch, timestamp_at(start, index as u64))
            .unwrap();
    }
    let ids = |turn: Option<&str>| {
        let turn = turn.map(TurnId::from);
        board.open_calls(turn.as_ref()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!((ids(Some("t")), ids(Some("u"))), (vec!["z".into(), "x".into()], vec!["y".into()]));
    assert_eq!(ids(None), ["z", "y", "x"]);
}

#[test]
fn a_subtitle_is_sent_once() {
    let (mut board, id) = board_with_call(Instant::now());
    assert!(board.set_subtitle(&id, Some("1/2")).is_some());
    assert_eq!(board.set_subtitle(&id, Some("1/2")), None);
    assert!(board.set_subtitle(&id, None).is_some());
    assert_eq!(board.set_subtitle(&id, None), None);
}

#[test]
fn an_end_reports_the_output_bytes_of_its_terminals() {
    for (terminals, written) in [(vec![], None), (vec!["t"], Some(3)), (vec!["t", "u"], Some(6))] {
        let start = Instant::now();
        let (mut board, id) = board_with_call(start);
        for terminal in terminals {
            let patch = TerminalPatch::for_new_terminal("ls", "/");
            board.open_terminal(&terminal.into(), patch).unwrap();
            let shown = Content::Terminal(terminal.into());
            board.update_call(&id, ToolCallPatch::new().with_appended_content(shown)).unwrap();
            board.push_terminal_output(&terminal.into(), TerminalPiece::Bytes(b"abc")).unwrap();
        }
        let last = board
            .finish_call(&id, CallEnd::cancelled(CallEndReason::User), timestamp_at(start, 1))
            .unwrap();
        assert_eq!(last.meta.unwrap().output_bytes, written);
    }
}
