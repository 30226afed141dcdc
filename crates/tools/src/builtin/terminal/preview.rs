//! The preview of a command: it runs on copies of the project folders, the user sees its changes,
//! and the changes are made in the real folders if the user allows them.

use std::collections::HashSet;
use std::sync::Arc;

use acp_lifecycle::Verdict;
use acp_types::{CallEndReason, Content, TerminalId, ToolCallPatch};
use callboard_process::record::RecordedOutput;
use callboard_process::{CommandExit, ExitCause, Streams, WindowSize};
use futures::FutureExt as _;
use tokio::time::{Instant, sleep};

use super::command_report::{preview_exit_text, report_command};
use super::local_process::{PreparedCommand, prepare_command};
use super::{Plan, is_output_sent_to_terminal};
use crate::background::CommandHandle;
use crate::error::{ErrorCode, ToolError};
use crate::files::apply::{PathChange, apply_all_or_none};
use crate::limits::{
    DEFAULT_COMMAND_WAIT, MAX_CHANGES_SHOWN, MAX_PREVIEW_RUNS, PREVIEW_NETWORK_GRACE,
};
use crate::note::Note;
use crate::sandbox::{
    CommandChanges, CommandIsolation, PreviewLease, PreviewObstacle, shows_missing_network,
    shows_refused_rename,
};
use crate::shown_changes::{content_with_patch_from_iterator, notes_to_content};
use crate::tool::{Invocation, ToolOutput, run_on_blocking_thread};

/// How the preview of a command ended.
pub(super) enum PreviewEnd {
    /// The call has ended: the command changes nothing, or the user has decided about its changes.
    Finished(ToolOutput),
    /// The changes cannot be previewed. Nothing was changed.
    NoPreview(PreviewObstacle),
}

/// The end of a command that ran on copies.
struct PreviewedRun {
    /// The report for the client and the model.
    report: ToolOutput,
    changes: CommandChanges,
    /// Notes on the run: the command failed, or could not connect to some hosts.
    notes: Vec<Note>,
    /// Keeps the copies, which contain new files.
    lease: Arc<PreviewLease>,
}

/// Runs a command on copies of the project folders, asks about its changes, and applies them if the
/// user allows them.
pub(super) async fn preview_then_request_and_apply(
    plan: &Plan,
    invocation: Invocation<'_>,
) -> Result<PreviewEnd, ToolError> {
    let call = invocation.call;
    for run in 1..=MAX_PREVIEW_RUNS {
        // The question about the command is answered, so its notes are removed.
        let terminal = TerminalId::new(call.id().0.clone());
        call.update(ToolCallPatch::new().with_content(vec![Content::Terminal(terminal.clone())]));
        if run > 1 {
            call.append_terminal_output(&terminal, b"\r\n[The command runs again.]\r\n");
            invocation.append_note(&Note::new("preview-again"));
        }
        let previewed = match run_on_copies(plan, invocation).await? {
            Ok(previewed) => previewed,
            Err(PreviewObstacle::Outdated) if run < MAX_PREVIEW_RUNS => continue,
            Err(obstacle) => return Ok(PreviewEnd::NoPreview(obstacle)),
        };
        if let Some(report) = request_and_apply(previewed, invocation).await? {
            return Ok(PreviewEnd::Finished(report));
        }
    }
    Ok(PreviewEnd::NoPreview(PreviewObstacle::Outdated))
}

