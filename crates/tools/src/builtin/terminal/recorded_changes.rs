//! Records the changes that a command makes in the project folders, so that they can be undone, and
//! shows them.

use std::collections::HashSet;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use acp_lifecycle::{Rules, Verdict};
use acp_types::Content;
use callboard_text::path_text;

use crate::error::ToolError;
use crate::files::snapshot::{NoSnapshot, RecordedChanges, Snapshot};
use crate::files::state::undo_entry::FileOperation;
use crate::files::workspace::Workspace;
use crate::files::workspace::open::read_link;
use crate::limits::{
    MAX_RECORDED_CHANGES, MAX_RECORDED_CHANGES_SHOWN, MAX_SNAPSHOT_ENTRIES, MAX_SNAPSHOT_TIME,
};
use crate::note::Note;
use crate::shown_changes::{content_with_patch_from_iterator, notes_to_content};
use crate::tool::{Invocation, ToolOutput, redact_secrets};

/// Records the changes of one command.
///
/// If the call ends without [`Self::record_and_add_to_output`], e.g. because it was cancelled, the
/// changes are recorded when this value is dropped.
pub(super) struct ChangeRecording {
    workspace: Arc<Workspace>,
    /// The rules of the session when the command was started.
    rules: Rules,
    snapshot: Result<Snapshot, NoSnapshot>,
}

impl ChangeRecording {
    /// Makes a snapshot of the project folders before the command runs.
    pub(super) async fn begin(invocation: Invocation<'_>) -> Result<Self, ToolError> {
        let cancel = invocation.call.cancel_token().clone();
        let snapshot = invocation.context.run_blocking(move |workspace| {
            Ok(Snapshot::take(workspace, MAX_SNAPSHOT_TIME, &|| cancel.is_cancelled()))
        });
        let snapshot = snapshot.await?;
        let rules = invocation.call.session().update(|session, _| session.rules().clone());
        Ok(Self { workspace: invocation.context.workspace.clone(), rules, snapshot })
    }

    /// Records and shows the changes that the command has made so far. `continues` states whether
    /// it still runs.
    pub(super) async fn record_and_add_to_output(
        mut self,
        continues: bool,
        output: &mut ToolOutput,
        invocation: Invocation<'_>,
    ) -> Result<(), ToolError> {
        let recorded = match self.move_snapshot_out() {
            Ok(snapshot) => {
                record_and_describe_changes(snapshot, mem::take(&mut self.rules), invocation)
                    .await?
            }
            Err(why) => Err(why),
        };
        match recorded {
            Ok(DescribedChanges { content, text }) => {
                match &mut output.content {
                    Some(shown) => shown.extend(content),
                    None => content.into_iter().for_each(|it| invocation.call.append_content(it)),
                }
                output.text.push_str(&text);
                if continues {
                    invocation.append_note(&Note::new("unrecorded-background"));
                }
            }
            Err(why) => {
                let note = no_snapshot_note(why);
                note.iter().for_each(|note| output.add_note(note, invocation));
            }
        }
        Ok(())
    }

    /// Returns the snapshot, so that nothing is recorded when this value is dropped.
    fn move_snapshot_out(&mut self) -> Result<Snapshot, NoSnapshot> {
        mem::replace(&mut self.snapshot, Err(NoSnapshot::Cancelled))
    }
}

impl Drop for ChangeRecording {
    fn drop(&mut self) {
        if let Ok(snapshot) = self.move_snapshot_out() {
            let (workspace, rules) = (self.workspace.clone(), mem::take(&mut self.rules));
            let recording = workspace.snapshot_store().begin_recording();
            let record = move || {
                let may_record = |path: &Path| workspace.judge_read(path, &rules) != Verdict::Deny;
                drop(snapshot.record_changes(&workspace, &may_record));
                drop(recording);
            };
            // If the thread cannot be started, the changes are not recorded.
            drop(thread::Builder::new().spawn(record));
        }
    }
}

/// The recorded changes of a command, as content for the client and as text for the model.
struct DescribedChanges {
    content: Vec<Content>,
    text: String,
}

/// Records and describes the changes since a snapshot.
async fn record_and_describe_changes(
    snapshot: Snapshot,
    rules: Rules,
    invocation: Invocation<'_>,
) -> Result<Result<DescribedChanges, NoSnapshot>, ToolError> {
    let (call, titles) = (invocation.call.clone(), invocation.titles.clone());
    // The work begins at once, and goes on if the call ends.
    let recording = invocation.context.workspace.snapshot_store().begin_recording();
    let recorded = invocation.context.run_blocking(move |workspace| {
        let may_record = |path: &Path| workspace.judge_read(path, &rules) != Verdict::Deny;
        let recorded = snapshot.record_changes(workspace, &may_record);
        drop(recording);
        let changes = match recorded {
            Ok(changes) => changes,
            Err(why) => return Ok(Err(why)),
        };
        // The command may have read a file although the session may not show it without a question.
        let may_show = |path: &&Path| workspace.judge_read(path, &rules) == Verdict::Allow;
        let readable = changes.paths().filter(may_show);
        let readable: HashSet<_> = readable.map(Path::to_owned).collect();
        let show = |path: &Path, text: String| {
            readable.contains(path).then(|| redact_secrets(&call, &text))
        };
        let files = || changes.file_changes(workspace, show);
        let (most, outputs) = (MAX_RECORDED_CHANGES_SHOWN, workspace.outputs());
        let mut content = content_with_patch_from_iterator(files, most, outputs, &titles);
        let unrecorded = unrecorded_notes(&changes, workspace);
        let notes = notes_on_changes_without_diff(&changes, workspace);
        let notes = notes.iter().chain(&unrecorded).map(|note| note.render(&titles));
        content.extend(notes_to_content(notes.collect()));
        let text = redact_secrets(&call, &changes_text_for_model(&changes, &unrecorded, workspace));
        Ok(Ok(DescribedChanges { content, text }))
    });
    recorded.await
}

