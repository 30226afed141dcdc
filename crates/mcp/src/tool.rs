//! A tool of a server, as a tool of the agent.

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::title::code_span_if_needed;
use acp_lifecycle::{Effect, Effects, ErasedPlan, Grant, PinnedPlan};
use acp_tools::{
    CallDescription, Context, DynTool, ErrorCode, Invocation, Note, Spec, ToolError, ToolOutput,
    ToolPreview,
};
use acp_types::{CallEndReason, Content};
use callboard_text::{escape_invisible, group_thousands};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{
    self, CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, CustomResult, JsonObject, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::Value;

use crate::client::ServerMessages;
use crate::definition::{FirstToolDefinition, ToolDefinition};
use crate::limits::{CLOSE_TIMEOUT, MAX_MESSAGE_BYTES};
use crate::oauth::{ServerLogin, call_login_error_text, http_answer_text, start_error_text};
use crate::requests::RunningCall;
use crate::result::{read_unknown_result, to_tool_output};

/// A tool of a server.
#[derive(Debug)]
pub(crate) struct McpTool {
    /// The name for the model.
    pub(crate) name: String,
    pub(crate) server: Arc<ServerConnection>,
    pub(crate) definition: Arc<ToolDefinition>,
    /// The first definition that the session received. `None` if the definition has not changed.
    pub(crate) earlier: Option<Arc<FirstToolDefinition>>,
}

/// The connection to a server.
pub(crate) struct ServerConnection {
    pub(crate) name: String,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) messages: ServerMessages,
    pub(crate) call_timeout: Duration,
    pub(crate) login: Option<Arc<ServerLogin>>,
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerConnection").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DynTool for McpTool {
    fn spec(&self) -> Spec {
        let ToolDefinition { description, kind, .. } = &*self.definition;
        let description: Cow<'static, str> = description.clone().into();
        Spec::new(self.name.clone(), description, *kind).with_title_message_key("mcp")
    }

    fn input_schema(&self) -> Value {
        self.definition.input_schema.clone()
    }

    fn describe(&self, args: &Value, _: &Context) -> Option<CallDescription> {
        let is_plain = args.as_object().is_some_and(JsonObject::is_empty);
        let description = CallDescription::new(if is_plain { "mcp-plain" } else { "mcp" })
            .with_argument("tool", &self.definition.name)
            .with_argument("server", &self.server.name);
        Some(match is_plain {
            true => description,
            false => description.with_argument("arguments", args.to_string()),
        })
    }

    fn preview<'a>(
        &'a self,
        args: Value,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>> {
        async move {
            let Value::Object(args) = args else {
                return Err(ToolError::invalid_arguments("The arguments are one JSON object."));
            };
            let effect = Effect::Mcp {
                server: self.server.name.clone(),
                tool: self.definition.name.clone(),
                definition: self.definition.digest.clone(),
            };
            let is_changed = match find_earlier_tool_permission(&effect, invocation) {
                EarlierToolPermission::AllowsThis => false,
                EarlierToolPermission::AllowsOther => true,
                EarlierToolPermission::None => self.earlier.is_some(),
            };
            let mut effects = Effects::from(effect);
            if self.definition.is_destructive || is_changed {
                effects = effects.with_high_risk_mark();
            }
            let mut preview = ToolPreview::new(Box::new(args) as ErasedPlan).with_effects(effects);
            preview.notes.extend(is_changed.then(|| self.change_note()));
            Ok(preview)
        }
        .boxed()
    }

    fn run<'a>(
        &'a self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        async move {
            let Ok(args) = pinned.release(grant)?.downcast::<JsonObject>() else {
                return Err(ToolError::fatal("a plan of another tool"));
            };
            self.server.call(&self.definition, *args, invocation).await
        }
        .boxed()
    }
}

impl McpTool {
    /// Returns a note about a tool whose definition has changed.
    fn change_note(&self) -> Note {
        let now = one_line_escaping_markdown(&self.definition.description);
        match &self.earlier {
            Some(earlier) if earlier.description != self.definition.description => {
                Note::new("mcp-description-changed")
                    .with_text("before", one_line_escaping_markdown(&earlier.description))
                    .with_text("now", now)
            }
            Some(_) => Note::new("mcp-schema-changed"),
            None => Note::new("mcp-changed").with_text("now", now),
        }
    }
}

