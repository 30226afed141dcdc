//! Rules for lists and searches.

use super::bench::{
    CheckResult, StoreRuleBench, append_change, ensure, ensure_equal, new_session, prompt_change,
    record_with_brief, refused, session_folder_from_paths, session_id, text_record,
    time_after_start,
};
use super::rules;
use crate::error::SessionStoreError::Invalid;
use crate::limits::{MAX_HITS, MAX_PAGE_SESSIONS};
use crate::record::{RecordStream, SessionChange};
use crate::search::SessionSearch;
use crate::session::{NewSession, SessionFilter};

rules![
    sessions_are_listed_by_their_newest_update,
    a_list_has_pages_that_are_joined_by_cursors,
    an_invalid_cursor_is_refused,
    sessions_are_found_by_either_path_of_their_folder,
    a_folder_is_found_however_its_path_is_spelled,
    a_text_is_found_by_the_beginnings_of_all_its_words,
    characters_between_the_words_of_a_query_are_ignored,
    hits_are_ordered_by_newest_session_and_then_by_newest_record,
    hits_can_be_limited_to_one_folder_and_a_number,
    removed_records_are_not_found,
];

fn sessions_are_listed_by_their_newest_update(bench: &StoreRuleBench<'_>) -> CheckResult {
    for (session, seconds) in [("a", 3), ("b", 1), ("c", 2), ("e", 1), ("d", 1)] {
        drop(bench.create_session(session, time_after_start(seconds))?);
    }
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["a", "c", "e", "d", "b"])?;
    bench.store.open(&session_id("d"))?.write(&[append_change("x")], time_after_start(9))?;
    ensure_equal(&bench.listed_ids(&SessionFilter::default())?, &["d", "a", "c", "e", "b"])
}

fn a_list_has_pages_that_are_joined_by_cursors(bench: &StoreRuleBench<'_>) -> CheckResult {
    let many = MAX_PAGE_SESSIONS + 10;
    for number in 0..many {
        // Every three consecutive sessions have the same time.
        drop(bench.create_session(&format!("s{number:03}"), time_after_start(number as u64 / 3))?);
    }
    let mut filter = SessionFilter { limit: Some(usize::MAX), ..SessionFilter::default() };
    let first = bench.store.list(&filter)?;
    ensure_equal(&first.sessions.len(), &MAX_PAGE_SESSIONS)?;
    filter.limit = Some(7);
    let mut all = Vec::new();
    loop {
        let page = bench.store.list(&filter)?;
        ensure(page.sessions.len() <= 7, "a page is longer than was asked for")?;
        all.extend(page.sessions);
        // A session that is stored while pages are read must not shift the later pages.
        drop(bench.create_session(&format!("new{}", all.len()), time_after_start(1000))?);
        filter.cursor = page.next;
        if filter.cursor.is_none() {
            break;
        }
    }
    ensure_equal(&all.len(), &many)?;
    ensure_equal(&all.get(..MAX_PAGE_SESSIONS), &Some(&first.sessions[..]))?;
    ensure(
        all.is_sorted_by_key(|it| std::cmp::Reverse((it.updated, it.id.to_string()))),
        "pages are not in order",
    )
}

fn an_invalid_cursor_is_refused(bench: &StoreRuleBench<'_>) -> CheckResult {
    for cursor in ["", "x", "1", "1.", "zz.a", "1.a b", "'; DROP TABLE session"] {
        let filter = SessionFilter { cursor: Some(cursor.to_owned()), ..Default::default() };
        refused!(bench.store.list(&filter), Invalid(_))?;
    }
    Ok(())
}

