//! What a model says next, or that it says no more although it did not say so.
//!
//! Knows no provider; who does not want to wait any more drops it.

use futures::StreamExt as _;
use tokio::time::timeout;

use super::{Event, Fault, ModelError, Reply};
use crate::limits;

/// Waits for the next event of a reply, for at most [`limits::MODEL_IDLE`].
pub(crate) async fn next(reply: &mut Reply) -> Result<Event, ModelError> {
    let error = |fault, message| ModelError { fault, message, status: None, retry_after: None };
    match timeout(limits::MODEL_IDLE, reply.next()).await {
        Ok(Some(event)) => Ok(event),
        Ok(None) => Err(error(Fault::Transient, "its reply was cut off".to_owned())),
        Err(_elapsed) => {
            let seconds = limits::MODEL_IDLE.as_secs();
            Err(error(Fault::Idle, format!("it said nothing for {seconds} s")))
        }
    }
}
