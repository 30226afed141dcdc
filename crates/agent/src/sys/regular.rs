//! Regular files that the user names, wherever links lead: a pipe or a device is refused, never
//! waited for. It knows nothing of whose they are.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a file to read it.
///
/// # Errors
///
/// If it is no regular file; whatever opening it gives.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = open_anything(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no file")),
    }
}

/// Reads a file, up to `max` bytes and one more, which tells that there is more.
///
/// # Errors
///
/// As [`open`]; whatever reading it gives.
pub(crate) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens whatever it is without waiting for the other end of a pipe.
#[cfg(unix)]
fn open_anything(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn open_anything(path: &Path) -> io::Result<File> {
    File::open(path)
}
