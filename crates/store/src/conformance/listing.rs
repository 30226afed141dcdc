//! Rules of lists and searches.

use super::bench::{
    Bench, CheckResult, append, at, ensure, folder, heavy, id, new, prompt, record, refused, same,
};
use super::rules;
use crate::error::SessionStoreError::Invalid;
use crate::limits::{MAX_HITS, MAX_PAGE_SESSIONS};
use crate::record::{RecordStream, SessionChange};
use crate::search::SessionSearch;
use crate::session::{NewSession, SessionFilter};

rules![
    sessions_are_listed_by_their_newest_update,
    a_list_comes_in_pages_that_a_cursor_joins,
    a_cursor_that_is_none_is_refused,
    sessions_are_found_by_either_name_of_their_folder,
    a_text_is_found_by_the_beginnings_of_all_its_words,
    what_a_query_holds_beside_words_means_nothing,
    hits_come_newest_session_first_and_in_it_newest_record_first,
    hits_can_be_of_one_folder_and_are_bounded,
    what_is_removed_is_not_found,
];

fn sessions_are_listed_by_their_newest_update(bench: &Bench<'_>) -> CheckResult {
    for (session, seconds) in [("a", 3), ("b", 1), ("c", 2), ("e", 1), ("d", 1)] {
        drop(bench.create(session, at(seconds))?);
    }
    same(&bench.listed(&SessionFilter::default())?, &["a", "c", "e", "d", "b"])?;
    bench.store.open(&id("d"))?.write(&[append("x")], at(9))?;
    same(&bench.listed(&SessionFilter::default())?, &["d", "a", "c", "e", "b"])
}

fn a_list_comes_in_pages_that_a_cursor_joins(bench: &Bench<'_>) -> CheckResult {
    let many = MAX_PAGE_SESSIONS + 10;
    for number in 0..many {
        // Three of each time.
        drop(bench.create(&format!("s{number:03}"), at(number as u64 / 3))?);
    }
    let mut filter = SessionFilter { limit: Some(usize::MAX), ..SessionFilter::default() };
    let first = bench.store.list(&filter)?;
    same(&first.sessions.len(), &MAX_PAGE_SESSIONS)?;
    filter.limit = Some(7);
    let mut all = Vec::new();
    loop {
        let page = bench.store.list(&filter)?;
        ensure(page.sessions.len() <= 7, "a page is longer than was asked for")?;
        all.extend(page.sessions);
        // A session that is stored meanwhile shifts no page.
        drop(bench.create(&format!("new{}", all.len()), at(1000))?);
        filter.cursor = page.next;
        if filter.cursor.is_none() {
            break;
        }
    }
    same(&all.len(), &many)?;
    same(&all.get(..MAX_PAGE_SESSIONS), &Some(&first.sessions[..]))?;
    ensure(
        all.is_sorted_by_key(|it| std::cmp::Reverse((it.updated, it.id.to_string()))),
        "pages are not in order",
    )
}

fn a_cursor_that_is_none_is_refused(bench: &Bench<'_>) -> CheckResult {
    for cursor in ["", "x", "1", "1.", "zz.a", "1.a b", "'; DROP TABLE session"] {
        let filter = SessionFilter { cursor: Some(cursor.to_owned()), ..Default::default() };
        refused!(bench.store.list(&filter), Invalid(_))?;
    }
    Ok(())
}

fn sessions_are_found_by_either_name_of_their_folder(bench: &Bench<'_>) -> CheckResult {
    let folders = [("a", "/link", "/real"), ("b", "/real", "/real"), ("c", "/other", "/other")];
    for (number, (session, cwd, canonical)) in folders.into_iter().enumerate() {
        let new = NewSession { id: id(session), folder: folder(cwd, canonical) };
        drop(bench.store.create(&new, &[prompt("x")], at(number as u64))?);
    }
    for (cwd, expected) in [("/link", &["a"][..]), ("/real", &["b", "a"]), ("/", &[])] {
        let filter = SessionFilter { cwd: Some(cwd.into()), ..SessionFilter::default() };
        same(&bench.listed(&filter)?, &expected)?;
    }
    let first = SessionFilter { cwd: Some("/real".into()), limit: Some(1), ..Default::default() };
    let page = bench.store.list(&first)?;
    same(&bench.listed(&SessionFilter { cursor: page.next, ..first })?, &["a"])
}

impl Bench<'_> {
    /// Returns the session and prompt of each hit.
    fn found(&self, words: &str) -> Result<Vec<(String, u32)>, crate::SessionStoreError> {
        let hits =
            self.store.search(&SessionSearch { words: words.to_owned(), ..Default::default() })?;
        Ok(hits.iter().map(|hit| (hit.session.to_string(), hit.prompt)).collect())
    }
}

