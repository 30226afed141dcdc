//! Without `/proc`, waiting for input cannot be detected.

use std::path::Path;

use rustix::process::Pid;

pub(super) fn waits_for_input(_leader: Pid, _terminal: &Path) -> bool {
    false
}
