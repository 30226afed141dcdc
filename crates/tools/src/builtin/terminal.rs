//! `terminal`: runs a shell command and shows its output as it comes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::{Grant, Pinned};
use acp_types::schema::v1::ResourceLink;
use acp_types::{
    Content, ContentBlock, Exit, Reason, TerminalId, TerminalPatch, TerminalSize, ToolKind,
};
use futures::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command;
use crate::error::{Code, ToolError};
use crate::exec::escapes::Filter;
use crate::exec::record::{Recorded, RecordedFile, Recording};
use crate::exec::{self, Command, End, Size, SpawnError, Streams, Usage};
use crate::limits::{COMMAND_TIMEOUT, COMMAND_TIMEOUT_MAX, OUTPUT_FILE_BYTES};
use crate::outputs::uri;
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, blocking,
};

/// Runs a shell command.
#[derive(Debug, Clone, Copy)]
pub struct Terminal;

/// Which command, and where.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The command line, for a shell.
    pub command: String,
    /// The directory to run it in; the working directory if not given.
    pub cwd: Option<String>,
    /// Milliseconds after which it is ended; 120000 if not given, at most 3600000.
    pub timeout_ms: Option<u64>,
    /// Whether it needs a terminal. Without one, which is faster, programs write plain text.
    pub tty: Option<bool>,
}

impl Tool for Terminal {
    type Args = Args;
    type Plan = Command;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal",
            aliases: &["run", "bash", "shell"],
            description: "Runs a shell command and returns its output and exit code. Each \
                          command gets a fresh shell without standard input; `cd` and variables \
                          do not last. Everything it started is ended with it. Long output is \
                          shown by its beginning and end, and can be read whole with read_file.",
            kind: ToolKind::Execute,
            reach: Reach::Anything,
            title: "terminal",
            surface: Surface::Terminal,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        let at = context.workspace.resolve(args.cwd.as_deref().unwrap_or("."));
        let cwd = at.map_or_else(|_| context.workspace.cwd().to_owned(), |at| at.path().to_owned());
        let Size { cols, rows } = Size::default();
        let opening = TerminalPatch::open(args.command.clone(), cwd);
        let terminal = TerminalPatch { size: Some(TerminalSize { cols, rows }), ..opening };
        let description = Description::new("terminal").with("command", &args.command);
        Description { terminal: Some(terminal), ..description }
    }

    async fn preview(&self, args: Args, context: &Context) -> Result<Draft<Command>, ToolError> {
        if args.command.trim().is_empty() {
            return Err(ToolError::invalid("The command is empty."));
        }
        if args.command.contains('\0') {
            return Err(ToolError::invalid("The command contains a NUL character."));
        }
        let at = context.workspace.resolve(args.cwd.as_deref().unwrap_or("."))?;
        if !context.workspace.metadata(&at)?.is_dir() {
            let message = format!("{} is not a directory.", at.given());
            return Err(ToolError::report(Code::NotADirectory, message));
        }
        let timeout = args.timeout_ms.map_or(COMMAND_TIMEOUT, Duration::from_millis);
        let command = Command {
            line: args.command.clone(),
            cwd: at.path().to_owned(),
            env: (*context.env).clone(),
            streams: match args.tty {
                Some(true) => Streams::Interactive(Size::default()),
                _ => Streams::Pipe,
            },
            timeout: Some(timeout.min(COMMAND_TIMEOUT_MAX)),
        };
        let (workspace, cwd) = (context.workspace.clone(), at.path().to_owned());
        let judged = blocking(move || {
            let home = command.env.get("HOME").map(PathBuf::from);
            let judged = command::judge(&args.command, &command.cwd, home.as_deref(), &workspace);
            Ok((judged, command))
        });
        let (command::Judged { effects, note }, plan) = judged.await?;
        let notes = note.into_iter().collect();
        Ok(Draft { effects, notes, cwd: Some(cwd), ..Draft::new(plan) })
    }

    async fn run(
        &self,
        pinned: Pinned<Command>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let mut command = pinned.release(grant)?;
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
        let recorded = recording.finish();
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
        let secrets = session.with(|session, _| session.secrets().clone());
        let text = format!("[{}]\n{}", ending(&exit, timeout), recorded.for_model());
        Ok(Output {
            text: secrets.redact(&text).into_owned(),
            raw: Some(raw(&exit, &recorded)),
            failed: failed(&exit),
            ..Output::default()
        })
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

fn ending(exit: &exec::Exit, timeout: Option<Duration>) -> String {
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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
