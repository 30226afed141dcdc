//! What a search finds, and what it says of what it left out.

use super::{FileEnd, Matches, Query, Seen, Skipped, search, search_at};
use crate::error::Code;
use crate::files::walk::Stop;
use crate::files::workspace::testing::{Tree, tree};
use crate::limits::{
    FILE_BYTES, FILES_AHEAD, MATCH_LOCATIONS, MATCH_OFFSET, MATCHES_BYTES, MULTILINE_BYTES,
    PATTERN_BYTES, SEARCHED_LINE_BYTES,
};
use pretty_assertions::assert_eq;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
        "b/c.txt\n1:ONE\n\n[1 matching line in 1 file]\n"
    );
    assert_eq!(
        text(Query { path: Some("a.rs".into()), context: 1, ..Query::new("^one$|^five$") }),
        "a.rs\n1:one\n2-two\n--\n4-four\n5:five\n\n[2 matching lines in 1 file]\n"
    );
    assert_eq!(
        text(Query { path: Some("b".into()), ..Query::new("two$") }),
        "b/c.txt\n2:two\n\n[1 matching line in 1 file]\n"
    );
    assert_eq!(text(Query { glob: Some("b/*".into()), ..query() }), "[no match]\n");
}

#[test]
fn a_pattern_is_taken_as_it_is_asked_for() {
    let tree = tree(&[
        ("a", "fn main() {\n    call(1);\n}\n"),
        ("b", "recall(\n  2)\r\nCALL(3)\n"),
        ("w.txt", "call-in call_out"),
    ]);
    let query = |pattern: &str| Query::new(pattern);
    for (query, expected) in [
        (query("call"), &["a:2", "b:1", "w.txt:1"][..]),
        (Query { literal: true, ..query("call(") }, &["a:2", "b:1"]),
        (Query { literal: true, ..query("c.ll") }, &[]),
        (Query { word: true, ..query("call") }, &["a:2", "w.txt:1"]),
        (Query { case_sensitive: false, word: true, ..query("call") }, &["a:2", "b:3", "w.txt:1"]),
        (query("2\\)$"), &["b:2"]),
        (Query { multiline: true, ..query("\\(\\s+\\d") }, &["b:1", "b:2"]),
        (Query { multiline: true, ..query("(?s)main.*\\}") }, &["a:1", "a:2", "a:3"]),
        (Query { multiline: true, ..query("main.*\\}") }, &[]),
        (Query { multiline: true, literal: true, ..query("{\n    call") }, &["a:1", "a:2"]),
    ] {
        let places: Vec<_> = found(&tree, &query)
            .locations()
            .map(|at| {
                let line = at.line().map_or(0, u32::from);
                format!("{}:{line}", tree.workspace.display(at.path()))
            })
            .collect();
        assert_eq!(places, expected, "{query:?}");
    }
}

#[test]
fn text_in_utf_16_is_searched_as_text() {
    let tree = tree(&[]);
    let units = "\u{feff}eins\nzwölf\n".encode_utf16().flat_map(u16::to_le_bytes);
    tree.write("f", units.collect::<Vec<_>>());
    let matches = found(&tree, &Query::new("zwölf"));
    assert_eq!((matches.count, matches.files[0].lines[0].number), (1, 2));
}

