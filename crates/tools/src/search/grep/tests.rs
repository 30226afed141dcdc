//! Tests for the results of content searches, and for the omissions that they report.

use super::{
    GrepQuery, Matches, PartialFileSearchReason, SearchProgress, UnsearchedCounts, search,
    search_at,
};
use crate::error::ErrorCode;
use crate::files::walk::EarlyStop;
use crate::files::workspace::testing::{TestWorkspace, test_workspace};
use crate::limits::{
    MAX_MATCH_LOCATIONS, MAX_MATCH_OFFSET, MAX_MATCHES_TEXT_BYTES, MAX_MULTILINE_FILE_BYTES,
    MAX_PATTERN_BYTES, MAX_QUEUED_FILES, MAX_SEARCHED_LINE_BYTES, MAX_WHOLE_FILE_BYTES,
};
use acp_types::Location;
use pretty_assertions::assert_eq;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn found(tree: &TestWorkspace, query: &GrepQuery) -> Matches {
    search(&tree.workspace, query, &|| false).unwrap()
}

fn small() -> TestWorkspace {
    test_workspace(&[
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
    let text = |query: GrepQuery| found(&tree, &query).to_text(&tree.workspace);
    let query = || GrepQuery::new("one|three");
    assert_eq!(
        text(query()),
        ".hidden\n1:one\n\na.rs\n1:one\n3:three\n\n[3 matching lines in 2 files]\n"
    );
    assert_eq!(
        text(GrepQuery { case_sensitive: false, glob: Some("*.txt".into()), ..query() }),
        "b/c.txt\n1:ONE\n\n[1 matching line in 1 file]\n"
    );
    assert_eq!(
        text(GrepQuery { path: Some("a.rs".into()), context: 1, ..GrepQuery::new("^one$|^five$") }),
        "a.rs\n1:one\n2-two\n--\n4-four\n5:five\n\n[2 matching lines in 1 file]\n"
    );
    assert_eq!(
        text(GrepQuery { path: Some("b".into()), ..GrepQuery::new("two$") }),
        "b/c.txt\n2:two\n\n[1 matching line in 1 file]\n"
    );
    assert_eq!(text(GrepQuery { glob: Some("b/*".into()), ..query() }), "[no match]\n");
}

#[test]
fn a_pattern_is_taken_as_it_is_asked_for() {
    let tree = test_workspace(&[
        ("a", "fn main() {\n    call(1);\n}\n"),
        ("b", "recall(\n  2)\r\nCALL(3)\n"),
        ("w.txt", "call-in call_out"),
    ]);
    let query = |pattern: &str| GrepQuery::new(pattern);
    for (query, expected) in [
        (query("call"), &["a:2", "b:1", "w.txt:1"][..]),
        (GrepQuery { literal: true, ..query("call(") }, &["a:2", "b:1"]),
        (GrepQuery { literal: true, ..query("c.ll") }, &[]),
        (GrepQuery { word: true, ..query("call") }, &["a:2", "w.txt:1"]),
        (
            GrepQuery { case_sensitive: false, word: true, ..query("call") },
            &["a:2", "b:3", "w.txt:1"],
        ),
        (query("2\\)$"), &["b:2"]),
        (GrepQuery { multiline: true, ..query("\\(\\s+\\d") }, &["b:1", "b:2"]),
        (GrepQuery { multiline: true, ..query("(?s)main.*\\}") }, &["a:1", "a:2", "a:3"]),
        (GrepQuery { multiline: true, ..query("main.*\\}") }, &[]),
        (GrepQuery { multiline: true, literal: true, ..query("{\n    call") }, &["a:1", "a:2"]),
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
    let tree = test_workspace(&[]);
    let units = "\u{feff}eins\nzwölf\n".encode_utf16().flat_map(u16::to_le_bytes);
    tree.write("f", units.collect::<Vec<_>>());
    let matches = found(&tree, &GrepQuery::new("zwölf"));
    assert_eq!((matches.count, matches.files[0].lines[0].number), (1, 2));
}

#[test]
fn files_are_chosen_by_globs_types_and_rules() {
    let tree = test_workspace(&[
        ("src/a.rs", "x"),
        ("src/b.py", "x"),
        ("src/gen/c.rs", "x"),
        ("d.md", "x"),
        ("out/e.rs", "x"),
        (".gitignore", "out\n"),
        (".git/HEAD", "x"),
    ]);
    let query = || GrepQuery::new("x");
    let globs = |globs: &str| GrepQuery { glob: Some(globs.into()), ..query() };
    let types = |types: &str| GrepQuery { file_type: Some(types.into()), ..query() };
    for (query, expected) in [
        (globs("*.rs"), "src/a.rs src/gen/c.rs"),
        (globs("*.rs *.md"), "d.md src/a.rs src/gen/c.rs"),
        (globs("*.rs !gen/**"), "src/a.rs src/gen/c.rs"),
        (globs("*.rs !**/gen/**"), "src/a.rs"),
        // An excluded directory is excluded with all its files, as by `rg -g '!gen'`.
        (globs("!gen"), "d.md src/a.rs src/b.py"),
        (globs("*.rs !gen/"), "src/a.rs"),
        (globs("!src/gen d.md *.rs"), "d.md src/a.rs"),
        (globs("!src"), "d.md"),
        (globs("!*.md/ !a.rs/ !en !ge"), "d.md src/a.rs src/b.py src/gen/c.rs"),
        (GrepQuery { path: Some("src".into()), ..globs("!src !g*") }, "src/a.rs src/b.py"),
        (globs("!*.rs"), "d.md src/b.py"),
        (globs("*.{py,md}"), "d.md src/b.py"),
        (types("rust"), "src/a.rs src/gen/c.rs"),
        (types("py, Markdown"), "d.md src/b.py"),
        (GrepQuery { glob: Some("src/*".into()), ..types("rust") }, "src/a.rs"),
        (
            GrepQuery { include_ignored: true, ..query() },
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
        assert_eq!(error.code(), Some(ErrorCode::InvalidArguments), "{unknown}");
    }
}

#[test]
fn pages_follow_each_other_without_gap_or_overlap() {
    let tree = test_workspace(&[]);
    for name in 0..100 {
        tree.write(&format!("{name:03}"), "x1\ny\nz\nx2\nx3\n".repeat(name % 4));
    }
    let all = GrepQuery { max_results: Some(2_000), ..GrepQuery::new("x") };
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
        let query = GrepQuery { max_results, context, offset, ..GrepQuery::new("x") };
        let page = found(&tree, &query);
        assert_eq!(page.skipped_matches, offset as usize);
        paged.extend(lines(&page));
        let Some(next) = page.next_offset() else { break };
        assert_eq!(page.count, size as usize);
        assert!(page.to_text(&tree.workspace).contains(&format!("continue with offset {next}]")));
        offset = next as u32;
    }
    assert_eq!(paged, all);
    let beyond = found(&tree, &GrepQuery { offset: 451, ..GrepQuery::new("x") });
    assert_eq!(beyond.to_text(&tree.workspace), "[no more matches: there are 450]\n");
    let query = GrepQuery { offset: MAX_MATCH_OFFSET + 1, ..GrepQuery::new("x") };
    let error = search(&tree.workspace, &query, &|| false).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InvalidArguments));
}

#[test]
fn a_page_that_begins_inside_of_a_file_shows_its_own_context() {
    let tree = test_workspace(&[("a", "x1\nc2\nx3\nc4\nc5\nx6\n")]);
    let query = GrepQuery { offset: 1, max_results: Some(1), context: 1, ..GrepQuery::new("x") };
    let text = found(&tree, &query).to_text(&tree.workspace);
    assert!(text.starts_with("a\n2-c2\n3:x3\n4-c4\n\n[matching lines 2 to 2"), "{text}");
}

#[test]
fn one_file_shows_no_more_than_is_asked_of_each() {
    let tree = test_workspace(&[("a", "x\nx\nc\nc\nx\n"), ("b", "x\nx\n")]);
    let query = GrepQuery { max_per_file: Some(2), context: 1, ..GrepQuery::new("x") };
    let matches = found(&tree, &query);
    assert_eq!(
        matches.to_text(&tree.workspace),
        "a\n1:x\n2:x\n3-c\n[more matches in this file]\n\nb\n1:x\n2:x\n\n\
         [4 matching lines in 2 files]\n"
    );
}

#[test]
fn the_first_matches_are_reported_as_they_are_found() {
    let tree = test_workspace(&[]);
    let files = 2 * MAX_QUEUED_FILES;
    for name in 0..files {
        tree.write(&format!("{name:04}"), "x\ny\n");
    }
    let seen = Mutex::new(Vec::<SearchProgress>::new());
    let watch = |news| seen.lock().unwrap().push(news);
    let query = GrepQuery::new("x");
    let (at, never) = (tree.resolve("."), || false);
    let matches = search_at(&tree.workspace, &query, &at, &never, &|_| false, &watch).unwrap();
    let seen = seen.into_inner().unwrap();
    let all: Vec<_> = matches.locations().collect();
    let reported: Vec<_> = seen.iter().filter_map(|seen| seen.locations.clone()).collect();
    assert_eq!(reported.last(), Some(&all));
    assert!(reported.iter().all(|some| all.starts_with(some)), "{reported:?}");
    assert!(
        reported.is_sorted_by_key(Vec::len) && seen.is_sorted_by_key(|seen| seen.files_searched)
    );
}

#[test]
fn excluded_files_are_left_out_of_progress_and_result() {
    let tree = test_workspace(&[("denied", "x\nx\n"), ("read", "x\n")]);
    let (denied, read) = (tree.path("denied"), tree.path("read"));
    let seen = Mutex::new(Vec::<SearchProgress>::new());
    let watch = |news| seen.lock().unwrap().push(news);
    let is_excluded = |path: &Path| path == denied;
    // The matches of the excluded file do not fill the page.
    let query = GrepQuery { max_results: Some(2), ..GrepQuery::new("x") };
    for (path, expected) in [(".", &[&*read][..]), ("denied", &[])] {
        let at = tree.resolve(path);
        let matches =
            search_at(&tree.workspace, &query, &at, &|| false, &is_excluded, &watch).unwrap();
        let files: Vec<_> = matches.files.iter().map(|file| &*file.path).collect();
        assert_eq!((&*files, matches.count), (expected, expected.len()), "{path}");
        assert!(!matches.truncated, "{path}");
    }
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|seen| seen.match_count <= 1), "{seen:?}");
    let reported = seen.iter().flat_map(|seen| &seen.locations).flatten();
    assert_eq!(reported.map(Location::path).collect::<Vec<_>>(), [&*read], "{seen:?}");
}