/// Requests permission for the changes of a command, and applies them. Returns `None` if a file has
/// changed since the preview.
async fn request_and_apply(
    previewed: PreviewedRun,
    invocation: Invocation<'_>,
) -> Result<Option<ToolOutput>, ToolError> {
    let PreviewedRun { mut report, changes, notes, lease } = previewed;
    let Invocation { context, call, .. } = invocation;
    notes.iter().for_each(|note| report.add_note(note, invocation));
    let skipped = changes.unapplied_entries_note(&context.workspace);
    if changes.is_empty() {
        skipped.iter().for_each(|note| report.add_note(note, invocation));
        report.add_note(&Note::new("preview-no-changes"), invocation);
        return Ok(Some(report));
    }
    if let Some(skipped) = skipped {
        report.text = format!("{}\n[{skipped}]", report.text.trim_end());
    }
    if let Some(path) = changes.denied_path(call) {
        let path = context.workspace.display(path);
        report.add_note(&Note::new("preview-denied").with_text("path", path), invocation);
        report.failure = Some((ErrorCode::NotPermitted, CallEndReason::Permission));
        return Ok(Some(report));
    }
    // The user has not seen the changes before, so the question is asked in every mode.
    let effects = changes.effects().always_ask();
    let changes = Arc::new(changes);
    let items = changes_as_content(changes.clone(), invocation).await?;
    items.into_iter().for_each(|item| call.append_content(item));
    let shown = call.session().call_report(call.id()).map(|report| report.content);
    let show = || call.update(ToolCallPatch::new().with_content(shown.clone().unwrap_or_default()));
    invocation.append_note(&Note::new("preview-question"));
    if let Err(reason) = call.request_further_effects(&effects).await {
        show();
        invocation.append_note(&Note::new("preview-rejected"));
        if call.cancel_token().is_cancelled() {
            return Err(cancelled_error());
        }
        report.text = format!("{}\n{}", rejection_text(reason), report.text);
        report.failure = Some((ErrorCode::NotPermitted, CallEndReason::Permission));
        return Ok(Some(report));
    }
    match apply(changes, lease, invocation).await {
        Ok(()) => {
            show();
            report.add_note(&Note::new("preview-applied"), invocation);
            Ok(Some(report))
        }
        Err(error) if error.code() == Some(ErrorCode::ChangedSincePreview) => Ok(None),
        Err(ToolError::Recoverable(failure)) => {
            show();
            let text = failure.to_string();
            report.text = format!("[{text}]\n{}", report.text);
            call.append_content(Content::from_text(text));
            report.failure = Some((failure.code, CallEndReason::Error));
            Ok(Some(report))
        }
        Err(error) => Err(error),
    }
}

fn cancelled_error() -> ToolError {
    ToolError::recoverable(ErrorCode::Cancelled, "The preview was cancelled. No file was changed.")
}

/// Requests permission to run a command without a preview, and states why there is none.
pub(super) async fn request_run_without_preview(
    plan: &Plan,
    obstacle: &PreviewObstacle,
    invocation: Invocation<'_>,
) -> Result<(), ToolError> {
    let why = obstacle.note(&invocation.context.workspace);
    let note = Note::new("no-preview").with_joined_notes("why", [why], "");
    invocation.append_note(&note);
    // The notes of the first question still apply, but a preview removed them.
    plan.notes.iter().for_each(|note| invocation.append_note(note));
    invocation.append_note(&Note::new("no-preview-question"));
    let effects = plan.effects.clone().without_preview().always_ask();
    invocation.call.request_further_effects(&effects).await.map_err(|reason| {
        let reason = rejection_reason_suffix(reason);
        let message = format!("{note} Running it without a preview was not allowed.{reason}");
        ToolError::recoverable(ErrorCode::NotPermitted, message)
    })
}

fn rejection_text(reason: Option<String>) -> String {
    let reason = rejection_reason_suffix(reason);
    format!(
        "[The command ran only on a copy of the project folders. Its changes were not allowed, so no \
         project file was changed.{reason}]"
    )
}

fn rejection_reason_suffix(reason: Option<String>) -> String {
    reason.map(|reason| format!(" Reason: {reason}")).unwrap_or_default()
}

/// Runs a command on copies, and determines its changes.
async fn run_on_copies(
    plan: &Plan,
    invocation: Invocation<'_>,
) -> Result<Result<PreviewedRun, PreviewObstacle>, ToolError> {
    let Invocation { context, call, titles } = invocation;
    let mut command = plan.command.clone();
    if let Some(path) = plan.cwd_handle.descriptor_path() {
        command.cwd = path;
    }
    if is_output_sent_to_terminal(invocation) {
        command.streams = Streams::Terminal(WindowSize::default());
    }
    // A preview does not continue in the background.
    command.timeout =
        Some(plan.foreground_wait.or(command.timeout).unwrap_or(DEFAULT_COMMAND_WAIT));
    let (isolation, owned) = (context.isolation.clone(), (call.clone(), titles.clone()));
    let confined = context.run_blocking(move |workspace| match &*isolation {
        CommandIsolation::Sandbox(sandbox) => {
            let confined = sandbox.confine_for_preview(command, workspace, (&owned.0, &owned.1));
            Ok(confined.map_err(|error| PreviewObstacle::NoSandbox { why: error.to_string() }))
        }
        _ => Err(ToolError::fatal("the session has no sandbox")),
    });
    let (command, lease) = match confined.await? {
        Ok(confined) => confined,
        Err(obstacle) => return Ok(Err(obstacle)),
    };
    let job = CommandHandle {
        command_line: command.line.clone(),
        begun: Instant::now(),
        timeout: command.timeout,
        stop: context.workspace.background_commands().child_token(),
        input: None,
        is_sandboxed: true,
    };
    let PreparedCommand { recording, mut running, .. } =
        prepare_command(command, plan.cwd_handle.clone(), &job, invocation);
    let exit = loop {
        tokio::select! {
            biased;
            () = call.cancel_token().cancelled(), if !job.stop.is_cancelled() => job.stop.cancel(),
            exit = &mut running => break exit,
            // A command that needs no network has some time to end, e.g. a tool that only looks for
            // a newer version of itself.
            () = lease.wait_for_connection_attempt().then(|()| sleep(PREVIEW_NETWORK_GRACE)),
                if !job.stop.is_cancelled() => job.stop.cancel(),
        }
    };
    if call.cancel_token().is_cancelled() {
        return Err(cancelled_error());
    }
    let exit = match exit {
        Ok(exit) => exit,
        Err(error) => return Ok(Err(PreviewObstacle::NoSandbox { why: error.to_string() })),
    };
    let output = run_on_blocking_thread(move || Ok(recording.finish())).await?;
    let how = preview_exit_text(&exit);
    let has_failed = exit.code != Some(0);
    let mut notes: Vec<_> = match lease.take_refused_hosts() {
        Some(hosts) if has_failed => {
            return Ok(Err(PreviewObstacle::Network { hosts: Some(hosts) }));
        }
        refused => {
            let note = |hosts| Note::new("refused-hosts").with_text("hosts", hosts);
            refused.map(note).into_iter().collect()
        }
    };
    if has_failed {
        notes.push(Note::new("preview-failed-command").with_text("how", &how));
    }
    let lease = Arc::new(lease);
    let changes = find_changes(lease.clone(), &exit, &output, invocation).await?;
    Ok(changes.map(|changes| {
        let report = report_command(call, &exit, &output, &how);
        PreviewedRun { report, changes, notes, lease }
    }))
}

