//! Tests for the paths that a workspace accepts, and for those that it rejects.

use acp_lifecycle::rules::{FileAccess, Matcher, PathGlob, Rule, RuleScope};
use acp_lifecycle::{Effect, Rules, Verdict};
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use super::testing::test_workspace;
use super::{Workspace, WorkspaceError, guard};
use crate::error::ErrorCode;

#[test]
fn paths_are_placed_by_their_text() {
    let tree = test_workspace(&[("src/lib.rs", "")]);
    let root = tree.workspace.cwd().to_str().unwrap();
    for (given, expected) in [
        (".", Ok("")),
        ("./", Ok("")),
        ("src/lib.rs", Ok("src/lib.rs")),
        ("./src//lib.rs", Ok("src/lib.rs")),
        ("src/lib.rs/", Ok("src/lib.rs")),
        ("src/../other", Ok("other")),
        ("../root/src", Ok("src")),
        ("~/x", Ok("~/x")),
        ("..a/b", Ok("..a/b")),
        ("%2e%2e/secret", Ok("%2e%2e/secret")),
        ("file:///etc/passwd", Ok("file:/etc/passwd")),
        (root, Ok("")),
        (&format!("{root}/a"), Ok("a")),
        (&format!("{root}//a/"), Ok("a")),
        (&format!("{root}/../root/a"), Ok("a")),
        ("..", Err(ErrorCode::OutsideRoots)),
        ("../secret", Err(ErrorCode::OutsideRoots)),
        ("../root-evil/secret", Err(ErrorCode::OutsideRoots)),
        ("src/../../secret", Err(ErrorCode::OutsideRoots)),
        (&format!("{root}-evil"), Err(ErrorCode::OutsideRoots)),
        (&format!("{root}/../root-evil/secret"), Err(ErrorCode::OutsideRoots)),
        ("/", Err(ErrorCode::OutsideRoots)),
        ("/etc/passwd", Err(ErrorCode::OutsideRoots)),
        ("//etc/passwd", Err(ErrorCode::OutsideRoots)),
        ("/proc/self/root/etc/passwd", Err(ErrorCode::OutsideRoots)),
        ("", Err(ErrorCode::InvalidArguments)),
        ("a\0b", Err(ErrorCode::InvalidArguments)),
        (&"a/".repeat(2_500), Err(ErrorCode::InvalidArguments)),
    ] {
        let resolved = tree.workspace.resolve(given);
        let beneath = resolved.as_ref().map(|at| at.path_in_root().to_str().unwrap());
        let beneath = beneath.map_err(|error| error.code().unwrap());
        assert_eq!(beneath, expected, "{given}");
        if let Ok(at) = resolved {
            assert_eq!(at.path(), tree.path(expected.unwrap()).components().as_path(), "{given}");
            assert_eq!(at.given(), given);
        }
    }
}

#[test]
fn an_outside_path_error_lists_the_project_folders() {
    let tree = test_workspace(&[]);
    let error = tree.workspace.resolve("../x").unwrap_err().to_string();
    assert!(error.contains("../x is outside"), "{error}");
    assert!(error.contains(tree.workspace.cwd().to_str().unwrap()), "{error}");
}

#[test]
fn a_missing_file_is_answered_with_similar_names() {
    let tree = test_workspace(&[("src/main.rs", ""), ("src/README.md", ""), ("src/other", "")]);
    for (given, expected) in [
        ("src/mian.rs", "Similar: src/main.rs"),
        ("src/readme.md", "Similar: src/README.md"),
        ("src/zzz", "no file there"),
        ("nowhere/zzz", "nor does its directory"),
    ] {
        let error = tree.workspace.open_read(&tree.resolve(given)).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotFound));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn links_are_followed_inside_the_roots_only() {
    use std::os::unix::net::UnixListener;

    let tree = test_workspace(&[("dir/file", "inside")]);
    tree.link("in", "dir/file");
    tree.link("in-absolute", tree.path("dir/file"));
    tree.link("up-and-in", "dir/../dir");
    tree.link("out", "../secret");
    tree.link("out-absolute", tree.outer_folder().join("secret"));
    tree.link("out-dir", tree.outer_folder());
    tree.link("magic", "/proc/self/root");
    tree.link("circle", "circle");
    tree.link("dangling", "nothing");
    tree.fifo("fifo");
    let _socket = UnixListener::bind(tree.path("socket")).unwrap();
    for (given, expected) in [
        ("dir/file", None),
        ("in", None),
        ("in-absolute", None),
        ("up-and-in/file", None),
        ("out", Some(ErrorCode::OutsideRoots)),
        ("out-absolute", Some(ErrorCode::OutsideRoots)),
        ("out-dir/secret", Some(ErrorCode::OutsideRoots)),
        ("out-dir/nothing", Some(ErrorCode::OutsideRoots)),
        ("magic/etc/passwd", Some(ErrorCode::OutsideRoots)),
        ("circle", Some(ErrorCode::OutsideRoots)),
        ("dangling", Some(ErrorCode::NotFound)),
        ("dir", Some(ErrorCode::IsADirectory)),
        (".", Some(ErrorCode::IsADirectory)),
        ("dir/file/more", Some(ErrorCode::NotADirectory)),
        ("fifo", Some(ErrorCode::NotARegularFile)),
        ("socket", Some(ErrorCode::Io)),
        (&"n".repeat(300), Some(ErrorCode::Io)),
    ] {
        let opened = tree.workspace.open_read(&tree.resolve(given));
        let code = opened.as_ref().err().map(|error| error.code().unwrap());
        assert_eq!(code, expected, "{given}: {opened:?}");
    }
}

