//! Landlock: the only protection of files where namespaces are refused, and a second layer inside
//! of them.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::StepResult as _;
use super::resolver::PathResolver;
use super::sys::landlock_abi;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::Isolation;
use crate::policy::{NetworkAccess, SandboxPolicy};

/// First version of Landlock (Linux 6.2) that restricts the truncation of files. Without it, a
/// command could empty each file that it may read.
const LANDLOCK_ABI_TRUNCATION: u32 = 3;

/// Devices that a command may open.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Folders that are hidden from commands, because they contain sockets and files of other programs.
pub(super) const SHARED_FOLDERS: [&str; 3] = ["/tmp", "/run", "/var/run"];

/// The Landlock rules of a command.
pub(super) struct LandlockRules {
    /// Version of the kernel's interface, or the newest version that this program knows if the
    /// kernel's version is newer. All restrictions of this version apply.
    /// [`IsolationProbe::missing_guarantees`](crate::IsolationProbe::missing_guarantees) lists the
    /// restrictions that need a newer version.
    abi: ABI,
    ruleset: RulesetCreated,
}

impl LandlockRules {
    /// Creates the rules of a command that has no namespaces.
    pub(super) fn for_landlock_only(policy: &SandboxPolicy) -> Result<Self, SetupFailure> {
        if let Some(folder) = policy.preview.first() {
            let error = io::Error::other("a preview needs isolation by namespaces");
            return Err(SetupFailure::at(SetupStep::Overlay, &folder.path, error));
        }
        let abi = landlock_abi();
        require_landlock_version(abi).step(SetupStep::Landlock)?;
        let mut rules = Self::new(abi, Isolation::Landlock, policy.network)?;
        let masked = policy.masked.iter().map(PathBuf::as_path);
        let hidden = SHARED_FOLDERS.iter().map(Path::new).chain([Path::new("/dev")]).chain(masked);
        let hidden = hidden.chain(policy.home.as_deref());
        let mut resolver = PathResolver::default();
        let hidden = hidden.filter_map(|path| {
            resolver.resolve_hidden(path).step_at(SetupStep::Mask, path).transpose()
        });
        let hidden = hidden.collect::<Result<Vec<_>, _>>()?;
        rules.allow_reading_except_hidden(Path::new("/"), &hidden)?;
        for path in policy.readable.iter().filter_map(|path| resolver.resolve(path).ok()) {
            rules.allow_reading_except_hidden(&path, &hidden_beneath(&path, &hidden))?;
        }
        for path in policy.writable.iter().chain(&policy.tmp) {
            rules.allow(path, rules.writable_folder_access()).step_at(SetupStep::Folder, path)?;
        }
        rules.allow_devices(Path::new("/dev"))?;
        rules.allow_stream_terminals()?;
        Ok(rules)
    }

    /// Creates the rules of a command that has namespaces, and whose mounts are complete. Returns
    /// `None` if the kernel has no Landlock.
    pub(super) fn for_namespaces(
        policy: &SandboxPolicy,
        writable: &[PathBuf],
    ) -> Result<Option<Self>, SetupFailure> {
        let abi = landlock_abi();
        if abi == 0 {
            return Ok(None);
        }
        let mut rules = Self::new(abi, Isolation::Namespaces, policy.network)?;
        rules.allow(Path::new("/"), rules.read_access()).step(SetupStep::Landlock)?;
        let own = ["/dev/pts", "/dev/shm"].map(Path::new);
        for path in writable.iter().map(PathBuf::as_path).chain(own) {
            rules.allow(path, rules.writable_folder_access()).step_at(SetupStep::Landlock, path)?;
        }
        // A command may connect to a socket that the policy names as readable. If the kernel's
        // Landlock does not restrict such connections, no rule is needed.
        let connect = AccessFs::from_all(rules.abi) & AccessFs::ResolveUnix;
        for path in policy.readable.iter().filter(|it| !connect.is_empty() && is_socket(it)) {
            rules.allow(path, connect).step_at(SetupStep::Landlock, path)?;
        }
        rules.allow_devices(Path::new("/dev"))?;
        rules.allow_stream_terminals()?;
        Ok(Some(rules))
    }

    fn new(abi: u32, isolation: Isolation, network: NetworkAccess) -> Result<Self, SetupFailure> {
        let abi = ABI::from(i32::try_from(abi).unwrap_or(i32::MAX));
        let ruleset = create_deny_all_ruleset(abi, isolation, network).map_err(io::Error::other);
        Ok(Self { abi, ruleset: ruleset.step(SetupStep::Landlock)? })
    }

    /// Restricts this process and all processes that it starts.
    pub(super) fn restrict_self(self) -> Result<(), SetupFailure> {
        let status = self.ruleset.restrict_self().map_err(io::Error::other);
        let status = status.step(SetupStep::Landlock)?.ruleset;
        if status == RulesetStatus::FullyEnforced {
            return Ok(());
        }
        let error = io::Error::other(format!("the kernel applied it incompletely: {status:?}"));
        Err(SetupFailure::new(SetupStep::Landlock, error))
    }