/// Returns a text of a server on one line, in a code span if Markdown would interpret it, so that
/// no client renders its links and images.
fn one_line_escaping_markdown(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.is_empty() {
        true => "–".to_owned(),
        false => code_span_if_needed(&escape_invisible(&words.join(" "))),
    }
}

/// The remembered answer to an earlier question about a tool.
enum EarlierToolPermission {
    None,
    /// The user allowed the tool as it is now defined.
    AllowsThis,
    /// The user allowed the tool when it had another definition or another server.
    AllowsOther,
}

fn find_earlier_tool_permission(
    effect: &Effect,
    invocation: Invocation<'_>,
) -> EarlierToolPermission {
    let Effect::Mcp { server, tool, definition } = effect else {
        return EarlierToolPermission::None;
    };
    invocation.call.session().update(|session, _| {
        let mut found = EarlierToolPermission::None;
        for allowed in session.rules().exactly_allowed_effects() {
            match allowed {
                Effect::Mcp { server: s, tool: t, definition: d } if s == server && t == tool => {
                    if d == definition {
                        return EarlierToolPermission::AllowsThis;
                    }
                    found = EarlierToolPermission::AllowsOther;
                }
                _ => {}
            }
        }
        found
    })
}

/// Compares a result with the schema of the tool's results. Returns the first difference.
async fn result_schema_difference(
    definition: &ToolDefinition,
    result: &CallToolResult,
) -> Option<String> {
    let schema = definition.output_schema.as_ref()?;
    match &result.structured_content {
        // An error is a text, so it is not compared with the schema.
        _ if result.is_error == Some(true) => None,
        Some(result) => schema.first_difference(result).await,
        None => Some("there is no structured result".to_owned()),
    }
}

/// The error code with which a server answers a call if the tool needs a page that the user has not
/// finished yet.
const URL_ELICITATION_REQUIRED: model::ErrorCode = model::ErrorCode(-32042);

