//! Puts the old file back after its exchange with the new file.

use std::ffi::OsStr;
use std::io;

use crate::files::system::{Dir, FileId};
use crate::limits::MAX_EXCHANGE_TRIES;

/// Exchanges the temporary file with the file at the final name, which should have the id `put`.
///
/// If the file at the final name has another id, another program has written it since. This file is
/// then put back, so that the last write is preserved.
pub(super) fn exchange_back(
    dir: &Dir,
    temporary: &OsStr,
    name: &OsStr,
    mut put: FileId,
) -> io::Result<()> {
    // Keeps the file at the final name open. The id of an open file is not used again, so the next
    // comparison cannot confuse this file with another one.
    let mut _held;
    for _ in 0..MAX_EXCHANGE_TRIES {
        let kept = dir.entry_id(temporary)?;
        let holding = dir.hold_open(temporary);
        match dir.exchange(temporary, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return dir.rename_to_unused(temporary, name);
            }
            other => other?,
        }
        if dir.entry_id(temporary)? == put {
            return Ok(());
        }
        (put, _held) = (kept, holding);
    }
    Err(io::Error::other("other programs keep replacing the file"))
}
