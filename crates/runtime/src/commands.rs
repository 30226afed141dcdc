//! The slash commands: those that the agent itself answers, and those of the direct model.

mod effort;
mod help;
mod mode;
mod model;
mod permissions;
mod undo;
mod usage;

use std::sync::Arc;

use acp_lifecycle::SessionHandle;
use acp_tools::Registry;
use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate,
    UnstructuredCommandInput,
};
use callboard_models::direct::{self, COMMANDS};
use futures::future::BoxFuture;

use crate::options::{Chosen, Options};
use crate::permission::Keeper;
use crate::turn::{Spent, Turn};

/// A command that the agent itself answers, whatever the model is.
struct SlashCommand {
    name: &'static str,
    /// What follows the name; empty if nothing does.
    hint: &'static str,
    description: &'static str,
    /// Does what follows the name says, and returns what to say, in Markdown.
    run: for<'a> fn(Asked<'a>, &'a str) -> BoxFuture<'a, String>,
}

impl SlashCommand {
    /// Returns how it is used.
    fn form(&self) -> String {
        format!("/{} {}", self.name, self.hint).trim_end().to_owned()
    }

    /// A command about what the model or the session cannot do is not shown; used anyhow, it says
    /// so.
    fn is_offered(&self, chosen: &Chosen, registry: &Registry) -> bool {
        let has_undo = || registry.spec(undo::TOOL).is_some();
        let needs_undo = self.name == undo::COMMAND.name;
        let needs_efforts = self.name == effort::COMMAND.name;
        (!needs_efforts || chosen.traits.efforts) && (!needs_undo || has_undo())
    }
}

const OURS: &[SlashCommand] = &[
    model::COMMAND,
    effort::COMMAND,
    mode::COMMAND,
    permissions::COMMAND,
    undo::COMMAND,
    usage::COMMAND,
    help::COMMAND,
];

/// The session whose user asks.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The turn that it is asked in.
    pub(crate) turn: Turn<'a>,
    pub(crate) handle: &'a SessionHandle,
    pub(crate) options: &'a Arc<Options>,
    pub(crate) registry: &'a Registry,
    /// Who saves its rules, if anyone does.
    pub(crate) keeper: Option<&'a Arc<Keeper>>,
    /// What its replies used so far.
    pub(crate) spent: Spent,
}

/// Returns our commands, and those of the direct model as far as their tools are there; a model
/// that takes any text needs none.
pub(crate) fn available(chosen: &Chosen, registry: &Registry) -> SessionUpdate {
    let ours = OURS.iter().filter(|command| command.is_offered(chosen, registry));
    let ours = ours.map(|it| available_command(it.name, it.description, it.hint));
    let is_direct = chosen.model.name() == direct::NAME;
    let direct = COMMANDS
        .iter()
        .filter(|_| is_direct)
        .filter(|command| command.tool.is_none_or(|tool| registry.spec(tool).is_some()))
        .filter(|command| OURS.iter().all(|ours| ours.name != command.name))
        .map(|it| available_command(it.name, it.description, it.hint));
    let commands = direct.chain(ours).collect();
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

fn available_command(name: &str, description: &str, hint: &str) -> AvailableCommand {
    let command = AvailableCommand::new(name, description);
    if hint.is_empty() {
        return command;
    }
    let input = UnstructuredCommandInput::new(hint);
    command.input(AvailableCommandInput::Unstructured(input))
}

/// Does what a prompt says that is one of our commands, and returns what to say about it. To be
/// awaited to its end, also after a cancel: it ends soon then, and what it runs must end first.
pub(crate) async fn answer(prompt: &str, asked: Asked<'_>) -> Option<String> {
    let (command, arguments) = find(prompt)?;
    let saved = async || match asked.keeper {
        Some(keeper) => asked.turn.cancel.run_until_cancelled(keeper.save()).await,
        None => Some(Ok(())),
    };
    // What is still being saved is told as what it comes to; what cannot be is logged there.
    if saved().await.is_none() {
        return Some("Cancelled before it began.".to_owned());
    }
    let mut said = (command.run)(asked, arguments.trim()).await;
    if let Some(Err(error)) = saved().await {
        said.push_str(&format!("\nThe stored rules could not be changed: {error}"));
    }
    Some(said)
}

/// Whether a prompt is a slash command that the agent itself answers, whatever the model is.
#[must_use]
pub fn is_command(prompt: &str) -> bool {
    find(prompt).is_some()
}

fn find(prompt: &str) -> Option<(&'static SlashCommand, &str)> {
    let line = prompt.trim().strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((OURS.iter().find(|command| command.name == name)?, arguments))
}

/// One line of a list of what can be chosen.
fn choice(value: &str, text: &str, is_chosen: bool) -> String {
    let mark = if is_chosen { " ← now" } else { "" };
    match text {
        "" => format!("- `{value}`{mark}\n"),
        text => format!("- `{value}`: {text}{mark}\n"),
    }
}
