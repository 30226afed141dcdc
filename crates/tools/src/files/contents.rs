//! Writes files in place and detects concurrent writers.
//!
//! A change that another program writes in place before the comparison is detected. A change that
//! another program writes after our write is preserved. A change between the comparison and our
//! write is lost without notice, because no operating system offers a conditional write. Two more
//! cases are detected: a write during the comparison, if it changes the modification time, and
//! different content right after our write.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

/// Returns whether a file holds exactly `bytes`. `read` reads the content of the file from the
/// beginning.
///
/// Returns `false` if the modification time changed during the comparison.
pub(super) fn equals_without_concurrent_change(
    mut file: &File,
    read: &mut impl io::Read,
    bytes: &[u8],
) -> io::Result<bool> {
    let modified = || file.metadata().map(|metadata| metadata.modified().ok());
    let before = modified()?;
    file.rewind()?;
    Ok(rest_equals(read, bytes)? && modified()? == before)
}

/// Returns whether a file holds different content than `bytes`. Returns `false` if the file cannot
/// be read.
pub(super) fn differs_if_readable(mut file: &File, bytes: &[u8]) -> bool {
    let holds = file.rewind().and_then(|()| rest_equals(&mut file, bytes));
    holds.is_ok_and(|is_same| !is_same)
}

/// Returns whether the rest of a file is exactly `bytes`.
pub(super) fn rest_equals(file: &mut impl io::Read, mut bytes: &[u8]) -> io::Result<bool> {
    let mut piece = [0; COMPARE_CHUNK_BYTES];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if read == 0 {
            return Ok(bytes.is_empty());
        }
        let Some(rest) = bytes.strip_prefix(&piece[..read]) else { return Ok(false) };
        bytes = rest;
    }
}

/// Replaces the content of a file: writes from the beginning of the file, then truncates the file.
pub(super) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    write_with_progress(file, bytes, &mut |_| {})?;
    file.set_len(bytes.len() as u64)
}

/// Writes bytes from the beginning of a file and reports the number of bytes written after each
/// chunk.
pub(super) fn write_with_progress(
    mut file: &File,
    bytes: &[u8],
    filled: &mut dyn FnMut(usize),
) -> io::Result<()> {
    file.rewind()?;
    for (number, piece) in bytes.chunks(WRITE_CHUNK_BYTES).enumerate() {
        file.write_all(piece)?;
        filled(number * WRITE_CHUNK_BYTES + piece.len());
    }
    Ok(())
}

/// Bytes per chunk of a comparison. A chunk is small enough to stay in the cache of the processor.
const COMPARE_CHUNK_BYTES: usize = 64 * 1024;

/// Bytes per chunk of a write.
const WRITE_CHUNK_BYTES: usize = 4 * 1024 * 1024;