    /// Allows reading beneath a folder, except beneath `hidden`. If a folder contains a hidden
    /// path, each entry of the folder gets a separate rule, and the folder itself cannot be listed.
    fn allow_reading_except_hidden(
        &mut self,
        path: &Path,
        hidden: &[PathBuf],
    ) -> Result<(), SetupFailure> {
        if hidden.iter().any(|hidden| hidden == path) {
            return Ok(());
        }
        let beneath = hidden_beneath(path, hidden);
        if beneath.is_empty() {
            return default_if_unreadable(self.allow(path, self.read_access()))
                .step_at(SetupStep::Landlock, path);
        }
        let entries = default_if_unreadable(entries_without_links(path));
        for entry in entries.step_at(SetupStep::Landlock, path)? {
            self.allow_reading_except_hidden(&entry, &beneath)?;
        }
        Ok(())
    }

    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        self.allow_descriptor(fd.as_fd(), access)
    }

    fn allow_descriptor(
        &mut self,
        fd: BorrowedFd<'_>,
        access: BitFlags<AccessFs>,
    ) -> io::Result<()> {
        let is_folder = FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Directory;
        let access = if is_folder { access } else { access & AccessFs::from_file(self.abi) };
        let rule = PathBeneath::new(fd, access);
        (&mut self.ruleset).add_rule(rule).map(drop).map_err(io::Error::other)
    }

    fn allow_devices(&mut self, folder: &Path) -> Result<(), SetupFailure> {
        for path in DEVICES.map(|name| folder.join(name)) {
            default_if_unreadable(self.allow(&path, self.device_access()))
                .step_at(SetupStep::Landlock, &path)?;
        }
        Ok(())
    }

    /// Lets a command open the terminals of its streams again, as `/dev/stdout` does.
    fn allow_stream_terminals(&mut self) -> Result<(), SetupFailure> {
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        for stream in [input.as_fd(), output.as_fd(), error.as_fd()] {
            if is_character_device(stream) {
                self.allow_descriptor(stream, self.device_access()).step(SetupStep::Landlock)?;
            }
        }
        Ok(())
    }

    fn read_access(&self) -> BitFlags<AccessFs> {
        AccessFs::from_read(self.abi)
    }

    fn device_access(&self) -> BitFlags<AccessFs> {
        let all =
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        all & AccessFs::from_all(self.abi)
    }

    /// Returns all rights, except the rights to create devices and to connect to sockets that other
    /// programs created.
    fn writable_folder_access(&self) -> BitFlags<AccessFs> {
        let never = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::ResolveUnix;
        AccessFs::from_all(self.abi) & !never
    }
}

/// Creates a set of rules that denies all that a version of Landlock can deny.
fn create_deny_all_ruleset(
    abi: ABI,
    isolation: Isolation,
    access: NetworkAccess,
) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let (mut network, mut scopes) = (AccessNet::from_all(abi), Scope::from_all(abi));
    if isolation == Isolation::Namespaces || access == NetworkAccess::Host {
        network = BitFlags::EMPTY;
    }
    // A network namespace separates abstract sockets from those of other programs. Commands in the
    // same network namespace may use each other's abstract sockets.
    if isolation == Isolation::Namespaces && access == NetworkAccess::None {
        scopes &= !Scope::AbstractUnixSocket;
    }
    // Both sets may be empty, because older versions of Landlock have no rules for the network or
    // no scopes.
    if !network.is_empty() {
        ruleset = ruleset.handle_access(network)?;
    }
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}

/// Returns the entries of a folder, without links. A link needs no rule: its target has a separate
/// rule, or is hidden.
fn entries_without_links(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            entries.push(entry.path());
        }
    }
    Ok(entries)
}

/// Returns the default value if the path has disappeared or cannot be read. A command cannot read
/// it either. Such a path gets no rule, so access to it remains denied.
fn default_if_unreadable<T: Default>(result: io::Result<T>) -> io::Result<T> {
    const UNREADABLE: [i32; 6] =
        [libc::EACCES, libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::ENOTCONN, libc::ESTALE];
    match result {
        Err(error) if error.raw_os_error().is_some_and(|errno| UNREADABLE.contains(&errno)) => {
            Ok(T::default())
        }
        other => other,
    }
}

/// Refuses a version of Landlock (0 if there is none) that cannot protect files by itself.
fn require_landlock_version(abi: u32) -> io::Result<()> {
    if abi < LANDLOCK_ABI_TRUNCATION {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(())
}

fn hidden_beneath(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let beneath = |hidden: &&PathBuf| hidden.as_path() != path && hidden.starts_with(path);
    hidden.iter().filter(beneath).cloned().collect()
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn is_character_device(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_that_does_not_restrict_truncation_is_refused() {
        for abi in [0, 1, 2] {
            let error = require_landlock_version(abi).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{abi}");
        }
        assert!(require_landlock_version(3).is_ok() && require_landlock_version(10).is_ok());
    }

    #[test]
    fn only_errors_of_unreadable_paths_are_skipped() {
        let skip = |errno| default_if_unreadable::<()>(Err(io::Error::from_raw_os_error(errno)));
        for errno in [libc::EACCES, libc::ENOENT, libc::ELOOP] {
            assert!(skip(errno).is_ok(), "{errno}");
        }
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EIO] {
            assert_eq!(skip(errno).unwrap_err().raw_os_error(), Some(errno));
        }
    }

    #[test]
    fn all_restrictions_of_each_known_version_are_requested() {
        for abi in 1..=landlock_abi().min(10) {
            for isolation in [Isolation::Namespaces, Isolation::Landlock] {
                // A thread restricts only itself.
                let restricted = std::thread::spawn(move || {
                    let mut rules = LandlockRules::new(abi, isolation, NetworkAccess::None)?;
                    rules.allow(Path::new("/usr"), rules.read_access()).unwrap();
                    rules.restrict_self()?;
                    assert!(fs::read_dir("/usr").is_ok() && fs::read_dir("/etc").is_err());
                    Ok::<_, SetupFailure>(())
                });
                assert_eq!(restricted.join().unwrap(), Ok(()), "{abi}, {isolation}");
            }
        }
    }
}
