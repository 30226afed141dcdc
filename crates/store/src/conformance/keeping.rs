//! Rules of copies, removals and retention.

use std::time::Duration;

use super::bench::{
    Bench, CheckResult, append, at, ensure, folder, heavy, id, new, part, prompt, record, refused,
    same,
};
use super::rules;
use crate::error::SessionStoreError::{
    Held, Invalid, SessionExists, UnknownPrompt, UnknownSession,
};
use crate::limits::MAX_PRUNED;
use crate::record::{AttachmentId, RecordStream, SessionChange, SessionRecord};
use crate::retention::{PruneOutcome, Retention};
use crate::session::{NewSession, SessionFilter};

rules![
    a_fork_has_all_that_its_parent_has,
    a_fork_can_end_at_a_prompt,
    a_fork_and_its_parent_go_separate_ways,
    a_fork_needs_a_prompt_that_there_is_and_an_id_that_is_free,
    a_removed_session_is_gone_with_all_that_belonged_to_it,
    sessions_are_pruned_by_age,
    sessions_are_pruned_by_bytes_oldest_first,
    an_open_session_is_never_pruned,
    sessions_without_prompts_are_pruned_whatever_their_age,
    a_call_prunes_so_many_sessions_at_most,
];

fn a_fork_has_all_that_its_parent_has(bench: &Bench<'_>) -> CheckResult {
    let mut parent = bench.create("a", at(1))?;
    let linked =
        SessionRecord { attachments: vec![b"linked"[..].into()], ..heavy("whole", "brief") };
    let changes = [
        SessionChange::Append(linked),
        SessionChange::Append(record("answer").with_stream(RecordStream::Model)),
        append(&"x".repeat(200_000)),
        SessionChange::Title("t".to_owned()),
        part("p", Some("1")),
        prompt("second"),
    ];
    parent.write(&changes, at(2))?;
    let into = NewSession { id: id("b"), folder: folder("/b", "/real/b") };
    // Its parent is open, and may be so in another process.
    let fork = bench.other().fork(&id("a"), &into, None, at(3))?;
    same(fork.id(), &id("b"))?;
    refused!(bench.store.open(&id("b")), Held { .. })?;
    let summary = bench.store.summary(&id("b"))?;
    same(&(summary.parent, summary.folder), &(Some(id("a")), Some(into.folder)))?;
    same(&(summary.created, summary.updated), &(at(3), at(3)))?;
    same(&(summary.title.as_deref(), summary.prompts), &(Some("t"), 2))?;
    for stream in [RecordStream::Client, RecordStream::Model] {
        for budget in [0, u64::MAX] {
            let copied = bench.records("b", stream, budget)?;
            same(&copied, &bench.records("a", stream, budget)?)?;
        }
    }
    same(&bench.store.parts(&id("b"))?, &bench.store.parts(&id("a"))?)?;
    same(&bench.store.prompts(&id("b"), 0)?, &bench.store.prompts(&id("a"), 0)?)?;
    same(&bench.store.attachment(&id("b"), AttachmentId::for_bytes(b"linked"))?, &b"linked")
}

fn a_fork_can_end_at_a_prompt(bench: &Bench<'_>) -> CheckResult {
    let mut parent = bench.create("a", at(1))?;
    parent.write(&[append("x"), prompt("second"), append("y"), prompt("third")], at(2))?;
    let mut fork = bench.store.fork(&id("a"), &new("b"), Some(2), at(3))?;
    same(&bench.texts("b")?, &["1:first", "1:x", "2:second", "2:y"])?;
    fork.write(&[prompt("another")], at(4))?;
    same(&bench.texts("b")?.last().map(String::as_str), &Some("3:another"))?;
    same(&bench.texts("a")?.last().map(String::as_str), &Some("3:third"))
}

fn a_fork_and_its_parent_go_separate_ways(bench: &Bench<'_>) -> CheckResult {
    let linked =
        SessionRecord { attachments: vec![b"linked"[..].into()], ..heavy("whole", "brief") };
    let first = [prompt("first"), SessionChange::Append(linked)];
    let mut parent = bench.store.create(&new("a"), &first, at(1))?;
    let mut fork = bench.store.fork(&id("a"), &new("b"), None, at(2))?;
    parent.write(&[append("of the parent"), part("p", Some("1"))], at(3))?;
    fork.write(&[append("of the fork")], at(3))?;
    same(&bench.texts("b")?, &["1:first", "1:whole", "1:of the fork"])?;
    ensure(bench.store.parts(&id("b"))?.parts.is_empty(), "a part of the parent is set")?;
    drop(parent);
    bench.store.delete(&id("a"))?;
    same(&bench.texts("b")?, &["1:first", "1:whole", "1:of the fork"])?;
    same(&bench.store.attachment(&id("b"), AttachmentId::for_bytes(b"linked"))?, &b"linked")
}

