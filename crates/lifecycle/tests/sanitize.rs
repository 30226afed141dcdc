//! Tests that no known secret leaves a session. A secret may arrive in any form, and may be split
//! between chunks.

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
