//! Renders an ACP session: as cards for a terminal, and as a transcript in HTML or Markdown.
//!
//! This crate *only* renders: it accepts the messages of any ACP v1 agent. [`CardRenderer`] returns
//! text to append while a turn runs, which is also readable in a pipe or a log. [`Transcript`]
//! folds the updates of a whole session, e.g. those that follow `session/load`, into one file. Of
//! Callboard's own metadata both use durations, end reasons and line numbers. To connect to an
//! agent use the SDK or `callboard`, to check its messages `acp-conformance`, and to fold them into
//! documents `acp-types`.
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
