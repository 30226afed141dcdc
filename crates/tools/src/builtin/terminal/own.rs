//! Runs a command of `terminal` itself, and tells the client and the model of it.
//!
//! It knows nothing of arguments and of whether the command may run.

use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::CallHandle;
use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock, Exit, Reason, TerminalId};
use futures::FutureExt as _;
use serde_json::{Value, json};

use crate::error::{Code, ToolError};
use crate::exec::escapes::Filter;
use crate::exec::record::{Recorded, RecordedFile, Recording};
use crate::exec::{self, Command, End, Size, SpawnError, Streams, Usage};
use crate::limits::OUTPUT_FILE_BYTES;
use crate::outputs::uri;
use crate::tool::{Invocation, Output};

/// Runs a command to its end.
pub(super) async fn run(
    mut command: Command,
    invocation: Invocation<'_>,
) -> Result<Output, ToolError> {
    let call = invocation.call;
    if command.streams == Streams::Pipe && call.session().with(|it, _| it.shows_terminals()) {
        command.streams = Streams::Terminal(Size::default());
    }
    let id = TerminalId::new(call.id().0.clone());
    let timeout = command.timeout;
    let workspace = Arc::clone(&invocation.context.workspace);
    let open = move || workspace.outputs().create();
    let recording = Arc::new(Recording::new(OUTPUT_FILE_BYTES, open));
    let mut filter = Filter::default();
    let show = |bytes: &[u8]| call.terminal_output(&id, &filter.push(bytes));
    let session = call.session().clone();
    let ready = || {
        let session = session.clone();
        async move { session.unstalled().await }.boxed()
    };
    let cancel = call.cancel().clone();
    let running = exec::run_recorded(command, cancel, Arc::clone(&recording), show, ready);
    let exit = running.await.map_err(not_started)?;
    Ok(report(call, &exit, &recording.finish(), &ending(&exit, timeout)))
}

/// Tells the client and the model how a command ended, `how` in words, and what it wrote.
pub(super) fn report(
    call: &CallHandle,
    exit: &exec::Exit,
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
    let secrets = call.session().with(|session, _| session.secrets().clone());
    let text = format!("[{how}]\n{}", recorded.for_model());
    Output {
        text: secrets.redact(&text).into_owned(),
        raw: Some(raw(exit, recorded)),
        failed: failed(exit),
        ..Output::default()
    }
}

fn raw(exit: &exec::Exit, recorded: &Recorded) -> Value {
    json!({
        "exitCode": exit.code,
        "signal": exit.signal,
        "timedOut": exit.end == End::TimedOut,
        "outputBytes": recorded.bytes,
        "outputLines": recorded.lines,
        "outputFile": recorded.file.as_ref().map(|file| file.path.display().to_string()),
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

fn failed(exit: &exec::Exit) -> Option<(Code, Reason)> {
    match exit.end {
        End::TimedOut => Some((Code::TimedOut, Reason::Timeout)),
        End::Cancelled => Some((Code::Cancelled, Reason::Turn)),
        End::WaitedForInput => Some((Code::CommandFailed, Reason::Error)),
        End::Exited if exit.code == Some(0) => None,
        End::Exited => Some((Code::CommandFailed, Reason::Error)),
    }
}

pub(super) fn ending(exit: &exec::Exit, timeout: Option<Duration>) -> String {
    let left_over = match exit.left_over {
        0 => String::new(),
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
