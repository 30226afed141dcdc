//! What a search finds, and what it says of what it left out.

use super::{Matches, Query, Skipped, search};
use crate::error::Code;
use crate::limits::{
    FILE_BYTES, MATCH_LOCATIONS, MATCHES_BYTES, PATTERN_BYTES, SEARCHED_LINE_BYTES,
};
use crate::workspace::Stop;
use crate::workspace::testing::{Tree, tree};
use pretty_assertions::assert_eq;

fn found(tree: &Tree, query: &Query) -> Matches {
    search(&tree.workspace, query, &|| false).unwrap()
}

fn small() -> Tree {
    tree(&[
        ("a.rs", "one\ntwo\nthree\nfour\nfive\n"),
        ("b/c.txt", "ONE\r\ntwo\r\n"),
        ("build/x.rs", "one"),
        (".gitignore", "build\n"),
        (".git/config", "one"),
        (".hidden", "one\n"),
    ])
}

#[test]
fn matches_are_shown_by_file_in_the_order_of_the_names() {
    let tree = small();
    let text = |query: Query| found(&tree, &query).to_text(&tree.workspace);
    let query = || Query::new("one|three");
    assert_eq!(
        text(query()),
        ".hidden\n1:one\n\na.rs\n1:one\n3:three\n\n[3 matching lines in 2 files]\n"
    );
    assert_eq!(
        text(Query { case_sensitive: false, glob: Some("*.txt".into()), ..query() }),
        "b/c.txt\n1:ONE\n\n[1 matching lines in 1 files]\n"
    );
    assert_eq!(
        text(Query { path: Some("a.rs".into()), context: 1, ..Query::new("^one$|^five$") }),
        "a.rs\n1:one\n2-two\n--\n4-four\n5:five\n\n[2 matching lines in 1 files]\n"
    );
    assert_eq!(
        text(Query { path: Some("b".into()), ..Query::new("two$") }),
        "b/c.txt\n2:two\n\n[1 matching lines in 1 files]\n"
    );
    assert_eq!(text(Query { glob: Some("b/*".into()), ..query() }), "[no match]\n");
}

#[test]
fn locations_name_file_and_line() {
    let tree = tree(&[("a", &"x\n".repeat(MATCH_LOCATIONS + 1))]);
    let matches = found(&tree, &Query::new("x"));
    let locations: Vec<_> = matches.locations().collect();
    assert_eq!(locations.len(), MATCH_LOCATIONS);
    assert_eq!(locations[4].path(), tree.path("a"));
    assert_eq!(locations[4].line().map(u32::from), Some(5));
}

#[test]
fn the_first_matches_are_shown_whichever_thread_was_faster() {
    let tree = tree(&[]);
    for name in 0..200 {
        tree.write(&format!("{name:03}"), "x\ny\nx\n".repeat(1 + name % 9));
    }
    let query = Query { max_results: Some(33), context: 1, ..Query::new("x") };
    let first = found(&tree, &query);
    assert_eq!((first.count, first.truncated), (33, true));
    let shown = first.files.iter().flat_map(|file| &file.lines).filter(|line| line.is_match);
    assert_eq!(shown.count(), 33);
    for _ in 0..20 {
        assert_eq!(found(&tree, &query).files, first.files);
    }
    let all = found(&tree, &Query { max_results: Some(u32::MAX), ..Query::new("x") });
    assert_eq!((all.count, all.truncated), (1_986, false));
    assert!(all.files.is_sorted_by_key(|file| &file.path));
    let exactly = found(&tree, &Query { max_results: Some(1_986), ..Query::new("x") });
    assert!(!exactly.truncated);
}

