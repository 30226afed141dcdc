//! Rules of sessions that are created, opened and changed.

use super::bench::{
    Bench, CheckResult, append, at, ensure, folder, id, new, part, prompt, record, refused, same,
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
    a_session_is_open_once_over_all_processes,
    what_is_written_is_there_for_other_processes,
    a_write_is_made_as_a_whole_or_not_at_all,
    an_attachment_of_a_refused_write_is_not_kept,
    what_is_over_its_bound_is_refused,
    records_keep_their_order_and_what_they_are_over_both_streams,
    a_folded_record_takes_the_place_of_the_first_of_its_subject,
    a_fold_reaches_into_no_other_prompt_stream_or_subject,
    a_fold_spares_the_record_that_begins_its_prompt,
    going_back_removes_prompts_from_both_streams_and_nothing_else,
    numbers_of_records_are_never_used_again,
    a_session_without_prompts_is_open_but_not_listed,
    more_prompts_than_there_are_cannot_be_kept,
    a_title_is_set_and_cut,
    parts_are_set_replaced_and_removed,
    only_records_move_the_time_of_the_update_and_never_back,
    a_session_moves_to_another_folder,
    what_is_written_can_be_made_to_survive_a_power_failure,
];

fn a_session_is_stored_with_its_first_prompt(bench: &Bench<'_>) -> CheckResult {
    let session = bench.store.create(&new("a"), &[prompt("hello"), append("x")], at(1))?;
    same(session.id(), &id("a"))?;
    let summary = bench.store.summary(&id("a"))?;
    same(&summary.id, &id("a"))?;
    same(&summary.folder, &Some(new("a").folder))?;
    same(&(summary.created, summary.updated, summary.prompts), &(at(1), at(1), 1))?;
    same(&(summary.parent, summary.title), &(None, None))?;
    same(&bench.listed(&SessionFilter::default())?, &["a"])?;
    same(&bench.texts("a")?, &["1:hello", "1:x"])
}

fn a_session_without_a_prompt_is_not_stored(bench: &Bench<'_>) -> CheckResult {
    refused!(bench.store.create(&new("a"), &[], at(1)), Invalid(_))?;
    refused!(bench.store.create(&new("a"), &[append("x")], at(1)), Invalid(_))?;
    refused!(bench.store.summary(&id("a")), UnknownSession(_))?;
    bench.create("a", at(1)).map(drop).map_err(Into::into)
}

fn an_id_is_stored_once(bench: &Bench<'_>) -> CheckResult {
    let session = bench.create("a", at(1))?;
    refused!(bench.create("a", at(2)), SessionExists(_))?;
    drop(session);
    refused!(bench.create("a", at(2)), SessionExists(_))?;
    same(&bench.texts("a")?, &["1:first"])
}

fn an_id_that_could_name_a_file_is_refused(bench: &Bench<'_>) -> CheckResult {
    for wrong in ["", ".", "..", "a/b", "a\0b", "a.b", "ä", &"x".repeat(129)] {
        refused!(bench.create(wrong, at(1)), Invalid(_))?;
        refused!(bench.store.open(&id(wrong)), UnknownSession(_))?;
        refused!(bench.store.delete(&id(wrong)), UnknownSession(_))?;
    }
    bench.create(&"x".repeat(128), at(1)).map(drop).map_err(Into::into)
}

fn a_session_that_is_not_stored_is_unknown_to_every_operation(bench: &Bench<'_>) -> CheckResult {
    let (store, unknown) = (&bench.store, id("unknown"));
    refused!(store.open(&unknown), UnknownSession(_))?;
    refused!(store.summary(&unknown), UnknownSession(_))?;
    refused!(store.prompts(&unknown, 0), UnknownSession(_))?;
    refused!(store.parts(&unknown), UnknownSession(_))?;
    refused!(store.load(&unknown, RecordStream::Client, 0), UnknownSession(_))?;
    refused!(store.fork(&unknown, &new("b"), None, at(1)), UnknownSession(_))?;
    refused!(store.delete(&unknown), UnknownSession(_))
}

