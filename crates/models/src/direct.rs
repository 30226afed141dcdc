//! The `direct` model. Each line of a prompt is a tool call, so the model needs no key, server or
//! network.

mod command;

use std::{borrow::Cow, fmt::Write as _, iter, sync::Arc};

use callboard_text::count_with_noun;
use futures::{StreamExt as _, stream};

use super::{
    ChatMessage, ContentPart, Model, ModelCapabilities, ModelEvent, ModelRequest, ModelStopReason,
    ModelToolCall, PromptCommand, ReplyStream, ToolResult, ToolSpec,
};
use command::{COMMANDS, DirectCommand, ParsedPrompt, ToolUse};

/// Name of the model.
pub const NAME: &str = "direct";

/// Number of bytes per fragment of arguments. Fragments are small, so that a client receives the
/// arguments as a stream.
const FRAGMENT_BYTES: usize = 64;

/// Prefix of the ids of calls. The number of the call in its turn follows, counted from 1.
const CALL_ID_PREFIX: &str = "direct_";

/// Maximum number of characters of one failed call's error that the final summary quotes.
const MAX_QUOTED_CHARS: usize = 200;

const HELP_FOOTER: &str =
    "This is `direct`, the built-in model that does what these commands say and nothing else.";

/// The `direct` model. [`Model::help`] lists its commands.
///
/// A prompt runs only if every line is a command. Each reply contains only the next call of the
/// prompt, so a `read` returns the file as the preceding `edit` has changed it. The reply after the
/// last result is a summary. As in a shell, a failed call does not stop the calls after it. The
/// model keeps no state: it derives its position in the turn from the id of the newest call.
#[derive(Clone, Debug, Default)]
pub struct DirectModel {
    /// Text appended to the help.
    help_footer: Arc<str>,
}

impl DirectModel {
    /// Creates the model with a text that is appended to the model's help, e.g. how to connect
    /// another model.
    pub fn with_text_after_help(closing: impl Into<Arc<str>>) -> Self {
        Self { help_footer: closing.into() }
    }

    /// Returns the help as it is shown in a reply.
    fn help_with_footer(&self, tools: &[ToolSpec]) -> String {
        format!("{} {}", commands_help(tools), self.help_footer).trim_end().to_owned()
    }
}

impl Model for DirectModel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::new().with_command_only_prompts()
    }

    fn commands(&self, tools: &[ToolSpec]) -> Vec<PromptCommand> {
        let are_there = |it: &&DirectCommand| it.tool.is_none_or(|tool| has_tool(tools, tool));
        let shown = |it: &DirectCommand| PromptCommand::new(it.name, it.description, it.hint);
        COMMANDS.iter().filter(are_there).map(shown).collect()
    }

    fn help(&self, tools: &[ToolSpec]) -> Option<String> {
        Some(commands_help(tools))
    }

    fn prompt_error(&self, prompt: &str) -> Option<String> {
        command::parse_prompt(prompt).err().map(|error| error.to_string())
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let (prompt, since) = last_prompt_and_later_messages(&request.messages);
        let calls = match command::parse_prompt(&prompt) {
            Ok(ParsedPrompt::Calls(calls)) => calls,
            Ok(ParsedPrompt::Help) => return text_reply(self.help_with_footer(&request.tools)),
            Err(error) if error.is_unknown_command() => {
                return text_reply(format!("{error}\n\n{}", self.help_with_footer(&request.tools)));
            }
            Err(error) => return text_reply(error.to_string()),
        };
        if calls_unavailable_undo(&request, &calls) {
            return text_reply("This session has no `undo`. Nothing was run.".to_owned());
        }
        let done = newest_call_number(since);
        match calls.into_iter().nth(done) {
            Some(call) => single_call_reply(call, done),
            None => text_reply(summarize_results(since, done)),
        }
    }
}

