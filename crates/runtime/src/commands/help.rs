//! `/help`: the commands, what is chosen, and how to connect a model.

use std::fmt::Write as _;

use callboard_models::direct;
use futures::FutureExt as _;

use super::{Asked, OURS, SlashCommand, model};
use crate::options::level;

pub(super) const COMMAND: SlashCommand = SlashCommand {
    name: "help",
    hint: "",
    description: "show the commands, what is chosen, and how to connect a model",
    run: |asked, _| std::future::ready(run(asked)).boxed(),
};

fn run(asked: Asked<'_>) -> String {
    let chosen = asked.options.chosen();
    let mut text = String::new();
    // Writing to a string cannot fail.
    for command in OURS.iter().filter(|command| command.is_offered(&chosen, asked.registry)) {
        let _ = writeln!(text, "- `{}`: {}", command.form(), command.description);
    }
    let _ = write!(text, "\nModel: `{}`", model::current(asked));
    if chosen.traits.efforts {
        let _ = write!(text, ", thinking: `{}`", level(chosen.effort));
    }
    text.push_str(".\n");
    if let Some(mode) = chosen.mode {
        let _ = writeln!(text, "Mode: `{}`: {}.", mode.id(), mode.description());
    }
    text.push('\n');
    if chosen.model.name() == direct::NAME {
        text += &direct::help(|tool| asked.registry.spec(tool).is_some());
        text.push(' ');
    }
    let catalogue = asked.options.with(|selection| selection.catalogue().clone());
    text + catalogue.help()
}
