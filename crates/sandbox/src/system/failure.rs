//! Adds the step of the set-up to errors of the system.

use std::io;
use std::path::Path;

use crate::error::{SetupFailure, SetupStep};

impl SetupFailure {
    pub(super) fn new(step: SetupStep, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self { step, path: None, errno: error.raw_os_error(), reason: error.to_string() }
    }

    pub(super) fn at(step: SetupStep, path: &Path, error: impl Into<io::Error>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(step, error) }
    }
}

/// Adds the step of the set-up, and the path, to an error.
pub(super) trait StepResult<T> {
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
