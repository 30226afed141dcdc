//! Runs one command in a sandbox on Linux: namespaces, mounts, Landlock and seccomp. The crate does
//! *only* that; to run a shell command with its output and all its processes, use
//! `callboard-process`.
//!
//! A caller builds a [`SandboxPolicy`], asks [`probe_isolation`] for the best [`Isolation`], and
//! starts a [`SandboxCommand`].
#![doc = include_str!("../README.md")]

mod error;
mod isolation;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
mod policy;
#[cfg(not(target_os = "linux"))]
mod portable;

pub use error::{SandboxError, SetupFailure, SetupStep};
pub use isolation::{Isolation, IsolationGap, IsolationProbe, Refusal};
#[cfg(target_os = "linux")]
pub use linux::{
    CommandSession, SandboxCommand, SandboxEnd, SandboxReports, SandboxedChild,
    init_sandbox_helper, probe_isolation, remove_placeholders,
};
pub use policy::{MissingName, NetworkAccess, ReadOnlyName, SandboxLimits, SandboxPolicy};
#[cfg(not(target_os = "linux"))]
pub use portable::{init_sandbox_helper, probe_isolation, remove_placeholders};
