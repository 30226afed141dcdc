//! How a board takes each step.

use super::{Board, End, Moment, Secrets};
use acp_types::{
    CallMeta, Content, FileChange, Operation, Progress, Reason, Status, TerminalPatch, ToolCallId,
    ToolCallPatch, ToolKind, TurnId,
};
use serde_json::json;
use std::time::{Duration, Instant, SystemTime};

fn at(start: Instant, millis: u64) -> Moment {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    Moment { at: start + Duration::from_millis(millis), wall }
}

fn announced(start: Instant) -> (Board, ToolCallId) {
    let (mut board, id) = (Board::default(), ToolCallId::from("c"));
    let patch = ToolCallPatch::announce("read_file", "Read x", ToolKind::Read);
    board.announce(&id, &"t".into(), patch, at(start, 0)).unwrap();
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
    assert_eq!(board.announce(&id, &"t".into(), again, at(start, 4)), None);
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
        board.announce(&id, &"t".into(), ToolCallPatch::announce("x", "X", kind), at(start, 0));
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
        board.announce(&id, &"t".into(), patch, at(start, 0)).unwrap();
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
    board.announce(&id, &"t".into(), patch, at(start, 2)).unwrap();
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
        progress: Some(Progress::new(f64::NAN)),
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

#[test]
fn a_call_names_calls_that_are_known_and_never_makes_a_circle() {
    let start = Instant::now();
    let (mut board, parent) = announced(start);
    let child = ToolCallId::from("d");
    let patch = ToolCallPatch::announce("read_file", "Read y", ToolKind::Read);
    board.announce(&child, &"t".into(), patch, at(start, 1)).unwrap();
    let mut told = |id: &ToolCallId, parent: &str, retry_of: &str| {
        let (parent, retry_of) = (Some(parent.to_owned()), Some(retry_of.to_owned()));
        let dropped = board.counters().fields_dropped;
        let meta = CallMeta { parent, retry_of, ..CallMeta::default() };
        board.change(id, ToolCallPatch::new().meta(meta));
        let meta = &board.tool_call(id).unwrap().meta;
        let dropped = board.counters().fields_dropped - dropped;
        (meta.parent.clone(), meta.retry_of.clone(), dropped)
    };
    let known = |id: &str| Some(id.to_owned());
    assert_eq!(told(&child, "c", "c"), (known("c"), known("c"), 0));
    // It made the child, so the child did not make it.
    assert_eq!(told(&parent, "d", "d"), (None, known("d"), 1));
    assert_eq!(told(&parent, "c", "c"), (None, None, 2));
    assert_eq!(told(&parent, "x", "x"), (None, None, 2));
    // What was known stays.
    assert_eq!(told(&child, "c", "c"), (known("c"), known("c"), 0));
}

#[test]
fn a_call_starts_once_and_what_is_no_end_is_none() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    board.start(&id, at(start, 1)).unwrap();
    assert_eq!(board.start(&id, at(start, 2)), None);
    assert_eq!(board.counters().illegal, 1);
    let paused = End { status: Status::Paused, ..End::completed() };
    let last = board.finish(&id, paused, at(start, 3)).unwrap();
    assert_eq!(last.status, Some(Status::Failed));
    assert_eq!(last.meta.unwrap().reason, Some(Reason::Error));
}

#[test]
fn an_end_tells_nothing_was_left_out_where_nothing_was() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    board.start(&id, at(start, 1)).unwrap();
    let last = board.finish(&id, End::completed(), at(start, 2)).unwrap();
    assert_eq!(last.meta.unwrap().dropped, None);
    assert_eq!((last.raw_output, last.capabilities), (None, None));
}

#[test]
fn a_call_whose_content_is_over_its_bound_is_not_whole() {
    let (mut board, id) = announced(Instant::now());
    let large = Content::text("x".repeat(crate::limits::CONTENT_BYTES));
    board.change(&id, ToolCallPatch::new().append(large));
    assert!(!board.is_whole(&id));
    // Set anew, it is counted anew.
    board.change(&id, ToolCallPatch::new().content(vec![Content::text("x")])).unwrap();
    assert!(board.is_whole(&id));
    assert!(!board.is_whole(&"unknown".into()));
}

#[test]
fn content_fills_its_bounds_exactly() {
    let text = |bytes: usize| Content::text("x".repeat(bytes));
    let frame = text(0).byte_len();
    for (over, kept) in [(0, 2), (1, 1)] {
        let (mut board, id) = announced(Instant::now());
        let rest = crate::limits::CONTENT_BYTES - 2 * frame - 10 + over;
        board.change(&id, ToolCallPatch::new().append(text(10))).unwrap();
        board.change(&id, ToolCallPatch::new().append(text(rest)));
        assert_eq!(board.tool_call(&id).unwrap().content.len(), kept);
        assert_eq!(board.counters().content_dropped, over as u64);
    }
}

