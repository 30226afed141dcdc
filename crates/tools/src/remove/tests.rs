//! What is deleted, moved and undone, and what is not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{Undoing, find};
use crate::error::{Code, ToolError};
use crate::workspace::testing::{Tree, tree};
use crate::workspace::{Durability, Workspace};
use crate::write::{PreImage, atomic_write, read_whole};

/// A tree whose changes are kept beside it.
fn kept(files: &[(&str, &str)]) -> Tree {
    let tree = tree(files);
    let state = tree.outer().join("state");
    let workspace = tree.workspace.keeping(&state).with_durability(Durability::System);
    Tree { workspace, ..tree }
}

fn delete(tree: &Tree, path: &str) -> Result<(), ToolError> {
    find(&tree.workspace, &tree.at(path))?.delete(&tree.workspace)
}

fn rename(tree: &Tree, from: &str, to: &str) -> Result<(), ToolError> {
    let to = tree.workspace.entry(&tree.at(to))?;
    find(&tree.workspace, &tree.at(from))?.rename(&tree.workspace, &to)
}

fn write(tree: &Tree, path: &str, text: &str) -> Result<(), ToolError> {
    let seen = read_whole(&tree.workspace, &tree.at(path), 1 << 20)?;
    atomic_write(&tree.workspace, &tree.at(path), text.as_bytes(), &seen)
}

fn undo(tree: &Tree) -> Result<(), ToolError> {
    Undoing::last(&tree.workspace)?.run(&tree.workspace)
}

/// Every file of a folder with its bytes and mode.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let (mut folders, mut files) = (vec![folder.to_owned()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap_or_default();
                files.insert(path, (bytes, metadata.permissions().mode()));
            }
        }
    }
    files
}

