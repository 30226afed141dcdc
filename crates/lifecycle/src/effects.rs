//! What a call would do to the world: the only thing that rules and policies look at.

#[cfg(feature = "tokio")]
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use acp_types::ToolKind;
use serde::{Deserialize, Serialize};

/// One thing that a call would do, resolved: no relative path, no alias, no variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// It reads a file, or the names in a folder.
    Read(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// It reads whatever lies beneath a folder.
    Search(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// It makes or changes a file.
    Write(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// It removes a file, or a folder and what lies beneath it.
    Delete(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// It runs a command line in a folder.
    Run {
        /// The command line, exactly as the shell gets it.
        command: String,
        /// Where it runs.
        #[serde(with = "acp_types::path::as_text")]
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

impl Effect {
    /// Returns whether it only reads files or folders.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Search(_))
    }

    /// Returns the file or folder that it does something to, if it names one. That a command runs
    /// in a folder says nothing of what it does there.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Read(path) | Self::Search(path) | Self::Write(path) | Self::Delete(path) => {
                Some(path)
            }
            Self::Run { .. } | Self::Connect(_) | Self::Mcp { .. } | Self::Unknown => None,
        }
    }
}

/// Everything that a call would do, and which tool would. Nothing at all is a call that only
/// thinks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    effects: Vec<Effect>,
    tool: Option<(String, ToolKind)>,
    is_always_asked: bool,
    is_sensitive: bool,
    /// Those of the paths that lie in no root.
    outside_paths: Vec<PathBuf>,
}

impl Effects {
    /// Makes the effects of a call that does nothing to the world.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Says which tool would do it, and of which kind the tool is. [`Session::permit`] takes both
    /// from the call itself.
    ///
    /// [`Session::permit`]: crate::Session::permit
    #[must_use]
    pub fn for_tool(self, tool: impl Into<String>, kind: ToolKind) -> Self {
        Self { tool: Some((tool.into(), kind)), ..self }
    }

    /// Says that they are to be asked about each time, whatever is allowed: no rule and no policy
    /// allows them, and no answer is remembered.
    #[must_use]
    pub fn always_ask(self) -> Self {
        Self { is_always_asked: true, ..self }
    }

    /// Returns whether they are to be asked about each time.
    #[must_use]
    pub fn is_always_asked(&self) -> bool {
        self.is_always_asked
    }

    /// Says that they change more than text: a file that is run, or what a file holds that the session
    /// has not read. They are judged by [`Policy::judge_sensitive`].
    ///
    /// [`Policy::judge_sensitive`]: crate::Policy::judge_sensitive
    #[must_use]
    pub fn sensitive(self) -> Self {
        Self { is_sensitive: true, ..self }
    }

    /// Returns whether they change more than text.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.is_sensitive
    }

    /// Says which files and folders lie outside of the session's roots. What is done to them is
    /// judged by [`Policy::judge_outside`], and only a rule that names them allows it.
    ///
    /// [`Policy::judge_outside`]: crate::Policy::judge_outside
    #[must_use]
    pub fn with_outside_paths(mut self, is_outside: impl Fn(&Path) -> bool) -> Self {
        let paths = self.effects.iter().filter_map(Effect::path);
        self.outside_paths = paths.filter(|path| is_outside(path)).map(Path::to_owned).collect();
        self
    }

    /// Returns whether an effect is on something outside of the session's roots.
    #[must_use]
    pub fn is_outside(&self, effect: &Effect) -> bool {
        effect.path().is_some_and(|path| self.outside_paths.iter().any(|outside| outside == path))
    }

    /// Returns the files and folders that lie outside of the session's roots.
    pub fn outside_paths(&self) -> impl Iterator<Item = &Path> {
        self.outside_paths.iter().map(PathBuf::as_path)
    }

    /// Returns each effect.
    pub fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter()
    }

    /// Returns whether they are the same to the byte. Equal paths may be spelt in several ways, which
    /// may lead to several places.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_identical(&self, other: &Self) -> bool {
        self == other && self.exact_paths().eq(other.exact_paths())
    }

    #[cfg(feature = "tokio")]
    fn exact_paths(&self) -> impl Iterator<Item = &OsStr> {
        let paths = self.effects.iter().filter_map(|effect| match effect {
            Effect::Run { cwd, .. } => Some(cwd.as_path()),
            effect => effect.path(),
        });
        paths.chain(self.outside_paths()).map(Path::as_os_str)
    }

    /// Returns the same effects in an order of their own.
    #[cfg(feature = "tokio")]
    pub(crate) fn sorted(&self) -> Self {
        let mut sorted = self.clone();
        sorted.effects.sort_unstable();
        sorted.outside_paths.sort_unstable();
        sorted
    }

    /// Returns what looking at the files that they name would do, judged as strictly: reading each of
    /// them. Where something is unknown, so is that.
    #[cfg(feature = "tokio")]
    pub(crate) fn preview_reads(&self) -> Self {
        let look = |effect: &Effect| match effect {
            Effect::Read(_) | Effect::Search(_) | Effect::Unknown => Some(effect.clone()),
            Effect::Write(path) => Some(Effect::Read(path.clone())),
            // With all that lies beneath.
            Effect::Delete(path) => Some(Effect::Search(path.clone())),
            Effect::Run { .. } | Effect::Connect(_) | Effect::Mcp { .. } => None,
        };
        let effects: Vec<_> = self.effects.iter().filter_map(look).collect();
        // Where there is nothing to look at, nothing is to be asked.
        if effects.is_empty() { Self::empty() } else { Self { effects, ..self.clone() } }
    }

    /// Returns the tool's name, if it is known.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_ref().map(|(name, _)| name.as_str())
    }

    /// Returns the tool's kind, if it is known.
    #[must_use]
    pub fn kind(&self) -> Option<ToolKind> {
        self.tool.as_ref().map(|(_, kind)| *kind)
    }
}

impl FromIterator<Effect> for Effects {
    fn from_iter<I: IntoIterator<Item = Effect>>(effects: I) -> Self {
        Self { effects: effects.into_iter().collect(), ..Self::default() }
    }
}

impl From<Effect> for Effects {
    fn from(effect: Effect) -> Self {
        Self { effects: vec![effect], ..Self::default() }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use pretty_assertions::assert_eq;

    use super::Effect;

    #[test]
    fn effects_on_paths_of_any_bytes_can_be_stored() {
        let path = || PathBuf::from(OsStr::from_bytes(b"/p/a\xff\n"));
        for effect in [
            Effect::Read(path()),
            Effect::Search(path()),
            Effect::Write(path()),
            Effect::Delete(path()),
            Effect::Run { command: "true".to_owned(), cwd: path() },
        ] {
            let text = serde_json::to_string(&effect).unwrap();
            assert_eq!(serde_json::from_str::<Effect>(&text).unwrap(), effect, "{text}");
        }
    }
}
