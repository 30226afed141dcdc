//! Reports on background commands: text for the model, and data for the client.

use callboard_text::{grouped_count_with_noun, path_text};
use std::fmt::Write as _;
use std::time::Duration;

use acp_types::Content;
use serde_json::{Value, json};

use super::command_report::exit_text;
use crate::background::{BackgroundCommand, CommandPhase, CommandResult};
use crate::error::{ErrorCode, ToolError};
use crate::limits::MAX_BACKGROUND_RUNNING;
use crate::tool::{
    CallDescription, Context, Invocation, ToolOutput, redact_secrets, run_on_blocking_thread,
};
use callboard_process::ExitCause;
use callboard_process::record::{NewOutput, hidden_chars_note};

/// The reason why a command continues in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackgroundReason {
    /// The maximum wait of the call has passed.
    WaitExpired,
    /// The command waits for input.
    AwaitsInput,
}

/// Creates the error for a call that exceeds the maximum number of background commands.
pub(super) fn too_many_commands_error() -> ToolError {
    let message = format!(
        "{MAX_BACKGROUND_RUNNING} commands run in the background, which is the limit. Stop one \
         with terminal_stop. terminal_output lists them, or waits for the end of one."
    );
    ToolError::recoverable(ErrorCode::TooMany, message)
}

/// Ends the call that started a command. The command continues in the background.
pub(super) async fn finish_detached_call(
    id: &str,
    why: BackgroundReason,
    invocation: Invocation<'_>,
) -> Result<ToolOutput, ToolError> {
    let call = invocation.call;
    let (command, fresh) = read_new_output(id, invocation.context).await?;
    if !command.is_running() {
        // The command ended just now. Its end must be reported here, because each end is reported
        // only once.
        let head = status_text(&command).await?;
        return Ok(new_output_result(&command, &head, fresh.as_ref(), invocation));
    }
    let typing =
        command.info.input.as_ref().map_or("", |_| "terminal_input types at its terminal, ");
    let so = match why {
        BackgroundReason::WaitExpired => "It still runs, and continues",
        BackgroundReason::AwaitsInput => "It may be waiting for input, and continues",
    };
    let note = format!("{so} in the background as {id}.");
    let head = format!(
        "{note} terminal_output shows its new output or waits for its end, {typing}terminal_stop \
         ends it."
    );
    call.append_content(Content::from_text(note));
    call.update_meta(|meta| drop(meta.custom.insert("background".into(), json!(id))));
    Ok(ToolOutput {
        content: None,
        ..new_output_result(&command, &head, fresh.as_ref(), invocation)
    })
}

/// The answer if there is no command. A stored session may show commands of an earlier process,
/// which have ended.
pub(in crate::builtin) const NONE_IN_BACKGROUND: &str =
    "No command of this session is in the background. Such commands end with the agent's process.";

/// Finds the background command with the id that the model gave.
pub(in crate::builtin) fn find_command(
    id: &str,
    context: &Context,
) -> Result<BackgroundCommand, ToolError> {
    let background = context.workspace.background_commands();
    background.find_by_id(id.trim()).ok_or_else(|| {
        let ids: Vec<_> = background.list().into_iter().map(|command| command.id).collect();
        let known = match &ids[..] {
            [] => NONE_IN_BACKGROUND.to_owned(),
            ids => format!("The ids are: {}.", ids.join(", ")),
        };
        let message = format!("There is no command {:?} in the background. {known}", id.trim());
        ToolError::recoverable(ErrorCode::NotFound, message)
    })
}

/// Returns the title of a call on a background command. The title shows the command line if the id
/// is known.
pub(in crate::builtin) fn describe_command_call(
    key: &'static str,
    id: &str,
    context: &Context,
) -> CallDescription {
    let command = context.workspace.background_commands().find_by_id(id.trim());
    let line = command.map_or_else(|| id.to_owned(), |command| command.info.command_line);
    CallDescription::new(key).with_argument("command", line)
}

/// Returns the output that a command wrote since the last report.
pub(in crate::builtin) async fn read_new_output(
    id: &str,
    context: &Context,
) -> Result<(BackgroundCommand, Option<NewOutput>), ToolError> {
    let (workspace, wanted) = (context.workspace.clone(), id.trim().to_owned());
    let seen = run_on_blocking_thread(move || {
        Ok(workspace.background_commands().read_new_output(&wanted))
    })
    .await?;
    match seen {
        Some(seen) => Ok(seen),
        // The command was removed from the list a moment ago.
        None => find_command(id, context).map(|command| (command, None)),
    }
}