#[test]
fn what_is_deleted_or_moved_comes_back() {
    let tree = kept(&[("a", "text"), ("dir/b", "b"), ("dir/deep/c", "c")]);
    tree.link("link", "a");
    fs::set_permissions(tree.path("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let before = files(tree.workspace.cwd());
    delete(&tree, "link").unwrap();
    assert_eq!(tree.names("."), ["a", "dir"]);
    delete(&tree, "a").unwrap();
    rename(&tree, "dir", "new/place").unwrap();
    assert_eq!(tree.read("new/place/deep/c"), "c");
    delete(&tree, "new/place").unwrap();
    write(&tree, "a", "another").unwrap();
    for _ in 0..5 {
        undo(&tree).unwrap();
    }
    assert_eq!(files(tree.workspace.cwd()), before);
    assert_eq!(undo(&tree).unwrap_err().code(), Some(Code::NotFound));
}

#[test]
fn what_something_else_changed_is_not_undone() {
    let tree = kept(&[("a", "old"), ("b", "old")]);
    write(&tree, "a", "new").unwrap();
    tree.write("a", "other");
    assert_eq!(undo(&tree).unwrap_err().code(), Some(Code::ChangedSinceRead));
    tree.write("a", "new");
    let undoing = Undoing::last(&tree.workspace).unwrap();
    tree.write("a", "other");
    let error = undoing.run(&tree.workspace).unwrap_err();
    assert_eq!((error.code(), tree.read("a").as_str()), (Some(Code::ChangedSincePreview), "other"));
    delete(&tree, "b").unwrap();
    tree.write("b", "newer");
    assert_eq!(undo(&tree).unwrap_err().code(), Some(Code::InvalidArguments));
    assert_eq!(tree.read("b"), "newer");
}

#[test]
fn what_changed_since_the_preview_stays() {
    let tree = kept(&[("a", "old"), ("dir/b", "b")]);
    let found = find(&tree.workspace, &tree.at("a")).unwrap();
    tree.write("a", "new");
    let error = found.delete(&tree.workspace).unwrap_err();
    assert_eq!((error.code(), tree.read("a").as_str()), (Some(Code::ChangedSincePreview), "new"));
    let to = tree.workspace.entry(&tree.at("c")).unwrap();
    tree.write("c", "there");
    let found = find(&tree.workspace, &tree.at("a")).unwrap();
    let error = found.rename(&tree.workspace, &to).unwrap_err();
    assert_eq!((error.code(), tree.read("c").as_str()), (Some(Code::InvalidArguments), "there"));
}

#[test]
fn roots_and_what_cannot_be_kept_stay() {
    let tree = tree(&[("a", "text")]);
    tree.fifo("fifo");
    tree.link("out", tree.outer().join("root-evil"));
    for (path, code) in [
        (".", Code::InvalidArguments),
        ("nothing", Code::NotFound),
        ("fifo", Code::NotARegularFile),
        ("out/secret", Code::OutsideRoots),
        // Nothing is kept in this one.
        ("a", Code::NotPermitted),
    ] {
        let error = delete(&tree, path).unwrap_err();
        assert_eq!(error.code(), Some(code), "{path}: {error}");
    }
    assert_eq!(tree.names("."), ["a", "fifo", "out"]);
    assert!(tree.outer().join("root-evil/secret").exists());
}

#[test]
fn protected_names_and_what_is_kept_are_guarded() {
    let tree = kept(&[]);
    for (path, is_guarded) in [
        (".git/config", true),
        ("deep/.VSCode/settings.json", true),
        ("src/main.rs", false),
        (".gitignore", false),
    ] {
        let real = tree.workspace.settle(&tree.at(path)).unwrap();
        assert_eq!(tree.workspace.is_guarded(&real), is_guarded, "{path}");
    }
    tree.write(".git/config", "");
    tree.link("innocent", ".git/config");
    let real = tree.workspace.settle(&tree.at("innocent")).unwrap();
    assert!(tree.workspace.is_guarded(&real));
}

#[test]
fn the_state_folder_is_guarded_as_a_whole_by_every_name_of_it() {
    let tree = tree(&[("linked", "x"), ("state/x", "")]);
    fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
    tree.link("by-link", "state");
    let workspace = Workspace::new(tree.workspace.cwd().to_owned(), Vec::new()).unwrap();
    let workspace = workspace.keeping(&tree.path("by-link/callboard"));
    for (path, is_guarded, is_shared) in [
        ("state/callboard/permissions/user.json", true, false),
        ("by-link/callboard/journal/call-1", true, false),
        ("state/other", false, false),
        ("linked", false, true),
        ("state/x", false, false),
        ("none", false, false),
    ] {
        let real = workspace.settle(&workspace.resolve(path).unwrap()).unwrap();
        assert_eq!(workspace.is_guarded(&real), is_guarded, "{path}");
        assert_eq!(workspace.is_shared(&real), is_shared, "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_changes_can_be_undone(
        steps in prop::collection::vec((0_u8..4, 0_usize..5, 0_usize..5, "[a-c\n]{0,6}"), 1..14),
    ) {
        let tree = kept(&[("a", "one\n"), ("d/b", "two\r\n"), ("d/e/c", "")]);
        fs::set_permissions(tree.path("d/b"), fs::Permissions::from_mode(0o640)).unwrap();
        let paths = ["a", "d/b", "d/e/c", "d/e", "new/f"];
        let before = files(tree.workspace.cwd());
        let mut done = 0;
        for (what, at, to, text) in steps {
            let (at, to) = (paths[at], paths[to]);
            let result = match what {
                0 | 1 => write(&tree, at, &text),
                2 => delete(&tree, at),
                _ if to.starts_with(at) => continue,
                _ => rename(&tree, at, to),
            };
            done += u32::from(result.is_ok());
        }
        for _ in 0..done {
            undo(&tree).unwrap();
        }
        prop_assert_eq!(files(tree.workspace.cwd()), before);
        prop_assert!(undo(&tree).is_err());
    }
}

#[test]
fn a_file_that_was_made_is_gone_again() {
    let tree = kept(&[]);
    write(&tree, "new", "text").unwrap();
    undo(&tree).unwrap();
    assert_eq!(read_whole(&tree.workspace, &tree.at("new"), 9).unwrap(), PreImage::Missing);
}
