//! The command `/effort`, which shows and sets the thought level of the model, if the model has
//! thought levels.

use std::future::ready;

use super::{SlashCommand, SlashCommandContext, format_choice_line};
use crate::options::{ChangeOrigin, THOUGHT_LEVELS, parse_thought_level, thought_level_value};

pub(super) fn command() -> SlashCommand {
    let description = "show how much the model thinks, or change it";
    SlashCommand::new("effort", description, |asked| Box::pin(ready(show_or_set_effort(asked))))
        .with_hint("[LEVEL]")
        .with_availability(|chosen, _| chosen.capabilities.efforts)
}

fn show_or_set_effort(asked: SlashCommandContext<'_>) -> String {
    let value = asked.arguments;
    let chosen = asked.options.active_options();
    if !chosen.capabilities.efforts {
        return "This model has no thought levels.".to_owned();
    }
    let list = || {
        let current = thought_level_value(chosen.effort);
        let lines = THOUGHT_LEVELS
            .iter()
            .map(|(value, text, _)| format_choice_line(value, text, *value == current));
        format!("{}\n`/effort LEVEL` changes it.", lines.collect::<String>())
    };
    match parse_thought_level(value) {
        _ if value.is_empty() => list(),
        None => format!("There is no such level.\n\n{}", list()),
        Some(effort) => {
            asked.options.set_effort(effort, ChangeOrigin::Command);
            format!("The model thinks at the level `{value}` from now on.")
        }
    }
}
