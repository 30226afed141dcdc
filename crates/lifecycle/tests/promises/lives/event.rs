//! The events of a session's lifecycle and their weights.
//!
//! To add an operation, add a variant to [`Event`], a line to [`event`] and an arm to
//! `World::happen`.

use acp_types::Status;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;
use proptest::strategy::Union;

/// One event. Calls are numbered with small numbers so that events often concern the same call. The
/// largest number, [`CALLS`], means a call of the previous turn, i.e. of a turn that has ended.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Announce(u8),
    /// Announces a call whose arguments still stream.
    Stream(u8),
    ReportWithin(u8, u64),
    Title(u8, &'static str),
    Append(u8, &'static str),
    Replace(u8, &'static str),
    Arguments(u8, u8),
    RawOutput(u8, u8),
    Progress(u8, u8),
    ShowTerminal(u8),
    Output(u8, Vec<u8>),
    Exit(u8, i32),
    Start(u8),
    Pause(u8),
    /// Another agent reports a call.
    Upsert(u8, Status),
    /// The first call becomes the parent of the second call.
    Adopt(u8, u8),
    OfferCancel(u8),
    Finish(u8, u8),
    Ask(u8, Wish),
    Answer(u8, Reply),
    Withdraw(u8),
    Revoke,
    Say(&'static str),
    Plan(u8),
    EndTurn,
    /// Time passes.
    Wait(u64),
    /// The client receives due items, but at most this number of items.
    Take(u8),
    /// The client receives all queued items, including items that are not due.
    Flush,
}

/// The permission that a call requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Read,
    Write,
    /// A write that the request does not show in full.
    CutWrite,
    Unknown,
}

/// The answer of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Option(&'static str),
    Cancelled,
    Failed,
}

/// The pace at which the client receives items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The client receives every item as soon as the item is due.
    Quick,
    /// The client receives items when an event requests it.
    OnEvent,
    /// The client receives nothing until the end of the lifecycle.
    Stuck,
    /// The client receives items when an event requests it, until the client disconnects. Later
    /// items are lost.
    Leaving,
}

/// Maximum number of calls in a turn.
pub(crate) const CALLS: u8 = 4;

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let call = || 0..=CALLS;
    let text = || select(&["", "a", "b", "cd", "\u{e4}\n"][..]);
    let wish = select(&[Wish::Read, Wish::Write, Wish::CutWrite, Wish::Unknown][..]);
    let reply = || select(REPLIES);
    Union::new_weighted(vec![
        (4, call().prop_map(Event::Announce).boxed()),
        (4, call().prop_map(Event::Stream).boxed()),
        (
            2,
            (call(), select(&[0, 0, 3, 300][..]))
                .prop_map(|(call, wait)| Event::ReportWithin(call, wait))
                .boxed(),
        ),
        (2, (call(), text()).prop_map(|(call, text)| Event::Title(call, text)).boxed()),
        (4, (call(), text()).prop_map(|(call, text)| Event::Append(call, text)).boxed()),
        (1, (call(), text()).prop_map(|(call, text)| Event::Replace(call, text)).boxed()),
        (2, (call(), 0..3_u8).prop_map(|(call, args)| Event::Arguments(call, args)).boxed()),
        (2, (call(), any::<u8>()).prop_map(|(call, value)| Event::RawOutput(call, value)).boxed()),
        (2, (call(), 0..9_u8).prop_map(|(call, done)| Event::Progress(call, done)).boxed()),
        (1, call().prop_map(Event::ShowTerminal).boxed()),
        (5, (call(), output()).prop_map(|(call, bytes)| Event::Output(call, bytes)).boxed()),
        (1, (call(), 0..2_i32).prop_map(|(call, code)| Event::Exit(call, code)).boxed()),
        (5, call().prop_map(Event::Start).boxed()),
        (2, call().prop_map(Event::Pause).boxed()),
        (
            2,
            (call(), select(&Status::ALL[..]))
                .prop_map(|(call, status)| Event::Upsert(call, status))
                .boxed(),
        ),
        (2, (call(), call()).prop_map(|(parent, call)| Event::Adopt(parent, call)).boxed()),
        (1, call().prop_map(Event::OfferCancel).boxed()),
        (4, (call(), 0..5_u8).prop_map(|(call, end)| Event::Finish(call, end)).boxed()),
        (4, (call(), wish).prop_map(|(call, wish)| Event::Ask(call, wish)).boxed()),
        (4, (any::<u8>(), reply()).prop_map(|(which, reply)| Event::Answer(which, reply)).boxed()),
        (1, any::<u8>().prop_map(Event::Withdraw).boxed()),
        (1, Just(Event::Revoke).boxed()),
        (3, text().prop_map(Event::Say).boxed()),
        (1, (0..3_u8).prop_map(Event::Plan).boxed()),
        (1, Just(Event::EndTurn).boxed()),
        (6, (0..200_u64).prop_map(Event::Wait).boxed()),
        (9, (0..5_u8).prop_map(Event::Take).boxed()),
        (2, Just(Event::Flush).boxed()),
    ])
}

/// Generates bytes that may begin or end in the middle of a character.
fn output() -> impl Strategy<Value = Vec<u8>> {
    vec(select(&[b'a', b'\n', 0xc3, 0xa4, 0x1b, 0xff][..]), 0..6)
}

const REPLIES: &[Reply] = &[
    Reply::Option("allow"),
    Reply::Option("allow"),
    Reply::Option("allow_always"),
    Reply::Option("reject"),
    Reply::Option("reject_always"),
    Reply::Option("nonsense"),
    Reply::Cancelled,
    Reply::Failed,
];
