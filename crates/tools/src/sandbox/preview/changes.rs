//! The changes that a command made in the copies of the project folders.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_lifecycle::{CallHandle, Effect, Effects, Verdict};
use acp_types::{FileChange, FileChangeOperation, diff};
use callboard_text::path_text;

use crate::files::apply::PathChange;
use crate::files::encoding::DecodedText;
use crate::files::workspace::Workspace;
use crate::files::write::CrashProtection;
use crate::limits::{MAX_DIFF_TIME, MAX_PATHS_PER_APPLIED_PREVIEW, MAX_PREVIEWED_BYTES};
use crate::note::Note;

use super::generated::GeneratedFolder;

/// The changes that a command made in the copies of the project folders.
#[derive(Debug, Default)]
pub(crate) struct CommandChanges {
    /// The changes of single paths, in the order in which they are applied.
    pub(crate) paths: Vec<PathChange>,
    /// The changed folders whose content tools generate.
    pub(crate) generated: Vec<GeneratedFolder>,
    /// New entries that are not kept: protected names, sockets, FIFOs and devices.
    pub(super) skipped: Vec<PathBuf>,
    /// Folders whose new modes are not applied.
    pub(super) skipped_modes: Vec<PathBuf>,
    /// How the changed files are protected against a crash.
    pub(crate) protection: CrashProtection,
}

/// The reason why the changes of a command cannot be previewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PreviewObstacle {
    /// Another program changed a file while the command ran.
    Outdated,
    /// The command wanted to connect to hosts.
    Network { hosts: Option<String> },
    /// There are too many changes.
    TooLarge,
    /// The command changed a file that has several hard links.
    HardLinks { path: PathBuf },
    /// The command could not rename a folder of the project, which only a copy prevents.
    RenamedFolder,
    /// The changes cannot be applied to the real folders.
    Inapplicable { why: String },
    /// A file or folder cannot be read.
    Unreadable { path: PathBuf, why: String },
    /// The command did not end in time.
    TimedOut,
    /// The sandbox could not be prepared.
    NoSandbox { why: String },
}

