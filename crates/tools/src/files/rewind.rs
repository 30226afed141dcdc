//! Restores the files to their state before a prompt: undoes every change of the prompt and of all
//! later prompts, the newest change first.

mod forecast;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use acp_types::{FileChange, FileChangeOperation};

use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::state::undo_entry::{FileOperation, ModeChange};
use crate::files::undo::{self, UndoPlan};
use crate::files::workspace::Workspace;
use crate::note::Note;

use self::forecast::Forecast;

/// The changes since a prompt, ready to be undone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (cwd, state) = (directory.path().join("cwd"), directory.path().join("state"));
/// # std::fs::create_dir(&cwd)?;
/// use acp_tools::Workspace;
/// use acp_tools::files::{rewind::RewindPlan, write};
///
/// let workspace = Workspace::new(cwd.clone(), Vec::new())?.with_state_folder(&state);
/// for (prompt, name) in [(1, "first"), (2, "second")] {
///     workspace.set_prompt_number(prompt);
///     let at = workspace.resolve(name)?;
///     write::atomic_write_if_unchanged(&workspace, &at, b"text", &write::PreImage::Missing)?;
/// }
/// RewindPlan::before_prompt(&workspace, 2)?.run(&workspace)?;
/// assert!(cwd.join("first").exists() && !cwd.join("second").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RewindPlan {
    prompt: u32,
    /// The numbers of the undo entries, the newest first.
    entries: Vec<u64>,
    /// The paths that the undone calls changed.
    paths: BTreeSet<PathBuf>,
    changes: Vec<FileChange>,
    /// The files whose mode changes.
    modes: Vec<(PathBuf, ModeChange)>,
    kept: Vec<KeptFile>,
    /// The recorded paths of the operations that cannot be undone. A kept file may have another
    /// path, because the rewind may move it.
    skipped: BTreeSet<PathBuf>,
    /// Whether the rewind keeps files that it removes or replaces.
    keeps_replaced_files: bool,
    fingerprint: Vec<u8>,
}

/// A file that stays as it is, although a call changed it and this change should be undone. Also a
/// folder that a call created and that is not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptFile {
    /// The path of the file or folder after the rewind.
    pub path: PathBuf,
    /// The current path, if the rewind moves the file, alone or with its folder.
    pub from: Option<PathBuf>,
    /// The reason, as a clause for the end of a sentence about the file.
    pub reason: Note,
}

impl KeptFile {
    /// Creates a file whose earlier content is not stored.
    #[must_use]
    pub fn without_backup(path: &Path) -> Self {
        Self::new(path, Note::new(undo::REASON_NOT_KEPT))
    }

    fn new(path: &Path, reason: Note) -> Self {
        Self { path: path.to_owned(), from: None, reason }
    }

    /// Returns a sentence that names the file and the reason.
    #[must_use]
    pub fn note(&self, workspace: &Workspace) -> Note {
        let Some(from) = &self.from else {
            return workspace.not_reverted_note(&self.path, self.reason.clone());
        };
        let note = Note::new("stays-moved").with_text("path", workspace.display(&self.path));
        let note = note.with_text("from", workspace.display(from));
        note.with_joined_notes("why", [self.reason.clone()], "")
    }
}

impl RewindPlan {
    /// Forecasts the changes of restoring the files to their state before a prompt. Changes no
    /// file. A file that another program has changed in the meantime will not be restored, and
    /// [`Self::kept()`] contains it. This method may block.
    ///
    /// # Errors
    ///
    /// `not_permitted`, `io` if a file cannot be inspected.
    pub fn before_prompt(workspace: &Workspace, prompt: u32) -> Result<Self, ToolError> {
        workspace.snapshot_store().wait_for_recordings(&|| false);
        let entries = workspace.undo_store().entries_since_prompt(prompt);
        let mut forecast = Forecast::new(workspace);
        for (_, entry) in &entries {
            forecast.undo(entry)?;
        }
        let mut fingerprint = prompt.to_le_bytes().to_vec();
        let operations = entries.iter().flat_map(|(_, entry)| &entry.operations);
        let mut paths: BTreeSet<_> =
            operations.map(|operation| operation.affected_path().to_owned()).collect();
        let entries: Vec<_> = entries.into_iter().map(|(number, _)| number).collect();
        entries.iter().for_each(|number| fingerprint.extend(number.to_le_bytes()));
        for (operation, is_skipped) in workspace.undo_store().lost_operations_since_prompt(prompt) {
            let reason = obstacle_of_lost_operation(workspace, &operation, is_skipped);
            for path in operation.paths() {
                forecast.kept.push(KeptFile::new(path, Note::new(reason)));
                paths.insert(path.to_owned());
            }
        }
        let changes = forecast.collect_changes_and_fingerprint(&mut fingerprint)?;
        let is_kept = |operation: &FileChangeOperation| {
            matches!(operation, FileChangeOperation::Modify | FileChangeOperation::Move { .. })
        };
        let modes = changes.iter().filter(|change| is_kept(&change.operation));
        let modes = modes
            .filter_map(|change| Some((change.path.clone(), forecast.mode_change(&change.path)?)))
            .collect();
        let mut kept = std::mem::take(&mut forecast.kept);
        kept.iter_mut().for_each(|kept| kept.from = forecast.current_path_if_moved(&kept.path));
        // Of several reasons for a path, the one of the newest change stays.
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        kept.dedup_by(|a, b| a.path == b.path);
        let Forecast { skipped, keeps_replaced_files, .. } = forecast;
        for KeptFile { path, reason, .. } in &kept {
            let reason = reason.to_string();
            let text = [path.as_os_str().as_encoded_bytes(), b"\0", reason.as_bytes()].concat();
            fingerprint.extend(ContentHash::of_bytes(&text).as_bytes());
        }
        let fingerprint = ContentHash::of_bytes(&fingerprint).as_bytes().to_vec();
        Ok(Self {
            prompt,
            entries,
            paths,
            changes,
            modes,
            kept,
            skipped,
            keeps_replaced_files,
            fingerprint,
        })
    }

