//! Our side of a connection: what a server may ask of us and report to us.

#![expect(deprecated, reason = "servers ask for roots and replies until the next version")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

use acp_types::Progress;
use acp_types::json::serialized_len;
use acp_types::schema::v1::{ContentBlock, ElicitationAction};
use callboard_text::head;
use rmcp::ClientHandler;
use rmcp::model::{
    self, ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    CustomNotification, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult,
    ProgressNotificationParam, ProgressToken, Role, Root, RootsCapabilities, SamplingCapability,
    SamplingMessage, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use url::Url;

use crate::limits::{
    MAX_ELICITATION_BYTES, MAX_FORM_BYTES, MAX_OPEN_PAGES, MAX_OPEN_REQUESTS, MAX_PAGE_URL_BYTES,
    MAX_SAMPLING_BYTES, MAX_SAMPLING_TOKENS,
};
use crate::lock::lock;
use crate::requests::{
    HandlerSlot, McpElicitationMode, McpRequestHandler, McpRequestSupport, McpSampling,
    McpSamplingMessage, RunningCall,
};

/// The part of a connection that handles the messages of the server. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct ServerMessages(Arc<MessageState>);

struct MessageState {
    /// The name of the server.
    server: String,
    agent: AgentSide,
    /// The calls that wait for the server, the newest last.
    calls: Mutex<Vec<(ProgressToken, Arc<RunningCall>)>>,
    changes: watch::Sender<ToolChanges>,
    /// The ids of the pages that the user was sent to.
    open_pages: Mutex<BTreeSet<String>>,
    /// Limits the requests that are handled at the same time.
    open_requests: Semaphore,
}

/// The side of the agent, which is the same for all servers of a session.
#[derive(Clone)]
pub(crate) struct AgentSide {
    pub(crate) info: Implementation,
    /// The URIs of the project folders.
    pub(crate) roots: Vec<String>,
    pub(crate) support: McpRequestSupport,
    pub(crate) handler: HandlerSlot,
}

/// The changes of a server's tools.
#[derive(Debug, Clone, Copy, Default)]
struct ToolChanges {
    /// Number of changes that the server has reported.
    reported: u64,
    /// Number of these changes that the last list of tools contains.
    listed: u64,
}

/// Passes the progress and the requests of a server to a call, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallRoute {
    messages: ServerMessages,
    token: ProgressToken,
    pub(crate) call: Arc<RunningCall>,
}

impl ServerMessages {
    pub(crate) fn new(server: String, agent: AgentSide) -> Self {
        let (calls, changes, open_pages) = Default::default();
        let open_requests = Semaphore::new(MAX_OPEN_REQUESTS);
        Self(Arc::new(MessageState { server, agent, calls, changes, open_pages, open_requests }))
    }

    /// Waits until the server has reported a change of its tools that is not listed.
    pub(crate) async fn tools_changed(&self) {
        let mut changes = self.0.changes.subscribe();
        // The sender lives as long as this value.
        drop(changes.wait_for(|changes| changes.reported != changes.listed).await);
    }

    /// Waits until the changes of the tools that are reported now are listed.
    pub(crate) async fn changes_listed(&self) {
        let mut changes = self.0.changes.subscribe();
        let reported = changes.borrow().reported;
        drop(changes.wait_for(|changes| changes.listed >= reported).await);
    }

    /// Returns the number of changes of the tools that the server has reported.
    pub(crate) fn reported_changes(&self) -> u64 {
        self.0.changes.borrow().reported
    }

    /// Records that the current list of tools contains this number of changes.
    pub(crate) fn set_listed_changes(&self, listed: u64) {
        self.0.changes.send_modify(|changes| changes.listed = listed);
    }

    /// Passes the progress of a request, and the requests of the server, to a call.
    pub(crate) fn route_to_call(&self, token: ProgressToken, call: RunningCall) -> CallRoute {
        let call = Arc::new(call);
        lock(&self.0.calls).push((token.clone(), call.clone()));
        CallRoute { messages: self.clone(), token, call }
    }

    /// Reports to all calls that a message was cut, which may be their result.
    pub(crate) fn report_cut_message(&self) {
        lock(&self.0.calls).iter().for_each(|(_, call)| call.message_cut.cancel());
    }

    /// Answers a request of the server during the newest of its calls. Returns `None` if no call is
    /// running, if nothing can answer, or if the request was withdrawn.
    async fn answer<T, F: Future<Output = T> + Send>(
        &self,
        context: &RequestContext<RoleClient>,
        answer: impl FnOnce(Arc<RunningCall>, Arc<dyn McpRequestHandler>) -> F + Send,
    ) -> Option<T> {
        // The protocol does not say to which call a request belongs.
        let call = lock(&self.0.calls).last()?.1.clone();
        let handler = self.0.agent.handler.get()?.upgrade()?;
        let _permit = self.0.open_requests.try_acquire().ok()?;
        call.answer(&context.ct, answer(call.clone(), handler)).await
    }

    /// Converts the mode of a question. Returns `None` if it cannot be shown.
    fn elicitation_mode(
        &self,
        request: ElicitRequestParams,
    ) -> Option<(String, McpElicitationMode)> {
        let support = self.0.agent.support;
        match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }
                if support.forms && serialized_len(&requested_schema) <= MAX_FORM_BYTES =>
            {
                // The forms of MCP are forms of ACP.
                Some((message, McpElicitationMode::Form(convert(&requested_schema)?)))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. }
                if support.pages && url.len() <= MAX_PAGE_URL_BYTES =>
            {
                let scheme = Url::parse(&url).ok()?.scheme().to_owned();
                let id = format!("mcp/{}/{}", self.0.server, head(&elicitation_id, 128));
                let is_page = matches!(&*scheme, "https" | "http");
                is_page.then_some((message, McpElicitationMode::Page { id, url }))
            }
            _ => None,
        }
    }
}

