//! Tests that no known secret leaves a session, whatever the form and the chunks in which the
//! secret arrives.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail by a panic"
)]
#![expect(clippy::disallowed_methods, reason = "a test reads the clock that the crate may not")]

mod documents;
mod planted;
mod shape;
mod shown;
mod wire;
