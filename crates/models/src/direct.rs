//! The model that needs no key, no server and no network: the prompt itself says what to call.
//!
//! Knows the names and arguments of the built-in tools, and nothing of what they do.

mod command;

use std::{borrow::Cow, fmt::Write as _, iter, sync::Arc};

use callboard_text::counted;
use futures::{StreamExt as _, stream};

use super::{
    Call, Event, Message, Model, Part, PromptCommand, Reply, Request, Stop, ToolResult, ToolSpec,
    Traits,
};
use command::{COMMANDS, Command, Prompt, ToolUse};

/// The model's name.
pub const NAME: &str = "direct";

/// The bytes of one fragment of arguments: small, so that clients see them stream.
const FRAGMENT_BYTES: usize = 64;

/// The characters the closing summary quotes of one failed call.
const MAX_QUOTED_CHARS: usize = 200;

const THIS: &str =
    "This is `direct`, the built-in model that does what these commands say and nothing else.";

/// The `direct` model. [`Model::help`] lists its commands.
///
/// A prompt is all commands, or nothing of it is done. Each reply makes the next call of the
/// prompt, so that a `read` sees what the `edit` before it did; the reply after the last result
/// sums up. As in a shell, a call that failed does not stop those after it. Where a turn stands is
/// told by the messages since its prompt; the model remembers nothing.
#[derive(Clone, Debug, Default)]
pub struct Direct {
    /// What stands behind its help.
    closing: Arc<str>,
}

impl Direct {
    /// Makes the model with a text that closes its help: how to connect another model, for example.
    pub fn with_closing(closing: impl Into<Arc<str>>) -> Self {
        Self { closing: closing.into() }
    }

    /// Returns the help as it stands in a reply.
    fn closed_help(&self, tools: &[ToolSpec]) -> String {
        format!("{} {}", help(tools), self.closing).trim_end().to_owned()
    }
}

impl Model for Direct {
    fn name(&self) -> &'static str {
        NAME
    }

    fn traits(&self) -> Traits {
        Traits::new().with_commands()
    }

    fn commands(&self, tools: &[ToolSpec]) -> Vec<PromptCommand> {
        let are_there = |it: &&Command| it.tool.is_none_or(|tool| has(tools, tool));
        let shown = |it: &Command| PromptCommand::new(it.name, it.description, it.hint);
        COMMANDS.iter().filter(are_there).map(shown).collect()
    }

    fn help(&self, tools: &[ToolSpec]) -> Option<String> {
        Some(help(tools))
    }

    fn misunderstood(&self, prompt: &str) -> Option<String> {
        command::parse(prompt).err().map(|error| error.to_string())
    }

    fn reply(&self, request: Request) -> Reply {
        let (prompt, since) = turn(&request.messages);
        let calls = match command::parse(&prompt) {
            Ok(Prompt::Calls(calls)) => calls,
            Ok(Prompt::Help) => return say(self.closed_help(&request.tools)),
            Err(error) if error.is_unknown() => {
                return say(format!("{error}\n\n{}", self.closed_help(&request.tools)));
            }
            Err(error) => return say(error.to_string()),
        };
        if lacks_undo(&request, &calls) {
            return say("This session has no `undo`. Nothing was run.".to_owned());
        }
        let done = since.iter().filter(|message| matches!(***message, Message::Assistant { .. }));
        let index = done.count();
        match calls.into_iter().nth(index) {
            Some(call) => make(call, index),
            None => say(summary(since)),
        }
    }
}

/// Lists the commands with an example each, in Markdown.
fn help(tools: &[ToolSpec]) -> String {
    let mut help = "One command a line; several lines are several calls, in order.\n".to_owned();
    // `undo` is a command that some sessions do not have; a missing tool says so by itself.
    let is_offered = |tool: &&str| *tool != command::UNDO || has(tools, tool);
    for command in COMMANDS.iter().filter(|command| command.tool.as_ref().is_none_or(is_offered)) {
        let (form, description) = (command.form(), command.description);
        let example = match command.example {
            example if example.contains('\n') => format!(":\n\n```\n{example}\n```\n"),
            example => format!(", as in `{example}`"),
        };
        // Writing to a string cannot fail.
        let _ = write!(help, "\n- `{form}`: {description}{example}");
    }
    format!("{help}\n\n{THIS}")
}

/// The last prompt, and the messages after it.
fn turn(messages: &[Arc<Message>]) -> (Cow<'_, str>, &[Arc<Message>]) {
    let mut prompts = messages.iter().enumerate().rev();
    let last = prompts.find_map(|(index, message)| match &**message {
        Message::User(prompt) => Some((text(prompt), &messages[index + 1..])),
        _ => None,
    });
    last.unwrap_or((Cow::Borrowed(""), messages))
}

fn line(part: &Part) -> &str {
    match part {
        Part::Text(text) => text,
        Part::Image { .. } => "[an image]",
        Part::Audio { .. } => "[audio]",
    }
}

/// The text of a prompt. What is no text is no command either, and is named as such.
fn text(prompt: &[Part]) -> Cow<'_, str> {
    match prompt {
        [part] => Cow::Borrowed(line(part)),
        parts => Cow::Owned(parts.iter().map(line).collect::<Vec<_>>().join("\n")),
    }
}

/// A mistyped tool fails by itself; `undo` is a command that some sessions simply do not have.
fn lacks_undo(request: &Request, calls: &[ToolUse]) -> bool {
    calls.iter().any(|call| call.tool == command::UNDO) && !has(&request.tools, command::UNDO)
}

fn has(tools: &[ToolSpec], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}

fn make(ToolUse { tool, arguments }: ToolUse, index: usize) -> Reply {
    let call = Call { id: format!("direct_{}", index + 1), name: tool, arguments };
    let stop = iter::once(Event::Stop(Stop::ToolCalls));
    stream::iter(Event::of_call(call, FRAGMENT_BYTES).chain(stop)).boxed()
}

fn say(text: String) -> Reply {
    stream::iter([Event::Text(text), Event::Stop(Stop::EndTurn)]).boxed()
}

fn summary(since: &[Arc<Message>]) -> String {
    let results: Vec<&ToolResult> = since
        .iter()
        .filter_map(|message| match &**message {
            Message::ToolResults(results) => Some(results),
            _ => None,
        })
        .flatten()
        .collect();
    let failed: Vec<_> = results.iter().filter(|result| result.is_error).collect();
    let calls = counted(results.len() as u64, "call", "calls");
    if failed.is_empty() {
        return format!("Done: {calls}.");
    }
    let lines = failed.iter().map(|result| format!("\n- `{}`: {}", result.name, quote(result)));
    format!("{calls}, {} failed:\n{}", failed.len(), lines.collect::<String>())
}

fn quote(result: &ToolResult) -> String {
    let line =
        result.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    match line.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
