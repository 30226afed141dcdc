//! Writing a file in place, which can be seen half done, and seeing who else does so at that moment.
//!
//! It knows nothing of what lies beside the file.
//!
//! What another program writes in place before the comparison is seen by it, and what it writes
//! after ours stays. What it writes between the two is lost, and nobody can tell: no system writes
//! only if nobody else did. It is seen that a file was written while it was compared, as far as its
//! time tells, and that it holds something else right after it was written.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

/// Whether a file holds just these bytes, by what is `read` of it from its beginning, and was not
/// written to while it was compared, as far as its time tells.
pub(super) fn equals_undisturbed(
    mut file: &File,
    read: &mut impl io::Read,
    bytes: &[u8],
) -> io::Result<bool> {
    let modified = || file.metadata().map(|metadata| metadata.modified().ok());
    let before = modified()?;
    file.rewind()?;
    Ok(equals(read, bytes)? && modified()? == before)
}

/// Whether a file holds something else than these bytes; not where that cannot be told.
pub(super) fn differs(mut file: &File, bytes: &[u8]) -> bool {
    let holds = file.rewind().and_then(|()| equals(&mut file, bytes));
    holds.is_ok_and(|is_same| !is_same)
}

/// Whether the rest of a file is just these bytes.
pub(super) fn equals(file: &mut impl io::Read, mut bytes: &[u8]) -> io::Result<bool> {
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

/// Gives a file other bytes, its first ones first.
pub(super) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    write_with_progress(file, bytes, &mut |_| {})?;
    file.set_len(bytes.len() as u64)
}

/// Gives a file bytes from its beginning on, and tells again and again how many of them it has.
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

/// Bytes that are compared at once: few enough to stay in the processor's cache.
const COMPARE_CHUNK_BYTES: usize = 64 * 1024;

/// Bytes that are written at once.
const WRITE_CHUNK_BYTES: usize = 4 * 1024 * 1024;
