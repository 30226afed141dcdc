//! Language models: a request goes in, a stream of small events comes out.
//!
//! This crate is *only* the [`Model`] trait and its implementations: the HTTP dialects of
//! [`provider`], [`direct`] and [`script`]. It is given keys and settings and asks nobody for them;
//! it holds no session and runs no tool. For an agent around a model use `callboard`.
#![doc = include_str!("../README.md")]

pub mod direct;
mod event;
mod file;
mod json_schema;
mod limits;
#[cfg(feature = "mock-server")]
pub mod mock_server;
mod model;
pub mod provider;
mod request;
pub mod script;
mod spec;

pub use event::{Event, Fault, ModelError, Stop, Usage};
pub use model::{Model, Reply, Traits};
pub use request::{Call, Effort, Message, Part, Replay, Request, ToolResult, ToolSpec};
pub use spec::{SpecError, parse};
