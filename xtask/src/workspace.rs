//! The location of the workspace, and cargo's metadata about its members.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::process::{self, TaskError};

/// The cargo workspace that contains this xtask.
pub(crate) struct Workspace {
    /// The folder that contains the root manifest.
    pub(crate) root: PathBuf,
    /// The folder to which cargo writes builds.
    pub(crate) target: PathBuf,
    /// Output of `cargo metadata --no-deps`, which contains the workspace members and their
    /// manifests.
    pub(crate) metadata: Value,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self, TaskError> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        // `cargo run` sets this variable to the folder of xtask, in whichever folder it is called.
        if let Some(own) = env::var_os("CARGO_MANIFEST_DIR") {
            command.current_dir(own);
        }
        let text = process::capture_stdout(&mut command)?;
        let metadata: Value = serde_json::from_str(&text)
            .map_err(|error| TaskError::Failed(format!("cargo metadata: {error}")))?;
        let path = |key: &str| PathBuf::from(metadata[key].as_str().unwrap_or("."));
        Ok(Self { root: path("workspace_root"), target: path("target_directory"), metadata })
    }

    /// Returns a cargo command that runs in the root folder. `words` are its arguments, separated
    /// by spaces.
    pub(crate) fn cargo_command(&self, words: &str) -> Command {
        let mut command = Command::new(cargo_program());
        command.args(words.split_whitespace()).current_dir(&self.root);
        command
    }
}

/// Returns the path of the cargo program that started xtask, so that all steps use the same
/// toolchain.
fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