#[test]
fn matches_over_several_lines_are_bounded_line_by_line() {
    let tree = test_workspace(&[("a", "x\nx\nx\n\ny\nx\n"), ("b", "x\n")]);
    let query = || GrepQuery { multiline: true, ..GrepQuery::new("x\\n") };
    let text = |query: GrepQuery| found(&tree, &query).to_text(&tree.workspace);
    assert_eq!(
        text(GrepQuery { max_per_file: Some(2), context: 1, ..query() }),
        "a\n1:x\n2:x\n[more matches in this file]\n\nb\n1:x\n\n[3 matching lines in 2 files]\n"
    );
    assert_eq!(
        text(GrepQuery { max_per_file: Some(3), context: 1, ..query() }),
        "a\n1:x\n2:x\n3:x\n4-\n[more matches in this file]\n\nb\n1:x\n\n\
         [4 matching lines in 2 files]\n"
    );
    let page = |offset| GrepQuery { max_results: Some(2), offset, context: 1, ..query() };
    let first = text(page(0));
    assert!(first.starts_with("a\n1:x\n2:x\n\n[2 matching lines in 1 file]\n[there"), "{first}");
    let second = text(page(2));
    assert!(second.starts_with("a\n3:x\n4-\n5-y\n6:x\n\n[matching lines 3 to 4"), "{second}");
    assert_eq!(text(page(4)), "b\n1:x\n\n[matching lines 5 to 5, in 1 file]\n");
}

