//! What others can see of this process's environment: that is as the system has it.

pub(crate) fn hide_variables(_stays: impl Fn(&[u8]) -> bool) -> bool {
    false
}
