//! Runs a command of the `terminal` tool in a terminal of the client.
//!
//! The client displays the output, so the agent only waits until the command ends. A client may
//! answer late, with an error, or not at all. In every case, the call ends and the terminal is
//! released.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use acp_types::{TerminalExit, TerminalId, TerminalOutput as Shown, TerminalPatch};
use callboard_text::escape_invisible;
use callboard_text::{head, tail};
use futures::future::{self, OptionFuture};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::command_report::{abnormal_exit_notes, exit_text, report_command};
use super::recorded_changes::ChangeRecording;
use crate::error::{ErrorCode, ToolError};
use crate::files::state::outputs::OutputReproducibility;
use crate::limits::{
    CLIENT_CANCEL_GRACE, CLIENT_CANCEL_LINGER, CLIENT_EXIT_POLL_DELAY,
    CLIENT_EXIT_POLL_DELAY_AFTER_ERROR, CLIENT_KILL_DEADLINE, CLIENT_OUTPUT_RETRY_DELAY,
    MAX_CLIENT_EXIT_POLL_INTERVAL, MAX_CLIENT_OUTPUT_BYTES, MAX_CLIENT_OUTPUT_RETRIES,
    MAX_CLIENT_SIGNAL_BYTES, MAX_CLIENT_TERMINAL_ID_BYTES, MAX_OUTPUT_FILE_BYTES,
};
use crate::note::Note;
use crate::tool::backend::{
    ClientCommand, ClientError, ClientOutput, ClientTerminal, TerminalBackend,
};
use crate::tool::{Invocation, ToolOutput, run_on_blocking_thread};
use callboard_process::env;
use callboard_process::escapes::EscapeFilter;
use callboard_process::record::Recording;
use callboard_process::{self as process, ExitCause, ShellCommand, Streams};

/// Returns the client's terminal backend if the client should run the command. A client cannot run
/// a command that has a sandbox, that reads typed input, or that may continue in the background. A
/// client that displays the agent's own terminals also runs no commands.
pub(super) fn choose_client_backend<'a>(
    plan: &Plan,
    invocation: Invocation<'a>,
) -> Option<&'a dyn TerminalBackend> {
    // The command line needs a Unix shell, and a request can only contain a directory path in
    // UTF-8.
    let is_for_client = cfg!(unix)
        && plan.command.streams == Streams::Pipe
        && !plan.is_background_requested
        && !plan.has_sandbox
        && plan.command.cwd.to_str().is_some();
    let shows_ours = invocation.call.session().update(|session, _| session.shows_terminals());
    invocation.context.terminal.as_deref().filter(|_| is_for_client && !shows_ours)
}

/// Runs a command until it ends. A client cannot move a command to the background, so the command
/// is killed at the time when a local command would be moved.
pub(super) async fn run_in_client_terminal(
    plan: Plan,
    backend: &dyn TerminalBackend,
    invocation: Invocation<'_>,
) -> Result<ToolOutput, ToolError> {
    let Invocation { call, context, .. } = invocation;
    let Plan { command, foreground_wait: patience, .. } = plan;
    let changes = ChangeRecording::begin(invocation).await?;
    let begun = Instant::now();
    let limit = command.timeout.into_iter().chain(patience).min();
    let created = tokio::select! {
        biased;
        () = call.cancel_token().cancelled() => None,
        created = create_client_terminal(command, backend) => Some(created?),
    };
    let id = TerminalId::new(call.id().0.clone());
    let ran = match &created {
        None => ClientRunResult::from_exit_cause(ExitCause::Cancelled),
        Some(terminal) => {
            call.keep_until_end(Arc::clone(terminal));
            let theirs = TerminalPatch::for_client_terminal(TerminalId::new(terminal.id()));
            call.update_terminal(&id, theirs);
            wait_or_kill_and_collect_output(&**terminal, limit, call.cancel_token()).await
        }
    };
    let exit = ran.to_process_exit(begun);
    let how = ran.end_text(&exit, limit, patience);
    let notes = ran.error_notes();
    let text = ran.output.map(|output| output.text).unwrap_or_default();
    let workspace = Arc::clone(&context.workspace);
    let record = move || {
        let shown = Shown::from_bytes(&EscapeFilter::default().push(text.as_bytes()));
        let recording = Recording::new(MAX_OUTPUT_FILE_BYTES, move || {
            workspace.outputs().create_output_file(OutputReproducibility::Irreplaceable)
        });
        recording.push(text.as_bytes());
        Ok((shown, recording.finish()))
    };
    let (shown, recorded) = run_on_blocking_thread(record).await?;
    call.append_terminal_output(&id, shown.head());
    call.record_terminal_output_gap(&id, shown.omitted_bytes());
    call.append_terminal_output(&id, shown.tail());
    let mut output = report_command(call, &exit, &recorded, &how);
    abnormal_exit_notes(&exit, limit).chain(notes).for_each(|note| invocation.append_note(&note));
    changes.record_and_add_to_output(false, &mut output, invocation).await?;
    Ok(output)
}

