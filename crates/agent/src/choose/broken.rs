//! The model of an agent whose configuration cannot be used: it says so.

use callboard_models::{Event, Fault, Model, ModelError, Reply, Request};
use futures::{StreamExt as _, future, stream};

/// Breaks every reply off with what is wrong.
#[derive(Debug)]
pub(crate) struct Broken {
    why: String,
}

impl Broken {
    pub(crate) fn new(why: String) -> Self {
        Self { why }
    }
}

impl Model for Broken {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reply(&self, _: Request) -> Reply {
        let message = format!("{}; mend it, and restart the agent", self.why);
        let error = ModelError { fault: Fault::Other, message, status: None, retry_after: None };
        stream::once(future::ready(Event::Error(error))).boxed()
    }
}
