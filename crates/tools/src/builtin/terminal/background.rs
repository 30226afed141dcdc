//! What is told of commands in the background: to the model as text, to the client as data.

use callboard_text::{grouped_count, path_text};
use std::fmt::Write as _;
use std::time::Duration;

use acp_lifecycle::CallHandle;
use acp_types::Content;
use serde_json::{Value, json};

use super::report::ending;
use crate::error::{Code, ToolError};
use crate::limits::BACKGROUND_RUNNING;
use crate::terminal::{Command, Done, Phase};
use crate::tool::{Context, Description, Invocation, Output, blocking, redacted};
use callboard_process::End;
use callboard_process::record::{Fresh, hidden_left_out};

/// Why a command goes on in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It takes longer than it is waited for.
    Lasts,
    /// It waits for somebody to type something.
    AwaitsInput,
}

/// Says that no further command can go there.
pub(super) fn too_many() -> ToolError {
    let message = format!(
        "{BACKGROUND_RUNNING} commands run in the background, which is all there may be. Stop one \
         with terminal_stop, or wait for its end with terminal_wait; terminal_list shows them."
    );
    ToolError::report(Code::TooMany, message)
}

/// Ends the call of a command that goes on.
pub(super) async fn goes_on(
    id: &str,
    why: Why,
    invocation: Invocation<'_>,
) -> Result<Output, ToolError> {
    let call = invocation.call;
    let (command, fresh) = look(id, invocation.context).await?;
    if !command.is_running() {
        // It ended in this moment, and is told as what it is: nobody would tell it again.
        let head = state(&command).await?;
        return Ok(output(&command, &head, fresh.as_ref(), call));
    }
    let typing =
        command.job.input.as_ref().map_or("", |_| "terminal_input types at its terminal, ");
    let so = match why {
        Why::Lasts => "It still runs, and goes on",
        Why::AwaitsInput => "It may be waiting for input, and goes on",
    };
    let note = format!("{so} in the background as {id}.");
    let head = format!(
        "{note} terminal_output shows what is new of it, {typing}terminal_wait waits for its end, \
         terminal_stop ends it."
    );
    call.append(Content::text(note));
    call.change_meta(|meta| drop(meta.custom.insert("background".into(), json!(id))));
    Ok(Output { content: None, ..output(&command, &head, fresh.as_ref(), call) })
}

/// Finds a command by the id that a model wrote.
pub(in crate::builtin) fn find(id: &str, context: &Context) -> Result<Command, ToolError> {
    let background = context.workspace.background();
    background.find(id.trim()).ok_or_else(|| {
        let ids: Vec<_> = background.list().into_iter().map(|command| command.id).collect();
        let known = match &ids[..] {
            [] => "There was none in this session.".to_owned(),
            ids => format!("Those there are: {}.", ids.join(", ")),
        };
        let message = format!("There is no command {:?} in the background. {known}", id.trim());
        ToolError::report(Code::NotFound, message)
    })
}

/// Describes a call that is about a command, by its command line if there is one of that id.
pub(in crate::builtin) fn describe(key: &'static str, id: &str, context: &Context) -> Description {
    let command = context.workspace.background().find(id.trim());
    let line = command.map_or_else(|| id.to_owned(), |command| command.job.line);
    Description::new(key).with("command", line)
}

/// Takes what is new of a command's output.
pub(in crate::builtin) async fn look(
    id: &str,
    context: &Context,
) -> Result<(Command, Option<Fresh>), ToolError> {
    let (workspace, wanted) = (context.workspace.clone(), id.trim().to_owned());
    let seen = blocking(move || Ok(workspace.background().look(&wanted))).await?;
    match seen {
        Some(seen) => Ok(seen),
        // Forgotten a moment ago.
        None => find(id, context).map(|command| (command, None)),
    }
}

/// Tells how a command is and what is new of its output.
pub(in crate::builtin) async fn news(
    id: &str,
    invocation: Invocation<'_>,
) -> Result<Output, ToolError> {
    let (command, fresh) = look(id, invocation.context).await?;
    let head = state(&command).await?;
    Ok(output(&command, &head, fresh.as_ref(), invocation.call))
}

fn output(command: &Command, head: &str, fresh: Option<&Fresh>, call: &CallHandle) -> Output {
    let new = match fresh {
        Some(fresh) if fresh.bytes > 0 => told(fresh),
        _ => "[nothing new]\n".to_owned(),
    };
    shown(command, &format!("[{head}]\n{new}"), call)
}

/// Makes the result of a call that is about one command.
pub(in crate::builtin) fn shown(command: &Command, text: &str, call: &CallHandle) -> Output {
    if let Phase::Ended(done) = &command.phase
        && let Ok(exit) = &done.exit
    {
        call.change_meta(|meta| {
            meta.exit_code = exit.code;
            meta.signal.clone_from(&exit.signal);
        });
    }
    Output::of_text(redacted(call, text), raw(command))
}

/// Tells whether a command runs, or how it ended.
pub(in crate::builtin) async fn state(command: &Command) -> Result<String, ToolError> {
    let id = &command.id;
    let input = command.job.input.clone();
    Ok(match &command.phase {
        Phase::Running(_) => {
            let awaits = blocking(move || Ok(input.is_some_and(|it| it.is_awaited()))).await?;
            let awaits = if awaits { " and waits for input" } else { "" };
            format!("{id} has run for {}{awaits}", seconds(command.job.begun.elapsed()))
        }
        Phase::Ended(done) => {
            format!("{id} ended after {}: {}", seconds(done.lasted), how(done, command.job.timeout))
        }
    })
}

fn how(done: &Done, timeout: Option<Duration>) -> String {
    match &done.exit {
        Ok(exit) if exit.end == End::Cancelled => "it was stopped".to_owned(),
        Ok(exit) => ending(exit, timeout),
        Err(error) => error.to_string(),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn told(fresh: &Fresh) -> String {
    let mut told = String::new();
    // Writing to a String cannot fail.
    if let Some(file) = fresh.file.as_ref().filter(|_| fresh.excerpt.left_out_bytes > 0) {
        let path = path_text(&file.path);
        let _ = writeln!(told, "[all of it can be read with read_file, by lines: {path}]");
    }
    if fresh.excerpt.hidden > 0 {
        let _ = writeln!(told, "[{}]", hidden_left_out(fresh.excerpt.hidden));
    }
    match &fresh.binary {
        Some(kind) => {
            let _ = writeln!(
                told,
                "[binary output: {}, {kind}]",
                grouped_count(fresh.bytes, "byte", "bytes")
            );
        }
        None => told.push_str(&fresh.excerpt.text),
    }
    told
}

pub(in crate::builtin) fn raw(command: &Command) -> Value {
    let (exit, recorded) = match &command.phase {
        Phase::Running(_) => (None, None),
        Phase::Ended(done) => (done.exit.as_ref().ok(), Some(&done.recorded)),
    };
    json!({
        "background": command.id,
        "command": command.job.line,
        "running": command.is_running(),
        "exitCode": exit.and_then(|exit| exit.code),
        "signal": exit.and_then(|exit| exit.signal.clone()),
        "outputBytes": recorded.map(|recorded| recorded.bytes),
        "outputFile": recorded.and_then(|it| Some(path_text(&it.file.as_ref()?.path))),
    })
}
