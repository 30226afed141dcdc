//! The command `/mode`, which shows and sets the permission mode.

use std::future::ready;

use super::{SlashCommand, SlashCommandContext, format_choice_line};
use crate::options::ChangeOrigin;
use crate::permission_mode::PermissionMode;

pub(super) fn command() -> SlashCommand {
    let description = "show the permission mode, or change it";
    SlashCommand::new("mode", description, |asked| Box::pin(ready(show_or_set_mode(asked))))
        .with_hint("[NAME]")
}

fn show_or_set_mode(asked: SlashCommandContext<'_>) -> String {
    let name = asked.arguments;
    let Some(current) = asked.options.active_options().mode else {
        return "This session has no modes: its agent has its own permission policy.".to_owned();
    };
    let list = || {
        let modes = PermissionMode::all().iter();
        let lines =
            modes.map(|mode| format_choice_line(mode.id(), mode.description(), *mode == current));
        format!("{}\n`/mode NAME` changes it.", lines.collect::<String>())
    };
    match PermissionMode::parse(name) {
        _ if name.is_empty() => list(),
        None => format!("There is no such mode.\n\n{}", list()),
        Some(mode) => {
            asked.options.set_mode(mode, ChangeOrigin::Command);
            format!("The mode is `{}` now: {}.", mode.id(), mode.description())
        }
    }
}
