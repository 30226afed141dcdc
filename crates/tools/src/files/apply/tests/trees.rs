//! The changes that turn one tree of files into another.

use std::path::Path;

use super::super::{FileBytesAndMode, PathChange};
use crate::files::remove::inspect_entry;
use crate::files::workspace::{Workspace, WorkspacePath};

pub(super) use crate::files::workspace::testing::trees::*;

/// Creates a path in a folder. `path` may be any bytes.
pub(super) fn at(workspace: &Workspace, path: &Path) -> WorkspacePath {
    let root = workspace.resolve(".").unwrap();
    path.iter().fold(root, |at, name| at.child(name))
}

/// Returns the changes that turn the tree on disk, which is `old`, into the tree `new`. A directory
/// that both trees have keeps its mode.
pub(super) fn changes(workspace: &Workspace, old: &Tree, new: &Tree) -> Vec<PathChange> {
    let content = |bytes: &[u8], mode: u32| FileBytesAndMode { bytes: bytes.to_vec(), mode };
    let remove = |path: &Path| {
        PathChange::Remove(Box::new(inspect_entry(workspace, &at(workspace, path)).unwrap()))
    };
    let is_kept = |path: &&Path| match (old.get(*path), new.get(*path)) {
        (Some(Node::Directory { .. }), Some(Node::Directory { .. })) => true,
        (old, new) => old == new,
    };
    let parents_stay =
        |path: &Path| path.ancestors().skip(1).all(|it| it.as_os_str().is_empty() || is_kept(&it));
    let mut changes = Vec::new();
    for (path, node) in
        old.iter().filter(|(path, _)| parents_stay(path) && !is_kept(&path.as_path()))
    {
        match (node, new.get(path)) {
            (Node::File { bytes, mode }, Some(Node::File { bytes: after, mode: mode_after })) => {
                changes.push(PathChange::Write {
                    at: at(workspace, path),
                    before: Some(content(bytes, *mode)),
                    after: content(after, *mode_after),
                });
            }
            _ => changes.push(remove(path)),
        }
    }
    for (path, node) in new {
        let is_written = matches!(old.get(path), Some(Node::File { .. })) && parents_stay(path);
        let at = at(workspace, path);
        match node {
            _ if parents_stay(path) && is_kept(&path.as_path()) => {}
            Node::File { .. } if is_written => {}
            Node::File { bytes, mode } => {
                changes.push(PathChange::Write { at, before: None, after: content(bytes, *mode) });
            }
            Node::Link(target) => {
                changes.push(PathChange::AddLink { at, target: target.clone() });
            }
            Node::Directory { mode } => changes.push(PathChange::AddDirectory { at, mode: *mode }),
        }
    }
    changes
}
