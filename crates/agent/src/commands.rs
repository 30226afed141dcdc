//! The slash commands: those that the agent itself answers, and those of the direct model.

mod permissions;
mod usage;

use acp_lifecycle::SessionHandle;
use acp_tools::Registry;
use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate,
    UnstructuredCommandInput,
};

use crate::model::Model;
use crate::model::direct::{self, command::COMMANDS};
use crate::permission::Keeper;

/// A command that the agent itself answers, whatever the model is.
struct SlashCommand {
    name: &'static str,
    /// What follows the name; empty if nothing does.
    hint: &'static str,
    description: &'static str,
    /// Does what follows the name says, and returns what to say, in Markdown.
    run: fn(&SessionHandle, &str) -> String,
}

const OURS: &[SlashCommand] = &[permissions::COMMAND, usage::COMMAND];

/// Returns our commands, and those of the direct model as far as their tools are there; a model
/// that takes any text needs none.
pub(crate) fn available(model: &dyn Model, registry: &Registry) -> SessionUpdate {
    let ours = OURS.iter().map(|it| available_command(it.name, it.description, it.hint));
    let is_direct = model.name() == direct::NAME;
    let direct = COMMANDS
        .iter()
        .filter(|_| is_direct)
        .filter(|command| command.tool.is_none_or(|tool| registry.spec(tool).is_some()))
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

/// Does what a prompt says that is one of our commands, and returns what to say about it.
pub(crate) async fn answer(
    prompt: &str,
    handle: &SessionHandle,
    keeper: Option<&Keeper>,
) -> Option<String> {
    let line = prompt.trim().strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = OURS.iter().find(|command| command.name == name)?;
    if let Some(keeper) = keeper {
        // What is still being saved is told as what it comes to; what cannot be is logged there.
        drop(keeper.save().await);
    }
    let mut said = (command.run)(handle, arguments);
    if let Some(keeper) = keeper
        && let Err(error) = keeper.save().await
    {
        said.push_str(&format!("\nThe stored rules could not be changed: {error}"));
    }
    Some(said)
}
