//! Tests for the results of searches for file names, and for their order.

use super::{FoundPaths, NamePatternKind, NameQuery, find, find_at};
use crate::error::ErrorCode;
use crate::files::walk::EarlyStop;
use crate::files::workspace::testing::{TestWorkspace, test_workspace};
use crate::limits::{
    MAX_ENTRIES_GATHERED, MAX_ENTRIES_SHOWN, MAX_FUZZY_PATTERN_BYTES, MAX_MATCH_LOCATIONS,
    MAX_PATTERN_BYTES, MAX_WALK_DEPTH,
};
use crate::search::SearchGlob;
use crate::search::grep::SearchProgress;
use crate::search::list::{ListQuery, list};
use pretty_assertions::assert_eq;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn found(tree: &TestWorkspace, query: &NameQuery) -> FoundPaths {
    find(&tree.workspace, query, &|| false).unwrap()
}

#[test]
fn a_glob_finds_names_or_paths_in_their_order() {
    let tree = test_workspace(&[
        ("src/lib.rs", ""),
        ("src/a/mod.rs", ""),
        ("src/a/x.txt", ""),
        ("src-b.rs", ""),
        (".config/x.rs", ""),
        ("build/out.rs", ""),
        (".gitignore", "build\n"),
        (".git/x.rs", ""),
    ]);
    for (pattern, path, expected) in [
        ("*.rs", None, ".config/x.rs\nsrc/a/mod.rs\nsrc/lib.rs\nsrc-b.rs\n"),
        ("*.rs", Some("src"), "src/a/mod.rs\nsrc/lib.rs\n"),
        ("src/*.rs", None, "src/lib.rs\n"),
        ("./src/*.rs", None, "src/lib.rs\n"),
        ("src/**", None, "src/a/\nsrc/a/mod.rs\nsrc/a/x.txt\nsrc/lib.rs\n"),
        ("**/*.{txt,md}", None, "src/a/x.txt\n"),
        ("a/*", Some("src"), "src/a/mod.rs\nsrc/a/x.txt\n"),
        ("a/", None, "src/a/\n"),
        ("lib", None, "[no name matches]\n"),
        ("LIB.rs", None, "[no name matches]\n"),
    ] {
        let found = {
            let path = path.map(str::to_owned);
            found(&tree, &NameQuery { path, ..NameQuery::new(pattern) })
        };
        assert_eq!(found.to_text(&tree.workspace), expected, "{pattern}");
    }
}

#[test]
fn a_nested_repository_has_only_its_own_git_rules() {
    let tree = test_workspace(&[
        (".git/info/exclude", "excluded.js\n"),
        (".gitignore", "dist/\nnested-out/\n"),
        (".ignore", "unsearched.js\n"),
        ("dist/x.js", ""),
        ("plain/dist/x.js", ""),
        ("nested-out/.git/HEAD", ""),
        ("nested-out/x.js", ""),
        ("sub/.git/info/exclude", "own-excluded.js\n"),
        ("sub/.gitignore", "own-dist/\n"),
        ("sub/dist/x.js", ""),
        ("sub/excluded.js", ""),
        ("sub/own-dist/x.js", ""),
        ("sub/own-excluded.js", ""),
        ("sub/unsearched.js", ""),
        // The `.git` of a worktree or a submodule is a file.
        ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
        ("tree/deep/dist/x.js", ""),
    ]);
    for (path, expected) in [
        (None, "sub/dist/x.js\nsub/excluded.js\ntree/deep/dist/x.js\n"),
        (Some("sub"), "sub/dist/x.js\nsub/excluded.js\n"),
        (Some("sub/dist"), "sub/dist/x.js\n"),
        (Some("tree/deep"), "tree/deep/dist/x.js\n"),
        (Some("plain"), "[no name matches]\n"),
    ] {
        let query = NameQuery { path: path.map(str::to_owned), ..NameQuery::new("*.js") };
        assert_eq!(found(&tree, &query).to_text(&tree.workspace), expected, "{path:?}");
    }
}

#[test]
fn a_glob_that_does_not_work_is_explained() {
    for (pattern, expected) in [
        ("[a", "unclosed"),
        ("{a", "unclosed"),
        ("", "empty"),
        ("./", "empty"),
        ("/etc/*", "relative"),
        (&"*".repeat(MAX_PATTERN_BYTES + 1), "too long"),
    ] {
        let error = SearchGlob::parse(pattern).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadPattern));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn many_names_are_cut_and_counted() {
    let tree = test_workspace(&[]);
    for name in 0..MAX_ENTRIES_SHOWN + 3 {
        tree.write(&format!("{}/{name}", name % 7), "");
    }
    let found = found(&tree, &NameQuery::new("*"));
    assert_eq!(
        (found.entries.len(), found.omitted_entries, found.stop),
        (MAX_ENTRIES_SHOWN, 10, None)
    );
    let found = find(&tree.workspace, &NameQuery::new("*"), &|| true).unwrap();
    assert_eq!((found.entries.len(), found.stop), (0, Some(EarlyStop::Cancelled)));
}

#[test]
fn a_walk_stops_in_the_middle_of_a_directory() {
    let tree = test_workspace(&[]);
    for name in 0..2_000 {
        tree.write(&name.to_string(), "");
    }
    let asked = AtomicUsize::new(0);
    let cancel = || asked.fetch_add(1, Ordering::Relaxed) > 2;
    let found = find(&tree.workspace, &NameQuery::new("*"), &cancel).unwrap();
    assert_eq!((found.entries.len(), found.stop), (0, Some(EarlyStop::Cancelled)));
}

