//! The kinds of isolation, the reasons why a kind is refused, and the gaps of each kind.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use serde::{Deserialize, Serialize};

use crate::error::SetupFailure;
use crate::policy::{MissingName, NetworkAccess, SandboxPolicy};

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
    /// No isolation: the system is not Linux, or supports neither namespaces nor Landlock.
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
    /// Major and minor version of the Linux kernel; zeros if they are unknown.
    pub kernel_version: (u32, u32),
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
/// A caller should show the gaps to the user. If a gap matters for a command, the caller should ask
/// the user before it runs the command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingGuarantee {
    /// The read-only path lies in a writable folder, and can be changed, replaced or created.
    ReadOnlyName(PathBuf),
    /// The read-only path lies in a writable folder and does not exist, and the policy asks for no
    /// placeholder ([`MissingName::Unprotected`]). The command can create the path.
    UnprotectedName(PathBuf),
    /// The masked path lies in a writable folder, and can be read and changed.
    MaskedName(PathBuf),
    /// Permissions, owners, times and extended attributes of files outside of the writable folders
    /// can be changed, as far as the user may change them. File contents cannot be changed.
    Metadata,
    /// Processes can outlive the command, unless the caller ends them.
    Processes,
    /// The names and arguments of other processes can be read.
    ProcessList,
    /// Other processes of the user can be signalled.
    Signals,
    /// The command can connect to some sockets of other programs in the file system. These are
    /// sockets that are created after the command has started, and sockets whose path is unknown.
    /// The path of a socket is unknown if the socket was bound by a relative name, was moved,
    /// belongs to another network namespace or is on a file system of another host or program.
    LaterSockets,
    /// The command can connect to sockets of other programs with an abstract name, because it uses
    /// the network of the host.
    AbstractSockets,
    /// The number of processes is not limited for root. With namespaces, this gap exists only
    /// before Linux 6.14.
    ProcessLimit,
}

impl Display for MissingGuarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnlyName(path) => {
                write!(f, "{} is in a writable folder and can be changed", path.display())
            }
            Self::UnprotectedName(path) => {
                write!(f, "{} does not exist and can be created", path.display())
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
                "local sockets can be reached that other programs create while the command runs, or \
                 whose path is unknown",
            ),
            Self::AbstractSockets => {
                f.write_str("local sockets with an abstract name can be reached")
            }
            Self::ProcessLimit => f.write_str("the number of processes is not limited for root"),
        }
    }
}

impl IsolationProbe {
    /// Returns the gaps of this probe's isolation for a policy. The gaps contain the paths as they
    /// are in the policy. To find out whether a path is in a writable folder, its links are
    /// followed as they are now.
    ///
    /// The list does not contain the limits of every sandbox, which are in the crate's README.
    #[must_use]
    pub fn missing_guarantees(&self, policy: &SandboxPolicy) -> Vec<MissingGuarantee> {
        let writable: Vec<_> =
            policy.writable.iter().map(|path| canonicalize_existing_part(path)).collect();
        let in_writable = |path: &Path| {
            // If a read-only path is a link, the link itself is read-only too, so the place of the
            // link is also checked.
            let link = path.parent().map(canonicalize_existing_part).zip(path.file_name());
            let link = link.map(|(folder, name)| folder.join(name));
            let mut places = iter::once(canonicalize_existing_part(path)).chain(link);
            places.any(|place| writable.iter().any(|folder| place.starts_with(folder)))
        };
        let names = policy.read_only.iter().filter(|name| in_writable(&name.path));
        let limits_processes = policy.limits.processes.is_some();
        let has_scopes = self.landlock_abi >= LANDLOCK_ABI_SCOPES;
        let mut gaps = Vec::new();
        match self.isolation {
            Isolation::Namespaces => {
                let unprotected = names.filter(|name| {
                    name.missing == MissingName::Unprotected && fs::metadata(&name.path).is_err()
                });
                gaps.extend(
                    unprotected.map(|name| MissingGuarantee::UnprotectedName(name.path.clone())),
                );
                if self.landlock_abi < LANDLOCK_ABI_SOCKETS {
                    gaps.push(MissingGuarantee::LaterSockets);
                }
                if policy.network == NetworkAccess::Host && !has_scopes {
                    gaps.push(MissingGuarantee::AbstractSockets);
                }
                let is_unlimited = self.is_root && self.kernel_version < PROCESS_IDS_PER_NAMESPACE;
                if limits_processes && is_unlimited {
                    gaps.push(MissingGuarantee::ProcessLimit);
                }
            }
            Isolation::Landlock => {
                gaps.extend(names.map(|name| MissingGuarantee::ReadOnlyName(name.path.clone())));
                let masked = policy.masked.iter().filter(|path| in_writable(path)).cloned();
                gaps.extend(masked.map(MissingGuarantee::MaskedName));
                gaps.extend([
                    MissingGuarantee::Metadata,
                    MissingGuarantee::Processes,
                    MissingGuarantee::ProcessList,
                ]);
                if !has_scopes {
                    gaps.push(MissingGuarantee::Signals);
                }
                if limits_processes && self.is_root {
                    gaps.push(MissingGuarantee::ProcessLimit);
                }
            }
            Isolation::None => {}
        }
        gaps
    }
}

/// Resolves the links in a path as far as the path exists.
fn canonicalize_existing_part(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|folder| {
            Some(fs::canonicalize(folder).ok()?.join(path.strip_prefix(folder).ok()?))
        })
        .unwrap_or_else(|| path.to_owned())
}

