//! Tests that undo restores everything after random sequences of writes, edits, moves and
//! deletions. Undoing the changes in reverse order restores every byte, mode, link and directory. A
//! rewind to any prompt does the same. Undo and rewind also work in a later process.
//!
//! `PROPTEST_CASES` sets the number of sequences; `cargo xtask accept undone` runs many more
//! sequences than a plain test run.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acp_tools::edit::{Edit, Occurrence, apply};
use acp_tools::files::Durability;
use acp_tools::files::encoding::DecodedText;
use acp_tools::files::remove::inspect_entry;
use acp_tools::files::rewind::{KeptFile, RewindPlan};
use acp_tools::files::undo::UndoPlan;
use acp_tools::files::write::{FileWrite, PreImage, read_whole, write_all_or_none};
use acp_tools::{ToolError, Workspace};
use acp_types::{FileChange, FileChangeOperation, diff};
use proptest::prelude::*;
use tempfile::TempDir;

/// Paths in a sequence: files, links, directories, and paths that do not exist.
const PATHS: [&str; 15] = [
    "a", "d/b", "d/e/c", "d/e", "d", "link", "hard", "wide", "empty", "new/f", "new/g/h", "d/e/n",
    "new", "new/b", "new/e/c",
];

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

/// Each entry with its mode, its link count and its bytes.
type TreeState = BTreeMap<PathBuf, (u32, u64, Vec<u8>)>;

struct Tree {
    outer: TempDir,
    workspace: Workspace,
}

fn session_workspace(root: &Path, outer: &Path) -> Workspace {
    let workspace = Workspace::new(root.to_owned(), Vec::new()).unwrap();
    let workspace = workspace.with_durability(Durability::System);
    workspace.with_state_folder(&outer.join("state")).with_session_id("sess_1")
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
        let workspace = session_workspace(&root, outer.path());
        Self { outer, workspace }
    }

    /// Continues the session as another process would.
    fn restart(&mut self) {
        let outside = tempfile::tempdir().unwrap();
        self.workspace = Workspace::new(outside.path().to_owned(), Vec::new()).unwrap();
        self.workspace = session_workspace(&self.outer.path().join("root"), self.outer.path());
    }

    /// Changes a file as another program would.
    fn perform_foreign(&self, act: &FileAction, step: usize) -> bool {
        let path = |index: &usize| self.workspace.cwd().join(PATHS[*index]);
        let text = |at: &usize| format!("{FOREIGN}{step} {at}");
        let done = match act {
            FileAction::Write(at, _) | FileAction::Edit(at, _) => fs::write(path(at), text(at)),
            FileAction::WriteAll(all) => {
                all.iter().try_for_each(|(at, _)| fs::write(path(at), text(at)))
            }
            FileAction::Move(from, to) => fs::rename(path(from), path(to)),
            FileAction::Delete(at) => {
                fs::remove_file(path(at)).or_else(|_| fs::remove_dir_all(path(at)))
            }
        };
        done.is_ok()
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
                inspect_entry(&self.workspace, &at(path)?)?.delete_and_record_undo(&self.workspace)
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
            .map(|(at, found, text)| FileWrite::new(at, found.bytes(), text.as_bytes()))
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
        let edit = Edit::new("b", new).with_occurrence(Occurrence::All);
        let edited = apply(text.as_str(), &[edit]).map_err(ToolError::from)?;
        let bytes = edited.into_bytes(&text).unwrap();
        write_all_or_none(&self.workspace, &[FileWrite::new(&at, found.bytes(), &bytes)])
    }

    fn undo(&self) -> Result<(), ToolError> {
        UndoPlan::for_last_session_change(&self.workspace)?.run(&self.workspace).map(drop)
    }

    /// Returns every entry with its mode, its link count and its bytes.
    fn state(&self) -> TreeState {
        let mut state = BTreeMap::new();
        add_folder_state(&mut state, self.workspace.cwd());
        state
    }
}

