//! What the client offers, and how it serves it.

use serde_json::Value;

use crate::behaviour::{Behaviour, Files, Service, Terminals};
use crate::files;
use crate::served::Served;
use crate::terminals::Running;

/// The files and terminals of the client.
#[derive(Debug)]
pub(crate) struct Services {
    files: Option<Files>,
    terminals: Option<Terminals>,
    running: Running,
}

impl Services {
    pub(crate) fn new(behaviour: &Behaviour) -> Self {
        let Behaviour { files, terminals, .. } = behaviour.clone();
        Self { files, terminals, running: Running::default() }
    }

    /// Serves a request.
    ///
    /// # Errors
    ///
    /// What is wrong, as the message of a JSON-RPC error.
    pub(crate) fn serve(&mut self, method: &str, params: &Value) -> Result<Served, String> {
        let files = self.files.as_mut().filter(|_| method.starts_with("fs/"));
        let (service, trouble) = match (&files, &self.terminals) {
            (Some(files), _) => (files.serves(method), "The editor is busy"),
            (None, Some(terminals)) => (terminals.serves(method), "No terminal can be had"),
            (None, None) => return Err("It is not offered".to_owned()),
        };
        let pause = match service {
            Service::Works => None,
            Service::Late(pause) => Some(pause),
            Service::Fails => return Err(trouble.to_owned()),
            Service::Never => return Ok(Served::Never),
        };
        let served = match (files, &self.terminals) {
            (Some(files), _) => files::serve(files, method, params).map(Served::Now)?,
            (None, terminals) => {
                let terminals = terminals.clone().unwrap_or_default();
                self.running.serve(method, params, &terminals)?
            }
        };
        Ok(match pause {
            None => served,
            Some(pause) => served.after(pause),
        })
    }

    /// Returns how many terminals are not released.
    pub(crate) fn terminals(&self) -> usize {
        self.running.count()
    }
}
