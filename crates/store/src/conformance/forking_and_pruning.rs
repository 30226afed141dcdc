//! Rules for forks, removals and retention.

use std::time::Duration;

use super::bench::{
    CheckResult, StoreRuleBench, append_change, ensure, ensure_equal, new_session, part_change,
    prompt_change, record_with_brief, refused, session_folder_from_paths, session_id, text_record,
    time_after_start,
};
use super::rules;
use crate::error::SessionStoreError::{
    Held, Invalid, SessionExists, UnknownPrompt, UnknownSession,
};
use crate::limits::MAX_PRUNED;
use crate::record::{AttachmentId, RecordStream, SessionChange, SessionRecord};
use crate::retention::{PruneCompletion, RetentionPolicy};
use crate::session::{NewSession, SessionFilter};

rules![
    a_fork_has_all_data_of_its_parent,
    a_fork_can_end_at_a_prompt,
    a_fork_and_its_parent_change_independently,
    a_fork_needs_an_existing_prompt_and_an_unused_id,
    a_removed_session_is_removed_with_all_of_its_data,
    sessions_are_pruned_by_age,
    sessions_are_pruned_by_bytes_oldest_first,
    an_open_session_is_never_pruned,
    sessions_without_prompts_are_pruned_at_any_age,
    a_call_prunes_at_most_the_maximum_number_of_sessions,
];

fn a_fork_has_all_data_of_its_parent(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut parent = bench.create_session("a", time_after_start(1))?;
    let linked = SessionRecord {
        attachments: vec![b"linked"[..].into()],
        ..record_with_brief("whole", "brief")
    };
    let changes = [
        SessionChange::Append(linked),
        SessionChange::Append(text_record("answer").with_stream(RecordStream::Model)),
        append_change(&"x".repeat(200_000)),
        SessionChange::Title("t".to_owned()),
        part_change("p", Some("1")),
        prompt_change("second"),
    ];
    parent.write(&changes, time_after_start(2))?;
    let into =
        NewSession { id: session_id("b"), folder: session_folder_from_paths("/b", "/real/b") };
    // The parent session is open during the fork, as if another process had opened it.
    let fork = bench.open_again().fork(&session_id("a"), &into, None, time_after_start(3))?;
    ensure_equal(fork.id(), &session_id("b"))?;
    refused!(bench.store.open(&session_id("b")), Held { .. })?;
    let summary = bench.store.summary(&session_id("b"))?;
    ensure_equal(&(summary.parent, summary.folder), &(Some(session_id("a")), Some(into.folder)))?;
    ensure_equal(&(summary.created, summary.updated), &(time_after_start(3), time_after_start(3)))?;
    ensure_equal(&(summary.title.as_deref(), summary.prompts), &(Some("t"), 2))?;
    for stream in [RecordStream::Client, RecordStream::Model] {
        for budget in [0, u64::MAX] {
            let copied = bench.load_records("b", stream, budget)?;
            ensure_equal(&copied, &bench.load_records("a", stream, budget)?)?;
        }
    }
    ensure_equal(&bench.store.parts(&session_id("b"))?, &bench.store.parts(&session_id("a"))?)?;
    ensure_equal(
        &bench.store.prompts(&session_id("b"), 0)?,
        &bench.store.prompts(&session_id("a"), 0)?,
    )?;
    ensure_equal(
        &bench.store.attachment(&session_id("b"), AttachmentId::for_bytes(b"linked"))?,
        &b"linked",
    )
}

fn a_fork_can_end_at_a_prompt(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut parent = bench.create_session("a", time_after_start(1))?;
    parent.write(
        &[append_change("x"), prompt_change("second"), append_change("y"), prompt_change("third")],
        time_after_start(2),
    )?;
    let mut fork =
        bench.store.fork(&session_id("a"), &new_session("b"), Some(2), time_after_start(3))?;
    ensure_equal(&bench.client_texts("b")?, &["1:first", "1:x", "2:second", "2:y"])?;
    fork.write(&[prompt_change("another")], time_after_start(4))?;
    ensure_equal(&bench.client_texts("b")?.last().map(String::as_str), &Some("3:another"))?;
    ensure_equal(&bench.client_texts("a")?.last().map(String::as_str), &Some("3:third"))
}

fn a_fork_and_its_parent_change_independently(bench: &StoreRuleBench<'_>) -> CheckResult {
    let linked = SessionRecord {
        attachments: vec![b"linked"[..].into()],
        ..record_with_brief("whole", "brief")
    };
    let first = [prompt_change("first"), SessionChange::Append(linked)];
    let mut parent = bench.store.create(&new_session("a"), &first, time_after_start(1))?;
    let mut fork =
        bench.store.fork(&session_id("a"), &new_session("b"), None, time_after_start(2))?;
    parent.write(
        &[append_change("of the parent"), part_change("p", Some("1"))],
        time_after_start(3),
    )?;
    fork.write(&[append_change("of the fork")], time_after_start(3))?;
    ensure_equal(&bench.client_texts("b")?, &["1:first", "1:whole", "1:of the fork"])?;
    ensure(bench.store.parts(&session_id("b"))?.parts.is_empty(), "a part of the parent is set")?;
    drop(parent);
    bench.store.delete(&session_id("a"))?;
    ensure_equal(&bench.client_texts("b")?, &["1:first", "1:whole", "1:of the fork"])?;
    ensure_equal(
        &bench.store.attachment(&session_id("b"), AttachmentId::for_bytes(b"linked"))?,
        &b"linked",
    )
}