impl CommandChanges {
    /// Returns whether nothing is to be applied.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.generated.is_empty()
    }

    /// Returns a note on the entries that are not applied.
    pub(crate) fn unapplied_entries_note(&self, workspace: &Workspace) -> Option<Note> {
        names_note("preview-skipped", self.skipped.iter().map(PathBuf::as_path), workspace)
    }

    /// Returns a note on the folders whose new modes are not applied.
    fn skipped_modes_note(&self, workspace: &Workspace) -> Option<Note> {
        let paths = self.skipped_modes.iter().map(PathBuf::as_path);
        names_note("preview-skipped-modes", paths, workspace)
    }

    /// Returns the effects of applying the changes.
    pub(crate) fn effects(&self) -> Effects {
        let generated = self.generated.iter();
        let generated = generated.map(|folder| Effect::Write(folder.path().to_owned()));
        self.paths.iter().map(path_effect).chain(generated).collect()
    }

    /// Returns the changes in the form in which clients show them. `may_read` states whether the
    /// old content of a file may be shown.
    pub(crate) fn file_changes(
        &self,
        may_read: impl Fn(&PathChange) -> bool,
    ) -> impl Iterator<Item = FileChange> {
        let deadline = Instant::now() + MAX_DIFF_TIME;
        let shown = self.paths.iter().filter(|change| self.is_shown(change));
        shown.map(move |change| file_change(change, may_read(change), deadline))
    }

    /// Returns whether a change is shown as the change of a file. A note states other changes.
    fn is_shown(&self, change: &PathChange) -> bool {
        let is_sufficient = match change {
            PathChange::Write { before: Some(before), after, .. } => before.bytes != after.bytes,
            PathChange::AddDirectory { .. } | PathChange::AddLink { .. } => false,
            _ => true,
        };
        is_sufficient && !is_git_written_data(change)
    }

    /// Returns a path that the session's rules or policy deny to change.
    pub(crate) fn denied_path(&self, call: &CallHandle) -> Option<&Path> {
        if call.judge_effects(&self.effects()) != Verdict::Deny {
            return None;
        }
        let is_denied =
            |change: &&PathChange| call.judge_effects(&path_effect(change).into()) == Verdict::Deny;
        let found = self.paths.iter().find(is_denied).map(PathChange::path);
        found.or_else(|| self.generated.first().map(GeneratedFolder::path))
    }

    /// Returns a note on the files whose content is not shown.
    pub(crate) fn withheld_content_note(
        &self,
        may_read: impl Fn(&PathChange) -> bool,
        workspace: &Workspace,
    ) -> Option<Note> {
        let hidden = self.paths.iter().filter(|change| self.is_shown(change) && !may_read(change));
        names_note("preview-hidden", hidden.map(PathChange::path), workspace)
    }

    /// Returns notes on changes that the diffs do not show: permissions, links, folders, binary
    /// files, repositories, generated folders and skipped entries.
    pub(crate) fn notes(&self, workspace: &Workspace) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut git_data = 0;
        for (index, change) in self.paths.iter().enumerate() {
            // The content of a new folder follows the folder, and its notes name the folder, too.
            let next = self.paths.get(index + 1).map(PathChange::path);
            let is_parent = next.is_some_and(|next| next.starts_with(change.path()));
            match change {
                change if is_git_written_data(change) => git_data += 1,
                PathChange::AddDirectory { .. } if is_parent => {}
                change => notes.extend(path_notes(change, workspace)),
            }
        }
        if git_data > 0 {
            notes.push(Note::new("preview-repository").with_count("files", git_data));
        }
        notes.extend(self.generated.iter().map(|folder| {
            let (files, bytes, removed) = folder.file_byte_and_removal_counts();
            let key = if removed == 0 { "preview-generated" } else { "preview-generated-removed" };
            Note::new(key)
                .with_text("path", workspace.display(folder.path()))
                .with_count("files", files)
                .with_count("bytes", bytes)
                .with_count("removed", removed)
        }));
        notes.extend(self.protection.notes());
        notes.extend(self.unapplied_entries_note(workspace));
        notes.extend(self.skipped_modes_note(workspace));
        notes
    }
}

/// Returns a note with the first paths. Returns `None` if there are no paths.
fn names_note<'a>(
    key: &'static str,
    paths: impl Iterator<Item = &'a Path>,
    workspace: &Workspace,
) -> Option<Note> {
    workspace.display_first(paths).map(|names| Note::new(key).with_text("names", names))
}

fn path_effect(change: &PathChange) -> Effect {
    match change {
        PathChange::Remove(_) => Effect::Delete(change.path().to_owned()),
        _ => Effect::Write(change.path().to_owned()),
    }
}

/// Returns whether a change is only of data that git itself writes, such as objects and references.
/// Such changes are not shown as diffs, because people cannot read them. A repository also contains
/// files that people write and that git obeys, e.g. hooks.
fn is_git_written_data(change: &PathChange) -> bool {
    const FOLDERS: &[&str] = &["logs", "objects", "refs"];
    const FILES: &[&str] = &[
        "COMMIT_EDITMSG",
        "FETCH_HEAD",
        "HEAD",
        "MERGE_HEAD",
        "MERGE_MSG",
        "ORIG_HEAD",
        "index",
        "packed-refs",
    ];
    let mut beneath = change.path().iter().skip_while(|part| *part != ".git").skip(1);
    let is_one_of = |names: &[&str], name: &OsStr| names.iter().any(|known| name == *known);
    match (beneath.next(), beneath.next()) {
        (Some(folder), Some(_)) => {
            is_one_of(FOLDERS, folder) && !matches!(change, PathChange::AddLink { .. })
        }
        (Some(file), None) => is_one_of(FILES, file) && matches!(change, PathChange::Write { .. }),
        _ => false,
    }
}