#[test]
fn files_are_chosen_by_globs_types_and_rules() {
    let tree = tree(&[
        ("src/a.rs", "x"),
        ("src/b.py", "x"),
        ("src/gen/c.rs", "x"),
        ("d.md", "x"),
        ("out/e.rs", "x"),
        (".gitignore", "out\n"),
        (".git/HEAD", "x"),
    ]);
    let query = || Query::new("x");
    let globs = |globs: &str| Query { glob: Some(globs.into()), ..query() };
    let types = |types: &str| Query { file_type: Some(types.into()), ..query() };
    for (query, expected) in [
        (globs("*.rs"), "src/a.rs src/gen/c.rs"),
        (globs("*.rs *.md"), "d.md src/a.rs src/gen/c.rs"),
        (globs("*.rs !gen/**"), "src/a.rs src/gen/c.rs"),
        (globs("*.rs !**/gen/**"), "src/a.rs"),
        (globs("!*.rs"), "d.md src/b.py"),
        (globs("*.{py,md}"), "d.md src/b.py"),
        (types("rust"), "src/a.rs src/gen/c.rs"),
        (types("py, Markdown"), "d.md src/b.py"),
        (Query { glob: Some("src/*".into()), ..types("rust") }, "src/a.rs"),
        (
            Query { include_ignored: true, ..query() },
            "d.md out/e.rs src/a.rs src/b.py src/gen/c.rs",
        ),
    ] {
        let matches = found(&tree, &query);
        let paths: Vec<_> =
            matches.files.iter().map(|file| tree.workspace.display(&file.path)).collect();
        assert_eq!(paths.join(" "), expected, "{query:?}");
    }
    for unknown in ["rsut", "", ","] {
        let error = search(&tree.workspace, &types(unknown), &|| false).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidArguments), "{unknown}");
    }
}

#[test]
fn pages_follow_each_other_without_gap_or_overlap() {
    let tree = tree(&[]);
    for name in 0..100 {
        tree.write(&format!("{name:03}"), "x1\ny\nz\nx2\nx3\n".repeat(name % 4));
    }
    let all = Query { max_results: Some(2_000), ..Query::new("x") };
    let lines = |matches: &Matches| -> Vec<_> {
        let shown = matches.files.iter().flat_map(|file| {
            let matching = file.lines.iter().filter(|line| line.is_match);
            matching.map(|line| (file.path.clone(), line.number))
        });
        shown.collect()
    };
    let (all, mut paged, mut offset) = (lines(&found(&tree, &all)), Vec::new(), 0);
    assert_eq!(all.len(), 450);
    for size in [1, 7, 100, 2, 300, 40].into_iter().cycle() {
        let (max_results, context) = (Some(size), size % 3);
        let query = Query { max_results, context, offset, ..Query::new("x") };
        let page = found(&tree, &query);
        assert_eq!(page.passed, offset as usize);
        paged.extend(lines(&page));
        let Some(next) = page.next_offset() else { break };
        assert_eq!(page.count, size as usize);
        assert!(page.to_text(&tree.workspace).contains(&format!("go on with offset {next}]")));
        offset = next as u32;
    }
    assert_eq!(paged, all);
    let beyond = found(&tree, &Query { offset: 451, ..Query::new("x") });
    assert_eq!(beyond.to_text(&tree.workspace), "[no more matches: there are 450]\n");
    let query = Query { offset: MATCH_OFFSET + 1, ..Query::new("x") };
    let error = search(&tree.workspace, &query, &|| false).unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArguments));
}

#[test]
fn a_page_that_begins_inside_of_a_file_shows_its_own_context() {
    let tree = tree(&[("a", "x1\nc2\nx3\nc4\nc5\nx6\n")]);
    let query = Query { offset: 1, max_results: Some(1), context: 1, ..Query::new("x") };
    let text = found(&tree, &query).to_text(&tree.workspace);
    assert!(text.starts_with("a\n2-c2\n3:x3\n4-c4\n\n[matching lines 2 to 2"), "{text}");
}

#[test]
fn one_file_shows_no_more_than_is_asked_of_each() {
    let tree = tree(&[("a", "x\nx\nc\nc\nx\n"), ("b", "x\nx\n")]);
    let query = Query { max_per_file: Some(2), context: 1, ..Query::new("x") };
    let matches = found(&tree, &query);
    assert_eq!(
        matches.to_text(&tree.workspace),
        "a\n1:x\n2:x\n3-c\n[more matches in this file]\n\nb\n1:x\n2:x\n\n\
         [4 matching lines in 2 files]\n"
    );
}