impl Drop for CallRoute {
    fn drop(&mut self) {
        self.call.ended.cancel();
        lock(&self.messages.0.calls).retain(|(token, _)| *token != self.token);
    }
}

impl ClientHandler for ServerMessages {
    fn get_info(&self) -> ClientConfig {
        let AgentSide { info, support, .. } = &self.0.agent;
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.sampling = support.sampling.then(SamplingCapability::default);
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = support.forms.then(FormElicitationCapability::default);
        elicitation.url = support.pages.then(UrlElicitationCapability::default);
        capabilities.elicitation = (support.forms || support.pages).then_some(elicitation);
        ClientConfig::new(capabilities, info.clone())
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.0.agent.roots.iter().map(Root::new).collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some((message, mode)) = self.elicitation_mode(request) else {
            return Err(ErrorData::invalid_params("This question cannot be shown.", None));
        };
        let page = match &mode {
            McpElicitationMode::Page { id, .. } => Some(id.clone()),
            McpElicitationMode::Form(_) => None,
        };
        let message = head(&message, MAX_ELICITATION_BYTES);
        let server = &self.0.server;
        let answer = self.answer(&context, |call, handler| async move {
            call.elicit(&*handler, server, message, mode).await
        });
        let answer = match answer.await {
            Some(ElicitationAction::Accept(accepted)) => {
                if let Some(id) = page {
                    let mut pages = lock(&self.0.open_pages);
                    if pages.len() < MAX_OPEN_PAGES {
                        pages.insert(id);
                    }
                }
                let mut result = ElicitResult::new(model::ElicitationAction::Accept);
                result.content = accepted.content.and_then(|content| convert(&content));
                result
            }
            Some(ElicitationAction::Decline) => {
                ElicitResult::new(model::ElicitationAction::Decline)
            }
            _ => ElicitResult::new(model::ElicitationAction::Cancel),
        };
        Ok(answer)
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |why: String| ErrorData::new(ErrorCode::INVALID_REQUEST, why, None);
        if !self.0.agent.support.sampling || serialized_len(&request) > MAX_SAMPLING_BYTES {
            return Err(refused("Such a request to the model is not supported.".to_owned()));
        }
        let request = sampling(request).ok_or_else(|| {
            refused("Only texts, images and audio can be sent to the model.".to_owned())
        })?;
        let server = &self.0.server;
        let sample = self.answer(&context, |call, handler| async move {
            call.sample(&*handler, server, request).await
        });
        let sample = sample.await.unwrap_or_else(|| {
            Err("The model can only be asked while one of the server's tools runs.".to_owned())
        });
        let sample = sample.map_err(refused)?;
        let message = SamplingMessage::new(
            Role::Assistant,
            model::SamplingMessageContentBlock::text(sample.text),
        );
        let mut result = CreateMessageResult::new(message, sample.model);
        let stop = match sample.is_truncated {
            true => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
            false => CreateMessageResult::STOP_REASON_END_TURN,
        };
        result.stop_reason = Some(stop.to_owned());
        Ok(result)
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let token = &progress.progress_token;
        let find = |calls: &Vec<(ProgressToken, Arc<RunningCall>)>| {
            calls.iter().find(|(of, _)| of == token).map(|(_, call)| call.clone())
        };
        let call = find(&lock(&self.0.calls));
        if let Some(call) = call {
            let reported = Progress::new(progress.progress).with_total(progress.total);
            call.report_progress(reported.with_message(progress.message));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changes.send_modify(|changes| changes.reported += 1);
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        if notification.method != ELICITATION_COMPLETE {
            return;
        }
        let id = notification.params.as_ref().and_then(|params| params["elicitationId"].as_str());
        let id = format!("mcp/{}/{}", self.0.server, head(id.unwrap_or_default(), 128));
        let was_open = lock(&self.0.open_pages).remove(&id);
        if was_open && let Some(handler) = self.0.agent.handler.get().and_then(Weak::upgrade) {
            handler.elicitation_completed(&id);
        }
    }
}

const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// Converts a request to the model. Returns `None` if it has content that is not sent to a model.
fn sampling(request: CreateMessageRequestParams) -> Option<McpSampling> {
    let message = |message: SamplingMessage| {
        let blocks = match convert::<Value>(&message.content)? {
            Value::Array(blocks) => blocks,
            block => vec![block],
        };
        let blocks = blocks.into_iter().map(|block| serde_json::from_value(block).ok());
        let content: Vec<_> = blocks.collect::<Option<_>>()?;
        let is_prompt = |block: &ContentBlock| {
            matches!(block, ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::Audio(_))
        };
        let is_reply = message.role == Role::Assistant;
        content.iter().all(is_prompt).then_some(McpSamplingMessage { is_reply, content })
    };
    Some(McpSampling {
        system: request.system_prompt,
        messages: request.messages.into_iter().map(message).collect::<Option<_>>()?,
        max_tokens: request.max_tokens.clamp(1, MAX_SAMPLING_TOKENS),
    })
}

/// Converts a value by its JSON, which has the same form in MCP and ACP.
fn convert<T: serde::de::DeserializeOwned>(value: &impl Serialize) -> Option<T> {
    serde_json::to_value(value).ok().and_then(|value| serde_json::from_value(value).ok())
}

impl std::fmt::Debug for MessageState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MessageState").field("server", &self.server).finish_non_exhaustive()
    }
}
