//! Language models: a request is the input, and a stream of small events is the output.
//!
//! This crate contains *only* the [`Model`] trait and its implementations: the HTTP dialects of
//! `provider`, [`direct`] and [`script`]. The caller supplies keys and settings. The crate stores
//! no session and runs no tool. For an agent around a model, use `callboard`.
#![doc = include_str!("../README.md")]

#[cfg(feature = "providers")]
mod bounded_file;
pub mod direct;
mod event;
#[cfg(feature = "providers")]
mod limits;
#[cfg(feature = "mock-server")]
pub mod mock_server;
mod model;
#[cfg(feature = "providers")]
mod model_spec;
#[cfg(feature = "providers")]
pub mod provider;
mod request;
pub mod script;
#[cfg(feature = "providers")]
mod tool_emulation;

pub use event::{ModelError, ModelErrorKind, ModelEvent, ModelStopReason, TokenUsage};
pub use model::{FailingModel, Model, ModelCapabilities, PromptCommand, ReplyStream};
#[cfg(feature = "providers")]
pub use model_spec::{ModelSpecError, check_model_spec, open_model};
pub use request::{
    ChatMessage, ContentPart, Effort, ModelRequest, ModelToolCall, ProviderReplay, ToolResult,
    ToolSpec,
};
