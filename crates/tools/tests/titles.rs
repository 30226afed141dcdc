//! Tests the titles of all built-in tools in all locales. The titles must be complete, must match
//! the snapshots, and must not contain hidden characters.

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
