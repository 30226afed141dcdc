//! The `Model` trait, and the capabilities of a model.

use std::{borrow::Cow, fmt};

use futures::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt as _},
};

use crate::{ModelError, ModelErrorKind, ModelEvent, ModelRequest, ToolSpec};

/// A language model. A model holds no state of any session.
///
/// A reply depends only on its [`ModelRequest`]. One model therefore serves any number of sessions.
/// A session can be resumed by another process, and it can switch to another model between two
/// requests.
pub trait Model: Send + Sync + fmt::Debug {
    /// Returns the name as it is written in the option `--model`, e.g. `direct`, `script:FILE` or
    /// `anthropic/NAME`.
    fn name(&self) -> &str;

    /// Returns the known capabilities and limits of the model.
    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }

    /// Does slow preparations for a request, e.g. reading a key from a keyring or probing a server.
    /// The agent calls this method before each turn, and at no other time. The future may take
    /// seconds, and dropping it is safe. It resolves to a notice for the user about the model in
    /// use, or to `None`. A failure is reported later, by the reply.
    fn prepare_for_turn(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the commands with which a prompt may begin in a session with these tools. Clients
    /// show these commands in a menu. Only models with [`ModelCapabilities::commands`] implement
    /// this method, [`help`](Self::help) and [`prompt_error`](Self::prompt_error).
    fn commands(&self, _tools: &[ToolSpec]) -> Vec<PromptCommand> {
        Vec::new()
    }

    /// Returns the commands with examples in Markdown, for a session with these tools.
    fn help(&self, _tools: &[ToolSpec]) -> Option<String> {
        None
    }

    /// Returns the reason why the model would reject a prompt, or `None` if the model accepts the
    /// prompt.
    fn prompt_error(&self, _prompt: &str) -> Option<String> {
        None
    }

    /// Starts a reply. Call this method and poll the reply inside a tokio runtime.
    fn reply(&self, request: ModelRequest) -> ReplyStream;
}

/// The events of one reply. The stream ends after [`ModelEvent::Stop`] or [`ModelEvent::Error`].
/// Dropping the stream cancels the reply.
pub type ReplyStream = BoxStream<'static, ModelEvent>;

/// A placeholder for a model that cannot be used. Every reply is an error that states the reason.
/// An agent with an invalid configuration can still start with this model.
#[derive(Debug)]
pub struct FailingModel {
    reason: String,
}

impl FailingModel {
    /// Creates the model. `reason` is the message of its errors.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl Model for FailingModel {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        let error = ModelError::new(ModelErrorKind::Other, self.reason.clone());
        stream::iter([ModelEvent::Error(error)]).boxed()
    }
}

/// A command with which a prompt may begin. See [`Model::commands`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptCommand {
    /// Word with which the command begins.
    pub name: Cow<'static, str>,
    /// Description in one phrase.
    pub description: Cow<'static, str>,
    /// Arguments after the name; empty if the command has no arguments.
    pub hint: Cow<'static, str>,
}

impl PromptCommand {
    /// Creates a command from its name, its description and the hint for its arguments.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), description: description.into(), hint: hint.into() }
    }
}

/// The capabilities and limits of a model.
///
/// ```
/// use callboard_models::ModelCapabilities;
///
/// let capabilities = ModelCapabilities::new().with_images().with_context_tokens(32_768);
/// assert!(capabilities.images && !capabilities.audio);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelCapabilities {
    /// Whether the model accepts images.
    pub images: bool,
    /// Whether the model accepts audio.
    pub audio: bool,
    /// Whether a request may set the thinking effort ([`ModelRequest::effort`]).
    pub efforts: bool,
    /// Whether the model follows its prompts, or a script file, literally. Instructions, notices
    /// and summaries have no effect on such a model.
    pub scripted: bool,
    /// Whether every prompt must be a command. The agent adds no text to such a prompt. The user
    /// requests each call of such a model, so `callboard exec` fails if a call fails.
    pub commands: bool,
    /// Maximum number of tokens of a request and its reply together, if known.
    pub context_tokens: Option<u64>,
}

impl ModelCapabilities {
    /// Creates the capabilities of a model that accepts text only and has an unknown context size.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            images: false,
            audio: false,
            efforts: false,
            scripted: false,
            commands: false,
            context_tokens: None,
        }
    }

    /// Returns the capabilities with support for images.
    #[must_use]
    pub const fn with_images(self) -> Self {
        Self { images: true, ..self }
    }

    /// Returns the capabilities with support for audio.
    #[must_use]
    pub const fn with_audio(self) -> Self {
        Self { audio: true, ..self }
    }

    /// Returns the capabilities with a thinking effort that each request may set.
    #[must_use]
    pub const fn with_adjustable_effort(self) -> Self {
        Self { efforts: true, ..self }
    }

    /// Returns the capabilities of a model that follows its prompts, or its script, literally.
    #[must_use]
    pub const fn with_scripted(self) -> Self {
        Self { scripted: true, ..self }
    }

    /// Returns the capabilities of a model whose prompts are commands. Such a model follows its
    /// prompts literally.
    #[must_use]
    pub const fn with_command_only_prompts(self) -> Self {
        Self { scripted: true, commands: true, ..self }
    }

    /// Returns the capabilities with this maximum number of tokens of a request and its reply
    /// together.
    #[must_use]
    pub const fn with_context_tokens(self, tokens: u64) -> Self {
        Self { context_tokens: Some(tokens), ..self }
    }
}
