//! Runs a command of `terminal` itself, and tells the client and the model of it.
//!
//! It knows nothing of arguments and of whether the command may run.

use std::sync::Arc;
use std::time::Duration;

use acp_types::TerminalId;
use futures::FutureExt as _;
use futures::future::{OptionFuture, pending};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::background::{self as told, Why};
use super::report::{ending, report};
use crate::error::{Code, ToolError};
use crate::files::state::outputs::OutputKind;
use crate::files::system::Dir;
use crate::limits::OUTPUT_FILE_BYTES;
use crate::terminal::{Job, Running};
use crate::tool::{Invocation, Output, blocking};
use callboard_process::escapes::Filter;
use callboard_process::record::Recording;
use callboard_process::{self as process, Command, Input, Piece, Size, SpawnError, Streams};

/// Runs a command to its end, or until it goes on in the background.
pub(super) async fn run(plan: Plan, invocation: Invocation<'_>) -> Result<Output, ToolError> {
    let Plan { mut command, folder, is_background, patience, .. } = plan;
    if let Some(path) = folder.path_by_descriptor() {
        command.cwd = path;
    }
    let call = invocation.call;
    if command.streams == Streams::Pipe && call.session().with(|it, _| it.shows_terminals()) {
        command.streams = Streams::Terminal(Size::default());
    }
    let background = invocation.context.workspace.background();
    // Who asks for a terminal may have to be answered, which is done in the background.
    let is_interactive = matches!(command.streams, Streams::Interactive(_));
    let mut place = (is_background || is_interactive).then(|| background.reserve()).flatten();
    if is_background && place.is_none() {
        return Err(told::too_many());
    }
    let job = Job {
        line: command.line.clone(),
        begun: Instant::now(),
        timeout: command.timeout,
        stop: background.token(),
        input: (is_interactive && place.is_some()).then(Input::default),
    };
    let Live { recording, mut running, detached } = begin(command, folder, &job, invocation);
    let mut may_go_on = true;
    let exit = loop {
        tokio::select! {
            biased;
            // First, so that nothing is started for a call that is over.
            () = call.cancel().cancelled(), if !job.stop.is_cancelled() => job.stop.cancel(),
            exit = &mut running => break exit.map_err(not_started)?,
            why = out_of_patience(patience, job.input.as_ref()),
                if may_go_on && !job.stop.is_cancelled() =>
            {
                let Some(place) = place.take().or_else(|| background.reserve()) else {
                    may_go_on = false;
                    continue;
                };
                detached.cancel();
                let id = place.adopt(job, recording, running);
                return told::goes_on(&id, why, invocation).await;
            }
        }
    };
    // Of long lines, that takes its time.
    let recorded = blocking(move || Ok(recording.finish())).await?;
    Ok(report(call, &exit, &recorded, &ending(&exit, job.timeout)))
}

/// A command that runs for a call.
struct Live {
    recording: Arc<Recording>,
    running: Running,
    /// Says that the call does not show it any more.
    detached: CancellationToken,
}

fn begin(command: Command, folder: Arc<Dir>, job: &Job, invocation: Invocation<'_>) -> Live {
    let call = invocation.call.clone();
    // The files are gone with the session, and a command must not keep that.
    let workspace = Arc::downgrade(&invocation.context.workspace);
    let open =
        move || workspace.upgrade().map_or(Ok(None), |it| it.outputs().create(OutputKind::Output));
    let recording = Arc::new(Recording::new(OUTPUT_FILE_BYTES, open));
    let detached = CancellationToken::new();
    let (session, is_detached) = (call.session().clone(), detached.clone());
    let ready = move || {
        // Open as long as the command runs: its folder is named by the descriptor.
        let _open = &folder;
        let (session, is_detached) = (session.clone(), is_detached.clone());
        // Nobody waits for a client that is not shown it.
        async move {
            let _is_over = is_detached.run_until_cancelled(session.unstalled()).await;
        }
        .boxed()
    };
    let (id, is_detached) = (TerminalId::new(call.id().0.clone()), detached.clone());
    let mut filter = Filter::default();
    let show = move |piece: Piece<'_>| match piece {
        _ if is_detached.is_cancelled() => {}
        Piece::Bytes(bytes) => call.terminal_output(&id, &filter.push(bytes)),
        Piece::LeftOut(bytes) => {
            // What follows is in the midst of nothing.
            filter = Filter::default();
            call.terminal_gap(&id, bytes);
        }
    };
    let (stop, kept, input) = (job.stop.clone(), Arc::clone(&recording), job.input.clone());
    let running = process::run_recorded(command, stop, kept, input, show, ready).boxed();
    Live { recording, running, detached }
}

/// Waits until a command is not to be waited for any more.
async fn out_of_patience(patience: Option<Duration>, input: Option<&Input>) -> Why {
    tokio::select! {
        Some(()) = OptionFuture::from(patience.map(sleep)) => Why::Lasts,
        Some(()) = OptionFuture::from(input.map(Input::awaited)) => Why::AwaitsInput,
        else => pending().await,
    }
}

fn not_started(error: SpawnError) -> ToolError {
    let code = match error {
        SpawnError::Cwd { .. } => Code::NotADirectory,
        SpawnError::TooLong { .. } => Code::TooLarge,
        _ => Code::Io,
    };
    ToolError::report(code, format!("{error}."))
}
