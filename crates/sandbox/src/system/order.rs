//! The order that a helper receives, and the reports that it sends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::command::{ProcessSession, SandboxCleanupReport};
use crate::error::SetupFailure;
use crate::isolation::Isolation;
use crate::policy::SandboxPolicy;

/// The `argv[0]` by which a process recognizes that it is a helper.
pub(super) const HELPER_ARGV0: &str = "callboard-sandbox: starts a command";

/// Whether this program can start helpers. A helper runs the same program, so `main` must have
/// called [`run_if_sandbox_helper`](super::run_if_sandbox_helper).
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

pub(super) fn can_start_helper() -> bool {
    IS_INITIALIZED.load(Ordering::Relaxed)
}

pub(super) fn set_can_start_helper() {
    IS_INITIALIZED.store(true, Ordering::Relaxed);
}

/// The order of a helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SandboxOrder {
    pub(super) policy: SandboxPolicy,
    pub(super) isolation: Isolation,
    pub(super) session: ProcessSession,
    /// Whether the command is started after the set-up. A probe only sets the sandbox up.
    pub(super) then: AfterSetup,
    /// Process id of the process that starts the helper.
    pub(super) parent: u32,
    /// Environment of the command. The helper itself has none: variables such as `LD_PRELOAD` would
    /// make it run code outside of the sandbox.
    pub(super) environment: Vec<(SystemString, SystemString)>,
    /// The network that the command joins.
    pub(super) network: Option<NetworkDescriptors>,
}

/// Numbers of inherited descriptors of a user namespace and of a network namespace that it owns.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NetworkDescriptors {
    pub(super) user: RawFd,
    pub(super) network: RawFd,
}

/// A string that need not be UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SystemString(#[serde(with = "crate::policy::path")] PathBuf);

impl SystemString {
    pub(super) fn new(text: OsString) -> Self {
        Self(text.into())
    }
}

impl AsRef<OsStr> for SystemString {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AfterSetup {
    Exec,
    Exit,
    /// Create a network, and keep it until standard input is closed.
    HoldNetwork,
}

/// A report of the helper. Each report is sent as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HelperReport {
    /// The command runs.
    Started,
    /// The helper is about to become the command. If no other report follows, the command runs.
    Executing,
    /// The process with this id holds a network.
    Network(u32),
    Failed(SetupFailure),
    Ended(SandboxCleanupReport),
}

/// Sends reports to the process that started the helper.
pub(super) struct ReportWriter(File);

impl ReportWriter {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }

    pub(super) fn send(&self, report: &HelperReport) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            // An error means that the caller does not wait for the report any more.
            drop((&self.0).write_all(&line));
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