fn a_session_is_open_once_over_all_processes(bench: &Bench<'_>) -> CheckResult {
    let other = bench.other();
    let session = bench.create("a", at(1))?;
    for store in [&bench.store, &other] {
        refused!(store.open(&id("a")), Held { .. })?;
        refused!(store.delete(&id("a")), Held { .. })?;
    }
    drop(session);
    let session = other.open(&id("a"))?;
    refused!(bench.store.open(&id("a")), Held { .. })?;
    drop(session);
    bench.store.open(&id("a")).map(drop).map_err(Into::into)
}

fn what_is_written_is_there_for_other_processes(bench: &Bench<'_>) -> CheckResult {
    let other = bench.other();
    let mut session = other.create(&new("a"), &[prompt("one")], at(1))?;
    same(&bench.texts("a")?, &["1:one"])?;
    session.write(&[append("two"), SessionChange::Title("t".to_owned())], at(2))?;
    same(&bench.texts("a")?, &["1:one", "1:two"])?;
    same(&bench.store.summary(&id("a"))?, &other.summary(&id("a"))?)
}

fn a_write_is_made_as_a_whole_or_not_at_all(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let before = bench.store.summary(&id("a"))?;
    let changes = [
        append("x"),
        SessionChange::Title("t".to_owned()),
        part("p", Some("1")),
        SessionChange::Truncate { keep: 2 },
    ];
    refused!(session.write(&changes, at(2)), UnknownPrompt { .. })?;
    same(&bench.store.summary(&id("a"))?, &before)?;
    same(&bench.texts("a")?, &["1:first"])?;
    ensure(bench.store.parts(&id("a"))?.parts.is_empty(), "a part is left of a refused write")?;
    session.write(&[], at(3))?;
    same(&bench.store.summary(&id("a"))?, &before)
}

fn what_is_over_its_bound_is_refused(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let long = |bytes: usize| "x".repeat(bytes);
    for change in [
        append(&long(limits::MAX_RECORD_BYTES)),
        SessionChange::Append(record("x").with_subject(long(limits::MAX_SUBJECT_BYTES + 1))),
        part(&long(limits::MAX_NAME_BYTES + 1), Some("1")),
        part("p", Some(&long(limits::MAX_PART_BYTES + 1))),
        SessionChange::Move(folder(&long(1 << 20), "/")),
    ] {
        refused!(session.write(&[change], at(2)), TooLarge { .. })?;
    }
    refused!(session.write(&vec![append("x"); limits::MAX_CHANGES + 1], at(2)), Invalid(_))?;
    refused!(session.write(&[SessionChange::Fold(record("x"))], at(2)), Invalid(_))?;
    let parts: Vec<_> = (0..limits::MAX_PARTS).map(|n| part(&n.to_string(), Some("1"))).collect();
    session.write(&parts, at(2))?;
    refused!(session.write(&[part("more", Some("1"))], at(2)), Invalid(_))?;
    let large = long(limits::MAX_RECORD_BYTES - 2);
    session.write(&[append(&large)], at(2))?;
    same(&bench.texts("a")?.last(), &Some(&format!("1:{large}")))
}

fn records_keep_their_order_and_what_they_are_over_both_streams(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let mut of_model = record("answer").with_stream(RecordStream::Model).with_subject("m");
    (of_model.kind, of_model.version) = ("message".to_owned(), 7);
    session.write(&[append("x"), SessionChange::Append(of_model), append("y")], at(2))?;
    session.write(&[prompt("second")], at(3))?;
    same(&bench.texts("a")?, &["1:first", "1:x", "1:y", "2:second"])?;
    let shown = bench.records("a", RecordStream::Client, 0)?;
    let of_model = bench.records("a", RecordStream::Model, 0)?;
    let [of_model] = &of_model[..] else {
        return ensure(false, "the model's stream has one record");
    };
    same(
        &(of_model.kind.as_str(), of_model.version, of_model.subject.as_deref()),
        &("message", 7, Some("m")),
    )?;
    same(&(of_model.at, of_model.prompt), &(at(2), 1))?;
    let numbers: Vec<_> = shown.iter().map(|record| record.seq).collect();
    ensure(numbers.is_sorted_by(|one, next| one < next), "numbers do not grow")?;
    ensure(
        numbers[1] < of_model.seq && of_model.seq < numbers[2],
        "streams have numbers of their own",
    )
}