#[test]
fn the_first_matches_are_told_as_they_are_found() {
    let tree = tree(&[]);
    let files = 2 * FILES_AHEAD;
    for name in 0..files {
        tree.write(&format!("{name:04}"), "x\ny\n");
    }
    let seen = Mutex::new(Vec::<Seen>::new());
    let watch = |news| seen.lock().unwrap().push(news);
    let query = Query::new("x");
    let matches = search_at(&tree.workspace, &query, &tree.at("."), &|| false, &watch).unwrap();
    let seen = seen.into_inner().unwrap();
    let all: Vec<_> = matches.locations().collect();
    let told: Vec<_> = seen.iter().filter_map(|seen| seen.locations.clone()).collect();
    assert_eq!(told.last(), Some(&all));
    assert!(told.iter().all(|told| all.starts_with(told)), "{told:?}");
    assert!(told.is_sorted_by_key(Vec::len) && seen.is_sorted_by_key(|seen| seen.files));
}

#[test]
fn matches_over_several_lines_are_bounded_line_by_line() {
    let tree = tree(&[("a", "x\nx\nx\n\ny\nx\n"), ("b", "x\n")]);
    let query = || Query { multiline: true, ..Query::new("x\\n") };
    let text = |query: Query| found(&tree, &query).to_text(&tree.workspace);
    assert_eq!(
        text(Query { max_per_file: Some(2), context: 1, ..query() }),
        "a\n1:x\n2:x\n[more matches in this file]\n\nb\n1:x\n\n[3 matching lines in 2 files]\n"
    );
    assert_eq!(
        text(Query { max_per_file: Some(3), context: 1, ..query() }),
        "a\n1:x\n2:x\n3:x\n4-\n[more matches in this file]\n\nb\n1:x\n\n\
         [4 matching lines in 2 files]\n"
    );
    let page = |offset| Query { max_results: Some(2), offset, context: 1, ..query() };
    let first = text(page(0));
    assert!(first.starts_with("a\n1:x\n2:x\n\n[2 matching lines in 1 file]\n[there"), "{first}");
    let second = text(page(2));
    assert!(second.starts_with("a\n3:x\n4-\n5-y\n6:x\n\n[matching lines 3 to 4"), "{second}");
    assert_eq!(text(page(4)), "b\n1:x\n\n[matching lines 5 to 5, in 1 file]\n");
}

#[test]
fn a_search_stops_in_the_middle_of_a_long_file() {
    let tree = tree(&[("long", &"all work and no play\n".repeat(FILE_BYTES as usize / 21))]);
    let (asked, told) = (AtomicUsize::new(0), AtomicBool::new(false));
    let cancel = || {
        told.fetch_or(asked.fetch_add(1, Ordering::Relaxed) > 20, Ordering::Relaxed);
        told.load(Ordering::Relaxed)
    };
    let start = Instant::now();
    let matches = search(&tree.workspace, &Query::new("needle"), &cancel).unwrap();
    assert_eq!(matches.stop, Some(Stop::Cancelled));
    assert!(asked.into_inner() < 50);
    assert!(start.elapsed() < Duration::from_secs(10));
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
    tree.write("large", format!("{}\nneedle\n", "x\n".repeat(MULTILINE_BYTES / 2)));
    let text = "needle\n".to_owned() + &"x\n".repeat(100_000);
    tree.write("mixed", text.into_bytes().into_iter().chain([0]).collect::<Vec<_>>());
    let matches = found(&tree, &Query::new("needle"));
    let ends: Vec<_> = matches.files.iter().map(|file| (file.path.clone(), file.end)).collect();
    let expected = [
        ("large", None),
        ("long", Some(FileEnd::LongLine)),
        ("mixed", Some(FileEnd::Binary)),
        ("ok", None),
    ];
    assert_eq!(ends, expected.map(|(name, end)| (tree.path(name), end)));
    assert_eq!(
        matches.skipped,
        Skipped { binary: 1, large: 0, long_lines: 1, unreadable: 0, cut: 0 }
    );
    let text = matches.to_text(&tree.workspace);
    assert!(text.contains("[1 binary files were not searched]"), "{text}");
    assert!(text.contains("[the rest of the file is binary]"), "{text}");
    let lines = Query { multiline: true, ..Query::new("needle\\s") };
    let matches = found(&tree, &lines);
    assert_eq!(
        matches.skipped,
        Skipped { binary: 1, large: 2, long_lines: 0, unreadable: 0, cut: 0 }
    );
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
        ("a\\nb", "with multiline"),
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
