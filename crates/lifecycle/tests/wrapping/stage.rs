//! A session with a client that answers as configured. A client state validates everything that
//! the client receives.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    ClientUnreachable, OutboxItem, OutboxSink, PermissionAnswer, PermissionId, Session,
    SessionHandle, drive_session,
};
use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::RequestPermissionRequest;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{CallEndReason, CallMeta, ToolCallReport};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Everything that the client has received.
#[derive(Debug, Default)]
pub(crate) struct ReceivedByClient {
    pub(crate) client_state: V1ClientState,
    pub(crate) asked: Vec<RequestPermissionRequest>,
    pub(crate) ids: Vec<PermissionId>,
}

/// A session and its client.
pub(crate) struct Stage {
    pub(crate) session: SessionHandle,
    pub(crate) cancel: CancellationToken,
    pub(crate) received: Arc<Mutex<ReceivedByClient>>,
}

impl Stage {
    /// Opens a session whose client selects `option` for every permission request. If `option` is
    /// `None`, the client never answers.
    pub(crate) fn new(option: Option<&'static str>) -> Self {
        let session = SessionHandle::new(Session::new("/p"), SystemTime::now);
        let received = Arc::<Mutex<ReceivedByClient>>::default();
        let client = Client {
            session: session.clone(),
            sent: V1Projection::new(TerminalDisplay::Text),
            received: received.clone(),
            option,
        };
        drop(tokio::spawn(drive_session(session.clone(), client, CancellationToken::new())));
        Self { session, cancel: CancellationToken::new(), received }
    }

    /// Returns the document of a call that has ended.
    pub(crate) fn ended(&self, id: &str) -> ToolCallReport {
        let ended = self
            .session
            .update(|session, _| session.board().history().get(&id.to_owned().into()).cloned());
        ended.expect("it has ended")
    }

    /// Ends the turn, asserts that no protocol rule was violated, and returns the client's state of
    /// a call.
    pub(crate) async fn shown(&self, id: &str) -> (Value, CallMeta) {
        self.session.end_turn(&"t".into(), CallEndReason::Turn);
        pass(9_000).await;
        let mut received = self.received.lock().unwrap();
        received.client_state.check_calls_ended();
        assert_eq!(received.client_state.violations(), []);
        let call =
            serde_json::to_value(received.client_state.observed_call(id).expect("it was told"))
                .unwrap();
        let meta = serde_json::from_value(call["_meta"]["callboard"].clone()).unwrap();
        (call, meta)
    }
}

/// Advances the paused time after every other task has become idle.
pub(crate) async fn pass(millis: u64) {
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(Duration::from_millis(millis), nothing).await);
}

struct Client {
    session: SessionHandle,
    sent: V1Projection,
    received: Arc<Mutex<ReceivedByClient>>,
    option: Option<&'static str>,
}

impl OutboxSink for Client {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        let mut received = self.received.lock().unwrap();
        match item {
            OutboxItem::ToolCall(id, patch) => {
                let updates = self.sent.updates_for_call_patch(&id, patch);
                updates
                    .iter()
                    .for_each(|update| received.client_state.apply_session_update(update));
            }
            OutboxItem::Terminal(id, patch) => {
                let updates = self.sent.updates_for_terminal_patch(&id, &patch);
                updates
                    .iter()
                    .for_each(|update| received.client_state.apply_session_update(update));
            }
            OutboxItem::PermissionRequest(number) => {
                received.ids.push(number);
                let request = self.session.pending_permission_request(number).expect("it waits");
                let request = self.sent.permission_request_for_call(
                    "s".into(),
                    &request.call,
                    request.options,
                );
                let request = request.expect("its call was told");
                received.client_state.apply_permission_request(&request);
                received.asked.push(request);
                if let Some(option) = self.option {
                    let answer =
                        PermissionAnswer::Selected { option_id: option.to_owned(), reason: None };
                    self.session.answer_permission(number, answer);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