async fn create_client_terminal(
    command: ShellCommand,
    backend: &dyn TerminalBackend,
) -> Result<Arc<dyn ClientTerminal>, ToolError> {
    let failed = |why: &str| {
        let message = format!("The client started no terminal for the command: {why}.");
        ToolError::recoverable(ErrorCode::Io, message)
    };
    let created = backend.create(client_command(command)).await;
    let terminal = created.map_err(|error| failed(&error.to_string()))?;
    match terminal.id().len() {
        0..=MAX_CLIENT_TERMINAL_ID_BYTES => Ok(terminal),
        bytes => Err(failed(&format!("the id of its terminal is {bytes} bytes long"))),
    }
}

/// Returns the command in the form that the client receives. The client runs it in the client's own
/// environment, not in the agent's. The command only contains the variables that prevent prompts
/// and pagers, and those that configure git.
fn client_command(command: ShellCommand) -> ClientCommand {
    let is_set = |name: &str| {
        name != "TERM" && env::FIXED_VARIABLES.iter().any(|(set, _)| *set == name)
            || name.starts_with("GIT_CONFIG_")
    };
    ClientCommand {
        program: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), command.line],
        env: command.env.into_iter().filter(|(name, _)| is_set(name)).collect(),
        cwd: command.cwd,
        output_bytes: MAX_CLIENT_OUTPUT_BYTES,
    }
}

/// The result of a command that a client ran.
struct ClientRunResult {
    end: ExitCause,
    /// `None` if the client did not report how the command ended.
    exit: Option<TerminalExit>,
    output: Result<ClientOutput, ClientError>,
    /// The client's error if it refused to kill the command.
    kill_error: Option<ClientError>,
}

impl ClientRunResult {
    /// Creates a result without exit status and output.
    fn from_exit_cause(end: ExitCause) -> Self {
        Self { end, exit: None, output: Ok(ClientOutput::default()), kill_error: None }
    }

    /// Returns notes for the client about its own errors.
    fn error_notes(&self) -> Vec<Note> {
        let note = |key, error: &ClientError| {
            Note::new(key).with_text("error", escape_invisible(&error.to_string()))
        };
        let kill = self.kill_error.as_ref().map(|error| note("client-kill-failed", error));
        let output = self.output.as_ref().err().map(|error| note("client-output-missing", error));
        kill.into_iter().chain(output).collect()
    }

    fn to_process_exit(&self, begun: Instant) -> process::CommandExit {
        let TerminalExit { code, signal } = self.exit.clone().unwrap_or_default();
        let signal = signal.filter(|signal| !signal.trim().is_empty());
        let signal =
            signal.map(|signal| escape_invisible(head(signal.trim(), MAX_CLIENT_SIGNAL_BYTES)));
        // If a signal ended the command, some clients report 0 although there is no exit code.
        let code = code.filter(|code| signal.is_none() || *code != 0);
        let (end, duration) = (self.end, begun.elapsed());
        process::CommandExit::new(code, signal, end, duration)
    }

    /// Describes how the command ended, and whether a part of its output is missing.
    fn end_text(
        &self,
        exit: &process::CommandExit,
        limit: Option<Duration>,
        patience: Option<Duration>,
    ) -> String {
        let how = match (exit.cause, exit.code, &exit.signal) {
            (ExitCause::TimedOut, ..) if patience.is_some() => format!(
                "ended after {} ms, because `timeout_ms` was not set; it may have had effects. \
                 Commands in the client's terminal cannot continue in the background: set a longer \
                 `timeout_ms`, or set `background`, which does not use the client's terminal",
                limit.unwrap_or_default().as_millis()
            ),
            (ExitCause::Exited, None, None) => {
                "the client did not report how it ended; it may have had effects".to_owned()
            }
            _ => exit_text(exit, limit),
        };
        match &self.output {
            Err(error) => format!("{how}; the client did not return its output: {error}"),
            Ok(ClientOutput { is_truncated: true, .. }) => format!(
                "{how}; the client kept only a part of its output, and the rest, at the beginning \
                 or at the end, is not counted"
            ),
            Ok(_) => how,
        }
    }
}

