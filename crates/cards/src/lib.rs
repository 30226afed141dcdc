//! Renders the messages of an ACP session as cards for a terminal.
//!
//! This crate *only* renders: it accepts the messages of any ACP v1 agent and returns text to
//! append, which is also readable in a pipe or a log. Of Callboard's own metadata it uses
//! durations, end reasons and line numbers. To connect to an agent use the SDK or `callboard`, to
//! check its messages `acp-conformance`, and to fold them into documents `acp-types`.
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