#[test]
fn terminals_open_once_end_once_and_are_late_after_that() {
    let (mut board, id) = (Board::default(), acp_types::TerminalId::from("c"));
    let open = || TerminalPatch::open("ls", "/");
    assert!(board.open_terminal(&id, open()).is_some());
    assert_eq!((board.open_terminal(&id, open()), board.counters().illegal), (None, 1));
    assert_eq!(board.terminal_output(&id, b""), None);
    assert!(board.terminal_output(&id, b"x").is_some());
    assert!(board.describe_terminal(&id, open()).is_some());
    assert!(board.terminal_exit(&id, acp_types::Exit::default()).is_some());
    assert_eq!(board.counters().late, 0);
    assert_eq!(board.terminal_exit(&id, acp_types::Exit::default()), None);
    assert_eq!(board.terminal_output(&id, b"y"), None);
    assert_eq!(board.describe_terminal(&id, open()), None);
    assert_eq!(board.counters().late, 3);
    assert_eq!(board.terminal(&id).unwrap().output.to_bytes(), b"x");
    board.forget_terminal(&id);
    assert!(board.terminal(&id).is_none());
}

#[test]
fn a_call_whose_change_is_not_listed_is_not_whole() {
    let (mut board, id) = announced(Instant::now());
    let change = FileChange { unlisted: (1, 1), ..FileChange::new(Operation::Modify, "/p/a") };
    board.change(&id, ToolCallPatch::new().append(Content::Change(change))).unwrap();
    assert!(!board.is_whole(&id));
}

#[test]
fn a_secret_in_a_terminal_makes_its_call_not_whole_and_is_counted() {
    let start = Instant::now();
    let (mut board, id) = announced(start);
    board.set_secrets(Secrets::new(["hunter2-hunter2"]));
    let terminal = acp_types::TerminalId::from("c");
    let patch = TerminalPatch::open("login hunter2-hunter2", "/");
    board.open_terminal(&terminal, patch).unwrap();
    assert!(board.is_whole(&id));
    board.change(&id, ToolCallPatch::new().append(Content::Terminal(terminal.clone()))).unwrap();
    assert!(!board.is_whole(&id));
    board.change(&id, ToolCallPatch::new().title("Log in")).unwrap();
    assert_eq!(board.tool_call(&id).unwrap().meta.dropped.as_ref().unwrap().redacted, 1);
}

#[test]
fn a_note_is_told_once() {
    let (mut board, id) = announced(Instant::now());
    assert!(board.note(&id, "Look.").is_some());
    assert_eq!(board.note(&id, "Look."), None);
    assert_eq!(board.tool_call(&id).unwrap().content, [Content::text("Look.")]);
}

#[test]
fn calls_are_found_by_their_turn_in_the_order_of_their_announcement() {
    let (start, mut board) = (Instant::now(), Board::default());
    for (index, (id, turn)) in [("z", "t"), ("y", "u"), ("x", "t")].into_iter().enumerate() {
        let patch = ToolCallPatch::announce("x", "X", ToolKind::Other);
        board.announce(&id.into(), &turn.into(), patch, at(start, index as u64)).unwrap();
    }
    let ids = |turn: Option<&str>| {
        let turn = turn.map(TurnId::from);
        board.open_calls(turn.as_ref()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!((ids(Some("t")), ids(Some("u"))), (vec!["z".into(), "x".into()], vec!["y".into()]));
    assert_eq!(ids(None), ["z", "y", "x"]);
}

#[test]
fn what_follows_a_title_is_told_once() {
    let (mut board, id) = announced(Instant::now());
    assert!(board.subtitle(&id, Some("1/2")).is_some());
    assert_eq!(board.subtitle(&id, Some("1/2")), None);
    assert!(board.subtitle(&id, None).is_some());
    assert_eq!(board.subtitle(&id, None), None);
}

#[test]
fn an_end_tells_what_its_terminals_wrote_if_it_has_any() {
    for (terminals, written) in [(vec![], None), (vec!["t"], Some(3)), (vec!["t", "u"], Some(6))] {
        let start = Instant::now();
        let (mut board, id) = announced(start);
        for terminal in terminals {
            let patch = TerminalPatch::open("ls", "/");
            board.open_terminal(&terminal.into(), patch).unwrap();
            let shown = Content::Terminal(terminal.into());
            board.change(&id, ToolCallPatch::new().append(shown)).unwrap();
            board.terminal_output(&terminal.into(), b"abc").unwrap();
        }
        let last = board.finish(&id, End::cancelled(Reason::User), at(start, 1)).unwrap();
        assert_eq!(last.meta.unwrap().output_bytes, written);
    }
}
