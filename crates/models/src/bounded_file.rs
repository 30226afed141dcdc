//! Reads the files that users name: scripts and certificates.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a regular file, up to `max` bytes and one more, by which the caller sees that it is larger.
///
/// # Errors
///
/// If it is not a regular file, e.g. a pipe, which would have to be waited for; if it cannot be read.
pub(crate) fn read_bounded(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
