//! Renders an ACP session: as cards for a terminal, and as a transcript in HTML or Markdown.
//!
//! This crate *only* renders: it accepts the messages of any ACP v1 agent. While a turn runs,
//! [`CardRenderer`] returns text to append to a terminal, a pipe or a log. [`Transcript`] folds the
//! updates of a whole session, e.g. those after `session/load`, into one file. Both types use three
//! kinds of Callboard's own metadata: durations, end reasons and line numbers. To connect to an
//! agent, use the SDK or `callboard`. To check its messages, use `acp-conformance`. To fold its
//! messages into the state of a session, use `acp-types`.
#![doc = include_str!("../README.md")]

mod card;
mod card_renderer;
mod content;
mod diff;
mod excerpt;
mod limits;
mod markdown;
mod message;
mod output_line;
mod output_printer;
mod page;
mod raw_input;
mod sanitise;
mod table;
#[cfg(test)]
mod tests;
mod transcript;
mod ui_text;

pub use card_renderer::CardRenderer;
pub use transcript::Transcript;
pub use ui_text::{CATALOGUE_KEYS, Catalogue};
