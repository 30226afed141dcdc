//! Rules for loads, short forms and attachments.

use std::sync::Arc;

use super::bench::{
    CheckResult, RuleBroken, StoreRuleBench, append_change, ensure, ensure_equal, new_session,
    prompt_change, record_text, record_with_brief, refused, session_id, text_record,
    time_after_start,
};
use super::rules;
use crate::error::SessionStoreError::{UnknownAttachment, UnknownSession};
use crate::limits::{MAX_PAGE_PROMPTS, MAX_PAGE_RECORDS, PAGE_BYTES};
use crate::record::{AttachmentId, RecordForm, RecordStream, SessionChange, SessionRecord};

rules![
    the_newest_records_are_whole_within_the_budget,
    a_record_without_a_short_form_is_whole_and_not_part_of_the_budget,
    a_load_has_pages_within_their_limits,
    later_writes_are_not_part_of_a_load,
    a_load_begins_at_the_newest_record_that_starts_the_stream,
    a_load_of_a_removed_session_ends_with_an_error,
    attachments_are_returned_by_their_hash,
    attachments_are_removed_with_the_last_record_that_names_them,
    prompts_are_listed_with_the_beginning_of_their_text,
];

fn the_newest_records_are_whole_within_the_budget(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    // Each text has ten bytes, including the quotes.
    let records = ["oldest00", "middle00", "newest00"];
    let changes = records.map(|whole| SessionChange::Append(record_with_brief(whole, "-")));
    session.write(&changes, time_after_start(2))?;
    let forms = |budget| {
        let records = bench.load_records("a", RecordStream::Client, budget)?;
        let forms = records.iter().skip(1).map(|record| (record_text(record), record.form));
        Ok::<_, RuleBroken>(forms.collect::<Vec<_>>())
    };
    for (budget, whole) in [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (u64::MAX, 3)] {
        let expected = records.iter().enumerate().map(|(at, text)| match at >= 3 - whole {
            true => ((*text).to_owned(), RecordForm::Whole),
            false => ("-".to_owned(), RecordForm::Brief),
        });
        ensure_equal(&forms(budget)?, &expected.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn a_record_without_a_short_form_is_whole_and_not_part_of_the_budget(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let long = "x".repeat(100_000);
    let of_model = record_with_brief(&long, "-").with_stream(RecordStream::Model);
    let changes = [
        SessionChange::Append(record_with_brief("12345678", "-")),
        append_change(&long),
        // The budget covers only the loaded stream, so this record of the other stream is not
        // counted.
        SessionChange::Append(of_model),
    ];
    session.write(&changes, time_after_start(2))?;
    let records = bench.load_records("a", RecordStream::Client, 10)?;
    ensure(records.iter().all(|record| record.form == RecordForm::Whole), "one is short")?;
    ensure_equal(
        &records.iter().map(record_text).collect::<Vec<_>>(),
        &["first", "12345678", &long],
    )
}

fn a_load_has_pages_within_their_limits(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let many = MAX_PAGE_RECORDS * 2;
    let changes: Vec<_> = (0..many).map(|number| append_change(&number.to_string())).collect();
    session.write(&changes, time_after_start(2))?;
    let large = "x".repeat(PAGE_BYTES / 3);
    session.write(
        &[
            append_change(&large),
            append_change(&large),
            append_change(&large),
            append_change(&large),
        ],
        time_after_start(3),
    )?;
    let mut load = bench.store.begin_load(&session_id("a"), RecordStream::Client, 0)?;
    let mut all = Vec::new();
    loop {
        let page = bench.store.load_next_records(&mut load)?;
        let bytes: usize = page.iter().map(|record| record.json.len()).sum();
        let last = page.last().map_or(0, |record| record.json.len());
        ensure(page.len() <= MAX_PAGE_RECORDS, "a page has too many records")?;
        ensure(bytes - last < PAGE_BYTES, "a page has too many bytes")?;
        if page.is_empty() {
            break;
        }
        all.extend(page.iter().map(record_text));
    }
    ensure_equal(&all.len(), &(1 + many + 4))?;
    let expected: Vec<_> = (0..many).map(|number| number.to_string()).collect();
    ensure_equal(&all.get(1..=many), &Some(&expected[..]))?;
    ensure(bench.store.load_next_records(&mut load)?.is_empty(), "there is a page behind the end")?;
    ensure_equal(&load.damaged, &0)
}

fn later_writes_are_not_part_of_a_load(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let mut load = bench.store.begin_load(&session_id("a"), RecordStream::Client, 0)?;
    session.write(&[append_change("later")], time_after_start(2))?;
    ensure_equal(&bench.store.load_next_records(&mut load)?.len(), &1)?;
    ensure(bench.store.load_next_records(&mut load)?.is_empty(), "a later record is loaded")
}

fn a_load_begins_at_the_newest_record_that_starts_the_stream(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let of_model = |text: &str| text_record(text).with_stream(RecordStream::Model);
    let mut session = bench.create_session("a", time_after_start(1))?;
    let changes = [
        SessionChange::Append(of_model("one")),
        SessionChange::Append(of_model("summary").with_stream_start()),
        SessionChange::Append(of_model("two")),
        prompt_change("second"),
        SessionChange::Append(of_model("newer summary").with_stream_start()),
        SessionChange::Append(of_model("three")),
    ];
    session.write(&changes, time_after_start(2))?;
    let stream = RecordStream::Model;
    ensure_equal(&bench.texts_of_stream("a", stream)?, &["2:newer summary", "2:three"])?;
    ensure_equal(&bench.client_texts("a")?, &["1:first", "2:second"])?;
    session.write(&[SessionChange::Truncate { keep: 1 }], time_after_start(3))?;
    ensure_equal(&bench.texts_of_stream("a", stream)?, &["1:summary", "1:two"])
}

fn a_load_of_a_removed_session_ends_with_an_error(bench: &StoreRuleBench<'_>) -> CheckResult {
    drop(bench.create_session("a", time_after_start(1))?);
    let mut load = bench.store.begin_load(&session_id("a"), RecordStream::Client, 0)?;
    bench.store.delete(&session_id("a"))?;
    refused!(bench.store.load_next_records(&mut load), UnknownSession(_))
}

/// Returns a record with attachments.
fn record_with_attachments(contents: &[&[u8]]) -> SessionRecord {
    SessionRecord {
        attachments: contents.iter().map(|bytes| Arc::from(*bytes)).collect(),
        ..record_with_brief("whole", "brief")
    }
}

fn attachments_are_returned_by_their_hash(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let contents: [&[u8]; 3] = [b"", b"\0\xff", &[7; 200_000]];
    session
        .write(&[SessionChange::Append(record_with_attachments(&contents))], time_after_start(2))?;
    let records = bench.load_records("a", RecordStream::Client, 0)?;
    let ids = contents.map(AttachmentId::for_bytes);
    ensure_equal(&records.last().map(|record| record.attachments.clone()), &Some(ids.to_vec()))?;
    for (attachment, bytes) in ids.into_iter().zip(contents) {
        ensure_equal(&bench.store.attachment(&session_id("a"), attachment)?, &bytes)?;
        if let Some(file) = bench.store.attachment_file(&session_id("a"), attachment) {
            let read = std::fs::read(file).map_err(|error| RuleBroken(error.to_string()))?;
            ensure_equal(&read, &bytes)?;
        }
    }
    let absent = AttachmentId::for_bytes(b"absent");
    refused!(bench.store.attachment(&session_id("a"), absent), UnknownAttachment(_))?;
    refused!(bench.store.attachment(&session_id("unknown"), ids[0]), UnknownAttachment(_))?;
    ensure_equal(&bench.store.attachment_file(&session_id("a"), absent), &None)
}

fn attachments_are_removed_with_the_last_record_that_names_them(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let about = |contents: &[&[u8]]| record_with_attachments(contents).with_subject("call");
    let changes = [
        SessionChange::Append(record_with_attachments(&[b"kept"])),
        prompt_change("second"),
        SessionChange::Append(about(&[b"kept", b"folded", b"again"])),
        SessionChange::Fold(about(&[b"again", b"gone"])),
    ];
    session.write(&changes, time_after_start(2))?;
    let is_there = |bytes: &[u8]| {
        bench.store.attachment(&session_id("a"), AttachmentId::for_bytes(bytes)).is_ok()
    };
    ensure(is_there(b"kept") && is_there(b"again") && is_there(b"gone"), "one is missing")?;
    ensure(!is_there(b"folded"), "one of a record that was folded is left")?;
    session.write(&[SessionChange::Truncate { keep: 1 }], time_after_start(3))?;
    ensure(is_there(b"kept"), "one that is named still is gone")?;
    ensure(!is_there(b"again") && !is_there(b"gone"), "one of a removed record is left")?;
    drop(session);
    bench.store.delete(&session_id("a"))?;
    ensure(!is_there(b"kept"), "one of a removed session is left")
}

fn prompts_are_listed_with_the_beginning_of_their_text(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.store.create(
        &new_session("a"),
        &[prompt_change("one\n  line")],
        time_after_start(1),
    )?;
    let mut silent = text_record("");
    silent.search_text = None;
    session.write(&[append_change("x"), SessionChange::Prompt(silent)], time_after_start(2))?;
    session.write(&[prompt_change(&"long ".repeat(1000))], time_after_start(3))?;
    let prompts = bench.store.prompts(&session_id("a"), 0)?;
    let found: Vec<_> =
        prompts.iter().map(|prompt| (prompt.number, prompt.at, prompt.text.len() < 1000)).collect();
    ensure_equal(
        &found,
        &[
            (1, time_after_start(1), true),
            (2, time_after_start(2), true),
            (3, time_after_start(3), true),
        ],
    )?;
    ensure_equal(&prompts[0].text, &"one line")?;
    ensure_equal(&prompts[1].text, &"")?;
    ensure(prompts[2].text.starts_with("long long"), "a long text has no beginning")?;
    ensure_equal(&bench.store.prompts(&session_id("a"), 2)?, &prompts[2..])?;
    session.write(&vec![prompt_change("more"); MAX_PAGE_PROMPTS], time_after_start(4))?;
    ensure_equal(&bench.store.prompts(&session_id("a"), 0)?.len(), &MAX_PAGE_PROMPTS)
}
