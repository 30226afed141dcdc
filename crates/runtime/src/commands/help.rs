//! The command `/help`, which shows the commands, the current options, and how to connect a model.

use std::fmt::Write as _;
use std::future::ready;

use super::{SlashCommand, SlashCommandContext, model};
use crate::options::thought_level_value;

pub(super) fn command() -> SlashCommand {
    let description = "show the commands, the current options, and how to connect a model";
    SlashCommand::new("help", description, |asked| Box::pin(ready(render_help(asked))))
}

fn render_help(asked: SlashCommandContext<'_>) -> String {
    let chosen = asked.options.active_options();
    let mut text = String::new();
    // Writing to a string cannot fail.
    for command in asked.commands.offered_commands(&chosen, asked.turn.tools) {
        let _ = writeln!(text, "- `{}`: {}", command.usage(), command.description);
    }
    let _ = write!(text, "\nModel: `{}`", model::current_model_name(asked));
    if chosen.capabilities.efforts {
        let _ = write!(text, ", thinking: `{}`", thought_level_value(chosen.effort));
    }
    text.push_str(".\n");
    if let Some(mode) = chosen.mode {
        let _ = writeln!(text, "Mode: `{}`: {}.", mode.id(), mode.description());
    }
    text.push('\n');
    if let Some(help) = chosen.model.help(&asked.turn.tools.specs()) {
        text += &help;
        text.push(' ');
    }
    let catalogue = asked.options.inspect_selection(|selection| selection.catalogue().clone());
    text + catalogue.connect_help()
}
