//! Has the client run a command of `terminal`, in a terminal of its own, and tells the model of it.
//!
//! The client shows what the command writes, so nothing is asked for while it runs but its end. A
//! client may answer late, by an error or not at all: then the call ends all the same, and the
//! terminal is released when it has. It knows nothing of protocols.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use acp_types::{Exit, Output as Shown, TerminalId, TerminalPatch};
use callboard_text::visible;
use callboard_text::{head, tail};
use futures::future::{self, OptionFuture};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::report::{ending, report};
use crate::error::{Code, ToolError};
use crate::files::state::outputs::OutputKind;
use crate::limits::{
    CLIENT_CANCEL_GRACE, CLIENT_CANCEL_LINGER, CLIENT_ID_BYTES, CLIENT_KILL_DEADLINE, CLIENT_LOOK,
    CLIENT_LOOK_MAX, CLIENT_LOOK_SOON, CLIENT_OUTPUT_BYTES, CLIENT_SETTLE, CLIENT_SETTLE_TRIES,
    CLIENT_SIGNAL_BYTES, OUTPUT_FILE_BYTES,
};
use crate::tool::backend::{
    ClientCommand, ClientError, ClientOutput, ClientTerminal, TerminalBackend,
};
use crate::tool::{Invocation, Output, blocking};
use callboard_process::env;
use callboard_process::escapes::Filter;
use callboard_process::record::Recording;
use callboard_process::{self as process, Command, End, Streams};

/// Returns the client's terminals, if it is to run a command: not one that reads what is typed or
/// is to go on in the background, which no client can be asked for, and not where the client shows
/// the terminals that we run.
pub(super) fn backend<'a>(
    plan: &Plan,
    invocation: Invocation<'a>,
) -> Option<&'a dyn TerminalBackend> {
    // The line is for a Unix shell, and a request can only name a folder whose path is UTF-8.
    let is_for_client = cfg!(unix)
        && plan.command.streams == Streams::Pipe
        && !plan.asks_background
        && plan.command.cwd.to_str().is_some();
    let shows_ours = invocation.call.session().with(|session, _| session.shows_terminals());
    invocation.context.terminal.as_deref().filter(|_| is_for_client && !shows_ours)
}

/// Has a command run to its end, which comes when it would have gone on in the background.
pub(super) async fn run(
    plan: Plan,
    backend: &dyn TerminalBackend,
    invocation: Invocation<'_>,
) -> Result<Output, ToolError> {
    let Invocation { call, context } = invocation;
    let Plan { command, patience, .. } = plan;
    let begun = Instant::now();
    let limit = command.timeout.into_iter().chain(patience).min();
    let created = tokio::select! {
        biased;
        () = call.cancel().cancelled() => None,
        created = create(command, backend) => Some(created?),
    };
    let id = TerminalId::new(call.id().0.clone());
    let ran = match &created {
        None => Ran::new(End::Cancelled),
        Some(terminal) => {
            call.keep(Arc::clone(terminal));
            let theirs = TerminalPatch::at_client(TerminalId::new(terminal.id()));
            call.describe_terminal(&id, theirs);
            follow(&**terminal, limit, call.cancel()).await
        }
    };
    let exit = ran.exit(begun);
    let how = ran.told(&exit, limit, patience);
    let text = ran.output.map(|output| output.text).unwrap_or_default();
    let workspace = Arc::clone(&context.workspace);
    let record = move || {
        let shown = Shown::new(&Filter::default().push(text.as_bytes()));
        let recording = Recording::new(OUTPUT_FILE_BYTES, move || {
            workspace.outputs().create(OutputKind::Output)
        });
        recording.push(text.as_bytes());
        Ok((shown, recording.finish()))
    };
    let (shown, recorded) = blocking(record).await?;
    call.terminal_output(&id, shown.head());
    call.terminal_gap(&id, shown.left_out());
    call.terminal_output(&id, shown.tail());
    Ok(report(call, &exit, &recorded, &how))
}

async fn create(
    command: Command,
    backend: &dyn TerminalBackend,
) -> Result<Arc<dyn ClientTerminal>, ToolError> {
    let failed = |why: &str| {
        let message = format!("The client started no terminal for the command: {why}.");
        ToolError::report(Code::Io, message)
    };
    let created = backend.create(asked(command)).await;
    let terminal = created.map_err(|error| failed(&error.to_string()))?;
    match terminal.id().len() {
        0..=CLIENT_ID_BYTES => Ok(terminal),
        bytes => Err(failed(&format!("the id of its terminal is {bytes} bytes long"))),
    }
}

/// What the client is to run. It has an environment of its own, and what is in ours is none of its
/// business: it is told only what keeps programs from asking and paging, and git's configuration. Its
/// terminal is its own.
fn asked(command: Command) -> ClientCommand {
    let is_set = |name: &str| {
        name != "TERM" && env::SET.iter().any(|(set, _)| *set == name)
            || name.starts_with("GIT_CONFIG_")
    };
    ClientCommand {
        program: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), command.line],
        env: command.env.into_iter().filter(|(name, _)| is_set(name)).collect(),
        cwd: command.cwd,
        output_bytes: CLIENT_OUTPUT_BYTES,
    }
}

/// What came of a command at the client.
struct Ran {
    end: End,
    /// None if the client did not say how it ended.
    exit: Option<Exit>,
    output: Result<ClientOutput, ClientError>,
}

