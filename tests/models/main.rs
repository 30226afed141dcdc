//! Whole turns of the shipped binary with models behind HTTP: a scripted server on loopback plays
//! them, in every dialect, as they are when all goes well and in the ways in which they break.

#![cfg(target_os = "linux")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by a panic, and then shows what was said"
)]

/// What drives the binary is that of the other end-to-end tests.
#[expect(dead_code, unused_imports, reason = "those need more of it")]
#[path = "../it"]
mod it {
    pub(crate) mod harness;
}

mod case;
mod context;
mod keys;
mod malformed_streams;
mod provider_requests;
mod refused_requests;
mod schema;
mod session;
mod tls;
mod well_formed_streams;