fn a_text_is_found_by_the_beginnings_of_all_its_words(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let changes = [
        append("Migrate the SESSION table, please."),
        SessionChange::Append(heavy("secretly spoken", "-").with_stream(RecordStream::Model)),
        SessionChange::Title("a title".to_owned()),
    ];
    session.write(&changes, at(2))?;
    for words in ["migrate", "tab sess", "PLEASE", "the the", "secret"] {
        same(&bench.found(words)?, &[("a".to_owned(), 1)])?;
    }
    for words in ["igrate", "migrate absent", "tablet", "title"] {
        ensure(bench.found(words)?.is_empty(), &format!("{words:?} is found"))?;
    }
    let search = SessionSearch { words: "session".to_owned(), ..Default::default() };
    let hits = bench.store.search(&search)?;
    let hit = hits.first().map(|hit| (hit.at, hit.title.as_deref()));
    same(&hit, &Some((at(2), Some("a title"))))?;
    ensure(
        hits.iter().all(|hit| hit.excerpt.contains("SESSION table")),
        "an excerpt is of elsewhere",
    )
}

fn what_a_query_holds_beside_words_means_nothing(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    session.write(&[append("alpha beta"), append("NOT alpha OR NEAR")], at(2))?;
    for words in
        ["\"alpha\"*", "alpha^", "(alpha", "text:alpha", "alpha AND beta", "-alpha", "al'ph"]
    {
        let expected = match words {
            "text:alpha" | "alpha AND beta" | "al'ph" => 0,
            _ => 2,
        };
        same(&bench.found(words)?.len(), &expected)?;
    }
    for words in ["", " ", "*", "\"\"", "\0"] {
        ensure(bench.found(words)?.is_empty(), &format!("{words:?} finds something"))?;
    }
    Ok(())
}

fn hits_come_newest_session_first_and_in_it_newest_record_first(bench: &Bench<'_>) -> CheckResult {
    let mut first = bench.store.create(&new("b"), &[prompt("needle")], at(9))?;
    let mut second = bench.store.create(&new("a"), &[prompt("needle")], at(1))?;
    first.write(&[prompt("needle")], at(20))?;
    second.write(&[append("x"), prompt("needle")], at(2))?;
    let expected = [("a", 2), ("a", 1), ("b", 2), ("b", 1)];
    same(
        &bench.found("needle")?,
        &expected.map(|(session, prompt)| (session.to_owned(), prompt)).to_vec(),
    )
}

fn hits_can_be_of_one_folder_and_are_bounded(bench: &Bench<'_>) -> CheckResult {
    let elsewhere = NewSession { id: id("b"), folder: folder("/b", "/real/b") };
    drop(bench.store.create(&elsewhere, &[prompt("needle")], at(1))?);
    let mut session = bench.create("a", at(2))?;
    session.write(&vec![append("needle"); MAX_HITS + 1], at(2))?;
    let search = |cwd: Option<&str>, limit| {
        let cwd = cwd.map(Into::into);
        bench.store.search(&SessionSearch { words: "needle".to_owned(), cwd, limit })
    };
    same(&search(None, None)?.len(), &MAX_HITS)?;
    same(&search(None, Some(usize::MAX))?.len(), &MAX_HITS)?;
    same(&search(None, Some(3))?.len(), &3)?;
    for cwd in ["/b", "/real/b"] {
        let found = search(Some(cwd), None)?;
        same(&found.iter().map(|hit| hit.session.clone()).collect::<Vec<_>>(), &[id("b")])?;
    }
    ensure(search(Some("/c"), None)?.is_empty(), "something is found in another folder")
}

fn what_is_removed_is_not_found(bench: &Bench<'_>) -> CheckResult {
    let mut session = bench.create("a", at(1))?;
    let about = |text: &str| record(text).with_subject("call");
    session.write(&[SessionChange::Append(about("folded")), prompt("second")], at(2))?;
    session.write(
        &[SessionChange::Append(about("folded")), SessionChange::Fold(about("whole"))],
        at(3),
    )?;
    same(&bench.found("folded")?.len(), &1)?;
    session.write(&[SessionChange::Truncate { keep: 1 }], at(4))?;
    ensure(bench.found("whole second")?.is_empty(), "a removed prompt is found")?;
    ensure(bench.found("second")?.is_empty(), "a removed prompt is found")?;
    session.write(&[SessionChange::Truncate { keep: 0 }, prompt("again")], at(5))?;
    drop(session);
    bench.store.delete(&id("a"))?;
    ensure(bench.found("again")?.is_empty(), "a removed session is found")
}
