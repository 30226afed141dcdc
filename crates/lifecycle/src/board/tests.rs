//! How a board takes each step.

use super::{Board, End, Moment};
use acp_types::{CallMeta, Content, Progress, Reason, Status, ToolCallId, ToolCallPatch, ToolKind};
use serde_json::json;
use std::time::{Duration, Instant, SystemTime};

fn at(start: Instant, millis: u64) -> Moment {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    Moment { at: start + Duration::from_millis(millis), wall }
}

fn announced(start: Instant) -> (Board, ToolCallId) {
    let (mut board, id) = (Board::default(), ToolCallId::from("c"));
    let patch = ToolCallPatch::announce("read_file", "Read x", ToolKind::Read);
    board.announce(&id, "t", patch, at(start, 0)).unwrap();
    (board, id)
}

#[test]
fn a_call_is_timed_from_its_start() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    board.start(&id, at(start, 30)).unwrap();
    let last = board.finish(&id, End::completed(), at(start, 75)).unwrap();
    let meta = last.meta.unwrap();
    assert_eq!((meta.queued_ms, meta.duration_ms), (Some(30), Some(45)));
    assert_eq!(meta.started_at, Some(at(start, 30).wall));
    assert_eq!(last.status, Some(Status::Completed));
}

#[test]
fn nothing_follows_an_end() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    assert!(board.finish(&id, End::cancelled(Reason::User), at(start, 1)).is_some());
    assert_eq!(board.finish(&id, End::completed(), at(start, 2)), None);
    assert_eq!(board.change(&id, ToolCallPatch::new().title("later")), None);
    assert_eq!(board.start(&id, at(start, 3)), None);
    let again = ToolCallPatch::announce("a", "b", ToolKind::Other);
    assert_eq!(board.announce(&id, "t", again, at(start, 4)), None);
    assert_eq!((board.counters().late, board.counters().illegal), (3, 1));
}

#[test]
fn a_call_that_never_ran_cannot_complete() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    let last = board.finish(&id, End::completed(), at(start, 1)).unwrap();
    assert_eq!(last.status, Some(Status::Failed));
}

#[test]
fn a_change_cannot_set_the_status_or_clear_the_title() {
    let (mut board, id) = announced(Instant::now());
    let patch = ToolCallPatch::new().status(Status::Completed).title(" ");
    assert_eq!(board.change(&id, patch), None);
    assert_eq!(board.tool_call(&id).unwrap().status, Status::Pending);
}

#[test]
fn a_paused_call_goes_on_but_cannot_complete_as_it_is() {
    let (mut board, id) = announced(Instant::now());
    let start = Instant::now();
    assert_eq!(board.pause(&id), None);
    board.start(&id, at(start, 1)).unwrap();
    assert_eq!(board.pause(&id).unwrap().status, Some(Status::Paused));
    assert_eq!(board.pause(&id), None);
    // Going on is not starting: the time of the start stays.
    let on = board.start(&id, at(start, 9)).unwrap();
    assert_eq!((on.status, on.meta), (Some(Status::InProgress), None));
    board.pause(&id).unwrap();
    let last = board.finish(&id, End::completed(), at(start, 10)).unwrap();
    assert_eq!(last.status, Some(Status::Failed));
}

#[test]
fn an_end_tells_whether_the_call_may_have_acted() {
    let start = Instant::now();
    let ends = |kind, ran: bool, end: End| {
        let (mut board, id) = (Board::default(), ToolCallId::from("c"));
        board.announce(&id, "t", ToolCallPatch::announce("x", "X", kind), at(start, 0));
        if ran {
            board.start(&id, at(start, 1));
        }
        let last = board.finish(&id, end, at(start, 2)).unwrap();
        last.meta.and_then(|meta| meta.may_have_acted)
    };
    let cancelled = || End::cancelled(Reason::User);
    assert_eq!(ends(ToolKind::Execute, true, cancelled()), Some(true));
    assert_eq!(ends(ToolKind::Execute, false, cancelled()), Some(false));
    assert_eq!(ends(ToolKind::Read, true, End::failed(Reason::Error)), Some(false));
    assert_eq!(ends(ToolKind::Execute, true, End::completed()), None);
}

