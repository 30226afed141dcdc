//! Renders the messages of an ACP session as cards for a terminal.
//!
//! This crate *only* renders: it accepts the messages of any ACP v1 agent and returns text to
//! append, which is also readable in a pipe or a log. The renderer uses durations, end reasons and
//! line numbers from the metadata of Callboard. To connect to an agent, use the SDK or `callboard`.
//! To check the messages of an agent, use `acp-conformance`. To fold messages into the state of a
//! client, use `acp-types`.
#![doc = include_str!("../README.md")]

mod card;
mod card_renderer;
mod content;
mod diff;
mod excerpt;
mod limits;
mod markdown;
mod message;
mod output_printer;
mod page;
mod raw_input;
mod sanitise;
mod table;
#[cfg(test)]
mod tests;
mod ui_text;

pub use card_renderer::CardRenderer;
pub use ui_text::{CATALOGUE_KEYS, Catalogue};
