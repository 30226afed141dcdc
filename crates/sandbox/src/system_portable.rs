//! The interface of this crate on systems without sandboxes. Values such as a command or a network
//! cannot be created there.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use serde::{Deserialize, Serialize};

use crate::command::{ProcessSession, SandboxCleanupReport};
use crate::error::{SandboxError, SetupFailure, SetupStep};
use crate::isolation::{Isolation, IsolationProbe};
use crate::layer::LayerContent;
use crate::policy::SandboxPolicy;

/// A command that is started in a sandbox. It cannot be created on this system.
#[derive(Debug)]
pub enum SandboxCommand {}

impl SandboxCommand {
    /// Fails on this system.
    ///
    /// # Errors
    /// Always returns [`SandboxError::NoIsolation`].
    pub fn new(
        _program: impl AsRef<OsStr>,
        _policy: &SandboxPolicy,
        _isolation: Isolation,
        _session: ProcessSession,
    ) -> Result<Self, SandboxError> {
        Err(SandboxError::NoIsolation)
    }

    /// Adds arguments.
    pub fn args(&mut self, _args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        match *self {}
    }

    /// Adds variables to the environment of the command.
    pub fn envs(
        &mut self,
        _variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> &mut Self {
        match *self {}
    }

    /// Lets the command share a network with other commands.
    ///
    /// # Errors
    /// Never returns, because the value cannot exist.
    pub fn join_network(&mut self, _network: &NetworkHandle) -> io::Result<&mut Self> {
        match *self {}
    }

    /// Returns the command that starts the helper.
    pub fn helper_command(&mut self) -> &mut Command {
        match *self {}
    }

    /// Starts the command.
    ///
    /// # Errors
    /// Never returns, because the value cannot exist.
    pub fn spawn(self) -> Result<SandboxedChild, SandboxError> {
        match self {}
    }

    /// Starts the command.
    ///
    /// # Errors
    /// Never returns, because the value cannot exist.
    #[cfg(unix)]
    pub fn spawn_by_fork(
        self,
        _stdin: &std::os::fd::OwnedFd,
    ) -> Result<(u32, SandboxReports), SandboxError> {
        match self {}
    }
}

/// A network that commands share. It cannot be created on this system.
#[derive(Debug)]
pub enum SessionNetwork {}

/// A reference to a network. It cannot exist on this system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkHandle {}

impl SessionNetwork {
    /// Fails on this system.
    ///
    /// # Errors
    /// Always returns [`SandboxError::NoIsolation`].
    pub fn create() -> Result<Self, SandboxError> {
        Err(SandboxError::NoIsolation)
    }

    /// Returns the socket that listens in this network.
    #[must_use]
    pub fn listener(&self) -> &TcpListener {
        match *self {}
    }

    /// Returns a reference to this network.
    #[must_use]
    pub fn handle(&self) -> NetworkHandle {
        match *self {}
    }
}

/// A command that runs in a sandbox. It cannot exist on this system.
#[derive(Debug)]
pub enum SandboxedChild {}

impl SandboxedChild {
    /// Returns the helper.
    pub fn helper(&mut self) -> &mut Child {
        match *self {}
    }

    /// Splits the value.
    pub fn into_parts(self) -> (Child, SandboxReports) {
        match self {}
    }

    /// Waits for the end of the command.
    ///
    /// # Errors
    /// Never returns, because the value cannot exist.
    pub fn wait(self) -> io::Result<(ExitStatus, SandboxCleanupReport)> {
        match self {}
    }
}

/// The reports of a helper. They cannot exist on this system.
#[derive(Debug)]
pub enum SandboxReports {}

impl SandboxReports {
    /// Waits for the last report.
    #[must_use]
    pub fn wait_for_end(self) -> Option<SandboxCleanupReport> {
        match self {}
    }
}

/// Does nothing on this system.
pub fn run_if_sandbox_helper() {}

/// Returns [`Isolation::None`] on this system.
pub fn probe_isolation() -> &'static IsolationProbe {
    static NONE: IsolationProbe = IsolationProbe {
        isolation: Isolation::None,
        refusals: Vec::new(),
        landlock_abi: 0,
        is_root: false,
        kernel_version: (0, 0),
    };
    &NONE
}

/// Returns [`Isolation::None`] on this system.
pub fn probe_isolation_with_memory(_file: &Path) -> &'static IsolationProbe {
    probe_isolation()
}

/// Fails on this system.
///
/// # Errors
/// Always returns an error.
pub fn probe_preview(_policy: &SandboxPolicy) -> Result<(), SetupFailure> {
    let reason = SandboxError::NoIsolation.to_string();
    Err(SetupFailure { step: SetupStep::Overlay, path: None, errno: None, reason })
}

/// Fails on this system.
///
/// # Errors
/// Always returns [`io::ErrorKind::Unsupported`].
pub fn read_layer(_layer: &Path, _max_entries: usize) -> io::Result<LayerContent> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing on this system.
pub fn remove_placeholders(_policy: &SandboxPolicy) {}

/// Returns false on this system.
pub fn is_placeholder_at(_path: &Path) -> bool {
    false
}
