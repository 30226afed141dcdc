//! The titles of all built-in tools in all locales: complete, as they were last seen, and without
//! a character that hides.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail by a panic"
)]

mod catalogues;
mod hidden_characters;
mod hostile_texts;
mod title_session;
mod title_snapshots;