impl ServerConnection {
    async fn call(
        &self,
        definition: &ToolDefinition,
        args: JsonObject,
        Invocation { call, titles, .. }: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let tool = definition.name.as_str();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::default()).await;
        let sent = sent.map_err(|error| self.error(tool, &error))?;
        let request = sent.id.clone();
        let running = RunningCall::new(call.clone(), titles.clone(), request.clone());
        let route = self.messages.register_call(sent.progress_token.clone(), running);
        let mut answer = pin!(sent.await_response());
        // The timeout of the SDK is not used. After the timeout, the SDK would wait until the
        // server has read a notification.
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break Ok(answer),
                () = route.call.wait_for_progress() => {}
                () = call.cancel_token().cancelled() => {
                    let message = format!("{tool} of the server {} was cancelled.", self.name);
                    break Err(ToolError::recoverable(ErrorCode::Cancelled, message));
                }
                () = route.call.message_cut.cancelled() => break Err(self.cut_message_error(tool)),
                () = self.messages.wait_until_idle_for(self.call_timeout) => {
                    let elapsed = ServiceError::Timeout { timeout: self.call_timeout };
                    break Err(self.error(tool, &elapsed));
                }
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.cancel_request(request).await;
                return Err(error);
            }
        };
        let answer = answer.map(|answer| match answer {
            ServerResult::CustomResult(CustomResult(result)) => read_unknown_result(result),
            ServerResult::CallToolResult(result) => Some(result),
            _ => None,
        });
        match answer {
            Ok(Some(result)) => {
                let compared = call
                    .cancel_token()
                    .run_until_cancelled(result_schema_difference(definition, &result));
                let difference = compared.await.flatten();
                let mut output = to_tool_output(result);
                if let Some(content) = &mut output.content {
                    content.splice(0..0, route.call.take_notes());
                }
                if let Some(reason) = route.call.take_rejection_reason() {
                    output.text.push_str(&format!(
                        "\n[A request of the server to the model was rejected: {reason}]"
                    ));
                }
                if let Some(difference) = difference {
                    let text =
                        format!("The result of the server is not as its schema says: {difference}");
                    output.text.push_str(&format!("\n[{text}]"));
                    output.content.get_or_insert_default().push(Content::from_text(text));
                    output.failure = Some((ErrorCode::ServerError, CallEndReason::Error));
                }
                Ok(output)
            }
            Ok(None) => {
                let message =
                    format!("The server {} answered with no result of a tool.", self.name);
                Err(ToolError::recoverable(ErrorCode::ServerError, message))
            }
            Err(ServiceError::McpError(error)) if error.code == URL_ELICITATION_REQUIRED => {
                Err(self.show_required_pages(tool, &route.call, error).await)
            }
            Err(error) => Err(self.error(tool, &error)),
        }
    }

    /// Shows the pages that a tool requires to the user. Returns the error for the call.
    async fn show_required_pages(
        &self,
        tool: &str,
        running: &RunningCall,
        error: model::ErrorData,
    ) -> ToolError {
        let pages = error.data.as_ref().map(|data| &data["elicitations"]);
        let outcome = match self.messages.show_pages(running, pages).await {
            Some(true) => "was sent to a page. Call it again when the user has finished the page.",
            Some(false) => "did not agree to open the page.",
            None => return self.error(tool, &ServiceError::McpError(error)),
        };
        let message = format!("{tool} of the server {} needs the user, who {outcome}", self.name);
        ToolError::recoverable(ErrorCode::ServerError, message)
    }

    fn cut_message_error(&self, tool: &str) -> ToolError {
        let bytes = group_thousands(MAX_MESSAGE_BYTES as u64);
        let message = format!(
            "The server {} sent a message that is too large, so the result of {tool} may be lost. \
             The limit is {bytes} bytes.",
            self.name
        );
        ToolError::recoverable(ErrorCode::ServerError, message)
    }

    /// Sends a notification to the server that a request is cancelled. Does not wait for the server
    /// to end the request.
    async fn cancel_request(&self, request: RequestId) {
        let params = CancelledNotificationParam::new(Some(request), None);
        let notification = CancelledNotification::new(params);
        // Limit the time, because the server may have ended or may read nothing.
        let sent = self.peer.send_notification(notification.into());
        drop(tokio::time::timeout(CLOSE_TIMEOUT, sent).await);
    }

    pub(crate) fn error(&self, tool: &str, error: &ServiceError) -> ToolError {
        let server = &self.name;
        let login = self.login.as_ref();
        if let Some(text) = login.and_then(|login| call_login_error_text(server, login, error)) {
            return ToolError::recoverable(ErrorCode::ServerError, text);
        }
        match error {
            ServiceError::Timeout { timeout } => {
                let seconds = timeout.as_secs();
                let message = format!(
                    "{tool} of the server {server} gave no result and no progress for {seconds} s."
                );
                ToolError::recoverable(ErrorCode::TimedOut, message)
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                // An answer of the server concerns one request only. The connection, and the other
                // calls that use it, are not affected.
                if !self.peer.is_transport_closed()
                    && let Some(text) = http_answer_text(error)
                {
                    let message = format!("{tool} of the server {server} failed: {text}.");
                    return ToolError::recoverable(ErrorCode::ServerError, message);
                }
                self.messages.mark_connection_lost();
                let message = match (login, error) {
                    (None, _) => format!(
                        "The server {server} has ended. The user can start it again with /mcp \
                         restart {server}."
                    ),
                    (Some(login), ServiceError::TransportSend(_)) => format!(
                        "The connection to the server {server} has failed, and is opened again: {}.",
                        start_error_text(login, error)
                    ),
                    (Some(_), _) => format!(
                        "The connection to the server {server} has failed, and is opened again. The \
                         result of {tool} is lost."
                    ),
                };
                ToolError::recoverable(ErrorCode::ServerError, message)
            }
            ServiceError::McpError(error) => {
                let text = escape_invisible(&error.message);
                let message = format!("The server {server} answered with an error: {text}");
                ToolError::recoverable(ErrorCode::ServerError, message)
            }
            error => {
                let message = format!("{tool} of the server {server} failed: {error}");
                ToolError::recoverable(ErrorCode::ServerError, message)
            }
        }
    }
}