#[cfg(unix)]
#[test]
fn names_that_are_no_text_are_found_all_the_same() {
    use std::os::unix::ffi::OsStrExt as _;

    let tree = test_workspace(&[]);
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff\n.rs");
    std::fs::write(tree.workspace.cwd().join(odd), "").unwrap();
    let found = found(&tree, &NameQuery::new("*.rs"));
    assert_eq!(found.to_text(&tree.workspace), "$'odd\\xff\\n.rs'\n");
}

fn fuzzy(letters: &str) -> NameQuery {
    NameQuery { pattern_kind: NamePatternKind::Fuzzy, ..NameQuery::new(letters) }
}

#[test]
fn letters_find_paths_the_best_first() {
    let tree = test_workspace(&[
        ("crates/tools/src/workspace.rs", ""),
        ("crates/tools/src/workspace/walk.rs", ""),
        ("crates/tools/README.md", ""),
        ("docs/wise old parrots.txt", ""),
        ("target/workspace.rs", ""),
        (".gitignore", "target\n"),
    ]);
    for (letters, first) in [
        ("wspace", "crates/tools/src/workspace.rs"),
        ("walk", "crates/tools/src/workspace/walk.rs"),
        ("tools walk", "crates/tools/src/workspace/walk.rs"),
        ("readme", "crates/tools/README.md"),
        ("README", "crates/tools/README.md"),
        ("ctsw", "crates/tools/src/workspace.rs"),
    ] {
        let text = found(&tree, &fuzzy(letters)).to_text(&tree.workspace);
        let shown = text.lines().next().unwrap_or_default();
        assert!(shown.trim_end_matches('/').starts_with(first.trim_end_matches(".rs")), "{text}");
    }
    for letters in ["Readme", "xyz", "target"] {
        let text = found(&tree, &fuzzy(letters)).to_text(&tree.workspace);
        assert_eq!(text, "[no name matches]\n", "{letters}");
    }
    let all = NameQuery { include_ignored: true, ..fuzzy("target") };
    assert_eq!(found(&tree, &all).entries.len(), 2);
    for letters in ["", " ", &"a".repeat(MAX_FUZZY_PATTERN_BYTES + 1)] {
        let error = find(&tree.workspace, &fuzzy(letters), &|| false).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadPattern), "{letters}");
    }
}

#[test]
fn pages_of_names_follow_each_other() {
    let tree = test_workspace(&[]);
    for name in 0..50 {
        tree.write(&format!("{}/n{name:02}", name % 3), "");
    }
    for query in [NameQuery::new("n*"), fuzzy("n")] {
        let all = found(&tree, &query).entries;
        assert_eq!(all.len(), 50);
        let (mut paged, mut offset) = (Vec::new(), 0);
        loop {
            let page = found(&tree, &NameQuery { offset, max_results: Some(7), ..query.clone() });
            assert_eq!(page.omitted_entries, 50 - page.skipped_entries - page.entries.len());
            paged.extend(page.entries.clone());
            let Some(next) = page.next_offset() else { break };
            offset = next as u32;
        }
        assert_eq!(paged, all, "{query:?}");
        let beyond = found(&tree, &NameQuery { offset: 51, ..query.clone() });
        assert_eq!(beyond.to_text(&tree.workspace), "[no more matches: there are 50]\n");
        let offset = MAX_ENTRIES_GATHERED as u32 + 1;
        let error = find(&tree.workspace, &NameQuery { offset, ..query }, &|| false).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidArguments));
    }
}

#[test]
fn the_first_paths_are_reported_as_they_are_found() {
    let tree = test_workspace(&[]);
    for name in 0..MAX_MATCH_LOCATIONS + 9 {
        tree.write(&format!("{name:02}.rs"), "");
        tree.write(&format!("{name:02}.txt"), "");
    }
    let seen = Mutex::new(Vec::<SearchProgress>::new());
    let watch = |news| seen.lock().unwrap().push(news);
    let query = NameQuery { offset: 3, ..NameQuery::new("*.rs") };
    let at = tree.workspace.resolve_and_follow_links(".").unwrap();
    let found = find_at(&tree.workspace, &query, &at, &|| false, &watch).unwrap();
    let all: Vec<_> = found.locations().collect();
    let seen = seen.into_inner().unwrap();
    let reported: Vec<_> = seen.into_iter().filter_map(|seen| seen.locations).collect();
    assert_eq!((reported.len(), reported.last()), (MAX_MATCH_LOCATIONS, Some(&all)));
    assert!(reported.iter().all(|some| all.starts_with(some)), "{reported:?}");
    assert_eq!(reported[0][0].path(), tree.path("03.rs"));
}

#[test]
fn directories_that_are_too_deep_are_counted_not_opened() {
    let tree = test_workspace(&[]);
    tree.write(&"a/".repeat(MAX_WALK_DEPTH + 50), "");
    let deep = found(&tree, &NameQuery::new("a"));
    assert_eq!((deep.entries.len(), deep.unreadable), (MAX_WALK_DEPTH, 1));
    let listing = |depth| {
        let query = ListQuery { depth: Some(depth), ..ListQuery::new(".") };
        list(&tree.workspace, &query, &|| false).unwrap()
    };
    assert_eq!((listing(5).entries.len(), listing(5).unreadable), (5, 0));
}
