//! Tests with a client that receives nothing. Items are queued and merged, producers wait, and the
//! remaining items are sent at the end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    ClientUnreachable, OutboxItem, OutboxSink, Session, SessionHandle, drive_session,
};
use acp_types::{MessageChunk, Role};
use pretty_assertions::assert_eq;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::performing::pass;

/// A client that receives items only while its gate is open.
struct Gated {
    is_open: watch::Receiver<bool>,
    taken: Arc<Mutex<Vec<OutboxItem>>>,
}

impl OutboxSink for Gated {
    async fn wait_until_ready(&mut self) {
        self.is_open.wait_for(|is_open| *is_open).await.unwrap();
    }

    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        self.taken.lock().unwrap().push(item);
        Ok(())
    }
}

fn say(session: &SessionHandle, text: &str) {
    let (role, message) = (Role::Agent, "m".to_owned());
    session.send_message_chunk(MessageChunk::new(role, message, text));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_a_stalled_client_and_producers_wait() {
    let session = SessionHandle::new(Session::new("/p"), SystemTime::now);
    let (gate, is_open) = watch::channel(false);
    let taken = Arc::<Mutex<Vec<OutboxItem>>>::default();
    let stop = CancellationToken::new();
    let sink = Gated { is_open, taken: taken.clone() };
    let driver = tokio::spawn(drive_session(session.clone(), sink, stop.clone()));
    let may_produce = async || {
        timeout(Duration::from_millis(1), session.wait_while_client_stalled()).await.is_ok()
    };

    ["a", "b"].iter().for_each(|text| say(&session, text));
    assert!(may_produce().await);
    pass(2).await;
    assert!(!may_produce().await);
    say(&session, "c");
    assert_eq!(taken.lock().unwrap().len(), 0);

    gate.send(true).unwrap();
    pass(1).await;
    assert!(may_produce().await);
    let texts = |taken: &Mutex<Vec<OutboxItem>>| -> Vec<String> {
        let taken = taken.lock().unwrap();
        let texts = taken.iter().filter_map(|item| match item {
            OutboxItem::Chunk(chunk) => Some(chunk.text.clone()),
            _ => None,
        });
        texts.collect()
    };
    assert_eq!(texts(&taken), ["abc"]);

    // Items that are queued when the driver is stopped are sent even if the sink is not ready.
    gate.send(false).unwrap();
    say(&session, "d");
    stop.cancel();
    driver.await.unwrap();
    assert_eq!(texts(&taken), ["abc", "d"]);
}