fn sessions_are_found_by_either_path_of_their_folder(bench: &StoreRuleBench<'_>) -> CheckResult {
    let folders = [("a", "/link", "/real"), ("b", "/real", "/real"), ("c", "/other", "/other")];
    for (number, (session, cwd, canonical)) in folders.into_iter().enumerate() {
        let new = NewSession {
            id: session_id(session),
            folder: session_folder_from_paths(cwd, canonical),
        };
        drop(bench.store.create(&new, &[prompt_change("x")], time_after_start(number as u64))?);
    }
    for (cwd, expected) in [("/link", &["a"][..]), ("/real", &["b", "a"]), ("/", &[])] {
        let filter = SessionFilter { cwd: Some(cwd.into()), ..SessionFilter::default() };
        ensure_equal(&bench.listed_ids(&filter)?, &expected)?;
    }
    let first = SessionFilter { cwd: Some("/real".into()), limit: Some(1), ..Default::default() };
    let page = bench.store.list(&first)?;
    ensure_equal(&bench.listed_ids(&SessionFilter { cursor: page.next, ..first })?, &["a"])
}

fn a_folder_is_found_however_its_path_is_spelled(bench: &StoreRuleBench<'_>) -> CheckResult {
    let spellings = ["/link", "/link/", "/x/../link/."];
    for (session, cwd) in ["a", "b", "c"].into_iter().zip(spellings) {
        let new =
            NewSession { id: session_id(session), folder: session_folder_from_paths(cwd, "/real") };
        drop(bench.store.create(&new, &[prompt_change("needle")], time_after_start(1))?);
        ensure_equal(&bench.store.summary(&new.id)?.folder, &Some(new.folder))?;
    }
    let filter = |cwd: &str| SessionFilter { cwd: Some(cwd.into()), ..Default::default() };
    let names = spellings.into_iter().chain(["/./link//", "/real/", "/real/x/.."]);
    for cwd in names {
        ensure_equal(&bench.listed_ids(&filter(cwd))?, &["c", "b", "a"])?;
        let search = SessionSearch { words: "needle".to_owned(), ..Default::default() };
        let search = SessionSearch { cwd: Some(cwd.into()), ..search };
        ensure_equal(&bench.store.search(&search)?.len(), &3)?;
    }
    for cwd in ["/lin", "/link/x", "/"] {
        ensure(
            bench.listed_ids(&filter(cwd))?.is_empty(),
            "a session of another folder is listed",
        )?;
    }
    let first = SessionFilter { limit: Some(2), ..filter("/link/") };
    let page = bench.store.list(&first)?;
    ensure_equal(&bench.listed_ids(&SessionFilter { cursor: page.next, ..first })?, &["a"])
}

impl StoreRuleBench<'_> {
    /// Returns the session id and the prompt number of each hit.
    fn find_hits(&self, words: &str) -> Result<Vec<(String, u32)>, crate::SessionStoreError> {
        let hits =
            self.store.search(&SessionSearch { words: words.to_owned(), ..Default::default() })?;
        Ok(hits.iter().map(|hit| (hit.session.to_string(), hit.prompt)).collect())
    }
}

fn a_text_is_found_by_the_beginnings_of_all_its_words(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let changes = [
        append_change("Migrate the SESSION table, please."),
        SessionChange::Append(
            record_with_brief("secretly spoken", "-").with_stream(RecordStream::Model),
        ),
        SessionChange::Title("a title".to_owned()),
    ];
    session.write(&changes, time_after_start(2))?;
    for words in ["migrate", "tab sess", "PLEASE", "the the", "secret"] {
        ensure_equal(&bench.find_hits(words)?, &[("a".to_owned(), 1)])?;
    }
    for words in ["igrate", "migrate absent", "tablet", "title"] {
        ensure(bench.find_hits(words)?.is_empty(), &format!("{words:?} is found"))?;
    }
    let search = SessionSearch { words: "session".to_owned(), ..Default::default() };
    let hits = bench.store.search(&search)?;
    let hit = hits.first().map(|hit| (hit.at, hit.title.as_deref()));
    ensure_equal(&hit, &Some((time_after_start(2), Some("a title"))))?;
    ensure(
        hits.iter().all(|hit| search.excerpt(&hit.text).contains("SESSION table")),
        "the text of a hit is another text",
    )
}

