//! Hides nothing: on this system, the variables of a process cannot be hidden.

pub(crate) fn hide_variables(_stays: impl Fn(&[u8]) -> bool) -> bool {
    false
}