#[test]
fn an_error_names_the_file_that_has_the_place_of_a_directory() {
    let tree = test_workspace(&[("real/f", "")]);
    for given in ["real/f/x", "real/f/x/y"] {
        let expected = format!("{given} cannot exist, because real/f is not a directory");
        let inspected = tree.workspace.resolve_and_follow_links(given).unwrap_err();
        let opened = tree.workspace.open_read(&tree.resolve(given)).unwrap_err();
        assert_eq!([inspected, opened].map(|error| error.to_string()), [&*expected, &expected]);
    }
    let listed = tree.workspace.open_dir(&tree.resolve("real/f")).unwrap_err();
    assert_eq!(listed.to_string(), "real/f is not a directory");
}

#[cfg(unix)]
#[test]
fn canonicalize_returns_the_file_that_would_be_written() {
    let tree = test_workspace(&[("dir/file", ""), ("other/", "")]);
    tree.link("link", "dir/file");
    tree.link("dir-link", "dir");
    tree.link("out", tree.outer_folder());
    for (given, expected) in [
        ("link", "dir/file"),
        ("dir-link/file", "dir/file"),
        ("dir-link/new/file", "dir/new/file"),
        ("dir-link", "dir"),
        ("new", "new"),
        (".", ""),
    ] {
        let settled = tree.workspace.canonicalize(&tree.resolve(given)).unwrap();
        assert_eq!(settled.path_in_root(), Path::new(expected), "{given}");
    }
    let error = tree.workspace.canonicalize(&tree.resolve("out/new")).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::OutsideRoots));
}

#[cfg(unix)]
#[test]
fn every_root_counts_and_links_may_lead_from_one_to_another() {
    let outer = tempfile::tempdir().unwrap();
    let [one, two, alias] = ["one", "two", "alias"].map(|name| outer.path().join(name));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    fs::write(two.join("file"), "two").unwrap();
    std::os::unix::fs::symlink(&two, one.join("link")).unwrap();
    std::os::unix::fs::symlink(&one, &alias).unwrap();

    let workspace = Workspace::new(alias.clone(), vec![two.clone()]).unwrap();
    assert_eq!(workspace.roots().collect::<Vec<_>>(), [&alias, &two]);
    let by_link = workspace.resolve("link/file").unwrap();
    assert!(workspace.open_read(&by_link).is_ok());
    // A file of the first project folder has only one path, even if the model's path contains
    // links.
    let real = one.canonicalize().unwrap().join("x");
    assert_eq!(workspace.resolve(real.to_str().unwrap()).unwrap().path(), alias.join("x"));
    assert_eq!(workspace.display(&alias.join("x")), "x");
    assert_eq!(workspace.display(&alias), ".");
    assert_eq!(workspace.display(&two.join("file")), two.join("file").to_str().unwrap());
}

#[test]
fn roots_are_absolute_existing_directories() {
    let tree = test_workspace(&[("file", "")]);
    let unusable = |path: PathBuf| Workspace::new(path, Vec::new()).unwrap_err();
    assert!(matches!(unusable("relative".into()), WorkspaceError::NotAbsolute { .. }));
    assert!(matches!(unusable(tree.path("nothing")), WorkspaceError::Unusable { .. }));
    assert!(matches!(unusable(tree.path("file")), WorkspaceError::Unusable { .. }));
    let cwd = tree.workspace.cwd().to_owned();
    assert!(Workspace::new(cwd, vec![tree.path("nothing")]).is_err());
}

