//! Writes files in place, and detects other programs that write the same file.
//!
//! Before a file is written, its content is compared with the expected content. A write of another
//! program before the comparison is detected. A write of another program after the write of this
//! program is preserved. A write of another program between the comparison and the write of this
//! program is lost without notice, because no operating system offers a conditional write. Two more
//! cases are detected: a write during the comparison that changes the modification time, and other
//! content immediately after the write of this program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};

#[cfg(all(test, unix))]
use crate::files::system::simulated_file_system;
use crate::files::system::{Dir, FileId, HasFileId as _, mode_bits};

/// Returns whether the content of a file is exactly `bytes`. `read` must read this file from its
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

/// Returns whether the content of a file differs from `bytes`. Returns `false` if the file cannot
/// be read.
pub(super) fn differs_if_readable(mut file: &File, bytes: &[u8]) -> bool {
    let holds = file.rewind().and_then(|()| rest_equals(&mut file, bytes));
    holds.is_ok_and(|is_same| !is_same)
}

/// Returns whether the bytes that remain to be read are exactly `bytes`.
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

/// Replaces the content of a file. Writes from the beginning, then truncates the file to the new
/// size.
pub(super) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    write_with_progress(file, bytes, &mut |_| {})?;
    #[cfg(all(test, unix))]
    simulated_file_system::before_change()?;
    file.set_len(bytes.len() as u64)
}

/// Writes bytes at the beginning of a file. After each chunk, reports the total number of bytes
/// that were written.
pub(super) fn write_with_progress(
    mut file: &File,
    bytes: &[u8],
    filled: &mut dyn FnMut(usize),
) -> io::Result<()> {
    file.rewind()?;
    for (number, piece) in bytes.chunks(WRITE_CHUNK_BYTES).enumerate() {
        #[cfg(all(test, unix))]
        simulated_file_system::before_change()?;
        file.write_all(piece)?;
        filled(number * WRITE_CHUNK_BYTES + piece.len());
    }
    Ok(())
}

/// Restores the mode of a file that was written in place. Does nothing if the file does not have
/// the new mode, or if another file has its name now.
///
/// The new mode may not permit to write the file. Therefore the mode is restored before the
/// content.
pub(super) fn restore_mode_if_unchanged(
    dir: &Dir,
    name: &OsStr,
    id: FileId,
    (before, after): (u32, u32),
) -> io::Result<()> {
    let metadata = dir.hold_open(name)?.metadata()?;
    match metadata.file_id()? == id && mode_bits(&metadata) == after {
        true => dir.set_entry_mode(name, before),
        false => Ok(()),
    }
}

/// Number of bytes per chunk of a comparison. A chunk is small enough to stay in the processor
/// cache.
const COMPARE_CHUNK_BYTES: usize = 64 * 1024;

/// Number of bytes per chunk of a write.
const WRITE_CHUNK_BYTES: usize = 4 * 1024 * 1024;