fn a_fork_needs_a_prompt_that_there_is_and_an_id_that_is_free(bench: &Bench<'_>) -> CheckResult {
    drop(bench.create("a", at(1))?);
    let fork = |into: &str, keep| bench.store.fork(&id("a"), &new(into), keep, at(2)).map(drop);
    refused!(fork("b", Some(0)), UnknownPrompt { prompt: 0, .. })?;
    refused!(fork("b", Some(2)), UnknownPrompt { prompt: 2, .. })?;
    refused!(fork("a", None), SessionExists(_))?;
    refused!(fork("b/c", None), Invalid(_))?;
    refused!(bench.store.summary(&id("b")), UnknownSession(_))?;
    same(&bench.listed(&SessionFilter::default())?, &["a"])?;
    fork("b", Some(1)).map_err(Into::into)
}

fn a_removed_session_is_gone_with_all_that_belonged_to_it(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[append("x"), part("p", Some("1"))], at(2))?;
    drop(session);
    drop(bench.create("b", at(1))?);
    bench.store.delete(&id("a"))?;
    refused!(bench.store.open(&id("a")), UnknownSession(_))?;
    refused!(bench.store.delete(&id("a")), UnknownSession(_))?;
    same(&bench.listed(&SessionFilter::default())?, &["b"])?;
    // Its id can be used again, and nothing of it comes back.
    drop(bench.create("a", at(3))?);
    same(&bench.texts("a")?, &["1:first"])?;
    ensure(bench.store.parts(&id("a"))?.parts.is_empty(), "a part of it came back")
}

/// Keeps sessions for so many seconds.
fn keeping(seconds: u64) -> Retention {
    Retention { keep: Some(Duration::from_secs(seconds)), ..Retention::default() }
}

fn sessions_are_pruned_by_age(bench: &Bench<'_>) -> CheckResult {
    for (session, seconds) in [("old", 10), ("older", 5), ("new", 90), ("future", 200)] {
        drop(bench.create(session, at(seconds))?);
    }
    let pruned = bench.store.prune(&Retention::default(), at(1_000_000))?;
    ensure(pruned.sessions.is_empty(), "sessions go although everything is kept")?;
    let pruned = bench.store.prune(&keeping(50), at(100))?;
    same(&(pruned.sessions, pruned.outcome), &(vec![id("older"), id("old")], PruneOutcome::Done))?;
    same(&bench.listed(&SessionFilter::default())?, &["future", "new"])
}

fn sessions_are_pruned_by_bytes_oldest_first(bench: &Bench<'_>) -> CheckResult {
    for (session, seconds) in [("b", 2), ("a", 1), ("c", 3), ("d", 4)] {
        let mut open = bench.create(session, at(seconds))?;
        open.write(&[append(&"x".repeat(100_000))], at(seconds))?;
    }
    let bytes = bench.store.summary(&id("a"))?.bytes;
    ensure(
        (100_000..500_000).contains(&bytes),
        "a session of 100,000 bytes has far more or fewer",
    )?;
    let retention = Retention { max_bytes: Some(bytes * 5 / 2), ..Retention::default() };
    let pruned = bench.store.prune(&retention, at(5))?;
    same(&(pruned.sessions, pruned.outcome), &(vec![id("a"), id("b")], PruneOutcome::Done))?;
    same(&pruned.bytes, &(2 * bytes))?;
    same(&bench.listed(&SessionFilter::default())?, &["d", "c"])
}

fn an_open_session_is_never_pruned(bench: &Bench<'_>) -> CheckResult {
    let held = bench.create("a", at(1))?;
    drop(bench.create("b", at(2))?);
    let all = Retention { max_bytes: Some(0), ..keeping(0) };
    let pruned = bench.other().prune(&all, at(100))?;
    same(&(pruned.sessions, pruned.outcome), &(vec![id("b")], PruneOutcome::Held))?;
    drop(held);
    let pruned = bench.store.prune(&all, at(100))?;
    same(&(pruned.sessions, pruned.outcome), &(vec![id("a")], PruneOutcome::Done))
}

fn sessions_without_prompts_are_pruned_whatever_their_age(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[SessionChange::Truncate { keep: 0 }], at(2))?;
    same(&bench.store.prune(&Retention::default(), at(3))?.sessions.len(), &0)?;
    drop(session);
    drop(bench.create("b", at(1))?);
    same(&bench.store.prune(&Retention::default(), at(3))?.sessions, &[id("a")])?;
    refused!(bench.store.open(&id("a")), UnknownSession(_))
}

fn a_call_prunes_so_many_sessions_at_most(bench: &Bench<'_>) -> CheckResult {
    for number in 0..=MAX_PRUNED {
        drop(bench.create(&format!("s{number:03}"), at(1))?);
    }
    let pruned = bench.store.prune(&keeping(1), at(100))?;
    same(&(pruned.sessions.len(), pruned.outcome), &(MAX_PRUNED, PruneOutcome::More))?;
    let pruned = bench.store.prune(&keeping(1), at(100))?;
    same(
        &(pruned.sessions, pruned.outcome),
        &(vec![id(&format!("s{MAX_PRUNED:03}"))], PruneOutcome::Done),
    )
}