fn characters_between_the_words_of_a_query_are_ignored(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    session.write(
        &[append_change("alpha beta"), append_change("NOT alpha OR NEAR")],
        time_after_start(2),
    )?;
    for words in
        ["\"alpha\"*", "alpha^", "(alpha", "text:alpha", "alpha AND beta", "-alpha", "al'ph"]
    {
        let expected = match words {
            "text:alpha" | "alpha AND beta" | "al'ph" => 0,
            _ => 2,
        };
        ensure_equal(&bench.find_hits(words)?.len(), &expected)?;
    }
    for words in ["", " ", "*", "\"\"", "\0"] {
        ensure(bench.find_hits(words)?.is_empty(), &format!("{words:?} finds something"))?;
    }
    Ok(())
}

fn hits_are_ordered_by_newest_session_and_then_by_newest_record(
    bench: &StoreRuleBench<'_>,
) -> CheckResult {
    let mut first =
        bench.store.create(&new_session("b"), &[prompt_change("needle")], time_after_start(9))?;
    let mut second =
        bench.store.create(&new_session("a"), &[prompt_change("needle")], time_after_start(1))?;
    first.write(&[prompt_change("needle")], time_after_start(20))?;
    second.write(&[append_change("x"), prompt_change("needle")], time_after_start(2))?;
    let expected = [("a", 2), ("a", 1), ("b", 2), ("b", 1)];
    ensure_equal(
        &bench.find_hits("needle")?,
        &expected.map(|(session, prompt)| (session.to_owned(), prompt)).to_vec(),
    )
}

fn hits_can_be_limited_to_one_folder_and_a_number(bench: &StoreRuleBench<'_>) -> CheckResult {
    let elsewhere =
        NewSession { id: session_id("b"), folder: session_folder_from_paths("/b", "/real/b") };
    drop(bench.store.create(&elsewhere, &[prompt_change("needle")], time_after_start(1))?);
    let mut session = bench.create_session("a", time_after_start(2))?;
    session.write(&vec![append_change("needle"); MAX_HITS + 1], time_after_start(2))?;
    let search = |cwd: Option<&str>, limit| {
        let cwd = cwd.map(Into::into);
        bench.store.search(&SessionSearch { words: "needle".to_owned(), cwd, limit })
    };
    ensure_equal(&search(None, None)?.len(), &MAX_HITS)?;
    ensure_equal(&search(None, Some(usize::MAX))?.len(), &MAX_HITS)?;
    ensure_equal(&search(None, Some(3))?.len(), &3)?;
    for cwd in ["/b", "/real/b"] {
        let found = search(Some(cwd), None)?;
        ensure_equal(
            &found.iter().map(|hit| hit.session.clone()).collect::<Vec<_>>(),
            &[session_id("b")],
        )?;
    }
    ensure(search(Some("/c"), None)?.is_empty(), "something is found in another folder")
}

fn removed_records_are_not_found(bench: &StoreRuleBench<'_>) -> CheckResult {
    let mut session = bench.create_session("a", time_after_start(1))?;
    let about = |text: &str| text_record(text).with_subject("call");
    session.write(
        &[SessionChange::Append(about("folded")), prompt_change("second")],
        time_after_start(2),
    )?;
    session.write(
        &[SessionChange::Append(about("folded")), SessionChange::Fold(about("whole"))],
        time_after_start(3),
    )?;
    ensure_equal(&bench.find_hits("folded")?.len(), &1)?;
    session.write(&[SessionChange::Truncate { keep: 1 }], time_after_start(4))?;
    ensure(bench.find_hits("whole second")?.is_empty(), "a removed prompt is found")?;
    ensure(bench.find_hits("second")?.is_empty(), "a removed prompt is found")?;
    session.write(
        &[SessionChange::Truncate { keep: 0 }, prompt_change("again")],
        time_after_start(5),
    )?;
    drop(session);
    bench.store.delete(&session_id("a"))?;
    ensure(bench.find_hits("again")?.is_empty(), "a removed session is found")
}