#[test]
fn a_search_stops_in_the_middle_of_a_long_file() {
    let tree = test_workspace(&[(
        "long",
        &"all work and no play\n".repeat(MAX_WHOLE_FILE_BYTES as usize / 21),
    )]);
    let (asked, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let cancel = || {
        is_over.fetch_or(asked.fetch_add(1, Ordering::Relaxed) > 20, Ordering::Relaxed);
        is_over.load(Ordering::Relaxed)
    };
    let start = Instant::now();
    let matches = search(&tree.workspace, &GrepQuery::new("needle"), &cancel).unwrap();
    assert_eq!(matches.stop, Some(EarlyStop::Cancelled));
    assert!(asked.into_inner() < 50);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn locations_name_file_and_line() {
    let tree = test_workspace(&[("a", &"x\n".repeat(MAX_MATCH_LOCATIONS + 1))]);
    let matches = found(&tree, &GrepQuery::new("x"));
    let locations: Vec<_> = matches.locations().collect();
    assert_eq!(locations.len(), MAX_MATCH_LOCATIONS);
    assert_eq!(locations[4].path(), tree.path("a"));
    assert_eq!(locations[4].line().map(u32::from), Some(5));
}

#[test]
fn the_first_matches_are_shown_whichever_thread_was_faster() {
    let tree = test_workspace(&[]);
    for name in 0..200 {
        tree.write(&format!("{name:03}"), "x\ny\nx\n".repeat(1 + name % 9));
    }
    let query = GrepQuery { max_results: Some(33), context: 1, ..GrepQuery::new("x") };
    let first = found(&tree, &query);
    assert_eq!((first.count, first.truncated), (33, true));
    let shown = first.files.iter().flat_map(|file| &file.lines).filter(|line| line.is_match);
    assert_eq!(shown.count(), 33);
    for _ in 0..20 {
        assert_eq!(found(&tree, &query).files, first.files);
    }
    let all = found(&tree, &GrepQuery { max_results: Some(u32::MAX), ..GrepQuery::new("x") });
    assert_eq!((all.count, all.truncated), (1_986, false));
    assert!(all.files.is_sorted_by_key(|file| &file.path));
    let exactly = found(&tree, &GrepQuery { max_results: Some(1_986), ..GrepQuery::new("x") });
    assert!(!exactly.truncated);
}

#[test]
fn binary_and_large_files_are_counted_not_searched() {
    let tree = test_workspace(&[("ok", "needle\n"), ("binary", "needle\n\0\n")]);
    let line = "x".repeat(MAX_SEARCHED_LINE_BYTES * 2);
    tree.write("long", format!("needle\n{line}\nneedle\n"));
    tree.write("large", format!("{}\nneedle\n", "x\n".repeat(MAX_MULTILINE_FILE_BYTES / 2)));
    let text = "needle\n".to_owned() + &"x\n".repeat(100_000);
    tree.write("mixed", text.into_bytes().into_iter().chain([0]).collect::<Vec<_>>());
    let matches = found(&tree, &GrepQuery::new("needle"));
    let ends: Vec<_> =
        matches.files.iter().map(|file| (file.path.clone(), file.partial_reason)).collect();
    let expected = [
        ("large", None),
        ("long", Some(PartialFileSearchReason::LongLine)),
        ("mixed", Some(PartialFileSearchReason::Binary)),
        ("ok", None),
    ];
    assert_eq!(ends, expected.map(|(name, end)| (tree.path(name), end)));
    assert_eq!(
        matches.unsearched,
        UnsearchedCounts {
            binary: 1,
            large: 0,
            long_lines: 1,
            unreadable: 0,
            truncated_directories: 0
        }
    );
    let text = matches.to_text(&tree.workspace);
    assert!(text.contains("[1 binary files were not searched]"), "{text}");
    assert!(text.contains("[the rest of the file is binary]"), "{text}");
    let lines = GrepQuery { multiline: true, ..GrepQuery::new("needle\\s") };
    let matches = found(&tree, &lines);
    assert_eq!(
        matches.unsearched,
        UnsearchedCounts {
            binary: 1,
            large: 2,
            long_lines: 0,
            unreadable: 0,
            truncated_directories: 0
        }
    );
    let alone = GrepQuery { path: Some("binary".into()), ..GrepQuery::new("needle") };
    assert_eq!(found(&tree, &alone).unsearched.binary, 1);
}

#[test]
fn long_lines_are_shown_around_the_match() {
    let tree = test_workspace(&[(
        "min.js",
        &format!("{}needle{}", "ä".repeat(99_999), "b".repeat(99_999)),
    )]);
    let matches = found(&tree, &GrepQuery::new("needle"));
    let line = &matches.files[0].lines[0].text;
    assert!(line.starts_with("…ä") && line.contains("needle") && line.ends_with("b…"), "{line}");
    assert!(line.len() < 520);
}

#[test]
fn the_text_is_bounded() {
    let tree = test_workspace(&[("a", &format!("{}\n", "x".repeat(400)).repeat(5_000))]);
    let matches =
        found(&tree, &GrepQuery { max_results: Some(2_000), context: 9, ..GrepQuery::new("x") });
    assert!(matches.truncated);
    let bytes: usize = matches.files[0].lines.iter().map(|line| line.text.len()).sum();
    assert!(bytes <= MAX_MATCHES_TEXT_BYTES && bytes > MAX_MATCHES_TEXT_BYTES - 500);
    assert!(matches.to_text(&tree.workspace).contains("there are more"));
}

#[test]
fn context_of_a_match_that_is_left_out_is_left_out_too() {
    let tree = test_workspace(&[("a", "x\nafter\nbefore\nx\n")]);
    let matches =
        found(&tree, &GrepQuery { max_results: Some(1), context: 1, ..GrepQuery::new("x") });
    let lines: Vec<_> = matches.files[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!((lines, matches.truncated), (vec!["x", "after"], true));
}

#[test]
fn a_pattern_that_does_not_work_is_explained_in_one_line() {
    let tree = test_workspace(&[]);
    for (pattern, expected) in [
        ("(", "unclosed group"),
        ("a\\nb", "not allowed"),
        ("a\\nb", "with multiline"),
        (r"(?:\pL{100}){100}", "size limit"),
        (&"a".repeat(MAX_PATTERN_BYTES + 1), "too long"),
    ] {
        let error = search(&tree.workspace, &GrepQuery::new(pattern), &|| false).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadPattern), "{pattern}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let glob = GrepQuery { glob: Some("[".into()), ..GrepQuery::new("a") };
    assert_eq!(
        search(&tree.workspace, &glob, &|| false).unwrap_err().code(),
        Some(ErrorCode::BadPattern)
    );
}

#[test]
fn a_cancelled_search_shows_what_it_has() {
    let tree = small();
    let matches = search(&tree.workspace, &GrepQuery::new("one"), &|| true).unwrap();
    assert_eq!((matches.count, matches.stop), (0, Some(EarlyStop::Cancelled)));
    let alone = GrepQuery { path: Some("a.rs".into()), ..GrepQuery::new("one") };
    let matches = search(&tree.workspace, &alone, &|| true).unwrap();
    assert_eq!((matches.count, matches.stop), (0, Some(EarlyStop::Cancelled)));
}

#[cfg(target_os = "linux")]
#[test]
fn links_and_special_files_are_not_read() {
    let tree = test_workspace(&[("a", "secret\n")]);
    tree.link("out", tree.outer_folder().join("secret"));
    tree.link("out-dir", tree.outer_folder());
    tree.fifo("fifo");
    let matches = found(&tree, &GrepQuery::new("secret"));
    assert_eq!((matches.count, matches.unsearched), (1, UnsearchedCounts::default()));
    for (path, code) in [
        ("out", ErrorCode::OutsideRoots),
        ("out-dir", ErrorCode::OutsideRoots),
        ("fifo", ErrorCode::NotARegularFile),
        ("nothing", ErrorCode::NotFound),
    ] {
        let query = GrepQuery { path: Some(path.into()), ..GrepQuery::new("secret") };
        let error = search(&tree.workspace, &query, &|| false).unwrap_err();
        assert_eq!(error.code(), Some(code), "{path}");
    }
}
