//! Sandboxes on Linux.

mod command;
mod helper;
mod launch;
mod layer;
mod limits;
mod lockdown;
mod mount_plan;
mod mount_table;
mod mounts;
mod namespaces;
mod order;
mod overlay;
mod path_walk;
mod placeholders;
mod probe;
mod protection;
mod remembered;
mod resolver;
mod rules;
mod scratch;
mod seccomp;
mod sockets;
mod sys;
mod trees;

use std::io;
use std::path::Path;

pub use self::helper::run_if_sandbox_helper;
pub use self::launch::{
    NetworkHandle, SandboxCommand, SandboxReports, SandboxedChild, SessionNetwork,
};
pub use self::layer::read_layer;
pub use self::placeholders::{is_placeholder_at, remove_unused_placeholders};
pub use self::probe::{probe_isolation, probe_isolation_with_memory, probe_preview};
use crate::error::{SetupFailure, SetupStep};

impl SetupFailure {
    fn new(step: SetupStep, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self { step, path: None, errno: error.raw_os_error(), reason: error.to_string() }
    }

    fn at(step: SetupStep, path: &Path, error: impl Into<io::Error>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(step, error) }
    }
}

/// Adds the step of the set-up, and the path, to an error.
trait StepResult<T> {
    fn step(self, step: SetupStep) -> Result<T, SetupFailure>;
    fn step_at(self, step: SetupStep, path: &Path) -> Result<T, SetupFailure>;
}

impl<T, E: Into<io::Error>> StepResult<T> for Result<T, E> {
    fn step(self, step: SetupStep) -> Result<T, SetupFailure> {
        self.map_err(|error| SetupFailure::new(step, error))
    }

    fn step_at(self, step: SetupStep, path: &Path) -> Result<T, SetupFailure> {
        self.map_err(|error| SetupFailure::at(step, path, error))
    }
}
