//! How a session takes single steps: turns, traces, the close, what it shows.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{End, Item, Moment, Session};
use acp_types::{
    Chunk, Plan, Progress, Reason, Role, Status, ToolCallId, ToolCallPatch, ToolKind, Trace, TurnId,
};
use pretty_assertions::assert_eq;

/// Open turns whose trace is passed on.
const TRACED_TURNS: usize = 64;

/// Answered turns that are remembered.
const ENDED_TURNS: usize = 64;

fn now() -> Moment {
    Moment { at: Instant::now(), wall: SystemTime::UNIX_EPOCH }
}

fn announcement() -> ToolCallPatch {
    ToolCallPatch::announce("tool", "Tool", ToolKind::Other)
}

fn trace(number: usize) -> Trace {
    Trace { traceparent: Some(format!("00-{number}")), ..Trace::default() }
}

#[test]
fn as_many_open_turns_as_are_promised_have_a_trace() {
    let (mut session, now) = (Session::new("/p"), now());
    // Those without one take no place.
    for number in 0..TRACED_TURNS {
        session.trace_turn(&format!("none{number}").into(), Trace::default());
    }
    for number in 0..=TRACED_TURNS {
        session.trace_turn(&number.to_string().into(), trace(number));
    }
    let told = |session: &mut Session, id: &'static str, turn: usize| {
        let id = ToolCallId::from(id);
        assert!(session.announce(&id, &turn.to_string().into(), announcement(), now));
        session.board().tool_call(&id).unwrap().meta.trace.clone()
    };
    let last = TRACED_TURNS - 1;
    assert_eq!(told(&mut session, "a", 0), trace(0));
    assert_eq!(told(&mut session, "b", last), trace(last));
    assert_eq!(told(&mut session, "c", last + 1), Trace::default());
    // A turn that is over makes room.
    session.end_turn(&"0".into(), Reason::Turn, now);
    session.trace_turn(&"again".into(), trace(7));
    assert!(session.announce(&"d".into(), &"again".into(), announcement(), now));
    assert_eq!(session.board().tool_call(&"d".into()).unwrap().meta.trace, trace(7));
}

#[test]
fn nothing_is_posted_in_any_of_the_newest_turns_that_were_answered() {
    let (mut session, now) = (Session::new("/p"), now());
    let turns: Vec<_> = (0..ENDED_TURNS).map(|number| TurnId::from(number.to_string())).collect();
    turns.iter().for_each(|turn| session.end_turn(turn, Reason::Turn, now));
    for turn in &turns {
        assert!(!session.announce(&"c".into(), turn, announcement(), now), "{turn}");
    }
}

#[test]
fn the_end_of_a_turn_ends_its_own_calls() {
    let (mut session, now) = (Session::new("/p"), now());
    for (id, turn) in [("a", "t"), ("b", "u")] {
        session.announce(&id.into(), &turn.into(), announcement(), now);
    }
    session.end_turn(&"t".into(), Reason::Turn, now);
    let open = |session: &Session| session.board().open_calls(None);
    assert_eq!(open(&session), ["b".into()]);
    session.end_all(Reason::Shutdown, now);
    assert_eq!(open(&session), []);
}

#[test]
fn what_ends_with_its_turn_while_the_session_closes_ends_for_that() {
    let (mut session, now) = (Session::new("/p"), now());
    let ends = |session: &mut Session, id: &'static str, reason| {
        let id = ToolCallId::from(id);
        session.announce(&id, &"t".into(), announcement(), now);
        session.finish(&id, End::cancelled(reason), now);
        session.board().history().get(&id).unwrap().meta.reason
    };
    assert!(!session.is_closing());
    assert_eq!(ends(&mut session, "a", Reason::Turn), Some(Reason::Turn));
    session.close();
    assert!(session.is_closing());
    assert_eq!(ends(&mut session, "b", Reason::Turn), Some(Reason::Shutdown));
    assert_eq!(ends(&mut session, "c", Reason::User), Some(Reason::User));
}

