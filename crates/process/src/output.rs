//! The output of a command: recorded, shown live and converted to text.

mod binary;
pub(crate) mod channel;
pub mod escapes;
pub mod record;
mod screen;
pub mod text;

pub use self::binary::binary_kind;

/// A piece of a command's output for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputBytesOrGap<'a> {
    /// Bytes that the command wrote.
    Bytes(&'a [u8]),
    /// Number of bytes that are omitted here, because output arrived faster than the display shows
    /// it.
    Omitted(u64),
}

/// Returns the length of `bytes` without an incomplete UTF-8 character at the end.
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
