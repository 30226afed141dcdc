//! The driver, which passes due items from the outbox to a sink until the driver is stopped.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::SessionHandle;
use crate::catch_panic::catch_panic;
use crate::limits::STALL_TIMEOUT;
use crate::outbox::OutboxItem;

/// The destination of a session's items: the connection to the client.
pub trait OutboxSink: Send {
    /// Waits until the client has read enough data, so that the sink can send one more item.
    ///
    /// During the wait, items stay in the outbox, where they are merged. The default implementation
    /// never waits.
    fn wait_until_ready(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Runs before each item is sent. The driver waits for this method. A sink that records the
    /// sent items commits the record here. The method should be short, because nothing else is sent
    /// while it runs. The default implementation returns at once.
    fn before_deliver(&mut self, item: &OutboxItem) -> impl Future<Output = ()> + Send {
        let _ = item;
        std::future::ready(())
    }

    /// Sends one item. `deliver` must not block. If a sink has a queue, the sink must limit the
    /// queue's size.
    ///
    /// If the item is a permission request, the sink sends the request to the client and passes the
    /// answer to [`SessionHandle::answer_permission`]. If the item is a request for the reason of a
    /// rejection, the sink passes the reason to [`SessionHandle::apply_rejection_reason`].
    ///
    /// # Errors
    ///
    /// Returns [`ClientUnreachable`] if the connection to the client is closed. Open calls still
    /// run to their end.
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable>;
}

/// The client cannot be reached, so the item was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client cannot be reached")]
pub struct ClientUnreachable;

/// Delivers each item when it is due, until `stop` is cancelled. After the cancellation, delivers
/// all remaining items.
///
/// Items that the sink fails to deliver are counted. A permission request that cannot be delivered
/// is rejected.
pub async fn drive_session(
    session: SessionHandle,
    mut sink: impl OutboxSink,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = wait_for_sink_and_mark_stall(&session, &mut sink) => {}
            () = stop.cancelled() => break,
        }
        let (item, deadline) = session.poll_item_and_deadline();
        if let Some(item) = item {
            deliver_item(&session, &mut sink, item).await;
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
            () = session.wait_for_session_change() => {}
            () = stop.cancelled() => {}
        }
    }
    session.set_client_stalled(false);
    session.update(|session, now| session.make_all_items_due(now.monotonic));
    while let (Some(item), _) = session.poll_item_and_deadline() {
        deliver_item(&session, &mut sink, item).await;
    }
}

/// Waits for the sink. If the wait takes long, the client is marked as stalled, so that producers
/// of updates wait too.
async fn wait_for_sink_and_mark_stall(session: &SessionHandle, sink: &mut impl OutboxSink) {
    // A sink whose wait panics counts as ready.
    let ready = AssertUnwindSafe(async { sink.wait_until_ready().await }).catch_unwind();
    tokio::pin!(ready);
    if tokio::time::timeout(STALL_TIMEOUT, &mut ready).await.is_err() {
        session.set_client_stalled(true);
        drop(ready.await);
        session.set_client_stalled(false);
    }
}

/// Passes an item to the sink. A panic of the sink must not end the driver: the turns would go on,
/// but the client would not see their calls.
async fn deliver_item(session: &SessionHandle, sink: &mut impl OutboxSink, item: OutboxItem) {
    let before = AssertUnwindSafe(async { sink.before_deliver(&item).await });
    let is_prepared = before.catch_unwind().await.is_ok();
    let (request, reason) = match item {
        OutboxItem::PermissionRequest(id) => (Some(id), None),
        OutboxItem::RejectionReasonRequest(id) => (None, Some(id)),
        _ => (None, None),
    };
    // A panic of the sink is treated like a failed delivery.
    let is_delivered = is_prepared && matches!(catch_panic(|| sink.deliver(item)), Some(Ok(())));
    if !is_delivered {
        session.update(|session, _| session.record_undelivered_item());
        if let Some(id) = request {
            let gone = "the client cannot be reached".to_owned();
            session.answer_permission(id, crate::PermissionAnswer::Failed(gone));
        }
        if let Some(id) = reason {
            session.apply_rejection_reason(id, None);
        }
    }
}