    /// Returns the path of each file that a call changed since the prompt.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// Returns the changes that the rewind would cause, sorted by path.
    #[must_use]
    pub fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// Returns notes on the changes of file permissions, which the changes do not show.
    pub fn mode_notes(&self, workspace: &Workspace) -> Vec<Note> {
        let modes = self.modes.iter();
        modes.filter_map(|(path, modes)| modes.note(workspace.display(path))).collect()
    }

    /// Returns the files that stay as they are.
    #[must_use]
    pub fn kept(&self) -> &[KeptFile] {
        &self.kept
    }

    /// Returns a hash of the current and the future contents of the files, for comparison with the
    /// preview.
    #[must_use]
    pub fn fingerprint(&self) -> &[u8] {
        &self.fingerprint
    }

    /// Returns the folder in which the rewind keeps the files that it removes or replaces, if it
    /// keeps some. These are the files that a command changed, because another program may have
    /// changed them too.
    #[must_use]
    pub fn folder_of_replaced_files(&self, workspace: &Workspace) -> Option<PathBuf> {
        workspace.undo_store().session_folder_if_created().filter(|_| self.keeps_replaced_files)
    }

    /// Undoes the changes. Each call is undone completely or not at all.
    ///
    /// # Errors
    ///
    /// `changed_since_preview` if a file was changed since the preview. `not_permitted` or `io` if
    /// a file cannot be changed; calls that this method has already undone stay undone.
    pub fn run(self, workspace: &Workspace) -> Result<(), ToolError> {
        if Self::before_prompt(workspace, self.prompt)?.fingerprint != self.fingerprint {
            return Err(changed_meanwhile_error());
        }
        self.undo_each_entry(workspace)?;
        workspace.undo_store().record_rewind(self.prompt);
        Ok(())
    }

    fn undo_each_entry(&self, workspace: &Workspace) -> Result<(), ToolError> {
        for number in &self.entries {
            let plan = UndoPlan::for_last_entry(workspace)?;
            // Another program may change a file after the comparison of the fingerprints.
            let is_forecast = |path: &Path| self.skipped.contains(path);
            if plan.number() != *number || !plan.skipped().all(|it| is_forecast(&it.path)) {
                return Err(changed_meanwhile_error());
            }
            plan.run(workspace)?;
        }
        Ok(())
    }
}

/// Returns why a lost operation cannot be undone, as the key of a message.
fn obstacle_of_lost_operation(
    workspace: &Workspace,
    operation: &FileOperation,
    is_skipped: bool,
) -> &'static str {
    let is_unrecorded = matches!(operation, FileOperation::Unrecorded { .. });
    match (is_skipped || is_unrecorded).then(|| undo::find_obstacle(workspace, operation)) {
        None => undo::REASON_NOT_KEPT,
        Some(Ok(Some(reason))) => reason,
        // The obstacle is gone, but the undo is not tried again.
        Some(_) => undo::REASON_SKIPPED,
    }
}