/// First version of Linux that limits process ids in each process namespace separately. In earlier
/// versions, a limit in one namespace applies to the whole system.
pub(crate) const PROCESS_IDS_PER_NAMESPACE: (u32, u32) = (6, 14);
/// First version of Landlock that restricts signals to other processes, and connections to sockets
/// with an abstract name.
const LANDLOCK_ABI_SCOPES: u32 = 6;
/// First version of Landlock that restricts connections to sockets in the file system.
pub(crate) const LANDLOCK_ABI_SOCKETS: u32 = 9;

#[cfg(test)]
mod tests {
    use super::MissingGuarantee::{
        LaterSockets, MaskedName, Metadata, ProcessLimit, ProcessList, Processes, ReadOnlyName,
        Signals, UnprotectedName,
    };
    use super::*;
    use crate::policy;
    use pretty_assertions::assert_eq;

    /// A policy with a name of each kind, inside and outside of its writable folder.
    fn policy(folder: &Path) -> SandboxPolicy {
        let mut policy = SandboxPolicy::from_writable_folders([folder]);
        let names = [
            ("in/file", MissingName::Protected),
            ("in/folder", MissingName::Protected),
            ("in/unprotected", MissingName::Unprotected),
            ("out/unprotected", MissingName::Unprotected),
        ];
        let folder = folder.parent().unwrap();
        let entry = |(name, missing)| policy::ReadOnlyPath::new(folder.join(name), missing);
        policy.read_only = names.map(entry).into();
        policy.masked = ["in/secret", "out/secret"].map(|name| folder.join(name)).into();
        policy.limits.processes = Some(100);
        policy
    }

    fn probe(isolation: Isolation, landlock_abi: u32) -> IsolationProbe {
        let (is_root, kernel_version) = (false, (6, 13));
        IsolationProbe { isolation, refusals: Vec::new(), landlock_abi, is_root, kernel_version }
    }

    #[test]
    fn gaps_of_each_isolation_are_complete() {
        let folder = Path::new("/none");
        let policy = policy(&folder.join("in"));
        let path = |name: &str| folder.join(name);
        let gaps = |probe: &IsolationProbe| probe.missing_guarantees(&policy);

        let mut namespaces = probe(Isolation::Namespaces, 8);
        let unprotected = UnprotectedName(path("in/unprotected"));
        assert_eq!(gaps(&namespaces), [unprotected.clone(), LaterSockets]);
        namespaces.is_root = true;
        assert_eq!(gaps(&namespaces), [unprotected.clone(), LaterSockets, ProcessLimit]);
        namespaces.kernel_version = (6, 14);
        assert_eq!(gaps(&namespaces), [unprotected.clone(), LaterSockets]);
        namespaces.landlock_abi = 9;
        assert_eq!(gaps(&namespaces), [unprotected]);

        let mut landlock = probe(Isolation::Landlock, 5);
        let mut expected = vec![
            ReadOnlyName(path("in/file")),
            ReadOnlyName(path("in/folder")),
            ReadOnlyName(path("in/unprotected")),
            MaskedName(path("in/secret")),
            Metadata,
            Processes,
            ProcessList,
            Signals,
        ];
        assert_eq!(gaps(&landlock), expected);
        landlock.is_root = true;
        landlock.kernel_version = (6, 14);
        expected.push(ProcessLimit);
        assert_eq!(gaps(&landlock), expected);
        landlock.landlock_abi = 6;
        expected.retain(|gap| *gap != Signals);
        assert_eq!(gaps(&landlock), expected);

        assert_eq!(gaps(&probe(Isolation::None, 0)), []);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn gaps_are_found_through_links() {
        use std::os::unix::fs::symlink;
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir(path("project")).unwrap();
        fs::create_dir(path("out")).unwrap();
        symlink(path("project"), path("link")).unwrap();
        symlink(path("out"), path("project/out")).unwrap();
        symlink(path("project/target"), path("out/entry")).unwrap();
        let names = ["project/name", "project/out", "out/entry", "project/out/name"];
        let gaps = |writable: &str| {
            let mut policy = SandboxPolicy::from_writable_folders([path(writable)]);
            let entry = |name| policy::ReadOnlyPath::new(path(name), MissingName::Protected);
            policy.read_only = names.map(entry).into();
            policy.masked = vec![path("link/secret")];
            let mut gaps = probe(Isolation::Landlock, 9).missing_guarantees(&policy);
            gaps.retain(|gap| matches!(gap, ReadOnlyName(_) | MaskedName(_)));
            gaps
        };
        let expected = [
            ReadOnlyName(path("project/name")),
            ReadOnlyName(path("project/out")),
            MaskedName(path("link/secret")),
        ];
        assert_eq!(gaps("project"), expected);
        assert_eq!(gaps("link"), expected);
        fs::write(path("project/target"), "").unwrap();
        assert!(gaps("link").contains(&ReadOnlyName(path("out/entry"))));
    }

    #[test]
    fn name_that_exists_is_no_gap() {
        let file = std::env::current_exe().unwrap();
        let mut policy = SandboxPolicy::from_writable_folders([file.parent().unwrap()]);
        policy.read_only = vec![policy::ReadOnlyPath::new(file, MissingName::Unprotected)];
        assert_eq!(probe(Isolation::Namespaces, 9).missing_guarantees(&policy), []);
    }
}
