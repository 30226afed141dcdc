//! Runs a command of the `terminal` tool as a local process, and reports it to the client and the
//! model.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_types::{Content, TerminalId};
use futures::FutureExt as _;
use futures::future::{OptionFuture, pending};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::background::{self as background_report, BackgroundReason};
use super::command_report::{exit_text, report_command};
use crate::background::{CommandFuture, CommandInfo};
use crate::error::{ErrorCode, ToolError};
use crate::files::state::outputs::OutputKind;
use crate::files::system::Dir;
use crate::limits::{MAX_OUTPUT_FILE_BYTES, MAX_SANDBOX_REASON_BYTES};
use crate::note::Note;
use crate::sandbox::{CommandIsolation, MadeNames, RestoredNames, SandboxLease, find_refusal};
use crate::tool::{Invocation, ToolOutput, run_on_blocking_thread};
use callboard_process::escapes::EscapeFilter;
use callboard_process::record::Recording;
use callboard_process::{
    self as process, CommandInput, OutputPiece, ShellCommand, SpawnError, Streams, WindowSize,
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
    if command.streams == Streams::Pipe && call.session().update(|it, _| it.shows_terminals()) {
        command.streams = Streams::Terminal(WindowSize::default());
    }
    let background = invocation.context.workspace.background_commands();
    // A command in a terminal may wait for input, and a command can only receive input in the
    // background. A slot is therefore reserved before the command starts.
    let is_interactive = matches!(command.streams, Streams::Interactive(_));
    let mut place = (is_background || is_interactive).then(|| background.reserve_slot()).flatten();
    if is_background && place.is_none() {
        return Err(background_report::too_many_commands_error());
    }
    let command_line = command.line.clone();
    let job = CommandInfo {
        command_line: command.line.clone(),
        begun: Instant::now(),
        timeout: command.timeout,
        stop: background.child_token(),
        input: (is_interactive && place.is_some()).then(CommandInput::default),
    };
    let RunningCommand { recording, running, detached } =
        start_command(command, folder, &job, invocation);
    // The command may continue after this call.
    let kept = lease.clone();
    let mut running: CommandFuture = async move {
        let _kept = kept;
        running.await
    }
    .boxed();
    let mut may_go_on = true;
    let exit = loop {
        tokio::select! {
            biased;
            // This branch is first, so that a cancelled call starts no process.
            () = call.cancel_token().cancelled(), if !job.stop.is_cancelled() => job.stop.cancel(),
            exit = &mut running => break exit.map_err(spawn_failed_error)?,
            why = wait_until_backgrounded(patience, job.input.as_ref(), lease.as_deref()),
                if may_go_on && !job.stop.is_cancelled() =>
            {
                let Some(place) = place.take().or_else(|| background.reserve_slot()) else {
                    may_go_on = false;
                    continue;
                };
                detached.cancel();
                let id = place.run_in_background(job, recording, running);
                examine_changes(lease.clone()).await?;
                let mut output = background_report::finish_detached_call(&id, why, invocation).await?;
                add_sandbox_notes(&mut output, lease.as_deref(), &command_line, invocation);
                return Ok(output);
            }
        }
    };
    let examined = lease.clone();
    let finish = move || {
        if let Some(lease) = examined {
            lease.examine_changes();
        }
        // Decoding long lines blocks the thread for a noticeable time.
        Ok(recording.finish())
    };
    let recorded = run_on_blocking_thread(finish).await?;
    let mut output = report_command(call, &exit, &recorded, &exit_text(&exit, job.timeout));
    add_sandbox_notes(&mut output, lease.as_deref(), &command_line, invocation);
    Ok(output)
}

/// Examines what a command has changed that continues in the background.
async fn examine_changes(lease: Option<Arc<SandboxLease>>) -> Result<(), ToolError> {
    let Some(lease) = lease else { return Ok(()) };
    let examine = move || {
        lease.examine_changes();
        Ok(())
    };
    run_on_blocking_thread(examine).await
}