/// Returns a note on the reason why nothing is recorded, unless the user knows it already.
fn no_snapshot_note(why: NoSnapshot) -> Option<Note> {
    let most = MAX_SNAPSHOT_ENTRIES as u64;
    match why {
        NoSnapshot::TooLarge { is_repeated: false } => {
            Some(Note::new("unrecorded-project").with_count("entries", most))
        }
        NoSnapshot::TimedOut => Some(Note::new("unrecorded-slow")),
        // Questions about edits state that no backups are kept.
        NoSnapshot::NotKept | NoSnapshot::TooLarge { .. } | NoSnapshot::Cancelled => None,
    }
}

/// Returns notes on the recorded changes that the diffs do not show: permissions, links and
/// folders.
fn notes_on_changes_without_diff(changes: &RecordedChanges, workspace: &Workspace) -> Vec<Note> {
    let parents: HashSet<_> = changes.paths().filter_map(Path::parent).collect();
    let notes = changes.operations.iter().filter_map(|operation| {
        let path = operation.affected_path();
        let note = |key| Note::new(key).with_text("path", workspace.display(path));
        match operation {
            FileOperation::CreatedDirectory(_) => {
                // The content of a folder shows that the folder is new.
                (!parents.contains(path)).then(|| note("preview-folder"))
            }
            FileOperation::CreatedLink { .. } => {
                let at = workspace.locate_without_following(path).ok()?;
                Some(note("preview-link").with_text("target", path_text(&read_link(&at)?)))
            }
            FileOperation::Replaced { modes: Some(modes), .. } => {
                modes.note(workspace.display(path))
            }
            _ => None,
        }
    });
    notes.collect()
}

/// Returns notes on the changes that an undo does not restore.
fn unrecorded_notes(changes: &RecordedChanges, workspace: &Workspace) -> Vec<Note> {
    let mut notes = Vec::new();
    if changes.has_too_many {
        let most = MAX_RECORDED_CHANGES as u64;
        notes.push(Note::new("unrecorded-many").with_count("paths", most));
    }
    let unrecorded = changes.unrecorded.iter().map(PathBuf::as_path);
    if let Some(names) = workspace.display_first(unrecorded) {
        notes.push(Note::new("unrecorded-paths").with_text("names", names));
    }
    if changes.has_other_commit {
        notes.push(Note::new("unrecorded-commit"));
    }
    notes
}

/// Returns a text for the model about the recorded changes.
fn changes_text_for_model(
    changes: &RecordedChanges,
    notes: &[Note],
    workspace: &Workspace,
) -> String {
    let changed = workspace
        .display_first(changes.paths())
        .map(|names| format!("The command changed {names}. `undo` reverts this."));
    let lines = changed.into_iter().chain(notes.iter().map(Note::to_string));
    lines.map(|line| format!("\n[{line}]")).collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::time::Duration;

    use acp_lifecycle::rules::{FileAccess, Matcher, PathGlob, Rule, RuleScope};

    use super::*;
    use crate::files::undo::UndoPlan;
    use crate::files::workspace::testing::{TestWorkspace, test_workspace_with_undo};

    /// A call that is cancelled may be dropped at any time. The rules then still hold.
    #[test]
    fn changes_are_recorded_if_the_call_is_dropped() {
        let files = [("a", "A"), ("secret", "S")];
        let TestWorkspace { workspace, outer: _outer } = test_workspace_with_undo(&files);
        let workspace = Arc::new(workspace);
        let snapshot = Snapshot::take(&workspace, Duration::from_secs(60), &|| false);
        let paths = files.map(|(name, _)| workspace.cwd().join(name));
        paths.iter().for_each(|path| std::fs::write(path, "changed").unwrap());
        let glob = PathGlob::parse(paths[1].to_str().unwrap()).unwrap();
        let matcher = Matcher::Path { access: FileAccess::Read, glob };
        let mut rules = Rules::default();
        rules.add_rule(Rule::new(RuleScope::Session, matcher, Verdict::Deny));
        drop(ChangeRecording { workspace: workspace.clone(), rules, snapshot });
        // An undo waits for the recording.
        let plan = UndoPlan::for_last_session_change(&workspace).unwrap();
        assert_eq!(plan.affected_paths().collect::<Vec<_>>(), [(&*paths[0], false)]);
        let skipped: Vec<_> = plan.skipped().map(|skipped| &skipped.path).collect();
        assert_eq!(skipped, [&paths[1]]);
    }
}
