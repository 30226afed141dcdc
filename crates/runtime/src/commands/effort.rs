//! `/effort`: how much the model thinks, where it can be told.

use std::future::ready;

use super::{CommandContext, SlashCommand, choice};
use crate::options::{By, LEVELS, level, parse_level};

pub(super) fn command() -> SlashCommand {
    let description = "show how much the model thinks, or change it";
    SlashCommand::new("effort", description, |asked| Box::pin(ready(run(asked))))
        .with_hint("[LEVEL]")
        .offered_if(|chosen, _| chosen.traits.efforts)
}

fn run(asked: CommandContext<'_>) -> String {
    let value = asked.arguments;
    let chosen = asked.options.chosen();
    if !chosen.traits.efforts {
        return "This model cannot be told how much to think.".to_owned();
    }
    let list = || {
        let current = level(chosen.effort);
        let lines = LEVELS.iter().map(|(value, text, _)| choice(value, text, *value == current));
        format!("{}\n`/effort LEVEL` changes it.", lines.collect::<String>())
    };
    match parse_level(value) {
        _ if value.is_empty() => list(),
        None => format!("There is no such level.\n\n{}", list()),
        Some(effort) => {
            asked.options.set_effort(effort, By::Command);
            format!("The model thinks at the level `{value}` from now on.")
        }
    }
}
