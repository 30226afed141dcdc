//! Renames that exchange two names or replace nothing, and what is done where the system or a file
//! system has none. It knows nothing of why something is renamed.

use std::ffi::OsStr;
use std::io;

use rustix::fs as sys;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::super::{Audience, Kind};
use super::Dir;

/// What a rename can do beside moving a file over another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Each of two names gets what the other one stood for.
    Exchanging,
    /// It is refused where something has the name.
    ReplacingNothing,
}

impl Dir {
    /// Gives each of two names what the other one stood for, in one step.
    ///
    /// It is unsupported where the system or the file system cannot do that.
    pub(crate) fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        let done = renamed(self, one, self, other, Manner::Exchanging);
        done.unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }

    /// Gives a file one more name, which nothing has.
    pub(crate) fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        linked(self, from, self, to)
    }

    /// Moves a file to a name that nothing has.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_into(from, self, to)
    }

    /// Moves a file or directory to a name in another directory that nothing has.
    pub(crate) fn rename_into(&self, from: &OsStr, dir: &Self, to: &OsStr) -> io::Result<()> {
        if let Some(done) = renamed(self, from, dir, to, Manner::ReplacingNothing) {
            return done;
        }
        // As not every file system can.
        match linked(self, from, dir, to) {
            Ok(()) => self.remove(from).inspect_err(|_| {
                // It stays where it was, if it still is what has the other name.
                let identities = (self.identity(from).ok(), dir.identity(to).ok());
                if identities.0.is_some() && identities.0 == identities.1 {
                    drop(dir.remove(to));
                }
            }),
            Err(error) if is_without_second_names(&error) => self.rename_reserved(from, dir, to),
            Err(error) => Err(error),
        }
    }

    /// The same for what gets no second name, as a directory: the name is taken by something empty
    /// first, which is refused where something has it.
    fn rename_reserved(&self, from: &OsStr, dir: &Self, to: &OsStr) -> io::Result<()> {
        let is_directory = self.kind(from)? == Kind::Directory;
        match is_directory {
            true => dir.create_dir(to)?,
            false => drop(dir.create(to, Audience::Owner)?),
        }
        sys::renameat(&self.0, from, &dir.0, to).map_err(|error| {
            // A directory that is not empty any more is somebody else's, and stays.
            drop(if is_directory { dir.remove_dir(to) } else { dir.remove(to) });
            error.into()
        })
    }
}

/// Renames, where the system and the file system can do it in this manner.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn renamed(
    from: &Dir,
    name: &OsStr,
    to: &Dir,
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
    match sys::renameat_with(&from.0, name, &to.0, new, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => None,
        done => Some(done.map_err(io::Error::from)),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn renamed(_: &Dir, _: &OsStr, _: &Dir, _: &OsStr, _: Manner) -> Option<io::Result<()>> {
    None
}

fn linked(from: &Dir, name: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
    #[cfg(test)]
    if pretence::lacks_links() {
        return Err(Errno::PERM.into());
    }
    Ok(sys::linkat(&from.0, name, &to.0, new, AtFlags::empty())?)
}

/// Whether a second name was refused because there can be none: of a directory, of somebody else's
/// file, in the whole file system.
fn is_without_second_names(error: &io::Error) -> bool {
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
