//! Renames that exchange two names or replace nothing, where the system and the file system have
//! them, and second names.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs as sys;
use rustix::fs::AtFlags;
use rustix::io::Errno;

/// What a rename can do beside moving a file over another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RenameMode {
    /// Each of two names gets what the other one stood for.
    Exchange,
    /// It is refused where something has the name.
    NoReplace,
}

/// Renames, where the system and the file system can do it in this manner.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn rename_with(
    from: &OwnedFd,
    name: &OsStr,
    to: &OwnedFd,
    new: &OsStr,
    manner: RenameMode,
) -> Option<io::Result<()>> {
    #[cfg(test)]
    if simulated_file_system::is_unsupported(manner) {
        return None;
    }
    #[cfg(test)]
    if simulated_file_system::is_mounted() && manner == RenameMode::Exchange {
        return Some(Err(Errno::BUSY.into()));
    }
    let flags = match manner {
        RenameMode::Exchange => sys::RenameFlags::EXCHANGE,
        RenameMode::NoReplace => sys::RenameFlags::NOREPLACE,
    };
    match sys::renameat_with(from, name, to, new, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => None,
        done => Some(done.map_err(io::Error::from)),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn rename_with(
    _: &OwnedFd,
    _: &OsStr,
    _: &OwnedFd,
    _: &OsStr,
    _: RenameMode,
) -> Option<io::Result<()>> {
    None
}

pub(super) fn hard_link(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    #[cfg(test)]
    if simulated_file_system::lacks_links() {
        return Err(Errno::PERM.into());
    }
    Ok(sys::linkat(from, name, to, new, AtFlags::empty())?)
}

/// Whether a second name was refused because there can be none: of a directory, of somebody else's
/// file, in the whole file system.
pub(super) fn is_hard_link_refused(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK))
}

#[cfg(test)]
pub(crate) mod simulated_file_system {
    //! File systems that can do less than the one that the tests run on, for the thread that says
    //! so: a test has a thread of its own.

    use std::cell::Cell;

    use super::RenameMode;

    /// What a file system can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum SimulatedFileSystem {
        /// All that this one can.
        FullFeatured,
        /// No rename but a plain one, as NFS.
        PlainRenameOnly,
        /// Neither exchanges nor second names, as exFAT.
        NoExchangeNoLinks,
        /// Only a plain rename, and no second names, as some that are mounted by a program.
        PlainRenameNoLinks,
        /// Each file is mounted by itself, as those of a container are.
        MountedFiles,
    }

    /// All that can do less.
    pub(crate) const LIMITED: [SimulatedFileSystem; 3] = [
        SimulatedFileSystem::PlainRenameOnly,
        SimulatedFileSystem::NoExchangeNoLinks,
        SimulatedFileSystem::PlainRenameNoLinks,
    ];

    thread_local! {
        static SIMULATED: Cell<SimulatedFileSystem> = const { Cell::new(SimulatedFileSystem::FullFeatured) };
    }

    /// Runs something on a file system that can do less.
    pub(crate) fn run_on<T>(file_system: SimulatedFileSystem, run: impl FnOnce() -> T) -> T {
        let before = SIMULATED.replace(file_system);
        let done = run();
        SIMULATED.set(before);
        done
    }

    /// Runs tests on each of those that can do less.
    pub(crate) fn run_on_limited(tests: &[fn()]) {
        for file_system in LIMITED {
            println!("{file_system:?}");
            tests.iter().for_each(|test| run_on(file_system, test));
        }
    }

    pub(super) fn is_unsupported(manner: RenameMode) -> bool {
        match SIMULATED.get() {
            SimulatedFileSystem::FullFeatured | SimulatedFileSystem::MountedFiles => false,
            SimulatedFileSystem::NoExchangeNoLinks => manner == RenameMode::Exchange,
            SimulatedFileSystem::PlainRenameOnly | SimulatedFileSystem::PlainRenameNoLinks => true,
        }
    }

    pub(in super::super) fn is_mounted() -> bool {
        SIMULATED.get() == SimulatedFileSystem::MountedFiles
    }

    pub(super) fn lacks_links() -> bool {
        matches!(
            SIMULATED.get(),
            SimulatedFileSystem::NoExchangeNoLinks | SimulatedFileSystem::PlainRenameNoLinks
        )
    }
}
