//! Answers the requests of MCP servers: questions to the user become forms of the client
//! (`elicitation/create`), and requests to the model go to the model of the session.
//!
//! (<https://agentclientprotocol.com/protocol/elicitation>)

use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

use acp_connection::{ClientRequestSender, ClientSession};
use acp_lifecycle::CallHandle;
use acp_mcp::{
    McpElicitation, McpElicitationMode, McpRequestHandler, McpSamplingMessage, McpSamplingReply,
    McpSamplingRequest,
};
use agent_client_protocol::v1::schema::{
    CompleteElicitationNotification, CreateElicitationRequest, ElicitationAction,
    ElicitationFormMode, ElicitationSessionScope, ElicitationUrlMode, SessionId,
};
use callboard_models::{
    ChatMessage, ContentPart, ModelCapabilities, ModelEvent, ModelRequest, ModelStopReason,
    ReplyStream, TokenUsage,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::limits::{ELICITATION_TIMEOUT, MAX_SAMPLE_BYTES};
use crate::offered_tools::OfferedTools;
use crate::options::SessionOptions;
use crate::prompt;
use crate::retry::next_event_within_idle_timeout;
use crate::secrets::LiveSecrets;

/// Answers the requests of the servers of one session.
pub(crate) struct ServerRequestHandler {
    session: SessionId,
    requests: ClientRequestSender,
    options: Arc<SessionOptions>,
    tools: Arc<OfferedTools>,
    secrets: LiveSecrets,
}

impl ServerRequestHandler {
    /// Connects the servers of a session with its client and its model, for as long as the returned
    /// value lives.
    pub(crate) fn connect(
        client: &ClientSession,
        options: &Arc<SessionOptions>,
        tools: &Arc<OfferedTools>,
        secrets: &LiveSecrets,
    ) -> Arc<Self> {
        let connected = Arc::new(Self {
            session: client.id().clone(),
            requests: client.request_sender().clone(),
            options: options.clone(),
            tools: tools.clone(),
            secrets: secrets.clone(),
        });
        if let Some(servers) = tools.servers() {
            let handler: Weak<Self> = Arc::downgrade(&connected);
            servers.set_request_handler(handler);
        }
        connected
    }

    async fn sample(&self, request: McpSamplingRequest) -> Result<McpSamplingReply, String> {
        let options = self.options.active_options();
        if options.capabilities.commands {
            return Err("There is no model.".to_owned());
        }
        let messages = request.messages.into_iter();
        let messages = messages.map(|message| chat_message(message, &options.capabilities).into());
        let mut model_request = ModelRequest::new(Arc::new(messages.collect()));
        model_request.system = request.system.unwrap_or_default().into();
        model_request.max_tokens = NonZeroU32::new(request.max_tokens);
        model_request.effort = options.effort;
        let reply = options.model.reply(model_request);
        let mut sample = McpSamplingReply::new(options.model.name(), "");
        let mut usage = AddUsageOnDrop { tools: &self.tools, usage: None };
        read_reply_into_sample(reply, &mut sample, &mut usage).await.map(|()| sample)
    }
}

/// The tokens of a reply, which are counted even if the request is withdrawn.
struct AddUsageOnDrop<'a> {
    tools: &'a OfferedTools,
    usage: Option<TokenUsage>,
}

impl Drop for AddUsageOnDrop<'_> {
    fn drop(&mut self) {
        self.usage.iter().for_each(|usage| self.tools.add_sampling_usage(usage));
    }
}

/// Receives a reply to its end, so that its tokens are known.
async fn read_reply_into_sample(
    mut reply: ReplyStream,
    sample: &mut McpSamplingReply,
    usage: &mut AddUsageOnDrop<'_>,
) -> Result<(), String> {
    loop {
        match next_event_within_idle_timeout(&mut reply).await {
            Ok(ModelEvent::Text(text)) if !sample.is_truncated => {
                sample.text.push_str(&text);
                sample.is_truncated = sample.text.len() > MAX_SAMPLE_BYTES;
                sample.text.truncate(sample.text.floor_char_boundary(MAX_SAMPLE_BYTES));
            }
            Ok(ModelEvent::Usage(used)) => usage.usage = Some(used),
            Ok(ModelEvent::Stop(ModelStopReason::Refusal)) => {
                return Err("The model refuses to answer.".to_owned());
            }
            Ok(ModelEvent::Stop(reason)) => {
                sample.is_truncated |= reason == ModelStopReason::MaxTokens;
                return Ok(());
            }
            Ok(ModelEvent::Error(error)) | Err(error) => {
                return Err(format!("The model failed: {error}."));
            }
            Ok(_) => {}
        }
    }
}

fn chat_message(message: McpSamplingMessage, capabilities: &ModelCapabilities) -> ChatMessage {
    let parts = prompt::parts_from_blocks(message.content, capabilities);
    if !message.is_reply {
        return ChatMessage::User(parts);
    }
    let texts = parts.into_iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    ChatMessage::Assistant { text, thought: String::new(), calls: Vec::new(), replay: None }
}

impl McpRequestHandler for ServerRequestHandler {
    fn elicit<'a>(
        &'a self,
        call: Option<&'a CallHandle>,
        elicitation: McpElicitation,
    ) -> BoxFuture<'a, ElicitationAction> {
        let scope = ElicitationSessionScope::new(self.session.clone());
        let scope = scope.tool_call_id(call.map(|call| call.id().clone()));
        let message = self.secrets.current().redact(&elicitation.message).into_owned();
        let request = match elicitation.mode {
            McpElicitationMode::Form(form) => {
                CreateElicitationRequest::new(ElicitationFormMode::new(scope, form), message)
            }
            McpElicitationMode::Page { id, url } => {
                CreateElicitationRequest::new(ElicitationUrlMode::new(scope, id, url), message)
            }
        };
        let asked = self.requests.send_and_wait(request, ELICITATION_TIMEOUT);
        let action = asked.map(|answer| answer.map_or(ElicitationAction::Cancel, |it| it.action));
        action.boxed()
    }

    fn elicitation_completed(&self, id: &str) {
        self.requests.send_notification_now(CompleteElicitationNotification::new(id.to_owned()));
    }

    fn sample<'a>(
        &'a self,
        request: McpSamplingRequest,
    ) -> BoxFuture<'a, Result<McpSamplingReply, String>> {
        Self::sample(self, request).boxed()
    }
}
