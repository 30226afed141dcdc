//! Runs a command of the `terminal` tool as a local process, and reports it to the client and the
//! model.

use std::sync::Arc;
use std::time::Duration;

use acp_types::TerminalId;
use futures::FutureExt as _;
use futures::future::{OptionFuture, pending};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::background::{self as background_report, BackgroundReason};
use super::command_report::{abnormal_exit_notes, exit_text, report_command};
use super::recorded_changes::ChangeRecording;
use super::{Plan, is_output_sent_to_terminal};
use crate::background::{CommandFuture, CommandHandle, ExamineEndFn};
use crate::error::{ErrorCode, ToolError};
use crate::files::state::outputs::OutputReproducibility;
use crate::files::system::Dir;
use crate::limits::{MAX_OUTPUT_FILE_BYTES, MAX_SANDBOX_REASON_BYTES};
use crate::note::Note;
use crate::sandbox::{CommandIsolation, SandboxFindings, SandboxLease, find_refusal};
use crate::tool::{Invocation, ToolOutput, run_on_blocking_thread};
use callboard_process::escapes::EscapeFilter;
use callboard_process::record::Recording;
use callboard_process::{
    self as process, CommandInput, OutputBytesOrGap, ShellCommand, SpawnError, Streams, WindowSize,
};
use callboard_text::{escape_invisible, head};

/// Runs a command until it ends or continues in the background.
pub(super) async fn run_local_command(
    plan: Plan,
    invocation: Invocation<'_>,
) -> Result<ToolOutput, ToolError> {
    let Plan {
        mut command,
        cwd_handle: folder,
        is_background,
        foreground_wait: patience,
        lease,
        ..
    } = plan;
    let lease = lease.map(Arc::new);
    if let Some(path) = folder.descriptor_path() {
        command.cwd = path;
    }
    let call = invocation.call;
    if command.streams == Streams::Pipe && is_output_sent_to_terminal(invocation) {
        command.streams = Streams::Terminal(WindowSize::default());
    }
    let background = invocation.context.workspace.background_commands();
    // If a command in a terminal waits for input, it moves to the background, because it can only
    // receive input there. A slot in the background is therefore reserved before the command
    // starts.
    let is_interactive = matches!(command.streams, Streams::Interactive(_));
    let mut place = (is_background || is_interactive).then(|| background.reserve_slot()).flatten();
    if is_background && place.is_none() {
        return Err(background_report::too_many_commands_error());
    }
    // A command that starts in the background ends after its call.
    let changes = match is_background {
        true => None,
        false => Some(ChangeRecording::begin(invocation).await?),
    };
    let command_line = command.line.clone();
    let job = CommandHandle {
        command_line: command.line.clone(),
        begun: Instant::now(),
        timeout: command.timeout,
        stop: background.child_token(),
        input: (is_interactive && place.is_some()).then(CommandInput::default),
        is_sandboxed: lease.is_some(),
    };
    let PreparedCommand { recording, mut running, detached } =
        prepare_command(command, folder, &job, invocation);
    let mut may_go_on = true;
    let exit = loop {
        tokio::select! {
            biased;
            // This branch is first, so that a cancelled call starts no process.
            () = call.cancel_token().cancelled(), if !job.stop.is_cancelled() => job.stop.cancel(),
            exit = &mut running => break exit.map_err(spawn_failed_error)?,
            why = wait_for_background_reason(patience, job.input.as_ref(), lease.as_deref()),
                if may_go_on && !job.stop.is_cancelled() =>
            {
                let Some(place) = place.take().or_else(|| background.reserve_slot()) else {
                    may_go_on = false;
                    continue;
                };
                detached.cancel();
                let examine_end = lease.clone().map(|lease| create_end_examiner(lease, invocation));
                let id = place.run_in_background(job, recording, running, examine_end);
                let findings = collect_sandbox_findings(lease, true).await?;
                let mut output = background_report::finish_detached_call(&id, why, invocation).await?;
                add_findings(&mut output, findings.as_ref(), &command_line, invocation);
                match changes {
                    Some(changes) => changes.record_and_add_to_output(true, &mut output, invocation).await?,
                    None => invocation.append_note(&Note::new("unrecorded-background")),
                }
                return Ok(output);
            }
        }
    };
    // Decoding long lines blocks the thread for a noticeable time.
    let finish = run_on_blocking_thread(move || Ok(recording.finish()));
    let (findings, recorded) = tokio::try_join!(collect_sandbox_findings(lease, false), finish)?;
    let mut output = report_command(call, &exit, &recorded, &exit_text(&exit, job.timeout));
    abnormal_exit_notes(&exit, job.timeout).for_each(|note| invocation.append_note(&note));
    add_findings(&mut output, findings.as_ref(), &command_line, invocation);
    if let Some(changes) = changes {
        changes.record_and_add_to_output(false, &mut output, invocation).await?;
    }
    Ok(output)
}

/// Examines the effects of a command when it has ended or when it moves to the background.
async fn collect_sandbox_findings(
    lease: Option<Arc<SandboxLease>>,
    continues: bool,
) -> Result<Option<SandboxFindings>, ToolError> {
    let examine =
        |lease: Arc<SandboxLease>| run_on_blocking_thread(move || Ok(lease.examine(continues)));
    OptionFuture::from(lease.map(examine)).await.transpose()
}