fn a_fork_needs_an_existing_prompt_and_an_unused_id(bench: &StoreRuleBench<'_>) -> CheckResult {
    drop(bench.create_session("a", time_after_start(1))?);
    let fork = |into: &str, keep| {
        bench.store.fork(&session_id("a"), &new_session(into), keep, time_after_start(2)).map(drop)
    };
    refused!(fork("b", Some(0)), UnknownPrompt { prompt: 0, .. })?;
    refused!(fork("b", Some(2)), UnknownPrompt { prompt: 2, .. })?;
    refused!(fork("a", None), SessionExists(_))?;
    refused!(fork("b/c", None), Invalid(_))?;
    refused!(bench.store.summary(&session_id("b")), UnknownSession(_))?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["a"])?;
    fork("b", Some(1)).map_err(Into::into)
}

fn a_removed_session_is_removed_with_all_of_its_data(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(&[append_change("x"), part_change("p", Some("1"))], time_after_start(2))?;
    drop(session);
    drop(bench.create_session("b", time_after_start(1))?);
    bench.store.delete(&session_id("a"))?;
    refused!(bench.store.open(&session_id("a")), UnknownSession(_))?;
    refused!(bench.store.delete(&session_id("a")), UnknownSession(_))?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["b"])?;
    // The id of the removed session can be used again, and the new session has none of the old
    // data.
    drop(bench.create_session("a", time_after_start(3))?);
    ensure_equal(&bench.client_texts("a")?, &["1:first"])?;
    ensure(bench.store.parts(&session_id("a"))?.parts.is_empty(), "a part of it came back")
}

/// Returns a policy that removes sessions after `seconds` seconds without an update.
fn retention_of_seconds(seconds: u64) -> RetentionPolicy {
    RetentionPolicy { keep: Some(Duration::from_secs(seconds)), ..RetentionPolicy::default() }
}

fn sessions_are_pruned_by_age(bench: &StoreRuleBench<'_>) -> CheckResult {
    for (session, seconds) in [("old", 10), ("older", 5), ("new", 90), ("future", 200)] {
        drop(bench.create_session(session, time_after_start(seconds))?);
    }
    let pruned = bench.store.prune(&RetentionPolicy::default(), time_after_start(1_000_000))?;
    ensure(pruned.sessions.is_empty(), "sessions go although everything is kept")?;
    let pruned = bench.store.prune(&retention_of_seconds(50), time_after_start(100))?;
    ensure_equal(
        &(pruned.sessions, pruned.outcome),
        &(vec![session_id("older"), session_id("old")], PruneCompletion::Done),
    )?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["future", "new"])
}

fn sessions_are_pruned_by_bytes_oldest_first(bench: &StoreRuleBench<'_>) -> CheckResult {
    for (session, seconds) in [("b", 2), ("a", 1), ("c", 3), ("d", 4)] {
        let mut open = bench.create_session(session, time_after_start(seconds))?;
        open.write(&[append_change(&"x".repeat(100_000))], time_after_start(seconds))?;
    }
    let bytes = bench.store.summary(&session_id("a"))?.bytes;
    ensure(
        (100_000..500_000).contains(&bytes),
        "a session of 100,000 bytes has far more or fewer",
    )?;
    let retention =
        RetentionPolicy { max_bytes: Some(bytes * 5 / 2), ..RetentionPolicy::default() };
    let pruned = bench.store.prune(&retention, time_after_start(5))?;
    ensure_equal(
        &(pruned.sessions, pruned.outcome),
        &(vec![session_id("a"), session_id("b")], PruneCompletion::Done),
    )?;
    ensure_equal(&pruned.bytes, &(2 * bytes))?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["d", "c"])
}

fn an_open_session_is_never_pruned(bench: &StoreRuleBench<'_>) -> CheckResult {
    let held = bench.create_session("a", time_after_start(1))?;
    drop(bench.create_session("b", time_after_start(2))?);
    let all = RetentionPolicy { max_bytes: Some(0), ..retention_of_seconds(0) };
    let pruned = bench.open_again().prune(&all, time_after_start(100))?;
    ensure_equal(
        &(pruned.sessions, pruned.outcome),
        &(vec![session_id("b")], PruneCompletion::Held),
    )?;
    drop(held);
    let pruned = bench.store.prune(&all, time_after_start(100))?;
    ensure_equal(
        &(pruned.sessions, pruned.outcome),
        &(vec![session_id("a")], PruneCompletion::Done),
    )
}

fn sessions_without_prompts_are_pruned_at_any_age(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(&[SessionChange::Truncate { keep: 0 }], time_after_start(2))?;
    ensure_equal(
        &bench.store.prune(&RetentionPolicy::default(), time_after_start(3))?.sessions.len(),
        &0,
    )?;
    drop(session);
    drop(bench.create_session("b", time_after_start(1))?);
    ensure_equal(
        &bench.store.prune(&RetentionPolicy::default(), time_after_start(3))?.sessions,
        &[session_id("a")],
    )?;
    refused!(bench.store.open(&session_id("a")), UnknownSession(_))
}

fn a_call_prunes_at_most_the_maximum_number_of_sessions(bench: &StoreRuleBench<'_>) -> CheckResult {
    for number in 0..=MAX_PRUNED {
        drop(bench.create_session(&format!("s{number:03}"), time_after_start(1))?);
    }
    let pruned = bench.store.prune(&retention_of_seconds(1), time_after_start(100))?;
    ensure_equal(&(pruned.sessions.len(), pruned.outcome), &(MAX_PRUNED, PruneCompletion::More))?;
    let pruned = bench.store.prune(&retention_of_seconds(1), time_after_start(100))?;
    ensure_equal(
        &(pruned.sessions, pruned.outcome),
        &(vec![session_id(&format!("s{MAX_PRUNED:03}"))], PruneCompletion::Done),
    )
}
