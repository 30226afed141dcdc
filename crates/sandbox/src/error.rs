//! Errors of this crate.

use std::fmt::{self, Display};
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Why a command was not started in a sandbox. The command never ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// `main` has not called [`run_if_sandbox_helper`](crate::run_if_sandbox_helper). Call it
    /// first.
    #[error(
        "the program does not support sandboxes: its main has not called run_if_sandbox_helper"
    )]
    NotInitialized,
    /// The isolation is [`Isolation::None`](crate::Isolation::None). Start the command without this
    /// crate, if the user agrees.
    #[error("there is no isolation on this system")]
    NoIsolation,
    /// A step failed. Nothing of the sandbox is left.
    #[error("{0}")]
    Setup(SetupFailure),
    /// The helper ended without a report, e.g. because it was killed.
    #[error("the helper of the sandbox was killed")]
    HelperKilled,
    /// The system refused a resource that is needed to start the helper.
    #[error("the helper of the sandbox cannot be started: {0}")]
    Io(#[from] io::Error),
}

/// The step of a set-up that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetupFailure {
    /// The step that failed.
    pub step: SetupStep,
    /// The file, folder or program at which the step failed.
    #[serde(with = "crate::policy::optional_path")]
    pub path: Option<PathBuf>,
    /// Number of the system's error.
    pub errno: Option<i32>,
    /// The error as text.
    pub reason: String,
}

impl Display for SetupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.step)?;
        if let Some(path) = &self.path {
            write!(f, " {}", path.display())?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// A step of the set-up of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SetupStep {
    /// Start the helper and read its order.
    Helper,
    /// Create the namespaces.
    Namespaces,
    /// Map the user into the user namespace.
    UserMap,
    /// Switch the loopback interface on.
    Loopback,
    /// Detach the mounts from those of the system.
    Mounts,
    /// Open a writable or readable folder.
    Folder,
    /// Mount an overlay on a writable folder, so that a command changes a copy of the folder.
    Overlay,
    /// Mount a fresh `/proc`.
    Proc,
    /// Make a private `/dev`.
    Devices,
    /// Make the whole file system read-only.
    ReadOnlyRoot,
    /// Hide a path.
    Mask,
    /// Make a path read-only.
    ReadOnlyName,
    /// Create or remove a placeholder for a missing path.
    Placeholder,
    /// Enter the working directory.
    WorkingDirectory,
    /// Set limits of resources.
    Limits,
    /// Give up capabilities.
    Capabilities,
    /// Restrict the command by Landlock.
    Landlock,
    /// Restrict the command by seccomp.
    Seccomp,
    /// Start the command.
    Exec,
}

impl Display for SetupStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Helper => "start the helper of the sandbox",
            Self::Namespaces => "create namespaces",
            Self::UserMap => "map the user into a user namespace",
            Self::Loopback => "switch on the loopback interface of the sandbox",
            Self::Mounts => "separate the mounts of the sandbox",
            Self::Folder => "open",
            Self::Overlay => "preview changes of",
            Self::Proc => "mount a /proc for the sandbox",
            Self::Devices => "make a /dev for the sandbox",
            Self::ReadOnlyRoot => "make the file system read-only",
            Self::Mask => "hide",
            Self::ReadOnlyName => "protect",
            Self::Placeholder => "make or remove the placeholder",
            Self::WorkingDirectory => "enter the folder",
            Self::Limits => "limit the command's resources",
            Self::Capabilities => "give up capabilities",
            Self::Landlock => "restrict the command by Landlock",
            Self::Seccomp => "restrict the command by seccomp",
            Self::Exec => "start",
        })
    }
}
