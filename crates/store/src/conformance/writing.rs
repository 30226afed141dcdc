//! Rules for sessions that are created, opened and changed.

use super::bench::{
    CheckResult, StoreRuleBench, append_change, ensure, ensure_equal, new_session, part_change,
    prompt_change, refused, session_folder_from_paths, session_id, text_record, time_after_start,
};
use super::rules;
use crate::error::SessionStoreError::{
    Held, Invalid, SessionExists, TooLarge, UnknownAttachment, UnknownPrompt, UnknownSession,
};
use crate::limits;
use crate::record::{AttachmentId, RecordStream, SessionChange};
use crate::session::{NewSession, SessionFilter};

rules![
    a_session_is_stored_with_its_first_prompt,
    a_session_without_a_prompt_is_not_stored,
    an_id_is_stored_once,
    an_id_that_could_name_a_file_is_refused,
    a_session_that_is_not_stored_is_unknown_to_every_operation,
    a_session_can_be_open_only_once_over_all_processes,
    writes_are_visible_to_other_processes,
    a_write_is_made_completely_or_not_at_all,
    an_attachment_of_a_refused_write_is_not_kept,
    values_beyond_their_limit_are_refused,
    records_keep_their_order_and_their_fields_in_both_streams,
    a_folded_record_is_at_the_position_of_the_first_of_its_subject,
    a_fold_affects_no_other_prompt_stream_or_subject,
    a_fold_does_not_replace_the_record_that_begins_its_prompt,
    a_truncation_removes_only_prompts_from_both_streams,
    record_numbers_are_never_reused,
    a_session_without_prompts_is_open_but_not_listed,
    a_truncation_cannot_keep_more_prompts_than_exist,
    a_title_is_set_and_truncated,
    parts_are_set_replaced_and_removed,
    only_records_change_the_update_time_and_never_to_an_earlier_time,
    a_session_moves_to_another_folder,
    a_store_can_be_synced_after_writes,
];

fn a_session_is_stored_with_its_first_prompt(bench: &StoreRuleBench<'_>) -> CheckResult {
    let session = bench.store.create(
        &new_session("a"),
        &[prompt_change("hello"), append_change("x")],
        time_after_start(1),
    )?;
    ensure_equal(session.id(), &session_id("a"))?;
    let summary = bench.store.summary(&session_id("a"))?;
    ensure_equal(&summary.id, &session_id("a"))?;
    ensure_equal(&summary.folder, &Some(new_session("a").folder))?;
    ensure_equal(
        &(summary.created, summary.updated, summary.prompts),
        &(time_after_start(1), time_after_start(1), 1),
    )?;
    ensure_equal(&(summary.parent, summary.title), &(None, None))?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["a"])?;
    ensure_equal(&bench.client_texts("a")?, &["1:hello", "1:x"])
}

fn a_session_without_a_prompt_is_not_stored(bench: &StoreRuleBench<'_>) -> CheckResult {
    refused!(bench.store.create(&new_session("a"), &[], time_after_start(1)), Invalid(_))?;
    refused!(
        bench.store.create(&new_session("a"), &[append_change("x")], time_after_start(1)),
        Invalid(_)
    )?;
    refused!(bench.store.summary(&session_id("a")), UnknownSession(_))?;
    bench.create_session("a", time_after_start(1)).map(drop).map_err(Into::into)
}

fn an_id_is_stored_once(bench: &StoreRuleBench<'_>) -> CheckResult {
    let session = bench.create_session("a", time_after_start(1))?;
    refused!(bench.create_session("a", time_after_start(2)), SessionExists(_))?;
    drop(session);
    refused!(bench.create_session("a", time_after_start(2)), SessionExists(_))?;
    ensure_equal(&bench.client_texts("a")?, &["1:first"])
}

fn an_id_that_could_name_a_file_is_refused(bench: &StoreRuleBench<'_>) -> CheckResult {
    for wrong in ["", ".", "..", "a/b", "a\0b", "a.b", "ä", &"x".repeat(129)] {
        refused!(bench.create_session(wrong, time_after_start(1)), Invalid(_))?;
        refused!(bench.store.open(&session_id(wrong)), UnknownSession(_))?;
        refused!(bench.store.delete(&session_id(wrong)), UnknownSession(_))?;
    }
    bench.create_session(&"x".repeat(128), time_after_start(1)).map(drop).map_err(Into::into)
}

