//! Reports on finished commands: text for the model, and data for the client.

use std::time::Duration;

use acp_lifecycle::CallHandle;
use acp_types::schema::v1::ResourceLink;
use acp_types::{CallEndReason, Content, ContentBlock, TerminalExit, TerminalId};
use callboard_process::record::{RecordedFile, RecordedOutput};
use callboard_process::{self as process, ExitCause, ResourceUsage};
use callboard_text::path_text;
use serde_json::{Value, json};

use crate::error::ErrorCode;
use crate::note::Note;
use crate::tool::{ToolOutput, redact_secrets};
use acp_types::path::file_uri;

/// Reports to the client and the model how a command ended, and its output. The text `how`
/// describes the end of the command.
pub(super) fn report_command(
    call: &CallHandle,
    exit: &process::CommandExit,
    recorded: &RecordedOutput,
    how: &str,
) -> ToolOutput {
    let id = TerminalId::new(call.id().0.clone());
    call.exit_terminal(&id, TerminalExit { code: exit.code, signal: exit.signal.clone() });
    call.update_meta(|meta| {
        meta.exit_code = exit.code;
        meta.signal.clone_from(&exit.signal);
        meta.output_bytes = Some(recorded.bytes);
        if let Some(usage) = exit.usage {
            meta.custom.insert("usage".into(), usage_json(usage));
        }
    });
    if let Some(file) = &recorded.file {
        call.append_content(Content::Block(output_file_link(file)));
    }
    let text = format!("[{how}]\n{}", recorded.for_model());
    ToolOutput {
        text: redact_secrets(call, &text),
        raw_output: Some(raw_output(exit, recorded)),
        failure: failure_code_and_reason(exit),
        ..ToolOutput::default()
    }
}

fn raw_output(exit: &process::CommandExit, recorded: &RecordedOutput) -> Value {
    json!({
        "exitCode": exit.code,
        "signal": exit.signal,
        "timedOut": exit.cause == ExitCause::TimedOut,
        "outputBytes": recorded.bytes,
        "outputLines": recorded.lines,
        "outputFile": recorded.file.as_ref().map(|file| path_text(&file.path)),
    })
}

/// Returns a link to the file that contains the whole output.
fn output_file_link(file: &RecordedFile) -> ContentBlock {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let link = ResourceLink::new(name, file_uri(&file.path))
        .title("The whole output".to_owned())
        .mime_type("text/plain".to_owned())
        .size(i64::try_from(file.bytes).ok());
    ContentBlock::ResourceLink(link)
}

/// Returns the CPU time of all processes of the command, and the peak memory of the process that
/// used the most memory.
fn usage_json(usage: ResourceUsage) -> Value {
    json!({ "cpuMs": (usage.cpu.as_secs_f64() * 1000.0).round(), "peakBytes": usage.peak_bytes })
}

fn failure_code_and_reason(exit: &process::CommandExit) -> Option<(ErrorCode, CallEndReason)> {
    match exit.cause {
        ExitCause::TimedOut => Some((ErrorCode::TimedOut, CallEndReason::Timeout)),
        ExitCause::Cancelled => Some((ErrorCode::Cancelled, CallEndReason::Turn)),
        ExitCause::Exited if exit.code == Some(0) => None,
        _ => Some((ErrorCode::CommandFailed, CallEndReason::Error)),
    }
}

/// Describes how a command ended.
pub(super) fn exit_text(exit: &process::CommandExit, timeout: Option<Duration>) -> String {
    let may_have_effects = match exit.cause {
        ExitCause::TimedOut | ExitCause::WaitedForInput | ExitCause::Cancelled => {
            "; it may have had effects"
        }
        _ => "",
    };
    exit_cause_text(exit, timeout) + may_have_effects + &left_over_text(exit)
}

/// Returns notes for the client about the end of a command, unless the command ended by itself and
/// left no process.
pub(super) fn abnormal_exit_notes(
    exit: &process::CommandExit,
    timeout: Option<Duration>,
) -> impl Iterator<Item = Note> + use<> {
    let ms = timeout.unwrap_or_default().as_millis();
    let end = match exit.cause {
        ExitCause::TimedOut => {
            Some(Note::new("timed-out").with_count("ms", u64::try_from(ms).unwrap_or(u64::MAX)))
        }
        ExitCause::WaitedForInput => Some(Note::new("waited-for-input")),
        _ => None,
    };
    let left_over = (exit.left_over > 0)
        .then(|| Note::new("left-over").with_count("processes", exit.left_over as u64));
    end.into_iter().chain(left_over)
}

/// Describes how a command ended that ran on copies of the project folders.
pub(super) fn preview_exit_text(exit: &process::CommandExit) -> String {
    exit_cause_text(exit, None) + &left_over_text(exit)
}

fn left_over_text(exit: &process::CommandExit) -> String {
    match exit.left_over {
        0 => String::new(),
        1 => "; 1 process that it left running was ended".to_owned(),
        count => format!("; {count} processes that it left running were ended"),
    }
}

fn exit_cause_text(exit: &process::CommandExit, timeout: Option<Duration>) -> String {
    match (exit.cause, exit.code, &exit.signal) {
        (ExitCause::TimedOut, ..) => {
            format!("ended after its timeout of {} ms", timeout.unwrap_or_default().as_millis())
        }
        (ExitCause::WaitedForInput, ..) => {
            "ended because it may have been waiting for input, which is not available".to_owned()
        }
        (ExitCause::Cancelled, ..) => "cancelled while it ran".to_owned(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, None, Some(signal)) => format!("ended by {signal}"),
        (_, None, None) => "it could not be ended".to_owned(),
    }
}
