//! What the client offers, and how it serves it.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::time::sleep;

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
pub(super) enum Served {
    Now(Value),
    /// The result, when there is one.
    Later(BoxFuture<'static, Value>),
    Never,
}

impl Served {
    /// The same, a while after.
    fn after(self, pause: Duration) -> Self {
        let late = |result: BoxFuture<'static, Value>| async move {
            let result = result.await;
            sleep(pause).await;
            result
        };
        match self {
            Self::Now(result) => Self::Later(late(ready(result).boxed()).boxed()),
            Self::Later(result) => Self::Later(late(result).boxed()),
            Self::Never => Self::Never,
        }
    }
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
    pub(super) fn terminals(&self) -> usize {
        self.running.count()
    }
}
