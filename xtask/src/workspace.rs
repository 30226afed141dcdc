//! Where the workspace lies and what cargo says of its members.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::process::{self, TaskError};

/// The workspace this xtask belongs to.
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// `cargo metadata --no-deps`: the members and what their manifests say.
    pub(crate) metadata: Value,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self, TaskError> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        // Set by `cargo run`, whatever folder the alias was called in.
        if let Some(own) = env::var_os("CARGO_MANIFEST_DIR") {
            command.current_dir(own);
        }
        let text = process::capture(&mut command)?;
        let metadata: Value = serde_json::from_str(&text)
            .map_err(|error| TaskError::Failed(format!("cargo metadata: {error}")))?;
        let path = |key: &str| PathBuf::from(metadata[key].as_str().unwrap_or("."));
        Ok(Self { root: path("workspace_root"), target: path("target_directory"), metadata })
    }

    /// Starts a cargo command line, given as words parted by spaces, in the root.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        let mut command = Command::new(cargo_program());
        command.args(words.split_whitespace()).current_dir(&self.root);
        command
    }
}

/// The cargo that runs us, so that every step uses one toolchain.
fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