#[test]
fn a_call_that_tries_a_failed_one_again_says_so() {
    let start = Instant::now();
    let mut board = Board::default();
    let mut live = |id: &str, path: &str, end: End| {
        let id = ToolCallId::new(id);
        let patch = ToolCallPatch::announce("read_file", "Read", ToolKind::Read);
        board.announce(&id, "t", patch, at(start, 0)).unwrap();
        let input = ToolCallPatch::new().raw_input(json!({ "path": path }));
        board.change(&id, input).unwrap();
        board.start(&id, at(start, 1)).unwrap();
        board.finish(&id, end, at(start, 2)).unwrap();
        board.history().get(&id).unwrap().meta.retry_of.clone()
    };
    let failed = || End::failed(Reason::Error);
    assert_eq!(live("a", "x", failed()), None);
    assert_eq!(live("b", "y", End::completed()), None);
    assert_eq!(live("c", "y", failed()), None);
    assert_eq!(live("d", "x", failed()).as_deref(), Some("a"));
    assert_eq!(live("e", "x", End::completed()).as_deref(), Some("d"));
}

#[test]
fn arguments_that_only_began_like_those_of_a_failed_call_are_no_retry() {
    let start = Instant::now();
    let (mut board, first) = announced(start);
    let input = |value| ToolCallPatch::new().raw_input(value);
    board.change(&first, input(json!({ "path": "x" }))).unwrap();
    board.finish(&first, End::failed(Reason::Error), at(start, 1)).unwrap();
    let id = ToolCallId::from("d");
    let patch = ToolCallPatch::announce("read_file", "Read", ToolKind::Read);
    board.announce(&id, "t", patch, at(start, 2)).unwrap();
    board.change(&id, input(json!({ "path": "x" }))).unwrap();
    assert_eq!(board.tool_call(&id).unwrap().meta.retry_of.as_deref(), Some("c"));
    board.change(&id, input(json!({ "path": "x", "offset": 9 }))).unwrap();
    assert_eq!(board.tool_call(&id).unwrap().meta.retry_of, None);
}

#[test]
fn a_title_that_is_cut_is_not_whole_however_it_ended() {
    let (mut board, id) = announced(Instant::now());
    assert!(board.is_whole(&id));
    let long = "x".repeat(crate::limits::BASE_BYTES);
    board.change(&id, ToolCallPatch::new().title(format!("{long}…"))).unwrap();
    assert!(!board.is_whole(&id));
}

#[test]
fn a_field_that_means_nothing_is_dropped_and_counted() {
    let (mut board, id) = announced(Instant::now());
    let meta = CallMeta {
        progress: Some(Progress { current: f64::NAN, total: None, message: None }),
        parent: Some("nobody".to_owned()),
        retry_of: Some("c".to_owned()),
        batch: Some("b".to_owned()),
        ..CallMeta::default()
    };
    let patch = ToolCallPatch { name: Some(String::new()), ..ToolCallPatch::new() };
    board.change(&id, patch.title(" ").meta(meta)).unwrap();
    let report = board.tool_call(&id).unwrap();
    let kept = CallMeta { batch: Some("b".to_owned()), ..CallMeta::default() };
    assert_eq!((report.title.as_str(), &report.meta), ("Read x", &kept));
    assert_eq!(board.counters().fields_dropped, 5);
}

#[test]
fn content_over_its_bound_is_counted() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    board.start(&id, at(start, 1));
    for _ in 0..200 {
        board.change(&id, ToolCallPatch::new().append(Content::text("x")));
    }
    let large = Content::text("x".repeat(crate::limits::CONTENT_BYTES));
    assert_eq!(board.tool_call(&id).unwrap().content.len(), crate::limits::CONTENT_ITEMS);
    let end = End::completed().with(ToolCallPatch::new().append(large));
    let last = board.finish(&id, end, at(start, 2)).unwrap();
    assert_eq!(last.meta.unwrap().dropped.unwrap().items, 73);
}