fn a_folded_record_takes_the_place_of_the_first_of_its_subject(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let about = |text: &str| record(text).with_subject("call");
    session.write(
        &[
            SessionChange::Append(about("begins")),
            append("x"),
            SessionChange::Append(about("goes on")),
            SessionChange::Fold(about("whole")),
            append("y"),
        ],
        at(2),
    )?;
    same(&bench.texts("a")?, &["1:first", "1:whole", "1:x", "1:y"])?;
    session.write(&[SessionChange::Fold(about("again"))], at(3))?;
    same(&bench.texts("a")?, &["1:first", "1:again", "1:x", "1:y"])?;
    session.write(&[SessionChange::Fold(record("new").with_subject("other"))], at(4))?;
    same(&bench.texts("a")?, &["1:first", "1:again", "1:x", "1:y", "1:new"])
}

fn a_fold_reaches_into_no_other_prompt_stream_or_subject(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let about = |text: &str| record(text).with_subject("plan");
    let of_model = || about("answer").with_stream(RecordStream::Model);
    let changes = [
        SessionChange::Append(about("one")),
        prompt("second"),
        SessionChange::Append(of_model()),
        SessionChange::Append(record("other").with_subject("plans")),
        SessionChange::Append(about("two")),
        SessionChange::Fold(about("three")),
    ];
    session.write(&changes, at(2))?;
    same(&bench.texts("a")?, &["1:first", "1:one", "2:second", "2:other", "2:three"])?;
    same(&bench.texts_of("a", RecordStream::Model)?, &["2:answer"])
}

fn a_fold_spares_the_record_that_begins_its_prompt(bench: &Bench<'_>) -> CheckResult {
    let begin = SessionChange::Prompt(record("begin").with_subject("m"));
    let mut session = bench.store.create(&new("a"), &[begin], at(1))?;
    session.write(&[SessionChange::Fold(record("folded").with_subject("m"))], at(2))?;
    same(&bench.texts("a")?, &["1:begin", "1:folded"])
}

fn going_back_removes_prompts_from_both_streams_and_nothing_else(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let of_model = |text| SessionChange::Append(record(text).with_stream(RecordStream::Model));
    let changes = [
        of_model("m1"),
        SessionChange::Title("t".to_owned()),
        part("p", Some("1")),
        prompt("second"),
        append("x"),
        of_model("m2"),
        prompt("third"),
    ];
    session.write(&changes, at(2))?;
    session.write(&[SessionChange::Truncate { keep: 3 }], at(3))?;
    same(&bench.store.summary(&id("a"))?.prompts, &3)?;
    session.write(&[SessionChange::Truncate { keep: 1 }], at(4))?;
    same(&bench.texts("a")?, &["1:first"])?;
    same(&bench.texts_of("a", RecordStream::Model)?, &["1:m1"])?;
    let summary = bench.store.summary(&id("a"))?;
    same(&(summary.prompts, summary.title.as_deref(), summary.updated), &(1, Some("t"), at(4)))?;
    same(&bench.store.parts(&id("a"))?.parts.len(), &1)?;
    session.write(&[prompt("another"), append("y")], at(5))?;
    same(&bench.texts("a")?, &["1:first", "2:another", "2:y"])
}

fn numbers_of_records_are_never_used_again(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[prompt("second")], at(2))?;
    let gone = bench.records("a", RecordStream::Client, 0)?.pop();
    session.write(&[SessionChange::Truncate { keep: 1 }, prompt("another")], at(3))?;
    let last = bench.records("a", RecordStream::Client, 0)?.pop();
    let numbers = gone.zip(last).map(|(gone, last)| (gone.seq, last.seq));
    ensure(numbers.is_some_and(|(gone, last)| gone < last), "a number is used again")
}

