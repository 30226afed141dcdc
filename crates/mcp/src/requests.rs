//! Requests of a server to the user and to the model, while one of the server's tools runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use acp_lifecycle::{CallHandle, CancellationToken, Effect, Effects, Titles};
use acp_tools::Note;
use acp_types::schema::v1::{ContentBlock, ElicitationAction, ElicitationSchema};
use acp_types::{Content, Progress};
use callboard_text::escape_invisible;
use futures::future::BoxFuture;
use rmcp::model::RequestId;
use tokio::sync::Notify;

use crate::limits::MAX_CALL_REQUESTS;
use crate::lock::lock;

/// The kinds of requests of servers that the agent can answer. A server is informed about these
/// kinds when it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpClientCapabilities {
    /// Whether the user can fill in forms.
    pub forms: bool,
    /// Whether the user can be sent to a web page.
    pub pages: bool,
    /// Whether servers can send requests to the model. Each request needs the permission of the
    /// user.
    pub sampling: bool,
}

impl McpClientCapabilities {
    /// Sets whether the user can fill in forms.
    #[must_use]
    pub fn with_forms(self, forms: bool) -> Self {
        Self { forms, ..self }
    }

    /// Sets whether the user can be sent to a web page.
    #[must_use]
    pub fn with_pages(self, pages: bool) -> Self {
        Self { pages, ..self }
    }

    /// Sets whether servers can send requests to the model.
    #[must_use]
    pub fn with_sampling(self, sampling: bool) -> Self {
        Self { sampling, ..self }
    }
}

/// Answers the requests of servers. A request belongs to a running call of one of the server's
/// tools. If the call ends first, the future is dropped.
pub trait McpRequestHandler: Send + Sync {
    /// Asks the user a question of a server. `call` is the call for which the server asks. `None`
    /// if several calls of the server run, because the call is then unknown.
    fn elicit<'a>(
        &'a self,
        call: Option<&'a CallHandle>,
        elicitation: McpElicitation,
    ) -> BoxFuture<'a, ElicitationAction>;

    /// Reports to the client that the user has finished a [page](McpElicitationMode::Page).
    fn elicitation_completed(&self, id: &str);

    /// Sends a request to the model. The user has already permitted the request.
    ///
    /// # Errors
    ///
    /// If the model fails, returns a sentence for the server.
    fn sample<'a>(
        &'a self,
        request: McpSamplingRequest,
    ) -> BoxFuture<'a, Result<McpSamplingReply, String>>;
}

/// A question of a server to the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpElicitation {
    /// The question, which names the server.
    pub message: String,
    /// How the user answers.
    pub mode: McpElicitationMode,
}

/// How the user answers a question.
#[derive(Debug, Clone, PartialEq)]
pub enum McpElicitationMode {
    /// With a form.
    Form(ElicitationSchema),
    /// On a web page. The answer only states whether the user agrees to open the page.
    Page {
        /// An id that is unique in the session.
        id: String,
        /// The URL, with the scheme `https` or `http`.
        url: String,
    },
}

/// A request of a server to the model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpSamplingRequest {
    /// Instructions for the model.
    pub system: Option<String>,
    /// The messages, oldest first.
    pub messages: Vec<McpSamplingMessage>,
    /// Maximum length of the reply in tokens.
    pub max_tokens: u32,
}

/// A message of a [`McpSamplingRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpSamplingMessage {
    /// Whether the message was written by a model.
    pub is_reply: bool,
    /// The content: texts, images and audio.
    pub content: Vec<ContentBlock>,
}

/// A reply of the model to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpSamplingReply {
    /// The name of the model.
    pub model: String,
    /// The text of the reply.
    pub text: String,
    /// Whether the reply has reached the maximum length, so that its end is missing.
    pub is_truncated: bool,
}

impl McpSamplingReply {
    /// Creates a complete reply.
    #[must_use]
    pub fn new(model: impl Into<String>, text: impl Into<String>) -> Self {
        Self { model: model.into(), text: text.into(), is_truncated: false }
    }
}

/// Holds the handler. The handler is set after the servers have started.
pub(crate) type HandlerSlot = Arc<OnceLock<Weak<dyn McpRequestHandler>>>;

