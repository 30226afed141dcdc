//! The trait of a model.

use std::{borrow::Cow, fmt};

use futures::{future::BoxFuture, stream::BoxStream};

use crate::{ModelEvent, ModelRequest, ToolSpec};

/// Answers requests; holds no state of any session.
///
/// Everything a reply depends on is in its [`Request`], so that one model serves any number of
/// sessions, and a session can be taken up again by another process or change its model midway.
pub trait Model: Send + Sync + fmt::Debug {
    /// Names the model as `--model` does: `direct`, `script:FILE`, `anthropic/NAME`.
    fn name(&self) -> &str;

    /// Returns what the model takes and how much of it, as far as that is known.
    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }

    /// Looks for what is needed before the first request and cannot be had at once: a key in a
    /// keyring, a server that answers. Called before each turn, and at no other time; it may take
    /// seconds, and can be dropped. Returns what the user should know of which model it is; a
    /// failure is told by the reply.
    fn prepare(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Lists the commands that its prompts may begin with, in a session with these tools: for the
    /// menus of clients. Only for a model with [`Traits::commands`], as the two that follow.
    fn commands(&self, _tools: &[ToolSpec]) -> Vec<PromptCommand> {
        Vec::new()
    }

    /// Shows its commands with examples, in a session with these tools, in Markdown.
    fn help(&self, _tools: &[ToolSpec]) -> Option<String> {
        None
    }

    /// Says why it does nothing of what a prompt says; none if it does it.
    fn prompt_error(&self, _prompt: &str) -> Option<String> {
        None
    }

    /// Starts one reply. Must be called, and the reply polled, inside a tokio runtime.
    fn reply(&self, request: ModelRequest) -> ReplyStream;
}

/// The events of one reply. Ends after [`Event::Stop`] or [`Event::Error`]; dropping it cancels.
pub type ReplyStream = BoxStream<'static, ModelEvent>;

/// A command that a prompt may begin with: see [`Model::commands`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptCommand {
    /// The word it begins with.
    pub name: Cow<'static, str>,
    /// What it does, in one phrase.
    pub description: Cow<'static, str>,
    /// What follows the name; empty if nothing does.
    pub hint: Cow<'static, str>,
}

impl PromptCommand {
    /// Names a command, what it does, and what follows its name.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), description: description.into(), hint: hint.into() }
    }
}

/// What a model takes, and how much of it.
///
/// ```
/// let traits = callboard_models::Traits::new().with_images().with_context_tokens(32_768);
/// assert!(traits.images && !traits.audio);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelCapabilities {
    /// True if it sees images.
    pub images: bool,
    /// True if it hears audio.
    pub audio: bool,
    /// True if it can be told how much to think: [`Request::effort`].
    pub efforts: bool,
    /// True if it does what its prompts or a file say word by word, so that instructions, notices
    /// and summaries are nothing to it.
    pub scripted: bool,
    /// True if its prompts are commands, so that nothing else can be added to one, and a call that
    /// fails is one that the user asked for.
    pub commands: bool,
    /// Tokens that a request and its reply may have together, if known.
    pub context_tokens: Option<u64>,
}

impl ModelCapabilities {
    /// Describes a model that takes text, and of which nothing else is known.
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

    /// Sets that it sees images.
    #[must_use]
    pub const fn with_images(self) -> Self {
        Self { images: true, ..self }
    }

    /// Sets that it hears audio.
    #[must_use]
    pub const fn with_audio(self) -> Self {
        Self { audio: true, ..self }
    }

    /// Sets that its thought level can be chosen.
    #[must_use]
    pub const fn with_efforts(self) -> Self {
        Self { efforts: true, ..self }
    }

    /// Sets that it does what is written, word by word.
    #[must_use]
    pub const fn with_scripted(self) -> Self {
        Self { scripted: true, ..self }
    }

    /// Sets that its prompts are commands, which it does word by word.
    #[must_use]
    pub const fn with_commands(self) -> Self {
        Self { scripted: true, commands: true, ..self }
    }

    /// Sets how many tokens a request and its reply may have together.
    #[must_use]
    pub const fn with_context_tokens(self, tokens: u64) -> Self {
        Self { context_tokens: Some(tokens), ..self }
    }
}