fn changed_meanwhile_error() -> ToolError {
    let message = "A file was changed meanwhile. Preview the change again.";
    ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use acp_lifecycle::Titles;

    use super::*;
    use crate::files::remove::inspect_entry;
    use crate::files::write::{PreImage, atomic_write_if_unchanged};
    use crate::note::CATALOGUES;

    fn write(workspace: &Workspace, name: &str) {
        let at = workspace.resolve(name).unwrap();
        atomic_write_if_unchanged(workspace, &at, b"text", &PreImage::Missing).unwrap();
    }

    #[test]
    fn a_file_that_is_changed_while_others_are_undone_is_not_reported_as_restored() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.set_prompt_number(1);
        for name in ["first", "second"] {
            write(&workspace, name);
        }
        let plan = RewindPlan::before_prompt(&workspace, 1).unwrap();
        fs::write(cwd.path().join("first"), "by another program").unwrap();
        let ToolError::Recoverable(failure) = plan.undo_each_entry(&workspace).unwrap_err() else {
            panic!("the turn must go on");
        };
        assert_eq!(failure.code, ErrorCode::ChangedSincePreview);
        // The next plan reports that the file is kept.
        let plan = RewindPlan::before_prompt(&workspace, 1).unwrap();
        let kept: Vec<_> = plan.kept().iter().map(|kept| kept.path.file_name().unwrap()).collect();
        assert_eq!(kept, ["first"]);
        plan.run(&workspace).unwrap();
        assert!(!cwd.path().join("second").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_loop_of_links_in_place_of_a_changed_folder_keeps_no_other_file_from_its_undo() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(cwd.path().join("folder")).unwrap();
        fs::write(cwd.path().join("folder/old"), "before").unwrap();
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.set_prompt_number(1);
        write(&workspace, "new");
        let at = workspace.resolve("folder/old").unwrap();
        let before = PreImage::Bytes(b"before".to_vec());
        atomic_write_if_unchanged(&workspace, &at, b"after", &before).unwrap();
        fs::remove_dir_all(cwd.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("folder/old", cwd.path().join("folder")).unwrap();
        RewindPlan::before_prompt(&workspace, 1).unwrap().run(&workspace).unwrap();
        assert!(!cwd.path().join("new").exists());
    }

    #[test]
    fn a_moved_folder_that_was_replaced_is_kept_although_a_file_in_it_is_restored() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(cwd.path().join("old")).unwrap();
        fs::write(cwd.path().join("old/file"), "before").unwrap();
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.set_prompt_number(1);
        let [old, new] = ["old", "new"].map(|name| workspace.resolve(name).unwrap());
        inspect_entry(&workspace, &old).unwrap().move_to(&workspace, &new).unwrap();
        let file = workspace.resolve("new/file").unwrap();
        let before = PreImage::Bytes(b"before".to_vec());
        atomic_write_if_unchanged(&workspace, &file, b"after", &before).unwrap();
        fs::rename(cwd.path().join("new"), cwd.path().join("aside")).unwrap();
        fs::create_dir(cwd.path().join("new")).unwrap();
        fs::write(cwd.path().join("new/file"), "after").unwrap();
        let plan = RewindPlan::before_prompt(&workspace, 1).unwrap();
        let kept: Vec<_> = plan.kept().iter().map(|kept| kept.path.file_name().unwrap()).collect();
        assert_eq!(kept, ["new"]);
        plan.run(&workspace).unwrap();
        assert_eq!(fs::read_to_string(cwd.path().join("new/file")).unwrap(), "before");
        assert!(!cwd.path().join("old").exists());
    }

    #[test]
    fn the_note_of_a_kept_file_names_the_place_to_which_it_moves() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(cwd.path().join("old")).unwrap();
        fs::write(cwd.path().join("old/file"), "before").unwrap();
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.set_prompt_number(1);
        let [old, new] = ["old", "new"].map(|name| workspace.resolve(name).unwrap());
        inspect_entry(&workspace, &old).unwrap().move_to(&workspace, &new).unwrap();
        let file = workspace.resolve("new/file").unwrap();
        let before = PreImage::Bytes(b"before".to_vec());
        atomic_write_if_unchanged(&workspace, &file, b"after", &before).unwrap();
        fs::write(cwd.path().join("new/file"), "by another program").unwrap();
        let plan = RewindPlan::before_prompt(&workspace, 1).unwrap();
        let notes: Vec<_> = plan.kept().iter().map(|kept| kept.note(&workspace)).collect();
        let text = "The content of new/file is left unchanged: it has been changed since. The file \
                    moves to old/file.";
        assert_eq!(notes.iter().map(Note::to_string).collect::<Vec<_>>(), [text]);
        let german = Titles::negotiate(CATALOGUES, "de").unwrap();
        assert!(notes[0].render(&german).ends_with("Die Datei kommt nach old/file."));
    }

    #[test]
    fn a_file_that_an_undo_kept_is_kept_by_each_rewind_before_its_change() {
        let (cwd, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::new(cwd.path().to_owned(), Vec::new()).unwrap();
        let workspace = workspace.with_state_folder(state.path());
        workspace.set_prompt_number(2);
        write(&workspace, "file");
        fs::write(cwd.path().join("file"), "by another program").unwrap();
        workspace.set_prompt_number(5);
        UndoPlan::for_last_session_change(&workspace).unwrap().run(&workspace).unwrap();
        let kept = |prompt| RewindPlan::before_prompt(&workspace, prompt).unwrap().kept().len();
        assert_eq!([1, 2, 3, 4, 5].map(kept), [1, 1, 0, 0, 0]);
        RewindPlan::before_prompt(&workspace, 2).unwrap().run(&workspace).unwrap();
        assert_eq!([1, 2].map(kept), [1, 0]);
    }
}
