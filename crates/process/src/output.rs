//! What a command writes: kept, shown and made text of. It knows nothing of processes.

mod binary;
pub(crate) mod channel;
pub mod escapes;
pub mod record;
mod screen;
pub mod text;

pub use self::binary::binary_kind;

/// A piece of what a command wrote, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPiece<'a> {
    /// What it wrote.
    Bytes(&'a [u8]),
    /// In the place of so many bytes, which came faster than they are shown.
    Omitted(u64),
}

/// The length of `bytes` without the beginning of a character that is cut off at their end.
fn complete_utf8_len(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| !is_continuation(*byte)).unwrap_or(0);
    match str::from_utf8(&bytes[last..]) {
        Err(error) if error.error_len().is_none() => last,
        Ok(_) | Err(_) => bytes.len(),
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}
