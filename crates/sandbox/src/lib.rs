//! Runs one command in a sandbox on Linux: namespaces, mounts, Landlock and seccomp. The crate does
//! *only* that; to run a shell command with its output and all its processes, use
//! `callboard-process`.
//!
//! A caller builds a [`SandboxPolicy`], asks [`probe_isolation`] for the best [`Isolation`], and
//! starts a [`SandboxCommand`].
#![doc = include_str!("../README.md")]

mod command;
mod error;
mod isolation;
mod layer;
mod limits;
mod policy;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    path = "system_portable.rs"
)]
mod system;

pub use command::{ProcessSession, SandboxCleanupReport};
pub use error::{SandboxError, SetupFailure, SetupStep};
pub use isolation::{Isolation, IsolationProbe, MissingGuarantee, Refusal};
pub use layer::{LayerContent, LayerEntry, LayerEntryKind};
pub use policy::{
    CopyOnWriteFolder, MissingName, NetworkAccess, ReadOnlyPath, SandboxLimits, SandboxPolicy,
};
pub use system::{
    NetworkHandle, SandboxCommand, SandboxReports, SandboxedChild, SessionNetwork,
    is_placeholder_at, probe_isolation, probe_isolation_with_memory, probe_preview, read_layer,
    remove_unused_placeholders, run_if_sandbox_helper,
};
