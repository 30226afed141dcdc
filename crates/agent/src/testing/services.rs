//! What the client offers, and how it serves it.

use serde_json::Value;
use tokio::sync::watch;

use super::behaviour::{Behaviour, Files, Service, Terminals};
use super::files;
use super::terminals::Running;

/// The files and terminals of the client.
#[derive(Debug)]
pub(super) struct Services {
    files: Option<Files>,
    terminals: Option<Terminals>,
    running: Running,
}

/// What a request comes to.
#[derive(Debug)]
pub(super) enum Served {
    Now(Value),
    /// The exit status, when there is one.
    AtExit(watch::Receiver<Option<Value>>),
    Never,
}

impl Services {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        let Behaviour { files, terminals, .. } = behaviour.clone();
        Self { files, terminals, running: Running::default() }
    }

    /// Serves a request.
    ///
    /// # Errors
    ///
    /// What is wrong, as the message of a JSON-RPC error.
    pub(super) fn serve(&mut self, method: &str, params: &Value) -> Result<Served, String> {
        let files = self.files.as_mut().filter(|_| method.starts_with("fs/"));
        match (files, &self.terminals) {
            (Some(files), _) => match files.serves(method) {
                Service::Works => files::serve(files, method, params).map(Served::Now),
                Service::Fails => Err("The editor is busy".to_owned()),
                Service::Never => Ok(Served::Never),
            },
            (None, Some(terminals)) => match terminals.service {
                Service::Works => self.running.serve(method, params, terminals.cut),
                Service::Fails => Err("No terminal can be had".to_owned()),
                Service::Never => Ok(Served::Never),
            },
            (None, None) => Err("It is not offered".to_owned()),
        }
    }
}
