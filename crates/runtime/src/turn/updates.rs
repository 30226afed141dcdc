//! Updates and notes of a turn that do not belong to a message or a call of the model. Updates and
//! notes report, for example, background commands that have ended, and late writes of other
//! programs.

use std::time::Duration;

use acp_lifecycle::SessionHandle;
use acp_tools::ToolRole;
use acp_types::{ContextUsage, Cost, MessageChunk, Role, SessionInfo, SessionStatePart, Status};
use callboard_models::{ModelError, TokenUsage};
use callboard_process::text::truncate_middle;
use callboard_text::{escape_invisible, head, rfc3339_utc};
use serde_json::json;
use ulid::Ulid;

use super::Turn;
use super::history::History;
use crate::limits;
use crate::options::ActiveOptions;

/// Records the token usage of a reply. If the size of the model's context window is known, also
/// sends the client how much of the window is used.
/// (<https://agentclientprotocol.com/protocol/v1/schema#usageupdate>)
pub(super) fn record_and_send_usage(
    handle: &SessionHandle,
    usage: Option<&TokenUsage>,
    chosen: &ActiveOptions,
    history: &mut History,
) {
    let Some(usage) = usage else { return };
    history.add_usage(usage);
    let (Some(input), Some(size)) =
        (usage.input_tokens, chosen.model.capabilities().context_tokens)
    else {
        return;
    };
    let used = input.saturating_add(usage.output_tokens.unwrap_or(0));
    let mut usage = ContextUsage::new(used, size);
    if let Some(micros) = history.usage_totals().cost_micros {
        usage = usage.with_cost(Cost::new(micros_to_dollars(micros), "USD"));
    }
    handle.send_state(SessionStatePart::Usage(usage));
}

/// Sends the time of the session's last activity. If the session has no title yet, also sends a
/// title: the first line of the prompt that is not empty.
/// (<https://agentclientprotocol.com/protocol/v1/schema#sessioninfoupdate>)
pub(super) fn send_session_info(handle: &SessionHandle, prompt: &str, history: &mut History) {
    let now = handle.update(|_, now| now.wall);
    let mut info = SessionInfo::new().with_updated_at(rfc3339_utc(now));
    if !history.is_titled
        && let Some(title) = session_title(prompt)
    {
        history.is_titled = true;
        info = info.with_title(title);
    }
    handle.send_state(SessionStatePart::Info(info));
}

/// Informs the client that a request will be retried, and after which delay. The notice is sent as
/// a thought, because it is not part of the answer. Clients show thoughts, and may collapse them.
pub(super) fn send_retry_notice(handle: &SessionHandle, error: &ModelError, pause: Duration) {
    let seconds = pause.as_secs_f64();
    let what = escape_invisible(&error.to_string());
    let what = head(&what, limits::MAX_MODEL_ERROR_BYTES);
    send_notice_as_thought(
        handle,
        format!("The model failed: {what}. It is asked again in {seconds:.1} s."),
    );
}

/// Sends a notice as a separate thought.
pub(crate) fn send_notice_as_thought(handle: &SessionHandle, text: String) {
    send_message_and_blank_line(handle, Role::Thought, text);
}

/// Sends a message that other messages follow. It ends with an empty line, because some clients
/// append the next message directly to it.
pub(crate) fn send_message_and_blank_line(handle: &SessionHandle, role: Role, text: String) {
    send_message(handle, role, text + "\n\n");
}

/// Sends a message that does not belong to the model's messages.
pub(crate) fn send_message(handle: &SessionHandle, role: Role, text: String) {
    let message = Ulid::generate().to_string();
    handle.send_message_chunk(MessageChunk::new(role, message, text));
}

/// Reports the background commands that have ended since the last report. For each of them, runs a
/// call and adds a note for the model. If the turn is cancelled, the next turn reports the
/// remaining commands.
pub(super) async fn report_ended_commands(turn: &Turn<'_>, history: &mut History) {
    let batch = Ulid::generate().to_string();
    let background = turn.context.workspace.background_commands();
    let tool = turn.tools.registry().spec_for_role(ToolRole::CommandEnd).map(|spec| spec.name);
    while !turn.cancel.is_cancelled()
        && let Some(command) = background.take_unreported_ended_id()
    {
        let Some(tool) = &tool else {
            history.push_note(&format!("{command} in the background has ended."));
            continue;
        };
        let Some(open) = turn.announce_in_batch(&command, tool, &batch) else { continue };
        let ended = turn.run_announced_call(open, tool, json!({ "id": command })).await;
        history.push_note(&match ended.status {
            Status::Completed => {
                let ended = truncate_middle(&ended.text, limits::MAX_COMMAND_END_BYTES);
                format!("A command in the background has ended.\n{ended}")
            }
            _ => format!("{command} in the background has ended. {tool} reports how."),
        });
    }
}

/// Reports late writes of other programs to the user and to the model. If the turn is cancelled,
/// the next turn reports these writes.
pub(super) async fn take_and_report_foreign_writes(turn: &Turn<'_>, history: &mut History) {
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => {}
        late = turn.context.take_concurrent_write_reports() => note_and_send_foreign_writes(turn, history, late),
    }
}

pub(super) fn note_and_send_foreign_writes(
    turn: &Turn<'_>,
    history: &mut History,
    late: Vec<String>,
) {
    for report in late {
        history.push_note(&report);
        send_notice_as_thought(turn.handle, report);
    }
}

#[expect(clippy::cast_precision_loss, reason = "no session costs 2^53 millionths of a dollar")]
fn micros_to_dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Returns the title for a session: the first line of the prompt that is not empty, with invisible
/// characters escaped.
fn session_title(prompt: &str) -> Option<String> {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty())?;
    // Escaping never makes a line shorter, so the line can be truncated before it is escaped.
    let start = line.char_indices().nth(limits::MAX_TITLE_CHARS + 1).map_or(line.len(), |at| at.0);
    let shown = escape_invisible(&line[..start]);
    if shown.chars().count() <= limits::MAX_TITLE_CHARS {
        return Some(shown);
    }
    let start: String = shown.chars().take(limits::MAX_TITLE_CHARS - 1).collect();
    Some(format!("{}…", start.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::session_title;
    use crate::limits;

    #[test]
    fn a_title_is_one_line_of_visible_characters() {
        let long = "é".repeat(limits::MAX_TITLE_CHARS);
        for (prompt, title) in [
            ("mend the parser", Some("mend the parser")),
            ("\n  \n  mend it\nnow\n", Some("mend it")),
            ("a\u{202e}b\tc", Some("a\\u{202e}b\\tc")),
            (" \n", None),
            ("", None),
            (&long, Some(&*long)),
            (&format!("{long}!"), Some(&*format!("{}…", long.strip_suffix('é').unwrap()))),
        ] {
            assert_eq!(session_title(prompt).as_deref(), title, "{prompt:?}");
        }
        for prompt in ["\u{202e}".repeat(100), "x \u{1}".repeat(100)] {
            let title = session_title(&prompt).unwrap();
            assert!(title.chars().count() <= limits::MAX_TITLE_CHARS && title.ends_with('…'));
        }
    }
}