fn a_session_that_is_not_stored_is_unknown_to_every_operation(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let (store, unknown) = (&bench.store, session_id("unknown"));
    refused!(store.open(&unknown), UnknownSession(_))?;
    refused!(store.summary(&unknown), UnknownSession(_))?;
    refused!(store.prompts(&unknown, 0), UnknownSession(_))?;
    refused!(store.parts(&unknown), UnknownSession(_))?;
    refused!(store.begin_load(&unknown, RecordStream::Client, 0), UnknownSession(_))?;
    refused!(
        store.fork(&unknown, &new_session("b"), None, time_after_start(1)),
        UnknownSession(_)
    )?;
    refused!(store.delete(&unknown), UnknownSession(_))
}

fn a_session_can_be_open_only_once_over_all_processes(bench: &StoreRuleBench<'_>) -> CheckResult {
    let other = bench.open_again();
    let session = bench.create_session("a", time_after_start(1))?;
    for store in [&bench.store, &other] {
        refused!(store.open(&session_id("a")), Held { .. })?;
        refused!(store.delete(&session_id("a")), Held { .. })?;
    }
    drop(session);
    let session = other.open(&session_id("a"))?;
    refused!(bench.store.open(&session_id("a")), Held { .. })?;
    drop(session);
    bench.store.open(&session_id("a")).map(drop).map_err(Into::into)
}

fn writes_are_visible_to_other_processes(bench: &StoreRuleBench<'_>) -> CheckResult {
    let other = bench.open_again();
    let mut session =
        other.create(&new_session("a"), &[prompt_change("one")], time_after_start(1))?;
    ensure_equal(&bench.client_texts("a")?, &["1:one"])?;
    session.write(
        &[append_change("two"), SessionChange::Title("t".to_owned())],
        time_after_start(2),
    )?;
    ensure_equal(&bench.client_texts("a")?, &["1:one", "1:two"])?;
    ensure_equal(&bench.store.summary(&session_id("a"))?, &other.summary(&session_id("a"))?)
}

fn a_write_is_made_completely_or_not_at_all(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let before = bench.store.summary(&session_id("a"))?;
    let changes = [
        append_change("x"),
        SessionChange::Title("t".to_owned()),
        part_change("p", Some("1")),
        SessionChange::Truncate { keep: 2 },
    ];
    refused!(session.write(&changes, time_after_start(2)), UnknownPrompt { .. })?;
    ensure_equal(&bench.store.summary(&session_id("a"))?, &before)?;
    ensure_equal(&bench.client_texts("a")?, &["1:first"])?;
    ensure(
        bench.store.parts(&session_id("a"))?.parts.is_empty(),
        "a part is left of a refused write",
    )?;
    session.write(&[], time_after_start(3))?;
    ensure_equal(&bench.store.summary(&session_id("a"))?, &before)
}

fn values_beyond_their_limit_are_refused(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let long = |bytes: usize| "x".repeat(bytes);
    for change in [
        append_change(&long(limits::MAX_RECORD_BYTES)),
        SessionChange::Append(text_record("x").with_subject(long(limits::MAX_SUBJECT_BYTES + 1))),
        part_change(&long(limits::MAX_NAME_BYTES + 1), Some("1")),
        part_change("p", Some(&long(limits::MAX_PART_BYTES + 1))),
        SessionChange::Move(session_folder_from_paths(&long(1 << 20), "/")),
    ] {
        refused!(session.write(&[change], time_after_start(2)), TooLarge { .. })?;
    }
    refused!(
        session.write(&vec![append_change("x"); limits::MAX_CHANGES + 1], time_after_start(2)),
        Invalid(_)
    )?;
    refused!(
        session.write(&[SessionChange::Fold(text_record("x"))], time_after_start(2)),
        Invalid(_)
    )?;
    let parts: Vec<_> =
        (0..limits::MAX_PARTS).map(|n| part_change(&n.to_string(), Some("1"))).collect();
    session.write(&parts, time_after_start(2))?;
    refused!(session.write(&[part_change("more", Some("1"))], time_after_start(2)), Invalid(_))?;
    let large = long(limits::MAX_RECORD_BYTES - 2);
    session.write(&[append_change(&large)], time_after_start(2))?;
    ensure_equal(&bench.client_texts("a")?.last(), &Some(&format!("1:{large}")))
}

fn records_keep_their_order_and_their_fields_in_both_streams(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let mut of_model = text_record("answer").with_stream(RecordStream::Model).with_subject("m");
    (of_model.kind, of_model.version) = ("message".to_owned(), 7);
    session.write(
        &[append_change("x"), SessionChange::Append(of_model), append_change("y")],
        time_after_start(2),
    )?;
    session.write(&[prompt_change("second")], time_after_start(3))?;
    ensure_equal(&bench.client_texts("a")?, &["1:first", "1:x", "1:y", "2:second"])?;
    let shown = bench.load_records("a", RecordStream::Client, 0)?;
    let of_model = bench.load_records("a", RecordStream::Model, 0)?;
    let [of_model] = &of_model[..] else {
        return ensure(false, "the model's stream has one record");
    };
    ensure_equal(
        &(of_model.kind.as_str(), of_model.version, of_model.subject.as_deref()),
        &("message", 7, Some("m")),
    )?;
    ensure_equal(&(of_model.at, of_model.prompt), &(time_after_start(2), 1))?;
    let numbers: Vec<_> = shown.iter().map(|record| record.seq).collect();
    ensure(numbers.is_sorted_by(|one, next| one < next), "numbers do not grow")?;
    ensure(
        numbers[1] < of_model.seq && of_model.seq < numbers[2],
        "streams have numbers of their own",
    )
}

