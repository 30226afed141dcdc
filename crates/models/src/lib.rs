//! Language models: a request goes in, a stream of small events comes out.
//!
//! This crate is *only* the [`Model`] trait and its implementations: the HTTP dialects of
//! `provider`, [`direct`] and [`script`]. It is given keys and settings and asks nobody for them;
//! it holds no session and runs no tool. For an agent around a model use `callboard`.
#![doc = include_str!("../README.md")]

pub mod direct;
mod event;
#[cfg(feature = "providers")]
mod file;
#[cfg(feature = "providers")]
mod json_schema;
#[cfg(feature = "providers")]
mod limits;
#[cfg(feature = "mock-server")]
pub mod mock_server;
mod model;
#[cfg(feature = "providers")]
pub mod provider;
mod request;
pub mod script;
#[cfg(feature = "providers")]
mod spec;

pub use event::{Event, Fault, ModelError, Stop, Usage};
pub use model::{Model, PromptCommand, Reply, Traits};
pub use request::{Call, Effort, Message, Part, Replay, Request, ToolResult, ToolSpec};
#[cfg(feature = "providers")]
pub use spec::{SpecError, check_spec, parse};
