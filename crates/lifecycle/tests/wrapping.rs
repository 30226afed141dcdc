//! Tests of the middleware: every outcome of a foreign tool's call, and its reports.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reads the clock that the crate may not, and fails by a panic"
)]

mod approver;
mod batch;
mod endings;
mod example;
mod paths;
mod spans;
mod spawned;
mod stage;
mod timing;
