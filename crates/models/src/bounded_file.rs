//! Reads files that users specify (scripts and certificates), up to a maximum size.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Reads at most `max + 1` bytes of a regular file. If the result contains the extra byte, the file
/// is larger than `max`.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if it is not a regular file. (Reading a pipe,
/// for example, could block.)
pub(crate) fn read_max_plus_one_bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
