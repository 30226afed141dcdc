//! What is told of a command that has ended: to the model as text, to the client as data.

use std::time::Duration;

use acp_lifecycle::CallHandle;
use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock, Exit, Reason, TerminalId};
use callboard_process::record::{Recorded, RecordedFile};
use callboard_process::{self as process, End, Usage};
use callboard_text::path_text;
use serde_json::{Value, json};

use crate::error::Code;
use crate::files::state::outputs::uri;
use crate::tool::{Output, redacted};

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