/// A call that waits for the result of a server.
#[derive(Debug)]
pub(crate) struct RunningCall {
    call: CallHandle,
    titles: Arc<Titles>,
    /// The request to the server.
    pub(crate) request: RequestId,
    /// Cancelled when the call is cancelled, or has its result.
    pub(crate) ended: CancellationToken,
    /// Cancelled when a message of the server was too large and was cut.
    pub(crate) message_cut: CancellationToken,
    progressed: Notify,
    /// Number of requests that the server has sent during this call so far.
    requests: AtomicUsize,
    /// The notes that the call shows. They are added to the result again, because the result
    /// replaces the content of the call.
    notes: Mutex<Vec<Content>>,
    /// The reason why the last request of the server to the model was rejected.
    rejection_reason: Mutex<Option<String>>,
}

impl RunningCall {
    pub(crate) fn new(call: CallHandle, titles: Arc<Titles>, request: RequestId) -> Self {
        let ended = call.cancel_token().child_token();
        let (message_cut, progressed, requests, notes, rejection_reason) = Default::default();
        Self {
            call,
            titles,
            request,
            ended,
            message_cut,
            progressed,
            requests,
            notes,
            rejection_reason,
        }
    }

    /// Reports progress of the call to the client.
    pub(crate) fn report_progress(&self, progress: Progress) {
        self.progressed.notify_one();
        self.call.report_progress(progress);
    }

    /// Waits until the server reports progress. Returns at once if progress was reported since the
    /// last call of this method.
    pub(crate) async fn wait_for_progress(&self) {
        self.progressed.notified().await;
    }

    /// Counts a request of the server. Returns `false` if the limit is exceeded.
    pub(crate) fn count_request(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) < MAX_CALL_REQUESTS
    }

    /// Asks the user a question of a server. `is_certain` states whether the question certainly
    /// belongs to this call.
    pub(crate) async fn elicit(
        &self,
        handler: &dyn McpRequestHandler,
        is_certain: bool,
        (server, message): (&str, &str),
        mode: McpElicitationMode,
    ) -> ElicitationAction {
        let message = Note::new("mcp-elicitation")
            .with_text("server", escape_invisible(server))
            .with_text("message", escape_invisible(message))
            .render(&self.titles);
        handler.elicit(is_certain.then_some(&self.call), McpElicitation { message, mode }).await
    }

    /// Sends a server's request to the model if the user permits this. Otherwise returns an error
    /// for the server.
    pub(crate) async fn sample(
        &self,
        handler: &dyn McpRequestHandler,
        effect: Effect,
        request: McpSamplingRequest,
    ) -> Result<McpSamplingReply, String> {
        self.show("mcp-sampling", &request.shown_text());
        // The request costs money, and its prompt comes from the server. Therefore no mode allows
        // the request: if no rule decides, the user is asked.
        let effects = Effects::from(effect).with_high_risk_mark();
        let permitted = self.call.request_further_effects(&effects).await;
        permitted.map_err(|reason| {
            // The user gave the reason to the model and not to the server.
            *lock(&self.rejection_reason) = reason;
            "The request is not permitted.".to_owned()
        })?;
        let sample = handler.sample(request).await?;
        self.show("mcp-sampled", &sample.text);
        Ok(sample)
    }

    fn show(&self, key: &'static str, text: &str) {
        let note = Content::from_text(Note::new(key).render(&self.titles));
        let lines: Vec<_> = text.lines().map(escape_invisible).collect();
        for content in [note, Content::fenced_code_block("", &lines.join("\n"))] {
            lock(&self.notes).push(content.clone());
            self.call.append_content(content);
        }
    }

    pub(crate) fn take_rejection_reason(&self) -> Option<String> {
        lock(&self.rejection_reason).take()
    }

    /// Returns the notes that the call shows.
    pub(crate) fn take_notes(&self) -> Vec<Content> {
        std::mem::take(&mut *lock(&self.notes))
    }
}

/// The method of the protocol with which a server sends a request to the model. Permissions use
/// this method in place of a tool name. No tool can have this name.
pub(crate) const SAMPLING: &str = "sampling/createMessage";

impl McpSamplingRequest {
    /// Returns the whole request, as the user sees it.
    fn shown_text(&self) -> String {
        let mut text = String::new();
        if let Some(system) = &self.system {
            text.push_str(&format!("system: {system}\n"));
        }
        for message in &self.messages {
            text.push_str(if message.is_reply { "model: " } else { "user: " });
            for block in &message.content {
                text.push_str(match block {
                    ContentBlock::Text(text) => &text.text,
                    ContentBlock::Image(_) => "[an image]",
                    _ => "[a recording]",
                });
            }
            text.push('\n');
        }
        text
    }
}
