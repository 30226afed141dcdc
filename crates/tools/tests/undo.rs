//! Tests with random sequences of writes, edits, moves and deletions that undo restores everything.
//! An undo of the changes in reverse order restores every byte, mode, link and directory.
//!
//! `PROPTEST_CASES` sets the number of sequences; `cargo xtask accept undone` runs many more
//! sequences than a plain test run.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use acp_tools::edit::{Edit, Occurrence, apply};
use acp_tools::files::Durability;
use acp_tools::files::encoding::DecodedText;
use acp_tools::files::remove::inspect_entry;
use acp_tools::files::undo::UndoPlan;
use acp_tools::files::write::{FileWrite, PreImage, read_whole, write_all_or_none};
use acp_tools::{ToolError, Workspace};
use proptest::prelude::*;
use tempfile::TempDir;

/// Paths in a sequence: files, links, directories, and paths that do not exist.
const PATHS: [&str; 12] =
    ["a", "d/b", "d/e/c", "d/e", "d", "link", "hard", "wide", "empty", "new/f", "new/g/h", "d/e/n"];

/// One step of a sequence.
#[derive(Debug, Clone)]
enum FileAction {
    Write(usize, String),
    /// Writes several files at once.
    WriteAll(Vec<(usize, String)>),
    Edit(usize, String),
    Move(usize, usize),
    Delete(usize),
}

fn any_action() -> impl Strategy<Value = FileAction> {
    let path = || 0..PATHS.len();
    let text = || "[a-c\r\n]{0,9}";
    prop_oneof![
        3 => (path(), text()).prop_map(|(at, text)| FileAction::Write(at, text)),
        2 => prop::collection::vec((path(), text()), 2..4).prop_map(FileAction::WriteAll),
        3 => (path(), text()).prop_map(|(at, text)| FileAction::Edit(at, text)),
        2 => (path(), path()).prop_map(|(from, to)| FileAction::Move(from, to)),
        2 => path().prop_map(FileAction::Delete),
    ]
}

struct Tree {
    _outer: TempDir,
    workspace: Workspace,
}

impl Tree {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("d/e")).unwrap();
        fs::create_dir(root.join("empty")).unwrap();
        let wide: Vec<u8> =
            "\u{feff}a\r\nb\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (path, bytes, mode) in [
            ("a", &b"a\nb\nc\n"[..], 0o644),
            ("d/b", b"a\r\nb\r\nc", 0o640),
            ("d/e/c", b"", 0o600),
            ("hard", b"a\nb\n", 0o664),
            ("wide", &wide, 0o751),
        ] {
            fs::write(root.join(path), bytes).unwrap();
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(root.join("d/e"), fs::Permissions::from_mode(0o2750)).unwrap();
        fs::hard_link(root.join("hard"), root.join("d/other")).unwrap();
        symlink("d/b", root.join("link")).unwrap();
        let workspace = Workspace::new(root, Vec::new()).unwrap();
        let workspace = workspace.with_durability(Durability::System);
        let workspace = workspace.with_state_folder(&outer.path().join("state"));
        Self { _outer: outer, workspace }
    }

    fn perform(&self, act: &FileAction) -> Result<(), ToolError> {
        let at = |path: &usize| self.workspace.resolve(PATHS[*path]);
        match act {
            FileAction::Write(path, text) => self.write(&[(*path, text.clone())]),
            FileAction::WriteAll(all) => self.write(all),
            FileAction::Edit(path, new) => self.edit(*path, new),
            FileAction::Move(from, to) => {
                inspect_entry(&self.workspace, &at(from)?)?.move_to(&self.workspace, &at(to)?)
            }
            FileAction::Delete(path) => {
                inspect_entry(&self.workspace, &at(path)?)?.delete(&self.workspace)
            }
        }
    }

    fn write(&self, all: &[(usize, String)]) -> Result<(), ToolError> {
        let mut seen = Vec::new();
        for (path, text) in all {
            let at = self.workspace.resolve(PATHS[*path])?;
            let found = read_whole(&self.workspace, &at, 1 << 20)?;
            seen.push((at, found, text));
        }
        let changes: Vec<_> = seen
            .iter()
            .map(|(at, found, text)| FileWrite {
                path: at,
                expected: found.bytes(),
                bytes: text.as_bytes(),
            })
            .collect();
        write_all_or_none(&self.workspace, &changes)
    }

    fn edit(&self, path: usize, new: &str) -> Result<(), ToolError> {
        let at = self.workspace.resolve(PATHS[path])?;
        let found = read_whole(&self.workspace, &at, 1 << 20)?;
        let PreImage::Bytes(bytes) = &found else {
            return Err(ToolError::invalid_arguments("nothing there"));
        };
        let text = DecodedText::decode(PATHS[path], bytes.clone())?;
        let edit = Edit {
            old_text: "b".to_owned(),
            new_text: new.to_owned(),
            occurrence: Occurrence::All,
        };
        let edited = apply(text.as_str(), &[edit]).map_err(ToolError::from)?;
        let bytes = edited.into_bytes(&text).unwrap();
        write_all_or_none(
            &self.workspace,
            &[FileWrite { path: &at, expected: found.bytes(), bytes: &bytes }],
        )
    }

    fn undo(&self) -> Result<(), ToolError> {
        UndoPlan::for_last_change(&self.workspace)?.run(&self.workspace)
    }

    /// Returns every entry with its mode, its link count and its bytes.
    fn state(&self) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
        let mut state = BTreeMap::new();
        add_folder_state(&mut state, self.workspace.cwd());
        state
    }
}

fn add_folder_state(state: &mut BTreeMap<PathBuf, (u32, u64, Vec<u8>)>, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let (mode, mut names) = (metadata.mode(), metadata.nlink());
        let bytes = if metadata.is_dir() {
            add_folder_state(state, &path);
            names = 0;
            Vec::new()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        state.insert(path, (mode, names, bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_changes_is_undone_step_by_step(acts in prop::collection::vec(any_action(), 1..16)) {
        let tree = Tree::new();
        let mut states = vec![tree.state()];
        for act in &acts {
            let done = tree.perform(act);
            let state = tree.state();
            if done.is_ok() {
                states.push(state);
            } else {
                prop_assert_eq!(Some(&state), states.last(), "{:?} failed but changed something", act);
            }
        }
        while let Some(state) = states.pop() {
            prop_assert_eq!(&tree.state(), &state);
            let undone = tree.undo();
            prop_assert_eq!(undone.is_ok(), !states.is_empty(), "{:?}", undone);
        }
        prop_assert_eq!(tree.workspace.take_late_writes(), vec![]);
    }
}
