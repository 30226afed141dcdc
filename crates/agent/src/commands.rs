//! The slash commands that a client may offer.

use acp_tools::Registry;
use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate,
    UnstructuredCommandInput,
};

use crate::model::Model;
use crate::model::direct::{self, command::COMMANDS};

/// Returns the commands of the direct model, as far as their tools are there; a model that takes
/// any text needs none.
pub(crate) fn available(model: &dyn Model, registry: &Registry) -> Option<SessionUpdate> {
    if model.name() != direct::NAME {
        return None;
    }
    let commands = COMMANDS
        .iter()
        .filter(|command| command.tool.is_none_or(|tool| registry.spec(tool).is_some()))
        .map(|command| {
            let mut available = AvailableCommand::new(command.name, command.description);
            if !command.hint.is_empty() {
                let input = UnstructuredCommandInput::new(command.hint);
                available = available.input(AvailableCommandInput::Unstructured(input));
            }
            available
        })
        .collect();
    Some(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands)))
}
