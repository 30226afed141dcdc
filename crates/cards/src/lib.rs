//! Draws the messages of an ACP session as cards for a terminal.
//!
//! This crate is *only* drawing: the messages of any ACP v1 agent go in, text to append comes out,
//! which reads as well in a pipe or a log. Of Callboard's own metadata it knows durations and
//! reasons. It does no I/O and needs no connection: for that use the SDK or `callboard`; to judge
//! messages, `acp-conformance`; to fold them into documents, `acp-types`.
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
