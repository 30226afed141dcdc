//! The commands `/rewind`, which goes back to a prompt, and `/fork`, which stores a copy of the
//! session.

use std::fmt::Write as _;

use callboard_text::escape_invisible;
use serde_json::json;

use super::{SlashCommand, SlashCommandContext};
use crate::limits::MAX_LISTED_PROMPTS;
use crate::offered_tools::OfferedTools;
use crate::rewind::{RewindCommandTool, SessionRewind};
use crate::turn::Turn;

pub(super) fn rewind_command() -> SlashCommand {
    let description = "list the prompts, or go back to the state before one: files and history";
    SlashCommand::new("rewind", description, |asked| Box::pin(list_or_rewind(asked)))
        .with_hint("[NUMBER]")
        .with_storage_required()
}

pub(super) fn fork_command() -> SlashCommand {
    let description = "store a copy of this session, up to a prompt or whole";
    SlashCommand::new("fork", description, |asked| Box::pin(fork(asked)))
        .with_hint("[NUMBER]")
        .with_storage_required()
}

async fn list_or_rewind(asked: SlashCommandContext<'_>) -> String {
    let Some(rewind) = asked.rewind else { return NOT_STORED.to_owned() };
    match parse_prompt_number(asked.arguments) {
        Ok(None) => list_prompts(&asked, rewind).await,
        Ok(Some(prompt)) if (1..asked.prompt).contains(&prompt) => {
            let mut registry = asked.turn.tools.registry().clone();
            registry.add(RewindCommandTool(rewind.clone()));
            let turn = Turn { tools: &OfferedTools::new(registry), ..asked.turn };
            let ended =
                turn.call_tool_for_user(RewindCommandTool::NAME, json!({ "prompt": prompt })).await;
            ended.map_or_else(|| "Nothing was changed.".to_owned(), |ended| ended.text)
        }
        Ok(Some(prompt)) => no_such_prompt(prompt),
        Err(usage) => usage,
    }
}

async fn list_prompts(asked: &SlashCommandContext<'_>, rewind: &SessionRewind) -> String {
    let prompts = match rewind.prompts().await {
        Ok(prompts) => prompts,
        Err(error) => return format!("The prompts cannot be listed: {error}"),
    };
    // Omit slash commands, because they change nothing that a rewind restores.
    let listed =
        prompts.iter().filter(|prompt| asked.commands.find_command(&prompt.text).is_none());
    let listed: Vec<_> = listed.collect();
    if listed.is_empty() {
        return "This session has no prompt to go back to.".to_owned();
    }
    let first = listed.len().saturating_sub(MAX_LISTED_PROMPTS);
    let mut text = String::new();
    for prompt in &listed[first..] {
        // The list is not a numbered Markdown list, because Markdown would renumber it.
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {}: {}", prompt.number, escape_invisible(&prompt.text));
    }
    if first > 0 {
        let _ = writeln!(text, "\n{first} earlier prompts are not listed.");
    }
    text.push_str("\n`/rewind NUMBER` goes back to the state before that prompt.");
    text
}

async fn fork(asked: SlashCommandContext<'_>) -> String {
    let Some(rewind) = asked.rewind else { return NOT_STORED.to_owned() };
    let keep = match parse_prompt_number(asked.arguments) {
        Ok(Some(prompt)) if !(1..asked.prompt).contains(&prompt) => return no_such_prompt(prompt),
        Ok(keep) => keep,
        Err(usage) => return usage,
    };
    // The prompt of this command is not copied.
    match rewind.fork_first_prompts(keep.unwrap_or(asked.prompt.saturating_sub(1))).await {
        Ok(id) => format!(
            "Stored a copy of this session: {id}. Load it in your client, or continue it in the \
             terminal:\n\n    callboard exec --resume {id} \"PROMPT\""
        ),
        Err(error) => format!("The session cannot be copied: {error}"),
    }
}

fn parse_prompt_number(arguments: &str) -> Result<Option<u32>, String> {
    match arguments {
        "" => Ok(None),
        number => number.parse().map(Some).map_err(|_no_number| {
            format!("`{}` is no number; `/rewind` lists the prompts.", escape_invisible(number))
        }),
    }
}

fn no_such_prompt(prompt: u32) -> String {
    format!("There is no earlier prompt {prompt}; `/rewind` lists the prompts.")
}

const NOT_STORED: &str = "This session is not stored, so it has no prompts to go back to.";