fn file_change(change: &PathChange, may_read: bool, deadline: Instant) -> FileChange {
    match change {
        PathChange::Write { at, before, after } => {
            let operation = if before.is_none() {
                FileChangeOperation::Add
            } else {
                FileChangeOperation::Modify
            };
            let text = |bytes: &[u8]| {
                let decoded = DecodedText::decode("", bytes.to_owned()).ok();
                decoded.map(DecodedText::into_string).filter(|_| may_read)
            };
            let before = before.as_ref().map_or(Some(String::new()), |before| text(&before.bytes));
            match (before, text(&after.bytes)) {
                (Some(before), Some(after)) if before != after => {
                    diff::diff_texts(at.path(), operation, &before, &after, deadline)
                }
                _ => FileChange::new(operation, at.path()),
            }
        }
        PathChange::Remove(found) if may_read => found.deletion_change(),
        PathChange::Remove(found) => {
            FileChange::new(FileChangeOperation::Delete, found.entry.path.path())
        }
        PathChange::AddLink { at, .. } | PathChange::AddDirectory { at, .. } => {
            FileChange::new(FileChangeOperation::Add, at.path())
        }
    }
}

fn path_notes(change: &PathChange, workspace: &Workspace) -> Vec<Note> {
    match change {
        PathChange::Write { at, before, after } => {
            let path = workspace.display(at.path());
            let mode = format!("{:o}", after.mode);
            let note = |key| Note::new(key).with_text("path", &path).with_text("after", &mode);
            let bytes = after.bytes.len() as u64;
            let size =
                Note::new("preview-no-text").with_text("path", &path).with_count("bytes", bytes);
            let is_text = DecodedText::decode("", after.bytes.clone()).is_ok();
            let mode = match before {
                Some(before) if before.mode != after.mode => {
                    Some(note("preview-mode").with_text("before", format!("{:o}", before.mode)))
                }
                None if after.mode & 0o111 != 0 => Some(note("preview-executable")),
                _ => None,
            };
            (!is_text).then_some(size).into_iter().chain(mode).collect()
        }
        PathChange::Remove(found) => {
            let path = workspace.display(found.entry.path.path());
            let about = |what| {
                let note = Note::new("preview-path-note").with_text("path", &path);
                note.with_joined_notes("what", [what], "")
            };
            found.size_note().into_iter().chain(found.restorability_note()).map(about).collect()
        }
        PathChange::AddLink { at, target } => {
            let note = Note::new("preview-link").with_text("path", workspace.display(at.path()));
            vec![note.with_text("target", path_text(target))]
        }
        PathChange::AddDirectory { at, .. } => {
            vec![Note::new("preview-folder").with_text("path", workspace.display(at.path()))]
        }
    }
}

impl PreviewObstacle {
    /// Returns the reason as the end of a sentence.
    pub(crate) fn note(&self, workspace: &Workspace) -> Note {
        match self {
            Self::Outdated => Note::new("no-preview-outdated"),
            Self::Network { hosts: Some(hosts) } => {
                Note::new("no-preview-network").with_text("hosts", hosts)
            }
            Self::Network { hosts: None } => Note::new("no-preview-network-unknown"),
            Self::TooLarge => Note::new("no-preview-large")
                .with_count("paths", MAX_PATHS_PER_APPLIED_PREVIEW as u64)
                .with_count("mebibytes", MAX_PREVIEWED_BYTES / (1024 * 1024)),
            Self::HardLinks { path } => {
                Note::new("no-preview-hard-links").with_text("path", workspace.display(path))
            }
            Self::Inapplicable { why } => {
                Note::new("no-preview-inapplicable").with_text("why", why)
            }
            Self::RenamedFolder => Note::new("no-preview-rename"),
            Self::Unreadable { path, why } => Note::new("no-preview-unreadable")
                .with_text("path", workspace.display(path))
                .with_text("why", why),
            Self::TimedOut => Note::new("no-preview-timeout"),
            Self::NoSandbox { why } => Note::new("no-preview-sandbox").with_text("why", why),
        }
    }
}