/// Returns the result of a call: the status of a command and its new output.
pub(in crate::builtin) async fn status_with_new_output(
    id: &str,
    invocation: Invocation<'_>,
) -> Result<ToolOutput, ToolError> {
    let (command, fresh) = read_new_output(id, invocation.context).await?;
    let head = status_text(&command).await?;
    Ok(new_output_result(&command, &head, fresh.as_ref(), invocation))
}

fn new_output_result(
    command: &BackgroundCommand,
    head: &str,
    fresh: Option<&NewOutput>,
    invocation: Invocation<'_>,
) -> ToolOutput {
    let new = match fresh {
        Some(fresh) if fresh.bytes > 0 => format_new_output(fresh),
        _ => "[nothing new]\n".to_owned(),
    };
    command_call_result(command, &format!("[{head}]\n{new}"), invocation)
}

/// Creates the result of a call on one background command.
pub(in crate::builtin) fn command_call_result(
    command: &BackgroundCommand,
    text: &str,
    invocation: Invocation<'_>,
) -> ToolOutput {
    let call = invocation.call;
    let mut result =
        ToolOutput::for_model_and_client_alike(redact_secrets(call, text), raw_output(command));
    let CommandPhase::Ended(done) = &command.phase else { return result };
    if let Ok(exit) = &done.exit {
        call.update_meta(|meta| {
            meta.exit_code = exit.code;
            meta.signal.clone_from(&exit.signal);
        });
    }
    done.notes.iter().for_each(|note| result.add_note(note, invocation));
    result
}

/// Returns a text that states how long the command has run, or how it ended.
pub(in crate::builtin) async fn status_text(
    command: &BackgroundCommand,
) -> Result<String, ToolError> {
    let id = &command.id;
    let input = command.info.input.clone();
    Ok(match &command.phase {
        CommandPhase::Running(_) => {
            let awaits =
                run_on_blocking_thread(move || Ok(input.is_some_and(|it| it.is_input_awaited())))
                    .await?;
            let awaits = if awaits { " and waits for input" } else { "" };
            format!("{id} has run for {}{awaits}", format_seconds(command.info.begun.elapsed()))
        }
        CommandPhase::Ended(done) => {
            format!(
                "{id} ended after {}: {}",
                format_seconds(done.lasted),
                end_text(done, command.info.timeout)
            )
        }
    })
}

fn end_text(done: &CommandResult, timeout: Option<Duration>) -> String {
    match &done.exit {
        Ok(exit) if exit.cause == ExitCause::Cancelled => "it was stopped".to_owned(),
        Ok(exit) => exit_text(exit, timeout),
        Err(error) => error.to_string(),
    }
}

fn format_seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn format_new_output(fresh: &NewOutput) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(file) = fresh.file.as_ref().filter(|_| fresh.excerpt.left_out_bytes > 0) {
        let path = path_text(&file.path);
        let _ = writeln!(text, "[read_file can read the whole output by lines: {path}]");
    }
    if fresh.excerpt.hidden_chars > 0 {
        let _ = writeln!(text, "[{}]", hidden_chars_note(fresh.excerpt.hidden_chars));
    }
    match &fresh.binary {
        Some(kind) => {
            let _ = writeln!(
                text,
                "[binary output: {}, {kind}]",
                grouped_count_with_noun(fresh.bytes, "byte", "bytes")
            );
        }
        None => text.push_str(&fresh.excerpt.text),
    }
    text
}

pub(in crate::builtin) fn raw_output(command: &BackgroundCommand) -> Value {
    let (exit, recorded) = match &command.phase {
        CommandPhase::Running(_) => (None, None),
        CommandPhase::Ended(done) => (done.exit.as_ref().ok(), Some(&done.recorded)),
    };
    json!({
        "background": command.id,
        "command": command.info.command_line,
        "running": command.is_running(),
        "exitCode": exit.and_then(|exit| exit.code),
        "signal": exit.and_then(|exit| exit.signal.clone()),
        "outputBytes": recorded.map(|recorded| recorded.bytes),
        "outputFile": recorded.and_then(|it| Some(path_text(&it.file.as_ref()?.path))),
    })
}