impl Ran {
    /// One of which nothing is known but who ended it.
    fn new(end: End) -> Self {
        Self { end, exit: None, output: Ok(ClientOutput::default()) }
    }

    fn exit(&self, begun: Instant) -> process::Exit {
        let Exit { code, signal } = self.exit.clone().unwrap_or_default();
        let signal = signal.filter(|signal| !signal.trim().is_empty());
        let signal = signal.map(|signal| visible(head(signal.trim(), CLIENT_SIGNAL_BYTES)));
        // Some clients say 0 where there is no code.
        let code = code.filter(|code| signal.is_none() || *code != 0);
        let (end, duration) = (self.end, begun.elapsed());
        process::Exit::new(code, signal, end, duration)
    }

    /// Tells how it ended, and what is missing of its output.
    fn told(
        &self,
        exit: &process::Exit,
        limit: Option<Duration>,
        patience: Option<Duration>,
    ) -> String {
        let how = match (exit.end, exit.code, &exit.signal) {
            (End::TimedOut, ..) if patience.is_some() => format!(
                "ended after {} ms, for want of a `timeout_ms`; it may have had effects. The \
                 client's terminal lets nothing go on in the background: ask for more time by \
                 `timeout_ms`, or for `background`, where it does not run at the client",
                limit.unwrap_or_default().as_millis()
            ),
            (End::Exited, None, None) => {
                "the client does not say how it ended; it may have had effects".to_owned()
            }
            _ => ending(exit, limit),
        };
        match &self.output {
            Err(error) => format!("{how}; the client does not tell its output: {error}"),
            Ok(ClientOutput { is_cut: true, .. }) => format!(
                "{how}; the client kept only a part of its output, and the rest, at the beginning \
                 or at the end, is not counted"
            ),
            Ok(_) => how,
        }
    }
}

/// Waits for the end of a command, or ends it, and asks for its output.
async fn follow(
    terminal: &dyn ClientTerminal,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> Ran {
    let mut exited = pin!(exited(terminal));
    let (end, patience) = tokio::select! {
        biased;
        exit = &mut exited => {
            return Ran { end: End::Exited, exit: exit.ok(), output: settled(terminal, CLIENT_SETTLE_TRIES).await };
        }
        () = cancel.cancelled() => (End::Cancelled, CLIENT_CANCEL_GRACE),
        Some(()) = OptionFuture::from(limit.map(sleep)) => (End::TimedOut, CLIENT_KILL_DEADLINE),
    };
    // A command that the user cancelled is not waited for: once it is told to end, its end is
    // there soon or does not matter, and so is its last output.
    let (linger, tries) = match end {
        End::Cancelled => (CLIENT_CANCEL_LINGER, 0),
        _ => (patience, CLIENT_SETTLE_TRIES),
    };
    let mut exit = None;
    let killed = async {
        let mut kill = terminal.kill();
        tokio::select! {
            ended = &mut exited => {
                exit = ended.ok();
                drop(kill.await);
            }
            _ = &mut kill => {
                let ended = timeout(linger, &mut exited).await;
                exit = ended.ok().and_then(Result::ok);
            }
        }
    };
    // What the client says of it or does not say, the terminal is released.
    drop(timeout(patience, killed).await);
    let output = timeout(patience, settled(terminal, tries)).await;
    let output = output.unwrap_or_else(|_| Err(ClientError::new("it did not answer in time")));
    let exit = exit.or_else(|| output.as_ref().ok()?.exit.clone());
    Ran { end, exit, output }
}

/// Waits until a command has ended. A client that fails to wait for it is asked for its output
/// instead, every now and then; and so, seldom, is one that does not answer.
///
/// # Errors
///
/// What the client said, if it knows nothing of the terminal any more.
async fn exited(terminal: &dyn ClientTerminal) -> Result<Exit, ClientError> {
    let told = async {
        match terminal.wait().await {
            Ok(exit) => Ok(exit),
            Err(_) => look(terminal, CLIENT_LOOK_SOON).await,
        }
    };
    let seen = async {
        match look(terminal, CLIENT_LOOK).await {
            Ok(exit) => Ok(exit),
            Err(_) => future::pending().await,
        }
    };
    tokio::select! {
        exit = told => exit,
        exit = seen => exit,
    }
}

async fn look(terminal: &dyn ClientTerminal, mut pause: Duration) -> Result<Exit, ClientError> {
    loop {
        sleep(pause).await;
        if let Some(exit) = terminal.output().await?.exit {
            return Ok(exit);
        }
        pause = (pause * 2).min(CLIENT_LOOK_MAX);
    }
}

/// Asks for the output of a command that has ended, some of which may still be on its way while
/// the client has not noted the end there: so many times more.
async fn settled(terminal: &dyn ClientTerminal, tries: u32) -> Result<ClientOutput, ClientError> {
    let mut output = terminal.output().await?;
    for _ in 0..tries {
        if output.exit.is_some() {
            break;
        }
        sleep(CLIENT_SETTLE).await;
        output = terminal.output().await?;
    }
    Ok(bounded(output))
}

/// Leaves out the beginning of what is more than was asked for.
fn bounded(mut output: ClientOutput) -> ClientOutput {
    let kept = tail(&output.text, CLIENT_OUTPUT_BYTES as usize).len();
    let over = output.text.len() - kept;
    if over > 0 {
        output.text.drain(..over);
        output.is_cut = true;
    }
    output
}
