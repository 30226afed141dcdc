//! The driver: takes what is due from the outbox and hands it to a sink, until told to stop.

use tokio_util::sync::CancellationToken;

use crate::SessionHandle;
use crate::caught::caught;
use crate::limits::STALL;
use crate::outbox::Item;

/// Where a session's items go: the connection to the client.
pub trait Sink: Send {
    /// Waits until the client has taken enough of what it was sent that one more item may go.
    ///
    /// Meanwhile items wait in the outbox, where they join. The default never waits.
    fn ready(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Sends one item. It must not block; a sink with a queue of its own bounds it.
    ///
    /// A permission request is put to the client, and its answer comes back by
    /// [`SessionHandle::answer`]; the question why it was rejected, by [`SessionHandle::explain`].
    ///
    /// # Errors
    ///
    /// [`Unreachable`] if the client is gone. Calls still run to their end.
    fn deliver(&mut self, item: Item) -> Result<(), Unreachable>;
}

/// The client cannot be reached; what was to be sent is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client cannot be reached")]
pub struct Unreachable;

/// Delivers what is due until `stop` says so, then everything that still waits.
///
/// A sink that fails loses its items, which are counted; a permission request that cannot be
/// delivered is a no.
pub async fn drive(session: SessionHandle, mut sink: impl Sink, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = ready(&session, &mut sink) => {}
            () = stop.cancelled() => break,
        }
        let (item, deadline) = session.poll();
        if let Some(item) = item {
            deliver(&session, &mut sink, item);
            continue;
        }
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = session.changed() => {}
            () = stop.cancelled() => {}
        }
    }
    session.set_stalled(false);
    session.with(|session, now| session.flush(now.at));
    while let (Some(item), _) = session.poll() {
        deliver(&session, &mut sink, item);
    }
}

/// Waits for the sink. If that takes long, those who produce what is sent are told to wait too.
async fn ready(session: &SessionHandle, sink: &mut impl Sink) {
    let ready = sink.ready();
    tokio::pin!(ready);
    if tokio::time::timeout(STALL, &mut ready).await.is_err() {
        session.set_stalled(true);
        ready.await;
        session.set_stalled(false);
    }
}

fn deliver(session: &SessionHandle, sink: &mut impl Sink, item: Item) {
    let (request, reason) = match item {
        Item::Permission(id) => (Some(id), None),
        Item::Reason(id) => (None, Some(id)),
        _ => (None, None),
    };
    // A sink that panics is as good as one that cannot deliver.
    if !matches!(caught(|| sink.deliver(item)), Some(Ok(()))) {
        session.with(|session, _| session.count_undelivered());
        if let Some(id) = request {
            let gone = "the client cannot be reached".to_owned();
            session.answer(id, crate::Answer::Failed(gone));
        }
        if let Some(id) = reason {
            session.explain(id, None);
        }
    }
}
