//! Tests of the guarantees G1 to G8, with random lifecycles of a session and with the async
//! handles.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail by a panic")]
#![expect(clippy::panic, reason = "a tool that panics is what is tested")]
#![expect(clippy::disallowed_methods, reason = "a test reads the clock that the crate may not")]

mod answers;
mod config;
mod endings;
mod foreign;
mod kin;
mod lines;
mod lives;
mod once_broken;
mod outdated;
mod performing;
mod reentrant;
mod stalling;
mod steps;
