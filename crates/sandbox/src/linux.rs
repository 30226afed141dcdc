//! Sandboxes on Linux.

mod helper;
mod launch;
mod lockdown;
mod mounts;
mod namespaces;
mod placeholders;
mod probe;
mod rules;
mod seccomp;
mod sockets;
mod sys;

pub use self::helper::init_sandbox_helper;
pub use self::launch::{
    CommandSession, SandboxCommand, SandboxEnd, SandboxReports, SandboxedChild,
};
pub use self::probe::probe_isolation;
use crate::policy::SandboxPolicy;

/// Removes the placeholders of a policy that no command uses any more.
///
/// The helper removes its placeholders itself. A caller needs this function after the helper was
/// killed, and at the start of a session.
pub fn remove_placeholders(policy: &SandboxPolicy) {
    placeholders::Placeholders::remove_left_over(policy);
}
