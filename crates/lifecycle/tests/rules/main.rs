//! Tests of the laws of rules, of attempts to bypass rules, and of permission requests and
//! remembered answers.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by a panic, and needs some instant to begin at"
)]

mod asking;
mod bypasses;
mod commands;
mod laws;
mod names;