async fn find_changes(
    lease: Arc<PreviewLease>,
    exit: &CommandExit,
    output: &RecordedOutput,
    invocation: Invocation<'_>,
) -> Result<Result<CommandChanges, PreviewObstacle>, ToolError> {
    if exit.cause == ExitCause::TimedOut {
        return Ok(Err(PreviewObstacle::TimedOut));
    }
    let shown = output.for_model();
    if exit.code != Some(0) && shows_missing_network(&shown) {
        return Ok(Err(PreviewObstacle::Network { hosts: None }));
    }
    if exit.code != Some(0) && shows_refused_rename(&shown) {
        return Ok(Err(PreviewObstacle::RenamedFolder));
    }
    invocation.context.run_blocking(move |workspace| Ok(lease.find_changes(workspace))).await
}

/// Returns the changes as content of the call.
async fn changes_as_content(
    changes: Arc<CommandChanges>,
    invocation: Invocation<'_>,
) -> Result<Vec<Content>, ToolError> {
    let (call, titles) = (invocation.call.clone(), invocation.titles.clone());
    // Texts are decoded and compared, which may take long.
    let computed = invocation.context.run_blocking(move |workspace| {
        // The command may have read a file although the session may not show it without a question.
        let rules = call.session().update(|session, _| session.rules().clone());
        let is_allowed =
            |change: &&PathChange| workspace.judge_read(change.path(), &rules) == Verdict::Allow;
        let readable = changes.paths.iter().filter(is_allowed).map(PathChange::path);
        let readable: HashSet<_> = readable.collect();
        let may_read = |change: &PathChange| readable.contains(change.path());
        let mut notes = changes.notes(workspace);
        notes.extend(changes.withheld_content_note(may_read, workspace));
        let files = || changes.file_changes(may_read);
        let mut shown = content_with_patch_from_iterator(
            files,
            MAX_CHANGES_SHOWN,
            workspace.outputs(),
            &titles,
        );
        let notes = notes.into_iter().map(|note| note.render(&titles));
        shown.extend(notes_to_content(notes.collect()));
        Ok(shown)
    });
    computed.await
}

/// Applies the changes to the real folders.
async fn apply(
    changes: Arc<CommandChanges>,
    lease: Arc<PreviewLease>,
    invocation: Invocation<'_>,
) -> Result<(), ToolError> {
    let applied = invocation.context.run_blocking(move |workspace| {
        // The copies contain the files of generated folders.
        let _copies = lease;
        let CommandChanges { paths, generated, protection, .. } = &*changes;
        generated.iter().try_for_each(|folder| folder.require_unchanged(workspace))?;
        apply_all_or_none(workspace, paths, protection, &mut |_| {})?;
        generated.iter().try_for_each(|folder| folder.apply(workspace)).map_err(|error| {
            let message =
                format!("All changes are applied, except for some in generated folders: {error}");
            ToolError::recoverable(ErrorCode::Io, message)
        })
    });
    applied.await
}