fn add_folder_state(state: &mut TreeState, folder: &Path) {
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

/// The beginning of each text that another program writes.
const FOREIGN: &str = "foreign ";

/// One step of a session with several prompts.
#[derive(Debug, Clone)]
enum SessionStep {
    Own(FileAction),
    Foreign(FileAction),
    Undo,
    Prompt,
    Restart,
}

fn any_own_step() -> impl Strategy<Value = SessionStep> {
    prop_oneof![
        8 => any_action().prop_map(SessionStep::Own),
        3 => Just(SessionStep::Prompt),
        1 => Just(SessionStep::Restart),
    ]
}

fn any_step() -> impl Strategy<Value = SessionStep> {
    prop_oneof![
        8 => any_own_step(),
        2 => any_action().prop_map(SessionStep::Foreign),
        1 => Just(SessionStep::Undo),
    ]
}

/// Performs the steps. Returns the files at the start of each prompt.
fn perform_steps(tree: &mut Tree, steps: &[SessionStep]) -> Vec<TreeState> {
    let mut prompt = 1;
    let mut states = vec![tree.state()];
    tree.workspace.set_prompt_number(prompt);
    for (number, step) in steps.iter().enumerate() {
        match step {
            // An action that is impossible changes nothing.
            SessionStep::Own(act) => drop(tree.perform(act)),
            SessionStep::Foreign(act) => _ = tree.perform_foreign(act, number),
            SessionStep::Undo => drop(tree.undo()),
            SessionStep::Prompt => {
                prompt += 1;
                tree.workspace.set_prompt_number(prompt);
                states.push(tree.state());
            }
            SessionStep::Restart => {
                tree.restart();
                tree.workspace.set_prompt_number(prompt);
            }
        }
    }
    states
}

/// Returns each file and link with its bytes.
fn contents(tree: &Tree) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = tree.state().into_iter();
    let files = entries.filter(|(path, _)| path.is_symlink() || path.is_file());
    files.map(|(path, (_, _, bytes))| (path, bytes)).collect()
}

