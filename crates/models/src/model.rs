//! The trait of a model.

use std::fmt;

use futures::{future::BoxFuture, stream::BoxStream};

use crate::{Event, Request};

/// Answers requests; holds no state of any session.
///
/// Everything a reply depends on is in its [`Request`], so that one model serves any number of
/// sessions, and a session can be taken up again by another process or change its model midway.
pub trait Model: Send + Sync + fmt::Debug {
    /// Names the model as `--model` does: `direct`, `script:FILE`, `anthropic/NAME`.
    fn name(&self) -> &str;

    /// Returns what the model takes and how much of it, as far as that is known.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Looks for what is needed before the first request and cannot be had at once: a key in a
    /// keyring, a server that answers. Called before each turn, and at no other time; it may take
    /// seconds, and can be dropped. Returns what the user should know of which model it is; a
    /// failure is told by the reply.
    fn prepare(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Starts one reply. Must be called, and the reply polled, inside a tokio runtime.
    fn reply(&self, request: Request) -> Reply;
}

/// The events of one reply. Ends after [`Event::Stop`] or [`Event::Error`]; dropping it cancels.
pub type Reply = BoxStream<'static, Event>;

/// What a model takes, and how much of it. There will be more: end a literal with
/// `..Traits::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// True if it sees images.
    pub images: bool,
    /// True if it hears audio.
    pub audio: bool,
    /// True if it can be told how much to think: [`Request::effort`].
    pub efforts: bool,
    /// True if it does what its prompts or a file say word by word, so that instructions, notices
    /// and summaries are nothing to it.
    pub scripted: bool,
    /// Tokens that a request and its reply may have together, if known.
    pub context_tokens: Option<u64>,
}
