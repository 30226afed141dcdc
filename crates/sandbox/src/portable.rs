//! Systems without sandboxes.

use crate::isolation::{Isolation, IsolationProbe};
use crate::policy::SandboxPolicy;

/// Does nothing on this system.
pub fn init_sandbox_helper() {}

/// Returns [`Isolation::None`] on this system.
pub fn probe_isolation() -> &'static IsolationProbe {
    static NONE: IsolationProbe =
        IsolationProbe { isolation: Isolation::None, refusals: Vec::new(), landlock_abi: 0 };
    &NONE
}

/// Does nothing on this system.
pub fn remove_placeholders(_policy: &SandboxPolicy) {}
