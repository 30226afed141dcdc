//! Laws of rules, attempts to bypass them, and the permission requests and remembered answers of a
//! client.

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
