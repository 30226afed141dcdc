//! Our side of a connection: what a server may ask of us and report to us.

#![expect(deprecated, reason = "servers ask for roots until the next version of the protocol")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use acp_lifecycle::CallHandle;
use acp_types::Progress;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorData, Implementation, ListRootsResult,
    ProgressNotificationParam, ProgressToken, Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::{Notify, watch};

use crate::lock::lock;

/// The part of a connection that handles the messages of the server. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct ServerMessages(Arc<MessageState>);

#[derive(Debug)]
struct MessageState {
    info: Implementation,
    /// The URIs of the project folders.
    roots: Vec<String>,
    calls: Mutex<HashMap<ProgressToken, (CallHandle, Arc<Notify>)>>,
    changes: watch::Sender<ToolChanges>,
}

/// The changes of a server's tools.
#[derive(Debug, Clone, Copy, Default)]
struct ToolChanges {
    /// Number of changes that the server has reported.
    reported: u64,
    /// Number of these changes that the last list of tools contains.
    listed: u64,
}

/// Passes the progress of a request to a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressRoute {
    messages: ServerMessages,
    token: ProgressToken,
    progressed: Arc<Notify>,
}

impl ProgressRoute {
    /// Waits for progress since the last call.
    pub(crate) async fn progressed(&self) {
        self.progressed.notified().await;
    }
}

impl ServerMessages {
    pub(crate) fn new(info: Implementation, roots: Vec<String>) -> Self {
        let (calls, changes) = Default::default();
        Self(Arc::new(MessageState { info, roots, calls, changes }))
    }

    /// Waits until the server has reported a change of its tools that is not listed.
    pub(crate) async fn tools_changed(&self) {
        let mut changes = self.0.changes.subscribe();
        // The sender lives as long as this value.
        drop(changes.wait_for(|changes| changes.reported != changes.listed).await);
    }

    /// Waits until all reported changes of the tools are listed.
    pub(crate) async fn changes_listed(&self) {
        let mut changes = self.0.changes.subscribe();
        drop(changes.wait_for(|changes| changes.reported == changes.listed).await);
    }

    /// Returns the number of changes of the tools that the server has reported.
    pub(crate) fn reported_changes(&self) -> u64 {
        self.0.changes.borrow().reported
    }

    /// Records that the current list of tools contains this number of changes.
    pub(crate) fn set_listed_changes(&self, listed: u64) {
        self.0.changes.send_modify(|changes| changes.listed = listed);
    }

    /// Passes the progress of a request to a call.
    pub(crate) fn route_progress(&self, token: ProgressToken, call: CallHandle) -> ProgressRoute {
        let progressed = Arc::<Notify>::default();
        lock(&self.0.calls).insert(token.clone(), (call, progressed.clone()));
        ProgressRoute { messages: self.clone(), token, progressed }
    }
}

impl Drop for ProgressRoute {
    fn drop(&mut self) {
        lock(&self.messages.0.calls).remove(&self.token);
    }
}

impl ClientHandler for ServerMessages {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(capabilities, self.0.info.clone())
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.0.roots.iter().map(Root::new).collect()))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let call = lock(&self.0.calls).get(&progress.progress_token).cloned();
        if let Some((call, progressed)) = call {
            progressed.notify_one();
            let reported = Progress::new(progress.progress).with_total(progress.total);
            call.report_progress(reported.with_message(progress.message));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changes.send_modify(|changes| changes.reported += 1);
    }
}
