//! Handles the messages of a server: its requests, its progress reports and its notifications.

#![expect(deprecated, reason = "servers ask for roots and replies until the next version")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use acp_lifecycle::Effect;
use acp_types::Progress;
use acp_types::json::serialized_len;
use acp_types::schema::v1::{ContentBlock, ElicitationAction, ElicitationSchema};
use callboard_text::{escape_invisible, head};
use rmcp::ClientHandler;
use rmcp::model::{
    self, ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    CustomNotification, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult,
    ProgressNotificationParam, ProgressToken, Role, Root, RootsCapabilities, SamplingCapability,
    SamplingMessage, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::config::McpServerConfig;
use crate::definition::short_digest;
use crate::limits::{
    MAX_ELICITATION_BYTES, MAX_FORM_BYTES, MAX_OPEN_PAGES, MAX_OPEN_REQUESTS, MAX_PAGE_URL_BYTES,
    MAX_REQUEST_NAME_BYTES, MAX_SAMPLING_BYTES, MAX_SAMPLING_TOKENS,
};
use crate::lock::lock;
use crate::requests::{
    HandlerSlot, McpClientCapabilities, McpElicitationMode, McpRequestHandler, McpSamplingMessage,
    McpSamplingRequest, RunningCall, SAMPLING,
};

/// The part of a connection that handles the messages of the server. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct ServerMessages(Arc<MessageState>);

struct MessageState {
    /// The name of the server.
    server: String,
    /// Identifies the server in permissions of its requests to the model.
    sampling_digest: String,
    agent: AgentSide,
    /// The calls that wait for the server. The newest call is the last one.
    calls: watch::Sender<Vec<(ProgressToken, Arc<RunningCall>)>>,
    changes: watch::Sender<ToolChanges>,
    /// The pages that the user was sent to. The key is the server's id of a page, and the value is
    /// our id.
    open_pages: Mutex<BTreeMap<String, String>>,
    /// Cancelled when a message could not be sent.
    lost: CancellationToken,
    /// Limits the requests that are handled at the same time.
    request_limit: Semaphore,
    /// Number of unanswered requests of the server to the user and to the model.
    open_requests: watch::Sender<usize>,
    /// Locked while a request is answered, so that the user sees only one question at a time.
    answering: tokio::sync::Mutex<()>,
}

/// The data of the agent that all servers of a session share.
#[derive(Clone)]
pub(crate) struct AgentSide {
    pub(crate) info: Implementation,
    /// The URIs of the project folders.
    pub(crate) roots: Vec<String>,
    pub(crate) capabilities: McpClientCapabilities,
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

/// Passes the progress and the requests of a server to a call. When this value is dropped, nothing
/// more is passed to the call.
#[derive(Debug)]
pub(crate) struct CallRoute {
    messages: ServerMessages,
    token: ProgressToken,
    pub(crate) call: Arc<RunningCall>,
}

impl ServerMessages {
    pub(crate) fn new(config: &McpServerConfig, agent: AgentSide) -> Self {
        let (server, sampling_digest) =
            (config.name.clone(), short_digest(&config.identity_for_permissions()));
        let (calls, changes, open_pages, lost) = Default::default();
        let (request_limit, open_requests) =
            (Semaphore::new(MAX_OPEN_REQUESTS), Default::default());
        Self(Arc::new(MessageState {
            server,
            sampling_digest,
            agent,
            calls,
            changes,
            open_pages,
            lost,
            request_limit,
            open_requests,
            answering: Default::default(),
        }))
    }

    /// Waits until the server has reported a change of its tools that the current list does not
    /// contain.
    pub(crate) async fn wait_for_unlisted_tool_changes(&self) {
        let mut changes = self.0.changes.subscribe();
        // The sender lives as long as this value.
        drop(changes.wait_for(|changes| changes.reported != changes.listed).await);
    }

    /// Waits until the list of tools contains all changes that were reported before this call.
    pub(crate) async fn wait_until_changes_listed(&self) {
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

    /// Registers a call. Progress with this token, and requests of the server, are passed to the
    /// call.
    pub(crate) fn register_call(&self, token: ProgressToken, call: RunningCall) -> CallRoute {
        let call = Arc::new(call);
        self.0.calls.send_modify(|calls| calls.push((token.clone(), call.clone())));
        CallRoute { messages: self.clone(), token, call }
    }

    /// Records that a message could not be sent. The server has then probably ended.
    pub(crate) fn mark_connection_lost(&self) {
        self.0.lost.cancel();
    }

    /// Waits until a message could not be sent.
    pub(crate) async fn wait_until_connection_lost(&self) {
        self.0.lost.cancelled().await;
    }

    /// Returns whether a message could not be sent.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.lost.is_cancelled()
    }

    /// Informs all calls that a message was too large and was cut. This message may be the result
    /// of any of them.
    pub(crate) fn report_cut_message(&self) {
        self.0.calls.borrow().iter().for_each(|(_, call)| call.message_cut.cancel());
    }

    /// Waits until the server has had no open request for this time.
    pub(crate) async fn wait_until_idle_for(&self, time: Duration) {
        let mut open = self.0.open_requests.subscribe();
        loop {
            // The sender lives as long as this value.
            drop(open.wait_for(|open| *open == 0).await);
            if tokio::time::timeout(time, open.wait_for(|open| *open > 0)).await.is_err() {
                return;
            }
        }
    }

    /// Answers a request of the server while a call runs. Returns `None` if no call runs, if no
    /// handler is set, if there are too many requests, or if the server cancels the request. The
    /// arguments of `answer` are the call, whether the request certainly belongs to this call, and
    /// the handler.
    async fn answer_while_call_runs<T, F: Future<Output = T> + Send>(
        &self,
        context: &RequestContext<RoleClient>,
        answer: impl FnOnce(Arc<RunningCall>, bool, Arc<dyn McpRequestHandler>) -> F + Send,
    ) -> Option<T> {
        let (call, is_certain) = self.asking_call(context)?;
        let handler = self.0.agent.handler.get()?.upgrade()?;
        let _permit = self.0.request_limit.try_acquire().ok()?;
        if !call.count_request() {
            return None;
        }
        let _open = OpenRequestGuard::new(&self.0.open_requests);
        let over = async {
            match is_certain {
                true => call.ended.cancelled().await,
                // The sender lives as long as this value.
                false => drop(self.0.calls.subscribe().wait_for(Vec::is_empty).await),
            }
        };
        let in_turn = async {
            let _one = self.0.answering.lock().await;
            answer(call.clone(), is_certain, handler).await
        };
        tokio::select! {
            biased;
            () = over => None,
            () = context.ct.cancelled() => None,
            answer = in_turn => Some(answer),
        }
    }

    /// Returns the call to which a request belongs, and whether this is certain. Over standard
    /// streams, the protocol does not state to which call a request belongs. In this case, the
    /// oldest call is returned, because many servers run one call after the other.
    fn asking_call(
        &self,
        context: &RequestContext<RoleClient>,
    ) -> Option<(Arc<RunningCall>, bool)> {
        let calls = self.0.calls.borrow();
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = context.extensions.get()
            && let Some((_, call)) = calls.iter().find(|(_, call)| call.request == *id)
        {
            return Some((call.clone(), true));
        }
        Some((calls.first()?.1.clone(), calls.len() == 1))
    }

    /// Sends the user to the pages that a failed call needs. Returns whether the user agrees to
    /// open all of them, or `None` if they cannot be shown.
    pub(crate) async fn show_pages(
        &self,
        call: &RunningCall,
        pages: Option<&Value>,
    ) -> Option<bool> {
        let pages = pages.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if pages.is_empty() || pages.len() > MAX_OPEN_REQUESTS {
            return None;
        }
        let handler = self.0.agent.handler.get().and_then(Weak::upgrade)?;
        for page in pages {
            let (message, mode) =
                convert(page).and_then(|request| self.elicitation_mode(request))?;
            let _open = OpenRequestGuard::new(&self.0.open_requests);
            let question = (&*self.0.server, head(&message, MAX_ELICITATION_BYTES));
            let asked = async {
                let _one = self.0.answering.lock().await;
                call.elicit(&*handler, true, question, mode).await
            };
            let answer = call.ended.run_until_cancelled(asked).await;
            if !matches!(answer, Some(ElicitationAction::Accept(_))) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns our id of a page. The id is stored until the server reports that the user has
    /// finished the page.
    fn assign_open_page_id(&self, id: String) -> String {
        static PAGES: AtomicU64 = AtomicU64::new(0);
        let own_id = format!("mcp-page-{}", PAGES.fetch_add(1, Ordering::Relaxed));
        let mut pages = lock(&self.0.open_pages);
        if pages.len() < MAX_OPEN_PAGES && id.len() <= MAX_REQUEST_NAME_BYTES {
            pages.insert(id, own_id.clone());
        }
        own_id
    }

    /// Returns the message and the mode of a question. Returns `None` if the question cannot be
    /// shown.
    fn elicitation_mode(
        &self,
        request: ElicitRequestParams,
    ) -> Option<(String, McpElicitationMode)> {
        let capabilities = self.0.agent.capabilities;
        match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }
                if capabilities.forms && serialized_len(&requested_schema) <= MAX_FORM_BYTES =>
            {
                Some((message, McpElicitationMode::Form(to_elicitation_schema(&requested_schema)?)))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. }
                if capabilities.pages && url.len() <= MAX_PAGE_URL_BYTES =>
            {
                let url = Url::parse(&url).ok()?;
                // The user decides by the host of the URL. A user name in the URL could look like
                // the host, so such a URL is refused.
                let is_page = matches!(url.scheme(), "https" | "http")
                    && url.username().is_empty()
                    && url.password().is_none();
                let page = |id| McpElicitationMode::Page { id, url: url.to_string() };
                is_page.then(|| (message, page(self.assign_open_page_id(elicitation_id))))
            }
            _ => None,
        }
    }
}

impl Drop for CallRoute {
    fn drop(&mut self) {
        self.call.ended.cancel();
        let calls = &self.messages.0.calls;
        calls.send_modify(|calls| calls.retain(|(token, _)| *token != self.token));
    }
}

/// Counts an open request of a server. Dropping this value reduces the number again.
struct OpenRequestGuard<'a>(&'a watch::Sender<usize>);

impl<'a> OpenRequestGuard<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|open| *open += 1);
        Self(count)
    }
}

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl ClientHandler for ServerMessages {
    fn get_info(&self) -> ClientConfig {
        let AgentSide { info, capabilities: of_agent, .. } = &self.0.agent;
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.sampling = of_agent.sampling.then(SamplingCapability::default);
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = of_agent.forms.then(FormElicitationCapability::default);
        elicitation.url = of_agent.pages.then(UrlElicitationCapability::default);
        capabilities.elicitation = (of_agent.forms || of_agent.pages).then_some(elicitation);
        ClientConfig::new(capabilities, info.clone())
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.0.agent.roots.iter().map(root).collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some((message, mode)) = self.elicitation_mode(request) else {
            let why = match self.0.agent.capabilities.forms {
                true => "This question cannot be shown.",
                false => "The client of the agent has no forms.",
            };
            return Err(ErrorData::invalid_params(why, None));
        };
        let message = head(&message, MAX_ELICITATION_BYTES);
        let server = &self.0.server;
        let answer =
            self.answer_while_call_runs(&context, |call, is_certain, handler| async move {
                call.elicit(&*handler, is_certain, (server, message), mode).await
            });
        let answer = match answer.await {
            Some(ElicitationAction::Accept(accepted)) => {
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
        if !self.0.agent.capabilities.sampling || serialized_len(&request) > MAX_SAMPLING_BYTES {
            return Err(refused("Such a request to the model is not supported.".to_owned()));
        }
        let request = sampling(request).ok_or_else(|| {
            refused("Only texts, images and audio can be sent to the model.".to_owned())
        })?;
        let effect = Effect::Mcp {
            server: self.0.server.clone(),
            tool: SAMPLING.to_owned(),
            definition: self.0.sampling_digest.clone(),
        };
        let sample = self.answer_while_call_runs(&context, |call, _, handler| async move {
            call.sample(&*handler, effect, request).await
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
        let is_of = |(token, _): &&(ProgressToken, _)| *token == progress.progress_token;
        let call = self.0.calls.borrow().iter().find(is_of).map(|(_, call)| call.clone());
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
        let id = id.and_then(|id| lock(&self.0.open_pages).remove(id));
        let handler = self.0.agent.handler.get().and_then(Weak::upgrade);
        if let Some((id, handler)) = id.zip(handler) {
            handler.elicitation_completed(&id);
        }
    }
}

const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// Returns a project folder with its name.
fn root(uri: &String) -> Root {
    let root = Root::new(uri);
    let url = Url::parse(uri).ok();
    let name = url.as_ref().and_then(|url| url.path_segments()?.next_back());
    match name {
        Some(name) if !name.is_empty() => root.with_name(name),
        _ => root,
    }
}

/// Converts a form. Forms have the same format in MCP and ACP, except for `enumNames`, an older
/// format of labels. Invisible characters in texts are escaped. Returns `None` if the form has
/// names or values with invisible characters.
fn to_elicitation_schema(schema: &impl Serialize) -> Option<ElicitationSchema> {
    let mut schema = serde_json::to_value(schema).ok()?;
    for property in schema["properties"].as_object_mut()?.values_mut() {
        let (Some(values), Some(labels)) =
            (property["enum"].as_array(), property["enumNames"].as_array())
        else {
            continue;
        };
        let options = values.iter().zip(labels);
        let options = options.map(|(value, title)| json!({ "const": value, "title": title }));
        property["oneOf"] = options.collect();
        let fields = property.as_object_mut()?;
        fields.remove("enum");
        fields.remove("enumNames");
    }
    escape_invisible_in_form(&mut schema, false).then(|| serde_json::from_value(schema).ok())?
}

/// Escapes invisible characters in the titles and descriptions of a form. Returns `false` if any
/// other string contains invisible characters.
fn escape_invisible_in_form(part: &mut Value, is_text: bool) -> bool {
    match part {
        Value::String(text) => {
            let visible = escape_invisible(text);
            let is_visible = visible == *text;
            *text = visible;
            is_text || is_visible
        }
        Value::Array(items) => items.iter_mut().all(|item| escape_invisible_in_form(item, false)),
        Value::Object(fields) => fields.iter_mut().all(|(name, value)| {
            let is_text = matches!(&**name, "title" | "description");
            escape_invisible(name) == *name && escape_invisible_in_form(value, is_text)
        }),
        _ => true,
    }
}

/// Converts a request to the model. Returns `None` if the request has content other than texts,
/// images and audio.
fn sampling(request: CreateMessageRequestParams) -> Option<McpSamplingRequest> {
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
    Some(McpSamplingRequest {
        system: request.system_prompt,
        messages: request.messages.into_iter().map(message).collect::<Option<_>>()?,
        max_tokens: request.max_tokens.clamp(1, MAX_SAMPLING_TOKENS),
    })
}

/// Converts a value between MCP and ACP. The value must have the same JSON in both protocols.
fn convert<T: serde::de::DeserializeOwned>(value: &impl Serialize) -> Option<T> {
    serde_json::to_value(value).ok().and_then(|value| serde_json::from_value(value).ok())
}

impl std::fmt::Debug for MessageState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MessageState").field("server", &self.server).finish_non_exhaustive()
    }
}
