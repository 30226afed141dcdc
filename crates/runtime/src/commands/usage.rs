//! The command `/usage`. For each tool, the command shows how the session's calls ended and how
//! long they took. It also shows the tokens of the model and the number of updates.

use std::fmt::Write as _;
use std::future::ready;

use acp_lifecycle::SessionCallUsage;
use callboard_text::{count_with_noun, escape_invisible, format_duration};

use super::SlashCommand;
use crate::usage_totals::UsageTotals;

pub(super) fn command() -> SlashCommand {
    let description = "sum up the calls of this session, its tokens and what they cost";
    SlashCommand::new("usage", description, |asked| {
        let mut calls = asked.session.total_call_usage();
        calls.add_earlier_process_totals(asked.earlier_calls);
        Box::pin(ready(usage_report(&calls, &asked.usage_totals)))
    })
}

fn usage_report(usage: &SessionCallUsage, spent: &UsageTotals) -> String {
    let mut text = String::new();
    if usage.tools.is_empty() {
        text.push_str("No call has ended yet.\n");
    } else {
        text.push_str(TABLE_HEAD);
    }
    // Writing to a string cannot fail.
    for (name, tool) in &usage.tools {
        let (calls, done, failed) = (tool.ended_calls(), tool.completed, tool.failed);
        let (ran, longest) =
            (format_duration(tool.total_run_ms), format_duration(tool.longest_run_ms));
        let reasons = tool.reasons.iter().map(|(reason, count)| {
            let reason = serde_json::to_value(reason).unwrap_or_default();
            format!("{count} {}", reason.as_str().unwrap_or_default())
        });
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "| {} | {calls} | {done} | {failed} | {} | {ran} | {longest} | {reasons} |",
            escape_table_cell(name),
            tool.cancelled,
        );
    }
    text.push('\n');
    text.push_str(&token_report(spent));
    let updates = usage.updates;
    let _ = write!(
        text,
        "Updates: {} offered, {} joined to another, {} sent, {} dropped.",
        updates.offered, updates.joined, updates.sent, updates.dropped
    );
    text
}

/// Returns a text about the tokens and the cost that the models reported; the text is empty if no
/// model reported tokens or a cost.
fn token_report(spent: &UsageTotals) -> String {
    let UsageTotals {
        requests, input_tokens, output_tokens, cached_tokens, thought_tokens, ..
    } = spent;
    if input_tokens + output_tokens == 0 {
        return String::new();
    }
    let mut text = format!(
        "Tokens: {input_tokens} in ({cached_tokens} of them from a cache), {output_tokens} out \
         ({thought_tokens} of them thoughts), in {}.\n",
        count_with_noun(*requests, "request", "requests")
    );
    if let Some(cost) = spent.cost_micros {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Cost: ${}.{:06}.", cost / 1_000_000, cost % 1_000_000);
    }
    text.push('\n');
    text
}

/// Escapes a name for a table cell, because the model may have invented the name.
fn escape_table_cell(name: &str) -> String {
    match name {
        "" => "others".to_owned(),
        name => escape_invisible(name).replace('|', "\\|"),
    }
}

const TABLE_HEAD: &str = "\
| tool | calls | completed | failed | cancelled | ran | longest | why not |
|---|--:|--:|--:|--:|--:|--:|---|
";

#[cfg(test)]
mod tests {
    use super::{UsageTotals, usage_report};
    use acp_lifecycle::{SessionCallUsage, ToolUsage};
    use acp_types::CallEndReason;
    use pretty_assertions::assert_eq;

    #[test]
    fn calls_are_summed_in_a_table_with_times_for_people() {
        let mut grep = ToolUsage::default();
        grep.completed = 2;
        grep.total_run_ms = 40;
        grep.longest_run_ms = 39;
        let mut terminal = ToolUsage::default();
        terminal.completed = 1;
        terminal.failed = 2;
        terminal.cancelled = 1;
        terminal.reasons = [(CallEndReason::User, 2), (CallEndReason::Timeout, 1)].into();
        terminal.total_run_ms = 125_900;
        terminal.longest_run_ms = 65_000;
        terminal.total_queued_ms = 7;
        let mut made_up = ToolUsage::default();
        made_up.failed = 1;
        made_up.reasons = [(CallEndReason::Error, 1)].into();
        let mut usage = SessionCallUsage::default();
        usage.tools = vec![
            (String::new(), made_up.clone()),
            ("a|\u{202e}b".to_owned(), made_up),
            ("grep".to_owned(), grep),
            ("terminal".to_owned(), terminal),
        ];
        (usage.updates.offered, usage.updates.joined) = (30, 9);
        (usage.updates.sent, usage.updates.dropped) = (20, 1);
        let expected = "\
| tool | calls | completed | failed | cancelled | ran | longest | why not |
|---|--:|--:|--:|--:|--:|--:|---|
| others | 1 | 0 | 1 | 0 | 0 ms | 0 ms | 1 error |
| a\\|\\u{202e}b | 1 | 0 | 1 | 0 | 0 ms | 0 ms | 1 error |
| grep | 2 | 2 | 0 | 0 | 40 ms | 39 ms |  |
| terminal | 4 | 1 | 2 | 1 | 2 min 5 s | 1 min 5 s | 2 user, 1 timeout |

Tokens: 1200 in (1000 of them from a cache), 80 out (7 of them thoughts), in 3 requests.
Cost: $1.020304.

Updates: 30 offered, 9 joined to another, 20 sent, 1 dropped.";
        let spent = UsageTotals {
            requests: 3,
            input_tokens: 1200,
            output_tokens: 80,
            cached_tokens: 1000,
            thought_tokens: 7,
            cost_micros: Some(1_020_304),
        };
        assert_eq!(usage_report(&usage, &spent), expected);
    }

    #[test]
    fn a_session_without_calls_says_so() {
        assert!(
            usage_report(&SessionCallUsage::default(), &UsageTotals::default())
                .starts_with("No call has ended yet.")
        );
    }
}