#[test]
fn what_is_no_text_or_too_large_is_counted_not_searched() {
    let tree = tree(&[("ok", "needle\n"), ("binary", "needle\n\0\n")]);
    let line = "x".repeat(SEARCHED_LINE_BYTES * 2);
    tree.write("long", format!("needle\n{line}\nneedle\n"));
    let file = std::fs::File::create(tree.path("large")).unwrap();
    file.set_len(FILE_BYTES + 1).unwrap();
    let matches = found(&tree, &Query::new("needle"));
    let names: Vec<_> = matches.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!(names, ["long", "ok"].map(|name| tree.path(name)));
    assert_eq!(matches.skipped, Skipped { binary: 1, large: 1, long_lines: 1, unreadable: 0 });
    assert!(matches.to_text(&tree.workspace).contains("[1 binary files were not searched]"));
    let alone = Query { path: Some("binary".into()), ..Query::new("needle") };
    assert_eq!(found(&tree, &alone).skipped.binary, 1);
}

#[test]
fn long_lines_are_shown_around_the_match() {
    let tree = tree(&[("min.js", &format!("{}needle{}", "ä".repeat(99_999), "b".repeat(99_999)))]);
    let matches = found(&tree, &Query::new("needle"));
    let line = &matches.files[0].lines[0].text;
    assert!(line.starts_with("…ä") && line.contains("needle") && line.ends_with("b…"), "{line}");
    assert!(line.len() < 520);
}

#[test]
fn the_text_is_bounded() {
    let tree = tree(&[("a", &format!("{}\n", "x".repeat(400)).repeat(5_000))]);
    let matches = found(&tree, &Query { max_results: Some(2_000), context: 9, ..Query::new("x") });
    assert!(matches.truncated);
    let bytes: usize = matches.files[0].lines.iter().map(|line| line.text.len()).sum();
    assert!(bytes <= MATCHES_BYTES && bytes > MATCHES_BYTES - 500);
    assert!(matches.to_text(&tree.workspace).contains("there are more"));
}

#[test]
fn context_of_a_match_that_is_left_out_is_left_out_too() {
    let tree = tree(&[("a", "x\nafter\nbefore\nx\n")]);
    let matches = found(&tree, &Query { max_results: Some(1), context: 1, ..Query::new("x") });
    let lines: Vec<_> = matches.files[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!((lines, matches.truncated), (vec!["x", "after"], true));
}

#[test]
fn a_pattern_that_does_not_work_is_explained_in_one_line() {
    let tree = tree(&[]);
    for (pattern, expected) in [
        ("(", "unclosed group"),
        ("a\\nb", "not allowed"),
        (r"(?:\pL{100}){100}", "size limit"),
        (&"a".repeat(PATTERN_BYTES + 1), "too long"),
    ] {
        let error = search(&tree.workspace, &Query::new(pattern), &|| false).unwrap_err();
        assert_eq!(error.code(), Some(Code::BadPattern), "{pattern}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let glob = Query { glob: Some("[".into()), ..Query::new("a") };
    assert_eq!(
        search(&tree.workspace, &glob, &|| false).unwrap_err().code(),
        Some(Code::BadPattern)
    );
}

#[test]
fn a_cancelled_search_shows_what_it_has() {
    let tree = small();
    let matches = search(&tree.workspace, &Query::new("one"), &|| true).unwrap();
    assert_eq!((matches.count, matches.stop), (0, Some(Stop::Cancelled)));
    let alone = Query { path: Some("a.rs".into()), ..Query::new("one") };
    let matches = search(&tree.workspace, &alone, &|| true).unwrap();
    assert_eq!((matches.count, matches.stop), (0, Some(Stop::Cancelled)));
}

#[cfg(target_os = "linux")]
#[test]
fn links_and_special_files_are_not_read() {
    let tree = tree(&[("a", "secret\n")]);
    tree.link("out", tree.outer().join("secret"));
    tree.link("out-dir", tree.outer());
    tree.fifo("fifo");
    let matches = found(&tree, &Query::new("secret"));
    assert_eq!((matches.count, matches.skipped), (1, Skipped::default()));
    for (path, code) in [
        ("out", Code::OutsideRoots),
        ("out-dir", Code::OutsideRoots),
        ("fifo", Code::NotARegularFile),
        ("nothing", Code::NotFound),
    ] {
        let query = Query { path: Some(path.into()), ..Query::new("secret") };
        let error = search(&tree.workspace, &query, &|| false).unwrap_err();
        assert_eq!(error.code(), Some(code), "{path}");
    }
}
