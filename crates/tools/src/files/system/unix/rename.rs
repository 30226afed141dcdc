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
pub(super) enum Manner {
    /// Each of two names gets what the other one stood for.
    Exchanging,
    /// It is refused where something has the name.
    ReplacingNothing,
}

/// Renames, where the system and the file system can do it in this manner.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn renamed(
    from: &OwnedFd,
    name: &OsStr,
    to: &OwnedFd,
    new: &OsStr,
    manner: Manner,
) -> Option<io::Result<()>> {
    #[cfg(test)]
    if pretence::lacks(manner) {
        return None;
    }
    #[cfg(test)]
    if pretence::is_mounted() && manner == Manner::Exchanging {
        return Some(Err(Errno::BUSY.into()));
    }
    let flags = match manner {
        Manner::Exchanging => sys::RenameFlags::EXCHANGE,
        Manner::ReplacingNothing => sys::RenameFlags::NOREPLACE,
    };
    match sys::renameat_with(from, name, to, new, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => None,
        done => Some(done.map_err(io::Error::from)),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn renamed(
    _: &OwnedFd,
    _: &OsStr,
    _: &OwnedFd,
    _: &OsStr,
    _: Manner,
) -> Option<io::Result<()>> {
    None
}

pub(super) fn linked(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    #[cfg(test)]
    if pretence::lacks_links() {
        return Err(Errno::PERM.into());
    }
    Ok(sys::linkat(from, name, to, new, AtFlags::empty())?)
}

/// Whether a second name was refused because there can be none: of a directory, of somebody else's
/// file, in the whole file system.
pub(super) fn is_without_second_names(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK))
}

#[cfg(test)]
pub(crate) mod pretence {
    //! File systems that can do less than the one that the tests run on, for the thread that says
    //! so: a test has a thread of its own.

    use std::cell::Cell;

    use super::Manner;

    /// What a file system can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum FileSystem {
        /// All that this one can.
        Whole,
        /// No rename but a plain one, as NFS.
        Plain,
        /// Neither exchanges nor second names, as exFAT.
        Unlinked,
        /// Only a plain rename, and no second names, as some that are mounted by a program.
        Bare,
        /// Each file is mounted by itself, as those of a container are.
        Mounted,
    }

    /// All that can do less.
    pub(crate) const LESSER: [FileSystem; 3] =
        [FileSystem::Plain, FileSystem::Unlinked, FileSystem::Bare];

    thread_local! {
        static PRETENDED: Cell<FileSystem> = const { Cell::new(FileSystem::Whole) };
    }

    /// Runs something on a file system that can do less.
    pub(crate) fn on<T>(file_system: FileSystem, run: impl FnOnce() -> T) -> T {
        let before = PRETENDED.replace(file_system);
        let done = run();
        PRETENDED.set(before);
        done
    }

    /// Runs tests on each of those that can do less.
    pub(crate) fn on_lesser(tests: &[fn()]) {
        for file_system in LESSER {
            println!("{file_system:?}");
            tests.iter().for_each(|test| on(file_system, test));
        }
    }

    pub(super) fn lacks(manner: Manner) -> bool {
        match PRETENDED.get() {
            FileSystem::Whole | FileSystem::Mounted => false,
            FileSystem::Unlinked => manner == Manner::Exchanging,
            FileSystem::Plain | FileSystem::Bare => true,
        }
    }

    pub(in super::super) fn is_mounted() -> bool {
        PRETENDED.get() == FileSystem::Mounted
    }

    pub(super) fn lacks_links() -> bool {
        matches!(PRETENDED.get(), FileSystem::Unlinked | FileSystem::Bare)
    }
}