/// Returns a function that examines a background command when the command has ended.
fn create_end_examiner(lease: Arc<SandboxLease>, invocation: Invocation<'_>) -> ExamineEndFn {
    // A running command must not keep the session alive.
    let workspace = Arc::downgrade(&invocation.context.workspace);
    Box::new(move || {
        let workspace = workspace.upgrade();
        workspace.map(|workspace| lease.examine(false).notes(&workspace)).unwrap_or_default()
    })
}

/// Adds the findings of the sandbox to the result of a command.
fn add_findings(
    output: &mut ToolOutput,
    findings: Option<&SandboxFindings>,
    command_line: &str,
    invocation: Invocation<'_>,
) {
    let Some(findings) = findings else { return };
    let CommandIsolation::Sandbox(sandbox) = &*invocation.context.isolation else { return };
    if findings.is_search_cut_without_names() && sandbox.is_first_cut_search() {
        invocation.append_note(&Note::new("made-names-unknown"));
    }
    let refusal = find_refusal(&output.text).filter(|_| output.failure.is_some());
    let stop = refusal.map(|line| head(line, MAX_SANDBOX_REASON_BYTES).to_owned());
    for note in findings.notes(&invocation.context.workspace) {
        output.add_note(&note, invocation);
    }
    if let Some(line) = stop {
        let note = Note::new("sandbox-stopped").with_text("line", escape_invisible(&line));
        output.text = format!("{}\n[{note}]", output.text.trim_end());
        sandbox.record_stopped_command(command_line, line);
    }
}

/// The command of a call. The process starts when `running` is polled for the first time.
pub(super) struct PreparedCommand {
    pub(super) recording: Arc<Recording>,
    pub(super) running: CommandFuture,
    /// Cancelled when the command moves to the background. The call then stops showing the output.
    detached: CancellationToken,
}

pub(super) fn prepare_command(
    command: ShellCommand,
    folder: Arc<Dir>,
    job: &CommandHandle,
    invocation: Invocation<'_>,
) -> PreparedCommand {
    let call = invocation.call.clone();
    // The output files are deleted when the session ends. A running command must not keep the
    // session alive.
    let workspace = Arc::downgrade(&invocation.context.workspace);
    let open = move || {
        workspace.upgrade().map_or(Ok(None), |it| {
            it.outputs().create_output_file(OutputReproducibility::Irreplaceable)
        })
    };
    let recording = Arc::new(Recording::new(MAX_OUTPUT_FILE_BYTES, open));
    let detached = CancellationToken::new();
    let (session, is_detached) = (call.session().clone(), detached.clone());
    let ready = move || {
        // Keeps the directory open while the command runs. The path of the working directory may be
        // `/proc/self/fd/N`, where `N` is the descriptor of this directory.
        let _open = &folder;
        let (session, is_detached) = (session.clone(), is_detached.clone());
        // A command that was moved to the background does not wait for a slow client.
        async move {
            let _is_over =
                is_detached.run_until_cancelled(session.wait_while_client_stalled()).await;
        }
        .boxed()
    };
    let (id, is_detached) = (TerminalId::new(call.id().0.clone()), detached.clone());
    let mut filter = EscapeFilter::default();
    let show = move |piece: OutputBytesOrGap<'_>| match piece {
        _ if is_detached.is_cancelled() => {}
        OutputBytesOrGap::Bytes(bytes) => call.append_terminal_output(&id, &filter.push(bytes)),
        OutputBytesOrGap::Omitted(bytes) => {
            // After a gap, it is unknown whether the output continues inside an escape sequence.
            filter = EscapeFilter::default();
            call.record_terminal_output_gap(&id, bytes);
        }
    };
    let (stop, kept, input) = (job.stop.clone(), Arc::clone(&recording), job.input.clone());
    let running = process::run_command_and_record(command, stop, kept, input, show, ready).boxed();
    PreparedCommand { recording, running, detached }
}

/// Resolves when the command should move to the background, and returns the reason.
async fn wait_for_background_reason(
    patience: Option<Duration>,
    input: Option<&CommandInput>,
    lease: Option<&SandboxLease>,
) -> BackgroundReason {
    let wait = |patience| async move {
        sleep(patience).await;
        // A command in the background cannot request permission. If a permission request is open,
        // wait for its answer.
        OptionFuture::from(lease.map(SandboxLease::wait_for_open_permission_request)).await;
    };
    tokio::select! {
        Some(()) = OptionFuture::from(patience.map(wait)) => BackgroundReason::WaitExpired,
        Some(()) = OptionFuture::from(input.map(CommandInput::wait_until_input_awaited)) => BackgroundReason::AwaitsInput,
        else => pending().await,
    }
}

fn spawn_failed_error(error: SpawnError) -> ToolError {
    let code = match error {
        SpawnError::Cwd { .. } => ErrorCode::NotADirectory,
        SpawnError::TooLong { .. } => ErrorCode::TooLarge,
        _ => ErrorCode::Io,
    };
    ToolError::recoverable(code, format!("{error}."))
}
