//! Trees of files for tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    File { bytes: Vec<u8>, mode: u32 },
    Link(PathBuf),
    Directory { mode: u32 },
}

/// The entries of a tree by their paths. Parents come first.
pub(crate) type Tree = BTreeMap<PathBuf, Node>;

pub(crate) fn file(text: &str, mode: u32) -> Node {
    Node::File { bytes: text.into(), mode }
}

pub(crate) fn link(target: &str) -> Node {
    Node::Link(target.into())
}

pub(crate) fn dir(mode: u32) -> Node {
    Node::Directory { mode }
}

/// Creates a tree. Missing parents get the mode 0755.
pub(crate) fn tree<const N: usize>(nodes: [(&str, Node); N]) -> Tree {
    let mut tree = Tree::new();
    for (path, node) in nodes {
        for parent in Path::new(path).ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()) {
            tree.entry(parent.to_owned()).or_insert(dir(0o755));
        }
        tree.insert(path.into(), node);
    }
    tree
}

/// Writes a tree to disk.
pub(crate) fn create(folder: &Path, tree: &Tree) {
    for (path, node) in tree {
        let path = folder.join(path);
        match node {
            Node::File { bytes, .. } => fs::write(&path, bytes).unwrap(),
            Node::Link(target) => symlink(target, &path).unwrap(),
            Node::Directory { .. } => fs::create_dir(&path).unwrap(),
        }
    }
    for (path, node) in tree.iter().rev() {
        if let Node::File { mode, .. } | Node::Directory { mode } = node {
            fs::set_permissions(folder.join(path), Permissions::from_mode(*mode)).unwrap();
        }
    }
}

/// Reads a tree from disk.
pub(crate) fn read(folder: &Path) -> Tree {
    let (mut folders, mut tree) = (vec![folder.to_owned()], Tree::new());
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            let node = read_entry(&path);
            tree.insert(path.strip_prefix(folder).unwrap().to_owned(), node);
            folders.extend(fs::symlink_metadata(&path).unwrap().is_dir().then_some(path));
        }
    }
    tree
}

/// Reads an entry from disk.
pub(crate) fn read_entry(path: &Path) -> Node {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.mode() & 0o7777;
    if metadata.is_symlink() {
        Node::Link(fs::read_link(path).unwrap())
    } else if metadata.is_dir() {
        Node::Directory { mode }
    } else {
        Node::File { bytes: fs::read(path).unwrap(), mode }
    }
}

/// Returns the tree that the changes should result in: `new`, with the modes of the directories
/// that stay.
pub(crate) fn expected_tree_after_changes(old: &Tree, new: &Tree) -> Tree {
    let mut expected = new.clone();
    for (path, node) in &mut expected {
        let is_kept = path
            .ancestors()
            .filter(|it| !it.as_os_str().is_empty())
            .all(|it| matches!(old.get(it), Some(Node::Directory { .. })));
        if is_kept && matches!(node, Node::Directory { .. }) {
            node.clone_from(&old[path]);
        }
    }
    expected
}

/// Names of entries. There are only a few, so that two trees have many paths in common.
const NAMES: [&[u8]; 7] = [b"a", b"b", b"caf\xe9", b"new\nline", b"-rf", b" $(x)'\"", b"c.txt"];

#[derive(Debug, Clone)]
enum Generated {
    Leaf(Node),
    Directory(u32, BTreeMap<usize, Self>),
}

/// Generates a tree. All files are readable, and all directories are writable.
pub(crate) fn any_tree() -> impl Strategy<Value = Tree> {
    let mode = || prop::sample::select(vec![0o644, 0o600, 0o755, 0o444, 0o440, 0o664]);
    let bytes = prop::collection::vec(prop::sample::select(b"xy\n\0\xff".to_vec()), 0..4);
    let target = prop::sample::select(vec!["a", "b", "../a", "/", "/nowhere", "a/b", "."]);
    let leaf = prop_oneof![
        4 => (bytes, mode()).prop_map(|(bytes, mode)| Node::File { bytes, mode }),
        1 => target.prop_map(link),
    ];
    let node = leaf.prop_map(Generated::Leaf).prop_recursive(3, 24, 5, |inner| {
        let mode = prop::sample::select(vec![0o755, 0o700, 0o711]);
        let children = prop::collection::btree_map(0..NAMES.len(), inner, 0..4);
        (mode, children).prop_map(|(mode, children)| Generated::Directory(mode, children))
    });
    prop::collection::btree_map(0..NAMES.len(), node, 0..6).prop_map(|children| {
        let mut tree = Tree::new();
        flatten(Path::new(""), &children, &mut tree);
        tree
    })
}

fn flatten(parent: &Path, children: &BTreeMap<usize, Generated>, tree: &mut Tree) {
    for (name, node) in children {
        let path = parent.join(OsStr::from_bytes(NAMES[*name]));
        match node {
            Generated::Leaf(node) => drop(tree.insert(path, node.clone())),
            Generated::Directory(mode, children) => {
                tree.insert(path.clone(), dir(*mode));
                flatten(&path, children, tree);
            }
        }
    }
}
