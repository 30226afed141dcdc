//! Sandboxes on Linux.

mod command;
mod failure;
mod helper;
mod launch;
mod limits;
mod lockdown;
mod mounts;
mod namespaces;
mod order;
mod placeholders;
mod probe;
mod protection;
mod rules;
mod scratch;
mod seccomp;
mod sockets;
mod sys;
mod trees;

pub use self::helper::init_sandbox_helper;
pub use self::launch::{SandboxCommand, SandboxReports, SandboxedChild, SessionNetwork};
pub use self::probe::probe_isolation;
use crate::policy::SandboxPolicy;

/// Removes the placeholders of a policy that no command uses any more.
///
/// The helper removes its placeholders itself. A caller needs this function after the helper was
/// killed, and at the start of a session.
pub fn remove_placeholders(policy: &SandboxPolicy) {
    placeholders::Placeholders::remove_left_over(policy);
}
