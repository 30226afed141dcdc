//! `/effort`: how much the model thinks, where it can be told.

use futures::FutureExt as _;

use super::{Asked, SlashCommand, choice};
use crate::options::{By, LEVELS, level, parse_level};

pub(super) const COMMAND: SlashCommand = SlashCommand {
    name: "effort",
    hint: "[LEVEL]",
    description: "show how much the model thinks, or change it",
    run: |asked, value| std::future::ready(run(asked, value)).boxed(),
};

fn run(asked: Asked<'_>, value: &str) -> String {
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