fn a_folded_record_is_at_the_position_of_the_first_of_its_subject(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let about = |text: &str| text_record(text).with_subject("call");
    session.write(
        &[
            SessionChange::Append(about("begins")),
            append_change("x"),
            SessionChange::Append(about("goes on")),
            SessionChange::Fold(about("whole")),
            append_change("y"),
        ],
        time_after_start(2),
    )?;
    ensure_equal(&bench.client_texts("a")?, &["1:first", "1:whole", "1:x", "1:y"])?;
    session.write(&[SessionChange::Fold(about("again"))], time_after_start(3))?;
    ensure_equal(&bench.client_texts("a")?, &["1:first", "1:again", "1:x", "1:y"])?;
    session.write(
        &[SessionChange::Fold(text_record("new").with_subject("other"))],
        time_after_start(4),
    )?;
    ensure_equal(&bench.client_texts("a")?, &["1:first", "1:again", "1:x", "1:y", "1:new"])
}

fn a_fold_affects_no_other_prompt_stream_or_subject(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let about = |text: &str| text_record(text).with_subject("plan");
    let of_model = || about("answer").with_stream(RecordStream::Model);
    let changes = [
        SessionChange::Append(about("one")),
        prompt_change("second"),
        SessionChange::Append(of_model()),
        SessionChange::Append(text_record("other").with_subject("plans")),
        SessionChange::Append(about("two")),
        SessionChange::Fold(about("three")),
    ];
    session.write(&changes, time_after_start(2))?;
    ensure_equal(
        &bench.client_texts("a")?,
        &["1:first", "1:one", "2:second", "2:other", "2:three"],
    )?;
    ensure_equal(&bench.texts_of_stream("a", RecordStream::Model)?, &["2:answer"])
}

fn a_fold_does_not_replace_the_record_that_begins_its_prompt(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let begin = SessionChange::Prompt(text_record("begin").with_subject("m"));
    let mut session = bench.store.create(&new_session("a"), &[begin], time_after_start(1))?;
    session.write(
        &[SessionChange::Fold(text_record("folded").with_subject("m"))],
        time_after_start(2),
    )?;
    ensure_equal(&bench.client_texts("a")?, &["1:begin", "1:folded"])
}

fn a_truncation_removes_only_prompts_from_both_streams(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let of_model = |text| SessionChange::Append(text_record(text).with_stream(RecordStream::Model));
    let changes = [
        of_model("m1"),
        SessionChange::Title("t".to_owned()),
        part_change("p", Some("1")),
        prompt_change("second"),
        append_change("x"),
        of_model("m2"),
        prompt_change("third"),
    ];
    session.write(&changes, time_after_start(2))?;
    session.write(&[SessionChange::Truncate { keep: 3 }], time_after_start(3))?;
    ensure_equal(&bench.store.summary(&session_id("a"))?.prompts, &3)?;
    session.write(&[SessionChange::Truncate { keep: 1 }], time_after_start(4))?;
    ensure_equal(&bench.client_texts("a")?, &["1:first"])?;
    ensure_equal(&bench.texts_of_stream("a", RecordStream::Model)?, &["1:m1"])?;
    let summary = bench.store.summary(&session_id("a"))?;
    ensure_equal(
        &(summary.prompts, summary.title.as_deref(), summary.updated),
        &(1, Some("t"), time_after_start(4)),
    )?;
    ensure_equal(&bench.store.parts(&session_id("a"))?.parts.len(), &1)?;
    session.write(&[prompt_change("another"), append_change("y")], time_after_start(5))?;
    ensure_equal(&bench.client_texts("a")?, &["1:first", "2:another", "2:y"])
}

fn record_numbers_are_never_reused(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(&[prompt_change("second")], time_after_start(2))?;
    let gone = bench.load_records("a", RecordStream::Client, 0)?.pop();
    session.write(
        &[SessionChange::Truncate { keep: 1 }, prompt_change("another")],
        time_after_start(3),
    )?;
    let last = bench.load_records("a", RecordStream::Client, 0)?.pop();
    let numbers = gone.zip(last).map(|(gone, last)| (gone.seq, last.seq));
    ensure(numbers.is_some_and(|(gone, last)| gone < last), "a number is used again")
}

