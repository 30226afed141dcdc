//! Hides nothing: on this system, the variables of a process cannot be hidden.

pub(crate) fn hide_from_other_processes(_stays: impl Fn(&[u8]) -> bool) -> bool {
    false
}
