//! Runs a command of `terminal` itself, and tells the client and the model of it.
//!
//! It knows nothing of arguments and of whether the command may run.

use callboard_text::path_text;
use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::CallHandle;
use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock, Exit, Reason, TerminalId};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::background::{self as told, Why};
use crate::background::{Job, Running};
use crate::error::{Code, ToolError};
use crate::limits::OUTPUT_FILE_BYTES;
use crate::outputs::{OutputKind, uri};
use crate::sys::fs::Dir;
use crate::tool::{Invocation, Output, blocking, redacted};
use callboard_process::escapes::Filter;
use callboard_process::record::{Recorded, RecordedFile, Recording};
use callboard_process::{
    self as process, Command, End, Input, Piece, Size, SpawnError, Streams, Usage, or_never,
};

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
        () = or_never(patience.map(sleep)) => Why::Lasts,
        () = or_never(input.map(Input::awaited)) => Why::AwaitsInput,
    }
}

/// Tells the client and the model of a command that has ended, `how` in words, and what it wrote.
pub(super) fn report(
    call: &CallHandle,
    exit: &process::Exit,
    recorded: &Recorded,
    how: &str,
) -> Output {
    let id = TerminalId::new(call.id().0.clone());
    call.terminal_exit(&id, Exit { code: exit.code, signal: exit.signal.clone() });
    call.change_meta(|meta| {
        meta.exit_code = exit.code;
        meta.signal.clone_from(&exit.signal);
        meta.output_bytes = Some(recorded.bytes);
        if let Some(usage) = exit.usage {
            meta.custom.insert("usage".into(), used(usage));
        }
    });
    if let Some(file) = &recorded.file {
        call.append(Content::Block(link(file)));
    }
    let text = format!("[{how}]\n{}", recorded.for_model());
    Output {
        text: redacted(call, &text),
        raw: Some(raw(exit, recorded)),
        failed: failed(exit),
        ..Output::default()
    }
}

fn raw(exit: &process::Exit, recorded: &Recorded) -> Value {
    json!({
        "exitCode": exit.code,
        "signal": exit.signal,
        "timedOut": exit.end == End::TimedOut,
        "outputBytes": recorded.bytes,
        "outputLines": recorded.lines,
        "outputFile": recorded.file.as_ref().map(|file| path_text(&file.path)),
    })
}

/// The whole output, for whoever wants to see it.
fn link(file: &RecordedFile) -> ContentBlock {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let link = ResourceLink::new(name, uri(&file.path))
        .title("The whole output".to_owned())
        .mime_type("text/plain".to_owned())
        .size(i64::try_from(file.bytes).ok());
    ContentBlock::ResourceLink(link)
}

/// What the processes of the command used together, and how much memory the largest of them.
fn used(usage: Usage) -> Value {
    json!({ "cpuMs": (usage.cpu.as_secs_f64() * 1000.0).round(), "peakBytes": usage.peak_bytes })
}

fn failed(exit: &process::Exit) -> Option<(Code, Reason)> {
    match exit.end {
        End::TimedOut => Some((Code::TimedOut, Reason::Timeout)),
        End::Cancelled => Some((Code::Cancelled, Reason::Turn)),
        End::WaitedForInput => Some((Code::CommandFailed, Reason::Error)),
        End::Exited if exit.code == Some(0) => None,
        End::Exited => Some((Code::CommandFailed, Reason::Error)),
    }
}

pub(super) fn ending(exit: &process::Exit, timeout: Option<Duration>) -> String {
    let left_over = match exit.left_over {
        0 => String::new(),
        1 => "; 1 process that it left running was ended".to_owned(),
        count => format!("; {count} processes that it left running were ended"),
    };
    let how = match (exit.end, exit.code, &exit.signal) {
        (End::TimedOut, ..) => format!(
            "ended after its timeout of {} ms; it may have had effects",
            timeout.unwrap_or_default().as_millis()
        ),
        (End::WaitedForInput, ..) => "ended because it may have been waiting for input, which \
                                      nobody gives; it may have had effects"
            .to_owned(),
        (End::Cancelled, ..) => "cancelled while it ran; it may have had effects".to_owned(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, None, Some(signal)) => format!("ended by {signal}"),
        (_, None, None) => "it could not be ended".to_owned(),
    };
    how + &left_over
}

fn not_started(error: SpawnError) -> ToolError {
    let code = match error {
        SpawnError::Cwd { .. } => Code::NotADirectory,
        SpawnError::TooLong { .. } => Code::TooLarge,
        _ => Code::Io,
    };
    ToolError::report(code, format!("{error}."))
}
