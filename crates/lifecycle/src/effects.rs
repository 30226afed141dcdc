//! What a call would do to the world: the only thing that rules and policies look at.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One thing that a call would do, resolved: no relative path, no alias, no variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// It reads a file or a folder.
    Read(PathBuf),
    /// It makes or changes a file.
    Write(PathBuf),
    /// It removes a file or a folder.
    Delete(PathBuf),
    /// It runs a command line in a folder.
    Run {
        /// The command line, exactly as the shell gets it.
        command: String,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// It connects to a host.
    Connect(String),
    /// It calls a tool of an MCP server.
    Mcp {
        /// The server's name.
        server: String,
        /// The tool's name there.
        tool: String,
    },
    /// It does something that nothing is known of.
    Unknown,
}

/// Everything that a call would do. Nothing at all is a call that only thinks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Makes the effects of a call that does nothing to the world.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns each effect.
    pub fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.0.iter()
    }
}

impl FromIterator<Effect> for Effects {
    fn from_iter<I: IntoIterator<Item = Effect>>(effects: I) -> Self {
        Self(effects.into_iter().collect())
    }
}

impl From<Effect> for Effects {
    fn from(effect: Effect) -> Self {
        Self(vec![effect])
    }
}
