//! What a request of the agent comes to.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::time::sleep;

/// What a request comes to.
pub(crate) enum ServiceReply {
    Now(Value),
    /// The result, when there is one.
    Later(BoxFuture<'static, Value>),
    Never,
}

impl ServiceReply {
    /// The same, a while after.
    pub(crate) fn delayed(self, pause: Duration) -> Self {
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
