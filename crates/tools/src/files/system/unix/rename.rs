//! Hard links, and two variants of rename: one exchanges two names, the other never replaces a
//! file. Not every file system supports these variants.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs as sys;
use rustix::fs::AtFlags;
use rustix::io::Errno;

/// A variant of rename that differs from the plain rename, which replaces an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RenameMode {
    /// Swaps two names atomically, so that each name refers to the other file.
    Exchange,
    /// Fails if the new name already exists.
    NoReplace,
}

/// Renames an entry in one of these modes. Returns `None` if the system or the file system does not
/// support the mode.
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
    if simulated_file_system::are_files_mounted() && manner == RenameMode::Exchange {
        return Some(Err(Errno::BUSY.into()));
    }
    #[cfg(test)]
    if let Err(error) = simulated_file_system::before_change() {
        return Some(Err(error));
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
    #[cfg(test)]
    simulated_file_system::before_change()?;
    Ok(sys::linkat(from, name, to, new, AtFlags::empty())?)
}

/// Returns whether the error means that a hard link is impossible: for directories, for files of
/// other users, and for all files on some file systems.
pub(super) fn is_hard_link_refused(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK))
}

#[cfg(test)]
pub(crate) mod simulated_file_system {
    //! Simulates file systems with fewer features, for the current thread only. Each test runs in
    //! its own thread.

    use std::cell::{Cell, RefCell};
    use std::io;

    use super::RenameMode;

    /// A function that is called before each change. Its argument is the number of earlier changes.
    /// If it fails, the change fails with the same error.
    pub(crate) type BeforeChange = Box<dyn FnMut(usize) -> io::Result<()>>;

    /// The features of a simulated file system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum SimulatedFileSystem {
        /// Supports all features of the real file system.
        FullFeatured,
        /// Supports only plain renames, e.g. NFS.
        PlainRenameOnly,
        /// Supports neither exchanges nor hard links, e.g. exFAT.
        NoExchangeNoLinks,
        /// Supports only plain renames and no hard links, e.g. some FUSE file systems.
        PlainRenameNoLinks,
        /// Each file is a mount point. In containers, some files are mount points.
        MountedFiles,
    }

    /// The simulated file systems that lack some features.
    pub(crate) const LIMITED: [SimulatedFileSystem; 3] = [
        SimulatedFileSystem::PlainRenameOnly,
        SimulatedFileSystem::NoExchangeNoLinks,
        SimulatedFileSystem::PlainRenameNoLinks,
    ];

    thread_local! {
        static SIMULATED: Cell<SimulatedFileSystem> = const { Cell::new(SimulatedFileSystem::FullFeatured) };
    }

    thread_local! {
        static BEFORE_CHANGE: RefCell<Option<(usize, BeforeChange)>> = const { RefCell::new(None) };
    }

    /// Runs a function, and calls `hook` before each change of a file or directory by this thread.
    /// Returns the result and the number of changes.
    ///
    /// If the hook fails for all changes from some number on, the files have the same state as if
    /// the process had been killed before this change.
    pub(crate) fn run_with_hook<T>(hook: BeforeChange, run: impl FnOnce() -> T) -> (T, usize) {
        BEFORE_CHANGE.set(Some((0, hook)));
        let done = run();
        let changes = BEFORE_CHANGE.take().map_or(0, |(number, _)| number);
        (done, changes)
    }

    pub(crate) fn before_change() -> io::Result<()> {
        // The hook may change files too, so it is taken out while it runs.
        let Some((number, mut hook)) = BEFORE_CHANGE.take() else { return Ok(()) };
        let allowed = hook(number);
        BEFORE_CHANGE.set(Some((number + 1, hook)));
        allowed
    }

    /// Runs a function as if all files were on a simulated file system.
    pub(crate) fn run_on<T>(file_system: SimulatedFileSystem, run: impl FnOnce() -> T) -> T {
        let before = SIMULATED.replace(file_system);
        let done = run();
        SIMULATED.set(before);
        done
    }

    /// Runs tests on each of the file systems in `LIMITED`.
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

    pub(in super::super) fn are_files_mounted() -> bool {
        SIMULATED.get() == SimulatedFileSystem::MountedFiles
    }

    pub(super) fn lacks_links() -> bool {
        matches!(
            SIMULATED.get(),
            SimulatedFileSystem::NoExchangeNoLinks | SimulatedFileSystem::PlainRenameNoLinks
        )
    }
}