/// Adds to the result of a command how the sandbox has restricted it.
fn add_sandbox_notes(
    output: &mut ToolOutput,
    lease: Option<&SandboxLease>,
    command_line: &str,
    Invocation { context, call }: Invocation<'_>,
) {
    let Some(lease) = lease else { return };
    let mut notes = Vec::new();
    let mut add_names = |key, names: &[PathBuf]| {
        let shown = names.iter().map(|path| context.workspace.display(path));
        let shown = shown.collect::<Vec<_>>().join(", ");
        notes.extend((!names.is_empty()).then(|| Note::new(key).with_text("names", shown)));
    };
    if let Some(RestoredNames { restored, failed }) = lease.restored_names() {
        add_names("protected-restored", restored);
        add_names("protected-changed", failed);
    }
    if let Some(MadeNames { names, is_cut }) = lease.made_names() {
        add_names(if *is_cut { "made-names-and-more" } else { "made-names" }, names);
        if *is_cut
            && names.is_empty()
            && let CommandIsolation::Sandbox(sandbox) = &*context.isolation
            && sandbox.is_first_cut_search()
        {
            call.append_content(Content::from_text(Note::new("made-names-unknown").to_string()));
        }
    }
    notes.extend(
        lease.refused_hosts().map(|hosts| Note::new("refused-hosts").with_text("hosts", hosts)),
    );
    for note in &notes {
        call.append_content(Content::from_text(note.to_string()));
    }
    if output.failure.is_some()
        && let CommandIsolation::Sandbox(sandbox) = &*context.isolation
        && let Some(line) = find_refusal(&output.text)
    {
        let line = head(line, MAX_SANDBOX_REASON_BYTES).to_owned();
        notes.push(Note::new("sandbox-stopped").with_text("line", escape_invisible(&line)));
        sandbox.record_stop(command_line, line);
    }
    for note in notes {
        output.text = format!("{}\n[{note}]", output.text.trim_end());
    }
}

/// The running command of a call.
struct RunningCommand {
    recording: Arc<Recording>,
    running: CommandFuture,
    /// Cancelled when the call stops showing the output, because the command continues in the
    /// background.
    detached: CancellationToken,
}

fn start_command(
    command: ShellCommand,
    folder: Arc<Dir>,
    job: &CommandInfo,
    invocation: Invocation<'_>,
) -> RunningCommand {
    let call = invocation.call.clone();
    // The output files are deleted when the session ends. A running command must not keep the
    // session alive.
    let workspace = Arc::downgrade(&invocation.context.workspace);
    let open = move || {
        workspace
            .upgrade()
            .map_or(Ok(None), |it| it.outputs().create_output_file(OutputKind::Irreplaceable))
    };
    let recording = Arc::new(Recording::new(MAX_OUTPUT_FILE_BYTES, open));
    let detached = CancellationToken::new();
    let (session, is_detached) = (call.session().clone(), detached.clone());
    let ready = move || {
        // Keeps the directory open while the command runs, because the path of the directory
        // contains its file descriptor.
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
    let show = move |piece: OutputPiece<'_>| match piece {
        _ if is_detached.is_cancelled() => {}
        OutputPiece::Bytes(bytes) => call.append_terminal_output(&id, &filter.push(bytes)),
        OutputPiece::Omitted(bytes) => {
            // After a gap, it is unknown whether the output continues inside an escape sequence.
            filter = EscapeFilter::default();
            call.record_terminal_output_gap(&id, bytes);
        }
    };
    let (stop, kept, input) = (job.stop.clone(), Arc::clone(&recording), job.input.clone());
    let running = process::run_recorded(command, stop, kept, input, show, ready).boxed();
    RunningCommand { recording, running, detached }
}

/// Resolves when the command should move to the background, and returns the reason.
async fn wait_until_backgrounded(
    patience: Option<Duration>,
    input: Option<&CommandInput>,
    lease: Option<&SandboxLease>,
) -> BackgroundReason {
    let wait = |patience| async move {
        sleep(patience).await;
        // In the background, a command cannot ask.
        OptionFuture::from(lease.map(SandboxLease::wait_while_asking)).await;
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
