//! The client's files and terminals, and the client's replies to requests for files and terminals.

use serde_json::Value;

use crate::behaviour::{ClientBehaviour, FileService, ServiceBehaviour, TerminalService};
use crate::client_files;
use crate::client_terminals::OpenTerminals;
use crate::service_reply::ServiceReply;

/// The files and terminals of the client.
#[derive(Debug)]
pub(crate) struct ClientFilesAndTerminals {
    files: Option<FileService>,
    terminals: Option<TerminalService>,
    open_terminals: OpenTerminals,
}

impl ClientFilesAndTerminals {
    pub(crate) fn new(behaviour: &ClientBehaviour) -> Self {
        let ClientBehaviour { files, terminals, .. } = behaviour.clone();
        Self { files, terminals, open_terminals: OpenTerminals::default() }
    }

    /// Serves a request of the agent for a file or a terminal.
    ///
    /// # Errors
    ///
    /// Returns the message of a JSON-RPC error.
    pub(crate) fn serve_request(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<ServiceReply, String> {
        let files = self.files.as_mut().filter(|_| method.starts_with("fs/"));
        let (service, trouble) = match (&files, &self.terminals) {
            (Some(files), _) => (files.behaviour_for_method(method), "The editor is busy"),
            (None, Some(terminals)) => {
                (terminals.behaviour_for_method(method), "No terminal can be had")
            }
            (None, None) => return Err("The client does not offer this method".to_owned()),
        };
        let pause = match service {
            ServiceBehaviour::Works => None,
            ServiceBehaviour::Delayed(pause) => Some(pause),
            ServiceBehaviour::Fails => return Err(trouble.to_owned()),
            ServiceBehaviour::NoReply => return Ok(ServiceReply::Never),
        };
        let served = match (files, &self.terminals) {
            (Some(files), _) => {
                client_files::serve_file_request(files, method, params).map(ServiceReply::Now)?
            }
            (None, terminals) => {
                let terminals = terminals.clone().unwrap_or_default();
                self.open_terminals.serve_terminal_request(method, params, &terminals)?
            }
        };
        Ok(match pause {
            None => served,
            Some(pause) => served.delayed(pause),
        })
    }

    /// Returns the number of terminals that are not released.
    pub(crate) fn open_terminal_count(&self) -> usize {
        self.open_terminals.open_terminal_count()
    }
}
