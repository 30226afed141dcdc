//! Landlock: the only protection of files where namespaces are refused, and a second layer inside
//! of them.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::StepResult as _;
use super::sys::landlock_abi;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::{Isolation, LANDLOCK_ABI_TRUNCATION};
use crate::policy::SandboxPolicy;

/// Newest version of Landlock whose restrictions are requested. An older kernel applies those that
/// it knows; [`IsolationProbe::gaps`](crate::IsolationProbe::gaps) names the others.
const REQUESTED: ABI = ABI::V10;

/// Devices that a command may open.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Folders that are hidden from commands, because they contain sockets and files of other programs.
pub(super) const SHARED_FOLDERS: [&str; 3] = ["/tmp", "/run", "/var/run"];

/// Returns the path without links of what is to be hidden; `None` if there is nothing.
pub(super) fn resolve_hidden(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(Some(path)),
        Err(error) if is_out_of_reach(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a command cannot reach a path either, because of the kind of an error.
fn is_out_of_reach(error: &io::Error) -> bool {
    let missing = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EACCES];
    error.raw_os_error().is_some_and(|errno| missing.contains(&errno))
}

/// The Landlock rules of a command.
pub(super) struct Rules {
    isolation: Isolation,
    entries: Vec<(OwnedFd, BitFlags<AccessFs>)>,
}

impl Rules {
    /// Creates the rules of a command that has no namespaces.
    pub(super) fn for_landlock_only(policy: &SandboxPolicy) -> Result<Self, SetupFailure> {
        require_version(landlock_abi()).step(SetupStep::Landlock)?;
        let mut rules = Self { isolation: Isolation::Landlock, entries: Vec::new() };
        let masked = policy.masked.iter().map(PathBuf::as_path);
        let hidden = SHARED_FOLDERS.iter().map(Path::new).chain([Path::new("/dev")]).chain(masked);
        let hidden = hidden.chain(policy.home.as_deref());
        let hidden: Vec<_> = hidden.filter_map(|path| fs::canonicalize(path).ok()).collect();
        rules.allow_reading(Path::new("/"), &hidden);
        for path in policy.readable.iter().filter_map(|path| fs::canonicalize(path).ok()) {
            rules.allow_reading(&path, &hidden_beneath(&path, &hidden));
        }
        for path in policy.writable.iter().chain(&policy.tmp) {
            rules.allow(path, everything()).step_at(SetupStep::Folder, path)?;
        }
        rules.allow_devices(Path::new("/dev"));
        rules.allow_streams()?;
        Ok(rules)
    }

    /// Creates the rules of a command that has namespaces, and whose mounts are complete.
    pub(super) fn for_namespaces(writable: &[PathBuf]) -> Result<Self, SetupFailure> {
        let mut rules = Self { isolation: Isolation::Namespaces, entries: Vec::new() };
        if landlock_abi() == 0 {
            return Ok(rules);
        }
        rules.allow(Path::new("/"), reading()).step(SetupStep::Landlock)?;
        for path in writable {
            rules.allow(path, everything()).step_at(SetupStep::Landlock, path)?;
        }
        rules.allow_devices(Path::new("/dev"));
        for folder in ["/dev/pts", "/dev/shm"] {
            rules
                .allow(Path::new(folder), everything())
                .step_at(SetupStep::Landlock, Path::new(folder))?;
        }
        rules.allow_streams()?;
        Ok(rules)
    }

    /// Restricts this process and all that it starts.
    pub(super) fn restrict_self(&self) -> Result<(), SetupFailure> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.apply().map_err(io::Error::other).step(SetupStep::Landlock)
    }

    fn apply(&self) -> Result<(), RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(REQUESTED))?
            .scope(Scope::Signal)?;
        // A network namespace separates abstract sockets, and commands in the same one may use them.
        if self.isolation == Isolation::Landlock {
            ruleset = ruleset
                .handle_access(AccessNet::from_all(REQUESTED))?
                .scope(Scope::AbstractUnixSocket)?;
        }
        let rules = self
            .entries
            .iter()
            .map(|(fd, access)| Ok::<_, RulesetError>(PathBeneath::new(fd.as_fd(), *access)));
        ruleset.create()?.add_rules(rules)?.restrict_self()?;
        Ok(())
    }

    /// Allows reading beneath a folder, except beneath `hidden`. Folders that contain hidden ones
    /// are opened up entry by entry, so they cannot be listed themselves.
    fn allow_reading(&mut self, path: &Path, hidden: &[PathBuf]) {
        if hidden.iter().any(|hidden| hidden == path) {
            return;
        }
        let beneath = hidden_beneath(path, hidden);
        if beneath.is_empty() {
            // A path that cannot be opened cannot be read by the command either.
            drop(self.allow(path, reading()));
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // A link gives no access: its target has its own rule, or is hidden.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.allow_reading(&entry.path(), &beneath);
            }
        }
    }

    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        self.allow_fd(fd, access)
    }

    fn allow_fd(&mut self, fd: OwnedFd, access: BitFlags<AccessFs>) -> io::Result<()> {
        let is_folder = FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::Directory;
        let access = if is_folder { access } else { access & AccessFs::from_file(REQUESTED) };
        self.entries.push((fd, access));
        Ok(())
    }

    fn allow_devices(&mut self, folder: &Path) {
        for name in DEVICES {
            // A device that does not exist needs no rule.
            drop(self.allow(&folder.join(name), device()));
        }
    }

    /// Lets a command open the terminals of its streams again, as `/dev/stdout` does.
    fn allow_streams(&mut self) -> Result<(), SetupFailure> {
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        for stream in [input.as_fd(), output.as_fd(), error.as_fd()] {
            if is_character_device(stream) {
                let fd = stream.try_clone_to_owned().step(SetupStep::Landlock)?;
                self.allow_fd(fd, device()).step(SetupStep::Landlock)?;
            }
        }
        Ok(())
    }
}

/// Refuses a version of Landlock (0 if there is none) that cannot protect files by itself.
fn require_version(abi: u32) -> io::Result<()> {
    if abi < LANDLOCK_ABI_TRUNCATION {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(())
}

fn hidden_beneath(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let beneath = |hidden: &&PathBuf| hidden.as_path() != path && hidden.starts_with(path);
    hidden.iter().filter(beneath).cloned().collect()
}

fn is_character_device(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(REQUESTED)
}

fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

/// All rights except to create devices, and to connect to sockets that other programs created.
fn everything() -> BitFlags<AccessFs> {
    let never = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::ResolveUnix;
    AccessFs::from_all(REQUESTED) & !never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_that_does_not_restrict_truncation_is_refused() {
        for abi in [0, 1, 2] {
            let error = require_version(abi).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{abi}");
        }
        assert!(require_version(3).is_ok() && require_version(10).is_ok());
    }
}