#[cfg(unix)]
#[test]
fn a_name_without_meaning_as_text_is_shown_in_one_line() {
    use std::os::unix::ffi::OsStrExt as _;

    let tree = test_workspace(&[]);
    let odd = std::ffi::OsStr::from_bytes(b"a\xff\n\x1bb");
    let shown = tree.workspace.display(Path::new(odd));
    assert_eq!(shown, r"$'a\xff\n\x1bb'");
    fs::write(tree.path("").join(odd), "").unwrap();
    assert!(tree.workspace.open_read(&tree.resolve(&shown)).is_ok());
    assert!(tree.workspace.open_read(&tree.resolve("similar")).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn open_existing_file_opens_only_regular_files_in_project_folders() {
    let tree = test_workspace(&[("dir/file", "inside")]);
    tree.link("in", "dir/file");
    tree.link("in-absolute", tree.path("dir/file"));
    tree.link("out", "../secret");
    tree.link("out-absolute", tree.outer_folder().join("secret"));
    tree.fifo("fifo");
    for (path, is_found) in [
        (tree.path("dir/file"), true),
        (tree.path("dir/../dir/file"), true),
        (tree.path("in"), true),
        (tree.path("in-absolute"), true),
        (tree.path("out"), false),
        (tree.path("out-absolute"), false),
        (tree.path("fifo"), false),
        (tree.path("dir"), false),
        (tree.path("missing"), false),
        (tree.outer_folder().join("secret"), false),
        (PathBuf::from("dir/file"), false),
    ] {
        let found = tree.workspace.open_read_if_exists(&path);
        assert_eq!(found.is_some(), is_found, "{}", path.display());
    }
}

#[test]
fn effects_of_a_link_include_its_target() {
    let tree = test_workspace(&[("secrets/key", "x"), ("plain", "")]);
    tree.link("notes", "secrets/key");
    let read_effects = |path: &str| {
        let effects = guard::path_effects(&tree.workspace, &tree.resolve(path), Effect::Read);
        effects.iter().cloned().collect::<Vec<_>>()
    };
    let read = |path: &str| Effect::Read(tree.workspace.cwd().join(path));
    assert_eq!(read_effects("notes"), [read("notes"), read("secrets/key")]);
    assert_eq!(read_effects("plain"), [read("plain")]);
    assert_eq!(read_effects("none"), [read("none")]);
}

/// A command may have removed a file, or replaced its folder.
#[test]
fn a_rule_denies_reading_by_each_path_of_a_file() {
    let tree = test_workspace(&[("secrets/key", "x"), ("plain", "")]);
    tree.link("notes", "secrets/key");
    let glob = format!("{}/secrets/**", tree.workspace.cwd().display());
    let glob = PathGlob::parse(&glob).unwrap();
    let matcher = Matcher::Path { access: FileAccess::Read, glob };
    let mut rules = Rules::default();
    rules.add_rule(Rule::new(RuleScope::Session, matcher, Verdict::Deny));
    let judge = |path| tree.workspace.judge_read(&tree.path(path), &rules);
    for path in ["secrets/key", "secrets/none", "secrets/none/deep", "notes"] {
        assert_eq!(judge(path), Verdict::Deny, "{path}");
    }
    assert_eq!(judge("plain"), Verdict::Allow);
    fs::remove_dir_all(tree.path("secrets")).unwrap();
    fs::write(tree.path("secrets"), "a file").unwrap();
    assert_eq!(judge("secrets/key"), Verdict::Deny);
}

#[test]
fn names_are_guarded_where_the_root_gives_them_meaning_and_the_agents_own_places_anywhere() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join(".config");
    fs::create_dir_all(root.join("ours")).unwrap();
    let workspace =
        Workspace::new(root.clone(), Vec::new()).unwrap().with_guarded_path(&root.join("ours"));
    for (path, expected) in [
        ("callboard/config.toml", true),
        ("ours/config.toml", true),
        ("ours", true),
        ("others/config.toml", false),
    ] {
        let at = workspace.canonicalize(&workspace.resolve(path).unwrap()).unwrap();
        assert_eq!(guard::is_guarded(&workspace, &at), expected, "{path}");
    }
}