fn a_session_without_prompts_is_open_but_not_listed(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(&[SessionChange::Truncate { keep: 0 }], time_after_start(2))?;
    ensure(bench.listed_ids(&SessionFilter::default())?.is_empty(), "it is listed")?;
    refused!(session.write(&[append_change("x")], time_after_start(3)), Invalid(_))?;
    session.write(&[prompt_change("again")], time_after_start(3))?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["a"])?;
    ensure_equal(&bench.client_texts("a")?, &["1:again"])
}

fn a_truncation_cannot_keep_more_prompts_than_exist(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let keep = SessionChange::Truncate { keep: 2 };
    refused!(session.write(&[keep], time_after_start(2)), UnknownPrompt { prompt: 2, .. })?;
    ensure_equal(&bench.client_texts("a")?, &["1:first"])
}

fn a_title_is_set_and_truncated(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let title = "ä".repeat(limits::MAX_TITLE_BYTES);
    session.write(&[SessionChange::Title(title.clone())], time_after_start(2))?;
    let stored = bench.store.summary(&session_id("a"))?.title.unwrap_or_default();
    ensure_equal(&stored.len(), &limits::MAX_TITLE_BYTES)?;
    ensure(title.starts_with(&stored), "it is another title")
}

fn parts_are_set_replaced_and_removed(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(
        &[part_change("p", Some("1")), part_change("q", Some("[2]"))],
        time_after_start(2),
    )?;
    session.write(
        &[part_change("p", Some("{}")), part_change("q", None), part_change("absent", None)],
        time_after_start(3),
    )?;
    let parts = bench.store.parts(&session_id("a"))?;
    let expected = [("p".to_owned(), "{}".to_owned())].into();
    ensure_equal(&(parts.parts, parts.damaged), &(expected, 0))
}

fn only_records_change_the_update_time_and_never_to_an_earlier_time(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(10))?;
    let updated = || bench.store.summary(&session_id("a")).map(|summary| summary.updated);
    let beside = [
        SessionChange::Title("t".to_owned()),
        part_change("p", Some("1")),
        SessionChange::Move(session_folder_from_paths("/b", "/b")),
    ];
    session.write(&beside, time_after_start(20))?;
    ensure_equal(&updated()?, &time_after_start(10))?;
    session.write(&[append_change("x")], time_after_start(30))?;
    ensure_equal(&updated()?, &time_after_start(30))?;
    session.write(&[append_change("y")], time_after_start(5))?;
    ensure_equal(&updated()?, &time_after_start(30))?;
    let last = bench.load_records("a", RecordStream::Client, 0)?.pop();
    ensure_equal(&last.map(|record| record.at), &Some(time_after_start(5)))
}

fn a_session_moves_to_another_folder(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(
        &[SessionChange::Move(session_folder_from_paths("/elsewhere", "/elsewhere"))],
        time_after_start(2),
    )?;
    let summary = bench.store.summary(&session_id("a"))?;
    ensure_equal(&summary.folder, &Some(session_folder_from_paths("/elsewhere", "/elsewhere")))?;
    let of = |cwd: &str| SessionFilter { cwd: Some(cwd.into()), ..SessionFilter::default() };
    ensure_equal(&bench.listed_ids(&of("/elsewhere"))?, &["a"])?;
    ensure(bench.listed_ids(&of("/project"))?.is_empty(), "it is listed in its old folder")
}

fn a_store_can_be_synced_after_writes(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    bench.store.sync()?;
    session.write(&[append_change("x")], time_after_start(2))?;
    bench.store.sync()?;
    let NewSession { id, .. } = new_session("a");
    ensure_equal(&bench.open_again().summary(&id)?.prompts, &1)
}

fn an_attachment_of_a_refused_write_is_not_kept(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let contents: [std::sync::Arc<[u8]>; 2] = [b"kept"[..].into(), b"refused"[..].into()];
    let linked = |at: usize| {
        let mut linked = text_record("x");
        linked.attachments = contents[..at].to_vec();
        SessionChange::Append(linked)
    };
    session.write(&[linked(1)], time_after_start(2))?;
    let refused = [linked(2), SessionChange::Truncate { keep: 9 }];
    refused!(session.write(&refused, time_after_start(3)), UnknownPrompt { .. })?;
    let get = |at: usize| {
        bench.store.attachment(&session_id("a"), AttachmentId::for_bytes(&contents[at]))
    };
    ensure_equal(&get(0)?, &b"kept")?;
    refused!(get(1), UnknownAttachment(_))
}