/// Returns each folder.
fn folders(tree: &Tree) -> BTreeSet<PathBuf> {
    let paths = tree.state().into_keys();
    paths.filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

/// Checks that the plan has forecast which folders are gone.
fn check_folders(
    plan: &[FileChange],
    before: &BTreeSet<PathBuf>,
    after: &BTreeSet<PathBuf>,
) -> Result<(), TestCaseError> {
    for path in before.difference(after) {
        let is_forecast = plan.iter().any(|change| match &change.operation {
            FileChangeOperation::Move { from } => path.starts_with(from),
            _ => *path == change.path,
        });
        prop_assert!(is_forecast, "{path:?} is gone, but: {plan:?}");
    }
    Ok(())
}

/// Checks that the files changed exactly as the plan forecast.
fn check_forecast(
    plan: &[FileChange],
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), TestCaseError> {
    for path in before.keys().chain(after.keys()) {
        let is_forecast = plan.iter().any(|change| match &change.operation {
            // A move of a directory covers only the paths in it whose content stays the same.
            FileChangeOperation::Move { from } => {
                let left = path.strip_prefix(from).map(|rest| change.path.join(rest));
                let reached = path.strip_prefix(&change.path).map(|rest| from.join(rest));
                [from, &change.path].contains(&path)
                    || left.is_ok_and(|to| before.get(path) == after.get(&to))
                    || reached.is_ok_and(|from| before.get(&from) == after.get(path))
            }
            // A change of a directory covers all paths in it.
            FileChangeOperation::Add | FileChangeOperation::Modify => {
                path.starts_with(&change.path)
            }
            _ => *path == change.path,
        });
        // A file with two hard links changes under both names, but the plan has only one of them.
        let is_changed = !path.ends_with("other") && before.get(path) != after.get(path);
        prop_assert!(is_forecast || !is_changed, "{path:?} changed, but: {plan:?}");
    }
    for change in plan {
        let text = |files: &BTreeMap<PathBuf, Vec<u8>>, path: &Path| {
            let bytes = files.get(path).cloned().unwrap_or_default();
            DecodedText::decode("", bytes).map(|text| text.as_str().to_owned())
        };
        let has_content = |files: &BTreeMap<PathBuf, Vec<u8>>, path: &Path| {
            path.exists() || files.keys().any(|other| other.starts_with(path))
        };
        match &change.operation {
            FileChangeOperation::Move { from } => {
                prop_assert!(
                    !from.exists() && change.path.symlink_metadata().is_ok(),
                    "{change:?}"
                );
                let is_text = !change.hunks.is_empty() && !from.ends_with("other");
                if let (true, Ok(old), Ok(new)) =
                    (is_text, text(before, from), text(after, &change.path))
                {
                    let deadline = Instant::now() + Duration::from_secs(9);
                    let operation = change.operation.clone();
                    let real = diff::diff_texts(&change.path, operation, &old, &new, deadline);
                    prop_assert_eq!(change, &real);
                }
            }
            operation => {
                // A folder may take the name of a deleted file.
                match *operation == FileChangeOperation::Delete {
                    true => prop_assert!(!after.contains_key(&change.path), "{:?}", change),
                    false => prop_assert!(has_content(after, &change.path), "{:?}", change),
                }
                let is_text = !change.hunks.is_empty() && !change.path.ends_with("other");
                let texts = (text(before, &change.path), text(after, &change.path));
                if let (true, (Ok(old), Ok(new))) = (is_text, texts) {
                    let deadline = Instant::now() + Duration::from_secs(9);
                    let real =
                        diff::diff_texts(&change.path, operation.clone(), &old, &new, deadline);
                    prop_assert_eq!(change, &real);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rewind_to_any_prompt_restores_every_byte(
        steps in prop::collection::vec(any_own_step(), 1..24),
        prompt: prop::sample::Index,
    ) {
        let mut tree = Tree::new();
        let states = perform_steps(&mut tree, &steps);
        let at = prompt.index(states.len());
        let plan = RewindPlan::before_prompt(&tree.workspace, at as u32 + 1).unwrap();
        prop_assert_eq!(plan.kept(), &[]);
        plan.run(&tree.workspace).unwrap();
        prop_assert_eq!(&tree.state(), &states[at]);
        // Nothing of the prompt is left to undo.
        let again = RewindPlan::before_prompt(&tree.workspace, at as u32 + 1).unwrap();
        prop_assert_eq!(again.changes(), &[]);
    }

    #[test]
    fn a_rewind_among_changes_by_others_does_what_its_plan_says_and_loses_nothing_of_theirs(
        steps in prop::collection::vec(any_step(), 1..24),
        prompt: prop::sample::Index,
    ) {
        let mut tree = Tree::new();
        let states = perform_steps(&mut tree, &steps);
        let prompt = prompt.index(states.len()) as u32 + 1;
        let (before, folders_before) = (contents(&tree), folders(&tree));
        let plan = RewindPlan::before_prompt(&tree.workspace, prompt).unwrap();
        let changes = plan.changes().to_vec();
        plan.run(&tree.workspace).unwrap();
        let after = contents(&tree);
        check_forecast(&changes, &before, &after)?;
        check_folders(&changes, &folders_before, &folders(&tree))?;
        for theirs in before.values().filter(|bytes| bytes.starts_with(FOREIGN.as_bytes())) {
            prop_assert!(after.values().any(|bytes| bytes == theirs), "{}", theirs.escape_ascii());
        }
        // The changes that could not be undone are not tried again.
        let again = RewindPlan::before_prompt(&tree.workspace, prompt).unwrap();
        prop_assert!(again.changes().is_empty() && again.kept().is_empty());
    }
}

/// Checks the kept files of a plan after its rewind. If a file still differs from its state at the
/// start of the prompt, it must be one of the kept files.
fn check_kept(
    kept: &[KeptFile],
    expected: &TreeState,
    real: &TreeState,
) -> Result<(), TestCaseError> {
    prop_assert!(!kept.is_empty() || expected == real, "{expected:?} is not {real:?}");
    for path in expected.keys().chain(real.keys()).filter(|path| !path.is_dir()) {
        let is_named = kept.iter().any(|kept| {
            path.starts_with(&kept.path) || fs::canonicalize(&kept.path).is_ok_and(|it| it == *path)
        });
        // A file with two hard links changes under both names.
        let is_other = path.ends_with("other") || path.ends_with("hard");
        let bytes = |state: &TreeState| state.get(path).map(|(_, _, bytes)| bytes.clone());
        prop_assert!(is_named || is_other || bytes(expected) == bytes(real), "{path:?}: {kept:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_file_that_two_rewinds_among_undone_changes_do_not_restore_is_named(
        steps in prop::collection::vec(
            prop_oneof![9 => any_own_step(), 1 => Just(SessionStep::Undo)],
            1..24,
        ),
        first: prop::sample::Index,
        second: prop::sample::Index,
        restarts: bool,
    ) {
        let mut tree = Tree::new();
        let states = perform_steps(&mut tree, &steps);
        let first = first.index(states.len());
        // The second rewind goes to an earlier prompt, because a second rewind to the same prompt
        // would change nothing.
        let second = (first > 0).then(|| second.index(first));
        for at in [Some(first), second].into_iter().flatten() {
            let plan = RewindPlan::before_prompt(&tree.workspace, at as u32 + 1).unwrap();
            let kept = plan.kept().to_vec();
            plan.run(&tree.workspace).unwrap();
            check_kept(&kept, &states[at], &tree.state())?;
            if restarts {
                tree.restart();
            }
        }
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