fn a_session_without_prompts_is_open_but_not_listed(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[SessionChange::Truncate { keep: 0 }], at(2))?;
    ensure(bench.listed(&SessionFilter::default())?.is_empty(), "it is listed")?;
    refused!(session.write(&[append("x")], at(3)), Invalid(_))?;
    session.write(&[prompt("again")], at(3))?;
    same(&bench.listed(&SessionFilter::default())?, &["a"])?;
    same(&bench.texts("a")?, &["1:again"])
}

fn more_prompts_than_there_are_cannot_be_kept(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let keep = SessionChange::Truncate { keep: 2 };
    refused!(session.write(&[keep], at(2)), UnknownPrompt { prompt: 2, .. })?;
    same(&bench.texts("a")?, &["1:first"])
}

fn a_title_is_set_and_cut(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let title = "ä".repeat(limits::MAX_TITLE_BYTES);
    session.write(&[SessionChange::Title(title.clone())], at(2))?;
    let stored = bench.store.summary(&id("a"))?.title.unwrap_or_default();
    same(&stored.len(), &limits::MAX_TITLE_BYTES)?;
    ensure(title.starts_with(&stored), "it is another title")
}

fn parts_are_set_replaced_and_removed(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[part("p", Some("1")), part("q", Some("[2]"))], at(2))?;
    session.write(&[part("p", Some("{}")), part("q", None), part("absent", None)], at(3))?;
    let parts = bench.store.parts(&id("a"))?;
    let expected = [("p".to_owned(), "{}".to_owned())].into();
    same(&(parts.parts, parts.damaged), &(expected, 0))
}

fn only_records_move_the_time_of_the_update_and_never_back(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(10))?;
    let updated = || bench.store.summary(&id("a")).map(|summary| summary.updated);
    let beside = [
        SessionChange::Title("t".to_owned()),
        part("p", Some("1")),
        SessionChange::Move(folder("/b", "/b")),
    ];
    session.write(&beside, at(20))?;
    same(&updated()?, &at(10))?;
    session.write(&[append("x")], at(30))?;
    same(&updated()?, &at(30))?;
    session.write(&[append("y")], at(5))?;
    same(&updated()?, &at(30))?;
    let last = bench.records("a", RecordStream::Client, 0)?.pop();
    same(&last.map(|record| record.at), &Some(at(5)))
}

fn a_session_moves_to_another_folder(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[SessionChange::Move(folder("/elsewhere", "/elsewhere"))], at(2))?;
    let summary = bench.store.summary(&id("a"))?;
    same(&summary.folder, &Some(folder("/elsewhere", "/elsewhere")))?;
    let of = |cwd: &str| SessionFilter { cwd: Some(cwd.into()), ..SessionFilter::default() };
    same(&bench.listed(&of("/elsewhere"))?, &["a"])?;
    ensure(bench.listed(&of("/project"))?.is_empty(), "it is listed in its old folder")
}

fn what_is_written_can_be_made_to_survive_a_power_failure(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    bench.store.sync()?;
    session.write(&[append("x")], at(2))?;
    bench.store.sync()?;
    let NewSession { id, .. } = new("a");
    same(&bench.other().summary(&id)?.prompts, &1)
}

fn an_attachment_of_a_refused_write_is_not_kept(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let contents: [std::sync::Arc<[u8]>; 2] = [b"kept"[..].into(), b"refused"[..].into()];
    let linked = |at: usize| {
        let mut linked = record("x");
        linked.attachments = contents[..at].to_vec();
        SessionChange::Append(linked)
    };
    session.write(&[linked(1)], at(2))?;
    let refused = [linked(2), SessionChange::Truncate { keep: 9 }];
    refused!(session.write(&refused, at(3)), UnknownPrompt { .. })?;
    let get = |at: usize| bench.store.attachment(&id("a"), AttachmentId::for_bytes(&contents[at]));
    same(&get(0)?, &b"kept")?;
    refused!(get(1), UnknownAttachment(_))
}