#[test]
fn a_start_says_whether_the_call_runs() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    assert!(!session.start(&id, now));
    assert!(session.announce(&id, &"t".into(), announcement(), now));
    assert!(!session.announce(&id, &"t".into(), announcement(), now));
    assert!(session.start(&id, now));
    session.finish(&id, End::completed(), now);
    assert!(!session.start(&id, now));
}

#[test]
fn what_somebody_else_says_again_is_no_fault() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    let told = |status| announcement().status(status);
    let status = |session: &Session| session.board().tool_call(&id).unwrap().status;
    session.upsert(&id, &"t".into(), told(Status::Pending), now);
    assert_eq!(status(&session), Status::Pending);
    for expected in [Status::InProgress, Status::InProgress, Status::Paused, Status::InProgress] {
        session.upsert(&id, &"t".into(), told(expected), now);
        assert_eq!(status(&session), expected);
    }
    session.upsert(&id, &"t".into(), told(Status::Completed), now);
    let report = session.board().history().get(&id).unwrap();
    assert_eq!((report.status, report.title.as_str()), (Status::Completed, "Tool"));
    assert_eq!((session.board().counters().illegal, session.board().counters().late), (0, 0));
}

#[test]
fn whatever_a_session_sends_goes_through_its_outbox() {
    let (mut session, now) = (Session::new("/p"), now());
    let text = "Hello.".to_owned();
    let chunk = Chunk { role: Role::Agent, message: "m".to_owned(), text };
    session.say(chunk.clone(), now);
    session.say(Chunk { text: String::new(), ..chunk.clone() }, now);
    session.plan(Plan::default(), now);
    assert_eq!(session.outbox().len(), 2);
    let items = std::iter::from_fn(|| session.poll(now.at));
    assert_eq!(items.collect::<Vec<_>>(), [Item::Chunk(chunk), Item::Plan(Plan::default())]);
    assert_eq!(session.usage().updates.offered, 2);
}

#[test]
fn credentials_in_a_message_are_hidden_also_where_no_secret_is_known() {
    let (mut session, now) = (Session::new("/p"), now());
    for text in ["Send Authorization: Bea", "rer abc123456.\n"] {
        let (role, message) = (Role::Agent, "m".to_owned());
        session.say(Chunk { role, message, text: text.to_owned() }, now);
    }
    session.plan(Plan::default(), now);
    let mut said = String::new();
    while let Some(item) = session.poll(now.at) {
        if let Item::Chunk(chunk) = item {
            said += &chunk.text;
        }
    }
    assert_eq!(said, "Send Authorization: Bearer [redacted]\n");
}

#[test]
fn progress_is_told_in_the_metadata_and_behind_the_title() {
    let (mut session, now, id) = (Session::new("/p"), now(), ToolCallId::from("c"));
    session.announce(&id, &"t".into(), announcement(), now);
    let progress = Progress::new(1.0).with_total(2.0).with_message("copying".to_owned());
    session.progress(&id, progress.clone(), now);
    let report = session.board().tool_call(&id).unwrap();
    assert_eq!(report.meta.progress, Some(progress));
    assert!(report.title.starts_with("Tool") && report.title.contains("copying"), "{report:?}");
    session.subtitle(&id, Some("resting"), now);
    assert!(session.board().tool_call(&id).unwrap().title.ends_with("resting"));
    session.subtitle(&id, None, now);
    assert_eq!(session.board().tool_call(&id).unwrap().title, "Tool");
}

#[test]
fn paths_are_shown_as_people_of_the_session_call_them() {
    let session = Session::new("/p");
    for (path, shown) in [("/p", "."), ("/p/a/b", "a/b"), ("/q/a", "/q/a"), ("/", "/")] {
        assert_eq!(session.display(path.as_ref()), shown);
    }
}