/// Lists the commands in Markdown, with one example each.
fn commands_help(tools: &[ToolSpec]) -> String {
    let mut help = "One command a line; several lines are several calls, in order.\n".to_owned();
    // If the session has no tool `undo`, the help omits the command `undo`. All other commands stay
    // in the help even if their tool is missing. A call of a missing tool fails with an error.
    let is_offered = |tool: &&str| *tool != command::UNDO || has_tool(tools, tool);
    for command in COMMANDS.iter().filter(|command| command.tool.as_ref().is_none_or(is_offered)) {
        let (form, description) = (command.usage(), command.description);
        let example = match command.example {
            example if example.contains('\n') => format!(":\n\n```\n{example}\n```\n"),
            example => format!(", as in `{example}`"),
        };
        let _ = write!(help, "\n- `{form}`: {description}{example}");
    }
    format!("{help}\n\n{HELP_FOOTER}")
}

/// Returns the last prompt, and the messages after it.
fn last_prompt_and_later_messages(
    messages: &[Arc<ChatMessage>],
) -> (Cow<'_, str>, &[Arc<ChatMessage>]) {
    let mut prompts = messages.iter().enumerate().rev();
    let last = prompts.find_map(|(index, message)| match &**message {
        ChatMessage::User(prompt) => Some((prompt_text(prompt), &messages[index + 1..])),
        _ => None,
    });
    last.unwrap_or((Cow::Borrowed(""), messages))
}

fn part_text_or_placeholder(part: &ContentPart) -> &str {
    match part {
        ContentPart::Text(text) => text,
        ContentPart::Image { .. } => "[an image]",
        ContentPart::Audio { .. } => "[audio]",
    }
}

/// Returns the text of a prompt. Images and audio become placeholders; a placeholder is not a
/// command.
fn prompt_text(prompt: &[ContentPart]) -> Cow<'_, str> {
    match prompt {
        [part] => Cow::Borrowed(part_text_or_placeholder(part)),
        parts => {
            Cow::Owned(parts.iter().map(part_text_or_placeholder).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Returns whether the prompt calls `undo` in a session without this tool. Calls of other missing
/// tools fail when they are run.
fn calls_unavailable_undo(request: &ModelRequest, calls: &[ToolUse]) -> bool {
    calls.iter().any(|call| call.tool == command::UNDO) && !has_tool(&request.tools, command::UNDO)
}

fn has_tool(tools: &[ToolSpec], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}

/// Returns the number of calls that the turn has made so far, which is the number in the id of the
/// newest call. Older replies of the turn may be missing, because a session that is too large drops
/// its oldest messages.
fn newest_call_number(since: &[Arc<ChatMessage>]) -> usize {
    let calls = since.iter().rev().flat_map(|message| match &**message {
        ChatMessage::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    });
    let mut numbers = calls.filter_map(|call| call.id.strip_prefix(CALL_ID_PREFIX)?.parse().ok());
    numbers.next().unwrap_or(0)
}

fn single_call_reply(ToolUse { tool, arguments }: ToolUse, index: usize) -> ReplyStream {
    let call =
        ModelToolCall { id: format!("{CALL_ID_PREFIX}{}", index + 1), name: tool, arguments };
    let stop = iter::once(ModelEvent::Stop(ModelStopReason::ToolCalls));
    stream::iter(ModelEvent::call_events(call, FRAGMENT_BYTES).chain(stop)).boxed()
}

fn text_reply(text: String) -> ReplyStream {
    stream::iter([ModelEvent::Text(text), ModelEvent::Stop(ModelStopReason::EndTurn)]).boxed()
}

/// Summarizes the results of `calls` calls. The results of the oldest calls may be missing.
fn summarize_results(since: &[Arc<ChatMessage>], calls: usize) -> String {
    let results: Vec<&ToolResult> = since
        .iter()
        .filter_map(|message| match &**message {
            ChatMessage::ToolResults(results) => Some(results),
            _ => None,
        })
        .flatten()
        .collect();
    let failed: Vec<_> = results.iter().filter(|result| result.is_error).collect();
    let calls = count_with_noun(calls as u64, "call", "calls");
    if failed.is_empty() {
        return format!("Done: {calls}.");
    }
    let lines = failed
        .iter()
        .map(|result| format!("\n- `{}`: {}", result.name, quote_first_result_line(result)));
    format!("{calls}, {} failed:\n{}", failed.len(), lines.collect::<String>())
}

fn quote_first_result_line(result: &ToolResult) -> String {
    let line =
        result.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    match line.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
