//! Hides nothing: this system has no way to hide variables of a process.

pub(crate) fn hide_variables(_stays: impl Fn(&[u8]) -> bool) -> bool {
    false
}