/// Waits until a command ends, or kills it after the limit or a cancellation. Then requests the
/// output.
async fn wait_or_kill_and_collect_output(
    terminal: &dyn ClientTerminal,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> ClientRunResult {
    let mut exited = pin!(wait_or_poll_until_exit(terminal));
    let (end, patience) = tokio::select! {
        biased;
        exit = &mut exited => {
            let output = final_output(terminal, MAX_CLIENT_OUTPUT_RETRIES).await;
            let ended = ClientRunResult::from_exit_cause(ExitCause::Exited);
            return ClientRunResult { exit: exit.ok(), output, ..ended };
        }
        () = cancel.cancelled() => (ExitCause::Cancelled, CLIENT_CANCEL_GRACE),
        Some(()) = OptionFuture::from(limit.map(sleep)) => (ExitCause::TimedOut, CLIENT_KILL_DEADLINE),
    };
    // If the user cancelled the call, the call does not wait for the command. The exit status and
    // the last output are used if the client sends them soon after the kill request.
    let (linger, tries) = match end {
        ExitCause::Cancelled => (CLIENT_CANCEL_LINGER, 0),
        _ => (patience, MAX_CLIENT_OUTPUT_RETRIES),
    };
    let (mut exit, mut kill_error) = (None, None);
    let killed = async {
        let mut kill = terminal.kill();
        tokio::select! {
            ended = &mut exited => {
                exit = ended.ok();
                drop(kill.await);
            }
            killed = &mut kill => {
                kill_error = killed.err();
                let ended = timeout(linger, &mut exited).await;
                exit = ended.ok().and_then(Result::ok);
            }
        }
    };
    // The terminal is released, regardless of the client's answer.
    drop(timeout(patience, killed).await);
    let output = timeout(patience, final_output(terminal, tries)).await;
    let output = output.unwrap_or_else(|_| Err(ClientError::new("it did not answer in time")));
    let exit = exit.or_else(|| output.as_ref().ok()?.exit.clone());
    ClientRunResult { end, exit, output, kill_error }
}

/// Waits until a command has ended. If the wait request fails, the output is polled instead. While
/// the wait request is pending, the output is also polled, at long intervals.
///
/// # Errors
///
/// Returns the client's error if the client no longer has the terminal.
async fn wait_or_poll_until_exit(
    terminal: &dyn ClientTerminal,
) -> Result<TerminalExit, ClientError> {
    let reported = async {
        match terminal.wait().await {
            Ok(exit) => Ok(exit),
            Err(_) => poll_exit(terminal, CLIENT_EXIT_POLL_DELAY_AFTER_ERROR).await,
        }
    };
    let polled = async {
        match poll_exit(terminal, CLIENT_EXIT_POLL_DELAY).await {
            Ok(exit) => Ok(exit),
            Err(_) => future::pending().await,
        }
    };
    tokio::select! {
        exit = reported => exit,
        exit = polled => exit,
    }
}

async fn poll_exit(
    terminal: &dyn ClientTerminal,
    mut pause: Duration,
) -> Result<TerminalExit, ClientError> {
    loop {
        sleep(pause).await;
        if let Some(exit) = terminal.output().await?.exit {
            return Ok(exit);
        }
        pause = (pause * 2).min(MAX_CLIENT_EXIT_POLL_INTERVAL);
    }
}

/// Requests the output of a finished command. As long as the client has not recorded the exit
/// status, it may not have received all output. The request is then repeated up to `tries` times.
async fn final_output(
    terminal: &dyn ClientTerminal,
    tries: u32,
) -> Result<ClientOutput, ClientError> {
    let mut output = terminal.output().await?;
    for _ in 0..tries {
        if output.exit.is_some() {
            break;
        }
        sleep(CLIENT_OUTPUT_RETRY_DELAY).await;
        output = terminal.output().await?;
    }
    Ok(drop_excess_output_start(output))
}

/// If an output is larger than the requested size, removes the excess at its beginning.
fn drop_excess_output_start(mut output: ClientOutput) -> ClientOutput {
    let kept = tail(&output.text, MAX_CLIENT_OUTPUT_BYTES as usize).len();
    let over = output.text.len() - kept;
    if over > 0 {
        output.text.drain(..over);
        output.is_truncated = true;
    }
    output
}
