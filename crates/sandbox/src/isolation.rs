//! Kinds of isolation, why one is refused, and what each does not guarantee.

use std::fmt::{self, Display};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::SetupFailure;
use crate::policy::{NetworkAccess, SandboxPolicy};

/// How a command is separated from the rest of the system, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Own user, mount, process, network and IPC namespaces, with Landlock (if the kernel has it)
    /// and seccomp inside.
    Namespaces,
    /// Landlock and seccomp. Works where namespaces are refused, e.g. in Docker's default profile
    /// and on Ubuntu, and promises less.
    Landlock,
    /// No isolation: the system is not Linux, or has neither of the above.
    None,
}

impl Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "Landlock",
            Self::None => "none",
        })
    }
}

/// The best isolation that works in this process, found by trying.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolationProbe {
    /// Best kind of isolation that works.
    pub isolation: Isolation,
    /// Why each better kind does not work. Empty if namespaces work.
    pub refusals: Vec<Refusal>,
    /// Version of the kernel's Landlock interface; 0 if the kernel has none.
    pub landlock_abi: u32,
    /// Whether this process, and therefore its commands, run as root.
    pub is_root: bool,
}

/// Why a kind of isolation does not work. The text is for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind that does not work.
    pub isolation: Isolation,
    /// The step that failed.
    pub failure: SetupFailure,
    /// Advice to the user, as a sentence.
    pub hint: Option<String>,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "isolation by {} does not work here: {}", self.isolation, self.failure)?;
        match &self.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}

/// Something that a sandbox does not guarantee for a policy.
///
/// A caller shows the gaps, and asks before it runs a command for which one of them matters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationGap {
    /// The read-only path lies in a writable folder, and can be changed, replaced or created.
    ReadOnlyName(PathBuf),
    /// The masked path lies in a writable folder, and can be read and changed.
    MaskedName(PathBuf),
    /// Permissions, owners, times and extended attributes of files outside of the writable folders
    /// can be changed, as far as the user may change them. File contents cannot.
    Metadata,
    /// Processes can outlive the command, unless the caller ends them.
    Processes,
    /// The names and arguments of other processes can be read.
    ProcessList,
    /// Other processes of the user can be signalled.
    Signals,
    /// Sockets in the file system that other programs create after the command has started can be
    /// connected to.
    LaterSockets,
    /// The number of processes is not limited for root.
    ProcessLimit,
}

impl Display for IsolationGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnlyName(path) => {
                write!(f, "{} is in a writable folder and can be changed", path.display())
            }
            Self::MaskedName(path) => {
                write!(f, "{} is in a writable folder and can be read", path.display())
            }
            Self::Metadata => f.write_str(
                "permissions, owners and times of the user's other files can be changed",
            ),
            Self::Processes => f.write_str("processes can outlive the command"),
            Self::ProcessList => f.write_str("the arguments of other processes can be read"),
            Self::Signals => f.write_str("other processes of the user can be signalled"),
            Self::LaterSockets => f.write_str(
                "local sockets that other programs create while the command runs can be reached",
            ),
            Self::ProcessLimit => f.write_str("the number of processes is not limited for root"),
        }
    }
}

impl IsolationProbe {
    /// Returns what the isolation of this probe does not guarantee for a policy.
    ///
    /// The list is complete only with the limits that the crate's README names for every sandbox.
    #[must_use]
    pub fn gaps(&self, policy: &SandboxPolicy) -> Vec<IsolationGap> {
        let NetworkAccess::None = policy.network;
        let in_writable =
            |path: &PathBuf| policy.writable.iter().any(|folder| path.starts_with(folder));
        let mut gaps = Vec::new();
        match self.isolation {
            Isolation::Namespaces => {
                if self.landlock_abi < LANDLOCK_ABI_SOCKETS {
                    gaps.push(IsolationGap::LaterSockets);
                }
            }
            Isolation::Landlock => {
                let names = policy.read_only.iter().map(|name| name.path.clone());
                gaps.extend(names.filter(in_writable).map(IsolationGap::ReadOnlyName));
                let masked = policy.masked.iter().filter(|path| in_writable(path)).cloned();
                gaps.extend(masked.map(IsolationGap::MaskedName));
                gaps.extend([
                    IsolationGap::Metadata,
                    IsolationGap::Processes,
                    IsolationGap::ProcessList,
                ]);
                if self.landlock_abi < LANDLOCK_ABI_SIGNALS {
                    gaps.push(IsolationGap::Signals);
                }
                if policy.limits.processes.is_some() && self.is_root {
                    gaps.push(IsolationGap::ProcessLimit);
                }
            }
            Isolation::None => {}
        }
        gaps
    }
}

/// First version of Landlock (Linux 6.2) that restricts the truncation of files. Without it, a command
/// could empty each file that it may read.
pub(crate) const LANDLOCK_ABI_TRUNCATION: u32 = 3;
/// First version of Landlock that restricts signals to other processes.
const LANDLOCK_ABI_SIGNALS: u32 = 6;
/// First version of Landlock that restricts connections to sockets in the file system.
pub(crate) const LANDLOCK_ABI_SOCKETS: u32 = 9;
